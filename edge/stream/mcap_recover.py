"""Finishing an MCAP file whose writer was killed: all that is whole goes into a new file with an index."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dsp.errors import InputError
from edge.stream.mcap_file import CHANNEL, CHUNK, FOOTER, MAGIC, MESSAGE, METADATA, SCHEMA, McapWriter
from recordings.storage import StorageError


@dataclass(frozen=True)
class Recovered:
    """What was found: `whole` when the file had its end, `cut_bytes` that belong to no whole record."""

    messages: int
    whole: bool
    cut_bytes: int


class _Fields:
    """Reads the fields of one record in their order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def number(self, kind: str) -> int:
        value = struct.unpack_from("<" + kind, self.data, self.place)[0]
        self.place += struct.calcsize("<" + kind)
        return int(value)

    def take(self, size: int) -> bytes:
        if self.place + size > len(self.data):
            raise InputError("a record is shorter than it says")
        self.place += size
        return self.data[self.place - size : self.place]

    def text(self) -> str:
        return self.take(self.number("I")).decode("utf-8")

    def map(self) -> dict[str, str]:
        inner = _Fields(self.take(self.number("I")))
        found = {}
        while inner.place < len(inner.data):
            key = inner.text()
            found[key] = inner.text()
        return found


def recover(path: Path, out: Path) -> Recovered:
    """Copy what can be read of `path` into the new file `out`.

    Raises InputError for a file that is no MCAP file, or one with compressed chunks (`mcap recover` reads
    those), StorageError when one of them cannot be read or written.
    """
    try:
        with path.open("rb") as file, McapWriter(out) as writer:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path} is no MCAP file")
            return _copy(file, writer)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
    except InputError:
        out.unlink(missing_ok=True)
        raise


def _copy(file: BinaryIO, writer: McapWriter) -> Recovered:
    copy = _Copy(writer)
    while True:
        head = file.read(9)
        opcode, size = struct.unpack("<BQ", head) if len(head) == 9 else (0, 0)
        body = file.read(size) if opcode else b""
        if opcode == FOOTER and len(body) == size:
            return Recovered(writer.messages, True, 0)
        if opcode == CHUNK and (len(body) == size or len(body) > 40):
            left = copy.chunk(body)
        elif opcode and len(body) == size:
            copy.record(opcode, body)
            left = 0
        else:
            left = len(head) + len(body)
        if not opcode or len(body) < size:
            return Recovered(writer.messages, False, left)


class _Copy:
    """Gives each record to the writer once, under the writer's own numbers."""

    def __init__(self, writer: McapWriter) -> None:
        self._writer = writer
        self._schemas: dict[int, int] = {0: 0}
        self._channels: dict[int, int] = {}

    def chunk(self, body: bytes) -> int:
        """All whole records of a chunk that may be cut; returns how many bytes are left over."""
        fields = _Fields(body)
        fields.take(28)  # times, size and checksum
        compression = fields.text()
        if compression:
            raise InputError(f"its chunks are compressed ({compression}); `mcap recover` reads those")
        fields.take(8)
        for opcode, record in _whole(fields):
            self.record(opcode, record)
        return len(body) - fields.place

    def record(self, opcode: int, body: bytes) -> None:
        fields = _Fields(body)
        if opcode == SCHEMA:
            number = fields.number("H")
            if number not in self._schemas:
                name, encoding = fields.text(), fields.text()
                data = fields.take(fields.number("I"))
                self._schemas[number] = self._writer.add_schema(name, encoding, data)
        elif opcode == CHANNEL:
            number, schema = fields.number("H"), fields.number("H")
            if number not in self._channels:
                topic, encoding = fields.text(), fields.text()
                schema = self._schemas.get(schema, 0)
                self._channels[number] = self._writer.add_channel(topic, encoding, schema, fields.map())
        elif opcode == MESSAGE:
            channel, sequence = fields.number("H"), fields.number("I")
            times = fields.number("Q"), fields.number("Q")
            if channel in self._channels:
                self._writer.add_message(self._channels[channel], sequence, *times, body[fields.place :])
        elif opcode == METADATA:
            name = fields.text()
            self._writer.add_metadata(name, fields.map())


def _whole(fields: _Fields) -> Iterator[tuple[int, bytes]]:
    while len(fields.data) - fields.place >= 9:
        opcode, size = struct.unpack_from("<BQ", fields.data, fields.place)
        if fields.place + 9 + size > len(fields.data):
            return
        fields.place += 9
        yield opcode, fields.take(size)
