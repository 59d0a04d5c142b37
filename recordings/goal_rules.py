"""Rules of a goal: its kind and parts, the devices that it names, true at the start or not yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from recordings.problem import Problem
from recordings.profile import Assert, DeviceState, Goal, HomeState, Profile, RoomState, Value
from recordings.scene_rules import is_path, no_path, no_room, twice

if TYPE_CHECKING:
    from recordings.plan.model import PlanItem

ROOM_FIELDS = {
    "temperature": "temperature_c",
    "humidity": "humidity_percent",
    "illuminance": "illuminance_lux",
    "pm10": "pm10_ug_m3",
}
ROUNDED = 0.005  # a room's value may be told to two decimals
OPERATIONAL_STATE = "OperationalState.OperationalState"


def same_value(value: Value, wanted: Value) -> bool:
    """Equal, and a bool is not a number: True is not level 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def room_value(state: RoomState, variable: str) -> float | None:
    """What a room's state says of a `RoomVariable`."""
    value: float | None = getattr(state, ROOM_FIELDS[variable])
    return value


def asked_asserts(goal: Goal) -> tuple[Assert, ...]:
    """What a goal asks of devices, at the end or at any step."""
    return (*goal.asserts, *(a for step in goal.steps for a in step.asserts))


def asked_rooms(goal: Goal) -> list[str]:
    """The rooms whose air or light a goal is about."""
    return [*(change.room for change in goal.changes), *(told.room for told in goal.room_values)]


def goal_problems(p: Profile | PlanItem, goal: Goal, home: HomeState | None) -> Iterator[Problem]:
    """What is wrong with the goal by itself, against the query and feasibility, and against the home."""
    infeasible = p.feasibility not in (None, "feasible")
    if infeasible and goal.kind != "refusal":
        yield Problem("goal_kind", f"{p.feasibility} needs a goal of kind refusal, not {goal.kind}")
    if p.feasibility == "feasible" and goal.kind == "refusal":
        yield Problem("goal_kind", "a feasible request cannot have a goal of kind refusal")
    if p.feasibility == "feasible" and p.query and goal.kind != "refusal":
        wanted = "answer" if p.query == "Q1" else "state"
        if goal.kind != wanted:
            yield Problem("goal_kind", f"query {p.query} needs a goal of kind {wanted}, not {goal.kind}")
    for where, one in _places(goal):
        if not is_path(one.attribute):
            yield no_path(f"{where} names {one.attribute!r}")
    yield from _when(goal, home)
    yield from _goal_parts(p, goal, home)
    if goal.kind == "refusal":
        if not (goal.reason or "").strip():
            yield Problem(
                "reason", "a goal of kind refusal needs its reason: the cause that the answer must name"
            )
        if home is not None:
            yield from _refusal(p, goal, home)
    elif home is not None:
        yield from _known(goal, home)
        if goal.kind == "answer":
            yield from _true_values(goal, home)
        else:
            yield from _unsatisfied(goal, home)


def _places(goal: Goal) -> Iterator[tuple[str, Assert]]:
    for number, one in enumerate(goal.asserts):
        yield f"goal.asserts[{number}]", one
    for number, step in enumerate(goal.steps):
        for inner, one in enumerate(step.asserts):
            yield f"goal.steps[{number}].asserts[{inner}]", one


def _goal_parts(p: Profile | PlanItem, goal: Goal, home: HomeState | None) -> Iterator[Problem]:
    """Each kind of goal and each query has parts of its own."""
    if goal.kind != "refusal" and goal.reason is not None:
        yield Problem("goal_parts", "goal.reason is of a refusal only")
    if goal.kind == "answer" and (goal.steps or goal.changes):
        yield Problem("goal_parts", "a goal of kind answer has asserts and room_values, no steps or changes")
    if goal.kind == "answer" and not (goal.asserts or goal.room_values):
        yield Problem("goal_empty", "a goal of kind answer needs the true values: asserts or room_values")
    if goal.kind == "state" and goal.room_values:
        yield Problem(
            "goal_parts", "goal.room_values is of an answer only; what rooms shall do stands in changes"
        )
    if goal.kind == "state" and not (goal.asserts or goal.steps or goal.changes):
        yield Problem("goal_empty", "a goal of kind state needs asserts, steps or changes")
    if goal.kind == "state" and p.query == "Q3" and not goal.steps:
        yield Problem("goal_parts", "query Q3 (scheduling) needs goal.steps: what must hold when")
    if goal.kind == "state" and p.query in ("Q2", "Q4") and goal.steps:
        yield Problem("goal_parts", f"goal.steps is of Q3 (scheduling); this is {p.query}")
    if goal.kind == "state" and p.query in ("Q2", "Q3") and goal.changes:
        yield Problem("goal_parts", f"goal.changes is of Q4 (implicit intent); this is {p.query}")
    for name in twice(f"{c.room} {c.variable}" for c in goal.changes):
        yield Problem("twice", f"goal.changes names {name} twice")
    for name in twice(f"{a.device_id} {a.attribute}" for a in goal.asserts):
        yield Problem("twice", f"goal.asserts names {name} twice")
    if home is not None and home.rooms and p.feasibility != "nonexistent_resource":
        for room in asked_rooms(goal):
            if room not in home.rooms:
                yield no_room(f"goal names the room {room!r}", home)


