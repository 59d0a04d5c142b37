"""Scores with truths worked out by hand, and of answer files whose score is known beforehand."""

from __future__ import annotations

import csv
import io
import json
import math
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dsp.errors import CheckFailed, InputError
from hearth import app
from recordings.evaluate.answers import Answer, StateAt, collect, read_answers, write_answers
from recordings.evaluate.episodes import profiles_of
from recordings.evaluate.evaluation import Evaluation, Share, evaluate
from recordings.evaluate.goal_score import Scored, score_goal
from recordings.evaluate.reference import chance, empty, perfect, shuffled
from recordings.evaluate.tables import table_csv, table_lines
from recordings.evaluate.words import everyday, names_cause, says_truth
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Profile,
    RoomChange,
    RoomValue,
    Step,
    When,
    profile_to_yaml,
)

ON, LEVEL, CYCLE = "1.OnOff.OnOff", "1.LevelControl.CurrentLevel", "1.OperationalState.OperationalState"
HOME = HomeState(
    devices=(
        DeviceState(
            id="lamp", type="dimmable_light", name="light 1", room="study", attributes={ON: False, LEVEL: 254}
        ),
        DeviceState(
            id="washer",
            type="laundry_washer",
            name="washer",
            room="bath",
            attributes={CYCLE: 1, "1.OperationalState.CountdownTime": 1200},
        ),
        DeviceState(id="oven", type="oven", name="oven", room="bath", attributes={CYCLE: 1}),
    ),
    rooms=("study", "bath"),
)
LIGHT = Goal(kind="state", asserts=(Assert(device_id="lamp", attribute=ON, value=True),))
REFUSAL = Goal(kind="refusal", reason="there is no television")


def profile(name: str = "e1", **fields: Any) -> Profile:
    given: dict[str, Any] = {
        "id": name,
        "session": "s",
        "created_utc": "2026-01-01T00:00:00Z",
        "origin": "virtual",
        "grounding": "G0",
        "query": "Q2",
        "feasibility": "feasible",
        "request": "Turn on light 1",
        "target_device": "lamp",
        "goal": LIGHT,
        "home": HOME,
    }
    return Profile(**{**given, **fields})


def answer(**fields: Any) -> Answer:
    return Answer(**{"episode": "e1", "declared": "lamp", "final_state": {}, "outcome": "done", **fields})


@pytest.fixture(scope="module")
def planned() -> list[Profile]:
    """The whole shooting plan as profiles: 272 episodes, 17 combinations, half of them infeasible."""
    rooms, participants = virtual_home()
    same = ("id", "grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device")
    same += ("goal", "home", "staging")
    items = make_plan(rooms, participants, 7).items
    return [profile(**{key: getattr(item, key) for key in same}) for item in items]


# ------------------------------------------------------------------ what is known beforehand


def test_perfect_answers_have_all_and_nothing_is_left_to_a_judge(planned: list[Profile]) -> None:
    found = evaluate(planned, collect(perfect(p) for p in planned))
    assert found.shares() == (Share(272, 272, 0), Share(272, 272, 0)) and found.complete
    for cell in found.to_dict()["cells"]:
        assert (cell["grounding"]["of"], cell["grounding"]["share"], cell["goal"]["share"]) == (8, 1.0, 1.0)
    assert len(found.to_dict()["cells"]) == 34


def test_empty_answers_have_the_share_of_none(planned: list[Profile]) -> None:
    none = sum(p.feasibility == "nonexistent_resource" for p in planned)
    found = evaluate(planned, collect(empty(p) for p in planned))
    assert found.shares() == (Share(none, 272, 0), Share(0, 272, 0)) and found.complete and none > 50
    nothing = evaluate(planned, collect([]))
    assert nothing.shares() == (Share(0, 272, 0), Share(0, 272, 0)) and not nothing.complete
    assert nothing.missing == tuple(p.id for p in planned)


