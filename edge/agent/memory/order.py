"""The agent without memory: one order of tools for every request, until the evidence is sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.agent.memory.evidence import TOOLS, Step, Tool, sureness
from edge.agent.posterior import Posterior
from edge.language.intent import Intent
from edge.perception.tools import Finding

# From what serves most requests to what serves fewest, as somebody would order them who knows the tools and
# not the request.
ORDER: tuple[Tool, ...] = ("speaker", "pointing", "facing", "sound", "face", "voice", "sound_kind")


class GenericOrder:
    """Calls tools in ORDER, whatever the request says, until the posterior is sure or `most_calls` were made;
    then declares."""

    def __init__(self, most_calls: int = len(TOOLS)) -> None:
        self._most = most_calls

    def next(self, intent: Intent, findings: Mapping[str, Finding[Any]], posterior: Posterior) -> Step:
        """The first tool of the order that was not called."""
        if sureness(posterior) in ("sure", "none") or len(findings.keys() & set(TOOLS)) >= self._most:
            return Step("declare")
        tool = next((one for one in ORDER if one not in findings), None)
        return Step("declare" if tool is None else tool)
