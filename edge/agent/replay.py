"""A trace of an agent, read again: whether it kept the protocol, what each request took, and, with the
episode whose truth is known, what its calls do to the same home, scored.

The calls that the trace holds are done once more on a home in the episode's first state, in the same order;
every answer must be what the trace says. Then time passes as far as the goal asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from dsp.errors import HearthError, InputError
from edge.agent.loop import CHANGES
from recordings.profile import RoomVariable
from recordings.simuhome import CENTI

if TYPE_CHECKING:
    from edge.home.simulation import Simulation
    from edge.home.workflow import Workflows
    from recordings.profile import Profile, Step

MOST_BYTES = 1 << 28
AIR_MIN = 10.0  # how long a room is left to change (Q4)
TICKS_PER_MIN = 600


@dataclass
class Request:
    """One utterance in a trace. steps: the calls of tools, in order. finished: the line that ends it; None
    when it was passed over or the trace breaks off. problems: against the protocol."""

    utterance: dict[str, Any]
    steps: list[dict[str, Any]] = field(default_factory=list)
    finished: dict[str, Any] | None = None
    ignored: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def declared(self) -> str | None:
        """The last device that was declared."""
        found = [s for s in self.steps if s["tool"] == "declare" and "error" not in s["observed"]]
        return found[-1]["observed"].get("declared") if found else None

    def changes(self) -> list[dict[str, Any]]:
        """Calls that may have changed the home, refused ones too."""
        return [step for step in self.steps if step["tool"] in CHANGES]


@dataclass
class Replay:
    """requests that were answered or passed over; scores: with an episode, of the last answered request:
    {"grounding", "goal"}: right, wrong, error or None, and "why"."""

    requests: list[Request]
    scores: dict[str, Any] | None = None

    @property
    def problems(self) -> list[str]:
        return [problem for request in self.requests for problem in request.problems]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "requests": [
                {
                    "text": (one.finished or {}).get("text"),
                    "device_id": one.declared,
                    "outcome": None if one.finished is None else one.finished.get("outcome"),
                    "ignored": one.ignored,
                    "steps": len(one.steps),
                    "tools": [step["tool"] for step in one.steps],
                    "seconds": round(sum(float(step.get("seconds") or 0.0) for step in one.steps), 3),
                    "seconds_to_declare": (one.finished or {}).get("seconds_to_declare"),
                    "problems": one.problems,
                }
                for one in self.requests
            ],
            "scores": self.scores,
        }

    def lines(self) -> list[str]:
        """For people."""
        told = []
        for number, one in enumerate(self.to_dict()["requests"], 1):
            end = "passed over" if one["ignored"] else one["outcome"] or "broken off"
            told.append(f"{number}: {one['text'] or '-'} -> {one['device_id']} ({end}, {one['seconds']} s)")
            told.append(f"   {' '.join(one['tools'])}")
            told += [f"   PROBLEM: {problem}" for problem in one["problems"]]
        if self.scores is not None:
            told.append(
                f"grounding {self.scores['grounding']}, goal {self.scores['goal']} {self.scores['why']}"
            )
        return told


def replay(path: Path, episode: Path | None = None) -> Replay:
    """Read a trace and check it; with an episode's folder, do its calls again and score them.

    Raises InputError for a file that is no trace, and for an episode without a home.
    """
    requests = read_requests(path)
    for request in requests:
        check(request)
    found = Replay(requests)
    if episode is not None:
        from recordings.episode import Episode

        found.scores = scored(requests, Episode.open(episode).profile)
    return found


def read_requests(path: Path) -> list[Request]:
    """The requests of a trace. Raises InputError that names the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes are more than a trace can have")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the trace cannot be read: {error}") from None
    found: list[Request] = []
    for number, text in enumerate(lines, 1):
        line = _line(text, f"{path}: line {number}")
        kind = line["kind"]
        if kind == "utterance":
            found.append(Request(line))
        elif kind == "step" and found:
            found[-1].steps.append(_step_of(line, f"{path}: line {number}"))
        elif kind == "finished" and found:
            found[-1].finished = line
        elif kind == "ignored" and found:
            found[-1].ignored = True
    if not lines:
        raise InputError(f"{path}: an empty file is no trace")
    return found


