"""outputs.jsonl: where exports and processed results of a data folder were written, so that a withdrawal
looks there by itself. A line each: absolute path, what, when."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dsp.errors import InputError
from recordings.consent.audit import locked
from recordings.storage import StorageError, fsync_folder, storage_errors, utc_now, write_all

FOLDER = "consent"
OUTPUTS = "outputs.jsonl"
_BESIDE = (".partial", ".old")  # of an export that was cut off


@dataclass(frozen=True)
class Noted:
    """here: folders that are there, to be searched. missing: noted, and not there any more."""

    here: tuple[Path, ...]
    missing: tuple[Path, ...]


def note_outputs(episodes: Iterable[Path], out: Path, what: str) -> None:
    """Note `out` in the data folder (`<data>/<session>/<episode>`) of each episode, before it is written.

    Where that cannot be done (read-only), it is said on stderr: a withdrawal will not know of it.
    """
    place = Path(os.path.abspath(out))
    for data in sorted({episode.resolve().parent.parent for episode in episodes}):
        try:
            _note(data / FOLDER, str(place), what)
        except (StorageError, InputError, OSError) as error:
            print(
                f"warning: {error}; so `hearth consent withdraw` will not find {place} by itself:"
                f" give it --also {place}",
                file=sys.stderr,
                flush=True,
            )


def _note(folder: Path, place: str, what: str) -> None:
    path = folder / OUTPUTS
    if place in _read(path):
        return
    line = {"out": place, "what": what, "utc": utc_now()}
    with locked(folder), storage_errors(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            size = os.fstat(fd).st_size
            whole = os.pread(fd, size, 0).rfind(b"\n") + 1
            os.ftruncate(fd, whole)  # what a crash left of a line
            os.lseek(fd, whole, os.SEEK_SET)
            write_all(fd, (json.dumps(line) + "\n").encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        fsync_folder(folder)


def _read(path: Path) -> list[str]:
    """The places noted, each once. Raises InputError for a line that is none, StorageError."""
    if not path.exists():
        return []
    with storage_errors(path, "read"):
        lines = path.read_bytes().split(b"\n")[:-1]
    found: dict[str, None] = {}
    for number, line in enumerate(lines, start=1):
        try:
            place = json.loads(line)["out"]
            if not isinstance(place, str) or not os.path.isabs(place):
                raise ValueError("'out' is no absolute path")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: {error}; mend or remove that line, and give its folder with --also"
            ) from None
        found[place] = None
    return list(found)


def noted_outputs(data: Path) -> Noted:
    """Which noted folders are there. Raises InputError, StorageError.

    An export that was cut off, or is being replaced, lies beside its name.
    """
    here: list[Path] = []
    missing: list[Path] = []
    for text in _read(data / FOLDER / OUTPUTS):
        place = Path(text)
        every = [place, *(place.with_name(place.name + end) for end in _BESIDE)]
        there = [one for one in every if one.is_dir()]
        here += there
        if not there:
            missing.append(place)
    return Noted(tuple(here), tuple(missing))
