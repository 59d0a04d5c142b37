"""A whole folder of sound and video files becomes episodes, each take once however often it is done.

What was imported before is known by the content of its files (SHA-256, kept in each episode), not by names. A
file that cannot be used is named and stops nothing else. An import that was killed leaves an interrupted
episode of copies, which the next one replaces.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsp.errors import HearthError, InputError
from recordings.episode import ORIGINALS, Episode
from recordings.folder_scan import Pair, Scan, scan_folder
from recordings.importer import copy_name, import_take
from recordings.marker import episodes_below, state_of
from recordings.profile import check_fields
from recordings.storage import sha256_file
from recordings.writer import new_episode_id


@dataclass(frozen=True)
class Imported:
    """One take of the folder: its files and episode, how the video was found (name, time), a note."""

    sounds: tuple[Path, ...]
    video: Path | None
    episode: Path
    by: str | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "episode": str(self.episode),
            "sounds": [str(path) for path in self.sounds],
            "video": None if self.video is None else str(self.video),
            "paired_by": self.by,
            "note": self.note or None,
        }


@dataclass
class FolderReport:
    """What an import of a folder did. imported: now; known: takes that were there already; left_out: files
    of no take, and why; failed: files that cannot be used, and why; interrupted: ended by Ctrl-C."""

    folder: Path
    imported: list[Imported] = field(default_factory=list)
    known: list[Imported] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)
    failed: list[tuple[tuple[Path, ...], str]] = field(default_factory=list)
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "folder": str(self.folder),
            "ok": not self.failed and not self.interrupted,
            "interrupted": self.interrupted,
            "imported": [take.to_dict() for take in self.imported],
            "known": [take.to_dict() for take in self.known],
            "left_out": [{"file": str(path), "why": why} for path, why in self.left_out],
            "failed": [{"files": [str(p) for p in paths], "why": why} for paths, why in self.failed],
        }


def import_folder(
    folder: str | Path,
    root: str | Path,
    format: str | None = None,
    *,
    session: str = "imported",
    calibration: str | Path | None = None,
    camera_clock_s: float = 0.0,
    profile_fields: dict[str, Any] | None = None,
    report: bool = True,
    on_scanned: Callable[[Scan], None] = lambda scan: None,
    advance: Callable[[float], None] = lambda takes: None,
) -> FolderReport:
    """Import every take of a folder below <root>/<session>/; see `folder_scan.scan_folder` and `import_take`.

    profile_fields: what the profile of each take that is imported now says.
    on_scanned: called once when it is known what there is; advance: once per take. A KeyboardInterrupt ends
    it after cleaning up the take at hand; the report then says `interrupted`, and what was finished stays.
    Raises InputError when `folder` is no folder or holds nothing to import, and for a field that a profile
    does not allow.
    """
    fields = profile_fields or {}
    check_fields({"session": session, **fields})
    folder, root = Path(folder), Path(root)
    done = FolderReport(folder)
    try:
        scan = scan_folder(folder, root, camera_clock_s)
        done.left_out, done.failed = scan.left_out, [((path,), why) for path, why in scan.broken]
        if not (scan.pairs or scan.left_out or scan.broken):
            raise InputError(
                f"{folder}: holds nothing to import: no sound file (WAV, FLAC, Ogg) and no video"
            )
        on_scanned(scan)
        known = _Known(root)
        names = [pair.take.name.lower() for pair in scan.pairs]
        for pair in scan.pairs:
            twice = names.count(pair.take.name.lower()) > 1
            name = f"{pair.take.sounds[0].parent.name}-{pair.take.name}" if twice else pair.take.name
            options = {"session": session, "name": name, "calibration": calibration, "profile_fields": fields}
            _import_one(pair, known, done, root, format, {**options, "report": report})
            advance(1)
    except KeyboardInterrupt:
        done.interrupted = True
    return done


def _import_one(
    pair: Pair,
    known: _Known,
    done: FolderReport,
    root: Path,
    format: str | None,
    options: dict[str, Any],
) -> None:
    sounds, video = pair.take.sounds, None if pair.video is None else pair.video.path
    try:
        before = known.episode_of(sounds)
        if before is not None:
            note = "" if video is None or known.has_video(before, video) else "without this video"
            done.known.append(Imported(sounds, video, before, pair.by, note))
            return
        known.clear_killed(sounds, options["name"])
        episode = import_take(sounds, video, root, format, **options)
    except (HearthError, OSError) as error:
        done.failed.append(((*sounds, *([video] if video else [])), str(error)))
        return
    known.add(episode)
    done.imported.append(Imported(sounds, video, episode.path, pair.by, pair.note))


class _Known:
    """Imported episodes of a data folder by the content of their sound files."""

    def __init__(self, root: Path) -> None:
        self._episodes: list[tuple[Path, list[tuple[int, str]], str | None]] = []
        self._killed: list[Path] = []
        for path in episodes_below(root) if root.is_dir() else []:
            try:
                episode = Episode.open(path)
            except HearthError:  # what is broken is named by `hearth episodes`
                if state_of(path) == "interrupted" and not _copies_in(path):
                    self._killed.append(path)  # killed before it had a profile
                continue
            if episode.profile.origin == "imported" and state_of(path) == "interrupted":
                self._killed.append(path)
            elif episode.profile.origin == "imported" and state_of(path) == "finished":
                self.add(episode)

    def clear_killed(self, sounds: Sequence[Path], name: str) -> None:
        """Remove what a killed import of these files left: a folder of the take's name without any sound yet,
        or one whose sound is surely a copy of theirs."""
        slug = new_episode_id(name).split("-", 2)[2]
        for path in self._killed:
            copies = _copies_in(path)
            first = next((c for c in copies if _final_name(c).endswith(copy_name(sounds[0]))), None)
            empty = not copies and path.name.split("-", 2)[-1] == slug
            if empty or (first is not None and len(copies) <= len(sounds) and _begins_like(first, sounds[0])):
                shutil.rmtree(path, ignore_errors=True)
        self._killed = [path for path in self._killed if path.is_dir()]

    def add(self, episode: Episode) -> None:
        """Remember an episode's files."""
        source = episode.profile.source
        files = [(int(file["bytes"]), str(file["sha256"])) for file in _files_of(source)]
        video = source.get("video")
        self._episodes.append((episode.path, files, video.get("sha256") if isinstance(video, dict) else None))

    def episode_of(self, sounds: Sequence[Path]) -> Path | None:
        """The episode of exactly these sound files; a file is hashed only where one of its size is known."""
        sizes = [path.stat().st_size for path in sounds]
        alike = [(path, files) for path, files, _ in self._episodes if [n for n, _ in files] == sizes]
        if not alike:
            return None
        hashes = [sha256_file(path) for path in sounds]
        return next((path for path, files in alike if [sha for _, sha in files] == hashes), None)

    def has_video(self, episode: Path, video: Path) -> bool:
        """Whether that episode holds this video."""
        stored = next(sha for path, _, sha in self._episodes if path == episode)
        return stored is not None and stored == sha256_file(video)


def _copies_in(episode: Path) -> list[Path]:
    """The sound files of an episode, also one that was being written."""
    folder = episode / ORIGINALS
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _final_name(copy: Path) -> str:
    """What a copy is called when it is whole (`storage.copy_exact`)."""
    return copy.name[1:].removesuffix(".part") if copy.name.startswith(".") else copy.name


def _begins_like(copy: Path, original: Path) -> bool:
    """Whether a file, whole or cut off, is a copy of the other."""
    with open(copy, "rb") as one, open(original, "rb") as other:
        while piece := one.read(1 << 20):
            if piece != other.read(len(piece)):
                return False
    return True


def _files_of(source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for file in source.get("files") or []:
        with suppress(TypeError):
            if "bytes" in file and "sha256" in file:
                yield file


def refuse_single(folder: Path, **options: Any) -> None:
    """Raise InputError for options that are about one take."""
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"--{name.replace('_', '-')} is for one take, and {folder} is a folder; leave it out"
            )
