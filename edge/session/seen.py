"""Is the speaker's face seen where it has to be? With the face detectors that there are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import MissingDependency
from recordings import geometry
from recordings.camera_model import CameraModel
from recordings.episode import Episode
from recordings.plan.model import PlanRoom
from recordings.profile import Placed

PICTURES = 4  # that are looked at, spread over the request
NEAR = 0.12  # of the picture's width: a face further from the speaker's place is somebody else's
TURNED_DEG = 70.0  # a face that looks further away from the camera is not seen in full
# Groundings for which the face has to be seen: who speaks (with gestures among several people), which way the
# speaker looks, who it is.
WITH_FACE = ("G1", "G3", "G4")

Detector = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Faces:
    """What was looked for. found: of `looked` pictures those with a face at the speaker's place; elsewhere:
    those with a face only somewhere else. by: the detector. why: it was not looked for, and why."""

    found: int = 0
    elsewhere: int = 0
    looked: int = 0
    by: str = ""
    why: str | None = None


@lru_cache(maxsize=1)  # takes are checked one after the other, in one thread
def detector() -> tuple[Detector, str]:
    """The best face detector that is installed, and its name. OpenCV always brings one."""
    from recordings.privacy.faces import Cascades, CenterFace

    try:
        return CenterFace(), "CenterFace"
    except MissingDependency:
        return Cascades(), "OpenCV's cascades"


def faces_in(episode: Episode, room: PlanRoom, speaker: Placed | None, begin_s: float, end_s: float) -> Faces:
    """Look for the speaker's face in the pictures between two times from the first sound frame."""
    if speaker is None:
        return Faces(why="the plan places no speaker")
    times = episode.frame_times()
    if not len(times):
        return Faces(why="there are no pictures")
    if _turned_away(room, speaker):
        return Faces(why="the speaker is to look away from the camera")
    place = _place_in_picture(episode, room, speaker)
    if place is None:
        return Faces(why="the speaker's place is not in the picture, by the plan")
    wanted = episode.start_ns + np.linspace(begin_s, end_s, PICTURES + 2)[1:-1] * 1e9
    chosen = {int(np.argmin(np.abs(times - t_ns))) for t_ns in wanted}
    find, name = detector()
    found = elsewhere = 0
    for number, (_, image) in enumerate(episode.frames()):
        if number not in chosen:
            continue
        width = image.shape[1]
        boxes = find(image)
        middles = boxes[:, :2] + boxes[:, 2:4] / 2
        near = np.hypot(middles[:, 0] - place[0] * width, middles[:, 1] - place[1] * image.shape[0])
        found += bool(len(boxes)) and float(near.min()) <= NEAR * width
        elsewhere += bool(len(boxes)) and float(near.min()) > NEAR * width
        if number == max(chosen):
            break
    return Faces(found, elsewhere, len(chosen), name)


def _turned_away(room: PlanRoom, speaker: Placed) -> bool:
    towards = math.degrees(
        math.atan2(room.microphone_m[1] - speaker.mouth_m[1], room.microphone_m[0] - speaker.mouth_m[0])
    )
    return abs((speaker.facing_deg - towards + 180) % 360 - 180) > TURNED_DEG


def _place_in_picture(episode: Episode, room: PlanRoom, speaker: Placed) -> tuple[float, float] | None:
    """Where the speaker's mouth is in the picture, in fractions of its width and height; None outside."""
    (place,), (inside,) = in_picture(episode, room, [speaker.mouth_m])
    return (float(place[0]), float(place[1])) if inside else None


def in_picture(
    episode: Episode, room: PlanRoom, points_m: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Where points of the room (n, 3) are in the picture, (n, 2) in fractions of its width and height, and
    whether inside it (n,); nan behind the camera."""
    camera: dict[str, Any] = episode.profile.rig.get("camera") or {}
    video = episode.profile.source.get("video") or {}
    width, height = int(video.get("width_px") or 640), int(video.get("height_px") or 360)
    lens = episode.calibrations.camera() or CameraModel.nominal(
        width, height, float(camera.get("hfov_deg") or 90.0)
    )
    pose = episode.calibrations.T_mic_camera()
    if pose is None:
        pose = geometry.camera_pose(
            camera.get("position_m") or (0.0, 0.0, 0.0), float(camera.get("yaw_deg") or 0.0),
            float(camera.get("pitch_deg") or 0.0),
        )  # fmt: skip
    azimuth, elevation, distance = geometry.direction_to_point(
        points_m, room.microphone_m, room.microphone_yaw_deg
    )
    seen = geometry.project_direction(azimuth, elevation, T_mic_camera=pose, camera=lens, distance_m=distance)
    return np.stack([seen.u_px / lens.width_px, seen.v_px / lens.height_px], axis=-1), seen.inside
