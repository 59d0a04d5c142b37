"""Cameras through OpenCV: V4L2 devices and network addresses.

OpenCV calls can block for tens of seconds when a camera stalls, so opening and reading happen in threads that
may be left behind: a deadline decides, not the driver.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from dsp.errors import DeviceError

_RETRY_S = (0.5, 1.0, 2.0, 5.0)
_MEASURE_S = 0.8  # how long pictures are watched at opening to measure their rate


class LiveCamera:
    """A V4L2 camera (by number) or a network camera (rtsp:// or http:// address).

    FOURCC, then size, then rate are asked for, read back, and the rate is measured from arriving pictures;
    `open` tells what came out. A reader thread delivers pictures; a watcher reports "stalled" when none came
    for a second, gives the device up as "lost" after `read_deadline_s`, opens it again with growing waits,
    and reports "returned".
    """

    def __init__(
        self,
        address: int | str,
        *,
        width_px: int = 640,
        height_px: int = 360,
        fps: float = 15.0,
        fourcc: str = "MJPG",
        open_deadline_s: float = 8.0,
        read_deadline_s: float = 3.0,
        reconnect: bool = True,
        source: str = "camera",
    ) -> None:
        """source: the name in events; further cameras of a rig are "camera <name>"."""
        self.address = address
        self._source = source
        self._asked = (width_px, height_px, fps, fourcc)
        self._open_deadline_s, self._read_deadline_s = open_deadline_s, read_deadline_s
        self._reconnect = reconnect
        self._info: VideoInfo | None = None
        self._capture: Any = None
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None
        self._reader: threading.Thread | None = None
        self._sink: Sink | None = None
        self._gate = threading.Lock()  # a reader that was left behind must not deliver
        self._reader_id = 0
        self._seq = 0
        self._last_ns = 0
        self._ended = False
        self._times: deque[int] = deque(maxlen=60)
        self._last_sample: NDArray[np.uint8] | None = None
        self._last_driver_ns = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"/dev/video{self.address}" if isinstance(self.address, int) else str(self.address)

    @property
    def measured_fps(self) -> float | None:
        """Pictures per second over the last ones; None before there are some."""
        times = list(self._times)
        return None if len(times) < 3 else (len(times) - 1) * 1e9 / max(times[-1] - times[0], 1)

    def open(self) -> VideoInfo:
        """Open within the deadline. Raises DeviceError that says what is wrong and what exists."""
        if self._info is None:
            if isinstance(self.address, int) and not Path(self.name).exists():
                raise DeviceError(f"{self.name} does not exist (`camera.device`). {list_cameras()}")
            self._capture, self._info = self._connect()
        return self._info

    def start(self, sink: Sink) -> None:
        """Begin to deliver pictures."""
        self.open()
        if self._watcher is not None:
            raise RuntimeError("this source was started already")
        self._stop.clear()
        self._sink, self._ended = sink, False
        self._last_ns = monotonic_ns()
        self._begin_reading()
        self._watcher = threading.Thread(target=self._watch, name="camera watcher", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop; the sink is not called after this returns."""
        self._stop.set()
        with self._gate:
            self._sink = None
            self._reader_id += 1
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()
        self._watcher = None
        if self._reader is not None:
            self._reader.join(self._read_deadline_s)  # it may hang in the driver; then it is left behind
        elif self._capture is not None:
            self._capture.release()
        self._capture = self._info = self._reader = None

    def close(self) -> None:
        """Stop and give the camera back."""
        self.stop()

    # ------------------------------------------------------------------ opening

    def _connect(self) -> tuple[Any, VideoInfo]:
        """Open, configure and measure in a thread of its own, within the deadline."""
        result = _Opening()
        thread = threading.Thread(target=self._open_blocking, args=(result,), name="camera open", daemon=True)
        thread.start()
        thread.join(self._open_deadline_s)
        with result.lock:
            if thread.is_alive() and result.info is None:
                result.too_late = True
                raise DeviceError(
                    f"{self.name}: no picture within {self._open_deadline_s:g} s."
                    " Is the camera on and reachable?"
                )
        if result.error is not None:
            raise result.error
        assert result.info is not None
        return result.capture, result.info

    def _open_blocking(self, result: _Opening) -> None:
        try:
            capture, info = self._open_and_measure()
        except DeviceError as error:
            result.error = error
            return
        except Exception as error:
            result.error = DeviceError(f"{self.name}: {error}")
            return
        with result.lock:
            result.capture, result.info = capture, info
            if result.too_late:
                capture.release()

    def _open_and_measure(self) -> tuple[Any, VideoInfo]:
        import cv2

        width, height, fps, fourcc = self._asked
        if isinstance(self.address, int):
            capture = cv2.VideoCapture(self.address, cv2.CAP_V4L2)
            backend = "v4l2"
        else:
            timeouts = [
                cv2.CAP_PROP_OPEN_TIMEOUT_MSEC,
                int(self._open_deadline_s * 1000),
                cv2.CAP_PROP_READ_TIMEOUT_MSEC,
                int(self._read_deadline_s * 1000),
            ]
            capture = cv2.VideoCapture(self.address, cv2.CAP_FFMPEG, timeouts)
            backend = "ffmpeg"
        if not capture.isOpened():
            capture.release()
            raise DeviceError(self._why_not_open())
        if backend == "v4l2":
            # The order matters: the format decides which sizes exist, the size which rates.
            capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*fourcc))
            capture.set(cv2.CAP_PROP_FRAME_WIDTH, width)
            capture.set(cv2.CAP_PROP_FRAME_HEIGHT, height)
            capture.set(cv2.CAP_PROP_FPS, fps)
        ok, image = capture.read()
        if not ok or image is None:
            capture.release()
            raise DeviceError(f"{self.name} opens but gives no picture.{self._holders()}")
        times = [monotonic_ns()]
        while (times[-1] - times[0]) < _MEASURE_S * 1e9 and len(times) < 40:
            if not capture.read()[0]:
                break
            times.append(monotonic_ns())
        reported = float(capture.get(cv2.CAP_PROP_FPS))
        measured = (len(times) - 1) * 1e9 / (times[-1] - times[0]) if len(times) > 5 else 0.0
        code = int(capture.get(cv2.CAP_PROP_FOURCC))
        actual = "".join(chr(code >> 8 * i & 0xFF) for i in range(4)) if code > 0 else ""
        plausible = reported if 0 < reported <= 240 else fps
        info = VideoInfo(
            name=self.name,
            backend=backend,
            width_px=image.shape[1],
            height_px=image.shape[0],
            fps=round(measured, 2) if measured else plausible,
            fourcc=actual if actual.isprintable() else "",
            detail={
                "asked": {"width_px": width, "height_px": height, "fps": fps, "fourcc": fourcc},
                "fps_reported": round(reported, 3),
                "fps_measured": round(measured, 3) if measured else None,
                "pictures_measured": len(times),
            },
        )
        return capture, info

    def _why_not_open(self) -> str:
        if not isinstance(self.address, int):
            return f"{self.name}: cannot be opened (`camera.url`). Is the address right and the camera on?"
        if not os.access(self.name, os.R_OK | os.W_OK):
            return f"{self.name}: no permission; add the user to the group `video`"
        return f"{self.name}: cannot be opened as a camera.{self._holders()} {list_cameras()}"

    def _holders(self) -> str:
        from capture.portaudio_devices import holders_of_file

        who = holders_of_file(self.name) if isinstance(self.address, int) else []
        return f" It is held by {', '.join(who)}; stop that first." if who else ""

    # ------------------------------------------------------------------ running

    def _begin_reading(self) -> None:
        with self._gate:
            self._reader_id += 1
            number = self._reader_id
        self._reader = threading.Thread(
            target=self._read, args=(self._capture, number), name="camera reader", daemon=True
        )
        self._reader.start()

    def _read(self, capture: Any, number: int) -> None:
        """Deliver pictures until another reader has taken over, and release the capture then: nobody else
        may, since OpenCV crashes when a capture is released during a read."""
        try:
            self._read_until_replaced(capture, number)
        finally:
            capture.release()

    def _read_until_replaced(self, capture: Any, number: int) -> None:
        while True:
            ok, image = capture.read()
            arrival = monotonic_ns()
            driver_ns = self._driver_time(capture, arrival)
            with self._gate:
                if number != self._reader_id or self._sink is None:
                    return
                if not ok or image is None:
                    self._ended = True  # the watcher takes it from here
                    return
                self._emit(image, arrival, driver_ns)

    def _driver_time(self, capture: Any, arrival_ns: int) -> int | None:
        """The kernel's buffer time for V4L2 where it is sane; what network streams report is fiction."""
        if not isinstance(self.address, int):
            return None
        import cv2

        value = float(capture.get(cv2.CAP_PROP_POS_MSEC))
        for scale in (1e6, 1e9):  # some OpenCV versions give the first value in seconds
            t = round(value * scale)
            if 0 <= arrival_ns - t < 1_000_000_000 and t > self._last_driver_ns:
                return t
        return None

    def _emit(self, image: NDArray[np.uint8], arrival: int, driver_ns: int | None) -> None:
        assert self._sink is not None
        t_ns = arrival if driver_ns is None else driver_ns
        dropped = 0
        if driver_ns is not None:
            if self._last_driver_ns and len(self._times) > 10:
                period = float(np.median(np.diff(np.array(self._times))))
                dropped = max(0, round((driver_ns - self._last_driver_ns) / period) - 1) if period > 0 else 0
            self._last_driver_ns = driver_ns
        flags: tuple[str, ...] = ()
        sample = image[::8, ::8].copy()
        if self._last_sample is not None and np.array_equal(sample, self._last_sample):
            flags = ("duplicate",)
        self._last_sample = sample
        image.flags.writeable = False
        self._times.append(t_ns)
        self._last_ns = arrival
        source: Literal["driver", "arrival"] = "arrival" if driver_ns is None else "driver"
        self._sink(VideoFrame(t_ns, self._seq, image, source, dropped, flags))
        self._seq += 1

    def _event(self, kind: str, detail: str, **data: Any) -> None:
        with self._gate:
            if self._sink is not None:
                self._sink(SourceEvent(monotonic_ns(), self._source, kind, f"{self.name}: {detail}", data))

    def _watch(self) -> None:
        stalled = False
        while not self._stop.wait(0.1):
            silent_s = (monotonic_ns() - self._last_ns) / 1e9
            limit = max(1.0, 5.0 / (self.measured_fps or 15.0))
            if self._ended or silent_s > max(self._read_deadline_s, limit):
                if not self._take_back("the stream ended" if self._ended else "no picture any more"):
                    return
                stalled = False
            elif silent_s > limit and not stalled:
                stalled = True
                self._event("stalled", f"no picture for {silent_s:.1f} s")
            elif stalled and silent_s < limit:
                stalled = False
                self._event("returned", "pictures come again")

    def _take_back(self, why: str) -> bool:
        """Report the loss and open again until it works; False when stopped meanwhile."""
        lost_at = self._last_ns
        self._event("lost", why)
        with self._gate:
            self._reader_id += 1
        self._capture = self._reader = None
        if not self._reconnect:
            return False
        tries = 0
        while not self._stop.wait(_RETRY_S[min(tries, len(_RETRY_S) - 1)]):
            tries += 1
            try:
                self._capture, _ = self._connect()
            except DeviceError:
                continue
            with self._gate:
                self._ended, self._last_ns, self._last_driver_ns = False, monotonic_ns(), 0
                self._times.clear()
            away = (monotonic_ns() - lost_at) / 1e9
            self._event("returned", f"back after {away:.1f} s", away_s=round(away, 3), tries=tries)
            self._begin_reading()
            return True
        return False


@dataclass
class _Opening:
    """What the thread that opens a camera hands over."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    capture: Any = None
    info: VideoInfo | None = None
    error: DeviceError | None = None
    too_late: bool = False


def list_cameras() -> str:
    """A sentence that names every V4L2 device."""
    found = camera_devices()
    if not found:
        return "There is no camera at all (/dev/video*)."
    return "Cameras here: " + "; ".join(f"{number} = {name}" for number, name in found) + "."


def camera_devices() -> list[tuple[int, str]]:
    """V4L2 devices as (number, name). A camera often has a second device for metadata only."""
    found = []
    for device in sorted(Path("/dev").glob("video*")):
        if not device.name[5:].isdigit():
            continue
        number = int(device.name[5:])
        try:
            name = Path(f"/sys/class/video4linux/{device.name}/name").read_text().strip()
        except OSError:
            name = "unknown"
        found.append((number, name))
    return found
