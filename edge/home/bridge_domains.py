"""What entities that are switched and set tell and do, in our clusters; see `edge.home.bridge_entities`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edge.home.bridge_entities import (
    Asked,
    Call,
    Entity,
    Told,
    brightness_of,
    celsius,
    degrees,
    level_of,
    number,
)
from edge.home.schema import Value

LEVELS = 3  # lamps that count in percent are off by up to this many of 254 levels
FAN_PERCENT = {0: 0, 1: 33, 2: 66, 3: 100}
FAN_WORDS = {1: ("low", "quiet", "silent"), 2: ("medium", "mid", "middle"), 3: ("high", "max", "turbo")}
# Matter's Thermostat.SystemMode.
SYSTEM_MODES = {"off": 0, "auto": 1, "heat_cool": 1, "cool": 3, "heat": 4, "fan_only": 7, "dry": 8}
VACUUM_STATES = {"idle": 0, "cleaning": 1, "paused": 2, "error": 3, "returning": 64, "docked": 66}
# Command of MediaPlayback -> service, and the states in which it was followed.
MEDIA_SERVICES = {
    "Play": ("media_play", ("playing",)),
    "Pause": ("media_pause", ("paused",)),
    "Stop": ("media_stop", ("idle", "on", "off", "standby")),
    "Next": ("media_next_track", ("playing", "paused", "buffering")),
    "Previous": ("media_previous_track", ("playing", "paused", "buffering")),
}


class Domain:
    """What all entities that can be on and off have in common."""

    name = "switch"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        """Its type, or None and why."""
        if entity.attributes.get("device_class") == "outlet":
            return "plug", ""
        return None, "a switch can be anything: say in rig.yaml (room.devices: type, entity) what it switches"

    def read(self, entity: Entity) -> dict[str, Value]:
        """Attributes without endpoint."""
        return {"OnOff.OnOff": self.is_on(entity)}

    def is_on(self, entity: Entity) -> bool:
        """On, as Matter means it."""
        return entity.state not in ("off", "standby")

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        """The calls."""
        if "OnOff.OnOff" not in asked.changed:
            return None
        on = bool(asked.changed["OnOff.OnOff"])
        return Told((self.call("turn_on" if on else "turn_off"),), lambda e: self.is_on(e) == on)

    def call(self, service: str, **data: Any) -> Call:
        """A service of this domain."""
        return Call(self.name, service, data)


class Light(Domain):
    name = "light"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        return ("dimmable_light" if _dims(entity) else "on_off_light"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        told = super().read(entity)
        if _dims(entity):
            told["LevelControl.CurrentLevel"] = level_of(number(entity, "brightness"))
        return told

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        level = asked.changed.get("LevelControl.CurrentLevel")
        if not isinstance(level, int) or ("OnOff.OnOff" in asked.changed and not asked.after["OnOff.OnOff"]):
            return super().tell(entity, asked)
        if not asked.after["OnOff.OnOff"]:  # dimmed to nothing, and it is off already
            return Told((), lambda e: not self.is_on(e))
        call = self.call("turn_on", brightness=brightness_of(level))
        return Told((call,), lambda e: self.is_on(e) and _near(self.read(e), asked.changed, LEVELS))


class Fan(Domain):
    name = "fan"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        return ("air_purifier" if re.search(r"purifier|cleaner", entity.name, re.I) else "fan"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        told = super().read(entity)
        percent = number(entity, "percentage")
        if percent is not None or _features(entity) & 1:
            told |= _speeds(round(percent or 0), bool(told["OnOff.OnOff"]))
        return told

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        percent = asked.changed.get("FanControl.PercentSetting")
        if asked.name.startswith("OnOff.") or not isinstance(percent, int):
            return super().tell(entity, asked)
        step = number(entity, "percentage_step") or 1.0  # a fan with three speeds takes the next of them
        return Told(
            (self.call("set_percentage", percentage=percent),),
            lambda e: (
                not self.is_on(e) if percent == 0 else abs((number(e, "percentage") or 0) - percent) <= step
            ),
        )


class Humidifier(Domain):
    name = "humidifier"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        dries = entity.attributes.get("device_class") == "dehumidifier"
        return ("dehumidifier" if dries else "humidifier"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        told = super().read(entity)
        if "current_humidity" in entity.attributes:
            told["RelativeHumidityMeasurement.MeasuredValue"] = _hundredths(
                number(entity, "current_humidity")
            )
        return told


class Climate(Domain):
    name = "climate"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        modes = entity.attributes.get("hvac_modes") or ()
        if "cool" in modes:
            return "air_conditioner", ""
        if "heat" not in modes:
            return None, "climate: it neither cools nor heats"
        return ("heat_pump" if re.search(r"heat[ _-]?pump", entity.name, re.I) else "thermostat"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        modes = entity.attributes.get("hvac_modes") or ()
        told: dict[str, Value] = {**super().read(entity)}
        told["Thermostat.SystemMode"] = SYSTEM_MODES.get(entity.state)
        told["Thermostat.LocalTemperature"] = _centi(entity, "current_temperature")
        both = entity.state == "heat_cool"
        for mode, other, name, end in (
            ("cool", "heat", "OccupiedCoolingSetpoint", "target_temp_high"),
            ("heat", "cool", "OccupiedHeatingSetpoint", "target_temp_low"),
        ):
            if mode in modes:
                key = end if both else "temperature"
                told[f"Thermostat.{name}"] = None if entity.state == other else _centi(entity, key)
        speed = _fan_mode(entity)
        if speed is not None:
            told |= _speeds(FAN_PERCENT[speed], bool(told["OnOff.OnOff"]))
        return told

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        changed = asked.changed
        if asked.name.startswith("OnOff."):
            return super().tell(entity, asked)
        if "Thermostat.SystemMode" in changed:
            mode = changed["Thermostat.SystemMode"]
            word = next((w for w in ("off", "cool", "heat") if SYSTEM_MODES[w] == mode), None)
            if word is None or word not in (entity.attributes.get("hvac_modes") or ()):
                return None
            return Told((self.call("set_hvac_mode", hvac_mode=word),), lambda e: e.state == word)
        if any(name.startswith("Thermostat.Occupied") for name in changed):
            return self._setpoint(entity, changed)
        if "FanControl.FanMode" in changed or "FanControl.PercentSetting" in changed:
            return self._speed(entity, asked)
        return super().tell(entity, asked)

    def _setpoint(self, entity: Entity, changed: Mapping[str, Value]) -> Told | None:
        values = {name: value for name, value in changed.items() if name.startswith("Thermostat.Occupied")}
        now = self.read(entity)
        if any(name not in now for name in values) or entity.state == "off":
            return None
        unit = entity.attributes.get("temperature_unit")
        if entity.state == "heat_cool":
            names = [f"Thermostat.Occupied{name}Setpoint" for name in ("Heating", "Cooling")]
            low, high = (values.get(name, now.get(name)) for name in names)
            if low is None or high is None:
                return None
            data = {"target_temp_low": degrees(low, unit), "target_temp_high": degrees(high, unit)}
        else:
            other = "Heating" if entity.state == "cool" else "Cooling"
            values.pop(f"Thermostat.Occupied{other}Setpoint", None)
            if not values:  # the setpoint of the mode that it is not in
                return None
            data = {"temperature": degrees(next(iter(values.values())), unit)}
        step = (number(entity, "target_temp_step") or 0.5) * 100
        return Told((self.call("set_temperature", **data),), lambda e: _near(self.read(e), values, step / 2))

    def _speed(self, entity: Entity, asked: Asked) -> Told | None:
        wanted = asked.after.get("FanControl.FanMode")
        words = entity.attributes.get("fan_modes") or ()
        word = next((w for w in words if str(w).lower() in FAN_WORDS.get(_whole(wanted), ())), None)
        if word is None:
            return None
        return Told(
            (self.call("set_fan_mode", fan_mode=word),), lambda e: e.attributes.get("fan_mode") == word
        )


class Cover(Domain):
    name = "cover"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        what = entity.attributes.get("device_class")
        if what in ("gate", "door"):
            return None, f"cover: Hearth has no devices of the class {what}"
        return {"garage": "garage_door", "curtain": "curtains"}.get(str(what), "window_covering"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        now = _lift(entity)
        target = {"opening": 0, "closing": 10000}.get(entity.state, now)
        return {
            "WindowCovering.CurrentPositionLiftPercent100ths": now,
            "WindowCovering.TargetPositionLiftPercent100ths": target,
        }

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        target = asked.after["WindowCovering.TargetPositionLiftPercent100ths"]
        if asked.name == "WindowCovering.StopMotion":
            return Told((self.call("stop_cover"),), lambda e: e.state not in ("opening", "closing"))
        if not isinstance(target, int):
            return None
        if "current_position" in entity.attributes and target not in (0, 10000):
            call = self.call("set_cover_position", position=round(100 - target / 100))
        elif target in (0, 10000):
            call = self.call("open_cover" if target == 0 else "close_cover")
        else:
            return None
        before = _lift(entity)

        def followed(e: Entity) -> bool:
            """It is there, or on its way."""
            now = _lift(e)
            if now is not None and abs(now - target) <= 200:
                return True
            if before is None or now is None or before == target:
                return False
            moving = "opening" if before > target else "closing"
            return e.state == moving or (now - before) * (1 if target > before else -1) > 0

        return Told((call,), followed)


class MediaPlayer(Domain):
    name = "media_player"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        kinds = {"tv": "tv", "receiver": "av_receiver", "speaker": "speaker"}
        return kinds.get(str(entity.attributes.get("device_class")), "audio_player"), ""

    def read(self, entity: Entity) -> dict[str, Value]:
        told = super().read(entity)
        told["MediaPlayback.CurrentState"] = {"playing": 0, "buffering": 0, "paused": 1}.get(entity.state, 2)
        volume = number(entity, "volume_level")
        told["LevelControl.CurrentLevel"] = None if volume is None else min(max(round(volume * 254), 1), 254)
        return told

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        cluster, _, name = asked.name.partition(".")
        if cluster == "MediaPlayback":
            if name not in MEDIA_SERVICES:
                return None
            service, states = MEDIA_SERVICES[name]
            return Told((self.call(service),), lambda e: e.state in states)
        level = asked.changed.get("LevelControl.CurrentLevel")
        if not isinstance(level, int) or not asked.after["OnOff.OnOff"]:
            return super().tell(entity, asked)
        calls = [self.call("volume_set", volume_level=round(level / 254, 3))]
        if not self.is_on(entity):
            calls.insert(0, self.call("turn_on"))
        return Told(tuple(calls), lambda e: self.is_on(e) and _near(self.read(e), asked.changed, LEVELS))


class Vacuum(Domain):
    name = "vacuum"

    def kind(self, entity: Entity) -> tuple[str | None, str]:
        return "rvc", ""

    def read(self, entity: Entity) -> dict[str, Value]:
        return {
            "RVCRunMode.CurrentMode": 2 if entity.state == "cleaning" else 1,
            "RVCOperationalState.OperationalState": VACUUM_STATES.get(entity.state, 0),
        }

    def tell(self, entity: Entity, asked: Asked) -> Told | None:
        cluster, _, name = asked.name.partition(".")
        if cluster == "RVCRunMode" and name == "ChangeToMode":
            cleans = asked.args.get("new_mode") == 2
            name = "Resume" if cleans else "GoHome"
        if name == "Resume":
            return Told((self.call("start"),), lambda e: e.state == "cleaning")
        if name == "Pause":
            return Told((self.call("pause"),), lambda e: e.state in ("paused", "idle"))
        if name == "GoHome":
            return Told((self.call("return_to_base"),), lambda e: e.state in ("returning", "docked"))
        return None


class InputBoolean(Domain):
    name = "input_boolean"


def _centi(entity: Entity, key: str) -> int | None:
    value = number(entity, key)
    return None if value is None else round(celsius(value, entity.attributes.get("temperature_unit")) * 100)


def _hundredths(value: float | None) -> int | None:
    return None if value is None else round(value * 100)


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _features(entity: Entity) -> int:
    value = entity.attributes.get("supported_features")
    return value if isinstance(value, int) else 0


def _dims(entity: Entity) -> bool:
    modes = entity.attributes.get("supported_color_modes") or ()
    return bool(set(modes) - {"onoff", "unknown"}) or "brightness" in entity.attributes


def _speeds(percent: int, on: bool) -> dict[str, Value]:
    nearest = min(FAN_PERCENT, key=lambda mode: abs(FAN_PERCENT[mode] - percent))
    return {
        "FanControl.FanMode": max(nearest, 1) if percent else 0,
        "FanControl.PercentSetting": percent,
        "FanControl.PercentCurrent": percent if on else 0,
    }


def _fan_mode(entity: Entity) -> int | None:
    word = str(entity.attributes.get("fan_mode")).lower()
    return next((mode for mode, words in FAN_WORDS.items() if word in words), None)


def _lift(entity: Entity) -> int | None:
    position = number(entity, "current_position")
    if position is not None:
        return round(10000 - 100 * position)
    return {"open": 0, "closed": 10000}.get(entity.state)


def _near(now: Mapping[str, Value], wanted: Mapping[str, Value], tolerance: float) -> bool:
    """Numbers within the tolerance. What only follows from a speed or level is not looked at."""
    for name, value in wanted.items():
        have = now.get(name)
        if isinstance(value, bool) or isinstance(have, bool):
            if have != value:
                return False
        elif isinstance(value, int | float) and (
            not isinstance(have, int | float) or abs(have - value) > tolerance
        ):
            return False
    return True
