"""What a recording says about its own sound field: energies, covariances and delays between FOA channels.

The statistics behind `dsp.check`. Two facts carry them. In any sound field (X^2+Y^2+Z^2)/W^2 is 1 in SN3D on
average: for a plane wave exactly, for a diffuse field in the mean over frequency and place. And in a room
the late sound comes from everywhere, so that X, Y, Z are about equally strong and the capsules of a
tetrahedron hear much in common (correlation 2/3 for cardioids in a diffuse field). Noise of the microphone is
taken from the quietest frames and subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.ambisonics import conversion_matrix

Floats = NDArray[np.floating[Any]]
FS = 24000
_MOST_S = 60.0
_STEADY = 2.0  # louder frames this little above the quietest: a steady sound, of which noise cannot be told


def excerpt(x: Floats, fs: int) -> Floats:
    """At most a minute of a signal: six pieces spread evenly, or all of a shorter one."""
    most = int(_MOST_S * fs)
    if len(x) <= most:
        return x
    piece = most // 6
    starts = np.linspace(0, len(x) - piece, 6).astype(int)
    return np.concatenate([x[s : s + piece] for s in starts])


def spectra(x: Floats, size: int) -> NDArray[np.complex128]:
    """(frames, 4, size // 2 + 1) Hann-windowed spectra with half overlap."""
    if len(x) < size:
        x = np.concatenate([x, np.zeros((size - len(x), x.shape[1]))])
    window = np.hanning(size + 1)[:-1]
    pieces = np.lib.stride_tricks.sliding_window_view(x, size, axis=0)[:: size // 2]
    return np.fft.rfft(pieces * window, axis=-1)


def _smooth(x: Floats, width: int) -> Floats:
    from scipy.ndimage import uniform_filter1d

    return np.asarray(uniform_filter1d(x, width, axis=-1, mode="nearest"))


@dataclass(frozen=True)
class Field:
    """covariance, late: (4, 4) of W, Y, Z, X between 200 and 2000 Hz, noise subtracted and whitened over
    frequency: of the louder half of the frames, and of the frames in which the sound decays.
    spread_db: third eigenvalue against the first; near 0 when sound comes from everywhere, far below for one
    plane wave. steady: the sound never rises over
    its quietest tenth, so that noise was not subtracted. seconds: how much was analysed."""

    covariance: Floats
    late: Floats
    spread_db: float
    steady: bool
    seconds: float


def _frames(power: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """(quiet, loud, decaying) frames from (frames, bins) powers."""
    level = np.log(power + 1e-30).mean(axis=1)
    quiet = level <= np.quantile(level, 0.1)
    loud = level >= np.quantile(level, 0.5)
    decaying = np.zeros(len(level), bool)
    decaying[1:] = (level[1:] < level[:-1] - 0.3) & (level[1:] > np.quantile(level, 0.15))
    if decaying.sum() < 5:
        decaying = loud
    return quiet, loud, decaying


def analyse_field(ambix: Floats) -> Field:
    """Statistics of (frames, 4) AmbiX at 24 kHz."""
    size = 1024
    f = np.fft.rfftfreq(size, 1 / FS)
    z = spectra(ambix, size)[:, :, (f >= 200) & (f <= 2000)]
    quiet, loud, decaying = _frames(np.sum(np.abs(z) ** 2, axis=1))

    def mean(which: NDArray[np.bool_]) -> Floats:
        part = z[which]
        return np.asarray(np.einsum("tif,tjf->ijf", part, part.conj()).real / len(part))

    noise, strong, tail = mean(quiet), mean(loud), mean(decaying)
    rise = np.einsum("iif->", strong) / max(float(np.einsum("iif->", noise)), 1e-30)
    if rise < _STEADY:
        noise = np.zeros_like(noise)
    white = 1.0 / (_smooth(np.einsum("iif->f", strong), 9) + 1e-30)
    covariance = ((strong - noise) * white).sum(axis=-1)
    late = ((tail - noise) * white).sum(axis=-1)
    eigen = np.linalg.eigvalsh(covariance)
    spread = 10 * np.log10(max(float(eigen[1]), 1e-12) / max(float(eigen[-1]), 1e-12))
    return Field(covariance, late, float(spread), bool(rise < _STEADY), len(ambix) / FS)


def velocity_ratio_db(ambix: Floats) -> tuple[float, float]:
    """((X^2+Y^2+Z^2)/W^2 in dB as a coincident microphone would have it, its standard error in dB).

    The mean of two estimates with different errors: the energy ratio over all louder frames (200-4000 Hz,
    each frequency counting alike), and the median over onsets where the intensity is nearly that of a plane
    wave (300-3000 Hz). Capsules that do not lie in one point raise the ratio with frequency; the rise between
    1 and 5 kHz gives the amount that is taken off.
    """
    size = 2048
    f = np.fft.rfftfreq(size, 1 / FS)
    power = np.abs(spectra(ambix, size)) ** 2
    w, v = power[:, 0], power[:, 1:].sum(axis=1)
    quiet, loud, _ = _frames((w + v)[:, (f > 200) & (f < 5000)])
    noise_w, noise_v = w[quiet].mean(axis=0), v[quiet].mean(axis=0)
    steady = bool(np.sum(w[loud].mean(axis=0)) < _STEADY * np.sum(noise_w))
    if steady:
        noise_w, noise_v = 0 * noise_w, 0 * noise_v
    dw, dv = w[loud].mean(axis=0) - noise_w, v[loud].mean(axis=0) - noise_v
    white = 1.0 / (_smooth(w[loud].mean(axis=0) + v[loud].mean(axis=0), 17) + 1e-30)
    clear = _smooth(dw + dv, 17) > 1.5 * _smooth(noise_w + noise_v, 17)

    def band(low: float, high: float) -> float | None:
        k = (f >= low) & (f <= high) & clear
        top, bottom = float(np.sum(white[k] * dv[k])), float(np.sum(white[k] * dw[k]))
        return 10 * np.log10(top / bottom) if k.sum() > 5 and min(top, bottom) > 0 else None

    onset = _onset_ratio_db(ambix)
    overall, low, high = band(200, 4000), band(200, 2000), band(4000, 6000)
    rise = float(np.clip(high - low, 0.0, 5.0)) if high is not None and low is not None else None
    if overall is None and onset is None:
        return 0.0, float("inf")
    if overall is None or onset is None:
        value, error = (overall if overall is not None else onset), 0.8
    else:
        value, error = 0.57 * overall + 0.43 * onset, 0.43
    assert value is not None
    if steady:
        error = float(np.hypot(error, 0.3))
    if rise is None:
        rise, error = 1.95, float(np.hypot(error, 0.35))
    return float(value - 0.245 * rise), float(np.sqrt(error**2 + 0.5 / (len(ambix) / FS)))


def _onset_ratio_db(ambix: Floats) -> float | None:
    size = 256
    f = np.fft.rfftfreq(size, 1 / FS)
    z = spectra(ambix, size)[:, :, (f >= 300) & (f <= 3000)]
    w, v = np.abs(z[:, 0]) ** 2, np.sum(np.abs(z[:, 1:]) ** 2, axis=1)
    intensity = (z[:, :1].conj() * z[:, 1:]).real
    plane = np.sum(intensity**2, axis=1) / (w * v + 1e-30)
    energy = w + v
    past = np.zeros_like(energy)
    held = np.zeros(energy.shape[1])
    fade = 10 ** (-0.6 * (size / 2 / FS) / 0.06)
    for t in range(len(energy)):
        past[t] = held
        held = np.maximum(held * fade, energy[t])
    good = (energy > np.quantile(energy, 0.6, axis=0)) & (energy > np.quantile(energy, 0.5))
    good &= (energy > 4 * past) & (plane > 0.8)
    if good.sum() < 100:
        return None
    return float(10 * np.log10(np.median(v[good] / w[good])))


def capsule_statistics(covariance: Floats, layout: str) -> tuple[Floats, Floats]:
    """(level of each capsule against the mean of the others in dB, its mean correlation with the others)."""
    matrix = conversion_matrix("ambix", layout)
    c = matrix @ covariance @ matrix.T
    power = np.maximum(np.diag(c), 1e-12 * np.trace(c))
    level = np.array([10 * np.log10(power[i] / np.mean(np.delete(power, i))) for i in range(4)])
    correlation = c / np.sqrt(np.outer(power, power))
    return level, np.array([np.mean(np.delete(correlation[i], i)) for i in range(4)])


def invert_capsule(covariance: Floats, layout: str, capsule: int) -> Floats:
    """The covariance as it would be with one capsule's sign changed."""
    sign = np.ones(4)
    sign[capsule] = -1.0
    matrix = conversion_matrix(layout, "ambix") @ np.diag(sign) @ conversion_matrix("ambix", layout)
    return np.asarray(matrix @ covariance @ matrix.T)


def shifted_channel(ambix: Floats) -> tuple[float, int, int]:
    """(margin, channel, frames): the channel that fits best when taken as late by that many frames (24 kHz).

    Where a sound starts, the direct wave comes first and is in all channels at once. Short pieces around the
    sharpest starts are cross-correlated (phases only) for all pairs, with the sign squared away, because it
    depends on where the sound comes from. margin: the sum of the correlations at the shift against the sum
    at no shift; healthy rooms stay below 1.25. (0, 0, 0) if there are too few clear starts.
    """
    from scipy.signal import butter, sosfilt

    size, hop, most = 256, 32, 100
    x = sosfilt(butter(2, [300, 6000], "bandpass", fs=FS, output="sos"), ambix, axis=0)
    if len(x) < 4 * size:
        return 0.0, 0, 0
    running = np.concatenate([[0.0], np.cumsum(np.sum(x**2, axis=1))])
    energy = (running[size:] - running[:-size])[::hop]
    before = size // hop
    rise = np.zeros(len(energy))
    rise[before:] = np.log((energy[before:] + 1e-20) / (energy[:-before] + 1e-20))
    rise[energy < np.quantile(energy, 0.4)] = 0.0
    starts: list[int] = []
    taken = np.zeros(len(energy), bool)
    for t in np.argsort(rise)[::-1]:
        if rise[t] < 1.0 or len(starts) == 150:
            break
        if not taken[t]:
            taken[max(0, t - 2 * before + 1) : t + 2 * before] = True
            starts.append(int(t))
    if len(starts) < 4:
        return 0.0, 0, 0
    pieces = np.lib.stride_tricks.sliding_window_view(x, size, axis=0)[::hop][starts]
    z = np.fft.rfft(pieces * np.hanning(size), 2 * size, axis=-1)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    tables = []
    for i, j in pairs:
        cross = z[:, i] * z[:, j].conj()
        magnitude = np.abs(cross)
        cross = cross / (magnitude + 1e-3 * magnitude.mean(axis=1, keepdims=True) + 1e-20)
        lags = np.fft.irfft(cross, axis=1) / (np.fft.irfft(np.abs(cross), axis=1)[:, :1] + 1e-20)
        power = np.mean(lags**2, axis=0)
        tables.append(np.maximum(power, np.maximum(np.roll(power, 1), np.roll(power, -1))))
    unshifted = sum(float(table[0]) for table in tables)
    best = (0.0, 0, 0)
    for c in range(4):
        for d in range(-most, most + 1):
            if abs(d) >= 2:
                total = sum(
                    float(table[d if i == c else -d if j == c else 0])
                    for table, (i, j) in zip(tables, pairs, strict=True)
                )
                best = max(best, (total, c, d))
    return best[0] / unshifted, best[1], best[2]
