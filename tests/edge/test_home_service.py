"""The home over real sockets: commands, typed errors, state on the stream, and the reports of agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.rig import DEFAULT_RIG, load_rig
from dsp.errors import InputError
from edge.home import HomeService, home_of
from edge.home.clock import HomeClock
from edge.home.simulation import Simulation
from edge.stream import Client, CommandError, CommandServer, Publisher
from recordings.profile import Member

LAMP = "living_room_on_off_light_1"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[HomeService, Client]]:
    rig = load_rig(DEFAULT_RIG)
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=["home", "event"]) as client,
    ):
        yield HomeService(rig, home_of(rig), server, publisher), client


def collect(client: Client, count: int) -> list[tuple[str, dict[str, object]]]:
    got = []
    for message in client.messages(5.0):
        got.append((message.stream, dict(message.data)))
        if len(got) == count:
            break
    return got


def test_describe_command_and_read_back(served: tuple[HomeService, Client]) -> None:
    service, client = served
    told = client.command("home.describe")
    lamp = next(d for d in told["devices"] if d["id"] == LAMP)
    assert lamp["type"] == "on_off_light"
    device = next(d for d in service.rig.room.devices if d.id == LAMP)
    assert lamp["position_m"] == list(device.position_m)
    microphone = service.rig.microphone
    assert told["microphone"] == {
        "position_m": list(microphone.position_m),
        "yaw_deg": microphone.yaw_deg,
    }
    before = lamp["attributes"]["1.OnOff.OnOff"]
    answer = client.command("home.command", device_id=LAMP, command="Toggle")
    assert answer["changed"] == {"1.OnOff.OnOff": not before}
    assert client.command("home.state", device_id=LAMP)["attributes"]["1.OnOff.OnOff"] is not before
    assert service.home.read(LAMP, "1.OnOff.OnOff") is not before


def test_errors_travel_with_their_type(served: tuple[HomeService, Client]) -> None:
    _, client = served
    with pytest.raises(CommandError) as caught:
        client.command("home.command", device_id="attic_lamp", command="On")
    assert caught.value.type == "DEVICE_NOT_FOUND"
    with pytest.raises(CommandError) as caught:
        client.command("home.write", device_id=LAMP, attribute="1.OnOff.OnOff", value=True)
    assert caught.value.type == "READ_ONLY"
    with pytest.raises(InputError, match=r"home\.command"):
        client.command("home.command", device=LAMP)


def test_changes_and_commands_are_on_the_stream(served: tuple[HomeService, Client]) -> None:
    _, client = served
    thread = threading.Timer(0.3, lambda: client.command("home.command", device_id=LAMP, command="On"))
    thread.start()
    got = collect(client, 3)
    thread.join()
    assert got[0][0] == "home"  # the state before, kept for those who join late
    kinds = dict(got[1:])
    assert kinds["home"]["changed"] == {LAMP: {"1.OnOff.OnOff": True}}
    assert kinds["home"]["devices"][LAMP]["1.OnOff.OnOff"] is True  # type: ignore[index]
    assert kinds["event"]["kind"] == "command"
    assert kinds["event"]["ok"] is True


def test_an_agent_must_declare_before_it_finishes(served: tuple[HomeService, Client]) -> None:
    _, client = served
    client.command("agent.ready")
    with pytest.raises(InputError, match=r"agent\.declare"):
        client.command("agent.finish", answer="done")
    with pytest.raises(CommandError) as caught:
        client.command("agent.declare", device_id="attic_lamp")
    assert caught.value.type == "DEVICE_NOT_FOUND"
    client.command("agent.declare", device_id=None, evidence={"why": "nothing hums"})
    with pytest.raises(InputError, match="outcome"):
        client.command("agent.finish", answer="no", outcome="perhaps")
    client.command("agent.finish", answer="nothing hums", outcome="refused")
    with pytest.raises(InputError, match=r"agent\.declare"):
        client.command("agent.finish", answer="again")


def test_time_rooms_and_the_schedule_over_the_wire(tmp_path: Path) -> None:
    rig = load_rig(DEFAULT_RIG)
    washer = "living_room_laundry_washer_1"
    first = {washer: {"1.OnOff.OnOff": True, "1.LaundryWasherMode.CurrentMode": 4}}  # quick: 15 minutes
    home = Simulation(home_of(rig, first), clock=HomeClock("2026-03-01 18:00:00"))
    member = Member(id="kim", name="Kim", room="hall", devices=(washer,))
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=["event"]) as client,
    ):
        service = HomeService(rig, home, server, publisher, household=[member], real_time=False)
        told = client.command("home.describe")
        assert told["time"] == "2026-03-01 18:00:00"
        assert told["household"] == [{"id": "kim", "name": "Kim", "room": "hall", "devices": [washer]}]
        assert client.command("home.time") == {"time": "2026-03-01 18:00:00", "tick": 0}
        assert client.command("home.rooms")["rooms"]["living_room"]["temperature"] == 2200
        client.command("home.command", device_id=washer, command="Start")
        on, off = ({"device_id": LAMP, "command": f"1.OnOff.{name}"} for name in ("On", "Off"))
        at = client.command("home.schedule", start_time="2026-03-01 18:05:00", steps=[on])
        waits = client.command("home.schedule", when={"ended": washer, "after_s": 60}, steps=[off])
        never = client.command("home.schedule", in_s=30, steps=[on])
        assert client.command("home.cancel", workflow_id=never["workflow_id"])["status"] == "cancelled"
        assert (at["status"], waits["start_time"]) == ("pending", None)
        home.advance(300)
        assert client.command("home.state", device_id=LAMP)["attributes"]["1.OnOff.OnOff"] is True
        home.advance(660)
        assert client.command("home.state", device_id=LAMP)["attributes"]["1.OnOff.OnOff"] is False
        done = client.command("home.workflow_status", workflow_id=waits["workflow_id"])
        assert (done["status"], done["start_time"]) == ("completed", "2026-03-01 18:16:00")
        statuses = [one["status"] for one in client.command("home.workflows")["workflows"]]
        assert statuses == ["completed", "completed", "cancelled"]
        events = collect(client, 11)
        done = [m[1] for m in events if m[1]["kind"] == "command" and "workflow_id" in m[1]]
        assert [(one["command"], one["ok"], one["workflow_id"]) for one in done] == [
            ("1.OnOff.On", True, at["workflow_id"]),
            ("1.OnOff.Off", True, waits["workflow_id"]),
        ]
        told_of = [m for m in events if m[1]["kind"] == "workflow"]
        assert [m[1]["status"] for m in told_of] == [
            "pending", "pending", "pending", "cancelled", "running", "completed", "running", "completed",
        ]  # fmt: skip
        for wrong, error in (
            ({"steps": [on]}, "VALIDATION_ERROR"),
            ({"steps": [on], "in_s": 1, "start_time": "2026-03-01 20:00:00"}, "VALIDATION_ERROR"),
            ({"steps": [{"device_id": "ghost", "command": "1.OnOff.On"}], "in_s": 1}, "DEVICE_NOT_FOUND"),
            ({"steps": [{"device_id": LAMP, "command": "On"}], "in_s": 1}, "VALIDATION_ERROR"),
        ):
            with pytest.raises(CommandError) as caught:
                client.command("home.schedule", **wrong)
            assert caught.value.type == error
        assert service.simulation is home


def test_real_time_does_what_is_due_when_somebody_asks(tmp_path: Path) -> None:
    rig = load_rig(DEFAULT_RIG)
    with CommandServer("tcp://127.0.0.1:0") as server:
        service = HomeService(rig, home_of(rig), server)
        flow = service.schedule([{"device_id": LAMP, "command": "1.OnOff.Toggle"}], in_s=0.2)
        before = service.home.read(LAMP, "1.OnOff.OnOff")
        with service.start() as running:
            deadline = time.monotonic() + 20
            while flow["status"] == "pending" and time.monotonic() < deadline:
                flow = running.workflow_status(flow["workflow_id"])
        assert flow["status"] == "completed"
        assert service.home.read(LAMP, "1.OnOff.OnOff") is not before
