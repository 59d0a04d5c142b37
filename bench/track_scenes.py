"""Simulated rooms in which people take turns, talk at once, walk and fall silent, for `bench.dsp_tracks`.

Rooms, microphone and noise as in `bench.doa_rooms` (image sources by pyroomacoustics, tetrahedral cardioids
at r = 14.7 mm, plain matrix to AmbiX, 24 kHz). A walk is a chain of responses at points 0.1 s apart, faded
over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from bench.doa_rooms import CAPSULES, FS, RADIUS_M, add_noise, speech_clips, talker, to_ambix

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
ROW = FS // 10  # truth is stated per 100 ms
LEVEL = 0.05  # RMS of the capsules while people talk


@dataclass(frozen=True)
class TrackScene:
    """foa: (frames, 4) AmbiX with noise. directions: (sources, rows, 3) unit vectors from the microphone, NaN
    where the source is not in the room. speaking: (sources, rows), whether its own dry sound is there."""

    foa: F32
    directions: F64
    speaking: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Place:
    """A room (size in m, RT60 in s) and where the microphone stands in it."""

    size_m: F64
    rt60_s: float
    microphone_m: F64


def random_place(rng: np.random.Generator, rt60_s: float) -> Place:
    size = np.array([rng.uniform(4.2, 6.5), rng.uniform(3.4, 5.0), rng.uniform(2.4, 2.9)])
    mic = np.array([rng.uniform(1.2, size[0] - 1.2), rng.uniform(1.2, size[1] - 1.2), rng.uniform(0.8, 1.5)])
    return Place(size, rt60_s, mic)


def random_people(rng: np.random.Generator, place: Place, count: int, apart_deg: float = 45.0) -> F64:
    """(count, 3) points in metres, 1.2 to 2.6 m from the microphone, at least `apart_deg` apart."""
    while True:
        people: list[F64] = []
        for _ in range(400):
            point = rng.uniform([0.4, 0.4, 1.1], [place.size_m[0] - 0.4, place.size_m[1] - 0.4, 1.8])
            away = point - place.microphone_m
            away /= (distance := np.linalg.norm(away))
            others = [(p - place.microphone_m) / np.linalg.norm(p - place.microphone_m) for p in people]
            if 1.2 <= distance <= 2.6 and all(away @ o <= np.cos(np.radians(apart_deg)) for o in others):
                people.append(point)
            if len(people) == count:
                return np.array(people)


def responses(place: Place, points_m: F64, order: int = 40) -> list[F64]:
    """(frames, 4) capsule responses from each point, delays as they are."""
    import pyroomacoustics as pra
    from pyroomacoustics.directivities import Cardioid, DirectionVector

    if place.rt60_s > 0:
        absorption, _ = pra.inverse_sabine(place.rt60_s, place.size_m)
        room = pra.ShoeBox(place.size_m, fs=FS, materials=pra.Material(absorption), max_order=order)
    else:
        room = pra.ShoeBox(place.size_m, fs=FS, materials=pra.Material(1.0), max_order=0)
    facing = [
        Cardioid(
            DirectionVector(np.degrees(np.arctan2(c[1], c[0])), np.degrees(np.arccos(c[2])), degrees=True)
        )
        for c in CAPSULES
    ]
    room.add_microphone_array((place.microphone_m + RADIUS_M * CAPSULES).T, directivity=facing)
    for point in points_m:
        room.add_source(point)
    room.compute_rir()
    out = []
    for s in range(len(points_m)):
        length = max(len(room.rir[m][s]) for m in range(4))
        response = np.zeros((length, 4))
        for m in range(4):
            response[: len(room.rir[m][s]), m] = room.rir[m][s]
        out.append(response[40:])  # pyroomacoustics centres its fractional delays 40 samples late
    return out


def _speaking(dry: npt.NDArray, rows: int) -> npt.NDArray[np.bool_]:
    level = np.sqrt(np.mean(dry[: rows * ROW].reshape(rows, ROW).astype(np.float64) ** 2, axis=1))
    return np.asarray(level > 0.1)  # the clips have an RMS of 1 while they last


def unit(place: Place, point: F64) -> F64:
    away = point - place.microphone_m
    return np.asarray(away / np.linalg.norm(away, axis=-1, keepdims=True))


def standing(place: Place, points_m: F64, dry: F32, snr_db: float, rng: np.random.Generator) -> TrackScene:
    """People who stay where they are. dry: (sources, frames), unit RMS while they talk. The noise lies
    `snr_db` below the mean power of the whole scene's loudest second."""
    rows = dry.shape[1] // ROW
    wet = np.zeros((rows * ROW, 4))
    for response, sound in zip(responses(place, points_m), dry, strict=True):
        wet += fftconvolve(sound[: len(wet), None], response, axes=0)[: len(wet)]
    directions = np.repeat(unit(place, points_m)[:, None, :], rows, axis=1)
    return _finish(wet, directions, np.array([_speaking(d, rows) for d in dry]), snr_db, rng)


