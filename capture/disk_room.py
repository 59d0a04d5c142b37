"""Whether recordings can be written, and how much room the disk has left for them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from dsp.errors import InputError
from recordings.storage import storage_errors

MIB = 1 << 20


def free_bytes(path: Path) -> int:
    """Room left for us on the disk that holds `path` (or its nearest existing parent)."""
    return shutil.disk_usage(nearest(path)).free


def check_writable(root: Path) -> None:
    """Raise StorageError when `root`, or the nearest parent that exists, takes no new folder.

    It tries: permission bits say nothing to root, on a read-only disk or in /proc.
    """
    with storage_errors(root, "record to"):
        os.rmdir(tempfile.mkdtemp(prefix=".hearth-", dir=nearest(root)))


def check_room(root: Path, min_free_mib: int) -> None:
    """Raise StorageError when nothing can be written at `root`, InputError when the disk has less than
    min_free_mib left."""
    check_writable(root)
    free = free_bytes(root) // MIB
    if free < min_free_mib:
        raise InputError(
            f"{root}: only {free} MiB free, recording starts with at least {min_free_mib}"
            " (`storage.min_free_mib`). Free some room or choose another `storage.folder`."
        )


def nearest(path: Path) -> Path:
    """`path` itself, or its nearest parent that exists."""
    path = path.resolve()
    while not path.exists():
        path = path.parent
    return path
