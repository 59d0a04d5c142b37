"""A V4L2 camera read from the kernel's own buffers: MJPEG undecoded, with sequence numbers and stamps."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import select
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture import v4l2_ioctl as v4l2
from capture.blocks import monotonic_ns
from capture.camera_devices import why_not_open
from capture.camera_link import CameraEnded, CameraSettings, Picture
from dsp.errors import DeviceError

_BUFFERS = 8  # pictures the driver can hold while we are not scheduled: 0.27 s at 30 fps
_SLICE_MS = 100  # how long one wait may take before the reader looks whether it is still wanted
_JPEG = ("MJPG", "JPEG")


class NotOurs(Exception):
    """The device works in a way that this link does not know; another backend may."""


class V4l2Link:
    """CameraLink of one V4L2 device (single-planar, memory-mapped streaming).

    Asked in the order that decides what exists: format, then size, then rate; all three are read back.
    """

    backend = "v4l2"

    def __init__(self, path: str, settings: CameraSettings) -> None:
        """Raises DeviceError (absent, no permission, held by whom, no pictures), NotOurs."""
        self.path, self._settings = path, settings
        self._maps: list[mmap.mmap] = []
        self._timestamp = "none yet"
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise DeviceError(f"{why_not_open(path)} ({error.strerror})") from None
        try:
            self._configure()
            self._stream()
        except OSError as error:
            self.close()
            raise DeviceError(f"{why_not_open(path)} ({error.strerror})") from None
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ opening

    def _configure(self) -> None:
        answer = v4l2.capability(self._fd)
        caps = v4l2.device_caps(answer)
        self._card = answer.card.decode(errors="replace")
        self._driver = answer.driver.decode(errors="replace")
        self._bus = answer.bus_info.decode(errors="replace")
        if not caps & v4l2.CAP_VIDEO_CAPTURE:
            if caps & v4l2.CAP_VIDEO_CAPTURE_MPLANE:
                raise NotOurs("multi-planar")
            raise DeviceError(f"{self.path} ({self._card}) gives no pictures; it may be for metadata only")
        if not caps & v4l2.CAP_STREAMING:
            raise NotOurs("no streaming")
        self._formats = self._list_formats()
        asked = self._settings
        wanted = asked.fourcc if asked.fourcc in self._formats or not self._formats else self._best_format()
        form = v4l2.Format(type=v4l2.BUF_TYPE_VIDEO_CAPTURE)
        form.fmt.pix.width, form.fmt.pix.height = asked.width_px, asked.height_px
        form.fmt.pix.pixelformat = v4l2.fourcc_code(wanted)
        form.fmt.pix.field = v4l2.FIELD_ANY
        v4l2.ioctl(self._fd, v4l2.S_FMT, form)
        v4l2.ioctl(self._fd, v4l2.G_FMT, form)
        pix = form.fmt.pix
        self.fourcc = v4l2.fourcc_text(pix.pixelformat)
        self._size = (int(pix.width), int(pix.height))
        self._stride = int(pix.bytesperline)
        if self.fourcc not in _JPEG and self.fourcc not in _RAW:
            raise NotOurs(f"format {self.fourcc}")
        self._fps_set = self._set_rate(asked.fps)

    def _list_formats(self) -> list[str]:
        found = []
        for index in range(64):
            entry = v4l2.FormatDescription(index=index, type=v4l2.BUF_TYPE_VIDEO_CAPTURE)
            try:
                v4l2.ioctl(self._fd, v4l2.ENUM_FMT, entry)
            except OSError:
                break
            found.append(v4l2.fourcc_text(entry.pixelformat))
        return found

    def _best_format(self) -> str:
        """What the camera has when it lacks what was asked for: first JPEG, then what can be converted."""
        known = [name for name in (*_JPEG, *_RAW) if name in self._formats]
        return known[0] if known else self._formats[0]

    def _set_rate(self, fps: float) -> float | None:
        """Ask for the rate; what the driver answered, or None when it has no say."""
        parameters = v4l2.StreamParameters(type=v4l2.BUF_TYPE_VIDEO_CAPTURE)
        try:
            v4l2.ioctl(self._fd, v4l2.G_PARM, parameters)
            capture = parameters.parm.capture
            if capture.capability & v4l2.CAP_TIMEPERFRAME:
                capture.timeperframe.numerator = 1000
                capture.timeperframe.denominator = max(1, round(1000 * fps))
                v4l2.ioctl(self._fd, v4l2.S_PARM, parameters)
                v4l2.ioctl(self._fd, v4l2.G_PARM, parameters)
            period = parameters.parm.capture.timeperframe
        except OSError:
            return None
        if not (period.numerator and period.denominator):
            return None
        return float(period.denominator / period.numerator)

    def _stream(self) -> None:
        request = v4l2.RequestBuffers(
            count=_BUFFERS, type=v4l2.BUF_TYPE_VIDEO_CAPTURE, memory=v4l2.MEMORY_MMAP
        )
        v4l2.ioctl(self._fd, v4l2.REQBUFS, request)
        if request.count < 2:
            raise DeviceError(f"{self.path}: the driver has no memory for pictures")
        for index in range(request.count):
            buffer = self._buffer(index)
            v4l2.ioctl(self._fd, v4l2.QUERYBUF, buffer)
            self._maps.append(
                mmap.mmap(
                    self._fd, buffer.length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE,
                    offset=buffer.m.offset,
                )
            )  # fmt: skip
            v4l2.ioctl(self._fd, v4l2.QBUF, buffer)
        v4l2.ioctl(self._fd, v4l2.STREAMON, ctypes.c_int32(v4l2.BUF_TYPE_VIDEO_CAPTURE))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    @staticmethod
    def _buffer(index: int = 0) -> v4l2.Buffer:
        return v4l2.Buffer(index=index, type=v4l2.BUF_TYPE_VIDEO_CAPTURE, memory=v4l2.MEMORY_MMAP)

    # ------------------------------------------------------------------ running

    def read(self) -> Picture | None:
        """The next picture; see CameraLink."""
        if not self._poll.poll(_SLICE_MS):
            if not os.path.exists(self.path):
                raise CameraEnded(f"{self.path} has gone")
            return None
        arrival = monotonic_ns()
        buffer = self._buffer()
        try:
            v4l2.ioctl(self._fd, v4l2.DQBUF, buffer)
        except OSError as error:
            if error.errno == errno.EAGAIN and os.path.exists(self.path):
                return None
            raise CameraEnded(f"{self.path} has gone ({error.strerror})") from None
        try:
            picture = self._picture(buffer, arrival)
        finally:
            try:
                v4l2.ioctl(self._fd, v4l2.QBUF, buffer)
            except OSError as error:
                raise CameraEnded(f"{self.path} has gone ({error.strerror})") from None
        return picture

    def _picture(self, buffer: v4l2.Buffer, arrival: int) -> Picture:
        data = self._maps[buffer.index][: buffer.bytesused]
        monotonic = buffer.flags & v4l2.BUF_FLAG_TIMESTAMP_MASK == v4l2.BUF_FLAG_TIMESTAMP_MONOTONIC
        start = buffer.flags & v4l2.BUF_FLAG_TSTAMP_SRC_MASK == v4l2.BUF_FLAG_TSTAMP_SRC_SOE
        moment = "start of exposure" if start else "end of the picture"
        self._timestamp = f"monotonic, {moment}" if monotonic else "not monotonic: not used"
        stamp = buffer.timestamp.tv_sec * 1_000_000_000 + buffer.timestamp.tv_usec * 1000
        damaged = bool(buffer.flags & v4l2.BUF_FLAG_ERROR)
        jpeg = image = None
        if self.fourcc in _JPEG:
            jpeg = data
        else:
            image, short = raw_to_bgr(data, self.fourcc, self._size, self._stride)
            damaged = damaged or short
        return Picture(
            arrival_ns=arrival,
            size=self._size,
            jpeg=jpeg,
            image=image,
            driver_ns=stamp if monotonic else None,
            sequence=int(buffer.sequence),
            damaged=damaged,
        )

    def detail(self) -> dict[str, Any]:
        """What was negotiated, and which stamps the driver gives."""
        return {
            "path": self.path,
            "card": self._card,
            "driver": self._driver,
            "bus": self._bus,
            "formats": self._formats,
            "fps_reported": None if self._fps_set is None else round(self._fps_set, 3),
            "driver_timestamp": self._timestamp,
        }

    def close(self) -> None:
        """Stop streaming and give the buffers back."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # it was not streaming, or it is gone
            v4l2.ioctl(self._fd, v4l2.STREAMOFF, ctypes.c_int32(v4l2.BUF_TYPE_VIDEO_CAPTURE))
        for memory in self._maps:
            memory.close()
        self._maps.clear()
        os.close(self._fd)
        self._fd = -1


