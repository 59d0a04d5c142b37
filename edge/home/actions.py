"""What a command does to a device's attributes, and which attributes follow others.

Pure functions on one device's attribute dict: they change a copy that the twin then commits as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from edge.home.errors import HomeError
from edge.home.schema import Value

Attributes = dict[str, Value]
Arguments = dict[str, int]
Action = Callable[[Attributes, int, Arguments], None]

FAN_PERCENT = {0: 0, 1: 33, 2: 66, 3: 100}  # FanMode off, low, medium, high
STOPPED, RUNNING, PAUSED = 0, 1, 2  # OperationalState
PLAYING, MEDIA_PAUSED, NOT_PLAYING = 0, 1, 2  # MediaPlayback.CurrentState
COOL = 3


def is_on(attributes: Attributes, endpoint: int) -> bool:
    """False only for an endpoint whose OnOff is false; one without OnOff is always powered."""
    return attributes.get(f"{endpoint}.OnOff.OnOff", True) is not False


def require_on(attributes: Attributes, endpoint: int, what: str) -> None:
    """Raises DEPENDENCY_VIOLATION while the device is off."""
    if not is_on(attributes, endpoint):
        raise HomeError("DEPENDENCY_VIOLATION", f"{what} needs the device to be on; send On first")


def _number(attributes: Attributes, path: str) -> int:
    value = attributes[path]
    assert isinstance(value, int)
    return value


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
    level = _number(a, f"{e}.LevelControl.CurrentLevel") + sign * args["step_size"]
    low, high = _number(a, f"{e}.LevelControl.MinLevel"), _number(a, f"{e}.LevelControl.MaxLevel")
    return min(max(level, low), high)


def _step(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "Step")
    a[f"{e}.LevelControl.CurrentLevel"] = _stepped(a, e, args)


def _step_with_on_off(a: Attributes, e: int, args: Arguments) -> None:
    _move_to_level_with_on_off(a, e, {"level": _stepped(a, e, args)})


def _fan_step(a: Attributes, e: int, args: Arguments) -> None:
    require_on(a, e, "Step")
    mode = _number(a, f"{e}.FanControl.FanMode") + (-1 if args["direction"] == 1 else 1)
    a[f"{e}.FanControl.PercentSetting"] = FAN_PERCENT[min(max(mode, 0), 3)]


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
        a[path] = result

    return action


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
    },
    "WindowCovering": {
        "UpOrOpen": _lift(0),
        "DownOrClose": _lift(10000),
        "StopMotion": _stop_motion,
        "GoToLiftPercentage": _lift(None),
    },
    "TemperatureControl": {"SetTemperature": _set_temperature},
}


def settle(before: Attributes, after: Attributes) -> None:
    """Attributes that follow others, after a command or write turned `before` into `after` (in place).

    FanMode and PercentSetting follow each other (0/33/66/100 %, by nearest step; more than 0 % is never
    off); PercentCurrent is the setting while the device is on. A fan switched on at 0 % starts at 100 %, so
    that "on" moves air. Switching off ends an appliance's cycle and a player's playback.
    """
    for path in after:
        endpoint, cluster, attribute = path.split(".")
        e = int(endpoint)
        if attribute == "PercentSetting":
            _settle_fan(before, after, e)
        elif cluster == "OperationalState" and not is_on(after, e):
            after[path] = STOPPED
        elif cluster == "MediaPlayback" and not is_on(after, e):
            after[path] = NOT_PLAYING


def _settle_fan(before: Attributes, after: Attributes, e: int) -> None:
    setting, mode, current = (f"{e}.FanControl.{n}" for n in ("PercentSetting", "FanMode", "PercentCurrent"))
    on = is_on(after, e)
    if after[mode] != before.get(mode) and after[setting] == before.get(setting):
        after[setting] = FAN_PERCENT[_number(after, mode)]
    if on and not is_on(before, e) and after[setting] == 0:
        after[setting] = 100
    percent = _number(after, setting)
    nearest = min(FAN_PERCENT, key=lambda m: abs(FAN_PERCENT[m] - percent))
    after[mode] = max(nearest, 1) if percent else 0
    after[current] = percent if on else 0
