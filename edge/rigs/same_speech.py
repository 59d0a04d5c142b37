"""Whether two rigs heard the same speech, and how much later the other one did.

Overlap in time proves nothing: two people in two rooms can talk at once. The sound itself decides.

- The *share*: how much of what one rig heard a linear filter makes out of what the other heard (multi-frame
  filters per frequency, as in Nakatani et al., IEEE Trans. ASLP 18(7), 2010, fitted by least squares,
  adjusted for their number of taps, and with the noise taken out). One talker in one room: nearly all,
  whatever the room does to the sound. Two talkers: only what leaks from one room into the other.
- The *time difference*: generalised cross-correlation with the phase transform (Knapp and Carter, IEEE
  Trans. ASSP 24(4), 1976) of two virtual microphones that are aimed at the talker, within what is possible.
  Echoes can move it by some milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from dsp.errors import InputError

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
C128 = NDArray[np.complex128]

RATE_HZ = 24000  # of what comes in
SPEED_OF_SOUND = 343.0
FAR_APART_M = 15.0  # the way from a talker to two rigs that hear him does not differ by more
SAME = 0.5  # share from which on it is the same speech
LEAST_S = 0.3
LONGEST_S = 4.0  # more is not compared: the time that it takes is bounded
_LOW = 8000  # rate at which it is compared
_FRAME, _HOP = 256, 128
_BINS = slice(8, 112)  # 250 to 3500 Hz
_EARLIER, _LATER = 4, 8  # frames of 16 ms that the filters reach
_DRY_SIGMA_S = 0.0007  # of a time difference between two clear arrivals
_ECHO_SIGMA_S = 0.007  # when an echo may be the highest
_CLEAR = 6.5  # height of a clear peak, in standard deviations of the rest


@dataclass(frozen=True, slots=True)
class Comparison:
    """share: 0 to 1, of the speech that is the same. later_s: the other heard it so much later, +- sigma_s
    (echoes and clocks) if it is the same. peak: height of the cross-correlation, in standard deviations."""

    same: bool
    share: float
    later_s: float
    sigma_s: float
    peak: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for events and traces."""
        return {
            "same": self.same,
            "share": round(self.share, 3),
            "later_ms": round(self.later_s * 1e3, 3),
            "sigma_ms": round(self.sigma_s * 1e3, 3),
            "peak": round(self.peak, 1),
        }


def margin_s(clock_s: float) -> float:
    """How far apart in time two rigs can hear one sound: by the way between them and by their clocks."""
    return FAR_APART_M / SPEED_OF_SOUND + clock_s


def compare(
    one: F32, other: F32, noise: tuple[float, float] = (0.0, 0.0), clock_s: float = 0.0, aimed: bool = True
) -> Comparison:
    """Compare what two rigs heard at the same time.

    one: (frames, 4) AmbiX at 24 kHz, the speech. other: (frames + 2 m, 4), what the other rig heard from m
    frames before to m frames after it, m = round(margin_s(clock_s) * 24000). noise: mean power of W of each
    rig without the speech. clock_s: how far both clocks together may be from the truth. aimed: listen to the
    talker's direction for the time difference (else to W).
    Raises InputError for less than LEAST_S, or when the lengths do not belong together.
    """
    margin = round(margin_s(clock_s) * RATE_HZ)
    if len(one) < LEAST_S * RATE_HZ or len(other) != len(one) + 2 * margin:
        raise InputError(
            f"expected at least {LEAST_S} s of speech and {2 * margin} frames more of the other rig, "
            f"got {len(one)} and {len(other)} frames"
        )
    cut = round(LONGEST_S * RATE_HZ)
    if len(one) > cut:
        one, other = one[:cut], other[: cut + 2 * margin]
    peak, later_s = _time_difference(_aim(one, aimed), _aim(other, aimed), margin)
    # The filters reach 64 ms back and 128 ms forward, so the start need only be right to some 10 ms.
    start = margin + round(later_s * RATE_HZ) if peak > _CLEAR else margin
    a, b = _spectra(one[:, 0]), _spectra(other[start : start + len(one), 0])
    both = min(len(a), len(b))
    a, b = a[:both], b[:both]
    share = max(_share(a, b, _clean(other[start:, 0], noise[1])), _share(b, a, _clean(one[:, 0], noise[0])))
    echo_s = _DRY_SIGMA_S if peak > _CLEAR else _ECHO_SIGMA_S
    return Comparison(share >= SAME, share, later_s, float(np.hypot(echo_s, clock_s)), peak)