def walking(
    place: Place, paths_m: list[F64], dry: F32, snr_db: float, rng: np.random.Generator
) -> TrackScene:
    """People on paths: each (rows, 3), the place at the middle of each 100 ms."""
    rows = dry.shape[1] // ROW
    wet = np.zeros((rows * ROW, 4))
    fade = np.hanning(2 * ROW + 1)[:-1]
    for path, sound in zip(paths_m, dry, strict=True):
        still = bool(np.ptp(path, axis=0).max() < 1e-9)
        if still:
            wet += fftconvolve(sound[: len(wet), None], responses(place, path[:1])[0], axes=0)[: len(wet)]
            continue
        for r, response in enumerate(responses(place, path, order=17)):
            # Weight 1 at the row's middle, 0 at its neighbours' middles.
            first = r * ROW - ROW // 2
            piece = np.zeros(2 * ROW)
            low, high = max(first, 0), min(first + 2 * ROW, len(wet))
            piece[low - first : high - first] = sound[low:high]
            heard = fftconvolve((piece * fade)[:, None], response, axes=0)
            end = min(first + len(heard), len(wet))
            wet[max(first, 0) : end] += heard[max(-first, 0) : end - first]
    directions = np.array([unit(place, path) for path in paths_m])
    return _finish(wet, directions, np.array([_speaking(d, rows) for d in dry]), snr_db, rng)


def _finish(
    wet: F64, directions: F64, speaking: npt.NDArray[np.bool_], snr_db: float, rng: np.random.Generator
) -> TrackScene:
    talk = np.repeat(speaking.any(axis=0), ROW)
    power = float(np.mean(wet[talk] ** 2)) if talk.any() else float(np.mean(wet**2))
    wet = wet * (LEVEL / np.sqrt(power))
    noise = rng.standard_normal(wet.shape) * LEVEL * 10 ** (-snr_db / 20)
    return TrackScene(to_ambix(wet + noise), directions, speaking)


def turn(clips: list[F32], rows: int, spans_s: list[tuple[float, float]], rng: np.random.Generator) -> F32:
    """Dry speech of one person who talks during the given spans (begin, end) and is silent otherwise."""
    out = np.zeros(rows * ROW, np.float32)
    for begin, end in spans_s:
        a, b = round(begin * FS), round(end * FS)
        said = talker(clips, (b - a) / FS + 0.3, rng)
        loud = np.flatnonzero(np.abs(said) > 0.3)  # begin with a sound, so that the onset is known
        start = int(loud[0]) if len(loud) and loud[0] + (b - a) <= len(said) else 0
        out[a:b] = said[start : start + b - a]
    return out


def arc(place: Place, rows: int, rate_deg_s: float, rng: np.random.Generator) -> F64:
    """A walk around the microphone at constant angular rate and height, (rows, 3); turns back at a wall."""
    radius = rng.uniform(1.0, 1.15)
    angle, step = rng.uniform(0, 360), rate_deg_s / 10
    height = rng.uniform(1.4, 1.75)
    path = []
    for r in range(rows):
        a = np.radians(angle + step * (r - rows / 2))
        path.append([*(place.microphone_m[:2] + radius * np.array([np.cos(a), np.sin(a)])), height])
    return np.array(path)


__all__ = [
    "ROW",
    "Place",
    "TrackScene",
    "add_noise",
    "arc",
    "random_people",
    "random_place",
    "responses",
    "speech_clips",
    "standing",
    "turn",
    "unit",
    "walking",
]
