"""The agent of a house with several rigs: one request, one answer, by the rig that heard it best."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dsp.errors import HearthError
from edge.agent.agent import Agent
from edge.agent.loop import Answer, Policy
from edge.agent.trace import Trace
from edge.perception.room_map import RoomMap
from edge.perception.tools import Finding, Scene, Tool
from edge.rigs.addresses import RigAddress
from edge.rigs.link import Heard, RigLink
from edge.rigs.rig_set import RigSet

log = logging.getLogger(__name__)


class _OneAtATime:
    """A perception tool that several threads may use; all share one lock, as tools share
    networks."""

    def __init__(self, tool: Tool[Any], lock: threading.Lock) -> None:
        self._tool, self._lock, self.name = tool, lock, tool.name

    def __call__(self, scene: Scene) -> Finding[Any]:
        with self._lock:
            return self._tool(scene)


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
                    answer = self._agent.answer(data.utterance, self.link.pictures)
                    if answer is not None:
                        self._answered(self.link, answer)
            except HearthError as error:
                log.warning("rig %s: %s failed: %s", self.link.address.shown, what, error)
                self._agent.trace.add("failed", what=what, error=str(error))
            except Exception:
                log.exception("rig %s: %s failed", self.link.address.shown, what)


class HouseAgent:
    """Answers requests of a house. rigs: where they are. make_tools: loads the perception tools, which all
    rigs share; make_policy: one for each rig, because it remembers what was said there.

    Every decision between rigs goes into the trace (kind `arbitrated`) and, as an event, to each rig that it
    is about. The rigs that lose stay silent.
    """

    def __init__(
        self,
        rigs: Sequence[RigAddress],
        make_tools: Callable[[], Mapping[str, Tool[Any]]],
        make_policy: Callable[[], Policy],
        trace: Trace | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._trace = trace or Trace()
        self._alive = alive
        self._make_tools, self._make_policy = make_tools, make_policy
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
        """Listen. Raises StreamTimeout when no rig is there, InputError when two have one id, or when a room
        map makes no sense."""
        self.set.start()
        for link in self.set.links:
            if link.about is not None:
                RoomMap(link.client.command("home.describe"))
        lock = threading.Lock()
        tools = {name: _OneAtATime(tool, lock) for name, tool in self._make_tools().items()}
        for link in self.set.links:
            agent = Agent(link.client, tools, self._make_policy(), _Marked(self._trace, link))
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
