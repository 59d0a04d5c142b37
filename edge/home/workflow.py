"""What was scheduled: workflows of commands and writes that run at their time, or are cancelled before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dsp.errors import InputError
from edge.home.clock import TICKS_PER_S
from edge.home.errors import HomeError
from edge.home.simulation import Simulation

Status = Literal["pending", "running", "completed", "failed", "cancelled"]
# A step's tool -> the arguments that it needs, and those that it may have.
TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "execute_command": (("device_id", "endpoint_id", "cluster_id", "command_id"), ("args",)),
    "write_attribute": (("device_id", "endpoint_id", "cluster_id", "attribute_id", "value"), ()),
}
MOST_STEPS, MOST_WORKFLOWS = 1000, 10000


@dataclass(frozen=True)
class Step:
    """One call: tool is execute_command or write_attribute."""

    tool: str
    args: dict[str, Any]


@dataclass
class Workflow:
    """results: of each step that was carried out, {"ok": true} or {"ok": false, "error": {type, detail}}."""

    id: str
    start_tick: int
    steps: tuple[Step, ...]
    continue_on_error: bool = False
    status: Status = "pending"
    results: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self, simulation: Simulation) -> dict[str, Any]:
        """Plain data."""
        return {
            "workflow_id": self.id,
            "status": self.status,
            "start_time": simulation.clock.at(self.start_tick),
            "start_tick": self.start_tick,
            "steps": [{"tool": step.tool, "args": step.args} for step in self.steps],
            "results": self.results,
        }


def checked_steps(steps: Any) -> tuple[Step, ...]:
    """Steps as they are on the wire: [{"tool": ..., "args": {...}}]. That the devices and commands exist is
    not checked: a step may fail when its time comes. Raises HomeError VALIDATION_ERROR."""

    def refuse(text: str) -> HomeError:
        return HomeError("VALIDATION_ERROR", text)

    if not isinstance(steps, Sequence) or isinstance(steps, str) or not 0 < len(steps) <= MOST_STEPS:
        raise refuse(f"steps is a list of 1 to {MOST_STEPS} steps")
    found = []
    for number, step in enumerate(steps):
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


def carry_out(simulation: Simulation, step: Step) -> None:
    """Do one step now. Raises HomeError as the command or write does."""
    a = step.args
    if step.tool == "execute_command":
        command = f"{a['endpoint_id']}.{a['cluster_id']}.{a['command_id']}"
        simulation.command(a["device_id"], command, a.get("args") or {})
    else:
        path = f"{a['endpoint_id']}.{a['cluster_id']}.{a['attribute_id']}"
        simulation.write(a["device_id"], path, a["value"])


class Workflows:
    """The schedule of a simulation. Workflows that are due at one tick run in the order in which they were
    given. A step that fails ends its workflow, unless it was to continue."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._all: dict[str, Workflow] = {}
        simulation.on_due(self._next_tick, self._run_due)

    def schedule(self, start_time: str, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps at a time of the home's clock; the second that it is now means now. Success does not
        promise that the steps will succeed.

        Raises HomeError VALIDATION_ERROR for a time that is past or no time, and for steps of another form.
        """
        try:
            tick = self._simulation.clock.tick_of(start_time)
        except InputError as error:
            raise HomeError("VALIDATION_ERROR", str(error)) from None
        with self._simulation.home.order:
            now = self._simulation.tick
            if tick <= now < tick + TICKS_PER_S:
                tick = now
            if tick < now:
                raise HomeError(
                    "VALIDATION_ERROR", f"start_time {start_time} is past; it is {self._simulation.time} now"
                )
            workflow = self._add(tick, checked_steps(steps), continue_on_error)
            if tick == now:
                self._run(workflow)
        return workflow

    def run_now(self, steps: Any, continue_on_error: bool = False) -> Workflow:
        """Run steps at once. Raises HomeError VALIDATION_ERROR for steps of another form."""
        with self._simulation.home.order:
            workflow = self._add(self._simulation.tick, checked_steps(steps), continue_on_error)
            self._run(workflow)
        return workflow

    def get(self, workflow_id: str) -> Workflow:
        """Raises HomeError WORKFLOW_NOT_FOUND."""
        found = self._all.get(workflow_id) if isinstance(workflow_id, str) else None
        if found is None:
            raise HomeError("WORKFLOW_NOT_FOUND", f"there is no workflow {workflow_id!r}")
        return found

    def cancel(self, workflow_id: str) -> Workflow:
        """It will not run. Raises HomeError WORKFLOW_NOT_FOUND; INVALID_STATE when it is not pending."""
        with self._simulation.home.order:
            workflow = self.get(workflow_id)
            if workflow.status != "pending":
                raise HomeError("INVALID_STATE", f"{workflow_id} is {workflow.status}, not pending")
            workflow.status = "cancelled"
        return workflow

    def all(self) -> list[Workflow]:
        """Every workflow, in the order in which they were given."""
        return list(self._all.values())

    def _add(self, tick: int, steps: tuple[Step, ...], continue_on_error: bool) -> Workflow:
        if len(self._all) >= MOST_WORKFLOWS:
            raise HomeError("VALIDATION_ERROR", f"the home keeps {MOST_WORKFLOWS} workflows at most")
        workflow = Workflow(f"workflow_{len(self._all) + 1}", tick, steps, bool(continue_on_error))
        self._all[workflow.id] = workflow
        return workflow

    def _pending(self) -> list[Workflow]:
        return [one for one in self._all.values() if one.status == "pending"]

    def _next_tick(self) -> int | None:
        return min((one.start_tick for one in self._pending()), default=None)

    def _run_due(self) -> None:
        due = [one for one in self._pending() if one.start_tick <= self._simulation.tick]
        for workflow in sorted(due, key=lambda one: one.start_tick):
            self._run(workflow)

    def _run(self, workflow: Workflow) -> None:
        workflow.status = "running"
        failed = False
        for step in workflow.steps:
            try:
                carry_out(self._simulation, step)
            except HomeError as error:
                failed = True
                workflow.results.append({"ok": False, "error": {"type": error.type, "detail": str(error)}})
                if not workflow.continue_on_error:
                    break
            else:
                workflow.results.append({"ok": True})
        workflow.status = "failed" if failed else "completed"
