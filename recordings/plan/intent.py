"""Implicit intents (Q4): a complaint, the change that helps, and the one device that can bring it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from recordings.plan import device_types as types
from recordings.plan.arrange import States
from recordings.plan.device_types import LIGHTS, Attributes, state_where
from recordings.plan.model import PlanRoom
from recordings.profile import Assert, DeviceState, RoomChange, RoomState, RoomVariable

# Complaint -> the room's variable and where it shall go; the other two move a blind.
_CHANGES: dict[str, tuple[RoomVariable, str, tuple[str, ...]]] = {
    "cooler": ("temperature", "decrease", ("air_conditioner", "fan")),
    "warmer": ("temperature", "increase", ("air_conditioner",)),
    "moister": ("humidity", "increase", ("humidifier",)),
    "drier": ("humidity", "decrease", ()),
    "cleaner": ("pm10", "decrease", ("air_purifier",)),
    "brighter": ("illuminance", "increase", LIGHTS),
    "darker": ("illuminance", "decrease", LIGHTS),
}
_BLINDS = {"private": (10000, 0), "outlook": (0, 10000)}  # wanted, at the start
_BAD_AIR: dict[str, dict[str, float]] = {
    "cooler": {"temperature_c": 29.5},
    "warmer": {"temperature_c": 15.5},
    "moister": {"humidity_percent": 22.0},
    "drier": {"humidity_percent": 78.0},
    "cleaner": {"pm10_ug_m3": 95.0},
    "brighter": {"illuminance_lux": 10.0},
    "darker": {"illuminance_lux": 900.0},
}
_MISSING = {
    "cooler": "nothing that cools",
    "warmer": "nothing that heats",
    "moister": "no humidifier",
    "drier": "no dehumidifier",
    "cleaner": "no air purifier",
    "private": "no blind",
    "outlook": "no blind",
}
_WITH_A_LIMIT = ("fan", "humidifier", "air_purifier")
_LIMIT = {
    "cooler": "The fan runs at one hundred percent already, and nothing else cools there.",
    "moister": "The humidifier runs at one hundred percent already.",
    "cleaner": "The air purifier runs at one hundred percent already.",
}
HEAT = 4  # Thermostat.SystemMode


@dataclass(frozen=True)
class Intent:
    """One complaint about a room. states: of the room's devices, so that only `target` can help (or nothing
    can: then `reason`)."""

    key: str
    target: DeviceState | None
    states: States
    changes: tuple[RoomChange, ...] = ()
    asserts: tuple[Assert, ...] = ()
    air: dict[str, float] = field(default_factory=dict)
    reason: str = ""


def intents(room: PlanRoom, feasibility: str, place: str, rng: random.Random) -> list[Intent]:
    """Every complaint that this room allows, in random order; place: "the kitchen", for the reason."""
    found: list[Intent] = []
    for key in (*_CHANGES, *_BLINDS):
        helpers = [device for device in room.devices if device.type in _types(key)]
        if feasibility == "nonexistent_resource":
            if not helpers:
                why = f"There is {_MISSING[key]} in {place}."
                found.append(_intent(key, None, room, {}, why))
        elif feasibility == "physical_limit":
            # An air conditioner at its limit has a setpoint left to try; a blind is done, not at a limit.
            if len(helpers) == 1 and key in _LIMIT and helpers[0].type in _WITH_A_LIMIT:
                states = {helpers[0].id: _at_limit(key, helpers[0].type)}
                found.append(_intent(key, helpers[0], room, states, _LIMIT[key]))
        else:
            for target in helpers:
                others = [device for device in helpers if device.id != target.id]
                if others and not (key in ("brighter", "darker") or key in _BLINDS):
                    continue  # any of them would do
                states = {device.id: _settled(key, device.type) for device in others}
                states[target.id] = _unsettled(key, target.type)
                found.append(_intent(key, target, room, states))
    rng.shuffle(found)
    return found


def likes_elsewhere(rooms: Sequence[PlanRoom], room: PlanRoom, intent: Intent, could_help: bool) -> States:
    """States of devices of the target's kind in other rooms: able to help there, or not."""
    states: States = {}
    for other in rooms:
        if other.id == room.id or intent.target is None:
            continue
        for device in other.devices:
            if types.alike(device.type, intent.target.type):
                make = _unsettled if could_help else _settled
                states[device.id] = make(intent.key, device.type)
    return states


def spoilt(air: RoomState, intent: Intent) -> RoomState:
    """The room's air and light as they are complained about."""
    fields = {name: getattr(air, name) for name in air.__struct_fields__}
    return RoomState(**{**fields, **intent.air})


def _types(key: str) -> tuple[str, ...]:
    return ("window_covering",) if key in _BLINDS else _CHANGES[key][2]


def _intent(key: str, target: DeviceState | None, room: PlanRoom, states: States, reason: str = "") -> Intent:
    if key in _BLINDS:
        wanted = _BLINDS[key][0]
        asserts = () if target is None else (Assert(device_id=target.id, attribute=types.LIFT, value=wanted),)
        return Intent(key, target, states, asserts=asserts, reason=reason)
    variable, direction, _ = _CHANGES[key]
    change = RoomChange(
        room=room.id, variable=variable, direction="increase" if direction == "increase" else "decrease"
    )
    return Intent(key, target, states, changes=(change,), air=_BAD_AIR[key], reason=reason)


def _unsettled(key: str, device_type: str) -> Attributes:
    """A state from which the device can help."""
    if key in _BLINDS:
        return state_where(device_type, {types.LIFT: _BLINDS[key][1]})
    return state_where(device_type, {types.ON: key == "darker"})


def _settled(key: str, device_type: str) -> Attributes:
    """A state from which a lamp, a blind or (where nobody hears it) a fan cannot help."""
    if key in _BLINDS:
        return state_where(device_type, {types.LIFT: _BLINDS[key][0]})
    if key == "darker":
        return state_where(device_type, {types.ON: False})
    if device_type in LIGHTS:
        return state_where(device_type, {types.ON: True})
    return _at_limit(key, device_type)


def _at_limit(key: str, device_type: str) -> Attributes:
    if key in _BLINDS:
        return state_where(device_type, {types.LIFT: _BLINDS[key][0]})
    state = state_where(device_type, {types.ON: True, types.PERCENT: 100})
    if device_type == "air_conditioner":
        state |= {types.MODE: types.COOL, types.COOLING: 1600}
        if key == "warmer":
            state |= {types.MODE: HEAT, types.HEATING: 3000}
    return state
