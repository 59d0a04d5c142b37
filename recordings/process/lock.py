"""One worker at a time at an episode, in any number of drivers.

The lock is the kernel's (flock): it is gone the instant that its owner is, however it ended, and no number of
a process that was given out again can be taken for the owner. The file only says to people who it is.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path

from recordings.storage import StorageError, storage_error


class EpisodeLock:
    """`take` it, then `release` it; as a context manager it is released at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def __enter__(self) -> EpisodeLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self) -> bool:
        """Whether it is ours now; False: somebody alive has it. Raises StorageError."""
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise storage_error(error, self.path, "lock") from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_still_there(fd):
                    os.ftruncate(fd, 0)
                    owner = {"host": socket.gethostname(), "pid": os.getpid()}
                    os.pwrite(fd, json.dumps(owner).encode() + b"\n", 0)
                    self._fd = fd
                    return True
                os.close(fd)  # its last owner removed it in the meantime
            except BlockingIOError:
                os.close(fd)
                return False
            except OSError as error:
                os.close(fd)
                if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise StorageError(
                        f"cannot lock {self.path}: this file system has no locks; give an --out on one that"
                        " has them"
                    ) from None
                raise storage_error(error, self.path, "lock") from error

    def _is_still_there(self, fd: int) -> bool:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        mine = os.fstat(fd)
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def release(self) -> None:
        """Give it back; safe to call twice."""
        if self._fd >= 0:
            with suppress(OSError):
                os.unlink(self.path)
            os.close(self._fd)
            self._fd = -1
