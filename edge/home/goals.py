"""Is the goal of an episode what it says, in the home twin? Reachable by commands and not reached at the
start when the request is feasible; really impossible when it is not.

Time passes in the twin: appliances end when their countdown or their mode says so, and rooms are asked what
their air and light do. What the home does not say (how long an appliance still runs, whether a lamp is lit)
is left open under `not_checked`, with the reason; it is never taken for right or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from dsp.errors import InputError
from edge.home.air_goals import movers, orders_that_move, unknown_of
from edge.home.cycles import PAUSED, RUNNING, duration_s, finish
from edge.home.goal_report import GoalReport
from edge.home.reach import Order, orders_to, schema_of
from edge.home.schema import DEVICE_TYPES, Value
from edge.home.twin import Home, HomeDevice
from recordings.goal_rules import asked_asserts, is_busy, same_value
from recordings.problem import Problem
from recordings.profile import Assert, DeviceState, Goal, HomeState, Profile, RoomChange, Step, When

# A device says itself between what an attribute can be set: attribute -> (least, most) beside it.
LIMITS = {
    "TemperatureSetpoint": ("MinTemperature", "MaxTemperature"),
    "CurrentLevel": ("MinLevel", "MaxLevel"),
    "OccupiedCoolingSetpoint": ("MinCoolSetpointLimit", "MaxCoolSetpointLimit"),
    "OccupiedHeatingSetpoint": ("MinHeatSetpointLimit", "MaxHeatSetpointLimit"),
}
FURTHEST_MIN = 31 * 24 * 60  # how long a home is left alone to see what happens by itself
LONGEST_WINDOW_S = 3600.0
RUNS = "1.OperationalState.OperationalState"


def check_goal(profile: Profile) -> GoalReport:
    """Check the goal of a profile in the twin. A profile without goal or home is not checked, and says so."""
    report = GoalReport()
    goal, home = profile.goal, profile.home
    if goal is None or home is None or not home.devices:
        missing = "goal" if goal is None else "home"
        report.not_checked.append(f"the profile has no {missing}")
        return report
    check = _Check(home, report, profile.source.get("format") == "simuhome")
    if goal.kind == "answer":
        check.answer(goal)
    elif goal.kind == "state":
        check.feasible(goal)
    else:
        absent = _absent_cue(profile)
        if absent is None:
            check.infeasible(goal, profile.feasibility)
        else:
            report.shown.append(absent)
    return report


def _absent_cue(profile: Profile) -> str | None:
    """Why a request that goes by a gesture or a sound means nothing at all: the scene has no such cue. None
    when it has one, when the scene is not known, or when the request names its device."""
    staging, goal = profile.staging, profile.goal
    if profile.feasibility != "nonexistent_resource" or staging is None or goal is None:
        return None
    if asked_asserts(goal) or goal.changes:
        return None
    if profile.grounding == "G2" and not staging.sounding:
        return "nothing sounds in the scene"
    if profile.grounding == "G1" and not any(
        placed.pointing_at for placed in staging.people if placed.speaks
    ):
        return "the speaker points at nothing"
    return None


class _Check:
    def __init__(self, home: HomeState, report: GoalReport, as_given: bool) -> None:
        self.home = home
        self.report = report
        self._as_given = as_given  # SimuHome's states are whole, and stay as they are
        self.devices = {device.id: device for device in home.devices}
        self._states: dict[str, dict[str, Value]] = {}

    def _wrong(self, code: str, text: str) -> None:
        self.report.problems.append(Problem(code, text))

    def _open(self, text: str) -> None:
        if text not in self.report.not_checked:
            self.report.not_checked.append(text)

    # -- the twin of one device

    def _twin(self, device: DeviceState) -> HomeDevice | None:
        """The device for the twin, its state kept in `_states`; None, and the reason noted, without such."""
        kind = device.type
        if kind not in DEVICE_TYPES:
            self._open(f"{device.id}: the twin has no device of type {device.type}")
            return None
        twin = HomeDevice(device.id, kind, device.name, device.room, device.position_m)
        if device.id not in self._states:
            given = {path: v for path, v in device.attributes.items() if schema_of(kind, path) is not None}
            try:
                at_start = Home([twin], {device.id: given}, as_given=self._as_given)
                self._states[device.id] = at_start.state(device.id)
            except InputError as error:
                self._open(f"{device.id}: the twin cannot begin in its first state: {error}")
                return None
        return twin

    def _reach(self, asserts: tuple[Assert, ...], where: str) -> None:
        """Bring the devices into what is asserted, from the states that they are in now, and keep the orders.
        What is impossible is noted as a problem, what cannot be told as not checked."""
        for device_id in dict.fromkeys(a.device_id for a in asserts):
            wanted = {a.attribute: a.value for a in asserts if a.device_id == device_id}
            orders = self._orders(device_id, wanted)
            if isinstance(orders, str):
                continue
            if orders is None:
                named = ", ".join(f"{path} = {value!r}" for path, value in wanted.items())
                self._wrong("unreachable", f"{where}: no command brings {device_id} to {named}")
            else:
                self.report.orders += orders
                self._follow(device_id, orders)

    def _orders(self, device_id: str, wanted: Mapping[str, Value]) -> list[Order] | Literal["unknown"] | None:
        device = self.devices.get(device_id)
        if device is None:
            return None
        twin = self._twin(device)
        if twin is None:
            return "unknown"
        for path in wanted:
            if schema_of(twin.type, path) is None:
                self._open(f"{device_id}: the twin's {twin.type} has no attribute {path}")
                return "unknown"
        return orders_to(twin, self._states[device_id], wanted)

    def _follow(self, device_id: str, orders: list[Order]) -> None:
        twin = self._twin(self.devices[device_id])
        assert twin is not None
        home = Home([twin], {device_id: self._states[device_id]})
        for order in orders:
            if order.command.startswith("write "):
                home.write(device_id, order.command.removeprefix("write "), order.args["value"])
            else:
                home.command(device_id, order.command, order.args)
        self._states[device_id] = home.state(device_id)

    # -- Q1

    def answer(self, goal: Goal) -> None:
        """The twin begins with what the answer says."""
        for one in goal.asserts:
            device = self.devices.get(one.device_id)
            twin = self._twin(device) if device is not None else None
            if twin is None:
                continue
            state = self._states[one.device_id]
            if self._as_given and device is not None:  # such a home keeps what its types do not have
                state = {**device.attributes, **state}
            if one.attribute not in state:
                self._open(f"{one.device_id}: the twin's {twin.type} has no attribute {one.attribute}")
            elif not same_value(state[one.attribute], one.value):
                self._wrong(
                    "not_true",
                    f"the answer is {one.value!r}, but in the twin {one.attribute} of {one.device_id} is"
                    f" {state[one.attribute]!r}",
                )

    # -- Q2 to Q4

    def feasible(self, goal: Goal) -> None:
        self._at_start(goal)
        if goal.asserts:
            self._reach(goal.asserts, "goal.asserts")
        if goal.steps:
            self._schedule(goal.steps)
        for change in goal.changes:
            orders = self._move(change)
            if orders is None:
                self._wrong("unreachable", _cannot(change))
            elif orders != "unknown":
                self.report.orders += orders

    def _at_start(self, goal: Goal) -> None:
        asked = asked_asserts(goal)
        if goal.changes or not asked:
            return  # against the same home left alone: never reached by doing nothing
        holding = []
        for one in asked:
            device = self.devices.get(one.device_id)
            twin = self._twin(device) if device is not None else None
            if device is None or twin is None or schema_of(twin.type, one.attribute) is None:
                return
            if goal.steps and is_busy(device):
                self._at_start_in_time(goal.steps)
                return
            holding.append(same_value(self._states[one.device_id][one.attribute], one.value))
        if all(holding):
            self._wrong("satisfied", "the goal holds in the twin before anybody did anything")

    def _at_start_in_time(self, steps: tuple[Step, ...]) -> None:
        """As `_at_start`, where appliances run: the home is left alone until the last step is over."""
        from edge.home.loading import simulation_of_home
        from edge.home.simuhome_score import scheduled_goals

        asked = {a.device_id for step in steps for a in step.asserts}
        for device_id in sorted(asked):
            if is_busy(self.devices[device_id]) and self._end_min(device_id) is None:
                self._open(self._no_end(device_id))
                return
        goals = []
        for step in steps:
            time = self._time(step.when, ())
            if time is None or time < 0:
                return  # what it waits for never comes by itself
            if time > FURTHEST_MIN or not 0 <= step.when.tolerance_s <= LONGEST_WINDOW_S:
                self._open("the schedule is too far away, or too long, to wait for it in the twin")
                return
            when = {"at_tick": round(time * 600), "tolerance_ticks": round(step.when.tolerance_s * 10)}
            targets = [
                {"device_id": a.device_id, "asserts": [{"attribute": a.attribute, "value": a.value}]}
                for a in step.asserts
            ]
            goals.append({"when": when, "targets": targets})
        here = tuple(device for device in self.home.devices if device.id in asked)
        home = HomeState(devices=here)
        simulation = simulation_of_home(home, as_given=self._as_given).simulation
        if all(part.met for part in scheduled_goals(goals, simulation)):
            self._wrong("satisfied", "the goal holds in the twin, in its time, before anybody did anything")

    def _no_end(self, device_id: str) -> str:
        state = self.devices[device_id].attributes.get(RUNS) if device_id in self.devices else None
        why = "it is paused" if state == PAUSED else "how long it runs is not known"
        return f"when {device_id} is done is not known: {why}"

    def _schedule(self, steps: tuple[Step, ...]) -> None:
        times = [self._time(step.when, steps) for step in steps]
        for n, m, path in _contrary(steps, times):
            self._wrong("unreachable", f"goal.steps[{n}] and [{m}] want two values of {path} at one time")
        order = list(range(len(steps)))
        if all(time is not None for time in times):
            order = sorted(order, key=lambda n: times[n] or 0.0)
        elif len({step.when.anchor_device for step in steps}) == 1:
            order = sorted(order, key=lambda n: steps[n].when.offset_min)
        elif len(steps) > 1:
            self._open("goal.steps: which comes first is not known; they were tried in the order given")
        for number in order:
            when = steps[number].when
            if when.anchor_device is not None:
                self._anchor(when.anchor_device, steps)
            self._let_pass(times[number], steps)
            self._reach(steps[number].asserts, f"goal.steps[{number}]")

    def _let_pass(self, time: float | None, steps: tuple[Step, ...]) -> None:
        """Cycles that are done before this time are over in `_states`."""
        if time is None:
            return
        for device_id in {a.device_id for step in steps for a in step.asserts}:
            if device_id not in self.devices or self._twin(self.devices[device_id]) is None:
                continue
            state = self._states[device_id]
            end = self._end_min(device_id, steps)
            if state.get(RUNS) == RUNNING and end is not None and end <= time:
                finish(state, "1.OperationalState")

    def _anchor(self, device_id: str, steps: tuple[Step, ...]) -> None:
        device = self.devices.get(device_id)
        if device is None:
            self._wrong("unreachable", f"the schedule waits for {device_id!r}, which is not in the home")
        elif not is_busy(device) and not _starts(steps, device_id) and _cycle(device) is not None:
            self._wrong("unreachable", f"the schedule waits until {device_id} is done, but it is not running")
        elif self._end_min(device_id, steps) is None:
            self._open(self._no_end(device_id))

    def _end_min(self, device_id: str, steps: tuple[Step, ...] = ()) -> float | None:
        """When a cycle is done, in minutes: by the countdown of one that runs, or of one that a step starts
        by its mode."""
        device = self.devices.get(device_id)
        if device is None:
            return None
        left = device.attributes.get("1.OperationalState.CountdownTime")
        if isinstance(left, int | float) and not isinstance(left, bool):
            return None if device.attributes.get(RUNS) == PAUSED else left / 60
        if is_busy(device):
            return None
        for step in steps:
            started = {a.attribute: a.value for a in step.asserts if a.device_id == device_id}
            begin = step.when.at_min
            if started.get(RUNS) == RUNNING and begin is not None and self._twin(device) is not None:
                seconds = duration_s({**self._states[device_id], **started}, 1)
                return None if seconds is None else begin + seconds / 60
        return None

    def _time(self, when: When, steps: tuple[Step, ...]) -> float | None:
        """Minutes after the episode began, of the relative time where there are two."""
        if when.anchor_device is not None:
            end = self._end_min(when.anchor_device, steps)
            return None if end is None else end + when.offset_min
        return when.offset_min if when.at_min is not None and when.offset_min else when.at_min

    def _move(self, change: RoomChange) -> list[Order] | Literal["unknown"] | None:
        """Commands that move a room's air or light that way; None: nothing can."""
        devices = list(self.devices.values())
        able = list(movers(devices, change))
        if not able:
            return None
        try:
            orders = orders_that_move(self.home, change, self._as_given)
        except InputError as error:
            self._open(f"{change.variable} of {change.room}: {error}")
            return "unknown"
        unknown = [] if orders is not None else unknown_of(devices, able)
        if unknown:
            where = f"{change.variable} of {change.room}"
            self._open(f"{where}: the home does not say what {', '.join(unknown)} does now")
            return "unknown"
        return orders

    # -- infeasible

    def infeasible(self, goal: Goal, kind: str | None) -> None:
        if kind == "temporal_contradiction":
            self._temporal(goal)
            return
        asked = asked_asserts(goal)
        if not asked and not goal.changes:
            self._open("the goal does not say what was asked for (asserts, steps or changes)")
            return
        before = list(self.report.not_checked)
        reasons = [
            self._impossible(device_id, asked) for device_id in dict.fromkeys(a.device_id for a in asked)
        ]
        for change in goal.changes:
            orders = self._move(change)
            reasons.append(_cannot(change) if orders is None else None)
            if orders is not None and orders != "unknown":
                self.report.orders += orders
        shown = [reason for reason in reasons if reason]
        if shown:  # one impossible part makes the whole request so
            self.report.shown += shown
            self.report.not_checked[:] = before
        elif self.report.not_checked == before:
            done = "; ".join(str(order) for order in self.report.orders) or "it is so already"
            self.report.orders.clear()
            self._wrong("feasible", f"{kind or 'a refusal'}, but the home can do what was asked for: {done}")

    def _impossible(self, device_id: str, asked: tuple[Assert, ...]) -> str | None:
        device = self.devices.get(device_id)
        if device is None:
            return f"{device_id} is not in the home"
        mine = [a for a in asked if a.device_id == device_id]
        for one in mine:
            beyond = _beyond_own_limits(device, one)
            if beyond:
                return beyond
        kind = device.type
        wanted: dict[str, Value] = {}
        for one in mine:
            if kind in DEVICE_TYPES and schema_of(kind, one.attribute) is None:
                if one.attribute in device.attributes:
                    self._open(f"{device_id}: the twin's {kind} has no attribute {one.attribute}")
                    return None
                return f"{device_id} is a {kind} and has no {one.attribute}"
            if one.value is not None:  # None: it was asked for, and it can be read
                wanted[one.attribute] = one.value
        orders = self._orders(device_id, wanted)
        if orders is None:
            named = ", ".join(f"{path} = {value!r}" for path, value in wanted.items())
            return f"no command brings {device_id} to {named}"
        if not isinstance(orders, str):
            self.report.orders += orders
        return None

    def _temporal(self, goal: Goal) -> None:
        if not goal.steps:
            self._open("the goal does not say which times were asked for (steps)")
            return
        times = [self._time(step.when, goal.steps) for step in goal.steps]
        shown: list[str] = []
        unknown: list[str] = []
        for number, step in enumerate(goal.steps):
            when, where = step.when, f"goal.steps[{number}]"
            if when.at_min is not None and when.at_min < 0:
                shown.append(f"{where}: {-when.at_min:g} min before the request was made")
            device = self.devices.get(when.anchor_device or "")
            if when.anchor_device is not None and device is None:
                shown.append(f"{where}: {when.anchor_device} is not in the home")
            elif device is not None and _cycle(device) == 0 and not _starts(goal.steps, device.id):
                shown.append(f"{where}: {device.id} is not running, so it is never done")
            elif when.at_min is not None and (when.anchor_device or when.offset_min):
                told = times[number]
                if told is None:
                    unknown.append(f"{where}: {self._no_end(when.anchor_device or '')}")
                elif abs(told - when.at_min) * 60 > when.tolerance_s:
                    shown.append(f"{where}: {when.at_min:g} min from now is not {told:g} min from now")
        for n, m, path in _contrary(goal.steps, times):
            shown.append(f"goal.steps[{n}] and [{m}] want two values of {path} at one time")
        self.report.shown += shown
        if not shown and unknown:
            for text in unknown:
                self._open(text)
        elif not shown:
            self._wrong(
                "feasible", "temporal_contradiction, but the times of goal.steps agree with each other"
            )


