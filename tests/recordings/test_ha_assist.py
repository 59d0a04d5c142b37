"""Home Assistant's assist sets there and back; they are read where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from dsp.errors import InputError
from recordings.combinations import profile_problems
from recordings.ha_assist import assist_set_of_profiles, read_assist_set, write_assist_set
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Profile,
    profile_from_yaml,
    profile_to_yaml,
)

LIFT = "1.WindowCovering.TargetPositionLiftPercent100ths"


@pytest.fixture(scope="module")
def assist(shared_data: Path) -> Path:
    folder = shared_data / "episodes" / "ha-assist-mini"
    if not folder.is_dir():
        pytest.skip(f"the assist set is not in {folder}")
    return folder


def asserts(profile: Profile) -> list[tuple[str, str, Any]]:
    assert profile.goal is not None
    return [(a.device_id, a.attribute, a.value) for a in profile.goal.asserts]


def test_a_set_comes_back_as_it_was(assist: Path, tmp_path: Path) -> None:
    profiles = read_assist_set(assist)
    through_yaml = [profile_from_yaml(profile_to_yaml(profile)) for profile in profiles]
    assert through_yaml == profiles and len({p.id for p in profiles}) == len(profiles)
    written = write_assist_set(through_yaml, tmp_path / "out")
    files = {p.relative_to(assist) for p in assist.glob("*/*.yaml")}
    assert {p.relative_to(tmp_path / "out") for p in written} == files and len(files) == 10
    for name in files:
        assert yaml.safe_load((tmp_path / "out" / name).read_text("utf-8")) == yaml.safe_load(
            (assist / name).read_text("utf-8")
        ), name
    with pytest.raises(InputError, match="exists already"):
        write_assist_set(profiles, tmp_path / "out")


def test_goals_by_hand(assist: Path) -> None:
    by_request = {profile.request: profile for profile in read_assist_set(assist)}
    assert sum(1 for p in by_request.values() if profile_problems(p)) == 0
    assert asserts(by_request["Kitchen light off"]) == [("light.kitchen_light", "1.OnOff.OnOff", False)]
    assert asserts(by_request["Lock the entry lock"]) == [("lock.smart_lock", "1.DoorLock.LockState", 1)]
    assert asserts(by_request["Close the garage door"]) == [("cover.garage_door_opener", LIFT, 10000)]
    # Half open there and half closed here; 100 is open there and 0 here.
    assert asserts(by_request["Set the smart curtain to 50%"]) == [("cover.smart_curtain", LIFT, 5000)]
    assert asserts(by_request["Turn on the bedroom fan"]) == [
        ("fan.bedroom_fan", "1.OnOff.OnOff", True),
        ("fan.bedroom_fan", "1.FanControl.PercentCurrent", 100),
    ]
    garden = by_request["Turn on the Backyard light"]
    assert garden.target_device == "light.garden_light" and garden.home is not None
    device = next(d for d in garden.home.devices if d.id == garden.target_device)
    assert (device.type, device.room, device.attributes["1.OnOff.OnOff"]) == (
        "dimmable_light",
        "backyard",
        False,
    )


def test_sentences_of_one_test_are_one_truth(assist: Path) -> None:
    profiles = read_assist_set(assist / "home1-us-lock")
    assert len(profiles) == 4
    with pytest.raises(InputError, match="another goal"):
        assist_set_of_profiles([profiles[0], replace(profiles[1], goal=profiles[2].goal)])
    with pytest.raises(InputError, match="the same test and sentence"):
        assist_set_of_profiles([profiles[0], profiles[0]])


def own(**fields: Any) -> Profile:
    lamp = DeviceState(
        id="desk_lamp",
        type="dimmable_light",
        name="desk lamp",
        room="study",
        attributes={"1.OnOff.OnOff": False, "1.LevelControl.CurrentLevel": 80},
    )
    given: dict[str, Any] = {
        "id": "ep0001",
        "session": "s",
        "created_utc": "2026-01-01T00:00:00Z",
        "origin": "recorded",
        "query": "Q2",
        "feasibility": "feasible",
        "request": "Lamp on",
        "home": HomeState(devices=(lamp,), rooms=("study",)),
        "goal": Goal(
            kind="state", asserts=(Assert(device_id="desk_lamp", attribute="1.OnOff.OnOff", value=True),)
        ),
    }
    return Profile(**{**given, **fields})


def test_a_profile_of_our_own_becomes_a_home(tmp_path: Path) -> None:
    write_assist_set([own()], tmp_path)
    (back,) = read_assist_set(tmp_path)
    assert back.request == "Lamp on"
    assert asserts(back) == [("light.desk_lamp", "1.OnOff.OnOff", True)]
    assert back.home is not None and back.home.devices[0].attributes["1.OnOff.OnOff"] is False
    assert back.home.devices[0].type == "dimmable_light"


def test_what_a_set_cannot_say_is_refused() -> None:
    level = Assert(device_id="desk_lamp", attribute="1.Thermostat.SystemMode", value=3)
    for fields, words in (
        ({"feasibility": "physical_limit"}, "feasible requests"),
        ({"goal": Goal(kind="answer")}, "states at the end"),
        ({"goal": Goal(kind="state", asserts=(level,))}, "cannot say"),
    ):
        with pytest.raises(InputError, match=words):
            assist_set_of_profiles([own(**fields)])
    tv = DeviceState(id="tv", type="tv", name="tv", room="study", attributes={"1.OnOff.OnOff": False})
    goal = Goal(kind="state", asserts=(Assert(device_id="tv", attribute="1.OnOff.OnOff", value=True),))
    with pytest.raises(InputError, match="no kind of entity for 'tv'"):
        assist_set_of_profiles([own(home=HomeState(devices=(tv,)), goal=goal)])


@pytest.mark.parametrize(
    ("fixtures", "tests", "words"),
    [
        ("entities: [", "tests: []", "not valid YAML"),
        ("a: 1", "tests: [{sentences: [x], expect_changes: {}}]", "not tests of an assist set"),
        ("[]", "tests: [{sentences: [x], expect_changes: {}}]", "not tests of an assist set"),
        ("{entities: [], areas: []}", "[]", "not tests of an assist set"),
        (
            "{entities: [], areas: []}",
            "tests: [{sentences: [x], expect_changes: {light.x: {state: 'on'}}}]",
            "none of the entities",
        ),
    ],
)
def test_a_broken_set_is_an_input_error(tmp_path: Path, fixtures: str, tests: str, words: str) -> None:
    (tmp_path / "_fixtures.yaml").write_text(fixtures)
    (tmp_path / "x.yaml").write_text(tests)
    with pytest.raises(InputError, match=words):
        read_assist_set(tmp_path)


def test_no_set_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no assist set"):
        read_assist_set(tmp_path)
