"""What an agent is in touch with: a home that takes commands, and the requests that people speak.

`Home` is all that an agent may ask of the world. `Pictures` and `LiveWorld` turn a rig's stream into scenes:
one utterance, the pictures around it, and the room map of that moment.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge.agent.attention import Attention
from edge.perception.room_map import RoomMap
from edge.perception.tools import BEFORE_S, PICTURES_PER_S, Picture, Scene
from edge.perception.utterance import Utterance, UtteranceCutter
from edge.stream import Client, Message, StreamTimeout

PUBLISHER_GONE_S = 7.0
KEPT_S = 18.0  # of pictures: the longest utterance, what is before it, and the time to decide
LOOK_S = 0.3
MOST_PICTURES = 40  # of one scene


class Home(Protocol):
    """`home.*` and `agent.*` of docs/protocol.md. `edge.stream.Client` is one."""

    def command(self, op: str, timeout_s: float = 5.0, **args: Any) -> dict[str, Any]:
        """Raises HearthError when it is refused or nobody answers."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    t_ns: int
    jpeg: bytes | None
    image: NDArray[np.uint8] | None


class Pictures:
    """The pictures of the last KEPT_S seconds, at most PICTURES_PER_S of them a second; JPEGs are decoded
    when they are asked for. Thread-safe."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self._lock = threading.Lock()

    def add(self, message: Message) -> None:
        """A message of the stream `video`; others are passed over."""
        if message.stream != "video":
            return
        jpeg = message.payload if message.header.encoding == "jpeg" else None
        image = None if jpeg is not None or message.array is None else np.asarray(message.array, np.uint8)
        if jpeg is not None or image is not None:
            self.keep(message.t_ns, jpeg, image)

    def keep(self, t_ns: int, jpeg: bytes | None, image: NDArray[np.uint8] | None = None) -> None:
        """One picture, later than those before; an earlier one is of another run of the rig."""
        with self._lock:
            kept = self._kept
            if kept and t_ns < kept[-1].t_ns:
                kept.clear()
            if kept and t_ns - kept[-1].t_ns < 0.9e9 / PICTURES_PER_S:
                return
            kept.append(_Kept(t_ns, jpeg, image))
            while t_ns - kept[0].t_ns > KEPT_S * 1e9:
                kept.popleft()

    def between(self, from_ns: int, to_ns: int) -> tuple[Picture, ...]:
        """Oldest first. One that is no picture is left out."""
        with self._lock:
            inside = [one for one in self._kept if from_ns <= one.t_ns <= to_ns]
        found = []
        for one in inside[-MOST_PICTURES:]:
            image = one.image if one.jpeg is None else decoded(one.jpeg)
            if image is not None:
                found.append(Picture(one.t_ns, image))
        return tuple(found)


def decoded(jpeg: bytes) -> NDArray[np.uint8] | None:
    """(height, width, 3) BGR; None for what is no JPEG."""
    import cv2

    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return None if image is None else np.asarray(image, np.uint8)


def scene_of(utterance: Utterance, pictures: Pictures, home: Home) -> Scene:
    """The scene of an utterance: its pictures, and the home as it is now."""
    begin = utterance.t_ns - round(BEFORE_S * 1e9)
    room = RoomMap(home.command("home.describe"))
    return Scene(utterance, pictures.between(begin, utterance.ended_ns), room)


class LiveWorld:
    """A rig that runs, listened to in a thread of its own: what is said and seen while the agent thinks is
    not lost, and is answered after.

    client: connected to `foa24`, `video` and `event` and to the commands. alive: is called several times a
    second while it listens. attention: is told what the fast loop noticed.
    """

    def __init__(
        self,
        client: Client,
        alive: Callable[[], None] = lambda: None,
        attention: Attention | None = None,
    ) -> None:
        self.home: Home = client
        self._client, self._alive = client, alive
        self._attention = attention or Attention()
        self._cutter = UtteranceCutter()
        self._pictures = Pictures()
        self._heard: queue.Queue[Utterance | Exception | None] = queue.Queue()
        self._closing = threading.Event()

    def scenes(self) -> Iterator[Scene]:
        """One for each utterance, until the stream ends.

        Raises StreamTimeout when the publisher is gone for PUBLISHER_GONE_S without a word
        (killed, unplugged).
        """
        self._client.wait_connected(10.0)
        thread = threading.Thread(target=self._listen, name="listening", daemon=True)
        thread.start()
        try:
            while True:
                try:
                    heard = self._heard.get(timeout=LOOK_S)
                except queue.Empty:
                    self._alive()
                    continue
                if heard is None:
                    return
                if isinstance(heard, Exception):
                    raise heard
                yield scene_of(heard, self._pictures, self.home)
        finally:
            self._closing.set()
            thread.join()

    def _listen(self) -> None:
        try:
            for message in self._messages():
                self._pictures.add(message)
                if message.stream == "event":
                    self._attention.notice(message.data)
                elif message.stream == "foa24" and message.array is not None:
                    self._take(self._cutter.push(message.array, message.t_ns))
                if self._closing.is_set():
                    return
            self._take(self._cutter.flush())
            self._heard.put(None)
        except Exception as error:  # raised again by `scenes`
            self._heard.put(error)

    def _take(self, utterances: list[Utterance]) -> None:
        for utterance in utterances:
            self._heard.put(utterance)

    def _messages(self) -> Iterator[Message]:
        silent_since = None
        while not self._closing.is_set():
            try:
                for message in self._client.messages(timeout_s=LOOK_S):
                    silent_since = None
                    yield message
                return
            except StreamTimeout:
                if self._client.connected:
                    silent_since = None
                    continue
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > PUBLISHER_GONE_S:
                    raise
