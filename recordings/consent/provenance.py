"""provenance.jsonl: which episode each file of a release was made of, so that it can be found again.

One line per output file, archive member and source episode. It names no person.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dsp.errors import InputError
from recordings.storage import storage_errors, write_atomic

PROVENANCE = "provenance.jsonl"


class Source(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one output file (or one member of an archive) owes to one episode."""

    output: str  # relative to the release, with /
    item: str  # the episode's id in the release
    episode: str  # <session>/<episode folder>
    manifest: str  # SHA-256 of the episode's manifest.json
    sources: dict[str, str] = {}  # file of the episode -> its SHA-256
    member: str | None = None  # name inside an archive
    labels: tuple[str, ...] = ()  # what else stands for the episode or its people in the release's tables
    sha256: str | None = None  # of the output or member; None where several episodes share it


def write_provenance(folder: Path, sources: Iterable[Source]) -> None:
    """Write provenance.jsonl, sorted: the same sources give the same bytes. Raises StorageError."""
    rows = sorted(sources, key=lambda s: (s.output, s.member or "", s.episode, s.item))
    lines = []
    for row in rows:
        plain = msgspec.to_builtins(row)
        plain["sources"] = dict(sorted(row.sources.items()))
        lines.append(json.dumps(plain, ensure_ascii=False) + "\n")
    write_atomic(folder / PROVENANCE, "".join(lines).encode())


def read_provenance(folder: Path) -> list[Source]:
    """The lines of a release's provenance.jsonl. Raises InputError with the line's number, StorageError."""
    path = folder / PROVENANCE
    with storage_errors(path, "read"):
        data = path.read_bytes()
    found = []
    for number, raw in enumerate(data.splitlines(), start=1):
        try:
            found.append(msgspec.json.decode(raw, type=Source))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}, line {number}: {error}") from None
    return found
