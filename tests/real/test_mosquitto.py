"""A home over a real MQTT broker: lamps that announce themselves, commands read back, restarts, Hearth's own
device."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mosquitto import Broker, Lamp, Peer

from capture.rig import Rig, parse_rig
from dsp.errors import InputError, MissingDependency
from edge.home.bridge_open import RealHome, link_of
from edge.home.errors import HomeError
from edge.home.mqtt_presence import STREAMS, Presence
from edge.home.service import HomeService
from edge.stream import Client, CommandError, CommandServer, Publisher

pytestmark = pytest.mark.real

LEVEL, ON = "1.LevelControl.CurrentLevel", "1.OnOff.OnOff"


def rig_at(broker: Broker, more: str = "") -> Rig:
    return parse_rig(f"""
hearth_rig: 1
id: parlour_rig
name: parlour
home: {{kind: mqtt, answer_s: 1}}
mqtt: {{url: "{broker.url}"{more}}}
room:
  devices:
  - {{id: lamp_1, type: dimmable_light, name: lamp, position_m: [1, 1, 1], entity: light.reading_lamp}}
""")


def becomes(what: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as one:
        yield one


@pytest.fixture
def home(broker: Broker) -> Iterator[RealHome]:
    rig = rig_at(broker)
    one = RealHome(rig, link_of(rig))
    assert one.home.link.wait_connected(10)  # type: ignore[attr-defined]
    yield one
    one.close()


def test_a_lamp_that_announces_itself_is_switched_and_read_back(broker: Broker, home: RealHome):
    lamp = Lamp(broker)
    other = Lamp(broker, "hall lamp", "Hall")
    try:
        assert becomes(lambda: home.home.snapshot().get("lamp_1", {}).get(ON) is True)
        assert becomes(lambda: "light_hall_lamp" in home.home.snapshot())
        told: list[tuple[str, dict]] = []
        home.home.listen(lambda device, changed: told.append((device, changed)))
        done = home.command("lamp_1", "Off")
        assert done.changed[ON] is False and done.attributes[ON] is False
        assert lamp.state["state"] == "OFF" and other.state["state"] == "ON"
        assert [changed[ON] for device, changed in told if device == "lamp_1"] == [False]
        assert home.command("lamp_1", "Off").changed == {}  # already so
        with pytest.raises(HomeError) as refused:
            home.command("lamp_1", "MoveToLevel", {"level": 20})
        assert refused.value.type == "DEPENDENCY_VIOLATION"  # as the twin: it is off
        home.command("lamp_1", "MoveToLevelWithOnOff", {"level": 200})
        assert lamp.state == {"state": "ON", "brightness": 200}
        described = {d["id"]: d for d in home.home.describe()}
        assert described["lamp_1"]["position_m"] == [1, 1, 1] and described["lamp_1"]["room"] == "living_room"
        assert (
            described["light_hall_lamp"]["room"] == "hall"
            and described["light_hall_lamp"]["position_m"] is None
        )
        # Somebody at the wall switch.
        lamp.state = {"state": "OFF"}
        lamp.publish(lamp.topic, lamp.state)
        assert becomes(lambda: home.home.read("lamp_1", ON) is False)
    finally:
        lamp.close()
        other.close()


def test_nothing_is_claimed_of_a_lamp_that_does_not_follow(broker: Broker, home: RealHome):
    lamp = Lamp(broker)
    try:
        assert becomes(lambda: home.home.snapshot().get("lamp_1", {}).get(ON) is True)
        lamp.deaf = True
        with pytest.raises(HomeError, match="its state is on") as failed:
            home.command("lamp_1", "Off")
        assert failed.value.type == "TIMEOUT_ERROR" and home.home.read("lamp_1", ON) is True
        lamp.publish(f"{lamp.topic}/availability", "offline", retain=True)
        assert becomes(lambda: home.home.read("lamp_1", ON) is None)
        with pytest.raises(HomeError) as gone:
            home.command("lamp_1", "Off")
        assert gone.value.type == "CONNECTION_ERROR"
        lamp.publish("homeassistant/light/reading_lamp/light/config", "", retain=True)
        assert becomes(lambda: "light.reading_lamp" not in home.home.link.entities())
        with pytest.raises(HomeError, match="announced"):
            home.command("lamp_1", "Off")
    finally:
        lamp.close()


def test_what_cannot_be_mapped_says_why(broker: Broker, home: RealHome):
    peer = Peer(broker)
    device = {"identifiers": ["x"], "name": "thing"}
    for topic, config in {
        "light/a/config": {"schema": "template", "command_topic": "a/set", "device": device, "name": "a"},
        "switch/b/config": {"command_topic": "b/set", "state_topic": "b", "device": device, "name": "b"},
        "siren/c/config": {"command_topic": "c/set", "device": device, "name": "c"},
        "fan/d/config": {"state_topic": "d", "device": device, "name": "d"},
        "switch/e/config": {
            "command_topic": "e",
            "state_topic": "e",
            "device": {"identifiers": ["hearth_x"]},
        },
    }.items():
        peer.publish(f"homeassistant/{topic}", config, retain=True)
    peer.publish("homeassistant/light/f/config", "no json", retain=True)
    link = home.home.link
    assert becomes(lambda: len(link.refused) == 4 and len(home.home.left_out) == 2)  # type: ignore[attr-defined]
    why = link.refused  # type: ignore[attr-defined]
    assert "template" in why["light.a"] and "no devices" in why["siren.c"]
    assert "command_topic" in why["fan.d"] and "not JSON" in why["light.f"]
    assert (
        "rig.yaml" in home.home.left_out["switch.thing_b"]
        and "Hearth's own" in home.home.left_out["switch.e"]
    )
    assert [d.id for d in home.home.devices] == ["lamp_1"]
    peer.close()


def test_a_home_that_comes_later_is_taken_in(tmp_path: Path):
    broker = Broker(tmp_path / "broker")
    rig = rig_at(broker)
    home = RealHome(rig, link_of(rig))  # nobody is there yet: the rig runs on
    others: list[int] = []
    home.home.listen_devices(lambda: others.append(len(home.home.devices)))
    try:
        assert [d["connected"] for d in home.home.describe()] == [False]
        assert set(home.home.state("lamp_1").values()) == {None}
        with broker:
            lamp, other = Lamp(broker), Lamp(broker, "hall lamp")
            assert becomes(lambda: home.home.snapshot()["lamp_1"].get(ON) is True, 20)
            assert becomes(lambda: others and others[-1] == 2)
            lamp.close()
            other.close()
    finally:
        home.close()


def test_a_restart_of_the_broker_is_survived(broker: Broker, home: RealHome):
    lamp = Lamp(broker)
    try:
        assert becomes(lambda: home.home.snapshot().get("lamp_1", {}).get(ON) is True)
        broker.stop()
        assert becomes(lambda: home.home.read("lamp_1", ON) is None)
        with pytest.raises(HomeError) as away:
            home.command("lamp_1", "Off")
        assert away.value.type == "CONNECTION_ERROR" and lamp.state["state"] == "ON"
        lamp.state = {"state": "OFF", "brightness": 50}  # it changed while nobody could hear
        broker.start()
        assert becomes(lambda: home.home.read("lamp_1", ON) is False, 20)
        assert home.command("lamp_1", "On").attributes[ON] is True and lamp.state["state"] == "ON"
    finally:
        lamp.close()


def test_the_home_of_the_wire_is_the_real_one(broker: Broker, home: RealHome):
    lamp = Lamp(broker)
    rig = rig_at(broker)
    try:
        assert becomes(lambda: home.home.snapshot().get("lamp_1", {}).get(ON) is True)
        with (
            Publisher("tcp://127.0.0.1:0") as publisher,
            CommandServer("tcp://127.0.0.1:0") as server,
            Client(publisher.address, server.address, streams=["home", "event"]) as client,
            HomeService(rig, home, server, publisher).start(),
        ):
            assert client.command("home.command", device_id="lamp_1", command="Off")["changed"][ON] is False
            flow = client.command(
                "home.schedule",
                in_s=0.2,
                steps=[{"device_id": "lamp_1", "command": "1.OnOff.On", "args": {}}],
            )
            assert becomes(lambda: lamp.state["state"] == "ON")

            def ended() -> bool:
                told = client.command("home.workflow_status", workflow_id=flow["workflow_id"])
                return told["status"] == "completed"

            assert becomes(ended)
            lamp.deaf = True
            with pytest.raises(CommandError, match="TIMEOUT_ERROR"):
                client.command("home.command", device_id="lamp_1", command="Off")
    finally:
        lamp.close()


def test_a_schedule_and_a_person_at_once_do_not_wait_for_each_other(broker: Broker, home: RealHome):
    lamp = Lamp(broker)
    try:
        assert becomes(lambda: home.home.snapshot().get("lamp_1", {}).get(ON) is True)
        done: list[str] = []

        def person() -> None:
            for command in ("Off", "On") * 5:
                home.command("lamp_1", command)
            done.append("person")

        def schedule() -> None:
            with home.home.order:  # as a workflow that runs: no change of the home comes between
                for command in ("On", "Off") * 5:
                    home.command("lamp_1", command)
            done.append("schedule")

        threads = [threading.Thread(target=one, daemon=True) for one in (person, schedule)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(done) == ["person", "schedule"]
    finally:
        lamp.close()


def test_without_its_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "paho.mqtt", None)
    with pytest.raises(MissingDependency, match=r"hearth-home\[home\]"):
        link_of(rig_at(Broker(tmp_path / "x")))


def test_a_password_is_asked_for(tmp_path: Path):
    with pytest.raises(InputError, match="password of the broker"):
        link_of(rig_at(Broker(tmp_path / "x"), f", user: hearth, password_file: {tmp_path / 'none'}"))
    secret = tmp_path / "secret"
    secret.write_text("a pass phrase\n")
    broker = Broker(tmp_path / "broker", {"hearth": "a pass phrase", "peer": "other"})
    rig = rig_at(broker, f", user: hearth, password_file: {secret}")
    try:
        broker.start()
        link = link_of(rig)
        assert link.wait_connected(10)  # type: ignore[attr-defined]
        link.close()
        secret.write_text("wrong")
        link = link_of(rig)
        assert becomes(lambda: "refuses" in link.trouble)
        link.close()
    finally:
        broker.stop()


class RigOnTheStream:
    """A stream and a command server without microphone: what Hearth's device reads."""

    def __init__(self) -> None:
        self.muted: list[bool] = []
        self.publisher = Publisher("tcp://127.0.0.1:0")
        self.server = CommandServer("tcp://127.0.0.1:0")
        self.server.register("live.mute", self.mute)
        self.client = Client(self.publisher.address, self.server.address, streams=STREAMS)
        self.client.wait_connected()

    def mute(self, muted: bool) -> dict[str, bool]:
        self.muted.append(muted)
        self.say("state", muted=muted, light="muted" if muted else "ready")
        return {"muted": muted}

    def say(self, stream: str, **data: object) -> None:
        self.publisher.publish(stream, time.monotonic_ns(), data=data)

    def close(self) -> None:
        self.client.close()
        self.server.close()
        self.publisher.close()


