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
_BAND_HZ = (200, 6000)
_GAIN = 3.0  # how far the peak must stand above lag 0, in scatter of the curve: no healthy tuning room did
_LEAST_FRAMES = 2  # less is within what spaced capsules do


@dataclass(frozen=True)
class Shift:
    """channel: index into the given channels; frames at 24 kHz, positive when late; gain: how much better the
    starts agree at that lag than at none, in robust standard deviations of the curve over lags."""

    channel: int
    frames: int
    gain: float


def shifted_channel(x: Floats, capsules: bool = False) -> Shift | None:
    """The shifted one of (frames, 4) channels at 24 kHz, or None. capsules: they are capsule signals, which
    are up to 2 frames apart by right."""
    best = best_shift(x, _LEAST_FRAMES + 2 * capsules)
    return None if best is None or best.gain < _GAIN else best


def best_shift(x: Floats, least_frames: int = _LEAST_FRAMES) -> Shift | None:
    """The shift that fits the starts best, however little better than none; None with fewer than 8 starts."""
    from scipy.signal import butter, sosfilt

    y = sosfilt(butter(2, _BAND_HZ, "bandpass", fs=FS, output="sos"), x, axis=0)
    starts = _starts(y)
    if len(starts) < 8:
        return None
    return _best_shift(_Agreement(y, starts), least_frames)


def _best_shift(agreement: Callable[[int], Floats], least_frames: int) -> Shift:
    """The lag and channel whose peak stands out most over lag 0: every second lag, then near the best."""

    def smooth(lag: int) -> Floats:
        return 0.25 * agreement(lag - 1) + 0.5 * agreement(lag) + 0.25 * agreement(lag + 1)

    coarse = np.arange(-_REPORT_LAG, _REPORT_LAG + 1, 2)
    curves = np.stack([agreement(int(lag))[0] for lag in coarse])
    none = np.max([smooth(lag) for lag in (-1, 0, 1)], axis=0)
    around = curves[np.abs(coarse) > 5]
    scatter = 1.4826 * np.median(np.abs(around - np.median(around, axis=0)), axis=0) + 1e-9
    best = Shift(0, 0, -np.inf)
    for c in range(4):
        for k in np.argsort(np.where(np.abs(coarse) >= least_frames, curves[:, c], -np.inf))[-3:]:
            for lag in range(int(coarse[k]) - 1, int(coarse[k]) + 2):
                whole, first, second = (smooth(lag)[:, c] - none[:, c]) / scatter[c]
                # A reflection's lag changes with the talker's place; a true shift is there in both halves.
                if abs(lag) >= least_frames and whole > best.gain and min(first, second) > -0.3:
                    best = Shift(c, lag, float(whole))
    if best.frames:
        near = [lag for lag in range(best.frames - 2, best.frames + 3) if abs(lag) >= least_frames]
        frames = max(near, key=lambda lag: float(agreement(lag)[0, best.channel]))
        best = Shift(best.channel, frames, best.gain)
    return best


class _Agreement:
    """For a lag: (3, 4) mean of -log(1 - rho^2) of each channel, taken so much later, over all starts and
    over their first and second half in time.

    Starts at which the other three channels agree among themselves, as for one wave, count more: by the
    square of the same measure of the first of them, given the other two.
    """

    def __init__(self, y: Floats, starts: NDArray[np.int64]) -> None:
        from scipy.ndimage import uniform_filter1d

        self._window = np.hanning(_SIZE + 2)[1:-1].astype(np.float32)
        columns = np.ascontiguousarray(y.T, dtype=np.float32)
        reach = _SIZE + 2 * _MOST_LAG + 2
        pieces = np.lib.stride_tricks.sliding_window_view(columns, reach, axis=1)
        self._pieces = np.ascontiguousarray(pieces[:, starts - _MOST_LAG - 1].transpose(1, 0, 2))
        f = np.fft.rfftfreq(_SIZE, 1 / FS)
        self._band = (f >= _BAND_HZ[0]) & (f <= _BAND_HZ[1])
        still = self._spectra(0)
        power = np.sum(np.abs(still) ** 2, axis=1)
        white = 1 / (uniform_filter1d(power, 3, axis=1) + 1e-2 * power.mean(axis=1, keepdims=True) + 1e-30)
        white /= np.sum(white * power, axis=1, keepdims=True) + 1e-30
        self._white = white[:, None]
        self._weighted = (still * self._white).conj().transpose(0, 2, 1)
        between = np.matmul(still, self._weighted).real  # trace 1
        self._rest = [[j for j in range(4) if j != c] for c in range(4)]
        self._inverse = [np.linalg.inv(between[:, o][:, :, o] + 5e-4 * np.eye(3)) for o in self._rest]
        self._weights = np.stack([_oneness(between[:, o][:, :, o]) ** 2 + 1e-6 for o in self._rest], axis=1)
        self._known: dict[int, Floats] = {}

    def _spectra(self, lag: int) -> NDArray[np.complex64]:
        from scipy.fft import rfft

        start = lag + _MOST_LAG + 1
        return np.asarray(rfft(self._pieces[:, :, start : start + _SIZE] * self._window)[:, :, self._band])

    def __call__(self, lag: int) -> Floats:
        if lag not in self._known:
            moved = self._spectra(lag)
            cross = np.matmul(moved, self._weighted).real  # [:, moved channel, still channel]
            own = np.sum(np.abs(moved) ** 2 * self._white, axis=2)
            half, result = len(own) // 2, np.zeros((3, 4))
            for c, o in enumerate(self._rest):
                r = cross[:, c, o]
                explained = np.sum(np.matmul(self._inverse[c], r[:, :, None])[:, :, 0] * r, axis=1)
                measure = -np.log(np.maximum(1 - explained / (own[:, c] + 5e-5), 1e-3))
                for row, part in enumerate((slice(None), slice(half), slice(half, None))):
                    result[row, c] = np.average(measure[part], weights=self._weights[part, c])
            self._known[lag] = result
        return self._known[lag]


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
