"""Is one of the four channels late or early against the others?

Where a sound starts, few waves arrive at once, and each is in all channels at the same time: within a window
of some ms a channel is then, up to what more waves add, a sum of the other three without any delay. For each
channel c and lag d, the windows at the sharpest starts give the share rho^2 of c, taken d frames later, that
the other three explain (one real weight per channel for all bins). The mean of -log(1 - rho^2) is highest at
the true lag: the multichannel cross-correlation of Chen, Benesty and Huang (IEEE Trans. SAP 11, 2003) with
one channel moved. It asks for no direction, scale or order of the channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.field_statistics import FS

Floats = NDArray[np.floating[Any]]
_SIZE, _HOP, _RISE_FRAMES = 128, 32, 256
_MOST_LAG = 54
_REPORT_LAG = 50
_MOST_STARTS = 700
_ROWS = 32  # of a product: so few that BLAS starts no threads, which cost more than they give
_BAND_HZ = (200, 6000)
_PARTS = 6  # with as many starts in each
# Mean over the parts of sign(g) log(1 + |g|), g how far the curve stands above lag 0 in scatters of itself.
# No healthy tuning room (75, one to three places of sound) was above 0.5.
_GAIN = 0.55
_LEAST_FRAMES = 2  # less is within what spaced capsules do


@dataclass(frozen=True)
class Shift:
    """channel: index into the given channels; frames at 24 kHz, positive when late; gain: how much better the
    starts of all parts agree at that lag than at none, see _GAIN."""

    channel: int
    frames: int
    gain: float


def shifted_channel(x: Floats, capsules: bool = False) -> Shift | None:
    """The shifted one of (frames, 4) channels at 24 kHz, or None. capsules: they are capsule signals, which
    are up to 2 frames apart by right."""
    best = best_shift(x, _LEAST_FRAMES + 2 * capsules)
    return None if best is None or best.gain < _GAIN else best


def best_shift(x: Floats, least_frames: int = _LEAST_FRAMES) -> Shift | None:
    """The shift that fits the starts best, however little better than none; None with too few starts (24)."""
    from scipy.signal import butter, sosfilt

    y = sosfilt(butter(2, _BAND_HZ, "bandpass", fs=FS, output="sos"), x, axis=0)
    starts = _starts(y)
    if len(starts) < 4 * _PARTS:
        return None
    return _best_shift(_Agreement(y, starts), least_frames)


def _best_shift(agreement: Callable[[int], Floats], least_frames: int) -> Shift:
    """The lag and channel that stand out most over lag 0 in all parts."""
    lags = np.arange(-_REPORT_LAG - 1, _REPORT_LAG + 2)
    curves = np.stack([agreement(int(lag)) for lag in lags])  # (lags, parts, channels)
    raw = curves.mean(axis=1)
    curves[1:-1] = 0.25 * curves[:-2] + 0.5 * curves[1:-1] + 0.25 * curves[2:]
    around = curves[np.abs(lags) > 5]
    scatter = 1.4826 * np.median(np.abs(around - np.median(around, axis=0)), axis=0) + 1e-9
    better = (curves - curves[np.abs(lags) <= 1].max(axis=0)) / scatter
    gain = np.mean(np.sign(better) * np.log1p(np.abs(better)), axis=1)
    gain[(np.abs(lags) < least_frames) | (np.abs(lags) > _REPORT_LAG)] = -np.inf
    at, channel = np.unravel_index(int(np.argmax(gain)), gain.shape)
    # Logarithms flatten the top; the curve itself has it sharp.
    near = (np.abs(lags - lags[at]) <= 3) & np.isfinite(gain[:, channel])
    frames = lags[near][np.argmax(raw[near, channel])]
    return Shift(int(channel), int(frames), float(gain[at, channel]))


class _Agreement:
    """For a lag: (_PARTS, 4) mean of -log(1 - rho^2) of each channel, taken so much later, over the starts of
    each part.

    Starts at which the other three channels agree among themselves, as for one wave, count more: by the
    square of the same measure of the first of them, given the other two.
    """

    def __init__(self, y: Floats, starts: NDArray[np.int64]) -> None:
        from scipy.ndimage import uniform_filter1d

        columns = np.ascontiguousarray(y.T, dtype=np.float32)
        reach = _SIZE + 2 * _MOST_LAG + 2
        pieces = np.lib.stride_tricks.sliding_window_view(columns, reach, axis=1)
        self._pieces = np.ascontiguousarray(pieces[:, starts - _MOST_LAG - 1].transpose(1, 0, 2))
        # The few bins of the band, real parts then imaginary, as one product: faster than an FFT with all.
        f = np.fft.rfftfreq(_SIZE, 1 / FS)
        band = f[(f >= _BAND_HZ[0]) & (f <= _BAND_HZ[1])]
        phase = 2 * np.pi / FS * np.arange(_SIZE)[:, None] * band
        window = np.hanning(_SIZE + 2)[1:-1, None]
        self._transform = (window * np.hstack([np.cos(phase), -np.sin(phase)])).astype(np.float32)
        bins = len(band)
        still = self._spectra(0)
        power = np.sum(still[:, :, :bins] ** 2 + still[:, :, bins:] ** 2, axis=1)
        white = 1 / (uniform_filter1d(power, 3, axis=1) + 1e-2 * power.mean(axis=1, keepdims=True) + 1e-30)
        white /= np.sum(white * power, axis=1, keepdims=True) + 1e-30
        self._white = np.concatenate([white, white], axis=1)[:, :, None]
        self._weighted = (still * self._white.transpose(0, 2, 1)).transpose(0, 2, 1)
        between = np.matmul(still, self._weighted)  # trace 1
        self._rest = np.array([[j for j in range(4) if j != c] for c in range(4)])
        rest = [between[:, o][:, :, o] for o in self._rest]
        self._inverse = np.stack([np.linalg.inv(part + 5e-4 * np.eye(3)) for part in rest], axis=1)
        self._weights = np.stack([_oneness(part) ** 2 + 1e-6 for part in rest], axis=1)
        self._parts = np.cumsum([0, *(len(part) for part in np.array_split(starts, _PARTS)[:-1])])
        self._total = np.add.reduceat(self._weights, self._parts, axis=0)

    def _spectra(self, lag: int) -> NDArray[np.float32]:
        """(starts, 4, 2 bins): real parts, then imaginary ones."""
        start = lag + _MOST_LAG + 1
        rows = self._pieces[:, :, start : start + _SIZE].reshape(-1, _SIZE)
        whole = len(rows) // _ROWS * _ROWS
        blocks = np.matmul(rows[:whole].reshape(-1, _ROWS, _SIZE), self._transform)
        found = np.concatenate([blocks.reshape(whole, -1), rows[whole:] @ self._transform])
        return found.reshape(len(self._pieces), 4, -1)

    def __call__(self, lag: int) -> Floats:
        moved = self._spectra(lag)
        cross = np.matmul(moved, self._weighted)  # [:, moved channel, still channel]
        own = np.matmul(moved**2, self._white)[:, :, 0]
        r = cross[:, np.arange(4)[:, None], self._rest]  # of each channel with the other three
        explained = np.sum(np.matmul(self._inverse, r[..., None])[..., 0] * r, axis=2)
        measure = -np.log(np.maximum(1 - explained / (own + 5e-5), 1e-3))
        return np.asarray(np.add.reduceat(measure * self._weights, self._parts, axis=0) / self._total)


def _oneness(between: Floats) -> Floats:
    """(n,) -log(1 - rho^2) of the first of three channels given the other two, from (n, 3, 3)."""
    r = between[:, 0, 1:]
    solved = np.linalg.solve(between[:, 1:, 1:] + 5e-4 * np.eye(2), r[:, :, None])[:, :, 0]
    share = np.sum(solved * r, axis=1) / (between[:, 0, 0] + 1e-9)
    return np.asarray(-np.log(np.clip(1 - share, 1e-3, 1.0)))


def _starts(y: Floats) -> NDArray[np.int64]:
    """First frames of windows in which the sound rises most over 10 ms, 1.3 ms or more apart."""
    step = _RISE_FRAMES
    first, last = _MOST_LAG + 1, len(y) - _SIZE - _MOST_LAG - 2
    if last <= first + step:
        return np.zeros(0, np.int64)
    running = np.concatenate([[0.0], np.cumsum(np.sum(y**2, axis=1))])
    energy = (running[step:] - running[:-step])[::_HOP]
    before = step // _HOP
    rise = np.zeros(len(energy))
    rise[before:] = np.log((energy[before:] + 1e-20) / (energy[:-before] + 1e-20))
    rise[energy < np.quantile(energy, 0.3)] = 0.0
    candidates = np.argsort(rise)[::-1][:_MOST_STARTS]
    candidates = candidates[rise[candidates] > 0.2]
    starts = np.sort(candidates) * _HOP
    return np.asarray(starts[(starts >= first) & (starts < last)], np.int64)
