"""Several rigs as one: a link to each, one id each, and utterances arbitrated between them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dsp.errors import DeviceError, InputError
from edge.perception.utterance import UtteranceCutter
from edge.rigs.addresses import RigAddress
from edge.rigs.arbiter import Arbiter
from edge.rigs.link import Heard, RigLink
from edge.stream import StreamTimeout

log = logging.getLogger(__name__)

GONE_S = 7.0  # no rig is heard for this long: nobody is there any more


class RigSet:
    """Listens to rigs that may come, go, be slow or be restarted, each on its own.

    given:     is called with each utterance that is to be answered, once, whichever rigs heard it.
    decided:   is called with every decision of the arbiter (plain data) and the links that it is about.
    described: is called when a rig has told who it is, also after a restart.

    Two links that reach rigs with one id cannot be told apart: the one that came second is not used, and the
    reason stands in its `problem` and in `problems`.
    """

    def __init__(
        self,
        rigs: Sequence[RigAddress],
        given: Callable[[Heard], None],
        decided: Callable[[dict[str, Any], list[RigLink]], None] = lambda data, links: None,
        described: Callable[[RigLink], None] = lambda link: None,
        cutter: Callable[[], UtteranceCutter] = UtteranceCutter,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        if not rigs:
            raise InputError("no rig is given")
        self._described = described
        self._lock = threading.Lock()
        self.links: list[RigLink] = []
        try:
            for address in rigs:
                self.links.append(RigLink(address, self._hear, self._met, cutter, alive))
        except BaseException:
            for link in self.links:
                link.close()
            raise
        self._arbiter = Arbiter(lambda: self.links, given, decided)

    def start(self, timeout_s: float = 10.0) -> None:
        """Listen; returns when all rigs are heard, or some of them after `timeout_s`.

        Raises StreamTimeout when none is, InputError when two of them have one id.
        """
        for link in self.links:
            link.start()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not all(link.about or link.problem for link in self.links):
            time.sleep(0.02)
        if clash := self._clash():
            raise InputError(clash)
        if not any(link.about for link in self.links):
            told = "; ".join(f"{link.address.shown}: {link.problem or 'no answer'}" for link in self.links)
            raise StreamTimeout(f"no rig is heard within {timeout_s:g} s ({told}); is `hearth live` on?")
        for link in self.links:
            if link.about is None:
                log.warning("rig %s: not heard yet (%s)", link.address.shown, link.problem or "no answer")

    def close(self) -> None:
        """Stop listening, then decide what is left."""
        for link in self.links:
            link.close()
        self._arbiter.close()

    @property
    def over(self) -> bool:
        """Every rig has said that it ends. Raises DeviceError when the others are gone without a word."""
        left = [link for link in self.links if link.used and not link.ended]
        if not left:
            return True
        if all(link.silent_s > GONE_S and not link.client.connected for link in left):
            if any(link.ended for link in self.links):
                return True
            raise DeviceError(f"no rig is heard any more: {', '.join(link.address.shown for link in left)}")
        return False

    def problems(self) -> dict[str, str]:
        """Why rigs cannot be used, by what they are called."""
        return {link.address.shown: link.problem for link in self.links if link.problem}

    def to_list(self) -> list[dict[str, Any]]:
        """Every rig: id, name, room, address, whether it is heard now, its clock."""
        return [_state(link) for link in self.links]

    def _clash(self) -> str | None:
        return next((link.problem for link in self.links if not link.used and link.problem), None)

    def _hear(self, heard: Heard) -> None:
        self._arbiter.hear(heard)

    def _met(self, link: RigLink) -> None:
        """A rig told its id: it must be the only one with it."""
        assert link.about is not None
        with self._lock:
            for other in self.links:
                if other is link or other.about is None or other.about.id != link.about.id:
                    continue
                if other.used and not other.ended:
                    link.used = False
                    link.problem = _two_of(link, other)
                    log.error("%s", link.problem)
                    return
            link.used = True
        if not link.about.lasting:
            log.warning("rig %s: its id %s is for this run only", link.address.shown, link.id)
        self._described(link)


def _two_of(link: RigLink, other: RigLink) -> str:
    assert link.about is not None and other.about is not None
    places = f"{other.address.shown} and {link.address.shown}"
    if link.about.run == other.about.run:
        return f"{places} are one rig ({link.id}); give it once"
    return (
        f"two rigs have the id {link.id}: {places}. Give one of them another `id` in its rig.yaml, or remove "
        "`rig_id` from its storage folder (copied with it?)"
    )


def _state(link: RigLink) -> dict[str, Any]:
    about, clock = link.about, link.client.clock.state
    return {
        "id": None if about is None else about.id,
        "name": link.address.name or (about.name if about is not None else ""),
        "room": None if about is None else about.room,
        "stream": link.address.stream,
        "heard": link.alive,
        "clock_offset_ms": None if clock is None else round(clock.offset_ns / 1e6, 3),
        "clock_uncertainty_ms": None if clock is None else round(link.clock_s * 1e3, 3),
        "problem": link.problem,
    }