# Uncompressed formats: (rows of bytes per picture row, bytes per pixel and row, cv2 conversion's name).
_RAW = {
    "YUYV": (1.0, 2, "COLOR_YUV2BGR_YUY2"),
    "UYVY": (1.0, 2, "COLOR_YUV2BGR_UYVY"),
    "NV12": (1.5, 1, "COLOR_YUV2BGR_NV12"),
    "NV21": (1.5, 1, "COLOR_YUV2BGR_NV21"),
    "YU12": (1.5, 1, "COLOR_YUV2BGR_I420"),
    "YV12": (1.5, 1, "COLOR_YUV2BGR_YV12"),
    "BGR3": (1.0, 3, ""),
    "RGB3": (1.0, 3, "COLOR_RGB2BGR"),
    "GREY": (1.0, 1, "COLOR_GRAY2BGR"),
}


def raw_to_bgr(
    data: bytes, fourcc: str, size: tuple[int, int], stride: int
) -> tuple[NDArray[np.uint8], bool]:
    """An uncompressed buffer as (height, width, 3) uint8 BGR, and whether a part of it was missing (then
    that part is zero before the conversion). stride: bytes per row with padding, 0 = none."""
    import cv2

    width, height = size
    planes, per_pixel, conversion = _RAW[fourcc]
    row = width * per_pixel
    stride = max(stride, row) if fourcc not in ("YU12", "YV12") else row
    rows = round(height * planes)
    short = len(data) < stride * (rows - 1) + row
    padded = np.zeros(stride * rows, np.uint8)
    given = np.frombuffer(data, np.uint8, count=min(len(data), padded.size))
    padded[: given.size] = given
    pixels = np.ascontiguousarray(padded.reshape(rows, stride)[:, :row])
    if per_pixel > 1:
        pixels = pixels.reshape(rows, width, per_pixel)
    image = pixels if not conversion else cv2.cvtColor(pixels, getattr(cv2, conversion))
    return np.asarray(image, np.uint8), short
