"""Exponential sine sweeps: made, found, deconvolved; and the drift between player and recorder.

    x(t) = sin(2 pi f1 L (exp(t / L) - 1)),   L = T / ln(f2 / f1)

Convolved with the sweep turned round in time and falling by 6 dB per octave it gives an impulse, so a
recording gives the response of the room, with the loudspeaker's distortion before the response instead of in
it (Farina, "Simultaneous measurement of impulse response and distortion with a swept-sine technique", AES
108, 2000; inverse filter and the use of fades: Farina, AES 122, 2007).

A player whose clock runs slow by d makes f come later by d L ln(f / f1): the impulse becomes a chirp. The d
whose removal makes the direct sound highest is the drift (the idea of Gamper, "Clock drift estimation and
compensation for asynchronous impulse response measurements", HSCMA 2017; a matched filter over d is our form
of it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

Floats = NDArray[np.float64]

MAX_DRIFT_PPM = 500.0
_DRIFT_LOW_HZ, _DRIFT_HIGH_HZ = 500.0, 8000.0
_OWN_DELAY_S = 15e-6
_STANDS_OUT_DB = 15.0
_AFTER_S = 0.02  # of the response after its peak that is looked at


@dataclass(frozen=True)
class Sweep:
    """One exponential sine sweep. fs in Hz, seconds without the silence after it, low_hz to high_hz."""

    fs: int = 48000
    seconds: float = 3.0
    low_hz: float = 100.0
    high_hz: float = 18000.0
    fade_s: float = 0.01

    def __post_init__(self) -> None:
        if not (isinstance(self.fs, (int, np.integer)) and 8000 <= self.fs <= 192_000):
            raise InputError(f"a sweep needs a whole sample rate from 8000 to 192000 Hz, not {self.fs!r}")
        if not 0.2 <= self.seconds <= 60:
            raise InputError(f"a sweep takes 0.2 to 60 s, not {self.seconds!r}")
        if not 10 <= self.low_hz < self.high_hz / 4:
            raise InputError(
                "a sweep goes from at least 10 Hz over two octaves or more,"
                f" not {self.low_hz!r} to {self.high_hz!r}"
            )
        if not 0 < self.fade_s <= self.seconds / 4:
            raise InputError(f"the fades take up to a quarter of the sweep, not {self.fade_s!r} s")

    @property
    def rate_s(self) -> float:
        """L: seconds in which the frequency grows by a factor of e."""
        return float(self.seconds / np.log(self.high_hz / self.low_hz))

    def at(self, fs: int) -> Sweep:
        """The same sweep for a recording at another rate; above 0.45 fs it is not heard."""
        return Sweep(int(fs), self.seconds, self.low_hz, self.high_hz, self.fade_s)

    @cached_property
    def signal(self) -> Floats:
        """(frames,) full scale 1, faded in and out; silent where the rate cannot hold the frequency."""
        t = np.arange(round(self.seconds * self.fs)) / self.fs
        phase = 2 * np.pi * self.low_hz * self.rate_s * np.expm1(t / self.rate_s)
        x = np.sin(phase)
        top = min(self.high_hz, 0.46 * self.fs)
        end = self.rate_s * np.log(top / self.low_hz)
        rise = np.clip(t / self.fade_s, 0, 1)
        fall = np.clip((end - t) / self.fade_s, 0, 1)
        return np.asarray(x * (0.5 - 0.5 * np.cos(np.pi * rise)) * (0.5 - 0.5 * np.cos(np.pi * fall)))

    @cached_property
    def inverse(self) -> Floats:
        """(frames,) filter that turns the sweep into an impulse of height 1 within its band."""
        x = self.signal
        t = np.arange(len(x)) / self.fs
        turned = (x * np.exp(t / self.rate_s))[::-1]
        # Level: the spectrum of sweep times filter is 1 at the band's middle.
        size = 1 << (2 * len(x)).bit_length()
        spectrum = np.abs(np.fft.rfft(x, size) * np.fft.rfft(turned, size))
        f = np.fft.rfftfreq(size, 1 / self.fs)
        inner = (f > 2 * self.low_hz) & (f < 0.5 * min(self.high_hz, 0.46 * self.fs))
        return np.asarray(turned / np.median(spectrum[inner]))


def deconvolve(x: ArrayLike, sweep: Sweep) -> Floats:
    """(frames + frames of the sweep - 1, channels) response to `sweep` in a recording (frames, channels).

    A sweep that begins at frame n of the recording has its direct sound at frame n + frames of the sweep - 1;
    what the loudspeaker distorts lies before it.
    """
    from scipy.signal import oaconvolve

    sound = np.asarray(x, np.float64)
    if sound.ndim == 1:
        sound = sound[:, None]
    if sound.ndim != 2 or not np.isfinite(sound).all():
        raise InputError("a recording to deconvolve is (frames,) or (frames, channels), finite")
    return np.asarray(oaconvolve(sound, sweep.inverse[:, None], axes=0))


def find_sweeps(x: ArrayLike, sweep: Sweep, least_db: float = 18.0) -> Floats:
    """Seconds at which sweeps begin to be heard in a recording (frames,) or (frames, channels; the first is
    used), in order.

    A sweep counts when its impulse stands `least_db` above the quiet half of the deconvolved recording, 15 dB
    above what surrounds it up to 0.4 s away (speech: up to 14; rooms of 0.8 s: 17 and more), and is within 30
    dB of the loudest: a loudspeaker five times as far is 14 dB softer.
    """
    sound = np.asarray(x, np.float64)
    sound = sound if sound.ndim == 1 else sound[:, 0]
    if len(sound) < len(sweep.signal):
        raise InputError(
            f"the recording is {len(sound) / sweep.fs:.2f} s long, shorter than a sweep of"
            f" {sweep.seconds:g} s"
        )
    envelope = np.abs(deconvolve(sound, sweep)[:, 0])[len(sweep.signal) - 1 :]
    step = max(1, round(0.01 * sweep.fs))
    whole = len(envelope) // step * step
    tops = envelope[:whole].reshape(-1, step).max(axis=1)
    quiet = float(np.median(tops)) + 1e-15
    least = max(quiet * 10 ** (least_db / 20), float(tops.max()) * 10 ** (-30 / 20))
    apart = max(1, round(0.8 * sweep.seconds / 0.01))
    found: list[int] = []
    for k in np.argsort(tops)[::-1]:
        if tops[k] < least:
            break
        if all(abs(k - other) >= apart for other in found) and _stands_out(tops, int(k)):
            found.append(int(k))
    starts = [k * step + int(np.argmax(envelope[k * step : (k + 1) * step])) for k in sorted(found)]
    return np.array(starts, np.float64) / sweep.fs


def _stands_out(tops: Floats, k: int) -> bool:
    """Whether the highest of 10 ms is above the usual of 50 to 400 ms before and behind it."""
    around = np.concatenate([tops[max(0, k - 40) : max(0, k - 4)], tops[k + 5 : k + 41]])
    return len(around) == 0 or bool(tops[k] > np.sqrt(np.mean(around**2)) * 10 ** (_STANDS_OUT_DB / 20))


def stretch_phase(f: Floats, sweep: Sweep) -> Floats:
    """Radians per unit of drift at each frequency: what a player slow by d adds to the response's phase is
    d times this. The delay is d L ln(f / f1), and a phase is minus 2 pi times the integral of the delay."""
    safe = np.maximum(f, 1e-3)
    rate = sweep.rate_s
    return np.asarray(-2 * np.pi * rate * (safe * np.log(safe / sweep.low_hz) - safe))


def estimate_drift(responses: Sequence[ArrayLike], sweep: Sweep) -> tuple[float, float]:
    """(drift in ppm, sigma in ppm): how much slower than stated the player runs, by the recorder's clock.

    responses: one channel (frames,) each, from `deconvolve`, all by the same two devices. Of each, the drift
    within 500 ppm at which the direct sound is highest; then the median. sigma: the spread of the single ones
    over the root of their number, and what loudspeaker, microphone and near reflections delay more at low
    frequencies than at high ones, taken as 15 microseconds from 500 Hz to 8 kHz (simulated rooms: 5 to 15):
    24 ppm for a sweep of 1 s, 8 ppm for 3 s.
    """
    if not responses:
        raise InputError("no response was given to estimate the drift from")
    values = np.array([_drift_of_one(np.asarray(r, np.float64), sweep) for r in responses])
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    own = _OWN_DELAY_S / (sweep.rate_s * np.log(_DRIFT_HIGH_HZ / _DRIFT_LOW_HZ)) * 1e6
    return middle, float(np.hypot(1.25 * max(spread, 3.0) / np.sqrt(len(values)), own))


def _drift_of_one(h: Floats, sweep: Sweep) -> float:
    if h.ndim != 1 or len(h) < 64:
        raise InputError(f"the drift needs one channel (frames,) of a response, not {h.shape}")
    fs = sweep.fs
    spread_s = MAX_DRIFT_PPM * 1e-6 * sweep.rate_s * np.log(sweep.high_hz / sweep.low_hz)
    before = round((0.02 + spread_s) * fs)
    peak = int(np.argmax(np.abs(h)))
    part = h[max(0, peak - before) : peak + round((_AFTER_S + spread_s) * fs)]
    size = 1 << (2 * len(part) - 1).bit_length()
    spectrum = np.fft.rfft(part, size)
    f = np.asarray(np.fft.rfftfreq(size, 1 / fs), np.float64)
    turn = stretch_phase(f, sweep)
    high = min(_DRIFT_HIGH_HZ, 0.42 * fs, sweep.high_hz / 1.2)
    low = max(_DRIFT_LOW_HZ, 2 * sweep.low_hz)
    return _sharpest(spectrum, f, turn, sweep, low, high)


def _sharpest(
    spectrum: NDArray[np.complex128],
    f: Floats,
    turn: Floats,
    sweep: Sweep,
    low: float,
    high: float,
) -> float:
    """The drift in ppm whose removal makes the highest peak of the response within a band highest."""
    band = np.clip((f - low) / (0.2 * low), 0, 1) * np.clip((high - f) / (0.1 * high), 0, 1)
    inside = band > 0
    # Only the band, moved down to 0 Hz: the envelope at a lower rate.
    part, turns = (spectrum * band)[inside], turn[inside]
    size = 1 << (4 * len(part) - 1).bit_length()

    def height(ppm: float) -> float:
        envelope = np.abs(np.fft.ifft(part * np.exp(-1j * ppm * 1e-6 * turns), size))
        k = int(np.argmax(envelope))
        a, b, c = envelope[k - 1], envelope[k], envelope[(k + 1) % size]
        bend = a - 2 * b + c
        return float(b - (a - c) ** 2 / (8 * bend)) if bend < 0 else float(b)

    # Steps that move the top of the band against its bottom by a fifth of a period.
    step = 0.2 / (high * sweep.rate_s * np.log(high / low)) * 1e6
    tries = np.arange(-MAX_DRIFT_PPM, MAX_DRIFT_PPM + step, step)
    values = np.array([height(ppm) for ppm in tries])
    k = int(np.clip(np.argmax(values), 1, len(tries) - 2))
    best = float(tries[k])
    for width in (step, step / 4, step / 16):
        a, b, c = (height(best + i * width) for i in (-1, 0, 1))
        bend = a - 2 * b + c
        if bend < 0:
            best += float(np.clip(0.5 * width * (a - c) / bend, -width, width))
    return best


def remove_drift(response: ArrayLike, sweep: Sweep, drift_ppm: float) -> Floats:
    """(frames, channels) response with the chirp of a player slow by `drift_ppm` turned back to an impulse;
    the place of the direct sound at the sweep's lowest frequency stays."""
    h = np.asarray(response, np.float64)
    flat = h.ndim == 1
    h = h[:, None] if flat else h
    pad = 1 << (len(h) + round(0.01 * sweep.fs)).bit_length()
    f = np.asarray(np.fft.rfftfreq(pad, 1 / sweep.fs), np.float64)
    turn = np.exp(-1j * drift_ppm * 1e-6 * stretch_phase(f, sweep))
    turned = np.fft.irfft(np.fft.rfft(h, pad, axis=0) * turn[:, None], pad, axis=0)[: len(h)]
    return np.asarray(turned[:, 0] if flat else turned)
