"""The videos of a LeRobot release: episodes one after the other in MP4 files, on an even grid of times.

LeRobot fetches a picture by `from_timestamp + timestamp` and takes none that is off by more than 0.1 ms, and
some of its decoders reckon with the average rate. So picture i of an episode is at exactly i / fps after the
episode's begin; the packets are those that were recorded, not encoded anew. A file ends where coding
parameters change, at 200 MB, and at 500 s, because the loader's times are 32-bit floats: at 500 s these are
0.03 ms apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings import video_read
from recordings.storage import storage_errors

CHUNK_FILES = 1000
FILE_MB = 200
FILE_S = 500.0
_TICKS = 1000  # of the time base per picture
_SAMPLED = 100  # pictures of an episode that statistics are taken from


@dataclass(frozen=True)
class InFile:
    """Where the pictures of an episode lie: indices of chunk and file, seconds from the file's begin."""

    path: str
    chunk_index: int
    file_index: int
    from_timestamp: float
    to_timestamp: float


class VideoFiles:
    """Packs the videos of one feature below `root`: `<chunk>/<file>.mp4`. `close` ends the last file."""

    def __init__(self, root: Path, fps: int, file_s: float = FILE_S, file_mb: float = FILE_MB) -> None:
        self._root, self._fps, self._file_s, self._file_mb = root, fps, file_s, file_mb
        self._files = 0
        self._path = root
        self._writer: Any = None
        self._stream: Any = None
        self._coding: tuple[Any, ...] = ()
        self._pictures = 0
        self._bytes = 0

    def add(self, source: Path) -> InFile:
        """Append all pictures of an MP4 file. Raises InputError, StorageError."""
        with video_read._open(source) as reader:
            template = reader.streams.video[0]
            packets = [p for p in reader.demux(template) if p.pts is not None and p.size]
            order = np.argsort(np.argsort([packet.pts for packet in packets], kind="stable"))
            delay = int(np.max(np.arange(len(order)) - order, initial=0))
            context = template.codec_context
            coding = (context.name, context.width, context.height, context.pix_fmt, context.extradata, delay)
            size = source.stat().st_size
            with storage_errors(self._path):
                if self._writer is not None and (
                    coding != self._coding
                    or (self._pictures + len(packets)) / self._fps > self._file_s
                    or self._bytes + size > self._file_mb * 1024**2
                ):
                    self.close()
                if self._writer is None:
                    self._begin(template, coding)
                for place, packet in enumerate(packets):
                    packet.time_base = Fraction(1, self._fps * _TICKS)
                    packet.pts = (self._pictures + int(order[place])) * _TICKS
                    packet.dts = (self._pictures + place - delay) * _TICKS
                    packet.duration = _TICKS
                    packet.stream = self._stream
                    self._writer.mux(packet)
        begin = self._pictures
        self._pictures += len(packets)
        self._bytes += size
        chunk, file = divmod(self._files - 1, CHUNK_FILES)
        name = f"{self._root.name}/{self._path.relative_to(self._root).as_posix()}"
        return InFile(name, chunk, file, begin / self._fps, self._pictures / self._fps)

    def _begin(self, template: Any, coding: tuple[Any, ...]) -> None:
        import av

        chunk, file = divmod(self._files, CHUNK_FILES)
        self._path = self._root / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # bitexact: no random id, no date, no version of the library.
        self._writer = av.open(
            str(self._path),
            "w",
            format="mp4",
            options={"movflags": "+faststart"},
            container_options={"fflags": "+bitexact"},
        )
        if hasattr(self._writer, "add_stream_from_template"):
            self._stream = self._writer.add_stream_from_template(template)
        else:
            self._stream = self._writer.add_stream(template=template)
        self._stream.time_base = Fraction(1, self._fps * _TICKS)
        self._coding, self._pictures, self._bytes = coding, 0, 0
        self._files += 1

    def close(self) -> None:
        """End the file that is open; safe to call twice."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with storage_errors(self._path):
                writer.close()


def histogram(path: Path) -> tuple[NDArray[np.int64], int]:
    """(how often each value occurs in R, G and B (3, 256), number of pictures) of up to 100 key pictures."""
    import av

    counts = np.zeros((3, 256), np.int64)
    pictures = 0
    with video_read._open(path) as reader:
        stream = reader.streams.video[0]
        stream.codec_context.skip_frame = "NONKEY"
        try:
            for frame in reader.decode(stream):
                image = frame.to_ndarray(format="rgb24")
                for channel in range(3):
                    counts[channel] += np.bincount(image[..., channel].ravel(), minlength=256)
                pictures += 1
                if pictures == _SAMPLED:
                    break
        except av.error.InvalidDataError:
            pass  # a damaged picture: those before it count
    if not pictures:
        raise InputError(f"{path}: no picture of it can be decoded; run `hearth verify`")
    return counts, pictures


def pixel_format(path: Path) -> str:
    """As FFmpeg calls it."""
    with video_read._open(path) as reader:
        return str(reader.streams.video[0].codec_context.pix_fmt)
