"""The sound of an episode as a browser plays it: stereo or W alone, 16-bit WAV, made for the bytes asked for.

PCM has no encoder delay, so what is at second t of the file is heard at second t of the element, also after
a jump; and any range of bytes can be made from the same frames of the episode without a file in between.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

import dsp
from dsp.errors import InputError
from recordings.report_sound import Floats, SoundReader

HEADER_BYTES = 44
MIXES = ("stereo", "w")
LONGEST_BYTES = (1 << 32) - 64  # what the size fields of WAV can say
PIECE = 1 << 18  # bytes that are made at once


@dataclass(frozen=True)
class ListeningWav:
    """A WAV file that is nowhere: `read` makes any part of it. gain: against the recording, linear."""

    reader: SoundReader
    mix: str
    gain: float

    def __post_init__(self) -> None:
        if self.mix not in MIXES:
            raise InputError(f"a mix is one of {', '.join(MIXES)}, not {self.mix!r}")

    @property
    def channels(self) -> int:
        """Of the file."""
        return 2 if self.mix == "stereo" else 1

    @property
    def frames(self) -> int:
        """Of the file; a recording beyond 4 GiB as WAV is cut there."""
        return min(self.reader.frames, LONGEST_BYTES // (2 * self.channels))

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return HEADER_BYTES + 2 * self.channels * self.frames

    def header(self) -> bytes:
        """RIFF, fmt and the head of the data chunk (PCM, RFC 2361)."""
        width, rate = 2 * self.channels, self.reader.rate_hz
        form = struct.pack("<HHIIHH", 1, self.channels, rate, rate * width, width, 16)
        body = b"WAVEfmt " + struct.pack("<I", len(form)) + form
        data = b"data" + struct.pack("<I", self.size - HEADER_BYTES)
        return b"RIFF" + struct.pack("<I", self.size - 8) + body + data

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from byte `start`; fewer only at the end."""
        stop = min(start + count, self.size)
        parts = [self.header()[start:stop]] if start < HEADER_BYTES else []
        first = max(start, HEADER_BYTES) - HEADER_BYTES
        last = stop - HEADER_BYTES
        if last > first:
            width = 2 * self.channels
            frame = first // width
            samples = self._samples(frame, -(-last // width) - frame)
            parts.append(samples[first - frame * width : last - frame * width])
        return b"".join(parts)

    def _samples(self, frame: int, count: int) -> bytes:
        block = self.reader.read(frame, count)
        mixed = listen(block, self.reader.is_foa, self.mix) * np.float32(self.gain)
        whole = np.clip(np.rint(np.nan_to_num(mixed) * 32767.0), -32768, 32767).astype("<i2")
        return whole.tobytes().ljust(2 * self.channels * count, b"\0")


def listen(block: Floats, is_foa: bool, mix: str) -> Floats:
    """(frames, 2) or, for W, (frames, 1): opposite cardioids, or the first channel alone."""
    if mix == "w":
        return block[:, :1]
    if is_foa:
        return np.asarray(dsp.to_stereo(block), dtype=np.float32)
    return block if block.shape[1] == 2 else np.repeat(block[:, :1], 2, axis=1)


def byte_range(asked: str | None, size: int) -> tuple[int, int] | None:
    """(first byte, count) of a Range header over a file of `size` bytes, for a single range (RFC 9110, 14).

    None: there is none, or several, or another unit: then all is sent. Raises InputError when no byte of the
    range exists.
    """
    if asked is None or not asked.startswith("bytes=") or "," in asked:
        return None
    first, dash, last = asked[6:].strip().partition("-")
    if not dash or not all(part == "" or (part.isascii() and part.isdigit()) for part in (first, last)):
        return None
    if not first and not last:
        return None
    if not first:
        count = min(int(last), size)
        start = size - count
    else:
        start = int(first)
        count = (min(int(last), size - 1) if last else size - 1) - start + 1
        if last and int(last) < start:
            return None
    if count <= 0 or start >= size:
        raise InputError(f"bytes {asked[6:]} are not within the {size} of the file")
    return start, count
