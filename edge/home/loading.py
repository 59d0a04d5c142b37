"""A simulation of the home that an episode describes: a profile's, or SimuHome's `initial_home_config`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from edge.home.clock import HomeClock
from edge.home.quirks import SIMUHOME, Quirks
from edge.home.schema import DEVICE_TYPES
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice, in_schema
from recordings.goal_rules import ROOM_FIELDS, room_value
from recordings.profile import DeviceState, HomeState
from recordings.simuhome import CENTI

FIRST_TIME = "2026-01-01 08:00:00"  # of a home that does not say
MOST_BYTES = 64 << 20  # of an episode file; SimuHome's have some 100 kB


@dataclass(frozen=True)
class Loaded:
    """left_out: device id -> why it is not in the simulation."""

    simulation: Simulation
    left_out: dict[str, str] = field(default_factory=dict)


def simulation_of_home(home: HomeState, quirks: Quirks | None = None, *, as_given: bool = False) -> Loaded:
    """The home of a profile. Devices of unknown types, or whose first state the twin cannot have, are left
    out. as_given: see `Home`; without it, attributes that the twin's type does not have are dropped.

    Raises InputError for a time of day of another form.
    """
    quirks = quirks or Quirks()
    devices: list[HomeDevice] = []
    states: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for device in home.devices:
        if device.type not in DEVICE_TYPES:
            left_out[device.id] = f"the twin has no device of type {device.type}"
            continue
        twin = HomeDevice(device.id, device.type, device.name, device.room, device.position_m)
        state = _attributes(device, as_given)
        try:
            Home([twin], {device.id: state}, as_given=as_given, thirds=quirks.fan_thirds)
        except InputError as error:
            left_out[device.id] = f"the twin cannot begin in its first state: {error}"
            continue
        devices.append(twin)
        states[device.id] = state
    rooms: dict[str, dict[str, float]] = {name: {} for name in home.rooms}
    for name, room in home.room_states.items():
        values = {variable: room_value(room, variable) for variable in ROOM_FIELDS}
        rooms[name] = {
            variable: value * 100 if variable in CENTI else value
            for variable, value in values.items()
            if value is not None
        }
    clock = HomeClock(home.clock or FIRST_TIME)
    built = Home(devices, states, as_given=as_given, thirds=quirks.fan_thirds)
    return Loaded(Simulation(built, rooms, clock=clock, quirks=quirks), left_out)


def _attributes(device: DeviceState, keep: bool) -> dict[str, Any]:
    """Attributes for the twin; lists and objects, which a profile holds as JSON text, as what they are."""
    made: dict[str, Any] = {}
    for path, value in device.attributes.items():
        if in_schema(device.type, path):
            made[path] = value
        elif keep:
            made[path] = _parsed(value)
    return made


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def simulation_of_config(config: Any, quirks: Quirks = SIMUHOME) -> Simulation:
    """The home of SimuHome's `initial_home_config`, its attributes as they are.

    Raises InputError that names what is missing or unknown.
    """
    try:
        rooms, devices, states = {}, [], {}
        for room, content in config["rooms"].items():
            rooms[str(room)] = dict(content["state"])
            for device in content["devices"]:
                name, kind = device["device_id"], device["device_type"]
                if not isinstance(name, str) or not isinstance(kind, str):
                    raise InputError(f"device_id and device_type are texts, not {name!r} and {kind!r}")
                short = name.removeprefix(f"{room}_").replace("_", " ")
                devices.append(HomeDevice(name, kind, short, str(room)))
                states[name] = dict(device["attributes"])
        clock = HomeClock(config.get("base_time", FIRST_TIME))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"no initial_home_config of SimuHome: {type(error).__name__}: {error}") from None
    home = Home(devices, states, as_given=True, thirds=quirks.fan_thirds)
    return Simulation(home, rooms, clock=clock, quirks=quirks)


def read_episode(path: Path) -> dict[str, Any]:
    """A SimuHome episode file, parsed. Raises InputError when it is none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes are more than an episode can have")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(data, Mapping) or not {"meta", "eval", "initial_home_config"} <= set(data):
        raise InputError(f"{path}: not an episode of SimuHome: it needs meta, eval and initial_home_config")
    return dict(data)