def _aim(foa: F32, aimed: bool) -> F64:
    import dsp
    from dsp.doa import steady_direction

    mono = foa[:, 0]
    if aimed:
        found = steady_direction(np.ascontiguousarray(foa), RATE_HZ)
        if found.confidence > 0:
            mono = dsp.virtual_mic(foa, found.azimuth_deg, found.elevation_deg, 0.3)
    return np.asarray(resample_poly(np.asarray(mono, np.float64), 1, RATE_HZ // _LOW))


def _time_difference(a: F64, b: F64, margin: int) -> tuple[float, float]:
    """Height of the highest peak over the rest, and the lag of b behind a in seconds."""
    size = 1 << (len(a) + len(b) - 1).bit_length()
    cross = np.conj(np.fft.rfft(a, size)) * np.fft.rfft(b, size)
    frequency = np.fft.rfftfreq(size, 1 / _LOW)
    cross *= ((frequency > 200) & (frequency < 3600)) / np.maximum(np.abs(cross), 1e-30) ** 0.8
    found = np.fft.irfft(cross, size)[: len(b) - len(a) + 1]
    best = int(np.argmax(found))
    place = float(best)
    if 0 < best < len(found) - 1:
        left, middle, right = found[best - 1 : best + 2]
        bend = left - 2 * middle + right
        place += 0.5 * (left - right) / bend if bend else 0.0
    height = float(found[best]) / max(float(np.std(found)), 1e-30)
    return height, float(place / _LOW - margin / RATE_HZ)


def _spectra(w: F32) -> C128:
    """(frames, bins) of W, 32 ms each, every 16 ms."""
    low = np.asarray(resample_poly(w.astype(np.float64), 1, RATE_HZ // _LOW))
    frames = np.lib.stride_tricks.sliding_window_view(low, _FRAME)[::_HOP]
    return np.asarray(np.fft.rfft(frames * np.hanning(_FRAME), axis=1)[:, _BINS])


def _clean(w: F32, noise: float) -> float:
    """Which part of the power is not noise, never taken for less than a third."""
    return float(np.clip(1 - noise / max(float(np.mean(w.astype(np.float64) ** 2)), 1e-30), 1 / 3, 1))


def _share(source: C128, heard: C128, clean: float) -> float:
    """How much of `heard` filters over the frames of `source` explain; both (frames, bins)."""
    frames, taps = len(heard), _EARLIER + _LATER + 1
    if frames < 2 * taps:
        taps = max(frames // 2, 1)
    later = min(_LATER, taps - 1)
    padded = np.pad(source, ((later, _EARLIER), (0, 0)))
    x = np.stack(
        [padded[later - lag : later - lag + frames] for lag in range(later - taps + 1, later + 1)], 2
    )
    gram = np.einsum("tfk,tfl->fkl", x.conj(), x, optimize=True)
    onto = np.einsum("tfk,tf->fk", x.conj(), heard, optimize=True)
    load = 1e-3 * np.trace(gram, axis1=1, axis2=2).real / taps + 1e-30
    filters = np.linalg.solve(gram + load[:, None, None] * np.eye(taps), onto[..., None])[..., 0]
    explained = np.einsum("fk,fk->f", filters.conj(), onto).real
    total = (np.abs(heard) ** 2).sum(axis=0) + 1e-30
    part = 1 - (1 - explained / total) * frames / max(frames - taps, 1)
    weight = np.sqrt(total)
    return float(np.clip((part * weight).sum() / weight.sum() / clean, 0, 1))
