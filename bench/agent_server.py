"""Gives one episode after the other to an agent that is a process of its own, and notes what it does.

The agent has one address and finds there what a rig would give it:

    episode.next      {"episode": n, "start_ns", "frames", "pictures": [t_ns, ...]}; episode null: no more
    observe.sound     first, frames -> {"foa": float32 bytes (frames, 4), "t_ns"}; AmbiX at 24 kHz
    observe.pictures  from_ns, to_ns -> {"pictures": [{"t_ns", "jpeg"}]}, `MOST_PICTURES` at a time
    observe.heard     decided_after_s: an utterance is complete, so long after its end (for the latency)
    home.*, agent.*   as on a live rig (docs/home.md, docs/agent.md)

The clock of the home stands still while the agent thinks. When the episode is over, time passes as far as its
goal asks, with an untouched home beside it, and the scorer's `Answer` is made from both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from bench.agent_episodes import START_NS, Bundle, read_bundle
from capture.virtual.staged import staged_rig
from dsp.errors import InputError
from edge.home.clock import TICKS_PER_S
from edge.home.loading import simulation_of_home
from edge.home.service import HomeService
from edge.home.simulation import Simulation
from edge.perception.utterance import RATE_HZ
from edge.stream import CommandServer
from recordings.evaluate.answers import Answer, StateAt
from recordings.plan.model import Plan, PlanItem
from recordings.profile import HomeState, RoomVariable
from recordings.simuhome import CENTI

MOST_PICTURES = 8
MOST_FRAMES = RATE_HZ * 2
CYCLE_S = 3600
AIR_MIN = 10.0  # how long a room is left to change (Q4)
DAY_MIN = 24 * 60.0  # within which anything that was scheduled on an infeasible request shows
TICKS_PER_MIN = 60 * TICKS_PER_S


@dataclass
class Episode:
    """What an agent did with an episode. events: its reports and commands, in order. seconds_to_declare: from
    the end of the speech to the first declaration; None without one."""

    item: PlanItem
    events: list[dict[str, Any]] = field(default_factory=list)
    answer: Answer | None = None
    seconds_to_declare: float | None = None
    heard_at: float | None = None

    def last(self, kind: str) -> dict[str, Any]:
        """The last event of a kind; {} without one."""
        return next((event for event in reversed(self.events) if event["kind"] == kind), {})


class _Events:
    """Takes what a home service publishes; nothing goes on the wire."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode

    def publish(self, stream: str, t_ns: int, array: Any = None, *, data: dict[str, Any]) -> None:
        """As `Publisher.publish`."""
        if stream != "event":
            return
        episode = self._episode
        episode.events.append(data)
        if data["kind"] == "declared" and episode.seconds_to_declare is None and episode.heard_at is not None:
            episode.seconds_to_declare = time.perf_counter() - episode.heard_at


