"""What lies below some folders: episodes, releases, and every other file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dsp.errors import HearthError, InputError
from recordings.consent.book import AUDIT, FOLDER, PEOPLE
from recordings.consent.provenance import PROVENANCE
from recordings.episode import PROFILE
from recordings.manifest import read_manifest
from recordings.marker import MANIFEST, MARKER
from recordings.profile import Profile, profile_from_yaml

BIOMETRICS = "biometrics"
WORK = "withdrawals"
ERASED = "erased"
SOUND = "foa_48k"  # by it an episode is known inside a release
# What stands beside the provenance.jsonl of a release: of exports, `hearth process`, withdrawals.
_MAKERS = {"release.json", "process.json", "REEXPORT.json"}
EXPORT_STATE = ".export.json"  # what an export that is not finished holds
# In the consent folder:
_OURS = {PEOPLE, AUDIT, "outputs.jsonl", "pseudonyms.json", ".lock", f".{PEOPLE}.part", WORK, ERASED}
# Sound, pictures and packed tables: what they hold cannot be read as text.
OPAQUE = frozenset(
    {".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v"}
    | {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".parquet", ".arrow", ".mcap", ".bag", ".npy"}
    | {".zst", ".lz4", ".gz", ".7z", ".pkl", ".pt", ".pth", ".h5", ".hdf5", ".onnx"}
)


@dataclass(frozen=True)
class Found:
    """An episode on disk; `profile` None: it cannot be read, `problem` says why."""

    path: Path
    profile: Profile | None
    problem: str = ""

    @property
    def keys(self) -> set[str]:
        """`<session>/<episode>` by its folders and by its profile."""
        named = {f"{self.path.parent.name}/{self.path.name}"}
        return named | ({f"{self.profile.session}/{self.profile.id}"} if self.profile else set())

    @property
    def ids(self) -> set[str]:
        """Bare names."""
        return {self.path.name} | ({self.profile.id} if self.profile else set())


@dataclass
class Survey:
    """episodes, roots of releases (provenance.jsonl beside what made it), unfinished releases, and all other
    files and links, sorted. left: what cannot be looked into, and why."""

    data: Path
    roots: tuple[Path, ...]
    episodes: list[Found] = field(default_factory=list)
    releases: list[Path] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)

    def release_of(self, path: Path) -> Path | None:
        """The innermost release that a file lies in."""
        return max((root for root in self.releases if root in path.parents), key=_depth, default=None)

    def root_of(self, path: Path) -> Path:
        """The outermost folder, of those looked through, that a file lies in."""
        return min((root for root in self.roots if root in path.parents), key=_depth)


def _depth(path: Path) -> int:
    return len(path.parts)


def survey(data: Path, also: Sequence[Path] = ()) -> Survey:
    """Walk a data folder and others; links are not followed. Raises InputError when one is no folder or
    cannot be listed: what was not looked at cannot be said to be clean."""
    for folder in (data, *also):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
    roots: list[Path] = []
    for folder in sorted({data.resolve(), *(f.resolve() for f in also)}, key=_depth):
        if not any(root in folder.parents for root in roots):
            roots.append(folder)
    found = Survey(data.resolve(), tuple(roots))
    for root in roots:
        _walk(root, found)
    found.episodes.sort(key=lambda episode: str(episode.path))
    for paths in (found.releases, found.unfinished, found.files):
        paths.sort()
    return found


def _walk(root: Path, found: Survey) -> None:
    def stop(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed ({error.strerror}); nothing was changed")

    for name, folders, files in os.walk(root, onerror=stop):
        here = Path(name)
        files = _regular(here, files, found)
        release = found.release_of(here / "x")
        if here == found.data / FOLDER:
            folders[:] = [f for f in folders if f not in _OURS]
            files = [f for f in files if f not in _OURS]
        if here == found.data:
            folders[:] = [f for f in folders if f != BIOMETRICS]
        if _is_episode(here, files) if release is None else _is_whole_episode(here, files, folders):
            inner = [here / folder for folder in folders if _holds_episode(here / folder)]
            if not inner:
                found.episodes.append(_open(here))
                _note_special(here, folders, found)
                folders.clear()
                continue
            found.left.append((str(here), f"is an episode that holds another one, {inner[0]}: move it out"))
        if PROVENANCE in files and not _MAKERS.isdisjoint(files):
            found.releases.append(here)
        elif release is None and EXPORT_STATE in files and _is_unfinished(here):
            found.unfinished.append(here)
            folders.clear()
            continue
        for folder in list(folders):
            if (here / folder).is_symlink():
                folders.remove(folder)
                found.files.append(here / folder)
                _note_link(here / folder, found)
        found.files += [here / file for file in files]


def _regular(here: Path, names: Sequence[str], found: Survey) -> list[str]:
    """Files and links; a pipe, socket or device is named as left, since reading it may never end."""
    kept = []
    for name in names:
        mode = (here / name).lstat().st_mode
        if stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not _is_special(here / name)):
            kept.append(name)
        else:
            found.left.append((str(here / name), "is no regular file; delete it, or move it away"))
    return kept


def _is_special(link: Path) -> bool:
    """Whether a link leads to something that is neither file nor folder."""
    return link.exists() and not link.is_file() and not link.is_dir()


def _note_special(episode: Path, folders: Sequence[str], found: Survey) -> None:
    for folder in folders:
        for name, _, files in os.walk(episode / folder):
            _regular(Path(name), files, found)


def _note_link(link: Path, found: Survey) -> None:
    """A folder elsewhere is not walked: where it holds episodes or a release, it is to be given."""
    target = link.resolve()
    if any(root == target or root in target.parents for root in found.roots):
        return
    if any(PROVENANCE in files or _is_episode(Path(name), files) for name, _, files in os.walk(target)):
        found.left.append((str(link), f"is a link to {target}: give `--also {target}`"))


def _is_unfinished(folder: Path) -> bool:
    """Whether nothing but an export's own work lies in a `*.partial`: an episode in it is nobody's output."""
    return folder.name.endswith(".partial") and not _holds_episode(folder)


def _holds_episode(folder: Path) -> bool:
    return any(_is_episode(Path(name), files) for name, _, files in os.walk(folder))


def _is_episode(folder: Path, files: Sequence[str]) -> bool:
    if PROFILE in files or MARKER in files:
        return True
    if MANIFEST not in files:
        return False
    try:
        read_manifest(folder)
    except InputError:
        return False
    return True


def _is_whole_episode(folder: Path, files: Sequence[str], folders: Sequence[str]) -> bool:
    """An episode within a release, where a profile alone can be something that was exported."""
    return MARKER in files or (SOUND in folders and not {PROFILE, MANIFEST}.isdisjoint(files))


def _open(folder: Path) -> Found:
    if (folder / PROFILE).exists() and not (folder / PROFILE).is_file():
        return Found(folder, None, f"{PROFILE} is no regular file")
    try:
        text = (folder / PROFILE).read_text(encoding="utf-8")
        return Found(folder, profile_from_yaml(text, str(folder / PROFILE)))
    except (HearthError, OSError, UnicodeDecodeError) as error:
        return Found(folder, None, str(error))


def files_below(folder: Path) -> Iterator[Path]:
    """Every regular file and every link below a folder, sorted."""
    yield from sorted(p for p in folder.rglob("*") if p.is_symlink() or p.is_file())
