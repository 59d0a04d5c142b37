"""A copy of a WAV file with other sound in it and every other chunk byte for byte.

The one place that writes a foreign file anew: order of the chunks, ids, contents and pad bytes stay; only
what would be untrue changes, and each change is told in words (`WavCopy.changed`). What counts frames of the
source and is kept all the same (cue points, sampler loops) is named in `WavCopy.notes`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.storage import fsync_folder, storage_errors
from recordings.wav_chunks import Chunk
from recordings.wav_read import WavFile, read_wav

_MAX32 = 0xFFFFFFFF
_COUNTS_FRAMES = {"cue ": "cue points", "smpl": "loops", "plst": "the playlist", "levl": "the peak envelope"}
_DESCRIBES_SOUND = {"MD5 ": "the checksum of the sound", "levl": "the peak envelope", "axml": "ADM metadata"}


@dataclass
class WavCopy:
    """What a copy is: `changed` says which chunk differs from the source's and why; `kept` are the ids of
    those that are the same byte for byte, in order; `notes` what the reader of the new file should know."""

    source: Path
    target: Path
    frames: int
    rate_hz: int
    channels: int
    bits: int
    format: str | None
    kept: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        plain = {name: getattr(self, name) for name in ("frames", "rate_hz", "channels", "bits", "format")}
        lists = {"kept": self.kept, "changed": self.changed, "notes": self.notes}
        return {"source": str(self.source), "file": str(self.target), **plain, **lists}

    def lines(self) -> list[str]:
        """What a person wants to know."""
        order = f", {self.format}" if self.format else ""
        length = f"{self.frames} frames, {self.frames / self.rate_hz:.3f} s, {self.rate_hz} Hz{order}"
        first = f"{self.target}: {length}"
        kept = (
            f"kept byte for byte: {', '.join(name.strip() for name in self.kept) or 'nothing else was there'}"
        )
        return [
            first,
            kept,
            *(f"changed: {text}" for text in self.changed),
            *(f"note: {text}" for text in self.notes),
        ]


@dataclass
class NewSound:
    """The sound of the copy: `frames` frames of `frame_bytes`, as stored, in `blocks`.

    values: for files with a PEAK chunk, gives the float samples of the block that `blocks` gave last.
    """

    blocks: Iterable[bytes]
    frames: int
    frame_bytes: int
    rate_hz: int
    bits: int
    values: Callable[[bytes], NDArray[np.float64]] | None = None

    @property
    def data_bytes(self) -> int:
        """Length of the data chunk."""
        return self.frames * self.frame_bytes


def open_for_copy(source: Path) -> WavFile:
    """The source of a copy. Raises InputError for what is no WAV, or W64, whose chunks no WAV can hold."""
    wav = read_wav(source)
    if wav.kind == "W64":
        raise InputError(
            f"{source}: is W64; WAV, RF64 and BW64 can be copied with their chunks: decode it first"
        )
    return wav


def check_target(source: Path, target: Path) -> None:
    """Raise InputError when `target` exists (so that the source is safe too) or has no folder."""
    if target.exists() or target.is_symlink():
        same = target.exists() and os.path.samefile(source, target)
        raise InputError(
            f"{target}: {'is the source itself' if same else 'exists already'}; nothing is overwritten:"
            " give another --out"
        )
    if not target.parent.is_dir():
        raise InputError(f"{target}: its folder {target.parent} does not exist")


def copy_wav(
    wav: WavFile,
    target: Path,
    sound: NewSound,
    edits: dict[str, bytes],
    added: list[tuple[str, bytes]],
    check: Callable[[WavFile], None] = lambda made: None,
) -> list[str]:
    """Write `wav` to `target` with `sound` instead of its own; gives the ids of the chunks kept as they were.

    edits: new contents by id, of the first chunk with it. added: new chunks, before the sound. check: called
    with the new file before it gets its name; what it raises undoes the copy. Nothing is ever overwritten,
    and a copy that fails leaves nothing behind. Raises InputError, StorageError.
    """
    check_target(wav.path, target)
    temporary = target.with_name(f".{target.name}.part")
    with storage_errors(target):
        try:
            with open(wav.path, "rb") as reader, open(temporary, "w+b") as writer:
                kept = _Copier(wav, reader, writer, sound, edits, added).run()
                writer.flush()
                os.fsync(writer.fileno())
            made = read_wav(temporary)
            if (made.frames, made.rate) != (sound.frames, sound.rate_hz):
                raise InputError(
                    f"{target}: the copy does not read back as it should ({made.frames} frames at {made.rate}"
                    f" Hz, {'; '.join(made.problems) or 'no problem'}); nothing was written"
                )
            check(made)
            _publish(temporary, target)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    fsync_folder(target.parent)
    return kept


def _publish(temporary: Path, target: Path) -> None:
    """Give the file its name unless something has it by now."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise InputError(f"{target}: exists already; nothing is overwritten") from None
    except OSError:  # a file system without hard links
        check_target(temporary, target)
        os.rename(temporary, target)


