"""What was scheduled: workflows of commands and writes that run at their time, or are cancelled before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dsp.errors import InputError
from edge.home.clock import FURTHEST_TICK, TICKS_PER_S
from edge.home.errors import HomeError
from edge.home.timeline import Timeline, at_rest
from edge.home.triggers import Trigger, checked_trigger

Status = Literal["pending", "running", "completed", "failed", "cancelled"]
# A step's tool -> the arguments that it needs, and those that it may have.
TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "execute_command": (("device_id", "endpoint_id", "cluster_id", "command_id"), ("args",)),
    "write_attribute": (("device_id", "endpoint_id", "cluster_id", "attribute_id", "value"), ()),
}
_SHORT = (("execute_command", "command", "args"), ("write_attribute", "attribute", "value"))
MOST_STEPS, MOST_WORKFLOWS = 1000, 10000


@dataclass(frozen=True)
class Step:
    """One call: tool is execute_command or write_attribute."""

    tool: str
    args: dict[str, Any]

    @property
    def action(self) -> tuple[str, dict[str, Any]]:
        """As `home.command` and `home.write` have it: "1.OnOff.On" and its arguments, or "write <attribute>"
        and its value."""
        a = self.args
        if self.tool == "write_attribute":
            return f"write {a['endpoint_id']}.{a['cluster_id']}.{a['attribute_id']}", {"value": a["value"]}
        return f"{a['endpoint_id']}.{a['cluster_id']}.{a['command_id']}", a.get("args") or {}


@dataclass
class Workflow:
    """results: of each step that was carried out, {"ok": true} or {"ok": false, "error": {type, detail}}.
    start_tick: None while it waits for its trigger `when`. restored: from before a restart."""

    id: str
    start_tick: int | None
    steps: tuple[Step, ...]
    continue_on_error: bool = False
    status: Status = "pending"
    results: list[dict[str, Any]] = field(default_factory=list)
    when: Trigger | None = None
    restored: bool = False

    def to_dict(self, timeline: Timeline) -> dict[str, Any]:
        """Plain data. start_time and start_tick are None while it waits; `when` is there if it has one."""
        return {
            "workflow_id": self.id,
            "status": self.status,
            "start_time": None if self.start_tick is None else timeline.clock.at(self.start_tick),
            "start_tick": self.start_tick,
            "steps": [{"tool": step.tool, "args": step.args} for step in self.steps],
            "results": self.results,
            **({} if self.when is None else {"when": self.when.told}),
        }


def checked_steps(steps: Any) -> tuple[Step, ...]:
    """Steps as they are on the wire: [{"tool": ..., "args": {...}}], or in short [{"device_id", "command",
    "args"}] with a command like 1.OnOff.On, and [{"device_id", "attribute", "value"}]. That the devices and
    commands exist is not checked: a step may fail when its time comes. Raises HomeError VALIDATION_ERROR."""

    def refuse(text: str) -> HomeError:
        return HomeError("VALIDATION_ERROR", text)

    if not isinstance(steps, Sequence) or isinstance(steps, str) or not 0 < len(steps) <= MOST_STEPS:
        raise refuse(f"steps is a list of 1 to {MOST_STEPS} steps")
    found = []
    for number, step in enumerate(steps):
        if isinstance(step, Mapping) and "tool" not in step:
            step = _long_form(step)
        if not isinstance(step, Mapping) or step.get("tool") not in TOOLS:
            raise refuse(f"steps[{number}] needs a tool: {' or '.join(TOOLS)}")
        args = step.get("args")
        if not isinstance(args, Mapping):
            raise refuse(f"steps[{number}] needs args, an object")
        needed, allowed = TOOLS[step["tool"]]
        for name in needed:
            if name not in args:
                raise refuse(f"steps[{number}].args lacks {name}")
        for name in args:
            if name not in (*needed, *allowed):
                raise refuse(f"steps[{number}].args has {name!r}; {step['tool']} takes {', '.join(needed)}")
        found.append(Step(step["tool"], dict(args)))
    return tuple(found)


def _long_form(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step without a tool as one with; as it was when it has another form."""
    for tool, key, last in (
        ("execute_command", "command", "args"),
        ("write_attribute", "attribute", "value"),
    ):
        parts = step[key].split(".") if isinstance(step.get(key), str) else []
        if len(parts) != 3 or not parts[0].isdecimal() or set(step) - {"device_id", key, last}:
            continue
        names = ("endpoint_id", "cluster_id", "command_id" if key == "command" else "attribute_id")
        place = dict(zip(names, (int(parts[0]), *parts[1:]), strict=True))
        rest = {name: step[name] for name in ("device_id", last) if name in step}
        return {"tool": tool, "args": {**rest, **place}}
    return step


def carry_out(timeline: Timeline, step: Step) -> None:
    """Do one step now. Raises HomeError as the command or write does."""
    a = step.args
    if step.tool == "execute_command":
        command = f"{a['endpoint_id']}.{a['cluster_id']}.{a['command_id']}"
        timeline.command(a["device_id"], command, a.get("args") or {})
    else:
        path = f"{a['endpoint_id']}.{a['cluster_id']}.{a['attribute_id']}"
        timeline.write(a["device_id"], path, a["value"])


