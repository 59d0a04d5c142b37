"""Training, validation and test: no person, or no room, in two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from dsp.errors import InputError
from recordings.terminal import counted

NAMES = ("train", "val", "test")
SIZES: Mapping[str, float] = {"train": 0.7, "val": 0.15, "test": 0.15}
_EXACT = 8  # groups: below, every assignment is tried
_OTHER = {
    "participant": ", or give --split-by room where there are several rooms",
    "room": ", or give --split-by participant where several people speak",
}
_KINDS = 0.5  # what the balance of kinds weighs against that of sizes


@dataclass(frozen=True)
class Unit:
    """An episode to be put somewhere: what must stay together (persons, or the room), and its kind
    (grounding, query, feasible or not)."""

    id: str
    keys: frozenset[str]
    kind: str


def split(units: Sequence[Unit], by: str, sizes: Mapping[str, float] = SIZES) -> dict[str, str]:
    """id -> split, so that no key is in two splits.

    Episodes that share a key, also through others, form a group that stays whole. Groups are put where sizes
    come nearest to those wanted and kinds are spread evenly; the same episodes give the same splits. by: what
    the keys are, for messages. sizes: shares of the splits, in order; they need not sum up to 1.
    Raises InputError when there are fewer groups than splits, an episode has no key, or sizes make no sense.
    """
    if not sizes or any(not 0 < share < 1e9 for share in sizes.values()):
        raise InputError(f"sizes of splits are positive numbers, not {dict(sizes)}")
    keyless = sorted(unit.id for unit in units if not unit.keys)
    if keyless:
        raise InputError(
            f"--split-by {by}: {counted(len(keyless), 'episode')} name no {by}, such as {keyless[0]}; leave"
            " them out or do not split"
        )
    groups = _groups(units)
    if len(groups) < len(sizes):
        raise InputError(_impossible(units, groups, by, len(sizes)))
    names = list(sizes)
    chosen = _exact(groups, sizes) if len(groups) <= _EXACT else _greedy(groups, sizes)
    return {unit.id: names[place] for group, place in zip(groups, chosen, strict=True) for unit in group}


def _groups(units: Sequence[Unit]) -> list[list[Unit]]:
    """Episodes that are linked by keys, largest group first, then by the smallest id."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for unit in units:
        first, *rest = sorted(unit.keys)
        for other in rest:
            a, b = sorted((find(first), find(other)))
            leader[b] = a
    found: dict[str, list[Unit]] = {}
    for unit in sorted(units, key=lambda unit: unit.id):
        found.setdefault(find(min(unit.keys)), []).append(unit)
    return sorted(found.values(), key=lambda group: (-len(group), group[0].id))


def _impossible(units: Sequence[Unit], groups: list[list[Unit]], by: str, wanted: int) -> str:
    keys = sorted({key for unit in units for key in unit.keys})
    text = f"--split-by {by}: {wanted} splits need {wanted} groups without a common {by}; there"
    text += f" {'is' if len(groups) == 1 else 'are'} {len(groups)} ({by}s: {', '.join(keys[:10])})"
    if len(keys) == 1:
        return f"{text}. One {by} cannot be split: leave out --split-by{_OTHER.get(by, '')}"
    linking = sorted((unit for unit in units if len(unit.keys) > 1), key=lambda unit: unit.id)
    ways = []
    if linking:
        one = linking[0]
        text += (
            f". {counted(len(linking), 'episode')} with several of them, such as {one.id}"
            f" ({', '.join(sorted(one.keys))}), tie them together"
        )
        alone = {key for unit in units if len(unit.keys) == 1 for key in unit.keys}
        if len(alone) >= wanted:
            ways.append("--drop-mixed, which leaves out those that would be in two splits")
    if by == "participant":
        ways.append("--split-by room, where there are several rooms")
    if wanted > 2 and len(groups) >= 2:
        ways.append("--sizes 80/20, which makes train and test only")
    ways.append("no --split-by, which makes no splits")
    return f"{text}. What works: {'; '.join(ways)}"


