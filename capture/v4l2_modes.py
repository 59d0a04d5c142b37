"""What a V4L2 camera offers: its formats, sizes and rates, asked of the driver without starting the camera.

Structures: Linux UAPI, linux/videodev2.h (VIDIOC_ENUM_FMT, _FRAMESIZES, _FRAMEINTERVALS).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import c_uint32
from dataclasses import dataclass

from capture import v4l2_ioctl as v4l2

_DISCRETE = 1  # of v4l2_frmsizetypes and v4l2_frmivaltypes: exactly these; others give a range
_MOST = 64  # entries of each list that are asked for: a driver that never ends its list must not hold us


class _Discrete(ctypes.Structure):
    _fields_ = [("width", c_uint32), ("height", c_uint32)]


class _Stepwise(ctypes.Structure):
    _fields_ = [
        ("min_width", c_uint32),
        ("max_width", c_uint32),
        ("step_width", c_uint32),
        ("min_height", c_uint32),
        ("max_height", c_uint32),
        ("step_height", c_uint32),
    ]


class _SizeUnion(ctypes.Union):
    _fields_ = [("discrete", _Discrete), ("stepwise", _Stepwise)]


class FrameSize(ctypes.Structure):
    """struct v4l2_frmsizeenum."""

    _fields_ = [
        ("index", c_uint32),
        ("pixel_format", c_uint32),
        ("type", c_uint32),
        ("size", _SizeUnion),
        ("reserved", c_uint32 * 2),
    ]


class _IntervalRange(ctypes.Structure):
    _fields_ = [("min", v4l2.Fraction), ("max", v4l2.Fraction), ("step", v4l2.Fraction)]


class _IntervalUnion(ctypes.Union):
    _fields_ = [("discrete", v4l2.Fraction), ("stepwise", _IntervalRange)]


class FrameInterval(ctypes.Structure):
    """struct v4l2_frmivalenum."""

    _fields_ = [
        ("index", c_uint32),
        ("pixel_format", c_uint32),
        ("width", c_uint32),
        ("height", c_uint32),
        ("type", c_uint32),
        ("interval", _IntervalUnion),
        ("reserved", c_uint32 * 2),
    ]


def _code(number: int, kind: type[ctypes.Structure]) -> int:
    """The kernel's _IOWR('V', number, kind)."""
    return 3 << 30 | ctypes.sizeof(kind) << 16 | ord("V") << 8 | number


ENUM_FRAMESIZES = _code(74, FrameSize)
ENUM_FRAMEINTERVALS = _code(75, FrameInterval)


@dataclass(frozen=True, slots=True)
class CameraMode:
    """One format and size. ranged: the largest of a range of sizes. fps: falling, empty where not told."""

    fourcc: str
    width_px: int
    height_px: int
    ranged: bool
    fps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CameraOffer:
    """What one device node says of itself. gives_pictures: False for a node with metadata only."""

    card: str
    driver: str
    bus: str
    gives_pictures: bool
    modes: tuple[CameraMode, ...]

    @property
    def formats(self) -> tuple[str, ...]:
        """FOURCCs, in the driver's order."""
        return tuple(dict.fromkeys(mode.fourcc for mode in self.modes))


def camera_offer(path: str) -> CameraOffer:
    """Ask a device node; works while another program uses the camera. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        answer = v4l2.capability(fd)
        single = bool(v4l2.device_caps(answer) & v4l2.CAP_VIDEO_CAPTURE)
        planes = bool(v4l2.device_caps(answer) & v4l2.CAP_VIDEO_CAPTURE_MPLANE)
        kind = v4l2.BUF_TYPE_VIDEO_CAPTURE if single else 9  # V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE
        return CameraOffer(
            card=answer.card.decode(errors="replace"),
            driver=answer.driver.decode(errors="replace"),
            bus=answer.bus_info.decode(errors="replace"),
            gives_pictures=single or planes,
            modes=tuple(_modes(fd, kind)) if single or planes else (),
        )
    finally:
        os.close(fd)


def _modes(fd: int, kind: int) -> Iterator[CameraMode]:
    for index in range(_MOST):
        entry = v4l2.FormatDescription(index=index, type=kind)
        if not _asked(fd, v4l2.ENUM_FMT, entry):
            return
        name = v4l2.fourcc_text(entry.pixelformat) or f"0x{entry.pixelformat:08x}"
        sizes = list(_sizes(fd, entry.pixelformat))
        for width, height, ranged in sizes or [(0, 0, False)]:
            fps = tuple(_rates(fd, entry.pixelformat, width, height)) if width else ()
            yield CameraMode(name, width, height, ranged, tuple(sorted(set(fps), reverse=True)))


def _sizes(fd: int, code: int) -> Iterator[tuple[int, int, bool]]:
    for index in range(_MOST):
        entry = FrameSize(index=index, pixel_format=code)
        if not _asked(fd, ENUM_FRAMESIZES, entry):
            return
        if entry.type != _DISCRETE:
            yield entry.size.stepwise.max_width, entry.size.stepwise.max_height, True
            return
        yield entry.size.discrete.width, entry.size.discrete.height, False


def _rates(fd: int, code: int, width: int, height: int) -> Iterator[float]:
    for index in range(_MOST):
        entry = FrameInterval(index=index, pixel_format=code, width=width, height=height)
        if not _asked(fd, ENUM_FRAMEINTERVALS, entry):
            return
        discrete = entry.type == _DISCRETE
        interval = entry.interval.discrete if discrete else entry.interval.stepwise.min
        if interval.numerator:
            yield round(interval.denominator / interval.numerator, 3)
        if not discrete:
            return


def _asked(fd: int, code: int, entry: ctypes.Structure) -> bool:
    """False when the driver has no such entry, or no such list."""
    try:
        v4l2.ioctl(fd, code, entry)
    except OSError:
        return False
    return True
