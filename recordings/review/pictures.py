"""The pictures of an episode as a browser shows them: JPEGs in packs, each with its true time.

Browsers differ in which codecs they play and round the times of a container; a JPEG is shown by all of them,
and the page chooses it by the time that the timeline gives. A camera's own JPEGs go out as they are.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError

PACK = 12  # pictures in one answer: under a second, so that the first is there at once
WIDEST_PX = 1280
QUALITY = 82
SKIPPED_MS = 3000  # farther on it jumps to a key frame instead of decoding what is between


class PictureFile:
    """The pictures of a video file in packs; packs that follow each other are decoded in one go, without
    beginning anew at a key frame each time. pts_ms: times in the file of all pictures, in its order. May be
    used by several threads."""

    def __init__(self, path: Path, pts_ms: NDArray[np.int64]) -> None:
        self.path, self.pts_ms = path, pts_ms
        self._lock = threading.Lock()
        self._coming: Iterator[tuple[int, Any]] | None = None
        self._next: tuple[int, Any] | None = None  # read already, and not in the pack before
        self._at_ms = 0  # all before is behind

    def pack(self, number: int) -> bytes:
        """Pictures number * PACK and on.

        Little-endian uint32: how many, then the bytes of each, then the JPEGs; 0 bytes for one that cannot be
        decoded. Raises InputError when there is no such pack, or the file cannot be opened.
        """
        wanted = self.pts_ms[number * PACK : (number + 1) * PACK] if number >= 0 else self.pts_ms[:0]
        if not len(wanted):
            raise InputError(f"there is no pack {number} of {len(self.pts_ms)} pictures")
        with self._lock:
            found = self._read(wanted)
        return struct.pack(f"<{len(found) + 1}I", len(found), *map(len, found)) + b"".join(found)

    def _read(self, wanted: NDArray[np.int64]) -> list[bytes]:
        first, last = int(wanted[0]), int(wanted[-1])
        if self._coming is None or not self._at_ms <= first + 1 <= self._at_ms + SKIPPED_MS:
            self._next, self._coming = None, pictures_from(self.path, first)
        found = [b""] * len(wanted)
        while True:
            one = self._next or next(self._coming, None)
            if one is None:
                self._coming = None
                return found
            at_ms, picture = one
            self._next = None
            if at_ms > last + 1:
                self._next = one
                return found
            self._at_ms = at_ms
            place = int(np.argmin(np.abs(wanted - at_ms)))
            if abs(int(wanted[place]) - at_ms) <= 1 and not found[place]:
                found[place] = jpeg_of(picture)
                if place == len(wanted) - 1:
                    return found


def pictures_from(path: Path, from_ms: int) -> Iterator[tuple[int, Any]]:
    """(time in the file in ms, JPEG or decoded frame), from the key frame at or before a time to the end of
    what can be read. Raises InputError when the file cannot be opened."""
    import av

    if not path.is_file():
        raise InputError(f"{path.name} is missing")
    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise InputError(f"{path.name}: FFmpeg cannot open it as a video: {error}") from None
    with container:
        if not container.streams.video:
            raise InputError(f"{path.name}: holds no video stream")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        to_ms = float(stream.time_base) * 1000.0
        copied = stream.codec_context.name == "mjpeg"
        try:
            container.seek(max(int(from_ms / to_ms), 0), stream=stream, backward=True)
            for packet in container.demux(stream):
                if copied:
                    if packet.pts is not None and packet.size:
                        yield round(packet.pts * to_ms), bytes(packet)
                    continue
                for frame in _decoded(packet):
                    if frame.pts is not None:
                        yield round(frame.pts * to_ms), frame
        except av.error.FFmpegError:
            return  # a torn end


def _decoded(packet: Any) -> list[Any]:
    """The frames that a packet completes; the last, empty one those that the decoder still held."""
    import av

    try:
        return list(packet.decode())
    except av.error.InvalidDataError:
        return []  # this picture cannot be decoded; the next may be


def jpeg_of(picture: Any) -> bytes:
    """A JPEG no wider than WIDEST_PX of a decoded frame; the camera's own is left as it is. Empty when it
    cannot be made."""
    import cv2

    if isinstance(picture, bytes):
        return picture
    size = {}
    if picture.width > WIDEST_PX:
        size = {"width": WIDEST_PX, "height": max(1, round(picture.height * WIDEST_PX / picture.width))}
    image = picture.to_ndarray(format="bgr24", **size)
    ok, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return bytes(data) if ok else b""
