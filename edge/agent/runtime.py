"""The parts of an agent put together: its perception tools, its policy, by the names of the command line."""

from __future__ import annotations

import logging
import os
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
    from edge.language.expectation import expectation, prepare
    from edge.perception.active_speaker import ActiveSpeakerTool
    from edge.perception.device_sound import SoundDirectionTool
    from edge.perception.faces import FaceTool
    from edge.perception.facing import FacingTool
    from edge.perception.listening import SpeechTool
    from edge.perception.pointing import PointingTool
    from edge.perception.unseen import FacingOrHeard, OrHeard
    from edge.perception.voice_identity import VoiceTool

    prepare()
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


def llm_policy(
    endpoint: str | None,
    model: str | None,
    *,
    speaks: str = "tools",
    ears: str = "none",
    pictures: int = 0,
    timeout_s: float = 30.0,
    prices: str = "0,0",
    otherwise: Policy | None = None,
) -> Policy:
    """A language model at an OpenAI-compatible endpoint, guided by the procedures that were learnt; its key
    is the variable HEARTH_AGENT_KEY. prices: dollars per million tokens, "IN,OUT". otherwise: who takes over.

    Raises InputError for what no such policy can be made of.
    """
    from edge.agent.llm_policy import KEY_VARIABLE, LlmOptions, LlmPolicy
    from edge.agent.memory import MemoryBank, MemoryPolicy
    from recordings.chat_model import ChatModel

    if endpoint is None or model is None:
        raise InputError("--policy llm needs --endpoint and --model")
    if speaks not in ("tools", "json"):
        raise InputError(f"--speaks is tools or json, not {speaks!r}")
    if ears not in ("none", "mono", "foa"):
        raise InputError(f"--ears is none, mono or foa, not {ears!r}")
    try:
        cost_in, cost_out = (float(part) for part in prices.split(","))
    except ValueError:
        raise InputError(f"--prices is IN,OUT in dollars per million tokens, not {prices!r}") from None
    chat = ChatModel(endpoint, model, key=os.environ.get(KEY_VARIABLE), timeout_s=timeout_s, retries=2)
    options = LlmOptions(
        speaks="json" if speaks == "json" else "tools",
        ears="foa" if ears == "foa" else "mono" if ears == "mono" else "none",
        pictures=pictures,
        prices=(cost_in, cost_out),
    )
    return LlmPolicy(chat, options, MemoryPolicy(MemoryBank.load()), otherwise)
