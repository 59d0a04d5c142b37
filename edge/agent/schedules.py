"""When a request is to be carried out (Q3): clock words, waits and ends of appliances; whether they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Literal

from dsp.errors import InputError
from edge.agent import answers
from edge.agent.grounding import ground_device
from edge.agent.home_view import HomeView, value_of
from edge.agent.plan_orders import CYCLE, ROBOT, Limit, afterwards, meant, surely, wanted
from edge.home.errors import HomeError
from edge.home.reach import Order as HomeOrder
from edge.home.schema import Value
from edge.language.intent import Moment, Order
from edge.perception.room_map import MapDevice
from recordings.plan.spoken import clock_time, minutes

DAY_MIN = 1440
SLACK_MIN = 1.0  # "in twenty minutes, so at noon": nobody counts seconds
OPPOSITE = {
    "on": "off", "off": "on", "silence": "on", "close": "open", "open": "closed", "lock": "unlocked",
    "unlock": "locked", "pause": "running", "stop": "running", "start": "stopped", "resume": "paused",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why the times of a request cannot be kept, in words."""

    words: str
    why: str
    category: Literal["temporal_contradiction", "nonexistent_resource", "unclear"] = "temporal_contradiction"
    outcome: Literal["refused", "asked"] = "refused"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Orders for one time: start_time ("YYYY-MM-DD HH:MM:SS" of the home) or `when` (an appliance's end);
    now: at once. say: what is told. goal: what the orders bring about."""

    orders: tuple[HomeOrder, ...]
    say: str
    start_time: str | None = None
    when: dict[str, Any] | None = None
    now: bool = False
    goal: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Time:
    """in_min from now, or offset_min after `anchor` has ended."""

    in_min: float = 0.0
    anchor: MapDevice | None = None
    now: bool = False

    def later(self, more: float) -> _Time:
        return _Time(self.in_min + more, self.anchor)


def schedule(
    orders: Sequence[Order], device: MapDevice, home: HomeView
) -> list[Scheduled] | Contradiction | Limit:
    """The orders with their times; or why they cannot be."""
    state = dict(device.attributes)
    time = _Time(now=True)
    found: list[Scheduled] = []
    for number, order in enumerate(orders):
        order = replace(order, change=meant(device, order.change))
        goal = wanted(device, order.change)
        if isinstance(goal, Limit):
            return goal
        if order.moment is not None:
            when = _time(order.moment, order, home)
            if isinstance(when, Contradiction):
                return when
            time = when
        elif order.after_previous_min is not None:
            time = time.later(order.after_previous_min)
        steps = surely(device, goal.attributes, state)
        if steps is None:
            return Limit(answers.sentence(f"I know no way to {answers.to_do(device, order.change, home)}"))
        after = {**state, **goal.attributes}
        if not steps:
            continue
        try:
            after = afterwards(device, state, steps)
        except (HomeError, InputError):  # the steps may suppose another state by then
            after = {**state, **goal.attributes}
        state = after
        it = answers.the(device, home) if number == 0 else "it"
        one = _scheduled(tuple(steps), order, time, it, device, home)
        found.append(replace(one, goal=goal.attributes))
    return found


def _scheduled(
    steps: tuple[HomeOrder, ...], order: Order, time: _Time, it: str, device: MapDevice, home: HomeView
) -> Scheduled:
    do = answers.to_do(device, order.change, home, it)
    if time.now:
        return Scheduled(steps, answers.done(device, order.change, home), now=True)
    if time.anchor is not None:
        after_s = round(60 * time.in_min)
        wait = f"{minutes(round(time.in_min))} after" if after_s else "as soon as"
        say = answers.sentence(f"I will {do} {wait} {answers.the(time.anchor, home)} is done")
        return Scheduled(steps, say, when={"ended": time.anchor.id, "after_s": after_s})
    at = _now(home) + timedelta(minutes=time.in_min)
    told = clock_time(at.hour * 60 + at.minute)
    say = answers.sentence(f"I will {do} at {told}")
    return Scheduled(steps, say, start_time=f"{at:%Y-%m-%d %H:%M:%S}")


def _now(home: HomeView) -> datetime:
    return home.now or datetime.now()


def _time(moment: Moment, order: Order, home: HomeView) -> _Time | Contradiction:
    now = home.now_min
    at: float | None = None  # minutes from now
    if moment.clock_min is not None:
        at = moment.clock_min - now
        if at < -SLACK_MIN:
            if moment.today:
                return Contradiction(
                    f"It is {clock_time(int(now))}; {clock_time(moment.clock_min)} is over.",
                    "the time is past",
                )
            at += DAY_MIN
        at = max(at, 0.0)
    clash = _clash(moment, order, now)
    if clash is not None:
        return clash
    if moment.anchor is not None:
        return _after(moment, at, home)
    if moment.in_min is not None:
        if moment.in_min < 0:
            return Contradiction("That time is over.", "the time is past")
        if at is not None and abs(at - moment.in_min) > SLACK_MIN:
            length, then = minutes(round(moment.in_min)), clock_time(ceil(now + moment.in_min - 0.5))
            said = clock_time(int(moment.clock_min or 0))
            return Contradiction(
                f"It is {clock_time(int(now))}; in {length} it is {then}, not {said}.", "two times disagree"
            )
        return _Time(moment.in_min)
    if at is None:
        return Contradiction("When shall I do that?", "no time was understood", "unclear", "asked")
    return _Time(at)


def _clash(moment: Moment, order: Order, now: float) -> Contradiction | None:
    """Two opposite things at one time."""
    told = "then" if moment.clock_min is None else f"at {clock_time(moment.clock_min)}"
    opposite = OPPOSITE.get(order.change.act, "as it is")
    words = f"It cannot do that {told} and still be {opposite} then."
    if moment.still:
        return Contradiction(words, "two opposite things at one time")
    if moment.until_min is None:
        return None
    begins = (now + moment.in_min) if moment.clock_min is None and moment.in_min else moment.clock_min
    if begins is not None and 0 < (moment.until_min - begins) % DAY_MIN < DAY_MIN / 2:
        return Contradiction(words, "it is to stay otherwise until later")
    return None


def _after(moment: Moment, at: float | None, home: HomeView) -> _Time | Contradiction:
    assert moment.anchor is not None
    posterior = ground_device(moment.anchor, {}, home)
    best = posterior.best
    if best is None or posterior.none >= 0.5:
        text = answers.absent(posterior, moment.anchor, None, home)
        return Contradiction(text, "no such appliance", "nonexistent_resource")
    running = [one for one in posterior.candidates if _runs(home.device(one.device_id))]
    if len(running) == 1:
        best = running[0]  # of several, people wait for the one that runs
    elif best.probability < 0.6:
        names = [answers.the(home.device(one.device_id), home) for one in posterior.candidates[:2]]
        return Contradiction(answers.which(names), "which appliance", "unclear", "asked")
    device = home.device(best.device_id)
    if not _runs(device):
        it = answers.the(device, home)
        return Contradiction(
            answers.sentence(f"{it} is not running, so it is never done"), "the appliance does not run"
        )
    left = value_of(device, "OperationalState.CountdownTime")
    offset = moment.in_min or 0.0
    if at is not None and isinstance(left, int) and abs(left / 60 + offset - at) > SLACK_MIN:
        then = clock_time(int(home.now_min + left / 60 + offset))
        said = clock_time(int(moment.clock_min or 0))
        return Contradiction(
            answers.sentence(f"{answers.the(device, home)} is done at {then}, not {said}"),
            "two times disagree",
        )
    return _Time(offset, device)


def _runs(device: MapDevice) -> bool:
    return value_of(device, CYCLE) in (1, 2) or value_of(device, ROBOT) in (1, 2, 64)
