"""A video file as a camera, in real time or as fast as the readers take it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.frame_watch import FrameWatch, jpeg_size
from capture.pacing import wait_until
from capture.source_thread import SourceThread
from dsp.errors import InputError

# ns since the file's first picture, pixels or JPEG bytes, and the JPEG's (width, height) px
_Found = tuple[int, NDArray[np.uint8] | None, bytes | None, tuple[int, int] | None]


class FileCamera:
    """A video file as a camera. Picture times are the container's, counted from `start`, so a file with
    uneven times plays with them; t_source is "container". MJPEG comes undecoded."""

    def __init__(
        self, path: str | Path, *, pace: Literal["realtime", "fast"] = "realtime", source: str = "camera"
    ) -> None:
        """source: the name in events."""
        self.path, self._pace, self._source = Path(path), pace, source
        self.start_ns: int | None = None  # set before `start` to share one start with a sound file
        self._info: VideoInfo | None = None
        self._thread = SourceThread("file camera")
        self._watch = FrameWatch()
        self._pictures = 0

    def open(self) -> VideoInfo:
        """Raises InputError when the file is absent or holds no pictures."""
        if self._info is None:
            if not self.path.is_file():
                raise InputError(f"{self.path}: no such video file (`camera.file`)")
            import cv2

            capture = cv2.VideoCapture(str(self.path), cv2.CAP_FFMPEG)
            try:
                ok, image = capture.read() if capture.isOpened() else (False, None)
                if not ok or image is None:
                    raise InputError(f"{self.path}: not a readable video file")
                fps = float(capture.get(cv2.CAP_PROP_FPS))
                code = int(capture.get(cv2.CAP_PROP_FOURCC))
            finally:
                capture.release()
            fourcc = "".join(chr(code >> 8 * i & 0xFF) for i in range(4)) if code > 0 else ""
            self._info = VideoInfo(
                name=self.path.name,
                backend="file",
                width_px=image.shape[1],
                height_px=image.shape[0],
                fps=fps if 0 < fps <= 240 else 25.0,
                fourcc=fourcc if fourcc.isprintable() else "",
                detail={"path": str(self.path), "pace": self._pace},
            )
        return self._info

    def start(self, sink: Sink) -> None:
        """Begin to play in a thread of its own."""
        self.open()
        self._thread.prepare()
        begin = self.start_ns if self.start_ns is not None else monotonic_ns()
        self._thread.begin(self._play, sink, begin)

    def stop(self) -> None:
        """Stop playing; the sink is not called after this returns."""
        self._thread.end()

    def close(self) -> None:
        """Same as stop: nothing else is held."""
        self.stop()

    def counts(self) -> dict[str, int]:
        """Since `start`: pictures; how many of them duplicate, frozen, damaged."""
        return {"pictures": self._pictures, **self._watch.counts}

    def _play(self, sink: Sink, begin: int) -> None:
        t_ns, self._pictures, self._watch = begin, 0, FrameWatch()
        last_ns: int | None = None
        assert self._info is not None
        with closing(self._jpegs() if self._info.fourcc == "MJPG" else self._decoded()) as pictures:
            for since_ns, image, jpeg, size in pictures:
                t_ns = begin + since_ns
                if self._pace == "realtime" and not wait_until(t_ns, self._thread.stopping):
                    return
                if self._thread.stopping.is_set():
                    return
                period_ns = 1e9 / self._info.fps if last_ns is None else t_ns - last_ns
                flags, change = self._watch.look(t_ns, period_ns, jpeg=jpeg, image=image)
                if change is not None:
                    detail = f"{self.path.name}: {change.detail}"
                    sink(SourceEvent(t_ns, self._source, change.kind, detail, change.data))
                sink(VideoFrame(t_ns, self._pictures, image, "container", 0, flags, jpeg=jpeg, size=size))
                self._pictures, last_ns = self._pictures + 1, t_ns
        if not self._thread.stopping.is_set():
            data = {"pictures": self._pictures}
            sink(SourceEvent(t_ns, self._source, "ended", f"{self.path.name} is over", data))

    def _decoded(self) -> Generator[_Found, None, None]:
        import cv2

        capture = cv2.VideoCapture(str(self.path), cv2.CAP_FFMPEG)
        try:
            while True:
                ok, image = capture.read()
                if not ok or image is None:
                    return
                image.flags.writeable = False
                yield round(float(capture.get(cv2.CAP_PROP_POS_MSEC)) * 1e6), np.asarray(image), None, None
        finally:
            capture.release()

    def _jpegs(self) -> Generator[_Found, None, None]:
        """The file's JPEGs as they are."""
        import av

        assert self._info is not None
        usual = (self._info.width_px, self._info.height_px)
        with av.open(str(self.path)) as container:
            stream = container.streams.video[0]
            start = stream.start_time or 0
            packets = container.demux(stream)
            while True:
                try:
                    packet = next(packets)
                except (StopIteration, av.error.FFmpegError):  # over, or torn there
                    return
                if packet.size and packet.pts is not None:
                    data = bytes(packet)
                    since_ns = round((packet.pts - start) * packet.time_base * 1_000_000_000)
                    yield since_ns, None, data, jpeg_size(data) or usual
