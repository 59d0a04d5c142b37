"""Workflows that wait: for an appliance to end, an attribute, a room's air; without anybody polling."""

from __future__ import annotations

import math
from typing import Any

import pytest

from edge.home.clock import HomeClock
from edge.home.errors import HomeError
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice
from edge.home.workflow import Workflows

ON = "1.OnOff.OnOff"
LAMP_ON = {"device_id": "lamp", "command": "1.OnOff.On"}
QUICK_S = 15 * 60  # the washer's quick programme, as the benchmark has it
KINDS = {
    "lamp": "on_off_light", "lamp2": "dimmable_light", "fan": "fan", "washer": "laundry_washer",
    "robot": "rvc", "oven": "microwave", "cooler": "air_conditioner",
}  # fmt: skip


def made() -> tuple[Simulation, Workflows]:
    home = Home(
        [HomeDevice(name, kind, name, "room") for name, kind in KINDS.items()],
        {"washer": {ON: True, "1.LaundryWasherMode.CurrentMode": 4}},
    )
    sim = Simulation(home, {"room": {"temperature": 2600.0}}, clock=HomeClock("2026-01-01 08:00:00"))
    return sim, Workflows(sim)


def lit(sim: Simulation) -> bool:
    return bool(sim.home.read("lamp", ON))


@pytest.mark.parametrize("after_s", [0, 600, -300])
def test_after_before_and_when_an_appliance_is_done(after_s: int) -> None:
    sim, flows = made()
    sim.command("washer", "1.OperationalState.Start")
    flow = flows.when({"ended": "washer", "after_s": after_s}, [LAMP_ON])
    due = (QUICK_S + after_s) * 10
    sim.advance_to(due - 1)
    assert not lit(sim) and flow.status == "pending"
    sim.advance_to(due)
    assert lit(sim) and flow.status == "completed"
    assert flow.to_dict(sim)["start_tick"] == due


def test_a_pause_moves_the_end_and_what_waits_for_it() -> None:
    sim, flows = made()
    sim.command("washer", "1.OperationalState.Start")
    before = flows.when({"ended": "washer", "after_s": -60}, [LAMP_ON])
    at_end = flows.when({"ended": "washer"}, [{"device_id": "fan", "command": "1.OnOff.On"}])
    sim.advance(100)
    sim.command("washer", "1.OperationalState.Pause")
    sim.advance(5000)
    assert before.status == at_end.status == "pending"
    sim.command("washer", "1.OperationalState.Resume")
    sim.advance_to((QUICK_S + 5000 - 60) * 10)
    assert (before.status, at_end.status) == ("completed", "pending")
    sim.advance(60)
    assert at_end.status == "completed"


def test_an_appliance_that_somebody_stops_cancels_what_waits_for_its_end() -> None:
    sim, flows = made()
    sim.command("washer", "1.OperationalState.Start")
    flow = flows.when({"ended": "washer"}, [LAMP_ON])
    sim.advance(100)
    sim.command("washer", "1.OnOff.Off")
    assert flow.status == "cancelled" and "stopped before" in flow.results[0]["error"]["detail"]
    sim.advance(2 * QUICK_S)
    assert not lit(sim)


def test_one_without_a_known_end_is_done_when_it_is_stopped() -> None:
    sim, flows = made()
    sim.command("oven", "1.OnOff.On")
    sim.command("oven", "1.OperationalState.Start")
    flow = flows.when({"ended": "oven", "after_s": 5}, [LAMP_ON])
    sim.advance(100)
    sim.command("oven", "1.OperationalState.Stop")
    sim.advance(4.9)
    assert flow.status == "pending"
    sim.advance(0.1)
    assert flow.status == "completed" and lit(sim)


def test_a_robot_has_ended_when_it_stops_cleaning_not_when_it_is_docked() -> None:
    sim, flows = made()
    sim.command("robot", "1.RVCRunMode.ChangeToMode", {"new_mode": 2})
    flow = flows.when({"ended": "robot"}, [LAMP_ON])
    sim.advance_to(1800 * 10)
    assert flow.status == "completed" and flow.start_tick == 18000


def test_an_attribute_that_becomes_so() -> None:
    sim, flows = made()
    equal = flows.when({"device_id": "fan", "attribute": ON, "equals": True}, [LAMP_ON])
    level = {"device_id": "lamp2", "attribute": "1.LevelControl.CurrentLevel", "below": 100}
    low = flows.when({**level, "after_s": 60}, [{"device_id": "fan", "command": "1.OnOff.Off"}])
    sim.advance(10)
    sim.command("fan", "1.OnOff.On")
    assert not lit(sim), "what a change triggers runs from the next tick on"
    sim.advance(0.1)
    assert lit(sim) and equal.start_tick == 101
    sim.command("lamp2", "1.OnOff.On")
    sim.command("lamp2", "1.LevelControl.MoveToLevel", {"level": 100})
    sim.advance(100)
    assert low.status == "pending"
    sim.command("lamp2", "1.LevelControl.MoveToLevel", {"level": 99})
    sim.advance(59.9)
    assert sim.home.read("fan", ON) is True
    sim.advance(0.1)
    assert sim.home.read("fan", ON) is False and low.status == "completed"


