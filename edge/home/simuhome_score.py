"""Was a SimuHome episode (arXiv 2509.24282) solved, by the benchmark's rules.

qt1       required actions, then a judge
qt2       each room value against the same home left alone until the same tick: at least 1e-8 the wanted way
qt3       all asserts hold in the final state
qt4-1..3  time goes on; each goal needs one tick of its window at which all its targets hold. Ticks that had
          passed when the agent finished are lost.
infeasible requests   a judge
A judge is asked three times for a letter, A (solved) or B; the majority counts, and any error makes the score
-1. `Quirks.raw_levels` is a rule of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsp.errors import InputError
from edge.home.errors import HomeError
from edge.home.loading import simulation_of_config
from edge.home.simulation import Simulation
from recordings.goal_rules import same_value

NOTICEABLE = 1e-8
JUDGE_CALLS = 3
LEVEL = "LevelControl.CurrentLevel"
Judge = Callable[[Mapping[str, Any], str], str]  # (episode, answer) -> "A" or "B"


@dataclass(frozen=True)
class Call:
    """A tool call that an agent made; whether it succeeded is not looked at."""

    tool: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One goal, required action or judge's vote: whether it was met, and why not."""

    name: str
    met: bool
    why: str = ""


@dataclass(frozen=True)
class EpisodeScore:
    """score: 1 solved, 0 not, -1 the judge failed. actions: the required ones, in order."""

    score: int
    goals: tuple[Part, ...]
    actions: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = {
            key: [{"name": p.name, "met": p.met, "why": p.why} for p in getattr(self, key)]
            for key in ("goals", "actions")
        }
        return {"score": self.score, **plain}


def required_actions(required: Sequence[Mapping[str, Any]], calls: Sequence[Call]) -> tuple[Part, ...]:
    """Each required action needs a call of that tool with at least these parameters."""
    parts = []
    for one in required:
        wanted = one.get("params") or {}
        met = any(
            call.tool == one["tool"]
            and all(name in call.params and call.params[name] == value for name, value in wanted.items())
            for call in calls
        )
        named = ", ".join(f"{name}={value}" for name, value in wanted.items())
        parts.append(Part(f"{one['tool']}({named})", met, "" if met else "was not called"))
    return tuple(parts)


def score_episode(
    episode: Mapping[str, Any],
    simulation: Simulation,
    calls: Sequence[Call],
    answer: str = "",
    judge: Judge | None = None,
    *,
    ticks_after: int = 0,
) -> EpisodeScore:
    """Score what an agent did with an episode.

    simulation: the episode's home, as the agent left it; schedules (qt4) move it on. ticks_after: time that
    passes before a final state is looked at: with a clock that stands still while the agent works nothing in
    a room has moved yet, one tick is enough. Raises InputError for what is no episode.
    """
    try:
        kind, feasible = str(episode["meta"]["query_type"]), episode["meta"]["case"] == "feasible"
        evaluation, config = episode["eval"], episode["initial_home_config"]
        actions = required_actions(evaluation["required_actions"], calls)
        if not feasible or kind == "qt1":
            if kind == "qt1" and feasible and not all(part.met for part in actions):
                return EpisodeScore(0, (), actions)
            return _judged(episode, answer, judge, actions)
        if ticks_after:
            simulation.advance_to(simulation.tick + ticks_after)
        if kind == "qt2":
            goals = relative_goals(evaluation["goals"], config, simulation)
        elif kind == "qt3":
            goals = state_goals(evaluation["goals"], simulation)
        elif kind.startswith("qt4"):
            goals = scheduled_goals(evaluation["goals"], simulation)
        else:
            raise InputError(f"the query_type {kind!r} is not SimuHome's")
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not an episode of SimuHome ({type(error).__name__}: {error})") from None
    return EpisodeScore(int(all(part.met for part in goals)), goals, actions)


