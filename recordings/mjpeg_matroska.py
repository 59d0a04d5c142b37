"""A camera's own JPEGs into Matroska, byte for byte, one write per picture: readable at any instant.

Written after RFC 9559 (Matroska) and RFC 8794 (EBML). Layout: EBML header | Segment: SeekHead, Void (room for
the place of the Cues), Info, Tracks, Clusters of a second, Cues. Sizes that are not known yet are "unknown"
(RFC 8794, 6.2) and are patched in place: a cluster's when the next one begins, the Segment's when the file is
closed. A kill loses nothing that `write` has returned from.

Of each cluster two numbers are kept for the Cues, so that an hour takes 60 kB of memory.
"""

from __future__ import annotations

import math
import os
import struct
import time
from array import array
from contextlib import suppress
from pathlib import Path

from dsp.errors import InputError
from recordings.storage import storage_error, storage_errors, write_all

COPY = "copy"  # as name of an encoder: the camera's own MJPEG
CLUSTER_MS = 1000
CLUSTER_BYTES = 5_000_000  # RFC 9559, 25.1 recommends 5 MB and 5 s at most

_EBML, _SEGMENT, _VOID = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67", b"\xec"
_SEEK_HEAD, _SEEK, _SEEK_ID, _SEEK_POSITION = b"\x11\x4d\x9b\x74", b"\x4d\xbb", b"\x53\xab", b"\x53\xac"
_INFO, _DURATION = b"\x15\x49\xa9\x66", b"\x44\x89"
_TRACKS, _TRACK_ENTRY, _VIDEO = b"\x16\x54\xae\x6b", b"\xae", b"\xe0"
_CLUSTER, _TIMESTAMP, _SIMPLE_BLOCK = b"\x1f\x43\xb6\x75", b"\xe7", b"\xa3"
_CUES, _CUE_POINT, _CUE_TIME, _CUE_POSITIONS = b"\x1c\x53\xbb\x6b", b"\xbb", b"\xb3", b"\xb7"
_CUE_TRACK, _CUE_CLUSTER_POSITION = b"\xf7", b"\xf1"

_UNKNOWN_SIZE = b"\x01" + b"\xff" * 7
_KEYFRAME = 0x80
_EPOCH_2001_S = 978_307_200  # Matroska counts nanoseconds from 2001-01-01T00:00:00 UTC
_SEEK_BYTES, _DURATION_BYTES = 21, 11


def _size(value: int) -> bytes:
    """A data size in 8 bytes, whatever it is: it can be patched, and no file is too long for it."""
    return struct.pack(">Q", value | 1 << 56)


def _element(name: bytes, body: bytes) -> bytes:
    return name + (bytes([0x80 | len(body)]) if len(body) < 0x7F else _size(len(body))) + body


