"""Loudspeakers around a simulated tetrahedron of cardioids, exact to any fraction of a sample."""

from __future__ import annotations

import numpy as np

import dsp
from calibration.capsules_files import SIX
from calibration.capsules_response import Direction

FS = 24000
RADIUS_M = 0.0147
C = 343.0
FRAMES = round(0.17 * FS)
TO_B = dsp.conversion_matrix("a", "ambix")


def placed(rng, azimuth_deg, elevation_deg, sigma_deg=2.0):
    """Where somebody puts the loudspeaker who aims at a label."""
    u = dsp.direction_to_unit(azimuth_deg, elevation_deg)
    v = u + np.radians(sigma_deg) * rng.standard_normal(3)
    return v / np.linalg.norm(v)


def impulse(units, amplitudes, delays_s, gains=(1, 1, 1, 1), late_s=(0, 0, 0, 0), off_m=np.zeros((4, 3))):
    """(frames, 4) capsule signals of band-limited impulses from `units`, the first at 50 ms. off_m: of
    the capsules beside their places."""
    f = np.fft.rfftfreq(FRAMES, 1 / FS)
    band = np.clip(f / 60, 0, 1) * np.clip((11800 - f) / 1500, 0, 1)
    out = np.zeros((len(f), 4), complex)
    for unit, amplitude, delay in zip(units, amplitudes, delays_s, strict=True):
        toward = dsp.CAPSULE_DIRECTIONS["a"] @ unit
        arrival = 0.05 + delay - (RADIUS_M * toward + off_m @ unit) / C + np.asarray(late_s)
        out += amplitude * 0.5 * (1 + toward) * np.exp(-2j * np.pi * f[:, None] * arrival)
    return np.fft.irfft(out * band[:, None], FRAMES, axis=0) * np.asarray(gains)


def responses(rng, where=None, sigma_deg=2.0, gains=(1, 1, 1, 1), late_s=(0, 0, 0, 0), echo_s=0.0025):
    """[(name, azimuth, elevation, (frames, 4) capsule signals)] with 60 reflections from `echo_s` on, and
    capsules that sit 0.35 mm beside their places."""
    found = []
    off_m = 0.00035 * rng.standard_normal((4, 3))
    for name, (azimuth, elevation) in (where or SIX).items():
        walls = rng.standard_normal((60, 3))
        walls /= np.linalg.norm(walls, axis=1, keepdims=True)
        delays = echo_s * (1 + rng.exponential(6.0, 60))
        units = [placed(rng, azimuth, elevation, sigma_deg), *walls]
        loud = rng.uniform(0.7, 1.4)
        amplitudes = loud * np.array([1.0, *(0.25 * rng.choice([-1, 1], 60) * echo_s / delays)])
        found.append(
            (name, azimuth, elevation, impulse(units, amplitudes, [0.0, *delays], gains, late_s, off_m))
        )
    return found


def directions(made, change=np.eye(4), noise=3e-4, rng=None, shift=None):
    """As measured: noise of the capsules, then what is done to the channels (a matrix, one channel later)."""
    rng = rng or np.random.default_rng(0)
    found = []
    for name, azimuth, elevation, h in made:
        x = (h + noise * rng.standard_normal(h.shape)) @ np.asarray(change).T
        if shift is not None:
            channel, frames = shift
            x[:, channel] = np.roll(x[:, channel], frames)
        found.append(Direction(name, azimuth, elevation, x, FS))
    return found
