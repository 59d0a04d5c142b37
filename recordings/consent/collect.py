"""From episodes that go to the traces by which everything made of them is found."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

import yaml

from dsp.errors import InputError
from recordings.consent.contents import TARS
from recordings.consent.provenance import Source, read_provenance
from recordings.consent.survey import OPAQUE, Found, Survey, files_below
from recordings.consent.traces import EMPTY, AnchorSearch, Traces, pick_anchors
from recordings.manifest import read_manifest
from recordings.marker import MANIFEST
from recordings.storage import sha256_file, storage_errors
from recordings.yaml_text import load_yaml

_SOUND = frozenset({".wav", ".w64", ".flac", ".ogg", ".opus", ".mp3", ".m4a"})
_SAME_SOUND = 3  # places of 16 KiB that agree; one alone could be a fault of a device that repeats itself
_LEAST_PHRASE = 12  # characters; shorter requests ("stop") are anybody's


def collect(found: Survey, going: Iterable[Found], traces: Traces) -> list[tuple[str, str]]:
    """Add to `traces` what the episodes that go, and what was made of them by provenance, are known by.

    Gives files that should have been looked into and could not be: (path, why).

    What another person's episode holds as well (the same calibration, the same empty room at the start of a
    video) is no trace of anybody. Raises InputError, StorageError.
    """
    going = list(going)
    staying = [episode for episode in found.episodes if episode not in going]
    kept_hashes = {entry["sha256"] for episode in staying for entry in listed(episode.path).values()}
    for episode in going:
        traces.episodes |= episode.keys
        _add_files(episode.path, found, kept_hashes, traces)
    _add_ids_and_phrases(found, going, staying, traces)
    tables, problems = _tables(found)
    _add_outputs(tables, traces)
    traces.anchors |= traces.sound
    _drop_common_anchors(staying, tables, traces)
    traces.hashes.discard(EMPTY)
    return problems


def same_sound(staying: Iterable[Found], traces: Traces) -> list[tuple[str, str]]:
    """Episodes that are said to be somebody else's, or nobody's, and hold sound of the person: the same
    recording, brought in a second time. Gives (folder, why). Raises StorageError."""
    search = AnchorSearch(traces.sound)
    found = []
    for episode in staying if traces.sound else ():
        heard: set[bytes] = set()
        for path in files_below(episode.path):
            if path.suffix.lower() in _SOUND and path.is_file():
                with storage_errors(path, "read"), open(path, "rb") as stream:
                    heard |= search.read(stream)[1]
        if len(heard) >= min(_SAME_SOUND, len(traces.sound)):
            why = "holds the same sound as an episode of the person: it is that recording again; delete it"
            found.append((str(episode.path), why))
    return found


def listed(folder: Path) -> dict[str, dict[str, str]]:
    """The entries of a folder's manifest; {} without a readable one."""
    try:
        return read_manifest(folder) if (folder / MANIFEST).is_file() else {}
    except ValueError:
        return {}


def _add_files(folder: Path, found: Survey, kept_hashes: set[str], traces: Traces) -> None:
    """By what lies there, and by what the manifest says was there. Raises InputError for a link to where
    nobody looks: deleted, it would leave what it points to."""
    hashes = {name: entry["sha256"] for name, entry in listed(folder).items()}
    for path in files_below(folder):
        if path.is_symlink():
            target = path.resolve()
            if target.exists() and not any(root in target.parents for root in found.roots):
                raise InputError(f"{path}: is a link to {target}: give `--also {target.parent}`")
            continue
        name = path.relative_to(folder).as_posix()
        with storage_errors(path, "read"):
            hashes[name] = sha256_file(path)
            if path.suffix.lower() in OPAQUE:
                anchors = pick_anchors(path)
                traces.anchors |= anchors
                if path.suffix.lower() in _SOUND:
                    traces.sound |= anchors
    for name, digest in hashes.items():
        reel = Path(name).suffix.lower() in OPAQUE
        if not name.startswith("calibration/") and (reel or digest not in kept_hashes):
            traces.hashes.add(digest)


