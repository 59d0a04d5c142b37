"""The fine half of recordings.align: what line of delays do windows along a candidate's overlap agree on?

Generalised cross-correlation with phase transform (Knapp and Carter, IEEE TASSP 24 (1976)), each bin
weighted by how far it stands over the noise in both recordings. In a room the direct sounds are a small
part of what two microphones hear. So onsets are kept and what follows them in the next tens of ms is not
(the precedence effect: Litovsky et al., JASA 106 (1999)), and the squared envelopes of all windows are
summed along trial lines of delay and drift (a Radon transform); the best line counts. Its uncertainty comes
from leaving out groups of windows (jackknife: Efron and Stein, Annals of Statistics 9 (1981)) and from the
peaks beside it (reflections).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordings.align_coarse import MIN_OVERLAP_S, Array, Flux, Place, Sound, mono

FINE_RATE = 16000
_BLOCK = 8000  # frames of half a second: within it even 300 ppm move the peak by 0.15 ms only
_NFFT = 16384
_SEARCH_S = 0.06  # the coarse delay is right to this
_WINDOW_S = 4.0
_WINDOWS = 32
_GROUPS = 12
_NEAR_S = 0.0006  # the last search: so far about the line of the trial grid
_ONSET_BANDS_HZ = (100, 400, 800, 1600, 3200, 7200)
_ONSET_S = 0.002  # reflections that are later than this after a rise are held back
_PAST_S = 0.06
_PAST_GAIN = 1.5
_REFLECTION_POWER = 6.0  # how likely a lower peak of the sum is the direct sound, as a power of its height
_REFLECTION_S = 0.02
_MOST_PER_WINDOW = 12.0
_SLOPE_POWER = 16.0
_COARSE_SIGMA_S = 0.008  # error of the coarse delay
SAME_S = 0.004  # two lines this close are one place


@dataclass
class Fit:
    """What the windows of a candidate say; line and its sigmas are None and inf when they say nothing.

    height: sum of the squared envelopes along the line over that of noise, per window (1: noise).
    chance: probability of such a sum somewhere in the search by noise alone.
    heard:  windows whose own peak lies on the line. second_peak: height of the next best delay, 0..1.
    """

    place: Place
    windows: int = 0
    heard: int = 0
    overlap_s: float = 0.0
    height: float = 1.0
    chance: float = 1.0
    second_peak: float = 0.0
    line: Place | None = None
    level_sigma_s: float = math.inf
    slope_sigma: float = math.inf


def compare(a: Sound, b: Sound, flux_a: Flux, flux_b: Flux, place: Place, drift: float, top_hz: float) -> Fit:
    """Look at windows along the overlap of one candidate. drift: largest possible slope of the delay."""
    start = max(0.0, -place.delay(0.0))
    stop = min(flux_b.duration_s, flux_a.duration_s - place.delay(flux_b.duration_s))
    fit = Fit(place, overlap_s=max(stop - start, 0.0))
    if fit.overlap_s < MIN_OVERLAP_S - 0.1:
        return fit
    length = min(max(fit.overlap_s / 8, 0.5), _WINDOW_S)
    times = _window_times(flux_a, flux_b, place, start, stop, length)
    fit.windows = len(times)
    middle = times + length / 2
    windows = _Windows(a, b, top_hz, times, length, place)
    centre = float(middle.mean())
    x = middle - centre
    # Only as much drift as there can be, in steps that move the ends of a window, or of all, by 0.1 ms.
    reach = min(place.slope_range, drift)
    least, most = max(-reach, -drift - place.slope), min(reach, drift - place.slope)
    half = (most - least) / 2
    inner = place.slope + np.linspace(least, most, 2 * math.ceil(half * length / 1e-4) + 1)
    outer = np.linspace(least, most, 2 * math.ceil(half * max(np.ptp(x), length) / 1e-4) + 1)
    power = np.stack([windows.power(slope) for slope in inner])  # (slopes, windows, lags)
    lags = power.shape[2]
    best = (-1.0, 0, 0.0)
    margin = (lags - 1) // 2
    total = np.zeros(lags)
    likely = np.exp(-0.5 * ((np.arange(lags) - margin) / (_COARSE_SIGMA_S * FINE_RATE)) ** 2)
    tops: list[float] = []
    for extra in outer:
        chosen = power[int(np.argmin(np.abs(inner - place.slope - extra)))]
        moved = np.round(extra * x * FINE_RATE).astype(int)
        trial = np.zeros(lags)
        for row, shift in zip(chosen, moved, strict=True):
            low, high = max(0, -shift), min(lags, lags - shift)
            trial[low:high] += row[low + shift : high + shift]
            trial[:low] += 1.0
            trial[high:] += 1.0
        # A strong reflection can be louder than the direct sound, but it is late; the coarse place is not.
        weighed = len(x) + (trial - len(x)) * likely
        top = int(np.argmax(weighed))
        tops.append(float(weighed[top]))
        if weighed[top] > best[0]:
            best, total = (float(weighed[top]), top, float(extra)), weighed
    fit.height = best[0] / len(x)
    echoes = _reflections(total, best[1])
    guard = round(SAME_S * FINE_RATE)
    away = np.r_[total[: max(best[1] - guard, 0)], total[best[1] + guard + 1 :]]
    noise = float(np.median(total))
    fit.second_peak = (
        float(np.clip((away.max() - noise) / max(best[0] - noise, 1e-9), 0, 1)) if len(away) else 0.0
    )
    slope = place.slope + best[2]
    level = float(place.delay(centre)) + (best[1] - margin) / FINE_RATE
    chosen = power[int(np.argmin(np.abs(inner - slope)))]
    # Envelopes are relative to the candidate's own delays, and so is the last search.
    _refine(fit, chosen, x, (best[1] - margin) / FINE_RATE, best[2], (least, most))
    fit.chance = min(fit.chance * lags * len(outer), 1.0)
    if fit.line is None:
        fit.line = Place(level, centre, slope, 0.0, fit.height)
    else:
        fit.line.delay_s += float(place.delay(centre))
        fit.line.slope += place.slope
        fit.line.at_s = centre
    fit.level_sigma_s = math.hypot(fit.level_sigma_s, echoes)
    fit.slope_sigma = math.hypot(
        fit.slope_sigma, _other_slopes(np.array(tops), outer, float(np.median(total)))
    )
    return fit


def _other_slopes(tops: Array, slopes: Array, noise: float) -> float:
    """Spread of the slope over trial lines away from the best that are nearly as good."""
    best = int(np.argmax(tops))
    weight = (np.maximum(tops - noise, 0) / max(float(tops[best]) - noise, 1e-9)) ** _SLOPE_POWER
    far = np.abs(np.arange(len(tops)) - best) > 4
    weight[~far] = 0.0
    return float(np.sqrt(weight @ (slopes - slopes[best]) ** 2 / (1 + weight.sum())))


def _reflections(total: Array, top: int) -> float:
    """Spread (s) of the delay over the peaks about the highest, by how likely each is the direct sound."""
    noise = float(np.median(total))
    reach = round(_REFLECTION_S * FINE_RATE)
    low, high = max(top - reach, 1), min(top + reach + 1, len(total) - 1)
    at = np.arange(low, high)
    peaks = at[(total[at] > total[at - 1]) & (total[at] >= total[at + 1]) & (total[at] > noise)]
    # Only what stands clear of the noise of this sum counts.
    least = noise + 5.0 * 1.4826 * float(np.median(np.abs(total - noise)))
    peaks = peaks[total[peaks] > least]
    if not len(peaks) or total[top] <= noise:
        return 0.0
    weight = (np.maximum(total[peaks] - noise, 0) / (total[top] - noise)) ** _REFLECTION_POWER
    return float(np.sqrt((weight @ (peaks - top) ** 2) / weight.sum())) / FINE_RATE


def _refine(fit: Fit, power: Array, x: Array, level: float, extra: float, reach: tuple[float, float]) -> None:
    """The top of the sum over levels and slopes to a fraction of a sample, and the jackknife about it."""
    from scipy.ndimage import map_coordinates
    from scipy.stats import gamma

    margin = (power.shape[1] - 1) // 2
    half = max(float(np.ptp(x)) / 2, 0.5)
    levels = np.linspace(-_NEAR_S, _NEAR_S, 61)
    slopes = np.linspace(-_NEAR_S, _NEAR_S, 31) / half
    for _ in range(4):
        where = level + levels[None, :, None] + (extra + slopes[:, None, None]) * x
        rows = np.broadcast_to(np.arange(len(x)), where.shape)
        each = map_coordinates(power, [rows, margin + where * FINE_RATE], order=3, mode="constant", cval=1.0)
        inside = (extra + slopes >= reach[0] - 1e-9) & (extra + slopes <= reach[1] + 1e-9)
        each[~inside] = 0.0
        ds, dl = _top(each.sum(axis=2), slopes, levels)
        if abs(dl) < 0.8 * _NEAR_S and abs(ds) < 0.8 * _NEAR_S / half:
            break
        level, extra = level + dl, extra + ds
    fit.line = Place(level + dl, 0.0, float(np.clip(extra + ds, *reach)), 0.0, fit.height)
    on_line = margin + np.round((level + dl + (extra + ds) * x) * FINE_RATE).astype(int)
    near = round(0.0005 * FINE_RATE)
    tops = [
        row[max(i - near, 0) : i + near + 1].max(initial=0.0) for row, i in zip(power, on_line, strict=True)
    ]
    fit.heard = int(np.sum(np.array(tops) > 5.0))
    # One window alone must not decide: a jingle or a sentence from a loudspeaker is in many recordings.
    there = np.minimum(power[np.arange(len(x)), np.clip(on_line, 0, power.shape[1] - 1)], _MOST_PER_WINDOW)
    fit.chance = float(gamma.sf(float(there.sum()), len(x)))
    groups = min(_GROUPS, len(x))
    if groups < 3:
        return
    member = np.arange(len(x)) * groups // len(x)
    everything = each.sum(axis=2)
    left_out = [_top(everything - each[..., member == g].sum(axis=2), slopes, levels) for g in range(groups)]
    spread = np.sqrt((groups - 1) / groups * ((left_out - np.mean(left_out, axis=0)) ** 2).sum(axis=0))
    # No less than a hundredth of the width of a peak; the slope no less than what that means for its ends.
    fit.level_sigma_s = float(max(spread[1], 1e-5))
    fit.slope_sigma = float(max(spread[0], 1e-5 / half))


def _top(height: Array, slopes: Array, levels: Array) -> tuple[float, float]:
    """(slope, level) of the maximum of (slopes, levels), between grid points by parabolas."""
    i, j = np.unravel_index(int(np.argmax(height)), height.shape)
    di, dj = vertex(height[:, j], int(i)) - i, vertex(height[i], int(j)) - j
    return float(slopes[i] + di * (slopes[1] - slopes[0])), float(levels[j] + dj * (levels[1] - levels[0]))


def _window_times(
    flux_a: Flux, flux_b: Flux, place: Place, start: float, stop: float, length: float
) -> Array:
    """Starts (s, in `other`) of disjoint windows, one per slot, where something happens in both."""
    slots = max(min(int((stop - start) / length), _WINDOWS), 1)
    times = []
    for low, high in itertools.pairwise(np.linspace(start, stop, slots + 1)):
        tries = np.arange(low, max(high - length, low) + 1e-6, max(length / 4, 0.25))
        worth = []
        for t in tries:
            shifted = max(t + place.delay(t), 0.0)
            in_b = flux_b.activity[int(t) : int(t + length) + 1]
            in_a = flux_a.activity[int(shifted) : int(shifted + length) + 1]
            worth.append(min(in_a.sum(), in_b.sum()) if len(in_a) and len(in_b) else 0.0)
        times.append(float(tries[int(np.argmax(worth))]))
    return np.array(times)


class _Windows:
    """Cross-spectra of all windows of a candidate, block by block of half a second."""

    def __init__(self, a: Sound, b: Sound, top_hz: float, times: Array, length: float, place: Place) -> None:
        frequency = np.fft.rfftfreq(_NFFT, 1 / FINE_RATE)
        self._band = np.flatnonzero((frequency >= 100.0) & (frequency <= top_hz))
        self._omega = 2 * np.pi * frequency[self._band]
        self._margin = round(_SEARCH_S * FINE_RATE)
        count = max(round(length * FINE_RATE / _BLOCK), 1)
        block = min(_BLOCK, int(length * FINE_RATE / count))
        taper = np.hanning(block + 2)[1:-1]
        shape = (len(times), count, len(self._band))
        x, y = np.empty(shape, np.complex64), np.empty(shape, np.complex64)
        for w, t in enumerate(times):
            expected = float(place.delay(t + length / 2))
            begin = t + expected - _SEARCH_S
            sound_y = _onsets(_read(b, t, count * block))
            sound_x = _onsets(_read(a, begin, count * block + 2 * self._margin))
            # Both reads begin at whole frames of their files; the lags count from `expected`.
            late = (round(begin * a.rate) / a.rate - begin) - (round(t * b.rate) / b.rate - t)
            turn = np.exp(-1j * self._omega * late)
            for k in range(count):
                part = sound_y[k * block : (k + 1) * block] * taper
                y[w, k] = np.fft.rfft(part, _NFFT)[self._band]
                part = sound_x[k * block : (k + 1) * block + 2 * self._margin]
                x[w, k] = np.fft.rfft(part, _NFFT)[self._band] * turn
        self._cross = _whitened(x, y)
        self._middle = (np.arange(count) + 0.5) * block / FINE_RATE - 0.5 * length

    def power(self, slope: float) -> Array:
        """(windows, lags) squared envelope when the delay grows by `slope` s per s; noise is 1 on average."""
        turn = np.exp(1j * self._omega * (slope * self._middle[:, None])).astype(np.complex64)
        full = np.zeros((len(self._cross), _NFFT), np.complex64)
        full[:, self._band] = np.einsum("wkf,kf->wf", self._cross, turn)
        height = np.abs(np.fft.ifft(full, axis=1)[:, : 2 * self._margin + 1]) ** 2
        # The median of an exponential distribution is ln 2 of its mean.
        middle = np.median(height, axis=1, keepdims=True) / math.log(2)
        height = height.astype(np.float64) / np.maximum(middle, 1e-30)
        # No window counts for more than a hundred times its noise.
        return height * np.minimum(100.0 / np.maximum(height.max(axis=1, keepdims=True), 1e-30), 1.0)


def _whitened(x: NDArray[np.complex64], y: NDArray[np.complex64]) -> NDArray[np.complex64]:
    product = x * np.conj(y)
    weight = 1.0 / np.maximum(np.abs(product), 1e-30)
    for z in (x, y):
        power = np.asarray(np.abs(z) ** 2)
        # Noise per bin: what is there in the quietest blocks (15 % of an exponential: 0.16 of its mean).
        noise = np.quantile(power.reshape(-1, power.shape[2]), 0.15, axis=0) / 0.1625
        noise = np.convolve(np.pad(noise, 8, mode="edge"), np.ones(17) / 17, "valid")
        weight *= power / (power + 2.0 * noise + 1e-30)
    return np.asarray(product * weight, np.complex64)


def _read(sound: Sound, t: float, frames: int) -> NDArray[np.float32]:
    """`frames` at 16 kHz from the whole frame of the file that is next to time t."""
    x = mono(sound, round(t * sound.rate), math.ceil(frames * sound.rate / FINE_RATE) + 1)
    if sound.rate != FINE_RATE:
        from dsp.resample import resample

        x = np.asarray(resample(x[:, None], sound.rate, FINE_RATE))[:, 0]
    return np.pad(x[:frames], (0, max(frames - len(x), 0)))


def _onsets(x: NDArray[np.float32]) -> Array:
    """The rises of a signal at 16 kHz, band by band: its energy beyond a multiple of that of the past."""
    from scipy import fft
    from scipy.signal import lfilter

    size = fft.next_fast_len(len(x), real=True)
    spectrum = fft.rfft(x.astype(np.float64), size)
    frequency = np.fft.rfftfreq(size, 1 / FINE_RATE)
    width = round(_ONSET_S * FINE_RATE)
    smooth = np.hanning(2 * width + 1) / width
    keep = math.exp(-1 / (_PAST_S * FINE_RATE))
    out = np.zeros(len(x))
    for low, high in itertools.pairwise(_ONSET_BANDS_HZ):
        band = fft.irfft(np.where((frequency >= low) & (frequency < high), spectrum, 0), size)[: len(x)]
        energy = np.convolve(band**2, smooth, "same") + 1e-20
        past = lfilter([1 - keep], [1, -keep], np.concatenate([np.zeros(width), energy[:-width]]))
        out += np.clip(1 - _PAST_GAIN * past / energy, 0, 1) * band
    return out


def vertex(y: Array, i: int) -> float:
    """Place of a maximum between samples, by a parabola."""
    if not 0 < i < len(y) - 1:
        return float(i)
    bend = y[i - 1] - 2 * y[i] + y[i + 1]
    return i + (0.5 * float(y[i - 1] - y[i + 1]) / float(bend) if bend < 0 else 0.0)
