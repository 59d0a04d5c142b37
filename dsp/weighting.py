"""A-weighted levels, time weighting and true peak, for blocks as they come.

Sources: IEC 61672-1 (A-weighting by its poles, annex E; time weightings F and S of 125 ms and 1 s); ITU-R
BS.1770 annex 2 (true peak by fourfold oversampling).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from dsp.levels import to_dbfs

Floats = NDArray[np.float64]

POLES_HZ = (20.598997, 107.65265, 737.86223, 12194.217)
"""The corner frequencies of IEC 61672-1; the first and the last are double poles."""

TIME_CONSTANTS_S = {"fast": 0.125, "slow": 1.0}


def a_weighting_db(frequency_hz: ArrayLike) -> Any:
    """The exact A-weighting of IEC 61672-1 in dB, 0 at 1 kHz."""
    f2 = np.square(np.asarray(frequency_hz, np.float64))
    p1, p2, p3, p4 = np.square(POLES_HZ)

    def gain(f2: Any) -> Any:
        return p4 * f2**2 / ((f2 + p1) * np.sqrt((f2 + p2) * (f2 + p3)) * (f2 + p4))

    return 20 * np.log10(np.maximum(gain(f2) / gain(1e6), 1e-30))


@lru_cache(maxsize=8)
def _sections(fs: int) -> Floats:
    """(3, 6) second-order sections. The poles below 1 kHz by the bilinear transform, which bends nothing
    there; the double pole at 12 kHz, near or above half the rate, by the section that fits its course best
    up to 0.49 fs. Together within 0.1 dB of the standard's curve.
    """
    from scipy.optimize import least_squares
    from scipy.signal import bilinear_zpk, sosfreqz, zpk2sos

    w1, w2, w3, _ = 2 * np.pi * np.array(POLES_HZ)
    low = zpk2sos(*bilinear_zpk(np.zeros(4), -np.array([w1, w1, w2, w3]), 1.0, fs))
    f = np.linspace(20.0, 0.49 * fs, 400)
    w = 2 * np.pi * f / fs
    wanted = a_weighting_db(f) - 20 * np.log10(np.abs(sosfreqz(low, w)[1]))
    z = np.exp(-1j * w)

    def miss(x: Floats) -> Floats:
        section = (1 + x[0] * z) * (1 + x[1] * z) / ((1 - x[2] * z) * (1 - x[3] * z))
        error = 20 * np.log10(np.abs(section)) - wanted
        return np.asarray(error - np.interp(1000.0, f, error))

    pole = np.exp(-2 * np.pi * POLES_HZ[3] / fs)
    x = least_squares(miss, [0.1, 0.4, pole, -0.3], bounds=(-0.999, 0.999), xtol=1e-14, ftol=1e-14).x
    high = [1.0, x[0] + x[1], x[0] * x[1], 1.0, -(x[2] + x[3]), x[2] * x[3]]
    sections = np.vstack([low, high])
    sections[0, :3] /= np.abs(sosfreqz(sections, [2 * np.pi * 1000.0 / fs])[1][0])
    return sections


class AWeighting:
    """A-weighting of (frames, channels) blocks: as many frames out as in, no delay, the same for any blocks.

    fs: 4000 to 192000 Hz. At 24 kHz everything up to 12 kHz is weighted as the standard says; the bands above
    (12.5, 16 and 20 kHz) are not in the signal. Float64 out.
    """

    def __init__(self, fs: int, channels: int):
        self.fs, self.channels = _rate(fs), channels
        self._sos = _sections(self.fs)
        self._state = np.zeros((len(self._sos), 2, channels))

    def push(self, block: ArrayLike) -> Floats:
        """The next block, weighted. Raises InputError for a wrong shape, integers, NaN or infinity."""
        from scipy.signal import sosfilt

        x = _block(block, self.channels)
        if len(x) == 0:
            return x
        y, self._state = sosfilt(self._sos, x, axis=0, zi=self._state)
        return np.asarray(y)


def a_weighted_level(x: ArrayLike, fs: int) -> Floats:
    """(channels,) A-weighted RMS level of a whole signal in dBFS: a full-scale sine of 1 kHz reads -3.01.

    With the level L that your microphone gives for a 94 dB calibrator, dB(A) SPL is this + 94 - L.
    """
    a = np.asarray(x)
    a = a[:, None] if a.ndim == 1 else a
    channels = a.shape[1] if a.ndim == 2 else 0
    weighted = AWeighting(fs, channels).push(a)
    if len(weighted) == 0:
        raise InputError("the level of nothing is asked for: the signal has no frames")
    return np.asarray(to_dbfs(np.sqrt(np.mean(weighted**2, axis=0))))


def true_peak_dbfs(x: ArrayLike, fs: int) -> Floats:
    """(channels,) the highest peak of the continuous wave in dBFS, by fourfold oversampling (BS.1770).

    Reads at most 0.5 dB low for sounds below 0.4 fs; can be above 0 where no sample is.
    """
    from dsp.resample import resample

    a = np.asarray(x)
    a = a[:, None] if a.ndim == 1 else a
    fine = resample(_block(a, a.shape[1] if a.ndim == 2 else 0), _rate(fs), 4 * fs)
    if len(fine) == 0:
        raise InputError("the peak of nothing is asked for: the signal has no frames")
    return np.asarray(to_dbfs(np.abs(fine).max(axis=0)))


@dataclass(frozen=True, slots=True)
class LevelReading:
    """One hop of a LevelMeter; levels per channel in dBFS (amplitude 1 is 0, a full-scale sine -3.01 RMS).

    t_s: start of the hop, seconds from the first frame. peak: of the samples; true_peak: of the wave between
    them (None unless asked for), late by the oversampler's delay. rms and a_rms (the equivalent level
    LAeq): over the hop; a_fast and a_slow: the highest value of the standard's sliding levels in it.
    """

    t_s: float
    peak_dbfs: Floats
    true_peak_dbfs: Floats | None
    rms_dbfs: Floats
    a_rms_dbfs: Floats
    a_fast_dbfs: Floats
    a_slow_dbfs: Floats


class LevelMeter:
    """Levels of a stream, one LevelReading per hop (100 ms), the same however the blocks are cut.

    Raises InputError for a rate below 4 kHz, a hop under 1 ms and blocks of another shape or type.
    """

    def __init__(self, fs: int, channels: int, hop_s: float = 0.1, true_peak: bool = False):
        from dsp.resample import Resampler

        self.fs, self.channels = _rate(fs), channels
        if not (isinstance(hop_s, (int, float)) and 0.001 <= hop_s <= 60.0):
            raise InputError(f"hop_s must be from 0.001 to 60 s, not {hop_s!r}")
        self.hop_s = round(hop_s * fs) / fs
        self._hop = round(hop_s * fs)
        self._weighting = AWeighting(fs, channels)
        self._finer = Resampler(fs, 4 * fs, channels) if true_peak else None
        self._slides = np.zeros((len(TIME_CONSTANTS_S), channels))
        self._pending = np.zeros((0, channels))
        self._hops = 0

    def push(self, block: ArrayLike) -> list[LevelReading]:
        """The next (frames, channels) block; the readings of the hops that it completes."""
        self._pending = np.concatenate([self._pending, _block(block, self.channels)])
        hops = len(self._pending) // self._hop
        readings = [self._read(self._pending[i * self._hop : (i + 1) * self._hop]) for i in range(hops)]
        self._pending = self._pending[hops * self._hop :]
        return readings

    def _read(self, x: Floats) -> LevelReading:
        from scipy.signal import lfilter

        power = self._weighting.push(x) ** 2
        highest = []
        for i, tau in enumerate(TIME_CONSTANTS_S.values()):
            keep = np.exp(-1.0 / (tau * self.fs))
            slide, last = lfilter([1 - keep], [1, -keep], power, axis=0, zi=keep * self._slides[None, i])
            self._slides[i] = last[0] / keep
            highest.append(to_dbfs(np.sqrt(slide.max(axis=0))))
        fine = None if self._finer is None else np.abs(self._finer.push(x)).max(axis=0)
        reading = LevelReading(
            t_s=self._hops * self._hop / self.fs,
            peak_dbfs=to_dbfs(np.abs(x).max(axis=0)),
            true_peak_dbfs=None if fine is None else to_dbfs(fine),
            rms_dbfs=to_dbfs(np.sqrt(np.mean(x**2, axis=0))),
            a_rms_dbfs=to_dbfs(np.sqrt(power.mean(axis=0))),
            a_fast_dbfs=highest[0],
            a_slow_dbfs=highest[1],
        )
        self._hops += 1
        return reading


def _rate(fs: int) -> int:
    if not (isinstance(fs, (int, np.integer)) and 4000 <= fs <= 192_000):
        raise InputError(f"levels need a whole sample rate from 4000 to 192000 Hz, not {fs!r}")
    return int(fs)


def _block(block: ArrayLike, channels: int) -> Floats:
    x = np.asarray(block)
    if x.ndim == 1 and channels == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[1] != channels or channels < 1:
        raise InputError(f"expected (frames, {max(channels, 1)}), got shape {x.shape}")
    if x.dtype.kind != "f":
        raise InputError(f"levels need float samples with full scale +-1, got {x.dtype}")
    if not np.isfinite(x).all():
        raise InputError("the block holds NaN or infinity; repair it, or use levels(), which leaves them out")
    return x.astype(np.float64)
