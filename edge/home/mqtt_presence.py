"""Hearth as a device in Home Assistant, by MQTT discovery: what it hears, its mute switch, how it is.

A reader of the rig's stream like any other, so it is never in the way of the sound. It is announced again
whenever the broker or Home Assistant comes back, and gone ("unavailable") when Hearth is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from capture.rig import Rig
from dsp.errors import HearthError
from edge.home.bridge_map import OWN, slug
from edge.home.mqtt_connection import Connection

if TYPE_CHECKING:
    from edge.stream import Client, Message

log = logging.getLogger(__name__)

STREAMS = ("doa", "event", "state", "health")
QUIET_AFTER_S = 0.6  # between two words nobody is silent
DIRECTION_EVERY_S = 0.5
LOOK_S = 0.1
MOST_CHARACTERS = 255  # of a state in Home Assistant
BIRTH = "status"  # Home Assistant says "online" there when it has started
# Drops and lost parts: each of these in `health` above its last value is a problem.
COUNTED = ("blocks_dropped", "lost_frames", "pictures_dropped")
PROBLEM_S = 60.0  # a problem is shown for so long
ALARM_S = 30.0  # after it was heard last
SPEECH_S = 20.0  # an end of speech that never comes is not waited for longer


class Presence:
    """Announces one rig and keeps its states true until `close`.

    client: gets `STREAMS` of the rig and sends it commands; the caller closes it. Raises InputError,
    MissingDependency as `Connection` does.
    """

    def __init__(self, rig: Rig, rig_id: str, client: Client) -> None:
        assert rig.mqtt is not None
        self._client = client
        self._prefix = rig.mqtt.discovery
        self._node = f"{OWN}{slug(rig_id)}"
        self._base = f"hearth/{slug(rig_id)}"
        self.name, self._room = f"Hearth {rig.name}", rig.room.name.replace("_", " ").title()
        self._camera = rig.camera.source != "none"
        self._values: dict[str, str] = {}
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._active_until = self._direction_at = self._problem_until = self._alarm_until = 0.0
        self._speech_is_told = False  # by an agent's fast loop, which knows speech from other sounds
        self._counts: dict[str, int] = {}
        self._problem = ""
        self._request: dict[str, Any] = {}
        self.announced = 0  # times
        self._connection = Connection(
            rig.mqtt, "presence", self._came, lambda: None, self._received, (self._topic("status"), "offline")
        )
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> Presence:
        """Begin."""
        self._connection.start()
        self._thread.start()
        return self

    def close(self) -> None:
        """Become unavailable there."""
        self._closing.set()
        self._thread.join()
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """To the broker."""
        return self._connection

    # -- what is announced

    def _topic(self, name: str) -> str:
        return f"{self._base}/{name}"

    def _announce(self) -> None:
        device = {
            "identifiers": [self._node],
            "name": self.name,
            "manufacturer": "Hearth",
            "model": "spatial microphone and camera" if self._camera else "spatial microphone",
            "suggested_area": self._room,
        }
        for component, name, more in _entities(self._base):
            config = {
                "unique_id": f"{self._node}_{name}",
                "object_id": f"{self._node}_{name}",
                "state_topic": self._topic(name),
                "availability_topic": self._topic("status"),
                "device": device,
                **more,
            }
            topic = f"{self._prefix}/{component}/{self._node}/{name}/config"
            self._connection.publish(topic, json.dumps(config), retain=True)
        self._connection.publish(self._topic("status"), "online", retain=True)
        for topic, value in list(self._values.items()):
            self._connection.publish(topic, value, retain=True)
        self.announced += 1

    # -- called in the connection's thread

    def _came(self) -> None:
        self._connection.subscribe([f"{self._prefix}/{BIRTH}", self._topic("mute/set")])
        self._announce()

    def _received(self, topic: str, payload: bytes) -> None:
        text = payload.decode("utf-8", "replace")
        if topic == f"{self._prefix}/{BIRTH}":
            if text == "online":
                self._announce()
        elif text in ("ON", "OFF"):
            self._orders.put(text == "ON")

    # -- the rig

    def _run(self) -> None:
        from edge.stream.received import StreamEnded, StreamLost, StreamTimeout

        self._say("speech", "OFF")
        self._say("problem", "OFF")
        while not self._closing.is_set():
            self._carry_out()
            try:
                self._follow(self._client.receive(LOOK_S))
            except StreamEnded:
                return
            except StreamLost as error:
                self._trouble(str(error))
            except StreamTimeout:
                pass
            self._look()

    def _carry_out(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                muted = self._orders.get_nowait()
                try:
                    self._client.command("live.mute", muted=muted)
                except HearthError as error:
                    self._trouble(f"mute: {error}")
                    self._values.pop(self._topic("mute"), None)  # say again what it is

    def _follow(self, message: Message) -> None:
        data = message.header.data
        if message.stream == "doa":
            if data.get("active"):
                self._heard(data)
        elif message.stream == "state":
            self._say("mute", "ON" if data.get("muted") else "OFF")
            self._say("light", str(data.get("light")))
        elif message.stream == "health":
            self._healthy(data)
        elif not message.retained:
            self._happened(str(data.get("kind")), data)

    def _heard(self, doa: dict[str, Any]) -> None:
        now = time.monotonic()
        if not self._speech_is_told:
            self._active_until = now + QUIET_AFTER_S
            self._say("speech", "ON")
        if now - self._direction_at >= DIRECTION_EVERY_S:
            self._direction_at = now
            more = {key: doa.get(key) for key in ("elevation_deg", "uncertainty_deg", "confidence")}
            self._say("direction", str(round(doa["azimuth_deg"])))
            self._say("direction/more", json.dumps(more))

    def _happened(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "heard":
            self._request = {"text": event.get("text")}
        elif kind == "declared":
            self._request["device"] = event.get("device_id")
        elif kind == "finished":
            self._request |= {"answer": event.get("answer"), "outcome": event.get("outcome")}
        elif kind == "speech":
            self._speech_is_told = True
            self._active_until = time.monotonic() + (SPEECH_S if event.get("on") else 0.0)
            if event.get("on"):
                self._say("speech", "ON")
            return
        elif kind == "alarm":
            self._alarm_until = time.monotonic() + ALARM_S
            self._say("alarm", "ON")
            return
        elif kind == "ready":  # another agent, which may have no fast loop
            self._speech_is_told = False
            return
        elif kind in ("failed", "recording_failed", "lost"):
            self._trouble(f"{event.get('part') or kind}: {event.get('detail') or kind}")
            return
        else:
            return
        self._say("last_request/more", json.dumps(self._request))
        self._say("last_request", str(self._request.get("text") or "")[:MOST_CHARACTERS])

    def _healthy(self, health: dict[str, Any]) -> None:
        for name in COUNTED:
            count = int(health.get(name) or 0)
            if count > self._counts.get(name, 0):
                self._trouble(f"{name}: {count}")
            self._counts[name] = count
        keys = ("cpu_percent", "rss_mib", "temperature_c", "disk_free_mib", *COUNTED)
        more = {key: health.get(key) for key in keys}
        self._say("problem/more", json.dumps({"why": self._problem, **more}))

    def _trouble(self, why: str) -> None:
        self._problem, self._problem_until = why, time.monotonic() + PROBLEM_S
        self._say("problem", "ON")

    def _look(self) -> None:
        """What is over by now."""
        now = time.monotonic()
        if now > self._active_until:
            self._say("speech", "OFF")
        if now > self._alarm_until:
            self._say("alarm", "OFF")
        if self._problem and now > self._problem_until:
            self._problem = ""
            self._say("problem", "OFF")

    def _say(self, name: str, value: str) -> None:
        topic = self._topic(name)
        if self._values.get(topic) != value:
            self._values[topic] = value
            self._connection.publish(topic, value, retain=True)


def _entities(base: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(component, name, what else its announcement says)."""
    return [
        ("binary_sensor", "speech", {"name": "Speech", "device_class": "sound"}),
        ("binary_sensor", "alarm", {"name": "Alarm heard", "icon": "mdi:alarm-bell"}),
        (
            "sensor",
            "direction",
            {
                "name": "Direction",
                "unit_of_measurement": "°",
                "icon": "mdi:compass-outline",
                "json_attributes_topic": f"{base}/direction/more",
            },
        ),
        (
            "sensor",
            "last_request",
            {
                "name": "Last request",
                "icon": "mdi:account-voice",
                "json_attributes_topic": f"{base}/last_request/more",
            },
        ),
        (
            "switch",
            "mute",
            {"name": "Mute", "icon": "mdi:microphone-off", "command_topic": f"{base}/mute/set"},
        ),
        (
            "binary_sensor",
            "problem",
            {
                "name": "Problem",
                "device_class": "problem",
                "entity_category": "diagnostic",
                "json_attributes_topic": f"{base}/problem/more",
            },
        ),
        (
            "sensor",
            "light",
            {"name": "State", "icon": "mdi:record-circle-outline", "entity_category": "diagnostic"},
        ),
    ]


