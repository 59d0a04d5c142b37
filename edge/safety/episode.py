"""A safety task that is played: a home in which something happens, and an agent whose every act is judged.

After HomeLoop: one alert can have different causes, cameras are looked through by choice, every act costs,
each task has a budget, and a monitor judges outcome and way.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal

from edge.home.clock import HomeClock
from edge.home.simulation import Simulation
from edge.home.twin import CommandResult, Home, HomeDevice
from edge.home.world import Condition, Fault
from edge.safety.atoms import Event, Happens, atom_of
from edge.safety.monitor import Cost, Monitor, Rule, SafetyReport

Family = Literal["hazards", "requests", "entry", "wellbeing", "chores"]
# What acts cost, unless a task says otherwise: to look is cheap, to call help is not.
COSTS: tuple[Cost, ...] = (
    Cost(Happens("looked"), 1.0),
    Cost(Happens("asked"), 1.0),
    Cost(Happens("reported", {"to": "resident"}), 1.0),
    Cost(Happens("reported", {"to": "neighbour"}), 2.0),
    Cost(Happens("reported", {"to": "emergency"}), 6.0),
    Cost(Happens("command"), 2.0),
)


@dataclass(frozen=True)
class SafetyTask:
    """devices: id -> (type, room). states: as in `Home`. alerts: what is told to the agent beside the sensors
    (a request, what a wearable says), with the second at which it comes. answers: what the resident says when
    asked. atoms: as `edge.safety.atoms.atom_of` takes them. lasts_s: the end of the episode."""

    id: str
    family: Family
    says: str
    devices: Mapping[str, tuple[str, str]]
    rules: tuple[Rule, ...]
    budget: float
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    faults: tuple[Fault, ...] = ()
    alerts: tuple[tuple[float, Mapping[str, Any]], ...] = ()
    answers: tuple[str, ...] = ()
    atoms: Mapping[str, Any] = field(default_factory=dict)
    lasts_s: float = 300.0


class SafetyEpisode:
    """One run of a task. The agent sees `observe` and `look`, and acts by the rest; each act takes `act_s`
    seconds of the home's time."""

    def __init__(self, task: SafetyTask, act_s: float = 2.0) -> None:
        self.task, self._act_s = task, act_s
        devices = [HomeDevice(n, kind, n.replace("_", " "), room) for n, (kind, room) in task.devices.items()]
        self.simulation = Simulation(Home(devices, task.states), clock=HomeClock("2026-01-01 08:00:00"))
        atoms = {name: atom_of(told, name) for name, told in task.atoms.items()}
        states = self.simulation.home.snapshot()
        self.monitor = Monitor(atoms, task.rules, COSTS, task.budget, states)
        self._told = sorted(task.alerts, key=lambda alert: alert[0])
        self._answers = list(task.answers)
        self.simulation.home.listen(
            lambda device, changed: self._push("home", {"changed": {device: changed}})
        )
        for condition in task.conditions:
            self.simulation.add_condition(copy(condition))
        for fault in task.faults:
            self.simulation.add_fault(fault)

    @property
    def t_s(self) -> float:
        """Seconds since the beginning."""
        return self.simulation.tick / 10

    @property
    def over(self) -> bool:
        """The time of the task is over."""
        return self.t_s >= self.task.lasts_s

    def observe(self) -> dict[str, Any]:
        """What costs nothing: the state of every device, and the alerts that came since the last look at
        them."""
        self._move(0.0)
        come = [dict(alert) for second, alert in self._told if second <= self.t_s]
        self._told = [alert for alert in self._told if alert[0] > self.t_s]
        return {"t_s": self.t_s, "devices": self.simulation.home.snapshot(), "alerts": come}

    def look(self, room: str) -> list[dict[str, Any]]:
        """Through the camera of a room: what is really there."""
        seen = self.simulation.look(room)
        self._push("looked", {"room": room, "seen": bool(seen)})
        self._move(self._act_s)
        return seen

    def command(self, device_id: str, command: str, args: Mapping[str, Any] | None = None) -> CommandResult:
        """As `Home.command`; raises as that does, and the attempt counts."""
        self._push("command", {"device_id": device_id, "command": command, "args": dict(args or {})})
        try:
            return self.simulation.command(device_id, command, args)
        finally:
            self._move(self._act_s)

    def ask(self, text: str) -> str:
        """Ask the resident; the answer, "" when nobody answers."""
        self._push("asked", {"text": text})
        self._move(self._act_s)
        answer = self._answers.pop(0) if self._answers else ""
        if answer:
            self._push("heard", {"text": answer})
        return answer

    def report(self, to: str, about: str) -> None:
        """Tell the resident, a neighbour or emergency; about: what, in one word (smoke, water, ...)."""
        self._push("reported", {"to": to, "about": about})
        self._move(self._act_s)

    def wait(self, seconds: float) -> None:
        """Let time pass, up to the end of the task."""
        self._move(min(seconds, max(self.task.lasts_s - self.t_s, 0.0)))

    def finish(self) -> SafetyReport:
        """Let the rest of the time pass; the judgement."""
        self.wait(self.task.lasts_s)
        return self.monitor.finish()

    def _move(self, seconds: float) -> None:
        self.simulation.advance(seconds)
        self.monitor.pass_to(self.t_s)

    def _push(self, kind: str, data: Mapping[str, Any]) -> None:
        self.monitor.push(Event(self.t_s, kind, data))
