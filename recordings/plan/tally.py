"""What a plan has used so far; the composer takes what was used least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from recordings.plan.model import PlanItem, PlanRoom
from recordings.plan.places import bearing, side_of, turn_of
from recordings.plan.schedule import kind_of

T = TypeVar("T")


class Tally:
    """Counts by kind of thing: ("room", "kitchen"), ("turn", "G3", "away")."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()
        self.requests: set[str] = set()

    def __getitem__(self, key: tuple[str, ...]) -> int:
        return self._counts[key]

    def add(self, *key: str) -> None:
        """One more of it."""
        self._counts[key] += 1

    def least(self, things: Sequence[T], names: Iterable[tuple[str, ...]]) -> list[T]:
        """The things, least used first; equals keep their order."""
        used = [self._counts[name] for name in names]
        return [things[i] for i in sorted(range(len(things)), key=lambda i: used[i])]

    def add_item(self, item: PlanItem, room: PlanRoom) -> None:
        """All that an item uses; room: where it is recorded."""
        self.add("room", room.id)
        self.add("speaker", item.speaker)
        self.add("pair", room.id, item.speaker)
        self.add("room", item.grounding, item.query, room.id)
        self.add("speaker", item.grounding, item.query, item.speaker)
        if item.target_device is not None:
            self.add("device", item.target_device)
        if item.goal.steps:
            self.add("schedule", kind_of(item.goal.steps, item.request))
        target = next((d for d in room.devices if d.id == item.target_device), None)
        for placed in item.staging.people:
            if not placed.speaks:
                self.add("beside", placed.person)
                continue
            self.add("turn", item.grounding, turn_of(placed.mouth_m, placed.facing_deg, room.microphone_m))
            if item.grounding == "G3" and target is not None and target.position_m is not None:
                side = side_of(bearing(placed.mouth_m, target.position_m) - placed.facing_deg)
                self.add("side", side or "")
        self.requests.add(item.request.casefold())
