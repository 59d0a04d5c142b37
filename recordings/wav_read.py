"""Read WAV files of any origin: our own walk over the chunks, and the exact length that can be read.

Broken sizes are normal in the field: recorders lose power, libsndfile leaves placeholders, 32-bit sizes wrap
beyond 4 GiB. Each is either resolved to an exact number of frames with a note in `problems`, or refused with
an InputError that says why. Samples are read in blocks; the file is never held in memory as a whole.

Formats: PCM 8, 16, 24, 32 bits, IEEE float 32 and 64, plain or WAVE_FORMAT_EXTENSIBLE, in RIFF, RF64 or BW64.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.storage import storage_error
from recordings.wav_tags import Bext, decode_ixml, parse_bext, tagged_format

_MAX32 = 0xFFFFFFFF
_TAG_LIMIT = 1 << 20  # bext and iXML beyond 1 MiB are kept on disk but not parsed


@dataclass(frozen=True)
class Chunk:
    """One chunk as found: id, where its data starts, how long it says it is and how much of that is there."""

    id: str
    offset: int
    declared_bytes: int
    readable_bytes: int


@dataclass
class WavFile:
    """An opened WAV file: what it says, what can be read, and what is wrong with it.

    frames is the number that can really be read. `tracks` are the names in the tags, `format` is "ambix",
    "fuma", "n3d", "a", "a2" or None when the tags do not say. `bits` are those of a stored sample.
    `trailing_bytes`: bytes after the last whole chunk that belong to none.
    """

    path: Path
    rate: int
    channels: int
    bits: int
    is_float: bool
    frames: int
    data_offset: int
    bext: Bext | None = None
    ixml: str = ""
    tracks: tuple[str, ...] = ()
    format: str | None = None
    chunks: tuple[Chunk, ...] = ()
    trailing_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame in the file."""
        return self.channels * self.bits // 8

    @property
    def samples(self) -> NDArray[np.int32] | NDArray[np.float32]:
        """All frames at once; see `read`."""
        return self.read()

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.int32] | NDArray[np.float32]:
        """(frames, channels) from frame `start`: int32 left-justified for PCM, float32 for float files.

        Fewer frames come only at the end. Raises InputError when the file shrank or cannot be read.
        """
        start = min(max(start, 0), self.frames)
        count = self.frames - start if count is None else min(count, self.frames - start)
        wanted = count * self.frame_bytes
        try:
            with open(self.path, "rb") as file:
                file.seek(self.data_offset + start * self.frame_bytes)
                raw = file.read(wanted)
        except OSError as error:
            raise storage_error(error, self.path, "read") from error
        if len(raw) != wanted:
            raise InputError(
                f"{self.path}: {wanted} bytes expected at frame {start}, got {len(raw)}; the file changed"
                " while it was read"
            )
        return self._unpack(raw).reshape(-1, self.channels)

    def _unpack(self, raw: bytes) -> NDArray[np.int32] | NDArray[np.float32]:
        if self.is_float:
            return np.frombuffer(raw, "<f4" if self.bits == 32 else "<f8").astype(np.float32)
        if self.bits == 8:  # unsigned in WAV
            return (np.frombuffer(raw, np.uint8).astype(np.int32) - 128) << 24
        if self.bits == 16:
            return np.frombuffer(raw, "<i2").astype(np.int32) << 16
        if self.bits == 32:
            return np.frombuffer(raw, "<i4").astype(np.int32)
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return wide.view("<i4").astype(np.int32).reshape(-1)

    def blocks(self, frames: int = 1 << 16) -> Iterator[NDArray[np.int32] | NDArray[np.float32]]:
        """The whole file in blocks of `frames`."""
        for start in range(0, self.frames, frames):
            yield self.read(start, frames)

    def read_float(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]:
        """Like `read`, always float32 with full scale +-1."""
        x = self.read(start, count)
        return (x if x.dtype == np.float32 else x * np.float32(2.0**-31)).astype(np.float32, copy=False)

    def chunk_bytes(self, chunk_id: str) -> bytes | None:
        """The readable bytes of the first chunk with that id; None when there is none."""
        for chunk in self.chunks:
            if chunk.id == chunk_id:
                with open(self.path, "rb") as file:
                    file.seek(chunk.offset)
                    return file.read(chunk.readable_bytes)
        return None


