"""Entities of a real home as devices with our clusters: what they tell, and what to tell them.

An entity is what Home Assistant calls so: `light.reading_lamp`, a state in one word, and attributes with the
names of its entity integrations (developers.home-assistant.io/docs/core/entity). MQTT discovery uses the same
components, so `edge.home.mqtt_components` makes the same entities of its messages.

Units there: brightness 0 to 255, volume 0 to 1, percent, blinds 100 = open, degrees of `temperature_unit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edge.home.schema import Value

AWAY = ("unavailable", "unknown")


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity at one moment."""

    id: str
    state: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        """`light` of `light.reading_lamp`."""
        return self.id.partition(".")[0]

    @property
    def away(self) -> bool:
        """Nobody knows its state now."""
        return self.state in AWAY

    @property
    def assumed(self) -> bool:
        """Its state is only what it was told last: it cannot be read back."""
        return self.attributes.get("assumed_state") is True

    @property
    def name(self) -> str:
        """As people call it."""
        return str(self.attributes.get("friendly_name") or self.id.partition(".")[2].replace("_", " "))


@dataclass(frozen=True, slots=True)
class Call:
    """A service of a domain: light.turn_on with {brightness: 128}."""

    domain: str
    service: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """Calls to make, and how to see in the entity that they were followed."""

    calls: tuple[Call, ...]
    done: Callable[[Entity], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """A command or write: its name ("OnOff.On", "write FanControl.FanMode"), and the attributes that it would
    change in the twin with the values they would get, without endpoints."""

    name: str
    args: Mapping[str, Any]
    changed: Mapping[str, Value]
    after: Mapping[str, Value]


# Sensors that tell the air of a room: device class -> variable of edge.home.environment.
_AIR = {"temperature": "temperature", "humidity": "humidity", "illuminance": "illuminance", "pm10": "pm10"}


def air_of(entity: Entity) -> tuple[str, float] | None:
    """(variable, value) in the twin's units of a sensor that measures the air of its room; else None."""
    variable = _AIR.get(str(entity.attributes.get("device_class")))
    if entity.domain != "sensor" or variable is None or entity.away:
        return None
    try:
        value = float(entity.state)
    except ValueError:
        return None
    if variable == "temperature":
        return variable, round(celsius(value, entity.attributes.get("unit_of_measurement")) * 100, 1)
    return variable, round(value * 100, 1) if variable == "humidity" else value


def level_of(brightness: float | None) -> int | None:
    """Brightness 0 to 255 as a level 1 to 254."""
    return None if brightness is None else min(max(round(brightness * 254 / 255), 1), 254)


def brightness_of(level: int) -> int:
    """A level 1 to 254 as brightness 1 to 255."""
    return min(max(round(level * 255 / 254), 1), 255)


def degrees(hundredths: Value, unit: Any) -> float:
    """Hundredths of a degree Celsius in the home's unit."""
    assert isinstance(hundredths, int | float)
    warmth = hundredths / 100
    return round(warmth * 9 / 5 + 32, 2) if _is_fahrenheit(unit) else round(warmth, 2)


def _is_fahrenheit(unit: Any) -> bool:
    return str(unit).strip().lstrip("°").upper() == "F"


def celsius(value: float, unit: Any) -> float:
    """A temperature of a home that may count in degrees Fahrenheit."""
    return (value - 32) * 5 / 9 if _is_fahrenheit(unit) else value


def number(entity: Entity, key: str) -> float | None:
    """A number among the attributes; None for anything else."""
    value = entity.attributes.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
