"""Words for a device as each grounding speaks of it, and whole requests made of the paraphrase bank."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product

from recordings.plan import sentences
from recordings.plan.device_types import NOUNS, alike
from recordings.plan.model import Participant
from recordings.plan.sentences import sentence
from recordings.profile import DeviceState, Difficulty, Grounding


def room_words(room: str) -> str:
    """ "the living room"."""
    return "the " + room.replace("_", " ").replace("-", " ")


def device_phrases(
    grounding: Grounding,
    difficulty: Difficulty | None,
    target: DeviceState,
    devices: Mapping[str, DeviceState],
    speaker: Participant,
    sound: str,
    side: str,
    rng: random.Random,
) -> list[str]:
    """How the speaker may call the target, in random order. sound: for G2; side: for G3."""
    if grounding == "G0":
        phrases = name_phrases(target, devices)
    elif grounding == "G1":
        # One candidate: the kind is said as well. Several: only the arm tells.
        phrases = (
            kind_phrases(sentences.POINTED_KIND, target.type)
            if difficulty == "easy"
            else [*sentences.POINTED]
        )
    elif grounding == "G2":
        phrases = heard_phrases(sound)
    elif grounding == "G3":
        phrases = side_phrases(target.type, side)
    else:
        phrases = own_phrases(target, speaker, devices)
    rng.shuffle(phrases)
    return phrases


def name_phrases(device: DeviceState, devices: Mapping[str, DeviceState]) -> list[str]:
    """By its own name; with its room where other rooms have a device of that name."""
    with_room = f"the {device.name} in {room_words(device.room)}"
    if sum(d.name.casefold() == device.name.casefold() for d in devices.values()) > 1:
        return [with_room]
    says_room = room_words(device.room).removeprefix("the ") in device.name.casefold()
    return [f"the {device.name}"] if says_room else [f"the {device.name}", with_room]


def kind_phrases(patterns: Sequence[str], device_type: str, **words: str) -> list[str]:
    """Patterns with each word for a kind of device."""
    return [pattern.format(n=noun, **words) for pattern, noun in product(patterns, NOUNS[device_type])]


def heard_phrases(sound: str) -> list[str]:
    """ "whatever is humming"."""
    patterns = sentences.HEARD[1:] if " " in sound else sentences.HEARD
    return [pattern.format(s=sound) for pattern in patterns]


def side_phrases(device_type: str, side: str) -> list[str]:
    """ "the lamp on my left"."""
    return [f"the {noun} {where}" for noun, where in product(NOUNS[device_type], sentences.SIDE_WORDS[side])]


def own_phrases(device: DeviceState, speaker: Participant, devices: Mapping[str, DeviceState]) -> list[str]:
    """Phrases with "my" that mean this device, by the speaker's profile, and no other one."""
    phrases: list[str] = []
    like = [d for d in devices.values() if alike(d.type, device.type)]
    owned = [d for d in like if d.id in speaker.devices]
    in_room = [d for d in like if d.room == speaker.room]
    here = speaker.room is not None and device.room == speaker.room
    if owned == [device] and (here or not in_room):
        phrases += kind_phrases(sentences.OWN, device.type)
    if in_room == [device]:
        phrases += kind_phrases(sentences.OWN_ROOM, device.type)
    return phrases


def imperatives(key: str, words: Mapping[str, str], phrases: Sequence[str]) -> list[str]:
    """ "turn the lamp off", in all words that the bank has."""
    return [p.format(d=d, **words) for p, d in product(sentences.IMPERATIVES[key], phrases)]


def wrapped_requests(do: Sequence[str]) -> list[str]:
    """Whole requests of imperatives."""
    return [sentence(pattern.format(do=action)) for pattern, action in product(sentences.WRAPPERS, do)]


def questions(key: str, phrases: Sequence[str]) -> list[str]:
    """Whole questions."""
    return [sentence(p.format(d=d)) for p, d in product(sentences.QUESTIONS[key], phrases)]
