"""A person learnt from a scene in which nobody else speaks: face and voice, into the profile book."""

from __future__ import annotations

from dataclasses import dataclass

from edge.perception.faces import enrol_face
from edge.perception.profiles import ProfileBook
from edge.perception.tools import Scene
from edge.perception.utterance import RATE_HZ
from edge.perception.voice_identity import LEAST_VOICED_S, VoiceModel, talker_sound


@dataclass(frozen=True, slots=True)
class Learnt:
    """faces: pictures that became templates. voiced_s: of the voice that became one; 0: too little of it."""

    faces: int
    voiced_s: float


def enrol(book: ProfileBook, person: str, scene: Scene, model: VoiceModel) -> Learnt:
    """Add what is seen and heard of the talker. Raises InputError without consent, MissingDependency."""
    faces = enrol_face(book, person, scene)
    sound = talker_sound(scene)
    seconds = len(sound) / RATE_HZ
    if seconds < LEAST_VOICED_S:
        return Learnt(faces, 0.0)
    book.enrol(person, model.measure, [model.embed(sound, RATE_HZ)])
    return Learnt(faces, seconds)
