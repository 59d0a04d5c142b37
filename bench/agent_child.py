"""The agent's own process: `python -m bench.agent_child ADDRESS PROFILES MEMORY [MOST_CALLS]`.

It is given the address of `bench.agent_server`, the folder with the household's profiles, and its memory: a
file, "packaged", or "none" for the agent without one (MOST_CALLS: of tools per request then). What it knows
of an episode it was told at that address.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edge.agent.loop import RequestLoop
from edge.agent.memory import GenericOrder, MemoryBank, MemoryPolicy
from edge.agent.memory.evidence import Policy
from edge.agent.planned import PlannedPolicy
from edge.agent.runtime import perception_tools
from edge.agent.world import decoded
from edge.perception.profiles import ProfileBook
from edge.perception.room_map import RoomMap
from edge.perception.speech import load_recogniser
from edge.perception.tools import BEFORE_S, Picture, Scene
from edge.perception.utterance import BLOCK, RATE_HZ, Utterance, UtteranceCutter
from edge.stream.command_client import CommandClient

BEFORE_NS = round(BEFORE_S * 1e9)
FETCH = RATE_HZ


def utterances(client: CommandClient, episode: dict[str, Any]) -> Iterator[Utterance]:
    """What is said in an episode, cut out of its sound as on a live stream."""
    cutter = UtteranceCutter()
    for first in range(0, episode["frames"], FETCH):
        frames = min(FETCH, episode["frames"] - first)
        told = client.command("observe.sound", first=first, frames=frames)
        foa = np.frombuffer(told["foa"], "<f4").reshape(-1, 4)
        for begin in range(0, len(foa), BLOCK):
            t_ns = told["t_ns"] + round(begin * 1e9 / RATE_HZ)
            yield from cutter.push(foa[begin : begin + BLOCK].astype(np.float32), t_ns)
    yield from cutter.flush()


def pictures(client: CommandClient, from_ns: int, to_ns: int) -> tuple[Picture, ...]:
    """The pictures of a time, oldest first."""
    found: list[Picture] = []
    while True:
        after = found[-1].t_ns + 1 if found else from_ns
        told = client.command("observe.pictures", from_ns=after, to_ns=to_ns)["pictures"]
        if not told:
            return tuple(found)
        for one in told:
            image = decoded(one["jpeg"])
            assert image is not None, "the server's own picture"
            found.append(Picture(one["t_ns"], image))


def order_of(memory: str, most_calls: int) -> Policy:
    """What decides the next tool."""
    if memory == "none":
        return GenericOrder(most_calls)
    return MemoryPolicy(MemoryBank.load(None if memory == "packaged" else Path(memory)))


def main() -> int:
    """Answer episodes until there are no more."""
    address, profiles, memory = sys.argv[1:4]
    most_calls = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    order = order_of(memory, most_calls)
    book = ProfileBook.open(profiles, virtual=True)
    tools = perception_tools(load_recogniser("whisper"), book)
    client = CommandClient(address)
    while True:
        episode = client.command("episode.next", timeout_s=120.0)
        if episode["episode"] is None:
            return 0
        client.command("agent.ready", agent="bench")
        loop = RequestLoop(client, tools, PlannedPolicy(order))
        for utterance in utterances(client, episode):
            seen = pictures(client, utterance.t_ns - BEFORE_NS, utterance.ended_ns)
            scene = Scene(utterance, seen, RoomMap(client.command("home.describe")))
            decided_after_s = (utterance.decided_ns - utterance.ended_ns) / 1e9
            client.command("observe.heard", decided_after_s=decided_after_s)
            try:
                loop.answer(scene)
            except Exception:  # the episode stays unanswered, and is wrong; the others are still measured
                traceback.print_exc()


if __name__ == "__main__":
    raise SystemExit(main())
