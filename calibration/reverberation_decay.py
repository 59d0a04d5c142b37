"""The decay of one impulse response in one band: decay curve, noise floor, reverberation times, clarity.

ISO 3382-1 and -2: the decay curve is the energy still to come (Schroeder, JASA 37, 1965), read from the
direct sound; EDT from 0 to -10 dB, T20 from -5 to -25, T30 from -5 to -35, each as the line that fits best,
extended to 60 dB. C50 and D50 compare what comes before and after 50 ms, cut before filtering (ISO 3382-1,
annex A), so that the filter moves nothing across.

Noise: a decay on a steady floor, A exp(-k t) + N, is fitted to the squared response by maximum likelihood
(its short-time energies are gamma distributed; the start as in Lundeby et al., Acustica 81, 1995). The curve
ends where decay and noise are equal; N is subtracted before, and A exp(-k t) stands for what comes after
(subtraction, truncation and correction: the best of the five ways that Guski and Vorlaender compare, Acta
Acustica 100, 2014). Octave filters are run backwards in time, so that their own ringing is no decay (Jacobsen
and Rindel, J. Sound Vib. 117, 1987).

The range is the level of the decay curve where it meets the noise. A T30 needs 45 dB of it, a T20 35 dB: the
lower end of the evaluation and 10 dB (ISO 3382-1, 5.3.3). Below, no number is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.reverberation_gate import processed
from calibration.reverberation_noise import DB, T60, Floats, LateDecay, fit_late_decay, middles
from dsp.errors import InputError

OCTAVES_HZ = (125, 250, 500, 1000, 2000, 4000, 8000)
RANGE_NEEDED_DB = {"t30": 45.0, "t20": 35.0, "edt": 20.0, "c50": 20.0}
_SPANS_DB = {"t30": (-5.0, -35.0), "t20": (-5.0, -25.0), "edt": (0.0, -10.0)}
NOISE_LIMIT = 0.005
"""A reverberation time is left out when the noise alone makes it this uncertain (1 sigma, relative)."""

EARLY_S = 0.05
_ONSET_DB = -20.0  # ISO 3382-1: the response begins where it is within 20 dB of its highest
_BEND, _BEND_SIGMAS, _BENT_DB = 0.2, 2.5, 10.0  # a late decay that differs by more needs more range
_BEYOND_DB = 5.0  # a gate that begins here bends the line before it already
_ROOM_S = 0.05  # silence around a piece, for the filter's own ringing
_LEAST_BT = 4.0  # Jacobsen and Rindel: below this a filter run backwards still bends the decay
_STEPS_PERMILLE = 200.0  # of non-linearity, beyond which a slope says nothing


@dataclass(frozen=True)
class Band:
    """An octave, or everything between the outer edges of several ("broadband"). Edges in Hz."""

    name: str
    low_hz: float
    high_hz: float

    @classmethod
    def octave(cls, centre_hz: float) -> Band:
        """IEC 61260-1, base ten: edges 10^0.15 below and above."""
        return cls(f"{centre_hz:g} Hz", centre_hz * 10**-0.15, centre_hz * 10**0.15)


def bands_for(fs: int, low_hz: float = 0.0, high_hz: float = np.inf) -> list[Band]:
    """The octaves (125 Hz to 8 kHz) that a rate and a source hold whole, and all of them as "broadband"."""
    top = min(high_hz, 0.48 * fs)
    whole = [b for b in map(Band.octave, OCTAVES_HZ) if b.low_hz >= low_hz and b.high_hz <= top]
    if not whole:
        raise InputError(
            f"no octave from 125 Hz to 8 kHz lies between {low_hz:g} and {top:g} Hz, which the sound holds"
        )
    return [Band("broadband", whole[0].low_hz, whole[-1].high_hz), *whole]


@dataclass(frozen=True)
class Value:
    """A number with two standard uncertainties: `noise`, by the noise floor alone (another take of the same
    source and place), and `sigma`, with what one response says about its room (the same room, elsewhere)."""

    value: float
    noise: float
    sigma: float


@dataclass(frozen=True)
class Line:
    """A fitted line: level_db = offset_db + slope_db_s t, used from first_s to last_s after the direct sound.

    nonlinearity_permille: 1000 (1 - r^2), ISO 3382-2 annex B. bend_db, bend_sigma_db: of the curve to 5 dB
    below the line's end beside a straight one, at its ends against its middle; below 0 it falls ever faster.
    """

    offset_db: float
    slope_db_s: float
    first_s: float
    last_s: float
    nonlinearity_permille: float
    bend_db: float = 0.0
    bend_sigma_db: float = np.inf


@dataclass(frozen=True)
class Decay:
    """One response in one band.

    values: of "edt", "t20", "t30" (s), "c50" (dB) and "d50" (share); what is not there stands in `refused`
    with the reason. range_db: how far the curve falls before the noise. curve: times (s after the direct
    sound) and levels (dB). raw_db: short-time level of the squared response at curve_s, 0 dB as its start by
    the fitted decay. curvature_percent: 100 (T30 / T20 - 1), ISO 3382-2 annex B.
    """

    band: Band
    range_db: float
    knee_s: float
    meets_noise: bool
    values: dict[str, Value] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    curve_s: Floats = field(default_factory=lambda: np.zeros(0))
    curve_db: Floats = field(default_factory=lambda: np.zeros(0))
    raw_s: Floats = field(default_factory=lambda: np.zeros(0))
    raw_db: Floats = field(default_factory=lambda: np.zeros(0))
    noise_db: float | None = None

    @property
    def curvature_percent(self) -> float | None:
        if "t30" not in self.values or "t20" not in self.values:
            return None
        return 100 * (self.values["t30"].value / self.values["t20"].value - 1)


def onset(h: ArrayLike, fs: int) -> int:
    """Frame of the direct sound: where (frames,) first comes within 20 dB of its highest, and clear of the
    noise before it. Raises InputError for a response without a peak."""
    x = np.abs(np.asarray(h, np.float64))
    if x.ndim != 1 or len(x) < 64 or not np.isfinite(x).all() or not x.any():
        raise InputError("a response is one channel (frames,), finite and not silent")
    peak = int(np.argmax(x))
    before = x[: max(0, peak - round(0.02 * fs))]
    least = x[peak] * 10 ** (_ONSET_DB / 20)
    if len(before) > 64:
        least = max(least, 6.0 * float(np.sqrt(np.mean(before**2))))
    high = x[: peak + 1] >= min(least, x[peak])
    return int(np.argmax(high))


# ------------------------------------------------------------------ filter


@lru_cache(maxsize=64)
def _filter(low_hz: float, high_hz: float, fs: int, size: int) -> NDArray[np.complex128]:
    """Response at the bins of a real FFT: Butterworth, 6th order in all, turned round in time."""
    from scipy.signal import butter, sosfreqz

    sos = butter(3, [low_hz, min(high_hz, 0.495 * fs)], "bandpass", fs=fs, output="sos")
    f = np.fft.rfftfreq(size, 1 / fs)
    return np.asarray(np.conj(sosfreqz(sos, 2 * np.pi * f / fs)[1]))


def _bandwidth(low_hz: float, high_hz: float, fs: int) -> float:
    """Hz: (integral of |H|^2)^2 by that of |H|^4, one-sided."""
    power = np.abs(_filter(low_hz, high_hz, fs, 8192)) ** 2
    return float(power.sum() ** 2 / np.square(power).sum() * fs / 8192)


class _Spectrum:
    """A piece of a response, ready to be filtered: with _ROOM_S of silence at both ends."""

    def __init__(self, h: Floats, fs: int) -> None:
        self.fs, self.pad = fs, round(_ROOM_S * fs)
        self.frames = len(h) + 2 * self.pad
        self.size = 1 << (self.frames - 1).bit_length()
        x = np.zeros(self.size)
        x[self.pad : self.pad + len(h)] = h
        self._spectrum = np.fft.rfft(x)

    def filtered(self, band: Band) -> Floats:
        """(frames,) through the band's filter, backwards in time."""
        response = _filter(band.low_hz, band.high_hz, self.fs, self.size)
        return np.asarray(np.fft.irfft(self._spectrum * response, self.size)[: self.frames])

    def energy(self, band: Band) -> float:
        """Sum of squares of what `filtered` gives, before it is cut to length (Parseval)."""
        power = np.abs(self._spectrum * _filter(band.low_hz, band.high_hz, self.fs, self.size)) ** 2
        return float((2 * power.sum() - power[0] - power[-1]) / self.size)


