"""What was scheduled runs at its tick, in its order, or fails and says why."""

from __future__ import annotations

from typing import Any

import pytest

from edge.home.clock import HomeClock
from edge.home.errors import HomeError
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice
from edge.home.workflow import Workflows

ON = "1.OnOff.OnOff"


def command(device: str, cluster: str, name: str, **args: Any) -> dict[str, Any]:
    given = {"device_id": device, "endpoint_id": 1, "cluster_id": cluster, "command_id": name, "args": args}
    return {"tool": "execute_command", "args": given}


def write(device: str, cluster: str, name: str, value: Any) -> dict[str, Any]:
    given = {
        "device_id": device,
        "endpoint_id": 1,
        "cluster_id": cluster,
        "attribute_id": name,
        "value": value,
    }
    return {"tool": "write_attribute", "args": given}


@pytest.fixture
def made() -> tuple[Simulation, Workflows]:
    home = Home([HomeDevice(n, k, n, "room") for n, k in (("lamp", "on_off_light"), ("fan", "fan"))])
    sim = Simulation(home, clock=HomeClock("2025-08-23 13:00:00"))
    return sim, Workflows(sim)


def type_of(call: Any, *args: Any) -> str:
    with pytest.raises(HomeError) as caught:
        call(*args)
    return caught.value.type


def test_it_runs_at_its_tick(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    steps = [command("fan", "OnOff", "On"), write("fan", "FanControl", "PercentSetting", 30)]
    flow = flows.schedule("2025-08-23 13:10:00", steps)
    sim.advance_to(5999)
    assert (flow.status, sim.home.read("fan", ON)) == ("pending", False)
    sim.advance_to(6000)
    assert flow.status == "completed" and flow.results == [{"ok": True}] * 2
    assert sim.home.read("fan", "1.FanControl.PercentCurrent") == 30
    assert flows.get(flow.id).to_dict(sim)["start_time"] == "2025-08-23 13:10:00"


def test_the_air_feels_it_from_the_next_tick_on(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    flows.schedule("2025-08-23 13:00:01", [command("fan", "OnOff", "On")])
    sim.advance_to(10)
    assert sim.rooms()["room"]["temperature"] == 2200.0
    sim.advance_to(11)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(2200 - 0.1 * 0.02)


def test_cancelled_before_its_time_and_not_after(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    off, on = (flows.schedule("2025-08-23 13:01:00", [command("lamp", "OnOff", "On")]) for _ in "12")
    assert flows.cancel(off.id).status == "cancelled"
    sim.advance_to(600)
    assert (off.status, on.status, sim.home.read("lamp", ON)) == ("cancelled", "completed", True)
    assert type_of(flows.cancel, on.id) == "INVALID_STATE"
    assert type_of(flows.cancel, "workflow_9") == "WORKFLOW_NOT_FOUND"
    assert [one.status for one in flows.all()] == ["cancelled", "completed"]


def test_a_step_that_fails_ends_it_or_not(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    steps = [write("fan", "FanControl", "PercentSetting", 30), command("lamp", "OnOff", "On")]
    ended = flows.schedule("2025-08-23 13:01:00", steps)
    sim.advance_to(600)
    assert ended.status == "failed" and sim.home.read("lamp", ON) is False
    assert [one["error"]["type"] for one in ended.results] == ["DEPENDENCY_VIOLATION"]
    went_on = flows.run_now(steps, continue_on_error=True)
    assert went_on.status == "failed" and sim.home.read("lamp", ON) is True
    assert [one["ok"] for one in went_on.results] == [False, True]


def test_two_at_one_tick_run_in_the_order_given(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    for name in ("On", "Off"):
        flows.schedule("2025-08-23 13:01:00", [command("lamp", "OnOff", name)])
    sim.advance_to(600)
    assert sim.home.read("lamp", ON) is False


def test_what_is_refused_at_once(made: tuple[Simulation, Workflows]) -> None:
    sim, flows = made
    good = [command("lamp", "OnOff", "On")]
    sim.advance_to(10)
    for time in ("2025-08-23 13:00:00", "soon", None, 5):
        assert type_of(flows.schedule, time, good) == "VALIDATION_ERROR"
    lacking = [{"tool": "execute_command", "args": {"device_id": "lamp"}}]
    for steps in (
        [],
        "x",
        None,
        [{}],
        [{"tool": "dance", "args": {}}],
        [{"tool": "execute_command"}],
        lacking,
    ):
        assert type_of(flows.schedule, "2025-08-23 14:00:00", steps) == "VALIDATION_ERROR"
    assert type_of(flows.run_now, [command("lamp", "OnOff", "On") | {"args": {"x": 1}}]) == "VALIDATION_ERROR"
    assert flows.all() == []
    # A device that is not there is found out when its time comes.
    flow = flows.schedule("2025-08-23 13:00:01", [command("attic", "OnOff", "On")])
    assert flow.status == "failed" and flow.results[0]["error"]["type"] == "DEVICE_NOT_FOUND"


def test_of_many_the_oldest_that_is_over_is_forgotten(
    made: tuple[Simulation, Workflows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.home.workflow.MOST_WORKFLOWS", 3)
    _, flows = made
    waits = flows.schedule("2025-08-23 14:00:00", [command("lamp", "OnOff", "On")])
    ids = [flows.run_now([command("lamp", "OnOff", "Toggle")]).id for _ in range(4)]
    assert [one.id for one in flows.all()] == [waits.id, *ids[-2:]]
    assert type_of(flows.get, ids[0]) == "WORKFLOW_NOT_FOUND"
    for _ in range(2):
        flows.schedule("2025-08-23 14:00:00", [command("lamp", "OnOff", "On")])
    assert type_of(flows.schedule, "2025-08-23 14:00:00", [command("lamp", "OnOff", "On")]) == (
        "VALIDATION_ERROR"
    )
