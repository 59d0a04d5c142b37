"""Refusals judged by hand: which of them explain the cause, and which say something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dsp.errors import InputError
from hearth import app
from recordings.evaluate.answers import Answer, write_answers
from recordings.evaluate.causes import explains
from recordings.evaluate.goal_score import score_goal
from recordings.evaluate.rule_judge import RuleJudge
from recordings.profile import (
    Assert,
    DeviceState,
    Goal,
    HomeState,
    Member,
    Profile,
    Staging,
    Step,
    When,
    profile_to_yaml,
)

ANNA, BEN = Member(id="anna", name="Anna", room="bedroom"), Member(id="ben", name="Ben", room="study")
LAMP = DeviceState(
    id="l1", type="on_off_light", name="corner lamp", room="kitchen", attributes={"1.OnOff.OnOff": False}
)


def _profile(kind: str, request: str, reason: str, steps: tuple[Step, ...] = ()) -> Profile:
    home = HomeState(
        devices=(LAMP,),
        rooms=("kitchen", "bedroom", "study"),
        household=(ANNA, BEN),
        clock="2026-06-01 14:05:00",
    )
    return Profile(
        id="e1",
        session="s",
        created_utc="2026-06-01T00:00:00Z",
        origin="virtual",
        feasibility=kind,
        request=request,
        speaker="anna",
        goal=Goal(kind="refusal", reason=reason, steps=steps),
        home=home,
        staging=Staging(room="kitchen"),
    )


def _at(at_min: float, value: bool = True, offset_min: float = 0.0) -> Step:
    when = When(at_min=at_min, offset_min=offset_min)
    return Step(when=when, asserts=(Assert(device_id="l1", attribute="1.OnOff.OnOff", value=value),))


NO_FRIDGE = _profile(
    "nonexistent_resource", "Put the fridge to my left on five degrees.", "There is no fridge in the kitchen."
)
NO_SOUND = _profile(
    "nonexistent_resource",
    "Turn off whatever is humming.",
    "Nothing in the kitchen is humming; only the radio is heard.",
)
NO_POINT = _profile(
    "nonexistent_resource",
    "Turn that off.",
    "Anna points at nothing, so that nobody can know what is meant.",
)
NOT_HERS = _profile("nonexistent_resource", "Turn my washing machine off.", "Anna has no washing machine.")
TOO_LOUD = _profile(
    "physical_limit",
    "Play the radio at one hundred and fifty percent.",
    "Its volume ends at one hundred percent; one hundred and fifty percent was asked for.",
)
TOO_COLD = _profile(
    "physical_limit",
    "Set the air conditioner to five degrees.",
    "It can be set from sixteen to thirty-two degrees; five degrees was asked for.",
)
NO_DIMMER = _profile(
    "physical_limit",
    "Dim the corner lamp to forty percent.",
    "This light can only be switched on and off; it cannot be dimmed.",
)
AT_MOST = _profile(
    "physical_limit", "The air in here is so dusty.", "The air purifier runs at one hundred percent already."
)
PAST = _profile(
    "temporal_contradiction",
    "Turn the lamp on at five past twelve in the afternoon today.",
    "It is five past two in the afternoon; five past twelve in the afternoon is over.",
    (_at(-120.0),),
)
TWO_TIMES = _profile(
    "temporal_contradiction",
    "In twenty minutes, that is at five to three in the afternoon, turn the lamp on.",
    "It is five past two in the afternoon; in twenty minutes it is twenty-five past two in the afternoon, not"
    " five to three in the afternoon.",
    (_at(50.0, offset_min=20.0),),
)
OPPOSITES = _profile(
    "temporal_contradiction",
    "Turn the lamp on at three o'clock in the afternoon, and make sure that it is still off at that minute.",
    "It cannot do that at three o'clock in the afternoon and still be off then.",
    (_at(55.0), _at(55.0, value=False)),
)


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        (NO_FRIDGE, "There is no refrigerator on your left."),
        (NO_FRIDGE, "Sorry, I cannot find a fridge there."),
        (NO_SOUND, "I hear nothing that hums."),
        (NO_POINT, "You are not pointing at anything, so I do not know which one you mean."),
        (NOT_HERS, "You have no washing machine, Anna."),
        (TOO_LOUD, "The volume can be 100 percent at most."),
        (TOO_COLD, "I can set it to between 16 and 32 degrees only, not to 5."),
        (NO_DIMMER, "The corner lamp cannot be dimmed."),
        (AT_MOST, "The purifier is already running at full speed."),
        (PAST, "12:05 has passed; it is 14:05 already."),
        (PAST, "Five past twelve is over for today."),
        (TWO_TIMES, "In 20 minutes it is 14:25, not 14:55."),
        (OPPOSITES, "It cannot be on and off at three o'clock in the afternoon."),
    ],
)
def test_other_words_for_the_same_cause(profile: Profile, text: str) -> None:
    assert explains(text, profile)


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        (NO_FRIDGE, "I cannot do that."),
        (NO_FRIDGE, "The fridge is on your left."),
        (NO_FRIDGE, "There is no microwave in the kitchen."),
        (NO_FRIDGE, "There is no fridge in the study."),
        (NO_FRIDGE, "The fridge can be set from one to seven degrees."),
        (NO_FRIDGE, "There is no fridge, or ten degrees is its limit."),
        (NO_SOUND, "There is no fridge here."),
        (NO_POINT, "There is nothing there."),
        (NOT_HERS, "Ben has no washing machine."),
        (TOO_LOUD, "The radio cannot be as loud as that."),
        (TOO_LOUD, "Its speed ends at 100 percent."),
        (TOO_COLD, "It can be set from one to seven degrees only."),
        (TOO_COLD, "There is no air conditioner here."),
        (AT_MOST, "There is no air purifier here."),
        (PAST, "Ten past one is over."),
        (PAST, "There is no lamp at five past twelve."),
        (TWO_TIMES, "It is past 14:05 already."),
        (TWO_TIMES, "That is not possible."),
        (OPPOSITES, "Three o'clock in the afternoon is over."),
    ],
)
def test_what_does_not_explain_it(profile: Profile, text: str) -> None:
    assert not explains(text, profile)


def _scored(profile: Profile, **answer: object) -> str:
    told = Answer(episode="e1", final_state={}, **answer)  # type: ignore[arg-type]
    return score_goal(profile, told, RuleJudge()).verdict


def test_the_judge_wants_a_refusal_and_an_untouched_home() -> None:
    text = "There is no fridge on your left."
    assert _scored(NO_FRIDGE, answer=text, outcome="refused") == "right"
    assert _scored(NO_FRIDGE, answer=text, outcome="done") == "wrong"
    assert _scored(NO_FRIDGE, answer=text, outcome="failed") == "wrong"
    changed = Answer(
        episode="e1", answer=text, outcome="refused", final_state={"l1": {"1.OnOff.OnOff": True}}
    )
    assert score_goal(NO_FRIDGE, changed, RuleJudge()).verdict == "wrong"


def test_an_answer_without_the_true_value_is_wrong() -> None:
    goal = Goal(kind="answer", asserts=(Assert(device_id="l1", attribute="1.OnOff.OnOff", value=False),))
    asked = Profile(
        id="e1", session="s", created_utc="2026-06-01T00:00:00Z", origin="virtual", feasibility="feasible",
        request="Is the lamp on?", speaker="anna", target_device="l1", goal=goal, home=NO_FRIDGE.home,
    )  # fmt: skip
    assert _scored(asked, answer="It is off.", outcome="done") == "right"
    assert _scored(asked, answer="It is there.", outcome="done") == "wrong"


def test_the_command_takes_rules_for_a_judge(tmp_path: Path) -> None:
    episode, answers = tmp_path / "e1.yaml", tmp_path / "answers.jsonl"
    episode.write_text(profile_to_yaml(NO_FRIDGE), encoding="utf-8")
    told = Answer(
        episode="e1", declared=None, answer="I see no fridge there.", outcome="refused", final_state={}
    )
    answers.write_bytes(write_answers([told]))
    command = ["evaluate", str(answers), str(episode), "--json"]
    assert CliRunner().invoke(app, command).exit_code == 1, "the rules of the command itself are narrower"
    ran = CliRunner().invoke(app, [*command, "--judge", "rules"])
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["overall"]["goal"]["right"] == 1
    refused = CliRunner().invoke(app, [*command, "--judge", "rules", "--model", "m"])
    assert isinstance(refused.exception, InputError)
