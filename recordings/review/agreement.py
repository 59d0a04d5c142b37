"""How far reviewers agree beyond chance: percent agreement, Cohen's kappa, Gwet's AC1, per reason too.

Only blind reviews count (`Decisions.blind`): the last word that a reviewer gave before seeing the others'.
Kappa falls towards 0 when nearly all episodes are good, however well two people agree, because it takes its
chance agreement from how often each word was used; AC1 does not. Both are given, each with a 95 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.review.log import REASONS, Decisions, Reason, Review

Z95 = 1.959963984540054  # of the normal distribution, two-sided
Interval = tuple[float, float]


@dataclass(frozen=True)
class Measure:
    """A coefficient and its 95 % interval; None where it is not defined (too few, or no variation at all)."""

    value: float | None
    low: float | None = None
    high: float | None = None


UNDEFINED = Measure(None)


@dataclass(frozen=True)
class PairAgreement:
    """Two reviewers over the episodes that both reviewed. table: how many of them both accepted, only the
    first accepted, only the second accepted, both rejected."""

    reviewers: tuple[str, str]
    episodes: int
    table: tuple[int, int, int, int]
    percent: Measure
    kappa: Measure
    ac1: Measure


@dataclass(frozen=True)
class ReasonAgreement:
    """One reason over all episodes that two reviewed: given by both, by one of them, by neither.

    specific: the share of those who gave it whom the other joined, 2 both / (2 both + one) (Dice).
    """

    reason: Reason
    both: int
    one: int
    neither: int
    specific: float | None
    kappa: Measure


@dataclass(frozen=True)
class Agreement:
    """Of every episode with two blind reviews or more the first two; ac1 and percent over all reviewers.
    kappa, which is of two people, only where there are just two."""

    episodes: int
    percent: Measure
    kappa: Measure
    ac1: Measure
    pairs: tuple[PairAgreement, ...]
    reasons: tuple[ReasonAgreement, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def agreement(decisions: Sequence[Decisions]) -> Agreement:
    """The agreement of all reviewers over these episodes."""
    blind = [tuple(found.blind.values()) for found in decisions]
    first_two = [tuple(sorted(reviews[:2], key=lambda r: r.who)) for reviews in blind if len(reviews) > 1]
    table = _decision_table(first_two)
    people = {review.who for reviews in first_two for review in reviews}
    pairs: dict[tuple[str, str], list[tuple[Review, ...]]] = {}
    for reviews in blind:
        for a, b in combinations(sorted(reviews, key=lambda r: r.who), 2):
            pairs.setdefault((a.who, b.who), []).append((a, b))
    return Agreement(
        episodes=len(first_two),
        percent=percent_agreement(table),
        kappa=cohen_kappa(table) if len(people) == 2 else UNDEFINED,
        ac1=gwet_ac1(table),
        pairs=tuple(_pair(both) for _, both in sorted(pairs.items())),
        reasons=tuple(_reason(reason, first_two) for reason in REASONS),
    )


def _pair(both: Sequence[tuple[Review, ...]]) -> PairAgreement:
    table = _decision_table(both)
    (a, b), (c, d) = table.tolist()
    names = both[-1][0].reviewer, both[-1][1].reviewer
    return PairAgreement(
        names, len(both), (a, b, c, d), percent_agreement(table), cohen_kappa(table), gwet_ac1(table)
    )


def _decision_table(both: Sequence[tuple[Review, ...]]) -> NDArray[np.int64]:
    table = np.zeros((2, 2), np.int64)
    for a, b in both:
        table[int(a.decision == "reject"), int(b.decision == "reject")] += 1
    return table


def _reason(reason: Reason, both: Sequence[tuple[Review, ...]]) -> ReasonAgreement:
    table = np.zeros((2, 2), np.int64)
    for a, b in both:
        table[int(reason in a.reasons), int(reason in b.reasons)] += 1
    given, one = int(table[1, 1]), int(table[0, 1] + table[1, 0])
    specific = 2 * given / (2 * given + one) if given + one else None
    return ReasonAgreement(reason, given, one, int(table[0, 0]), specific, cohen_kappa(table))


def _shares(table: ArrayLike) -> tuple[NDArray[np.float64], int]:
    counts = np.asarray(table, np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or len(counts) < 2:
        raise InputError(f"an agreement table is square, 2 x 2 or larger, not of shape {counts.shape}")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError("an agreement table holds counts, 0 or more")
    total = counts.sum()
    return counts / total if total else counts, round(total)


def wilson(share: float, count: int) -> Interval:
    """The 95 % score interval of a share (Wilson 1927): fit for few, and for all or none."""
    middle = (share + Z95**2 / (2 * count)) / (1 + Z95**2 / count)
    half = Z95 / (1 + Z95**2 / count) * math.sqrt(share * (1 - share) / count + (Z95 / (2 * count)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def percent_agreement(table: ArrayLike) -> Measure:
    """The share on the diagonal of a table of counts (categories, categories), with Wilson's interval."""
    p, count = _shares(table)
    if not count:
        return UNDEFINED
    share = float(np.trace(p))
    return Measure(100 * share, *(100 * limit for limit in wilson(share, count)))