# ------------------------------------------------------------------ one band


def decay_of(h: ArrayLike, fs: int, band: Band, at: int | None = None) -> Decay:
    """The decay of a response (frames,) in a band; `at`: frame of the direct sound, else `onset`.

    Raises InputError for what is no response.
    """
    return decays_of(h, fs, [band], at)[0]


def decays_of(h: ArrayLike, fs: int, bands: Sequence[Band], at: int | None = None) -> list[Decay]:
    """`decay_of` in several bands."""
    x = np.asarray(h, np.float64)
    begin = onset(x, fs) if at is None else at
    x = _without_silence(x)
    if len(x) - begin < 0.1 * fs:
        raise InputError(
            f"{1000 * max(len(x) - begin, 0) / fs:.0f} ms after the direct sound are no response of a room;"
            " at least 100 ms are needed"
        )
    cut = begin + round(EARLY_S * fs)
    pieces = tuple(_Spectrum(part, fs) for part in (x, x[max(0, begin - round(0.002 * fs)) : cut], x[cut:]))
    found = [_decay(pieces, begin, len(x), fs, band) for band in bands]
    for name, reason in processed([d.lines for d in found if d.band.name != "broadband"]).items():
        for d in found:
            if name in d.values:
                del d.values[name]
                d.refused[name] = reason
    return found