def test_hearth_is_a_device_of_home_assistant(broker: Broker):
    peer = Peer(broker, ("hearth/#", "homeassistant/#"))
    rig = RigOnTheStream()
    presence = Presence(rig_at(broker), "parlour_rig", rig.client).start()
    heard = peer.heard
    try:
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/status") == "online")
        configs = [json.loads(text) for topic, text in heard.items() if topic.endswith("/config")]
        assert len(configs) == 7 and len({c["unique_id"] for c in configs}) == 7
        assert {c["device"]["suggested_area"] for c in configs} == {"Living Room"}
        rig.say("state", muted=False, light="ready")
        rig.say("doa", active=True, azimuth_deg=30.4, elevation_deg=1.0, uncertainty_deg=4.0, confidence=0.8)
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/direction") == "30")
        assert ("hearth/parlour_rig/speech", "ON") in peer.messages
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/speech") == "OFF")  # it is quiet again
        rig.say("event", kind="speech", on=True)  # an agent's fast loop knows better than the activity
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/speech") == "ON")
        rig.say("event", kind="alarm")
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/alarm") == "ON")
        rig.say("event", kind="speech", on=False)
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/speech") == "OFF")
        rig.say("event", kind="heard", text="turn that off")
        rig.say("event", kind="declared", device_id="lamp_1")
        rig.say("event", kind="finished", answer="The lamp is off.", outcome="done")
        assert peer.wait(lambda p: "done" in p.heard.get("hearth/parlour_rig/last_request/more", ""))
        assert heard["hearth/parlour_rig/last_request"] == "turn that off"
        assert json.loads(heard["hearth/parlour_rig/last_request/more"])["device"] == "lamp_1"
        peer.publish("hearth/parlour_rig/mute/set", "ON")
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/mute") == "ON")
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/light") == "muted")
        assert rig.muted == [True]
        rig.say("health", blocks_dropped=3, lost_frames=0, pictures_dropped=0, cpu_percent=20.0)
        assert peer.wait(lambda p: p.heard.get("hearth/parlour_rig/problem") == "ON")
        # The broker comes back without anything retained, then Home Assistant starts again.
        before = presence.announced
        broker.stop()
        broker.start()
        peer.messages.clear()
        assert peer.wait(lambda p: ("hearth/parlour_rig/status", "online") in p.messages, 20)
        assert presence.announced == before + 1
        assert peer.wait(lambda p: ("hearth/parlour_rig/mute", "ON") in p.messages)
        peer.publish("homeassistant/status", "online")
        assert becomes(lambda: presence.announced == before + 2)
    finally:
        presence.close()
        assert peer.wait(lambda p: p.heard["hearth/parlour_rig/status"] == "offline")
        rig.close()
        peer.close()
