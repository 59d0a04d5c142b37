"""The loop of the agent: a policy names a tool, the tool is called, what it answers goes back to the policy,
until it finishes (ReAct, Yao et al., ICLR 2023; "Device Declare" and "Finish" as in arXiv 2609.32569).

Tools by name. Of perception (no arguments): `speech`, `speaker`, `pointing`, `facing`, `face`, `voice`,
`sound`, `sound_kind`. Of the home: `home.describe`, `home.state`, `home.rooms`, `home.time`, `home.command`,
`home.write`, `home.schedule`, `home.workflows`, `home.workflow_status`, `home.cancel`, as on the wire. Of the
talk: `declare` a device or none (required before anything is changed or finished), `finish` with an answer
and an outcome, `ignore` what asks for nothing.

A tool that is refused answers with an error; nothing that a policy does ends the loop but `finish`, `ignore`,
its own end, or the limits. Success is only claimed of what was read back: `finish` as done is refused while
the home is not as its own replies said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from capture.blocks import monotonic_ns
from dsp.errors import HearthError, InputError
from edge.agent.attention import Attention
from edge.agent.trace import Trace
from edge.agent.world import Home
from edge.perception.speech import Recognition
from edge.perception.tools import Finding, Scene, Tool

READS = ("home.describe", "home.state", "home.rooms", "home.time", "home.workflows", "home.workflow_status")
CHANGES = ("home.command", "home.write", "home.schedule", "home.cancel")
ENDS = ("declare", "finish", "ignore")
OUTCOMES = ("done", "already", "refused", "asked", "failed")
MOST_STEPS = 40
MOST_SECONDS = 120.0
AFTER_NS = 300_000_000  # a "stop" later than this after a request is not the request itself
ACT_S = 15.0  # a real device may be slow to follow
GAVE_UP = "I could not finish that."


@dataclass(frozen=True, slots=True)
class Action:
    """What a policy wants next. thought: why, for people and traces."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of an action: plain data, or the error that it was refused with and its type
    (DEVICE_NOT_FOUND, CONFIRMATION_NEEDED, ...). finding: of a perception tool."""

    data: Mapping[str, Any]
    error: str | None = None
    type: str = ""
    finding: Finding[Any] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


Steps = Generator[Action, Observed, None]


class Policy(Protocol):
    """name: as in traces. `steps` yields the actions for one request; each yield gives what came of it."""

    name: str

    def steps(self, run: Run) -> Steps: ...


@dataclass(frozen=True)
class Answer:
    """What came of one request. command: the first that was sent; seconds_to_declare: from the end of the
    speech to the declaration; steps: tools that were called; cost: of a language model, in its own count."""

    text: str
    device_id: str | None
    outcome: str
    said: str
    command: str | None
    probability: float | None
    seconds_to_declare: float
    steps: int = 0
    cost: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Run:
    """One request under way: what policies see of it, and the tools that they call through it.

    findings: by tool, of what was called. evidence: a policy may add to it what it concluded; it goes with
    the declaration. attention: what the fast loop said meanwhile.
    """

    def __init__(
        self,
        scene: Scene,
        home: Home,
        tools: Mapping[str, Tool[Any]],
        trace: Trace,
        attention: Attention,
    ) -> None:
        self.scene, self.home, self.tools, self.attention = scene, home, tools, attention
        self.findings: dict[str, Finding[Any]] = {}
        self.evidence: dict[str, Any] = {}
        self.cost: dict[str, float] = {}
        self.trace = trace
        self.count = 0
        self.declared: str | None = None
        self.is_declared = False
        self.ignored = False
        self.finished: tuple[str, str] | None = None  # answer, outcome
        self.seconds_to_declare = 0.0
        self.commands: list[str] = []
        self._changed: dict[str, dict[str, Any]] = {}  # device -> attributes as the home's replies told
        self._refused = 0

    @property
    def over(self) -> bool:
        return self.ignored or self.finished is not None

    @property
    def text(self) -> str:
        """What was heard; "" before `speech` was called."""
        finding = self.findings.get("speech")
        return finding.value.text if finding is not None and finding.value is not None else ""

    def names(self) -> tuple[str, ...]:
        """All tools that can be called."""
        return (*self.tools, *READS, *CHANGES, *ENDS)

    def do(self, action: Action) -> Observed:
        """Call a tool. A refusal is an answer too; only what is wrong with this program raises."""
        self.count += 1
        began = time.perf_counter()
        try:
            observed = self._call(action)
        except HearthError as error:
            observed = Observed({}, getattr(error, "detail", str(error)), getattr(error, "type", ""))
        except TypeError as error:  # arguments that a tool does not take
            observed = Observed({}, f"{action.tool}: {error}")
        told = {"error": observed.error} if observed.error is not None else dict(observed.data)
        self.trace.add(
            "step",
            tool=action.tool,
            args=dict(action.args),
            thought=action.thought,
            observed=told,
            seconds=round(time.perf_counter() - began, 4),
        )
        return observed

    def _call(self, action: Action) -> Observed:
        name, args = action.tool, dict(action.args)
        if name in self.tools:
            return self._perceive(name)
        if name in READS:
            return Observed(self.home.command(name, **args))
        if name in CHANGES:
            return self._change(name, args)
        if name == "declare":
            return self._declare(**args)
        if name == "finish":
            return self._finish(**args)
        if name == "ignore":
            if self.is_declared or self.commands:
                raise InputError("something was declared or done already; finish it")
            self.ignored = True
            return Observed({"ignored": True})
        raise InputError(f"there is no tool {name!r}; the tools are: {', '.join(self.names())}")

    def _perceive(self, name: str) -> Observed:
        if name not in self.findings:
            self.findings[name] = self.tools[name](self.scene)
        finding = self.findings[name]
        return Observed(finding.to_dict(), finding=finding)

    def _change(self, name: str, args: dict[str, Any]) -> Observed:
        if not self.is_declared:
            raise InputError(f"declare the device (or null for none) before {name}")
        try:
            reply = self.home.command(name, timeout_s=ACT_S, **args)
        except HearthError:
            self._refused += 1
            raise
        self.commands.append(str(args.get("command", args.get("attribute", name))))
        if name in ("home.command", "home.write"):
            changed = reply.get("changed")
            if isinstance(changed, Mapping):
                self._changed.setdefault(str(args.get("device_id")), {}).update(changed)
        return Observed(reply)

    def _declare(self, device_id: str | None = None) -> Observed:
        text, speech = self.text, self.findings.get("speech")
        recognition = speech.value.to_dict() if speech and isinstance(speech.value, Recognition) else None
        evidence = {
            "text": text,
            "recognition": recognition,
            "findings": {name: f.to_dict() for name, f in self.findings.items() if name != "speech"},
            **self.evidence,
        }
        if not self.is_declared:
            self.home.command("agent.heard", text=text, evidence={"recognition": recognition})
        self.home.command("agent.declare", device_id=device_id, evidence=evidence)
        if not self.is_declared:
            self.seconds_to_declare = (monotonic_ns() - self.scene.utterance.ended_ns) / 1e9
        self.declared, self.is_declared = device_id, True
        return Observed({"declared": device_id, "seconds_after_speech": round(self.seconds_to_declare, 3)})

    def _finish(self, answer: str, outcome: str = "done") -> Observed:
        if not isinstance(answer, str) or not answer.strip():
            raise InputError("finish takes an answer in words")
        if outcome not in OUTCOMES:
            raise InputError(f"outcome is one of {', '.join(OUTCOMES)}, not {outcome!r}")
        if not self.is_declared:
            raise InputError("declare the device (or null for none) before finish")
        if outcome == "done":
            self._check_done()
        self.home.command("agent.say", text=answer)
        self.home.command("agent.finish", answer=answer, outcome=outcome)
        self.finished = (answer, outcome)
        return Observed({"answer": answer, "outcome": outcome})

    def _check_done(self) -> None:
        """Raises InputError when the home is not as it was said to have become, or did nothing at all."""
        if self._refused and not self.commands:
            raise InputError("the home carried out nothing, so nothing is done; finish as failed or refused")
        for device_id, changed in self._changed.items():
            state = self.home.command("home.state", device_id=device_id).get("attributes", {})
            wrong = [path for path, value in changed.items() if moved_on(path, value, state)]
            if wrong:
                names = ", ".join(f"{path} is {state.get(path)!r}" for path in wrong)
                raise InputError(f"{device_id} did not stay as it was set: {names}; finish as failed")


RUNS_ON = ("Position", "Countdown", "Measured", "Phase", "LocalTemperature", "PercentCurrent", "SpeedCurrent")


def moved_on(path: str, value: Any, state: Mapping[str, Any]) -> bool:
    """Whether an attribute is another one than it became. What runs on by itself (a position, a countdown, a
    measured value) is none of that."""
    if any(word in path for word in RUNS_ON):
        return False
    return bool(state.get(path) != value)


class RequestLoop:
    """Answers requests, one after the other. policy: what decides; it may remember what was said before.

    tools: perception by name (`edge.agent.runtime.perception_tools`). alive: is called after every step.
    """

    def __init__(
        self,
        home: Home,
        tools: Mapping[str, Tool[Any]],
        policy: Policy,
        trace: Trace | None = None,
        *,
        most_steps: int = MOST_STEPS,
        most_seconds: float = MOST_SECONDS,
        attention: Attention | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.home, self.tools, self.policy = home, tools, policy
        self.trace = trace or Trace()
        self._most_steps, self._most_s = most_steps, most_seconds
        self._attention, self._alive = attention or Attention(), alive

    def answer(self, scene: Scene) -> Answer | None:
        """What came of one utterance; None for one that asks for nothing.

        Raises HearthError when the home is gone (the declaration or the end cannot be told).
        """
        utterance = scene.utterance
        self.trace.add(
            "utterance",
            policy=self.policy.name,
            t_ns_start=utterance.t_ns,
            duration_s=round(utterance.duration_s, 3),
            decided_after_s=round((utterance.decided_ns - utterance.ended_ns) / 1e9, 3),
            cut_short=utterance.cut_short,
            pictures=len(scene.pictures),
        )
        run = Run(scene, self.home, self.tools, self.trace, self._attention)
        self._steps(run)
        if run.ignored:
            self.trace.add("ignored", text=run.text)
            return None
        if run.finished is None:
            self._give_up(run)
        assert run.finished is not None
        answer, outcome = run.finished
        self.trace.add(
            "finished", text=run.text, device_id=run.declared, outcome=outcome, said=answer,
            seconds_to_declare=round(run.seconds_to_declare, 3), steps=run.count, cost=run.cost,
        )  # fmt: skip
        first = run.commands[0] if run.commands else None
        return Answer(
            run.text, run.declared, outcome, answer, first, _best(run), round(run.seconds_to_declare, 3),
            run.count, dict(run.cost),
        )  # fmt: skip

    def _steps(self, run: Run) -> None:
        until = time.monotonic() + self._most_s
        steps = self.policy.steps(run)
        try:
            action = next(steps)
            while True:
                if self._attention.stopped(run.scene.utterance.ended_ns + AFTER_NS):
                    self._stop(run)
                    return
                observed = run.do(action)
                self._alive()
                if run.over:
                    return
                if run.count >= self._most_steps or time.monotonic() > until:
                    self.trace.add("limit", steps=run.count)
                    return
                action = steps.send(observed)
        except StopIteration:
            return
        finally:
            steps.close()

    def _stop(self, run: Run) -> None:
        """Somebody said stop: nothing more is done; what was done stays."""
        self.trace.add("stopped", steps=run.count)
        if not run.is_declared:
            run.ignored = True
            return
        done = "I stopped; a part was done already." if run.commands else "I stopped."
        run.do(Action("finish", {"answer": done, "outcome": "failed"}, "somebody said stop"))

    def _give_up(self, run: Run) -> None:
        """A policy that ended without an end: nothing is claimed."""
        if not run.is_declared:
            run.do(Action("declare", {"device_id": None}, "the policy came to no end"))
        observed = run.do(Action("finish", {"answer": GAVE_UP, "outcome": "failed"}, "the policy gave up"))
        if not observed.ok:
            raise InputError(f"the agent cannot report: {observed.error}")


def _best(run: Run) -> float | None:
    posterior = run.evidence.get("posterior")
    if isinstance(posterior, list) and posterior:
        return float(posterior[0]["probability"])
    return None
