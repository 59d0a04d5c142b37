"""The fast loop: hears speech begin and end, alarms, and the words "stop" and "be quiet", and tells the home
at once (`agent.noticed`), in a process of its own, so that nothing that the agent thinks about is in its way.

`python -m edge.agent.fast` reads {"stream", "commands", "keys"} as one line of JSON and ends when its
standard input does, that is, with the agent that started it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from capture.blocks import monotonic_ns
from dsp.errors import HearthError
from edge.agent.world import Home
from edge.perception.utterance import UtteranceCutter
from edge.stream import Client, Message, StreamTimeout

log = logging.getLogger(__name__)

LOOK_S = 0.5
COMMAND_S = 2.0


class FastLoop:
    """Push messages of `foa24`; what is noticed goes to the home. spot: with the words, which need the speech
    model; without, speech and alarms alone. For one thread."""

    def __init__(self, home: Home, spot: bool = True) -> None:
        from edge.perception.alarm_tone import AlarmSpotter

        self._home = home
        self._cutter = UtteranceCutter()
        self._alarms = AlarmSpotter()
        self._words: Any = None
        if spot:
            from edge.perception.keywords import KeywordSpotter

            self._words = KeywordSpotter()
        self._speaking = False

    def push(self, message: Message) -> None:
        """The next block of sound."""
        if message.stream != "foa24" or message.array is None:
            return
        sound = np.asarray(message.array, np.float32)
        noticed = self._alarms.push(sound, message.t_ns)  # all channels: a standing wave can hide it in W
        if self._words is not None:
            noticed += self._words.push(np.ascontiguousarray(sound[:, 0]), message.t_ns)
        for found in noticed:
            late_ms = round((monotonic_ns() - found.t_ns) / 1e6)
            self._tell(found.kind, found.t_ns, text=found.heard, late_ms=late_ms)
        ended = self._cutter.push(sound, message.t_ns)
        speaking = self._cutter.speaking_since_ns is not None
        if speaking and not self._speaking:
            self._tell("speech", int(self._cutter.speaking_since_ns or message.t_ns), on=True)
        elif self._speaking and not speaking:
            self._tell("speech", ended[-1].ended_ns if ended else message.t_ns, on=False)
        self._speaking = speaking

    def _tell(self, kind: str, t_ns: int, **data: Any) -> None:
        try:
            self._home.command("agent.noticed", timeout_s=COMMAND_S, kind=kind, t_ns=t_ns, **data)
        except HearthError as error:  # it goes on listening: the next one counts
            log.warning("%s was noticed and could not be told: %s", kind, error)


def listen(client: Client, loop: FastLoop, closing: threading.Event) -> None:
    """Until the stream ends or `closing` is set."""
    while not closing.is_set():
        try:
            for message in client.messages(timeout_s=LOOK_S):
                loop.push(message)
                if closing.is_set():
                    return
            return
        except StreamTimeout:
            continue


@contextmanager
def beside(stream: str, commands: str, keys: Path | None) -> Iterator[subprocess.Popen[str]]:
    """A fast loop as a process of its own while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edge.agent.fast"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,  # Ctrl-C is for the agent
    )
    assert process.stdin is not None
    told = {"stream": stream, "commands": commands, "keys": None if keys is None else str(keys)}
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
    try:
        yield process
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(3.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> int:
    """The process."""
    told = json.loads(sys.stdin.readline())
    closing = threading.Event()

    def until_closed() -> None:
        sys.stdin.read()
        closing.set()

    threading.Thread(target=until_closed, daemon=True).start()
    try:
        with Client(told["stream"], told["commands"], streams=["foa24"], keys=told["keys"]) as client:
            listen(client, FastLoop(client), closing)
    except HearthError as error:
        print(f"agent: the fast loop ended: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
