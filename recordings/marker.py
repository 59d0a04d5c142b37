"""RECORDING.json: the mark of an episode that is being written, and whether its writer still lives."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from dsp.errors import HearthError, InputError
from recordings.storage import fsync_folder, storage_errors, utc_now, write_atomic

MARKER = "RECORDING.json"
MANIFEST = "manifest.json"
State = Literal["finished", "interrupted", "recording"]


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _process_start(pid: int) -> str:
    """The start time of a process in clock ticks since boot: tells a reused pid from the first one."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def place_marker(folder: Path) -> None:
    """Mark `folder` as being written by this process. Raises StorageError."""
    pid = os.getpid()
    mark = {"pid": pid, "pid_start": _process_start(pid), "boot_id": _boot_id(), "started_utc": utc_now()}
    write_atomic(folder / MARKER, json.dumps(mark).encode())


def mark_failed(folder: Path, reason: str) -> None:
    """Say that the writer gave up although its process may live on. On a full disk the reason does not fit:
    then the mark is emptied, which needs no room and means the same."""
    try:
        mark = json.loads((folder / MARKER).read_text())
        mark.update(pid=0, failed=reason, failed_utc=utc_now())
        write_atomic(folder / MARKER, json.dumps(mark).encode())
    except (HearthError, OSError, ValueError, AttributeError):
        with suppress(OSError):
            os.truncate(folder / MARKER, 0)


def lost_power(mark: dict[str, Any]) -> bool:
    """Whether the machine that wrote the mark has been started anew since: then the power may have gone, and
    what was not synced with it. Else a dead writer was killed or gave up (a full disk empties the mark), and
    all that it had written is there."""
    return bool(mark.get("boot_id")) and mark.get("boot_id") != _boot_id() and not mark.get("failed")


def remove_marker(folder: Path) -> None:
    """The last step of finishing. Raises StorageError."""
    with storage_errors(folder / MARKER, "remove"):
        (folder / MARKER).unlink(missing_ok=True)
        fsync_folder(folder)


def state_of(folder: Path) -> State:
    """finished: manifest there and no mark. recording: marked by a process that lives. Else interrupted."""
    try:
        text = (folder / MARKER).read_text()
    except FileNotFoundError:
        return "finished" if (folder / MANIFEST).is_file() else "interrupted"
    except OSError:
        return "interrupted"
    try:
        mark = json.loads(text)
        pid = int(mark.get("pid", 0))
    except (ValueError, TypeError, AttributeError):
        return "interrupted"
    if pid <= 0 or mark.get("boot_id") != _boot_id() or not _process_start(pid):
        return "interrupted"
    return "recording" if mark.get("pid_start") == _process_start(pid) else "interrupted"


def is_episode(folder: Path) -> bool:
    """Whether a folder looks like an episode, whole or broken."""
    return any((folder / name).is_file() for name in (MARKER, MANIFEST, "episode.yaml"))


def episodes_below(root: Path) -> list[Path]:
    """The folders of episodes, whole or broken, of a data folder or a session, by path; `root` itself when it
    is one. Raises InputError when `root` is not a folder."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder")
    if is_episode(root):
        return [root]
    return sorted(p for depth in ("*", "*/*") for p in root.glob(depth) if p.is_dir() and is_episode(p))
