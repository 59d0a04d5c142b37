"""What was said and done before: corrections, undo, cancel, and answers to the agent's own questions.

A `Talk` keeps the last request with what came of it. Undo brings back only what the agent changed and nobody
has changed since.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from edge.agent import answers
from edge.agent.decide_request import Call, Decision, call_of, decide
from edge.agent.grounding import Findings, ground
from edge.agent.home_view import HomeView
from edge.agent.plan_orders import ways
from edge.agent.posterior import Posterior, Row, normalised, rows_of
from edge.language.intent import DeviceWords, Intent

NOTHING = "There is nothing to undo."
ANSWERS = ("yes", "no")
IT, OTHER = "it", "other"  # words that mean what was spoken of before, and something else


@dataclass(frozen=True, slots=True)
class Changed:
    """One attribute that the agent changed."""

    device_id: str
    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and what came of it. changes: in their order; workflows: ids that were made."""

    intent: Intent
    posterior: Posterior
    decision: Decision
    changes: tuple[Changed, ...] = ()
    workflows: tuple[str, ...] = ()


class Talk:
    """One talk with one household; not thread-safe.

    For each utterance: `understood` (the intent with what the talk adds to it), `posterior`, `decide`, and
    when it was carried out, `remember`.
    """

    def __init__(self) -> None:
        self._last: Turn | None = None
        self._asked: Decision | None = None  # waits for a yes

    @property
    def last(self) -> Turn | None:
        """The request before this one."""
        return self._last

    def understood(self, intent: Intent) -> Intent:
        """A correction, or the answer to a question, as the whole request that it stands for."""
        if self._last is None or intent.control is not None:
            return intent
        last = self._last.intent
        answers_question = self._last.decision.outcome == "asked"
        if intent.query is None and (intent.corrected or answers_question):
            device = intent.device or replace(last.device or DeviceWords("G1"), words=OTHER)
            return replace(last, text=intent.text, device=device, need=None, corrected=intent.corrected)
        return intent

    def posterior(self, intent: Intent, findings: Findings, home: HomeView) -> Posterior:
        """As `ground`, without what was wrong before, and among what was offered."""
        last = self._last
        words = None if intent.device is None else intent.device.words.casefold()
        if last is not None and words is not None and last.decision.device_id is not None:
            if words == IT:
                return _only(last.posterior, [last.decision.device_id])
            if intent.corrected and OTHER in words.split():
                return _others(last, intent.device, home)
        found = ground(intent, findings, home)
        if last is not None and last.decision.options and intent.query == last.intent.query:
            offered = [c.device_id for c in found.candidates if c.device_id in last.decision.options]
            if offered and intent.device != last.intent.device:
                return _only(found, offered)
        return found

    def decide(self, intent: Intent, posterior: Posterior, home: HomeView) -> Decision:
        """The decision on an intent that went through `understood`."""
        if intent.control in ANSWERS:
            return self._answered(intent.control == "yes", home)
        if intent.control in ("undo", "cancel"):
            return self._undo(intent.control == "undo", home)
        if intent.control is not None:
            return Decision(None, "done", {"stop": "I stop."}.get(intent.control, "All right."))
        decision = decide(intent, posterior, home)
        if not intent.corrected or decision.outcome in ("refused", "asked") or self._last is None:
            return decision
        back = undo_calls(self._last, home)
        if not back:
            return decision
        mended = _before(home, self._last)  # what is decided is decided for the home as it was
        decision = decide(intent, posterior, mended)
        say = f"Sorry. {decision.say}"
        return replace(decision, say=say, calls=(*back, *decision.calls), outcome="done")

    def confirm(self, decision: Decision, refusal: str) -> Decision:
        """What to say when the home refused a call because it needs a person's yes (CONFIRMATION_NEEDED:
        "to unlock the front door needs a person's yes. ..."). A yes then sends the calls again, confirmed."""
        self._asked = decision
        what = re.match(r"to (.+?) needs a person's yes", refusal)
        question = f"Shall I really {what[1]}?" if what else "Shall I really do that?"
        return replace(decision, outcome="asked", say=question, calls=(), expect={}, category="unsafe")

    def remember(
        self, intent: Intent, posterior: Posterior, decision: Decision, home: HomeView, replies: Iterable[Any]
    ) -> None:
        """What came of it. home: as it was before; replies: what the home answered to each call."""
        changes: list[Changed] = []
        workflows: list[str] = []
        for call, reply in zip(decision.calls, replies, strict=False):
            if not isinstance(reply, Mapping):
                continue
            if "workflow_id" in reply:
                workflows.append(str(reply["workflow_id"]))
                continue
            device_id = str(call.args.get("device_id"))
            known = {d.id: d.attributes for d in home.devices}.get(device_id, {})
            earlier = {(one.device_id, one.path): one.before for one in changes}
            for path, value in dict(reply.get("changed") or {}).items():
                before = earlier.get((device_id, path), known.get(path))
                changes = [one for one in changes if (one.device_id, one.path) != (device_id, path)]
                changes.append(Changed(device_id, path, before, value))
        if decision.outcome != "asked" or decision.category != "unsafe":
            self._asked = None
        if intent.control in ("undo", "cancel"):
            self._last = None
        elif intent.control is None or changes:
            self._last = Turn(intent, posterior, decision, tuple(changes), tuple(workflows))

    def _answered(self, yes: bool, home: HomeView) -> Decision:
        waiting, self._asked = self._asked, None
        last = self._last
        if waiting is not None:
            if yes:
                calls = (Call(call.name, {**call.args, "confirmed": True}) for call in waiting.calls)
                return replace(waiting, calls=tuple(calls))
            return Decision(
                waiting.device_id, "refused", "All right, I leave it as it is.", why="not confirmed"
            )
        if last is not None and last.decision.outcome == "asked" and last.decision.options:
            if not yes:
                return Decision(None, "refused", "All right, I do nothing.", why="none of those offered")
            chosen = _only(last.posterior, last.decision.options[:1])
            return decide(last.intent, chosen, home)
        return Decision(None, "done", "All right.", why="nobody asked")

    def _undo(self, undo: bool, home: HomeView) -> Decision:
        last = self._last
        calls = () if last is None else undo_calls(last, home)
        if not calls:
            pending = [w for w in home.workflows if w.get("status") == "pending"]
            if not undo and len(pending) == 1:
                cancel = Call("home.cancel", {"workflow_id": pending[0]["workflow_id"]})
                return Decision(None, "done", "I cancelled what was planned.", (cancel,), why="cancel")
            text = NOTHING if undo else "There is nothing to cancel."
            return Decision(None, "refused", text, category="unclear", why="nothing was done")
        assert last is not None
        names = [
            answers.the(home.device(name), home) for name in dict.fromkeys(c.device_id for c in last.changes)
        ]
        expect: dict[str, dict[str, Any]] = {}
        for one in last.changes:
            if _goes_back(one, home):
                expect.setdefault(one.device_id, {})[one.path] = one.before
        say = f"{' and '.join(names)} is as it was before" if names else "I cancelled what was planned"
        return Decision(last.decision.device_id, "done", answers.sentence(say), calls, expect, why="undo")


