"""A home whose time passes by itself: schedule, ends and air without a simulation around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dsp.errors import InputError
from edge.home.clock import RealTime
from edge.home.errors import HomeError
from edge.home.timeline import WallTimeline
from edge.home.twin import CommandResult, Home, HomeDevice
from edge.home.workflow import Workflows

ON, LEFT = "1.OnOff.OnOff", "1.OperationalState.CountdownTime"
LAMP = [{"device_id": "lamp", "command": "1.OnOff.On"}]


class Wall(WallTimeline):
    """Devices that change only when the test says so, as those of a real home do, and a clock in its hand."""

    def __init__(self) -> None:
        self.now_s, self.celsius = 1000.0, 21.0
        super().__init__(lambda: self.now_s, "2026-03-01 18:00:00")
        self._home = Home([HomeDevice("lamp", "on_off_light", "lamp", "room"),
                           HomeDevice("washer", "laundry_washer", "washer", "room")])  # fmt: skip
        self._watch_cycles()

    @property
    def home(self) -> Home:
        return self._home

    def rooms(self) -> dict[str, dict[Any, float]]:
        return {"room": {"temperature": self.celsius * 100}}

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult:
        return self._home.command(device_id, command, args, endpoint)

    def write(self, device_id: str, path: str, value: Any) -> CommandResult:
        return self._home.write(device_id, path, value)


@pytest.fixture
def made() -> tuple[Wall, Workflows, RealTime]:
    wall = Wall()
    return wall, Workflows(wall), RealTime(wall, now=lambda: wall.now_s)


def lit(wall: Wall) -> bool:
    return bool(wall.home.read("lamp", ON))


def test_what_is_due_is_done_when_its_time_has_come(made: tuple[Wall, Workflows, RealTime]) -> None:
    wall, flows, clock = made
    flow = flows.schedule("2026-03-01 18:01:00", LAMP)
    wall.now_s += 59.9
    clock.catch_up()
    assert not lit(wall) and wall.time == "2026-03-01 18:00:59"
    wall.now_s += 0.1
    clock.catch_up()
    assert lit(wall) and flow.status == "completed"
    with pytest.raises(InputError, match="cannot be moved"):
        wall.advance_to(wall.tick + 1)


def test_an_appliance_that_ends_is_heard_from(made: tuple[Wall, Workflows, RealTime]) -> None:
    wall, flows, clock = made
    with pytest.raises(HomeError, match="does not run"):
        flows.when({"ended": "washer"}, LAMP)
    wall.home.command("washer", "On")
    wall.home.command("washer", "Start")
    wall.home.evolve("washer", lambda state: state.update({LEFT: 1200}))
    assert wall.done_at("washer") == wall.tick + 12000
    before = flows.when({"ended": "washer", "after_s": -600}, LAMP)
    after = flows.when({"ended": "washer", "after_s": 30}, [{"device_id": "lamp", "command": "1.OnOff.Off"}])
    wall.now_s += 601
    wall.home.evolve("washer", lambda state: state.update({LEFT: 599}))
    clock.catch_up()
    assert lit(wall) and before.status == "completed"
    wall.home.command("washer", "Stop")
    wall.now_s += 29
    clock.catch_up()
    assert lit(wall)
    wall.now_s += 1
    clock.catch_up()
    assert not lit(wall) and after.status == "completed"


def test_an_end_that_is_not_told_is_not_reckoned_with(made: tuple[Wall, Workflows, RealTime]) -> None:
    wall, flows, _ = made
    wall.home.command("washer", "On")
    wall.home.command("washer", "Start")
    wall.home.evolve("washer", lambda state: state.update({LEFT: None}))
    assert wall.done_at("washer") is None
    with pytest.raises(HomeError, match="does not tell when"):
        flows.when({"ended": "washer", "after_s": -60}, LAMP)


def test_air_is_what_the_sensors_say(made: tuple[Wall, Workflows, RealTime]) -> None:
    wall, flows, clock = made
    flow = flows.when({"room": "room", "variable": "temperature", "below": 2000, "after_s": 5}, LAMP)
    with pytest.raises(HomeError, match="whose air is measured"):
        flows.when({"room": "attic", "variable": "temperature", "below": 2000}, LAMP)
    clock.catch_up()
    assert flow.start_tick is None
    wall.celsius = 19.9
    clock.catch_up()
    assert flow.start_tick == wall.tick + 50
    wall.celsius = 22.0
    wall.now_s += 5
    clock.catch_up()
    assert lit(wall), "it became so once"