def forget_presence(rig: Rig, rig_id: str, wait_s: float) -> list[str]:
    """Take a rig's announcement back: its device disappears from Home Assistant. Returns the topics.

    Raises InputError, MissingDependency as `Presence`; HomeError when the broker does not answer in time.
    """
    assert rig.mqtt is not None
    node, base = f"{OWN}{slug(rig_id)}", f"hearth/{slug(rig_id)}"
    names = [(component, name) for component, name, _ in _entities(base)]
    topics = [f"{rig.mqtt.discovery}/{component}/{node}/{name}/config" for component, name in names]
    connection = Connection(rig.mqtt, "presence", lambda: None, lambda: None, lambda topic, payload: None)
    connection.start()
    try:
        connection.wait_connected(wait_s)
        for topic in [*topics, f"{base}/status", *(f"{base}/{name}" for _, name in names)]:
            connection.publish_and_wait(topic, "", retain=True, seconds=wait_s)
    finally:
        connection.close()
    return topics


@contextlib.contextmanager
def announced(
    rig: Rig, rig_id: str, stream: str, commands: str, say: Callable[[str], None] = log.info
) -> Iterator[Presence | None]:
    """The rig as a device of Home Assistant until the block ends; None when rig.yaml names no broker, or says
    `announce: false`. A broker that does not answer is waited for in the background.

    Raises InputError, MissingDependency as `Presence`.
    """
    if rig.mqtt is None or not rig.mqtt.announce:
        yield None
        return
    from edge.stream import Client

    with Client(stream, commands, streams=STREAMS, name="presence") as client:
        presence = Presence(rig, rig_id, client).start()
        say(f"announced to Home Assistant as {presence.name!r} through {presence.connection.where}")
        try:
            yield presence
        finally:
            presence.close()
