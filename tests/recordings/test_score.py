"""Scores with truths worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recordings.profile import Assert, DeviceState, Goal, HomeState, Profile
from recordings.score import score

LAMP, FAN = "room_light_1", "room_fan_1"
ON = "1.OnOff.OnOff"
HOME = HomeState(
    devices=(
        DeviceState(id=LAMP, type="on_off_light", name="lamp", room="room", attributes={ON: True}),
        DeviceState(id=FAN, type="fan", name="fan", room="room", attributes={ON: True}),
    )
)


def profile(**fields: Any) -> Profile:
    given: dict[str, Any] = {
        "id": "e",
        "session": "s",
        "created_utc": "2026-01-01T00:00:00Z",
        "origin": "virtual",
        "feasibility": "feasible",
        "target_device": LAMP,
        "goal": Goal(kind="state", asserts=(Assert(device_id=LAMP, attribute=ON, value=False),)),
        "home": HOME,
    }
    return Profile(**{**given, **fields})


def state(lamp: Any = True, fan: Any = True) -> dict[str, dict[str, Any]]:
    return {LAMP: {ON: lamp}, FAN: {ON: fan}}


def test_right_device_and_goal() -> None:
    result = score(profile(), LAMP, state(lamp=False))
    assert (result.grounding_correct, result.goal_reached) == (True, True)
    assert result.text == f"declared {LAMP}, truth {LAMP}, goal reached"
    assert result.to_dict()["declared"] == LAMP


def test_wrong_device_and_goal() -> None:
    result = score(profile(), FAN, state(fan=False))
    assert (result.grounding_correct, result.goal_reached) == (False, False)
    assert result.text == f"declared {FAN}, truth {LAMP}, goal not reached"


def test_goal_and_grounding_are_independent() -> None:
    assert score(profile(), LAMP, state()).goal_reached is False
    lucky = score(profile(), FAN, state(lamp=False))
    assert (lucky.grounding_correct, lucky.goal_reached) == (False, True)


def test_never_declared_is_never_right() -> None:
    result = score(profile(), None, state(), was_declared=False)
    assert result.grounding_correct is False
    assert result.text == f"declared nothing, truth {LAMP}, goal not reached"
    nothing_there = profile(target_device=None, feasibility="nonexistent_resource", goal=Goal(kind="refusal"))
    assert score(nothing_there, None, state(), was_declared=False).grounding_correct is False


@pytest.mark.parametrize(
    ("declared", "lamp", "outcome", "grounding", "goal", "words"),
    [
        (None, True, "refused", True, True, "declared no target, truth no target, goal reached"),
        (None, True, "done", True, False, "declared no target, truth no target, goal not reached"),
        (None, True, None, True, None, "declared no target, truth no target, goal not judged"),
        (LAMP, False, "done", False, False, f"declared {LAMP}, truth no target, goal not reached"),
        (LAMP, False, "refused", False, False, f"declared {LAMP}, truth no target, goal not reached"),
    ],
)
def test_no_target(
    declared: str | None, lamp: bool, outcome: Any, grounding: bool, goal: bool | None, words: str
) -> None:
    """A request for what is not there: right is "no target", an untouched home, and saying so."""
    asked = profile(target_device=None, feasibility="nonexistent_resource", goal=Goal(kind="refusal"))
    result = score(asked, declared, state(lamp=lamp), outcome=outcome)
    assert (result.grounding_correct, result.goal_reached) == (grounding, goal)
    assert result.text == words


def test_refusing_a_physical_limit_still_has_a_target() -> None:
    asked = profile(feasibility="physical_limit", goal=Goal(kind="refusal", reason="too hot"))
    result = score(asked, LAMP, state(), outcome="refused")
    assert (result.grounding_correct, result.goal_reached) == (True, True)


def test_values_are_equal_only_within_their_kind() -> None:
    level = Goal(kind="state", asserts=(Assert(device_id=LAMP, attribute=ON, value=1),))
    assert score(profile(goal=level), LAMP, state(lamp=True)).goal_reached is False
    assert score(profile(goal=level), LAMP, state(lamp=1)).goal_reached is True
    assert score(profile(goal=level), LAMP, state(lamp=1.0)).goal_reached is True


def test_all_asserts_must_hold_and_missing_ones_do_not() -> None:
    both = Goal(
        kind="state",
        asserts=(
            Assert(device_id=LAMP, attribute=ON, value=False),
            Assert(device_id=FAN, attribute=ON, value=False),
        ),
    )
    assert score(profile(goal=both), LAMP, state(lamp=False)).goal_reached is False
    assert score(profile(goal=both), LAMP, state(lamp=False, fan=False)).goal_reached is True
    assert score(profile(goal=both), LAMP, {LAMP: {ON: False}}).goal_reached is False


def test_what_is_not_known_is_not_scored() -> None:
    unknown = profile(target_device=None, goal=None, feasibility=None)
    result = score(unknown, LAMP, state())
    assert (result.grounding_correct, result.goal_reached) == (None, None)
    assert result.text == f"declared {LAMP}, truth unknown, goal not judged"
    assert score(profile(goal=Goal(kind="answer")), LAMP, state()).goal_reached is None
