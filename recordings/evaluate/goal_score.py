"""Was the goal of an episode reached: by the states that an answer carries, by rules, or by a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from recordings.evaluate.answers import Answer, State, StateAt
from recordings.evaluate.words import names_cause, says_truth
from recordings.goal_rules import same_value
from recordings.profile import Assert, Goal, HomeState, Profile, Step, Value

Verdict = Literal["right", "wrong", "error"]
By = Literal["state", "rules", "judge", "missing"]
NOTICEABLE = 1e-8  # SimuHome: how much a room must differ from the untouched one


@dataclass(frozen=True)
class Scored:
    """verdict: error means that it could not be told, and counts as not right; `why` says what is missing.
    by: state (the home at the end), rules (deterministic checks of the words), judge, or missing (no
    answer)."""

    verdict: Verdict
    by: By
    why: str = ""


class JudgeCalls(Protocol):
    """Something that reads an answer; see `recordings.evaluate.judge.Judge`."""

    def ask(self, profile: Profile, answer: Answer) -> Scored:
        """Right, wrong, or an error."""


def score_goal(profile: Profile, answer: Answer, judge: JudgeCalls | None) -> Scored:
    """The goal score of one answer. profile must have a goal, and a home for refusals and states."""
    goal = profile.goal
    assert goal is not None
    if goal.kind == "state":
        return _state(goal, profile.home, answer)
    found = _answer(profile, goal, answer) if goal.kind == "answer" else _refusal(profile, goal, answer)
    if found is not None:
        return found
    if judge is None:
        return Scored("error", "rules", "the words must be judged: give --judge and --model")
    return judge.ask(profile, answer)


def _answer(profile: Profile, goal: Goal, answer: Answer) -> Scored | None:
    if not answer.answer.strip():
        return Scored("wrong", "rules", "nothing was answered")
    if answer.outcome in ("refused", "failed", "asked"):
        return Scored("wrong", "rules", f"the agent {answer.outcome}, the question has an answer")
    names = [] if profile.home is None else [d.name for d in profile.home.devices]
    said = says_truth(answer.answer, goal, [profile.request or "", *names])
    if said is None:
        return None
    return Scored("right" if said else "wrong", "rules", "" if said else "it says another value")


def _refusal(profile: Profile, goal: Goal, answer: Answer) -> Scored | None:
    if answer.final_state is not None and profile.home is not None:
        changed = _changes(profile.home, answer.final_state)
        if changed:
            return Scored("wrong", "state", f"the home was changed: {changed}")
    if answer.outcome in ("done", "already"):
        return Scored("wrong", "rules", f"the agent says {answer.outcome}, the request is infeasible")
    if not answer.answer.strip():
        return Scored("wrong", "rules", "the cause was not explained")
    if answer.final_state is None:
        return Scored("error", "state", "no final_state, so it is not known whether the home was left alone")
    if answer.outcome == "refused" and names_cause(answer.answer, goal.reason or ""):
        return Scored("right", "rules")
    return None


def _changes(home: HomeState, final: State) -> str:
    """The first thing that is not as at the start; empty when all is. What is not known of the start is no
    change."""
    for device in home.devices:
        for path, value in final.get(device.id, {}).items():
            if path in device.attributes and not same_value(device.attributes[path], value):
                return f"{device.id} {path} = {value!r}"
    return ""


def _state(goal: Goal, home: HomeState | None, answer: Answer) -> Scored:
    """All of asserts, steps and changes; one that is certainly missed counts before one that cannot be
    told."""
    found: list[Scored] = []
    if goal.asserts:
        if answer.final_state is None:
            found.append(Scored("error", "state", "no final_state"))
        else:
            found.append(_hold(goal.asserts, home, answer.final_state, "at the end"))
    found += [_step(step, home, answer) for step in goal.steps]
    found += _rooms(goal, answer)
    for verdict in ("wrong", "error"):
        first = next((one for one in found if one.verdict == verdict), None)
        if first is not None:
            return first
    return Scored("right", "state") if found else Scored("error", "state", "the goal asks for nothing")


def _value(home: HomeState | None, state: State, one: Assert) -> tuple[bool, Value]:
    """(known, value): what the state leaves out is as at the start."""
    given: Mapping[str, Value] = state.get(one.device_id, {})
    if one.attribute in given:
        return True, given[one.attribute]
    for device in home.devices if home is not None else ():
        if device.id == one.device_id and one.attribute in device.attributes:
            return True, device.attributes[one.attribute]
    return False, None


def _hold(asserts: tuple[Assert, ...], home: HomeState | None, state: State, when: str) -> Scored:
    for one in asserts:
        known, value = _value(home, state, one)
        if not known:
            return Scored("wrong", "state", f"{when}: {one.device_id} has no {one.attribute}")
        if not same_value(value, one.value):
            return Scored("wrong", "state", f"{when}: {one.device_id} {one.attribute} = {value!r}")
    return Scored("right", "state")


def _step(step: Step, home: HomeState | None, answer: Answer) -> Scored:
    if answer.states_at is None:
        return Scored("error", "state", "no states_at")
    when = step.when
    at = when.at_min
    if when.anchor_device is not None:
        end = answer.done_min.get(when.anchor_device, _countdown(home, when.anchor_device))
        at = None if end is None else end + when.offset_min
    if not answer.states_at:  # nothing changed at any time
        return _hold(step.asserts, home, {}, "all the time")
    if at is None:
        return Scored("error", "state", f"when {when.anchor_device} is done is not known: no done_min")
    slack = when.tolerance_s / 60 + 1e-9
    inside = [moment for moment in answer.states_at if abs(moment.at_min - at) <= slack]
    before = [moment for moment in answer.states_at if moment.at_min < at - slack]
    first = max(before, key=lambda moment: moment.at_min) if before else StateAt(at_min=0.0, state={})
    moments = [first, *inside]  # a state holds until the next that was noted
    scored = [_hold(step.asserts, home, moment.state, f"at {at:g} min") for moment in moments]
    return next((one for one in scored if one.verdict == "right"), scored[-1])


def _countdown(home: HomeState | None, device_id: str) -> float | None:
    for device in home.devices if home is not None else ():
        left = device.attributes.get("1.OperationalState.CountdownTime")
        if device.id == device_id and isinstance(left, int | float) and not isinstance(left, bool):
            return left / 60
    return None


def _rooms(goal: Goal, answer: Answer) -> list[Scored]:
    found = []
    for change in goal.changes:
        name = f"{change.variable} of {change.room}"
        ended = (answer.rooms or {}).get(change.room, {}).get(change.variable)
        alone = (answer.rooms_untouched or {}).get(change.room, {}).get(change.variable)
        if ended is None or alone is None:
            found.append(Scored("error", "state", f"no rooms and rooms_untouched with the {name}"))
            continue
        moved = ended - alone if change.direction == "increase" else alone - ended
        verdict: Verdict = "right" if moved >= NOTICEABLE else "wrong"
        why = (
            ""
            if verdict == "right"
            else f"the {name} did not {change.direction}: {ended:g}, left alone {alone:g}"
        )
        found.append(Scored(verdict, "state", why))
    return found
