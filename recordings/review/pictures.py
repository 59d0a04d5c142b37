"""The pictures of an episode as a browser shows them: JPEGs in packs, each with its true time.

Browsers differ in which codecs they play and round the times of a container; a JPEG is shown by all of them,
and the page chooses it by the time that the timeline gives. A camera's own JPEGs go out as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError

PACK = 12  # pictures in one answer: under a second, so that the first is there at once
WIDEST_PX = 1280
QUALITY = 82


def pack_of(path: Path, pts_ms: NDArray[np.int64], number: int) -> bytes:
    """Pictures number * PACK and on of a video file, whose times in the file are `pts_ms`.

    Little-endian uint32: how many, then the bytes of each, then the JPEGs; 0 bytes for one that cannot be
    decoded. Raises InputError when there is no such pack, or the file cannot be opened.
    """
    first, last = number * PACK, min((number + 1) * PACK, len(pts_ms))
    if not 0 <= first < last:
        raise InputError(f"there is no pack {number} of {len(pts_ms)} pictures")
    found = [b""] * (last - first)
    wanted = pts_ms[first:last]
    for pts, jpeg in _jpegs(path, int(wanted[0]), int(wanted[-1])):
        place = int(np.argmin(np.abs(wanted - pts)))
        if abs(int(wanted[place]) - pts) <= 1 and not found[place]:
            found[place] = jpeg
    return struct.pack(f"<{len(found) + 1}I", len(found), *map(len, found)) + b"".join(found)


def _jpegs(path: Path, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
    """(time in the file in ms, JPEG) of the pictures between two times."""
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
        to_milliseconds = float(stream.time_base) * 1000.0
        copied = stream.codec_context.name == "mjpeg"
        try:
            container.seek(max(int(from_ms / to_milliseconds), 0), stream=stream, backward=True)
            for packet in container.demux(stream):
                if packet.pts is None or not packet.size:
                    continue
                at = round(packet.pts * to_milliseconds)
                if copied:
                    if at > to_ms + 1:
                        return
                    if at >= from_ms - 1:
                        yield at, bytes(packet)
                    continue
                for frame in _decoded(packet):
                    at = round(frame.pts * to_milliseconds) if frame.pts is not None else -1
                    if at > to_ms + 1:
                        return
                    if at >= from_ms - 1:
                        yield at, encode(frame.to_ndarray(format="bgr24"))
            if not copied:
                for frame in stream.decode(None):  # what the decoder still held
                    at = round(frame.pts * to_milliseconds) if frame.pts is not None else -1
                    if from_ms - 1 <= at <= to_ms + 1:
                        yield at, encode(frame.to_ndarray(format="bgr24"))
        except av.error.FFmpegError:
            return  # a torn end


def _decoded(packet: Any) -> list[Any]:
    import av

    try:
        return list(packet.decode())
    except av.error.InvalidDataError:
        return []  # this picture cannot be decoded; the next may be


def encode(image: NDArray[np.uint8]) -> bytes:
    """A JPEG no wider than WIDEST_PX of a BGR picture; empty when it cannot be made."""
    import cv2

    if image.shape[1] > WIDEST_PX:
        size = (WIDEST_PX, max(1, round(image.shape[0] * WIDEST_PX / image.shape[1])))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    ok, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return bytes(data) if ok else b""