def _number(name: bytes, value: int) -> bytes:
    return _element(name, value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big"))


def _long(name: bytes, value: int) -> bytes:
    return name + b"\x88" + struct.pack(">Q", value)


def _room(length: int) -> bytes:
    """A Void of `length` bytes in all."""
    return _element(_VOID, bytes(length - 2))


def _seek(name: bytes, position: int) -> bytes:
    return _element(_SEEK, _element(_SEEK_ID, name) + _long(_SEEK_POSITION, position))


class MjpegMatroska:
    """One Matroska file with one track of JPEGs. Not thread-safe; the file can be synced by its path.

    `write` raises StorageError; after one the file holds whole pictures only, and a later `write` may go on.
    An existing file is an error; a file that got no picture is removed by `close`.
    """

    encoder = COPY

    def __init__(self, path: Path, width_px: int, height_px: int, fps: float) -> None:
        if width_px < 1 or height_px < 1:
            raise InputError(f"{path.name}: pictures of {width_px}x{height_px}; both must be 1 or more")
        self.path, self.width_px, self.height_px = path, width_px, height_px
        self.frames = 0
        self._t0_ns = 0
        self._last_pts = -1
        # A camera that does not tell its rate; readers go by the times of the blocks in any case.
        self._frame_ns = round(1e9 / (fps if math.isfinite(fps) and 1e-3 <= fps <= 1e6 else 30))
        self._clusters = array("Q")  # time in ms and place of each finished or open cluster, in turn
        head = self._head()
        self._end = len(head)  # where the next block goes; what lies beyond is a write that failed
        with storage_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                write_all(self._fd, head)
            except BaseException:
                os.close(self._fd)
                with suppress(OSError):
                    os.unlink(path)
                raise

    def _head(self) -> bytes:
        ebml = _element(
            _EBML,
            _number(b"\x42\x86", 1)  # EBMLVersion
            + _number(b"\x42\xf7", 1)  # EBMLReadVersion
            + _number(b"\x42\xf2", 4)  # EBMLMaxIDLength
            + _number(b"\x42\xf3", 8)  # EBMLMaxSizeLength
            + _element(b"\x42\x82", b"matroska")  # DocType
            + _number(b"\x42\x87", 4)  # DocTypeVersion
            + _number(b"\x42\x85", 2),  # DocTypeReadVersion
        )
        written = time.time_ns() - _EPOCH_2001_S * 10**9
        info = (
            _number(b"\x2a\xd7\xb1", 1_000_000)  # TimestampScale: milliseconds
            + _room(_DURATION_BYTES)
            + _element(b"\x4d\x80", b"Hearth")  # MuxingApp
            + _element(b"\x57\x41", b"Hearth")  # WritingApp
            + _element(b"\x44\x61", struct.pack(">q", written))  # DateUTC
        )
        track = (
            _number(b"\xd7", 1)  # TrackNumber
            + _number(b"\x73\xc5", int.from_bytes(os.urandom(7), "big") | 1)  # TrackUID
            + _number(b"\x83", 1)  # TrackType: video
            + _number(b"\x9c", 0)  # FlagLacing
            + _element(b"\x22\xb5\x9c", b"und")  # Language
            + _element(b"\x86", b"V_MJPEG")  # CodecID
            + _number(b"\x23\xe3\x83", self._frame_ns)  # DefaultDuration
            + _element(_VIDEO, _number(b"\xb0", self.width_px) + _number(b"\xba", self.height_px))
        )
        # When the file is closed, the Void in the SeekHead becomes the third Seek, that in Info the Duration.
        self._data_at = len(ebml) + len(_SEGMENT) + 8  # places within the Segment count from here
        info_at = len(_SEEK_HEAD) + 1 + 3 * _SEEK_BYTES
        info_element, track_element = _element(_INFO, info), _element(_TRACKS, _element(_TRACK_ENTRY, track))
        seeks = _seek(_INFO, info_at) + _seek(_TRACKS, info_at + len(info_element))
        self._cues_seek_at = self._data_at + info_at - _SEEK_BYTES
        self._duration_at = self._data_at + info_at + info_element.index(_room(_DURATION_BYTES))
        seek_head = _element(_SEEK_HEAD, seeks + _room(_SEEK_BYTES))
        return ebml + _SEGMENT + _UNKNOWN_SIZE + seek_head + info_element + track_element

    def write(self, jpeg: bytes, t_ns: int) -> int:
        """Append one JPEG taken at t_ns; gives its time in the file in ms (0 for the first).

        Two pictures within the same millisecond, or times that run backwards, move on by 1 ms in the file.
        Raises InputError for an empty JPEG, StorageError.
        """
        if not jpeg:
            raise InputError(f"{self.path.name}: got a JPEG of 0 bytes; leave it out")
        if self._fd < 0:
            raise InputError(f"{self.path.name}: is closed; a picture can no longer be written")
        if not self.frames:
            self._t0_ns = t_ns
        pts = max(round((t_ns - self._t0_ns) / 1e6), self._last_pts + 1)
        begins = (
            not self._clusters
            or pts - self._clusters[-2] >= CLUSTER_MS
            or self._end - self._clusters[-1] - self._data_at >= CLUSTER_BYTES
        )
        cluster_ms = pts if begins else self._clusters[-2]
        head = _CLUSTER + _UNKNOWN_SIZE + _long(_TIMESTAMP, pts) if begins else b""
        # Track 1, time from that of the cluster on, every picture stands for itself.
        block = struct.pack(">BhB", 0x81, pts - cluster_ms, _KEYFRAME)
        head += _SIMPLE_BLOCK + _size(len(block) + len(jpeg)) + block
        try:
            written = os.pwritev(self._fd, (head, jpeg), self._end)
            if written < len(head) + len(jpeg):  # a full disk, which the next try says
                os.lseek(self._fd, self._end + written, os.SEEK_SET)
                write_all(self._fd, memoryview(head + jpeg)[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise storage_error(error, self.path) from error
        if begins:
            with suppress(OSError):  # unknown is a valid size too, and this picture is in the file
                self._end_cluster(self._fd)
            self._clusters.extend((pts, self._end - self._data_at))
        self._end += len(head) + len(jpeg)
        self._last_pts = pts
        self.frames += 1
        return pts

    def _end_cluster(self, fd: int) -> None:
        """Patch the size of the last cluster in the list, which ends at `_end`."""
        if self._clusters:
            size_at = self._data_at + self._clusters[-1] + len(_CLUSTER)
            os.pwrite(fd, _size(self._end - size_at - 8), size_at)

    def close(self) -> None:
        """Write the Cues, patch what was left open, sync and close; harmless when repeated.

        Raises StorageError; where the disk had no room for the Cues, the file is whole without them.
        """
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            with storage_errors(self.path):
                if self.frames:
                    self._finish(fd)
                else:
                    os.unlink(self.path)
        finally:
            os.close(fd)

    def _finish(self, fd: int) -> None:
        os.ftruncate(fd, self._end)
        self._end_cluster(fd)
        full: OSError | None = None
        end, cues = self._end, self._cues()
        try:
            os.lseek(fd, end, os.SEEK_SET)
            write_all(fd, cues)
            end += len(cues)
        except OSError as error:
            os.ftruncate(fd, end)
            full = error
        os.pwrite(fd, _size(end - self._data_at), self._data_at - 8)
        if full is None:
            os.pwrite(fd, _seek(_CUES, self._end - self._data_at), self._cues_seek_at)
        # The Duration is the last to come: a file that has one is whole, after a power loss too.
        os.fsync(fd)
        duration_ms = self._last_pts + self._frame_ns / 1e6
        os.pwrite(fd, _element(_DURATION, struct.pack(">d", duration_ms)), self._duration_at)
        os.fsync(fd)
        if full is not None:
            raise full

    def _cues(self) -> bytes:
        """One CuePoint per cluster: its time, track 1, its place in the Segment."""
        cues = bytearray(_CUES + _size(27 * (len(self._clusters) // 2)))
        times, places = self._clusters[::2], self._clusters[1::2]
        for time_ms, place in zip(times, places, strict=True):
            where = _number(_CUE_TRACK, 1) + _long(_CUE_CLUSTER_POSITION, place)
            cues += _element(_CUE_POINT, _long(_CUE_TIME, time_ms) + _element(_CUE_POSITIONS, where))
        return bytes(cues)
