"""Implicit intents: which device of a room can help against a complaint, and what it must become for that.

The rules are those of `edge.home.control_rules`: what each type does to the air and light of its room.
"""

from __future__ import annotations

from edge.agent.home_view import HomeView, path_of, value_of
from edge.agent.plan_orders import (
    COOLING,
    FAN,
    HEAT,
    HEATING,
    LEVEL,
    LEVEL_MOST,
    LIFT,
    MODE,
    ON,
    Limit,
    Wanted,
    range_of,
)
from edge.home.air_goals import MOVERS
from edge.home.schema import Value
from edge.language.intent import Need
from edge.perception.room_map import MapDevice

COMFORT_COOL, COMFORT_HEAT = 2200, 2200  # hundredths of a degree, unless the room is beyond them already
STEP = 200  # then so much beyond the room
# Which helps best, where a room has several.
RANK = {"air_conditioner": 1.0, "heat_pump": 0.9, "dimmable_light": 1.0, "on_off_light": 0.9, "fan": 0.5}
AGAINST = 0.3  # switching off what works the other way helps, if less


def helpers(need: Need, room: str, home: HomeView) -> list[tuple[MapDevice, float]]:
    """Devices of the room that such a need is about, with odds: those that can do something now come before
    those that already do all they can."""
    found = []
    for device in home.devices:
        if device.room != room:
            continue
        if need.blind is not None:
            if path_of(device, LIFT) is not None:
                found.append((device, _odds(helping(device, need, home), 1.0)))
            continue
        rank = RANK.get(device.type, 0.8)
        if need.direction in MOVERS.get(device.type, {}).get(str(need.variable), ()):
            found.append((device, _odds(helping(device, need, home), rank)))
        elif _works_against(device, need):
            found.append((device, AGAINST * rank))
    return found


def _odds(way: Wanted | Limit, rank: float) -> float:
    return rank if isinstance(way, Wanted) else 0.02 * rank


def helping(device: MapDevice, need: Need, home: HomeView) -> Wanted | Limit:
    """What a device must become to help; a Limit when it does all it can already."""
    if need.blind is not None:
        path = path_of(device, LIFT)
        assert path is not None
        target = 10000 if need.blind == "close" else 0
        if device.attributes[path] == target:
            state = "closed" if target else "open"
            return Limit(f"The {device.name} is {state} already.")
        return Wanted({path: target})
    if need.variable == "illuminance":
        return _light(device, need.direction == "increase")
    on = path_of(device, ON)
    if _works_against(device, need):
        mode = path_of(device, MODE)
        return Wanted({on: False} if on is not None else {str(mode): 0})
    wanted: dict[str, Value] = {} if on is None else {on: True}
    if path_of(device, MODE) is not None:
        wanted |= _thermostat(device, need, home)
    fan = path_of(device, FAN)
    if fan is not None and not (device.attributes.get(on or "") and device.type == "air_conditioner"):
        wanted[fan] = 100
    way = Wanted(wanted)
    if not way.holds(device.attributes):
        return way
    does = {"temperature": "cools" if need.direction == "decrease" else "heats"}.get(
        str(need.variable), "helps"
    )
    kind = device.type.replace("_", " ")
    words = f"The {kind} runs at one hundred percent already"
    if fan is None or device.attributes.get(fan) != 100:
        words = f"The {kind} does all it can already"
    return Limit(f"{words}, and nothing else {does} there." if does != "helps" else f"{words}.")


def _light(device: MapDevice, brighter: bool) -> Wanted | Limit:
    on, level = path_of(device, ON), path_of(device, LEVEL)
    if on is None:
        return Limit(f"The {device.name} cannot be switched.")
    lit = device.attributes[on] is True
    if not brighter:
        return (
            Wanted({on: False})
            if device.attributes[on] is not False
            else Limit(f"The {device.name} is off already.")
        )
    if level is not None:
        now = device.attributes[level]
        if lit and now == LEVEL_MOST:
            return Limit(f"The {device.name} is at one hundred percent already.")
        return Wanted({on: True, level: LEVEL_MOST})
    return Limit(f"The {device.name} is on already.") if lit else Wanted({on: True})


def _thermostat(device: MapDevice, need: Need, home: HomeView) -> dict[str, Value]:
    cool = need.direction == "decrease"
    mode, path = path_of(device, MODE), path_of(device, COOLING if cool else HEATING)
    if mode is None or path is None:
        return {}
    air = home.air.get(device.room, {}).get("temperature")
    local = value_of(device, "Thermostat.LocalTemperature")
    now = local if air is None else (air if abs(air) > 100 else 100 * air)
    target = COMFORT_COOL if cool else COMFORT_HEAT
    if isinstance(now, int | float):
        target = min(target, round(now) - STEP) if cool else max(target, round(now) + STEP)
    setpoint = device.attributes[path]
    told = isinstance(now, int | float) and isinstance(setpoint, int | float)
    helps = told and (setpoint < now - 50 if cool else setpoint > now + 50)
    if device.attributes[mode] == (3 if cool else HEAT) and helps:
        target = setpoint - STEP if cool else setpoint + STEP  # it works that way already: more of it
    low, high = range_of(device, path)
    if low is not None and high is not None:
        target = round(min(max(target, low), high))
    return {mode: 3 if cool else HEAT, path: target}


def _works_against(device: MapDevice, need: Need) -> bool:
    """Whether the device is on now and moves the variable the other way (and only that way)."""
    ways = MOVERS.get(device.type, {}).get(str(need.variable), ())
    if need.variable == "illuminance" or not ways or need.direction in ways:
        return False
    return value_of(device, ON) is True
