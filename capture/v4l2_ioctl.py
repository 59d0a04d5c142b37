"""The part of the kernel's V4L2 interface that capturing needs, through ctypes and ioctl.

Structures and numbers: Linux UAPI, linux/videodev2.h and Documentation/userspace-api/media/v4l. The Python
binding that exists (linuxpy) is under the GPL-3.0, which Hearth, under Apache-2.0, cannot depend on.
"""

from __future__ import annotations

import ctypes
import fcntl
from ctypes import c_char, c_int32, c_long, c_uint8, c_uint32, c_ulong

CAP_VIDEO_CAPTURE = 0x00000001
CAP_VIDEO_CAPTURE_MPLANE = 0x00001000
CAP_STREAMING = 0x04000000
CAP_DEVICE_CAPS = 0x80000000
CAP_TIMEPERFRAME = 0x1000

BUF_TYPE_VIDEO_CAPTURE = 1
FIELD_ANY = 0
MEMORY_MMAP = 1

BUF_FLAG_ERROR = 0x00000040
BUF_FLAG_TIMESTAMP_MASK = 0x0000E000
BUF_FLAG_TIMESTAMP_MONOTONIC = 0x00002000
BUF_FLAG_TSTAMP_SRC_MASK = 0x00070000
BUF_FLAG_TSTAMP_SRC_SOE = 0x00010000


class Capability(ctypes.Structure):
    """struct v4l2_capability."""

    _fields_ = [
        ("driver", c_char * 16),
        ("card", c_char * 32),
        ("bus_info", c_char * 32),
        ("version", c_uint32),
        ("capabilities", c_uint32),
        ("device_caps", c_uint32),
        ("reserved", c_uint32 * 3),
    ]


class FormatDescription(ctypes.Structure):
    """struct v4l2_fmtdesc."""

    _fields_ = [
        ("index", c_uint32),
        ("type", c_uint32),
        ("flags", c_uint32),
        ("description", c_char * 32),
        ("pixelformat", c_uint32),
        ("mbus_code", c_uint32),
        ("reserved", c_uint32 * 3),
    ]


class PixelFormat(ctypes.Structure):
    """struct v4l2_pix_format."""

    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("pixelformat", c_uint32),
        ("field", c_uint32),
        ("bytesperline", c_uint32),
        ("sizeimage", c_uint32),
        ("colorspace", c_uint32),
        ("priv", c_uint32),
        ("flags", c_uint32),
        ("encoding", c_uint32),
        ("quantization", c_uint32),
        ("xfer_func", c_uint32),
    ]


class _FormatUnion(ctypes.Union):
    # The kernel's union holds pointers, so it is aligned to them.
    _fields_ = [("pix", PixelFormat), ("raw", c_uint8 * 200), ("align", c_ulong)]


class Format(ctypes.Structure):
    """struct v4l2_format."""

    _fields_ = [("type", c_uint32), ("fmt", _FormatUnion)]


class Fraction(ctypes.Structure):
    """struct v4l2_fract, seconds per picture here."""

    _fields_ = [("numerator", c_uint32), ("denominator", c_uint32)]


class CaptureParameters(ctypes.Structure):
    """struct v4l2_captureparm."""

    _fields_ = [
        ("capability", c_uint32),
        ("capturemode", c_uint32),
        ("timeperframe", Fraction),
        ("extendedmode", c_uint32),
        ("readbuffers", c_uint32),
        ("reserved", c_uint32 * 4),
    ]


class _ParametersUnion(ctypes.Union):
    _fields_ = [("capture", CaptureParameters), ("raw", c_uint8 * 200)]


class StreamParameters(ctypes.Structure):
    """struct v4l2_streamparm."""

    _fields_ = [("type", c_uint32), ("parm", _ParametersUnion)]


class RequestBuffers(ctypes.Structure):
    """struct v4l2_requestbuffers."""

    _fields_ = [
        ("count", c_uint32),
        ("type", c_uint32),
        ("memory", c_uint32),
        ("capabilities", c_uint32),
        ("reserved", c_uint32),
    ]


class _Timeval(ctypes.Structure):
    _fields_ = [("tv_sec", c_long), ("tv_usec", c_long)]


class _Timecode(ctypes.Structure):
    _fields_ = [("type", c_uint32), ("flags", c_uint32), ("rest", c_uint8 * 8)]


class _BufferPlace(ctypes.Union):
    _fields_ = [("offset", c_uint32), ("userptr", c_ulong), ("fd", c_int32)]


class Buffer(ctypes.Structure):
    """struct v4l2_buffer."""

    _fields_ = [
        ("index", c_uint32),
        ("type", c_uint32),
        ("bytesused", c_uint32),
        ("flags", c_uint32),
        ("field", c_uint32),
        ("timestamp", _Timeval),
        ("timecode", _Timecode),
        ("sequence", c_uint32),
        ("memory", c_uint32),
        ("m", _BufferPlace),
        ("length", c_uint32),
        ("reserved2", c_uint32),
        ("request_fd", c_int32),
    ]


_WRITE, _READ = 1, 2


def _code(direction: int, number: int, kind: type) -> int:
    """The kernel's _IOC: direction, size, 'V', number."""
    return direction << 30 | ctypes.sizeof(kind) << 16 | ord("V") << 8 | number


QUERYCAP = _code(_READ, 0, Capability)
ENUM_FMT = _code(_READ | _WRITE, 2, FormatDescription)
G_FMT = _code(_READ | _WRITE, 4, Format)
S_FMT = _code(_READ | _WRITE, 5, Format)
REQBUFS = _code(_READ | _WRITE, 8, RequestBuffers)
QUERYBUF = _code(_READ | _WRITE, 9, Buffer)
QBUF = _code(_READ | _WRITE, 15, Buffer)
DQBUF = _code(_READ | _WRITE, 17, Buffer)
STREAMON = _code(_WRITE, 18, c_int32)
STREAMOFF = _code(_WRITE, 19, c_int32)
G_PARM = _code(_READ | _WRITE, 21, StreamParameters)
S_PARM = _code(_READ | _WRITE, 22, StreamParameters)


def ioctl(fd: int, code: int, argument: ctypes.Structure | ctypes.c_int32) -> None:
    """One call that fills `argument`. Raises OSError with the kernel's errno."""
    fcntl.ioctl(fd, code, argument)


def fourcc_code(text: str) -> int:
    """ "MJPG" as the kernel's number."""
    return int.from_bytes(text.encode("ascii"), "little")


def fourcc_text(code: int) -> str:
    """The kernel's number as text; a big-endian variant's top bit is left out."""
    text = (code & 0x7FFFFFFF).to_bytes(4, "little").decode("ascii", "replace")
    return text if text.isprintable() else ""


def capability(fd: int) -> Capability:
    """What the device says of itself. Raises OSError when it is no V4L2 device."""
    answer = Capability()
    ioctl(fd, QUERYCAP, answer)
    return answer


def device_caps(answer: Capability) -> int:
    """The abilities of this node, not of the whole card."""
    return int(answer.device_caps if answer.capabilities & CAP_DEVICE_CAPS else answer.capabilities)
