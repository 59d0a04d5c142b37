"""The exported schema against a validator of its own, and the commands `hearth profile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from dsp.errors import CheckFailed, InputError
from hearth import app
from recordings.combinations import profile_problems
from recordings.ha_assist import read_assist_set
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.plan.store import plan_to_yaml
from recordings.profile import Assert, Goal, Profile, profile_to_yaml
from recordings.profile_schema import MEANINGS, profile_schema
from recordings.simuhome import read_simuhome

jsonschema = pytest.importorskip("jsonschema", reason="the jsonschema library is not installed (extra dev)")


ALIKE = ("grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = profile_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def profile(**fields: Any) -> Profile:
    given = {"id": "e", "session": "s", "created_utc": "2026-01-01T00:00:00Z", "origin": "virtual"}
    return Profile(**{**given, **fields})


@pytest.fixture(scope="module")
def planned() -> list[Profile]:
    same = ("id", *ALIKE, "goal", "home", "staging")
    items = make_plan(*virtual_home(), 3).items
    return [profile(**{key: getattr(item, key) for key in same}) for item in items]


def test_every_key_has_a_meaning_and_every_quantity_a_unit() -> None:
    schema = profile_schema()
    assert set(schema["$defs"]) == set(MEANINGS)
    for name, kind in schema["$defs"].items():
        assert kind["additionalProperties"] is False, "a misspelt key is an error there too"
        assert set(kind["properties"]) == set(MEANINGS[name])
        for key, value in kind["properties"].items():
            assert value["description"], (name, key)
            kinds = json.dumps([value.get("type"), value.get("anyOf"), value.get("items")])
            quantity = "number" in kinds or ("integer" in kinds and key != "hearth_episode")
            assert not quantity or value["x-unit"], f"{name}.{key} is a quantity without a unit"
    assert r"\Z" not in json.dumps(schema)


def test_real_profiles_are_valid(validator: Any, planned: list[Profile], shared_data: Path) -> None:
    found = [*planned[::16], profile()]
    episodes = shared_data / "episodes"
    if episodes.is_dir():
        found += [read_simuhome(path) for path in sorted((episodes / "simuhome").glob("*.json"))[::16]]
        found += read_assist_set(episodes / "ha-assist-mini")[::9]
    for one in found:
        assert list(validator.iter_errors(msgspec.json.decode(msgspec.json.encode(one)))) == [], one.id
    # As episode.yaml on disk, too.
    assert list(validator.iter_errors(yaml.safe_load(profile_to_yaml(planned[0])))) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p.pop("id"),
        lambda p: p.update(id="../e"),
        lambda p: p.update(id="e\n"),
        lambda p: p.update(grounding="G5"),
        lambda p: p.update(target="lamp"),
        lambda p: p.update(take=0),
        lambda p: p["goal"].update(kind="wish"),
        lambda p: p["home"]["devices"][0].update(position_m=[1.0, 2.0]),
        lambda p: p["home"]["devices"][0].update(attributes={"1.OnOff.OnOff": [True]}),
        lambda p: p["staging"]["people"][0].pop("mouth_m"),
        lambda p: p["staging"].update(sounding="lamp"),
        lambda p: p.update(hearth_episode=2),
    ],
)
def test_schema_and_reader_refuse_the_same(validator: Any, planned: list[Profile], damage: Any) -> None:
    plain = msgspec.json.decode(msgspec.json.encode(planned[0]))
    damage(plain)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain, Profile)
    if (
        plain.get("id") != "e\n"
    ):  # `$` of Python's re also matches before a newline at the end; ECMA's does not
        assert list(validator.iter_errors(plain))


def test_the_rules_that_a_schema_can_say_are_those_of_the_rules(
    validator: Any, planned: list[Profile]
) -> None:
    """Every change of class of a planned profile: the schema refuses what the rules refuse for these."""
    reasons = {"combination", "goal_kind", "difficulty"}
    checked = 0
    for one in planned[::40]:
        one = msgspec.structs.replace(one, home=None, staging=None)
        for grounding in ("G0", "G1", "G4"):
            for query in ("Q1", "Q2", "Q4"):
                for feasibility in ("feasible", "nonexistent_resource", "physical_limit"):
                    changed = msgspec.structs.replace(
                        one, grounding=grounding, query=query, feasibility=feasibility
                    )
                    found = profile_problems(changed)
                    told = {p.code for p in found} & reasons or any("has no target" in str(p) for p in found)
                    plain = msgspec.json.decode(msgspec.json.encode(changed))
                    assert bool(told) == bool(list(validator.iter_errors(plain))), (one.id, found)
                    checked += bool(told)
    assert checked > 50


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["profile", *map(str, arguments)])


def test_schema_and_check(tmp_path: Path, planned: list[Profile]) -> None:
    plan = make_plan(*virtual_home(), 3, per_cell=1)
    items = (msgspec.structs.replace(plan.items[0], skip=True), *plan.items[1:])
    plan = msgspec.structs.replace(plan, items=items)
    assert json.loads(run("schema").stdout) == profile_schema()
    assert run("schema", "--out", tmp_path / "s.json").exit_code == 0
    assert json.loads((tmp_path / "s.json").read_text()) == profile_schema()
    good, bad = planned[0], msgspec.structs.replace(planned[1], speaker="nobody")
    for one in (good, bad):
        (tmp_path / f"{one.id}.yaml").write_text(profile_to_yaml(one))
    result = run("check", tmp_path / f"{good.id}.yaml", "--complete", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["results"][0]["ok"] is True
    (tmp_path / "planned").mkdir()
    (tmp_path / "planned" / "plan.yaml").write_text(plan_to_yaml(plan))
    result = run("check", tmp_path / "planned", "--complete", "--json")
    assert result.exit_code == 0 and len(json.loads(result.stdout)["results"]) == len(plan.items) - 1
    result = run("check", tmp_path, "--json")
    assert isinstance(result.exception, CheckFailed)
    rows = {row["profile"]: row for row in json.loads(result.stdout)["results"]}
    assert rows[good.id]["ok"] and "speaker" in {p["code"] for p in rows[bad.id]["problems"]}
    assert rows[good.id]["goal"]["verdict"] in ("ok", "not checked")


def test_import_and_export(tmp_path: Path, shared_data: Path) -> None:
    episodes = shared_data / "episodes"
    if not episodes.is_dir():
        pytest.skip(f"the episodes are not in {episodes}")
    one = episodes / "simuhome" / "qt4-3_feasible_seed_51.json"
    result = run(
        "import", one, episodes / "ha-assist-mini" / "home5-cn-fan", "--into", tmp_path / "p", "--json"
    )
    assert result.exit_code == 0, result.exception
    told = json.loads(result.stdout)
    assert told["profiles"] == 5 and len(told["files"]) == 5 and "CC BY-NC-ND" in " ".join(told["licences"])
    again = run("import", one, "--into", tmp_path / "p")
    assert isinstance(again.exception, InputError) and "exists already" in str(again.exception)
    back = run("export", tmp_path / "p" / f"{one.stem}.yaml", "--to", "simuhome", "--out", tmp_path / "s")
    assert back.exit_code == 0
    assert json.loads((tmp_path / "s" / one.name).read_text("utf-8")) == json.loads(one.read_text("utf-8"))
    fans = [path for path in told["files"] if "home5" in path]
    assert run("export", *fans, "--to", "ha-assist", "--out", tmp_path / "h").exit_code == 0
    assert yaml.safe_load((tmp_path / "h" / "home5-cn-fan" / "fan.yaml").read_text()) == yaml.safe_load(
        (episodes / "ha-assist-mini" / "home5-cn-fan" / "fan.yaml").read_text()
    )
    assert isinstance(run("export", *fans, "--to", "dcase", "--out", tmp_path).exception, InputError)
    assert isinstance(run("import", tmp_path / "none.json", "--into", tmp_path).exception, InputError)


def test_a_plan_profile_as_simuhome(planned: list[Profile]) -> None:
    """Our own episodes have the benchmark's shape too, with its query numbers and units."""
    from recordings.simuhome import profile_of_simuhome, simuhome_of_profile

    done = 0
    for one in planned[::5]:
        assert one.goal is not None
        if any(step.when.anchor_device for step in one.goal.steps):
            continue  # SimuHome wants the tick at which the appliance is done
        if one.query == "Q4" and one.goal.asserts:
            with pytest.raises(InputError, match="air or light"):
                simuhome_of_profile(one)
            continue
        data = json.loads(json.dumps(simuhome_of_profile(one)))
        back = profile_of_simuhome(data, one.id)
        for key in (*ALIKE, "goal", "home", "staging"):
            assert getattr(back, key) == getattr(one, key), (one.id, key)
        assert (
            data["meta"]["query_type"][:3]
            == {"Q1": "qt1", "Q2": "qt3", "Q3": "qt4", "Q4": "qt2"}[str(one.query)]
        )
        again = msgspec.structs.replace(back, speaker="somebody else")
        assert profile_of_simuhome(simuhome_of_profile(again), one.id).speaker == "somebody else"
        done += 1
    assert done > 10
    level = Goal(kind="state", asserts=(Assert(device_id="x", attribute="1.A.B", value=1),))
    with pytest.raises(InputError, match="needs query"):
        simuhome_of_profile(profile(goal=level))