def test_shuffled_answers_have_chance(planned: list[Profile]) -> None:
    """The mean of shuffles against the closed form, within four standard errors."""
    targets = [None if p.feasibility == "nonexistent_resource" else p.target_device for p in planned]
    expected, sigma = chance(targets)
    answers, seeds = [perfect(p) for p in planned], range(12)
    shares = [evaluate(planned, collect(shuffled(answers, seed))).shares()[0] for seed in seeds]
    mean = sum(share.right / share.of for share in shares) / len(seeds)
    assert abs(mean - expected) < 4 * sigma / math.sqrt(len(seeds))
    assert 0.01 < expected < 0.3


@pytest.mark.parametrize("targets", ["aabbc", "aaaa", "abcd", "aabb", "a", ["a", None, None]])
def test_chance_against_every_permutation(targets: Any) -> None:
    matches = [sum(a == b for a, b in zip(targets, p, strict=True)) for p in permutations(targets)]
    mean = sum(matches) / len(matches)
    sigma = math.sqrt(sum((m - mean) ** 2 for m in matches) / len(matches))
    assert chance(targets) == pytest.approx((mean / len(targets), sigma / len(targets)))


def test_wilson_interval_against_published_values() -> None:
    # Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3 (Wilson without correction).
    for right, of, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert Share(right, of).interval() == pytest.approx((low, high), abs=5e-5)
    assert Share().interval() is None and Share().to_dict()["share"] is None


# ------------------------------------------------------------------ grounding


def test_grounding() -> None:
    there = profile()
    absent = profile("e2", feasibility="nonexistent_resource", target_device=None, goal=REFUSAL)
    for given, declared, right in (
        (there, "lamp", True),
        (there, "washer", False),
        (there, None, False),
        (absent, None, True),
        (absent, "lamp", False),
    ):
        scored = evaluate([given], collect([answer(episode=given.id, declared=declared)])).scores[0].grounding
        assert scored is not None and (scored.verdict == "right") is right
    silent = evaluate([absent], collect([Answer(episode="e2")])).scores[0].grounding
    assert silent == Scored("wrong", "rules", "nothing was declared")
    room = profile(target_device=None, query="Q1")
    assert evaluate([room], collect([answer()])).scores[0].grounding is None, "there is no device to declare"


# ------------------------------------------------------------------ goals by state


def verdict(given: Profile, told: Answer) -> str:
    return score_goal(given, told, None).verdict


def test_final_state() -> None:
    assert verdict(profile(), answer(final_state={"lamp": {ON: True}})) == "right"
    for state in ({}, {"lamp": {ON: False}}, {"lamp": {ON: 1}}, {"washer": {ON: True}}):
        assert verdict(profile(), answer(final_state=state)) == "wrong"
    assert verdict(profile(), answer(final_state=None)) == "error"
    kept = Goal(kind="state", asserts=(*LIGHT.asserts, Assert(device_id="lamp", attribute=LEVEL, value=254)))
    assert verdict(profile(goal=kept), answer(final_state={"lamp": {ON: True}})) == "right", (
        "the level stayed"
    )


def test_steps_hold_in_their_time() -> None:
    def later(*moments: tuple[float, bool], **fields: Any) -> Answer:
        states = tuple(StateAt(at_min=at, state={"lamp": {ON: on}}) for at, on in moments)
        return answer(states_at=states, **fields)

    on = LIGHT.asserts
    at_ten = profile(query="Q3", goal=Goal(kind="state", steps=(Step(when=When(at_min=10), asserts=on),)))
    for moments, right in (
        (((10.0, True),), "right"),
        (((3.0, True),), "right"),  # it held since then
        (((10.4, True),), "right"),  # within the tolerance of 30 s
        (((10.6, True),), "wrong"),
        (((3.0, True), (9.0, False)), "wrong"),
        (((3.0, True), (9.8, False)), "right"),  # at 9.5 min it was still on
        (((20.0, True),), "wrong"),
        ((), "wrong"),
    ):
        assert verdict(at_ten, later(*moments)) == right, moments
    assert verdict(at_ten, answer(states_at=None)) == "error"
    after = Step(when=When(anchor_device="washer", offset_min=5), asserts=on)
    anchored = profile(query="Q3", goal=Goal(kind="state", steps=(after,)))  # 20 min left, so 25
    assert verdict(anchored, later((25.0, True))) == "right"
    assert verdict(anchored, later((26.0, True))) == "wrong"
    oven = Step(when=When(anchor_device="oven", offset_min=-5), asserts=on)
    unknown = profile(query="Q3", goal=Goal(kind="state", steps=(oven,)))
    assert verdict(unknown, later((40.0, True))) == "error"
    assert verdict(unknown, later((40.0, True), done_min={"oven": 45.0})) == "right"
    both = profile(query="Q3", goal=Goal(kind="state", steps=(after, oven)))
    assert verdict(both, later((40.0, True), done_min={"oven": 45.0})) == "wrong", "wrong before unknown"


