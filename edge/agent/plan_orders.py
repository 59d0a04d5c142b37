"""What a device must become for a request, whether it can, and the commands that bring it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dsp.errors import InputError
from edge.agent.home_view import path_of, value_of
from edge.home.goals import LIMITS
from edge.home.reach import Order, orders_to, schema_of
from edge.home.schema import DEVICE_TYPES, Value
from edge.home.twin import Home, HomeDevice
from edge.language.intent import Act, Change, Inquiry
from edge.perception.room_map import MapDevice
from recordings.plan.spoken import degrees, percent

ON, LEVEL = "OnOff.OnOff", "LevelControl.CurrentLevel"
FAN, FAN_MODE = "FanControl.PercentSetting", "FanControl.FanMode"
MODE = "Thermostat.SystemMode"
COOLING, HEATING = "Thermostat.OccupiedCoolingSetpoint", "Thermostat.OccupiedHeatingSetpoint"
COLD = "TemperatureControl.TemperatureSetpoint"
PLAYBACK, CYCLE = "MediaPlayback.CurrentState", "OperationalState.OperationalState"
ROBOT, RUN_MODE = "RVCOperationalState.OperationalState", "RVCRunMode.CurrentMode"
VALVE, MUTED = "ValveConfigurationAndControl.CurrentState", "SmokeCOAlarm.DeviceMuted"
LIFT, LOCK = "WindowCovering.CurrentPositionLiftPercent100ths", "DoorLock.LockState"
COUNTDOWN = "OperationalState.CountdownTime"
LEVEL_MOST = 254
HEAT = 4
LIGHTS = ("on_off_light", "dimmable_light")
FAMILY = {  # acts that somebody may try on a device that cannot do them, because others of its kind can
    "dim": LIGHTS, "speed": ("fan", "air_conditioner", "air_purifier", "humidifier", "dehumidifier"),
    "volume": ("tv", "audio_player"),
}  # fmt: skip

# What a question is about: the first of these that the device has.
ASKED: dict[Inquiry, tuple[str, ...]] = {
    "is_on": (ON, MODE, VALVE),
    "how_bright": (LEVEL,),
    "how_fast": (FAN,),
    "how_cool": (COLD, COOLING, HEATING),
    "how_warm": (HEATING, COLD, COOLING),
    "how_loud": (LEVEL,),
    "is_playing": (PLAYBACK, CYCLE),
    "is_running": (CYCLE, ROBOT, PLAYBACK, ON),
    "how_closed": (LIFT, VALVE),
    "is_locked": (LOCK,),
    "vendor": ("BasicInformation.VendorName",),
    "product": ("BasicInformation.ProductName",),
    "temperature": ("Thermostat.LocalTemperature", "TemperatureMeasurement.MeasuredValue"),
    "humidity": ("RelativeHumidityMeasurement.MeasuredValue",),
    "pm10": (),
    "illuminance": (),
    "time_left": (COUNTDOWN, "RVCOperationalState.CountdownTime"),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """Why a device cannot do what was asked, in words."""

    words: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Attributes that shall hold: path -> value."""

    attributes: Mapping[str, Value] = field(default_factory=dict)

    def holds(self, state: Mapping[str, Any]) -> bool:
        """Whether they do."""
        return all(path in state and _same(state[path], value) for path, value in self.attributes.items())


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def is_media(device: MapDevice) -> bool:
    """Whether its level is a volume."""
    return path_of(device, PLAYBACK) is not None


def level_of(share: float) -> int:
    """The raw level, 1-254, of a brightness or volume in percent."""
    return max(1, round(LEVEL_MOST * share / 100))


STEP_OF = {  # act -> what a step is counted from
    "dim": LEVEL, "volume": LEVEL, "speed": FAN, "position": LIFT,
}  # fmt: skip
GENERIC: dict[str, Act] = {
    FAN: "speed",
    LIFT: "position",
}  # "put that on forty percent": by what the device has


