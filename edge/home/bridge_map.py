"""Which device of ours each entity of a real home is, and which entities are none of ours, and why."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edge.home.bridge_entities import Entity
from edge.home.bridge_kinds import can_become, kind_of
from edge.home.schema import DEVICE_TYPES
from edge.home.twin import HomeDevice

OWN = "hearth_"  # ids of what Hearth announces itself begin so


@dataclass(frozen=True, slots=True)
class Place:
    """What the home's registries say: room ("": none); hidden: a word why people do not see it ("": they do);
    own: it is Hearth's."""

    room: str = ""
    name: str = ""
    hidden: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A device and the entity that it is."""

    device: HomeDevice
    entity: str


def device_map(
    named: Sequence[Any],
    here: str,
    entities: Mapping[str, Entity],
    places: Mapping[str, Place],
    leave_out: Sequence[str] = (),
) -> tuple[list[Bound], dict[str, str]]:
    """(devices, entity id -> why it is left out).

    named: the rig's devices (`capture.rig.Device`); those with an entity are that, with the rig's id, type,
    name and position, also while the home does not tell of it. here: the rig's room.
    """
    bound, left_out = [], {}
    for device in named:
        if device.entity is None:
            continue
        entity = entities.get(device.entity)
        if device.type not in DEVICE_TYPES:
            left_out[device.entity] = f"rig.yaml calls it {device.type}, a type that Hearth does not have"
        elif entity is not None and not can_become(entity, device.type):
            left_out[device.entity] = f"rig.yaml calls it {device.type}, but it tells nothing that one has"
        else:
            one = HomeDevice(device.id, device.type, device.name, device.room or here, device.position_m)
            bound.append(Bound(one, device.entity))
    taken = {one.entity for one in bound} | set(left_out)
    found = []
    for entity_id, entity in sorted(entities.items()):
        if entity_id in taken:
            continue
        place = places.get(entity_id, Place())
        kind, why = kind_of(entity)
        if place.own:
            why, kind = "it is Hearth's own", None
        elif any(fnmatch.fnmatchcase(entity_id, pattern) for pattern in leave_out):
            why, kind = "home.leave_out of rig.yaml says so", None
        elif place.hidden:
            why, kind = f"it is {place.hidden} in the home", None
        elif kind is not None and not can_become(entity, kind):
            why, kind = "it tells no state that Hearth knows", None
        if kind is None:
            left_out[entity_id] = why
        else:
            name = _plain(place.name or entity.name)
            found.append(Bound(HomeDevice(slug(entity_id), kind, name, place.room, None), entity_id))
    return _told_apart(bound, found), left_out


def slug(text: str) -> str:
    """`Living Room` -> `living_room`: an id."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return made if made[:1].isalpha() else f"x_{made}"


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _told_apart(bound: Sequence[Bound], found: Sequence[Bound]) -> list[Bound]:
    """Names that stand twice get their room, then a number; ids that stand twice a number."""
    made = list(bound)
    ids = {one.device.id for one in bound}
    names = {one.device.name.lower() for one in bound}
    counts: dict[str, int] = {}
    for one in found:
        counts[one.device.name.lower()] = counts.get(one.device.name.lower(), 0) + 1
    for one in found:
        device = one.device
        name = device.name
        if (counts[name.lower()] > 1 or name.lower() in names) and device.room:
            name = f"{device.room.replace('_', ' ')} {name}"
        device = replace(device, id=_free(device.id, ids, "_"), name=_free(name, names, " ", key=str.lower))
        ids.add(device.id)
        names.add(device.name.lower())
        made.append(Bound(device, one.entity))
    return made


def _free(wanted: str, taken: set[str], mark: str, key: Any = str) -> str:
    number, free = 1, wanted
    while key(free) in taken:
        number += 1
        free = f"{wanted}{mark}{number}"
    return free