def cohen_kappa(table: ArrayLike) -> Measure:
    """Cohen's kappa (1960) of a table of counts; the interval by the large-sample standard error of Fleiss,
    Cohen and Everitt (1969). Where all agree that error is 0 and says nothing: then the lower limit is the
    kappa of the lower Wilson limit of the agreement. Undefined when both used one and the same word only."""
    p, count = _shares(table)
    if not count:
        return UNDEFINED
    rows, columns = p.sum(1), p.sum(0)
    observed, chance = float(np.trace(p)), float(rows @ columns)
    if chance > 1 - 1e-12:
        return UNDEFINED
    kappa = (observed - chance) / (1 - chance)
    if observed > 1 - 1e-12:
        return Measure(1.0, max((wilson(1.0, count)[0] - chance) / (1 - chance), -1.0), 1.0)
    same = np.diag(p) * (1 - (rows + columns) * (1 - kappa)) ** 2
    other = p * (columns[:, None] + rows[None, :]) ** 2
    np.fill_diagonal(other, 0.0)
    squares = same.sum() + (1 - kappa) ** 2 * other.sum() - (kappa - chance * (1 - kappa)) ** 2
    error = math.sqrt(max(float(squares), 0.0) / count) / (1 - chance)
    return Measure(kappa, max(kappa - Z95 * error, -1.0), min(kappa + Z95 * error, 1.0))


def gwet_ac1(table: ArrayLike) -> Measure:
    """Gwet's AC1 (2008, Br. J. Math. Stat. Psychol. 61, 29-48) of a table of counts; the interval by his
    variance for two raters. Where all agree the lower limit is that of the lower Wilson limit."""
    p, count = _shares(table)
    if not count:
        return UNDEFINED
    words = len(p)
    used = (p.sum(1) + p.sum(0)) / 2
    observed, chance = float(np.trace(p)), float((used * (1 - used)).sum() / (words - 1))
    value = (observed - chance) / (1 - chance)
    if observed > 1 - 1e-12:
        return Measure(1.0, max((wilson(1.0, count)[0] - chance) / (1 - chance), -1.0), 1.0)
    if count < 2:
        return Measure(value)
    agreed = float((np.diag(p) * (1 - used)).sum()) / (words - 1)
    mean = (used[:, None] + used[None, :]) / 2
    spread = float((p * (1 - mean) ** 2).sum()) / (words - 1) ** 2
    squares = (
        observed * (1 - observed)
        - 4 * (1 - value) * (agreed - observed * chance)
        + 4 * (1 - value) ** 2 * (spread - chance**2)
    )
    error = math.sqrt(max(squares, 0.0) / count) / (1 - chance)
    return Measure(value, max(value - Z95 * error, -1.0), min(value + Z95 * error, 1.0))
