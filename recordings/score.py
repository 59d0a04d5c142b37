"""Was it the right device, and is the home as it was wanted: the score of one episode.

The two measures of the OmniSmartHome benchmark (arXiv 2609.32569): grounding (the declared device is the
target; "no target" where the request names what is not there) and goal (the final state).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from recordings.profile import Goal, Profile, Value

State = Mapping[str, Mapping[str, Value]]
Outcome = Literal["done", "already", "refused", "asked", "failed"]


@dataclass(frozen=True)
class Score:
    """grounding_correct, goal_reached: None where the profile does not hold the truth, or where the answer
    in words would have to be judged. declared, truth: device ids; None means "no target"."""

    grounding_correct: bool | None
    goal_reached: bool | None
    declared: str | None
    truth: str | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for score.json."""
        return asdict(self)


def score(
    profile: Profile,
    declared_device: str | None,
    final_state: State,
    *,
    was_declared: bool = True,
    outcome: Outcome | None = None,
) -> Score:
    """Compare what an agent did with the profile of the episode.

    declared_device: what it declared, None for "no such device". was_declared: False if it never declared
    anything, which is never right. final_state: device id -> attributes at the end.
    outcome: how the agent finished; a refusal (infeasible request) is only reached when it says so *and* the
    home is as it was; without it that goal is not judged.
    """
    grounding = _grounding(profile, declared_device, was_declared)
    reached = None if profile.goal is None else _goal(profile, profile.goal, final_state, outcome)
    return Score(
        grounding,
        reached,
        declared_device,
        profile.target_device,
        _text(profile, declared_device, was_declared, grounding, reached),
    )


def _grounding(profile: Profile, declared: str | None, was_declared: bool) -> bool | None:
    no_target = profile.feasibility == "nonexistent_resource"
    if profile.target_device is None and not no_target:
        return None
    return was_declared and declared == (None if no_target else profile.target_device)


def _goal(profile: Profile, goal: Goal, final: State, outcome: Outcome | None) -> bool | None:
    if goal.kind == "state":
        if not goal.asserts:
            return None
        return all(_holds(final.get(a.device_id, {}), a.attribute, a.value) for a in goal.asserts)
    if goal.kind == "refusal":
        untouched = _untouched(profile, final)
        if untouched is False:
            return False
        return None if outcome is None or untouched is None else outcome == "refused"
    return None


def _untouched(profile: Profile, final: State) -> bool | None:
    """No attribute that the episode began with has changed; None if its first state is not known."""
    if profile.home is None:
        return None
    return all(
        _holds(final.get(device.id, {}), attribute, value)
        for device in profile.home.devices
        for attribute, value in device.attributes.items()
    )


def _holds(attributes: Mapping[str, Value], attribute: str, wanted: Value) -> bool:
    """Equal values; a bool is not a number here (True is not level 1)."""
    if attribute not in attributes:
        return False
    value = attributes[attribute]
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _text(
    profile: Profile, declared: str | None, was_declared: bool, grounding: bool | None, reached: bool | None
) -> str:
    said = (declared or "no target") if was_declared else "nothing"
    truth = profile.target_device or ("unknown" if grounding is None else "no target")
    goal = {True: "goal reached", False: "goal not reached", None: "goal not judged"}[reached]
    return f"declared {said}, truth {truth}, {goal}"
