"""What the commands of colours, scenes, locks, valves, alarms and dispensers do; see `edge.home.actions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge.home.errors import HomeError
from edge.home.power import require_on

Attributes = dict[str, Any]
Arguments = dict[str, Any]
LOCKED, UNLOCKED = 1, 2  # DoorLock.LockState
CLOSED, OPEN = 0, 1  # ValveConfigurationAndControl.CurrentState
SMOKE, CO, TESTED = 1, 2, 4  # SmokeCOAlarm.ExpressedState
CRITICAL = 2
# (level, hue, saturation, mireds): hue None is white light of a colour temperature.
SCENES: dict[int, tuple[int, int | None, int, int]] = {
    1: (254, None, 0, 200),  # bright
    2: (127, None, 0, 370),  # relax
    3: (200, None, 0, 250),  # read
    4: (40, 18, 200, 370),  # night
    5: (180, 200, 254, 370),  # party
    6: (90, 150, 220, 370),  # film
}


def _hue(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "MoveToHueAndSaturation")
    a[f"{e}.ColorControl.CurrentHue"] = args["hue"]
    a[f"{e}.ColorControl.CurrentSaturation"] = args["saturation"]
    a[f"{e}.ColorControl.ColorMode"] = 0


def _white(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "MoveToColorTemperature")
    a[f"{e}.ColorControl.ColorTemperatureMireds"] = args["color_temperature_mireds"]
    a[f"{e}.ColorControl.ColorMode"] = 2


def _recall(a: Attributes, e: int, args: Arguments) -> None:
    scene = SCENES.get(args["scene_id"])
    if scene is None:
        raise HomeError(
            "COMMAND_INVALID_ARGS", f"there is no scene {args['scene_id']}; it has {list(SCENES)}"
        )
    level, hue, saturation, mireds = scene
    a[f"{e}.OnOff.OnOff"] = True
    a[f"{e}.LevelControl.CurrentLevel"] = level
    a[f"{e}.ColorControl.ColorMode"] = 2 if hue is None else 0
    if hue is None:
        a[f"{e}.ColorControl.ColorTemperatureMireds"] = mireds
    else:
        a[f"{e}.ColorControl.CurrentHue"], a[f"{e}.ColorControl.CurrentSaturation"] = hue, saturation
    a[f"{e}.ScenesManagement.CurrentScene"] = args["scene_id"]


def _cook_time(a: Attributes, e: int, args: Arguments) -> None:
    if a[f"{e}.OperationalState.OperationalState"] != 0:
        raise HomeError("INVALID_STATE", "SetCookingParameters is not possible while the device works")
    a[f"{e}.MicrowaveOvenControl.CookTime"] = args["cook_time"]


def _bolt(state: int) -> Callable[[Attributes, int, Arguments], None]:
    def action(a: Attributes, e: int, _: Arguments) -> None:
        a[f"{e}.DoorLock.LockState"] = state

    return action


def _chime(a: Attributes, e: int, _: Arguments) -> None:
    if not a[f"{e}.Chime.Enabled"]:
        raise HomeError("INVALID_STATE", "PlayChimeSound is not possible while the chime is disabled")


def _self_test(a: Attributes, e: int, _: Arguments) -> None:
    if a[f"{e}.SmokeCOAlarm.ExpressedState"] in (SMOKE, CO):
        raise HomeError("INVALID_STATE", "SelfTestRequest is not possible during an alarm")
    a[f"{e}.SmokeCOAlarm.ExpressedState"] = TESTED


def _silence(a: Attributes, e: int, _: Arguments) -> None:
    """As alarms do: a critical one cannot be silenced, for somebody may be asleep."""
    states = [a[f"{e}.SmokeCOAlarm.{name}"] for name in ("SmokeState", "COState")]
    if CRITICAL in states:
        raise HomeError("INVALID_STATE", "Silence is not possible while smoke or CO is critical")
    if a[f"{e}.SmokeCOAlarm.ExpressedState"] == TESTED:
        a[f"{e}.SmokeCOAlarm.ExpressedState"] = 0
    a[f"{e}.SmokeCOAlarm.DeviceMuted"] = 1


def _open(a: Attributes, e: int, args: Arguments) -> None:
    seconds = args["open_duration"] or None
    a[f"{e}.ValveConfigurationAndControl.CurrentState"] = OPEN
    a[f"{e}.ValveConfigurationAndControl.OpenDuration"] = seconds
    a[f"{e}.ValveConfigurationAndControl.RemainingDuration"] = seconds


def close_valve(a: Attributes, e: int, _: Arguments | None = None) -> None:
    """By a command, or because its time is over."""
    a[f"{e}.ValveConfigurationAndControl.CurrentState"] = CLOSED
    a[f"{e}.ValveConfigurationAndControl.OpenDuration"] = None
    a[f"{e}.ValveConfigurationAndControl.RemainingDuration"] = None


def _input(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "SelectInput")
    a[f"{e}.MediaInput.CurrentInput"] = args["index"]


def _dispense(a: Attributes, e: int, args: Arguments) -> None:
    a[f"{e}.Dispenser.PortionsGiven"] += args["portions"]


HOUSE_ACTIONS: dict[str, dict[str, Callable[[Attributes, int, Arguments], None]]] = {
    "ColorControl": {"MoveToHueAndSaturation": _hue, "MoveToColorTemperature": _white},
    "ScenesManagement": {"RecallScene": _recall},
    "MicrowaveOvenControl": {"SetCookingParameters": _cook_time},
    "DoorLock": {"LockDoor": _bolt(LOCKED), "UnlockDoor": _bolt(UNLOCKED)},
    "Chime": {"PlayChimeSound": _chime},
    "SmokeCOAlarm": {"SelfTestRequest": _self_test, "Silence": _silence},
    "ValveConfigurationAndControl": {"Open": _open, "Close": close_valve},
    "MediaInput": {"SelectInput": _input},
    "Dispenser": {"Dispense": _dispense},
}
