"""What the guided forms share: following the devices of a rig until there is enough, and the newest sound."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, SourceEvent, VideoFrame
from capture.fanout import Fanout

if TYPE_CHECKING:
    from capture.sources import OpenedRig

GAP_NS = 20_000_000  # a block that begins so far from where the last one ended does not follow it
LOOK_EVERY_S = 0.5


def follow(
    rig: OpenedRig,
    take: Callable[[AudioBlock | VideoFrame], None],
    enough: Callable[[], bool],
    say: Callable[[str], None],
    *,
    pictures: bool,
    longest_s: float,
    too_slow: str,
    room: int = 2000,
) -> SourceEvent | None:
    """Start the rig's microphone (and camera, for pictures) and hand on what comes, in order, until there is
    enough, the time is over, a device ends or Ctrl-C; stops the rig. Gives the event of a device that ended.

    take is called in this thread. When it is `room` items behind, the oldest are dropped and `too_slow` said.
    """
    fanout = Fanout()
    waiting = fanout.subscribe("guide", maxsize=room)
    rig.start(fanout.sink, fanout.sink if pictures else None)
    until, dropped = time.monotonic() + longest_s, 0
    try:
        while not enough() and time.monotonic() < until:
            item = waiting.get(timeout=0.5)
            if waiting.dropped > dropped:
                dropped = waiting.dropped
                say(too_slow)
            if isinstance(item, SourceEvent):
                if item.kind in ("ended", "error"):
                    say(f"{item.source} {item.kind}: {item.detail}")
                    return item
            elif item is not None:
                take(item)
    except KeyboardInterrupt:
        say("stopped")
    finally:
        rig.stop()
    return None


class RecentSound:
    """The newest sound of a microphone without a gap."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.seconds = 0.0
        self._since_s = 0.0
        self._blocks: deque[tuple[int, NDArray[np.int32]]] = deque()  # time of the first frame, samples

    def add(self, t_ns: int, samples: NDArray[np.int32]) -> None:
        """Frames (n, channels) int32 that begin at t_ns. A gap in time starts anew: a sweep must be whole."""
        if self._blocks:
            first, block = self._blocks[-1]
            if abs(t_ns - first - len(block) / self.rate_hz * 1e9) > GAP_NS:
                self.clear()
        self._blocks.append((t_ns, samples))
        self.seconds += len(samples) / self.rate_hz
        self._since_s += len(samples) / self.rate_hz

    def due(self, least_s: float, most_s: float) -> bool:
        """Forget what is older than most_s; whether to look again: each half second, with least_s there."""
        while self.seconds > most_s:
            self.seconds -= len(self._blocks.popleft()[1]) / self.rate_hz
        if self._since_s < LOOK_EVERY_S or self.seconds <= least_s:
            return False
        self._since_s = 0.0
        return True

    def whole(self) -> tuple[int, NDArray[np.int32]]:
        """Time of its first frame, and all of it (frames, channels)."""
        return self._blocks[0][0], np.concatenate([block for _, block in self._blocks])

    def clear(self) -> None:
        """Begin anew."""
        self._blocks.clear()
        self.seconds = 0.0


def write_sound(path: Path, samples: NDArray[Any], rate_hz: int, subtype: str) -> None:
    """A WAV file, all of it or nothing. Raises StorageError."""
    import io

    import soundfile

    from recordings.storage import storage_errors, write_atomic

    data = io.BytesIO()
    soundfile.write(data, samples, rate_hz, subtype=subtype, format="WAV")
    with storage_errors(path):
        write_atomic(path, data.getvalue())
