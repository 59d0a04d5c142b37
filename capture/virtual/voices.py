"""Any text, spoken by one of five voices of espeak-ng, or by a natural one where those are installed.

espeak-ng is a program of its own (GPL-3; Debian package `espeak-ng`), started for each new sentence; its
formant synthesis gives the same samples for the same text. A sentence is kept in the process. The natural
voices (natural_1 to natural_5) are those of `capture.virtual.natural_voices`.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, resample_poly, sosfilt

from capture.virtual.natural_voices import NATURAL, NaturalVoice, natural_speech
from capture.virtual.utterance import active_rms
from dsp.errors import DeviceError, InputError

PROGRAM = "espeak-ng"
ESPEAK_RATE_HZ = 22050
SILENCE_S = 0.05  # left before and after the sentence
MOST_CHARACTERS = 600
PATIENCE_S = 30.0
# Consonants of formant synthesis are weak and run together. With a pause of 20 ms between words and twice the
# level above 2 kHz a recogniser understands more of it.
WORD_GAP = "2"  # units of 10 ms
BRIGHT_HZ = 2000


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice: espeak-ng's name (language+variant), pitch 0 to 99, speed in words a minute."""

    name: str
    espeak: str
    pitch: int
    words_per_minute: int


VOICES: dict[str, Voice] = {
    voice.name: voice
    for voice in (
        Voice("voice_1", "en-us", 38, 125),
        Voice("voice_2", "en-us+f2", 58, 125),
        Voice("voice_3", "en-gb+m3", 22, 130),
        Voice("voice_4", "en-gb+f4", 72, 125),
        Voice("voice_5", "en-us+m7", 62, 125),
    )
}


def voice_named(name: str | None, number: int = 0) -> Voice | NaturalVoice:
    """The voice of this name; without a name the one with this number (from 0, round again after five).

    Raises InputError for a name that is none of VOICES and NATURAL.
    """
    if name is None:
        return list(VOICES.values())[number % len(VOICES)]
    if name in NATURAL:
        return NATURAL[name]
    if name not in VOICES:
        known = ", ".join((*VOICES, *NATURAL))
        raise InputError(f"the virtual room has no voice {name!r}; its voices are {known}")
    return VOICES[name]


@lru_cache(maxsize=16)  # about a megabyte each; a session speaks hundreds of sentences
def speak(text: str, voice: Voice | NaturalVoice) -> NDArray[np.float64]:
    """The sentence at 48 kHz, (frames,) float64, RMS 1 over its active part; not to be written to.

    Raises DeviceError when the voice's program is absent or fails, InputError for a text without a sound.
    """
    words = text.strip()
    if not words or len(words) > MOST_CHARACTERS:
        raise InputError(f"a request to be spoken has 1 to {MOST_CHARACTERS} characters, not {len(words)}")
    if isinstance(voice, NaturalVoice):
        mono = _trimmed(natural_speech(words, voice), 48000, text, voice.name)
    else:
        raw = _synthesise(words.replace("[[", "[ ["), voice)  # double brackets would be phonemes
        mono = resample_poly(_trimmed(raw, ESPEAK_RATE_HZ, text, PROGRAM), 320, 147)
        mono = mono + sosfilt(butter(1, BRIGHT_HZ, "highpass", fs=48000, output="sos"), mono)
    mono /= active_rms(mono)
    mono.setflags(write=False)
    return np.asarray(mono)


def _trimmed(samples: NDArray[np.float64], rate_hz: int, text: str, who: str) -> NDArray[np.float64]:
    """With `SILENCE_S` before and after the sentence."""
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max(initial=0.0))
    if len(loud) < rate_hz // 50:
        raise InputError(f"{who} finds nothing to say in {text!r}")
    return np.pad(samples[loud[0] : loud[-1] + 1], round(SILENCE_S * rate_hz))


def _synthesise(text: str, voice: Voice) -> NDArray[np.float64]:
    """What espeak-ng says, (frames,) at 22.05 kHz, full scale 1."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise DeviceError(
            f"{PROGRAM} is not installed; it speaks the requests of the virtual room."
            f" Install the Debian package: sudo apt-get install {PROGRAM}"
        )
    command = [program, "-v", voice.espeak, "-p", str(voice.pitch), "-s", str(voice.words_per_minute)]
    try:
        done = subprocess.run(
            [*command, "-g", WORD_GAP, "-b", "1", "--stdin", "--stdout"],
            input=text.encode(),
            capture_output=True,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{PROGRAM} does not work: {error}") from None
    start = done.stdout.find(b"data")  # the sizes in its header are not those of the data on a pipe
    if done.returncode or not done.stdout.startswith(b"RIFF") or start < 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise DeviceError(f"{PROGRAM} gave no sound with the voice {voice.espeak}: {said}")
    data = done.stdout[start + 8 :]
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float64) / 32768
