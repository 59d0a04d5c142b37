"""The home over real sockets: commands, typed errors, state on the stream, and the reports of agents."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.rig import DEFAULT_RIG, load_rig
from dsp.errors import InputError
from edge.home import HomeService, home_of
from edge.stream import Client, CommandError, CommandServer, Publisher

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
