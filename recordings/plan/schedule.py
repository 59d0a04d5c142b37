"""When: schedules that can be kept (Q3), and times that contradict themselves."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from recordings.plan import sentences
from recordings.plan.asks import Ask
from recordings.plan.sentences import sentence
from recordings.plan.spoken import clock_time, minutes
from recordings.profile import Assert, DeviceState, Step, Value, When

DO = Callable[[str], str]
KINDS = ("at", "in", "after", "two_steps", "two_steps_after")
BACK = {"on": "off", "off": "on", "close": "open", "open": "close"}
IN_MINUTES = (10, 15, 20, 25, 30, 40, 45, 60)


@dataclass(frozen=True)
class Schedule:
    """A request with times: its text, the steps of the goal, the appliance that it waits for, and, where the
    times contradict each other, why."""

    text: str
    steps: tuple[Step, ...]
    anchor: DeviceState | None = None
    reason: str = ""


def kind_of(steps: Sequence[Step], request: str) -> str:
    """Which of KINDS a schedule is."""
    after = any(step.when.anchor_device is not None for step in steps)
    if len(steps) > 1:
        return "two_steps_after" if after else "two_steps"
    return (
        "after" if after else "at" if re.search(r" in the (morn|after|even)|at night|noon", request) else "in"
    )


def asserts(device_id: str, wanted: dict[str, Value]) -> tuple[Assert, ...]:
    """One assert for each attribute."""
    return tuple(Assert(device_id=device_id, attribute=path, value=value) for path, value in wanted.items())


def feasible(
    kind: str,
    ask: Ask,
    device_id: str,
    do: Sequence[str],
    now_min: int,
    anchors: Sequence[DeviceState],
    rng: random.Random,
) -> Iterator[Schedule]:
    """Schedules of one of KINDS in varied words. do: imperatives ("turn that off"). now_min: minute of the
    day. anchors: appliances whose end may be waited for."""
    wanted = asserts(device_id, dict(ask.wanted))
    if kind in ("two_steps", "two_steps_after"):
        yield from _two_steps(kind, ask, device_id, do, now_min, anchors, rng)
        return
    for _ in range(12):
        anchor = None
        if kind == "after":
            if not anchors:
                return
            anchor = rng.choice(list(anchors))
            pattern, offset = rng.choice(sentences.AFTER)
            time = pattern.format(a=f"the {anchor.name}")
            when = When(anchor_device=anchor.id, offset_min=float(offset))
        else:
            length = rng.choice(IN_MINUTES)
            when = When(at_min=float(length))
            time = _at(now_min + length) if kind == "at" else _in(length, rng)
        text = rng.choice(sentences.SCHEDULES).format(do=rng.choice(list(do)), when=time)
        yield Schedule(sentence(text), (Step(when=when, asserts=wanted),), anchor)


def _two_steps(
    kind: str,
    ask: Ask,
    device_id: str,
    do: Sequence[str],
    now_min: int,
    anchors: Sequence[DeviceState],
    rng: random.Random,
) -> Iterator[Schedule]:
    back = BACK.get(ask.key)
    if back is None:
        return
    wanted, undone = asserts(device_id, dict(ask.wanted)), asserts(device_id, dict(ask.before))
    for _ in range(12):
        anchor = None
        length, more = rng.choice((10, 15, 20)), rng.choice((20, 30, 45, 60))
        time = _in(length, rng) if rng.random() < 0.5 else _at(now_min + length)
        later = rng.choice(sentences.LATER).format(m=minutes(more))
        if kind == "two_steps_after":
            if not anchors:
                return
            anchor = rng.choice(list(anchors))
            time = rng.choice(sentences.AFTER[:3])[0].format(a=f"the {anchor.name}")
            first = When(anchor_device=anchor.id)
            second = When(anchor_device=anchor.id, offset_min=float(more))
        else:
            first, second = When(at_min=float(length)), When(at_min=float(length + more))
        text = rng.choice(sentences.TWO_STEPS).format(
            do=rng.choice(list(do)), when=time, then=rng.choice(sentences.THEN[back]), later=later
        )
        steps = (Step(when=first, asserts=wanted), Step(when=second, asserts=undone))
        yield Schedule(sentence(text), steps, anchor)


def contradictory(
    ask: Ask, device_id: str, do: Sequence[str], now_min: int, turn: int, rng: random.Random
) -> Iterator[Schedule]:
    """Requests whose times cannot be kept: a time that is over, two times that disagree, and (for what has an
    opposite) two opposite things at one time. `turn` says which comes first."""
    wanted = asserts(device_id, dict(ask.wanted))
    kinds = ["past", "mismatch"] + (["conflict"] if ask.key in BACK else [])
    for number in range(15):
        kind = kinds[(turn + number // 5) % len(kinds)]
        action = rng.choice(list(do))
        if kind == "past":
            ago = rng.choice((60, 90, 120, 150))
            time = _at(now_min - ago)
            text = rng.choice(sentences.SCHEDULES).format(do=action, when=f"{time} today")
            why = f"It is {clock_time(now_min)}; {clock_time(now_min - ago)} is over."
            steps: tuple[Step, ...] = (Step(when=When(at_min=float(-ago)), asserts=wanted),)
        elif kind == "mismatch":
            length, other = rng.choice(((20, 50), (15, 60), (30, 90), (60, 25), (45, 10)))
            time = rng.choice(sentences.MISMATCH).format(m=minutes(length), c=clock_time(now_min + other))
            text = rng.choice(sentences.SCHEDULES).format(do=action, when=time)
            why = (
                f"It is {clock_time(now_min)}; in {minutes(length)} it is {clock_time(now_min + length)}, not"
                f" {clock_time(now_min + other)}."
            )
            steps = (Step(when=When(at_min=float(other), offset_min=float(length)), asserts=wanted),)
        else:
            length, more = rng.choice((20, 30, 45)), rng.choice((30, 60))
            at, until = clock_time(now_min + length), clock_time(now_min + length + more)
            opposite = sentences.OPPOSITE[ask.key]
            text = rng.choice(sentences.CONFLICT).format(do=action, c=at, opposite=opposite, later=until)
            why = f"It cannot do that at {at} and still be {opposite} then."
            moment = When(at_min=float(length))
            steps = (
                Step(when=moment, asserts=wanted),
                Step(when=moment, asserts=asserts(device_id, dict(ask.before))),
            )
        yield Schedule(sentence(text), steps, None, why)


def _at(minute: int) -> str:
    return sentences.AT[0].format(c=clock_time(minute))


def _in(length: int, rng: random.Random) -> str:
    return rng.choice(sentences.IN_A_WHILE).format(m=minutes(length))
