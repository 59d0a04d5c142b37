"""The eyes of the agent, each alone: `python -m bench.agent_vision`.

Speakers of generated episodes in the virtual room, seen by its camera (640x360, 90 degrees wide, JPEG) and
heard by its microphone: who talks, which way the speaker looks, where an arm points, whose face it is, and
what all of it costs. Strangers are the same scenes with a speaker whom nobody enrolled. The full form uses an
unseen seed. The people are drawn: no figure here is one of real people.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.agent_episodes import read_bundle, record, seed_plan
from bench.agent_household import record_household
from bench.figures import end_of_part, figure, not_measured, note, quick
from dsp.errors import MissingDependency
from edge.perception.active_speaker import ActiveSpeakerTool, SpeakerSeen
from edge.perception.faces import FaceTool, enrol_face
from edge.perception.facing import FacingTool
from edge.perception.pointing import PointingTool
from edge.perception.profiles import Identity, ProfileBook
from edge.perception.tools import Picture, Scene
from recordings.plan.model import Plan, PlanItem
from recordings.profile import Placed

Floats = NDArray[np.float64]

SEED, QUICK_SEED = 902, 92
STEP, QUICK_STEP = 2, 12
FACE_DEG = 60.0  # a speaker who is turned further from the camera shows too little of the face
SIDE_DEG = 35.0  # half of a side ("on my left"), of `recordings.plan.places`


def run(is_quick: bool) -> None:
    """Every figure of this subject."""
    plan = seed_plan(QUICK_SEED if is_quick else SEED)
    with tempfile.TemporaryDirectory() as told:
        folder = Path(told)
        try:
            book = _household(folder)
        except MissingDependency as error:
            for name, unit in (("speaker.right", "share"), ("pointing.target_first", "share")):
                not_measured(f"vision.{name}", unit, ">=", 0.9, str(error))
            return
        tally = _Tally(book)
        for item in plan.items[:: QUICK_STEP if is_quick else STEP]:
            record(item, plan, folder / item.id)
            scene = read_bundle(folder / item.id).scene()
            if scene is None:
                note(f"{item.id}: nobody is heard to speak")
                continue
            tally.look(item, scene)
            if tally.shows_face(item, scene):
                tally.stranger(disguised(item, plan, scene, f"stranger of {item.id}"))
        tally.tell()


def _household(folder: Path) -> ProfileBook:
    book = ProfileBook()
    for person, takes in record_household(folder).items():
        for take in takes:
            scene = read_bundle(take).scene()
            if scene is not None:
                enrol_face(book, person, scene)
    return book


def speaker_of(item: PlanItem) -> Placed:
    """The one who speaks."""
    return next(placed for placed in item.staging.people if placed.speaks)


def disguised(item: PlanItem, plan: Plan, scene: Scene, name: str) -> Scene:
    """The same scene with a stranger in the speaker's place: drawn again, heard as it was."""
    from capture.virtual.scene import Figure, Snapshot
    from capture.virtual.staged import staged_rig
    from capture.virtual.staged_picture import StagedPainter

    painter = StagedPainter(staged_rig(item, plan, storage="unused"))
    states = {device.id: dict(device.attributes) for device in item.home.devices}
    pictures = []
    for picture in scene.pictures:
        figures = []
        for placed in item.staging.people:
            turn = math.radians(placed.facing_deg)
            opened = 0.3 * placed.speaks * (1 + math.sin(picture.t_ns / 4e7))
            facing = np.array([math.cos(turn), math.sin(turn)])
            who = name if placed.speaks else placed.person
            figures.append(Figure(who, np.asarray(placed.mouth_m, float), facing, opened))
        image = painter.draw(Snapshot(picture.t_ns / 1e9, None, states, 0.0, tuple(figures)))
        pictures.append(Picture(picture.t_ns, _through_jpeg(image)))
    return Scene(scene.utterance, tuple(pictures), scene.room)


def _through_jpeg(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import cv2

    done, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 92])
    assert done
    return np.asarray(cv2.imdecode(jpeg, cv2.IMREAD_COLOR), np.uint8)


def wrapped(angle_deg: float) -> float:
    """The same angle in [-180, 180)."""
    return (angle_deg + 180) % 360 - 180


def apart_deg(one: Floats, other: Floats) -> float:
    """Degrees between two vectors."""
    cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
    return math.degrees(math.acos(float(np.clip(cosine, -1, 1))))