def _decay(pieces: tuple[_Spectrum, ...], begin: int, frames: int, fs: int, band: Band) -> Decay:
    width = _bandwidth(band.low_hz, band.high_hz, fs)
    y = pieces[0].filtered(band)
    zero, end = begin + pieces[0].pad, frames + pieces[0].pad  # the direct sound, the end of the recording
    # What the filter, running backwards, brings from after the end is missing just before it.
    end -= min(round(3 / width * fs), (end - zero) // 10)
    squared = y**2
    step = max(1, round(max(1 / width, 0.002) * fs))
    blocks = squared[zero : zero + (end - zero) // step * step].reshape(-1, step).mean(axis=1)
    late = fit_late_decay(blocks, step / fs, 2 * width * step / fs)
    if late is None:
        why = "no decay stands out of the noise"
        return Decay(band, 0.0, 0.0, True, refused=dict.fromkeys((*_SPANS_DB, "c50", "d50"), why))
    return _Reader(band, pieces, y, squared, zero, fs, late, blocks, step).decay()


def _without_silence(x: Floats) -> Floats:
    """Without digital silence at the end: it is no noise floor."""
    loud = np.flatnonzero(np.abs(x) > 1e-9 * np.abs(x).max())
    return x[: int(loud[-1]) + 1]


class _Reader:
    """Reads the numbers off one filtered response."""

    def __init__(
        self, band: Band, pieces: tuple[_Spectrum, ...], y: Floats, squared: Floats, zero: int, fs: int,
        late: LateDecay, blocks: Floats, step: int,
    ) -> None:  # fmt: skip
        self.band, self.pieces, self.fs, self.late = band, pieces, fs, late
        self.blocks, self.block_s = blocks, step / fs
        self.knee_s = late.knee_s
        self.meets_noise = bool(late.knee_s < 0.98 * late.end_s)
        last = zero + round(self.knee_s * fs)
        energy = (squared[zero:last] - late.n) if self.meets_noise else squared[zero:last]
        self.noise = late.n if self.meets_noise else 0.0
        self.tail = late.rest(self.knee_s)
        # (frames + 1,) energy still to come, in units of squared signal times seconds.
        self.left = np.concatenate([np.cumsum(energy[::-1])[::-1], [0.0]]) / fs + self.tail
        before = float(squared[max(0, zero - round(4 / (band.high_hz - band.low_hz) * fs)) : zero].sum()) / fs
        self.total = float(self.left[0]) + before
        self.range_db = float(DB * np.log(self.total / self.tail)) if self.tail < self.total else 0.0
        self.inverse_width = self._bandwidths(y, zero, last)

    def _bandwidths(self, y: Floats, zero: int, last: int) -> tuple[float, float, float]:
        """1 / B of decay, of decay with noise, and of noise: integrals of products of the spectra, each of
        sum 1. Smoothed to an eighth of the band, so that the modes of a room are no lines."""
        from scipy.signal import welch

        width = self.band.high_hz - self.band.low_hz
        length = max(64, round(8 / width * self.fs)) if width < 2000 else 256

        def spectrum(part: Floats) -> Floats:
            part = part if len(part) >= length else np.concatenate([part, np.zeros(length - len(part))])
            p = np.asarray(welch(part, self.fs, nperseg=length, detrend=False)[1])
            return p / max(float(p.sum()), 1e-300)

        df = self.fs / length
        decay = spectrum(y[zero : max(last, zero + length)])
        quiet = y[last + round(0.1 * (last - zero)) :] if self.meets_noise else y[:0]
        noise = spectrum(quiet) if len(quiet) >= 2 * length else decay
        return tuple(float((p * q).sum() / df) for p, q in ((decay, decay), (decay, noise), (noise, noise)))  # type: ignore[return-value]

    def decay(self) -> Decay:
        level = DB * np.log(np.maximum(self.left, 1e-300) / self.total)
        values: dict[str, Value] = {}
        refused: dict[str, str] = {}
        lines: dict[str, Line] = {}
        for name, (top, bottom) in _SPANS_DB.items():
            if self.range_db < RANGE_NEEDED_DB[name]:
                refused[name] = self._too_short(RANGE_NEEDED_DB[name])
                continue
            line, value = self._fit(level, top, bottom)
            lines[name] = line
            bend = np.log(T60 / self.late.k / value.value) if np.isfinite(value.value) else 0.0
            bent = abs(bend) > max(_BEND, _BEND_SIGMAS * np.sqrt(self.late.covariance[1, 1]))
            if bent and name != "edt" and self.range_db < RANGE_NEEDED_DB[name] + _BENT_DB:
                refused[name] = (
                    f"the decay is bent (near the noise it falls like {T60 / self.late.k:.2f} s, here like"
                    f" {value.value:.2f} s): {self._too_short(RANGE_NEEDED_DB[name] + _BENT_DB)}"
                )
            elif line.slope_db_s >= 0:
                refused[name] = "the level does not fall"
            elif line.nonlinearity_permille > _STEPS_PERMILLE:
                refused[name] = "the curve falls in steps there, not along a line (a strong direct sound)"
            elif value.value / self.inverse_width[0] < _LEAST_BT:
                refused[name] = (
                    f"{1000 * value.value:.0f} ms in this band is the ringing of the filter as much as a room"
                )
            elif value.noise > NOISE_LIMIT * value.value:
                refused[name] = (
                    f"the noise alone makes it uncertain by"
                    f" {min(100 * value.noise / value.value, 100):.1f} %"
                    f" (limit {100 * NOISE_LIMIT:g} %): play louder or longer, or be quieter"
                )
            else:
                values[name] = value
        self._clarity(values, refused)
        shown = np.linspace(0, len(level) - 1, min(len(level), 600)).astype(int)
        reference = max(self.late.k * self.total, 1e-300)
        raw = DB * np.log(np.maximum(self.blocks, 1e-300) / reference)
        return Decay(
            self.band, self.range_db, self.knee_s, self.meets_noise, values, refused, lines,
            shown / self.fs, level[shown],
            middles(len(raw), self.block_s), raw,
            float(DB * np.log(self.noise / reference)) if self.noise > 0 else None,
        )  # fmt: skip

    def _too_short(self, needed: float) -> str:
        why = "of range above the noise" if self.meets_noise else "of decay before the response ends"
        return f"{self.range_db:.1f} dB {why}, {needed:g} dB are needed"

    def _fit(self, level: Floats, top: float, bottom: float) -> tuple[Line, Value]:
        tt, ll, index = self._span(level, top, bottom)
        away = tt - tt.mean()
        weights = away / float(away @ away)
        slope = float(weights @ ll)
        offset = float(ll.mean() - slope * tt.mean())
        rest = ll - offset - slope * tt
        r2 = 1 - float(rest @ rest) / max(float((ll - ll.mean()) @ (ll - ll.mean())), 1e-300)
        if slope >= 0:
            line = Line(offset, slope, float(tt[0]), float(tt[-1]), 1000 * (1 - r2))
            return line, Value(np.inf, np.inf, np.inf)
        value = T60 * DB / -slope
        # d slope = integral of g(t) d(squared signal): each point of the curve counts what comes after it.
        each = DB * weights / np.maximum(self.left[index], 1e-300)
        noise, sampling = self._variances(tt, np.cumsum(each))
        noise += self._of_the_fit(float(each.sum()), float(each @ (self.knee_s - tt)))
        # Noise also moves the ends, which matters where the curve has steps.
        upper, lower = 2 * self._level_sigma(int(index[0])), 2 * self._level_sigma(int(index[-1]))
        if upper + lower >= top - bottom:
            noise = np.inf
        for by, down in ((upper, 0.0), (0.0, lower)) if np.isfinite(noise) else ():
            high = self._slope(level, top + by, bottom + down)
            noise += (0.25 * (high - self._slope(level, top - by, bottom - down))) ** 2
        by_noise = float(np.sqrt(noise))
        relative = -1 / slope
        return (
            Line(
                offset, slope, float(tt[0]), float(tt[-1]), 1000 * (1 - r2), *self._bend(level, top, bottom)
            ),
            Value(value, value * by_noise * relative, value * float(np.sqrt(noise + sampling)) * relative),
        )

    def _bend(self, level: Floats, top: float, bottom: float) -> tuple[float, float]:
        """See Line; sigma by noise and sampling, as that of the slope."""
        tt, ll, index = self._span(level, top, bottom - _BEYOND_DB)
        x = (tt - tt.mean()) / max(float(tt[-1] - tt.mean()), 1e-300)
        parabola = x**2 - np.mean(x**2)  # x is symmetric: no part of a line
        weights = parabola / max(float(parabola @ parabola), 1e-300)
        each = DB * weights / np.maximum(self.left[index], 1e-300)
        noise, sampling = self._variances(tt, np.cumsum(each))
        noise += self._of_the_fit(float(each.sum()), float(each @ (self.knee_s - tt)))
        return float(weights @ ll), float(np.sqrt(noise + sampling))

    def _span(self, level: Floats, top: float, bottom: float) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Times, levels and frames of the curve between two levels."""
        first = int(np.argmax(level <= top)) if top < 0 else 0
        below = level <= bottom
        last = int(np.argmax(below)) if below.any() else len(level) - 1
        last = max(last, min(3, len(level) - 1))
        first = min(first, max(0, last - 3))
        index = np.linspace(first, last, min(last - first + 1, 2000)).astype(np.int64)
        return index / self.fs, level[index], index

    def _slope(self, level: Floats, top: float, bottom: float) -> float:
        t, part, _ = self._span(level, top, bottom)
        away = t - t.mean()
        return float(away @ part / (away @ away))

    def _level_sigma(self, frame: int) -> float:
        """dB by which the noise may move the curve at a frame."""
        here = DB / max(float(self.left[frame]), 1e-300)
        t = np.array([frame / self.fs])
        noise, _ = self._variances(t, np.array([here]))
        return float(np.sqrt(noise + self._of_the_fit(here, here * (self.knee_s - float(t[0])))))

    def _variances(self, t: Floats, g: Floats) -> tuple[float, float]:
        """Variances of the integral of g times the squared signal, up to the knee (g stays after its last):
        by the noise, and of a decay that is Gaussian noise with this envelope."""
        blocks = int(np.ceil(self.knee_s / self.block_s))
        envelope = np.maximum(self.blocks[:blocks] - self.noise, 0.0)
        gg = np.interp(middles(len(envelope), self.block_s), t, g, left=0.0)
        own, mixed, alone = self.inverse_width
        noise = float(
            np.sum(gg**2 * (2 * envelope * self.noise * mixed + self.noise**2 * alone)) * self.block_s
        )
        return noise, float(np.sum(gg**2 * envelope**2) * own * self.block_s)

    def _of_the_fit(self, tail: float, length: float) -> float:
        """Variance by the fitted tail (d curve = tail for all points) and noise level (- length)."""
        a, k, t = 1.0, self.late.k, self.knee_s
        by = np.array(
            [tail * self.tail * a, -tail * self.tail * (1 + k * t), -length if self.noise > 0 else 0.0]
        )
        return float(by @ self.late.covariance @ by) + (tail * self.late.excess) ** 2

    def _clarity(self, values: dict[str, Value], refused: dict[str, str]) -> None:
        """C50 and D50 from the response cut at 50 ms before it is filtered."""
        if self.range_db < RANGE_NEEDED_DB["c50"]:
            refused["c50"] = refused["d50"] = self._too_short(RANGE_NEEDED_DB["c50"])
            return
        if self.knee_s <= EARLY_S:
            refused["c50"] = refused["d50"] = "the decay sinks into the noise before 50 ms"
            return
        fs, noise, (_, first, rest) = self.fs, self.noise, self.pieces
        early = first.energy(self.band) / fs - noise * EARLY_S
        until = rest.pad + round((self.knee_s - EARLY_S) * fs)
        late = float(np.sum(rest.filtered(self.band)[:until] ** 2)) / fs
        late += self.tail - noise * (self.knee_s - EARLY_S)
        if early <= 0 or late <= 0:
            refused["c50"] = refused["d50"] = "what is early or late is less than the noise"
            return
        t = middles(len(self.blocks), self.block_s)
        g = np.where(t < EARLY_S, DB / early, -DB / late)
        by_noise, sampling = self._variances(t, g)
        length = -DB / late * (self.knee_s - EARLY_S)
        by_noise += self._of_the_fit(-DB / late, length)
        sigma = float(np.sqrt(by_noise + sampling))
        c50 = float(DB * np.log(early / late))
        share = early / (early + late)
        slope = share * (1 - share) / DB  # d D50 / d C50
        values["c50"] = Value(c50, float(np.sqrt(by_noise)), sigma)
        values["d50"] = Value(share, float(np.sqrt(by_noise)) * slope, sigma * slope)
