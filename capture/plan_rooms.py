"""Rooms and participants of a plan from the rig.yaml files of the rooms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from capture.rig import Rig, load_rig
from dsp.errors import InputError
from recordings.plan.device_types import AT_REST
from recordings.plan.model import Participant, PlanRoom
from recordings.profile import DeviceState


def rooms_of_rigs(paths: Sequence[Path]) -> tuple[PlanRoom, ...]:
    """A room for each rig; its devices at rest. Raises InputError for rooms or devices with the same id."""
    rooms: dict[str, PlanRoom] = {}
    where: dict[str, Path] = {}
    for path in paths:
        room = _room(load_rig(path), path)
        if room.id in rooms:
            raise InputError(
                f"{path}: its room is {room.id!r}, as in {rooms[room.id].rig}; give rooms different names"
                " (`room.name`)"
            )
        for device in room.devices:
            if device.id in where:
                raise InputError(
                    f"{path}: the device id {device.id!r} is that of a device in {where[device.id]}; ids must"
                    " be unique in the whole home"
                )
            where[device.id] = path
        rooms[room.id] = room
    return tuple(rooms.values())


def _room(rig: Rig, path: Path) -> PlanRoom:
    name = rig.room.name.strip().replace(" ", "_")
    devices = tuple(
        DeviceState(
            id=device.id,
            type=device.type,
            name=device.name,
            room=name,
            position_m=device.position_m,
            attributes=dict(AT_REST[device.type]),
        )
        for device in rig.room.devices
        if device.type in AT_REST  # plans ask for no others
    )
    try:
        return msgspec.convert(
            {
                "id": name,
                "size_m": rig.room.size_m,
                "microphone_m": rig.microphone.position_m,
                "microphone_yaw_deg": rig.microphone.yaw_deg,
                "devices": msgspec.to_builtins(devices),
                "rig": str(path),
                "view_deg": _view(rig),
            },
            PlanRoom,
        )
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: `room.name` {rig.room.name!r} cannot be the id of a room: {error}"
        ) from None


def _view(rig: Rig) -> float:
    """How wide the camera sees to both sides of the microphone's front; a plan goes by the narrower side."""
    if rig.camera.source == "none":
        return 90.0
    return max(0.0, rig.camera.hfov_deg - 2 * abs(rig.camera.yaw_deg))


def people_of_rigs(paths: Sequence[Path]) -> tuple[Participant, ...]:
    """Everybody whom the rigs name (`room.people`), each once. Raises InputError when they disagree."""
    people: dict[str, Participant] = {}
    for path in paths:
        for person in load_rig(path).room.people:
            room = person.room.strip().replace(" ", "_") if person.room else None
            found = Participant(id=person.id, name=person.name, room=room)
            if people.setdefault(person.id, found) != found:
                raise InputError(f"{path}: {person.id!r} is not the same person as in another rig file")
    if not people:
        raise InputError(
            "the rigs name nobody under `room.people`; name the participants there, or give --participants"
        )
    return tuple(people.values())


def people_from_file(path: Path) -> tuple[Participant, ...]:
    """A YAML list of participants (`participants:` above it or not). Raises InputError with the key."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and set(data) == {"participants"}:
            data = data["participants"]
        return msgspec.convert(data, tuple[Participant, ...])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the participants: {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from None
