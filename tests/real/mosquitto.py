"""A real MQTT broker (Mosquitto) started by the tests, and a lamp that speaks MQTT like Zigbee2MQTT's."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from home_assistant import free_port

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


class Broker:
    """On a port of its own, without persistence: what was retained is gone after a restart."""

    def __init__(self, folder: Path, users: dict[str, str] | None = None) -> None:
        if MOSQUITTO is None:
            pytest.skip("Mosquitto is not installed (Debian: apt-get install mosquitto)")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._conf, self._log = folder / "mosquitto.conf", folder / "mosquitto.log"
        lines = [f"listener {self.port} 127.0.0.1", "persistence false"]
        if users is None:
            lines.append("allow_anonymous true")
        else:
            file = folder / "users"
            file.write_text("".join(f"{name}:{password}\n" for name, password in users.items()))
            file.chmod(0o600)
            subprocess.run(["mosquitto_passwd", "-U", file], check=True)
            lines += ["allow_anonymous false", f"password_file {file}", "user root"]
        self._conf.write_text("\n".join(lines) + "\n")
        self._user = None if users is None else next(iter(users.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([MOSQUITTO, "-c", self._conf], stdout=log, stderr=log)
        probe = Peer(self, user=self._user)
        probe.close()

    def stop(self) -> None:
        """End it; every connection breaks."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(10)
            self._process = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Peer:
    """Somebody else at the broker: publishes, and keeps what comes."""

    def __init__(
        self, broker: Broker, topics: tuple[str, ...] = (), user: tuple[str, str] | None = None
    ) -> None:
        paho = pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed ([home])")
        self.heard: dict[str, str] = {}
        self.messages: list[tuple[str, str]] = []
        self._changed = threading.Condition()
        self._topics, self._ready = topics, threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        if user is not None:
            self._client.username_pw_set(*user)
        self._client.on_connect = self._came
        self._client.on_message = self._took
        self._client.reconnect_delay_set(1, 1)
        self._client.on_socket_open = lambda client, data, opened: opened.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        end = time.monotonic() + 10
        while True:
            try:
                self._client.connect("127.0.0.1", broker.port)
                break
            except OSError:
                assert time.monotonic() < end, "the broker did not start"
                time.sleep(0.02)
        self._client.loop_start()
        assert self._ready.wait(10)

    def _came(self, client: Any, *_: Any) -> None:
        if self._topics:
            client.subscribe([(topic, 1) for topic in self._topics])
        self._ready.set()
        self.came()

    def came(self) -> None:
        """For heirs: connected, also again."""

    def took(self, topic: str, text: str) -> None:
        """For heirs: a message."""

    def _took(self, _client: Any, _data: Any, message: Any) -> None:
        with self._changed:
            text = message.payload.decode()
            self.heard[message.topic] = text
            self.messages.append((message.topic, text))
            self._changed.notify_all()
        self.took(message.topic, text)

    def publish(self, topic: str, payload: str | dict[str, Any], retain: bool = False) -> None:
        """As cheap devices do: without asking for a receipt."""
        text = payload if isinstance(payload, str) else json.dumps(payload)
        self._client.publish(topic, text, qos=0, retain=retain)

    def wait(self, what: Callable[[Peer], bool], seconds: float = 10.0) -> bool:
        """Whether it becomes true."""
        with self._changed:
            return self._changed.wait_for(lambda: what(self), seconds)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Lamp(Peer):
    """A dimmable lamp that announces itself, does what it is told, and says so: retained announcement, state
    without retain (unless `kept`), as Zigbee2MQTT does by default. deaf: it does nothing."""

    def __init__(
        self, broker: Broker, name: str = "reading lamp", area: str = "Living Room", kept: bool = False
    ) -> None:
        self.kept = kept
        self.name, self.topic = name, f"zigbee2mqtt/{name}"
        self.state: dict[str, Any] = {"state": "ON", "brightness": 127}
        self.deaf = False
        self.config = {
            "name": None,
            "schema": "json",
            "brightness": True,
            "brightness_scale": 254,
            "state_topic": self.topic,
            "command_topic": f"{self.topic}/set",
            "availability": [{"topic": f"{self.topic}/availability"}],
            "unique_id": f"lamp {name}",
            "object_id": name.replace(" ", "_"),
            "device": {"identifiers": [f"lamp {name}"], "name": name, "suggested_area": area},
        }
        super().__init__(broker, (f"{self.topic}/set", "homeassistant/status"))

    def came(self) -> None:
        node = self.name.replace(" ", "_")
        self.publish(f"homeassistant/light/{node}/light/config", self.config, retain=True)
        self.publish(f"{self.topic}/availability", "online", retain=True)
        self.publish(self.topic, self.state, retain=self.kept)

    def took(self, topic: str, text: str) -> None:
        if topic == "homeassistant/status":
            self.publish(self.topic, self.state, retain=self.kept)
        elif not self.deaf:
            self.state |= json.loads(text)
            self.publish(self.topic, self.state, retain=self.kept)
