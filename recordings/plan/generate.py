"""Making a plan: every slot composed, in an order that a day of recording can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from dsp.errors import InputError
from recordings.combinations import COMBINATIONS
from recordings.plan.compose import Composer
from recordings.plan.device_types import AT_REST
from recordings.plan.model import Participant, Plan, PlanItem, PlanRoom
from recordings.plan.places import Places
from recordings.plan.slots import slots
from recordings.plan.tally import Tally

MOST_PER_CELL = 200


def make_plan(
    rooms: Sequence[PlanRoom],
    participants: Sequence[Participant],
    seed: int,
    *,
    name: str = "plan",
    per_cell: int = 8,
) -> Plan:
    """The shooting plan: for each of the 17 combinations `per_cell` feasible and as many infeasible episodes.

    Rooms, participants, devices and the turns of the speakers are used evenly. The same arguments give the
    same plan. Items stand in the order of recording: room by room, in a room speaker by speaker.
    Raises InputError when the home cannot have such episodes: it says which and what they need.
    """
    empty = Plan(name=name, seed=seed, rooms=tuple(rooms), participants=tuple(participants), items=())
    return extend_plan(empty, per_cell)


def extend_plan(plan: Plan, per_cell: int) -> Plan:
    """The plan with more items, until each combination has `per_cell` feasible and infeasible ones.

    What is there stays as it is, in its order; new items come after it with the next ids.
    Raises InputError as `make_plan`.
    """
    if not 1 <= per_cell <= MOST_PER_CELL:
        raise InputError(f"per_cell goes from 1 to {MOST_PER_CELL}, not {per_cell}")
    check_home(plan.rooms, plan.participants)
    rooms = {room.id: room for room in plan.rooms}
    already: Counter[tuple[int, bool]] = Counter()
    tally = Tally()
    for item in plan.items:
        already[COMBINATIONS.index((item.grounding, item.query)), item.feasibility == "feasible"] += 1
        tally.add_item(item, rooms[item.staging.room])
    composer = Composer(plan.rooms, plan.participants, plan.seed, tally)
    fresh = [composer.compose(slot) for slot in slots(per_cell, already)]
    first = 1 + max((number_of(item.id) for item in plan.items), default=0)
    ordered = [
        msgspec.structs.replace(item, id=f"ep{number:04d}")
        for number, item in enumerate(_in_order(fresh, plan), first)
    ]
    return msgspec.structs.replace(plan, items=(*plan.items, *ordered))


def number_of(item_id: str) -> int:
    """The number in an id like ep0042; 0 for other ids."""
    digits = item_id.removeprefix("ep")
    return int(digits) if digits.isdecimal() else 0


def _in_order(items: Sequence[PlanItem], plan: Plan) -> list[PlanItem]:
    rooms = [room.id for room in plan.rooms]
    people = [person.id for person in plan.participants]
    return sorted(items, key=lambda i: (rooms.index(i.staging.room), people.index(i.speaker), i.grounding))


def check_home(rooms: Sequence[PlanRoom], participants: Sequence[Participant]) -> None:
    """Raise InputError for a home that no plan can be made for: what is wrong, and with which value."""
    if not rooms:
        raise InputError("a plan needs at least one room")
    if not participants:
        raise InputError("a plan needs at least one participant")
    for what, names in (
        ("rooms", [room.id for room in rooms]),
        ("participants", [person.id for person in participants]),
        ("devices", [device.id for room in rooms for device in room.devices]),
    ):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise InputError(f"two {what} have the id {twice[0]!r}; ids must be unique in the whole home")
    for room in rooms:
        _check_room(room)
    known = {device.id for room in rooms for device in room.devices}
    for person in participants:
        if lost := [device for device in person.devices if device not in known]:
            raise InputError(f"participant {person.id}: {lost[0]!r} is no device of the plan's rooms")
        if person.room is not None and person.room not in [room.id for room in rooms]:
            raise InputError(
                f"participant {person.id}: the room {person.room!r} is none of the plan's"
                f" ({', '.join(room.id for room in rooms)}); leave it out, or plan that room as well"
            )


def _check_room(room: PlanRoom) -> None:
    for device in room.devices:
        where = f"room {room.id}: device {device.id}"
        if device.type not in AT_REST:
            raise InputError(f"{where} has the type {device.type!r}; a plan knows {', '.join(AT_REST)}")
        if device.position_m is None:
            raise InputError(f"{where} has no position_m; a plan needs to know where it stands")
        if device.room != room.id:
            raise InputError(f"{where} says that it is in {device.room!r}")
        if not all(0 <= at <= size for at, size in zip(device.position_m, room.size_m, strict=True)):
            raise InputError(
                f"{where} at {list(device.position_m)} m is outside the room, which is {list(room.size_m)} m"
            )
    if not Places(room).spots:
        raise InputError(
            f"room {room.id}: nobody can stand there in the picture, 1.2 to 3.2 m from the microphone, clear"
            " of walls (0.45 m) and devices (0.6 m)"
        )
