"""Where each episode stands: what its reviewers say, and whether a guided session kept it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dsp.errors import InputError
from recordings.review.log import VerdictWord, decisions
from recordings.session_journal import read_journal


@dataclass(frozen=True)
class Standing:
    """verdict: None while nobody has reviewed it as it is now. kept: None where no guided session was, or its
    journal cannot be read."""

    verdict: VerdictWord | None
    kept: bool | None


def standings(root: str | Path) -> dict[Path, Standing]:
    """For every episode below a data or session folder, by its folder. Raises as `decisions`."""
    kept: dict[Path, set[str] | None] = {}
    found = {}
    for one in decisions(root):
        session = one.path.resolve().parent
        if session not in kept:
            kept[session] = _kept(session)
        wanted = kept[session]
        verdict = one.verdict() if one.reviews else None
        found[one.path] = Standing(verdict, None if wanted is None else one.path.name in wanted)
    return found


def _kept(session: Path) -> set[str] | None:
    try:
        journal = read_journal(session)
    except InputError:
        return None
    return set(journal.kept.values()) if journal.lines else None
