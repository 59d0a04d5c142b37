"""What every source delivers: blocks of sound and pictures, stamped on one clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dsp.errors import DeviceError


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


TimeSource = Literal["driver", "arrival", "filtered", "container", "virtual"]


class VideoFrame:
    """One picture of one camera, as pixels or as the JPEG that the camera itself sent.

    t_ns is CLOCK_MONOTONIC; `t_source` says where it comes from: the driver's stamp where it is sane,
    arrival, filtered arrival, the file ("container") or the virtual room. `seq` counts delivered pictures;
    `dropped` is how many the source knows to be missing directly before this one. flags: "duplicate" (the
    same bytes as before), "frozen" (it has been the same for too long), "late", "damaged" (a JPEG without
    its end). Nothing of it is ever written to after delivery.
    """

    __slots__ = ("_image", "_lock", "_size", "dropped", "flags", "jpeg", "seq", "t_ns", "t_source")

    def __init__(
        self,
        t_ns: int,
        seq: int,
        image: NDArray[np.uint8] | None = None,
        t_source: TimeSource = "arrival",
        dropped: int = 0,
        flags: tuple[str, ...] = (),
        *,
        jpeg: bytes | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        """image: (height, width, 3) uint8 BGR. jpeg: instead of it, the camera's bytes; size: their (width,
        height), so that nobody has to look inside. One of the two must be given."""
        if (image is None) == (jpeg is None) or (jpeg is not None and size is None):
            raise ValueError("a picture is either an image, or a jpeg with its size")
        self.t_ns, self.seq, self.t_source = t_ns, seq, t_source
        self.dropped, self.flags, self.jpeg = dropped, flags, jpeg
        self._image = image
        self._size = size if image is None else (image.shape[1], image.shape[0])
        self._lock = threading.Lock()

    @property
    def width_px(self) -> int:
        """Columns."""
        assert self._size is not None
        return self._size[0]

    @property
    def height_px(self) -> int:
        """Rows."""
        assert self._size is not None
        return self._size[1]

    @property
    def image(self) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 BGR, read-only; a JPEG is decoded when it is first asked for.

        Raises DeviceError when the camera's JPEG cannot be decoded.
        """
        with self._lock:
            if self._image is None:
                import cv2

                assert self.jpeg is not None
                image = cv2.imdecode(np.frombuffer(self.jpeg, np.uint8), cv2.IMREAD_COLOR)
                if image is None:
                    raise DeviceError(
                        f"picture {self.seq} of the camera ({len(self.jpeg)} bytes) is no readable JPEG;"
                        " is the cable or the network at fault?"
                    )
                image.flags.writeable = False
                self._image = np.asarray(image)
            return self._image

    def __repr__(self) -> str:
        what = "" if self.jpeg is None else f" jpeg of {len(self.jpeg)} bytes"
        return f"<VideoFrame {self.seq} {self.width_px}x{self.height_px}{what} t_ns={self.t_ns}>"


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """Something that happened to a source and belongs in the timeline: lost, returned, ended, overflow.

    source: "microphone", "camera", "camera <name>" for a further one, "disk".
    kind: "ended" (a file or the virtual scene is over), "lost", "returned", "overflow", "stalled", "error",
    "frozen" and "thawed" (a camera that repeats one picture), "size" (its pictures have another size), "rate"
    (it is slower than asked), "channels" (the running sound shows a fault of its channels, or no longer
    does), "warning" (how it is connected).
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
