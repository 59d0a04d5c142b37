"""A V4L2 camera through OpenCV: for devices whose kernel interface `V4l2Link` does not speak."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture.blocks import monotonic_ns
from capture.camera_devices import why_not_open
from capture.camera_link import CameraEnded, CameraSettings, Picture
from dsp.errors import DeviceError


class OpenCvLink:
    """CameraLink of one V4L2 device; pictures come decoded, drops show only in the times."""

    backend = "opencv"

    def __init__(self, path: str, settings: CameraSettings) -> None:
        """Raises DeviceError."""
        import cv2

        self.path = path
        self._capture = cv2.VideoCapture(path, cv2.CAP_V4L2)
        if not self._capture.isOpened():
            self._capture.release()
            raise DeviceError(why_not_open(path))
        # The order matters: the format decides which sizes exist, the size which rates.
        self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*settings.fourcc))
        self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, settings.width_px)
        self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, settings.height_px)
        self._capture.set(cv2.CAP_PROP_FPS, settings.fps)
        self._fps = float(self._capture.get(cv2.CAP_PROP_FPS))
        code = int(self._capture.get(cv2.CAP_PROP_FOURCC))
        text = "".join(chr(code >> 8 * i & 0xFF) for i in range(4)) if code > 0 else ""
        self.fourcc = text if text.isprintable() else ""

    def read(self) -> Picture | None:
        """The next picture; see CameraLink. Blocks for as long as OpenCV does (10 s at most)."""
        import cv2

        ok, image = self._capture.read()
        arrival = monotonic_ns()
        if not ok or image is None:
            raise CameraEnded(f"{self.path} gives no picture any more")
        image = np.asarray(image, np.uint8)
        # The kernel's buffer time; some OpenCV versions give the first value in seconds.
        value = float(self._capture.get(cv2.CAP_PROP_POS_MSEC))
        stamps = [round(value * scale) for scale in (1e6, 1e9)]
        driver = next((t for t in stamps if 0 <= arrival - t < 1_000_000_000), None)
        return Picture(arrival, (image.shape[1], image.shape[0]), image=image, driver_ns=driver)

    def detail(self) -> dict[str, Any]:
        """What OpenCV reports."""
        return {"path": self.path, "fps_reported": round(self._fps, 3)}

    def close(self) -> None:
        """Release the device. Not during a read: OpenCV crashes then."""
        self._capture.release()
