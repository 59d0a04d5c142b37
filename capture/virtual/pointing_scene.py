"""A scene without end in which somebody points at a device and says "Turn that off." or "Turn that on.": what
`hearth live --agent` shows. Nothing but the arm tells which device is meant.

Two devices that can be switched, well apart as the speaker sees them, are taken in turns: off, off, on, on. A
turn takes ROUND_S; the arm is up a little before the first word and until after the last one.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig
from capture.virtual.home_state import FANS, LIGHTS, Value, off, running
from capture.virtual.mixing import RATE_HZ, Stem, convolve_loop
from capture.virtual.requests import find_place
from capture.virtual.scene import (
    MOUTH_STEP_S,
    TALKER_DBFS,
    TALKER_OMNI,
    Figure,
    VirtualScene,
    device_stems,
    gain_to,
    respond,
    set_conditions,
    slate_stem,
    slate_truth,
    standing,
    travel_s,
)
from capture.virtual.sound import KIND_OF_TYPE
from capture.virtual.truth import SourceTruth, Truth, activity_pattern
from capture.virtual.utterance import envelope, speech, utterances
from dsp.errors import InputError

FIRST_S = 3.0  # from the beginning to the first round
ROUND_S = 11.0
ARM_BEFORE_S, ARM_AFTER_S, RAISE_S = 0.9, 0.6, 0.45
APART_DEG = 35.0  # between the two devices, as the speaker sees them


class Turn(NamedTuple):
    """One request: what is pointed at, and whether it shall be on."""

    target: Device
    on: bool


def pointing_scene(rig: Rig) -> VirtualScene:
    """The scene in a rig's room; the same rig gives the same scene.

    Raises InputError when the room has no two lights or fans that somebody could point at.
    """
    random = np.random.default_rng([rig.virtual.seed, 13])
    mouth_m, pair = _plan(rig, random)
    turns = [Turn(pair[0], False), Turn(pair[1], False), Turn(pair[0], True), Turn(pair[1], True)]
    said = {u.key: u for u in utterances() if u.key in ("turn_that_off", "turn_that_on")}
    period = round(len(turns) * ROUND_S * RATE_HZ)
    voice = np.zeros(period)
    spoken: list[tuple[float, float]] = []
    for number, turn in enumerate(turns):
        words = speech(said["turn_that_on" if turn.on else "turn_that_off"])
        begin = round((number * ROUND_S + ARM_BEFORE_S + RAISE_S) * RATE_HZ)
        voice[begin : begin + len(words)] = words
        spoken.append((begin / RATE_HZ, (begin + len(words)) / RATE_HZ))
    towards = (np.asarray(rig.microphone.position_m) - mouth_m)[:2]
    facing = towards / np.linalg.norm(towards)
    response = respond(rig, mouth_m, facing=np.array([*facing, 0.0]), omni=TALKER_OMNI)
    heard = convolve_loop(voice, response)
    heard *= np.float32(gain_to(TALKER_DBFS, heard[:, 0]))
    path = standing(rig, mouth_m)
    words_said = " ".join("Turn that on." if turn.on else "Turn that off." for turn in turns)
    talking = SourceTruth(
        "talker", "talker", path, activity_pattern(voice), FIRST_S + travel_s(path), period / RATE_HZ,
        text=words_said,
    )  # fmt: skip
    states = {d.id: off(d.type) for d in rig.room.devices}
    states |= {device.id: _on(device) for device in pair}
    kinds = {d.id: KIND_OF_TYPE[d.type] for d in rig.room.devices if d.type in KIND_OF_TYPE}
    stems, truths = device_stems(rig, kinds, states)
    stems = [Stem("talker", heard, round(FIRST_S * RATE_HZ), looping=True), slate_stem(rig), *stems]
    mouth = envelope(voice)
    speaker = rig.room.people[0].id if rig.room.people else "somebody"

    def figure(time_s: float) -> Figure:
        at = (time_s - FIRST_S) % (period / RATE_HZ)
        number = int(at // ROUND_S) % len(turns)
        raised = _raised(at, *spoken[number]) if time_s >= FIRST_S else 0.0
        opened = float(mouth[min(int(at / MOUTH_STEP_S), len(mouth) - 1)]) if time_s >= FIRST_S else 0.0
        target = turns[number].target.position_m if raised > 0 else None
        return Figure(speaker, mouth_m, facing, opened, pointing_at_m=target, raised=raised)

    truth = Truth("point", rig.virtual.seed, (talking, slate_truth(rig), *truths), math.inf, speaker=speaker)
    return VirtualScene(rig, truth, tuple(stems), states, set_conditions(truth, rig), figure, None)


def _on(device: Device) -> dict[str, Value]:
    """A fan runs slowly, so that it is not heard over the words."""
    return running(device.type, percent=30)


def _raised(at_s: float, begin_s: float, end_s: float) -> float:
    """Of the arm: 0 hanging to 1 up."""
    up = (at_s - (begin_s - ARM_BEFORE_S)) / RAISE_S
    down = (end_s + ARM_AFTER_S + RAISE_S - at_s) / RAISE_S
    return float(np.clip(min(up, down), 0.0, 1.0))


def _plan(rig: Rig, random: np.random.Generator) -> tuple[NDArray[np.float64], tuple[Device, Device]]:
    """A place for the mouth, and the two devices: those that are farthest apart from there."""
    able = [d for d in rig.room.devices if d.type in LIGHTS] or []
    able += [d for d in rig.room.devices if d.type in FANS and len(able) < 2]
    for _ in range(50):
        mouth = find_place(rig, random)
        pairs = [] if mouth is None else list(combinations(able, 2))
        if mouth is None or not pairs:
            break
        best = max(pairs, key=lambda pair: _apart_deg(mouth, *pair))
        if _apart_deg(mouth, *best) >= APART_DEG:
            return mouth, best
        if rig.virtual.talker_m is not None:
            break
    raise InputError(
        "the virtual room finds nothing to point at in `room.devices`: the scene `point` needs two lights or"
        f" fans at least {APART_DEG:.0f} degrees apart as somebody in front of the rig sees them"
    )


def _apart_deg(mouth_m: NDArray[np.float64], one: Device, other: Device) -> float:
    a, b = (np.asarray(d.position_m, float) - mouth_m for d in (one, other))
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))
