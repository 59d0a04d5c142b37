"""What is really in the rooms, what sensors make of it, and sensors that tell it wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from dsp.errors import InputError
from edge.home.errors import HomeError
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice
from edge.home.workflow import Workflows
from edge.home.world import Condition, Fault

SMOKE, EXPRESSED = "1.SmokeCOAlarm.SmokeState", "1.SmokeCOAlarm.ExpressedState"
WET, MOVES = "1.BooleanState.StateValue", "1.OccupancySensing.Occupancy"
LOCAL = "1.Thermostat.LocalTemperature"
KINDS = {
    "alarm": "smoke_alarm", "leak": "leak_sensor", "motion": "motion_sensor", "hob": "cooktop",
    "valve": "water_valve", "cooler": "air_conditioner", "lamp": "on_off_light",
}  # fmt: skip


def made() -> Simulation:
    devices = [HomeDevice(name, kind, name, "kitchen") for name, kind in KINDS.items()]
    devices.append(HomeDevice("hall_alarm", "smoke_alarm", "hall alarm", "hall"))
    first = {"hob": {"1.OnOff.OnOff": True}, "valve": {"1.ValveConfigurationAndControl.CurrentState": 1}}
    return Simulation(Home(devices, first), {"kitchen": {"temperature": 2200}})


def error_of(call: Any, *args: Any) -> str:
    with pytest.raises(HomeError) as caught:
        call(*args)
    return caught.value.type


def test_smoke_is_read_worsens_and_clears_when_its_source_is_off() -> None:
    sim = made()
    pan = Condition("kitchen", "smoke", "a pan about to burn", source="hob", from_tick=100,
                    worsens_after_s=60, clears_after_s=30)  # fmt: skip
    sim.add_condition(pan)
    sim.advance_to(99)
    assert sim.home.read("alarm", SMOKE) == 0 and sim.look("kitchen") == []
    sim.advance_to(100)
    assert (sim.home.read("alarm", SMOKE), sim.home.read("alarm", EXPRESSED)) == (1, 1)
    assert sim.home.read("hall_alarm", SMOKE) == 0
    assert sim.look("kitchen")[0]["cause"] == "a pan about to burn"
    sim.command("alarm", "Silence")
    sim.advance_to(700)
    assert sim.home.read("alarm", SMOKE) == 2
    sim.command("hob", "Off")
    sim.advance(29.9)
    assert sim.home.read("alarm", SMOKE) == 2
    sim.advance(0.1)
    assert (sim.home.read("alarm", SMOKE), sim.home.read("alarm", EXPRESSED)) == (0, 0)
    assert sim.home.read("alarm", "1.SmokeCOAlarm.DeviceMuted") == 0
    sim.command("hob", "On")
    assert sim.look("kitchen") == [], "what is over does not come back by itself"


def test_a_leak_stops_with_its_valve() -> None:
    sim = made()
    sim.add_condition(Condition("kitchen", "water", "a pipe under the sink", source="valve"))
    assert sim.home.read("leak", WET) is True
    sim.command("valve", "Close")
    sim.advance(0.1)
    assert sim.home.read("leak", WET) is False


def test_false_alarms_and_missed_ones() -> None:
    sim = made()
    sim.add_fault(Fault("alarm", SMOKE, "stuck", 1, from_tick=50, to_tick=200))
    sim.add_fault(Fault("leak", WET, "stuck", False))
    sim.add_condition(Condition("kitchen", "water", "a spill"))
    sim.advance_to(50)
    assert sim.home.read("alarm", EXPRESSED) == 1, "the alarm sounds"
    seen = [one["kind"] for one in sim.look("kitchen")]
    assert seen == ["water"], "who looks sees that nothing burns, and the water that the sensor misses"
    assert sim.home.read("leak", WET) is False
    sim.advance_to(200)
    assert sim.home.read("alarm", EXPRESSED) == 0


def test_measuring_wrongly_and_not_at_all() -> None:
    sim = made()
    sim.add_fault(Fault("cooler", LOCAL, "offset", 350))
    assert sim.home.read("cooler", LOCAL) == 2550 and sim.rooms()["kitchen"]["temperature"] == 2200
    sim.add_fault(Fault("cooler", LOCAL, "silent", from_tick=100))
    sim.add_fault(Fault("cooler", LOCAL, "stuck", from_tick=200))
    sim.advance_to(100)
    assert sim.home.read("cooler", LOCAL) is None
    sim.advance_to(300)
    assert sim.home.read("cooler", LOCAL) is None, "stuck at what it read last"


@pytest.mark.parametrize("offset,ends", [(0, False), (600, True)])
def test_what_waits_for_a_sensor_goes_by_what_it_reads(offset: int, ends: bool) -> None:
    sim = made()
    flows = Workflows(sim)
    sim.add_fault(Fault("cooler", LOCAL, "offset", offset))
    flow = flows.when(
        {"device_id": "cooler", "attribute": LOCAL, "above": 2700},
        [{"device_id": "lamp", "command": "1.OnOff.On"}],
    )
    sim.advance(600)
    assert (flow.status == "completed") is ends


def test_motion_is_read_while_somebody_moves_however_time_is_cut() -> None:
    for step in (1, 7, 1000):
        sim = made()
        log: list[tuple[int, Any]] = []
        sim.home.listen(lambda _, changed, log=log, sim=sim: log.append((sim.tick, changed.get(MOVES))))  # type: ignore[misc]
        sim.add_condition(Condition("kitchen", "motion", "a visitor", from_tick=33, to_tick=77))
        while sim.tick < 500:
            sim.advance_to(min(sim.tick + step, 500))
        assert log == [(33, 1), (77, 0)]


def test_what_cannot_be_is_refused() -> None:
    sim = made()
    assert error_of(sim.add_condition, Condition("attic", "smoke", "x")) == "ROOM_NOT_FOUND"
    assert error_of(sim.add_condition, Condition("kitchen", "smoke", "x", source="y")) == "DEVICE_NOT_FOUND"
    assert error_of(sim.add_fault, Fault("lamp", "1.OnOff.OnOff", "stuck", True)) == "INVALID_STATE"
    assert error_of(sim.add_fault, Fault("alarm", SMOKE, "stuck", 9)) == "UNSUPPORTED_MODE"
    assert error_of(sim.look, "attic") == "ROOM_NOT_FOUND"
    for condition in (
        Condition("kitchen", "smoke", "x", level=3),
        Condition("kitchen", "smoke", "x", from_tick=5, to_tick=5),
    ):
        with pytest.raises(InputError):
            sim.add_condition(condition)
    with pytest.raises(InputError):
        sim.add_fault(Fault("cooler", LOCAL, "offset", "much"))
