"""Pictures of a video file with their times; tolerant of a file whose end is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

    Ends quietly where a torn file ends; a damaged picture within is left out. Raises InputError when it
    cannot be opened at all.
    """
    for _, t_ns, image in numbered_frames(path):
        yield t_ns, image


def numbered_frames(path: Path) -> Iterator[tuple[int, int, NDArray[np.uint8]]]:
    """As `frames`, with the picture's place in the file first: of MJPEG, where each packet is a picture, a
    damaged one leaves its number out; of other codings the decoded pictures are counted."""
    import av

    with _open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        whole = stream.codec_context.name == "mjpeg"
        if whole:
            stream.thread_type = "SLICE"  # threads over frames give a picture with a later packet
        number = 0
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                for frame in packet.decode():
                    if frame.pts is not None:
                        at = round(frame.pts * frame.time_base * 10**9)
                        yield number, at, frame.to_ndarray(format="bgr24")
                        number += not whole
            except av.error.InvalidDataError:
                pass  # this picture cannot be decoded; the next may be
            except av.error.FFmpegError:
                return
            number += whole and packet is not None and packet.size > 0


def small_frames(path: Path, wanted: Callable[[int], bool]) -> Iterator[NDArray[np.uint8] | None]:
    """Pictures in the order of the file, for whoever looks at brightness only: those of MJPEG come at an
    eighth of their size, which is three times as fast.

    wanted: by number; the others come as None, and of MJPEG are not even decoded. Raises InputError.
    """
    import av
    import cv2

    with _open(path) as container:
        if container.streams.video[0].codec_context.name != "mjpeg":
            for number, (_, image) in enumerate(frames(path)):
                yield image if wanted(number) else None
            return
        number = 0
        try:
            for packet in container.demux(container.streams.video[0]):
                if packet.pts is None or not packet.size:
                    continue
                small = None
                if wanted(number):
                    small = cv2.imdecode(np.frombuffer(packet, np.uint8), cv2.IMREAD_REDUCED_COLOR_8)
                number += 1
                yield None if small is None else np.asarray(small)
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
            torn=torn or _ends_early(path),
        )


def _ends_early(path: Path) -> bool:
    """Matroska that is shorter than its Segment says, which FFmpeg reads without a word (RFC 8794)."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head[:4] != b"\x1a\x45\xdf\xa3":
        return False
    header, at = _size_at(head, 4)
    if head[at + header : at + header + 4] != b"\x18\x53\x80\x67":
        return True
    segment, at = _size_at(head, at + header + 4)
    return segment >= 0 and at + segment > path.stat().st_size


def _size_at(head: bytes, at: int) -> tuple[int, int]:
    """An EBML data size, -1 for "unknown", and where the data begin."""
    first = head[at] if at < len(head) else 0
    octets = 9 - first.bit_length()
    size = int.from_bytes(head[at : at + octets], "big") & ((1 << 7 * octets) - 1)
    return (-1 if size == (1 << 7 * octets) - 1 else size), at + octets


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
