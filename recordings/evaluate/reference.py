"""Answers whose scores are known beforehand: they show that an evaluation is sound."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import sqrt

from msgspec.structs import replace

from recordings.evaluate.answers import Answer, Rooms, State, StateAt
from recordings.evaluate.words import everyday
from recordings.profile import Assert, HomeState, Profile, Step

AN_HOUR = 60.0


def perfect(profile: Profile) -> Answer:
    """What an agent answers that knows the truth; the profile has a goal."""
    goal = profile.goal
    assert goal is not None
    target = None if profile.feasibility == "nonexistent_resource" else profile.target_device
    base = Answer(episode=profile.id, declared=target, outcome="done", final_state={})
    if goal.kind == "refusal":
        return replace(base, outcome="refused", answer=f"I cannot do that: {goal.reason}")
    if goal.kind == "answer":
        told = [*map(everyday, goal.asserts), *map(everyday, goal.room_values)]
        return replace(base, answer=f"{', '.join(told).capitalize()}.")
    rooms: Rooms = {}
    alone: Rooms = {}
    for change in goal.changes:
        alone.setdefault(change.room, {})[change.variable] = 20.0
        rooms.setdefault(change.room, {})[change.variable] = 21.0 if change.direction == "increase" else 19.0
    done = {}
    moments = []
    for step in goal.steps:
        minute = _minute(step, profile.home)
        if minute is None:  # the home does not tell when the appliance is done: after an hour
            minute = AN_HOUR + step.when.offset_min
            done[str(step.when.anchor_device)] = AN_HOUR
        moments.append(StateAt(at_min=minute, state=_state(step.asserts)))
    return replace(
        base,
        final_state=_state(goal.asserts),
        states_at=tuple(moments) or None,
        done_min=done,
        rooms=rooms or None,
        rooms_untouched=alone or None,
    )


def _minute(step: Step, home: HomeState | None) -> float | None:
    if step.when.anchor_device is None:
        return step.when.at_min
    for device in home.devices if home is not None else ():
        left = device.attributes.get("1.OperationalState.CountdownTime")
        if device.id == step.when.anchor_device and isinstance(left, int | float):
            return left / 60 + step.when.offset_min
    return None


def _state(asserts: Sequence[Assert]) -> State:
    state: State = {}
    for one in asserts:
        state.setdefault(one.device_id, {})[one.attribute] = one.value
    return state


def empty(profile: Profile) -> Answer:
    """Declares that there is no such device, says nothing, changes nothing."""
    rooms: Rooms = {}
    for change in profile.goal.changes if profile.goal is not None else ():
        rooms.setdefault(change.room, {})[change.variable] = 20.0
    return Answer(
        episode=profile.id,
        declared=None,
        final_state={},
        states_at=(),
        rooms=rooms or None,
        rooms_untouched=rooms or None,
    )


def shuffled(answers: Sequence[Answer], seed: int) -> list[Answer]:
    """The same answers, each given to an episode at random (a permutation)."""
    order = list(range(len(answers)))
    random.Random(seed).shuffle(order)
    return [replace(answers[n], episode=one.episode) for n, one in zip(order, answers, strict=True)]


def chance(targets: Sequence[str | None]) -> tuple[float, float]:
    """(expected share, standard deviation) of right groundings when perfect declarations are permuted at
    random.

    With n_t episodes of target t among N, an episode gets its own target back with n_t / N: the expected
    share is the sum of (n_t / N)^2. Two different episodes of targets s and t both do with n_t (n_t - 1) /
    (N (N - 1)) when s = t, else n_s n_t / (N (N - 1)); that gives the variance.
    """
    counts, total = list(Counter(targets).values()), len(targets)
    expected = sum(n * n for n in counts) / total
    if total < 2:
        return expected / total, 0.0
    pairs = total * (total - 1)
    squares = sum(n * n for n in counts)
    both = sum((n * (n - 1)) ** 2 for n in counts) / pairs + (squares**2 - sum(n**4 for n in counts)) / pairs
    return expected / total, sqrt(max(0.0, expected + both - expected**2)) / total
