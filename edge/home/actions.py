"""What a command does to a device's attributes, and which attributes follow others.

Pure functions on one device's attribute dict: they change a copy that the twin then commits as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge.home import cycles
from edge.home.channels import CHANNEL_ACTIONS
from edge.home.cycles import PAUSED, RUNNING, STOPPED
from edge.home.errors import HomeError
from edge.home.house_actions import HOUSE_ACTIONS
from edge.home.power import is_on, require_on

Attributes = dict[str, Any]
Arguments = dict[str, Any]
Action = Callable[[Attributes, int, Arguments], None]

FAN_PERCENT = {0: 0, 1: 33, 2: 66, 3: 100}  # FanMode off, low, medium, high
PLAYING, MEDIA_PAUSED, NOT_PLAYING = 0, 1, 2  # MediaPlayback.CurrentState
COOL = 3


def _number(attributes: Attributes, path: str) -> int:
    value = attributes[path]
    assert isinstance(value, int)
    return value


def _level(a: Attributes, e: int) -> int:
    """CurrentLevel; one that is not known counts as the highest."""
    path = f"{e}.LevelControl.CurrentLevel"
    return _number(a, path if a[path] is not None else f"{e}.LevelControl.MaxLevel")


def _on(a: Attributes, e: int, _: Arguments) -> None:
    a[f"{e}.OnOff.OnOff"] = True


def _off(a: Attributes, e: int, _: Arguments) -> None:
    a[f"{e}.OnOff.OnOff"] = False


def _toggle(a: Attributes, e: int, _: Arguments) -> None:
    a[f"{e}.OnOff.OnOff"] = not is_on(a, e)


def _move_to_level(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "MoveToLevel")
    a[f"{e}.LevelControl.CurrentLevel"] = args["level"]


def _move_to_level_with_on_off(a: Attributes, e: int, args: Arguments) -> None:
    # Matter: the variants "with OnOff" switch on above the lowest level, and off at it.
    a[f"{e}.LevelControl.CurrentLevel"] = args["level"]
    a[f"{e}.OnOff.OnOff"] = args["level"] > _number(a, f"{e}.LevelControl.MinLevel")


def _stepped(a: Attributes, e: int, args: Arguments) -> int:
    sign = -1 if args["step_mode"] == 1 else 1
    level = _level(a, e) + sign * args["step_size"]
    low, high = _number(a, f"{e}.LevelControl.MinLevel"), _number(a, f"{e}.LevelControl.MaxLevel")
    return min(max(level, low), high)


def _step(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "Step")
    a[f"{e}.LevelControl.CurrentLevel"] = _stepped(a, e, args)


def _step_with_on_off(a: Attributes, e: int, args: Arguments) -> None:
    _move_to_level_with_on_off(a, e, {"level": _stepped(a, e, args)})


def _end_of_range(a: Attributes, e: int, args: Arguments) -> int:
    return _number(a, f"{e}.LevelControl.{'Max' if args['move_mode'] == 0 else 'Min'}Level")


def _move(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "Move")
    a[f"{e}.LevelControl.CurrentLevel"] = _end_of_range(a, e, args)


def _move_with_on_off(a: Attributes, e: int, args: Arguments) -> None:
    _move_to_level_with_on_off(a, e, {"level": _end_of_range(a, e, args)})


def _stop_level(a: Attributes, e: int, _: Arguments) -> None:
    """Levels move at once, so there is nothing to stop."""


def _fan_step(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "Step")
    mode = _number(a, f"{e}.FanControl.FanMode") + (-1 if args["direction"] == 1 else 1)
    lowest = 0 if args["lowest_off"] else 1
    if args["wrap"] and not lowest <= mode <= 3:
        mode = lowest if mode > 3 else 3
    a[f"{e}.FanControl.PercentSetting"] = FAN_PERCENT[min(max(mode, lowest), 3)]


def _set_percent(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "SetPercent")
    a[f"{e}.FanControl.PercentSetting"] = args["percent"]


def _setpoint(a: Attributes, e: int, args: Arguments) -> None:
    # mode 0 heat, 1 cool, 2 both; amount in tenths of a degree, attributes in hundredths.
    require_on(a, e, "SetpointRaiseLower")
    for mode, name, low, high in (
        (0, "OccupiedHeatingSetpoint", 700, 3000),
        (1, "OccupiedCoolingSetpoint", 1600, 3200),
    ):
        if args["mode"] in (mode, 2):
            path = f"{e}.Thermostat.{name}"
            a[path] = min(max(_number(a, path) + 10 * args["amount"], low), high)


def _operate(allowed: tuple[int, ...], result: int, name: str) -> Action:
    def action(a: Attributes, e: int, _: Arguments) -> None:
        path = f"{e}.OperationalState.OperationalState"
        if result == RUNNING:
            require_on(a, e, name)
        if a[path] not in allowed:
            words = {0: "stopped", 1: "running", 2: "paused", 3: "in error"}
            raise HomeError(
                "INVALID_STATE", f"{name} is not possible while the device is {words[_number(a, path)]}"
            )
        if result == RUNNING and a[path] == STOPPED:
            cycles.begin(a, e)
        a[path] = result
        if result == STOPPED:
            cycles.end(a, e)

    return action


def _mode(cluster: str) -> Action:
    def action(a: Attributes, e: int, args: Arguments) -> None:
        a[f"{e}.{cluster}.CurrentMode"] = args["new_mode"]

    return action


def _run_mode(a: Attributes, e: int, args: Arguments) -> None:
    cycles.set_run_mode(a, e, args["new_mode"])


def _go_home(a: Attributes, e: int, _: Arguments) -> None:
    cycles.go_home(a, e)


def _pause_robot(a: Attributes, e: int, _: Arguments) -> None:
    cycles.pause_robot(a, e, resume=False)


def _resume_robot(a: Attributes, e: int, _: Arguments) -> None:
    cycles.pause_robot(a, e, resume=True)


def _reset_alarms(a: Attributes, e: int, args: Arguments) -> None:
    a[f"{e}.DishwasherAlarm.State"] &= ~args["alarms"]


def _enable_alarms(a: Attributes, e: int, args: Arguments) -> None:
    a[f"{e}.DishwasherAlarm.Mask"] = args["mask"]


def _media(result: int, name: str) -> Action:
    def action(a: Attributes, e: int, _: Arguments) -> None:
        if result != NOT_PLAYING:
            require_on(a, e, name)
        a[f"{e}.MediaPlayback.CurrentState"] = result

    return action


def _lift(position: int | None) -> Action:
    def action(a: Attributes, e: int, args: Arguments) -> None:
        target = args["lift_percent_100ths"] if position is None else position
        a[f"{e}.WindowCovering.TargetPositionLiftPercent100ths"] = target
        a[f"{e}.WindowCovering.CurrentPositionLiftPercent100ths"] = target

    return action


def _stop_motion(a: Attributes, e: int, _: Arguments) -> None:
    current = a[f"{e}.WindowCovering.CurrentPositionLiftPercent100ths"]
    a[f"{e}.WindowCovering.TargetPositionLiftPercent100ths"] = current


def _set_temperature(a: Attributes, e: int, args: Arguments) -> None:
    low, high = (_number(a, f"{e}.TemperatureControl.{n}Temperature") for n in ("Min", "Max"))
    target = args["target_temperature"]
    if not low <= target <= high:
        raise HomeError("COMMAND_INVALID_ARGS", f"target_temperature {target} is outside {low} to {high}")
    a[f"{e}.TemperatureControl.TemperatureSetpoint"] = target


ACTIONS: dict[str, dict[str, Action]] = {
    "OnOff": {"On": _on, "Off": _off, "Toggle": _toggle},
    "LevelControl": {
        "MoveToLevel": _move_to_level,
        "MoveToLevelWithOnOff": _move_to_level_with_on_off,
        "Step": _step,
        "StepWithOnOff": _step_with_on_off,
        "Move": _move,
        "MoveWithOnOff": _move_with_on_off,
        "Stop": _stop_level,
        "StopWithOnOff": _stop_level,
    },
    "FanControl": {"Step": _fan_step, "SetPercent": _set_percent},
    "Thermostat": {"SetpointRaiseLower": _setpoint},
    "OperationalState": {
        "Start": _operate((STOPPED, RUNNING), RUNNING, "Start"),
        "Stop": _operate((STOPPED, RUNNING, PAUSED, 3), STOPPED, "Stop"),
        "Pause": _operate((RUNNING, PAUSED), PAUSED, "Pause"),
        "Resume": _operate((RUNNING, PAUSED), RUNNING, "Resume"),
    },
    "MediaPlayback": {
        "Play": _media(PLAYING, "Play"),
        "Pause": _media(MEDIA_PAUSED, "Pause"),
        "Stop": _media(NOT_PLAYING, "Stop"),
        **{
            name: _media(PLAYING, name) for name in ("StartOver", "Previous", "Next", "Rewind", "FastForward")
        },
    },
    "RVCOperationalState": {"Pause": _pause_robot, "Resume": _resume_robot, "GoHome": _go_home},
    "RVCRunMode": {"ChangeToMode": _run_mode},
    **{
        name: {"ChangeToMode": _mode(name)}
        for name in ("DishwasherMode", "LaundryWasherMode", "RTCCMode", "RVCCleanMode", "OvenMode")
    },
    "DishwasherAlarm": {"Reset": _reset_alarms, "ModifyEnabledAlarms": _enable_alarms},
    **CHANNEL_ACTIONS,
    **HOUSE_ACTIONS,
    "WindowCovering": {
        "UpOrOpen": _lift(0),
        "DownOrClose": _lift(10000),
        "StopMotion": _stop_motion,
        "GoToLiftPercentage": _lift(None),
    },
    "TemperatureControl": {"SetTemperature": _set_temperature},
}


def settle(before: Attributes, after: Attributes, thirds: bool = False) -> None:
    """Attributes that follow others, after a command or write turned `before` into `after` (in place).

    FanMode and PercentSetting follow each other (0/33/66/100 %, by nearest step; more than 0 % is never
    off; thirds: low is 1-33 %, medium 34-66 %, high above, as in SimuHome's homes); PercentCurrent is the
    setting while the device is on. A fan switched on at 0 % starts at 100 %, so that "on" moves air.
    Switching off ends an appliance's cycle and a player's playback.
    """
    for path in list(after):
        endpoint, cluster, attribute = path.split(".")
        e = int(endpoint)
        if attribute == "PercentSetting":
            _settle_fan(before, after, e, thirds)
        elif (cluster, attribute) == ("OperationalState", "OperationalState") and not is_on(after, e):
            cycles.end(after, e)
        elif cluster == "MediaPlayback" and not is_on(after, e):
            after[path] = NOT_PLAYING


def _settle_fan(before: Attributes, after: Attributes, e: int, thirds: bool) -> None:
    setting, mode, current = (f"{e}.FanControl.{n}" for n in ("PercentSetting", "FanMode", "PercentCurrent"))
    on = is_on(after, e)
    if after[mode] != before.get(mode) and after[setting] == before.get(setting):
        after[setting] = FAN_PERCENT[_number(after, mode)]
    if on and not is_on(before, e) and after[setting] == 0:
        after[setting] = 100
    percent = _number(after, setting)
    if thirds:
        nearest = 1 + (percent > 33) + (percent > 66)
    else:
        nearest = min(FAN_PERCENT, key=lambda m: abs(FAN_PERCENT[m] - percent))
    after[mode] = max(nearest, 1) if percent else 0
    after[current] = percent if on else 0