class EpisodeServer:
    """plan and folder: of `bench.agent_episodes`. episodes: which of them, in this order. traffic: is called
    with (op, answer as MessagePack) for everything that the agent is told.

    `done` holds an Episode for each that is over. Use as a context manager."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        episodes: Sequence[str],
        traffic: Callable[[str, bytes], None] | None = None,
        on_done: Callable[[Episode], None] = lambda episode: None,
    ) -> None:
        by_id = {item.id: item for item in plan.items}
        self._items = [by_id[name] for name in episodes]
        self._plan, self._folder, self._on_done = plan, folder, on_done
        self._server = _Told("tcp://127.0.0.1:*", traffic)
        self._server.register("episode.next", self._next)
        self._server.register("observe.sound", self._sound)
        self._server.register("observe.pictures", self._pictures)
        self._server.register("observe.heard", self._heard)
        self.address = self._server.address
        self.done: list[Episode] = []
        self._number = 0
        self._now: Episode | None = None
        self._bundle: Bundle | None = None
        self._home: _Home | None = None

    def __enter__(self) -> EpisodeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def over(self) -> bool:
        """Every episode was given and ended."""
        return len(self.done) == len(self._items)

    def _next(self) -> dict[str, Any]:
        self._end()
        if self._number == len(self._items):
            return {"episode": None}
        item = self._items[self._number]
        self._number += 1
        bundle = self._bundle = read_bundle(self._folder / item.id)
        self._now = Episode(item)
        self._home = _Home(item, self._plan, self._server, _Events(self._now))
        return {
            "episode": self._number,
            "start_ns": START_NS,
            "frames": len(bundle.foa),
            "pictures": [t_ns for t_ns, _ in bundle.pictures],
        }

    def _end(self) -> None:
        if self._now is None or self._home is None:
            return
        self._now.answer = self._home.answer(self._now)
        self.done.append(self._now)
        self._on_done(self._now)
        self._now = self._home = None

    def _seen(self) -> Bundle:
        if self._bundle is None:
            raise InputError("no episode yet: call episode.next first")
        return self._bundle

    def _sound(self, first: int, frames: int) -> dict[str, Any]:
        foa = self._seen().foa
        if not (0 <= first <= len(foa) and 0 <= frames <= MOST_FRAMES):
            raise InputError(f"observe.sound gives up to {MOST_FRAMES} of {len(foa)} frames at a time")
        part = np.ascontiguousarray(foa[first : first + frames], "<f4")
        return {"foa": part.tobytes(), "t_ns": START_NS + round(first * 1e9 / RATE_HZ)}

    def _pictures(self, from_ns: int, to_ns: int) -> dict[str, Any]:
        inside = [(t_ns, jpeg) for t_ns, jpeg in self._seen().pictures if from_ns <= t_ns <= to_ns]
        return {"pictures": [{"t_ns": t_ns, "jpeg": jpeg} for t_ns, jpeg in inside[:MOST_PICTURES]]}

    def _heard(self, decided_after_s: float) -> dict[str, Any]:
        if self._now is not None:
            self._now.heard_at = time.perf_counter() - float(decided_after_s)
        return {}


class _Told(CommandServer):
    """A command server that shows what it answers."""

    def __init__(self, address: str, traffic: Callable[[str, bytes], None] | None) -> None:
        self._traffic = traffic
        super().__init__(address)

    def register(self, op: str, handler: Callable[..., dict[str, Any] | None]) -> None:
        """As in CommandServer."""
        traffic = self._traffic
        if traffic is None:
            super().register(op, handler)
            return

        def shown(**args: Any) -> dict[str, Any] | None:
            told = handler(**args)
            traffic(op, msgspec.msgpack.encode(told))
            return told

        super().register(op, shown)


class _Home:
    """The home of one episode, and the same home left alone."""

    def __init__(self, item: PlanItem, plan: Plan, server: CommandServer, events: Any) -> None:
        self._item = item
        home = with_ends(item.home)
        self._simulation = simulation_of_home(home).simulation
        self._alone = simulation_of_home(home).simulation
        self._moments: list[StateAt] = []
        self._done_min: dict[str, float] = {}
        for step in () if item.goal is None else item.goal.steps:
            anchor = step.when.anchor_device
            end = None if anchor is None else self._simulation.done_at(anchor)
            if anchor is not None and end is not None:
                self._done_min[anchor] = end / TICKS_PER_MIN
        rig = staged_rig(item, plan, storage=".")
        HomeService(rig, self._simulation, server, events, household=item.home.household, real_time=False)
        self._simulation.home.listen(self._changed)

    def _changed(self, device_id: str, changed: dict[str, Any]) -> None:
        moment = self._simulation.tick / TICKS_PER_MIN
        self._moments.append(StateAt(at_min=moment, state=self._simulation.home.snapshot()))

    def answer(self, episode: Episode) -> Answer:
        """What the scorer is given."""
        item, goal = self._item, self._item.goal
        finished = episode.last("finished")
        declared = episode.last("declared")
        given: dict[str, Any] = {"episode": item.id, "answer": finished.get("answer", "")}
        if declared:
            given["declared"] = declared["device_id"]
        if finished:
            given["outcome"] = finished["outcome"]
        if goal.kind == "refusal":
            self._pass(DAY_MIN)
            given["final_state"] = _difference(self._simulation, self._alone)
            return Answer(**given)
        if goal.steps:
            last = max(self._minute(step) for step in goal.steps)
            self._pass(last + 2.0)
            given["states_at"] = tuple(self._moments)
            given["done_min"] = self._done_min
        if goal.changes:
            self._pass(AIR_MIN)
            given["rooms"], given["rooms_untouched"] = _air(self._simulation), _air(self._alone)
        given["final_state"] = self._simulation.home.snapshot()
        return Answer(**given)

    def _minute(self, step: Any) -> float:
        if step.when.anchor_device is None:
            return float(step.when.at_min or 0.0)
        return self._done_min.get(step.when.anchor_device, 0.0) + float(step.when.offset_min)

    def _pass(self, minutes: float) -> None:
        tick = max(self._simulation.tick, round(minutes * TICKS_PER_MIN))
        self._simulation.advance_to(tick)
        self._alone.advance_to(tick)


def with_ends(home: HomeState) -> HomeState:
    """The home in which every cycle that runs has an end: after an hour, where the plan says none."""
    running, left = "1.OperationalState.OperationalState", "1.OperationalState.CountdownTime"
    simulation = simulation_of_home(home).simulation
    devices = []
    for device in home.devices:
        if device.attributes.get(running) == 1 and simulation.done_at(device.id) is None:
            device = replace(device, attributes={**device.attributes, left: CYCLE_S})
        devices.append(device)
    return replace(home, devices=tuple(devices))


def _difference(one: Simulation, other: Simulation) -> dict[str, dict[str, Any]]:
    """What is not in the one home as in the other."""
    states = other.home.snapshot()
    found: dict[str, dict[str, Any]] = {}
    for device_id, state in one.home.snapshot().items():
        for path, value in state.items():
            if states.get(device_id, {}).get(path) != value:
                found.setdefault(device_id, {})[path] = value
    return found


def _air(simulation: Simulation) -> dict[str, dict[RoomVariable, float]]:
    names: tuple[RoomVariable, ...] = get_args(RoomVariable)
    return {
        room: {name: state[name] / (100 if name in CENTI else 1) for name in names}
        for room, state in simulation.rooms().items()
    }
