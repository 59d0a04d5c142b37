"""A video file as a camera, in real time or as fast as the readers take it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from capture.blocks import Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.pacing import wait_until
from capture.source_thread import SourceThread
from dsp.errors import InputError


class FileCamera:
    """A video file as a camera. Picture times are the container's, counted from `start`, so a file with
    uneven times plays with them; t_source is "container"."""

    def __init__(
        self, path: str | Path, *, pace: Literal["realtime", "fast"] = "realtime", source: str = "camera"
    ) -> None:
        """source: the name in events."""
        self.path, self._pace, self._source = Path(path), pace, source
        self.start_ns: int | None = None  # set before `start` to share one start with a sound file
        self._info: VideoInfo | None = None
        self._thread = SourceThread("file camera")

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

    def _play(self, sink: Sink, begin: int) -> None:
        import cv2

        capture = cv2.VideoCapture(str(self.path), cv2.CAP_FFMPEG)
        seq, t_ns = 0, begin
        try:
            while not self._thread.stopping.is_set():
                ok, image = capture.read()
                if not ok or image is None:
                    break
                t_ns = begin + round(float(capture.get(cv2.CAP_PROP_POS_MSEC)) * 1e6)
                if self._pace == "realtime" and not wait_until(t_ns, self._thread.stopping):
                    return
                image.flags.writeable = False
                sink(VideoFrame(t_ns, seq, image, "container"))
                seq += 1
        finally:
            capture.release()
        if not self._thread.stopping.is_set():
            sink(SourceEvent(t_ns, self._source, "ended", f"{self.path.name} is over", {"pictures": seq}))