def drop_mixed(
    units: Sequence[Unit], by: str, sizes: Mapping[str, float] = SIZES
) -> tuple[dict[str, str], list[str]]:
    """Splits where episodes that link two splits are left out: (id -> split, ids left out, sorted).

    Each key (person) goes to one split, by the episodes that hold it alone; an episode whose keys are in two
    splits goes nowhere. Raises InputError as `split`.
    """
    alone = [unit for unit in units if len(unit.keys) == 1]
    chosen = split(alone, by, sizes)
    place = {key: chosen[unit.id] for unit in alone for key in unit.keys}
    left = []
    for unit in units:
        if len(unit.keys) == 1:
            continue
        where = {place.get(key) for key in unit.keys}
        if len(where) == 1 and None not in where:
            chosen[unit.id] = str(where.pop())
        else:
            left.append(unit.id)
    return chosen, sorted(left)


def _cost(counts: Sequence[Counter[str]], total: Counter[str], shares: Sequence[float]) -> float:
    """How far sizes, and within each kind its distribution over the splits, are from those wanted; an empty
    split costs more than everything else."""
    everything = sum(total.values())
    off = 0.0
    for held, share in zip(counts, shares, strict=True):
        size = sum(held.values())
        off += abs(size / everything - share) + (10.0 if size == 0 else 0.0)
        off += _KINDS * sum(abs(held[kind] - share * number) for kind, number in total.items()) / everything
    return off


def _prepared(
    groups: list[list[Unit]], sizes: Mapping[str, float]
) -> tuple[list[Counter[str]], Counter[str], list[float]]:
    held = [Counter(unit.kind for unit in group) for group in groups]
    whole = sum(sizes.values())
    return held, sum(held, Counter()), [share / whole for share in sizes.values()]


def _exact(groups: list[list[Unit]], sizes: Mapping[str, float]) -> tuple[int, ...]:
    held, total, shares = _prepared(groups, sizes)
    best: tuple[float, tuple[int, ...]] | None = None
    for places in product(range(len(shares)), repeat=len(groups)):
        if len(set(places)) < len(shares):
            continue
        counts: list[Counter[str]] = [Counter() for _ in shares]
        for place, group in zip(places, held, strict=True):
            counts[place].update(group)
        cost = round(_cost(counts, total, shares), 9)
        if best is None or (cost, places) < best:
            best = cost, places
    assert best is not None
    return best[1]


def _greedy(groups: list[list[Unit]], sizes: Mapping[str, float]) -> tuple[int, ...]:
    """Largest first, each where it costs least; then groups move as long as that helps."""
    held, total, shares = _prepared(groups, sizes)
    counts: list[Counter[str]] = [Counter() for _ in shares]
    places: list[int] = []

    def cost_at(group: Counter[str], place: int) -> float:
        counts[place].update(group)
        cost = round(_cost(counts, total, shares), 9)
        counts[place].subtract(group)
        return cost

    def cheapest(group: Counter[str]) -> int:
        return min(range(len(shares)), key=lambda place: (cost_at(group, place), place))

    for group in held:
        place = cheapest(group)
        counts[place].update(group)
        places.append(place)
    moved = True
    while moved:
        moved = False
        now = round(_cost(counts, total, shares), 9)
        for number, group in enumerate(held):
            counts[places[number]].subtract(group)
            best = cheapest(group)
            if (cost := cost_at(group, best)) < now:
                places[number], now, moved = best, cost, True
            counts[places[number]].update(group)
    return tuple(places)


def sizes_of(splits: Mapping[str, str], names: Sequence[str] = NAMES) -> dict[str, int]:
    """How many episodes each split has."""
    found = Counter(splits.values())
    return {name: found[name] for name in (*names, *sorted(set(found) - set(names))) if name in found}
