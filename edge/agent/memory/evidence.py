"""Where a request stands: what was looked for, what was found, how unsure it still is. The states and actions
of grounding procedures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from edge.agent.posterior import Posterior
from edge.language.intent import Intent
from edge.perception.tools import Finding

Tool = Literal["pointing", "facing", "speaker", "face", "voice", "sound", "sound_kind"]
Action = Literal[
    "pointing", "facing", "speaker", "face", "voice", "sound", "sound_kind", "declare"
]  # fmt: skip
Schema = Literal["G0", "G1", "G2", "G3", "G4"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
ACTIONS: tuple[Action, ...] = get_args(Action)
SCHEMAS: tuple[Schema, ...] = get_args(Schema)

SURE, LIKELY = 0.9, 0.6  # probability of the best hypothesis, "none of them" included
WEAK = 0.4  # a finding with less confidence


@dataclass(frozen=True)
class Step:
    """What to do next, and why, in words for a language model or a reader."""

    tool: Action
    guidance: str = ""


class Policy(Protocol):
    """What decides the next step of an agent once the words are understood.

    findings: what tools were called and what they found. posterior: over devices, given those."""

    def next(self, intent: Intent, findings: Mapping[str, Finding[Any]], posterior: Posterior) -> Step: ...


def schema_of(intent: Intent) -> Schema:
    """Which kind of grounding a request needs: the key of its procedure."""
    if intent.device is not None:
        return intent.device.grounding
    if intent.need is not None and intent.need.own_room:
        return "G4"
    return "G0"


def state_of(findings: Mapping[str, Finding[Any]], posterior: Posterior) -> str:
    """The state as a key: what each tool found, in a fixed order ("+" found, "~" found but unsure, "-" looked
    and found nothing), then how sure the best hypothesis is. "pointing+ face- sure"."""
    marks = []
    for tool in TOOLS:
        finding = findings.get(tool)
        if finding is not None:
            found = "-" if finding.value is None else "~" if finding.confidence < WEAK else "+"
            marks.append(tool + found)
    return " ".join([*marks, sureness(posterior)])


def sureness(posterior: Posterior) -> Literal["sure", "likely", "open", "none"]:
    """Of the best hypothesis; none: sure that no device is meant."""
    best = 0.0 if posterior.best is None else posterior.best.probability
    if posterior.none >= SURE:
        return "none"
    return "sure" if best >= SURE else "likely" if best >= LIKELY else "open"


def actions_after(findings: Mapping[str, Finding[Any]]) -> tuple[Action, ...]:
    """What can still be done: tools that were not called, and to declare."""
    return tuple(action for action in ACTIONS if action not in findings)
