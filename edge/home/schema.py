"""What each device type is made of: endpoints, clusters, attributes with range, access and first value.

Cluster, attribute and command names are those of the Matter Application Cluster Specification; which type
carries which cluster follows the SimuHome benchmark (arXiv 2509.24282). Temperatures and humidity are in
hundredths, levels 1-254, fans 0-100 %, blinds 0 (open) to 10000 (closed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its kind, range, whether it can be written, and its value when nothing is said.

    choices: the only values (a mode); needs_on: a write is refused while the device's OnOff is false;
    nullable: None is a value too (not known, or nothing runs).
    """

    default: Value
    low: int | None = None
    high: int | None = None
    writable: bool = False
    choices: tuple[int, ...] | None = None
    needs_on: bool = False
    nullable: bool = False

    @property
    def kind(self) -> type:
        """The Python type of its values."""
        return bool if isinstance(self.default, bool) else int


ON_OFF = {"OnOff": Attribute(False)}
LEVEL = {
    "CurrentLevel": Attribute(254, 1, 254, nullable=True),
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
CYCLE = {
    **OPERATIONAL,
    "CountdownTime": Attribute(None, 0, 259200, nullable=True),  # seconds
    "CurrentPhase": Attribute(None, 0, 255, nullable=True),
}
WASHER_CONTROLS = {
    "SpinSpeedCurrent": Attribute(0, 0, 15, writable=True, nullable=True),
    "NumberOfRinses": Attribute(1, choices=(0, 1, 2, 3), writable=True),
}
DRYER_CONTROLS = {"SelectedDrynessLevel": Attribute(1, choices=(0, 1, 2, 3), writable=True)}
DISHWASHER_ALARM = {name: Attribute(0, 0, 255) for name in ("Mask", "Latch", "State", "Supported")}
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
WASHER_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(2000, 0, 9500),
    "MinTemperature": Attribute(500, 0, 9500),
    "MaxTemperature": Attribute(9500, 0, 9500),
}
FREEZER_TEMPERATURE = {
    "TemperatureSetpoint": Attribute(-1800, -5000, 5000),
    "MinTemperature": Attribute(-2300, -5000, 5000),
    "MaxTemperature": Attribute(-1500, -5000, 5000),
}
TEMPERATURE = {"MeasuredValue": Attribute(400, -5000, 10000)}
HUMIDITY = {"MeasuredValue": Attribute(4500, 0, 10000)}
FREEZING = {"MeasuredValue": Attribute(-1800, -5000, 10000)}
RVC_STATE = {
    "OperationalState": Attribute(0, choices=(0, 1, 2, 3, 64, 65, 66)),  # ... seeks, charges, is docked
    "CountdownTime": Attribute(None, 0, 259200, nullable=True),
}


def _mode(first: int, choices: tuple[int, ...]) -> dict[str, Attribute]:
    return {"CurrentMode": Attribute(first, choices=choices)}


