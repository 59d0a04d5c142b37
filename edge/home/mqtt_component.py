"""One entity that was announced by MQTT discovery: its topics, its last words, its availability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsp.errors import InputError
from edge.home.bridge_entities import Call, Entity
from edge.home.errors import HomeError
from edge.home.mqtt_config import AnnouncedDevice, expanded
from edge.home.mqtt_templates import Template

Message = tuple[str, str]  # topic, payload
Setter = Callable[[str], None]


class Component:
    """One entity. `topics` are those to listen to; `receive` takes a message of one of them.

    Raises InputError for an announcement that lacks something or that Hearth does not understand.
    """

    domain = ""
    needs: tuple[str, ...] = ("command_topic",)

    def __init__(self, config: Mapping[str, Any], node: str) -> None:
        self.config = expanded(config)
        self.device = AnnouncedDevice.of(self.config)
        self.id = f"{self.domain}.{self.device.object_id(self.config, node)}"
        for key in self.needs:
            if not isinstance(self.config.get(key), str):
                raise InputError(f"it announces no {key}")
        self._state: str | None = None
        self._attributes: dict[str, Any] = {}
        self._alive: dict[str, bool] = {}
        self.topics: dict[str, list[Setter]] = {}
        self._availability()
        self._listen()

    def receive(self, topic: str, payload: str) -> None:
        """A message came."""
        for setter in self.topics.get(topic, ()):
            setter(payload)

    @property
    def entity(self) -> Entity:
        """As it is by the last messages."""
        attributes = {"friendly_name": self.device.full_name(self.config), **self._attributes}
        if "device_class" in self.config:
            attributes["device_class"] = self.config["device_class"]
        if self.assumed:
            attributes["assumed_state"] = True
        state = self._state or "unknown"
        return Entity(self.id, state if self._is_alive() else "unavailable", attributes)

    @property
    def assumed(self) -> bool:
        """It tells no state."""
        return bool(self.config.get("optimistic")) or "state_topic" not in self.config

    def messages(self, call: Call) -> list[Message]:
        """What to publish. Raises HomeError COMMAND_NOT_FOUND for what it cannot do."""
        raise self._cannot(call)

    # -- for heirs

    def _listen(self) -> None:
        self._on("state_topic", "value_template", self._set_on_off)

    def _on(self, topic_key: str, template_key: str | None, setter: Setter) -> bool:
        """Call `setter` with what the template reads out of a message. Whether there is such a topic."""
        topic = self.config.get(topic_key)
        if not isinstance(topic, str):
            return False
        template = Template(self._text(template_key) if template_key else None)

        def take(payload: str) -> None:
            value = template.read(payload)
            if value is not None:
                setter(value)

        self.topics.setdefault(topic, []).append(take)
        return True

    def _number(self, name: str, scale: float = 1.0, offset: float = 0.0) -> Setter:
        def take(value: str) -> None:
            try:
                self._attributes[name] = (float(value) - offset) * scale
            except ValueError:
                return

        return take

    def _word(self, name: str) -> Setter:
        def take(value: str) -> None:
            self._attributes[name] = value

        return take

    def _set_on_off(self, value: str) -> None:
        on = str(self.config.get("state_on", self._payload("on", "ON")))
        off = str(self.config.get("state_off", self._payload("off", "OFF")))
        self._state = {on: "on", off: "off", "None": None}.get(value, self._state)

    def _payload(self, name: str, default: str) -> str:
        return str(self.config.get(f"payload_{name}", default))

    def _text(self, key: str) -> str | None:
        value = self.config.get(key)
        return value if isinstance(value, str) else None

    def _message(self, topic_key: str, value: str | float | int, template_key: str = "") -> Message:
        topic = self.config.get(topic_key)
        if not isinstance(topic, str):
            raise HomeError("COMMAND_NOT_FOUND", f"{self.id} announces no {topic_key}")
        return topic, Template(self._text(template_key)).make(value)

    def _on_off(self, call: Call) -> Message:
        on = call.service == "turn_on"
        return self._message("command_topic", self._payload("on" if on else "off", "ON" if on else "OFF"))

    def _cannot(self, call: Call) -> HomeError:
        return HomeError("COMMAND_NOT_FOUND", f"{self.id} cannot do {call.service}")

    def _availability(self) -> None:
        listed = self.config.get("availability")
        entries = list(listed) if isinstance(listed, list) else []
        if isinstance(self.config.get("availability_topic"), str):
            entries.append({"topic": self.config["availability_topic"], **self._availability_words()})
        for entry in entries:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("topic"), str):
                continue
            self._listen_alive(entry["topic"], entry)

    def _availability_words(self) -> dict[str, Any]:
        keys = ("payload_available", "payload_not_available")
        words = {key: self.config[key] for key in keys if key in self.config}
        return {**words, "value_template": self.config.get("availability_template")}

    def _listen_alive(self, topic: str, entry: Mapping[str, Any]) -> None:
        there = str(entry.get("payload_available", "online"))
        gone = str(entry.get("payload_not_available", "offline"))
        template = Template(entry.get("value_template") or None)
        self._alive[topic] = False

        def take(payload: str) -> None:
            value = template.read(payload)
            if value in (there, gone):
                self._alive[topic] = value == there

        self.topics.setdefault(topic, []).append(take)

    def _is_alive(self) -> bool:
        if not self._alive:
            return True
        together = any if self.config.get("availability_mode") == "any" else all
        return together(self._alive.values())
