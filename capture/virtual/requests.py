"""What happens in a "request" scene: who asks for what from where, and what the evidence is.

Even seeds are sound grounding (G2): the request names a sound; only its direction and its kind tell which
device is meant, and another device that could make such a sound is on but silent. Odd seeds are space
grounding (G3): "the light on my right", as the speaker sees it while facing the rig, with one such device on
each side and both in the same state. The name of a device alone never tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig
from capture.virtual.home_state import (
    FANS,
    LIGHTS,
    Value,
    off,
    on_but_silent,
    running,
)
from capture.virtual.sound import KIND_OF_TYPE, Kind
from capture.virtual.utterance import Utterance, utterances
from dsp.errors import InputError
from recordings.geometry import direction_to_point, unit_from_direction

# What a person may mean by a sound word: every type of device that can sound so.
SOUND_WORDS: dict[str, tuple[str, ...]] = {
    "humming": ("fan", "air_conditioner", "air_purifier", "humidifier", "refrigerator"),
    "beeping": ("microwave", "laundry_washer", "refrigerator"),
    "music": ("audio_player", "tv"),
    "spinning": ("laundry_washer", "fan"),
    "rattling": ("laundry_washer", "fan", "air_conditioner"),
}
# The ones that we let sound for it.
SOUNDING_TYPES: dict[str, tuple[str, ...]] = {
    "humming": FANS,
    "beeping": ("microwave", "laundry_washer"),
    "music": ("audio_player", "tv"),
    "spinning": ("laundry_washer",),
    "rattling": ("laundry_washer",),
}
KIND_OF_WORD: dict[str, Kind] = {
    "humming": "hum",
    "beeping": "beep",
    "music": "music",
    "spinning": "spin",
    "rattling": "spin",
}
SPACE_WORDS: dict[str, tuple[str, ...]] = {"light": LIGHTS, "fan": ("fan",)}
APART_DEG = 20.0  # between the sounding device and any other that the word could mean
VOICES = ("joe", "espeak")  # the first person of the rig has the first voice, the second the second
MOUTH_ABOVE_FLOOR_M = 1.52


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One request scene before it is rendered. Places in the room frame, metres."""

    grounding: str
    utterance: Utterance
    speaker: str
    target: Device
    turn_on: bool
    states: dict[str, dict[str, Value]]
    kinds: dict[str, Kind]  # what each device sounds like in this scene
    mouth_m: NDArray[np.float64]


def side_of(
    mouth_m: NDArray[np.float64], rig_m: NDArray[np.float64], place_m: tuple[float, float, float]
) -> str | None:
    """ "left" or "right" as seen by a speaker who faces the rig; None when it is not clearly either.

    Clear is: at least half a metre off the line of sight, and 25 to 155 degrees from it.
    """
    forward = (rig_m - mouth_m)[:2]
    forward = forward / np.linalg.norm(forward)
    offset = np.asarray(place_m)[:2] - mouth_m[:2]
    left = float(forward[0] * offset[1] - forward[1] * offset[0])
    ahead = float(forward @ offset)
    angle = np.degrees(np.arctan2(abs(left), ahead))
    if abs(left) < 0.5 or not 25 <= angle <= 155:
        return None
    return "left" if left > 0 else "right"


