"""Who in the picture is talking: by where the voice comes from, then by the movement of the mouth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dsp.errors import MissingDependency
from edge.perception.body import Body
from edge.perception.direction import Direction, talker_direction
from edge.perception.people_seen import PersonSeen, Sighting, people_seen, view_of
from edge.perception.tools import Finding, Scene, Stopwatch

Floats = NDArray[np.float64]

NOT_SEEN_DEG = 35.0  # a voice that comes from that far beside everybody is of nobody in the picture
LEAST_SIGMA_DEG = 6.0
# A mouth that moves while others do not: how much of that counts, as a factor of the odds at most.
MOUTH_ODDS = 8.0
MOUTH_STILL = 4.0  # grey levels between pictures that noise and JPEG make
_MOUTH_SIDE = 24


@dataclass(frozen=True, slots=True)
class SpeakerSeen:
    """The talker. position_m: of the mouth in the room; sigma_m: of its distance. direction: of the voice in
    the room, None when the sound had none. box: x, y, width, height in pixels of the picture in the middle.

    body: the landmarks there. person: over all pictures. share: 0 to 1, that it is this one of the people.
    """

    position_m: tuple[float, float, float]
    sigma_m: float
    direction: Direction | None
    box: tuple[int, int, int, int]
    body: Body
    person: PersonSeen
    share: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {
            "position_m": [round(v, 3) for v in self.position_m],
            "sigma_m": round(self.sigma_m, 3),
            "direction": None if self.direction is None else self.direction.to_dict(),
            "box": list(self.box),
            "share": round(self.share, 4),
        }


class ActiveSpeakerTool:
    """Scene -> the person who talks."""

    name = "active_speaker"

    def __call__(self, scene: Scene) -> Finding[SpeakerSeen]:
        watch = Stopwatch()
        speaker, why, told = scene.shared("active_speaker", lambda: _decide(scene))
        share = 0.0 if speaker is None else speaker.share
        return Finding(self.name, speaker, share, told, watch.seconds, why)


def speaker_in(scene: Scene) -> SpeakerSeen | None:
    """The talker, worked out once per scene, for the other tools."""
    return scene.shared("active_speaker", lambda: _decide(scene))[0]


def talker_heard(scene: Scene) -> Direction | None:
    """Where the voice comes from, worked out once per scene."""
    return scene.shared(
        "talker_direction", lambda: talker_direction(scene.utterance, scene.room.microphone_yaw_deg)
    )


def _decide(scene: Scene) -> tuple[SpeakerSeen | None, str, dict[str, Any]]:
    heard = talker_heard(scene)
    told: dict[str, Any] = {"pictures": len(scene.pictures)}
    if view_of(scene) is None:
        return None, "there is no picture of a camera whose place is known", told
    try:
        people = people_seen(scene)
    except MissingDependency as error:
        return None, str(error), told
    told["people"] = len(people)
    if not people:
        return None, "nobody is seen", told
    logs = np.zeros(len(people))
    if heard is not None:
        away = np.array([_away_deg(scene, person, heard) for person in people])
        told["away_deg"] = away.round(1).tolist()
        if away.min() > NOT_SEEN_DEG + heard.sigma_deg:
            return None, f"the voice comes from {away.min():.0f} degrees beside whoever is seen", told
        logs -= 0.5 * (away / max(heard.sigma_deg, LEAST_SIGMA_DEG)) ** 2
    if len(people) > 1:
        moved = np.array([mouth_movement(scene, person) for person in people])
        told["mouth"] = moved.round(1).tolist()
        logs += np.log(MOUTH_ODDS) * moved / max(float(moved.max()), MOUTH_STILL)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    best = int(np.argmax(shares))
    person = people[best]
    speaker = SpeakerSeen(
        person.position_m, person.sigma_m, heard, person.box, person.middle.body, person, float(shares[best])
    )
    return speaker, "", told


def _away_deg(scene: Scene, person: PersonSeen, heard: Direction) -> float:
    """Degrees between a person's mouth, as the microphone has it, and the voice; mostly across the floor:
    reflections of the ceiling and the table bend the elevation."""
    offset = np.asarray(person.position_m) - np.asarray(scene.room.microphone_m)
    azimuth = math.degrees(math.atan2(offset[1], offset[0]))
    elevation = math.degrees(math.atan2(offset[2], math.hypot(offset[0], offset[1])))
    across = (azimuth - heard.azimuth_deg + 180) % 360 - 180
    return math.hypot(across, 0.3 * (elevation - heard.elevation_deg))


def mouth_movement(scene: Scene, person: PersonSeen) -> float:
    """Grey levels by which the mouth changes from picture to picture, more than the forehead does."""
    patches = [_face_patches(scene, one) for one in person.sightings]
    kept = [patch for patch in patches if patch is not None]
    if len(kept) < 2:
        return 0.0
    mouths, brows = (np.array([pair[i] for pair in kept]) for i in (0, 1))
    still = float(np.abs(np.diff(brows, axis=0)).mean())
    return max(0.0, float(np.abs(np.diff(mouths, axis=0)).mean()) - still)


def _face_patches(scene: Scene, one: Sighting) -> tuple[Floats, Floats] | None:
    """Mouth and forehead (24, 24) of one picture, cut by the size of the head."""
    image = scene.pictures[one.number].image
    eyes = (one.body.pixel("left_eye") + one.body.pixel("right_eye")) / 2
    down = one.mouth_px - eyes
    size = float(np.linalg.norm(down))
    if size < 3:
        return None
    cut = []
    for middle in (one.mouth_px, eyes - 0.6 * down):
        x, y = middle
        move = np.array([[_MOUTH_SIDE / size, 0, 0], [0, _MOUTH_SIDE / size, 0]], float)
        move[:, 2] = _MOUTH_SIDE / 2 - move[:, :2] @ (x, y)
        patch = cv2.warpAffine(image, move, (_MOUTH_SIDE, _MOUTH_SIDE), flags=cv2.INTER_LINEAR)
        cut.append(cv2.cvtColor(patch, cv2.COLOR_BGR2GRAY).astype(float))
    return cut[0], cut[1]
