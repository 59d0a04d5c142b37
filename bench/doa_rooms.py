"""Simulated rooms with talkers around a tetrahedral cardioid microphone, for the comparisons of `dsp_doa`.

Image sources to order 40 by pyroomacoustics; wall absorption from Sabine's formula for the wanted RT60.
Capsules FLU FRD BLD BRU at r = 14.7 mm, plain 4x4 matrix to AmbiX (no non-coincidence correction), 24 kHz.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
FS = 24000
RADIUS_M = 0.0147
CAPSULES = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
SPEECH = Path(__file__).parents[1] / "capture" / "virtual" / "speech"
# Rows W Y Z X from FLU FRD BLD BRU for ideal cardioids, SN3D.
_A_TO_AMBIX = np.array(
    [
        [0.5, 0.5, 0.5, 0.5],
        np.sqrt(3) / 2 * np.array([1, -1, 1, -1]),
        np.sqrt(3) / 2 * np.array([1, -1, -1, 1]),
        np.sqrt(3) / 2 * np.array([1, 1, -1, -1]),
    ]
)


@dataclass(frozen=True)
class Scene:
    """What one placement sounds like without sensor noise, and where the talkers are."""

    capsules: F32  # (frames, 4)
    azimuth_deg: npt.NDArray[np.float64]  # (talkers,)
    elevation_deg: npt.NDArray[np.float64]
    distance_m: npt.NDArray[np.float64]


def to_ambix(capsules: npt.NDArray) -> F32:
    return (capsules @ _A_TO_AMBIX.T).astype(np.float32)


def add_noise(capsules: F32, snr_db: float, rng: np.random.Generator) -> F32:
    """White, independent noise per capsule, `snr_db` below the mean power of the capsules."""
    power = float(np.mean(np.square(capsules, dtype=np.float64)))
    noise = rng.standard_normal(capsules.shape) * np.sqrt(power * 10 ** (-snr_db / 10))
    return (capsules + noise).astype(np.float32)


def speech_clips() -> list[F32]:
    """All committed speech clips at 24 kHz, each with unit power."""
    import soundfile

    clips = []
    for file in sorted(SPEECH.glob("*.flac")):
        x, fs = soundfile.read(file, dtype="float32")
        if fs == FS and x.ndim == 1:
            clips.append(x / np.sqrt(np.mean(x**2)))
    if not clips:
        raise FileNotFoundError(f"no speech clips at {FS} Hz in {SPEECH}")
    return clips


def talker(clips: list[F32], seconds: float, rng: np.random.Generator) -> F32:
    """A stretch of speech: random clips, one after the other with a short pause, cut at a random place."""
    parts: list[F32] = []
    length = 0
    wanted = int(seconds * FS)
    while length < wanted + FS:
        clip = clips[rng.integers(len(clips))]
        parts += [clip, np.zeros(int(FS * rng.uniform(0.05, 0.25)), np.float32)]
        length += len(parts[-2]) + len(parts[-1])
    start = int(rng.integers(0, length - wanted))
    return np.concatenate(parts)[start : start + wanted]


def _place(
    rng: np.random.Generator, talkers: int, apart_deg: float
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """Room size, microphone and talkers (talkers, 3) in metres."""
    while True:
        size = np.array([rng.uniform(4.2, 6.5), rng.uniform(3.4, 5.0), rng.uniform(2.4, 2.9)])
        mic = np.array(
            [rng.uniform(1.0, size[0] - 1.0), rng.uniform(1.0, size[1] - 1.0), rng.uniform(0.8, 1.5)]
        )
        people = []
        for _ in range(400):
            person = np.array(
                [rng.uniform(0.4, size[0] - 0.4), rng.uniform(0.4, size[1] - 0.4), rng.uniform(1.1, 1.8)]
            )
            away = person - mic
            distance = np.linalg.norm(away)
            if not 1.2 <= distance <= 2.6:
                continue
            if all(
                np.degrees(np.arccos(np.clip(away @ (p - mic) / distance / np.linalg.norm(p - mic), -1, 1)))
                >= apart_deg
                for p in people
            ):
                people.append(person)
            if len(people) == talkers:
                return size, mic, np.array(people)


def simulate(
    rng: np.random.Generator,
    rt60_s: float,
    signals: list[F32],
    apart_deg: float = 45.0,
    omni: bool = False,
    keep_s: float = 2.0,
) -> Scene:
    """One random room (RT60 by Sabine; 0 = anechoic) with a talker per signal, all of equal power.

    The signals may be longer than `keep_s`: only the end is kept, so that the room already rings when the
    clip begins. `omni` gives the same placement with omni capsules, as the peers assume them.
    """
    import pyroomacoustics as pra
    from pyroomacoustics.directivities import Cardioid, DirectionVector

    size, mic, people = _place(rng, len(signals), apart_deg)
    if rt60_s > 0:
        absorption, _ = pra.inverse_sabine(rt60_s, size)
        room = pra.ShoeBox(size, fs=FS, materials=pra.Material(absorption), max_order=40)
    else:
        room = pra.ShoeBox(size, fs=FS, materials=pra.Material(1.0), max_order=0)
    facing = [
        Cardioid(
            DirectionVector(np.degrees(np.arctan2(c[1], c[0])), np.degrees(np.arccos(c[2])), degrees=True)
        )
        for c in CAPSULES
    ]
    places = (mic + RADIUS_M * CAPSULES).T
    if omni:
        room.add_microphone_array(places)
    else:
        room.add_microphone_array(places, directivity=facing)
    for person in people:
        room.add_source(person)
    room.compute_rir()
    from scipy.signal import fftconvolve

    length = len(signals[0])
    out = np.zeros((length, 4))
    for s, signal in enumerate(signals):
        for m in range(4):
            # pyroomacoustics centres its fractional delays 40 samples late.
            out[:, m] += fftconvolve(signal, room.rir[m][s])[40 : 40 + length]
    out = out[-int(keep_s * FS) :]
    out *= 0.05 / np.sqrt(np.mean(out**2))
    away = people - mic
    distance = np.linalg.norm(away, axis=1)
    return Scene(
        out.astype(np.float32),
        np.degrees(np.arctan2(away[:, 1], away[:, 0])),
        np.degrees(np.arcsin(away[:, 2] / distance)),
        distance,
    )
