"""A plan as a spreadsheet (CSV): out, edited by people, and back in with every change checked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import InputError
from recordings.plan.check import PlanProblem, item_problems
from recordings.plan.model import Participant, Plan, PlanItem, PlanRoom
from recordings.plan.stage_directions import stage_directions
from recordings.plan.words import request_problems
from recordings.storage import write_atomic

COLUMNS = (
    "order", "id", "grounding", "query", "feasibility", "difficulty", "room", "speaker", "request",
    "target_device", "people", "do", "skip", "note", "written_by",
)  # fmt: skip
EDITABLE = ("order", "speaker", "request", "skip", "note")
_YES, _NO = ("yes", "y", "true", "1", "x"), ("", "no", "n", "false", "0")
MOST_BYTES = 64 << 20


@dataclass
class Applied:
    """What a spreadsheet changed: item -> columns; `problems` keep all of it from being applied."""

    plan: Plan
    changed: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def plan_to_csv(plan: Plan) -> str:
    """A line for each item, in order. Starts with the mark by which spreadsheets know UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for number, item in enumerate(plan.items, 1):
        row = _row(item, number)
        writer.writerow([row[column] for column in COLUMNS])
    return "\ufeff" + text.getvalue()


def write_csv(plan: Plan, path: Path) -> None:
    """Raises StorageError."""
    write_atomic(path, plan_to_csv(plan).encode("utf-8"))


def _row(item: PlanItem, number: int) -> dict[str, str]:
    return {
        "order": str(number),
        "id": item.id,
        "grounding": item.grounding,
        "query": item.query,
        "feasibility": item.feasibility,
        "difficulty": item.difficulty or "",
        "room": item.staging.room,
        "speaker": item.speaker,
        "request": item.request,
        "target_device": item.target_device or "",
        "people": " ".join(placed.person for placed in item.staging.people),
        "do": " ".join(item.do),
        "skip": "yes" if item.skip else "",
        "note": item.note,
        "written_by": item.written_by,
    }


