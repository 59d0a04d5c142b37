"""Which way the speaker looks, in the room: by the face where one is seen, else by the shoulders.

A face that is seen from its front says best how the head is turned. From the side the mesh of the face is
drawn too much towards the camera; there the line between the shoulders says more. The body's network takes
a back for a front, so a body that seems to look at the camera without having a face looks away from it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge.perception.active_speaker import SpeakerSeen, speaker_in
from edge.perception.body import NUMBER
from edge.perception.face_models import FaceMesh
from edge.perception.faces_seen import face_in
from edge.perception.people_seen import Sighting, View, view_of
from edge.perception.tools import Finding, Scene, Stopwatch

Floats = NDArray[np.float64]

FRONT_DEG = 55.0  # up to here the mesh of a face says how the head is turned
SIDE_DEG = 62.0  # from here on the shoulders do
HEAD_SIGMA_DEG, BODY_SIGMA_DEG, BACK_SIGMA_DEG = 7.0, 12.0, 15.0
# Presence of a face, of the middle picture, for there being one: what seems to look straight here must be
# sure; turned half away it is seen badly, and a back shows none.
PRESENT, PRESENT_ASIDE, ASIDE_DEG = 0.5, 0.08, 25.0
SPREAD_DEG = 40.0  # pictures that disagree by more: the confidence falls


@dataclass(frozen=True, slots=True)
class Facing:
    """azimuth_deg: in the room, from +x towards +y. source: what it was seen by."""

    azimuth_deg: float
    sigma_deg: float
    source: Literal["head", "body"]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {key: round(v, 2) if isinstance(v, float) else v for key, v in asdict(self).items()}


class FacingTool:
    """Scene -> which way the speaker looks."""

    name = "facing"

    def __call__(self, scene: Scene) -> Finding[Facing]:
        watch = Stopwatch()
        speaker = speaker_in(scene)
        if speaker is None:
            return Finding(self.name, None, 0.0, {}, watch.seconds, "the speaker is not seen")
        facing = facing_of(scene, speaker)
        told = {"pictures": len(speaker.person.sightings)}
        if facing is None:
            return Finding(self.name, None, 0.0, told, watch.seconds, "neither face nor shoulders are seen")
        sure = speaker.share / (1 + (facing.sigma_deg / SPREAD_DEG) ** 2)
        return Finding(self.name, facing, sure, told, watch.seconds)


def facing_of(scene: Scene, speaker: SpeakerSeen) -> Facing | None:
    """Of the speaker, worked out once per scene: the median of the pictures."""
    return scene.shared("facing", lambda: _facing(scene, speaker))


def _facing(scene: Scene, speaker: SpeakerSeen) -> Facing | None:
    view = view_of(scene)
    if view is None:
        return None
    faces = [face_in(scene, one) for one in speaker.person.sightings]
    there = _has_face([face for face in faces if face is not None])
    both = zip(speaker.person.sightings, faces, strict=True)
    found = [_in_picture(view, one, face, there) for one, face in both]
    angles = np.radians([one.azimuth_deg for one in found])
    # The middle one: that which is least away from the others.
    apart = np.degrees(np.abs((angles[:, None] - angles[None] + math.pi) % (2 * math.pi) - math.pi))
    best = int(np.argmin(apart.sum(axis=1)))
    spread = float(np.median(apart[best]))
    return Facing(found[best].azimuth_deg, math.hypot(found[best].sigma_deg, spread), found[best].source)


def _has_face(faces: list[FaceMesh]) -> bool:
    """Without a picture large enough, or without the network, nothing says that there is none."""
    if not faces:
        return True
    aside = abs(float(np.median([face.yaw_deg for face in faces]))) >= ASIDE_DEG
    return float(np.median([face.presence for face in faces])) >= (PRESENT_ASIDE if aside else PRESENT)


def _in_picture(view: View, one: Sighting, face: FaceMesh | None, there: bool) -> Facing:
    """The angles are first counted from straight towards the camera, positive to the person's own left.

    there: a face is seen in some of the pictures.
    """
    towards = view.turn @ -one.facing_view[:, 2]
    body = body_turn_deg(one)
    if abs(body) >= SIDE_DEG:
        return _room(towards, body, BODY_SIGMA_DEG, "body")
    if not there:
        return _room(towards, body + 180, BACK_SIGMA_DEG, "body")
    if face is not None and abs(face.yaw_deg) < FRONT_DEG:
        # The mesh sees the head from where the head is: nearly the same way as the body.
        return _room(towards, face.yaw_deg, HEAD_SIGMA_DEG, "head")
    return _room(towards, body, BODY_SIGMA_DEG, "body")


def _room(towards: Floats, turn_deg: float, sigma_deg: float, source: Literal["head", "body"]) -> Facing:
    base = math.degrees(math.atan2(towards[1], towards[0]))
    return Facing((base + turn_deg + 180) % 360 - 180, sigma_deg, source)


def body_turn_deg(one: Sighting) -> float:
    """How far the shoulders are turned to the person's left from straight towards the camera, as the network
    has them: near 0 for a back, too."""
    metres = one.body.metres
    across = metres[NUMBER["left_shoulder"]] - metres[NUMBER["right_shoulder"]]
    return math.degrees(math.atan2(across[2], across[0]))
