"""Read WAV files of any origin: what they hold, and the exact length that can be read.

Broken sizes (recordings.wav_chunks) are either resolved to an exact number of frames with a note in
`problems`, or refused with an InputError that says why. Samples are read in blocks; the file is never held in
memory as a whole.

Formats: PCM 8, 16, 24, 32 bits, IEEE float 32 and 64, plain or WAVE_FORMAT_EXTENSIBLE, in RIFF, RF64, BW64
or W64.
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
from recordings.storage import storage_error, storage_errors
from recordings.wav_chunks import Chunk, Walk, walk_chunks
from recordings.wav_tags import TRACKS, Bext, decode_ixml, parse_bext, tagged_format

_AMB_GUID = bytes.fromhex("00002107d3118644c8c1ca000000")  # after the tag's 2 bytes
_TAG_LIMIT = 1 << 20  # bext and iXML beyond 1 MiB are kept on disk but not parsed


@dataclass
class WavFile:
    """An opened WAV file: what it says, what can be read, and what is wrong with it.

    frames is the number that can really be read. `tracks` are the names in the tags, `format` is "ambix",
    "fuma", "n3d", "a", "a2" or None when the tags do not say. `bits` are those of a stored sample.
    `kind` is RIFF, RF64, BW64 or W64. `trailing_bytes`: bytes after the last whole chunk that belong to none.
    """

    path: Path
    rate: int
    channels: int
    bits: int
    is_float: bool
    frames: int
    data_offset: int
    kind: str = "RIFF"
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
                with storage_errors(self.path, "read"), open(self.path, "rb") as file:
                    file.seek(chunk.offset)
                    return file.read(chunk.readable_bytes)
        return None


def read_wav(path: str | Path, recover: bool = False) -> WavFile:
    """Open a WAV or W64 file and walk its chunks; samples are read later.

    recover: take everything after the data chunk's start as sound when the bytes behind the declared end are
    no chunks: the state in which a killed recorder leaves its file. Otherwise the declared size counts.
    Raises InputError when it is no WAV, or an encoding that is not read here.
    """
    path = Path(path)
    try:
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            return _Opening(path, file, walk_chunks(path, file, size, recover)).result()
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: no such file") from None
        raise storage_error(error, path, "read") from error


class _Opening:
    """From the chunks of one file to a WavFile."""

    def __init__(self, path: Path, file: BinaryIO, found: Walk) -> None:
        self.path, self.file, self.found = path, file, found

    def _at(self, offset: int, count: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(count)

    def _why(self) -> str:
        """What the walk stumbled over, for an error."""
        return f" ({'; '.join(self.found.problems)})" if self.found.problems else ""

    def _format(self) -> tuple[int, int, int, bool, int]:
        raw = next(
            (self._at(c.offset, min(c.readable_bytes, 40)) for c in self.found.chunks if c.id == "fmt "), None
        )
        if raw is None or len(raw) < 16:
            raise InputError(
                f"{self.path}: no usable 'fmt ' chunk; found chunks {[c.id for c in self.found.chunks]}"
                f"{self._why()}"
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

    def result(self) -> WavFile:
        found = self.found
        channels, rate, bits, is_float, align = self._format()
        data = found.data
        if data is None:
            raise InputError(
                f"{self.path}: no 'data' chunk; found {[c.id for c in found.chunks]} and then"
                f" {found.trailing_bytes} bytes{self._why()}"
            )
        readable = data.readable_bytes
        if found.truncated:
            found.problems.append(
                f"truncated: {data.declared_bytes // align} frames declared, {readable // align} can be read"
            )
        if readable % align:
            found.problems.append(
                f"the last frame is torn: {readable % align} of {align} bytes; it is left out"
            )
        bext_raw, ixml_raw = self._tag("bext"), self._tag("iXML")
        bext = parse_bext(bext_raw) if bext_raw is not None else None
        ixml = decode_ixml(ixml_raw) if ixml_raw is not None else ""
        tagged, tracks, contradiction = tagged_format(bext, ixml)
        if tagged is None and contradiction is None and channels == 4 and self._is_amb():
            tagged, tracks = "fuma", tracks or TRACKS["fuma"]
        if contradiction:
            found.problems.append(contradiction)
        return WavFile(
            path=self.path,
            rate=rate,
            channels=channels,
            bits=bits,
            is_float=is_float,
            frames=readable // align,
            data_offset=data.offset,
            kind=found.kind,
            bext=bext,
            ixml=ixml,
            tracks=tracks,
            format=tagged,
            chunks=tuple(found.chunks),
            trailing_bytes=found.trailing_bytes,
            problems=found.problems,
        )

    def _is_amb(self) -> bool:
        """Whether the subformat is that of ambisonic B-format files (.amb): W, X, Y, Z with W at -3 dB by
        R. Dobson, "Developments in Audio File Formats", ICMC 2000."""
        fmt = next(chunk for chunk in self.found.chunks if chunk.id == "fmt ")
        return self._at(fmt.offset + 26, 14) == _AMB_GUID if fmt.readable_bytes >= 40 else False

    def _tag(self, name: str) -> bytes | None:
        for chunk in self.found.chunks:
            if chunk.id == name:
                return self._at(chunk.offset, min(chunk.readable_bytes, _TAG_LIMIT))
        return None
