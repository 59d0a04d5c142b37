"""Agreement of reviewers against published tables, other ways to compute it, and what must always hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings.review.agreement import (
    Z95,
    agreement,
    cohen_kappa,
    gwet_ac1,
    percent_agreement,
    wilson,
)
from recordings.review.log import Decisions, Review

SHA = "0" * 64
TABLES = st.lists(st.integers(0, 40), min_size=4, max_size=4).map(lambda v: np.array(v).reshape(2, 2))


def test_kappa_as_published() -> None:
    # Fleiss, Levin, Paik: Statistical Methods for Rates and Proportions, ch. 18: 100 subjects, 3 diagnoses
    table = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]
    kappa = cohen_kappa(table)
    assert kappa.value is not None and kappa.low is not None and kappa.high is not None
    assert kappa.value == pytest.approx(0.676, abs=5e-4)
    assert (kappa.high - kappa.low) / (2 * Z95) == pytest.approx(0.087, abs=1e-3)
    # SAS PROC FREQ, two tables whose printout is public (the second by J. Uebersax)
    kappa = cohen_kappa([[0, 4, 1], [0, 8, 0], [0, 1, 5]])
    assert (kappa.value, kappa.low, kappa.high) == pytest.approx((0.4842, 0.2137, 0.7547), abs=6e-5)
    kappa = cohen_kappa([[0, 0, 0], [5, 16, 3], [8, 12, 28]])
    assert (kappa.value, kappa.low, kappa.high) == pytest.approx((0.3333, 0.1738, 0.4929), abs=6e-5)


def test_ac1_as_published() -> None:
    # Gwet, Handbook of Inter-Rater Reliability, 4th ed., table 4.1
    assert gwet_ac1([[13, 0, 0], [0, 20, 4], [0, 7, 56]]).value == pytest.approx(0.84933, abs=5e-6)
    # The paradox: 94 % agree, kappa is below chance (Gwet 2002), AC1 is not.
    table = [[118, 5], [2, 0]]
    assert cohen_kappa(table).value == pytest.approx(-0.0234, abs=5e-5)
    assert gwet_ac1(table).value == pytest.approx(0.9408, abs=5e-5)


def ratings(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two raters' words, one entry per subject."""
    first, second = np.indices(table.shape).reshape(2, -1)
    return np.repeat(first, table.ravel()), np.repeat(second, table.ravel())


def kappa_by_disagreement(table: np.ndarray) -> float:
    """1 - observed / expected disagreement, from the lists: the way in which scikit-learn computes it."""
    a, b = ratings(table)
    expected = np.mean(a[:, None] != b[None, :])
    return float(1 - np.mean(a != b) / expected)


@given(TABLES)
def test_kappa_is_what_disagreement_gives(table: np.ndarray) -> None:
    rows, columns = table.sum(1), table.sum(0)
    kappa = cohen_kappa(table)
    if not table.sum() or rows @ columns == table.sum() ** 2:
        assert kappa.value is None  # one word only: nothing to agree on
        return
    assert kappa.value == pytest.approx(kappa_by_disagreement(table), abs=1e-9)
    assert -1 <= kappa.low <= kappa.value <= kappa.high <= 1
    turned = cohen_kappa(table.T)
    assert turned.value == pytest.approx(kappa.value) and turned.low == pytest.approx(kappa.low, abs=1e-9)


@given(TABLES)
def test_ac1_keeps_within_its_limits(table: np.ndarray) -> None:
    found = gwet_ac1(table)
    if table.sum():
        assert found.value is not None and -1 <= found.value <= 1
        if found.low is not None and found.high is not None:
            assert found.low <= found.value + 1e-12 and found.value <= found.high + 1e-12
        assert gwet_ac1(table[::-1, ::-1]).value == pytest.approx(found.value)  # the words may be exchanged


