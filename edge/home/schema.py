"""What each device type is made of: its attributes (edge/home/device_types.py) and its commands.

Cluster, attribute and command names are those of the Matter Application Cluster Specification. What commands
do is in edge/home/actions.py.
"""

from __future__ import annotations

from typing import Any

from edge.home.attribute import Argument, Attribute, Value
from edge.home.device_types import DEVICE_TYPES

__all__ = [
    "COMMANDS",
    "DEVICE_TYPES",
    "Argument",
    "Attribute",
    "Value",
    "attribute_path",
    "commands_of",
    "defaults",
]

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
        ("DishwasherMode", "LaundryWasherMode", "RTCCMode", "RVCRunMode", "RVCCleanMode", "OvenMode"),
        _NEW_MODE,
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
    "ColorControl": {
        "MoveToHueAndSaturation": (Argument("hue", 0, 254), Argument("saturation", 0, 254), *_TRANSITION),
        "MoveToColorTemperature": (Argument("color_temperature_mireds", 153, 500), *_TRANSITION),
    },
    "ScenesManagement": {"RecallScene": (Argument("scene_id", 1, 16),)},
    "MicrowaveOvenControl": {"SetCookingParameters": (Argument("cook_time", 1, 86400),)},
    "DoorLock": {"LockDoor": (), "UnlockDoor": ()},
    "Chime": {"PlayChimeSound": ()},
    "SmokeCOAlarm": {"SelfTestRequest": (), "Silence": ()},  # Silence is ours: Matter leaves it to the device
    "ValveConfigurationAndControl": {"Open": (Argument("open_duration", 0, 86400, 0),), "Close": ()},
    "MediaInput": {"SelectInput": (Argument("index", 0, 7),)},
    "Dispenser": {"Dispense": (Argument("portions", 1, 10),)},
    "TemperatureControl": {"SetTemperature": (Argument("target_temperature", -5000, 30000),)},
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
