"""The people in the pictures of a scene: their bodies from picture to picture, and where they stand.

The distance comes from the size of the body: the landmarks in metres are laid into the rays of their pixels
(a linear fit of one translation). The network looks at a square around the person as if the camera pointed
there, so its metres are turned from that view into the camera's first; without that a person at the edge of a
wide picture seems turned by as much as they stand aside. `python -m bench.agent_vision` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.perception.body import NUMBER, Body, BodyFinder
from edge.perception.room_map import MapCamera
from edge.perception.tools import Picture, Scene
from edge.perception.utterance import RATE_HZ, Utterance

Floats = NDArray[np.float64]

PICTURES = 5  # that are looked at, spread over the request
THRESHOLD = 0.3  # of the scores of both networks
# The network's people are a little smaller than people of 1.7 m are (measured over the virtual people).
SCALE = 1.08
DISTANCE_SIGMA = 0.08  # of the distance: people are not of one size
# What is rigid enough, and large enough, to tell the size by.
SIZED = (
    "nose", "mouth_left", "mouth_right", "left_ear", "right_ear", "left_shoulder", "right_shoulder",
    "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
)  # fmt: skip
LEAST_POINTS = 5
NEAREST_M = 0.3


class View:
    """Pixels to rays and back for the camera of a room map."""

    def __init__(self, camera: MapCamera) -> None:
        self.camera = camera
        self.turn = camera.room_from_camera[:3, :3]
        self.position_m = camera.room_from_camera[:3, 3]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture, pixels."""
        return self.camera.width_px, self.camera.height_px

    def rays(self, pixels: Floats) -> Floats:
        """(n, 3) with z = 1 in the camera's frame of pixels (n, 2)."""
        flat = np.asarray(pixels, np.float64).reshape(-1, 1, 2)
        if self.camera.distortion.any():
            found = cv2.undistortPoints(flat, self.camera.matrix, self.camera.distortion).reshape(-1, 2)
        else:
            m = self.camera.matrix
            found = (flat.reshape(-1, 2) - m[:2, 2]) / (m[0, 0], m[1, 1])
        return np.column_stack([found, np.ones(len(found))])

    def to_room(self, points: Floats) -> Floats:
        """Points (..., 3) of the camera's frame in the room."""
        return np.asarray(points @ self.turn.T + self.position_m)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A person in one picture, in the camera's frame (x right, y down, z forward, metres).

    number: of the picture in `scene.pictures`. joints: (33, 3), rows as `body.LANDMARKS`. facing_view: (3, 3)
    from the frame of the network's metres, which looks straight at the person, into the camera's.
    """

    number: int
    body: Body
    joints: Floats
    facing_view: Floats

    @property
    def mouth(self) -> Floats:
        """(3,) middle of the mouth."""
        return np.asarray((self.joints[NUMBER["mouth_left"]] + self.joints[NUMBER["mouth_right"]]) / 2)

    @property
    def mouth_px(self) -> Floats:
        """(2,) its pixel."""
        return np.asarray((self.body.pixel("mouth_left") + self.body.pixel("mouth_right")) / 2)


@dataclass(frozen=True, slots=True)
class PersonSeen:
    """A person over the pictures of a scene.

    position_m: of the mouth in the room. sigma_m: of its distance, nearly all of the error. box: x, y, width,
    height in pixels, of the picture in the middle.
    """

    sightings: tuple[Sighting, ...]
    position_m: tuple[float, float, float]
    sigma_m: float
    box: tuple[int, int, int, int]

    @property
    def middle(self) -> Sighting:
        """The sighting in the middle of the request."""
        return self.sightings[len(self.sightings) // 2]


@lru_cache(maxsize=1)
def finder() -> BodyFinder:
    """The networks, loaded once; scenes are looked at by one thread. Raises MissingDependency, InputError."""
    return BodyFinder(threshold=THRESHOLD)


def view_of(scene: Scene) -> View | None:
    """The camera of the scene; None when the map tells none, or the pictures are of another size."""
    camera = scene.room.camera
    if camera is None or not scene.pictures:
        return None
    height, width = scene.pictures[0].image.shape[:2]
    return View(camera) if (width, height) == (camera.width_px, camera.height_px) else None


def people_seen(scene: Scene) -> tuple[PersonSeen, ...]:
    """Everybody in the pictures, worked out once per scene; who is seen best comes first."""
    return scene.shared("people_seen", lambda: _look(scene))


def chosen_pictures(pictures: Sequence[Picture], utterance: Utterance, count: int = PICTURES) -> list[int]:
    """Numbers of the pictures that are looked at: while there is speech, evenly spread."""
    if not pictures:
        return []
    voiced = np.flatnonzero(utterance.voiced)
    first, last = (int(voiced[0]), int(voiced[-1])) if len(voiced) else (0, len(utterance.foa))
    wanted = utterance.t_ns + np.linspace(first, last, count + 2)[1:-1] / RATE_HZ * 1e9
    times = np.array([picture.t_ns for picture in pictures], np.int64)
    return sorted({int(np.argmin(np.abs(times - t_ns))) for t_ns in wanted})


def _look(scene: Scene) -> tuple[PersonSeen, ...]:
    view = view_of(scene)
    if view is None:
        return ()
    numbers = chosen_pictures(scene.pictures, scene.utterance)
    find = finder()
    # From the middle of the request outwards: there an arm that points is up.
    middle = len(numbers) // 2
    tracks = [{middle: body} for body in find(scene.pictures[numbers[middle]].image)]
    for way in (range(middle + 1, len(numbers)), range(middle - 1, -1, -1)):
        for at in way:
            before = at - 1 if at > middle else at + 1
            for track in tracks:
                if before in track:
                    body = find.within(scene.pictures[numbers[at]].image, track[before].next_region)
                    if body is not None:
                        track[at] = body
    people = []
    for track in tracks:
        seen = [_sighting(numbers[at], track[at], view) for at in sorted(track)]
        sightings = tuple(one for one in seen if one is not None)
        if sightings:
            people.append(_person(sightings, view))
    return tuple(people)


def _person(sightings: tuple[Sighting, ...], view: View) -> PersonSeen:
    mouths = view.to_room(np.array([one.mouth for one in sightings]))
    place = np.median(mouths, axis=0)
    away = float(np.linalg.norm(place - view.position_m))
    points = sightings[len(sightings) // 2].body.pixels
    width, height = view.size
    low = np.clip(points.min(axis=0), 0, (width, height))
    high = np.clip(points.max(axis=0), 0, (width, height))
    (x, y), (w, h) = np.floor(low), np.ceil(high) - np.floor(low)
    return PersonSeen(
        sightings,
        (float(place[0]), float(place[1]), float(place[2])),
        DISTANCE_SIGMA * away,
        (int(x), int(y), int(w), int(h)),
    )


def _sighting(number: int, body: Body, view: View) -> Sighting | None:
    """The body in metres before the camera; None when too little of it is seen to say how far it is."""
    width, height = view.size
    rows = [NUMBER[name] for name in SIZED if body.seen(name, width, height)]
    if len(rows) < LEAST_POINTS:
        return None
    straight = turned_to(view.rays(np.array([[body.region.x, body.region.y]]))[0])
    metres = body.metres @ straight.T * SCALE
    rays = view.rays(body.pixels[rows])
    u, v, ones, zeros = rays[:, 0], rays[:, 1], np.ones(len(rows)), np.zeros(len(rows))
    x, y, z = metres[rows].T
    # Where x + tx = u (z + tz) and y + ty = v (z + tz).
    left = np.concatenate([np.column_stack([ones, zeros, -u]), np.column_stack([zeros, ones, -v])])
    shift = np.linalg.lstsq(left, np.concatenate([u * z - x, v * z - y]), rcond=None)[0]
    joints = metres + shift
    if joints[NUMBER["nose"], 2] < NEAREST_M:
        return None
    return Sighting(number, body, joints, straight)


def turned_to(ray: Floats) -> Floats:
    """(3, 3): the frame that looks along a ray of the camera's frame, upright, into the camera's."""
    ahead = ray / np.linalg.norm(ray)
    right = np.cross([0.0, 1.0, 0.0], ahead)
    right /= max(float(np.linalg.norm(right)), 1e-9)
    return np.column_stack([right, np.cross(ahead, right), ahead])