def relative_goals(
    goals: Sequence[Mapping[str, Any]], config: Mapping[str, Any], simulation: Simulation
) -> tuple[Part, ...]:
    """Room values against those of the same home left alone up to the same tick (qt2)."""
    untouched = simulation_of_config(config, simulation.quirks)
    untouched.advance_to(simulation.tick)
    ended, alone = simulation.rooms(), untouched.rooms()
    parts = []
    for goal in goals:
        room, variable, way = goal["room_id"], goal["room_state"], goal["direction"]
        name = f"{variable} of {room} {way}"
        if room not in ended or variable not in ended[room]:
            parts.append(Part(name, False, f"the home has no {variable} of {room}"))
            continue
        moved = ended[room][variable] - alone[room][variable]
        met = (moved if way == "increase" else -moved) >= NOTICEABLE
        parts.append(Part(name, met, "" if met else f"moved by {moved:g}"))
    return tuple(parts)


def state_goals(goals: Sequence[Mapping[str, Any]], simulation: Simulation) -> tuple[Part, ...]:
    """All asserts of each device, now (qt3)."""
    return tuple(Part(str(goal["device_id"]), *_holds(goal, simulation)) for goal in goals)


def scheduled_goals(goals: Sequence[Mapping[str, Any]], simulation: Simulation) -> tuple[Part, ...]:
    """Goals in their windows (qt4); moves the simulation on to the last tick that is needed."""
    windows = []
    for goal in goals:
        at, slack = goal["when"]["at_tick"], goal["when"]["tolerance_ticks"]
        windows.append((at - slack, at + slack))
    first_tick = simulation.tick
    met = [False] * len(goals)
    why = ["its time had passed when the agent finished"] * len(goals)
    while True:
        now = simulation.tick
        for number, (begin, last) in enumerate(windows):
            if not met[number] and begin <= now <= last:
                met[number], why[number] = _all_hold(goals[number]["targets"], simulation)
        open_ones = [
            max(begin, now + 1)
            for n, (begin, last) in enumerate(windows)
            if not met[n] and last >= max(begin, now + 1) and last >= first_tick
        ]
        if not open_ones:
            break
        simulation.advance_to(min(open_ones))
    return tuple(Part(f"at tick {goal['when']['at_tick']}", met[n], why[n]) for n, goal in enumerate(goals))


def _all_hold(targets: Sequence[Mapping[str, Any]], simulation: Simulation) -> tuple[bool, str]:
    for target in targets:
        held, why = _holds(target, simulation)
        if not held:
            return False, why
    return True, ""


def _holds(target: Mapping[str, Any], simulation: Simulation) -> tuple[bool, str]:
    device_id = target["device_id"]
    for one in target["asserts"]:
        path, wanted = one["attribute"], one["value"]
        percent = one.get("value_type") == "percent" and path.endswith(LEVEL)
        if percent and not simulation.quirks.raw_levels:
            wanted = max(1, round(254 * wanted / 100))
        try:
            value = simulation.home.read(device_id, path)
        except HomeError as error:
            return False, str(error)
        if not same_value(value, wanted):
            return False, f"{path} of {device_id} is {value!r}, not {wanted!r}"
    return True, ""


def _judged(
    episode: Mapping[str, Any], answer: str, judge: Judge | None, actions: tuple[Part, ...]
) -> EpisodeScore:
    votes: list[Part] = []
    for number in range(JUDGE_CALLS):
        try:
            if judge is None:
                raise InputError("the answer must be judged, and there is no judge")
            letter = judge(episode, answer)
        except Exception as error:  # whatever a judge fails with: its score is -1, by the benchmark's rule
            return EpisodeScore(-1, (*votes, Part(f"judge {number + 1}", False, str(error))), actions)
        if letter not in ("A", "B"):
            why = f"the judge answered {letter!r}, not A or B"
            return EpisodeScore(-1, (*votes, Part(f"judge {number + 1}", False, why)), actions)
        votes.append(Part(f"judge {number + 1}", letter == "A"))
    return EpisodeScore(int(2 * sum(vote.met for vote in votes) > JUDGE_CALLS), tuple(votes), actions)
