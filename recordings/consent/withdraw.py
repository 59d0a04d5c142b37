"""Withdrawal: everything of a person is found and deleted, and nothing is called done before that is so."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.consent.book import ConsentBook
from recordings.consent.collect import collect, same_sound
from recordings.consent.contents import Look
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
from recordings.consent.people import USES
from recordings.consent.present import persons_of
from recordings.consent.pseudonyms import Pseudonyms
from recordings.consent.survey import BIOMETRICS, ERASED, WORK, Found, Survey, files_below, survey
from recordings.consent.traces import AnchorSearch, Traces
from recordings.marker import state_of
from recordings.storage import fsync_folder, storage_errors, write_atomic

Advance = Callable[[float], None]
_AWAY = (
    "was looked through by an earlier run and is not there now; bring it back, or put an empty folder there"
)


@dataclass
class WithdrawalReport:
    """What was found and done. done: nothing is left. problems: what stands in the way, or is to be listened
    to: (path, why). spoken: episodes of others whose request says the name, which only ears can judge.
    searched: the folders that were looked through; of copies elsewhere nothing is known. not_found: exports
    and results that were written there once, and are not there any more."""

    pseudonym: str
    dry_run: bool
    done: bool = False
    episodes: list[str] = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = self.outcome
        return {
            "done": self.done,
            "dry_run": self.dry_run,
            "searched": self.searched,
            "not_found": self.not_found,
            "pseudonym": self.pseudonym,
            "episodes": self.episodes,
            "deleted": told.deleted,
            "rewritten": told.rewritten,
            "re_export": told.re_export,
            "spoken": self.spoken,
            "unexplained": told.unexplained,
            "left": [{"path": path, "why": why} for path, why in told.left],
            "bytes": told.bytes,
        }


def withdraw(
    data_folder: str | Path,
    person: str,
    *,
    also: Sequence[str | Path] = (),
    dry_run: bool = False,
    ignore_unexplained: bool = False,
    ignore_missing: bool = False,
    advance: Advance = lambda _: None,
) -> WithdrawalReport:
    """Delete everything of `person` below the data folder, the folders `also`, and those that exports and
    `hearth process` noted.

    Episodes in which the person speaks or is staged go as a whole, with everything made of them. Other
    people's files keep what is theirs: names become a pseudonym, rows and members go, and what cannot be
    rewritten is deleted and its release marked for a new export. Killed at any point, the next call finishes.
    ignore_unexplained: sound, pictures and packed tables of unknown origin do not stand in the way of `done`.
    ignore_missing: noted folders that are not there any more do not either.

    Raises InputError for a folder that is none, an episode that is being recorded, a name that nobody has;
    StorageError.
    """
    data = Path(data_folder)
    if not person.strip():
        raise InputError("give the name or id of a person")
    book = ConsentBook.open(data)
    pseudonyms = Pseudonyms.open(book.folder)
    work = _work_of(book, person, pseudonyms)
    before = [Path(root) for root in sorted(work.roots)]
    noted = noted_outputs(data)
    again = [root for root in before if root.is_dir()]
    found = survey(data, [*(Path(folder) for folder in also), *noted.here, *again])
    lost = [str(place) for place in noted.missing]
    gone = [str(root) for root in before if not root.is_dir() and str(root) not in lost]
    _collect_names(found, work.traces)
    going = [e for e in found.episodes if _holds(e, work)]
    ignore = (ignore_unexplained, ignore_missing)
    return _run(found, going, book, work, pseudonyms, person, gone, lost, dry_run, ignore, advance)


def _work_of(book: ConsentBook, person: str, pseudonyms: Pseudonyms) -> Work:
    """The work that an earlier run began, or a new one."""
    folder = book.folder / WORK
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        work = Work.load(path)
        if person in work.traces.names:
            return work
    listed = book.find(person)
    names = {person} if listed is None else {listed.person, *listed.names}
    if listed:
        pseudonym = listed.pseudonym
    else:
        pseudonym = pseudonyms.find(names) or pseudonyms.derived(person)
    return Work(folder / f"{pseudonym}.json", Traces(pseudonym, names))


def _collect_names(found: Survey, traces: Traces) -> None:
    """What household profiles call the person."""
    for episode in found.episodes:
        home = episode.profile.home if episode.profile else None
        for member in home.household if home else ():
            if member.id in traces.names:
                traces.names.add(member.name)


def _holds(episode: Found, work: Work) -> bool:
    if str(episode.path) in work.folders:
        return True
    return episode.profile is not None and not work.traces.names.isdisjoint(persons_of(episode.profile))


def _run(
    found: Survey,
    going: list[Found],
    book: ConsentBook,
    work: Work,
    pseudonyms: Pseudonyms,
    person: str,
    gone: list[str],
    lost: list[str],
    dry_run: bool,
    ignore: tuple[bool, bool],
    advance: Advance,
) -> WithdrawalReport:
    traces = work.traces
    report = WithdrawalReport(traces.pseudonym, dry_run, episodes=[str(e.path) for e in going])
    report.searched, report.not_found = [str(root) for root in found.roots], lost
    for episode in going:
        if state_of(episode.path) == "recording" and not dry_run:
            raise InputError(f"{episode.path}: is being recorded; end the recording, then withdraw")
    before = erased_hashes(book.folder)
    traces.hashes |= before
    problems = collect(found, going, traces)
    problems += same_sound((e for e in found.episodes if e not in going), traces)
    biometrics = [found.data / BIOMETRICS / name for name in sorted(traces.names)]
    biometrics = [folder for folder in biometrics if folder.is_dir() and folder.parent.name == BIOMETRICS]
    judge = Judge(found, going, traces, map(Path, work.folders))
    steps = judge.steps(advance)
    report.outcome = judge.outcome
    report.outcome.left += problems
    known = bool(going or steps or biometrics or work.path.exists()) or book.find(person) is not None
    if not known and not problems:
        raise InputError(f"{person}: nobody of that name is listed, recorded or named below {found.data}")
    pseudonyms.keep(*(() if dry_run else (traces.names, traces.pseudonym)))
    tell(steps, report.outcome)
    report.outcome.deleted += [str(folder) for folder in biometrics]
    report.spoken = _spoken(found, going, traces)
    if dry_run:
        report.outcome.left += _undecided(found, going)
        return report

    work.folders |= {str(episode.path) for episode in going}
    work.roots |= {str(root) for root in found.roots}
    work.save()
    if not work.begun:
        if book.find(person) is not None:
            book.withdraw_use(person, USES)
        book.record("withdrawal_begun", person=traces.pseudonym)
        work.begun = True
        work.save()
    carry_out(steps, work, report.outcome)
    delete_episodes(going, work, report.outcome)
    for folder in biometrics:
        with storage_errors(folder, "delete"):
            shutil.rmtree(folder)
    tidy_releases(found, work)
    give_new_hashes(found, going, work, report.outcome)
    keys = {key for episode in going for key in episode.keys}
    book.drop_visits(keys | {v.episode for v in book.people.visits if v.episode in traces.episodes})
    _look_again(found, work, report.outcome)
    report.outcome.left += [(root, _AWAY) for root in gone]
    unexplained, missing = bool(report.outcome.unexplained), bool(lost)
    report.done = not (report.outcome.left or (unexplained and not ignore[0]) or (missing and not ignore[1]))
    if report.done:
        _finish(book, work, before, report)
    return report


def _look_again(found: Survey, work: Work, outcome: Outcome) -> None:
    """The same search over what is there now: it must find nothing."""
    now = survey(found.data, found.roots)
    held = [episode for episode in now.episodes if _holds(episode, work)]
    judge = Judge(now, held, work.traces, map(Path, work.folders))
    outcome.left = [(str(episode.path), "is an episode of the person") for episode in held]
    outcome.left += [(str(step.path), step.verdict.why) for step in judge.steps()]
    outcome.left += judge.outcome.left + _undecided(now, held)
    outcome.left += same_sound((e for e in now.episodes if e not in held), work.traces)
    outcome.unexplained = judge.outcome.unexplained


def _undecided(found: Survey, going: Iterable[Found]) -> list[tuple[str, str]]:
    """Episodes that cannot be read may hold anybody."""
    taken = {episode.path for episode in going}
    return [
        (str(episode.path), f"is an episode that cannot be read, so it may hold anybody: {episode.problem}")
        for episode in found.episodes
        if episode.profile is None and episode.path not in taken
    ]


def _spoken(found: Survey, going: Iterable[Found], traces: Traces) -> list[str]:
    names = traces.name_pattern()
    taken = {episode.path for episode in going}
    return [
        str(episode.path)
        for episode in found.episodes
        if names is not None
        and episode.path not in taken
        and episode.profile is not None
        and episode.profile.request
        and names.search(episode.profile.request)
    ]


def _finish(book: ConsentBook, work: Work, before: set[str], report: WithdrawalReport) -> None:
    """Keep the hashes, so that a copy that turns up later is recognised; forget the name."""
    traces = work.traces
    folder = book.folder / ERASED
    with storage_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{traces.pseudonym}.txt"
    earlier = set(path.read_text(encoding="ascii").split()) if path.exists() else set()
    text = "".join(f"{digest}\n" for digest in sorted(traces.hashes - before | earlier))
    write_atomic(path, text.encode(), mode=0o600)
    told = report.outcome
    book.forget(
        traces.pseudonym,
        "withdrawal_done",
        episodes=len(work.folders),
        rewritten=len(set(work.touched)),
        re_export=len(told.re_export),
        hashes=len(traces.hashes - before),
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    delete(work.path, [str(work.path.parent)])
    fsync_folder(book.folder)


def erased_hashes(consent_folder: Path) -> set[str]:
    """Hashes of everything that withdrawals and retention deleted so far."""
    folder = consent_folder / ERASED
    found: set[str] = set()
    for path in sorted(folder.glob("*.txt")) if folder.is_dir() else []:
        with storage_errors(path, "read"):
            found |= set(path.read_text(encoding="ascii").split())
    return found


@dataclass(frozen=True)
class Return:
    """files: whose content was deleted once. searched, not_found: as in WithdrawalReport."""

    files: list[str]
    searched: list[str]
    not_found: list[str]


def come_back(data_folder: str | Path, also: Sequence[str | Path], advance: Advance) -> Return:
    """Files, also inside archives and episodes, whose content was deleted once, in the data folder, those
    noted by exports and `hearth process`, and `also`. Raises InputError, StorageError."""
    data = Path(data_folder)
    hashes = erased_hashes(ConsentBook.open(data).folder)
    noted = noted_outputs(data)
    found = survey(data, [*(Path(folder) for folder in also), *noted.here])
    look = Look(Traces("", hashes=hashes), AnchorSearch([]))
    paths = [*found.files, *(path for e in found.episodes for path in files_below(e.path))] if hashes else []
    back = []
    for path in sorted(paths):
        advance(1)
        if not path.is_symlink() and look.file(path).action != "keep":
            back.append(str(path))
    return Return(back, [str(root) for root in found.roots], [str(place) for place in noted.missing])
