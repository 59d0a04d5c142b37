"""From a data folder to a release: select, split, write beside the final name, seal, rename.

Everything is written to `<out>.partial`, which gets the name `out` when it is whole. A run that was cut off
leaves the partial folder; the same run again goes on there, another one begins anew. Episodes are only read.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as replaced
from importlib import import_module
from pathlib import Path
from typing import Any

from dsp.errors import CheckFailed, InputError, MissingDependency
from recordings.consent.outputs import note_outputs
from recordings.consent.present import episode_key, persons_of
from recordings.consent.provenance import PROVENANCE, Source, write_provenance
from recordings.episode import Episode
from recordings.manifest import read_manifest, refuse_inside_sealed
from recordings.marker import MANIFEST
from recordings.profile import Profile
from recordings.release import counts
from recordings.release.checksums import CHECKSUMS, check_checksums, release_files, write_checksums
from recordings.release.formats import FORMATS, exporter
from recordings.release.item import NO_SPLIT, ReleaseItem, room_of
from recordings.release.media import JOURNAL, Media
from recordings.release.options import ExportReport, ReleaseOptions
from recordings.release.select import LeftOut, Selection, select
from recordings.release.splits import SIZES, Unit, drop_mixed, split
from recordings.release.tables import write_json
from recordings.storage import fsync_folder, sha256_file, storage_errors, write_atomic
from recordings.terminal import counted

RELEASE_JSON = "release.json"
STATE = ".export.json"  # only in an unfinished release: what is being made, and of which episodes
REEXPORT = "REEXPORT.json"  # in a release that a withdrawal took something out of
_PLAIN = frozenset({"LICENSE", "README.md"})  # hold nothing of any one episode
_HIDDEN = frozenset({".bidsignore"})


class NothingGoesOut(CheckFailed):
    """No episode may go out; `left_out` says why."""

    def __init__(self, left_out: Sequence[LeftOut]) -> None:
        codes = Selection((), tuple(left_out)).codes()
        told = ", ".join(f"{number} {code}" for code, number in codes.items())
        first = f"; {left_out[0].path}: {left_out[0].why}" if left_out else ""
        super().__init__(f"no episode may go out ({told}){first}")
        self.left_out = tuple(left_out)


@dataclass(frozen=True)
class Release:
    """What became of an export. existing: it was there already, of the same episodes and options."""

    out: Path
    format: str
    facts: dict[str, Any]
    files: int
    bytes: int
    left_out: tuple[LeftOut, ...]
    existing: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "out": str(self.out),
            "format": self.format,
            **{key: self.facts[key] for key in ("key", "numbers", "options", "split_by", "clipped", "notes")},
            "files": self.files,
            "bytes": self.bytes,
            "left_out": [one.to_dict() for one in self.left_out],
            "existing": self.existing,
        }


Bar = Callable[[str, float | None], AbstractContextManager[Callable[[float], None]]]


@contextmanager
def _no_bar(what: str, total: float | None) -> Iterator[Callable[[float], None]]:
    yield lambda amount: None


def export_release(
    paths: str | Path | Iterable[str | Path],
    format_name: str,
    out: str | Path,
    options: ReleaseOptions | None = None,
    *,
    split_by: str | None = None,
    sizes: Mapping[str, float] = SIZES,
    mixed: bool = False,
    need_accepted: bool = True,
    resume: bool = False,
    replace: bool = False,
    bar: Bar = _no_bar,
) -> Release:
    """Export the episodes below `paths` that may go out as one release of a format.

    mixed: with split_by, leave out episodes that would be in two splits (otherwise they are an error).
    need_accepted: see `select`. resume: an existing release of the very same is taken as it is. replace: an
    existing one is replaced when the new one is whole. bar: `recordings.terminal.progress`, or nothing.

    An episode whose faces or voices cannot be made safe is left out. Raises CheckFailed when no episode may
    go out; InputError for a wrong
    format, splits that cannot be made, or an `out` that exists; StorageError, after which the same call goes
    on.
    """
    write = exporter(format_name)
    options, out = options or ReleaseOptions(), Path(out)
    _check_out(out, paths, resume, replace)
    with bar("looking through episodes", None) as advance:
        selection = select(paths, need_accepted=need_accepted, advance=advance)
    profiles = {path: Episode.open(path).profile for path in selection.episodes}
    chosen, splits, left_out = _placed(selection, profiles, split_by, sizes, mixed)
    if not chosen:
        raise NothingGoesOut(left_out)
    ids = _ids({path: profiles[path] for path in chosen})
    manifests = {path: sha256_file(path / MANIFEST) for path in chosen}
    key = _key(format_name, options, split_by, [(ids[p], manifests[p], splits[p]) for p in chosen])
    if out.exists() and resume:
        return _existing(out, key, left_out)
    note_outputs(chosen, out, f"export {format_name}")
    partial = out.with_name(f"{out.name}.partial")
    with _locked(partial):
        episodes = [episode_key(profiles[path]) for path in chosen]
        media = _begin(partial, key, format_name, episodes, options)
        items = [ReleaseItem(ids[path], path, splits[path], manifests[path], media) for path in chosen]
        items.sort(key=lambda item: item.id)
        unsafe = _unsafe(items, media, bar)
        if unsafe:
            gone = {one.path for one in unsafe}
            left_out = tuple(sorted((*left_out, *unsafe), key=lambda one: one.path))
            if len(unsafe) == len(items):
                shutil.rmtree(partial, ignore_errors=True)
                raise NothingGoesOut(left_out)
            safe = Selection(tuple(path for path in chosen if path not in gone), left_out)
            chosen, splits, left_out = _placed(safe, profiles, split_by, sizes, mixed)
            items = [replaced(i, split=splits[i.path]) for i in items if i.path in set(chosen)]
        with bar(f"writing {out.name}", len(items)) as advance:
            report = write(items, partial, options, advance)
        media.forget_safe()
        if unsafe:
            report.notes.append(
                f"{counted(len(unsafe), 'episode')} left out: faces or voices could not be made safe"
            )
        facts = _seal(partial, items, format_name, options, split_by, key, report, len(unsafe))
        names = release_files(partial)
        size = sum((partial / name).stat().st_size for name in (*names, CHECKSUMS))
        _rename(partial, out)
    return Release(out, format_name, facts, len(names) + 1, size, left_out)


# ---------------------------------------------------------------------- before


def _unsafe(items: Sequence[ReleaseItem], media: Media, bar: Bar) -> list[LeftOut]:
    """Make faces and voices safe where that is asked for; the episodes where it cannot be done, and why."""
    if not (media.options.blur or media.options.voice_safe):
        return []
    found = []
    with bar("making faces and voices safe", len(items)) as advance:
        for item in items:
            try:
                media.make_safe(item)
            except MissingDependency:
                raise  # it is missing for every episode
            except (CheckFailed, InputError) as error:
                found.append(LeftOut(item.path, "unsafe", str(error)))
            advance(1)
    return found


def _check_out(out: Path, paths: str | Path | Iterable[str | Path], resume: bool, replace: bool) -> None:
    refuse_inside_sealed(out / "x")
    roots = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    for root in roots:
        if root.resolve().is_relative_to(out.resolve()):
            raise InputError(f"--out {out}: holds the episodes of {root}; give a folder of its own")
    if out.name in ("", ".", ".."):
        raise InputError(f"--out {out}: give the name of a new folder")
    if not out.exists() and not out.is_symlink():
        return
    if not (out / RELEASE_JSON).is_file():
        raise InputError(f"{out} exists and is no release; give a folder that is not there yet")
    if (out / REEXPORT).exists() and not replace:
        raise InputError(
            f"{out}: a withdrawal took files out of this release; export it again with --replace"
        )
    if not (resume or replace):
        raise InputError(
            f"{out} exists already; --replace makes it anew, --resume takes it as it is when nothing changed"
        )


def _placed(
    selection: Selection,
    profiles: Mapping[Path, Profile],
    split_by: str | None,
    sizes: Mapping[str, float],
    mixed: bool,
) -> tuple[list[Path], dict[Path, str], tuple[LeftOut, ...]]:
    """(episodes that go out, the split of each, those that do not)."""
    paths = list(selection.episodes)
    if split_by is None or not paths:
        return paths, dict.fromkeys(paths, NO_SPLIT), selection.left_out
    if split_by not in ("participant", "room"):
        raise InputError(f"--split-by {split_by!r}: participant or room")
    units = [_unit(path, profiles[path], split_by) for path in paths]
    left: list[str] = []
    if mixed:
        chosen, left = drop_mixed(units, split_by, sizes)
    else:
        chosen = split(units, split_by, sizes)
    why = f"it would be in two splits, since it has several {split_by}s"
    more = [LeftOut(Path(name), "mixed", why) for name in left]
    left_out = tuple(sorted((*selection.left_out, *more), key=lambda one: one.path))
    return [p for p in paths if str(p) in chosen], {p: chosen.get(str(p), "") for p in paths}, left_out


def _unit(path: Path, profile: Profile, split_by: str) -> Unit:
    room = room_of(profile)
    keys = persons_of(profile) if split_by == "participant" else ((room,) if room else ())
    feasible = "feasible" if profile.feasibility in (None, "feasible") else "infeasible"
    return Unit(str(path), frozenset(keys), f"{profile.grounding} {profile.query} {feasible}")


def _ids(profiles: Mapping[Path, Profile]) -> dict[Path, str]:
    """An id per episode: its own, with the session's before it where that is needed to tell them apart."""
    names = Counter(profile.id for profile in profiles.values())
    found = {
        path: profile.id if names[profile.id] == 1 else f"{profile.session}-{profile.id}"
        for path, profile in profiles.items()
    }
    twice = sorted(name for name, number in Counter(found.values()).items() if number > 1)
    if twice:
        raise InputError(
            f"several episodes are called {twice[0]}, in sessions of one name: they would become one another;"
            " export them apart"
        )
    return found


