"""Devices that announce themselves by MQTT discovery, as entities: messages in, messages out.

The form is that of Home Assistant's MQTT integration (www.home-assistant.io/integrations/mqtt), which
Zigbee2MQTT, ESPHome, Tasmota and others speak.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dsp.errors import InputError
from edge.home.bridge_entities import Call, Entity
from edge.home.mqtt_component import Component, Message


class Switch(Component):
    domain = "switch"

    def messages(self, call: Call) -> list[Message]:
        return [self._on_off(call)]


class Light(Component):
    """`schema: basic`: a topic for each property."""

    domain = "light"

    def _listen(self) -> None:
        self._scale = float(self.config.get("brightness_scale", 255))
        self._attributes["supported_color_modes"] = ["brightness" if self._dims() else "onoff"]
        self._on("state_topic", "state_value_template", self._set_on_off)
        self._on(
            "brightness_state_topic",
            "brightness_value_template",
            self._number("brightness", 255 / self._scale),
        )

    def _dims(self) -> bool:
        return isinstance(self.config.get("brightness_command_topic"), str)

    @property
    def entity(self) -> Entity:
        """Nobody sees the brightness of a lamp that is off."""
        entity = super().entity
        if entity.state == "off":
            kept = {name: value for name, value in entity.attributes.items() if name != "brightness"}
            return Entity(entity.id, entity.state, kept)
        return entity

    def messages(self, call: Call) -> list[Message]:
        made = []
        if "brightness" in call.data:
            level = round(call.data["brightness"] * self._scale / 255)
            made.append(self._message("brightness_command_topic", level, "brightness_command_template"))
            if self._state == "on" or self.config.get("on_command_type") == "brightness":
                return made
        return [self._on_off(call), *made]


class JsonLight(Light):
    """`schema: json`: one topic, with an object."""

    def _listen(self) -> None:
        self._scale = float(self.config.get("brightness_scale", 255))
        self._attributes["supported_color_modes"] = ["brightness" if self._dims() else "onoff"]
        self._on("state_topic", None, self._set_object)

    def _dims(self) -> bool:
        modes = self.config.get("supported_color_modes")
        colours = isinstance(modes, list) and bool(set(modes) - {"onoff", "unknown"})
        return self.config.get("brightness") is True or colours

    def _set_object(self, value: str) -> None:
        try:
            told = json.loads(value)
        except ValueError:
            return
        if not isinstance(told, dict):
            return
        self._state = {"ON": "on", "OFF": "off"}.get(str(told.get("state")), self._state)
        if isinstance(told.get("brightness"), int | float):
            self._attributes["brightness"] = told["brightness"] * 255 / self._scale

    def messages(self, call: Call) -> list[Message]:
        wanted: dict[str, Any] = {"state": "ON" if call.service == "turn_on" else "OFF"}
        if "brightness" in call.data:
            wanted["brightness"] = round(call.data["brightness"] * self._scale / 255)
        return [self._message("command_topic", json.dumps(wanted))]


class Fan(Component):
    domain = "fan"

    def _listen(self) -> None:
        self._on("state_topic", "state_value_template", self._set_on_off)
        self._low = float(self.config.get("speed_range_min", 1))
        self._steps = float(self.config.get("speed_range_max", 100)) - self._low + 1
        if isinstance(self.config.get("percentage_command_topic"), str):
            self._attributes |= {"supported_features": 1, "percentage_step": 100 / self._steps}
            scale = self._number("percentage", 100 / self._steps, self._low - 1)
            self._on("percentage_state_topic", "percentage_value_template", scale)

    def messages(self, call: Call) -> list[Message]:
        if call.service != "set_percentage":
            return [self._on_off(call)]
        if call.data["percentage"] == 0:
            return [self._on_off(Call("fan", "turn_off"))]
        # Home Assistant's way from percent to steps: the next step that is not slower.
        step = -(-call.data["percentage"] * self._steps // 100) + self._low - 1
        speed = self._message("percentage_command_topic", int(step), "percentage_command_template")
        return [speed] if self._state == "on" else [self._on_off(Call("fan", "turn_on")), speed]


class Humidifier(Component):
    domain = "humidifier"

    def _listen(self) -> None:
        self._on("state_topic", "state_value_template", self._set_on_off)
        if "current_humidity_topic" in self.config:
            self._attributes["current_humidity"] = None
        self._on("current_humidity_topic", "current_humidity_template", self._number("current_humidity"))

    def messages(self, call: Call) -> list[Message]:
        return [self._on_off(call)]


class Cover(Component):
    domain = "cover"

    def _listen(self) -> None:
        states = {"open": "open", "opening": "opening", "closed": "closed", "closing": "closing"}
        self._words = {str(self.config.get(f"state_{key}", word)): word for key, word in states.items()}
        self._stopped = str(self.config.get("state_stopped", "stopped"))
        self._shut = float(self.config.get("position_closed", 0))
        self._span = float(self.config.get("position_open", 100)) - self._shut or 100.0
        moves = isinstance(self.config.get("command_topic"), str) * 11  # open, close, stop
        places = isinstance(self.config.get("set_position_topic"), str) * 4
        self._attributes["supported_features"] = moves | places
        self._on("state_topic", "value_template", self._set_state)
        self._on("position_topic", "position_template", self._set_position)

    @property
    def assumed(self) -> bool:
        return "state_topic" not in self.config and "position_topic" not in self.config

    def _set_state(self, value: str) -> None:
        if value == self._stopped:
            position = self._attributes.get("current_position")
            self._state = "closed" if position == 0 else "open"
        else:
            self._state = self._words.get(value, self._state)

    def _set_position(self, value: str) -> None:
        try:
            position = (float(value) - self._shut) * 100 / self._span
        except ValueError:
            return
        self._attributes["current_position"] = min(max(position, 0.0), 100.0)
        if "state_topic" not in self.config:
            self._state = "closed" if position <= 0 else "open"

    def messages(self, call: Call) -> list[Message]:
        words = {"open_cover": "open", "close_cover": "close", "stop_cover": "stop"}
        if call.service in words:
            word = words[call.service]
            return [self._message("command_topic", self._payload(word, word.upper()))]
        position = round(call.data["position"] * self._span / 100 + self._shut)
        return [self._message("set_position_topic", position, "set_position_template")]


class Valve(Component):
    """One that is open or closed; positions are not understood."""

    domain = "valve"

    def _listen(self) -> None:
        words = ("open", "opening", "closed", "closing")
        self._words = {str(self.config.get(f"state_{word}", word)): word for word in words}
        self._on("state_topic", "value_template", self._set_state)

    def _set_state(self, value: str) -> None:
        self._state = self._words.get(value, self._state)

    def messages(self, call: Call) -> list[Message]:
        word = call.service.removesuffix("_valve")
        return [self._message("command_topic", self._payload(word, word.upper()))]


class Lock(Component):
    domain = "lock"

    def _listen(self) -> None:
        words = ("locked", "locking", "unlocked", "unlocking", "jammed")
        self._words = {str(self.config.get(f"state_{word}", word.upper())): word for word in words}
        self._on("state_topic", "value_template", self._set_state)

    def _set_state(self, value: str) -> None:
        self._state = self._words.get(value, self._state)

    def messages(self, call: Call) -> list[Message]:
        word = call.service  # lock, unlock
        return [self._message("command_topic", self._payload(word, word.upper()), "command_template")]


class Climate(Component):
    domain = "climate"
    needs = ("mode_command_topic",)

    def _listen(self) -> None:
        modes = self.config.get("modes")
        self._attributes["hvac_modes"] = (
            modes if isinstance(modes, list) else ["auto", "off", "cool", "heat", "dry", "fan_only"]
        )
        self._attributes["temperature_unit"] = self.config.get("temperature_unit", "C")
        self._attributes["target_temp_step"] = self.config.get("temp_step", 1)
        self._on("mode_state_topic", "mode_state_template", self._set_mode)
        self._on("temperature_state_topic", "temperature_state_template", self._number("temperature"))
        self._on(
            "current_temperature_topic", "current_temperature_template", self._number("current_temperature")
        )
        if isinstance(self.config.get("fan_mode_command_topic"), str):
            self._attributes["fan_modes"] = self.config.get("fan_modes", ["auto", "low", "medium", "high"])
            self._on("fan_mode_state_topic", "fan_mode_state_template", self._word("fan_mode"))

    @property
    def assumed(self) -> bool:
        return "mode_state_topic" not in self.config

    def _set_mode(self, value: str) -> None:
        if value in self._attributes["hvac_modes"]:
            self._state = value

    def messages(self, call: Call) -> list[Message]:
        if call.service == "turn_off":
            return [self._message("mode_command_topic", "off", "mode_command_template")]
        if call.service == "turn_on":
            modes = [mode for mode in self._attributes["hvac_modes"] if mode != "off"]
            order = [mode for mode in ("heat_cool", "auto", "heat", "cool") if mode in modes]
            return [self._message("mode_command_topic", (order or modes)[0], "mode_command_template")]
        if call.service == "set_hvac_mode":
            return [self._message("mode_command_topic", call.data["hvac_mode"], "mode_command_template")]
        if call.service == "set_fan_mode":
            return [
                self._message("fan_mode_command_topic", call.data["fan_mode"], "fan_mode_command_template")
            ]
        if "temperature" not in call.data:
            raise self._cannot(call)
        wanted = call.data["temperature"]
        return [self._message("temperature_command_topic", wanted, "temperature_command_template")]


class Vacuum(Component):
    domain = "vacuum"

    def _listen(self) -> None:
        self._on("state_topic", None, self._set_object)

    def _set_object(self, value: str) -> None:
        try:
            told = json.loads(value)
        except ValueError:
            return
        if isinstance(told, dict) and isinstance(told.get("state"), str):
            self._state = told["state"]

    def messages(self, call: Call) -> list[Message]:
        return [self._message("command_topic", self._payload(call.service, call.service))]


class Sensor(Component):
    domain = "sensor"
    needs = ("state_topic",)

    def _listen(self) -> None:
        self._attributes["unit_of_measurement"] = self.config.get("unit_of_measurement")
        self._on("state_topic", "value_template", self._set_value)

    def _set_value(self, value: str) -> None:
        self._state = value


class BinarySensor(Component):
    domain = "binary_sensor"
    needs = ("state_topic",)


_COMPONENTS: dict[str, type[Component]] = {
    one.domain: one
    for one in (Switch, Light, Fan, Humidifier, Cover, Valve, Lock, Climate, Vacuum, Sensor, BinarySensor)
}


def component_of(domain: str, config: Mapping[str, Any], node: str) -> Component:
    """The component that was announced. node: the last but one part of its topic.

    Raises InputError: Hearth has none of this kind, or does not understand the announcement.
    """
    kind = _COMPONENTS.get(domain)
    if kind is None:
        raise InputError(f"{domain}: Hearth has no devices of this kind")
    if kind is Light:
        schema = config.get("schema", "basic")
        if schema == "json":
            kind = JsonLight
        elif schema not in ("basic", "default"):
            raise InputError(f"a light with the schema {schema!r} is not understood; basic and json are")
    try:
        return kind(config, node)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"its announcement is not understood: {error}") from None
