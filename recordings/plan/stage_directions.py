"""What everybody does, in words for people who are about to be recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recordings.plan.model import Participant, PlanItem, PlanRoom
from recordings.plan.places import Places, distance, turn_of
from recordings.profile import Placed

_TURNED = {
    "towards": "looks to the microphone",
    "half left": "is turned half to the left of the microphone",
    "half right": "is turned half to the right of the microphone",
    "left": "is turned to the left, with the microphone at the right shoulder",
    "right": "is turned to the right, with the microphone at the left shoulder",
    "away": "looks away from the microphone",
}


def stage_directions(item: PlanItem, room: PlanRoom, participants: Sequence[Participant]) -> tuple[str, ...]:
    """A line for each thing to do: places, arms, who is silent, what is heard."""
    names = {person.id: person.name for person in participants}
    devices = {device.id: device.name for device in item.home.devices}
    places = Places(room)
    return tuple(_lines(item, places, names, devices))


def _lines(item: PlanItem, places: Places, names: dict[str, str], devices: dict[str, str]) -> Iterator[str]:
    for placed in item.staging.people:
        name = names[placed.person]
        yield f"{name} {_place(placed, places)}."
        if placed.pointing_at is not None:
            while_ = "while speaking" if placed.speaks else "until the request is over, and says nothing"
            yield f"{name} points at the {devices[placed.pointing_at]} {while_}."
        elif not placed.speaks:
            yield f"{name} says nothing."
        elif item.grounding == "G1":
            yield f"{name} points at nothing."
    for device in item.staging.sounding:
        yield f"The {devices[device]} is heard."


def _place(placed: Placed, places: Places) -> str:
    metres = distance(placed.mouth_m, places.microphone)
    azimuth = round(places.azimuth(placed.mouth_m))
    side = "straight in front of" if abs(azimuth) < 3 else f"{abs(azimuth)} degrees to the {{}} of"
    side = side.format("left" if azimuth > 0 else "right")
    turned = _TURNED[turn_of(placed.mouth_m, placed.facing_deg, places.microphone)]
    return f"stands {metres:.1f} m away, {side} the microphone's front, and {turned}"
