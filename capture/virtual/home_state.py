"""Devices of the virtual home as attributes: what a type has, when it is heard, when it gives light.

Attributes are `<endpoint>.<Cluster>.<Attribute>` with the meaning of Matter: OnOff.OnOff; FanControl.FanMode
0 off, 1 low, 2 medium, 3 high; MediaPlayback.CurrentState 0 playing, 1 paused;
OperationalState.OperationalState 0 stopped, 1 running, 2 paused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | None
Attributes: TypeAlias = Mapping[str, Value]

ON_OFF = "1.OnOff.OnOff"
LEVEL = "1.LevelControl.CurrentLevel"
FAN_MODE = "1.FanControl.FanMode"
FAN_SETTING = "1.FanControl.PercentSetting"
FAN_CURRENT = "1.FanControl.PercentCurrent"
PLAYBACK = "1.MediaPlayback.CurrentState"
OPERATION = "1.OperationalState.OperationalState"
LIFT = "1.WindowCovering.CurrentPositionLiftPercent100ths"

LIGHTS = ("on_off_light", "dimmable_light")
FANS = ("fan", "air_conditioner", "humidifier", "air_purifier")
MEDIA = ("tv", "audio_player")
APPLIANCES = ("microwave", "laundry_washer")
QUIET_PERCENT = 15  # a fan at or below this is not heard


def off(device_type: str) -> dict[str, Value]:
    """A device of this type, switched off."""
    if device_type == "on_off_light":
        return {ON_OFF: False}
    if device_type == "dimmable_light":
        return {ON_OFF: False, LEVEL: 254}
    if device_type in FANS:
        state: dict[str, Value] = {ON_OFF: False, FAN_MODE: 0, FAN_SETTING: 0, FAN_CURRENT: 0}
        if device_type == "air_conditioner":
            state |= {"1.Thermostat.SystemMode": 0, "1.Thermostat.OccupiedCoolingSetpoint": 2400}
        return state
    if device_type in MEDIA:
        return {ON_OFF: False, PLAYBACK: 2, LEVEL: 100}
    if device_type in APPLIANCES:
        return {ON_OFF: False, OPERATION: 0}
    if device_type == "window_covering":
        return {LIFT: 0}
    return {}


def running(device_type: str, percent: int = 100) -> dict[str, Value]:
    """A device of this type, on and working (fans at `percent`)."""
    state = off(device_type)
    if ON_OFF in state:
        state[ON_OFF] = True
    if device_type in FANS:
        mode = 1 if percent <= 33 else 2 if percent <= 66 else 3
        state |= {FAN_MODE: mode, FAN_SETTING: percent, FAN_CURRENT: percent}
        if device_type == "air_conditioner":
            state["1.Thermostat.SystemMode"] = 3
    if device_type in MEDIA:
        state[PLAYBACK] = 0
    if device_type in APPLIANCES:
        state[OPERATION] = 1
    return state


def on_but_silent(device_type: str) -> dict[str, Value]:
    """On, yet not heard: a fan at its lowest speed, a paused player, a paused washer."""
    state = running(device_type, percent=10)
    if device_type in MEDIA:
        state[PLAYBACK] = 1
    if device_type in APPLIANCES:
        state[OPERATION] = 2
    return state


def is_on(state: Attributes) -> bool:
    """Whether OnOff is true; devices without OnOff (a refrigerator) count as on."""
    return bool(state.get(ON_OFF, True))


def loudness(device_type: str, state: Attributes) -> float:
    """Gain 0 to 1 of the device's own sound in this state."""
    if not is_on(state):
        return 0.0
    if device_type in FANS:
        percent = float(state.get(FAN_SETTING) or 0)
        return 0.0 if percent <= QUIET_PERCENT else percent / 100
    if device_type in MEDIA:
        return 1.0 if state.get(PLAYBACK) == 0 else 0.0
    if device_type in APPLIANCES:
        return 1.0 if state.get(OPERATION) == 1 else 0.0
    return 0.0


def brightness(device_type: str, state: Attributes) -> float:
    """Light output 0 to 1 of a lamp in this state; 0 for everything else."""
    if device_type not in LIGHTS or not is_on(state):
        return 0.0
    level = state.get(LEVEL, 254)
    return float(level) / 254 if isinstance(level, int | float) else 1.0