@pytest.mark.parametrize("table", [[[160, 36], [24, 100]], [[350, 25], [20, 15]], [[120, 48], [12, 80]]])
def test_intervals_are_those_of_a_jackknife(table: list[list[int]]) -> None:
    """Leaving out one subject after the other needs no formula for the variance."""
    counts = np.array(table)
    total = counts.sum()
    for measure in (cohen_kappa, gwet_ac1):
        found = measure(counts)
        assert found.low is not None and found.high is not None
        without, weights = [], []
        for cell in np.argwhere(counts):
            less = counts.copy()
            less[tuple(cell)] -= 1
            without.append(measure(less).value)
            weights.append(counts[tuple(cell)])
        mean = np.average(without, weights=weights)
        error = np.sqrt((total - 1) / total * np.sum(np.array(weights) * (np.array(without) - mean) ** 2))
        assert (found.high - found.low) / (2 * Z95) == pytest.approx(error, rel=0.06)


def test_all_agree_is_not_certain() -> None:
    for few, many in (([[4, 0], [0, 1]], [[160, 0], [0, 40]]),):
        for measure in (cohen_kappa, gwet_ac1):
            one, other = measure(few), measure(many)
            assert one.value == other.value == one.high == 1.0
            assert one.low < 0.6 < 0.9 < other.low < 1.0
    assert cohen_kappa([[12, 0], [0, 0]]).value is None and gwet_ac1([[12, 0], [0, 0]]).value == 1.0
    # Newcombe (1998): 81 of 263 by the score method
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert percent_agreement([[0, 0], [0, 0]]).value is None


@pytest.mark.parametrize(
    "table", [[1, 2], [[1]], [[1, 2, 3], [4, 5, 6]], [[1, -1], [0, 2]], [[np.nan, 1], [1, 1]]]
)
def test_what_is_no_table(table: list[object]) -> None:
    with pytest.raises(InputError, match="agreement table"):
        cohen_kappa(table)  # type: ignore[arg-type]


def of_episode(number: int, *said: tuple[str, str]) -> Decisions:
    """An episode with reviews: (reviewer, reasons; none: accepted), all blind as nobody decided twice."""
    reviews = tuple(
        Review(
            episode=f"e{number}", manifest_sha256=SHA, reviewer=who, utc="", reasons=tuple(reasons.split()),
            decision="reject" if reasons else "accept",
        )  # type: ignore[arg-type]
        for who, reasons in said
    )  # fmt: skip
    return Decisions(Path(f"e{number}"), SHA, reviews, ())


def test_agreement_over_episodes() -> None:
    said = [("", "")] * 6 + [("sync", "sync sound")] * 2 + [("", "goal")] + [("sound", "sync")]
    episodes = [of_episode(i, ("Ann", a), ("Ben", b)) for i, (a, b) in enumerate(said)]
    episodes += [of_episode(20, ("Ann", "sync")), of_episode(21)]
    found = agreement(episodes)
    table = np.array([[6, 1], [0, 3]])
    assert found.episodes == 10 and found.percent.value == pytest.approx(90.0)
    assert found.kappa == cohen_kappa(table) and found.ac1 == gwet_ac1(table)
    (pair,) = found.pairs
    assert pair.reviewers == ("Ann", "Ben") and pair.table == (6, 1, 0, 3) and pair.kappa == found.kappa
    by_reason = {one.reason: one for one in found.reasons}
    assert (by_reason["sync"].both, by_reason["sync"].one, by_reason["sync"].neither) == (2, 1, 7)
    assert by_reason["sync"].specific == pytest.approx(0.8)
    assert by_reason["sound"].specific == 0.0 and by_reason["privacy"].specific is None
    # A third person: kappa of two people is not defined over all, but of each pair.
    episodes += [
        of_episode(22, ("Ben", ""), ("Eve", "goal")),
        of_episode(23, ("Eve", ""), ("Ben", "")),
    ]
    more = agreement(episodes)
    assert more.kappa.value is None and more.episodes == 12 and len(more.pairs) == 2
    assert more.pairs[1].reviewers == ("Ben", "Eve") and more.pairs[1].table == (1, 1, 0, 0)
    assert agreement([]).episodes == 0 and agreement([]).ac1.value is None
