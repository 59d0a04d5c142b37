"""The household's enrolment: each person alone in the living room, before the camera, reading a few sentences
that are no requests. `record_household` writes `<folder>/household/<person>_<take>/` in the form of
`bench.agent_episodes`; every other room, request and place is new to whoever learnt faces and voices here.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from msgspec.structs import replace

from bench.agent_episodes import read_bundle, record, seed_plan
from dsp.errors import InputError
from edge.perception.profiles import ProfileBook
from recordings.plan.model import Plan, PlanItem
from recordings.profile import Goal, Placed, Staging

ROOM = "living_room"
SENTENCES = (
    "The quick brown fox jumps over the lazy dog while seven wizards watch from the old stone bridge.",
    "Please call Stella and ask her to bring these things with her from the store on Wednesday.",
    "She had your dark suit in greasy wash water all year, and nobody ever found out about it.",
)
TURNS_DEG = (0.0, 45.0, -45.0)  # away from the camera's direction, take by take, as phones ask for
DISTANCES_M = (1.6, 2.0, 1.6)


def household_items(plan: Plan) -> list[PlanItem]:
    """An item for every person and take; nothing sounds and nobody else is there."""
    room = next(room for room in plan.rooms if room.id == ROOM)
    front = math.radians(room.microphone_yaw_deg)
    quiet = next(item for item in plan.items if not item.staging.sounding)
    items = []
    for person in plan.participants:
        for take, sentence in enumerate(SENTENCES):
            x = room.microphone_m[0] + DISTANCES_M[take] * math.cos(front)
            y = room.microphone_m[1] + DISTANCES_M[take] * math.sin(front)
            towards = math.degrees(front) + 180 + TURNS_DEG[take]
            facing_deg = round((towards + 180) % 360 - 180, 1)
            mouth = (round(x, 2), round(y, 2), person.mouth_height_m)
            placed = Placed(person=person.id, mouth_m=mouth, facing_deg=facing_deg, speaks=True)
            items.append(
                replace(
                    quiet,
                    id=f"{person.id}_{take + 1}",
                    request=sentence,
                    speaker=person.id,
                    target_device=None,
                    goal=Goal(kind="answer"),
                    staging=Staging(room=ROOM, people=(placed,)),
                )
            )
    return items


def record_household(folder: Path, voices: str | None = None) -> dict[str, list[Path]]:
    """Record what is not there yet; person -> its takes."""
    plan = seed_plan(0, voices, per_cell=2)
    root = folder / ("household" if voices is None else f"household_{voices}")
    takes: dict[str, list[Path]] = {}
    for item in household_items(plan):
        record(item, plan, root / item.id)
        takes.setdefault(item.speaker, []).append(root / item.id)
    return takes


def enrol(takes: dict[str, list[Path]], book: ProfileBook) -> None:
    """Put faces and voices of the household into a book."""
    from edge.perception.enrolment import enrol as learn
    from edge.perception.voice_identity import DVector

    model = DVector()
    for person, folders in takes.items():
        for folder in folders:
            scene = read_bundle(folder).scene()
            if scene is None:
                raise InputError(f"{folder}: nobody is heard to speak")
            learn(book, person, scene, model)


def household_book(folder: Path, voices: str | None = None) -> Path:
    """The data folder with the household's profiles, made when it is not there: for `ProfileBook.open`."""
    root = folder / ("profiles" if voices is None else f"profiles_{voices}")
    if not (root / "complete").exists():
        takes = record_household(folder, voices)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        enrol(takes, ProfileBook.open(root, virtual=True))
        (root / "complete").touch()
    return root