def test_rooms_against_the_untouched_home() -> None:
    change = RoomChange(room="study", variable="temperature", direction="decrease")
    cooler = profile(query="Q4", goal=Goal(kind="state", changes=(change,)))

    def ended(value: float, alone: float) -> Answer:
        return answer(
            rooms={"study": {"temperature": value}}, rooms_untouched={"study": {"temperature": alone}}
        )

    # Warmer than at the start, and still cooler than it would have become.
    assert verdict(cooler, ended(23.0, 24.0)) == "right"
    assert verdict(cooler, ended(24.0, 24.0)) == "wrong" and verdict(cooler, ended(25.0, 24.0)) == "wrong"
    assert verdict(cooler, ended(24.0 - 1e-9, 24.0)) == "wrong", "SimuHome asks for 1e-8"
    assert verdict(cooler, answer()) == "error"


# ------------------------------------------------------------------ words


def test_refusals() -> None:
    absent = profile(feasibility="nonexistent_resource", target_device=None, goal=REFUSAL)
    told = {"answer": "Sorry, there is no television here.", "outcome": "refused"}
    for fields, right in (
        (told, "right"),
        ({**told, "final_state": {"lamp": {ON: False}}}, "right"),
        ({**told, "final_state": {"lamp": {ON: True}}}, "wrong"),
        ({**told, "outcome": "done"}, "wrong"),
        ({**told, "answer": " "}, "wrong"),
        ({**told, "answer": "I do not know how."}, "error"),  # needs a judge
        ({**told, "outcome": "asked"}, "error"),
        ({**told, "final_state": None}, "error"),
    ):
        assert verdict(absent, answer(**fields)) == right, fields
    assert names_cause("No: THERE IS no television!", "There is no television") is True
    assert names_cause("there is no televisions", "there is no television") is None


def truth(attribute: str, value: Any) -> Goal:
    return Goal(kind="answer", asserts=(Assert(device_id="lamp", attribute=attribute, value=value),))


@pytest.mark.parametrize(
    ("goal", "text", "expected"),
    [
        (truth(ON, True), "It is on.", True),
        (truth(ON, True), "The lamp on the desk is currently off.", False),
        (truth(ON, True), "It is not on.", None),
        (truth(ON, False), "It isn't on, it is off.", None),
        (truth(ON, False), "the lamp on the desk", None),
        (truth(CYCLE, 2), "The washer is paused.", True),
        (truth(CYCLE, 2), "The washer is running.", False),
        (truth(CYCLE, 2), "It was running and is paused.", None),
        (truth(LEVEL, 127), "It is at 50 %.", True),  # 127 of 254
        (truth(LEVEL, 127), "It is at 127.", True),
        (truth(LEVEL, 127), "It is at 60 %.", False),
        (truth(LEVEL, 127), "Light 1 is at 50 %.", True),  # the 1 is a name
        (truth(LEVEL, 127), "50 or 60 %", None),
        (truth("1.Thermostat.OccupiedCoolingSetpoint", 2150), "It is set to 21.5 degrees.", True),
        (truth("1.Thermostat.OccupiedCoolingSetpoint", 2150), "It is set to 21.4 degrees.", False),
        (truth("1.Thermostat.OccupiedHeatingSetpoint", -150), "It is −1.5 degrees.", True),
        (truth("0.BasicInformation.VendorName", "Acme"), "It was made by ACME.", True),
        (truth("0.BasicInformation.VendorName", "Acme"), "It was made by Bolt.", None),
        (truth(ON, None), "It is on.", None),
        (truth(ON, True), "", None),
    ],
)
def test_what_words_say_of_a_value(goal: Goal, text: str, expected: bool | None) -> None:
    assert says_truth(text, goal, ["Is light 1 on?"]) is expected


