"""What a shooting plan knows of each device type: attributes, ranges, the words for it, and its states.

Attribute names are those of Matter clusters (`<endpoint>.<Cluster>.<Attribute>`), as the home twin has them;
a test compares this table with the twin's. Temperatures are hundredths of a degree, levels 1-254, fans
0-100 %, blinds 0 (open) to 10000 (closed).
"""

from __future__ import annotations

from collections.abc import Mapping

from recordings.profile import Value

Attributes = dict[str, Value]

ON = "1.OnOff.OnOff"
LEVEL = "1.LevelControl.CurrentLevel"
FAN_MODE = "1.FanControl.FanMode"
PERCENT = "1.FanControl.PercentSetting"
PERCENT_NOW = "1.FanControl.PercentCurrent"
MODE = "1.Thermostat.SystemMode"
COOLING = "1.Thermostat.OccupiedCoolingSetpoint"
HEATING = "1.Thermostat.OccupiedHeatingSetpoint"
LOCAL = "1.Thermostat.LocalTemperature"
PLAYBACK = "1.MediaPlayback.CurrentState"
OPERATION = "1.OperationalState.OperationalState"
FRIDGE = "1.TemperatureControl.TemperatureSetpoint"
LIFT = "1.WindowCovering.CurrentPositionLiftPercent100ths"
LIFT_TARGET = "1.WindowCovering.TargetPositionLiftPercent100ths"

PLAYING, MEDIA_PAUSED, NOT_PLAYING = 0, 1, 2  # MediaPlayback.CurrentState
STOPPED, RUNNING, PAUSED = 0, 1, 2  # OperationalState
COOL = 3  # Thermostat.SystemMode
QUIET_PERCENT = 10  # a fan that is on and not heard
HEARD_ABOVE_PERCENT = 15

LIGHTS = ("on_off_light", "dimmable_light")
AIR = ("fan", "air_conditioner", "air_purifier", "humidifier")
MEDIA = ("tv", "audio_player")
APPLIANCES = ("microwave", "laundry_washer")

_FAN: Attributes = {ON: False, FAN_MODE: 0, PERCENT: 0, PERCENT_NOW: 0}
_MEDIA: Attributes = {ON: False, PLAYBACK: NOT_PLAYING, LEVEL: 102}
_APPLIANCE: Attributes = {ON: False, OPERATION: STOPPED}
AT_REST: dict[str, Attributes] = {
    "on_off_light": {ON: False},
    "dimmable_light": {ON: False, LEVEL: 254},
    "air_conditioner": {**_FAN, MODE: 0, COOLING: 2600, HEATING: 2000, LOCAL: 2200},
    "fan": _FAN,
    "air_purifier": _FAN,
    "humidifier": _FAN,
    "tv": _MEDIA,
    "audio_player": _MEDIA,
    "microwave": _APPLIANCE,
    "laundry_washer": _APPLIANCE,
    "refrigerator": {FRIDGE: 400},
    "window_covering": {LIFT: 0, LIFT_TARGET: 0},
}

# Ranges of what a request may set; beyond them is a physical limit.
RANGES: dict[str, tuple[int, int]] = {
    LEVEL: (1, 254),
    PERCENT: (0, 100),
    COOLING: (1600, 3200),
    FRIDGE: (100, 700),
    LIFT: (0, 10000),
}

# The words for a device when its own name is not said. Types with the same words sound alike.
NOUNS: dict[str, tuple[str, ...]] = {
    "on_off_light": ("light", "lamp"),
    "dimmable_light": ("light", "lamp"),
    "air_conditioner": ("air conditioner",),
    "fan": ("fan",),
    "air_purifier": ("air purifier",),
    "humidifier": ("humidifier",),
    "tv": ("television", "TV"),
    "audio_player": ("music player",),
    "microwave": ("microwave",),
    "laundry_washer": ("washing machine",),
    "refrigerator": ("fridge", "refrigerator"),
    "window_covering": ("blind",),
}


def alike(one: str, other: str) -> bool:
    """Whether two types go by the same word."""
    return NOUNS[one] == NOUNS[other]


def fan_mode(percent: int) -> int:
    """FanMode that goes with a speed: the nearest of 0, 33, 66 and 100 %; more than 0 % is never off."""
    nearest = min(range(4), key=lambda mode: abs((0, 33, 66, 100)[mode] - percent))
    return max(nearest, 1) if percent else 0


def level_of(percent: int) -> int:
    """The raw level, 1-254, of a brightness or volume in percent."""
    return max(1, round(254 * percent / 100))


def state_where(device_type: str, given: Mapping[str, Value], heard_percent: int | None = None) -> Attributes:
    """A state in which `given` holds and the rest agrees with it: what works is on, a fan's mode and speed
    follow each other. What `given` leaves open is quiet; with `heard_percent` it is heard where the type can
    be: a fan at that speed, a player that plays, a cycle that runs."""
    state = {**AT_REST[device_type], **given}
    heard = heard_percent is not None
    works = state.get(OPERATION) in (RUNNING, PAUSED) or state.get(PLAYBACK) in (PLAYING, MEDIA_PAUSED)
    tuned = any(path in given for path in (PERCENT, COOLING, LEVEL))
    if ON in state and ON not in given:
        state[ON] = works or tuned or heard
    if state.get(ON):
        if PERCENT in state and PERCENT not in given:
            state[PERCENT] = heard_percent if heard_percent is not None else QUIET_PERCENT
        if MODE in state and MODE not in given:
            state[MODE] = COOL
        if PLAYBACK in state and PLAYBACK not in given:
            state[PLAYBACK] = PLAYING if heard else MEDIA_PAUSED
        if OPERATION in state and OPERATION not in given:
            state[OPERATION] = RUNNING if heard else PAUSED
    percent = state.get(PERCENT)
    if isinstance(percent, int):
        state |= {FAN_MODE: fan_mode(percent), PERCENT_NOW: percent if state.get(ON) else 0}
    if LIFT in state:
        state[LIFT_TARGET] = state[LIFT]
    return state


def is_heard(device_type: str, state: Mapping[str, Value]) -> bool:
    """Whether a device in this state makes the sound of its kind."""
    if not state.get(ON, False):
        return False
    if device_type in AIR:
        percent = state.get(PERCENT)
        return isinstance(percent, int) and percent > HEARD_ABOVE_PERCENT
    if device_type in MEDIA:
        return state.get(PLAYBACK) == PLAYING
    return device_type in APPLIANCES and state.get(OPERATION) == RUNNING