def undo_calls(turn: Turn, home: HomeView) -> tuple[Call, ...]:
    """Calls that bring back what a turn changed and nobody has changed since, and cancel what it planned."""
    pending = {w.get("workflow_id"): w.get("status") for w in home.workflows}
    calls = [
        Call("home.cancel", {"workflow_id": name})
        for name in turn.workflows
        if pending.get(name, "pending") == "pending"
    ]
    wanted: dict[str, dict[str, Any]] = {}
    for one in turn.changes:
        if _goes_back(one, home):
            wanted.setdefault(one.device_id, {})[one.path] = one.before
    for device_id, goal in wanted.items():
        device = home.device(device_id)
        orders = ways(device, goal)
        for path in [*goal]:  # what only follows may have no way back; what was asked for has
            if orders is not None:
                break
            if path not in turn.decision.expect.get(device_id, {}):
                goal = {key: value for key, value in goal.items() if key != path}
                orders = ways(device, goal)
        calls += [call_of(order) for order in orders or ()]
    return tuple(calls)


def _goes_back(one: Changed, home: HomeView) -> bool:
    now = next((d.attributes.get(one.path) for d in home.devices if d.id == one.device_id), None)
    return one.before is not None and now == one.after and now != one.before


def _before(home: HomeView, turn: Turn) -> HomeView:
    """The home as it will be when the turn is undone."""
    back: dict[str, dict[str, Any]] = {}
    for one in turn.changes:
        if _goes_back(one, home):
            back.setdefault(one.device_id, {})[one.path] = one.before
    room = copy.copy(home.room)
    room.devices = tuple(
        _with(device, back[device.id]) if device.id in back else device for device in home.room.devices
    )
    return replace(home, room=room)


def _with(device: Any, attributes: Mapping[str, Any]) -> Any:
    return structs.replace(device, attributes={**device.attributes, **attributes})


def _others(turn: Turn, words: DeviceWords | None, home: HomeView) -> Posterior:
    """What else could have been meant: the other candidates, else others of the kind in the same room."""
    wrong = home.device(str(turn.decision.device_id))
    types = () if words is None else words.types
    kinds = {answers.kind_word(kind) for kind in types} or {answers.kind_word(wrong.type)}
    fit = [d for d in home.devices if d.id != wrong.id and answers.kind_word(d.type) in kinds]
    rest = [c.device_id for c in turn.posterior.candidates if c.device_id in {d.id for d in fit}]
    if not types:
        rest = [c.device_id for c in turn.posterior.candidates if c.device_id != wrong.id]
    if rest:
        return _only(turn.posterior, rest)
    kin = [Row(d.id, d.name, 1.0) for d in fit if d.room == wrong.room]
    found, none = normalised(kin, 0.0)
    return replace(turn.posterior, candidates=found, none=none, missing="not_in_room", room=wrong.room)


def _only(posterior: Posterior, names: Sequence[str]) -> Posterior:
    """The posterior among some of its devices; none keeps its odds against them."""
    rows = [row for row in rows_of(posterior) if row.device_id in names]
    found, none = normalised(rows, 0.0 if rows else 1.0)
    return replace(posterior, candidates=found, none=none)
