"""Is an episode's folder still where the take began? Open files go on being written after it is moved."""

from __future__ import annotations

import os
from pathlib import Path

from recordings.marker import MARKER
from recordings.storage import StorageError


class FolderWatch:
    """Remembers what a running episode's folder and its sound and timeline files are, to see them go."""

    def __init__(self, path: Path) -> None:
        """path: the folder of the episode that is being written."""
        self._path = path
        self._known: dict[Path, tuple[int, int]] = {path: _identity(path)}
        self.check()

    def check(self) -> None:
        """Raise StorageError when the folder, its mark or a file written so far is gone or another one."""
        for path, identity in self._known.items():
            self._compare(path, identity)
        self._compare(self._path / MARKER, None)
        # New segments come while the take runs. A name with a dot is one whose header is not whole yet.
        for pattern in ("timeline.jsonl", "*/*.wav"):
            for path in self._path.glob(pattern):
                if path not in self._known and not path.name.startswith("."):
                    self._known[path] = _identity(path)

    def _compare(self, path: Path, identity: tuple[int, int] | None) -> None:
        try:
            now = _identity(path)
        except OSError:
            now = None
        if now is None or (identity is not None and now != identity):
            raise StorageError(
                f"{path} was moved, removed or replaced during the take: the recording was stopped. If the"
                f" folder of {self._path.name} is somewhere else now, `hearth repair` finishes it there"
            )


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
