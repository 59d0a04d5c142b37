"""The coarse half of recordings.align: where could one recording lie in the other?

Rises of log energy in 18 bands, 100 per second (spectral flux: Bello et al., IEEE TSAP 13 (2005)), of
pieces of a minute of the shorter recording, against the whole of the other by FFT. The peaks of the pieces
that lie on one line of possible drift make a candidate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_OVERLAP_S = 3.0
_STEP_S = 0.01  # of the features
_PIECE_S = 60.0
_MAX_PIECES = 90
_BANDS = 18
_LOW_HZ = 150.0
_PEAKS_PER_PIECE = 24
COARSE_TOLERANCE_S = 0.025


class Sound(Protocol):
    """What is read: an AudioFile, or anything like it."""

    rate: int
    frames: int

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]: ...


def mono(sound: Sound, start: int, count: int) -> NDArray[np.float32]:
    """`count` frames from `start`, one channel, zeros outside the recording and for what is not finite."""
    out = np.zeros(count, np.float32)
    first, last = max(start, 0), min(start + count, sound.frames)
    if first < last:
        x = sound.read(first, last - first)
        if x.ndim == 2:
            x = x[:, 0] if x.shape[1] == 4 and x[:, 0].any() else x.mean(axis=1)
        out[first - start : first - start + len(x)] = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    return out


@dataclass
class Flux:
    """rises: (frames, bands) unit-variance rises per band; activity: (seconds,) how much happens."""

    rises: NDArray[np.float32]
    activity: Array
    duration_s: float


def flux(sound: Sound, top_hz: float) -> Flux:
    rate, step = sound.rate, sound.rate * _STEP_S
    width = round(0.03 * rate)
    nfft = 1 << (width - 1).bit_length()
    edges = np.geomspace(_LOW_HZ, top_hz, _BANDS + 1)
    line = np.searchsorted(edges, np.fft.rfftfreq(nfft, 1 / rate), side="right") - 1
    to_bands = np.zeros((nfft // 2 + 1, _BANDS), np.float32)
    inside = (line >= 0) & (line < _BANDS)
    to_bands[np.flatnonzero(inside), line[inside]] = 1.0
    window = np.hanning(width).astype(np.float32)
    count = max(int((sound.frames - width) / step) + 1, 1)
    energy = np.empty((count, _BANDS), np.float32)
    for first in range(0, count, 2000):
        starts = np.round(np.arange(first, min(first + 2000, count)) * step).astype(np.int64)
        x = mono(sound, int(starts[0]), int(starts[-1] - starts[0]) + width)
        frames = np.lib.stride_tricks.sliding_window_view(x, width)[starts - starts[0]]
        spectrum = np.fft.rfft(frames * window, nfft, axis=1)
        energy[first : first + len(starts)] = (spectrum.real**2 + spectrum.imag**2).astype(
            np.float32
        ) @ to_bands
    used = to_bands.any(axis=0)
    # A floor well below the quiet parts: silence of a codec or a gate must not make cliffs of 100 dB.
    floor = np.maximum(0.5 * np.quantile(energy, 0.1, axis=0), 1e-6 * energy.mean(axis=0)) + 1e-20
    level = np.log(energy + floor)
    rise = np.zeros_like(level)
    rise[1:-1] = np.maximum(level[2:] - level[:-2], 0.0)
    rise[:, ~used] = 0.0
    from scipy.ndimage import uniform_filter1d

    rise -= uniform_filter1d(rise, 101, axis=0)
    spread = rise.std(axis=0)
    rise = np.clip(np.divide(rise, spread, out=np.zeros_like(rise), where=spread > 1e-6), -2.0, 6.0)
    seconds = max(count // 100, 1)
    loud = np.maximum(rise[: seconds * 100], 0).sum(axis=1)
    activity = np.add.reduceat(loud, np.arange(0, len(loud), 100))[:seconds]
    return Flux(rise.astype(np.float32), activity.astype(np.float64), sound.frames / rate)


@dataclass
class Place:
    """A candidate: t_reference - t_other = delay_s + slope * (t_other - at_s)."""

    delay_s: float
    at_s: float
    slope: float
    slope_range: float
    score: float

    def delay(self, t_other: Any) -> Any:
        return self.delay_s + self.slope * (t_other - self.at_s)


def candidates(a: Flux, b: Flux, drift: float) -> list[Place]:
    """Candidates, best first."""
    chunked, whole = (b, a) if len(b.rises) <= len(a.rises) else (a, b)
    from scipy import fft

    total, length = len(chunked.rises), min(round(_PIECE_S / _STEP_S), len(chunked.rises))
    pieces = min(math.ceil(total / length), _MAX_PIECES)
    starts = np.round(np.linspace(0, total - length, pieces)).astype(int)
    size = fft.next_fast_len(len(whole.rises) + length, real=True)
    spectra = [fft.rfft(whole.rises[:, band], size) for band in range(_BANDS)]
    rows = []
    for number, start in enumerate(starts):
        piece = chunked.rises[start : start + length]
        cross = sum(
            spectra[band] * np.conj(fft.rfft(piece[:, band], size))
            for band in range(_BANDS)
            if piece[:, band].any()
        )
        if not isinstance(cross, np.ndarray):
            continue
        for lag, z in _peaks(fft.irfft(cross, size), len(whole.rises), length):
            centre = (start + length / 2) * _STEP_S
            shift = (lag - start) * _STEP_S  # time in whole - time in chunked
            rows.append((centre, shift, z, number) if chunked is b else (centre + shift, -shift, z, number))
    return _lines(np.array(rows).reshape(-1, 4), drift)


def _peaks(raw: NDArray[np.float32], whole: int, length: int) -> list[tuple[float, float]]:
    """(place of the piece in the whole in frames, z) of the highest peaks of one circular correlation."""
    least = round(MIN_OVERLAP_S / _STEP_S)
    lags = np.arange(least - length, whole - least + 1)
    if len(lags) < 3:
        return []
    overlap = np.minimum(whole, lags + length) - np.maximum(lags, 0)
    z = np.concatenate([raw[len(raw) + lags[0] :], raw[: lags[-1] + 1]]) if lags[0] < 0 else raw[lags]
    z = z / np.sqrt(overlap)
    z -= np.median(z)
    z /= max(1.4826 * float(np.median(np.abs(z))), 1e-9)
    top = np.flatnonzero((z[1:-1] >= z[:-2]) & (z[1:-1] > z[2:])) + 1
    top = top[np.argsort(-z[top])[: 4 * _PEAKS_PER_PIECE]]
    kept: list[tuple[float, float]] = []
    for i in top:
        if len(kept) == _PEAKS_PER_PIECE or z[i] < 3.5:
            break
        if all(abs(lags[i] - other) > 4 for other, _ in kept):
            bend = z[i - 1] - 2 * z[i] + z[i + 1]
            part = 0.5 * (z[i - 1] - z[i + 1]) / bend if bend < 0 else 0.0
            kept.append((float(lags[i] + part), float(z[i])))
    return kept


def _lines(rows: Array, drift: float) -> list[Place]:
    places: list[Place] = []
    x, delay, z, piece = rows.T
    free = np.ones(len(rows), bool)
    for seed in np.argsort(-z)[:200]:
        if not free[seed]:
            continue
        near = np.abs(delay - delay[seed]) <= COARSE_TOLERANCE_S + drift * np.abs(x - x[seed])
        best = [np.flatnonzero(near & (piece == p)) for p in np.unique(piece[near])]
        line = np.array([group[np.argmax(z[group])] for group in best])
        # The slope that most of the pieces agree on, through the seed.
        slopes = np.linspace(-drift, drift, 101) if len(line) > 1 else np.zeros(1)
        off = np.abs(delay[line] - delay[seed] - slopes[:, None] * (x[line] - x[seed]))
        worth = (np.maximum(1 - off / COARSE_TOLERANCE_S, 0) * z[line] ** 2).sum(axis=1)
        slope = slopes[np.argmax(worth)]
        line = line[off[np.argmax(worth)] <= COARSE_TOLERANCE_S]
        span = float(np.ptp(x[line]))
        if len(line) > 2 and span > 60:
            centre = np.average(x[line], weights=z[line])
            slope, level = np.polyfit(x[line] - centre, delay[line], 1, w=z[line])
            slope = float(np.clip(slope, -drift, drift))
        else:
            centre, level = x[seed], delay[seed]
        free &= np.abs(delay - level - slope * (x - centre)) > COARSE_TOLERANCE_S
        known = min(drift, 0.03 / span) if span > 60 else drift
        score = float(np.sqrt((z[line] ** 2).sum()))
        places.append(Place(float(level), float(centre), float(slope), known, score))
    places.sort(key=lambda place: -place.score)
    return places
