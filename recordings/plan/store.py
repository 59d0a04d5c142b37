"""plan.yaml: written short, read strictly.

An item repeats nothing that the plan says once: of its home the file holds the clock, the rooms' air and the
attributes that differ from the plan's rooms (`states`); devices, rooms, people and household follow from the
plan. `read_plan` gives them back in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from dsp.errors import InputError
from recordings.plan.model import Participant, Plan, PlanItem, PlanRoom
from recordings.profile import (
    DeviceState,
    Difficulty,
    Feasibility,
    Goal,
    Grounding,
    HomeState,
    Member,
    Name,
    Query,
    RoomState,
    Staging,
    Value,
)
from recordings.storage import write_atomic
from recordings.yaml_text import load_strict_yaml

_HEAD = (
    "# A shooting plan of Hearth: `hearth plan show` counts it, `hearth plan check` checks it after edits.\n"
)


class _StoredHome(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The home of an item as the file has it. states: device id -> attributes that differ from the room's."""

    clock: str | None = None
    room_states: dict[str, RoomState] = {}
    states: dict[str, dict[str, Value]] = {}


class _StoredItem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True):
    """A PlanItem with a short home; same keys, same order."""

    id: Name
    grounding: Grounding
    query: Query
    feasibility: Feasibility
    difficulty: Difficulty | None = None
    request: str
    speaker: str
    target_device: str | None = None
    goal: Goal
    home: _StoredHome
    staging: Staging
    do: tuple[str, ...] = ()
    written_by: str = "template"
    note: str = ""
    skip: bool = False


class _StoredPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    hearth_plan: int
    name: Name
    seed: int
    rooms: tuple[PlanRoom, ...]
    participants: tuple[Participant, ...]
    items: tuple[Any, ...] = ()


def plan_file(path: str | Path) -> Path:
    """The file of a plan that is named by its file or by its folder."""
    path = Path(path)
    return path / "plan.yaml" if path.is_dir() else path


def read_plan(path: str | Path) -> Plan:
    """Read plan.yaml. Raises InputError that names the item and the key, the value and what is allowed."""
    path = plan_file(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such plan. `hearth plan new` makes one.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the plan: {error}") from None
    return plan_from_yaml(text, str(path))


def plan_from_yaml(text: str, where: str = "plan.yaml") -> Plan:
    """The plan of this text; see `read_plan`."""
    try:
        data = load_strict_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: not a plan: its values are nested too deeply") from None
    if not isinstance(data, dict) or data.get("hearth_plan") != 1:
        raise InputError(f"{where}: no plan: the line `hearth_plan: 1` (the version of its form) is missing")
    try:
        stored = msgspec.convert(data, _StoredPlan)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
    items = tuple(_items(stored, where))
    return Plan(
        name=stored.name,
        seed=stored.seed,
        rooms=stored.rooms,
        participants=stored.participants,
        items=items,
    )


def _items(plan: _StoredPlan, where: str) -> Iterator[PlanItem]:
    devices = _devices(plan.rooms, where)
    household = tuple(map(as_member, plan.participants))
    rooms = tuple(room.id for room in plan.rooms)
    seen: set[str] = set()
    for number, raw in enumerate(plan.items, 1):
        name = raw.get("id") if isinstance(raw, dict) else None
        place = f"{where}: item {name}" if name else f"{where}: item number {number}"
        try:
            item = msgspec.convert(raw, _StoredItem)
        except msgspec.ValidationError as error:
            raise InputError(f"{place}: {error}") from None
        if item.id in seen:
            raise InputError(f"{place}: this id stands there twice; ids must be unique")
        seen.add(item.id)
        if item.staging.room not in rooms:
            raise InputError(
                f"{place}: staging.room {item.staging.room!r} is none of the plan's rooms: {', '.join(rooms)}"
            )
        states = item.home.states
        if unknown := [device for device in states if device not in devices]:
            raise InputError(
                f"{place}: home.states has {unknown[0]!r}, which is no device of the plan's rooms"
            )
        home = HomeState(
            devices=tuple(_with(device, states.get(device.id, {}), place) for device in devices.values()),
            rooms=rooms,
            people=tuple(placed.person for placed in item.staging.people),
            household=household,
            room_states=item.home.room_states,
            clock=item.home.clock,
        )
        fields = {name: getattr(item, name) for name in item.__struct_fields__ if name != "home"}
        yield PlanItem(**fields, home=home)


def _devices(rooms: tuple[PlanRoom, ...], where: str) -> dict[str, DeviceState]:
    devices: dict[str, DeviceState] = {}
    for room in rooms:
        for device in room.devices:
            if device.id in devices:
                raise InputError(f"{where}: two devices have the id {device.id!r}; ids must be unique")
            devices[device.id] = device
    return devices


def _with(device: DeviceState, changed: dict[str, Value], place: str) -> DeviceState:
    if unknown := [path for path in changed if path not in device.attributes]:
        known = ", ".join(device.attributes)
        raise InputError(f"{place}: home.states.{device.id} has {unknown[0]!r}; the plan's room has {known}")
    if not changed:
        return device
    return msgspec.structs.replace(device, attributes={**device.attributes, **changed})


def as_member(person: Participant) -> Member:
    """The household profile of a participant."""
    return Member(id=person.id, name=person.name, room=person.room, devices=person.devices, note=person.note)


def plan_to_yaml(plan: Plan) -> str:
    """The text of plan.yaml. Raises InputError for an item whose home is not made of the plan's rooms."""
    devices = _devices(plan.rooms, plan.name)
    household = tuple(map(as_member, plan.participants))
    rooms = tuple(room.id for room in plan.rooms)
    items = [_stored(item, devices, household, rooms) for item in plan.items]
    head = {
        "hearth_plan": plan.hearth_plan,
        "name": plan.name,
        "seed": plan.seed,
        "rooms": msgspec.to_builtins(plan.rooms),
        "participants": msgspec.to_builtins(plan.participants),
        "items": msgspec.to_builtins(items),
    }
    text = yaml.dump(
        head, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    )
    return _HEAD + text


def _stored(
    item: PlanItem,
    devices: dict[str, DeviceState],
    household: tuple[Member, ...],
    rooms: tuple[str, ...],
) -> _StoredItem:
    home = item.home
    people = tuple(placed.person for placed in item.staging.people)
    states: dict[str, dict[str, Value]] = {}
    for device in home.devices:
        base = devices.get(device.id)
        if base is None or msgspec.structs.replace(device, attributes=base.attributes) != base:
            raise InputError(f"item {item.id}: its device {device.id!r} is not that of the plan's rooms")
        changed = {
            path: value
            for path, value in device.attributes.items()
            if path not in base.attributes or not _same(base.attributes[path], value)
        }
        if changed:
            states[device.id] = changed
    if [d.id for d in home.devices] != list(devices) or home.rooms != rooms:
        raise InputError(
            f"item {item.id}: its home has not the devices and rooms of the plan, in their order"
        )
    if home.household != household or home.people != people:
        raise InputError(f"item {item.id}: its people are not the plan's participants and those of the scene")
    short = _StoredHome(clock=home.clock, room_states=home.room_states, states=states)
    fields = {name: getattr(item, name) for name in item.__struct_fields__ if name != "home"}
    return _StoredItem(**fields, home=short)


def _same(one: Value, other: Value) -> bool:
    return type(one) is type(other) and one == other


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write plan.yaml at once or not at all. Raises StorageError, and InputError as `plan_to_yaml`."""
    write_atomic(Path(path), plan_to_yaml(plan).encode("utf-8"))


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """Without anchors and aliases: people edit this file."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
