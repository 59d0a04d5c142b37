"""Writing MCAP files (mcap.dev, format version 1.0) that can be read after a kill at any instant.

Messages go into uncompressed chunks, because the large ones are JPEG or noise already. A chunk is closed when
it is full or old, and handed to the system at once; once a second it is forced to the medium. So a killed
process loses at most the chunk that was open. A file without its end has no index, which readers that need
one can rebuild (`mcap recover`); the others read it from the front.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from dsp.errors import InputError
from recordings.storage import StorageError

MAGIC = b"\x89MCAP0\r\n"
CHUNK_BYTES = 1 << 20
CHUNK_S = 0.25
SYNC_S = 1.0
LIBRARY = "hearth"

HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK = 1, 2, 3, 4, 5, 6
MESSAGE_INDEX, CHUNK_INDEX, STATISTICS, METADATA, METADATA_INDEX = 7, 8, 11, 12, 13
SUMMARY_OFFSET, DATA_END = 14, 15


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8")
    return struct.pack("<I", len(encoded)) + encoded


def _map(values: Mapping[str, str]) -> bytes:
    body = b"".join(_text(key) + _text(value) for key, value in values.items())
    return struct.pack("<I", len(body)) + body


def _record(opcode: int, *parts: bytes) -> bytes:
    return struct.pack("<BQ", opcode, sum(map(len, parts))) + b"".join(parts)


@dataclass(slots=True)
class _Chunk:
    """Records that were not written yet, and where each message lies in them."""

    records: bytearray = field(default_factory=bytearray)
    index: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # channel -> (log time, offset)
    began: float = 0.0
    first_ns: int = 0
    last_ns: int = 0


class McapWriter:
    """One MCAP file being written.

    path:     must not exist (StorageError).
    profile:  of the MCAP header; empty for none.

    Thread-safe. Raises StorageError when the disk is full or the file cannot be written; what was written
    before stays readable. Use as a context manager, or call `close`, which writes the index.
    """

    def __init__(self, path: Path, profile: str = "", chunk_bytes: int = CHUNK_BYTES) -> None:
        self.path = path
        self.messages = 0
        self._chunk_bytes = chunk_bytes
        self._lock = threading.Lock()
        self._chunk = _Chunk()
        self._schemas: dict[int, bytes] = {}
        self._channels: dict[int, bytes] = {}
        self._counts: dict[int, int] = {}
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[bytes] = []
        self._first_ns: int | None = None
        self._last_ns = 0
        self._written = 0
        self._synced = time.monotonic()
        self._closed = False
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise StorageError(f"{path} cannot be made: {error.strerror}; give a new file's name") from None
        self._write(MAGIC + _record(HEADER, _text(profile), _text(LIBRARY)))

    def __enter__(self) -> McapWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size_bytes(self) -> int:
        """Bytes in the file so far, with the chunk that is still open."""
        return self._written + len(self._chunk.records)

    def add_schema(self, name: str, encoding: str, data: bytes) -> int:
        """Declare a schema; returns its id for `add_channel`."""
        with self._lock:
            number = len(self._schemas) + 1
            body = struct.pack("<H", number) + _text(name) + _text(encoding)
            record = _record(SCHEMA, body, struct.pack("<I", len(data)), data)
            self._schemas[number] = record
            self._chunk.records += record
            return number

    def add_channel(self, topic: str, encoding: str, schema: int, metadata: Mapping[str, str]) -> int:
        """Declare a channel of messages with a schema; returns its id for `add_message`."""
        with self._lock:
            number = len(self._channels) + 1
            head = struct.pack("<HH", number, schema)
            record = _record(CHANNEL, head, _text(topic), _text(encoding), _map(metadata))
            self._channels[number] = record
            self._chunk.records += record
            return number

    def add_message(self, channel: int, sequence: int, log_ns: int, publish_ns: int, data: bytes) -> None:
        """Append a message. Times are ns since 1970; `sequence` is kept modulo 2^32.

        Raises InputError for a time before 1970 or a channel that was not declared, StorageError.
        """
        if min(log_ns, publish_ns) < 0:
            raise InputError(f"MCAP has no times before 1970: {min(log_ns, publish_ns)} ns")
        with self._lock:
            if channel not in self._channels:
                raise InputError(f"channel {channel} was not declared")
            if self._closed:
                raise StorageError(f"{self.path} is closed")
            chunk = self._chunk
            if not chunk.index:
                chunk.began, chunk.first_ns, chunk.last_ns = time.monotonic(), log_ns, log_ns
            chunk.first_ns, chunk.last_ns = min(chunk.first_ns, log_ns), max(chunk.last_ns, log_ns)
            chunk.index.setdefault(channel, []).append((log_ns, len(chunk.records)))
            head = struct.pack("<HIQQ", channel, sequence & 0xFFFFFFFF, log_ns, publish_ns)
            chunk.records += struct.pack("<BQ", MESSAGE, len(head) + len(data))
            chunk.records += head
            chunk.records += data
            self.messages += 1
            self._counts[channel] = self._counts.get(channel, 0) + 1
            self._first_ns = log_ns if self._first_ns is None else min(self._first_ns, log_ns)
            self._last_ns = max(self._last_ns, log_ns)
            if len(chunk.records) >= self._chunk_bytes or time.monotonic() - chunk.began >= CHUNK_S:
                self._end_chunk()

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Append named facts about the recording."""
        with self._lock:
            self._end_chunk()
            record = _record(METADATA, _text(name), _map(values))
            place = struct.pack("<QQ", self._written, len(record))
            self._metadata_indexes.append(_record(METADATA_INDEX, place, _text(name)))
            self._write(record)

    def flush(self) -> None:
        """Hand the open chunk to the system now. Called often enough, it bounds what a kill can cost."""
        with self._lock:
            if not self._closed:
                self._end_chunk()

    def close(self) -> None:
        """Write the index and close; safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._end_chunk()
                self._write(self._end())
                os.fsync(self._file.fileno())
            except OSError as error:
                raise StorageError(f"{self.path} could not be finished: {error.strerror}") from None
            finally:
                self._file.close()

    def _end_chunk(self) -> None:
        chunk, self._chunk = self._chunk, _Chunk()
        if not chunk.records:
            return
        size = len(chunk.records)
        times = struct.pack("<QQ", chunk.first_ns, chunk.last_ns)
        sizes = struct.pack("<QI", size, zlib.crc32(chunk.records)) + _text("") + struct.pack("<Q", size)
        start = self._written
        record = _record(CHUNK, times, sizes, bytes(chunk.records))
        places, indexes = {}, b""
        for channel, entries in chunk.index.items():
            places[channel] = start + len(record) + len(indexes)
            packed = b"".join(struct.pack("<QQ", *entry) for entry in entries)
            indexes += _record(MESSAGE_INDEX, struct.pack("<HI", channel, len(packed)), packed)
        offsets = b"".join(struct.pack("<HQ", channel, place) for channel, place in places.items())
        self._chunk_indexes.append(
            _record(
                CHUNK_INDEX,
                times,
                struct.pack("<QQI", start, len(record), len(offsets)),
                offsets,
                struct.pack("<Q", len(indexes)) + _text("") + struct.pack("<QQ", size, size),
            )
        )
        self._write(record + indexes)
        if time.monotonic() - self._synced >= SYNC_S:
            self._synced = time.monotonic()
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise StorageError(f"{self.path} cannot be written: {error.strerror}") from None

    def _end(self) -> bytes:
        """Everything after the last chunk: end of data, summary with its offsets, footer."""
        data_end = _record(DATA_END, struct.pack("<I", 0))
        counts = b"".join(struct.pack("<HQ", *item) for item in self._counts.items())
        statistics = _record(
            STATISTICS,
            struct.pack("<QHIIII", self.messages, len(self._schemas), len(self._channels), 0,
                        len(self._metadata_indexes), len(self._chunk_indexes)),
            struct.pack("<QQI", self._first_ns or 0, self._last_ns, len(counts)),
            counts,
        )  # fmt: skip
        groups = (
            (SCHEMA, b"".join(self._schemas.values())),
            (CHANNEL, b"".join(self._channels.values())),
            (STATISTICS, statistics),
            (CHUNK_INDEX, b"".join(self._chunk_indexes)),
            (METADATA_INDEX, b"".join(self._metadata_indexes)),
        )
        start = self._written + len(data_end)
        summary, offsets = b"", b""
        for opcode, records in groups:
            if records:
                place = struct.pack("<BQQ", opcode, start + len(summary), len(records))
                offsets += _record(SUMMARY_OFFSET, place)
                summary += records
        footer = struct.pack("<BQQQ", FOOTER, 20, start, start + len(summary))
        checksum = zlib.crc32(summary + offsets + footer)
        return data_end + summary + offsets + footer + struct.pack("<I", checksum) + MAGIC

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                done = self._file.write(view)
            except OSError as error:
                # Half a record in the middle would hide everything after it.
                with contextlib.suppress(OSError):
                    self._file.truncate(self._written)
                    self._file.seek(self._written)
                raise StorageError(f"{self.path} cannot be written: {error.strerror}") from None
            view = view[done or 0 :]
        self._written += len(data)
