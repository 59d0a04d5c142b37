"""Whether a plan can be recorded: rules of each item, geometry of its scene, words of its request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dsp.errors import InputError
from recordings.combinations import profile_problems
from recordings.plan import sentences
from recordings.plan.arrange import heard_in
from recordings.plan.device_types import alike
from recordings.plan.generate import check_home, number_of
from recordings.plan.model import Plan, PlanItem, PlanRoom
from recordings.plan.places import APART_DEG, Places, angle_between, bearing, distance, may_be_meant, side_of
from recordings.plan.words import request_problems
from recordings.profile import DeviceState, Placed

NEAREST_M = 1.0  # of a mouth from the microphone


@dataclass(frozen=True)
class PlanProblem:
    """What is wrong with an item ("": with the plan as a whole). column: of the spreadsheet, where known."""

    item: str
    message: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.item}: {self.message}" if self.item else self.message


def plan_problems(plan: Plan) -> list[PlanProblem]:
    """Everything that keeps a plan from being recorded as it is; [] when nothing does."""
    try:
        check_home(plan.rooms, plan.participants)
    except InputError as error:
        return [PlanProblem("", str(error))]
    found = list(_ids(plan.items))
    for item in plan.items:
        found += item_problems(item, plan)
    return found


def item_problems(item: PlanItem, plan: Plan) -> list[PlanProblem]:
    """What is wrong with one item of a plan."""
    found = [PlanProblem(item.id, p.message, _column(p.code)) for p in profile_problems(item, complete=True)]
    found += [PlanProblem(item.id, text, "request") for text in request_problems(item)]
    people = {person.id: person for person in plan.participants}
    if item.speaker not in people:
        known = ", ".join(people)
        found.append(
            PlanProblem(item.id, f"speaker {item.speaker!r} is none of the participants: {known}", "speaker")
        )
    room = next((room for room in plan.rooms if room.id == item.staging.room), None)
    if room is None:
        known = ", ".join(room.id for room in plan.rooms)
        return [
            *found,
            PlanProblem(item.id, f"room {item.staging.room!r} is none of the plan's: {known}", "room"),
        ]
    found += [PlanProblem(item.id, text) for text in _scene(item, room)]
    return found


def _column(code: str) -> str:
    return {"speaker": "speaker", "request": "request", "cue": "speaker"}.get(code, "")


def _ids(items: Sequence[PlanItem]) -> Iterator[PlanProblem]:
    numbers = sorted(number_of(item.id) for item in items)
    if numbers != list(range(1, len(items) + 1)):
        missing = sorted(set(range(1, len(items) + 1)) - set(numbers))
        gap = f"ep{missing[0]:04d} is missing" if missing else "one stands there twice"
        yield PlanProblem("", f"ids go from ep0001 to ep{len(items):04d} without holes; {gap}")
    for name, count in Counter(item.id for item in items).items():
        if count > 1:
            yield PlanProblem(name, "this id stands there twice")


def _scene(item: PlanItem, room: PlanRoom) -> Iterator[str]:
    places = Places(room)
    for placed in item.staging.people:
        yield from _place(placed, places)
    states = {device.id: device.attributes for device in item.home.devices}
    heard = {d.id for d in room.devices if d.type == "refrigerator" and d.id in item.staging.sounding}
    true = heard.union(heard_in(room, {name: dict(state) for name, state in states.items()}))
    if true != set(item.staging.sounding):
        wrong = sorted(true.symmetric_difference(item.staging.sounding))
        yield f"staging.sounding and the devices' states disagree about {', '.join(wrong)}"
    speaker = next((placed for placed in item.staging.people if placed.speaks), None)
    target = next((d for d in room.devices if d.id == item.target_device), None)
    if speaker is None or target is None or target.position_m is None:
        return
    if item.grounding == "G1":
        yield from _pointing(item, places, speaker, target)
    elif item.grounding == "G2":
        yield from _hearing(item, places, speaker, target)
    elif item.grounding == "G3":
        yield from _sides(places, speaker, target)


def _place(placed: Placed, places: Places) -> Iterator[str]:
    mouth, size = placed.mouth_m, places.room.size_m
    if not all(0 < at < most for at, most in zip(mouth, size, strict=True)):
        yield f"the mouth of {placed.person} at {list(mouth)} m is outside the room of {list(size)} m"
    if distance(mouth, places.microphone) < NEAREST_M:
        yield f"{placed.person} stands less than {NEAREST_M:g} m from the microphone"
    if abs(places.azimuth(mouth)) > places.room.view_deg / 2:
        yield f"{placed.person} stands outside the camera's view"


def _pointing(item: PlanItem, places: Places, speaker: Placed, target: DeviceState) -> Iterator[str]:
    shoulder = (speaker.mouth_m[0], speaker.mouth_m[1], speaker.mouth_m[2] - 0.25)
    asked = {a.attribute for a in (*item.goal.asserts, *(a for s in item.goal.steps for a in s.asserts))}
    for other in places.room.devices:
        if other.id == target.id or not asked.issubset(other.attributes):
            continue
        if item.difficulty == "easy" and other.type != target.type:
            continue
        if angle_between(shoulder, places.positions[target.id], places.positions[other.id]) < APART_DEG:
            yield f"as {speaker.person} points, {other.id} is less than {APART_DEG:g} degrees from the target"


def _hearing(item: PlanItem, places: Places, speaker: Placed, target: DeviceState) -> Iterator[str]:
    said = [words for words, kinds in sentences.SOUNDS.items() if words in item.request.casefold()]
    likes = [d for d in places.room.devices if any(d.type in sentences.SOUNDS[words] for words in said)]
    for other in likes:
        if other.id == target.id:
            continue
        if other.id in item.staging.sounding:
            yield f"{other.id} is heard as well, and the words fit it"
        if places.apart_at_rig(target.id, other.id) < APART_DEG:
            yield f"{other.id} is less than {APART_DEG:g} degrees from the target, as the microphone hears it"
    if angle_between(places.microphone, speaker.mouth_m, places.positions[target.id]) < APART_DEG:
        yield f"{speaker.person} stands less than {APART_DEG:g} degrees from the sound of the target"


def _sides(places: Places, speaker: Placed, target: DeviceState) -> Iterator[str]:
    side = side_of(bearing(speaker.mouth_m, places.positions[target.id]) - speaker.facing_deg)
    if side is None:
        yield "the target is on no clear side of the speaker"
        return
    for other in places.room.devices:
        if other.id != target.id and alike(other.type, target.type):
            angle = bearing(speaker.mouth_m, places.positions[other.id]) - speaker.facing_deg
            if may_be_meant(angle, side):
                yield f"{other.id} could be meant by that side as well"