def test_a_rooms_air_at_the_tick_at_which_it_crosses() -> None:
    """Heated from b = 26 degrees with rate k = 0.05 up and c = 0.0002 back, in hundredths:
    x(n) = b + (k/c)(1 - (1 - c/10)^n). The first n with x > 27 degrees is by hand."""
    wanted = math.ceil(math.log(1 - 100 * 0.0002 / 0.05) / math.log(1 - 0.00002) + 1e-9)
    for cut in (10**6, 777):
        sim, flows = made()
        sim.command("cooler", "1.OnOff.On")
        sim.write("cooler", "1.Thermostat.SystemMode", 4)
        sim.write("cooler", "1.Thermostat.OccupiedHeatingSetpoint", 3000)
        flow = flows.when({"room": "room", "variable": "temperature", "above": 2700}, [LAMP_ON])
        sensor = {"device_id": "cooler", "attribute": "1.Thermostat.LocalTemperature", "above": 2699.5}
        read = flows.when(sensor, [{"device_id": "lamp2", "command": "1.OnOff.On"}])
        while sim.tick < 60000:
            sim.advance_to(min(sim.tick + cut, 60000))
        assert flow.status == read.status == "completed"
        assert flow.start_tick == read.start_tick == wanted
        assert sim.home.read("cooler", "1.Thermostat.LocalTemperature") > 2700


def test_light_and_what_is_so_already() -> None:
    sim, flows = made()
    dark = {"room": "room", "variable": "illuminance", "above": 400}
    flow = flows.when(dark, [{"device_id": "fan", "command": "1.OnOff.On"}])
    sim.advance(10)
    assert flow.status == "pending"
    sim.command("lamp", "On")
    sim.advance(0.1)
    assert flow.status == "completed"
    again = flows.when({**dark, "after_s": 30}, [{"device_id": "lamp", "command": "1.OnOff.Off"}])
    assert again.start_tick == sim.tick + 300
    at_once = flows.when(dark, [{"device_id": "fan", "command": "1.OnOff.Off"}])
    assert at_once.status == "completed"


@pytest.mark.parametrize(
    "when,error",
    [
        ("later", "VALIDATION_ERROR"),
        ({"ended": "washer"}, "INVALID_STATE"),  # it does not run
        ({"ended": "nothing"}, "DEVICE_NOT_FOUND"),
        ({"ended": "fan", "above": 3}, "VALIDATION_ERROR"),
        ({"device_id": "fan", "attribute": ON}, "VALIDATION_ERROR"),
        ({"device_id": "fan", "attribute": ON, "equals": 1}, "VALIDATION_ERROR"),
        ({"device_id": "fan", "attribute": "1.OnOff.Off", "equals": True}, "ATTRIBUTE_NOT_FOUND"),
        ({"device_id": "fan", "attribute": ON, "equals": True, "after_s": -1}, "VALIDATION_ERROR"),
        ({"device_id": "washer", "attribute": "1.OperationalState.CountdownTime", "below": 60},
         "VALIDATION_ERROR"),
        ({"room": "attic", "variable": "temperature", "above": 1}, "ROOM_NOT_FOUND"),
        ({"room": "room", "variable": "noise", "above": 1}, "VALIDATION_ERROR"),
        ({"room": "room", "variable": "pm10", "above": "much"}, "VALIDATION_ERROR"),
        ({"room": "room", "variable": "pm10", "above": 1, "after_s": 1e9}, "VALIDATION_ERROR"),
    ],
)  # fmt: skip
def test_what_cannot_be_waited_for_is_refused(when: Any, error: str) -> None:
    _, flows = made()
    with pytest.raises(HomeError) as caught:
        flows.when(when, [LAMP_ON])
    assert caught.value.type == error
    assert flows.all() == []


def test_before_the_end_when_that_moment_is_past_already() -> None:
    sim, flows = made()
    sim.command("washer", "1.OperationalState.Start")
    sim.advance(QUICK_S - 60)
    with pytest.raises(HomeError, match="past"):
        flows.when({"ended": "washer", "after_s": -61}, [LAMP_ON])
    flow = flows.when({"ended": "washer", "after_s": -60}, [LAMP_ON])
    sim.advance(0.1)
    assert flow.status == "completed"


def test_seconds_from_now_and_cancelling() -> None:
    sim, flows = made()
    flow = flows.after(90.5, [LAMP_ON])
    waiting = flows.when({"device_id": "fan", "attribute": ON, "equals": True}, [LAMP_ON])
    flows.cancel(waiting.id)
    sim.command("fan", "On")
    sim.advance(90.4)
    assert not lit(sim)
    sim.advance(0.1)
    assert lit(sim) and flow.status == "completed" and waiting.status == "cancelled"
    with pytest.raises(HomeError) as caught:
        flows.after(-1, [LAMP_ON])
    assert caught.value.type == "VALIDATION_ERROR"
