"""What each device type sounds like, and whether a device can be heard in its present state.

Everyday knowledge as rough odds (1: typical, 0.3: it happens, 0: no), to be combined with the direction. It
never names a device, and nothing in it comes from a recording's truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = ("hum", "beep", "music", "spin", "blow", "voice")

SOUNDS_OF_TYPE: dict[str, dict[str, float]] = {
    "fan": {"hum": 1.0, "blow": 1.0, "spin": 0.3},
    "air_conditioner": {"hum": 1.0, "blow": 1.0, "spin": 0.2, "beep": 0.1},
    "air_purifier": {"hum": 1.0, "blow": 1.0, "beep": 0.1},
    "humidifier": {"hum": 1.0, "blow": 0.7, "beep": 0.1},
    "dehumidifier": {"hum": 1.0, "blow": 0.7, "beep": 0.1},
    "heat_pump": {"hum": 1.0, "blow": 0.5},
    "refrigerator": {"hum": 1.0, "beep": 0.3, "spin": 0.1},
    "freezer": {"hum": 1.0, "beep": 0.3, "spin": 0.1},
    "microwave": {"beep": 1.0, "hum": 0.7, "spin": 0.1},
    "oven": {"beep": 1.0, "hum": 0.5, "blow": 0.3},
    "laundry_washer": {"spin": 1.0, "hum": 0.5, "beep": 0.5},
    "laundry_dryer": {"spin": 1.0, "hum": 0.7, "beep": 0.5},
    "dishwasher": {"hum": 0.7, "beep": 0.5, "spin": 0.3, "blow": 0.3},
    "rvc": {"hum": 1.0, "spin": 0.5, "beep": 0.3},
    "audio_player": {"music": 1.0, "voice": 0.5},
    "tv": {"music": 0.7, "voice": 1.0, "hum": 0.05},
    "on_off_light": {"hum": 0.05},
    "dimmable_light": {"hum": 0.1},
    "window_covering": {"hum": 0.1},
}


def sound_odds(device_type: str, kind: str) -> float:
    """How well the type goes with the kind of sound, 0..1; kind "any" is its most typical one."""
    known = SOUNDS_OF_TYPE.get(device_type, {})
    return max(known.values(), default=0.0) if kind == "any" else known.get(kind, 0.0)


def can_sound(attributes: Mapping[str, Any], kind: str) -> float:
    """0..1: could a device in this state make this sound now?

    Off: no. A fan sounds less the slower it turns; a paused player plays nothing; an appliance that does not
    run neither spins nor hums, but may still beep (the end of its cycle).
    """
    if attributes.get("1.OnOff.OnOff") is False:
        return 0.0
    odds = 1.0
    percent = attributes.get("1.FanControl.PercentCurrent")
    if kind != "beep" and isinstance(percent, int):
        odds *= 0.1 + 0.9 * percent / 100 if percent else 0.02
    playback = attributes.get("1.MediaPlayback.CurrentState")
    if playback in (1, 2) and kind in ("music", "voice", "any"):
        odds *= 0.02
    running = attributes.get("1.OperationalState.OperationalState")
    if running in (0, 2):
        odds *= 0.5 if kind == "beep" else 0.05
    return odds
