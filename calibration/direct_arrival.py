"""The direction of one impulse's direct sound: of a deconvolved sweep, or of a clap.

Only the sound from 1 ms before to 1.5 ms after the direct arrival is used, so that the room, which comes
later, says nothing (the window as in Tervo et al., "Spatial decomposition method", JAES 61, 2013). Within it
the direction is that of the active intensity Re(W* V) (Merimaa and Pulkki, JAES 53(12), 2005), each frequency
divided by its own energy and weighted towards 300 Hz to 1 kHz: capsules 15 mm from the centre bend the
intensity by 0.35 degrees at 1 kHz and by 5 at 4 kHz. A reflection within the window shows as a second pulse
or as a direction that changes with frequency: then the window ends before it where it can, and the sigma
grows.

For capsules that are not ambisonic: delays between them by cross-correlation of the same window, and the
plane wave that fits them best.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

Floats = NDArray[np.float64]

BEFORE_S, AFTER_S = 0.001, 0.0015
LOW_HZ, HIGH_HZ = 300.0, 5000.0
SPEED_OF_SOUND = 343.0
FLOOR_DEG = 0.7
"""Least sigma of a direction: what a well matched microphone leaves (capsule gains within about 0.1 dB)."""

_SHORTEST_S = 0.0005  # after the arrival: what a window must keep
_DIRECT_DB = -14.0  # the first peak within this of the highest is the direct sound
_BANDS_HZ = (300.0, 600.0, 1000.0, 1500.0, 2200.0)
_TRUST_HZ = 1000.0  # above it the spacing of the capsules bends the intensity


@dataclass(frozen=True)
class Arrival:
    """direction: unit vector (3,), x forward, y left, z up. sigma_deg: of each of its two components.

    t_s: of the direct sound in the response. diffuseness: 0 for one plane wave, 1 for none. snr_db: of the
    window over what is before it. reflection_s: how long after the direct sound another arrival was noticed
    within the window, else None.
    """

    direction: Floats
    sigma_deg: float
    t_s: float
    diffuseness: float
    snr_db: float
    reflection_s: float | None = None

    @property
    def azimuth_deg(self) -> float:
        return float(np.degrees(np.arctan2(self.direction[1], self.direction[0])))

    @property
    def elevation_deg(self) -> float:
        return float(np.degrees(np.arcsin(np.clip(self.direction[2], -1, 1))))


def _checked(response: ArrayLike, fs: int, channels: int | None) -> Floats:
    h = np.asarray(response, np.float64)
    if h.ndim != 2 or (channels is not None and h.shape[1] != channels) or h.shape[1] < 3:
        want = "(frames, 4) AmbiX" if channels == 4 else f"(frames, {channels or 'capsules'})"
        raise InputError(f"a response to find the direct sound in is {want}, not {h.shape}")
    if not (isinstance(fs, (int, np.integer)) and 8000 <= fs <= 192_000):
        raise InputError(f"the rate must be a whole number from 8000 to 192000 Hz, not {fs!r}")
    if len(h) < 0.005 * fs:
        raise InputError(f"the response is {1000 * len(h) / fs:.1f} ms long; at least 5 ms are needed")
    if not np.isfinite(h).all():
        raise InputError("the response holds values that are not finite")
    if not np.any(h):
        raise InputError("the response is silent: nothing was recorded there")
    return h


def band_limited(h: Floats, fs: int, low_hz: float = LOW_HZ, high_hz: float = HIGH_HZ) -> Floats:
    """(frames, channels) within a band, without delay and without ringing long before the pulse."""
    from scipy.signal import firwin, oaconvolve

    length = 2 * round(0.0008 * fs) + 1
    upper = firwin(length, min(high_hz, 0.45 * fs), fs=fs, window=("kaiser", 4.0))
    lower = firwin(2 * round(0.0016 * fs) + 1, low_hz, fs=fs, window=("kaiser", 2.0))
    lower = -lower
    lower[len(lower) // 2] += 1.0
    taps = np.convolve(upper, lower)
    return np.asarray(oaconvolve(h, taps[:, None], axes=0)[len(taps) // 2 :][: len(h)])


def _envelope(w: Floats) -> Floats:
    from scipy.signal import hilbert

    return np.abs(hilbert(w, axis=0))


def find_direct(envelope: Floats, fs: int, after: int = 0) -> int:
    """Frame of the first peak that is nearly as high as the highest of the next 30 ms."""
    top = float(envelope[after:].max())
    peak = after + int(np.argmax(envelope[after:]))
    first = max(after, peak - round(0.03 * fs))
    part = envelope[first : peak + 1]
    high = part >= top * 10 ** (_DIRECT_DB / 20)
    start = int(np.argmax(high))
    reach = round(0.0004 * fs)
    # From where it is first high to the top of that pulse.
    best = start + int(np.argmax(part[start : start + reach + 1]))
    return first + best


def _window(length: int, at: int, before: int, after: int, fade: int) -> tuple[int, Floats]:
    """First frame, and a window of 1 with short raised-cosine edges that fits into `length` frames."""
    first, last = max(0, at - before), min(length, at + after + 1)
    w = np.ones(last - first)
    edge = 0.5 - 0.5 * np.cos(np.pi * (np.arange(min(fade, len(w) // 2)) + 0.5) / max(fade, 1))
    w[: len(edge)] *= edge
    w[len(w) - len(edge) :] *= edge[::-1]
    return first, w


def _second_pulse(envelope: Floats, fs: int, at: int) -> int | None:
    """Frames after the direct sound at which another pulse begins within the window, or None."""
    skip, end = round(0.00045 * fs), round(AFTER_S * fs)
    part = envelope[at + skip : at + end + round(0.0003 * fs)]
    if len(part) < 3:
        return None
    level = envelope[at]
    least = part[0]
    for k in range(1, len(part) - 1):
        if part[k] < least:
            least = part[k]
        elif part[k] > 0.14 * level and part[k] > 2.0 * least and part[k] >= part[k + 1]:
            low = k
            while low > 0 and part[low - 1] < part[low]:
                low -= 1
            return skip + low if skip + k < end + 2 else None
    return None


def foa_arrival(
    response: ArrayLike,
    fs: int,
    *,
    after: int = 0,
    floor_deg: float = FLOOR_DEG,
) -> Arrival:
    """The direct sound in a response (frames, 4), AmbiX; the first strong arrival from frame `after` on.

    Best without non-coincidence correction, whose filters bend the intensity more than the spacing does.
    Raises InputError for a response that holds no arrival, or no direction.
    """
    h = _checked(response, fs, 4)
    envelope = np.sqrt((_envelope(band_limited(h, fs)) ** 2).sum(axis=1))
    at = find_direct(envelope, fs, after)
    before = round(BEFORE_S * fs)
    quiet = h[max(0, at - round(0.03 * fs)) : max(0, at - before - round(0.001 * fs))]
    echo = _second_pulse(envelope, fs, at)
    end = round(AFTER_S * fs) if echo is None else max(round(_SHORTEST_S * fs), echo)
    first, window = _window(len(h), at, before, end, round(0.0003 * fs))
    part = h[first : first + len(window)] * window[:, None]
    size = 1 << (8 * len(part) - 1).bit_length()
    f = np.asarray(np.fft.rfftfreq(size, 1 / fs), np.float64)
    inside = (f >= LOW_HZ) & (f <= min(HIGH_HZ, 0.45 * fs))
    f, x = f[inside], np.fft.rfft(part, size, axis=0)[inside]
    noise = float(np.mean(quiet**2)) * float(np.sum(window**2)) if len(quiet) > 16 else 0.0
    energy = (np.abs(x) ** 2).sum(axis=1) / 2  # |W|^2 of one plane wave
    clear = energy / (energy + 2 * noise + 1e-4 * energy.max())
    intensity = np.real(np.conj(x[:, :1]) * x[:, [3, 1, 2]]) / np.maximum(energy, 1e-300)[:, None]
    weight = clear / (1 + (f / _TRUST_HZ) ** 4)
    total = (weight[:, None] * intensity).sum(axis=0)
    length = float(np.linalg.norm(total))
    if length <= 1e-6 * weight.sum():
        raise InputError("the direct sound has no direction: is the recording four copies of one channel?")
    direction = np.asarray(total / length, np.float64)
    diffuseness = float(np.clip(1 - length / weight.sum(), 0, 1))
    scatter = _band_scatter_deg(intensity, f, clear, direction)
    noisy = float(np.degrees(np.sqrt(noise / max(float(np.sum(weight * energy)), 1e-300) * weight.sum() / 3)))
    # Two pulses closer together than they last cannot be told apart; they make the window diffuse.
    near = np.hypot(0.5 if echo is not None else 0.0, 25.0 * max(0.0, diffuseness - 0.01))
    sigma = float(min(np.sqrt(floor_deg**2 + scatter**2 + noisy**2 + near**2), 60.0))
    snr = 10 * np.log10(float(np.sum(part**2)) / (4 * noise)) if noise > 0 else 120.0
    return Arrival(
        direction, sigma, at / fs, diffuseness, float(min(snr, 120.0)), None if echo is None else echo / fs
    )


def _band_scatter_deg(intensity: Floats, f: Floats, clear: Floats, direction: Floats) -> float:
    """Sigma per component of a mean over bands that point to different places."""
    units, share = [], []
    for low, high in pairwise(_BANDS_HZ):
        chosen = (f >= low) & (f < high)
        v = (clear[:, None] * intensity)[chosen].sum(axis=0)
        size = float(np.linalg.norm(v))
        if size > 0:
            units.append(v / size)
            share.append(float(clear[chosen].mean()) / (1 + (0.5 * (low + high) / _TRUST_HZ) ** 4))
    if len(units) < 3:
        return 0.0
    u, w = np.array(units), np.array(share) / np.sum(share)
    aside = u - np.outer(u @ direction, direction)
    variance = float(np.sum(w * (aside**2).sum(axis=1))) / 2
    return float(np.degrees(np.sqrt(variance * np.sum(w**2))))


def array_arrival(
    responses: ArrayLike,
    fs: int,
    positions_m: ArrayLike,
    *,
    floor_deg: float = 1.0,
    high_hz: float = 20000.0,
) -> Arrival:
    """The direct sound at spaced omni capsules (frames, capsules), at least 4 that are not in one plane.

    positions_m: (capsules, 3). Delays of each pair by cross-correlation of the direct windows, refined by a
    parabola; the slowness vector by least squares (Smith and Abel, IEEE Trans. ASSP 35, 1987, for a far
    source), whose length must be near one over the speed of sound.
    """
    places = np.asarray(positions_m, np.float64)
    h = _checked(responses, fs, len(places))
    if places.ndim != 2 or places.shape[1] != 3 or len(places) < 4:
        raise InputError(f"positions_m is (capsules, 3) with at least 4 capsules, not {places.shape}")
    if np.linalg.svd(places - places.mean(axis=0), compute_uv=False)[2] < 1e-3:
        raise InputError("the capsules lie in one plane: up and down cannot be told apart")
    h = band_limited(h, fs, LOW_HZ, high_hz)
    envelope = _envelope(h)
    at = find_direct(envelope.sum(axis=1), fs)
    aperture = float(np.linalg.norm(places[:, None] - places[None], axis=-1).max())
    before = round(BEFORE_S * fs)
    first, window = _window(len(h), at, before, round(AFTER_S * fs), round(0.0002 * fs))
    part = h[first : first + len(window)] * window[:, None]
    most = aperture / SPEED_OF_SOUND * 1.2
    delays, baselines = [], []
    grow = 16
    size = 1 << (2 * len(part) - 1).bit_length()
    spectra = np.fft.rfft(part, size, axis=0)
    loud = np.abs(spectra)
    # Partly whitened, which sharpens the peaks (PHAT-beta: Donohue et al., ICASSP 2007).
    spectra = spectra / np.maximum(loud, 1e-3 * loud.max()) ** 0.75
    reach = int(np.ceil(most * fs * grow))
    for i in range(len(places)):
        for j in range(i + 1, len(places)):
            # More points between the samples: the cross-spectrum padded with zeros.
            cross = np.fft.irfft(spectra[:, j] * np.conj(spectra[:, i]), size * grow)
            near = np.concatenate([cross[-reach:], cross[: reach + 1]])
            k = int(np.clip(np.argmax(near), 1, len(near) - 2))
            a, b, c = near[k - 1 : k + 2]
            bend = a - 2 * b + c
            shift = 0.5 * (a - c) / bend if bend < 0 else 0.0
            delays.append((k + shift - reach) / (fs * grow))
            baselines.append(places[j] - places[i])
    m, d = np.array(baselines), -SPEED_OF_SOUND * np.array(delays)
    weight = np.ones(len(d))
    for _ in range(10):
        slowness = np.linalg.lstsq(m * weight[:, None], d * weight, rcond=None)[0]
        left = d - m @ slowness
        scale = max(1.4826 * float(np.median(np.abs(left))), 2e-4)
        weight = 1 / np.sqrt(1 + (left / (2 * scale)) ** 2)
    length = float(np.linalg.norm(slowness))
    if not 0.6 < length < 1.6:
        raise InputError(
            f"the delays fit no plane wave (speed {SPEED_OF_SOUND / max(length, 1e-9):.0f} m/s): are the"
            " places of the capsules in metres and in the order of the channels?"
        )
    rest = float(np.sqrt(np.mean(left**2)))
    # Of n capsules n - 1 delays are independent.
    informed = np.linalg.inv(m.T @ m) * rest**2 * len(d) / (len(places) - 1)
    sigma = float(np.degrees(np.sqrt(np.trace(informed) / 3)))
    quiet = h[max(0, at - round(0.02 * fs)) : max(0, at - before - round(0.0005 * fs))]
    noise = float(np.sqrt(np.mean(quiet**2))) if len(quiet) > 16 else 0.0
    snr = 20 * np.log10(np.sqrt(np.mean(part**2)) / noise) if noise > 0 else 120.0
    return Arrival(
        np.asarray(slowness / length, np.float64),
        float(np.hypot(floor_deg, sigma)),
        at / fs,
        float(min(1.0, rest / aperture)),
        float(min(snr, 120.0)),
    )
