"""Where the result of one episode lies, and whether it is there.

<out>/process.json                               which step this folder is for
<out>/<session>/<episode>/                       the files of the step, its result.json, and .done.json
<out>/results.jsonl, provenance.jsonl            all result.json; which file was made of which episode
<out>/.process/locks, failures, executions-*     who works where, what failed, what was run when
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.manifest import read_manifest
from recordings.marker import MANIFEST, is_episode, state_of
from recordings.process.step import Step
from recordings.session_journal import JOURNAL, read_journal
from recordings.storage import StorageError, fsync_folder, sha256_file, storage_errors, utc_now, write_atomic

DONE = ".done.json"
RESULT = "result.json"
STATE = ".process"


def canonical(value: Any) -> bytes:
    """JSON that depends on the value alone, with a line end."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


@dataclass(frozen=True)
class Place:
    """An episode and the places of its result below `out`."""

    episode: Path
    out: Path

    @property
    def name(self) -> str:
        """`<session>/<episode>`: the names of its folders."""
        return f"{self.episode.parent.name}/{self.episode.name}"

    @property
    def target(self) -> Path:
        return self.out / self.name

    @property
    def part(self) -> Path:
        """Where the step works; becomes `target` by a rename."""
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def lock(self) -> Path:
        return self.out / STATE / "locks" / f"{self.name}.lock"

    @property
    def failures(self) -> Path:
        return self.out / STATE / "failures" / f"{self.name}.jsonl"

    def key(self, step: Step) -> str:
        """SHA-256 of all that the result depends on: the step with its version and parameters, and the
        content of every file of the episode, by its manifest.

        Raises InputError for an episode that is not finished, or whose files have not the sizes of the
        manifest (their content is for `hearth verify`).
        """
        state = state_of(self.episode)
        if state != "finished":
            raise InputError(f"{self.episode}: is {state}, not finished")
        files = read_manifest(self.episode)
        for name, entry in files.items():
            try:
                size = (self.episode / name).stat().st_size
            except OSError as error:
                raise InputError(f"{self.episode / name}: cannot be read: {error.strerror}") from None
            if size != entry["bytes"]:
                raise InputError(
                    f"{self.episode / name}: has {size} bytes, the manifest says {entry['bytes']};"
                    " `hearth verify` tells more"
                )
        content = {name: entry["sha256"] for name, entry in files.items()}
        return hashlib.sha256(canonical({"step": step.identity(), "files": content})).hexdigest()

    def is_done(self, key: str) -> bool:
        """Whether the result of this key is there, with all its files in full."""
        try:
            done = json.loads((self.target / DONE).read_text(encoding="utf-8"))
            if done["key"] != key:
                return False
            return all(
                (self.target / name).stat().st_size == entry["bytes"] for name, entry in done["files"].items()
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def begin(self) -> Path:
        """An empty folder to work in. Raises StorageError."""
        with storage_errors(self.part, "create"):
            shutil.rmtree(self.part, ignore_errors=True)
            self.part.mkdir(parents=True)
        return self.part

    def commit(self, step: Step, key: str, result: Any) -> None:
        """Make what is in `part` the result: on disk in full, .done.json last, then one rename.

        Raises StorageError, also when an episode has this name in `out`: nothing of ours is there to replace.
        """
        if is_episode(self.target):
            raise StorageError(f"{self.target}: is an episode, and would be replaced; give another --out")
        if result is not None:
            write_atomic(self.part / RESULT, canonical(result))
        files = {}
        for path in sorted(p for p in self.part.rglob("*") if p.is_file()):
            name = path.relative_to(self.part).as_posix()
            with storage_errors(path):
                _fsync(path)
                files[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        done = {
            "hearth_done": 1,
            "key": key,
            "episode": self.name,
            **step.identity(),
            "files": files,
            "manifest": sha256_file(self.episode / MANIFEST),
            "sources": {name: entry["sha256"] for name, entry in read_manifest(self.episode).items()},
        }
        write_atomic(self.part / DONE, canonical(done))
        with storage_errors(self.target, "replace"):
            if self.target.exists():
                old = self.target.with_name(f".{self.target.name}.old")
                shutil.rmtree(old, ignore_errors=True)
                self.target.rename(old)
                self.part.rename(self.target)
                shutil.rmtree(old, ignore_errors=True)
            else:
                self.part.rename(self.target)
            fsync_folder(self.target.parent)

    def clear(self) -> None:
        """Remove what a step left that did not end well."""
        shutil.rmtree(self.part, ignore_errors=True)

    def log(self, event: str, key: str, **more: Any) -> None:
        """Append a line about an execution. One file per computer: appending is one step only there."""
        path = self.out / STATE / f"executions-{socket.gethostname()}.jsonl"
        _append(path, {"utc": utc_now(), "event": event, "episode": self.name, "key": key, **more})

    def tried(self, key: str) -> list[dict[str, Any]]:
        """What failed before with this key: kind, reason, output."""
        try:
            lines = self.failures.read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # torn by a kill
                continue
            if isinstance(entry, dict) and entry.get("key") == key:
                found.append(entry)
        return found

    def note_failure(self, key: str, kind: str, reason: str, output: str) -> None:
        """Remember a try that failed. Raises StorageError."""
        entry = {"utc": utc_now(), "key": key, "kind": kind, "reason": reason, "output": output}
        with storage_errors(self.failures):
            self.failures.parent.mkdir(parents=True, exist_ok=True)
        _append(self.failures, entry)

    def forget_failures(self) -> None:
        """Raises StorageError."""
        with storage_errors(self.failures, "remove"):
            self.failures.unlink(missing_ok=True)


def _append(path: Path, entry: dict[str, Any]) -> None:
    line = json.dumps(entry).encode() + b"\n"
    with storage_errors(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def find_places(data: Iterable[Path], out: Path) -> list[Place]:
    """The episodes in episode, session and data folders, by name; each once.

    Raises InputError for a folder that is not there or holds none, for episodes that lie in `out`, and for
    two whose results would have one name.
    """
    found: dict[str, Place] = {}
    for root in data:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder; give an episode, a session or a data folder")
        count = 0
        for path in _episodes(root):
            count += 1
            if path.is_relative_to(out):
                raise InputError(f"--out {out}: holds the episode {path}; give a folder of its own")
            place = Place(path, out)
            same = found.setdefault(place.name, place)
            if same.episode != path:
                raise InputError(
                    f"{path} and {same.episode} are both called {place.name}; process them into two folders"
                )
        if not count:
            raise InputError(f"{root}: holds no episode")
    return [found[name] for name in sorted(found)]


def _episodes(root: Path) -> Iterator[Path]:
    root = root.resolve()
    if is_episode(root):
        yield root
        return
    for depth in ("*", "*/*"):
        yield from (p for p in root.glob(depth) if p.name[0] != "." and p.is_dir() and is_episode(p))


def kept_places(places: Iterable[Place], data: Iterable[Path]) -> tuple[list[Place], int]:
    """Without the takes that guided sessions did not keep, by their journals, and how many those are.

    An episode that `data` names itself stays. Raises InputError for a journal that cannot be read.
    """
    named = {root.resolve() for root in data if is_episode(root)}
    kept: dict[Path, set[str] | None] = {}
    found, left_out = [], 0
    for place in places:
        session = place.episode.parent
        if session not in kept:
            guided = (session / JOURNAL).is_file()
            kept[session] = set(read_journal(session).kept.values()) if guided else None
        names = kept[session]
        if names is None or place.episode.name in names or place.episode in named:
            found.append(place)
        else:
            left_out += 1
    return found, left_out
