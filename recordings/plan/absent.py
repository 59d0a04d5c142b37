"""What is not there: requests about a device that a room does not have, or with a cue that nobody gives."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recordings.plan import device_types as types
from recordings.plan import sentences
from recordings.plan.arrange import States
from recordings.plan.device_types import NOUNS, alike, state_where
from recordings.plan.model import Participant, PlanRoom
from recordings.plan.wording import heard_phrases, kind_phrases, room_words
from recordings.profile import DeviceState, Grounding

# One type for each kind of device that people have a word for.
KINDS: tuple[str, ...] = tuple(
    kind for number, kind in enumerate(NOUNS) if not any(alike(kind, k) for k in [*NOUNS][:number])
)
NO_CUE_KEYS = ("on", "off", "is_on")  # make sense for whatever "that" may be
SOUNDING_KEYS = ("off", "speed", "volume", "pause", "stop", "how_fast", "how_loud", "is_running")


@dataclass(frozen=True)
class Absent:
    """One way of not being there.

    device_type: of what is asked about. phrases: how it is called; empty for G3, where the side tells.
    missing: the id that it would have; None where no device but a cue is missing. keys: which asks make
    sense; empty: all. points_at: what the speaker points at instead. likes: what must not be on the side that
    is said (G3). states: of devices of the room. quiet: nothing of the room is heard but what `states` says.
    """

    device_type: str
    phrases: list[str]
    reason: str
    missing: str | None = None
    keys: tuple[str, ...] = ()
    points_at: DeviceState | None = None
    likes: tuple[DeviceState, ...] = ()
    states: States = field(default_factory=dict)
    quiet: bool = False


def absences(
    grounding: Grounding,
    room: PlanRoom,
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    turn: int,
    rng: random.Random,
) -> list[Absent]:
    """All that could be missing in this room, in random order, what differs in kind taking turns: `turn` says
    which kind comes first."""
    here = [device for device in devices.values() if device.room == room.id]
    make = {"G0": _named, "G1": _pointed, "G2": _heard, "G3": _beside, "G4": _own}[grounding]
    ways = [way for way in make(room, here, devices, speaker, rng) if way]
    for way in ways:
        rng.shuffle(way)
    start = turn % len(ways) if ways else 0
    return [absent for way in ways[start:] + ways[:start] for absent in way]


def _missing_id(device_type: str, room: str, devices: Mapping[str, DeviceState]) -> str:
    number = 1
    while f"{room}_{device_type}_{number}" in devices:
        number += 1
    return f"{room}_{device_type}_{number}"


def _lacking(here: Sequence[DeviceState]) -> list[str]:
    return [kind for kind in KINDS if not any(alike(kind, device.type) for device in here)]


def _named(
    room: PlanRoom,
    here: Sequence[DeviceState],
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    rng: random.Random,
) -> list[list[Absent]]:
    place = room_words(room.id)
    in_room, anywhere = [], []
    for kind in _lacking(here):
        phrases = [f"the {noun} in {place}" for noun in NOUNS[kind]]
        why = f"There is no {NOUNS[kind][0]} in {place}."
        in_room.append(Absent(kind, phrases, why, _missing_id(kind, room.id, devices)))
    names = {device.name.casefold() for device in devices.values()}
    for kind in KINDS:
        for name in sentences.ELSEWHERE[kind]:
            if name not in names:
                why = f"There is no {name} in this home."
                anywhere.append(Absent(kind, [f"the {name}"], why, _missing_id(kind, room.id, devices)))
    return [in_room, anywhere]


def _pointed(
    room: PlanRoom,
    here: Sequence[DeviceState],
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    rng: random.Random,
) -> list[list[Absent]]:
    nobody = Absent(
        "on_off_light",
        [*sentences.POINTED],
        f"{speaker.name} points at nothing, so that nobody can know what is meant.",
        keys=NO_CUE_KEYS,
    )
    others = []
    for kind in _lacking(here):
        for device in here:
            why = f"There is no {NOUNS[kind][0]} there: {speaker.name} points at the {device.name}."
            phrases = kind_phrases(sentences.POINTED_KIND, kind)
            others.append(Absent(kind, phrases, why, _missing_id(kind, room.id, devices), points_at=device))
    return [[nobody], others]


def _heard(
    room: PlanRoom,
    here: Sequence[DeviceState],
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    rng: random.Random,
) -> list[list[Absent]]:
    silent, none, another = [], [], []
    place = room_words(room.id)
    for word, may in sentences.SOUNDS.items():
        kinds = [kind for kind in may if word in sentences.SOUND_OF.get(kind, ())]
        phrases = heard_phrases(word)
        there = [device for device in here if device.type in may]
        kind = rng.choice(kinds)
        if there:
            states = {device.id: state_where(device.type, {types.ON: True}) for device in there}
            why = f"Nothing in {place} is {word}."
            silent.append(Absent(kind, phrases, why, None, SOUNDING_KEYS, states=states, quiet=True))
            continue
        missing = _missing_id(kind, room.id, devices)
        why = f"Nothing in {place} could be {word}."
        none.append(Absent(kind, phrases, why, missing, SOUNDING_KEYS, quiet=True))
        for device in here:
            if device.type in sentences.SOUND_OF:
                heard = {device.id: state_where(device.type, {types.ON: True}, 50)}
                why = f"Nothing in {place} is {word}; only the {device.name} is heard."
                another.append(Absent(kind, phrases, why, missing, SOUNDING_KEYS, states=heard, quiet=True))
    return [silent, none, another]


def _beside(
    room: PlanRoom,
    here: Sequence[DeviceState],
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    rng: random.Random,
) -> list[list[Absent]]:
    place = room_words(room.id)
    other_side, none = [], []
    for kind in KINDS:
        likes = tuple(device for device in here if alike(device.type, kind))
        noun = NOUNS[kind][0]
        if likes:
            why = f"The {noun} is on another side of {speaker.name}."
            if len(likes) > 1:
                why = f"There is no {noun} on that side of {speaker.name}."
            other_side.append(Absent(kind, [], why, likes=likes))
        else:
            why = f"There is no {noun} in {place}."
            none.append(Absent(kind, [], why, _missing_id(kind, room.id, devices)))
    return [other_side, none]


def _own(
    room: PlanRoom,
    here: Sequence[DeviceState],
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    rng: random.Random,
) -> list[list[Absent]]:
    by_room, by_person = [], []
    mine = [device for device in devices.values() if device.id in speaker.devices]
    in_my_room = [device for device in devices.values() if device.room == speaker.room]
    for kind in KINDS:
        noun = NOUNS[kind][0]
        if any(alike(kind, device.type) for device in in_my_room):
            continue
        if speaker.room is not None and in_my_room:
            why = f"There is no {noun} in {speaker.name}'s room, {room_words(speaker.room)}."
            missing = _missing_id(kind, speaker.room, devices)
            by_room.append(Absent(kind, kind_phrases(sentences.OWN_ROOM, kind), why, missing))
        if not any(alike(kind, device.type) for device in mine):
            why = f"{speaker.name} has no {noun}."
            missing = _missing_id(kind, f"{speaker.id}", devices)
            by_person.append(Absent(kind, kind_phrases(sentences.OWN, kind), why, missing))
    return [by_room, by_person]
