"""The agent of a house with several rigs: one request, one answer, by the rig that heard it best."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import HearthError
from edge.agent.agent import Agent, Answer
from edge.agent.trace import Trace
from edge.perception.speech import Recogniser, Recognition
from edge.rigs.addresses import RigAddress
from edge.rigs.link import Heard, RigLink
from edge.rigs.rig_set import RigSet

log = logging.getLogger(__name__)


class _OneAtATime:
    """A recogniser that several threads may use."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser, self._lock = recogniser, threading.Lock()

    def recognise(self, mono: NDArray[np.float32], fs: int) -> Recognition:
        with self._lock:
            return self._recogniser.recognise(mono, fs)


class _Marked(Trace):
    """The steps of one rig's agent in the common trace."""

    def __init__(self, trace: Trace, link: RigLink) -> None:
        super().__init__()
        self._common, self._link = trace, link

    def add(self, kind: str, **data: Any) -> None:
        self._common.add(kind, rig=self._link.id, **data)


class _Hand:
    """What is done at one rig, in a thread of its own: a rig that is slow to answer holds up no other one."""

    def __init__(self, link: RigLink, agent: Agent, answered: Callable[[RigLink, Answer], None]) -> None:
        self.link, self._agent, self._answered = link, agent, answered
        self._work: queue.Queue[tuple[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=f"answers {link.address.shown}", daemon=True)
        self._thread.start()

    def do(self, what: str, data: Any = None) -> None:
        self._work.put((what, data))

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            what, data = item
            try:
                if what == "ready":
                    self._agent.ready()
                elif what == "decision":
                    self.link.client.command("agent.arbitrated", decision=data)
                else:
                    for answer in self._agent.answer(data.utterance):
                        self._answered(self.link, answer)
            except HearthError as error:
                log.warning("rig %s: %s failed: %s", self.link.address.shown, what, error)
                self._agent.trace.add("failed", what=what, error=str(error))
            except Exception:
                log.exception("rig %s: %s failed", self.link.address.shown, what)


class HouseAgent:
    """Answers requests of a house. rigs: where they are. make_recogniser: is given the names of devices.

    Every decision between rigs goes into the trace (kind `arbitrated`) and, as an event, to each rig that it
    is about. The rigs that lose stay silent.
    """

    def __init__(
        self,
        rigs: Sequence[RigAddress],
        make_recogniser: Callable[[list[str]], Recogniser],
        trace: Trace | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._trace = trace or Trace()
        self._alive = alive
        self._make_recogniser = make_recogniser
        self._answers: queue.Queue[tuple[RigLink, Answer]] = queue.Queue()
        self._hands: dict[RigLink, _Hand] = {}
        self._ready: list[RigLink] = []
        self._lock = threading.Lock()
        self.decisions: list[dict[str, Any]] = []
        self.set = RigSet(rigs, self._given, self._decided, self._described)

    def __enter__(self) -> HouseAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen. Raises StreamTimeout when no rig is there, InputError when two have one id, or when the
        recogniser or a room map makes no sense."""
        self.set.start()
        names: list[str] = []
        for link in self.set.links:
            if link.about is not None:
                answer = link.client.command("home.describe")
                names += [str(device.get("name", "")) for device in answer["devices"]]
        recogniser = _OneAtATime(self._make_recogniser(list(dict.fromkeys(names))))
        for link in self.set.links:
            agent = Agent(link.client, recogniser, _Marked(self._trace, link))
            hand = _Hand(link, agent, lambda link, answer: self._answers.put((link, answer)))
            with self._lock:
                self._hands[link] = hand
                if link in self._ready:
                    hand.do("ready")

    def answers(self) -> Iterator[tuple[RigLink, Answer]]:
        """Answers and who gave them, until all rigs have ended. Raises DeviceError if all are gone."""
        while True:
            self._alive()
            try:
                yield self._answers.get(timeout=0.2)
            except queue.Empty:
                if self.set.over:
                    break
        self.close()
        while not self._answers.empty():
            yield self._answers.get_nowait()

    def close(self) -> None:
        """Stop; requests that were heard are still answered. Safe to call twice."""
        self.set.close()
        with self._lock:
            hands, self._hands = list(self._hands.values()), {}
        for hand in hands:
            hand.close()

    def _described(self, link: RigLink) -> None:
        with self._lock:
            self._ready.append(link)
            hand = self._hands.get(link)
        self._trace.add("rig", rig=link.id, stream=link.address.stream)
        if hand is not None:
            hand.do("ready")

    def _decided(self, data: dict[str, Any], links: list[RigLink]) -> None:
        self._trace.add("arbitrated", **{**data, "of": [link.id for link in links]})
        self.decisions.append(data)
        with self._lock:
            hands = [self._hands[link] for link in links if link in self._hands and link.alive]
        for hand in hands:
            hand.do("decision", data)

    def _given(self, heard: Heard) -> None:
        with self._lock:
            hand = self._hands.get(heard.rig)
        if hand is not None:
            hand.do("answer", heard)
