"""One connection to an MQTT broker that comes back by itself (paho-mqtt)."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from capture.rig import Mqtt
from dsp.errors import InputError, MissingDependency
from edge.home.errors import HomeError

log = logging.getLogger(__name__)

KEEPALIVE_S = 15
RETRY_S = (1, 10)


class Connection:
    """Connects when `start` is called and stays so until `close`.

    came, went: called after each connect and each loss; received(topic, payload): for each message. All in
    the connection's own thread. last_will: (topic, payload), retained, that the broker publishes when this
    connection is lost; `close` publishes it too.

    Raises InputError for a password file that cannot be read, MissingDependency without paho-mqtt.
    """

    def __init__(
        self,
        settings: Mqtt,
        name: str,
        came: Callable[[], None],
        went: Callable[[], None],
        received: Callable[[str, bytes], None],
        last_will: tuple[str, str] | None = None,
    ) -> None:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise MissingDependency("MQTT needs paho-mqtt: pip install 'hearth-home[home]'") from None
        parts = urlsplit(settings.url)
        secure = parts.scheme == "mqtts"
        self._host, self._port = parts.hostname or "", parts.port or (8883 if secure else 1883)
        self._came, self._went, self._received = came, went, received
        self._will, self._closing = last_will, False
        self._state = threading.Condition()
        self._trouble = "it has not been reached yet"
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=f"hearth_{name}_{uuid.uuid4().hex[:8]}", clean_session=True
        )
        if settings.user:
            self._client.username_pw_set(settings.user, _password(settings.password_file))
        if secure:
            self._client.tls_set()
        if last_will is not None:
            self._client.will_set(*last_will, qos=1, retain=True)
        self._client.reconnect_delay_set(*RETRY_S)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_message = self._on_message
        self._client.on_socket_open = _without_delay

    @property
    def where(self) -> str:
        """For messages."""
        return f"the MQTT broker at {self._host}:{self._port}"

    @property
    def trouble(self) -> str:
        """Why it is not connected; "" when it is."""
        return self._trouble

    def wait_connected(self, seconds: float) -> bool:
        """Whether it is connected, after at most so many seconds."""
        with self._state:
            return self._state.wait_for(lambda: not self._trouble, seconds)

    def start(self) -> None:
        """Begin to connect."""
        self._client.connect_async(self._host, self._port, keepalive=KEEPALIVE_S)
        self._client.loop_start()

    def close(self) -> None:
        """Say the last will, and end."""
        self._closing = True
        if self._will is not None and not self._trouble:
            try:
                self._client.publish(*self._will, qos=1, retain=True).wait_for_publish(2)
            except (RuntimeError, ValueError) as error:
                log.debug("%s: the last message was lost: %s", self.where, error)
        self._client.disconnect()
        self._client.loop_stop()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Also hear these."""
        if topics and not self._trouble:
            self._client.subscribe([(topic, 0) for topic in topics])

    def publish(self, topic: str, payload: str, retain: bool = False) -> None:
        """Send without waiting; lost while there is no connection."""
        if not self._trouble:
            self._client.publish(topic, payload, qos=0, retain=retain)

    def publish_and_wait(
        self, topic: str, payload: str, *, retain: bool, seconds: float, qos: int = 1
    ) -> None:
        """Send; returns when the broker has it (qos 0: when it is on its way). Raises HomeError
        CONNECTION_ERROR, TIMEOUT_ERROR."""
        if self._trouble:
            raise HomeError("CONNECTION_ERROR", f"{self.where} is not connected: {self._trouble}")
        sent = self._client.publish(topic, payload, qos=qos, retain=retain)
        try:
            sent.wait_for_publish(seconds)
        except (RuntimeError, ValueError) as error:
            raise HomeError("CONNECTION_ERROR", f"{self.where} went away: {error}") from None
        if not sent.is_published():
            raise HomeError("TIMEOUT_ERROR", f"{self.where} did not take the message to {topic} in time")

    # -- called by paho, in its thread

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._lost(f"it refuses the connection: {reason}")
            return
        with self._state:
            self._trouble = ""
            self._state.notify_all()
        log.info("%s is connected", self.where)
        self._safely(self._came)

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if not self._trouble:
            self._lost(f"the connection has ended: {reason}")
            self._safely(self._went)

    def _on_connect_fail(self, _client: Any, _data: Any) -> None:
        self._lost("nobody answers")

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        self._safely(lambda: self._received(str(message.topic), bytes(message.payload)))

    def _lost(self, why: str) -> None:
        with self._state:
            before, self._trouble = self._trouble, why
            self._state.notify_all()
        if before != why and not self._closing:
            log.warning("%s: %s", self.where, why)

    def _safely(self, run: Callable[[], None]) -> None:
        """An error here would end paho's thread."""
        try:
            run()
        except Exception:
            log.exception("%s: a message could not be followed", self.where)


def _without_delay(_client: Any, _data: Any, opened: Any) -> None:
    """Small messages at once: else each may wait 40 ms until the one before is acknowledged (Nagle)."""
    with contextlib.suppress(OSError, AttributeError):  # a WebSocket has no such option
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _password(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: the password of the broker cannot be read: {error}") from None
