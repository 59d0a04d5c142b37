"""Simulated recordings for the comparisons: a shoebox room by image sources, a tetrahedron of cardioid
capsules.

Image sources after Allen and Berkley, JASA 65 (1979); every image up to the length of the decay is summed, at
192 kHz so that the travel times between the capsules (r = 14.7 mm) are right to 5 microseconds, then brought
to 24 kHz by dsp.resample. Walls absorb evenly at all frequencies (Sabine).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, fftconvolve, sosfiltfilt

import dsp

FS = 24000
_FINE = 192000
_C = 343.0
CAPSULE_RADIUS_M = 0.0147
_SPEECH = Path(__file__).resolve().parent.parent / "capture" / "virtual" / "speech"


@dataclass(frozen=True)
class Room:
    """size_m: (3,), x forward along the microphone's front. rt60_s: 0 is a free field."""

    size_m: NDArray[np.float64]
    rt60_s: float
    microphone_m: NDArray[np.float64]


def random_room(rng: np.random.Generator, rt60_s: float) -> Room:
    size = rng.uniform([3.5, 3.0, 2.4], [6.5, 5.5, 3.0])
    low, high = np.array([1.0, 1.0, 0.9]), size - [1.0, 1.0, 1.0]
    return Room(size, rt60_s, rng.uniform(low, high))


def random_source(rng: np.random.Generator, room: Room) -> NDArray[np.float64]:
    """A talker 1 to 2.5 m away, in the room, at heights people have."""
    while True:
        az, distance = rng.uniform(-np.pi, np.pi), rng.uniform(1.0, 2.5)
        point = room.microphone_m + distance * np.array([np.cos(az), np.sin(az), 0.0])
        point[2] = rng.uniform(1.0, 1.8)
        if np.all(point > 0.3) and np.all(point < room.size_m - 0.3):
            return point


def source_above_or_below(rng: np.random.Generator, room: Room) -> NDArray[np.float64]:
    """A device or a knock anywhere in the room, 0.8 to 2.5 m away and 20 degrees or more up or down."""
    while True:
        point = rng.uniform(0.3, room.size_m - 0.3)
        away = point - room.microphone_m
        distance = np.linalg.norm(away)
        if 0.8 <= distance <= 2.5 and abs(away[2]) >= np.sin(np.radians(20)) * distance:
            return point


def capsule_responses(
    room: Room,
    source_m: NDArray[np.float64],
    capsules_m: NDArray[np.float64] | None = None,
    length_s: float | None = None,
) -> NDArray[np.float64]:
    """(frames, 4) responses at FS of ideal cardioid capsules, type I order, from a point source; as long as
    the reverberation time if length_s is not given."""
    axes = dsp.CAPSULE_DIRECTIONS["a"]
    places = CAPSULE_RADIUS_M * axes if capsules_m is None else capsules_m
    length = max(room.rt60_s, 0.02) + 0.02 if length_s is None else length_s
    reach = _C * length
    if room.rt60_s > 0:
        volume, surface = np.prod(room.size_m), 2 * np.sum(room.size_m * np.roll(room.size_m, 1))
        absorption = min(0.99, 0.161 * volume / (surface * room.rt60_s))
        beta = np.sqrt(1 - absorption)
        per_axis = []
        for axis in range(3):
            n = int(np.ceil(reach / (2 * room.size_m[axis])))
            k = np.arange(-n, n + 1)
            side = np.concatenate([2 * k * room.size_m[axis] + s * source_m[axis] for s in (1, -1)])
            bounces = np.concatenate([np.abs(2 * k), np.abs(2 * k - 1)])
            per_axis.append((side - room.microphone_m[axis], bounces))
        grid = np.meshgrid(*[p[0] for p in per_axis], indexing="ij")
        offset = np.stack([g.ravel() for g in grid], axis=1)
        count = sum(np.meshgrid(*[p[1] for p in per_axis], indexing="ij")).ravel()
        near = np.einsum("ij,ij->i", offset, offset) < reach**2
        offset, gain = offset[near], beta ** count[near].astype(float)
    else:
        offset, gain = (source_m - room.microphone_m)[None, :], np.ones(1)
    n_fine = int(length * _FINE)
    fine = np.zeros((n_fine, 4))
    for c in range(4):
        vector = offset - places[c]
        distance = np.sqrt(np.einsum("ij,ij->i", vector, vector))
        cardioid = 0.5 * (1 + vector @ axes[c] / distance)
        at = np.rint(distance / _C * _FINE).astype(np.int64)
        ok = at < n_fine
        fine[:, c] = np.bincount(at[ok], (gain * cardioid / distance)[ok], n_fine)[:n_fine]
    response = dsp.resample(fine, _FINE, FS).astype(np.float64) * (_FINE / FS)
    # Images of one sign add up to an offset that no room has (Allen and Berkley remove it in the same way).
    return np.asarray(sosfiltfilt(butter(2, 40, "highpass", fs=FS, output="sos"), response, axis=0))


@lru_cache(maxsize=1)
def _clips() -> list[NDArray[np.float64]]:
    import soundfile

    clips = []
    for path in sorted(_SPEECH.glob("*.flac")):
        x, fs = soundfile.read(path, dtype="float64", always_2d=True)
        x = x[:, 0] if fs == FS else dsp.resample(x[:, 0], fs, FS).astype(np.float64)
        clips.append(x / np.std(x))
    return clips


def speech(rng: np.random.Generator, seconds: float) -> NDArray[np.float64]:
    """Recorded and synthetic speech in random order with short pauses, RMS about 1."""
    parts: list[NDArray[np.float64]] = []
    total = 0
    clips = _clips()
    while total < seconds * FS:
        clip = clips[int(rng.integers(len(clips)))]
        parts += [clip, np.zeros(int(rng.uniform(0.1, 0.4) * FS))]
        total += len(parts[-1]) + len(clip)
    return np.concatenate(parts)[: int(seconds * FS)]


def record(
    responses: list[NDArray[np.float64]],
    dry: list[NDArray[np.float64]],
    snr_db: float,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """(frames, 4) A-format: each dry signal through its responses, plus white noise of the capsules."""
    wet = sum(fftconvolve(d[:, None], r, axes=0)[: len(d)] for d, r in zip(dry, responses, strict=True))
    wet = wet / np.max(np.abs(wet)) * 0.3
    noise = np.sqrt(np.mean(wet**2)) * 10 ** (-snr_db / 20)
    return (wet + noise * rng.standard_normal(wet.shape)).astype(np.float32)
