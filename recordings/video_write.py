"""Pictures into Matroska with their true times, in a thread of its own, readable after a kill.

Clusters of 100 ms are flushed as they end (`flush_packets`, `cluster_time_limit`), so a kill costs at most
about a seventh of a second of encoded pictures, and what the encoder had not taken yet. Matroska keeps times
in milliseconds here; the exact nanoseconds of each picture are in the timeline, in the same order. The
encoder is the first of `ENCODERS` that this machine's FFmpeg can open; which one it was is recorded. A
camera's own JPEGs go into a `MjpegMatroska` byte for byte, one by one (encoder "copy"): no decoding, no
encoding, and a kill costs only those that still wait in the queue.
"""

from __future__ import annotations

import errno
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError, MissingDependency
from recordings.mjpeg_matroska import MjpegMatroska
from recordings.storage import StorageError, fsync_folder, storage_error

# name, pixel format, options: no encoder may hold pictures back (no B-frames, no look-ahead).
ENCODERS: tuple[tuple[str, str, dict[str, str]], ...] = (
    # ultrafast: half the time of superfast. What waits for the encoder is what a kill loses.
    ("libx264", "yuv420p", {"preset": "ultrafast", "tune": "zerolatency", "crf": "20"}),
    ("mpeg4", "yuv420p", {"qscale": "3", "bf": "0"}),
    ("mjpeg", "yuvj420p", {"qscale": "3"}),
)
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT, errno.ENOTDIR}
CONTAINER_OPTIONS = {"flush_packets": "1", "cluster_time_limit": "100"}


def probe_encoders() -> dict[str, bool]:
    """Which of ENCODERS this machine's FFmpeg has, in order of preference."""
    import av

    found = {}
    for name, _, _ in ENCODERS:
        try:
            av.codec.Codec(name, "w")
            found[name] = True
        except ValueError:
            found[name] = False
    return found


def warm_encoder(width_px: int, height_px: int) -> None:
    """Load the library and the first encoder, and code two grey pictures into nothing: what is slow at the
    first picture is done before it comes. Never raises; a real file says what is wrong."""
    with suppress(Exception):
        import av

        name, pixels, options = next(e for e in ENCODERS if probe_encoders()[e[0]])
        context: Any = av.CodecContext.create(name, "w")
        context.width, context.height, context.pix_fmt = width_px & ~1, height_px & ~1, pixels
        context.time_base, context.options = Fraction(1, 1000), options
        grey = np.full((height_px & ~1, width_px & ~1, 3), 128, np.uint8)
        for pts in (0, 33):
            frame = av.VideoFrame.from_ndarray(grey, format="bgr24").reformat(format=pixels)
            frame.pts = pts
            context.encode(frame)


class VideoFile:
    """A Matroska file that takes pictures (BGR) with a time each. Not thread-safe, encodes in the caller.

    Raises MissingDependency when no encoder can be opened, StorageError when the file cannot be written.
    """

    def __init__(
        self, path: Path, width_px: int, height_px: int, fps: float, encoder: str | None = None
    ) -> None:
        import av

        self._av: Any = av
        self.path, self.width_px, self.height_px = path, width_px, height_px
        self.frames = 0
        self._t0_ns: int | None = None
        self._last_pts = -1
        rate = Fraction(fps if fps and fps > 0 else 30).limit_denominator(1001)
        self._container: Any = None
        refused = []
        for name, pixels, options in ENCODERS:
            if encoder not in (None, name):
                continue
            if width_px % 2 or height_px % 2:
                if name == "mpeg4":
                    continue
                pixels = "yuv444p" if name == "libx264" else "yuvj444p"
            try:
                self._open(name, pixels, options, rate)
                self.encoder = name
                return
            except (av.error.FFmpegError, OSError, ValueError) as error:
                self._abandon()
                if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                    raise storage_error(error, path) from error
                refused.append(f"{name}: {error}")
        wanted = encoder or ", ".join(name for name, _, _ in ENCODERS)
        raise MissingDependency(
            f"no video encoder for {width_px}x{height_px} among {wanted} "
            f"({'; '.join(refused) or 'none known'}); install a PyAV with one of them,"
            " or record without a camera (camera.source: none)"
        )

    def _open(self, name: str, pixels: str, options: dict[str, str], rate: Fraction) -> None:
        self._container = self._av.open(str(self.path), "w", format="matroska", options=CONTAINER_OPTIONS)
        stream = self._container.add_stream(name, rate=rate)
        stream.width, stream.height, stream.pix_fmt = self.width_px, self.height_px, pixels
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        stream.codec_context.gop_size = max(round(rate), 1)
        stream.codec_context.options = options
        stream.codec_context.open()
        self._stream, self._pixels = stream, pixels

    def _abandon(self) -> None:
        if self._container is not None:
            with suppress(Exception):
                self._container.close()
            self._container = None
            with suppress(OSError):
                os.unlink(self.path)

    def write(self, image: NDArray[np.uint8], t_ns: int) -> int:
        """Encode one picture; gives its time in the file in ms (0 for the first).

        Two pictures within the same millisecond, or times that run backwards, move on by 1 ms in the file.
        """
        if image.shape != (self.height_px, self.width_px, 3) or image.dtype != np.uint8:
            raise InputError(
                f"{self.path.name}: got a picture of shape {image.shape}, type {image.dtype}; this file takes"
                f" ({self.height_px}, {self.width_px}, 3) uint8 BGR"
            )
        if self._t0_ns is None:
            self._t0_ns = t_ns
        pts = max(round((t_ns - self._t0_ns) / 1e6), self._last_pts + 1)
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="bgr24")
        frame = frame.reformat(format=self._pixels)
        frame.pts, frame.time_base = pts, Fraction(1, 1000)
        try:
            for packet in self._stream.encode(frame):
                self._container.mux(packet)
        except OSError as error:
            raise storage_error(error, self.path) from error
        self._last_pts = pts
        self.frames += 1
        return pts

    def close(self) -> None:
        """Flush the encoder, write the end of the file; harmless when repeated. Raises StorageError."""
        if self._container is None:
            return
        container, self._container = self._container, None
        try:
            for packet in self._stream.encode(None):
                container.mux(packet)
        except OSError as error:
            raise storage_error(error, self.path) from error
        finally:
            try:
                container.close()
            except OSError as error:
                raise storage_error(error, self.path) from error
        with suppress(OSError), open(self.path, "rb") as file:
            os.fsync(file.fileno())


