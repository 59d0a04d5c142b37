"""What a resampler does to tones, measured from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def decibels(x: Any) -> float:
    return float(20 * np.log10(max(abs(x), 1e-15)))


def tone(hz: float, fs: float, seconds: float) -> Floats:
    return np.sin(2 * np.pi * hz * np.arange(round(fs * seconds)) / fs)


def tone_and_rest(y: Floats, t: Floats, hz: float) -> tuple[float, Floats]:
    """(amplitude of the tone in y, all the rest) by least squares; t: the time of each sample."""
    basis = np.stack([np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t), np.ones_like(t)], axis=1)
    weights, *_ = np.linalg.lstsq(basis, y, rcond=None)
    return float(np.hypot(weights[0], weights[1])), y - basis @ weights


def worst_alias_db(resample: Callable[[Any], Any], fs_in: int, first_hz: float, tones: int) -> float:
    """The strongest line that any input tone from first_hz up leaves in the output, in dBc."""
    worst = 0.0
    for hz in np.linspace(first_hz, 0.4995 * fs_in, tones):
        y = np.asarray(resample(tone(hz, fs_in, 0.1).astype(np.float32)), np.float64)[300:-300]
        spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y)))) / (0.25 * len(y))
        worst = max(worst, float(spectrum.max()))
    return decibels(worst)


def ripple_db(
    resample: Callable[[Any], Any], fs_in: int, fs_out: int, last_hz: float, fast: float = 1.0
) -> float:
    """The largest deviation from 0 dB of tones from 50 Hz to last_hz. fast: how much the pitch rises."""
    worst = 0.0
    for hz in np.linspace(50, last_hz, 60):
        y = np.asarray(resample(tone(hz, fs_in, 0.3).astype(np.float32)), np.float64)[400:-400]
        worst = max(worst, abs(decibels(tone_and_rest(y, np.arange(len(y)) / fs_out, hz * fast)[0])))
    return worst


def thd_n_db(
    resample: Callable[[Any], Any], fs_in: int, fs_out: int, hz: float = 997.0, fast: float = 1.0
) -> float:
    """All that is not the tone against the tone, in dB."""
    y = np.asarray(resample(tone(hz, fs_in, 2.0).astype(np.float32)), np.float64)[600:-600]
    amplitude, rest = tone_and_rest(y, np.arange(len(y)) / fs_out, hz * fast)
    return decibels(np.std(rest) * np.sqrt(2) / amplitude)
