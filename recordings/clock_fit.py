"""How fast a device's sample clock runs against CLOCK_MONOTONIC: a robust line with honest uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dsp.errors import InputError

_WINDOW_S = 0.25
_PER_WINDOW = 4  # fewer arrivals than this have no earliest worth the name
_MIN_WINDOWS = 8


@dataclass(frozen=True)
class ClockFit:
    """A line t = offset + frame / (rate * (1 + drift)).

    drift_ppm:       positive when the device's clock is fast (more frames per second than nominal).
    drift_sigma_ppm: one standard deviation, widened for correlated residuals; inf with fewer than 3 points.
    offset_ns:       fitted time of frame 0 (of the counter), int64 ns.
    jitter_ms:       95 % of all observations are at most this much later than the line (as in ClockState).
    """

    drift_ppm: float
    drift_sigma_ppm: float
    offset_ns: int
    jitter_ms: float
    points: int
    span_s: float


def fit_clock(frames: ArrayLike, t_ns: ArrayLike, rate_hz: float = 48000.0) -> ClockFit:
    """Fit one gap-free segment: `frames` (n,) counter values, `t_ns` (n,) observed times.

    An arrival can be late (a busy computer) but hardly early, so of each window of a quarter of a second only
    the earliest counts: a load that grows during a short take would otherwise look like drift.
    Iteratively reweighted least squares with Huber weights (Huber 1964), started from a Theil-Sen line over a
    subset. The uncertainty counts the effective points after lag-1 autocorrelation of the residuals.
    Raises InputError for fewer than 2 points, unequal lengths, or a counter that does not advance.
    """
    frame = np.asarray(frames, np.int64)
    time = np.asarray(t_ns, np.int64)
    if frame.shape != time.shape or frame.ndim != 1 or len(frame) < 2:
        raise InputError(
            f"clock fit: got {frame.shape} frames and {time.shape} times; two equal (n,), n >= 2, are needed"
        )
    if rate_hz <= 0:
        raise InputError(f"clock fit: rate {rate_hz} Hz; it must be positive")
    # Integer differences first: float64 does not hold CLOCK_MONOTONIC ns of a long uptime to the ns.
    nominal_s = (frame - frame[0]) / float(rate_hz)
    late_s = (time - time[0]) * 1e-9 - nominal_s
    span = float(nominal_s[-1])
    if span <= 0:
        raise InputError("clock fit: the frame counter does not advance")
    every_s, every_late_s = nominal_s, late_s
    earliest = _earliest(nominal_s, late_s)
    nominal_s, late_s = nominal_s[earliest], late_s[earliest]
    centre = nominal_s.mean()
    x = nominal_s - centre
    slope, level = _theil_sen(x, late_s)
    weight = np.ones(len(x))
    for _ in range(30):
        residual = late_s - level - slope * x
        scale = max(1.4826 * float(np.median(np.abs(residual - np.median(residual)))), 1e-9)
        weight = 1.0 / np.maximum(np.abs(residual) / (1.345 * scale), 1.0)
        total = weight.sum()
        x_mean, y_mean = (weight @ x) / total, (weight @ late_s) / total
        spread = weight @ (x - x_mean) ** 2
        new_slope = float(weight @ ((x - x_mean) * (late_s - y_mean)) / spread)
        new_level = float(y_mean - new_slope * x_mean)
        done = abs(new_slope - slope) < 1e-12 and abs(new_level - level) < 1e-10
        slope, level = new_slope, new_level
        if done:
            break
    residual = late_s - level - slope * x
    every = every_late_s - level - slope * (every_s - centre)
    jitter = float(np.quantile(every, 0.95))
    offset_s = level - slope * (centre + frame[0] / float(rate_hz)) - frame[0] / float(rate_hz)
    return ClockFit(
        drift_ppm=(1.0 / (1.0 + slope) - 1.0) * 1e6,
        drift_sigma_ppm=_slope_sigma(x, residual, weight) * 1e6,
        offset_ns=int(time[0]) + round(offset_s * 1e9),
        jitter_ms=jitter * 1e3,
        points=len(x),
        span_s=span,
    )


def _earliest(nominal_s: np.ndarray, late_s: np.ndarray) -> np.ndarray:
    """Indices of the earliest arrival of each window; all indices when there are few per window."""
    windows = int(min(nominal_s[-1] / _WINDOW_S, len(nominal_s) / _PER_WINDOW))
    if windows < _MIN_WINDOWS:
        return np.arange(len(nominal_s))
    slope, _ = _theil_sen(nominal_s, late_s)
    lateness = late_s - slope * nominal_s
    window = np.minimum((nominal_s / nominal_s[-1] * windows).astype(np.int64), windows - 1)
    order = np.lexsort((lateness, window))
    _, first = np.unique(window[order], return_index=True)
    return np.sort(order[first])


def _theil_sen(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Median of pairwise slopes over at most 200 points (Theil 1950, Sen 1968), and the median level."""
    pick = np.unique(np.linspace(0, len(x) - 1, min(len(x), 200)).round().astype(np.int64))
    a, b = x[pick], y[pick]
    i, j = np.triu_indices(len(pick), 1)
    gap = a[j] - a[i]
    usable = gap > 0
    slope = float(np.median((b[j] - b[i])[usable] / gap[usable]))
    return slope, float(np.median(y - slope * x))


def _slope_sigma(x: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> float:
    count = len(x)
    if count < 3:
        return float("inf")
    centred = residual - residual.mean()
    power = float(centred @ centred)
    correlation = float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0
    correlation = min(max(correlation, 0.0), 0.99)
    variance = float(weight @ residual**2) / (count - 2) * (1 + correlation) / (1 - correlation)
    x_mean = (weight @ x) / weight.sum()
    return float(np.sqrt(variance / (weight @ (x - x_mean) ** 2)))
