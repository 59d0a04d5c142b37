"""Which episodes may go out, and why the others may not.

Fails closed: an episode goes out when everything that is asked for is known to hold. What cannot be told
counts as "no".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from dsp.errors import HearthError, InputError
from recordings.episode import RELEASE, Episode, list_episodes

if TYPE_CHECKING:
    from recordings.consent.book import ConsentBook


@dataclass(frozen=True)
class LeftOut:
    """An episode that may not go out. code: unreadable, not_finished, not_kept, no_sound, consent, rejected,
    disputed, unreviewed, not_verified, mixed (it would be in two splits), or unsafe (a face or voice)."""

    path: Path
    code: str
    why: str

    def to_dict(self) -> dict[str, str]:
        """Plain data, for --json."""
        return {"path": str(self.path), "code": self.code, "why": self.why}


@dataclass(frozen=True)
class Selection:
    """episodes: folders that may go out; left_out: those that may not. Both sorted by path."""

    episodes: tuple[Path, ...]
    left_out: tuple[LeftOut, ...] = ()

    def codes(self) -> dict[str, int]:
        """How many were left out, by code."""
        return dict(sorted(Counter(one.code for one in self.left_out).items()))


def select(
    paths: str | Path | Iterable[str | Path],
    *,
    need_accepted: bool = True,
    need_consent: bool = True,
    need_verified: bool = True,
    at: date | None = None,
    advance: Callable[[float], None] = lambda episodes: None,
) -> Selection:
    """Look through data folders, sessions or episodes.

    need_accepted: reviewers have to have accepted it; False lets those without a verdict through, never one
    that anybody rejected (and nobody overruled) or that is disputed. need_consent: everybody in it agreed to
    sharing on the day `at` (default: today). need_verified: everything is as it was sealed, by its hashes. A
    take of a planned item has to be the one that its session kept. Calls `advance(1)` per episode. Raises
    InputError for a path that is no folder or holds no episode, and for a consent book that cannot be read.
    """
    roots = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    judge = _Judge(need_accepted, need_consent, need_verified, at)
    good, bad = [], []
    for episode in _found(roots):
        code, why = judge(episode)
        if code:
            bad.append(LeftOut(episode.path, code, why))
        else:
            good.append(episode.path)
        advance(1)
    return Selection(tuple(sorted(good)), tuple(sorted(bad, key=lambda one: one.path)))


def _found(roots: list[Path]) -> list[Episode]:
    found: dict[Path, Episode] = {}
    for root in roots:
        episodes = list_episodes(root)
        if not episodes:
            raise InputError(f"{root}: holds no episode; give a data folder, a session or an episode")
        found.update({episode.path.resolve(): episode for episode in episodes})
    return [found[key] for key in sorted(found)]


@dataclass
class _Judge:
    """Keeps what was read about sessions and data folders."""

    need_accepted: bool
    need_consent: bool
    need_verified: bool
    at: date | None
    books: dict[Path, ConsentBook] = field(default_factory=dict)
    kept: dict[Path, dict[str, Path] | str] = field(default_factory=dict)

    def __call__(self, episode: Episode) -> tuple[str, str]:
        """("", "") when it may go out, else the code and why not; what is quick to tell comes first."""
        profile, path = episode.profile, episode.path.resolve()
        if profile.id == "unreadable" and profile.notes.startswith("unreadable: "):
            return "unreadable", profile.notes.removeprefix("unreadable: ")
        if episode.state != "finished":
            return "not_finished", f"it is {episode.state}; `hearth repair` finishes what was cut off"
        if profile.plan_item is not None and (why := self._not_kept(path, profile.plan_item)):
            return "not_kept", why
        if not (path / RELEASE).is_file():
            return "no_sound", f"it has no {RELEASE}: its sound is not first-order ambisonics"
        if self.need_consent:
            allowed = self._book(path.parent.parent).sharing(profile, self.at)
            if not allowed:
                return "consent", allowed.why
        return self._reviewed(path) or self._verified(path) or ("", "")

    def _book(self, data_folder: Path) -> ConsentBook:
        from recordings.consent.book import ConsentBook

        if data_folder not in self.books:
            self.books[data_folder] = ConsentBook.open(data_folder)
        return self.books[data_folder]

    def _not_kept(self, path: Path, item: str) -> str:
        """Why a take of a planned item is not the one that counts; "" for the one that was kept."""
        from recordings.session_journal import kept_takes

        session = path.parent
        if session not in self.kept:
            try:
                self.kept[session] = kept_takes(session)
            except HearthError as error:
                self.kept[session] = str(error)
        kept = self.kept[session]
        if isinstance(kept, str):
            return kept
        if item not in kept:
            return f"the session's journal keeps no take of {item}"
        return "" if kept[item].resolve() == path else f"of {item} the session kept {kept[item].name}"

    def _reviewed(self, path: Path) -> tuple[str, str] | None:
        from recordings.review.log import decisions

        found = decisions(path)[0]
        said = found.verdict()
        if said == "disputed":
            return "disputed", "reviewers do not agree about it"
        if said == "rejected":
            return "rejected", "reviewers rejected it"
        if who := found.rejected_by:  # too few for a verdict, but a no is a no
            return "rejected", f"{', '.join(who)} rejected it"
        if said != "accepted" and self.need_accepted:
            return "unreviewed", "it is not accepted yet: `hearth review`, or --unreviewed"
        return None

    def _verified(self, path: Path) -> tuple[str, str] | None:
        from recordings.verify_episode import verify

        if not self.need_verified:
            return None
        report = verify(path)
        if report.ok:
            return None
        return "not_verified", "; ".join(str(problem) for problem in report.problems)
