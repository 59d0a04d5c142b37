"""Deletes and rewrites what was judged; can be killed at any point and run again.

Before a file is rewritten its hash goes into the work file, so that whoever names the old hash (a manifest,
checksums, provenance, a log of reviews) can be given the new one, in this run or the next.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.consent.contents import TREES, repack
from recordings.consent.judge import CHECKSUMS, REEXPORT, RELEASE_JSON, Outcome, Step
from recordings.consent.provenance import PROVENANCE
from recordings.consent.survey import Found, Survey, files_below
from recordings.consent.traces import Traces
from recordings.manifest import write_manifest
from recordings.marker import MANIFEST
from recordings.storage import fsync_folder, sha256_file, storage_errors, write_atomic

_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_NAMES_HASHES = TREES | {".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".sha256"}


@dataclass
class Work:
    """What a run has to do, on disk until all of it is done (mode 600).

    folders: episodes that go. touched: file -> the hashes that it had before it was rewritten. members: of
    archives, hash before -> hash now. roots: every folder that was looked through so far.
    """

    path: Path
    traces: Traces
    folders: set[str] = field(default_factory=set)
    touched: dict[str, list[str]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    begun: bool = False  # the audit record says so

    def save(self) -> None:
        """Raises StorageError."""
        with storage_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.chmod(self.path.parent, 0o700)
        plain = {
            "hearth_withdrawal": 1,
            "traces": self.traces.to_dict(),
            "folders": sorted(self.folders),
            "touched": self.touched,
            "members": self.members,
            "roots": sorted(self.roots),
            "begun": self.begun,
        }
        write_atomic(self.path, json.dumps(plain).encode(), mode=0o600)

    @classmethod
    def load(cls, path: Path) -> Work:
        """Raises InputError for a file that is none."""
        try:
            plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                path,
                Traces.from_dict(plain["traces"]),
                set(plain["folders"]),
                {name: list(hashes) for name, hashes in plain["touched"].items()},
                {str(old): str(new) for old, new in plain["members"].items()},
                set(plain["roots"]),
                bool(plain["begun"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: is no list of work of a withdrawal: {error}") from None

    def touch(self, paths: Iterable[Path]) -> None:
        """Note the hashes of files that are about to be rewritten."""
        for path in paths:
            hashes = self.touched.setdefault(str(path), [])
            digest = sha256_file(path)
            if digest not in hashes:
                hashes.append(digest)
        self.save()

    def of_before(self) -> dict[str, str]:
        """Hash before -> hash now, of what was rewritten."""
        now = dict(self.members)
        for name, hashes in self.touched.items():
            if Path(name).is_file():
                digest = sha256_file(Path(name))
                now.update((old, digest) for old in hashes if old != digest)
        return now


def carry_out(
    steps: list[Step], work: Work, outcome: Outcome, advance: Callable[[float], None] = lambda _: None
) -> None:
    """Delete and rewrite. Releases that lose files of others too are marked first. Raises StorageError."""
    for step in steps:
        work.members.update(step.verdict.renewed)
    work.touch(step.path for step in steps if not step.path.is_symlink())
    short: dict[Path, list[str]] = {}
    for step in steps:
        if step.release is not None and _makes_it_short(step):
            missing = short.setdefault(step.release, [])
            if step.verdict.action == "remake":
                missing.append(step.path.relative_to(step.release).as_posix())
    for root, missing in short.items():
        _mark(root, missing, work.traces)
    for step in steps:
        if step.verdict.action == "mark":
            continue
        with suppress(FileNotFoundError):
            outcome.bytes += step.path.lstat().st_size
        if step.verdict.action == "rewrite":
            _rewrite(step)
        else:
            delete(step.path, work.roots)
        advance(1)


def _makes_it_short(step: Step) -> bool:
    """Whether a release (or a file of its own) has to be made again after this step."""
    return step.verdict.action in ("remake", "mark") or (
        step.release is not None and step.path == step.release / RELEASE_JSON
    )


def tell(steps: list[Step], outcome: Outcome) -> None:
    """Note in the outcome what is done with each file."""
    for step in steps:
        action = step.verdict.action
        if action != "mark":
            (outcome.rewritten if action == "rewrite" else outcome.deleted).append(str(step.path))
        if _makes_it_short(step):
            root = str(step.release or step.path)
            if root not in outcome.re_export:
                outcome.re_export.append(root)


def _mark(root: Path, missing: list[str], traces: Traces) -> None:
    path = root / REEXPORT
    before: list[str] = []
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = list(json.loads(path.read_text(encoding="utf-8"))["missing"])
    names = traces.name_pattern()
    told = {name if names is None else names.sub(traces.pseudonym, name) for name in (*before, *missing)}
    content = {
        "hearth_reexport": 1,
        "why": "a person withdrew, or a date of deletion came: this release is not whole; export it again",
        "date": date.today().isoformat(),
        "missing": sorted(told),
    }
    write_atomic(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def tidy_releases(found: Survey, work: Work) -> None:
    """Releases that are marked: what was deleted leaves their checksums and provenance, and the mark goes
    into the checksums. Raises StorageError."""
    for root in found.releases:
        if not (root / REEXPORT).is_file():
            continue
        for name in (PROVENANCE, CHECKSUMS):
            path = root / name
            if not path.is_file():
                continue
            text = path.read_text(encoding="utf-8")
            rows = [row for row in text.splitlines() if _is_there(root, name, row)]
            if name == CHECKSUMS:
                rows = [row for row in rows if row[66:] != REEXPORT]
                rows = sorted(
                    [*rows, f"{sha256_file(root / REEXPORT)}  {REEXPORT}"], key=lambda row: row[66:]
                )
            fresh = "".join(f"{row}\n" for row in rows)
            if fresh != text:
                work.touch([path])
                write_atomic(path, fresh.encode())


def _is_there(root: Path, name: str, row: str) -> bool:
    """Whether the file that a line of provenance or checksums is about still is there."""
    try:
        output = row[66:] if name == CHECKSUMS else json.loads(row)["output"]
        return (root / str(output)).is_file()
    except (ValueError, KeyError, TypeError):
        return True  # no line of ours: nobody's to take out


def delete(path: Path, keep: Iterable[str] = ()) -> None:
    """Delete a file or link, and folders that are empty then, up to a release's root or one of `keep`."""
    with storage_errors(path, "delete"):
        path.unlink(missing_ok=True)
        folder = path.parent
        while folder != folder.parent:
            if str(folder) in keep or (folder / PROVENANCE).exists():
                break
            try:
                folder.rmdir()
            except OSError:
                break
            folder = folder.parent
    fsync_folder(folder)


