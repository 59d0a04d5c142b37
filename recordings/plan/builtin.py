"""The built-in virtual home, so that a plan can be made and recorded without any hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from dsp.errors import InputError
from recordings.plan.device_types import AT_REST
from recordings.plan.model import Participant, PlanRoom
from recordings.yaml_text import load_yaml

FIVE_ROOMS = Path(__file__).parent / "five_rooms.yaml"


class _Home(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    rooms: tuple[PlanRoom, ...]
    participants: tuple[Participant, ...]


def virtual_home() -> tuple[tuple[PlanRoom, ...], tuple[Participant, ...]]:
    """Five rooms with their devices at rest, and five participants with their household profiles."""
    return home_from_yaml(FIVE_ROOMS.read_text(encoding="utf-8"), str(FIVE_ROOMS))


def home_from_yaml(text: str, where: str) -> tuple[tuple[PlanRoom, ...], tuple[Participant, ...]]:
    """Rooms and participants of a file in the form of five_rooms.yaml: a device needs neither its room nor
    its attributes. Raises InputError with the key and the value."""
    try:
        data = load_yaml(text)
        for room in data["rooms"]:
            for device in room["devices"]:
                _complete(device, room["id"], where)
        home = msgspec.convert(data, _Home)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: no rooms with devices in it ({error})") from None
    return home.rooms, home.participants


def _complete(device: dict[str, Any], room: str, where: str) -> None:
    kind = device.get("type")
    if kind not in AT_REST:
        raise InputError(
            f"{where}: device {device.get('id')!r} has the type {kind!r}; known: {', '.join(AT_REST)}"
        )
    device.setdefault("room", room)
    device["attributes"] = {**AT_REST[kind], **device.get("attributes", {})}