def meant(device: MapDevice, change: Change) -> Change:
    """The change as it is for this device: generic percents and degrees, steps and toggles as values."""
    act = change.act
    if act == "toggle":
        return replace(change, act="off" if value_of(device, ON) else "on")
    if act == "dim" and path_of(device, LEVEL) is None and device.type not in LIGHTS:
        act = next((known for name, known in GENERIC.items() if path_of(device, name)), act)
    elif act == "dim" and is_media(device):
        act = "volume"
    if change.value is not None or change.by is None:
        return replace(change, act=act)
    if act in ("cool", "heat", "chill"):
        names: tuple[str, ...] = (COLD, HEATING if value_of(device, MODE) == HEAT else COOLING, HEATING)
    else:
        names = (STEP_OF.get(act, ""),)
    now = next((v for name in names if isinstance(v := value_of(device, name), int | float)), None)
    if now is None:
        return replace(change, act=act)
    if act in ("dim", "volume"):
        before = 100 * now / LEVEL_MOST if value_of(device, ON) is not False or act == "volume" else 0.0
    else:
        before = now / 100 if act != "speed" else float(now)
    after = before + change.by
    if act not in ("cool", "heat", "chill") and 0 < before < 100:
        after = min(max(after, 0.0), 100.0)  # a step that goes beyond an end goes to the end
    return replace(change, act=act, value=round(after), by=None)


def wanted(device: MapDevice, change: Change) -> Wanted | Limit:
    """What the device must become; a Limit when it never can."""
    change = meant(device, change)
    act, value = change.act, change.value
    if act in ("on", "off"):
        return _power(device, act)
    if act == "silence":
        muted = path_of(device, MUTED)
        return _power(device, "off") if muted is None else Wanted({muted: 1})
    if act in ("dim", "volume"):
        return _level(device, act, value)
    if act == "speed":
        return _speed(device, value)
    if act in ("cool", "heat", "chill"):
        return _temperature(device, act, value)
    if act in ("pause", "resume", "start", "stop"):
        return _work(device, act)
    if act in ("close", "open", "position"):
        return _cover(device, act, value)
    if act in ("lock", "unlock"):
        path = path_of(device, LOCK)
        return (
            Limit(_cannot(device, f"be {act}ed")) if path is None else Wanted({path: 1 + (act == "unlock")})
        )
    return _mode(device, change.mode)


def _cannot(device: MapDevice, what: str) -> str:
    return f"The {device.name} cannot {what}."


def _power(device: MapDevice, act: str) -> Wanted | Limit:
    path = path_of(device, ON)
    if path is not None:
        return Wanted({path: act == "on"})
    if (path := path_of(device, MODE)) is not None:  # a heat pump: its mode is what is switched
        return Wanted({path: HEAT if act == "on" else 0})
    if (path := path_of(device, RUN_MODE)) is not None:
        return Wanted({path: 2 if act == "on" else 1})
    if (path := path_of(device, VALVE)) is not None:
        return Wanted({path: int(act == "on")})
    if path_of(device, LIFT) is not None:
        return Limit(f"The {device.name} can be opened and closed; it cannot be switched {act}.")
    return Limit(_cannot(device, f"be switched {act}"))


def _level(device: MapDevice, act: str, value: float | None) -> Wanted | Limit:
    path, on = path_of(device, LEVEL), path_of(device, ON)
    light = not is_media(device)
    if act == "dim" and device.type == "on_off_light":
        return Limit("This light can only be switched on and off; it cannot be dimmed.")
    if path is None or light != (act == "dim"):
        return Limit(_cannot(device, "be dimmed" if act == "dim" else "be made louder or quieter"))
    if value is None:
        return Limit("It was not said how much.")
    if not 0 <= value <= 100:
        most = "A light has no more than" if light else "Its volume ends at"
        if value < 0:
            most = (
                "A brightness begins at zero, and ends at"
                if light
                else "Its volume begins at zero, and ends at"
            )
        return Limit(f"{most} one hundred percent; {_percent(value)} was asked for.")
    if light and on is not None:
        return Wanted({on: False}) if value == 0 else Wanted({on: True, path: level_of(value)})
    return Wanted({path: level_of(value)})


def _speed(device: MapDevice, value: float | None) -> Wanted | Limit:
    path, on = path_of(device, FAN), path_of(device, ON)
    if path is None:
        return Limit(_cannot(device, "be set to a speed"))
    if value is None:
        return Limit("It was not said how fast.")
    if not 0 <= value <= 100:
        return Limit(f"Its speed ends at one hundred percent; {_percent(value)} was asked for.")
    if value == 0 and on is not None:
        return Wanted({on: False})
    return Wanted({path: round(value)} | ({} if on is None else {on: True}))


