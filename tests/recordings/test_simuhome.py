"""SimuHome's own files there and back, value by value. They are read where they are (CC BY-NC-ND 4.0)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dsp.errors import InputError
from recordings.combinations import profile_problems
from recordings.json_rest import rest_of, with_rest
from recordings.profile import Goal, Profile, profile_from_yaml, profile_to_yaml
from recordings.simuhome import QUERIES, profile_of_simuhome, read_simuhome, simuhome_of_profile


@pytest.fixture(scope="module")
def files(shared_data: Path) -> Path:
    folder = shared_data / "episodes" / "simuhome"
    if not folder.is_dir():
        pytest.skip(f"SimuHome's episodes are not in {folder}")
    return folder


@pytest.fixture(scope="module")
def imported(files: Path) -> dict[str, tuple[Any, Profile]]:
    """name -> (the file's JSON, its profile) of all files."""
    names = sorted(files.glob("*.json"))
    return {path.stem: (json.loads(path.read_text("utf-8")), read_simuhome(path)) for path in names}


def test_every_file_comes_back_as_it_was(imported: dict[str, tuple[Any, Profile]]) -> None:
    assert len(imported) == 32
    for name, (data, profile) in imported.items():
        if name == "qt4-3_infeasible_seed_51":  # PyYAML is slow: the smallest
            assert profile_from_yaml(profile_to_yaml(profile)) == profile, name
        stored = msgspec.json.decode(msgspec.json.encode(profile), type=Profile)
        assert stored == profile, name
        made = simuhome_of_profile(stored)
        # As text: 1, 1.0 and true are equal in Python, and not the same in a file.
        assert json.dumps(made, sort_keys=True) == json.dumps(data, sort_keys=True), name


def test_the_profile_holds_the_meaning_and_the_rest_only_what_it_has_no_field_for(
    imported: dict[str, tuple[Any, Profile]],
) -> None:
    """Without the rest: home, states, devices and values, times and query are there all the same."""
    for name, (data, profile) in imported.items():
        known = {k: v for k, v in profile.source["simuhome"].items() if k != "rest"}
        bare = simuhome_of_profile(replace(profile, source={**profile.source, "simuhome": known}))
        assert bare["query"] == data["query"] and bare["user_location"] == data["user_location"], name
        config, given = bare["initial_home_config"], data["initial_home_config"]
        assert (config["base_time"], config["tick_interval"]) == (given["base_time"], given["tick_interval"])
        for room, content in given["rooms"].items():
            assert config["rooms"][room]["devices"] == content["devices"], (name, room)
            # Some hundredfold float has no float that is a hundredth of it; that one is in the rest.
            assert config["rooms"][room]["state"] == pytest.approx(content["state"], rel=1e-15), (name, room)
        for made, goal in zip(bare["eval"]["goals"], data["eval"]["goals"], strict=True):
            for key in ("room_state", "direction", "variant", "attribute", "current_value", "unit", "anchor"):
                assert made.get(key) == goal.get(key), (name, key)
            if "when" in goal:
                for key in ("at_tick", "at_minutes", "tolerance_ticks"):
                    assert made["when"][key] == goal["when"][key], (name, key)
            for one, other in zip(made.get("targets", [made]), goal.get("targets", [goal]), strict=True):
                values = [[(a["attribute"], a["value"]) for a in g.get("asserts", [])] for g in (one, other)]
                assert values[0] == values[1], name


def test_query_numbers_are_permuted_and_profiles_are_right(
    imported: dict[str, tuple[Any, Profile]],
) -> None:
    kinds: dict[str, set[Any]] = {}
    for name, (data, profile) in imported.items():
        assert profile_problems(profile) == [], name
        kinds.setdefault(name.partition("_")[0], set()).add(profile.query)
        assert (profile.feasibility == "feasible") == (data["meta"]["case"] == "feasible")
    # The benchmark's own numbering: 1 inquiry, 2 implicit intent, 3 explicit control, 4-x scheduling.
    permuted = {"qt1": {"Q1"}, "qt2": {"Q4"}, "qt3": {"Q2"}}
    assert kinds == {**permuted, **{f"qt4-{n}": {"Q3"} for n in (1, 2, 3)}}
    assert {p.feasibility for n, (_, p) in imported.items() if n.startswith("qt4")} == {
        "feasible",
        "temporal_contradiction",
    }


def test_units_and_times_by_hand(imported: dict[str, tuple[Any, Profile]]) -> None:
    office = imported["qt1_feasible_seed_33"][1]
    assert office.home is not None and office.goal is not None
    assert office.home.room_states["bathroom"].humidity_percent == 62.65  # the file: 6265.0
    assert [v.value for v in office.goal.room_values] == [28.73, 61.82]
    walk = imported["qt4-3_feasible_seed_19"][1].goal
    assert walk is not None
    # The dishwasher has 5368 s left; the dryer is stopped 13 min, and runs 14 min after that.
    assert [(s.when.anchor_device, s.when.offset_min) for s in walk.steps] == [
        ("kitchen_dishwasher_1", 13.0),
        ("kitchen_dishwasher_1", 14.0),
    ]
    late = imported["qt4-1_infeasible_seed_33"][1].goal
    assert late is not None  # "At 6:42 PM, that's 13 minutes from now", said at 6:10 PM
    assert (late.steps[0].when.at_min, late.steps[0].when.offset_min) == (32.0, 13.0)


def test_what_is_changed_in_the_profile_comes_out_changed(imported: dict[str, tuple[Any, Profile]]) -> None:
    data, profile = imported["qt3_feasible_seed_33"]
    assert profile.goal is not None
    lower = replace(profile.goal.asserts[1], value=35)
    changed = replace(profile, goal=replace(profile.goal, asserts=(profile.goal.asserts[0], lower)))
    made = simuhome_of_profile(changed)
    assert made["eval"]["goals"][0]["asserts"][1]["value"] == 35
    assert made["initial_home_config"] == data["initial_home_config"]
    with pytest.raises(InputError, match="has no place any more"):
        simuhome_of_profile(replace(profile, goal=Goal(kind="state")))


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("meta"),
        lambda d: d["meta"].update(query_type="qt9"),
        lambda d: d["meta"].update(case="perhaps"),
        lambda d: d.update(query=7),
        lambda d: d["eval"].update(goals=None),
        lambda d: d["eval"]["goals"][0].pop("device_id"),
        lambda d: d["initial_home_config"].update(rooms=[]),
        lambda d: d["initial_home_config"]["rooms"]["kitchen"]["state"].update(temperature="warm"),
        lambda d: d["initial_home_config"]["rooms"]["kitchen"]["devices"].append({}),
    ],
)
def test_a_broken_file_is_an_input_error(files: Path, damage: Any) -> None:
    data = json.loads((files / "qt3_feasible_seed_33.json").read_text("utf-8"))
    damage(data)
    with pytest.raises(InputError, match="qt3_x"):
        profile_of_simuhome(data, "qt3_x")


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    for name, content, words in (
        ("a.json", "{", "not JSON"),
        ("b.json", "[]", "not an episode of SimuHome"),
        ("deep.json", "[" * 100_000, "not JSON"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=words):
            read_simuhome(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        read_simuhome(tmp_path / "c.json")
    assert len(QUERIES) == 6


def test_the_rest_of_two_values() -> None:
    wanted = {"a": [1, {"b": True, "c": 2.0}], "d": None}
    for made in ({"a": [1, {"b": 1, "c": 2}], "e": 0}, {"a": [1]}, {}, [], None):
        assert with_rest(made, rest_of(made, wanted), "x") == wanted
        assert json.dumps(with_rest(made, rest_of(made, wanted), "x")) == json.dumps(wanted)
    assert rest_of(wanted, wanted) == []
    with pytest.raises(InputError, match="no place"):
        with_rest({}, [{"at": ["a", 0], "value": 1}], "x")
