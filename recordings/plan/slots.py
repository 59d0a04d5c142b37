"""Which episodes a plan has: a slot for each, before anybody knows where, by whom and about what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from recordings.combinations import COMBINATIONS
from recordings.profile import Difficulty, Feasibility, Grounding, Query

DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard")
# Kinds of infeasibility that make sense for a query: a question cannot be beyond a range, and only a schedule
# has times that can contradict each other.
INFEASIBLE: dict[Query, tuple[Feasibility, ...]] = {
    "Q1": ("nonexistent_resource",),
    "Q2": ("nonexistent_resource", "physical_limit"),
    "Q3": ("temporal_contradiction", "nonexistent_resource", "physical_limit"),
    "Q4": ("nonexistent_resource", "physical_limit"),
}
# Who is hardest to place comes first, while there is most choice.
_ORDER: tuple[str, ...] = ("G2", "G4", "G1", "G3", "G0")


@dataclass(frozen=True)
class Slot:
    """One episode to be composed; number: its place in its cell, from 0."""

    grounding: Grounding
    query: Query
    feasible: bool
    number: int
    feasibility: Feasibility
    difficulty: Difficulty | None

    def __str__(self) -> str:
        kind = self.difficulty or self.feasibility
        return f"{self.grounding} {self.query} {kind}, number {self.number + 1}"


def slot(cell: int, feasible: bool, number: int) -> Slot:
    """The slot of a cell (an index into COMBINATIONS). Difficulties and kinds go round, beginning elsewhere
    in each cell, so that they are even over the plan however many a cell has."""
    grounding, query = COMBINATIONS[cell]
    if feasible:
        difficulty = DIFFICULTIES[(number + cell) % 3]
        return Slot(grounding, query, True, number, "feasible", difficulty)
    kinds = INFEASIBLE[query]
    turn = number + get_args(Grounding).index(grounding)
    return Slot(grounding, query, False, number, kinds[turn % len(kinds)], None)


def alternatives(slot: Slot) -> list[Slot]:
    """The slot, and what may stand for it in a home that cannot have it."""
    if slot.feasible:
        return [slot, *(replace(slot, difficulty=d) for d in DIFFICULTIES if d != slot.difficulty)]
    return [slot, *(replace(slot, feasibility=k) for k in INFEASIBLE[slot.query] if k != slot.feasibility)]


def slots(per_cell: int, already: dict[tuple[int, bool], int]) -> list[Slot]:
    """All that are missing for `per_cell` in each cell, in the order in which they are composed.

    already: (cell, feasible) -> how many there are.
    """
    found = [
        slot(cell, feasible, number)
        for cell in range(len(COMBINATIONS))
        for feasible in (True, False)
        for number in range(already.get((cell, feasible), 0), per_cell)
    ]
    found.sort(key=lambda s: (_ORDER.index(s.grounding), s.query != "Q4", s.number))
    return found