def _temperature(device: MapDevice, act: str, value: float | None) -> Wanted | Limit:
    path = path_of(device, COLD)
    extra: dict[str, Value] = {}
    if path is None:
        mode = path_of(device, MODE)
        heats = act == "heat" or path_of(device, COOLING) is None or value_of(device, MODE) == HEAT
        path = path_of(device, HEATING if heats and act != "chill" else COOLING)
        if act == "heat" and mode is not None:
            extra[mode] = HEAT
    if path is None:
        return Limit(_cannot(device, "be set to a temperature"))
    if value is None:
        return Limit("It was not said how many degrees.")
    least, most = range_of(device, path)
    raw = round(100 * value)
    if least is not None and most is not None and not least <= raw <= most:
        told = f"It can be set from {_degrees(least / 100, False)} to {_degrees(most / 100)}"
        return Limit(f"{told}; {_degrees(value)} was asked for.")
    return Wanted({path: raw, **extra})


def _work(device: MapDevice, act: str) -> Wanted | Limit:
    playing, cycle = path_of(device, PLAYBACK), path_of(device, CYCLE)
    if playing is not None:
        return Wanted({playing: {"pause": 1, "stop": 2}.get(act, 0)})
    if cycle is not None:
        return Wanted({cycle: {"pause": 2, "stop": 0}.get(act, 1)})
    if path_of(device, RUN_MODE) is not None:
        run, robot = path_of(device, RUN_MODE), path_of(device, ROBOT)
        if act == "pause" and robot is not None:
            return Wanted({robot: 2})
        return Wanted({str(run): 1 if act == "stop" else 2})
    if act in ("start", "stop") and path_of(device, ON) is not None:
        return _power(device, "on" if act == "start" else "off")
    words = {"pause": "be paused", "resume": "carry on", "start": "be started", "stop": "be stopped"}
    return Limit(_cannot(device, words[act]))


def _cover(device: MapDevice, act: str, value: float | None) -> Wanted | Limit:
    path, valve = path_of(device, LIFT), path_of(device, VALVE)
    if path is None and valve is not None and act != "position":
        return Wanted({valve: int(act == "open")})
    if path is None:
        words = {"open": "be opened", "close": "be closed", "position": "be set to a position"}
        return Limit(_cannot(device, words[act]))
    share = {"close": 100.0, "open": 0.0}.get(act, value)
    if share is None:
        return Limit("It was not said how far.")
    if not 0 <= share <= 100:
        return Limit(f"It closes from zero to one hundred percent; {_percent(share)} was asked for.")
    return Wanted({path: round(100 * share)})


MODES = {
    "refrigerator": {"normal": 0, "eco": 4, "energy save": 4, "rapid cool": 16384, "rapid freeze": 16385},
    "dishwasher": {"normal": 0, "heavy": 1, "light": 2, "quick": 3, "eco": 4, "low energy": 4, "silent": 5},
    "laundry_washer": {"normal": 0, "delicate": 1, "heavy": 2, "whites": 3, "quick": 4, "heavy whites": 5},
}
MODES["freezer"] = MODES["refrigerator"]
FAN_MODES = {"low": 1, "medium": 2, "high": 3}


def _mode(device: MapDevice, mode: str | None) -> Wanted | Limit:
    word = (mode or "").casefold().removesuffix(" mode")
    fan, thermostat = path_of(device, FAN_MODE), path_of(device, MODE)
    if fan is not None and word in FAN_MODES:
        return Wanted({fan: FAN_MODES[word]})
    if thermostat is not None and word in ("cool", "cooling", "heat", "heating"):
        return Wanted({thermostat: 3 if word.startswith("cool") else HEAT})
    known = MODES.get(device.type, {})
    path = next((p for p in device.attributes if p.endswith("Mode.CurrentMode")), None)
    if word in known and path is not None:
        return Wanted({path: known[word]})
    can = f"; it has {', '.join(known)}" if known else ""
    return Limit(f"The {device.name} has no mode {word!r}{can}.")


def range_of(device: MapDevice, path: str) -> tuple[float | None, float | None]:
    """Between what an attribute can be set: as the device says itself, else as its type has it."""
    prefix, _, name = path.rpartition(".")
    if name in LIMITS:
        low, high = (device.attributes.get(f"{prefix}.{limit}") for limit in LIMITS[name])
        if isinstance(low, int | float) and isinstance(high, int | float):
            return low, high
    known = schema_of(device.type, path)
    return (None, None) if known is None else (known.low, known.high)


