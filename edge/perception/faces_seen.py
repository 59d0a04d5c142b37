"""The mesh of a person's face in a picture, worked out once per scene and picture."""

from __future__ import annotations

import numpy as np

from dsp.errors import MissingDependency
from edge.perception.body import NUMBER
from edge.perception.face_models import FaceMesh, mesher
from edge.perception.people_seen import Sighting
from edge.perception.tools import Scene

HEAD_M = 0.24  # from the chin to the crown
LEAST_PX = 12.0  # a smaller head shows no face


def face_in(scene: Scene, one: Sighting) -> FaceMesh | None:
    """None where the head is too small, or without the network."""
    return scene.shared(("face", one.number, one.body.region), lambda: _face(scene, one))


def _face(scene: Scene, one: Sighting) -> FaceMesh | None:
    image = scene.pictures[one.number].image
    head = one.body.pixels[: NUMBER["mouth_right"] + 1]
    depth = float(one.joints[NUMBER["nose"], 2])
    camera = scene.room.camera
    if camera is None:
        return None
    size = HEAD_M * float(camera.matrix[0, 0]) / depth
    if size < LEAST_PX:
        return None
    try:
        return mesher()(image, np.asarray(head.mean(axis=0)), size)
    except MissingDependency:
        return None