def _cannot(change: RoomChange) -> str:
    return f"no device in {change.room} can {change.direction} its {change.variable} any further"


def _contrary(steps: tuple[Step, ...], times: list[float | None]) -> Iterator[tuple[int, int, str]]:
    """Pairs of steps at one time that want two values of one attribute."""
    for n, one in enumerate(steps):
        for m in range(n):
            first, second = times[n], times[m]
            if first is None or second is None or first != second:
                continue
            for a in one.asserts:
                for b in steps[m].asserts:
                    same = (a.device_id, a.attribute) == (b.device_id, b.attribute)
                    if same and not same_value(a.value, b.value):
                        yield m, n, f"{a.device_id} {a.attribute}"


def _cycle(device: DeviceState) -> Value:
    """OperationalState of an appliance; None when the home does not say."""
    return next(
        (v for p, v in device.attributes.items() if p.endswith("OperationalState.OperationalState")), None
    )


def _starts(steps: tuple[Step, ...], device_id: str) -> bool:
    return any(
        a.device_id == device_id
        and a.attribute.endswith("OperationalState.OperationalState")
        and a.value == 1
        for step in steps
        for a in step.asserts
    )


def _beyond_own_limits(device: DeviceState, one: Assert) -> str | None:
    prefix, _, name = one.attribute.rpartition(".")
    if name not in LIMITS or isinstance(one.value, bool) or not isinstance(one.value, int | float):
        return None
    low, high = (device.attributes.get(f"{prefix}.{limit}") for limit in LIMITS[name])
    if not isinstance(low, int | float) or not isinstance(high, int | float) or low <= one.value <= high:
        return None
    return f"{device.id}: {name} {one.value:g} is outside {low:g} to {high:g}"
