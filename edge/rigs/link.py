"""One rig as an agent hears it: its stream in a thread of its own, its clock, its id, its last sound."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from capture.blocks import monotonic_ns
from dsp.errors import HearthError, InputError
from edge.agent.world import Pictures
from edge.perception.utterance import RATE_HZ, Utterance, UtteranceCutter
from edge.rigs.addresses import RigAddress
from edge.stream import Client, Message, StreamLost, StreamTimeout

log = logging.getLogger(__name__)

F32 = NDArray[np.float32]
KEPT_S = 16.0  # of sound, for comparisons with a rig that is late
SILENT_S = 0.5  # a rig whose sound is older than this is not waited for
GAP_S = 0.02
CLOCK_S = 5.0  # how far a clock may be off that nothing is known of
LOOK_S = 0.3


class Described(msgspec.Struct, frozen=True):
    """The answer to `rig.describe`. run: a random number of this run of the rig."""

    id: str
    name: str = ""
    room: str = ""
    lasting: bool = True
    run: int = 0


@dataclass(frozen=True)
class Heard:
    """An utterance of one rig in the time of this host. known_ns: when it was known that it is over;
    run: of the rig."""

    rig: RigLink
    utterance: Utterance
    start_ns: int  # of its first sample
    end_ns: int  # of its last voiced sample
    known_ns: int


class RigLink:
    """Listens to one rig; `heard` is called in its thread with every utterance.

    It follows a rig that is restarted, waits for one that is down, and never disturbs another link. Times are
    of this host, by `Client.clock`.
    """

    def __init__(
        self,
        address: RigAddress,
        heard: Callable[[Heard], None],
        described: Callable[[RigLink], None],
        cutter: Callable[[], UtteranceCutter] = UtteranceCutter,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self.client = Client(address.stream, address.commands, ["foa24", "video"], keys=address.keys)
        self.about: Described | None = None
        self.problem: str | None = None  # why it cannot be used, in words
        self.ended = False  # it said that it ends
        self.used = True  # False: another rig has its id
        self._heard, self._described, self._alive = heard, described, alive
        self.pictures = Pictures()
        self._make_cutter = cutter
        self._cutter = cutter()
        self._lock = threading.Lock()
        self._sound: deque[tuple[int, F32]] = deque()  # (rig's time of the first sample, AmbiX)
        self._kept = 0
        self._until_ns = 0  # the rig's time after the last sample
        self._received_ns = 0  # ours, when it came
        self._epoch: int | None = None
        self._ask_at = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"rig {address.shown}", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self.client.close()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def id(self) -> str:
        """The rig's id; its address until it told one."""
        return self.about.id if self.about is not None else self.address.stream

    @property
    def alive(self) -> bool:
        """It is used, and its sound comes."""
        with self._lock:
            fresh = monotonic_ns() - self._received_ns < SILENT_S * 1e9
        return self.used and self.about is not None and fresh and not self.ended

    @property
    def silent_s(self) -> float:
        """How long nothing came; infinite when nothing ever did."""
        with self._lock:
            return (monotonic_ns() - self._received_ns) / 1e9 if self._received_ns else float("inf")

    @property
    def clock_s(self) -> float:
        """How far its times may be from the truth in this host's clock."""
        state = self.client.clock.state
        return CLOCK_S if state is None else state.uncertainty_at(monotonic_ns()) / 1e9

    @property
    def speaking_since_ns(self) -> int | None:
        """When the speech began that it hears now; None when it hears none."""
        since_ns = self._cutter.speaking_since_ns
        return None if since_ns is None else self.client.clock.to_local_ns(since_ns)

    def covers_ns(self) -> int:
        """Its sound is here up to this time."""
        with self._lock:
            until_ns = self._until_ns
        return self.client.clock.to_local_ns(until_ns) if until_ns else 0

    def sound(self, start_ns: int, frames: int) -> F32 | None:
        """(frames, 4) from `start_ns` on; None where there is a gap, or where it is not kept any more."""
        start_ns = self.client.clock.to_rig_ns(start_ns)
        with self._lock:
            blocks = list(self._sound)
        if not blocks:
            return None
        index = 0
        while index < len(blocks) - 1 and blocks[index + 1][0] <= start_ns:
            index += 1
        offset = round((start_ns - blocks[index][0]) * RATE_HZ / 1e9)
        if offset < 0:
            return None
        parts, have, due_ns = [], -offset, blocks[index][0]
        for t_ns, block in blocks[index:]:
            if abs(t_ns - due_ns) > GAP_S * 1e9:
                return None
            parts.append(block)
            have += len(block)
            due_ns = t_ns + round(len(block) * 1e9 / RATE_HZ)
            if have >= frames:
                return np.concatenate(parts)[offset : offset + frames]
        return None

    # --- the thread ---

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                for message in self.client.messages(timeout_s=LOOK_S):
                    self._alive()
                    self._take(message)
                if not self._closing.is_set():
                    self.ended = True
                    self._begin_again(whole=True)
            except StreamLost:
                self._begin_again(whole=False)
            except StreamTimeout:  # no sound: the rig is down, or its microphone has not begun
                self._alive()
                with contextlib.suppress(HearthError):
                    if self.about is None and self.client.connected:
                        self._ask()
            except HearthError as error:  # refused keys, no clock yet, an answer that makes no sense
                self._tell(str(error))
                self._closing.wait(0.2)
            except Exception as error:
                log.exception("listening to the rig at %s failed", self.address.shown)
                self.problem, self.used = f"{type(error).__name__}: {error}", False
                return

    def _tell(self, problem: str) -> None:
        if problem != self.problem and not self._closing.is_set():
            log.warning("rig %s: %s", self.address.shown, problem)
        self.problem = problem

    def _take(self, message: Message) -> None:
        self.pictures.add(message)
        sound = message.array
        if message.stream != "foa24" or sound is None:
            if self.about is None:
                self._ask()
            return
        if message.epoch != self._epoch:
            self._begin_again(whole=False)
            self._epoch, self.ended = message.epoch, False
            if self.about is not None and self.about.run != message.epoch:
                self.about = None
        self._keep(np.asarray(sound, np.float32), message.t_ns)
        if self.about is None and not self._ask():
            return
        for utterance in self._cutter.push(np.asarray(sound, np.float32), message.t_ns):
            self._hand_on(utterance)

    def _ask(self) -> bool:
        """Who is this? Asked again once a second until it is known."""
        if time.monotonic() < self._ask_at:
            return False
        self._ask_at = time.monotonic() + 1.0
        self.client.clock.wait(2.0)
        answer = self.client.command("rig.describe", timeout_s=2.0)
        try:
            self.about = msgspec.convert(answer, Described)
        except msgspec.ValidationError as error:
            raise InputError(f"rig.describe did not answer a description: {error}") from None
        self.problem = None
        self._described(self)
        return self.used

    def _keep(self, sound: F32, t_ns: int) -> None:
        with self._lock:
            self._sound.append((t_ns, sound))
            self._kept += len(sound)
            while self._kept - len(self._sound[0][1]) >= KEPT_S * RATE_HZ:
                self._kept -= len(self._sound.popleft()[1])
            self._until_ns = t_ns + round(len(sound) * 1e9 / RATE_HZ)
            self._received_ns = monotonic_ns()

    def _begin_again(self, whole: bool) -> None:
        """Another run of the rig, or none: nothing is glued together. whole: it ended in good order, so what
        was still being said counts; what a rig was killed in the middle of does not."""
        rest = self._cutter.flush() if whole else []
        self._cutter = self._make_cutter()
        for utterance in rest:
            self._hand_on(utterance)
        with self._lock:
            self._sound.clear()
            self._kept = 0

    def _hand_on(self, utterance: Utterance) -> None:
        if not self.used or self.about is None:
            return
        clock = self.client.clock
        start_ns, end_ns = clock.to_local_ns(utterance.t_ns), clock.to_local_ns(utterance.ended_ns)
        self._heard(Heard(self, utterance, start_ns, end_ns, monotonic_ns()))


def told(about: Described) -> dict[str, Any]:
    """Plain data of a description."""
    return {"id": about.id, "name": about.name, "room": about.room}
