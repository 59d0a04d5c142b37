"""What every source delivers: blocks of sound and pictures, stamped on one clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray


def monotonic_ns() -> int:
    """Nanoseconds of CLOCK_MONOTONIC: the one time base of a session."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """Consecutive frames of one microphone.

    t_ns:        time of the first frame on CLOCK_MONOTONIC, from the filtered audio clock.
    seq:         block number since the source was started; 64 bit, never reused.
    first_frame: index of the first frame in the source's own sample counter. It counts *lost* frames too,
                 so `first_frame` jumps over a gap while `seq` goes on by one.
    samples:     (frames, channels) int32, left-justified: full scale is +-2**31 (24-bit input has its low
                 byte zero). Never written to after delivery.
    t_observed_ns: the raw observation (arrival, or the driver's capture time); kept for the timeline.
    lost_frames: frames known or estimated to be missing directly before this block; 0 means none.
    flags:       what the host said, e.g. ("input_overflow",).
    """

    t_ns: int
    seq: int
    first_frame: int
    rate_hz: int
    samples: NDArray[np.int32]
    t_observed_ns: int
    lost_frames: int = 0
    flags: tuple[str, ...] = ()

    def as_float(self) -> NDArray[np.float32]:
        """The block as float32 (frames, channels), full scale +-1."""
        return self.samples.astype(np.float32) * np.float32(2.0**-31)


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """One picture of one camera.

    t_ns is CLOCK_MONOTONIC (driver stamp where it is sane, else arrival; `t_source` says which).
    image: (height, width, 3) uint8 BGR, never written to after delivery. seq counts delivered frames;
    `dropped` is how many the source knows to be missing directly before this one.
    """

    t_ns: int
    seq: int
    image: NDArray[np.uint8]
    t_source: Literal["driver", "arrival", "container", "virtual"] = "arrival"
    dropped: int = 0
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """Something that happened to a source and belongs in the timeline: lost, returned, ended, overflow.

    kind: "ended" (a file or the virtual scene is over), "lost", "returned", "overflow", "stalled", "error".
    """

    t_ns: int
    source: str
    kind: str
    detail: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Item = AudioBlock | VideoFrame | SourceEvent
Sink = Callable[[Item], None]


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What an opened microphone really is (not what was asked for)."""

    name: str
    backend: str
    rate_hz: int
    channels: int
    format: str  # one of dsp.FORMATS: "ambix", "fuma", "n3d", "a", "a2", or "array" for a non-FOA array
    bits: int
    block_frames: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What an opened camera really is: measured or read back, not what was asked for."""

    name: str
    backend: str
    width_px: int
    height_px: int
    fps: float
    fourcc: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


class AudioSource(Protocol):
    """A microphone, a file or the virtual room. The life is: open -> start(sink) -> stop -> close.

    `start` returns at once; a thread of the source then calls `sink` with each AudioBlock in order, and with
    SourceEvents. The sink must not block. After `stop` returns the sink is not called any more. A finite
    source ends with SourceEvent(kind="ended").
    """

    def open(self) -> AudioInfo: ...
    def start(self, sink: Sink) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


class VideoSource(Protocol):
    """A camera, a video file or the virtual room; the same life as AudioSource, delivering VideoFrames."""

    def open(self) -> VideoInfo: ...
    def start(self, sink: Sink) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
