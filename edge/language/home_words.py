"""The words of one home: how its devices, rooms and people are called. Never what is true of an episode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from edge.language.nouns import NOUNS, ROOM_SYNONYMS, ROOM_WORDS
from edge.language.plain_text import plain


class _Device(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def room(self) -> str: ...


class _Member(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


class HomeMap(Protocol):
    """What a `edge.perception.room_map.RoomMap` tells."""

    @property
    def devices(self) -> Sequence[_Device]: ...
    @property
    def rooms(self) -> tuple[str, ...]: ...
    @property
    def household(self) -> Sequence[_Member]: ...
    @property
    def room_name(self) -> str: ...
    @property
    def time(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device of the home: name in plain words."""

    id: str
    type: str
    name: str
    room: str


@dataclass(frozen=True)
class HomeWords:
    """devices; rooms: plain words -> id; people: plain name -> id; here: the room that the rig is in;
    now_min: minutes after midnight on the home's clock (None: unknown)."""

    devices: tuple[NamedDevice, ...]
    rooms: dict[str, str]
    people: dict[str, str] = field(default_factory=dict)
    here: str | None = None
    now_min: int | None = None

    @classmethod
    def of(cls, home: HomeMap) -> HomeWords:
        """From a room map (`home.describe`)."""
        devices = tuple(NamedDevice(d.id, d.type, plain(d.name), d.room) for d in home.devices)
        rooms = {room_words(room): room for room in home.rooms if room}
        people = {plain(member.name): member.id for member in home.household if member.name}
        clock = re.search(r"\b(\d\d?):(\d\d)", home.time or "")
        now = None if clock is None else 60 * int(clock[1]) + int(clock[2])
        return cls(devices, rooms, people, home.room_name or None, now)

    @cached_property
    def names(self) -> dict[str, list[NamedDevice]]:
        """Plain name -> the devices that have it. Two rooms may both have a "ceiling light"."""
        found: dict[str, list[NamedDevice]] = {}
        for device in self.devices:
            found.setdefault(device.name, []).append(device)
        return found

    @cached_property
    def nouns(self) -> dict[str, tuple[str, ...]]:
        """Noun or name -> types, with the types of this home that have no everyday word."""
        found: dict[str, tuple[str, ...]] = {room_words(d.type): (d.type,) for d in self.devices}
        found |= {name: tuple(dict.fromkeys(d.type for d in named)) for name, named in self.names.items()}
        return {**found, **NOUNS}

    def room_called(self, words: str) -> tuple[str | None, str | None]:
        """("the lounge") -> (room id, None), or (None, words) for a room that the home does not have."""
        for form in (words, ROOM_SYNONYMS.get(words, words)):
            if form in self.rooms:
                return self.rooms[form], None
        for name, room in self.rooms.items():
            if ROOM_SYNONYMS.get(name) == words:
                return room, None
        return None, words

    def room_names(self) -> list[str]:
        """Every word for a room, of this home and of others."""
        return list(dict.fromkeys([*self.rooms, *ROOM_WORDS, *ROOM_SYNONYMS]))


def room_words(room: str) -> str:
    """ "living_room" -> "living room"."""
    return plain(room.replace("_", " ").replace("-", " "))


def head_noun(name: str) -> tuple[str, str]:
    """The noun of a name and what stands before it: "big television" -> ("big", "television").

    The longest noun that ends the name; ("", name) when it ends in no known noun."""
    words = name.split()
    for start in range(len(words)):
        noun = " ".join(words[start:])
        if noun in NOUNS:
            return " ".join(words[:start]), noun
    return "", name


def names_alike(home: HomeWords, modifier: str, noun: str) -> Sequence[NamedDevice]:
    """Devices named with this modifier and any noun of the kind: "small tv" is the small television."""
    kinds = set(NOUNS.get(noun, ()))
    found = []
    for device in home.devices:
        before, own = head_noun(device.name)
        if before == modifier and (own == noun or kinds & set(NOUNS.get(own, ()))):
            found.append(device)
    return found
