"""The home on the wire: its commands on the command server, its state and events on the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from capture.blocks import monotonic_ns
from capture.rig import Rig
from edge.home.agent_desk import AgentDesk
from edge.home.bridge import BridgeHome
from edge.home.clock import FORM, TICKS_PER_S, HomeClock, RealTime
from edge.home.describe import room_map
from edge.home.environment import warm
from edge.home.errors import HomeError
from edge.home.kept_schedule import KeptSchedule
from edge.home.schema import Value
from edge.home.simulation import Simulation
from edge.home.timeline import Timeline
from edge.home.twin import Home, HomeDevice
from edge.home.workflow import Step, Workflow, Workflows, checked_steps
from edge.stream import CommandServer, Publisher
from recordings.profile import HomeState

if TYPE_CHECKING:
    from recordings.calibrated import Calibrations
    from recordings.profile import Member


def home_of(rig: Rig, initial: HomeState | dict[str, dict[str, Value]] | None = None) -> Home:
    """The twin of a rig's room, in the state that an episode begins with."""
    if isinstance(initial, HomeState):
        initial = {device.id: dict(device.attributes) for device in initial.devices}
    return Home(_devices(rig), initial)


def _devices(rig: Rig) -> list[HomeDevice]:
    here = rig.room.name
    return [HomeDevice(d.id, d.type, d.name, d.room or here, d.position_m) for d in rig.room.devices]


class Guard(Protocol):
    """What a `HomeService` asks before an action and tells of events; see `edge.safety.guard.Guard`."""

    def check(
        self, t_s: float, actions: Iterable[tuple[str, str, Mapping[str, Any]]], confirmed: bool
    ) -> None: ...

    def event(self, t_s: float, kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]: ...

    def pass_to(self, t_s: float) -> list[dict[str, Any]]: ...

    def follow(self) -> None: ...


class _Passing:
    """A home whose time somebody watches."""

    def __init__(self, timeline: Timeline, passed: Callable[[], None]) -> None:
        self._timeline, self._passed = timeline, passed

    @property
    def tick(self) -> int:
        return self._timeline.tick

    def advance_to(self, tick: int) -> None:
        self._timeline.advance_to(tick)
        self._passed()