def test_two_values_and_rooms() -> None:
    told = (
        RoomValue(room="a", variable="pm10", value=28.73),
        RoomValue(room="b", variable="humidity", value=61.8),
    )
    both = Goal(kind="answer", room_values=told)
    assert says_truth("28.7 there and 62 percent here", both) is True
    assert says_truth("28.7 there", both) is None, "the other one is left out: a judge decides"
    assert says_truth("28.7 there and 62 percent here, 5 in the attic", both) is None
    asked = profile(query="Q1", goal=both, target_device=None)
    assert verdict(asked, answer(answer="28.7 and 61.8")) == "right"
    assert verdict(asked, answer(answer="")) == "wrong"
    assert verdict(asked, answer(answer="28.7 and 61.8", outcome="refused")) == "wrong"
    for value in (True, False, 127, 21.5, "Acme"):
        assert says_truth(
            everyday(Assert(device_id="x", attribute="1.A.B", value=value)), truth("1.A.B", value)
        )


# ------------------------------------------------------------------ files and the command


def test_unknown_duplicate_and_missing_answers_are_named() -> None:
    given = [profile("e1"), profile("e2"), profile("e3")]
    right = {"final_state": {"lamp": {ON: True}}}
    told = collect(answer(episode=name, **right) for name in ("e1", "e2", "e2", "e9"))
    found = evaluate(given, told)
    assert (found.missing, found.duplicates, found.unknown) == (("e3",), ("e2",), ("e9",))
    assert [s.goal.verdict for s in found.scores if s.goal] == ["right", "error", "wrong"]
    assert found.shares() == (Share(1, 3, 1), Share(1, 3, 1)) and not found.complete
    with pytest.raises(InputError, match="two episodes have the id 'e1'"):
        evaluate([profile(), profile()], told)
    with pytest.raises(InputError, match="nothing to score"):
        evaluate([profile(goal=None, target_device=None)], told)