def _add_ids_and_phrases(found: Survey, going: list[Found], staying: list[Found], traces: Traces) -> None:
    others = {name for episode in staying for name in episode.ids}
    traces.ids |= {name for episode in going for name in episode.ids} - others
    said = {e.profile.request for e in staying if e.profile is not None and e.profile.request}
    said |= set(_planned(found))
    for episode in going:
        request = episode.profile.request if episode.profile else None
        if request and len(request) >= _LEAST_PHRASE and request not in said:
            traces.phrases.add(request)


def _planned(found: Survey) -> Iterable[str]:
    """Requests of the plans that lie there: they were written, not said by anybody."""
    for path in found.files:
        if path.suffix.lower() in (".yaml", ".yml") and path.is_file():
            with storage_errors(path, "read"):
                text = path.read_text(encoding="utf-8", errors="replace")
            if "hearth_plan" in text:
                try:
                    plan = load_yaml(text)
                    yield from (item["request"] for item in plan["items"])
                except (yaml.YAMLError, KeyError, TypeError):
                    continue


def concerns(row: Source, traces: Traces) -> bool:
    """Whether a line of provenance is about an episode that goes."""
    return (
        row.episode in traces.episodes
        or row.manifest in traces.hashes
        or not traces.hashes.isdisjoint(row.sources.values())
        or row.sha256 in traces.hashes
    )


Tables = dict[Path, list[Source]]  # root of a release -> its provenance


def _tables(found: Survey) -> tuple[Tables, list[tuple[str, str]]]:
    tables: Tables = {}
    problems = []
    for root in found.releases:
        try:
            tables[root] = read_provenance(root)
        except ValueError as error:
            problems.append((str(root), f"its provenance cannot be read: {error}"))
    return tables, problems


def _add_outputs(tables: Tables, traces: Traces) -> None:
    """Outputs of releases, and outputs of outputs, until there are no more."""
    done: set[tuple[Path, str, str | None]] = set()
    grew = True
    while grew:
        grew = False
        for root, rows in tables.items():
            hit = [row for row in rows if concerns(row, traces)]
            stay = [row for row in rows if not concerns(row, traces)]
            shared = {row.output for row in stay if row.member is None}
            # Two tables without a row are the same; that says nothing about whose they are.
            common = {row.sha256 for row in stay if _is_text(row)}
            for row in hit:
                key = (root, row.output, row.member)
                if key in done or row.output in shared:
                    continue
                done.add(key)
                grew = True
                if row.sha256 is not None and row.sha256 not in common:
                    traces.hashes.add(row.sha256)
                if row.member is None and (root / row.output).is_file():
                    path = root / row.output
                    with storage_errors(path, "read"):
                        digest = sha256_file(path)
                        if digest not in common:
                            traces.hashes.add(digest)
                        if path.suffix.lower() in OPAQUE:
                            traces.anchors |= pick_anchors(path)


def _is_text(row: Source) -> bool:
    return Path(row.member or row.output).suffix.lower() not in OPAQUE


def _drop_common_anchors(staying: list[Found], tables: Tables, traces: Traces) -> None:
    """Two videos of one room can begin with the same bytes, and files of one format have the same parts;
    those say nothing about who is in them."""
    paths = [path for episode in staying for path in files_below(episode.path)]
    for root, rows in tables.items():
        theirs = [row for row in rows if not concerns(row, traces)]
        shared = {(row.output, row.member) for row in rows if concerns(row, traces)}
        alone = {(row.output, row.member) for row in theirs} - shared
        paths += [root / output for output, member in sorted(alone, key=str) if member is None]
        packed = {root / output for output, member in alone if member is not None}
        for path in sorted(packed):
            if path.name.endswith(TARS) and path.is_file():
                with storage_errors(path, "read"), tarfile.open(path) as archive:
                    for member in archive:
                        held = archive.extractfile(member)
                        if held and (path.relative_to(root).as_posix(), member.name) in alone:
                            traces.anchors -= AnchorSearch(traces.anchors).read(held)[1]
    for path in paths:
        if path.suffix.lower() in OPAQUE and path.is_file():
            with storage_errors(path, "read"), open(path, "rb") as stream:
                traces.anchors -= AnchorSearch(traces.anchors).read(stream)[1]
