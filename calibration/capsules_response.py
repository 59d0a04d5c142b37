"""What each channel hears of one loudspeaker at a known direction: amplitude, sign, delay.

Of a response (a deconvolved sweep, or a clap) only the direct sound counts: from 1 ms before it to 1.5 ms
after it, less when a reflection comes earlier. All channels hear the same wave S(f) of unknown level and
colour, each by a real factor and late by its own time:

    X_c(f) = y_c S(f) exp(-j 2 pi f tau_c)

S is the weighted sum of the channels, y the projection on it, in turns until they agree. Noise is measured by
the same projection on what is before the direct sound.

Channels that are late by more than capsules 15 mm from the centre can be are found first, by the
cross-correlation of each pair over all directions together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.direct_arrival import (
    AFTER_S,
    BEFORE_S,
    Floats,
    _envelope,
    _second_pulse,
    _window,
    band_limited,
    find_direct,
)
from dsp.ambisonics import direction_to_unit
from dsp.errors import InputError

LEAST_WINDOW_S = 0.0008
"""After the direct sound: with less before a reflection a direction is refused."""

SHIFT_S = 60e-6
"""Two channels of one microphone are not further apart than this."""

_MOST_SHIFT_S = 0.012
_NEAR_S = 150e-6
BANDS_HZ = {"capsules": (500.0, 4500.0), "b_format": (300.0, 1200.0)}
"""Capsules are heard well up to where the body shades them; B-format is one only below where the spacing of
the capsules bends it."""

OCTAVES_HZ = (500.0, 1000.0, 2000.0, 4000.0, 8000.0)


@dataclass(frozen=True)
class Direction:
    """One measured direction. response: (frames, 4) in the channels of the file, a single impulse at `fs`
    with some 50 ms before and after. distance_m: of the loudspeaker, if known. sharp: False for a clap,
    which lasts so long that reflections near it cannot be seen."""

    name: str
    azimuth_deg: float
    elevation_deg: float
    response: NDArray[np.floating]
    fs: int
    sharp: bool = True

    @property
    def unit(self) -> Floats:
        return np.asarray(direction_to_unit(self.azimuth_deg, self.elevation_deg), np.float64)


@dataclass(frozen=True)
class Heard:
    """n directions as they were heard. u: (n, 3) unit vectors. y: (n, 4) real factors of the channels, each
    row of length 1. noise: (n, 4) sigma of y. delay_s: (n, 4), of each channel against the wave. snr_db: (n,)
    of the direct sound. window_s: (n,) used after it. octaves: (bands, n, 4) like y, per octave of
    OCTAVES_HZ, nan where there is nothing."""

    names: tuple[str, ...]
    u: Floats
    y: Floats
    noise: Floats
    delay_s: Floats
    snr_db: Floats
    window_s: Floats
    octaves: Floats

    def without(self, i: int) -> Heard:
        """All directions but one."""
        keep = np.arange(len(self.names)) != i
        fields = ("u", "y", "noise", "delay_s", "snr_db", "window_s")
        parts = {name: getattr(self, name)[keep] for name in fields}
        names = tuple(n for n, k in zip(self.names, keep, strict=True) if k)
        return replace(self, names=names, octaves=self.octaves[:, keep], **parts)


def channel_shifts(directions: Sequence[Direction]) -> Floats:
    """(4,) seconds by which each channel is late against the middle one; 0 for what is within SHIFT_S.

    Raises InputError when there is nothing to compare.
    """
    fs = directions[0].fs
    reach = round(_MOST_SHIFT_S * fs)
    total = np.zeros((4, 4, 2 * reach + 1))
    parts = []
    for direction in directions:
        h = band_limited(np.asarray(direction.response, np.float64), fs, 500.0, 6000.0)
        envelope = np.sqrt((h**2).sum(axis=1))
        at = int(np.argmax(envelope))
        parts.append(h[max(0, at - reach - round(0.003 * fs)) : at + reach + round(0.008 * fs)])
    # A weak channel counts as much as the others.
    each = np.array([(part**2).sum(axis=0) / max(float((part**2).sum()), 1e-300) for part in parts])
    level = np.sqrt(np.maximum(each.mean(axis=0), 1e-6))
    for part in parts:
        part = part / level
        energy = float((part**2).sum())
        if energy <= 0:
            continue
        size = 1 << (2 * len(part) - 1).bit_length()
        spectra = np.fft.rfft(part, size, axis=0)
        for c in range(4):
            for d in range(c):
                cross = np.fft.irfft(spectra[:, c] * np.conj(spectra[:, d]), size) / energy
                total[c, d] += np.concatenate([cross[-reach:], cross[: reach + 1]]) ** 2
    pairs = [(c, d) for c in range(4) for d in range(c)]
    top = np.array([total[pair].max() for pair in pairs])
    if not top.any():
        raise InputError("the responses are silent: nothing was recorded")
    lag = np.array([int(np.argmax(total[pair])) - reach for pair in pairs]) / fs
    rows = np.array([np.eye(4)[c] - np.eye(4)[d] for c, d in pairs])
    # Two axes may have little in common; a pair like that has a lag by chance.
    trust = (top / top.max()) ** 2
    weight = trust
    for _ in range(20):
        late = np.linalg.lstsq(rows * np.sqrt(weight)[:, None], lag * np.sqrt(weight), rcond=None)[0]
        weight = trust / (1 + (np.abs(rows @ late - lag) / 3e-5) ** 2)
    near = (np.abs(late[:, None] - late) < SHIFT_S).sum(axis=1)
    late = late - late[near == near.max()].mean() if near.max() > 1 else late - np.median(late)
    return np.where(np.abs(late) < SHIFT_S, 0.0, late)


def shifted_back(direction: Direction, late_s: ArrayLike) -> Direction:
    """With each channel early by whole frames next to `late_s`."""
    frames = np.rint(np.asarray(late_s) * direction.fs).astype(int)
    if not frames.any():
        return direction
    h = np.zeros_like(direction.response)
    for c, k in enumerate(frames):
        source = direction.response[max(0, k) : len(h) + min(0, k), c]
        h[max(0, -k) : max(0, -k) + len(source), c] = source
    return replace(direction, response=h)


def likeness(directions: Sequence[Direction]) -> tuple[Floats, Floats]:
    """(level (4,) of each channel, correlation (4, 4)) from 2 ms before to 8 ms after the direct sound of all
    directions together: copies and mixtures show, whatever the directions."""
    gram = np.zeros((4, 4))
    for direction in directions:
        fs = direction.fs
        h = band_limited(np.asarray(direction.response, np.float64), fs, 300.0, 6000.0)
        at = int(np.argmax((h**2).sum(axis=1)))
        part = h[max(0, at - round(0.002 * fs)) : at + round(0.008 * fs)]
        gram += part.T @ part / max(float((part**2).sum()), 1e-300)
    level = np.sqrt(np.diag(gram) / len(directions))
    return level, gram / np.maximum(np.sqrt(np.outer(np.diag(gram), np.diag(gram))), 1e-12)


@dataclass(frozen=True)
class DirectSound:
    """Direct sound of one direction: x (bins, 4) at f (bins,), and noise (windows, bins, 4) before it."""

    f: Floats
    x: NDArray[np.complex128]
    noise: NDArray[np.complex128]
    window_s: float
    echo_s: float


def direct_sound(direction: Direction, own_echo_s: float = np.nan) -> DirectSound:
    """Cut the direct sound out of a response. own_echo_s: see `own_echo`. Raises InputError for a response
    that cannot be used."""
    fs = direction.fs
    h = np.asarray(direction.response, np.float64)
    if h.ndim != 2 or h.shape[1] != 4 or len(h) < 0.02 * fs or not np.isfinite(h).all() or not h.any():
        raise InputError(f"{direction.name}: a response is (frames, 4), 20 ms or more, finite and not silent")
    envelope = np.sqrt((_envelope(band_limited(h, fs)) ** 2).sum(axis=1))
    at = find_direct(envelope, fs)
    echo = _second_pulse(envelope, fs, at) if direction.sharp else None
    if echo is not None and abs(echo / fs - own_echo_s) < 1e-4:
        echo = None
    before = round(BEFORE_S * fs)
    end = round(AFTER_S * fs) if echo is None else echo
    first, window = _window(len(h), at, before, end, round(0.0003 * fs))
    size = 1 << (8 * len(window) - 1).bit_length()
    f = np.asarray(np.fft.rfftfreq(size, 1 / fs), np.float64)
    used = (f >= 200) & (f <= min(12000.0, 0.45 * fs))
    x = np.fft.rfft(h[first : first + len(window)] * window[:, None], size, axis=0)[used]
    starts = range(
        max(0, first - round(0.045 * fs)), first - len(window) - round(0.002 * fs), len(window) // 2
    )
    quiet = [np.fft.rfft(h[s : s + len(window)] * window[:, None], size, axis=0)[used] for s in starts]
    noise = np.array(quiet) if quiet else np.zeros((1, *x.shape), complex)
    return DirectSound(f[used], x, noise, end / fs, np.nan if echo is None else echo / fs)


def stronger_reflection(direction: Direction) -> float:
    """Seconds after the direct sound of a later arrival, up to 30 ms, that is louder than it; nan: none."""
    fs = direction.fs
    h = band_limited(np.asarray(direction.response, np.float64), fs)
    envelope = np.sqrt((_envelope(h) ** 2).sum(axis=1))
    at = find_direct(envelope, fs)
    first = at + round(AFTER_S * fs)
    later = envelope[first : at + round(0.03 * fs)]
    if not direction.sharp or not later.size or later.max() <= envelope[at]:
        return float("nan")
    return (first - at + int(np.argmax(later))) / fs


def _weights(s: DirectSound, low_hz: float, high_hz: float) -> Floats:
    """(bins,) of a band with soft edges, each frequency divided by its own energy where that is clear."""
    edge = np.clip((s.f - 0.85 * low_hz) / (0.3 * low_hz), 0, 1)
    edge *= np.clip((1.15 * high_hz - s.f) / (0.3 * high_hz), 0, 1)
    energy = (np.abs(s.x) ** 2).sum(axis=1)
    noise = (np.abs(s.noise) ** 2).mean(axis=0).sum(axis=1)
    top = float((energy * (edge > 0)).max())
    return np.asarray(edge / (energy + 4 * noise + 1e-3 * top + 1e-300))


def _own_delays(s: DirectSound, weight: Floats) -> Floats:
    """(4,) seconds at which each channel is most like the loudest one, in either sign."""
    loud = int(np.argmax((weight[:, None] * np.abs(s.x) ** 2).sum(axis=0)))
    tries = np.arange(-_NEAR_S, _NEAR_S + 1e-7, 2e-6)
    turn = np.exp(2j * np.pi * tries[:, None] * s.f)
    found = np.zeros(4)
    for c in range(4):
        like = np.abs((turn @ (weight * s.x[:, c] * np.conj(s.x[:, loud]))).real)
        k = int(np.clip(np.argmax(like), 1, len(tries) - 2))
        a, b, d = like[k - 1 : k + 2]
        bend = a - 2 * b + d
        found[c] = tries[k] + (0.5 * 2e-6 * (a - d) / bend if bend < 0 else 0.0)
    return found


def _factors(
    s: DirectSound, delay_s: Floats, weight: Floats
) -> tuple[Floats, Floats, NDArray[np.complex128]]:
    """y (4,), its sigma (4,) and the wave S (bins,)."""
    turn = np.exp(2j * np.pi * s.f[:, None] * delay_s)
    x = s.x * turn
    covariance = ((weight[:, None] * np.conj(x)).T @ x).real
    y = np.asarray(np.linalg.eigh(covariance)[1][:, -1])
    wave = x @ y
    power = float(np.sum(weight * np.abs(wave) ** 2))
    beside = np.einsum("f,f,wfc->wc", weight, np.conj(wave), s.noise * turn).real / power
    return y, np.sqrt((beside**2).mean(axis=0)), wave


def hear(
    directions: Sequence[Direction],
    direct: Sequence[DirectSound],
    kind: str,
    delays_s: Floats | None = None,
) -> Heard:
    """Amplitudes and delays of all directions. direct: `direct_sound` of each. kind: of BANDS_HZ. delays_s:
    (n, 4) to be taken instead of those at which each channel fits best, with which weak channels look louder
    by their noise."""
    low, high = BANDS_HZ[kind]
    n = len(directions)
    y, noise, delay, snr = np.zeros((n, 4)), np.zeros((n, 4)), np.zeros((n, 4)), np.zeros(n)
    octaves = np.full((len(OCTAVES_HZ), n, 4), np.nan)
    for i, s in enumerate(direct):
        weight = _weights(s, low, high)
        delay[i] = _own_delays(s, weight) if delays_s is None else delays_s[i]
        y[i], noise[i], wave = _factors(s, delay[i], weight)
        loud = float((weight[:, None] * np.abs(s.x) ** 2).sum())
        quiet = float((weight[:, None] * np.abs(s.noise) ** 2).sum(axis=(1, 2)).mean())
        snr[i] = min(120.0, 10 * np.log10(loud / max(quiet, 1e-30 * loud)))
        turned = s.x * np.exp(2j * np.pi * s.f[:, None] * delay[i])
        for k, centre in enumerate(OCTAVES_HZ):
            inside = (s.f >= centre / 2**0.5) & (s.f < centre * 2**0.5)
            if centre * 2**0.5 <= s.f[-1] * 1.01 and inside.any():
                w = np.where(inside, 1 / ((np.abs(s.x) ** 2).sum(axis=1) + 1e-300), 0.0)
                octaves[k, i] = ((w * np.conj(wave)) @ turned).real / np.sum(w * np.abs(wave) ** 2)
    u = np.array([d.unit for d in directions])
    signs = _signs(u, y)[:, None]
    window = np.array([s.window_s for s in direct])
    names = tuple(d.name for d in directions)
    return Heard(names, u, signs * y, noise, delay, snr, window, signs * octaves)


def _signs(u: Floats, y: Floats) -> Floats:
    """(n,) +-1 of the waves, which each direction alone cannot tell: those with which the channels are most
    like a microphone of first order, whichever."""
    basis = np.column_stack([np.ones(len(u)), u])
    off = np.eye(len(u)) - basis @ np.linalg.pinv(basis)
    form = off * (y @ y.T)
    n = len(u)
    if n <= 10:
        tries = 1 - 2 * ((np.arange(1 << (n - 1))[:, None] >> np.arange(n)) & 1)
        return np.asarray(tries[np.argmin(np.einsum("ki,ij,kj->k", tries, form, tries))], np.float64)
    best, least = np.ones(n), np.inf
    for start in range(n):
        s = np.where(y @ y[start] >= 0, 1.0, -1.0)
        while True:
            change = -4 * s * (form @ s) + 4 * np.diag(form)
            k = int(np.argmin(change))
            if change[k] > -1e-12:
                break
            s[k] = -s[k]
        if s @ form @ s < least:
            best, least = s, float(s @ form @ s)
    return best


def own_echo(direct: Sequence[DirectSound]) -> float:
    """Seconds after the direct sound of a second pulse that all directions have: the loudspeaker's own, and
    no reflection. nan when there is none."""
    found = np.array([s.echo_s for s in direct])
    if len(found) < 4 or np.isnan(found).sum() > 0.2 * len(found):
        return float("nan")
    middle = float(np.nanmedian(found))
    near = np.abs(found - middle) < 1e-4
    return middle if near.sum() >= 0.8 * len(found) else float("nan")
