"""What every kind of camera has in common: a connection that gives one picture after the other.

A link is opened, read and closed by one thread. It does not filter times, count or reconnect: `LiveCamera`
does that for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """What is asked of a camera, and how long it may take; a network camera decides size and rate itself."""

    width_px: int = 640
    height_px: int = 360
    fps: float = 15.0
    fourcc: str = "MJPG"
    open_deadline_s: float = 8.0
    read_deadline_s: float = 3.0

    def asked(self) -> dict[str, Any]:
        """For VideoInfo.detail."""
        return {
            "width_px": self.width_px,
            "height_px": self.height_px,
            "fps": self.fps,
            "fourcc": self.fourcc,
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture as it came, as the camera's own JPEG or as pixels (one of the two).

    arrival_ns: CLOCK_MONOTONIC when its last byte was here. size: (width, height) px. driver_ns: the kernel's
    stamp on CLOCK_MONOTONIC. sequence: the driver's count of pictures, lost ones included. media_ns: the
    sender's own clock (RTP), any origin. damaged: the transport says that a part is missing.
    """

    arrival_ns: int
    size: tuple[int, int]
    jpeg: bytes | None = None
    image: NDArray[np.uint8] | None = None
    driver_ns: int | None = None
    sequence: int | None = None
    media_ns: int | None = None
    damaged: bool = False


class CameraEnded(Exception):
    """The connection is over or the device is gone; the text says how."""


class CameraLink(Protocol):
    """An open camera. Its constructor blocks until the camera answers, and raises DeviceError."""

    backend: str  # "v4l2", "opencv", "http", "rtsp"
    fourcc: str

    def read(self) -> Picture | None:
        """Wait for the next picture. None: none yet, ask again (so that a stopping reader looks up now and
        then). Raises CameraEnded."""
        ...

    def detail(self) -> dict[str, Any]:
        """What was negotiated and found out so far, for VideoInfo.detail."""
        ...

    def close(self) -> None:
        """Give the camera back. Only the thread that reads calls it."""
        ...