def test_answer_files(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    one = answer(states_at=(StateAt(at_min=1.0, state={"lamp": {ON: True}}),), rooms={"study": {"pm10": 1.0}})
    file.write_bytes(b"\n" + write_answers([one, Answer(episode="e2")]))
    read = read_answers(file)
    assert read.by_episode == {"e1": one, "e2": Answer(episode="e2")}
    assert read.by_episode["e2"].declared is msgspec.UNSET, "not declared is not the same as none"
    for line, words in (
        ('{"episode": "e1"', "line 2"),
        ('{"declared": null}', "episode"),
        ('{"episode": "e1", "declare": null}', "declare"),
        ('{"episode": "e1", "declared": 3}', "declared"),
        ('{"episode": "e1", "outcome": "perhaps"}', "outcome"),
        ('{"episode": "e1", "final_state": {"lamp": true}}', "final_state"),
        ("[]", "line 2"),
        ("\xff", "line 2"),
    ):
        file.write_bytes(b'{"episode": "e0"}\n' + line.encode("latin-1"))
        with pytest.raises(InputError, match=words) as error:
            read_answers(file)
        assert "line 2" in str(error.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_answers(tmp_path)
    with open(file, "wb") as huge:
        huge.truncate(1 << 40)  # a sparse file
    with pytest.raises(InputError, match="more than an answer file can have"):
        read_answers(file)


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    given = [profile("e1"), profile("e2", grounding="G1", feasibility="physical_limit", goal=REFUSAL)]
    for one in given:
        (folder / f"{one.id}.yaml").write_text(profile_to_yaml(one))
    assert profiles_of([folder]) == profiles_of(sorted(folder.iterdir())) == given
    told = tmp_path / "answers.jsonl"
    told.write_bytes(write_answers(perfect(one) for one in given))
    result = run(told, folder, "--csv", tmp_path / "t.csv")
    assert result.exit_code == 0 and "100.0 / 100.0" in result.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert {
        "part": "cell",
        "name": "G1 Q2 infeasible",
        "measure": "goal",
        "right": "1",
        "of": "1",
    }.items() <= rows[-1].items()
    told.write_bytes(write_answers([answer(episode="e9"), answer(final_state={"lamp": {ON: True}})]))
    result = run(told, folder, "--json")
    assert isinstance(result.exception, CheckFailed)
    data = json.loads(result.stdout)
    assert data["missing"] == ["e2"] and data["unknown"] == ["e9"] and data["ok"] is False
    assert data["overall"]["goal"]["right"] == 1 and data["overall"]["goal"]["share"] == 0.5
    for arguments, words in (
        ((told, tmp_path / "none"), "no such file or folder"),
        ((told, folder, "--judge", "http://localhost:1/v1"), "belong together"),
        ((told, folder, "--csv", tmp_path / "none" / "t.csv"), "there is no folder"),
        ((told, folder, "--judge", "localhost", "--model", "m"), "address looks like"),
        ((told, folder, "--judge", "http://localhost:1", "--model", " "), "--model"),
    ):
        result = run(*arguments)
        assert isinstance(result.exception, InputError) and words in str(result.exception)
    (tmp_path / "hollow").mkdir()
    with pytest.raises(InputError, match="no episode and no profile"):
        profiles_of([tmp_path / "hollow"])


def test_of_a_guided_session_only_kept_takes_count(tmp_path: Path) -> None:
    lines = []
    for number in (1, 2):
        name = f"ep0001-t{number}"
        (tmp_path / "s" / name).mkdir(parents=True)
        (tmp_path / "s" / name / "episode.yaml").write_text(
            profile_to_yaml(profile(name, plan_item="ep0001"))
        )
        step = {"step": "kept" if number == 2 else "retake", "t_utc": "2026-01-01T00:00:00Z"}
        lines.append({**step, "item": "ep0001", "take": number, "episode": name})
    assert len(profiles_of([tmp_path])) == 2, "without a journal all count"
    (tmp_path / "s" / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [p.id for p in profiles_of([tmp_path])] == ["ep0001-t2"]
    assert [p.id for p in profiles_of([tmp_path / "s" / "ep0001-t1"])] == ["ep0001-t1"], (
        "one that is named counts"
    )


def test_tables_have_the_form_of_the_benchmark(planned: list[Profile]) -> None:
    found: Evaluation = evaluate(planned, collect(empty(p) for p in planned))
    lines = table_lines(found)
    assert lines[1].split()[::2] == ["G0", "G1", "G2", "G3", "G4", "all"]
    rows_of = {line[:14].strip(): line[14:] for line in lines[2:13]}
    assert list(rows_of)[-3:] == ["all feasible", "all infeasible", "all"] and len(rows_of) == 11
    assert rows_of["Q4 feasible"].count("- / -") == 3, "implicit intent goes with speech and identity only"
    assert rows_of["Q2 feasible"].split() == ["0.0", "/", "0.0"] * 6, "a device is there, none was declared"
    assert max(map(len, lines)) < 110
    rows = list(csv.DictReader(io.StringIO(table_csv(found))))
    cells = [row for row in rows if row["part"] == "cell" and row["measure"] == "grounding"]
    assert len(cells) == 34 and sum(int(row["of"]) for row in cells) == 272
    assert sum(int(row["right"]) for row in cells) == found.shares()[0].right


def test_a_pipe_is_refused_and_never_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "answers.jsonl")
    with pytest.raises(InputError, match="no regular file"):
        read_answers(tmp_path / "answers.jsonl")
