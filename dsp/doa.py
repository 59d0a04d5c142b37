"""Direction of arrival from first-order ambisonics: per 100 ms, streaming or offline, and per clip.

Method: each cell of a short-time spectrum votes for the direction of its intensity, by how much it looks like
direct sound (`dsp.votes`). The votes form a histogram on the sphere whose smoothed peak is refined off the
grid (`dsp.histogram`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dsp import histogram
from dsp.arguments import sample_rate
from dsp.foa_rows import RowBuffer, checked_foa, clip_rows, level_dbfs
from dsp.votes import VoteCounter

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

MEMORY_PER_ROW = 0.5  # what is left of older votes after 100 ms
KERNEL_EDGE_DEG = 90.0  # narrower kernels: 0.5 to 1 degree worse at 0 dB, no better at 20 dB
ACTIVE_CONFIDENCE = 0.15
# log(uncertainty) = c0 + c1 log(scatter in degrees) + c2 log(effective votes) + c3 log(share near the peak):
# bench/doa_uncertainty.py.
CLIP_FIT = (-0.879, 1.107, -0.273, -0.761)
ROW_FIT = (0.021, 1.052, -0.470, -0.763)
FLOOR_DEG = 0.4  # what spaced capsules (r = 15 mm) bend an ideal wave
SILENCE_DBFS = -110.0
# Share of a uniform sphere that lies within 30 degrees of any direction.
_UNIFORM_SHARE = 0.0669873


@dataclass(frozen=True, slots=True)
class DoaFrame:
    """Direction during one 100 ms window that starts `t_s` after the first sample pushed.

    Angles and `uncertainty_deg` are NaN when nothing can be said (silence). `confidence` is 0..1: how much
    more the votes agree than those of a diffuse field would. `uncertainty_deg`: 68 % of the errors are
    expected within it. `active`: there is direct sound in this window.
    """

    t_s: float
    azimuth_deg: float
    elevation_deg: float
    confidence: float
    uncertainty_deg: float
    level_dbfs: float
    active: bool


@dataclass(frozen=True)
class Doa:
    """The same as `DoaFrame`, as arrays with one entry per 100 ms."""

    times_s: F64
    azimuth_deg: F64
    elevation_deg: F64
    confidence: F64
    uncertainty_deg: F64
    level_dbfs: F64
    active: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, frames: Sequence[DoaFrame]) -> Doa:
        """From frames in the order of time."""

        def column(name: str) -> F64:
            return np.array([getattr(f, name) for f in frames])

        return cls(
            column("t_s"),
            column("azimuth_deg"),
            column("elevation_deg"),
            column("confidence"),
            column("uncertainty_deg"),
            column("level_dbfs"),
            column("active").astype(bool),
        )


@dataclass(frozen=True, slots=True)
class DirectionEstimate:
    """One direction for a whole clip; fields as in `DoaFrame`. NaN angles and confidence 0: none found."""

    azimuth_deg: float
    elevation_deg: float
    confidence: float
    uncertainty_deg: float


def _find_peak(cells: F32, out: F64) -> bool:
    """The peak of the votes under a kernel that falls to zero at KERNEL_EDGE_DEG."""
    edge = float(np.cos(np.radians(KERNEL_EDGE_DEG)))
    return bool(histogram.find_peak(cells, edge, edge, out))


def _confidence(share: float, votes: float) -> float:
    """0 for a share of the votes near the peak that a diffuse field could give, 1 when all votes are there.

    The peak of isotropic noise exceeds the uniform share by 5 standard deviations in 1 of 100 windows.
    """
    null = _UNIFORM_SHARE + 5.0 * np.sqrt(_UNIFORM_SHARE / max(votes, 1.0))
    return float(np.clip((share - null) / max(1.0 - null, 1e-3), 0.0, 1.0)) if null < 1 else 0.0


def _traits(peak: F64) -> tuple[float, float, float]:
    """What the uncertainty depends on: logs of the scatter of the votes under the kernel in degrees, of their
    effective number, and of the share near the peak."""
    scatter = np.degrees(np.sqrt(max(peak[4], 0.0))) + 0.3
    return float(np.log(scatter)), float(np.log(max(peak[6], 1.0))), float(np.log(max(peak[3], 0.01)))


def _uncertainty_deg(peak: F64, confidence: float, fit: tuple[float, float, float, float]) -> float:
    """Expected error in degrees (68 %); 90 degrees when the confidence is 0."""
    log_u = fit[0] + float(np.dot(fit[1:], _traits(peak)))
    known = np.hypot(np.exp(log_u), FLOOR_DEG)
    unknown = 90.0 * (1.0 - min(1.0, confidence / 0.05))
    return float(min(90.0, np.hypot(known, unknown)))


def _angles(peak: F64) -> tuple[float, float]:
    azimuth = float(np.degrees(np.arctan2(peak[1], peak[0])))
    if azimuth >= 180.0:
        azimuth -= 360.0
    elevation = float(np.degrees(np.arcsin(np.clip(peak[2], -1.0, 1.0))))
    return azimuth, elevation


class DoaEstimator:
    """Streaming direction of arrival; the result does not depend on how the samples are cut into blocks.

    Push AmbiX blocks (n, 4) of any length; each completed 100 ms window gives one `DoaFrame`, with no delay
    beyond the window's end. Votes of earlier windows fade by half per window. Raises InputError for a wrong
    shape, integer samples, or samples that are not finite or far beyond full scale.
    """

    def __init__(self, fs: int = 24000) -> None:
        self.fs = sample_rate(fs, 8000, 192_000)
        self._votes = VoteCounter(self.fs)
        self._buffer = RowBuffer(self._votes.plan.row)
        self._cells = histogram.empty()
        self._own = histogram.empty()
        self._peak = np.zeros(8)
        # The last column holds squared weights.
        self._fade = np.array([MEMORY_PER_ROW] * 4 + [MEMORY_PER_ROW**2], np.float32)

    def push(self, block: npt.ArrayLike) -> list[DoaFrame]:
        """block: (n, 4) float. Returns the windows that this block completes."""
        return [self._finish_row() for _ in self._buffer.push(checked_foa(block))]

    def flush(self) -> list[DoaFrame]:
        """The last window, when samples are left that do not fill one. The estimator can go on afterwards.

        With less than a third of a window (or less than one spectrum needs) it says nothing: inactive, NaN.
        """
        return [self._finish_row()] if self._buffer.filled else []

    def _finish_row(self) -> DoaFrame:
        number, row, filled = self._buffer.take()
        level = level_dbfs(row[:filled, 0])
        t_s = number * len(row) / self.fs
        enough = self._votes.enough(filled)
        self._own[:] = 0.0
        self._votes.add_row(row, self._own)
        self._cells *= self._fade
        if enough:  # else the votes are mostly the edge where the padding begins
            self._cells += self._own
        peak = self._peak
        if not enough or level < SILENCE_DBFS or not _find_peak(self._cells, peak):
            return DoaFrame(t_s, np.nan, np.nan, 0.0, np.nan, level, False)
        confidence = _confidence(peak[3], peak[5])
        own_share = histogram.share_near(self._own, peak[0], peak[1], peak[2])
        azimuth, elevation = _angles(peak)
        active = confidence >= ACTIVE_CONFIDENCE and bool(own_share > 2.5 * _UNIFORM_SHARE)
        return DoaFrame(
            t_s,
            azimuth,
            elevation,
            confidence,
            _uncertainty_deg(peak, confidence, ROW_FIT),
            level,
            active,
        )


def estimate_doa(foa: npt.ArrayLike, fs: int) -> Doa:
    """Direction of arrival of a whole clip, one row per 100 ms (the last one may be shorter).

    foa: AmbiX (frames, 4) float, at 8 to 192 kHz. Equal to `DoaEstimator` fed with the same samples.
    Raises InputError for a wrong shape, integer samples, or samples that are not finite or far beyond full
    scale.
    """
    estimator = DoaEstimator(fs)
    frames = estimator.push(foa)
    frames += estimator.flush()
    return Doa.of(frames)


def steady_direction(foa: npt.ArrayLike, fs: int) -> DirectionEstimate:
    """The one direction that explains a whole clip best: a talker's sentence or a device's steady sound.

    foa: AmbiX (frames, 4) float. All votes of the clip count alike; a clip of less than a third of a 100 ms
    window has no direction. Raises InputError as `estimate_doa`.
    """
    x = checked_foa(foa)
    votes = VoteCounter(sample_rate(fs, 8000, 192_000))
    cells = histogram.empty()
    for row in clip_rows(x, votes.plan.row):
        votes.add_row(row, cells)
    peak = np.zeros(8)
    power = float(np.mean(np.square(x[:, 0], dtype=np.float64))) if len(x) else 0.0
    silent = power < 10 ** (SILENCE_DBFS / 10)
    if silent or not votes.enough(len(x)) or not _find_peak(cells, peak):
        return DirectionEstimate(np.nan, np.nan, 0.0, np.nan)
    azimuth, elevation = _angles(peak)
    confidence = _confidence(peak[3], peak[5])
    return DirectionEstimate(
        azimuth,
        elevation,
        confidence,
        _uncertainty_deg(peak, confidence, CLIP_FIT),
    )


def warm() -> None:
    """Compile (or load from the cache) every kernel, so that the first real block is not late."""
    noise = np.random.default_rng(0).standard_normal((2400, 4)).astype(np.float32)
    estimate_doa(noise, 24000)
