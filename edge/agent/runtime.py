"""The parts of an agent put together: its perception tools, its policy, by the names of the command line."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from dsp.errors import InputError, MissingDependency
from edge.agent.loop import Policy
from edge.perception.profiles import ProfileBook
from edge.perception.speech import Recogniser
from edge.perception.tools import Tool

log = logging.getLogger(__name__)

POLICIES = ("memory", "generic", "llm")


def perception_tools(recogniser: Recogniser, book: ProfileBook | None = None) -> dict[str, Tool[Any]]:
    """Every perception tool by its name; loaded once, used for many scenes, by one thread at a time.

    book: faces and voices of the household; None: nobody is known. A tool whose network is not installed is
    left out and named in the log.
    """
    from edge.language import HomeWords
    from edge.language.expectation import expectation
    from edge.perception.active_speaker import ActiveSpeakerTool
    from edge.perception.device_sound import SoundDirectionTool
    from edge.perception.faces import FaceTool
    from edge.perception.facing import FacingTool
    from edge.perception.listening import SpeechTool
    from edge.perception.pointing import PointingTool
    from edge.perception.unseen import FacingOrHeard, OrHeard
    from edge.perception.voice_identity import VoiceTool

    known = book if book is not None else ProfileBook()
    tools: dict[str, Tool[Any]] = {
        "speech": SpeechTool(recogniser, lambda room: expectation(HomeWords.of(room))),
        "speaker": OrHeard(ActiveSpeakerTool()),
        "pointing": PointingTool(),
        "facing": FacingOrHeard(FacingTool()),
        "sound": SoundDirectionTool(),
    }
    for name, make in (("face", lambda: FaceTool(known)), ("voice", lambda: VoiceTool(known))):
        try:
            tools[name] = make()
        except MissingDependency as error:
            log.warning("the agent does without %s: %s", name, error)
    return tools


def planned_policy(kind: str = "memory", memory: Path | None = None) -> Policy:
    """The policy without a language model. kind: "memory" (procedures that were learnt; memory: a bank of
    one's own) or "generic" (one order of tools for every request). Raises InputError."""
    from edge.agent.memory import GenericOrder, MemoryBank, MemoryPolicy
    from edge.agent.planned import PlannedPolicy

    if kind == "generic":
        return PlannedPolicy(GenericOrder())
    if kind == "memory":
        return PlannedPolicy(MemoryPolicy(MemoryBank.load(memory)))
    raise InputError(f"a policy is one of {', '.join(POLICIES)}, not {kind!r}")
