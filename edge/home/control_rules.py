"""The rules of rooms in words, as an agent may ask for them; numbers as in `edge.home.environment`."""

from __future__ import annotations

from typing import Any

RULES: dict[str, dict[str, Any]] = {
    "temperature": {
        "variable": "temperature",
        "unit": "0.01 degrees C",
        "decrease": ["air_conditioner: on, SystemMode 3 (cool), setpoint below the room", "fan: on"],
        "increase": [
            "air_conditioner: on, SystemMode 4 (heat), setpoint above the room",
            "heat_pump: SystemMode 4 (heat), setpoint above the room",
        ],
        "strength": "FanControl.PercentCurrent; a heat pump has none",
        "back_per_s": 0.0002,
    },
    "humidity": {
        "variable": "humidity",
        "unit": "0.01 %",
        "decrease": ["dehumidifier: on"],
        "increase": ["humidifier: on"],
        "strength": "FanControl.PercentCurrent",
        "back_per_s": 0.01,
    },
    "air_quality": {
        "variable": "pm10",
        "unit": "ug/m3",
        "decrease": ["air_purifier: on"],
        "increase": [],
        "strength": "FanControl.PercentCurrent",
        "back_per_s": 0.1,
    },
    "illuminance": {
        "variable": "illuminance",
        "unit": "lux",
        "decrease": ["on_off_light: off", "dimmable_light: off, or a lower level"],
        "increase": ["on_off_light: on", "dimmable_light: on, or a higher level"],
        "strength": "500 lux for a lamp; LevelControl.CurrentLevel / 254 of it for a dimmable one",
        "back_per_s": None,
    },
}
