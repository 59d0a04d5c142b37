"""From raw buffers with arrival times to stamped blocks; the same for every live microphone backend."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, Sink, SourceEvent
from capture.clock import AudioClock, ClockState


class BlockStamper:
    """Counts frames, filters times, finds losses. One thread calls it.

    A loss shows in arrival times only after a while (0.5 s when the host reported it, 1 s otherwise). The
    block that follows the finding carries `lost_frames`; the event "overflow" says where the gap really is
    (`first_frame` in the old count) and how long.
    """

    def __init__(self, rate_hz: int, sink: Sink, source: str = "microphone") -> None:
        self._rate_hz, self._sink, self._source = rate_hz, sink, source
        self._clock = AudioClock(rate_hz)
        self._next_frame = 0
        self._seq = 0
        self._lost = 0  # to be noted on the next block
        self._last_end_ns: int | None = None

    @property
    def state(self) -> ClockState:
        """The clock in numbers."""
        return self._clock.state

    def push(self, samples: NDArray[np.int32], arrival_ns: int, flags: tuple[str, ...] = ()) -> None:
        """One buffer (frames, channels) that was complete at arrival_ns."""
        frames = len(samples)
        observed = arrival_ns - frames * 1_000_000_000 // self._rate_hz
        overflow = "input_overflow" in flags
        t_ns = self._clock.observe(self._next_frame, frames, observed, flagged=overflow)
        loss = self._clock.take_loss()
        if loss is not None:
            self._lost += loss.frames
            self._next_frame += loss.frames
            t_ns += round(loss.frames * 1e9 / self._rate_hz)
            self._sink(
                SourceEvent(
                    t_ns,
                    self._source,
                    "overflow",
                    f"{loss.frames} frames ({1e3 * loss.frames / self._rate_hz:.1f} ms) were lost",
                    {
                        "lost_frames": loss.frames,
                        "gap_before_frame": loss.first_frame,
                        "gap_t_ns": self._clock.time_of(loss.first_frame),
                        "reported_by_host": loss.flagged,
                    },
                )
            )
        self._sink(
            AudioBlock(
                t_ns=t_ns,
                seq=self._seq,
                first_frame=self._next_frame,
                rate_hz=self._rate_hz,
                samples=samples,
                t_observed_ns=observed,
                lost_frames=self._lost,
                flags=flags,
            )
        )
        self._lost = 0
        self._seq += 1
        self._next_frame += frames
        self._last_end_ns = t_ns + frames * 1_000_000_000 // self._rate_hz

    def returned(self, arrival_ns: int, frames: int) -> int:
        """The device is back and its first buffer arrived: count the time without it as lost frames.

        Returns how many. Call before pushing that buffer.
        """
        if self._last_end_ns is None:
            return 0
        observed = arrival_ns - frames * 1_000_000_000 // self._rate_hz
        lost = max(0, round((observed - self._last_end_ns) * self._rate_hz / 1e9))
        self._next_frame += lost
        self._lost += lost
        self._clock.restart(self._next_frame, observed)
        return lost


class BufferQueue:
    """Hands buffers from a callback (which must not wait) to the thread that stamps them."""

    def __init__(self) -> None:
        self._items: deque[tuple[bytes, int, tuple[str, ...]]] = deque()
        self._ready = threading.Semaphore(0)

    def put(self, data: bytes, arrival_ns: int, flags: tuple[str, ...]) -> None:
        """Called from the audio callback."""
        self._items.append((data, arrival_ns, flags))
        self._ready.release()

    def get(self, timeout: float) -> tuple[bytes, int, tuple[str, ...]] | None:
        """The next buffer, or None when none came in time."""
        if not self._ready.acquire(timeout=timeout):
            return None
        return self._items.popleft()
