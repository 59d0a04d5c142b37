"""How much room the disk has left for recordings."""

from __future__ import annotations

import shutil
from pathlib import Path

from dsp.errors import InputError

_MIB = 1 << 20


def free_bytes(path: Path) -> int:
    """Room left for us on the disk that holds `path` (or its nearest existing parent)."""
    path = path.resolve()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def check_room(root: Path, min_free_mib: int) -> None:
    """Raise InputError when the disk has less than min_free_mib left."""
    free = free_bytes(root) // _MIB
    if free < min_free_mib:
        raise InputError(
            f"{root}: only {free} MiB free, recording starts with at least {min_free_mib}"
            " (`storage.min_free_mib`). Free some room or choose another `storage.folder`."
        )
