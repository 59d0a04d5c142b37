"""Beeps in sound: when their direct sound begins.

Three kinds. `find_chirps`: the chirp of our own page, by its matched filter, of which the first peak counts
and not the largest. `find_tones`: any tone, whose beginning is the change of variance that is most likely
(Maeda, 1985; the AIC picker of seismology). `find_claps`: the same for anything sudden. All give the first
arrival, which a room's echoes do not move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CHIRP_S, CHIRP_LOW_HZ, CHIRP_HIGH_HZ, CHIRP_TAPER_S = 0.08, 1500.0, 6500.0, 0.02
"""The page's beep: a linear chirp with raised cosine ends; `sync_show.html` makes the same from these."""

SIGMA_CHIRP_MS, SIGMA_TONE_MS, SIGMA_CLAP_MS, SIGMA_LENGTH_MS = 0.02, 0.04, 0.3, 0.5
SIGMA_ALL_MS = {"screen": 0.03, "light": 0.08, "clap": 0.3}
"""What the beginnings of all beeps may have in common: an onset that is picked a little late."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beep:
    """A beginning of sound in seconds from the first sample, and how well it is known."""

    time_s: float
    sigma_ms: float


def chirp(fs: float, delay_s: float = 0.0) -> Floats:
    """The page's beep as samples (n,), peak 1, beginning delay_s (less than a sample or more) after the
    first."""
    t = np.arange(round((CHIRP_S + delay_s) * fs) + 1) / fs - delay_s
    rate = (CHIRP_HIGH_HZ - CHIRP_LOW_HZ) / CHIRP_S
    inside = (t >= 0) & (t <= CHIRP_S)
    ramp = np.clip(np.minimum(t, CHIRP_S - t) / CHIRP_TAPER_S, 0, 1)
    shape = 0.5 - 0.5 * np.cos(np.pi * ramp)
    return np.where(inside, shape * np.sin(2 * np.pi * (CHIRP_LOW_HZ * t + 0.5 * rate * t**2)), 0.0)


def find_chirps(x: Floats, fs: float, apart_s: float = 0.4) -> list[Beep]:
    """Chirps of the page in mono sound (n,); none when nothing stands out as such."""
    from scipy.signal import hilbert

    template = chirp(fs)
    if len(x) < 4 * len(template) or fs < 2.1 * CHIRP_HIGH_HZ:
        return []
    found: list[Beep] = []
    piece, overlap = round(20 * fs), len(template) + round(0.1 * fs)
    taken = -np.inf
    reversed_template = np.conj(hilbert(template))[::-1]
    energy = float(np.sum(template**2))
    for first in range(0, len(x), piece):
        part = x[max(0, first - round(0.05 * fs)) : first + piece + overlap]
        start = max(0, first - round(0.05 * fs))
        if len(part) < 2 * len(template):
            break
        envelope, likeness = _matched(part, reversed_template, energy)
        floor = float(np.median(envelope))
        order = np.flatnonzero((likeness > 0.15) & (envelope > 8 * floor))
        while len(order):
            # The largest of what follows within the time of one event.
            group = order[order < order[0] + round(0.5 * apart_s * fs)]
            top = int(group[np.argmax(envelope[group])])
            direct = _first_peak(envelope, top, fs)
            at = (start + direct) / fs
            if start + direct < first + piece and at > taken + apart_s and start + direct >= first:
                snr = float(envelope[int(direct)] / max(floor, 1e-30))
                found.append(Beep(at, float(np.hypot(SIGMA_CHIRP_MS, 1.0 / max(snr, 1.0) / 5.0))))
                taken = at
            order = order[order > top + round(apart_s * fs)]
    return found


def _matched(part: Floats, template: NDArray[np.complex128], energy: float) -> tuple[Floats, Floats]:
    """Envelope of the correlation at each beginning, and its likeness to the template, 0 to 1."""
    from scipy.signal import fftconvolve

    envelope = np.abs(fftconvolve(part, template, "valid")) / 2
    total = np.cumsum(np.concatenate([[0.0], part**2]))
    local = total[len(template) :] - total[: -len(template)]
    likeness = envelope / np.sqrt(np.maximum(local, 1e-9 * float(local.max(initial=1e-30))) * energy)
    return envelope, likeness


def _first_peak(envelope: Floats, top: int, fs: float) -> float:
    """Sample (with fraction) of the direct sound: the first peak that has half the height of the largest."""
    begin = max(1, top - round(0.03 * fs))
    part = envelope[begin : top + 1]
    over = np.flatnonzero(part >= 0.5 * envelope[top])
    k = begin + int(over[0]) if len(over) else top
    while k + 1 < len(envelope) and envelope[k + 1] > envelope[k]:
        k += 1
    if k + 1 >= len(envelope):
        return float(k)
    a, b, c = envelope[k - 1], envelope[k], envelope[k + 1]
    curve = a - 2 * b + c
    return k + (0.5 * (a - c) / curve if curve < 0 else 0.0)


def find_tones(x: Floats, fs: float, near_s: list[float], search_s: float) -> list[Beep]:
    """Beeps of one tone within search_s of the given times (seconds): the one that rises most at all of
    them."""
    from recordings.av_offset import tone_hz

    # That looks half a second to both sides of each time.
    looks = near_s if search_s <= 0.5 else list(np.arange(near_s[0] - search_s, near_s[-1] + search_s, 1.0))
    tone = tone_hz(x, fs, looks)
    if tone is None:
        return []
    smooth = _high_pass(x, fs, min(0.5 * tone, 1000.0))
    hop = round(0.001 * fs)
    power = _tone_power(x, fs, tone, hop)
    total = np.cumsum(np.concatenate([[0.0], power]))
    mid = np.arange(60, len(power) - 16)
    if len(mid) < 1:
        return []
    after = (total[mid + 15] - total[mid]) / 15
    before = (total[mid - 2] - total[mid - 60]) / 58
    rise = 10 * np.log10((after + 1e-30) / (before + 1e-6 * float(power.max()) + 1e-30))
    wanted = np.zeros(len(mid), bool)
    for t in near_s:
        wanted |= np.abs(mid * hop / fs - t) < search_s + 0.05
    # A beep is about as loud as the others; what rises by more than 6 dB but is far weaker is an echo or a
    # word.
    peaks = [float(after[np.abs(mid * hop / fs - t) < search_s].max(initial=0.0)) for t in near_s]
    loud = after > 0.1 * float(np.median(peaks))
    found: list[Beep] = []
    taken = -np.inf
    order = np.flatnonzero((rise > 6.0) & wanted & loud)
    while len(order):
        group = order[order < order[0] + 60]
        best = int(group[np.argmax(rise[group])])
        k = int(mid[best])
        top = float(power[k : k + 30].max())
        floor = float(np.median(power[max(0, k - 100) : max(1, k - 40)]))
        back = max(0, k - 20)
        over = np.flatnonzero(power[back : k + 30] > max(0.1 * top, min(4 * floor, 0.5 * top)))
        onset = _pick(smooth, fs, (back + int(over[0])) * hop / fs, 0.02, 0.004) if len(over) else None
        if onset is not None and onset > taken + 0.15:
            found.append(Beep(onset, SIGMA_TONE_MS))
            taken = onset
        order = order[order > best + 100]
    return found


def _tone_power(x: Floats, fs: float, tone_hz: float, hop: int) -> Floats:
    """Power of a tone in windows of 4 ms (Hann), one value per hop, of the window around its middle."""
    window = np.hanning(4 * hop + 1)
    window /= window.sum()
    out = np.empty(len(x) // hop)
    piece = 1 << 18
    piece -= piece % hop
    for first in range(0, len(out) * hop, piece):
        begin = max(0, first - 2 * hop)
        part = x[begin : first + piece + 2 * hop]
        carrier = np.exp(-2j * np.pi * tone_hz / fs * np.arange(len(part)))
        tone = np.convolve(part * carrier, window, "same")[first - begin :: hop]
        count = min(len(out) - first // hop, piece // hop)
        out[first // hop : first // hop + count] = np.abs(tone[:count]) ** 2
    return out


def tone_length(
    x: NDArray[np.float32], fs: float, onsets_s: list[float], expect_s: float, slack_s: float
) -> float | None:
    """How long the tones last (seconds), all of them being equal; None where their end is not clear.

    Where a tone ends, its complex envelope jumps by as much as where it began, even when echoes keep its
    size up: the squares of that jump are added over all tones, counted from their beginnings.
    """
    lags = np.arange(round((expect_s - slack_s) * fs), round((expect_s + slack_s) * fs))
    width = round(0.004 * fs)
    margin = round(0.01 * fs)
    clips = []
    for onset in onsets_s:
        first = round(onset * fs)
        if first > margin and first + lags[-1] + 2 * margin < len(x):
            clips.append(x[first - margin : first + int(lags[-1]) + 2 * margin].astype(np.float64))
    if len(clips) < 4 or lags[0] < 3 * width:
        return None
    steady = np.array([clip[margin + width : margin + max(int(lags[0]), 3 * width)] for clip in clips])
    size = 8 * steady.shape[1]
    power = np.sum(np.abs(np.fft.rfft(steady * np.hanning(steady.shape[1]), size, axis=1)) ** 2, axis=0)
    power[: round(400 / fs * size)] = 0.0
    tone_hz = float(np.argmax(power)) * fs / size
    carrier = np.exp(-2j * np.pi * tone_hz / fs * np.arange(len(clips[0])))
    total = np.zeros(len(clips[0]) - 2 * width + 1)
    begins = []
    for clip in clips:
        sums = np.cumsum(np.concatenate([[0.0], clip * carrier]))
        means = (sums[width:] - sums[:-width]) / width
        jump = np.abs(means[width:] - means[:-width]) ** 2  # at index i: around i + width
        begins.append(float(jump[margin - width : margin - width // 2].max()))
        total += jump / max(begins[-1], 1e-30)
    total /= len(clips)
    around = total[lags + margin - width]
    top = float(around.max())
    if top < 0.4 or top < 4 * float(np.median(around)):
        return None
    k = int(np.flatnonzero(around > 0.7 * top)[0])
    k += int(np.argmax(around[k : k + width]))
    return float(lags[k]) / fs


def find_claps(x: Floats, fs: float, apart_s: float = 0.4) -> list[Beep]:
    """Whatever begins suddenly and stands 12 dB over the sound before it: claps, knocks."""
    smooth = _high_pass(x, fs, 500.0)
    hop = round(0.002 * fs)
    power = np.add.reduceat(smooth**2, np.arange(0, len(smooth) - hop, hop)) + 1e-14
    if len(power) < 60:
        return []
    total = np.cumsum(np.concatenate([[0.0], power]))
    mid = np.arange(20, len(power) - 3)
    after = (total[mid + 3] - total[mid]) / 3
    before = (total[mid] - total[mid - 20]) / 20
    rise = 10 * np.log10(after / before)
    loud = after > 0.02 * float(np.quantile(after, 1 - min(0.5, 20 / len(after))))
    found: list[Beep] = []
    order = np.flatnonzero((rise > 12.0) & loud)
    taken = -np.inf
    for k in order:
        near = order[(order >= k) & (order < k + 10)]
        best = int(near[np.argmax(rise[near])])
        onset = _pick(smooth, fs, float(mid[best] * hop / fs), 0.02, 0.006)
        if onset is not None and onset > taken + apart_s:
            found.append(Beep(onset, SIGMA_CLAP_MS))
            taken = onset
    return found


def _high_pass(x: Floats, fs: float, low_hz: float) -> Floats:
    from scipy.signal import butter, sosfilt

    return np.asarray(sosfilt(butter(2, low_hz, "highpass", fs=fs, output="sos"), x))


def _pick(x: Floats, fs: float, near_s: float, before_s: float, after_s: float) -> float | None:
    """Beginning of sound near a time: the split of a stretch into two of constant variance that is most
    likely, looked for once coarsely and once around the first find. Seconds, or None at the ends of the
    sound."""
    at = near_s
    for back, ahead in ((before_s, after_s + 0.004), (0.012, after_s)):
        first, last = round((at - back) * fs), round((at + ahead) * fs)
        if first < 0 or last > len(x):
            return None
        squares = x[first:last] ** 2 + 1e-16
        n = len(squares)
        total = np.cumsum(squares)
        k = np.arange(8, n - 8)
        left = total[k - 1] / k
        right = (total[-1] - total[k - 1]) / (n - k)
        cost = k * np.log(left) + (n - k) * np.log(right)
        at = (first + int(k[np.argmin(cost)])) / fs
    return at
