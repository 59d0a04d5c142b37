"""Splits: nobody in two of them, as near to the wanted sizes as an exhaustive search gets, or refused."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings.release.splits import SIZES, Unit, drop_mixed, sizes_of, split


def unit(name: str, *keys: str, kind: str = "G0 Q1 feasible") -> Unit:
    return Unit(name, frozenset(keys), kind)


def keys_of(units: list[Unit], chosen: dict[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in units:
        if one.id in chosen:
            for key in one.keys:
                found.setdefault(key, set()).add(chosen[one.id])
    return found


people = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=2), st.sampled_from("xyz")
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=15, deadline=None)
@given(people)
def test_no_key_is_in_two_splits_and_every_split_has_something(made):
    units = [Unit(f"e{i:03d}", keys, kind) for i, (keys, kind) in enumerate(made)]
    try:
        chosen = split(units, "participant")
    except InputError as error:
        assert "3 splits need 3 groups" in str(error)
        return
    assert set(chosen) == {one.id for one in units}
    assert all(len(where) == 1 for where in keys_of(units, chosen).values())
    assert set(chosen.values()) == set(SIZES)
    assert split(list(reversed(units)), "participant") == chosen, "the order of the episodes does not matter"


def test_sizes_are_the_nearest_that_there_are():
    rng = np.random.default_rng(5)
    sizes = rng.integers(3, 40, 7)
    units = [unit(f"p{p}-{i}", f"p{p}") for p, size in enumerate(sizes) for i in range(size)]
    counts = sizes_of(split(units, "participant"))
    total = sum(sizes)
    best = min(
        sum(
            abs(sum(s for s, place in zip(sizes, places, strict=True) if place == k) / total - share)
            for k, share in enumerate(SIZES.values())
        )
        for places in product(range(3), repeat=7)
        if len(set(places)) == 3
    )
    found = sum(abs(counts[name] / total - share) for name, share in SIZES.items())
    assert found == pytest.approx(best, abs=1e-9)


def test_many_groups_come_within_one_group_of_the_wanted_sizes():
    units = [unit(f"p{p:02d}-{i}", f"p{p:02d}") for p in range(40) for i in range(5)]
    counts = sizes_of(split(units, "participant"))
    for name, share in SIZES.items():
        assert abs(counts[name] - share * 200) <= 5


def test_kinds_are_spread():
    # Twelve speakers of one size, half of them say only G0, the other half only G1: each split gets both.
    units = [
        unit(f"p{p:02d}-{i}", f"p{p:02d}", kind="G0" if p < 6 else "G1") for p in range(12) for i in range(4)
    ]
    chosen = split(units, "participant", {"train": 2, "test": 1})
    held = {name: Counter(one.kind for one in units if chosen[one.id] == name) for name in ("train", "test")}
    assert held == {"train": Counter(G0=16, G1=16), "test": Counter(G0=8, G1=8)}


def test_refused_when_impossible_and_says_why():
    two = [unit("a", "p1"), unit("b", "p2")]
    with pytest.raises(InputError, match=r"3 splits need 3 groups without a common room; there are 2"):
        split(two, "room")
    with pytest.raises(InputError, match=r"1 episode name no participant, such as c"):
        split([*two, unit("c")], "participant")
    tied = [unit("a", "p1"), unit("b", "p2"), unit("c", "p3"), unit("d", "p1", "p2"), unit("e", "p2", "p3")]
    with pytest.raises(
        InputError, match=r"2 episodes with several of them, such as d \(p1, p2\).*--drop-mixed"
    ):
        split(tied, "participant")
    for by, other in (("room", "participant"), ("participant", "room")):
        with pytest.raises(InputError, match=f"One {by} cannot be split.*--split-by {other}"):
            split([unit("a", "x"), unit("b", "x")], by)
    always = [unit(f"e{i}", "p1", f"p{i}") for i in range(2, 6)]  # nobody is ever alone
    with pytest.raises(InputError) as told:
        split(always, "participant")
    assert "--split-by room" in str(told.value) and "--drop-mixed" not in str(told.value)
    for wrong in ({}, {"train": 0.0, "test": 1.0}, {"train": float("nan")}):
        with pytest.raises(InputError, match="positive numbers"):
            split(two, "room", wrong)


def test_mixed_episodes_are_dropped_only_where_they_would_be_in_two_splits():
    units = [unit(f"{p}{i}", p) for p in ("p1", "p2", "p3", "p4") for i in range(5)]
    units += [unit(f"m{a}{b}", a, b) for a, b in (("p1", "p2"), ("p1", "p3"), ("p3", "p4"))]
    units.append(unit("guest", "p1", "nobody-else-knows"))
    chosen, left = drop_mixed(units, "participant")
    assert all(len(where) == 1 for where in keys_of(units, chosen).values())
    together = {"train": [p for p in ("p1", "p2", "p3", "p4") if chosen[f"{p}0"] == "train"]}
    kept = [one.id for one in units if len(one.keys) > 1 and one.id in chosen]
    assert kept == [
        f"m{a}{b}" for a, b in (("p1", "p2"), ("p1", "p3"), ("p3", "p4")) if {a, b} <= set(together["train"])
    ]
    assert set(left) | set(chosen) == {one.id for one in units} and "guest" in left
