"""The agent as it runs: hears requests on a rig's stream, declares the device, acts, and says what it did.

It is given addresses, and what it brings itself (networks, profiles of the household, a memory). What it
knows of the home it heard and saw on the stream or was told by `home.*`; it never sees a rig file, a scene or
a truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edge.agent.attention import Attention
from edge.agent.loop import Answer, Policy, RequestLoop
from edge.agent.trace import Trace
from edge.agent.world import LiveWorld, Pictures, scene_of
from edge.perception.tools import Tool
from edge.perception.utterance import Utterance
from edge.stream import Client

NAME = "hearth agent 2"
STREAMS = ("foa24", "video", "event")


class Agent:
    """client: connected to STREAMS and to the commands. tools: `edge.agent.runtime.perception_tools`.

    alive: is called while it listens, several times a second: it is not hung.
    """

    def __init__(
        self,
        client: Client,
        tools: Mapping[str, Tool[Any]],
        policy: Policy,
        trace: Trace | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self.trace = trace or Trace()
        self._attention = Attention()
        self._world = LiveWorld(client, alive, self._attention)
        self._loop = RequestLoop(client, tools, policy, self.trace, attention=self._attention, alive=alive)

    def answers(self) -> Iterator[Answer]:
        """Answer requests until the stream ends. Utterances that ask for nothing are passed over."""
        self._client.wait_connected(10.0)
        self.ready()
        for scene in self._world.scenes():
            answer = self._loop.answer(scene)
            if answer is not None:
                yield answer

    def ready(self) -> None:
        """Tell the home that the agent listens."""
        name = f"{NAME} ({self._loop.policy.name})"
        self._client.command("agent.ready", agent=name)
        self.trace.add("ready", agent=name)

    def answer(self, utterance: Utterance, pictures: Pictures) -> Answer | None:
        """One utterance that was heard elsewhere; None for one that asks for nothing."""
        return self._loop.answer(scene_of(utterance, pictures, self._client))
