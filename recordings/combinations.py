"""What may stand together in a profile: the 17 combinations of grounding and query, and the rules that span
several fields.

`recordings.profile` says what each field may hold. Here is what they must say together, so that an episode
has exactly one right answer: the target is in the home, the goal is of the query's kind, it is not reached
before anybody did anything, the scene shows what the grounding needs. What is None or empty is not known and
breaks no rule; `complete=True` asks for all that an episode of a benchmark needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from recordings.goal_rules import asked_asserts, asked_rooms, goal_problems, holds
from recordings.problem import Problem
from recordings.profile import Grounding, HomeState, Profile, Query
from recordings.scene_rules import home_problems, identity_problems, staging_problems

if TYPE_CHECKING:
    from recordings.plan.model import PlanItem

IMPLICIT_GROUNDINGS: tuple[Grounding, ...] = ("G0", "G4")  # the only ones that implicit intent (Q4) goes with
COMBINATIONS: tuple[tuple[Grounding, Query], ...] = tuple(
    (grounding, query)
    for grounding in get_args(Grounding)
    for query in get_args(Query)
    if query != "Q4" or grounding in IMPLICIT_GROUNDINGS
)


def profile_problems(profile: Profile | PlanItem, *, complete: bool = False) -> list[Problem]:
    """Everything that contradicts itself in a profile, or in an item of a shooting plan.

    complete: what an episode of a benchmark needs must be there as well: grounding, query, feasibility,
    request, speaker, goal, home, and a target where the request has one.
    An empty list: nothing is wrong. The message names the keys and their values; the codes are stable.
    """
    found = [*_classes(profile), *_numbers(profile)]
    home = profile.home
    if home is not None:
        found += home_problems(home)
    if profile.goal is not None:
        found += goal_problems(profile, profile.goal, home)
    found += _target(profile, home)
    if profile.staging is not None:
        found += staging_problems(profile, profile.staging, home)
    if profile.grounding == "G4" and home is not None:
        found += identity_problems(profile, home)
    if isinstance(profile, Profile):
        found += _times(profile.created_utc)
    if complete:
        found += _complete(profile)
    return found


def _classes(p: Profile | PlanItem) -> Iterator[Problem]:
    if p.grounding and p.query and (p.grounding, p.query) not in COMBINATIONS:
        yield Problem(
            "combination",
            f"query Q4 (implicit intent) goes only with grounding {' and '.join(IMPLICIT_GROUNDINGS)},"
            f" not with {p.grounding}",
        )
    if p.difficulty and p.feasibility not in (None, "feasible"):
        yield Problem(
            "difficulty", f"difficulty {p.difficulty} is of feasible requests; this is {p.feasibility}"
        )
    if p.request is not None and not p.request.strip():
        yield Problem("request", "request is empty; leave it out when the words are not known")


def _numbers(p: Profile | PlanItem) -> Iterator[Problem]:
    """YAML has .nan and .inf; no value here can be one."""
    for key in ("goal", "home", "staging"):
        for where, value in _leaves(msgspec.to_builtins(getattr(p, key)), key):
            if isinstance(value, float) and not math.isfinite(value):
                yield Problem("not_finite", f"{where} is {value}; it must be a finite number")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{where}[{number}]")
    else:
        yield where, value


def _times(created_utc: str) -> Iterator[Problem]:
    try:
        if not created_utc.endswith("Z"):
            raise ValueError
        datetime.fromisoformat(created_utc[:-1])
    except ValueError:
        yield Problem("created_utc", f"created_utc {created_utc!r} is no ISO 8601 time with Z")


def _target(p: Profile | PlanItem, home: HomeState | None) -> Iterator[Problem]:
    if p.feasibility == "nonexistent_resource":
        if p.target_device is not None:
            yield Problem(
                "target", f"nonexistent_resource has no target, but target_device is {p.target_device!r}"
            )
        return
    if p.target_device is None or home is None or not home.devices:
        return
    device = next((d for d in home.devices if d.id == p.target_device), None)
    if device is None:
        yield Problem("target", f"target_device {p.target_device!r} is not in the home")
        return
    if p.goal is None:
        return
    asked = {a.device_id for a in asked_asserts(p.goal)}
    if asked and device.id not in asked:
        yield Problem(
            "target", f"the goal is about {', '.join(sorted(asked))}, not about target_device {device.id!r}"
        )
    rooms = set(asked_rooms(p.goal))
    if rooms and not asked and device.room not in rooms:
        yield Problem(
            "target", f"the goal is about {', '.join(sorted(rooms))}; {device.id!r} is in {device.room!r}"
        )


def _complete(p: Profile | PlanItem) -> Iterator[Problem]:
    for key in ("grounding", "query", "feasibility", "request", "speaker", "goal", "home"):
        if getattr(p, key) is None:
            yield Problem("incomplete", f"{key} is missing")
    goal, home = p.goal, p.home
    if home is not None:
        if not home.devices:
            yield Problem("incomplete", "home.devices is empty")
        known = {*home.people, *(member.id for member in home.household)}
        if p.speaker is not None and p.speaker not in known:
            yield Problem("incomplete", f"the speaker {p.speaker!r} is not in home.people or home.household")
        if p.grounding == "G4" and not home.household:
            yield Problem("incomplete", "grounding G4 needs home.household: what is the speaker's own")
    if goal is None:
        return
    about_device = bool(asked_asserts(goal)) or p.grounding in ("G1", "G2", "G3")
    if p.target_device is None and p.feasibility not in (None, "nonexistent_resource") and about_device:
        yield Problem("incomplete", "target_device is missing: the request is about a device")
    if p.feasibility == "physical_limit" and not (goal.asserts or goal.steps or goal.changes):
        yield Problem(
            "incomplete", "physical_limit needs what was asked for in goal.asserts, steps or changes"
        )
    if p.feasibility == "temporal_contradiction" and not goal.steps:
        yield Problem(
            "incomplete", "temporal_contradiction needs the times that were asked for in goal.steps"
        )
    if p.feasibility == "feasible" and goal.kind == "state" and home is not None:
        for one in goal.asserts:
            if holds(home, one) is None and any(d.id == one.device_id for d in home.devices):
                yield Problem("incomplete", f"home.devices does not say {one.attribute} of {one.device_id}")
