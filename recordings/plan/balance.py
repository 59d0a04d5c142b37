"""How evenly a plan uses what it has: counts, the largest minus the smallest, and chi-square."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recordings.combinations import COMBINATIONS
from recordings.plan.model import Plan, PlanItem
from recordings.plan.people import TURNS_OF
from recordings.plan.places import SIDES, bearing, side_of, turn_of
from recordings.plan.slots import DIFFICULTIES


@dataclass(frozen=True)
class Spread:
    """Counts of one kind of thing. expected: what each would have if all were equal (or as it should be)."""

    name: str
    counts: dict[str, int]
    expected: dict[str, float]

    @property
    def max_min(self) -> int:
        """The largest count minus the smallest."""
        return max(self.counts.values()) - min(self.counts.values()) if self.counts else 0

    @property
    def chi_square(self) -> float:
        """Pearson's statistic against `expected`; its mean for a plan drawn at random would be `freedom`."""
        pairs = [(self.counts[name], self.expected[name]) for name in self.counts if self.expected[name] > 0]
        return sum((count - wanted) ** 2 / wanted for count, wanted in pairs)

    @property
    def freedom(self) -> int:
        """Degrees of freedom."""
        return max(0, len(self.counts) - 1)

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "name": self.name,
            "counts": self.counts,
            "max_min": self.max_min,
            "chi_square": round(self.chi_square, 3),
            "freedom": self.freedom,
        }


def spread(
    name: str, things: Sequence[str], used: Iterable[str], shares: Mapping[str, float] | None = None
) -> Spread:
    """Counts of `used` over `things`, which should be even, or in proportion to `shares`."""
    counted = Counter(used)
    total = sum(counted[thing] for thing in things)
    weight = {thing: 1.0 if shares is None else shares[thing] for thing in things}
    whole = sum(weight.values()) or 1.0
    return Spread(
        name,
        {thing: counted[thing] for thing in things},
        {thing: total * weight[thing] / whole for thing in things},
    )


def balance(plan: Plan) -> list[Spread]:
    """All the spreads of a plan, in the order of reading. Items that are skipped do not count."""
    items = [item for item in plan.items if not item.skip]
    rooms = [room.id for room in plan.rooms]
    people = [person.id for person in plan.participants]
    devices = [device for room in plan.rooms for device in room.devices]
    types = Counter(device.type for device in devices)
    kind = {device.id: device.type for device in devices}
    targets = [item.target_device for item in items if item.target_device is not None]
    found = [
        spread(
            "combinations (feasible, infeasible)",
            [f"{g} {q} {f}" for g, q in COMBINATIONS for f in ("feasible", "infeasible")],
            [f"{i.grounding} {i.query} {_feasible(i)}" for i in items],
        ),
        spread("rooms", rooms, [i.staging.room for i in items]),
        spread("participants", people, [i.speaker for i in items]),
        spread(
            "rooms x participants",
            [f"{room} {person}" for room in rooms for person in people],
            [f"{i.staging.room} {i.speaker}" for i in items],
        ),
        spread("target devices", [device.id for device in devices], targets),
        spread(
            "device types (expected: by their number in the home)",
            sorted(types),
            [kind[target] for target in targets if target in kind],
            {name: float(count) for name, count in types.items()},
        ),
        spread("difficulty of feasible ones", DIFFICULTIES, [i.difficulty for i in items if i.difficulty]),
    ]
    for grounding, turns in TURNS_OF.items():
        used = [turn for i in items if i.grounding == grounding for turn in _turns(plan, i)]
        found.append(spread(f"orientation of the speaker, {grounding}", turns, used))
    sides = [side for i in items if i.grounding == "G3" for side in _sides(i)]
    found.append(spread("sides said, G3", SIDES, sides))
    return found


def kinds_of_infeasibility(plan: Plan) -> dict[str, dict[str, int]]:
    """Query -> kind -> items. Not even on purpose: see `recordings.plan.slots.INFEASIBLE`."""
    table: dict[str, Counter[str]] = {}
    for item in plan.items:
        if item.feasibility != "feasible" and not item.skip:
            table.setdefault(item.query, Counter())[item.feasibility] += 1
    return {query: dict(sorted(table[query].items())) for query in sorted(table)}


def _feasible(item: PlanItem) -> str:
    return "feasible" if item.feasibility == "feasible" else "infeasible"


def _turns(plan: Plan, item: PlanItem) -> list[str]:
    microphone = next(room.microphone_m for room in plan.rooms if room.id == item.staging.room)
    return [turn_of(p.mouth_m, p.facing_deg, microphone) for p in item.staging.people if p.speaks]


def _sides(item: PlanItem) -> list[str]:
    place = next((d.position_m for d in item.home.devices if d.id == item.target_device), None)
    if place is None:
        return []
    sides = [side_of(bearing(p.mouth_m, place) - p.facing_deg) for p in item.staging.people if p.speaks]
    return [side for side in sides if side is not None]