def read_csv(path: Path) -> str:
    """The text of a spreadsheet file, as UTF-8 (with or without its mark). Raises InputError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: more than {MOST_BYTES >> 20} MiB; that is no spreadsheet of a plan")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `hearth plan csv` writes one") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; save the spreadsheet as CSV UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from None


def apply_csv(plan: Plan, text: str, where: str = "plan.csv", recorded: Iterable[str] = ()) -> Applied:
    """The plan with what a spreadsheet changes: speaker, request, note, skip and order.

    recorded: ids whose speaker and request stay, for a take of them was kept. Every problem names its row
    (the first line is row 1) and column; with one of them nothing is applied.
    Raises InputError for a text that is no spreadsheet of this plan.
    """
    lines = _rows(text, where)
    items = {item.id: item for item in plan.items}
    result = Applied(plan)
    seen: dict[str, int] = {}
    ordered: list[tuple[float, int, PlanItem]] = []
    people = {person.id: person for person in plan.participants}
    position = {item.id: number for number, item in enumerate(plan.items, 1)}
    rooms = {room.id: room for room in plan.rooms}
    kept = set(recorded)
    for number, row in lines:
        place = f"{where}, row {number}"
        name = row["id"].strip()
        item = items.get(name)
        if item is None:
            result.problems.append(f"{place}, column id: {name!r} is no item of the plan")
            continue
        if name in seen:
            result.problems.append(f"{place}, column id: {name} stands in row {seen[name]} already")
            continue
        seen[name] = number
        room = rooms[item.staging.room]
        edited, columns, wrong = _edited(item, row, _row(item, position[name]), people, room, name in kept)
        if columns and not wrong:
            wrong = [(problem.column or "speaker", problem.message) for problem in _new(edited, item, plan)]
            if "request" in columns:
                wrong += [("request", text) for text in request_problems(item, edited.request)]
        result.problems += [f"{place}, column {column}: {why}" for column, why in dict.fromkeys(wrong)]
        order = _order(row["order"], position[name])
        if order is None:
            result.problems.append(f"{place}, column order: {row['order']!r} is no number")
        else:
            ordered.append((order, position[name], edited))
        if order is not None and order != position[name]:
            columns.append("order")
        if columns:
            result.changed[name] = columns
    for name in items:
        if name not in seen:
            result.problems.append(f"{where}: {name} has no row; to leave an item out write yes under skip")
    if not result.problems:
        ordered.sort(key=lambda entry: entry[:2])
        result.plan = msgspec.structs.replace(plan, items=tuple(item for _, _, item in ordered))
    return result


def _rows(text: str, where: str) -> list[tuple[int, dict[str, str]]]:
    """(row number, column -> value) of each line after the first; , or ; or a tab between the columns."""
    first = text.lstrip("\ufeff").partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"{where}: no CSV: {error}") from None
    if not lines or "id" not in [name.strip() for name in lines[0]]:
        raise InputError(f"{where}: no spreadsheet of a plan: its first line has no column id")
    head = [name.strip() for name in lines[0]]
    if unknown := [name for name in head if name and name not in COLUMNS]:
        raise InputError(f"{where}, row 1: unknown column {unknown[0]!r}; columns are {', '.join(COLUMNS)}")
    if missing := [name for name in COLUMNS if name not in head]:
        raise InputError(f"{where}, row 1: the column {missing[0]} is missing")
    if twice := [name for name in COLUMNS if head.count(name) > 1]:
        raise InputError(f"{where}, row 1: the column {twice[0]} stands there twice")
    found = []
    for number, cells in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(head):
            raise InputError(f"{where}, row {number}: {len(cells)} cells where row 1 has {len(head)}")
        found.append((number, dict(zip(head, cells, strict=True))))
    return found


def _order(text: str, before: int) -> float | None:
    if not text.strip():
        return float(before)
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < 1e9 else None


Wrong = list[tuple[str, str]]  # column, why


def _edited(
    item: PlanItem,
    row: dict[str, str],
    before: dict[str, str],
    people: dict[str, Participant],
    room: PlanRoom,
    recorded: bool,
) -> tuple[PlanItem, list[str], Wrong]:
    """The item with the row's changes, the columns that changed, and what cannot be."""
    wrong: Wrong = []
    changed = [c for c in COLUMNS if c not in ("order", "skip") and row[c].strip() != before[c].strip()]
    for column in changed:
        if column not in EDITABLE:
            wrong.append((column, f"cannot be changed here (it is {before[column]!r}); edit plan.yaml"))
        elif recorded and column in ("speaker", "request"):
            wrong.append((column, f"a take of {item.id} was kept; what was said and by whom stays"))
    changes: dict[str, Any] = {}
    if "request" in changed:
        changes |= {"request": row["request"].strip(), "written_by": "hand"}
    if "note" in changed:
        changes["note"] = row["note"].strip()
    skip = row["skip"].strip().casefold()
    if skip not in _YES + _NO:
        wrong.append(("skip", f"{row['skip']!r} is neither yes nor empty"))
    elif (skip in _YES) != item.skip:
        changes["skip"] = skip in _YES
        changed.append("skip")
    edited = msgspec.structs.replace(item, **changes)
    if "speaker" in changed:
        name = row["speaker"].strip()
        if name not in people:
            wrong.append(("speaker", f"{name!r} is none of the participants: {', '.join(people)}"))
        else:
            edited = _spoken_by(edited, people[name], people, room)
    return edited, changed, wrong


def _spoken_by(
    item: PlanItem, speaker: Participant, people: dict[str, Participant], room: PlanRoom
) -> PlanItem:
    """The item with another speaker at the same place; somebody who stands there already changes places."""
    placed = []
    for one in item.staging.people:
        who = one.person
        if one.speaks:
            who = speaker.id
        elif one.person == speaker.id:
            who = item.speaker
        height = people[who].mouth_height_m if who in people else one.mouth_m[2]
        mouth = (one.mouth_m[0], one.mouth_m[1], round(height, 2))
        placed.append(msgspec.structs.replace(one, person=who, mouth_m=mouth))
    staging = msgspec.structs.replace(item.staging, people=tuple(placed))
    home = msgspec.structs.replace(item.home, people=tuple(one.person for one in placed))
    changed = msgspec.structs.replace(item, speaker=speaker.id, staging=staging, home=home)
    return msgspec.structs.replace(changed, do=stage_directions(changed, room, tuple(people.values())))


def _new(edited: PlanItem, before: PlanItem, plan: Plan) -> list[PlanProblem]:
    """Problems that the change brought."""
    old = {problem.message for problem in item_problems(before, plan)}
    return [problem for problem in item_problems(edited, plan) if problem.message not in old]