@dataclass(frozen=True)
class QueuedFrame:
    """A picture on its way to the file, as pixels or as JPEG, with what the timeline says about it."""

    t_ns: int
    seq: int
    image: NDArray[np.uint8] | None
    dropped: int = 0
    t_source: str = "arrival"
    jpeg: bytes | None = None
    size: tuple[int, int] = (0, 0)  # (width, height) of the jpeg
    flags: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return len(self.jpeg or b"") if self.image is None else self.image.nbytes

    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3) BGR; the JPEG decoded where that is what came. Raises InputError."""
        if self.image is not None:
            return self.image
        import cv2

        image = cv2.imdecode(np.frombuffer(self.jpeg or b"", np.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise InputError(f"picture {self.seq} is no readable JPEG")
        return np.asarray(image)


class VideoWriter:
    """A VideoFile behind a queue and a thread: `put` never waits for the encoder or the disk.

    A file that begins with a JPEG keeps JPEGs as they come, whatever their size (each says its own); pixels
    that come into it later are made JPEGs. A file that begins with pixels is encoded; JPEGs are decoded for
    it.

    When the encoder falls behind by more than `backlog_bytes`, new pictures are left out and reported through
    `on_dropped(frame, cause)`; written ones through `on_written(frame, index, pts_ms)`. The file is created
    with the first picture. An error ends the stream and is kept in `error`; sound is not affected.
    """

    def __init__(
        self,
        path: Path,
        fps: float,
        on_written: Callable[[QueuedFrame, int, int], None],
        on_dropped: Callable[[QueuedFrame, str], None],
        backlog_bytes: int = 256 << 20,
        encoder: str | None = None,
    ) -> None:
        self.path, self._fps, self._encoder = path, fps, encoder
        self._on_written, self._on_dropped = on_written, on_dropped
        self._backlog_bytes = backlog_bytes
        self._waiting_bytes = 0
        self._named = False  # the file's name is on the medium
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[QueuedFrame | None] = queue.SimpleQueue()
        self.file: VideoFile | MjpegMatroska | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="hearth-video", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """What is queued and not yet taken."""
        return self._waiting_bytes

    def put(self, frame: QueuedFrame) -> None:
        """Queue one picture; the array must not be changed afterwards."""
        if self.error is not None:
            self._on_dropped(frame, "writer_failed")
            return
        with self._lock:
            full = self._waiting_bytes + frame.nbytes > self._backlog_bytes and self._waiting_bytes > 0
            if not full:
                self._waiting_bytes += frame.nbytes
        if full:
            self._on_dropped(frame, "encoder_too_slow")
        else:
            self._queue.put(frame)

    def _run(self) -> None:
        while (frame := self._queue.get()) is not None:
            with self._lock:
                self._waiting_bytes -= frame.nbytes
            if self.error is not None:
                self._on_dropped(frame, "writer_failed")
                continue
            try:
                self._write(frame)
            except Exception as error:  # kept and raised by `close`: the thread must go on emptying the queue
                self.error = error
                self._on_dropped(frame, "writer_failed")

    def _write(self, frame: QueuedFrame) -> None:
        if self.file is None:
            if frame.jpeg is not None:
                self.file = MjpegMatroska(self.path, *frame.size, self._fps)
            else:
                height, width = frame.pixels().shape[:2]
                self.file = VideoFile(self.path, width, height, self._fps, self._encoder)
        index = self.file.frames
        if isinstance(self.file, MjpegMatroska):
            pts_ms = self.file.write(frame.jpeg or _as_jpeg(frame.pixels()), frame.t_ns)
        else:
            try:
                image = frame.pixels()
            except InputError:
                self._on_dropped(frame, "damaged")
                return
            if image.shape != (self.file.height_px, self.file.width_px, 3):
                self._on_dropped(frame, "picture_size_changed")
                return
            pts_ms = self.file.write(image, frame.t_ns)
        self._on_written(frame, index, pts_ms)

    def sync(self) -> None:
        """Force what was flushed to the medium (called by the episode's sync thread)."""
        if self.file is not None:
            with suppress(OSError):
                fd = os.open(self.path, os.O_RDONLY)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
                if not self._named:
                    fsync_folder(self.path.parent)
                    self._named = True

    def close(self) -> None:
        """Encode what is queued and close. Raises the error that ended the stream, if any."""
        self._queue.put(None)
        self._thread.join()
        if self.file is not None:
            try:
                self.file.close()
            except StorageError as error:
                self.error = self.error or error
        if self.error is not None:
            raise self.error


def _as_jpeg(image: NDArray[np.uint8]) -> bytes:
    import cv2

    done, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])
    if not done:
        raise InputError(f"a picture of shape {image.shape} cannot be made a JPEG")
    return bytes(jpeg.tobytes())