def fits(device: MapDevice, change: Change) -> float:
    """1: the device can do such a thing; less: others of its kind can; near 0: nobody asks that of it."""
    if change.act in ("cool", "heat", "chill") and any(path_of(device, p) for p in (COOLING, HEATING, COLD)):
        return 1.0
    if meant(device, change).act != change.act:
        return 0.15  # percents are said of lamps first
    found = wanted(device, change)
    if isinstance(found, Wanted):
        return 1.0
    if path_of(device, LEVEL) and change.act == ("volume" if is_media(device) else "dim"):
        return 1.0  # it has one, but not that far
    if change.act == "speed" and path_of(device, FAN):
        return 1.0
    if change.act == "position" and path_of(device, LIFT):
        return 1.0
    return 0.5 if device.type in FAMILY.get(change.act, ()) else 0.04


def answers(device: MapDevice, inquiry: Inquiry) -> float:
    """1: the device has what is asked about; near 0: it has not. An on/off lamp may be asked how bright it
    is, a television whether it is loud; a lamp is not loud, and a television not bright."""
    has = any(path_of(device, name) for name in ASKED[inquiry])
    media = is_media(device)
    if inquiry in ("how_bright", "how_loud") and has and media != (inquiry == "how_loud"):
        return 0.04
    if has:
        return 1.0
    return 0.3 if inquiry == "how_bright" and device.type in LIGHTS else 0.04


def ways(
    device: MapDevice, goal: Mapping[str, Value], start: Mapping[str, Any] | None = None
) -> list[Order] | None:
    """Commands after which `goal` holds, [] when it does; None: no way is known. start: default now."""
    if device.type not in DEVICE_TYPES:
        return None
    state = device.attributes if start is None else start
    own = {f"{c.get('endpoint')}.{c.get('cluster')}.{c.get('command')}" for c in device.commands} or None
    try:
        return orders_to(_twin(device), _known(device, state), goal, own)
    except InputError:  # it says what its type cannot be: plan from rest
        return orders_to(_twin(device), {}, goal, own)


def afterwards(device: MapDevice, start: Mapping[str, Any], orders: list[Order]) -> dict[str, Value]:
    """The state after these commands, as the twin foresees it. Raises HomeError when one is not possible
    then, InputError for a first state that the type cannot have."""
    home = Home([_twin(device)], {device.id: _known(device, start)})
    for order in orders:
        if order.command.startswith("write "):
            home.write(device.id, order.command.removeprefix("write "), order.args["value"])
        else:
            home.command(device.id, order.command, order.args)
    return home.state(device.id)


def _twin(device: MapDevice) -> HomeDevice:
    return HomeDevice(device.id, device.type, device.name, device.room)


def _known(device: MapDevice, state: Mapping[str, Any]) -> dict[str, Any]:
    """What the type has and the home says; a real device that is away says None."""
    return {
        path: value
        for path, value in state.items()
        if value is not None and schema_of(device.type, path) is not None
    }


def surely(device: MapDevice, goal: Mapping[str, Value], start: Mapping[str, Any]) -> list[Order] | None:
    """As `ways`, for later: commands are sent even if the goal holds as things stand now, and what has to be
    on is switched on, for somebody may switch it off until then."""
    power = path_of(device, ON)
    if power is not None and goal.get(power) is True:
        start = {**start, power: False}
    found = ways(device, goal, start)
    if found or found is None:
        return found
    for on in (False, True):  # from some state in which it does not hold
        other = dict(start)
        path = path_of(device, ON)
        if path is not None:
            other[path] = on
        other |= {path: _other(value) for path, value in goal.items() if path != path_of(device, ON)}
        if found := ways(device, goal, {p: v for p, v in other.items() if v is not None}):
            return found
    return []


def _other(value: Value) -> Value:
    """Another value of the same kind, near it."""
    if isinstance(value, bool):
        return not value
    return (
        value - 1 if isinstance(value, int) and value > 1 else (value + 1 if isinstance(value, int) else None)
    )


def _percent(value: float) -> str:
    return percent(round(value)) if value == round(value) and abs(value) < 1000 else f"{value:g} percent"


def _degrees(value: float, unit: bool = True) -> str:
    if value == round(value) and abs(value) < 1000:
        words = degrees(round(value))
        return words if unit else words.rpartition(" ")[0]
    return f"{value:g} degrees" if unit else f"{value:g}"
