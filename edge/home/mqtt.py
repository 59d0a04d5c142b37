"""The way to a home that speaks plain MQTT: devices that announce themselves by MQTT discovery.

`MqttLink` is an `edge.home.bridge.Link`. After a restart of the broker it subscribes again; announcements and
states that were retained come again by themselves, others when their devices say them.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from capture.rig import Mqtt
from dsp.errors import InputError, MissingDependency
from edge.home.bridge_entities import Call, Entity
from edge.home.bridge_map import Place, slug
from edge.home.errors import HomeError
from edge.home.mqtt_component import Component
from edge.home.mqtt_components import component_of
from edge.home.mqtt_connection import Connection

log = logging.getLogger(__name__)

ACCEPTED_S = 5.0
# The message of Home Assistant's start, at which devices tell their states anew. Whoever is the home says it:
# without it, a device that does not retain its state stays unknown until somebody uses it.
BIRTH = ("status", "online")
BIRTH_S = 0.3  # after the last announcement: they come in crowds


class MqttLink:
    """Devices behind a broker. It begins to connect when it is made. Raises InputError for settings that
    cannot be, MissingDependency without paho-mqtt."""

    def __init__(self, settings: Mqtt) -> None:
        self._prefix = settings.discovery
        self._components: dict[str, Component] = {}  # by topic of their announcement
        self._refused: dict[str, tuple[str, str]] = {}  # topic of an announcement -> (entity id, why)
        self._by_topic: dict[str, set[str]] = {}  # topic -> announcements that listen to it
        self._listeners: list[Callable[[str | None], None]] = []
        self._changed = threading.Condition()
        self._asking: threading.Timer | None = None
        self._connection = Connection(settings, "home", self._came, self._went, self._received)
        self._connection.start()

    @property
    def where(self) -> str:
        """For messages."""
        return self._connection.where

    @property
    def connected(self) -> bool:
        """Messages come."""
        return not self._connection.trouble

    @property
    def trouble(self) -> str:
        """Why they do not; ""."""
        return self._connection.trouble

    @property
    def refused(self) -> dict[str, str]:
        """entity id -> why its announcement is not understood."""
        with self._changed:
            return dict(self._refused.values())

    def wait_connected(self, seconds: float) -> bool:
        """Whether it is connected, after at most so many seconds."""
        return self._connection.wait_connected(seconds)

    def entities(self) -> dict[str, Entity]:
        """See `Link`."""
        with self._changed:
            return {one.id: one.entity for one in self._components.values()}

    def places(self) -> dict[str, Place]:
        """See `Link`; what devices suggest of themselves."""
        with self._changed:
            return {one.id: _place(one) for one in self._components.values()}

    def listen(self, changed: Callable[[str | None], None]) -> None:
        """See `Link`."""
        self._listeners.append(changed)

    def refresh(self, entity_id: str) -> Entity:
        """Its last word: over MQTT one cannot ask."""
        if self.trouble:
            raise HomeError("CONNECTION_ERROR", f"{self.where} is not connected: {self.trouble}")
        return self._component(entity_id).entity

    def call(self, entity_id: str, call: Call) -> None:
        """Publish. What counts is the state that comes back: the broker's receipt (QoS 1) is not asked for,
        because Mosquitto then holds the state back until we acknowledge that, 40 ms."""
        with self._changed:
            component = self._component(entity_id)
            messages = component.messages(call)
        retain = component.config.get("retain") is True
        for topic, payload in messages:
            self._connection.publish_and_wait(topic, payload, retain=retain, seconds=ACCEPTED_S, qos=0)

    def wait(self, entity_id: str, done: Callable[[Entity], bool], seconds: float) -> Entity:
        """See `Link`."""
        with self._changed:
            self._changed.wait_for(lambda: done(self._now(entity_id)), seconds)
            return self._now(entity_id)

    def close(self) -> None:
        """End the connection."""
        if self._asking is not None:
            self._asking.cancel()
        self._connection.close()

    # -- inside

    def _now(self, entity_id: str) -> Entity:
        for component in self._components.values():
            if component.id == entity_id:
                return component.entity
        return Entity(entity_id, "unavailable")

    def _component(self, entity_id: str) -> Component:
        with self._changed:
            for component in self._components.values():
                if component.id == entity_id:
                    return component
        raise HomeError("DEVICE_NOT_FOUND", f"nothing has announced itself as {entity_id} at {self.where}")

    def _came(self) -> None:
        self._connection.subscribe([f"{self._prefix}/+/+/config", f"{self._prefix}/+/+/+/config"])
        with self._changed:
            topics = sorted(self._by_topic)
        self._connection.subscribe(topics)
        self._ask_for_states()
        self._tell(None)

    def _ask_for_states(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        topic, payload = f"{self._prefix}/{BIRTH[0]}", BIRTH[1]
        self._asking = threading.Timer(BIRTH_S, lambda: self._connection.publish(topic, payload))
        self._asking.daemon = True
        self._asking.start()

    def _went(self) -> None:
        self._tell(None)

    def _received(self, topic: str, payload: bytes) -> None:
        parts = topic.removeprefix(f"{self._prefix}/").split("/")
        if topic.startswith(f"{self._prefix}/") and parts[-1] == "config" and len(parts) in (3, 4):
            self._announced(topic, parts[0], parts[-2], payload)
        text = payload.decode("utf-8", "replace")
        with self._changed:
            listening = [self._components[one] for one in sorted(self._by_topic.get(topic, ()))]
            for component in listening:
                component.receive(topic, text)
            self._changed.notify_all()
        for component in listening:
            self._tell(component.id)

    def _announced(self, topic: str, domain: str, node: str, payload: bytes) -> None:
        with self._changed:
            before = self._components.pop(topic, None)
            self._refused.pop(topic, None)
            for listeners in self._by_topic.values():
                listeners.discard(topic)
            try:
                component = self._understood(domain, node, payload)
            except (InputError, MissingDependency) as error:
                self._refused[topic] = (f"{domain}.{slug(node)}", str(error))
                component = None
            if component is not None:
                if before is not None and before.config == component.config:
                    component = before  # said again: what it told of its state still holds
                self._components[topic] = component
                for one in component.topics:
                    self._by_topic.setdefault(one, set()).add(topic)
        if component is not None and component is not before:
            self._connection.subscribe(sorted(component.topics))
            if not component.device.own:
                self._ask_for_states()
        if component is not before:
            self._tell(None)

    def _understood(self, domain: str, node: str, payload: bytes) -> Component | None:
        """None: an empty message takes an announcement back."""
        if not payload:
            return None
        try:
            config: Any = json.loads(payload)
        except ValueError as error:
            raise InputError(f"its announcement is not JSON: {error}") from None
        if not isinstance(config, dict):
            raise InputError("its announcement is no JSON object")
        component = component_of(domain, config, node)
        others = {one.id for one in self._components.values()}
        number, first = 1, component.id
        while component.id in others:  # as Home Assistant does
            number += 1
            component.id = f"{first}_{number}"
        return component

    def _tell(self, entity_id: str | None) -> None:
        for listener in self._listeners:
            listener(entity_id)


def _place(component: Component) -> Place:
    config = component.config
    hidden = "disabled" if config.get("enabled_by_default") is False else ""
    if config.get("entity_category"):
        hidden = f"a {config['entity_category']} entity"
    room = slug(component.device.area) if component.device.area else ""
    return Place(room, "", hidden, component.device.own)