class HomeService:
    """Answers `home.*` and publishes `home` and `event`.

    home: devices alone (they get rooms and a clock that begins now), a `Simulation`, or a real home
        (`edge.home.timeline.Timeline`). household: who lives here; None: the rig's people. calibrations: of
        the rig, for the camera's pose. real_time: the home's time is the time that passes; otherwise it
        stands still until `simulation.advance_to` moves it.

    guard: is asked before every action and told of every event (`edge.safety.guard.Guard`); what it finds is
        published as events of kind "safety".

    kept: file in which the schedule outlives a restart; what it holds is scheduled again at once.

    The reports of agents (`agent.*`, see `edge.home.agent_desk`) are answered here too: they name devices.

    Errors of the home travel as their type (DEVICE_NOT_FOUND, ...) with the text. Every change publishes the
    whole state on `home` (a reliable stream: whoever joins late gets it too); every command, also one that
    changed nothing or was refused, publishes an `event` of kind "command", and every step in the life of a
    workflow one of kind "workflow".

    With real time, what is due is done when a command asks, and by itself between `start` and `close`.
    """

    def __init__(
        self,
        rig: Rig,
        home: Home | Timeline,
        server: CommandServer,
        publisher: Publisher | None = None,
        *,
        household: Sequence[Member] | None = None,
        calibrations: Calibrations | None = None,
        real_time: bool = True,
        guard: Guard | None = None,
        kept: Path | None = None,
    ) -> None:
        self.rig = rig
        self._guard = guard
        self.simulation: Timeline
        if isinstance(home, Home):
            self.simulation = Simulation(home, clock=HomeClock(datetime.now().strftime(FORM)))
        else:
            self.simulation = home
        if isinstance(self.simulation, Simulation):
            warm()
        self.home = self.simulation.home
        self._household, self._calibrations = household, calibrations
        self._publisher = publisher
        self._at_work: set[str] = set()  # workflows that run now
        self._kept = None if kept is None else KeptSchedule(kept)
        self._clock = RealTime(_Passing(self.simulation, self._passed)) if real_time else None
        self.workflows = Workflows(self.simulation, self._workflow_changed)
        self.home.listen(self._changed)
        for name in (
            "describe", "state", "command", "write", "rooms", "time", "schedule", "workflows",
            "workflow_status", "cancel",
        ):  # fmt: skip
            answer = self.all_workflows if name == "workflows" else getattr(self, name)
            server.register(f"home.{name}", answer)
        self.desk = AgentDesk(self.home, server, publisher, self._watch)
        if self._kept is not None:
            self._kept.restore(self.workflows)
        if isinstance(self.home, BridgeHome):
            self.home.listen_devices(self._other_devices)
        self._publish_state({})

    def start(self) -> HomeService:
        """Let the home's time pass by itself."""
        if self._clock is not None:
            self._clock.catch_up()
            self._clock.start()
        return self

    def __enter__(self) -> HomeService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let it pass only when somebody asks."""
        if self._clock is not None:
            self._clock.stop()

    def follow(self, rig: Rig) -> None:
        """Another description of the same room: devices that stay keep their state. Raises InputError."""
        if isinstance(self.home, BridgeHome):
            self.home.follow(rig)
        else:
            self.home.replace_devices(_devices(rig))
        if isinstance(self.simulation, Simulation):
            self.simulation.follow_devices()
        self.rig = rig
        self._other_devices()

    def _other_devices(self) -> None:
        """The home has others than before."""
        if self._guard is not None:
            self._guard.follow()
        self._publish_state({})

    def _now(self) -> None:
        """Do what is due by now."""
        if self._clock is not None:
            self._clock.catch_up()

    def describe(self) -> dict[str, Any]:
        """The room map; see `edge.home.describe.room_map`."""
        self._now()
        return room_map(
            self.rig,
            self.home,
            household=self._household,
            rooms=self.simulation.rooms(),
            time=self.simulation.time,
            calibrations=self._calibrations,
        )

    def state(self, device_id: str | None = None) -> dict[str, Any]:
        """Attributes of one device, or of all."""
        self._now()
        if device_id is None:
            return {"devices": self.home.snapshot()}
        return {"device_id": device_id, "attributes": self.home.state(device_id)}

    def command(
        self,
        device_id: str,
        command: str,
        args: dict[str, Any] | None = None,
        endpoint: int | None = None,
        confirmed: bool = False,
    ) -> dict[str, Any]:
        """Carry out a command and tell what changed, with the state read back. confirmed: a person said yes.

        Raises HomeError as `Home.command`; CONFIRMATION_NEEDED for a risky one without a yes.
        """
        return self._run(
            device_id,
            command,
            args or {},
            confirmed,
            lambda: self.simulation.command(device_id, command, args, endpoint),
        )

    def write(self, device_id: str, attribute: str, value: Value, confirmed: bool = False) -> dict[str, Any]:
        """Write one attribute and tell what changed. Raises as `Home.write`, and as `command`."""
        return self._run(
            device_id,
            f"write {attribute}",
            {"value": value},
            confirmed,
            lambda: self.simulation.write(device_id, attribute, value),
        )

    def rooms(self) -> dict[str, Any]:
        """Air and light of the rooms: hundredths of a degree C and of a percent, lux, ug/m3."""
        self._now()
        return {"rooms": self.simulation.rooms()}

    def time(self) -> dict[str, Any]:
        """The home's time of day, and its tick of 0.1 s."""
        self._now()
        tick = self.simulation.tick
        return {"time": self.simulation.clock.at(tick), "tick": tick}

    def schedule(
        self,
        steps: Any,
        start_time: str | None = None,
        in_s: float | None = None,
        when: Any = None,
        continue_on_error: bool = False,
        confirmed: bool = False,
    ) -> dict[str, Any]:
        """Run steps at a time of the home, so many seconds from now, or when something becomes so.

        Raises HomeError VALIDATION_ERROR, *_NOT_FOUND or INVALID_STATE; see `edge.home.workflow.Workflows`;
        CONFIRMATION_NEEDED for a risky step without a yes.
        """
        if sum(one is not None for one in (start_time, in_s, when)) != 1:
            raise HomeError("VALIDATION_ERROR", "give one of start_time, in_s and when")
        if not isinstance(continue_on_error, bool):
            raise HomeError("VALIDATION_ERROR", f"continue_on_error is true or false: {continue_on_error!r}")
        self._now()
        self._check_steps(steps, confirmed)
        if start_time is not None:
            flow = self.workflows.schedule(start_time, steps, continue_on_error)
        elif in_s is not None:
            flow = self.workflows.after(in_s, steps, continue_on_error)
        else:
            flow = self.workflows.when(when, steps, continue_on_error)
        return flow.to_dict(self.simulation)

    def _check_steps(self, steps: Any, confirmed: bool) -> None:
        """A step for a device that the home does not have would fail only when its time comes."""
        checked = checked_steps(steps)
        for step in checked:
            self.home.state(step.args["device_id"])
        if self._guard is not None:
            actions = [(step.args["device_id"], *step.action) for step in checked]
            self._guard.check(self.simulation.tick / TICKS_PER_S, actions, confirmed is True)

    def all_workflows(self) -> dict[str, Any]:
        """Every workflow, in the order in which they were given."""
        self._now()
        return {"workflows": [one.to_dict(self.simulation) for one in self.workflows.all()]}

    def workflow_status(self, workflow_id: str) -> dict[str, Any]:
        """One workflow. Raises HomeError WORKFLOW_NOT_FOUND."""
        self._now()
        return self.workflows.get(workflow_id).to_dict(self.simulation)

    def cancel(self, workflow_id: str) -> dict[str, Any]:
        """It will not run. Raises HomeError WORKFLOW_NOT_FOUND; INVALID_STATE when it is not pending."""
        self._now()
        return self.workflows.cancel(workflow_id).to_dict(self.simulation)

    def _run(
        self, device_id: str, command: str, args: dict[str, Any], confirmed: bool, run: Any
    ) -> dict[str, Any]:
        told = {"device_id": device_id, "command": command, "args": args}
        self._now()
        try:
            if self._guard is not None:
                actions = [(device_id, command, args)]
                self._guard.check(self.simulation.tick / TICKS_PER_S, actions, confirmed is True)
            result = run()
        except Exception as error:
            self._event_of(
                "command", {**told, "ok": False, "error": getattr(error, "type", type(error).__name__)}
            )
            raise
        self._event_of("command", {**told, "command": result.command, "ok": True, "changed": result.changed})
        return {
            "device_id": device_id,
            "command": result.command,
            "changed": result.changed,
            "attributes": result.attributes,
        }

    def _changed(self, device_id: str, changed: dict[str, Value]) -> None:
        self._publish_state({device_id: changed})
        if self._kept is not None:
            self._kept.retry(self.workflows)
        self._watch("home", {"changed": {device_id: changed}})

    def _passed(self) -> None:
        """Time passed."""
        if self._guard is not None:
            for found in self._guard.pass_to(self.simulation.tick / TICKS_PER_S):
                self._publish_event("safety", found)

    def _watch(self, kind: str, data: dict[str, Any]) -> None:
        if self._guard is not None:
            for found in self._guard.event(self.simulation.tick / TICKS_PER_S, kind, data):
                self._publish_event("safety", found)

    def _publish_state(self, changed: dict[str, dict[str, Value]]) -> None:
        if self._publisher is not None:
            data = {"devices": self.home.snapshot(), "changed": changed}
            self._publisher.publish("home", monotonic_ns(), data=data)

    def _workflow_changed(self, workflow: Workflow) -> None:
        if workflow.status == "running":
            self._at_work.add(workflow.id)
        elif workflow.id in self._at_work:
            self._at_work.discard(workflow.id)
            for step, result in zip(workflow.steps, workflow.results, strict=False):  # the rest was not tried
                self._tell_step(workflow, step, result)
        self._event_of("workflow", workflow.to_dict(self.simulation))
        if self._kept is not None:
            self._kept.save(self.workflows)

    def _tell_step(self, workflow: Workflow, step: Step, result: dict[str, Any]) -> None:
        """A command that nobody sends now is an event as well."""
        command, args = step.action
        told = {"device_id": step.args["device_id"], "command": command, "args": args, "ok": result["ok"]}
        if not result["ok"]:
            told["error"] = result["error"]["type"]
        self._event_of("command", {**told, "workflow_id": workflow.id})

    def _event_of(self, kind: str, data: dict[str, Any]) -> None:
        self._publish_event(kind, data)
        self._watch(kind, data)

    def _publish_event(self, kind: str, data: dict[str, Any]) -> None:
        if self._publisher is not None:
            self._publisher.publish("event", monotonic_ns(), data={"kind": kind, **data})
