"""Where people may stand in a room, and what lies where as they see it.

Room frame: metres; angles in degrees from +x towards +y. The camera is at the microphone and looks where its
front does.
"""

from __future__ import annotations

import math
from functools import cached_property

from recordings.plan.model import PlanRoom
from recordings.profile import DeviceState, Metres

Spot = tuple[float, float]

APART_DEG = 20.0  # between things that only their direction tells apart
VIEW_DEG = 33.0  # of a mouth from the middle of the picture, at most
ARM_DEG = 12.0  # of the picture left beside a mouth: an outstretched arm is still in it
NEAREST_M, FARTHEST_M = 1.2, 3.2  # from the microphone, along the floor
FROM_WALL_M, FROM_DEVICE_M, FROM_PERSON_M = 0.45, 0.6, 0.8
GRID_M = 0.2
PEOPLE_APART_DEG = 16.0  # as the camera sees them: nobody hides another
UNHIDDEN_DEG = 10.0  # of what is pointed at, from whoever stands before it
HANGS_ABOVE_M = 2.0  # a device higher than this leaves room under it

SIDES = ("left", "right", "front", "behind")
# How a speaker is turned against the direction to the rig; positive: to the speaker's left.
TURNS = {"towards": 0, "half left": 45, "half right": -45, "left": 90, "right": -90, "away": 180}


def wrapped(angle_deg: float) -> float:
    """The same angle in [-180, 180)."""
    return (angle_deg + 180.0) % 360.0 - 180.0


def bearing(origin: Spot | Metres, target: Spot | Metres) -> float:
    """Direction along the floor from one place to another."""
    return math.degrees(math.atan2(target[1] - origin[1], target[0] - origin[0]))


def distance(one: Spot | Metres, other: Spot | Metres) -> float:
    """Metres along the floor."""
    return math.hypot(one[0] - other[0], one[1] - other[1])


def angle_between(origin: Metres, one: Metres, other: Metres) -> float:
    """Degrees between two places as seen from a third, in space."""
    a, b = ([t - o for t, o in zip(place, origin, strict=True)] for place in (one, other))
    lengths = math.hypot(*a) * math.hypot(*b)
    if lengths == 0:
        return 0.0
    cosine = sum(x * y for x, y in zip(a, b, strict=True)) / lengths
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


def side_of(angle_deg: float, margin_deg: float = 0.0) -> str | None:
    """On which side of somebody a thing is that lies `angle_deg` to the left of where they look.

    front: within 35 degrees, left and right: 50 to 130, behind: from 145; between these nobody says a side:
    None. A margin makes the sides wider, to see what could be mistaken.
    """
    angle = wrapped(angle_deg)
    size = abs(angle)
    if size <= 35 + margin_deg:
        return "front"
    if size >= 145 - margin_deg:
        return "behind"
    if 50 - margin_deg <= size <= 130 + margin_deg:
        return "left" if angle > 0 else "right"
    return None


def may_be_meant(angle_deg: float, side: str) -> bool:
    """Whether a thing `angle_deg` to the left of somebody's view lies on that side, or less than 20 degrees
    beside it, so that it could be meant."""
    angle = wrapped(angle_deg)
    middle, half = {"front": (0, 35), "left": (90, 40), "right": (-90, 40), "behind": (180, 35)}[side]
    return abs(wrapped(angle - middle)) < half + APART_DEG


def turn_of(mouth: Spot | Metres, facing_deg: float, microphone: Metres) -> str:
    """The name in TURNS that is nearest to how somebody is turned."""
    turned = wrapped(facing_deg - bearing(mouth, microphone))
    return min(TURNS, key=lambda name: abs(wrapped(turned - TURNS[name])))


class Places:
    """The geometry of one room."""

    def __init__(self, room: PlanRoom) -> None:
        self.room = room
        self.microphone = room.microphone_m
        self.positions: dict[str, Metres] = {
            d.id: d.position_m for d in room.devices if d.position_m is not None
        }

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """Where somebody may stand: inside, in the picture, clear of microphone, walls and devices."""
        width, depth, _ = self.room.size_m
        view = min(VIEW_DEG, self.room.view_deg / 2 - ARM_DEG)
        low = [place for place in self.positions.values() if place[2] < HANGS_ABOVE_M]
        found = []
        for column in range(int(width / GRID_M) + 1):
            for row in range(int(depth / GRID_M) + 1):
                spot = (round(column * GRID_M, 2), round(row * GRID_M, 2))
                inside = all(
                    FROM_WALL_M <= at <= size - FROM_WALL_M
                    for at, size in zip(spot, (width, depth), strict=True)
                )
                if not inside or not NEAREST_M <= distance(self.microphone, spot) <= FARTHEST_M:
                    continue
                if abs(self.azimuth(spot)) > view:
                    continue
                if all(distance(place, spot) >= FROM_DEVICE_M for place in low):
                    found.append(spot)
        return tuple(found)

    def azimuth(self, place: Spot | Metres) -> float:
        """Azimuth of a place as the microphone hears it, to the left of its front."""
        return wrapped(bearing(self.microphone, place) - self.room.microphone_yaw_deg)

    def apart_at_rig(self, one: str, other: str) -> float:
        """Degrees between two devices as the microphone hears them."""
        return angle_between(self.microphone, self.positions[one], self.positions[other])

    def hides(self, mouth: Metres, device: str) -> bool:
        """Whether somebody who stands there hides a device from the camera."""
        place = self.positions[device]
        nearer = distance(self.microphone, mouth) < distance(self.microphone, place)
        return nearer and abs(wrapped(self.azimuth(place) - self.azimuth(mouth))) < UNHIDDEN_DEG

    def can_point(
        self, mouth: Metres, facing_deg: float, device: DeviceState, others: list[DeviceState]
    ) -> bool:
        """Whether pointing at a device from there is comfortable, seen by the camera, and tells it from
        others: at least 20 degrees between it and each of them, from the shoulder."""
        target = self.positions[device.id]
        shoulder = (mouth[0], mouth[1], mouth[2] - 0.25)
        way = bearing(mouth, target)
        sight = bearing(self.microphone, mouth)
        return (
            distance(mouth, target) >= 0.8
            and not self.hides(mouth, device.id)
            and abs(wrapped(way - facing_deg)) <= 100
            and abs(wrapped(way - sight)) >= 25  # not hidden behind the body
            and abs(wrapped(way - sight - 180)) >= 15  # not straight into the lens
            and all(angle_between(shoulder, target, self.positions[o.id]) >= APART_DEG for o in others)
        )
