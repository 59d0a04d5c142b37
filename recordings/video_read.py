"""Pictures of a video file with their times; tolerant of a file whose end is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.storage import storage_error


def _open(path: Path) -> Any:
    import av

    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the video file")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise InputError(f"{path}: FFmpeg cannot open it as a video: {error}") from None
    if not container.streams.video:
        container.close()
        raise InputError(f"{path}: holds no video stream")
    return container


def frames(path: Path) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """(time in the file in ns, BGR picture (height, width, 3) uint8) of every picture that can be decoded.

    Ends quietly where a torn file ends. Raises InputError when it cannot be opened at all.
    """
    import av

    with _open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        try:
            for frame in container.decode(stream):
                if frame.pts is not None:
                    yield round(frame.pts * frame.time_base * 10**9), frame.to_ndarray(format="bgr24")
        except av.error.FFmpegError:
            return


@dataclass(frozen=True)
class VideoSummary:
    """What a video file holds: times in ns of each packet, in presentation order, and how it is coded."""

    times_ns: list[int]
    codec: str
    width_px: int
    height_px: int
    has_duration: bool
    torn: bool


def summarise(path: Path) -> VideoSummary:
    """Walk the packets without decoding. `torn`: the file ended in the middle of something."""
    import av

    times: list[int] = []
    torn = False
    with _open(path) as container:
        stream = container.streams.video[0]
        try:
            for packet in container.demux(stream):
                if packet.pts is not None and packet.size:
                    if packet.is_corrupt:
                        torn = True
                    else:
                        times.append(round(packet.pts * packet.time_base * 10**9))
        except av.error.FFmpegError:
            torn = True
        context = stream.codec_context
        return VideoSummary(
            times_ns=sorted(times),
            codec=context.name,
            width_px=context.width,
            height_px=context.height,
            has_duration=container.duration is not None,
            torn=torn,
        )


def remux(source: Path, target: Path) -> list[int]:
    """Copy the pictures of `source`, as coded, into a whole Matroska file; gives their sorted times in ns.

    Times start at 0. Packets that FFmpeg marks as damaged are left out. Raises InputError, StorageError.
    """
    import av

    times: list[int] = []
    with _open(source) as reader:
        template = reader.streams.video[0]
        start: Fraction | None = None
        packets = []
        try:
            # The earliest presentation time is among the first packets, whatever the coding order.
            for packet in reader.demux(template):
                if packet.pts is None or not packet.size or packet.is_corrupt:
                    continue
                packets.append(packet)
                if len(packets) == 32:
                    break
        except av.error.FFmpegError:
            pass
        if not packets:
            raise InputError(f"{source}: holds no readable picture")
        start = min(packet.pts * packet.time_base for packet in packets)
        try:
            with av.open(str(target), "w", format="matroska") as writer:
                if hasattr(writer, "add_stream_from_template"):
                    stream = writer.add_stream_from_template(template)
                else:
                    stream = writer.add_stream(template=template)

                def put(packet: Any) -> None:
                    shift = round(start / packet.time_base)
                    times.append(round((packet.pts - shift) * packet.time_base * 10**9))
                    packet.pts -= shift
                    packet.dts = None if packet.dts is None else packet.dts - shift
                    packet.stream = stream
                    writer.mux(packet)

                for packet in packets:
                    put(packet)
                try:
                    for packet in reader.demux(template):
                        if packet.pts is not None and packet.size and not packet.is_corrupt:
                            put(packet)
                except (av.error.EOFError, av.error.InvalidDataError):
                    pass
        except OSError as error:
            raise storage_error(error, target) from error
    return sorted(times)
