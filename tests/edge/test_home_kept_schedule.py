"""A schedule that outlives a restart: on time, missed meanwhile, and waiting for what happened meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capture.rig import parse_rig
from edge.home import HomeService, home_of
from edge.home.clock import HomeClock
from edge.home.simulation import Simulation
from edge.stream import CommandServer

RIG = """
hearth_rig: 1
room:
  name: hall
  devices:
    - {id: lamp, type: on_off_light, name: lamp}
    - {id: fan, type: fan, name: fan}
    - {id: washer, type: laundry_washer, name: washer}
"""
ON = "1.OnOff.OnOff"
WASHES = {
    "washer": {ON: True, "1.OperationalState.OperationalState": 1, "1.OperationalState.CountdownTime": 600}
}
LAMP = [{"device_id": "lamp", "command": "1.OnOff.On"}]
FAN = [{"device_id": "fan", "command": "1.OnOff.On"}]


def started(server: CommandServer, kept: Path, at: str, first: Any = None) -> tuple[HomeService, Simulation]:
    rig = parse_rig(RIG)
    home = Simulation(home_of(rig, first), clock=HomeClock(at))
    return HomeService(rig, home, server, real_time=False, kept=kept), home


def test_what_was_promised_outlives_a_restart(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "schedule.json"
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 18:00:00", WASHES)
        soon = service.schedule(LAMP, start_time="2026-03-01 18:05:00")["workflow_id"]
        later = service.schedule(LAMP, start_time="2026-03-01 20:00:00")["workflow_id"]
        gone = service.schedule(LAMP, in_s=7200)["workflow_id"]
        waits = service.schedule(FAN, when={"ended": "washer", "after_s": 60})["workflow_id"]
        warm = {"room": "hall", "variable": "temperature", "above": 2600}
        air = service.schedule(FAN, when=warm, continue_on_error=True)["workflow_id"]
        service.cancel(gone)
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, home = started(server, kept, "2026-03-01 19:00:00")  # the washer is done by now
        told = {one["workflow_id"]: one for one in service.all_workflows()["workflows"]}
        assert set(told) == {soon, later, waits, air}
        assert (
            told[soon]["status"] == "failed" and "not running" in told[soon]["results"][0]["error"]["detail"]
        )
        assert told[air]["when"] == warm and service.workflows.get(air).continue_on_error
        assert not home.home.read("lamp", ON)
        home.advance(60)
        assert home.home.read("fan", ON), "the washer ended meanwhile: a minute from the restart"
        home.advance(3540)
        assert home.home.read("lamp", ON) and service.workflow_status(later)["status"] == "completed"
        new = service.schedule(LAMP, in_s=5)["workflow_id"]
        assert new not in {soon, later, gone, waits, air}
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 20:00:03")
        assert {one["workflow_id"] for one in service.all_workflows()["workflows"]} == {air, new}


def test_an_appliance_that_still_works_is_waited_for(tmp_path: Path) -> None:
    kept = tmp_path / "schedule.json"
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 18:00:00", WASHES)
        waits = service.schedule(FAN, when={"ended": "washer"})["workflow_id"]
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, home = started(server, kept, "2026-03-01 18:01:00", WASHES)
        home.advance(599)
        assert service.workflow_status(waits)["status"] == "pending"
        home.advance(1)
        assert service.workflow_status(waits)["status"] == "completed"


def test_what_waits_for_a_device_that_is_not_there_yet_is_not_lost(tmp_path: Path) -> None:
    kept = tmp_path / "schedule.json"
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 18:00:00", WASHES)
        waits = service.schedule(FAN, when={"ended": "washer"})["workflow_id"]
    less = RIG.replace("    - {id: washer, type: laundry_washer, name: washer}\n", "")
    for rig_text, there in ((less, False), (RIG, True)):
        with CommandServer("tcp://127.0.0.1:0") as server:
            home = Simulation(home_of(parse_rig(rig_text)), clock=HomeClock("2026-03-01 18:30:00"))
            service = HomeService(parse_rig(rig_text), home, server, real_time=False, kept=kept)
            service.schedule(LAMP, in_s=1)  # writes the file anew
            found = {one["workflow_id"] for one in service.all_workflows()["workflows"]}
            assert (waits in found) is there


def test_a_home_that_comes_back_gets_its_schedule(tmp_path: Path) -> None:
    kept = tmp_path / "schedule.json"
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 18:00:00", WASHES)
        waits = service.schedule(FAN, when={"ended": "washer"})["workflow_id"]
    less = RIG.replace("    - {id: washer, type: laundry_washer, name: washer}\n", "")
    with CommandServer("tcp://127.0.0.1:0") as server:
        home = Simulation(home_of(parse_rig(less)), clock=HomeClock("2026-03-01 18:30:00"))
        service = HomeService(parse_rig(less), home, server, real_time=False, kept=kept)
        service.follow(parse_rig(RIG))
        service.command("lamp", "On")
        assert service.workflow_status(waits)["status"] == "pending"
        home.advance(0.1)
        assert home.home.read("fan", ON)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"hearth_schedule": 2, "workflows": []}', '{"hearth_schedule": 1, "workflows": [3]}',
     '{"hearth_schedule": 1, "workflows": [{"workflow_id": "workflow_1"}]}'],
)  # fmt: skip
def test_a_file_that_is_none_costs_no_start(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "schedule.json"
    kept.write_text(text)
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, _ = started(server, kept, "2026-03-01 18:00:00")
        assert service.all_workflows()["workflows"] == [] and "schedule" in caplog.text
        service.schedule(LAMP, in_s=60)
    assert len(json.loads(kept.read_text())["workflows"]) == 1


def test_a_folder_that_cannot_be_written_costs_no_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with CommandServer("tcp://127.0.0.1:0") as server:
        service, home = started(server, tmp_path / "file" / "schedule.json", "2026-03-01 18:00:00")
        service.schedule(LAMP, in_s=60)
        home.advance(60)
    assert home.home.read("lamp", ON) and "is not kept" in caplog.text
