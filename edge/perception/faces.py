"""Who the speaker is, by the face, against the enrolled people; a stranger is nobody's.

The face is taken from the two pictures of the request in which it is seen best from its front; its vector is
the mean of one of them and the mirror image of the other, which differ in noise, mouth and side but not in
the face. How alike a stranger may look is judged by the household itself: whoever is to be known must be more
alike than its members are to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import MissingDependency
from edge.perception.active_speaker import SpeakerSeen, speaker_in
from edge.perception.face_models import VECTOR_SHA256, FaceMesh, face_chip, face_vector
from edge.perception.faces_seen import face_in
from edge.perception.profiles import Identity, Measure, ProfileBook
from edge.perception.tools import Finding, Scene, Stopwatch

Floats = NDArray[np.float64]

# King 2017: pictures of one person lie less than 0.6 apart, so a score (1 - distance) of 0.4.
FACE = Measure(
    kind="face",
    model="dlib resnet v1 level mirrored",
    sha256=VECTOR_SHA256,
    metric="distance",
    limit=0.4,
    margin=0.02,
)
PRESENT = 0.3  # least presence of a face
FRONT_DEG = 60.0  # beyond it too little of the face is seen
LEAST_PX = 18.0  # of the face's height
ABOVE_OTHERS = 0.05  # least score above what members of the household reach among each other
ENROLLED = 3  # pictures of a scene that become templates


@dataclass(frozen=True, slots=True)
class FaceSeen:
    """One face: where, and how well it is seen (the height in pixels, less when it is turned)."""

    number: int
    mesh: FaceMesh
    quality: float


class FaceTool:
    """Scene -> who the speaker is."""

    name = "face"

    def __init__(self, book: ProfileBook, measure: Measure = FACE) -> None:
        self._book, self._measure = book, measure

    def __call__(self, scene: Scene) -> Finding[Identity]:
        watch = Stopwatch()
        speaker = speaker_in(scene)
        if speaker is None:
            return Finding(self.name, None, 0.0, {}, watch.seconds, "the speaker is not seen")
        faces = faces_of(scene, speaker)
        told: dict[str, Any] = {"model": self._measure.name, "faces": len(faces)}
        if not faces:
            return Finding(self.name, None, 0.0, told, watch.seconds, "the speaker's face is not seen")
        told["face_px"] = round(faces[0].mesh.height_px, 1)
        try:
            vector = _asked(scene, faces)
        except MissingDependency as error:
            return Finding(self.name, None, 0.0, told, watch.seconds, str(error))
        alike = self._book.most_alike(self._measure)
        limit = max(self._measure.limit, -1.0 if alike is None else alike + ABOVE_OTHERS)
        found = self._book.identify(vector, replace(self._measure, limit=limit))
        return Finding(self.name, found, speaker.share * _sure(found), told, watch.seconds)


def face_vectors(scene: Scene, speaker: SpeakerSeen, count: int) -> list[Floats]:
    """(128,) each, of the `count` best pictures of the speaker's face and their mirror images, for enrolling.

    Empty when no face is seen. Raises MissingDependency without dlib or its network.
    """
    faces = faces_of(scene, speaker)[:count]
    return [(_vector(scene, one) + _vector(scene, one, mirrored=True)) / 2 for one in faces]


def _asked(scene: Scene, faces: list[FaceSeen]) -> Floats:
    """The vector (128,) of the speaker, for twice the network's time."""
    return (_vector(scene, faces[0]) + _vector(scene, faces[min(1, len(faces) - 1)], mirrored=True)) / 2


def _vector(scene: Scene, one: FaceSeen, *, mirrored: bool = False) -> Floats:
    chip = face_chip(scene.pictures[one.number].image, one.mesh)
    return face_vector()(np.ascontiguousarray(chip[:, ::-1]) if mirrored else chip)


def faces_of(scene: Scene, speaker: SpeakerSeen) -> list[FaceSeen]:
    """The speaker's face in the pictures that show it, best first."""
    found = []
    for one in speaker.person.sightings:
        mesh = face_in(scene, one)
        if mesh is None or mesh.presence < PRESENT or mesh.height_px < LEAST_PX:
            continue
        if abs(mesh.yaw_deg) > FRONT_DEG:
            continue
        # An open mouth is not how people are enrolled.
        quality = mesh.height_px * np.cos(np.radians(mesh.yaw_deg)) * (1 - min(mesh.mouth_open, 0.5))
        found.append(FaceSeen(one.number, mesh, float(quality)))
    return sorted(found, key=lambda one: -one.quality)


def enrol_face(book: ProfileBook, person: str, scene: Scene, measure: Measure = FACE) -> int:
    """Add what is seen of the talker's face in a scene to a person's templates; how many were added.

    Raises InputError without consent, MissingDependency without the networks.
    """
    speaker = speaker_in(scene)
    vectors = [] if speaker is None else face_vectors(scene, speaker, ENROLLED)
    if vectors:
        book.enrol(person, measure, vectors)
    return len(vectors)


def _sure(found: Identity) -> float:
    """0 to 1: the lead of a known person over the next, or how far a stranger stays below the limit."""
    if not found.known:
        return float(min(1.0, max(0.0, 0.5 + 2.5 * (found.limit - found.score))))
    lead = found.score - (found.candidates[1][1] if len(found.candidates) > 1 else -1.0)
    return float(min(1.0, 0.5 + 2.5 * lead))
