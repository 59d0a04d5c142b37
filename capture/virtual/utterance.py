"""What the virtual room can say: speech/index.json; speech/README.md has voices and licence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from scipy.signal import resample_poly

FOLDER = Path(__file__).parent / "speech"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One sentence: `key` names what is said, `voice` who says it, `kind` is "request" or "talk"."""

    file: str
    key: str
    text: str
    voice: str
    kind: str


@lru_cache(maxsize=1)
def utterances() -> tuple[Utterance, ...]:
    """All sentences of the index, in its order."""
    return tuple(Utterance(**entry) for entry in json.loads((FOLDER / "index.json").read_text("utf-8")))


def speech(utterance: Utterance) -> NDArray[np.float64]:
    """The sentence at 48 kHz, (frames,) float64, RMS 1 over its active part (see `active_rms`)."""
    data, rate = soundfile.read(FOLDER / utterance.file, dtype="float64")
    mono = np.asarray(resample_poly(data, 48000 // rate, 1) if rate != 48000 else data)
    return np.asarray(mono / active_rms(mono))


def active_rms(mono: NDArray[np.floating], rate_hz: int = 48000) -> float:
    """RMS of the 20 ms pieces that are within 25 dB of the loudest one."""
    hop = rate_hz // 50
    power = np.mean(mono[: len(mono) // hop * hop].reshape(-1, hop).astype(float) ** 2, axis=1)
    return float(np.sqrt(power[power > power.max() * 10**-2.5].mean()))


def envelope(mono: NDArray[np.floating], rate_hz: int = 48000, step_s: float = 0.02) -> NDArray[np.float64]:
    """How far a mouth would open, 0 to 1, once per `step_s`: the level over 20 ms, compressed."""
    hop = round(step_s * rate_hz)
    frames = len(mono) // hop
    level = np.sqrt(np.mean(mono[: frames * hop].reshape(frames, hop).astype(float) ** 2, axis=1))
    return np.asarray(np.clip(level / (1.4 * active_rms(mono, rate_hz)), 0, 1) ** 0.7)
