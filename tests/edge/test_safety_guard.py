"""The guard over the wire: no risky action without a yes that was heard, and house rules that are watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from capture.rig import parse_rig
from edge.home import HomeService, home_of
from edge.home.clock import HomeClock
from edge.home.simulation import Simulation
from edge.home.world import Condition, Fault
from edge.safety.confirmation import is_yes, risk_of
from edge.safety.guard import Guard
from edge.stream import Client, CommandError, CommandServer, Publisher

RIG = """
hearth_rig: 1
room:
  name: kitchen
  devices:
    - {id: door, type: door_lock, name: front door}
    - {id: oven, type: oven, name: oven}
    - {id: lamp, type: on_off_light, name: lamp}
    - {id: alarm, type: smoke_alarm, name: smoke alarm}
    - {id: valve, type: water_valve, name: main valve}
"""
UNLOCK = {"device_id": "door", "command": "UnlockDoor"}


@pytest.fixture
def served() -> Iterator[tuple[Simulation, Client]]:
    rig = parse_rig(RIG)
    home = Simulation(home_of(rig), clock=HomeClock("2026-03-01 18:00:00"))
    with (
        Publisher("tcp://127.0.0.1:0") as publisher,
        CommandServer("tcp://127.0.0.1:0") as server,
        Client(publisher.address, server.address, streams=["event"]) as client,
    ):
        guard = Guard(home.home)
        HomeService(rig, home, server, publisher, real_time=False, guard=guard)
        yield home, client


def refused(client: Client, op: str = "home.command", **args: Any) -> str:
    with pytest.raises(CommandError) as caught:
        client.command(op, **args)
    return f"{caught.value.type}: {caught.value}"


def safety_events(client: Client, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in client.messages(5.0):
        if message.data["kind"] == "safety":
            found.append(dict(message.data))
            if len(found) == count:
                return found
    return found


def test_a_door_is_unlocked_only_after_a_yes(served: tuple[Simulation, Client]) -> None:
    _, client = served
    assert "unlock the front door" in refused(client, **UNLOCK)
    assert "CONFIRMATION_NEEDED" in refused(client, **UNLOCK, confirmed=True), "a claim is no yes"
    client.command("agent.heard", text="No, wait, yes or no?")
    assert "Nobody was heard" in refused(client, **UNLOCK, confirmed=True)
    client.command("agent.heard", text="Yes, please.")
    assert "CONFIRMATION_NEEDED" in refused(client, **{**UNLOCK, "device_id": "oven", "command": "On"})
    assert "CONFIRMATION_NEEDED" in refused(client, **UNLOCK), "without `confirmed` it is asked again"
    client.command("agent.heard", text="yes")
    done = client.command("home.command", **UNLOCK, confirmed=True)
    assert done["changed"] == {"1.DoorLock.LockState": 2}
    client.command("home.command", device_id="door", command="LockDoor")
    assert "CONFIRMATION_NEEDED" in refused(client, **UNLOCK, confirmed=True), "each yes is for one action"


def test_a_yes_is_old_after_a_minute(served: tuple[Simulation, Client]) -> None:
    home, client = served
    refused(client, **UNLOCK)
    client.command("agent.heard", text="yes")
    home.advance(61)
    assert "CONFIRMATION_NEEDED" in refused(client, **UNLOCK, confirmed=True)
    assert home.home.read("door", "1.DoorLock.LockState") == 1


def test_schedules_are_asked_for_too_and_safe_things_never(served: tuple[Simulation, Client]) -> None:
    home, client = served
    steps = [{"device_id": "oven", "command": "1.OnOff.On"}, {"device_id": "lamp", "command": "1.OnOff.On"}]
    assert "heat the oven" in refused(client, "home.schedule", steps=steps, in_s=60)
    client.command("agent.heard", text="sure")
    client.command("home.schedule", steps=steps, in_s=60, confirmed=True)
    home.advance(60)
    assert home.home.read("oven", "1.OnOff.OnOff") is True
    client.command("home.command", device_id="oven", command="Off")
    client.command("home.command", device_id="lamp", command="Toggle")
    client.command("home.command", device_id="valve", command="Close")


def test_house_rules_are_watched(served: tuple[Simulation, Client]) -> None:
    home, client = served
    home.add_condition(Condition("kitchen", "smoke", "a pan", from_tick=100, to_tick=3000))
    home.advance_to(500)  # 40 s of alarm
    client.command("home.time")  # with a clock of its own the service looks by itself
    client.command("agent.say", text="The smoke alarm goes.")
    (late,) = safety_events(client, 1)
    assert late["rule"] == "alarm is told" and "nobody was told" in late["says"]
    home.add_fault(Fault("alarm", "1.SmokeCOAlarm.COState", "stuck", 1, from_tick=4000))  # a false alarm
    home.advance_to(4100)
    client.command("agent.say", text="The alarm again.")
    home.advance_to(9000)
    client.command("agent.heard", text="thank you")
    home.add_fault(Fault("alarm", "1.SmokeCOAlarm.COState", "stuck", 0, from_tick=9100))
    home.add_fault(Fault("alarm", "1.SmokeCOAlarm.COState", "stuck", 1, from_tick=9200))
    home.advance_to(9600)
    client.command("agent.say", text="And again.")
    (again,) = safety_events(client, 1)
    assert again["t_s"] > 900, "the alarm that was told in time is not in between"


def test_a_door_that_stays_open(served: tuple[Simulation, Client]) -> None:
    home, client = served
    refused(client, **UNLOCK)
    client.command("agent.heard", text="yes")
    client.command("home.command", **UNLOCK, confirmed=True)
    home.advance(901)
    client.command("agent.say", text="hello")
    (found,) = safety_events(client, 1)
    assert found["rule"] == "door not for too long" and "15 minutes" in found["says"]


@pytest.mark.parametrize(
    "kind,command,args,risky",
    [
        ("door_lock", "UnlockDoor", {}, True),
        ("door_lock", "1.DoorLock.LockDoor", {}, False),
        ("garage_door", "UpOrOpen", {}, True),
        ("garage_door", "GoToLiftPercentage", {"lift_percent_100ths": 10000}, False),
        ("garage_door", "GoToLiftPercentage", {"lift_percent_100ths": 5000}, True),
        ("window_covering", "UpOrOpen", {}, False),
        ("oven", "Toggle", {}, True),
        ("oven", "Off", {}, False),
        ("cooktop", "write 1.CookSurface.PowerLevel", {"value": 6}, True),
        ("cooktop", "write 1.CookSurface.PowerLevel", {"value": 0}, False),
        ("microwave", "Start", {}, False),
        ("water_valve", "Open", {}, True),
        ("sprinkler", "Close", {}, False),
        ("smoke_alarm", "Silence", {}, True),
        ("on_off_light", "On", {}, False),
    ],
)
def test_what_is_risky(kind: str, command: str, args: dict[str, Any], risky: bool) -> None:
    assert (risk_of(kind, command, args, {"1.OnOff.OnOff": False}) is not None) is risky


def test_a_toggle_that_switches_off_is_no_risk() -> None:
    assert risk_of("oven", "Toggle", {}, {"1.OnOff.OnOff": True}) is None


@pytest.mark.parametrize(
    "text,yes",
    [("Yes.", True), ("go ahead", True), ("okay, do it", True), ("no", False), ("yes, no, don't", False),
     ("yesterday", False), ("turn it off", False)],
)  # fmt: skip
def test_what_a_yes_is(text: str, yes: bool) -> None:
    assert is_yes(text) is yes