def read_wav(path: str | Path, recover: bool = False) -> WavFile:
    """Open a WAV file and walk its chunks; samples are read later.

    recover: take everything after the data chunk's start as sound when the bytes behind the declared end are
    no chunks: the state in which a killed recorder leaves its file. Otherwise the declared size counts.
    Raises InputError when it is no WAV, or an encoding that is not read here.
    """
    path = Path(path)
    try:
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            return _Walk(path, file, size).result(recover)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: no such file") from None
        raise storage_error(error, path, "read") from error


def _is_id(data: bytes) -> bool:
    return len(data) == 4 and all(32 <= byte < 127 for byte in data)


class _Walk:
    """One walk over the chunks of one file."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.file, self.size = path, file, size
        self.problems: list[str] = []
        self.chunks: list[Chunk] = []
        self.long_sizes: dict[str, int] = {}
        self.trailing = 0
        self.stale_data = False
        head = self._at(0, 12)
        kind = head[:4]
        if kind not in (b"RIFF", b"RF64", b"BW64") or head[8:12] != b"WAVE":
            shown = f"starts with {head[:12]!r}" if head else "is empty"
            raise InputError(f"{path}: not a WAV file ({shown}); RIFF, RF64 or BW64 with WAVE is read")
        self.is_64 = kind != b"RIFF"
        self._walk()

    def _at(self, offset: int, count: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(count)

    def _walk(self) -> None:
        at = 12
        while at < self.size:
            head = self._at(at, 8)
            if self._pad_is_missing(at):
                self.problems.append(f"chunk {self.chunks[-1].id!r} has odd length and no pad byte")
                at -= 1
                head = self._at(at, 8)
            if len(head) < 8 or not _is_id(head[:4]):
                self.trailing = self.size - at
                break
            name = head[:4].decode("ascii")
            declared = struct.unpack("<I", head[4:])[0]
            start = at + 8
            if name == "ds64":
                self._ds64(self._at(start, min(declared, 28 + 12 * 1000)))
            if declared == _MAX32 and name in self.long_sizes:
                declared = self.long_sizes[name]
            length = self._data_length(start, declared) if name == "data" else declared
            readable = min(length, self.size - start)
            self.chunks.append(Chunk(name, start, declared, readable))
            if readable < length:
                if name != "data":
                    self.problems.append(
                        f"chunk {name!r} says {length} bytes, {readable} are there: truncated"
                    )
                break
            at = start + length + length % 2
            if name == "data" and self.stale_data:
                self.trailing = self.size - start - length
                break

    def _pad_is_missing(self, at: int) -> bool:
        """Whether the writer left out the pad byte of an odd chunk before `at`: it is always zero."""
        if not self.chunks or self.chunks[-1].declared_bytes % 2 == 0:
            return False
        early = self._at(at - 1, 8)
        if len(early) < 8 or early[0] == 0 or not _is_id(early[:4]):
            return False
        return early[:4] == b"data" or at + 7 + struct.unpack("<I", early[4:])[0] <= self.size

    def _ds64(self, data: bytes) -> None:
        if len(data) < 24:
            self.problems.append("ds64 chunk is too short")
            return
        self.long_sizes["data"] = struct.unpack_from("<Q", data, 8)[0]
        count = struct.unpack_from("<I", data, 24)[0] if len(data) >= 28 else 0
        for i in range(min(count, (len(data) - 28) // 12)):
            name, length = struct.unpack_from("<4sQ", data, 28 + 12 * i)
            self.long_sizes[name.decode("latin-1")] = length

    def _chain_ends(self, at: int) -> bool:
        """Whether whole chunks lie from `at` to the end of the file."""
        if at >= self.size:
            return at - self.size <= 1
        for _ in range(1000):
            head = self._at(at, 8)
            if len(head) < 8 or not _is_id(head[:4]):
                return False
            at += 8 + struct.unpack("<I", head[4:])[0]
            if at >= self.size:
                return at == self.size
            at += at % 2
            if at >= self.size:
                return True
        return False

    def _data_length(self, start: int, declared: int) -> int:
        there = self.size - start
        if declared == _MAX32 and there < _MAX32:
            self.problems.append(
                "the data size is a placeholder (0xFFFFFFFF); sound is read to the end of the file"
            )
            return there
        if declared == 0 and there and not self._chain_ends(start):
            self.problems.append(
                "the data size is 0 (a recorder that was stopped hard); sound is read to the end"
            )
            return there
        if (
            not self.is_64
            and there > _MAX32
            and declared <= _MAX32
            and not self._chain_ends(start + declared)
        ):
            # Sizes wrap at 4 GiB in writers that do not know RF64.
            wraps = (there - declared) >> 32
            if wraps and there - declared - (wraps << 32) < (1 << 20):
                self.problems.append(
                    "the data size wrapped at 4 GiB; the true one follows from the file's length"
                )
                return declared + (wraps << 32)
        end = start + declared + declared % 2
        self.stale_data = (
            end < self.size and not self._chain_ends(end) and not self._chain_ends(end - declared % 2)
        )
        return declared

    def _format(self) -> tuple[int, int, int, bool, int]:
        raw = next(
            (self._at(c.offset, min(c.readable_bytes, 40)) for c in self.chunks if c.id == "fmt "), None
        )
        if raw is None or len(raw) < 16:
            raise InputError(
                f"{self.path}: no usable 'fmt ' chunk; found chunks {[c.id for c in self.chunks]}"
            )
        tag, channels, rate, _, align, bits = struct.unpack_from("<HHIIHH", raw)
        if tag == 0xFFFE and len(raw) >= 40:
            tag = struct.unpack_from("<H", raw, 24)[0]
        supported = (tag == 1 and bits in (8, 16, 24, 32)) or (tag == 3 and bits in (32, 64))
        if not supported:
            raise InputError(
                f"{self.path}: encoding tag {tag} with {bits} bits is not read;"
                " PCM 8/16/24/32 and float 32/64 are. Convert it with FFmpeg or sox first"
            )
        if channels == 0 or rate == 0:
            raise InputError(
                f"{self.path}: 'fmt ' says {channels} channels at {rate} Hz; both must be positive"
            )
        if align != channels * bits // 8:
            raise InputError(
                f"{self.path}: 'fmt ' says {align} bytes per frame, {channels} channels of {bits} bits need"
                f" {channels * bits // 8}"
            )
        return channels, rate, bits, tag == 3, align

    def result(self, recover: bool) -> WavFile:
        channels, rate, bits, is_float, align = self._format()
        data = next((chunk for chunk in self.chunks if chunk.id == "data"), None)
        if data is None:
            raise InputError(
                f"{self.path}: no 'data' chunk; found {[c.id for c in self.chunks]} and then"
                f" {self.trailing} bytes"
            )
        readable = data.readable_bytes
        if self.stale_data and recover:
            readable = self.size - data.offset
            self.problems.append(
                f"the data size is stale: {data.declared_bytes} said, {readable} there, all taken"
            )
            self.trailing = 0
        elif self.trailing:
            self.problems.append(
                f"{self.trailing} bytes after the last chunk belong to none; they are ignored"
            )
        if data.declared_bytes > readable and data.declared_bytes not in (0, _MAX32):
            self.problems.append(
                f"truncated: {data.declared_bytes // align} frames declared, {readable // align} can be read"
            )
        if readable % align:
            self.problems.append(
                f"the last frame is torn: {readable % align} of {align} bytes; it is left out"
            )
        bext_raw, ixml_raw = self._tag("bext"), self._tag("iXML")
        bext = parse_bext(bext_raw) if bext_raw is not None else None
        ixml = decode_ixml(ixml_raw) if ixml_raw is not None else ""
        tagged, tracks, contradiction = tagged_format(bext, ixml)
        if contradiction:
            self.problems.append(contradiction)
        return WavFile(
            path=self.path,
            rate=rate,
            channels=channels,
            bits=bits,
            is_float=is_float,
            frames=readable // align,
            data_offset=data.offset,
            bext=bext,
            ixml=ixml,
            tracks=tracks,
            format=tagged,
            chunks=tuple(self.chunks),
            trailing_bytes=self.trailing,
            problems=self.problems,
        )

    def _tag(self, name: str) -> bytes | None:
        for chunk in self.chunks:
            if chunk.id == name:
                return self._at(chunk.offset, min(chunk.readable_bytes, _TAG_LIMIT))
        return None