class _Tally:
    """What was found, held against what was staged."""

    def __init__(self, book: ProfileBook) -> None:
        self._speaker, self._facing = ActiveSpeakerTool(), FacingTool()
        self._pointing, self._face = PointingTool(), FaceTool(book)
        self.right: list[bool] = []
        self.of_several: list[bool] = []
        self.place_m: list[float] = []
        self.turned: list[float] = []
        self.up: list[bool] = []  # of those who point
        self.up_falsely: list[bool] = []
        self.ray: list[float] = []
        self.plane: list[float] = []
        self.first: list[bool] = []
        self.known: list[tuple[str, Identity | None]] = []
        self.strangers: list[Identity | None] = []
        self.spent: list[float] = []

    def look(self, item: PlanItem, scene: Scene) -> None:
        """One scene through all tools."""
        begin = time.process_time()
        speaker, facing = self._speaker(scene).value, self._facing(scene).value
        pointing, face = self._pointing(scene).value, self._face(scene).value
        self.spent.append(time.process_time() - begin)
        truth = speaker_of(item)
        self._who(item, speaker)
        if facing is not None:
            self.turned.append(abs(wrapped(facing.azimuth_deg - truth.facing_deg)))
        if truth.pointing_at is None:
            self.up_falsely.append(pointing is not None)
        else:
            self.up.append(pointing is not None)
        if truth.pointing_at is not None and pointing is not None:
            places = {d.id: np.array(d.position_m) for d in scene.room.devices if d.position_m}
            way = places[truth.pointing_at] - pointing.origin_m
            self.ray.append(apart_deg(pointing.direction, way))
            self.plane.append(abs(90 - apart_deg(pointing.normal, way)))
            fits = pointing.log_likelihood(np.array(list(places.values())))
            self.first.append(list(places)[int(np.argmax(fits))] == truth.pointing_at)
        if self.shows_face(item, scene):
            self.known.append((truth.person, face))

    def _who(self, item: PlanItem, speaker: SpeakerSeen | None) -> None:
        if speaker is None:
            self.right.append(False)
            return
        away = {
            placed.person: float(np.linalg.norm(np.subtract(speaker.position_m, placed.mouth_m)))
            for placed in item.staging.people
        }
        truth = speaker_of(item).person
        self.place_m.append(away[truth])
        self.right.append(min(away, key=lambda name: away[name]) == truth and away[truth] < 1.0)
        if len(away) > 1:
            self.of_several.append(self.right[-1])

    def shows_face(self, item: PlanItem, scene: Scene) -> bool:
        """Whether the speaker is turned so that a face can be seen."""
        truth, camera = speaker_of(item), scene.room.camera
        assert camera is not None
        x, y = camera.room_from_camera[:2, 3] - np.asarray(truth.mouth_m)[:2]
        return abs(wrapped(truth.facing_deg - math.degrees(math.atan2(y, x)))) <= FACE_DEG

    def stranger(self, scene: Scene) -> None:
        """A scene whose speaker is nobody that is known."""
        self.strangers.append(self._face(scene).value)

    def tell(self) -> None:
        """The figures."""
        note(
            f"{len(self.right)} scenes, {len(self.of_several)} with several people, {len(self.up)} who point"
        )
        figure("vision.speaker.right", float(np.mean(self.right)), "share", ">=", 0.97)
        if self.of_several:
            figure("vision.speaker.of_several.right", float(np.mean(self.of_several)), "share", ">=", 0.95)
        figure("vision.speaker.place.median", float(np.median(self.place_m)), "m", "<=", 0.2)
        figure("vision.speaker.place.p90", float(np.quantile(self.place_m, 0.9)), "m", "<=", 0.35)
        turned = np.array(self.turned)
        figure("vision.facing.median", float(np.median(turned)), "degrees", "<=", 6.0)
        figure("vision.facing.p90", float(np.quantile(turned, 0.9)), "degrees", "<=", 15.0)
        figure("vision.facing.right_side", float(np.mean(turned <= SIDE_DEG)), "share", ">=", 0.97)
        figure("vision.pointing.seen", float(np.mean(self.up)), "share", ">=", 0.95)
        figure("vision.pointing.invented", float(np.mean(self.up_falsely)), "share", "<=", 0.03)
        figure("vision.pointing.ray.median", float(np.median(self.ray)), "degrees", "<=", 15.0)
        figure("vision.pointing.plane.median", float(np.median(self.plane)), "degrees", "<=", 3.0)
        figure("vision.pointing.target_first", float(np.mean(self.first)), "share", ">=", 0.85)
        self._tell_faces()
        figure("vision.computing.median", float(np.median(self.spent)), "s", "<=", 0.6)

    def _tell_faces(self) -> None:
        seen = [(person, found) for person, found in self.known if found is not None]
        note(f"{len(self.known)} faces of the household, {len(seen)} seen; {len(self.strangers)} strangers")
        best = [found.candidates[0][0] == person for person, found in seen]
        named = [found.person == person for person, found in seen]
        wrong = [found.known and found.person != person for person, found in seen]
        figure("vision.face.rank_1", float(np.mean(best)), "share", ">=", 0.85)
        figure("vision.face.known", float(np.mean(named)), "share", ">=", 0.8)
        figure("vision.face.wrong_name", float(np.mean(wrong)), "share", "<=", 0.05)
        refused = [found is None or not found.known for found in self.strangers]
        figure("vision.face.strangers_refused", float(np.mean(refused)), "share", ">=", 0.85)


def main() -> int:
    """The exit code."""
    run(quick())
    return end_of_part("agent_vision")


if __name__ == "__main__":
    raise SystemExit(main())