COLD_MODES = _mode(0, (0, 4, 16384, 16385))  # normal, energy save, rapid cool, rapid freeze

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
    "dehumidifier": {
        1: {"OnOff": ON_OFF, "FanControl": FAN},
        2: {"RelativeHumidityMeasurement": HUMIDITY},
    },
    "heat_pump": {
        1: {"PowerSource": {"Status": Attribute(1, 0, 3)}},
        2: {"ElectricalPowerMeasurement": {"ActivePower": Attribute(None, nullable=True)}},
        3: {"DeviceEnergyManagement": {"ESAState": Attribute(1, 0, 4)}},
        4: {"Thermostat": THERMOSTAT},
    },
    "tv": {
        1: {
            "OnOff": ON_OFF,
            "MediaPlayback": MEDIA,
            "LevelControl": LEVEL,
            "Channel": {},  # the channels are what the first state names as 1.Channel.ChannelList
            "KeypadInput": {},
        }
    },
    "audio_player": {1: {"OnOff": ON_OFF, "MediaPlayback": MEDIA, "LevelControl": LEVEL}},
    "microwave": {1: {"OnOff": ON_OFF, "OperationalState": OPERATIONAL}},
    "laundry_washer": {
        1: {
            "OnOff": ON_OFF,
            "OperationalState": CYCLE,
            "LaundryWasherMode": _mode(0, (0, 1, 2, 3, 4, 5)),
            "LaundryWasherControls": WASHER_CONTROLS,
            "TemperatureControl": WASHER_TEMPERATURE,
        }
    },
    "laundry_dryer": {
        1: {"OnOff": ON_OFF, "OperationalState": CYCLE, "LaundryDryerControls": DRYER_CONTROLS},
    },
    "dishwasher": {
        1: {
            "OnOff": ON_OFF,
            "OperationalState": CYCLE,
            "DishwasherMode": _mode(0, (0, 1, 2, 3, 4, 5)),
            "DishwasherAlarm": DISHWASHER_ALARM,
        }
    },
    "rvc": {
        1: {
            "RVCRunMode": _mode(1, (1, 2, 3)),  # idle, vacuum, map
            "RVCCleanMode": _mode(1, (1, 2, 3)),  # vacuum, deep clean, mop
            "RVCOperationalState": RVC_STATE,
        }
    },
    "refrigerator": {
        1: {
            "TemperatureControl": TEMPERATURE_CONTROL,
            "RTCCMode": COLD_MODES,
            "TemperatureMeasurement": TEMPERATURE,
        },
    },
    "freezer": {
        1: {
            "TemperatureControl": FREEZER_TEMPERATURE,
            "RTCCMode": COLD_MODES,
            "TemperatureMeasurement": FREEZING,
        },
    },
    "window_covering": {1: {"WindowCovering": COVERING}},
}
DEVICE_TYPES["window_covering_controller"] = DEVICE_TYPES["window_covering"]  # SimuHome's name of it


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command: its integer range; `default` None means that it must be given.

    flag: True and False are taken for 1 and 0. text: it is a text, and has no range.
    """

    name: str
    low: int
    high: int
    default: int | None = None
    flag: bool = False
    text: bool = False


_TRANSITION = (Argument("transition_time", 0, 65535, 0),)  # taken and ignored: levels move at once
_STEP = (Argument("step_mode", 0, 1), Argument("step_size", 1, 254))
_MOVE = (Argument("move_mode", 0, 1), Argument("rate", 0, 255, 255))
_NEW_MODE: dict[str, tuple[Argument, ...]] = {"ChangeToMode": (Argument("new_mode", 0, 65535),)}

# Commands of each cluster. What they do is in edge/home/actions.py.
COMMANDS: dict[str, dict[str, tuple[Argument, ...]]] = {
    "OnOff": {"On": (), "Off": (), "Toggle": ()},
    "LevelControl": {
        "MoveToLevel": (Argument("level", 1, 254), *_TRANSITION),
        "MoveToLevelWithOnOff": (Argument("level", 1, 254), *_TRANSITION),
        "Step": (*_STEP, *_TRANSITION),
        "StepWithOnOff": (*_STEP, *_TRANSITION),
        "Move": _MOVE,
        "MoveWithOnOff": _MOVE,
        "Stop": (),
        "StopWithOnOff": (),
    },
    "FanControl": {
        "Step": (
            Argument("direction", 0, 1),
            Argument("wrap", 0, 1, 0, flag=True),
            Argument("lowest_off", 0, 1, 1, flag=True),
        ),
        "SetPercent": (Argument("percent", 0, 100),),
    },
    "Thermostat": {"SetpointRaiseLower": (Argument("mode", 0, 2), Argument("amount", -128, 127))},
    "OperationalState": {"Start": (), "Stop": (), "Pause": (), "Resume": ()},
    "RVCOperationalState": {"Pause": (), "Resume": (), "GoHome": ()},
    **dict.fromkeys(
        ("DishwasherMode", "LaundryWasherMode", "RTCCMode", "RVCRunMode", "RVCCleanMode"), _NEW_MODE
    ),
    "DishwasherAlarm": {
        "Reset": (Argument("alarms", 0, 255),),
        "ModifyEnabledAlarms": (Argument("mask", 0, 255),),
    },
    "MediaPlayback": {
        "Play": (),
        "Pause": (),
        "Stop": (),
        **dict.fromkeys(("StartOver", "Previous", "Next", "Rewind", "FastForward"), ()),
    },
    "Channel": {
        "ChangeChannel": (Argument("match", 0, 0, text=True),),
        "ChangeChannelByNumber": (Argument("major_number", 0, 65535), Argument("minor_number", 0, 65535, 0)),
        "SkipChannel": (Argument("count", -255, 255),),
    },
    "KeypadInput": {"SendKey": (Argument("key_code", 0, 255),)},
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
                a.name: {"low": a.low, "high": a.high, "required": a.default is None}
                | ({"text": True} if a.text else {})
                for a in arguments
            },
        }
        for endpoint, clusters in DEVICE_TYPES[device_type].items()
        for cluster in clusters
        for command, arguments in COMMANDS.get(cluster, {}).items()
    ]
