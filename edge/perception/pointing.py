"""The ray along which the speaker points, in the room.

One picture says precisely in which plane through the camera the arm lies, and hardly how far it leans out of
the picture. What says that is the arm's length: seen shorter than it is, it leans, towards the camera or away
from it. So a pointing is a narrow plane and in it two possible rays, each with its share; which of them is
likelier follows from the network's own depth and from how the body is turned, because people turn to what
they point at. `log_likelihood` says how well a place fits all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge.perception.active_speaker import SpeakerSeen, speaker_in
from edge.perception.body import NUMBER
from edge.perception.facing import facing_of
from edge.perception.people_seen import Sighting, View, view_of
from edge.perception.tools import Finding, Scene, Stopwatch

Floats = NDArray[np.float64]
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")

# From the shoulder, of a person of 1.7 m (Drillis and Contini 1966: upper arm 0.186 and forearm 0.146 of the
# height, hand 0.108; a finger that points reaches nearly as far).
REACH_M = {"wrist": 0.57, "elbow": 0.31}
VISIBLE = {"wrist": 0.3, "elbow": 0.5}
RAISED_DEG = 39.0  # between the arm and one that hangs
ACROSS_DEG = 3.0  # error out of the plane of camera and arm
ALONG_DEG = {"wrist": 13.0, "elbow": 20.0}  # error in it, when the side is right
OUTLIER = 0.08  # chance that the ray is nonsense, spread over the sphere
# Of the angle between body and arm along the floor; people hardly point more than 100 degrees aside.
TURN_SIGMA_DEG = 55.0
# The odds that an arm leans away from the camera and not towards it: a constant, then per 10 degrees of the
# network's own lean, per unit of what the turn of the body says, and of where the elbow lies (`Arm.elbow`).
# Fitted to 69 arms of development plans; each alone says little, together they are right in 7 of 10.
AWAY_ODDS, BY_LEAN, BY_TURN, BY_ELBOW = 1.49, 0.32, 0.78, 1.43
LEAST_SHARE = 0.5  # of the pictures in which an arm must be up


@dataclass(frozen=True, slots=True)
class Ray:
    """direction: (3,) unit vector in the room. share: 0 to 1, that it is this one."""

    direction: Floats
    share: float


@dataclass(frozen=True, slots=True)
class Pointing:
    """origin_m: (3,) the shoulder in the room. direction: (3,) unit vector, the likelier of `rays`.

    sigma_deg: of the direction within the plane of camera and arm; across_deg: out of it. normal: (3,) of
    that plane. who: "left" or "right" arm of the speaker.
    """

    origin_m: Floats
    direction: Floats
    sigma_deg: float
    across_deg: float
    normal: Floats
    rays: tuple[Ray, ...]
    who: Side

    def log_likelihood(self, places_m: ArrayLike) -> Floats:
        """(n,) how well places (n, 3) in the room fit, as the logarithm of a density over directions."""
        offsets = np.atleast_2d(np.asarray(places_m, np.float64)) - self.origin_m
        units = offsets / np.maximum(np.linalg.norm(offsets, axis=1), 1e-9)[:, None]
        across = np.degrees(np.arcsin(np.clip(units @ self.normal, -1, 1)))
        density = np.full(len(units), OUTLIER / (4 * math.pi * math.degrees(1) ** 2))
        for ray in self.rays:
            aside = np.cross(self.normal, ray.direction)
            along = np.degrees(np.arctan2(units @ aside, units @ ray.direction))
            size = 2 * math.pi * self.sigma_deg * self.across_deg
            fit = np.exp(-0.5 * ((across / self.across_deg) ** 2 + (along / self.sigma_deg) ** 2))
            density += (1 - OUTLIER) * ray.share * fit / size
        return np.asarray(np.log(density))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {
            "origin_m": self.origin_m.round(3).tolist(),
            "direction": self.direction.round(4).tolist(),
            "sigma_deg": round(self.sigma_deg, 2),
            "across_deg": round(self.across_deg, 2),
            "rays": [
                {"direction": r.direction.round(4).tolist(), "share": round(r.share, 3)} for r in self.rays
            ],
            "who": self.who,
        }


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm in one picture, in the camera's frame. shoulder: (3,). near, far: (3,) unit vectors, the arm
    when it leans towards the camera and away from it. normal: (3,) of the plane. lean_deg: the network's own
    guess of how far it leans away. elbow: where the elbow is seen on the way to the wrist, from -1/2 (where a
    straight arm towards the camera has it) to 1/2 (away). raised_deg: between the arm and one that hangs.
    part: what it was seen by."""

    shoulder: Floats
    near: Floats
    far: Floats
    normal: Floats
    lean_deg: float
    elbow: float
    raised_deg: float
    part: str


class PointingTool:
    """Scene -> the ray of the speaker's arm; no value when the speaker does not point."""

    name = "pointing"

    def __call__(self, scene: Scene) -> Finding[Pointing]:
        watch = Stopwatch()
        view, speaker = view_of(scene), speaker_in(scene)
        if view is None or speaker is None:
            return Finding(self.name, None, 0.0, {}, watch.seconds, "the speaker is not seen")
        facing = facing_of(scene, speaker)
        pointing, up = pointing_of(view, speaker, None if facing is None else facing.azimuth_deg)
        told = {"pictures": len(speaker.person.sightings), "raised": round(up, 3)}
        if pointing is None:
            return Finding(self.name, None, 1 - up, told, watch.seconds, "no arm of the speaker is raised")
        return Finding(self.name, pointing, speaker.share * up, told, watch.seconds)


