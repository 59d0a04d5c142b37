"""The episodes that are to be reviewed, and what each reviewer may see of the others' decisions.

Quick for many: nothing of an episode is read but its manifest, and that again only when it has changed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.marker import MANIFEST, episodes_below, state_of
from recordings.review.log import (
    NEEDED,
    Decisions,
    Review,
    append,
    decisions_of,
    make_review,
    manifest_sha256,
    read_reviews,
)
from recordings.session_journal import read_journal


@dataclass(frozen=True)
class Row:
    """An episode in the list. number: its place, which stays the same as long as the catalogue lives."""

    number: int
    decisions: Decisions
    kept: bool  # False: another take was kept for its item, or none

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.decisions.path.name

    def seen_by(self, who: str, needed: int) -> dict[str, Any]:
        """What the list shows to a reviewer (`Review.who`; "" is nobody). The verdict and its direction stay
        hidden from those who have not decided: only that there are reviews enough, or a dispute."""
        mine = self.decisions.latest.get(who)
        verdict = self.decisions.verdict(needed)
        finished = self.decisions.manifest_sha256 is not None
        shown: str = verdict if mine is not None or verdict in ("open", "disputed") else "enough"
        if not finished:
            shown = state_of(self.decisions.path)
        return {
            "n": self.number,
            "id": self.id,
            "session": self.decisions.path.parent.name,
            "shown": shown,
            "mine": None if mine is None else mine.decision,
            "reviews": len(self.decisions.latest),
            "changed": self.decisions.note,
        }


class Catalogue:
    """All episodes below some folders. May be used by several threads."""

    def __init__(self, roots: Sequence[Path], needed: int = NEEDED, all_takes: bool = False) -> None:
        """Raises InputError when a folder is not there, or no episode is below any."""
        if needed < 1:
            raise InputError(f"the number of reviewers is 1 or more, not {needed}")
        self.roots, self.needed, self.all_takes = tuple(roots), needed, all_takes
        self.problems: tuple[str, ...] = ()
        self._paths: list[Path] = []
        self._known: dict[Path, tuple[tuple[int, int, int], str]] = {}
        self._lock = threading.Lock()
        if not self.rows():
            raise InputError(f"no episode below {', '.join(map(str, roots))}; give a data or session folder")

    def rows(self) -> list[Row]:
        """All episodes with what was decided as of now; new ones come at the end."""
        with self._lock:
            known = set(self._paths)
            for root in self.roots:
                self._paths += [p for p in map(Path.resolve, episodes_below(root)) if p not in known]
                known = set(self._paths)
            there = [path for path in self._paths if path.is_dir()]
            logs = {session: read_reviews(session) for session in {path.parent for path in there}}
            self.problems = tuple(text for log in logs.values() for text in log.problems)
            kept = {session: self._kept(session) for session in logs}
            rows = []
            for number, path in enumerate(self._paths):
                if path.is_dir():
                    found = decisions_of(path, logs[path.parent].reviews, self._sha256(path))
                    wanted = kept[path.parent]
                    rows.append(Row(number, found, wanted is None or path.name in wanted))
            return [row for row in rows if row.kept or self.all_takes or row.decisions.reviews]

    def _kept(self, session: Path) -> set[str] | None:
        """The takes that a guided session kept; None where there was none, or its journal is broken."""
        try:
            journal = read_journal(session)
        except InputError as error:
            self.problems += (str(error),)
            return None
        return set(journal.kept.values()) if journal.lines else None

    def _sha256(self, path: Path) -> str | None:
        try:
            found = (path / MANIFEST).stat()
        except OSError:
            return None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._known.get(path, (None,))[0] != stamp:
            self._known[path] = (stamp, manifest_sha256(path))
        return self._known[path][1]

    def path(self, number: int) -> Path:
        """The folder of an episode. Raises InputError for a number that is not in the list."""
        if not 0 <= number < len(self._paths):
            raise InputError(f"there is no episode {number} in this list")
        return self._paths[number]

    def row(self, number: int) -> Row:
        """One episode with what was decided as of now. Raises InputError when it is not there."""
        path = self.path(number)
        if not path.is_dir():
            raise InputError(f"{path}: is not there any more")
        return Row(number, decisions_of(path, read_reviews(path.parent).reviews, self._sha256(path)), True)

    def decide(
        self,
        number: int,
        reviewer: str,
        decision: str,
        reasons: Sequence[str],
        comment: str,
        seen_sha256: str,
        settles: bool,
    ) -> Row:
        """Write a review down and give the episode with it. Raises InputError (`make_review`; settling what
        is not disputed), StorageError."""
        path = self.path(number)
        if settles and self.row(number).decisions.verdict(self.needed) != "disputed":
            raise InputError(f"{path.name} is not disputed, so there is nothing to settle")
        review = make_review(
            path, reviewer, decision, reasons, comment, settles=settles, seen_sha256=seen_sha256
        )
        append(path.parent, review)
        return self.row(number)


def counts(rows: Sequence[Row], needed: int) -> dict[str, Any]:
    """How many episodes there are of each verdict, and how many reviews by whom and for which reason."""
    verdicts = Counter(
        row.decisions.verdict(needed) for row in rows if row.decisions.manifest_sha256 is not None
    )
    names: dict[str, str] = {}
    reviews: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for row in rows:
        for who, review in row.decisions.latest.items():
            names[who] = review.reviewer
            reviews[who] += 1
            reasons.update(review.reasons)
    return {
        "episodes": len(rows),
        **{word: verdicts[word] for word in ("accepted", "rejected", "open", "disputed")},
        "not_finished": sum(row.decisions.manifest_sha256 is None for row in rows),
        "changed": sum(bool(row.decisions.changed) for row in rows),
        "reviewers": {names[who]: number for who, number in sorted(reviews.items())},
        "reasons": dict(sorted(reasons.items())),
    }


def review_as_dict(review: Review) -> dict[str, Any]:
    """For JSON."""
    return {
        "reviewer": review.reviewer,
        "decision": review.decision,
        "reasons": list(review.reasons),
        "comment": review.comment,
        "utc": review.utc,
        "settles": review.settles,
    }
