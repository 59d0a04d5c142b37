"""Peak and RMS levels, clipped frames, dead channels; fast enough for each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.arguments import as_array
from dsp.errors import InputError

FLOOR_DBFS = -200.0
"""What a level of zero reads: finite, so that it can be written as JSON."""

CLIP_LEVEL = 32766.5 / 32768.0
"""At or above this a sample counts as clipped: the last code of 16 bit and everything over it."""

DEAD_DBFS = -120.0
"""A channel whose alternating part stays below this carries nothing: 24-bit noise of a real microphone is
above.
"""


def to_dbfs(amplitude: ArrayLike) -> Any:
    """20 log10 of an amplitude relative to full scale (1.0), not below FLOOR_DBFS."""
    return 20.0 * np.log10(np.maximum(np.asarray(amplitude, dtype=np.float64), 10 ** (FLOOR_DBFS / 20)))


@dataclass(frozen=True, slots=True)
class Levels:
    """Per channel. dBFS: 0 dB is an amplitude of 1.0, so a full-scale sine has a peak of 0 and an RMS of
    -3.01.

    clipped_frames: samples at or over CLIP_LEVEL. dead: the alternating part (RMS without the mean) is below
    DEAD_DBFS. nonfinite: NaN or infinite samples; they are left out of the levels.
    """

    peak_dbfs: NDArray[np.float64]
    rms_dbfs: NDArray[np.float64]
    clipped_frames: NDArray[np.int64]
    dead: NDArray[np.bool_]
    dc: NDArray[np.float64]
    nonfinite: NDArray[np.int64]

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, ready for JSON."""
        return {
            "peak_dbfs": [round(float(v), 2) for v in self.peak_dbfs],
            "rms_dbfs": [round(float(v), 2) for v in self.rms_dbfs],
            "clipped_frames": [int(v) for v in self.clipped_frames],
            "dead": [bool(v) for v in self.dead],
            "dc": [round(float(v), 7) for v in self.dc],
            "nonfinite": [int(v) for v in self.nonfinite],
        }


def levels(x: ArrayLike) -> Levels:
    """Levels of a block (frames, channels) or (frames,), float with full scale +-1.

    Raises InputError for an empty block, integers or another shape.
    """
    a = as_array(x)
    if a.ndim == 1:
        a = a[:, None]
    if a.ndim != 2 or a.shape[0] == 0 or a.shape[1] == 0:
        raise InputError(f"levels need (frames, channels) with at least one frame, got shape {a.shape}")
    if a.dtype.kind != "f":
        raise InputError(f"levels need float samples with full scale +-1, got {a.dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        nonfinite = np.zeros(a.shape[1], np.int64)
        mean = a.mean(axis=0, dtype=np.float64)
        if not np.isfinite(mean).all():
            bad = ~np.isfinite(a)
            nonfinite = bad.sum(axis=0)
            a = np.where(bad, a.dtype.type(0), a)
            mean = a.mean(axis=0, dtype=np.float64)
    magnitude = np.abs(a)
    peak = magnitude.max(axis=0)
    clipped = (
        (magnitude >= CLIP_LEVEL).sum(axis=0) if peak.max() >= CLIP_LEVEL else np.zeros(a.shape[1], np.int64)
    )
    power = np.einsum("ij,ij->j", a, a, dtype=np.float64) / len(a)
    alternating = np.sqrt(np.maximum(power - mean**2, 0.0))
    return Levels(
        peak_dbfs=to_dbfs(peak),
        rms_dbfs=to_dbfs(np.sqrt(power)),
        clipped_frames=np.asarray(clipped, np.int64),
        dead=to_dbfs(alternating) < DEAD_DBFS,
        dc=mean,
        nonfinite=np.asarray(nonfinite, np.int64),
    )