def pointing_of(view: View, speaker: SpeakerSeen, facing_deg: float | None) -> tuple[Pointing | None, float]:
    """The ray, and in which share of the pictures an arm is up. facing_deg: of the body, if known."""
    sightings = speaker.person.sightings
    arms = {side: [arm_in(view, one, side) for one in sightings] for side in SIDES}
    raised = {
        side: [arm for arm in found if arm is not None and arm.raised_deg >= RAISED_DEG]
        for side, found in arms.items()
    }
    side = max(SIDES, key=lambda name: sum(arm.raised_deg for arm in raised[name]))
    up = len(raised[side]) / len(sightings)
    if up < LEAST_SHARE or not raised[side]:
        return None, up
    best = raised[side]
    if any(arm.part == "wrist" for arm in best):
        best = [arm for arm in best if arm.part == "wrist"]
    turn = view.turn
    near, far, normal = (
        turn @ _mean(np.array([getattr(arm, name) for arm in best])) for name in ("near", "far", "normal")
    )
    lean = float(np.median([arm.lean_deg for arm in best]))
    elbow = float(np.median([arm.elbow for arm in best]))
    odds = AWAY_ODDS + BY_LEAN * lean / 10 + BY_ELBOW * elbow
    if facing_deg is not None:
        odds += BY_TURN * (_turn_log(far, facing_deg) - _turn_log(near, facing_deg))
    away = 1 / (1 + math.exp(-min(max(odds, -30.0), 30.0)))
    rays = tuple(sorted((Ray(near, 1 - away), Ray(far, away)), key=lambda ray: -ray.share))
    origin = view.to_room(np.median([arm.shoulder for arm in best], axis=0))
    sigma = ALONG_DEG[best[0].part]
    return Pointing(origin, rays[0].direction, sigma, ACROSS_DEG, normal, rays, side), up


def arm_in(view: View, one: Sighting, side: Side) -> Arm | None:
    """One arm of one sighting; None when neither wrist nor elbow is seen."""
    body, (width, height) = one.body, view.size
    part = next(
        (part for part in REACH_M if body.seen(f"{side}_{part}", width, height, least=VISIBLE[part])), None
    )
    if part is None:
        return None
    rays = view.rays(np.stack([body.pixel(f"{side}_shoulder"), body.pixel(f"{side}_{part}")]))
    rays /= np.linalg.norm(rays, axis=1)[:, None]
    shoulder = rays[0] * np.linalg.norm(one.joints[NUMBER[f"{side}_shoulder"]])
    normal = np.cross(rays[0], rays[1])
    if np.linalg.norm(normal) < 1e-6:
        return None
    normal /= np.linalg.norm(normal)
    # Where the ray of the hand is one arm's length away from the shoulder.
    middle = float(rays[1] @ shoulder)
    rest = middle**2 - float(shoulder @ shoulder) + REACH_M[part] ** 2
    half = math.sqrt(max(rest, 0.0))
    near, far = ((middle + sign * half) * rays[1] - shoulder for sign in (-1, 1))
    near, far = near / np.linalg.norm(near), far / np.linalg.norm(far)
    guess = one.joints[NUMBER[f"{side}_wrist"]] - one.joints[NUMBER[f"{side}_shoulder"]]
    lean = math.degrees(math.asin(np.clip(guess @ rays[0] / max(float(np.linalg.norm(guess)), 1e-9), -1, 1)))
    down = view.turn.T @ np.array([0.0, 0.0, -1.0])
    raised = min(math.degrees(math.acos(np.clip(way @ down, -1, 1))) for way in (near, far))
    elbow = 0.0
    if part == "wrist":
        pixels = [body.pixel(f"{side}_{joint}") for joint in ("shoulder", "elbow", "wrist")]
        elbow = elbow_place(view.rays(np.stack(pixels))[:, :2], shoulder, near, far)
    return Arm(shoulder, near, far, normal, lean, elbow, raised, part)


def elbow_place(seen: Floats, shoulder: Floats, near: Floats, far: Floats) -> float:
    """See `Arm.elbow`; at most 2 either way. seen: (3, 2) x / z and y / z of shoulder, elbow, wrist."""

    def share(places: Floats) -> float:
        way = places[2] - places[0]
        return float((places[1] - places[0]) @ way / max(float(way @ way), 1e-12))

    ends = []
    for direction in (near, far):
        reach = np.array([0.0, REACH_M["elbow"], REACH_M["wrist"]])
        points = shoulder + reach[:, None] * direction
        ends.append(share(points[:, :2] / points[:, 2:]))
    towards, away = ends
    place = (share(seen) - (towards + away) / 2) / max(away - towards, 0.03)
    return float(np.clip(place, -2, 2))


def _turn_log(direction: Floats, facing_deg: float) -> float:
    """Logarithm of how natural it is to point there for somebody who is turned so."""
    way = math.degrees(math.atan2(direction[1], direction[0]))
    aside = abs((way - facing_deg + 180) % 360 - 180)
    return float(-0.5 * (aside / TURN_SIGMA_DEG) ** 2 * math.hypot(direction[0], direction[1]))


def _mean(units: Floats) -> Floats:
    mean = units.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))
