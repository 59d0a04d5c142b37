"""What a client receives: messages with their age, and the ways in which a stream falls silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import DeviceError, InputError
from edge.stream.messages import Header, read_array

MAX_PIXELS = 64_000_000  # a JPEG of a few bytes can claim gigabytes


class StreamTimeout(DeviceError):
    """Nothing arrived in time; the message says if the publisher is silent or only the streams asked for."""


class StreamLost(StreamTimeout):
    """The publisher's heartbeat has stopped: killed, stopped, or cut off. Told once each time it happens."""


class StreamEnded(DeviceError):
    """The publisher said that it ends, and everything it sent before was delivered."""


@dataclass(frozen=True, slots=True)
class Message:
    """One received message.

    header:      see `edge.stream.messages.Header`; its fields are reachable here too.
    payload:     the raw bytes (a JPEG for video, samples for foa24).
    received_ns: CLOCK_MONOTONIC of this host when it left the socket.
    retained:    it is the last message of a "reliable" stream, sent before this client joined.
    clock_offset_ns, clock_uncertainty_ns: the rig's clock less this host's at `received_ns`, and how far that
                 may be from the truth (see edge.stream.time_sync); 0 and None when they were not compared.
    """

    header: Header
    payload: bytes
    received_ns: int
    retained: bool = False
    clock_offset_ns: int = 0
    clock_uncertainty_ns: int | None = None

    @property
    def stream(self) -> str:
        return self.header.stream

    @property
    def epoch(self) -> int:
        return self.header.epoch

    @property
    def seq(self) -> int:
        return self.header.seq

    @property
    def t_ns(self) -> int:
        return self.header.t_ns

    @property
    def data(self) -> dict[str, Any]:
        return self.header.data

    @property
    def array(self) -> NDArray[Any] | None:
        """The payload as a read-only array; None for pictures in JPEG (see `image`) and for no payload."""
        return read_array(self.header, self.payload)

    @property
    def age_ms(self) -> float:
        """From the end of what the message covers (`t_ns + duration_ns`) to its arrival.

        On another host than the rig's it is as exact as `clock_uncertainty_ns`, and means nothing while that
        is None.
        """
        arrived_ns = self.received_ns + self.clock_offset_ns
        return (arrived_ns - self.header.t_ns - self.header.duration_ns) / 1e6

    def image(self) -> NDArray[np.uint8]:
        """The picture as uint8 BGR (height, width, 3). Raises InputError for one that cannot be read."""
        if self.header.encoding == "raw":
            picture = self.array
            assert picture is not None
            return picture
        from capture.frame_watch import jpeg_size  # here: a client without pictures loads nothing of cameras

        size = jpeg_size(self.payload)
        if size is None or size[0] * size[1] > MAX_PIXELS:
            told = "no size" if size is None else f"{size[0]} x {size[1]} pixels"
            raise InputError(f"message {self.seq} of {self.stream} is no picture that is decoded: {told}")
        import cv2

        read = cv2.imdecode(np.frombuffer(self.payload, np.uint8), cv2.IMREAD_COLOR) if self.payload else None
        if read is None:
            raise InputError(f"message {self.seq} of {self.stream} holds no picture that can be decoded")
        return np.asarray(read, dtype=np.uint8)