class _Copier:
    """One copy: first the list of chunks and with it every size, then the bytes."""

    def __init__(
        self,
        wav: WavFile,
        reader: BinaryIO,
        writer: BinaryIO,
        sound: NewSound,
        edits: dict[str, bytes],
        added: list[tuple[str, bytes]],
    ) -> None:
        self.wav, self.reader, self.writer, self.sound = wav, reader, writer, sound
        self.parts: list[tuple[str, Chunk | bytes | None]] = []  # from the source, new, or the sound
        seen: set[str] = set()
        for chunk in wav.chunks:
            if chunk.id == "data" and chunk.offset == wav.data_offset:
                self.parts += [*added, ("data", None)]
            elif chunk.id in edits and chunk.id not in seen:
                self.parts.append((chunk.id, edits[chunk.id]))
            else:
                self.parts.append((chunk.id, chunk))
            seen.add(chunk.id)
        self.magic = wav.kind
        if wav.kind == "RIFF" and self._total() >= _MAX32:
            self.magic = "RF64"
            room = self.parts[0]
            if room[0] == "JUNK" and isinstance(room[1], Chunk) and room[1].readable_bytes >= 28:
                self.parts[0] = ("ds64", bytes(room[1].readable_bytes))
            else:
                self.parts.insert(0, ("ds64", bytes(28)))

    def _size(self, part: Chunk | bytes | None) -> int:
        if part is None:
            return self.sound.data_bytes
        return part.readable_bytes if isinstance(part, Chunk) else len(part)

    def _total(self) -> int:
        return 4 + sum(8 + size + size % 2 for size in (self._size(part) for _, part in self.parts))

    def run(self) -> list[str]:
        total = self._total()
        long = self.magic != "RIFF"
        head = self.magic.encode("ascii") + struct.pack("<I", _MAX32 if long else total) + b"WAVE"
        self.writer.write(head)
        kept, has_ds64 = [], False
        for name, part in self.parts:
            size = self._size(part)
            in_field = _MAX32 if size > _MAX32 or (part is None and long) else size
            self.writer.write(name.encode("ascii") + struct.pack("<I", in_field))
            if part is None:
                self._write_sound()
                self.writer.write(b"\0" * (size % 2))
                continue
            if name == "ds64" and not has_ds64:
                has_ds64 = True
                old = self._source_bytes(part) if isinstance(part, Chunk) else part
                sizes = struct.pack("<QQQ", total, self.sound.data_bytes, self.sound.frames)
                self.writer.write(sizes + old[24:])
            elif isinstance(part, Chunk):
                kept.append(name)
                self._copy_source(part)
                continue
            else:
                self.writer.write(part)
            self.writer.write(b"\0" * (size % 2))
        return kept

    def _source_bytes(self, chunk: Chunk) -> bytes:
        self.reader.seek(chunk.offset)
        return self.reader.read(chunk.readable_bytes)

    def _copy_source(self, chunk: Chunk) -> None:
        """Content and pad byte as they are; a pad byte that was left out is put in."""
        self.reader.seek(chunk.offset)
        left = chunk.readable_bytes
        while left:
            block = self.reader.read(min(left, 1 << 20))
            if not block:
                raise InputError(f"{self.wav.path}: became shorter while it was copied")
            self.writer.write(block)
            left -= len(block)
        if chunk.readable_bytes % 2:
            pad = self.reader.read(1) if chunk.pad_bytes else b""
            self.writer.write(pad or b"\0")

    def _write_sound(self) -> None:
        written = 0
        for block in self.sound.blocks:
            self.writer.write(block)
            written += len(block)
        if written != self.sound.data_bytes:
            raise InputError(
                f"{self.wav.path}: {written} bytes of sound came, {self.sound.data_bytes} were due; the file"
                " changed while it was copied"
            )


def stored_blocks(wav: WavFile, first: int, frames: int) -> Iterable[bytes]:
    """The sound as stored, untouched, from frame `first` on."""
    with storage_errors(wav.path, "read"), open(wav.path, "rb") as file:
        file.seek(wav.data_offset + first * wav.frame_bytes)
        left = frames * wav.frame_bytes
        while left:
            block = file.read(min(left, 1 << 20))
            if not block:
                return  # the writer sees that something is missing
            left -= len(block)
            yield block


def common_changes(wav: WavFile, sound: NewSound, moved: bool) -> tuple[dict[str, bytes], WavCopy]:
    """Edits that any change of the sound asks for (fact), and the report with what is kept although it counts
    frames. moved: frame numbers of the source do not hold in the copy."""
    edits: dict[str, bytes] = {}
    report = WavCopy(wav.path, wav.path, sound.frames, sound.rate_hz, wav.channels, sound.bits, wav.format)
    same = sound.frames == wav.frames
    what = "other samples" if same else f"{sound.frames} frames instead of {wav.frames}"
    report.changed.append(f"data: {what}; the sizes follow")
    ids = [chunk.id for chunk in wav.chunks]
    if (fact := wav.chunk_bytes("fact")) is not None and len(fact) >= 4:
        edits["fact"] = struct.pack("<I", min(sound.frames, _MAX32)) + fact[4:]
        report.changed.append("fact: it holds the number of frames")
    if "ds64" in ids:
        report.changed.append("ds64: it holds the sizes")
    if moved:
        stale = [what for name, what in _COUNTS_FRAMES.items() if name in ids]
        if stale:
            report.notes.append(
                f"{', '.join(stale)}: kept as they were; they count frames of {wav.path.name}"
            )
    about = [what for name, what in _DESCRIBES_SOUND.items() if name in ids and name not in _COUNTS_FRAMES]
    if about:
        report.notes.append(f"{', '.join(about)}: kept; said of the sound of {wav.path.name}")
    for chunk in wav.chunks:
        if chunk.readable_bytes < chunk.declared_bytes and chunk.id not in ("data", "ds64"):
            report.changed.append(f"{chunk.id.strip()}: its size, since the file ends within it")
        elif chunk.readable_bytes % 2 and not chunk.pad_bytes and chunk.id != "data":
            report.changed.append(f"{chunk.id.strip()}: a pad byte behind it, which was left out")
    if wav.trailing_bytes:
        report.notes.append(
            f"{wav.trailing_bytes} bytes behind the last chunk belong to none and are left out"
        )
    report.notes += [f"source: {problem}" for problem in wav.problems]
    return edits, report
