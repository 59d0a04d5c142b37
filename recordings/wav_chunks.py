"""The walk over the chunks of a WAV or W64 file: what lies where, however wrong the sizes are.

Sizes are wrong in the field: recorders lose power, writers to a pipe leave placeholders, 32-bit sizes wrap
beyond 4 GiB, pad bytes are forgotten. Each case is resolved to exact places, with a sentence in `problems`.

RIFF: Microsoft's Multimedia Programming Interface 1.0; RF64 and ds64: EBU Tech 3306; BW64: ITU-R BS.2088;
W64: Sony Pictures' Sony Wave64 (GUIDs as ids, 64-bit sizes that include the head, chunks on multiples of 8).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from dsp.errors import InputError

_MAX32 = 0xFFFFFFFF
_MAX_CHUNKS = 4096
_TAIL = 1 << 20  # how far before the end chunks behind sound of unknown length are looked for
# What writers to a pipe put as the data size: sox 0x7FFFF000, arecord 0x80000000 and a little less.
_PIPE_SIZES = frozenset({0x7FFFF000, 0x7FFFFFFF, 0x80000000})
_KNOWN = frozenset(
    b"fmt |data|fact|LIST|bext|iXML|cue |smpl|inst|JUNK|junk|PAD |FLLR|PEAK|axml|chna|id3 |ID3 |_PMX|plst|"
    b"levl|umid|aXML|acid|cart|DISP|link|qlty|mext|afsp|minf|elm1|regn|wavl|ds64|r64m|MD5 |SyLp".split(b"|")
)
_W64_RIFF = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"
_W64_TAIL = b"\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"


@dataclass(frozen=True)
class Chunk:
    """One chunk as found: id, where its data starts, how long it says it is, how much of that is there, and
    how many bytes of padding follow (0 although the length is odd: the writer left the pad byte out)."""

    id: str
    offset: int
    declared_bytes: int
    readable_bytes: int
    pad_bytes: int = 0


@dataclass
class Walk:
    """What a walk found. kind: "RIFF", "RF64", "BW64" or "W64". `data` is the sound, None without any.

    stale: behind the declared end of the sound are bytes that are no chunks: a killed recorder leaves them.
    truncated: the file ends before the sound does. trailing_bytes: after the last whole chunk, of none.
    """

    kind: str
    size: int
    chunks: list[Chunk] = field(default_factory=list)
    data: Chunk | None = None
    trailing_bytes: int = 0
    stale: bool = False
    truncated: bool = False
    problems: list[str] = field(default_factory=list)


def walk_chunks(path: Path, file: BinaryIO, size: int, recover: bool = False) -> Walk:
    """Walk over the whole file of `size` bytes; see recordings.wav_read.read_wav for `recover`.

    Raises InputError when it is neither WAV nor W64.
    """
    head = file.read(40)
    if head[:16] == _W64_RIFF and head[24:40] == b"wave" + _W64_TAIL:
        return _W64Walker(file, size, recover).found
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:12] != b"WAVE":
        shown = f"starts with {head[:12]!r}" if head else "is empty"
        raise InputError(f"{path}: not a WAV file ({shown}); RIFF, RF64 or BW64 with WAVE, and W64 are read")
    return _Walker(file, size, recover, head[:4].decode("ascii")).found


def _is_id(data: bytes) -> bool:
    return len(data) == 4 and all(32 <= byte < 127 for byte in data)


class _Walker:
    """RIFF, RF64 and BW64."""

    start, head_bytes, align = 12, 8, 2

    def __init__(self, file: BinaryIO, size: int, recover: bool, kind: str) -> None:
        self.file, self.size, self.recover = file, size, recover
        self.found = Walk(kind, size)
        self.long_sizes: dict[str, int] = {}
        self._walk()

    # The two layouts differ in these three.

    def _head(self, at: int) -> tuple[str, int, bool] | None:
        """(id, length, whether the id is a known one) of the chunk at `at`; None when there can be none."""
        head = self._at(at, 8)
        if len(head) < 8 or not _is_id(head[:4]):
            return None
        return head[:4].decode("ascii"), int.from_bytes(head[4:], "little"), head[:4] in _KNOWN

    def _is_placeholder(self, declared: int, start: int) -> bool:
        if declared == 0 or declared >= 1 << 63:
            return True
        if declared == _MAX32:
            return not self._chain_ends(start + declared)
        return declared in _PIPE_SIZES and start + declared > self.size

    def _known_ids(self) -> list[bytes]:
        return sorted(_KNOWN)

    # The walk

    def _at(self, offset: int, count: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(count)

    def _walk(self) -> None:
        found, at = self.found, self.start
        while at < self.size:
            if len(found.chunks) >= _MAX_CHUNKS:
                found.problems.append(f"more than {_MAX_CHUNKS} chunks; the rest is not looked at")
            head = self._head(at)
            if head is None or len(found.chunks) >= _MAX_CHUNKS:
                found.trailing_bytes = self.size - at
                break
            name, declared, _ = head
            start = at + self.head_bytes
            if name == "ds64" and found.kind in ("RF64", "BW64"):
                self._ds64(self._at(start, min(declared, 28 + 12 * 1000)))
            if declared == _MAX32 and name in self.long_sizes:
                declared = self.long_sizes[name]
            sound = name == "data" and found.data is None
            length = self._data_length(start, declared) if sound else declared
            readable = max(min(length, self.size - start), 0)
            pad = self._pad_after(start + length, length)
            if pad < min(-length % self.align, self.size - start - length):
                found.problems.append(f"chunk {name!r} has odd length and no pad byte")
            chunk = Chunk(name, start, declared, readable, pad)
            found.chunks.append(chunk)
            if sound:
                found.data = chunk
            elif name == "data":
                found.problems.append(
                    f"a second 'data' chunk of {readable} bytes at byte {start} is not read"
                )
            elif name in ("RIFF", "RF64"):
                found.problems.append(f"another WAV file is appended at byte {at}; it is not read")
            if readable < length:
                if not sound:
                    found.problems.append(
                        f"chunk {name!r} says {length} bytes, {readable} are there: truncated"
                    )
                break
            at = start + length + pad
            if sound and found.stale:
                found.trailing_bytes = self.size - start - length
                break
        if found.data is not None and found.trailing_bytes:
            found.problems.append(
                f"{found.trailing_bytes} bytes after the last chunk belong to none; they are ignored"
            )

    def _pad_after(self, end: int, length: int) -> int:
        """Bytes of padding behind a chunk that ends at `end`: 0 when the writer left out the pad byte of an
        odd chunk. What looks more like a chunk decides; where both do, the standard is right."""
        pad = max(min(-length % self.align, self.size - end), 0)
        forgotten = pad and self.align == 2 and self._likeness(end) > self._likeness(end + 1)
        return 0 if forgotten else pad

    def _likeness(self, at: int) -> int:
        head = self._head(at)
        if head is None:
            return 0
        name, length, known = head
        fits = at + 8 + length <= self.size or (name == "data" and self.found.data is None)
        return (2 if known else 0) + (1 if fits else 0) if known or fits else 0

    def _ds64(self, data: bytes) -> None:
        if len(data) < 24:
            self.found.problems.append("ds64 chunk is too short")
            return
        self.long_sizes["data"] = struct.unpack_from("<Q", data, 8)[0]
        count = struct.unpack_from("<I", data, 24)[0] if len(data) >= 28 else 0
        for i in range(min(count, (len(data) - 28) // 12)):
            name, length = struct.unpack_from("<4sQ", data, 28 + 12 * i)
            self.long_sizes[name.decode("latin-1")] = length

    def _chain_ends(self, at: int) -> bool:
        """Whether whole chunks lie from `at` to the end of the file, or `at` is the end."""
        for _ in range(1000):
            if at >= self.size:
                return at - self.size < self.align
            head = self._head(at)
            if head is None:
                return False
            at += self.head_bytes + head[1]
            if at > self.size:
                return False
            at += self._pad_after(at, head[1])
        return False

    def _data_length(self, start: int, declared: int) -> int:
        found, there = self.found, self.size - start
        if self._is_placeholder(declared, start) and there and not self._goes_on(start, 0):
            length = self._sound_to_the_end(start)
            what = (
                "0 (a recorder that was stopped hard)" if declared == 0 else f"a placeholder ({declared:#X})"
            )
            until = "the end of the file" if length == there else "the chunks at its end"
            found.problems.append(f"the data size is {what}; sound is read to {until}")
            return length
        if declared > there:
            # Either sound is missing, or the size is too large and chunks may stand behind the sound.
            length = self._sound_to_the_end(start)
            if length < there:
                found.problems.append(
                    f"the data size is too large: {declared} bytes said, the next chunk begins after {length}"
                )
                return length
            found.truncated = True
            return declared
        if found.kind == "RIFF" and (wrapped := self._wrapped(start, declared)) is not None:
            found.problems.append(
                "the data size wrapped at 4 GiB; the true one follows from the file's length"
            )
            return wrapped
        end = start + declared
        if end < self.size and not self._goes_on(end, -declared % self.align):
            if self.recover:
                found.problems.append(f"the data size is stale: {declared} said, {there} there, all taken")
                return there
            found.stale = True
        return declared

    def _goes_on(self, end: int, pad: int) -> bool:
        """Whether chunks follow the sound, be the last one broken: a known id is no sound."""
        heads = [self._head(at) for at in (end, end + pad)]
        known = any(head is not None and head[2] for head in heads)
        return known or self._chain_ends(end) or self._chain_ends(end + pad)

    def _sound_to_the_end(self, start: int) -> int:
        """Bytes from `start` to the end of the file, without the known chunks that stand there."""
        there = self.size - start
        first = max(start, self.size - _TAIL)
        tail = self._at(first, self.size - first)
        places: list[int] = []
        for known in self._known_ids():
            at = tail.find(known)
            while at >= 0:
                places.append(at)
                at = tail.find(known, at + 1)
        for at in sorted(places):
            if self._chain_ends(first + at):
                return first + at - start
        return there

    def _wrapped(self, start: int, declared: int) -> int | None:
        """The true length behind a 32-bit size that wrapped; None when it did not."""
        most = (self.size - start - declared) >> 32
        if self._chain_ends(start + declared):
            return None
        for wraps in range(most, 0, -1):
            end = start + declared + (wraps << 32)
            if self._chain_ends(end) or self._chain_ends(end + declared % 2):
                return declared + (wraps << 32)
        left = self.size - start - declared - (most << 32)
        return declared + (most << 32) if most and left < _TAIL else None


class _W64Walker(_Walker):
    """Sony Wave64: the same ids inside GUIDs, 64-bit sizes that count the 24 bytes of the head."""

    start, head_bytes, align = 40, 24, 8

    def __init__(self, file: BinaryIO, size: int, recover: bool) -> None:
        super().__init__(file, size, recover, "W64")

    def _head(self, at: int) -> tuple[str, int, bool] | None:
        head = self._at(at, 24)
        if len(head) < 24 or not _is_id(head[:4]):
            return None
        length = max(int.from_bytes(head[16:], "little") - 24, 0)
        return head[:4].decode("ascii"), length, head[4:16] == _W64_TAIL

    def _is_placeholder(self, declared: int, start: int) -> bool:
        return declared == 0 or declared >= 1 << 62

    def _known_ids(self) -> list[bytes]:
        return [known + _W64_TAIL for known in sorted(_KNOWN)]
