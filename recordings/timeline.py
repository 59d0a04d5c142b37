"""timeline.jsonl: one JSON object per line with `type` and `t_ns`; what happened when, on one clock.

Lines (t_ns is CLOCK_MONOTONIC; in an imported episode it counts from the first audio frame):
  anchor  t_utc_ns                                     the pair (monotonic, wall clock)
  audio   t_observed_ns, seq, first_frame, frames, file_frame, lost, flags     one per block
  clock   file_frame, rate_hz, drift_ppm ...           from that frame on, one per piece; made at the end
  frame   seq, index, pts_ms, t_source, dropped        one per picture in the video file, in its order
  gap     stream, cause, and lost_frames + file_frame (audio) or dropped (video)
  event   kind, data                                   anything else that happened
  doa     t_s, azimuth_deg, elevation_deg, confidence, uncertainty_deg, active   one per 100 ms
  track   t_s, track, azimuth_deg, elevation_deg, uncertainty_deg, confidence, coasting   per 100 ms and track
`file_frame` counts frames in foa_48k/ (gaps are not filled there), `first_frame` those of the source.
"""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.storage import StorageError, storage_error, storage_errors, write_all

Line = dict[str, Any]


def encode_line(line: Line) -> bytes:
    """One line of the file, newline included. Numpy numbers become plain ones; NaN becomes null."""
    return (
        json.dumps(_plain(line), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def write_timeline(path: Path, lines: Iterable[Line]) -> None:
    """A whole new timeline. Raises StorageError."""
    timeline = TimelineWriter(path)
    try:
        for line in lines:
            timeline.add(line)
    finally:
        timeline.close()


class TimelineWriter:
    """Appends lines from any thread without waiting for the disk; a thread writes them every `flush_s`.

    After a kill at most `flush_s` of lines is missing. A disk error is kept in `error` and raised by `close`.
    """

    def __init__(self, path: Path, flush_s: float = 0.1, append: bool = False) -> None:
        self.path, self._flush_s = path, flush_s
        self.error: StorageError | None = None
        self._lock = threading.Lock()
        self._pending: list[Line] = []
        self._stop = threading.Event()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if append else os.O_EXCL)
        with storage_errors(path):
            self._fd = os.open(path, flags, 0o644)
        self._thread = threading.Thread(target=self._run, name="hearth-timeline", daemon=True)
        self._thread.start()

    def add(self, line: Line) -> None:
        """Queue one line."""
        with self._lock:
            self._pending.append(line)

    def _run(self) -> None:
        while not self._stop.wait(self._flush_s):
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            lines, self._pending = self._pending, []
        if not lines or self.error:
            return
        data = b"".join(encode_line(line) for line in lines)
        place = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, data)
        except OSError as error:
            self.error = storage_error(error, self.path)
            with suppress(OSError):  # no torn line when the disk is full
                os.ftruncate(self._fd, place)

    def sync(self) -> None:
        """Force what was flushed to the medium."""
        with suppress(OSError):
            os.fsync(self._fd)

    def close(self) -> None:
        """Write what is pending, sync, close. Raises StorageError if any line could not be written."""
        if self._fd < 0:
            return
        self._stop.set()
        self._thread.join()
        self._flush()
        with storage_errors(self.path):
            os.fsync(self._fd)
            os.close(self._fd)
        self._fd = -1
        if self.error:
            raise self.error


@dataclass(frozen=True)
class TimelineFile:
    """The lines that can be read; `torn_bytes` at the end belong to a line that was cut off by a kill."""

    lines: list[Line]
    torn_bytes: int = 0
    problems: tuple[str, ...] = ()


def read_timeline(path: Path) -> TimelineFile:
    """Read timeline.jsonl; tolerant of a torn last line and reporting any other that is not JSON.

    Raises InputError when the file is absent or cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; the episode has no timeline") from None
    except OSError as error:
        raise storage_error(error, path, "read") from error
    whole, newline, torn = data.rpartition(b"\n")
    whole += newline
    lines = _decode_at_once(whole)
    if lines is not None:
        return TimelineFile(lines, len(torn))
    lines, problems = [], []
    rows = whole.splitlines(keepends=True)
    for number, row in enumerate(rows, 1):
        try:
            line = json.loads(row)
        except ValueError:
            line = None
        if _is_line(line):
            lines.append(line)
        elif number == len(rows) and not torn:
            torn = row
        else:
            problems.append(f"{path.name}: line {number} is not an object with type and t_ns")
    return TimelineFile(lines, len(torn), tuple(problems))


def _is_line(value: Any) -> bool:
    return (
        isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("t_ns"), int)
    )


def _decode_at_once(data: bytes) -> list[Line] | None:
    """All lines, when there is nothing wrong with any; None otherwise, also for what only Python's json takes
    (NaN, halves of surrogate pairs). An hour has half a million lines: five times as fast as one by one."""
    collecting = gc.isenabled()
    gc.disable()  # it would look through the growing list again and again: a third of the time
    try:
        found = msgspec.json.Decoder().decode_lines(data)
    except ValueError:
        return None
    finally:
        if collecting:
            gc.enable()
    return found if len(found) == data.count(b"\n") and all(map(_is_line, found)) else None


class AudioMap:
    """Frame of the audio files <-> time in ns, through the gaps; built from a timeline's lines.

    The "clock" lines say it (made when an episode is finished, see recordings.clock_map). Without them, as in
    an episode that is not finished, an import or an old one, the stamps of the blocks do: straight from one
    to the next. Beyond the last line its rate goes on.
    """

    def __init__(self, lines: Iterable[Line], rate_hz: float) -> None:
        self.rate_hz = float(rate_hz)
        blocks, clocks = [], []
        for line in lines:
            if line["type"] == "audio":
                blocks.append(line)
            elif line["type"] == "clock":
                clocks.append(line)
        pieces = clocks or blocks
        self._frames = np.array([line["file_frame"] for line in pieces], np.int64)
        self._times = np.array([line["t_ns"] for line in pieces], np.int64)
        if clocks:
            self._rates = np.array([line["rate_hz"] for line in clocks], np.float64)
            self._counts = np.diff(self._frames, append=1 << 62)
        else:
            self._rates = np.full(len(blocks), self.rate_hz)
            self._counts = np.array([line["frames"] for line in blocks], np.int64)

    def time_ns(self, file_frame: NDArray[Any] | float) -> NDArray[np.int64]:
        """Times of frames, shape as given, int64 ns; without any audio line frame 0 is at 0."""
        frames = np.asarray(file_frame, np.float64)
        if not len(self._frames):
            return np.round(frames * (1e9 / self.rate_hz)).astype(np.int64)
        piece = np.clip(np.searchsorted(self._frames, frames, side="right") - 1, 0, len(self._frames) - 1)
        offset = (frames - self._frames[piece]) * (1e9 / self._rates[piece])
        return self._times[piece] + np.round(offset).astype(np.int64)

    def file_frame(self, t_ns: NDArray[Any] | int) -> NDArray[np.float64]:
        """The inverse: place in the sound files of times, shape as given; within a gap it stands still."""
        t = np.asarray(t_ns, np.int64)
        if not len(self._frames):
            return np.asarray(t * (self.rate_hz * 1e-9), np.float64)
        piece = np.clip(np.searchsorted(self._times, t, side="right") - 1, 0, len(self._times) - 1)
        ahead = (t - self._times[piece]) * (self._rates[piece] * 1e-9)
        inside = np.minimum(ahead, self._counts[piece])
        return np.asarray(self._frames[piece] + np.where(piece == len(self._times) - 1, ahead, inside))
