"""audit.jsonl: what was done about consent, a line each, chained by hashes so that a later change shows.

Each line holds `prev`, the hash of the line before it, and `hash`, the SHA-256 over `prev` and the line's own
content. Persons appear by pseudonym only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.storage import fsync_folder, storage_errors, utc_now, write_all

FIRST = "0" * 64  # `prev` of the first line


@dataclass(frozen=True)
class Head:
    """Where a chain ends: the number of its lines and the hash of the last one."""

    lines: int
    hash: str


def _hash(prev: str, entry: dict[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(f"{prev}\n{text}".encode()).hexdigest()


def read_audit(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """(lines whose chain holds, problems). A last line without its end was cut off by a crash: not a line.

    Raises StorageError.
    """
    if not path.exists():
        return [], []
    with storage_errors(path, "read"):
        data = path.read_bytes()
    lines: list[dict[str, Any]] = []
    prev = FIRST
    for number, raw in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            line = json.loads(raw)
            entry = {key: value for key, value in line.items() if key not in ("prev", "hash")}
            if line["prev"] != prev or line["hash"] != _hash(prev, entry) or line["n"] != number:
                raise ValueError("its hash does not fit")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else error
            return lines, [f"{path.name}, line {number}: changed after it was written ({why})"]
        lines.append(line)
        prev = line["hash"]
    return lines, []


def head_of(lines: list[dict[str, Any]]) -> Head:
    """The end of a chain."""
    return Head(len(lines), lines[-1]["hash"] if lines else FIRST)


def missing_from(lines: list[dict[str, Any]], known: Head) -> list[str]:
    """What a chain lacks of the end that is known elsewhere; more lines may follow."""
    if len(lines) < known.lines:
        return [f"audit.jsonl has {len(lines)} lines; people.yaml knows of {known.lines}"]
    if known.lines and lines[known.lines - 1]["hash"] != known.hash:
        return [f"audit.jsonl, line {known.lines}: is not the one that people.yaml knows"]
    return []


def append_audit(path: Path, action: str, *, known: Head, **facts: Any) -> Head:
    """Append one line and force it to the medium; gives the new end of the chain.

    What a crash left of a half-written last line is cut off first. Raises InputError when the chain does not
    hold or lacks what is `known` of it (nothing is appended to a changed record: that would hide the change),
    StorageError.
    """
    lines, problems = read_audit(path)
    problems = problems or missing_from(lines, known)
    if problems:
        raise InputError(f"{problems[0]}; look at it with `hearth consent check` and keep a copy")
    head = head_of(lines)
    entry = {"n": head.lines + 1, "utc": utc_now(), "action": action, **facts}
    line = {**entry, "prev": head.hash, "hash": _hash(head.hash, entry)}
    text = (json.dumps(line, ensure_ascii=False) + "\n").encode()
    with storage_errors(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            size = os.fstat(fd).st_size
            whole = os.pread(fd, size, 0).rfind(b"\n") + 1
            if whole < size:
                os.ftruncate(fd, whole)
            os.lseek(fd, whole, os.SEEK_SET)
            write_all(fd, text)
            os.fsync(fd)
        finally:
            os.close(fd)
        fsync_folder(path.parent)
    return Head(line["n"], line["hash"])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer at a time in a consent folder; a second one waits. Raises StorageError."""
    import fcntl

    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
