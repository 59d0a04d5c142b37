"""What each device type is made of: endpoints, clusters, attributes with range, access and first value.

Cluster, attribute and command names are those of the Matter Application Cluster Specification; which type
carries which cluster follows the SimuHome benchmark. Temperatures and humidity are in hundredths, levels
1-254, fans 0-100 %, blinds 0 (open) to 10000 (closed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its kind, range, whether it can be written, and its value when nothing is said.

    choices: the only values (a mode); needs_on: a write is refused while the device's OnOff is false.
    """

    default: Value
    low: int | None = None
    high: int | None = None
    writable: bool = False
    choices: tuple[int, ...] | None = None
    needs_on: bool = False

    @property
    def kind(self) -> type:
        """The Python type of its values."""
        return bool if isinstance(self.default, bool) else int


ON_OFF = {"OnOff": Attribute(False)}
LEVEL = {
    "CurrentLevel": Attribute(254, 1, 254),
    "MinLevel": Attribute(1, 1, 254),
    "MaxLevel": Attribute(254, 1, 254),
}
FAN = {
    "FanMode": Attribute(0, choices=(0, 1, 2, 3), writable=True, needs_on=True),
    "PercentSetting": Attribute(0, 0, 100, writable=True, needs_on=True),
    "PercentCurrent": Attribute(0, 0, 100),
}
THERMOSTAT = {
    "LocalTemperature": Attribute(2200, -5000, 10000),
    "SystemMode": Attribute(0, choices=(0, 3, 4), writable=True, needs_on=True),  # off, cool, heat
    "OccupiedCoolingSetpoint": Attribute(2600, 1600, 3200, writable=True, needs_on=True),
    "OccupiedHeatingSetpoint": Attribute(2000, 700, 3000, writable=True, needs_on=True),
}
OPERATIONAL = {"OperationalState": Attribute(0, choices=(0, 1, 2, 3))}  # stopped, running, paused, error
MEDIA = {"CurrentState": Attribute(2, choices=(0, 1, 2))}  # playing, paused, not playing
COVERING = {
    "CurrentPositionLiftPercent100ths": Attribute(0, 0, 10000),
    "TargetPositionLiftPercent100ths": Attribute(0, 0, 10000),
}
TEMPERATURE_CONTROL = {
    "TemperatureSetpoint": Attribute(400, 100, 700),
    "MinTemperature": Attribute(100, -5000, 5000),
    "MaxTemperature": Attribute(700, -5000, 5000),
}
TEMPERATURE = {"MeasuredValue": Attribute(400, -5000, 10000)}
HUMIDITY = {"MeasuredValue": Attribute(4500, 0, 10000)}

Clusters = dict[str, dict[str, Attribute]]

DEVICE_TYPES: dict[str, dict[int, Clusters]] = {
    "on_off_light": {1: {"OnOff": ON_OFF}},
    "dimmable_light": {1: {"OnOff": ON_OFF, "LevelControl": LEVEL}},
    "air_conditioner": {1: {"OnOff": ON_OFF, "Thermostat": THERMOSTAT, "FanControl": FAN}},
    "fan": {1: {"OnOff": ON_OFF, "FanControl": FAN}},
    "air_purifier": {1: {"OnOff": ON_OFF, "FanControl": FAN}},
    "humidifier": {
        1: {"OnOff": ON_OFF, "FanControl": FAN},
        2: {"RelativeHumidityMeasurement": HUMIDITY},
    },
    "tv": {1: {"OnOff": ON_OFF, "MediaPlayback": MEDIA, "LevelControl": LEVEL}},
    "audio_player": {1: {"OnOff": ON_OFF, "MediaPlayback": MEDIA, "LevelControl": LEVEL}},
    "microwave": {1: {"OnOff": ON_OFF, "OperationalState": OPERATIONAL}},
    "laundry_washer": {1: {"OnOff": ON_OFF, "OperationalState": OPERATIONAL}},
    "refrigerator": {
        1: {"TemperatureControl": TEMPERATURE_CONTROL, "TemperatureMeasurement": TEMPERATURE},
    },
    "window_covering": {1: {"WindowCovering": COVERING}},
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command: its integer range; `default` None means that it must be given."""

    name: str
    low: int
    high: int
    default: int | None = None


# Commands of each cluster. What they do is in edge/home/actions.py.
COMMANDS: dict[str, dict[str, tuple[Argument, ...]]] = {
    "OnOff": {"On": (), "Off": (), "Toggle": ()},
    "LevelControl": {
        "MoveToLevel": (Argument("level", 1, 254), Argument("transition_time", 0, 65535, 0)),
        "MoveToLevelWithOnOff": (Argument("level", 1, 254), Argument("transition_time", 0, 65535, 0)),
        "Step": (Argument("step_mode", 0, 1), Argument("step_size", 1, 254)),
        "StepWithOnOff": (Argument("step_mode", 0, 1), Argument("step_size", 1, 254)),
    },
    "FanControl": {"Step": (Argument("direction", 0, 1),), "SetPercent": (Argument("percent", 0, 100),)},
    "Thermostat": {"SetpointRaiseLower": (Argument("mode", 0, 2), Argument("amount", -128, 127))},
    "OperationalState": {"Start": (), "Stop": (), "Pause": (), "Resume": ()},
    "MediaPlayback": {"Play": (), "Pause": (), "Stop": ()},
    "WindowCovering": {
        "UpOrOpen": (),
        "DownOrClose": (),
        "StopMotion": (),
        "GoToLiftPercentage": (Argument("lift_percent_100ths", 0, 10000),),
    },
    "TemperatureControl": {"SetTemperature": (Argument("target_temperature", -5000, 5000),)},
}


def attribute_path(endpoint: int, cluster: str, attribute: str) -> str:
    """`1.OnOff.OnOff`."""
    return f"{endpoint}.{cluster}.{attribute}"


def defaults(device_type: str) -> dict[str, Value]:
    """Every attribute of a device type with its first value."""
    return {
        attribute_path(endpoint, cluster, name): attribute.default
        for endpoint, clusters in DEVICE_TYPES[device_type].items()
        for cluster, attributes in clusters.items()
        for name, attribute in attributes.items()
    }


def commands_of(device_type: str) -> list[dict[str, Any]]:
    """The commands of a device type, as data: endpoint, cluster, command, arguments."""
    return [
        {
            "endpoint": endpoint,
            "cluster": cluster,
            "command": command,
            "args": {
                a.name: {"low": a.low, "high": a.high, "required": a.default is None} for a in arguments
            },
        }
        for endpoint, clusters in DEVICE_TYPES[device_type].items()
        for cluster in clusters
        for command, arguments in COMMANDS.get(cluster, {}).items()
    ]
