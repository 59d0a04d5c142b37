"""Goals in the home twin, with truths worked out by hand, and those of two benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dsp.errors import CheckFailed
from edge.home.errors import HomeError
from edge.home.goals import GoalReport, check_goal
from edge.home.reach import orders_to
from edge.home.schema import DEVICE_TYPES, commands_of, defaults
from edge.home.twin import Home, HomeDevice
from hearth import app
from recordings.ha_assist import read_assist_set
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Placed,
    Profile,
    RoomChange,
    RoomState,
    Staging,
    Step,
    When,
    profile_to_yaml,
)
from recordings.profile_checks import check_profile
from recordings.simuhome import read_simuhome

ON, LEVEL, CYCLE = "1.OnOff.OnOff", "1.LevelControl.CurrentLevel", "1.OperationalState.OperationalState"
PERCENT, COOLING = "1.FanControl.PercentSetting", "1.Thermostat.OccupiedCoolingSetpoint"


def device(name: str, kind: str, **attributes: Any) -> DeviceState:
    return DeviceState(id=name, type=kind, name=name, room="study", attributes=attributes)


HOME = HomeState(
    devices=(
        device("lamp", "dimmable_light", **{ON: False, LEVEL: 100}),
        device("fan", "fan", **{ON: True, PERCENT: 30}),
        device("ac", "air_conditioner", **{ON: False, COOLING: 2600}),
        device("washer", "laundry_washer", **{ON: True, CYCLE: 1, "1.OperationalState.CountdownTime": 1200}),
        device("microwave", "microwave", **{ON: False, CYCLE: 0}),
        device("dryer", "laundry_dryer", **{ON: False, CYCLE: 0}),
        device("fridge", "refrigerator", **{"1.TemperatureControl.TemperatureSetpoint": 400}),
        device("robot", "rvc", **{"1.RVCRunMode.CurrentMode": 0}),
    ),
    rooms=("study", "attic"),
    room_states={"study": RoomState(temperature_c=21.0)},
)


def asserts(*wanted: tuple[str, str, Any]) -> tuple[Assert, ...]:
    return tuple(Assert(device_id=d, attribute=a, value=v) for d, a, v in wanted)


def step(when: When, *wanted: tuple[str, str, Any]) -> Step:
    return Step(when=when, asserts=asserts(*wanted))


def checked(goal: Goal, feasibility: str = "feasible") -> GoalReport:
    profile = Profile(
        id="e",
        session="s",
        created_utc="2026-01-01T00:00:00Z",
        origin="virtual",
        feasibility=feasibility,
        goal=goal,
        home=HOME,
    )
    return check_goal(profile)


def state(*wanted: tuple[str, str, Any]) -> GoalReport:
    return checked(Goal(kind="state", asserts=asserts(*wanted)))


def refused(kind: str, *wanted: tuple[str, str, Any], **parts: Any) -> GoalReport:
    return checked(Goal(kind="refusal", reason="so", asserts=asserts(*wanted), **parts), kind)


def test_a_goal_is_reached_and_the_orders_really_reach_it() -> None:
    wanted = [("lamp", LEVEL, 12), ("lamp", ON, True), ("ac", ON, True), ("ac", COOLING, 2250)]
    report = state(*wanted)
    assert report.verdict == "ok" and report.problems == []
    home = Home(
        [HomeDevice(d.id, d.type, d.name, d.room) for d in HOME.devices if d.type != "rvc"],
        {
            d.id: {p: v for p, v in d.attributes.items() if "Count" not in p}
            for d in HOME.devices
            if d.type != "rvc"
        },
    )
    for order in report.orders:
        if order.command.startswith("write "):
            home.write(order.device_id, order.command[6:], order.args["value"])
        else:
            home.command(order.device_id, order.command, order.args)
    for device_id, path, value in wanted:
        assert home.read(device_id, path) == value
    assert len(report.orders) == 3, "one command sets a lamp's level and switches it on"


# What no command but a step changes: they are written to, or only read.
IDLE = ("heat_pump", "thermostat", "doorbell", "scale", "dumbbells", "plant_pot", "smoke_alarm", "co_alarm",
        "fire_alarm", "motion_sensor", "contact_sensor", "leak_sensor")  # fmt: skip


@pytest.mark.parametrize("kind", list(DEVICE_TYPES))
def test_what_one_command_does_is_found_with_one_command(kind: str) -> None:
    """The search against the twin itself."""
    thing = HomeDevice("x", kind, "x", "study")
    start = {**defaults(kind), **({ON: True} if ON in defaults(kind) else {})}
    tried = 0
    for known in commands_of(kind):
        if "Step" in known["command"] or known["command"] == "SetpointRaiseLower":
            continue  # steps are not searched, their ends are reached by value
        home = Home([thing], {"x": start})
        before = home.state("x")
        colder = start.get("1.TemperatureControl.MinTemperature")
        chosen = {"percent": 75, "new_mode": 2, "target_temperature": colder, "move_mode": 1}
        args = {
            n: chosen.get(n, min(max(a["low"], 150), a["high"]))
            for n, a in known["args"].items()
            if a["required"]
        }
        if "scene_id" in args:
            args["scene_id"] = 4
        try:
            changed = home.command(
                "x", f"{known['endpoint']}.{known['cluster']}.{known['command']}", args
            ).changed
        except HomeError:
            continue  # not possible from this state
        orders = orders_to(thing, before, changed)
        assert orders is not None and len(orders) == (1 if changed else 0), (known, changed)
        tried += bool(changed)
    assert tried or kind in IDLE
    assert orders_to(thing, start, {"9.OnOff.OnOff": True}) is None


@pytest.mark.parametrize(
    "wanted",
    [
        ("lamp", LEVEL, 255),  # beyond the range
        ("lamp", LEVEL, True),  # of another kind
        ("fan", PERCENT, 101),
        ("ac", "1.Thermostat.LocalTemperature", 1800),  # measured, not set
        ("fridge", "1.TemperatureControl.TemperatureSetpoint", -500),
        ("tv", ON, True),  # not there
    ],
)
def test_what_no_command_reaches(wanted: tuple[str, str, Any]) -> None:
    report = state(wanted)
    assert [p.code for p in report.problems] == ["unreachable"] and report.verdict == "wrong"
    if wanted[1] != "1.Thermostat.LocalTemperature":
        limit = refused("physical_limit", wanted)
        assert (limit.verdict, limit.problems) == ("ok", []) and limit.shown


def test_off_and_cycling_contradict_each_other() -> None:
    assert state(("microwave", ON, False), ("microwave", CYCLE, 1)).verdict == "wrong"
    assert state(("microwave", CYCLE, 1)).verdict == "ok"


def test_what_holds_at_the_start() -> None:
    report = state(("lamp", ON, False))
    assert [p.code for p in report.problems] == ["satisfied"]
    assert state(("lamp", ON, False), ("fan", PERCENT, 60)).problems == []


def test_answers_are_those_of_the_twin() -> None:
    for value, verdict in ((30, "ok"), (31, "wrong"), (True, "wrong")):
        report = checked(Goal(kind="answer", asserts=asserts(("fan", PERCENT, value))))
        assert report.verdict == verdict
    following = checked(Goal(kind="answer", asserts=asserts(("fan", "1.FanControl.PercentCurrent", 30))))
    assert following.verdict == "ok", "the twin knows what follows from the setting"


def test_what_the_twin_cannot_tell_is_said_and_is_no_verdict() -> None:
    for report, why in (
        (state(("fan", "9.RVCRunMode.CurrentMode", 1)), "has no attribute 9.RVCRunMode.CurrentMode"),
        (state(("fan", "1.FanControl.RockSetting", 1)), "has no attribute 1.FanControl.RockSetting"),
        (
            checked(Goal(kind="refusal", reason="so"), "nonexistent_resource"),
            "does not say what was asked for",
        ),
        (checked(Goal(kind="refusal", reason="so"), "temporal_contradiction"), "does not say which times"),
    ):
        assert report.verdict == "not checked" and report.problems == []
        assert why in " ".join(report.not_checked)
    bare = Profile(id="e", session="s", created_utc="2026-01-01T00:00:00Z", origin="virtual")
    assert check_goal(bare).not_checked == ["the profile has no goal"]


def test_infeasible_requests_that_are_not() -> None:
    lamp = ("lamp", ON, True)
    change = RoomChange(room="study", variable="illuminance", direction="increase")
    for report in (
        refused("nonexistent_resource", lamp),
        refused("physical_limit", lamp),
        refused("nonexistent_resource", changes=(change,)),
        refused("temporal_contradiction", steps=(step(When(at_min=30.0), lamp),)),
        refused("temporal_contradiction", steps=(step(When(at_min=30.0, offset_min=30.0), lamp),)),
        refused(
            "temporal_contradiction",
            steps=(step(When(at_min=25.0, anchor_device="washer", offset_min=5.0), lamp),),
        ),
    ):
        assert [p.code for p in report.problems] == ["feasible"], report


def test_really_infeasible() -> None:
    attic = RoomChange(room="attic", variable="illuminance", direction="increase")
    darker = RoomChange(room="study", variable="illuminance", direction="decrease")
    lamp = ("lamp", ON, True)
    for report in (
        refused("nonexistent_resource", lamp, ("tv", ON, True)),
        refused("nonexistent_resource", changes=(attic,)),
        refused("physical_limit", changes=(darker,)),  # the only lamp is off
        refused("physical_limit", ("lamp", "1.ColorControl.CurrentHue", None)),  # it has no colour
        refused("temporal_contradiction", steps=(step(When(at_min=-5.0), lamp),)),
        refused("temporal_contradiction", steps=(step(When(at_min=30.0, offset_min=13.0), lamp),)),
        # The washer has 20 minutes left: 5 minutes later is in 25, not in 40.
        refused(
            "temporal_contradiction",
            steps=(step(When(at_min=40.0, anchor_device="washer", offset_min=5.0), lamp),),
        ),
        refused("temporal_contradiction", steps=(step(When(anchor_device="microwave"), lamp),)),
        refused(
            "temporal_contradiction",
            steps=(step(When(at_min=5.0), lamp), step(When(at_min=5.0), ("lamp", ON, False))),
        ),
    ):
        assert report.verdict == "ok" and report.shown, report


def air(
    direction: str, variable: str, *devices: DeviceState, feasibility: str = "feasible", **room: float
) -> GoalReport:
    change = RoomChange(room="study", variable=variable, direction=direction)
    goal = Goal(kind="state", changes=(change,))
    if feasibility != "feasible":
        goal = Goal(kind="refusal", reason="so", changes=(change,))
    home = HomeState(devices=devices, rooms=("study",), room_states={"study": RoomState(**room)})
    names = ("e", "s", "2026-01-01T00:00:00Z", "virtual")
    plain = dict(zip(("id", "session", "created_utc", "origin"), names, strict=True))
    return check_goal(Profile(**plain, feasibility=feasibility, goal=goal, home=home))


def test_what_a_rooms_air_and_light_can_do() -> None:
    ac = device("ac", "air_conditioner", **{ON: False, PERCENT: 0})
    pump = device("pump", "heat_pump", **{"4.Thermostat.SystemMode": 0})
    full = device("purifier", "air_purifier", **{ON: True, PERCENT: 100})
    half = device("purifier", "air_purifier", **{ON: True, PERCENT: 50})
    lamp = device("lamp", "on_off_light", **{ON: True})
    cases: list[tuple[GoalReport, str]] = [
        (air("decrease", "temperature", ac, temperature_c=27.0), "ac"),
        (air("decrease", "temperature", ac, temperature_c=15.0), ""),  # it cools down to 16
        (air("increase", "temperature", pump, temperature_c=15.0), "pump"),
        (air("increase", "temperature", pump, temperature_c=31.0), ""),  # and that heats up to 30
        (air("decrease", "temperature", pump, temperature_c=21.0), ""),
        (air("decrease", "pm10", half, pm10_ug_m3=60.0), "purifier"),
        (air("decrease", "pm10", half, pm10_ug_m3=0.0), ""),  # nothing is left to clean
        (air("decrease", "pm10", full, pm10_ug_m3=60.0), ""),
        (air("decrease", "illuminance", lamp, illuminance_lux=700.0), "lamp"),
        (air("increase", "illuminance", lamp, illuminance_lux=700.0), ""),
    ]
    for number, (report, who) in enumerate(cases):
        assert [p.code for p in report.problems] == ([] if who else ["unreachable"]), number
        assert {order.device_id for order in report.orders} == ({who} if who else set()), number
    for room, verdict in ((27.0, "wrong"), (15.0, "ok")):
        told = air("decrease", "temperature", ac, feasibility="physical_limit", temperature_c=room)
        assert told.verdict == verdict
    bare = DeviceState(id="lamp", type="on_off_light", name="lamp", room="study")
    unknown = air("decrease", "illuminance", bare)
    assert unknown.verdict == "not checked" and "does not say what lamp does" in unknown.not_checked[0]


def test_how_long_an_appliance_runs_is_in_its_mode() -> None:
    """A dryer at normal dryness runs 45 minutes: 5 minutes after it is done is 50 after its start."""
    lamp = ("lamp", ON, True)
    for minute, codes in ((50.0, ["feasible"]), (55.0, [])):
        report = refused(
            "temporal_contradiction",
            steps=(
                step(When(at_min=0), ("dryer", CYCLE, 1)),
                step(When(at_min=minute, anchor_device="dryer", offset_min=5.0), lamp),
            ),
        )
        assert [p.code for p in report.problems] == codes


def test_a_cue_that_the_scene_does_not_have() -> None:
    """Nobody points, or nothing sounds: then nothing can be meant."""
    for grounding, sounding, pointing, verdict in (
        ("G2", (), None, "ok"),
        ("G2", ("lamp",), None, "not checked"),
        ("G1", ("lamp",), None, "ok"),
        ("G1", (), "lamp", "not checked"),
        ("G3", (), None, "not checked"),
    ):
        speaker = Placed(
            person="ada", mouth_m=(1.0, 1.0, 1.5), facing_deg=0.0, speaks=True, pointing_at=pointing
        )
        profile = Profile(
            id="e",
            session="s",
            created_utc="2026-01-01T00:00:00Z",
            origin="virtual",
            grounding=grounding,
            feasibility="nonexistent_resource",
            goal=Goal(kind="refusal", reason="so"),
            home=HOME,
            staging=Staging(room="study", people=(speaker,), sounding=sounding),
        )
        assert check_goal(profile).verdict == verdict, (grounding, sounding, pointing)


def test_schedules() -> None:
    def schedule(*steps: Step) -> GoalReport:
        return checked(Goal(kind="state", steps=steps))

    # In the order of their times: the second could not be reached after the first if they were swapped back.
    later = schedule(step(When(at_min=30), ("lamp", ON, False)), step(When(at_min=10), ("lamp", ON, True)))
    assert later.verdict == "ok" and [o.command for o in later.orders] == ["1.OnOff.On", "1.OnOff.Off"]
    clash = schedule(step(When(at_min=10), ("lamp", ON, False)), step(When(at_min=10), ("lamp", ON, True)))
    assert [p.code for p in clash.problems] == ["unreachable"]
    done = schedule(step(When(anchor_device="washer", offset_min=5), ("lamp", ON, True)))
    assert done.verdict == "ok"
    never = schedule(step(When(anchor_device="microwave", offset_min=5), ("lamp", ON, True)))
    assert [p.code for p in never.problems] == ["unreachable"]
    started = schedule(
        step(When(at_min=0), ("microwave", CYCLE, 1)),
        step(When(anchor_device="microwave", offset_min=5), ("lamp", ON, True)),
    )
    assert started.verdict == "not checked", "how long a microwave runs is not known"
    dried = schedule(
        step(When(at_min=3), ("dryer", CYCLE, 1)),
        step(When(anchor_device="dryer", offset_min=5), ("lamp", ON, True), ("dryer", CYCLE, 0)),
    )
    assert dried.verdict == "ok" and [o.device_id for o in dried.orders] == ["dryer", "dryer", "lamp"]
    # The washer has 20 minutes left: it is done then, and must be switched off before, or started again.
    for minute, value, verdict, commands in (
        (30, 0, "wrong", []),
        (10, 0, "ok", ["1.OnOff.Off"]),
        (10, 1, "wrong", []),
        (30, 1, "ok", ["1.OperationalState.Start"]),
    ):
        report = schedule(step(When(at_min=minute), ("washer", CYCLE, value)))
        assert (report.verdict, [o.command for o in report.orders]) == (verdict, commands), (minute, value)
        assert verdict == "ok" or [p.code for p in report.problems] == ["satisfied"]
    idle = schedule(step(When(at_min=5), ("lamp", ON, False)))
    assert [p.code for p in idle.problems] == ["satisfied"]


def test_the_goals_of_two_benchmarks_are_what_they_say(shared_data: Path) -> None:
    """SimuHome and Home Assistant's assist set: no label is contradicted, infeasible ones are shown so."""
    episodes = shared_data / "episodes"
    if not (episodes / "simuhome").is_dir():
        pytest.skip(f"the episodes are not in {episodes}")
    profiles = [read_simuhome(path) for path in sorted((episodes / "simuhome").glob("*.json"))]
    verdicts: dict[bool, list[str]] = {True: [], False: []}
    for profile in [*profiles, *read_assist_set(episodes / "ha-assist-mini")]:
        report = check_goal(profile)
        assert report.problems == [], (profile.id, report.problems)
        verdicts[profile.feasibility == "feasible"].append(report.verdict)
    assert verdicts[False] == ["ok"] * 16, "each infeasible request is shown to be"
    assert set(verdicts[True]) == {"ok"}


def test_verify_asks_rules_and_twin_and_says_nothing_twice(tmp_path: Path) -> None:
    profile = Profile(
        id="e",
        session="s",
        created_utc="2026-01-01T00:00:00Z",
        origin="virtual",
        feasibility="feasible",
        goal=Goal(kind="state", asserts=asserts(("lamp", ON, False))),
        home=HOME,
    )
    (tmp_path / "episode.yaml").write_text(profile_to_yaml(profile))
    ran = CliRunner().invoke(app, ["verify", str(tmp_path), "--json"])
    assert isinstance(ran.exception, CheckFailed)
    (result,) = json.loads(ran.stdout)["results"]
    assert [p["code"] for p in result["problems"]] == ["not_finished", "satisfied"] and not result["ok"]
    assert result["goal"]["verdict"] == "wrong"
    found = check_profile(profile)
    assert [(p.code, p.path) for p in found.problems] == [("satisfied", "episode.yaml")]
    assert found.goal is not None and found.goal["verdict"] == "wrong"