def _rewrite(step: Step) -> None:
    path, verdict = step.path, step.verdict
    mode = path.stat().st_mode & 0o777
    if verdict.data is not None:
        write_atomic(path, verdict.data, mode=mode)
        return
    temporary = path.with_name(f".withdrawn.part{''.join(path.suffixes[-2:])}")
    with storage_errors(path):
        try:
            repack(path, temporary, verdict)
            os.chmod(temporary, mode)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(path.parent)


def delete_episodes(episodes: Iterable[Found], work: Work, outcome: Outcome) -> None:
    """Delete whole folders; also what an earlier run left of one. Raises StorageError."""
    for folder in sorted({*(episode.path for episode in episodes), *map(Path, work.folders)}):
        if not folder.is_dir():
            continue
        for path in files_below(folder):
            outcome.bytes += path.lstat().st_size
        with storage_errors(folder, "delete"):
            shutil.rmtree(folder)
        fsync_folder(folder.parent)


def give_new_hashes(found: Survey, going: Iterable[Found], work: Work, outcome: Outcome) -> None:
    """Seal other people's episodes again whose text was rewritten, and replace old hashes by new ones in
    every text file that names them, until nothing names an old one. Raises StorageError."""
    folders = {episode.path for episode in going}
    episodes = [e.path for e in found.episodes if e.path not in folders]
    files = [path for path in found.files if path.suffix.lower() in _NAMES_HASHES]
    for folder in episodes:
        files += [path for path in files_below(folder) if path.suffix.lower() in _NAMES_HASHES]
    for _ in range(20):
        changed = [folder for folder in episodes if _unsealed(folder, work)]
        work.touch(folder / MANIFEST for folder in changed)
        for folder in changed:
            write_manifest(folder)
        now = work.of_before()
        stale = [path for path in files if path.is_file() and path.name != MANIFEST and _names(path, now)]
        if not stale and not changed:
            return
        work.touch(stale)
        for path in stale:
            text = path.read_text(encoding="utf-8")
            for old in {hit.group() for hit in _HEX.finditer(text)} & set(now):
                text = text.replace(old, now[old])
            write_atomic(path, text.encode(), mode=path.stat().st_mode & 0o777)
            if str(path) not in outcome.rewritten:
                outcome.rewritten.append(str(path))


def _unsealed(folder: Path, work: Work) -> bool:
    """Whether a file of a finished episode was rewritten and its manifest does not say so yet."""
    touched = [Path(name) for name in work.touched if folder in Path(name).parents]
    if not touched or not (folder / MANIFEST).is_file():
        return False
    listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    for path in touched:
        name = path.relative_to(folder).as_posix()
        if name == MANIFEST:
            continue
        if path.is_file() != (name in listed) or (
            path.is_file() and listed[name]["sha256"] != sha256_file(path)
        ):
            return True
    return False


def _names(path: Path, now: dict[str, str]) -> bool:
    if not now:
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(hit.group() in now for hit in _HEX.finditer(text))
