"""Retention: which episodes are past their date, and deleting them with everything made of them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.consent.book import ConsentBook
from recordings.consent.collect import collect
from recordings.consent.erase import (
    Work,
    carry_out,
    delete,
    delete_episodes,
    give_new_hashes,
    tell,
    tidy_releases,
)
from recordings.consent.judge import Judge, Outcome
from recordings.consent.outputs import noted_outputs
from recordings.consent.present import episode_key
from recordings.consent.survey import ERASED, WORK, Found, survey
from recordings.consent.traces import Traces
from recordings.marker import state_of
from recordings.storage import storage_errors, write_atomic


@dataclass(frozen=True)
class Due:
    """An episode with the last day on which it may be kept, and why."""

    path: Path
    last_day: date
    why: str


@dataclass
class DueReport:
    """due: past their date. coming: with a date that is still to come, soonest first. no_date: nobody is
    named in them, or they are virtual. outcome: what was deleted (empty without `delete_due`). searched,
    not_found: as in WithdrawalReport."""

    due: list[Due] = field(default_factory=list)
    coming: list[Due] = field(default_factory=list)
    no_date: list[str] = field(default_factory=list)
    deleted: bool = False
    searched: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""

        def rows(found: list[Due]) -> list[dict[str, str]]:
            return [
                {"path": str(one.path), "last_day": one.last_day.isoformat(), "why": one.why} for one in found
            ]

        told = self.outcome
        return {
            "due": rows(self.due),
            "coming": rows(self.coming),
            "no_date": self.no_date,
            "deleted": self.deleted,
            "searched": self.searched,
            "not_found": self.not_found,
            "files_deleted": told.deleted,
            "rewritten": told.rewritten,
            "re_export": told.re_export,
            "left": [{"path": path, "why": why} for path, why in told.left],
        }


def list_due(data_folder: str | Path, at: date | None = None) -> DueReport:
    """Every episode below a data folder by its date. Raises InputError, StorageError."""
    found = survey(Path(data_folder))
    report = _listed(found.episodes, ConsentBook.open(data_folder), at or date.today())
    report.outcome.left += found.left
    return report


def _listed(episodes: Sequence[Found], book: ConsentBook, day: date) -> DueReport:
    report = DueReport()
    for episode in episodes:
        if episode.profile is None:
            report.outcome.left.append((str(episode.path), f"cannot be read: {episode.problem}"))
            continue
        answer = book.delete_by(episode.profile)
        if answer is None:
            report.no_date.append(str(episode.path))
            continue
        one = Due(episode.path, *answer)
        (report.due if one.last_day < day else report.coming).append(one)
    report.due.sort(key=lambda one: (one.last_day, str(one.path)))
    report.coming.sort(key=lambda one: (one.last_day, str(one.path)))
    return report


def delete_due(
    data_folder: str | Path,
    *,
    also: Sequence[str | Path] = (),
    at: date | None = None,
    ignore_missing: bool = False,
    advance: Callable[[float], None] = lambda _: None,
) -> DueReport:
    """Delete the episodes that are past their date and everything made of them; leaves an audit record.

    Searched and ignore_missing: as in `withdraw`. Killed at any point, the next call finishes.

    Raises InputError when one of them is being recorded,
    StorageError.
    """
    data = Path(data_folder)
    book = ConsentBook.open(data)
    work = _work_of(book)
    roots = [Path(root) for root in sorted(work.roots) if Path(root).is_dir()]
    noted = noted_outputs(data)
    found = survey(data, [*(Path(folder) for folder in also), *noted.here, *roots])
    report = _listed(found.episodes, book, at or date.today())
    report.searched = [str(root) for root in found.roots]
    report.not_found = [str(place) for place in noted.missing]
    past = {one.path for one in report.due}
    going = [e for e in found.episodes if e.path in past or str(e.path) in work.folders]
    if not going and not work.path.exists():
        report.outcome.left += found.left
        return report
    for episode in going:
        if state_of(episode.path) == "recording":
            raise InputError(f"{episode.path}: is past its date and being recorded; end the recording first")
    report.outcome.left += collect(found, going, work.traces)
    steps = Judge(found, going, work.traces, map(Path, work.folders)).steps(advance)
    tell(steps, report.outcome)
    work.folders |= {str(episode.path) for episode in going}
    work.roots |= {str(root) for root in found.roots}
    work.save()
    carry_out(steps, work, report.outcome)
    delete_episodes(going, work, report.outcome)
    tidy_releases(found, work)
    give_new_hashes(found, going, work, report.outcome)
    book.drop_visits(episode_key(e.profile) for e in going if e.profile is not None)
    now = survey(found.data, found.roots)
    judge = Judge(now, [], work.traces, map(Path, work.folders))
    report.outcome.left += [(str(step.path), step.verdict.why) for step in judge.steps()]
    report.outcome.left += judge.outcome.left
    report.deleted = not report.outcome.left and (ignore_missing or not report.not_found)
    if report.deleted:
        _finish(book, work, report)
    return report


def _work_of(book: ConsentBook) -> Work:
    """What an earlier run left unfinished, or a new list. Its word stands for nobody."""
    folder = book.folder / WORK
    for path in sorted(folder.glob("retention-*.json")) if folder.is_dir() else []:
        return Work.load(path)
    name = f"retention-{secrets.token_hex(6)}"
    return Work(folder / f"{name}.json", Traces(name))


def _finish(book: ConsentBook, work: Work, report: DueReport) -> None:
    folder = book.folder / ERASED
    with storage_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    text = "".join(f"{digest}\n" for digest in sorted(work.traces.hashes))
    write_atomic(folder / f"{work.traces.pseudonym}.txt", text.encode(), mode=0o600)
    book.record(
        "retention_deleted",
        episodes=len(work.folders),
        rewritten=len(work.touched),
        re_export=len(report.outcome.re_export),
        hashes=len(work.traces.hashes),
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    delete(work.path, [str(book.folder / WORK)])
