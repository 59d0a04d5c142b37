"""The decisions as a table (CSV), and counts and agreement in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from recordings.review.agreement import Agreement, Measure, agreement
from recordings.review.catalogue import Row, counts
from recordings.review.log import REASONS
from recordings.terminal import counted

COLUMNS = (
    "session", "episode", "verdict", "reviewer", "decision", "reasons", "comment", "utc", "settles", "counts"
)  # fmt: skip


def decisions_csv(rows: Sequence[Row], needed: int) -> str:
    """One line per review, in order of time; one without a reviewer for an episode that nobody reviewed.
    `counts` is no for a review of an episode that was changed since."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for row in rows:
        found = row.decisions
        head = [found.path.parent.name, row.id, found.verdict(needed)]
        for review in (*found.changed, *found.reviews):
            yes = "yes" if review in found.reviews else "no"
            settles = "yes" if review.settles else "no"
            reasons = " ".join(review.reasons)
            written = [_no_formula(text) for text in (review.reviewer, review.comment)]
            table.writerow(
                [*head, written[0], review.decision, reasons, written[1], review.utc, settles, yes]
            )
        if not (found.changed or found.reviews):
            table.writerow([*head, *[""] * 7])
    return out.getvalue()


def _no_formula(text: str) -> str:
    """A spreadsheet would run what begins like a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def summary(rows: Sequence[Row], needed: int) -> dict[str, Any]:
    """Counts, agreement, and which episodes are disputed or were changed since a review, for JSON."""
    decisions = [row.decisions for row in rows]
    return {
        **counts(rows, needed),
        "reviewers_needed": needed,
        "agreement": agreement(decisions).to_dict(),
        "disputed_episodes": [
            str(row.decisions.path) for row in rows if row.decisions.verdict(needed) == "disputed"
        ],
        "changed_episodes": [str(found.path) for found in decisions if found.changed],
    }


def in_words(rows: Sequence[Row], needed: int) -> list[str]:
    """The same for people."""
    found = counts(rows, needed)
    reviewers = ", ".join(f"{name} {number}" for name, number in found["reviewers"].items()) or "nobody yet"
    words = [f"{found[word]} {word}" for word in ("accepted", "rejected", "disputed", "open")]
    if found["not_finished"]:
        words.append(f"{found['not_finished']} not finished")
    lines = [
        f"{counted(found['episodes'], 'episode')}: {', '.join(words)}",
        f"reviewed by {reviewers} ({counted(needed, 'reviewer')} needed)",
    ]
    if found["reasons"]:
        lines.append("reasons: " + ", ".join(f"{reason} {n}" for reason, n in found["reasons"].items()))
    lines += _agreement_in_words(agreement([row.decisions for row in rows]))
    lines += [
        f"disputed: {row.decisions.path}" for row in rows if row.decisions.verdict(needed) == "disputed"
    ]
    lines += [f"note: {row.id}: {row.decisions.note}" for row in rows if row.decisions.note]
    return lines


def _agreement_in_words(found: Agreement) -> list[str]:
    if not found.episodes:
        return ["agreement: no episode has two blind reviews yet"]
    lines = [
        f"agreement over {counted(found.episodes, 'episode')}: {_percent(found.percent)},"
        f" AC1 {_measure(found.ac1)}"
        + (f", kappa {_measure(found.kappa)}" if found.kappa.value is not None else "")
    ]
    if len(found.pairs) > 1:
        lines += [
            f"  {' and '.join(pair.reviewers)}, {counted(pair.episodes, 'episode')}:"
            f" {_percent(pair.percent)}, kappa {_measure(pair.kappa)}, AC1 {_measure(pair.ac1)}"
            for pair in found.pairs
        ]
    lines += [
        f"  {one.reason} ({REASONS[one.reason].lower()}): both {one.both}, one {one.one}"
        for one in found.reasons
        if one.both + one.one
    ]
    return lines


def _percent(measure: Measure) -> str:
    return (
        "-" if measure.value is None else f"{measure.value:.1f} % ({measure.low:.0f} to {measure.high:.0f})"
    )


def _measure(measure: Measure) -> str:
    if measure.value is None:
        return "not defined"
    if measure.low is None or measure.high is None:
        return f"{measure.value:.2f}"
    return f"{measure.value:.2f} ({measure.low:.2f} to {measure.high:.2f})"
