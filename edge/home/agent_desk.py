"""Where agents report: what they heard, which device they declare, what they say, that they are done.

The order is that of the OmniSmartHome benchmark (arXiv 2609.32569): a device (or "no such device") must be
declared before an episode is finished. Everything is published as an `event` and so gets into the timeline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

from capture.blocks import monotonic_ns
from dsp.errors import InputError
from edge.home.timeline import DeviceHome
from edge.stream import CommandServer, Publisher

Outcome = Literal["done", "already", "refused", "asked", "failed"]
NOTICED = ("speech", "alarm", "stop", "mute")
OUTCOMES = ("done", "already", "refused", "asked", "failed")


class AgentDesk:
    """Answers `agent.ready`, `.heard`, `.declare`, `.say`, `.finish`, `.arbitrated`
    and `.noticed`.

    watch: called with (kind, fields) of each report.
    """

    def __init__(
        self,
        home: DeviceHome,
        server: CommandServer,
        publisher: Publisher | None = None,
        watch: Callable[[str, dict[str, Any]], None] | None = None,
    ) -> None:
        self._home = home
        self._publisher, self._watch = publisher, watch
        self._declared = False
        self._lock = threading.Lock()
        server.register("agent.ready", self.ready)
        server.register("agent.heard", self.heard)
        server.register("agent.declare", self.declare)
        server.register("agent.say", self.say)
        server.register("agent.finish", self.finish)
        server.register("agent.arbitrated", self.arbitrated)
        server.register("agent.noticed", self.noticed)

    def ready(self, agent: str = "") -> dict[str, Any]:
        """The agent listens; a new episode of reports begins."""
        with self._lock:
            self._declared = False
        return self._tell("ready", agent=agent)

    def heard(self, text: str, evidence: dict[str, Any] | None = None) -> dict[str, Any]:
        """The words that the agent understood."""
        return self._tell("heard", text=_text(text), evidence=evidence or {})

    def declare(self, device_id: str | None, evidence: dict[str, Any] | None = None) -> dict[str, Any]:
        """The device that the agent takes the request to mean; None: there is no such device.

        Raises HomeError DEVICE_NOT_FOUND for an id that the home does not have. The last one counts.
        """
        if device_id is not None:
            self._home.state(device_id)
        with self._lock:
            self._declared = True
        return self._tell("declared", device_id=device_id, evidence=evidence or {})

    def say(self, text: str) -> dict[str, Any]:
        """What the agent tells the person."""
        return self._tell("said", text=_text(text))

    def finish(self, answer: str, outcome: str = "done") -> dict[str, Any]:
        """The agent is done. outcome: done, already (it was so), refused, asked (a question), failed.

        Raises InputError for another outcome, or if nothing was declared.
        """
        if outcome not in OUTCOMES:
            raise InputError(f"outcome is one of {', '.join(OUTCOMES)}, not {outcome!r}")
        with self._lock:
            if not self._declared:
                raise InputError("agent.declare a device (or null for none) before agent.finish")
            self._declared = False
        return self._tell("finished", answer=_text(answer), outcome=outcome)

    def arbitrated(self, decision: dict[str, Any]) -> dict[str, Any]:
        """Which of several rigs answers an utterance, with the evidence (`edge.rigs`)."""
        if not isinstance(decision, dict):
            raise InputError(f"a decision is a map, not {type(decision).__name__}")
        return self._tell("arbitrated", decision=decision)

    def noticed(
        self, kind: str, t_ns: int, on: bool | None = None, text: str = "", late_ms: int | None = None
    ) -> dict[str, Any]:
        """What the fast loop heard. kind: speech (on: it began, or ended), alarm, stop or mute; t_ns: when,
        on the rig's clock; text: the words; late_ms: after their end.

        Raises InputError for another kind.
        """
        if kind not in NOTICED or not isinstance(t_ns, int):
            raise InputError(
                f"agent.noticed takes kind ({', '.join(NOTICED)}) and t_ns, not {kind!r}, {t_ns!r}"
            )
        told = {"on": on, "text": _text(text) or None, "late_ms": late_ms}
        return self._tell(kind, t_ns=t_ns, **{k: value for k, value in told.items() if value is not None})

    def _tell(self, kind: str, **data: Any) -> dict[str, Any]:
        if self._publisher is not None:
            self._publisher.publish("event", monotonic_ns(), data={"kind": kind, **data})
        if self._watch is not None:
            self._watch(kind, data)
        return {"told": kind}


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"expected text, got {type(text).__name__}")
    return text
