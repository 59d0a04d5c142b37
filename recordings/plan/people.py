"""Who stands where: places for the speaker that the grounding needs, and for the others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recordings.plan.model import Participant
from recordings.plan.places import (
    APART_DEG,
    FROM_PERSON_M,
    PEOPLE_APART_DEG,
    SIDES,
    TURNS,
    Places,
    Spot,
    angle_between,
    bearing,
    distance,
    may_be_meant,
    side_of,
    wrapped,
)
from recordings.plan.tally import Tally
from recordings.profile import DeviceState, Grounding, Metres, Placed

# How speakers may be turned. G1: an arm in front of the body must be seen; G4: a face.
TURNS_OF: dict[Grounding, tuple[str, ...]] = {
    "G0": tuple(TURNS),
    "G1": tuple(name for name in TURNS if name != "away"),
    "G2": tuple(TURNS),
    "G3": tuple(TURNS),
    "G4": ("towards", "half left", "half right"),
}
JITTER_DEG = 8
HEADROOM_M = 0.25
NEAREST_DEVICE_M = 0.8  # of one that is pointed at or said to be on a side


@dataclass(frozen=True)
class Stand:
    """The speaker's place; side: where the target is, for G3."""

    placed: Placed
    turn: str
    side: str = ""


def mouth_of(person: Participant, spot: Spot) -> Metres:
    """Where somebody's mouth is who stands there."""
    return (spot[0], spot[1], round(person.mouth_height_m, 2))


def stands(
    places: Places,
    speaker: Participant,
    grounding: Grounding,
    target: DeviceState | None,
    likes: Sequence[DeviceState],
    tally: Tally,
    rng: random.Random,
    side_without_target: bool = False,
) -> Iterator[Stand]:
    """Places and turns that do, those first whose turn and side were used least.

    likes: the devices that the words fit as well. side_without_target (G3): a side on which none of them is.
    """
    if speaker.mouth_height_m > places.room.size_m[2] - HEADROOM_M:
        return
    turns = list(TURNS_OF[grounding])
    rng.shuffle(turns)
    turns = tally.least(turns, [("turn", grounding, name) for name in turns])
    sides: list[str] = [""]
    if grounding == "G3":
        sides = list(SIDES)
        rng.shuffle(sides)
        sides = tally.least(sides, [("side", name) for name in sides])
    spots = list(places.spots)
    rng.shuffle(spots)
    options = [(turn, side) for turn in turns for side in sides]
    options.sort(key=lambda option: tally["turn", grounding, option[0]] + tally["side", option[1]])
    for turn, side in options:
        for spot in spots:
            mouth = mouth_of(speaker, spot)
            jitter = rng.randint(-JITTER_DEG, JITTER_DEG)
            facing = float(round(wrapped(bearing(mouth, places.microphone) + TURNS[turn] + jitter)))
            if not _does(places, mouth, facing, grounding, target, likes, side, side_without_target):
                continue
            points = target.id if grounding == "G1" and target is not None else None
            placed = Placed(
                person=speaker.id, mouth_m=mouth, facing_deg=facing, speaks=True, pointing_at=points
            )
            yield Stand(placed, turn, side)
            break  # another place with the same turn and side would fail for the same reasons


def _does(
    places: Places,
    mouth: Metres,
    facing: float,
    grounding: Grounding,
    target: DeviceState | None,
    likes: Sequence[DeviceState],
    side: str,
    side_without_target: bool,
) -> bool:
    others = [d for d in likes if target is None or d.id != target.id]
    if grounding == "G3":
        angles = [bearing(mouth, places.positions[d.id]) - facing for d in others]
        if any(may_be_meant(angle, side) for angle in angles):
            return False
        if side_without_target or target is None:
            return True
        place = places.positions[target.id]
        return side_of(bearing(mouth, place) - facing) == side and distance(mouth, place) >= NEAREST_DEVICE_M
    if target is None:
        return True
    if grounding == "G1":
        return places.can_point(mouth, facing, target, others)
    if grounding == "G2":
        return angle_between(places.microphone, mouth, places.positions[target.id]) >= APART_DEG
    return True


def place_others(
    places: Places,
    speaker: Placed,
    others: Sequence[Participant],
    rng: random.Random,
    pointing: Sequence[tuple[DeviceState, Sequence[DeviceState]]] = (),
    visible: Sequence[str] = (),
) -> tuple[Placed, ...] | None:
    """The others in the picture, beside the speaker; None when there is no room for them.

    pointing: devices that the first of them may point at, each with those it must be told from. visible: ids
    of devices that nobody may hide.
    """
    placed: list[Placed] = [speaker]
    for number, person in enumerate(others):
        if person.mouth_height_m > places.room.size_m[2] - HEADROOM_M:
            return None
        spots = list(places.spots)
        rng.shuffle(spots)
        found = None
        for spot in spots:
            mouth = mouth_of(person, spot)
            if not _clear(places, mouth, placed) or any(places.hides(mouth, name) for name in visible):
                continue
            if pointing and number == 0:
                found = _pointing(places, person, mouth, pointing, rng)
            else:
                turn = rng.choice(tuple(TURNS.values()))
                facing = float(round(wrapped(bearing(mouth, places.microphone) + turn)))
                found = Placed(person=person.id, mouth_m=mouth, facing_deg=facing)
            if found is not None:
                break
        if found is None:
            return None
        placed.append(found)
    return tuple(placed)


def _clear(places: Places, mouth: Metres, placed: Sequence[Placed]) -> bool:
    return all(
        distance(mouth, other.mouth_m) >= FROM_PERSON_M
        and abs(wrapped(places.azimuth(mouth) - places.azimuth(other.mouth_m))) >= PEOPLE_APART_DEG
        for other in placed
    )


def _pointing(
    places: Places,
    person: Participant,
    mouth: Metres,
    pointing: Sequence[tuple[DeviceState, Sequence[DeviceState]]],
    rng: random.Random,
) -> Placed | None:
    for device, likes in pointing:
        for turn in rng.sample(tuple(TURNS_OF["G1"]), len(TURNS_OF["G1"])):
            facing = float(round(wrapped(bearing(mouth, places.microphone) + TURNS[turn])))
            if places.can_point(mouth, facing, device, list(likes)):
                return Placed(person=person.id, mouth_m=mouth, facing_deg=facing, pointing_at=device.id)
    return None