def _when(goal: Goal, home: HomeState | None) -> Iterator[Problem]:
    devices = {d.id for d in home.devices} if home is not None else set()
    for number, step in enumerate(goal.steps):
        where, when = f"goal.steps[{number}]", step.when
        if not step.asserts:
            yield Problem("goal_empty", f"{where} asserts nothing")
        for name in twice(f"{a.device_id} {a.attribute}" for a in step.asserts):
            yield Problem("twice", f"{where} names {name} twice")
        if when.tolerance_s < 0:
            yield Problem("when", f"{where}.when.tolerance_s is {when.tolerance_s}; it cannot be negative")
        if when.at_min is None and when.anchor_device is None:
            yield Problem("when", f"{where}.when has neither at_min nor anchor_device")
        if goal.kind == "refusal":
            continue
        if when.at_min is not None and (when.anchor_device is not None or when.offset_min):
            yield Problem(
                "when", f"{where}.when has at_min and an anchor or offset; a feasible goal has one time"
            )
        if when.at_min is not None and when.at_min < 0:
            yield Problem("when", f"{where}.when.at_min is {when.at_min}: before the episode began")
        if devices and when.anchor_device is not None and when.anchor_device not in devices:
            yield Problem(
                "no_such_device", f"{where}.when.anchor_device {when.anchor_device!r} is not in the home"
            )


def _known(goal: Goal, home: HomeState) -> Iterator[Problem]:
    devices = {d.id for d in home.devices}
    for where, one in _places(goal):
        if devices and one.device_id not in devices:
            yield Problem("no_such_device", f"{where} names {one.device_id!r}, which is not in the home")


def _refusal(p: Profile | PlanItem, goal: Goal, home: HomeState) -> Iterator[Problem]:
    devices = {d.id: d for d in home.devices}
    asked = asked_asserts(goal)
    if p.feasibility == "nonexistent_resource" and asked:
        if all(a.device_id in devices and _may_have(devices[a.device_id], a.attribute) for a in asked):
            yield Problem(
                "exists",
                "nonexistent_resource, but the home has all that goal asks for:"
                f" {', '.join(sorted({a.device_id for a in asked}))}",
            )
    elif p.feasibility in ("physical_limit", "temporal_contradiction"):
        for name in sorted({a.device_id for a in asked} - set(devices)) if devices else ():
            yield Problem(
                "no_such_device", f"goal asks for {name!r}, which is not in the home: nonexistent_resource"
            )


def _may_have(device: DeviceState, attribute: str) -> bool:
    """The home state may leave out attributes, or all of them: then they are not known."""
    return not device.attributes or attribute in device.attributes


def _true_values(goal: Goal, home: HomeState) -> Iterator[Problem]:
    devices = {d.id: d for d in home.devices}
    for where, one in _places(goal):
        device = devices.get(one.device_id)
        if device is None:
            continue
        if one.attribute not in device.attributes:
            yield Problem(
                "truth_unknown",
                f"{where}: the answer is {one.value!r}, but home.devices does not say {one.attribute} of"
                f" {device.id}",
            )
        elif not same_value(device.attributes[one.attribute], one.value):
            yield Problem(
                "not_true",
                f"{where}: the answer is {one.value!r}, but {one.attribute} of {device.id} is"
                f" {device.attributes[one.attribute]!r}",
            )
    for number, told in enumerate(goal.room_values):
        where = f"goal.room_values[{number}]"
        state = home.room_states.get(told.room)
        value = None if state is None else room_value(state, told.variable)
        if value is None:
            yield Problem(
                "truth_unknown",
                f"{where}: the answer is {told.value}, but home.room_states does not say {told.variable} of"
                f" {told.room}",
            )
        elif abs(value - told.value) > ROUNDED * (1 + 1e-9):
            yield Problem(
                "not_true",
                f"{where}: the answer is {told.value}, but {told.variable} of {told.room} is {value}",
            )


def holds(home: HomeState, one: Assert) -> bool | None:
    """Whether an assert holds at the start; None: the home state does not say."""
    for device in home.devices:
        if device.id == one.device_id and one.attribute in device.attributes:
            return same_value(device.attributes[one.attribute], one.value)
    return None


def is_busy(device: DeviceState) -> bool:
    """An appliance in its cycle (running or paused): its state changes without anybody doing anything."""
    return any(
        path.endswith(OPERATIONAL_STATE) and value in (1, 2) for path, value in device.attributes.items()
    )


def _unsatisfied(goal: Goal, home: HomeState) -> Iterator[Problem]:
    """A state goal must not be reached by doing nothing."""
    if goal.changes:  # against the same home left alone: doing nothing never reaches it
        return
    asked = asked_asserts(goal)
    if goal.steps:  # a running appliance will be in another state by then: edge.home.goals asks the twin
        busy = {d.id for d in home.devices if is_busy(d)}
        if any(a.device_id in busy for a in asked):
            return
    if asked and all(holds(home, a) for a in asked):
        names = ", ".join(sorted({f"{a.device_id} {a.attribute} = {a.value!r}" for a in asked}))
        yield Problem("satisfied", f"the goal holds before anybody did anything: {names}")
