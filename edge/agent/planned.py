"""The policy that needs no language model: grammar, evidence, decision; each step follows from what is known.

The words are understood first (`edge.language`). Then `order` says which perception tool is asked next, given
the evidence so far, until it says `declare` (`edge.agent.memory`). The decision on the posterior
(`edge.agent.corrections.Talk`, `edge.agent.decide_request`) names the calls to the home.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from edge.agent.corrections import Talk
from edge.agent.decide_request import Decision, confirmed
from edge.agent.home_view import HomeView
from edge.agent.loop import Action, Observed, Run, Steps
from edge.agent.memory import Policy as Order
from edge.agent.posterior import Posterior
from edge.language import HomeWords, Intent, understand_speech

MOST_TOOLS = 12


class PlannedPolicy:
    """order: which perception tool is asked next. talk: what was said before; None begins one."""

    name = "planned"

    def __init__(self, order: Order, talk: Talk | None = None) -> None:
        self.order = order
        self.talk = talk or Talk()

    def steps(self, run: Run) -> Steps:
        """The actions for one request."""
        observed = yield Action("speech", thought="what was said")
        speech = observed.finding
        if speech is None or speech.value is None or not speech.value.text:
            yield Action("ignore", thought=observed.error or "no words were understood")
            return
        intent = self.talk.understood(understand_speech(speech.value, HomeWords.of(run.scene.room)))
        run.trace.add("understood", intent=intent.to_dict())
        if intent.query is None and intent.control is None:
            yield Action("ignore", thought="the words ask for nothing")
            return
        if intent.control in ("mute", "unmute"):
            run.attention.quiet = intent.control == "mute"
        elif run.attention.quiet:
            yield Action("ignore", thought="the agent was told to be quiet")
            return
        home = yield from self._look_at_home(run)
        posterior = self.talk.posterior(intent, run.findings, home)
        for _ in range(MOST_TOOLS):
            step = self.order.next(intent, run.findings, posterior)
            if step.tool == "declare" or step.tool not in run.tools or step.tool in run.findings:
                break
            yield Action(step.tool, thought=step.guidance)
            posterior = self.talk.posterior(intent, run.findings, home)
        decision = self.talk.decide(intent, posterior, home)
        _note(run, intent, posterior, decision)
        yield Action("declare", {"device_id": decision.device_id}, decision.why)
        answer, outcome, replies, needs_yes = yield from _carry_out(decision)
        if needs_yes:
            decision = self.talk.confirm(decision, needs_yes)
            answer, outcome = decision.say, decision.outcome
        self.talk.remember(intent, posterior, decision, home, replies)
        yield Action("finish", {"answer": answer, "outcome": outcome})

    def _look_at_home(self, run: Run) -> Generator[Action, Observed, HomeView]:
        rooms = yield Action("home.rooms", thought="the air of the rooms")
        flows = yield Action("home.workflows", thought="what is planned")
        return HomeView(run.scene.room, rooms.data.get("rooms", {}), tuple(flows.data.get("workflows", ())))


def _carry_out(decision: Decision) -> Generator[Action, Observed, tuple[str, str, list[Any], str]]:
    """(answer, outcome, the home's replies, why a person must say yes first). The first call that is refused
    ends it."""
    replies: list[Any] = []
    for call in decision.calls:
        observed = yield Action(call.name, call.args)
        if observed.type == "CONFIRMATION_NEEDED":
            return "", "asked", replies, observed.error or "it is risky"
        if not observed.ok:
            return f"That did not work: {observed.error}", "failed", replies, ""
        replies.append(observed.data)
    states: dict[str, Any] = {}
    for device_id in decision.expect:
        observed = yield Action("home.state", {"device_id": device_id}, "read back what was changed")
        states[device_id] = observed.data.get("attributes", {})
    wrong = confirmed(decision.expect, states)
    if wrong:
        return f"I sent it, but it did not follow: {'; '.join(wrong)}.", "failed", replies, ""
    return decision.say, decision.outcome, replies, ""


def _note(run: Run, intent: Intent, posterior: Posterior, decision: Decision) -> None:
    """What goes with the declaration, for the console, the timeline and the trace."""
    told = posterior.to_dict()
    run.evidence |= {
        "intent": intent.to_dict(),
        "posterior": told.pop("candidates"),
        "none": told.pop("none"),
        "grounding": told,
        "reason": decision.why,
        "category": decision.category,
    }
    run.trace.add("decided", posterior=posterior.to_dict(), **decision.to_dict())