def _line(text: str, where: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {error}") from None
    if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
        raise InputError(f"{where}: no step of a trace (an object with `kind`)")
    return line


def _step_of(line: dict[str, Any], where: str) -> dict[str, Any]:
    observed, args = line.get("observed"), line.get("args")
    if not (isinstance(line.get("tool"), str) and isinstance(observed, dict) and isinstance(args, dict)):
        raise InputError(f"{where}: a step has `tool`, `args` and `observed`")
    return line


def check(request: Request) -> None:
    """Note what is against the protocol: changed before declared, ended without a declaration, done without
    a call that worked where one was tried, an end that is missing."""
    declared = False
    tried = worked = 0
    for step in request.steps:
        ok = "error" not in step["observed"]
        if step["tool"] == "declare":
            declared |= ok
        elif step["tool"] in CHANGES and ok:
            if not declared:
                request.problems.append(f"step {step.get('step')}: {step['tool']} before a declaration")
            worked += 1
        tried += step["tool"] in CHANGES
    if request.finished is not None:
        if not declared:
            request.problems.append("finished without a declaration")
        if request.finished.get("outcome") == "done" and tried and not worked:
            request.problems.append("finished as done, though every call was refused")
    elif not request.ignored:
        request.problems.append("the request has no end")


def scored(requests: Sequence[Request], profile: Profile) -> dict[str, Any]:
    """What the calls of all requests do to the home of a profile, and how its goal stands then.

    Calls whose answer differs from the trace are noted as problems of their request.
    """
    from edge.home.loading import simulation_of_home
    from edge.home.workflow import Workflows
    from recordings.evaluate.answers import Answer, StateAt, collect
    from recordings.evaluate.evaluation import evaluate
    from recordings.evaluate.rule_judge import RuleJudge

    if profile.home is None:
        raise InputError("the episode has no home, so there is nothing to do the calls on")
    simulation, alone = (simulation_of_home(profile.home).simulation for _ in range(2))
    workflows = Workflows(simulation)
    moments: list[StateAt] = []
    simulation.home.listen(
        lambda *_: moments.append(
            StateAt(at_min=simulation.tick / TICKS_PER_MIN, state=simulation.home.snapshot())
        )
    )
    steps = () if profile.goal is None else profile.goal.steps
    done_min = _ends(simulation, steps)
    for request in requests:
        for step in request.changes():
            _again(step, request, simulation, workflows)
    last = next((one for one in reversed(requests) if one.finished is not None), None)
    given: dict[str, Any] = {"episode": profile.id}
    if last is not None and last.finished is not None:
        given |= {"declared": last.declared, "answer": str(last.finished.get("said", ""))}
        given["outcome"] = last.finished.get("outcome")
    if steps:
        _pass((simulation, alone), max(_minute(step, done_min) for step in steps) + 2.0)
        given |= {"states_at": tuple(moments), "done_min": done_min}
    if profile.goal is not None and profile.goal.changes:
        _pass((simulation, alone), AIR_MIN)
        given |= {"rooms": _air(simulation), "rooms_untouched": _air(alone)}
    given["final_state"] = simulation.home.snapshot()
    (score,) = evaluate([profile], collect([Answer(**given)]), RuleJudge()).scores
    why = "; ".join(one.why for one in (score.grounding, score.goal) if one is not None and one.why)
    return {
        "grounding": None if score.grounding is None else score.grounding.verdict,
        "goal": None if score.goal is None else score.goal.verdict,
        "why": why,
    }


def _again(step: Mapping[str, Any], request: Request, simulation: Simulation, workflows: Workflows) -> None:
    """Do one call once more; a difference to the trace is a problem."""
    args, then = step["args"], step["observed"]
    try:
        if step["tool"] == "home.command":
            now: Mapping[str, Any] | None = simulation.command(
                args["device_id"], args["command"], args.get("args"), args.get("endpoint")
            ).changed
        elif step["tool"] == "home.write":
            now = simulation.write(args["device_id"], args["attribute"], args["value"]).changed
        else:
            _planned(step["tool"], args, workflows)
            now = None
    except (HearthError, KeyError) as error:
        if "error" not in then:
            request.problems.append(f"step {step.get('step')}: refused now ({error}), not then")
        return
    if "error" in then:
        request.problems.append(f"step {step.get('step')}: carried out now, refused then ({then['error']})")
    elif now is not None and dict(now) != then.get("changed"):
        request.problems.append(f"step {step.get('step')}: changed {dict(now)}, then {then.get('changed')}")


def _planned(tool: str, args: Mapping[str, Any], workflows: Workflows) -> None:
    if tool == "home.cancel":
        workflows.cancel(args["workflow_id"])
        return
    more = bool(args.get("continue_on_error", False))
    if args.get("start_time") is not None:
        workflows.schedule(args["start_time"], args["steps"], more)
    elif args.get("in_s") is not None:
        workflows.after(args["in_s"], args["steps"], more)
    else:
        workflows.when(args["when"], args["steps"], more)


def _ends(simulation: Simulation, steps: Sequence[Step]) -> dict[str, float]:
    ends = {}
    for step in steps:
        anchor = step.when.anchor_device
        end = None if anchor is None else simulation.done_at(anchor)
        if anchor is not None and end is not None:
            ends[anchor] = end / TICKS_PER_MIN
    return ends


def _minute(step: Step, done_min: Mapping[str, float]) -> float:
    if step.when.anchor_device is None:
        return float(step.when.at_min or 0.0)
    return done_min.get(step.when.anchor_device, 0.0) + float(step.when.offset_min)


def _pass(simulations: Sequence[Simulation], minutes: float) -> None:
    for one in simulations:
        one.advance_to(max(one.tick, round(minutes * TICKS_PER_MIN)))


def _air(simulation: Simulation) -> dict[str, dict[RoomVariable, float]]:
    names: tuple[RoomVariable, ...] = get_args(RoomVariable)
    return {
        room: {name: state[name] / (100 if name in CENTI else 1) for name in names}
        for room, state in simulation.rooms().items()
    }
