"""Loudspeakers around a simulated tetrahedron of cardioids, exact to any fraction of a sample.

Capsules sit 0.35 mm beside their places; each loudspeaker stands about 2 degrees (of each of two components)
beside its label, at a loudness of its own; 60 reflections follow from 2.5 ms on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

import dsp
from calibration.capsules_files import SIX
from calibration.capsules_response import Direction

F64 = NDArray[np.float64]
FS = 24000
RADIUS_M = 0.0147
C = 343.0
FRAMES = round(0.17 * FS)
TO_B = dsp.conversion_matrix("a", "ambix")
Made = list[tuple[str, float, float, F64]]
"""(name, azimuth and elevation of the label in degrees, (frames, 4) capsule signals) of each direction."""


def placed(rng: np.random.Generator, azimuth_deg: float, elevation_deg: float, sigma_deg: float = 2.0) -> F64:
    """Where somebody puts the loudspeaker who aims at a label: a unit vector."""
    v = dsp.direction_to_unit(azimuth_deg, elevation_deg) + np.radians(sigma_deg) * rng.standard_normal(3)
    return np.asarray(v / np.linalg.norm(v))


def impulse(
    units: Sequence[F64],
    amplitudes: ArrayLike,
    delays_s: ArrayLike,
    gains: ArrayLike = (1, 1, 1, 1),
    late_s: ArrayLike = (0, 0, 0, 0),
    off_m: ArrayLike = 0.0,
) -> F64:
    """(frames, 4) capsule signals of band-limited impulses from `units`, the first at 50 ms. gains, late_s:
    of the capsules; off_m: (4, 3) how far they sit beside their places."""
    f = np.fft.rfftfreq(FRAMES, 1 / FS)
    band = np.clip(f / 60, 0, 1) * np.clip((11800 - f) / 1500, 0, 1)
    places = RADIUS_M * dsp.CAPSULE_DIRECTIONS["a"] + off_m
    out = np.zeros((len(f), 4), complex)
    for unit, amplitude, delay in zip(units, np.asarray(amplitudes), np.asarray(delays_s), strict=True):
        toward = dsp.CAPSULE_DIRECTIONS["a"] @ unit
        arrival = 0.05 + delay - places @ unit / C + np.asarray(late_s)
        out += amplitude * 0.5 * (1 + toward) * np.exp(-2j * np.pi * f[:, None] * arrival)
    return np.asarray(np.fft.irfft(out * band[:, None], FRAMES, axis=0) * np.asarray(gains))


def responses(
    rng: np.random.Generator,
    where: Mapping[str, tuple[float, float]] | None = None,
    sigma_deg: float = 2.0,
    gains: ArrayLike = (1, 1, 1, 1),
    late_s: ArrayLike = (0, 0, 0, 0),
    echo_s: float = 0.0025,
) -> Made:
    """Of the six directions, or of `where`: {name: (azimuth, elevation)}."""
    found = []
    off_m = 0.00035 * rng.standard_normal((4, 3))
    for name, (azimuth, elevation) in (where or SIX).items():
        walls = rng.standard_normal((60, 3))
        walls /= np.linalg.norm(walls, axis=1, keepdims=True)
        delays = echo_s * (1 + rng.exponential(6.0, 60))
        units = [placed(rng, azimuth, elevation, sigma_deg), *walls]
        echoes = 0.25 * rng.choice([-1, 1], 60) * echo_s / delays
        loud = rng.uniform(0.7, 1.4) * np.array([1.0, *echoes])
        h = impulse(units, loud, [0.0, *delays], gains, late_s, off_m)
        found.append((name, azimuth, elevation, h))
    return found


def directions(
    made: Made,
    change: ArrayLike | None = None,
    noise: float = 3e-4,
    rng: np.random.Generator | None = None,
    shift: tuple[int, int] | None = None,
) -> list[Direction]:
    """As measured: noise of the capsules, then what is done to the channels: a matrix (4, 4), one channel
    (index, frames) later."""
    rng = rng or np.random.default_rng(0)
    matrix = np.eye(4) if change is None else np.asarray(change)
    found = []
    for name, azimuth, elevation, h in made:
        x = (h + noise * rng.standard_normal(h.shape)) @ matrix.T
        if shift is not None:
            channel, frames = shift
            x[:, channel] = np.roll(x[:, channel], frames)
        found.append(Direction(name, azimuth, elevation, x, FS))
    return found
