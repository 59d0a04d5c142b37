"""The noise floor of each channel: per octave band and A-weighted, from a stretch in which nothing sounds.

Power densities by Welch's method (IEEE Trans. AU-15, 1967), windows of half a second; octave bands
with the edges of IEC 61260-1 (G = 10^0.3, mid-band 1 kHz), A-weighting by the formula of IEC 61672-1, both
on the densities, so that neither has the skirts of a filter. Levels are dB re full scale (RMS; a full-scale
sine is -3.01) or, with a calibrator's level, dB SPL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibration.direct_arrival import Floats
from dsp.arguments import as_array, sample_rate
from dsp.errors import InputError
from dsp.weighting import a_weighting_db

OCTAVES_HZ = (31.5, 63.0, 125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16000.0)
CALIBRATOR_DB = 94.0
LEAST_S = 1.0
_WINDOW_S = 0.5
_STEADY_DB = 6.0
_G = 10**0.3


@dataclass(frozen=True)
class NoiseFloor:
    """bands_hz: (bands,) nominal. octave_db: (bands, channels), a_weighted_db, flat_db: (channels,).
    calibrated: dB SPL, else dB re full scale. spread_db: between the loudest and the quietest second,
    A-weighted. sigma_db: (bands,) by chance, from the length alone."""

    bands_hz: Floats
    octave_db: Floats
    a_weighted_db: Floats
    flat_db: Floats
    sigma_db: Floats
    seconds: float
    spread_db: float
    calibrated: bool

    @property
    def unit(self) -> str:
        return "dB SPL" if self.calibrated else "dB re full scale, uncalibrated"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "bands_hz": self.bands_hz.tolist(),
            "octave_db": np.round(self.octave_db, 2).tolist(),
            "octave_sigma_db": np.round(self.sigma_db, 2).tolist(),
            "a_weighted_db": np.round(self.a_weighted_db, 2).tolist(),
            "flat_db": np.round(self.flat_db, 2).tolist(),
            "seconds": round(self.seconds, 3),
            "spread_db": round(self.spread_db, 2),
            "calibrated": self.calibrated,
            "unit": self.unit,
        }


def noise_floor(x: ArrayLike, fs: int, calibrator_dbfs: float | ArrayLike | None = None) -> NoiseFloor:
    """Of (frames, channels) float in which nothing sounds; parts with a noise (6 dB above the median of
    A-weighted seconds) are left out. calibrator_dbfs: what each channel reads (RMS, dB re full scale) in a
    calibrator of 94 dB SPL; one number or one per channel. Raises InputError for less than a second, silence
    or other shapes.
    """
    sound = as_array(x)
    fs = sample_rate(fs, 4000)
    if sound.ndim != 2 or sound.dtype.kind != "f":
        raise InputError(
            f"the noise floor needs float samples (frames, channels), got {sound.dtype} {sound.shape}"
        )
    if len(sound) < LEAST_S * fs:
        raise InputError(f"{len(sound) / fs:.2f} s are too short for a noise floor; record 10 s of quiet")
    if not np.isfinite(sound).all():
        raise InputError("the quiet recording holds NaN or infinity")
    size = round(_WINDOW_S * fs)
    hop = size // 2
    window = np.hanning(size + 1)[:-1]
    starts = np.arange(0, len(sound) - size + 1, hop)
    power = np.empty((len(starts), size // 2 + 1, sound.shape[1]))
    for i, start in enumerate(starts):
        part = sound[start : start + size].astype(np.float64)
        spectrum = np.fft.rfft((part - part.mean(axis=0)) * window[:, None], axis=0)
        power[i] = np.abs(spectrum) ** 2
    power *= 2 / (fs * np.sum(window**2))
    power[:, 0] *= 0.5
    if size % 2 == 0:
        power[:, -1] *= 0.5
    f = np.fft.rfftfreq(size, 1 / fs)
    step = fs / size
    weight = 10 ** (a_weighting_db(np.maximum(f, 1e-3)) / 10)
    # A slow second: what comes and goes in it is no floor.
    loud = 10 * np.log10((power * weight[None, :, None]).sum(axis=(1, 2)) * step + 1e-30)
    per_second = max(1, round(1 / (_WINDOW_S / 2)))
    smooth = np.convolve(loud, np.ones(min(per_second, len(loud))) / min(per_second, len(loud)), "valid")
    quiet = loud < np.median(loud) + _STEADY_DB
    mean = power[quiet].mean(axis=0)
    if not mean.any():
        raise InputError("the quiet recording is digital silence, no microphone")
    bands, levels, sigma = [], [], []
    for nominal in OCTAVES_HZ:
        exact = 1000 * _G ** round(np.log(nominal / 1000) / np.log(_G))
        low, high = exact / _G**0.5, exact * _G**0.5
        if high > fs / 2 * 1.001:
            continue
        # Bins at the edges count by the share that lies within.
        share = np.clip((np.minimum(f + step / 2, high) - np.maximum(f - step / 2, low)) / step, 0, 1)
        bands.append(nominal)
        levels.append((share[:, None] * mean).sum(axis=0) * step)
        sigma.append(4.34 / np.sqrt(max(1.0, (high - low) * quiet.sum() * hop / fs)))
    if calibrator_dbfs is None:
        offset = np.zeros(sound.shape[1])
    else:
        offset = CALIBRATOR_DB - np.broadcast_to(np.asarray(calibrator_dbfs, np.float64), sound.shape[1])
        if not np.isfinite(offset).all():
            raise InputError(f"the calibrator's level must be in dB re full scale, not {calibrator_dbfs!r}")

    def decibel(value: Any) -> Floats:
        return np.asarray(10 * np.log10(np.maximum(value, 1e-20)) + offset)

    return NoiseFloor(
        np.array(bands),
        decibel(np.array(levels)),
        decibel((mean * weight[:, None]).sum(axis=0) * step),
        decibel(mean[1:].sum(axis=0) * step),
        np.array(sigma),
        float(quiet.sum() * hop / fs),
        float(np.ptp(smooth)),
        calibrator_dbfs is not None,
    )


def calibrator_level(x: ArrayLike, fs: int, channel: int) -> float:
    """RMS in dB re full scale of a 1 kHz calibrator on one channel of (frames, channels).

    Only the tone counts (a third of an octave about 1 kHz). Raises InputError when there is no clear steady
    tone.
    """
    sound = np.asarray(as_array(x), np.float64)
    if sound.ndim != 2 or not 0 <= channel < sound.shape[1] or len(sound) < 0.5 * fs:
        raise InputError("a calibrator's recording is (frames, channels), half a second or more")
    y = sound[:, channel] - sound[:, channel].mean()
    spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y)))) ** 2
    f = np.fft.rfftfreq(len(y), 1 / fs)
    near = (f > 890) & (f < 1120)
    share = float(spectrum[near].sum() / max(spectrum[f > 50].sum(), 1e-300))
    if share < 0.9:
        raise InputError(
            f"channel {channel} of the calibrator's recording holds no clear 1 kHz tone ({100 * share:.0f} %"
            " of the power): was the calibrator on this capsule?"
        )
    total = float(np.mean(y**2)) * share
    return float(10 * np.log10(total))
