"""The journal of a session, written: one line per step, on the medium before anything goes on."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from dsp.errors import InputError
from recordings.session_journal import JOURNAL, STEPS, Journal, Line, read_journal
from recordings.storage import StorageError, fsync_folder, storage_error, storage_errors, utc_now, write_all
from recordings.timeline import encode_line

__all__ = ["JOURNAL", "Journal", "JournalWriter", "read_journal"]


class JournalWriter:
    """Appends to `<session>/session.jsonl`; `journal` is what it says so far. One process at a time.

    Raises InputError when another session writes into the folder or the journal cannot be read, StorageError
    when it cannot be written. A torn last line is cut off.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self._adding = threading.Lock()
        with storage_errors(folder, "create"):
            folder.mkdir(parents=True, exist_ok=True)
        with storage_errors(self.path):
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self.journal = read_journal(folder)
            if self.journal.torn_bytes:
                with storage_errors(self.path):
                    os.ftruncate(self._fd, os.fstat(self._fd).st_size - self.journal.torn_bytes)
                    os.fsync(self._fd)
            fsync_folder(folder)
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however it ends
        except BlockingIOError:
            raise InputError(
                f"{self.path.parent}: another `hearth session` records into this session; end it first, or"
                " give this one another --session"
            ) from None
        except OSError as error:
            raise storage_error(error, self.path, "lock") from error

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, step: str, **fields: Any) -> Line:
        """Write one step; it is on the medium when this returns. Raises StorageError: then it does not count
        (nothing of it is left, unless the file cannot even be cut)."""
        assert step in STEPS, step
        line = {"step": step, "t_utc": utc_now(), **fields}
        with self._adding:
            place = os.fstat(self._fd).st_size
            try:
                write_all(self._fd, encode_line(line))
                os.fsync(self._fd)
            except OSError as error:
                try:
                    os.ftruncate(self._fd, place)
                except OSError as second:
                    raise StorageError(f"cannot write {self.path}: {error}; nor cut it: {second}") from error
                raise storage_error(error, self.path) from error
            self.journal.add(line)
        return line

    def close(self) -> None:
        """Give the file back; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
