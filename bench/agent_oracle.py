"""What an agent would understand, see and hear of a planned episode if nothing ever failed: built from the
item of the plan. For the decision alone; no agent gets any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from edge.agent.decide_request import Decision
from edge.agent.home_view import HomeView
from edge.home.loading import simulation_of_home
from edge.home.schema import commands_of
from edge.home.simulation import Simulation
from edge.home.workflow import Workflows
from edge.perception.facing import Facing
from edge.perception.pointing import Pointing, Ray
from edge.perception.profiles import Identity
from edge.perception.room_map import RoomMap
from edge.perception.tools import Finding
from recordings.evaluate.answers import Answer, StateAt
from recordings.plan.model import Plan, PlanItem
from recordings.profile import Profile


def profile_of(item: PlanItem) -> Profile:
    """The episode that a perfect recording of the item would be."""
    return Profile(
        id=item.id, session="s", created_utc="2026-01-01T00:00:00Z", origin="virtual",
        grounding=item.grounding, query=item.query, feasibility=item.feasibility, difficulty=item.difficulty,
        request=item.request, speaker=item.speaker, target_device=item.target_device, goal=item.goal,
        home=item.home, staging=item.staging,
    )  # fmt: skip


def view_of(item: PlanItem, plan: Plan, simulation: Simulation) -> HomeView:
    """What `home.describe` and `home.rooms` tell at the start."""
    room = next(room for room in plan.rooms if room.id == item.staging.room)
    devices = [
        {
            "id": device.id, "type": device.type, "name": device.name, "room": device.room,
            "position_m": list(device.position_m or ()) if device.room == room.id else None,
            "attributes": simulation.home.state(device.id), "commands": commands_of(device.type),
        }
        for device in simulation.home.devices
    ]  # fmt: skip
    told = {
        "room": {"name": room.id, "size_m": list(room.size_m)},
        "rooms": list(item.home.rooms),
        "devices": devices,
        "microphone": {"position_m": list(room.microphone_m), "yaw_deg": room.microphone_yaw_deg},
        "household": [
            {"id": m.id, "name": m.name, "room": m.room, "devices": list(m.devices)}
            for m in item.home.household
        ],
        "time": simulation.time,
    }
    return HomeView(RoomMap(told), simulation.rooms())


def _found(name: str, value: Any, confidence: float = 0.9) -> Finding[Any]:
    return Finding(name, value, confidence)


def findings_of(
    item: PlanItem, plan: Plan, rng: np.random.Generator | None = None
) -> dict[str, Finding[Any]]:
    """True evidence; with `rng` each with an error as large as it says."""
    room = next(room for room in plan.rooms if room.id == item.staging.room)
    places = {device.id: device.position_m for device in room.devices}
    speaker = next(placed for placed in item.staging.people if placed.speaks)
    off = (lambda sigma: 0.0) if rng is None else (lambda sigma: float(rng.normal(0, sigma)))
    found = {
        "facing": _found(
            "facing",
            Facing(speaker.facing_deg + off(8), 8.0, "body"),
        ),
        "speaker": _found(
            "speaker",
            SimpleNamespace(
                position_m=tuple(np.add(speaker.mouth_m, (off(0.15), off(0.15), 0.0))), sigma_m=0.15
            ),
        ),
    }
    pointing = None
    if speaker.pointing_at is not None:
        origin = np.asarray(speaker.mouth_m) - [0, 0, 0.25]
        ray = np.asarray(places[speaker.pointing_at]) - origin
        ray = _turned(ray / np.linalg.norm(ray), off(5), off(5))
        normal = np.cross(ray, [0.0, 0.0, 1.0])
        normal = normal / np.linalg.norm(normal)
        pointing = Pointing(origin, ray, 5.0, 5.0, normal, (Ray(ray, 1.0),), "right")
    found["pointing"] = _found("pointing", pointing)
    heard = None
    if item.staging.sounding:
        ray = np.asarray(places[item.staging.sounding[0]]) - np.asarray(room.microphone_m)
        unit = _turned(ray / np.linalg.norm(ray), off(6), off(6))
        heard = SimpleNamespace(unit=unit, sigma_deg=8.0, support=1.0)
    found["sound"] = _found("sound", heard)
    scores = [(p.id, (0.8 if p.id == item.speaker else 0.5) + off(0.04)) for p in plan.participants]
    ranked = tuple(sorted(scores, key=lambda one: -one[1]))
    found["voice"] = _found("voice", Identity(ranked[0][0], ranked[0][1], ranked, 0.65))
    found["face"] = _found("face", Identity(item.speaker, 0.8, ((item.speaker, 0.8),), 0.6))
    return found


def _turned(unit: np.ndarray, azimuth: float, elevation: float) -> np.ndarray:
    at = np.degrees(np.arctan2(unit[1], unit[0])) + azimuth
    up = np.degrees(np.arcsin(unit[2])) + elevation
    a, e = np.radians(at), np.radians(up)
    return np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])


# ------------------------------------------------------------------------------ carrying out

ANCHOR_MIN = 7.0  # an appliance without a known end is done then


@dataclass
class Run:
    """An item's home, in which decisions are carried out, and what came of it."""

    item: PlanItem
    simulation: Simulation

    @classmethod
    def of(cls, item: PlanItem) -> Run:
        loaded = simulation_of_home(item.home)
        assert not loaded.left_out
        return cls(item, loaded.simulation)

    def answer(self, decision: Decision) -> Answer:
        """Send the calls, let time pass, and note what an evaluation wants to know."""
        home = self.simulation.home
        workflows = Workflows(self.simulation)
        untouched = simulation_of_home(self.item.home).simulation
        waiting: list[tuple[str, float, list[Any]]] = []
        moments: list[StateAt] = []
        home.listen(
            lambda *_: moments.append(StateAt(at_min=self.simulation.tick / 600, state=home.snapshot()))
        )
        for call in decision.calls:
            args: Mapping[str, Any] = call.args
            if call.name == "home.command":
                self.simulation.command(args["device_id"], args["command"], args["args"])
            elif call.name == "home.write":
                self.simulation.write(args["device_id"], args["attribute"], args["value"])
            elif "when" in args:
                waiting.append((args["when"]["ended"], args["when"]["after_s"] / 60, args["steps"]))
            else:
                workflows.schedule(args["start_time"], args["steps"])
        final = home.snapshot()
        done: dict[str, float] = {}
        for device_id, _, _ in waiting:
            end = self.simulation.done_at(device_id)
            done[device_id] = ANCHOR_MIN if end is None else end / 600
        for device_id, after, steps in waiting:
            when = self.simulation.clock.at(round(600 * (done[device_id] + after)))
            workflows.schedule(when, steps)
        later = any(call.name == "home.schedule" for call in decision.calls)
        for simulation in (self.simulation, untouched):
            simulation.advance(4 * 3600 if later else 60)
        if later:
            final = home.snapshot()
        return Answer(
            episode=self.item.id, declared=decision.device_id, answer=decision.say, outcome=decision.outcome,
            final_state=final if self.item.goal.kind != "refusal" else home.snapshot() if later else final,
            states_at=tuple(moments), done_min=done,
            rooms=_everyday(self.simulation), rooms_untouched=_everyday(untouched),
        )  # fmt: skip


def _everyday(simulation: Simulation) -> dict[str, dict[Any, float]]:
    return {name: dict(values) for name, values in simulation.rooms().items()}