class Workflows:
    """The schedule of a home. Workflows that are due at one tick run in the order in which they were given. A
    step that fails ends its workflow, unless it was to continue. What a change of the home triggers runs from
    the next tick on.

    told: called with each workflow whose status has changed, under the home's lock.
    """

    def __init__(self, timeline: Timeline, told: Callable[[Workflow], None] | None = None) -> None:
        self.timeline = self._timeline = timeline
        self._told = told or (lambda workflow: None)
        self._all: dict[str, Workflow] = {}
        self._last_number = 0
        timeline.on_due(self._next_tick, self._run_due)
        timeline.on_end(self._ended)
        timeline.home.listen(self._changed)

    def schedule(self, start_time: str, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps at a time of the home's clock; the second that it is now means now. Success does not
        promise that the steps will succeed.

        Raises HomeError VALIDATION_ERROR for a time that is past or no time, and for steps of another form.
        """
        try:
            tick = self._timeline.clock.tick_of(start_time)
        except InputError as error:
            raise HomeError("VALIDATION_ERROR", str(error)) from None
        with self._timeline.home.order:
            now = self._timeline.tick
            if tick <= now < tick + TICKS_PER_S:
                tick = now
            if tick < now:
                raise HomeError(
                    "VALIDATION_ERROR", f"start_time {start_time} is past; it is {self._timeline.time} now"
                )
            return self._begin(tick, checked_steps(steps), continue_on_error)

    def after(self, seconds: float, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps so many seconds from now, 0: at once. Raises HomeError VALIDATION_ERROR."""
        good = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not good or not 0 <= seconds * TICKS_PER_S <= FURTHEST_TICK:
            raise HomeError("VALIDATION_ERROR", f"in_s is seconds from now, up to a year, not {seconds!r}")
        checked = checked_steps(steps)
        with self._timeline.home.order:
            tick = self._timeline.tick + round(seconds * TICKS_PER_S)
            return self._begin(tick, checked, continue_on_error)

    def when(self, trigger: Any, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps when something becomes so, once; what is so already counts. See `edge.home.triggers`.

        A workflow that waits for an appliance to be done is cancelled when somebody stops that appliance.
        Raises HomeError as `checked_trigger` does; VALIDATION_ERROR for steps of another form.
        """
        checked = checked_steps(steps)
        with self._timeline.home.order:
            wanted = checked_trigger(trigger, self._timeline)
            if wanted.holds_now(self._timeline):
                tick = self._timeline.tick + wanted.after_ticks
                return self._begin(tick, checked, continue_on_error, wanted)
            before = wanted.expected(self._timeline, self._timeline.tick) if wanted.after_ticks < 0 else None
            if before is not None and before < self._timeline.tick:
                raise HomeError(
                    "VALIDATION_ERROR", f"{wanted.ended} will be done sooner than that: the time is past"
                )
            return self._add(None, checked, continue_on_error, wanted)

    def restore(self, told: Mapping[str, Any]) -> Workflow:
        """A workflow that was pending before a restart: workflow_id, steps, start_time or when,
        continue_on_error. One that was due meanwhile is `failed`: nobody knows whether it is still wanted.
        An appliance that ended meanwhile has ended now.

        Raises HomeError VALIDATION_ERROR, and *_NOT_FOUND for a trigger of what the home does not have.
        """
        name, start, when = told.get("workflow_id"), told.get("start_time"), told.get("when")
        if not isinstance(name, str) or name in self._all or (start is None and when is None):
            raise HomeError("VALIDATION_ERROR", f"{name!r} is no workflow that can be restored")
        steps = checked_steps(told.get("steps"))
        with self._timeline.home.order:
            trigger = None if when is None else checked_trigger(when, self._timeline, restoring=True)
            try:
                tick = None if start is None else self._timeline.clock.tick_of(start)
            except InputError as error:
                raise HomeError("VALIDATION_ERROR", str(error)) from None
            workflow = Workflow(name, tick, steps, told.get("continue_on_error") is True, when=trigger)
            workflow.restored = True
            self.reserve(name)
            self._all[name] = workflow
            if tick is not None and tick < self._timeline.tick:
                detail = f"it was due at {start}, when the home was not running"
                workflow.results.append({"ok": False, "error": {"type": "TIMEOUT_ERROR", "detail": detail}})
                self._set(workflow, "failed")
            else:
                self._told(workflow)
                self._ended_meanwhile(workflow)
        return workflow

    def _ended_meanwhile(self, workflow: Workflow) -> None:
        """A restored one that waits for an appliance which is known not to run."""
        when = workflow.when
        if not workflow.restored or workflow.start_tick is not None or when is None or when.ended is None:
            return
        if at_rest(self._timeline.home.state(when.ended)):
            workflow.start_tick = self._timeline.tick + max(when.after_ticks, 0)

    def run_now(self, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps at once. Raises HomeError VALIDATION_ERROR for steps of another form."""
        return self.after(0, steps, continue_on_error)

    def get(self, workflow_id: str) -> Workflow:
        """Raises HomeError WORKFLOW_NOT_FOUND."""
        found = self._all.get(workflow_id) if isinstance(workflow_id, str) else None
        if found is None:
            raise HomeError("WORKFLOW_NOT_FOUND", f"there is no workflow {workflow_id!r}")
        return found

    def cancel(self, workflow_id: str) -> Workflow:
        """It will not run. Raises HomeError WORKFLOW_NOT_FOUND; INVALID_STATE when it is not pending."""
        with self._timeline.home.order:
            workflow = self.get(workflow_id)
            if workflow.status != "pending":
                raise HomeError("INVALID_STATE", f"{workflow_id} is {workflow.status}, not pending")
            self._set(workflow, "cancelled")
        return workflow

    def all(self) -> list[Workflow]:
        """Every workflow, in the order in which they were given."""
        return list(self._all.values())

    def _add(
        self, tick: int | None, steps: tuple[Step, ...], continue_on_error: bool, when: Trigger | None = None
    ) -> Workflow:
        if len(self._all) >= MOST_WORKFLOWS:
            self._forget_oldest()
        name = f"workflow_{self._next_number()}"
        workflow = Workflow(name, tick, steps, bool(continue_on_error), when=when)
        self._all[workflow.id] = workflow
        self._told(workflow)
        return workflow

    def _forget_oldest(self) -> None:
        """A home that runs for years does not keep all that was ever done."""
        over = next(
            (name for name, one in self._all.items() if one.status not in ("pending", "running")), None
        )
        if over is None:
            raise HomeError("VALIDATION_ERROR", f"{MOST_WORKFLOWS} workflows wait already; cancel some first")
        del self._all[over]

    def reserve(self, workflow_id: Any) -> None:
        """No new workflow gets this id: it is that of one which may still be restored."""
        number = str(workflow_id).removeprefix("workflow_")
        if number.isdecimal() and len(number) < 10:
            self._last_number = max(self._last_number, int(number))

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _begin(
        self, tick: int, steps: tuple[Step, ...], continue_on_error: bool, when: Trigger | None = None
    ) -> Workflow:
        workflow = self._add(tick, steps, continue_on_error, when)
        if tick <= self._timeline.tick:
            self._run(workflow)
        return workflow

    def _set(self, workflow: Workflow, status: Status) -> None:
        workflow.status = status
        self._told(workflow)

    def _pending(self) -> list[Workflow]:
        return [one for one in self._all.values() if one.status == "pending"]

    def _waiting(self) -> list[tuple[Workflow, Trigger]]:
        """Those whose trigger has not come yet."""
        return [(w, w.when) for w in self._pending() if w.start_tick is None and w.when is not None]

    def _next_tick(self, limit: int) -> int | None:
        ticks = [one.start_tick for one in self._pending() if one.start_tick is not None]
        for _, when in self._waiting():
            expected = when.expected(self._timeline, limit)
            if expected is not None:
                ticks.append(expected)
        return min(ticks, default=None)

    def _run_due(self) -> None:
        now = self._timeline.tick
        for workflow, when in self._waiting():
            if when.after_ticks < 0:
                expected = when.expected(self._timeline, now)
                if expected is not None and expected <= now:
                    workflow.start_tick = now
            elif when.holds_now(self._timeline):
                workflow.start_tick = now + when.after_ticks
        due = [(w.start_tick, w) for w in self._pending() if w.start_tick is not None and w.start_tick <= now]
        for _, workflow in sorted(due, key=lambda one: one[0]):
            self._run(workflow)

    def _changed(self, device_id: str, changed: Mapping[str, Any]) -> None:
        """What waits for this attribute, or for the light of a room, may begin at the next tick."""
        for workflow, when in self._waiting():
            if when.ended == device_id:
                self._ended_meanwhile(workflow)
        for workflow, when in self._waiting():
            if when.heard_from(device_id, changed, self._timeline) and when.holds_now(self._timeline):
                workflow.start_tick = self._timeline.tick + max(when.after_ticks, 1)

    def _ended(self, device_id: str, by_itself: bool) -> None:
        for workflow, when in self._waiting():
            if when.ended != device_id:
                continue
            if by_itself:
                workflow.start_tick = self._timeline.tick + max(when.after_ticks, 0)
                continue
            detail = f"{device_id} was stopped before it was done"
            workflow.results.append({"ok": False, "error": {"type": "INVALID_STATE", "detail": detail}})
            self._set(workflow, "cancelled")

    def _run(self, workflow: Workflow) -> None:
        self._set(workflow, "running")
        failed = False
        for step in workflow.steps:
            try:
                carry_out(self._timeline, step)
            except HomeError as error:
                failed = True
                workflow.results.append({"ok": False, "error": {"type": error.type, "detail": str(error)}})
                if not workflow.continue_on_error:
                    break
            else:
                workflow.results.append({"ok": True})
        self._set(workflow, "failed" if failed else "completed")