def _key(
    format_name: str, options: ReleaseOptions, split_by: str | None, episodes: Sequence[tuple[str, str, str]]
) -> str:
    """What makes a release the same as another: SHA-256 of format, options, episodes and splits."""
    told = [format_name, options.to_dict(), split_by, sorted(episodes)]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _existing(out: Path, key: str, left_out: tuple[LeftOut, ...]) -> Release:
    with storage_errors(out / RELEASE_JSON, "read"):
        facts = json.loads((out / RELEASE_JSON).read_text(encoding="utf-8"))
    if facts.get("key") != key:
        raise InputError(f"{out} is a release of other episodes or options; --replace makes it anew")
    if problems := check_checksums(out):
        raise CheckFailed(f"{out}: {'; '.join(problems[:5])}; --replace makes it anew")
    names = (*release_files(out), CHECKSUMS)
    size = sum((out / name).stat().st_size for name in names)
    return Release(out, str(facts["format"]), facts, len(names), size, left_out, True)


@contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Hold the unfinished release while no other process does. The lock ends with the process."""
    with storage_errors(partial, "create"):
        partial.mkdir(parents=True, exist_ok=True)
        fd = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{partial}: another export writes there; wait until it is done") from None
        yield
    finally:
        os.close(fd)


def _begin(
    partial: Path, key: str, format_name: str, episodes: Sequence[str], options: ReleaseOptions
) -> Media:
    """Empty the unfinished release, but for the media that a run of the same key had finished.

    A kill at any point leaves a folder that the next run knows as its own: the state is there before anything
    else is, and an old journal goes before a new state comes.
    """
    state = partial / STATE
    present = [path for path in partial.rglob("*") if not path.is_dir() or path.is_symlink()]
    torn = partial / f".{STATE}.part"  # a kill while the very first file was written
    if not state.is_file() and not (partial / RELEASE_JSON).is_file() and set(present) - {torn}:
        raise InputError(f"{partial}: exists and was not made by an export; move it away")
    goes_on = False
    with suppress(OSError, ValueError, KeyError, TypeError):
        goes_on = json.loads(state.read_text(encoding="utf-8"))["key"] == key
    if not goes_on:
        with storage_errors(partial, "clear"):
            (partial / JOURNAL).unlink(missing_ok=True)
        told = {"hearth_export": 1, "key": key, "format": format_name, "episodes": episodes}
        write_atomic(state, (json.dumps(told) + "\n").encode())
    media = Media(partial, options)
    kept = {*media.finished(), STATE, JOURNAL}
    with storage_errors(partial, "clear"):
        for path in present:
            if path.relative_to(partial).as_posix() not in kept:
                path.unlink(missing_ok=True)
        for folder in sorted((p for p in partial.rglob("*") if p.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
    return media


# ---------------------------------------------------------------------- after


def _seal(
    partial: Path,
    items: Sequence[ReleaseItem],
    format_name: str,
    options: ReleaseOptions,
    split_by: str | None,
    key: str,
    report: ExportReport,
    unsafe: int,
) -> dict[str, Any]:
    """Write what every release has: README, LICENSE, release.json, splits.json, provenance, checksums."""
    module = import_module(FORMATS[format_name].partition(":")[0])
    found = counts.numbers(items)
    text = counts.readme(found, options, format_name, module.readme(items, report), split_by, report, unsafe)
    front = module.front_matter(items, options) if hasattr(module, "front_matter") else ""
    write_atomic(partial / "README.md", (front + text).encode())
    write_atomic(partial / "LICENSE", counts.licence_text(options.licence).encode())
    clipped = [{"item": item, "samples": number} for item, number in sorted(report.clipped.items())]
    facts: dict[str, Any] = {
        "hearth_release": 1,
        "key": key,
        "format": format_name,
        "options": options.to_dict(),
        "split_by": split_by,
        "numbers": found,
        "facts": report.facts,
        "clipped": clipped,
        "notes": report.notes,
    }
    write_json(partial / RELEASE_JSON, facts)
    rows = [{"item": item.id, "split": item.split} for item in items]
    write_json(partial / "splits.json", {"by": split_by, "sizes": found["splits"], "items": rows})
    names = [name for name in release_files(partial) if name not in (STATE, JOURNAL)]
    hidden = [n for n in names if Path(n).name.startswith(".") and Path(n).name not in _HIDDEN]
    if hidden:
        raise RuntimeError(f"the exporter of {format_name} left {hidden[0]} behind")
    write_provenance(partial, _sources(items, names, report))
    known = {one.output: one.sha256 for one in report.holds if one.sha256 and one.member is None}
    for name in (STATE, JOURNAL):
        with storage_errors(partial / name, "remove"):
            (partial / name).unlink(missing_ok=True)
    write_checksums(partial, {name: digest for name, digest in known.items() if digest})
    return facts


def _sources(items: Sequence[ReleaseItem], names: Sequence[str], report: ExportReport) -> Iterator[Source]:
    """A line for every file (or member of an archive) and item whose content is in it."""
    by_id = {item.id: item for item in items}
    manifests = {item.id: read_manifest(item.path) for item in items}
    keys = {item.id: episode_key(item.recorded) for item in items}

    def line(
        output: str, item: ReleaseItem, of: Iterable[str], labels: tuple[str, ...] = (), **more: str | None
    ) -> Source:
        listed = manifests[item.id]
        return Source(
            labels=labels,
            output=output,
            item=item.id,
            episode=keys[item.id],
            manifest=item.manifest_sha256,
            sources={name: listed[name]["sha256"] for name in of if name in listed},
            **more,
        )

    told, plain = set(), {*_PLAIN, *report.plain, PROVENANCE}
    for one in report.holds:
        told.add(one.output)
        item = by_id[one.item]
        of = one.of or item.sources()
        yield line(one.output, item, of, one.labels, member=one.member, sha256=one.sha256)
    # Without notes, release.json names only the items with clipped samples.
    named = [item for item in items if report.notes or item.id in report.clipped]
    for name in names:
        if name not in told and name not in plain:
            for item in named if name == RELEASE_JSON else items:
                yield line(name, item, item.sources())


def _rename(partial: Path, out: Path) -> None:
    """Give the whole release its name; an old one is moved aside first and removed afterwards."""
    for folder in sorted(path for path in partial.rglob("*") if path.is_dir()):
        fsync_folder(folder)
    fsync_folder(partial)
    old = out.with_name(f"{out.name}.old")
    with storage_errors(out, "rename"):
        if old.exists() and (old / RELEASE_JSON).is_file():
            shutil.rmtree(old)
        if out.exists():
            out.rename(old)
        partial.rename(out)
        fsync_folder(out.parent)
        if old.exists():
            shutil.rmtree(old)