def plan_request(rig: Rig, seed: int) -> RequestPlan:
    """The scene of this seed: even G2, odd G3 (the other one where the rig's devices do not allow it).

    Raises InputError when the rig's room has neither a device that can be told by its sound nor a pair.
    """
    random = np.random.default_rng([seed, 7])
    order = (_plan_sound, _plan_space) if seed % 2 == 0 else (_plan_space, _plan_sound)
    for make in order:
        plan = make(rig, seed // 2, random)
        if plan is not None:
            return plan
    raise InputError(
        "the virtual room finds no request for `room.devices`: it needs a device that sounds (fan, "
        "air_conditioner, microwave, laundry_washer, audio_player, tv) and another that could sound alike "
        "at least 20 degrees away, or two lights or two fans on either side of the middle of the room"
    )


def sound_choices(rig: Rig) -> list[tuple[str, Device]]:
    """Every (sound word, device) for which another candidate exists and all others lie apart in direction."""
    choices = []
    for word, types in SOUND_WORDS.items():
        candidates = [d for d in rig.room.devices if d.type in types]
        for target in candidates:
            others = [d for d in candidates if d.id != target.id]
            apart = all(_angle(rig, target, other) >= APART_DEG for other in others)
            if target.type in SOUNDING_TYPES[word] and others and apart:
                choices.append((word, target))
    return choices


def find_place(
    rig: Rig, random: np.random.Generator, accept: tuple[Device, ...] = ()
) -> NDArray[np.float64] | None:
    """A place for the mouth: at least 1 m from the rig, in the camera's view, clear of walls and devices.

    With two devices in `accept`: one must be clearly left and the other clearly right of the speaker.
    `virtual.talker_m` is that place, if the rig names one; None then when it does not do.
    """
    microphone = np.asarray(rig.microphone.position_m)
    if rig.virtual.talker_m is not None:
        named = np.asarray(rig.virtual.talker_m)
        ok = {side_of(named, microphone, device.position_m) for device in accept} == {"left", "right"}
        return named if ok or not accept else None
    view = min(rig.camera.hfov_deg / 2 - 15, 30) if rig.camera.source != "none" else 30.0
    size = np.asarray(rig.room.size_m)
    for _ in range(2000):
        # Azimuth and distance are those seen by the camera, which sees the whole person.
        azimuth = rig.microphone.yaw_deg + rig.camera.yaw_deg + random.uniform(-view, view)
        distance = random.uniform(1.3, 2.3)
        mouth = microphone + distance * unit_from_direction(azimuth, 0.0)
        mouth[2] = MOUTH_ABOVE_FLOOR_M + random.uniform(-0.06, 0.06)
        if mouth[2] > size[2] - 0.3 or np.any(mouth[:2] < 0.4) or np.any(mouth[:2] > size[:2] - 0.4):
            continue
        low = [np.asarray(d.position_m)[:2] for d in rig.room.devices if d.position_m[2] < 2.0]
        if any(np.linalg.norm(place - mouth[:2]) < 0.6 for place in low):
            continue
        if accept:
            sides = {side_of(mouth, microphone, device.position_m) for device in accept}
            if sides != {"left", "right"}:
                continue
        return np.asarray(mouth)
    return None


def _plan_sound(rig: Rig, turn: int, random: np.random.Generator) -> RequestPlan | None:
    choices = sound_choices(rig)
    # A fixed shuffle walked in order, so that a handful of seeds meets different words and devices.
    for step in range(len(choices)):
        shuffled = np.random.default_rng(3).permutation(len(choices))
        word, target = choices[int(shuffled[(turn + step) % len(choices)])]
        spoken = _pick(rig, random, [u for u in utterances() if u.kind == "request" and word in u.key])
        mouth = find_place(rig, random)
        if spoken is None or mouth is None:
            continue
        states = _quiet_home(rig, random)
        kinds = {d.id: KIND_OF_TYPE[d.type] for d in rig.room.devices if d.type in KIND_OF_TYPE}
        for device in rig.room.devices:
            if device.type in SOUND_WORDS[word]:
                states[device.id] = on_but_silent(device.type)
        states[target.id] = running(target.type)
        kinds[target.id] = KIND_OF_WORD[word]
        return RequestPlan("G2", spoken[0], spoken[1], target, False, states, kinds, mouth)
    return None


def _plan_space(rig: Rig, turn: int, random: np.random.Generator) -> RequestPlan | None:
    microphone = np.asarray(rig.microphone.position_m)
    choices = [(w, s, on) for w in SPACE_WORDS for s in ("right", "left") for on in (True, False)]
    shuffled = np.random.default_rng(5).permutation(len(choices))
    for step in range(len(choices)):
        word, side, turn_on = choices[int(shuffled[(turn + step) % len(choices)])]
        pair = tuple(d for d in rig.room.devices if d.type in SPACE_WORDS[word])
        if len(pair) != 2:
            continue
        mouth = find_place(rig, random, pair)
        key = f"turn_{'on' if turn_on else 'off'}_{word}_{side}"
        spoken = _pick(rig, random, [u for u in utterances() if u.key == key])
        if mouth is None or spoken is None:
            continue
        states = _quiet_home(rig, random)
        for device in pair:
            states[device.id] = off(device.type) if turn_on else running(device.type, percent=40)
        target = next(d for d in pair if side_of(mouth, microphone, d.position_m) == side)
        kinds = {d.id: KIND_OF_TYPE[d.type] for d in rig.room.devices if d.type in KIND_OF_TYPE}
        return RequestPlan("G3", spoken[0], spoken[1], target, turn_on, states, kinds, mouth)
    return None


def _quiet_home(rig: Rig, random: np.random.Generator) -> dict[str, dict[str, Value]]:
    """Nothing sounds; some lamps are on."""
    states = {}
    for device in rig.room.devices:
        lit = device.type in LIGHTS and random.random() < 0.5
        states[device.id] = running(device.type) if lit else off(device.type)
    return states


def _pick(rig: Rig, random: np.random.Generator, sentences: list[Utterance]) -> tuple[Utterance, str] | None:
    """One of the sentences, and the person whose voice it is."""
    people = [p.id for p in rig.room.people] or ["somebody"]
    sentences = [u for u in sentences if VOICES.index(u.voice) < len(people)] or sentences
    if not sentences:
        return None
    spoken = sentences[int(random.integers(0, len(sentences)))]
    return spoken, people[VOICES.index(spoken.voice) % len(people)]


def _angle(rig: Rig, one: Device, other: Device) -> float:
    """Degrees between two devices as the microphone hears them."""
    directions = [
        unit_from_direction(
            *direction_to_point(d.position_m, rig.microphone.position_m, rig.microphone.yaw_deg)[:2]
        )
        for d in (one, other)
    ]
    return float(np.degrees(np.arccos(np.clip(directions[0] @ directions[1], -1, 1))))
