"""WAV that survives a kill: sizes are right after every block, files roll below 2 GiB, nothing is buffered.

Layout: RIFF | JUNK (28 bytes, room for ds64) | bext | iXML | fmt | [fact] | data. Each block goes out by one
write(2), then both size fields are patched, so that a reader at any instant finds a whole file. A kill loses
nothing that `write` has returned from; `sync` (by the caller, twice a second) covers a power loss.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.storage import fsync_folder, storage_error, storage_errors, write_all
from recordings.wav_tags import Bext, build_bext, build_ixml, description_for, track_names

_4GIB = 1 << 32
ORIGINATOR = "Hearth"


def pack_pcm(samples: NDArray[np.int32], bits: int) -> bytes:
    """int32 left-justified (frames, channels) -> little-endian PCM bytes; lower bits are cut, not rounded."""
    raw = np.ascontiguousarray(samples, dtype="<i4").view(np.uint8).reshape(-1, 4)
    return raw[:, 4 - bits // 8 :].tobytes()


class WavWriter:
    """One WAV file, patched after each block.

    sample_type "pcm" takes int32 left-justified (frames, channels) and stores `bits` (16, 24 or 32) of them;
    "float" takes float32 and stores 32-bit float. Beyond 4 GiB the file turns into RF64 (EBU Tech 3306) in
    the room that JUNK reserved. Raises StorageError; after one the file holds whole frames only.
    """

    def __init__(
        self,
        path: Path,
        rate_hz: int,
        channels: int,
        *,
        bits: int = 24,
        sample_type: str = "pcm",
        format_name: str = "",
        started: datetime | None = None,
        first_frame: int = 0,
        note: str = "",
    ) -> None:
        if sample_type not in ("pcm", "float") or bits not in (16, 24, 32) or channels < 1 or rate_hz < 1:
            raise InputError(
                f"WAV of {channels} channels, {bits} bits, {rate_hz} Hz, type {sample_type!r}: allowed are"
                " >= 1 channel, 16, 24 or 32 bits, a positive rate, type 'pcm' or 'float'"
            )
        self.path, self.rate_hz, self.channels = path, rate_hz, channels
        self.bits = 32 if sample_type == "float" else bits
        self.sample_type = sample_type
        self.frame_bytes = channels * self.bits // 8
        self.frames = 0
        self._closing = threading.Lock()  # `sync` runs in another thread than `write` and `close`
        head = self._head(format_name, started or datetime.now(timezone.utc), first_frame, note)
        self.data_offset = len(head)
        temporary = path.with_name(f".{path.name}.part")
        # The file gets its name only when its header is whole: it can be opened from its first instant on.
        with storage_errors(path):
            if path.exists():
                raise FileExistsError(17, "it exists already")
            self._fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_all(self._fd, head)
                self._patch()
                os.rename(temporary, path)
            except BaseException:
                os.close(self._fd)
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            fsync_folder(path.parent)

    def _head(self, format_name: str, started: datetime, first_frame: int, note: str) -> bytes:
        midnight = started.replace(hour=0, minute=0, second=0, microsecond=0)
        since_midnight = round((started - midnight).total_seconds() * self.rate_hz)
        bext = Bext(
            description=description_for(format_name, self.channels),
            originator=ORIGINATOR,
            date=started.strftime("%Y-%m-%d"),
            time=started.strftime("%H:%M:%S"),
            time_reference=since_midnight + first_frame,
            coding_history=f"A=PCM,F={self.rate_hz},W={self.bits},M={self.channels} ch,T=Hearth; UTC\r\n",
        )
        tag = 3 if self.sample_type == "float" else 1
        fmt = struct.pack(
            "<HHIIHH",
            tag,
            self.channels,
            self.rate_hz,
            self.rate_hz * self.frame_bytes,
            self.frame_bytes,
            self.bits,
        )
        chunks = [(b"JUNK", bytes(28)), (b"bext", build_bext(bext))]
        chunks += [(b"iXML", build_ixml(track_names(format_name, self.channels), note))]
        if tag == 3:
            chunks += [(b"fmt ", fmt + b"\0\0"), (b"fact", bytes(4))]
        else:
            chunks += [(b"fmt ", fmt)]
        body = b"".join(name + struct.pack("<I", len(data)) + data for name, data in chunks)
        return b"RIFF\0\0\0\0WAVE" + body + b"data\0\0\0\0"

    def write(self, samples: NDArray[np.int32] | NDArray[np.float32]) -> None:
        """Append (frames, channels). Raises InputError (shape, type) and StorageError."""
        wanted = np.float32 if self.sample_type == "float" else np.int32
        if samples.ndim != 2 or samples.shape[1] != self.channels or samples.dtype != wanted:
            raise InputError(
                f"{self.path.name}: got samples of shape {samples.shape}, type {samples.dtype};"
                f" this file takes (frames, {self.channels}) {np.dtype(wanted)}"
            )
        if self.sample_type == "float":
            data = np.ascontiguousarray(samples, dtype="<f4").tobytes()
        else:
            data = pack_pcm(samples.view(np.int32), self.bits)
        try:
            write_all(self._fd, data)
            self.frames += len(samples)
            self._patch()
        except OSError as error:
            self._keep_whole_frames()
            raise storage_error(error, self.path) from error

    def _keep_whole_frames(self) -> None:
        with suppress(OSError):
            written = os.fstat(self._fd).st_size - self.data_offset
            self.frames = max(written // self.frame_bytes, 0)
            os.ftruncate(self._fd, self.data_offset + self.frames * self.frame_bytes)
            os.lseek(self._fd, 0, os.SEEK_END)
            self._patch()

    @property
    def data_bytes(self) -> int:
        """Bytes of sound so far."""
        return self.frames * self.frame_bytes

    def _patch(self) -> None:
        data = self.data_bytes
        riff = self.data_offset - 8 + data + data % 2
        if riff < _4GIB - 1:
            os.pwrite(self._fd, struct.pack("<I", data), self.data_offset - 4)
            os.pwrite(self._fd, struct.pack("<I", riff), 4)
        else:
            ds64 = b"ds64" + struct.pack("<IQQQI", 28, riff, data, self.frames, 0)
            os.pwrite(self._fd, ds64, 12)
            os.pwrite(self._fd, b"\xff" * 4, self.data_offset - 4)
            os.pwrite(self._fd, b"RF64\xff\xff\xff\xff", 0)
        if self.sample_type == "float":
            os.pwrite(self._fd, struct.pack("<I", min(self.frames, _4GIB - 1)), self.data_offset - 12)

    def sync(self) -> None:
        """Force what was written to the medium. Raises StorageError."""
        with self._closing, storage_errors(self.path):
            if self._fd >= 0:
                os.fsync(self._fd)

    def close(self) -> None:
        """Pad, patch, sync and close; harmless when called again."""
        with self._closing:
            fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            with storage_errors(self.path):
                if self.data_bytes % 2:
                    os.pwrite(fd, b"\0", self.data_offset + self.data_bytes)
                os.fsync(fd)
        finally:
            os.close(fd)


class SegmentedWavWriter:
    """A take as WAV segments `<stem>_001.wav`, `_002.wav` ... in `folder`, each below `segment_bytes`.

    A block that does not fit is split at the frame where the segment is full: no frame is lost or doubled,
    and bext's time reference goes on from file to file. Not thread-safe: one thread writes; `sync` may be
    called from another.
    """

    def __init__(
        self,
        folder: Path,
        stem: str,
        rate_hz: int,
        channels: int,
        *,
        bits: int = 24,
        format_name: str = "",
        started: datetime | None = None,
        segment_bytes: int = 1900 << 20,
        note: str = "",
    ) -> None:
        if not 4096 <= segment_bytes < (1 << 31):
            raise InputError(
                f"segment size {segment_bytes} bytes: allowed are 4096 to {(1 << 31) - 1} (2 GiB)"
            )
        self.folder, self.stem, self.segment_bytes = folder, stem, segment_bytes
        self.rate_hz, self.channels, self.bits, self.format_name = rate_hz, channels, bits, format_name
        self.started = started or datetime.now(timezone.utc)
        self.note = note
        self.frames = 0
        self.paths: list[Path] = []
        self._full: deque[WavWriter] = deque()  # segments that are written, not yet closed
        self._current = self._next()

    def _next(self) -> WavWriter:
        writer = WavWriter(
            self.folder / f"{self.stem}_{len(self.paths) + 1:03d}.wav",
            self.rate_hz,
            self.channels,
            bits=self.bits,
            format_name=self.format_name,
            started=self.started,
            first_frame=self.frames,
            note=self.note,
        )
        self.paths.append(writer.path)
        return writer

    def write(self, samples: NDArray[np.int32]) -> None:
        """Append (frames, channels) int32 left-justified. Raises InputError, StorageError."""
        while len(samples):
            current = self._current
            # The last byte is kept for the pad byte of an odd data length.
            room = (self.segment_bytes - 1 - current.data_offset) // current.frame_bytes - current.frames
            if room <= 0:
                self._current = self._next()
                # Closing forces it to the medium, which can take seconds on a busy disk: `sync` does that,
                # in its own thread, and the sound goes on meanwhile.
                self._full.append(current)
                continue
            before = current.frames
            try:
                current.write(samples[:room])
            finally:
                self.frames += current.frames - before
            samples = samples[room:]

    def sync(self) -> None:
        """Force the current segment to the medium; earlier ones were synced when they closed."""
        while self._full:
            self._full.popleft().close()
        self._current.sync()

    def close(self) -> None:
        """Close what is open; harmless when called again."""
        while self._full:
            self._full.popleft().close()
        self._current.close()
