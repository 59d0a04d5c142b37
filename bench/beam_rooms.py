"""Simulated rooms with a talker and an interferer at 90 degrees, for the comparisons of `dsp_beam`.

The rooms, capsules and speech of `bench.doa_rooms`. The talker's direct sound at the middle of the microphone
is kept as the reference; both images are kept apart, so that one room serves every level of the interferer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.doa_rooms import CAPSULES, FS, RADIUS_M, SPEECH

F32 = npt.NDArray[np.float32]
LEAD_S = 0.5  # the interferer alone, before the talker starts
TAIL_S = 0.3


@dataclass(frozen=True)
class BeamScene:
    """One placement. Images (frames, 4 capsules) without noise; `direct` (frames,): the talker, no room."""

    talker: F32
    interferer: F32
    direct: F32
    azimuth_deg: float
    elevation_deg: float
    text: str
    microphone_m: npt.NDArray[np.float64]  # (3,)
    people_m: npt.NDArray[np.float64]  # (2, 3): talker, interferer

    def mixture(self, sir_db: float, snr_db: float, rng: np.random.Generator) -> F32:
        """Capsule signals: the interferer `sir_db` below the talker (mean power of the images while the
        talker speaks, reverberation included), white noise per capsule `snr_db` below the talker."""
        start = int(LEAD_S * FS)
        talker = float(np.mean(np.square(self.talker[start:], dtype=np.float64)))
        other = float(np.mean(np.square(self.interferer[start:], dtype=np.float64)))
        gain = np.sqrt(talker / other * 10 ** (-sir_db / 10))
        noise = rng.standard_normal(self.talker.shape) * np.sqrt(talker * 10 ** (-snr_db / 10))
        return (self.talker + gain * self.interferer + noise).astype(np.float32)


def sentences() -> list[tuple[str, F32]]:
    """Text and sound (24 kHz, unit power) of every committed clip."""
    import soundfile

    found = []
    for entry in json.loads((SPEECH / "index.json").read_text()):
        x, fs = soundfile.read(SPEECH / entry["file"], dtype="float32")
        if fs != FS or x.ndim != 1:
            raise ValueError(f"{entry['file']}: expected mono at {FS} Hz")
        found.append((entry["text"], x / np.sqrt(np.mean(x**2))))
    return found


def _place(rng: np.random.Generator) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """Room size, microphone, and (2, 3) talker and interferer, 90 degrees apart in azimuth."""
    while True:
        size = np.array([rng.uniform(4.2, 6.5), rng.uniform(3.4, 5.0), rng.uniform(2.4, 2.9)])
        mic = np.array(
            [rng.uniform(1.0, size[0] - 1.0), rng.uniform(1.0, size[1] - 1.0), rng.uniform(0.8, 1.5)]
        )
        for _ in range(100):
            turn = rng.uniform(-np.pi, np.pi)
            turns = np.array([turn, turn + rng.choice([-0.5, 0.5]) * np.pi])
            away = rng.uniform(1.2, 2.4, 2)
            people = np.column_stack(
                [
                    mic[0] + away * np.cos(turns),
                    mic[1] + away * np.sin(turns),
                    rng.uniform(1.1, 1.8, 2),
                ]
            )
            if (people[:, :2] > 0.4).all() and (people[:, :2] < size[:2] - 0.4).all():
                return size, mic, people


def simulate(rng: np.random.Generator, rt60_s: float, sayings: int = 1) -> BeamScene:
    """One random room (RT60 by Sabine): the talker says `sayings` sentences, the interferer never stops."""
    import pyroomacoustics as pra
    from pyroomacoustics.directivities import Cardioid, DirectionVector
    from scipy.signal import fftconvolve

    clips = sentences()
    order = rng.permutation(len(clips))
    said = [clips[k] for k in order[:sayings]]
    lead = int(LEAD_S * FS)
    pause = np.zeros(int(0.15 * FS), np.float32)
    speech = np.concatenate([np.zeros(lead, np.float32), *(p for _, x in said for p in (x, pause))])
    length = len(speech) + int(TAIL_S * FS)
    other = np.concatenate([clips[k][1] for k in order[sayings:]])
    start = int(rng.integers(0, 2 * FS))
    other = other[start : start + length]
    size, mic, people = _place(rng)
    absorption, _ = pra.inverse_sabine(rt60_s, size)
    room = pra.ShoeBox(size, fs=FS, materials=pra.Material(absorption), max_order=40)
    facing = [
        Cardioid(
            DirectionVector(np.degrees(np.arctan2(c[1], c[0])), np.degrees(np.arccos(c[2])), degrees=True)
        )
        for c in CAPSULES
    ]
    room.add_microphone_array((mic + RADIUS_M * CAPSULES).T, directivity=facing)
    for person in people:
        room.add_source(person)
    room.compute_rir()
    bare = pra.ShoeBox(size, fs=FS, materials=pra.Material(1.0), max_order=0)
    bare.add_microphone_array(mic[:, None])
    bare.add_source(people[0])
    bare.compute_rir()

    def heard(signal: F32, response: npt.NDArray) -> npt.NDArray:
        padded = np.concatenate([signal, np.zeros(length - len(signal), np.float32)])
        # pyroomacoustics centres its fractional delays 40 samples late.
        return fftconvolve(padded, response)[40 : 40 + length]

    images = [
        np.stack([heard(signal, room.rir[m][s]) for m in range(4)], axis=1)
        for s, signal in enumerate((speech, other))
    ]
    scale = 0.05 / np.sqrt(np.mean(images[0] ** 2))
    away = people - mic
    azimuth = np.degrees(np.arctan2(away[:, 1], away[:, 0]))
    elevation = np.degrees(np.arcsin(away[:, 2] / np.linalg.norm(away, axis=1)))
    return BeamScene(
        (scale * images[0]).astype(np.float32),
        (scale * images[1]).astype(np.float32),
        (scale * heard(speech, bare.rir[0][0])).astype(np.float32),
        float(azimuth[0]),
        float(elevation[0]),
        " ".join(text for text, _ in said),
        mic,
        people,
    )
