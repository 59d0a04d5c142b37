"""Does the check `hand` see who points? `python -m bench.recordings_hands [PART...]`.

pictures: of the people of the staged plan items, drawn as the virtual camera sees them, each judged as a take
of such pictures would be. The speaker points (G1); nobody does (G0, held against the item's device); the arms
hang, are behind the back, are cut off by the edge of the picture, or point at another device. wrist: the
landmark beside the joint that was drawn. takes: whole takes, recorded and checked.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.figures import chosen_parts, end_of_part, figure, not_measured, note, quick
from dsp.errors import MissingDependency

WIDTH, HEIGHT = 640, 360
OTHER_DEG = 50.0  # at least between two devices, from the shoulder, to point at one and not the other


def _plan(seed: int = 1) -> Any:
    from recordings.plan.builtin import virtual_home
    from recordings.plan.generate import make_plan

    return make_plan(*virtual_home(), seed, name="bench")


def speaker_of(item: Any) -> Any:
    """The one who speaks."""
    return next(placed for placed in item.staging.people if placed.speaks)


class Drawn:
    """An item's room and people, and what the plan asks of the speaker's arms."""

    def __init__(self, item: Any, plan: Any) -> None:
        from capture.virtual.drawing import Pinhole
        from capture.virtual.staged import staged_rig

        self.item, self.speaker = item, speaker_of(item)
        self.rig = staged_rig(item, plan, storage="unused")
        self.devices = {device.id: device.position_m for device in self.rig.room.devices}
        self.camera = Pinhole(self.rig)

    def figures(self, target: str | None, raised: float = 1.0) -> tuple[Any, ...]:
        """The people; the speaker points at `target`."""
        from capture.virtual.scene import Figure

        people = []
        for placed in self.item.staging.people:
            turn = math.radians(placed.facing_deg)
            at = target if placed.speaks else placed.pointing_at
            facing = np.array([math.cos(turn), math.sin(turn)])
            figure_ = Figure(placed.person, np.asarray(placed.mouth_m, float), facing, 0.3 * placed.speaks)
            where = self.devices[at] if at else None
            people.append(replace(figure_, pointing_at_m=where, raised=raised if placed.speaks else 1.0))
        return tuple(people)

    def picture(self, figures: tuple[Any, ...]) -> np.ndarray:
        """(360, 640, 3) BGR."""
        from capture.virtual.scene import Snapshot
        from capture.virtual.staged_picture import StagedPainter

        states = {device.id: dict(device.attributes) for device in self.item.home.devices}
        return StagedPainter(self.rig).draw(Snapshot(2.0, None, states, 0.0, figures))

    def arms(self, target: str) -> Any:
        """What the check holds the picture against."""
        from edge.session.hand_check import arm_joints, arms_of

        pixels, _ = self.camera.pixels(arm_joints(self.speaker, self.devices[target]))
        x, y = pixels[0]
        return arms_of(pixels, bool(0 <= x < WIDTH and 0 <= y < HEIGHT))

    def joint(self, figures: tuple[Any, ...], name: str) -> np.ndarray:
        """Pixel (2,) of a joint of the speaker's pointing arm as drawn: "shoulder", "elbow" or "wrist"."""
        from capture.virtual.person import pose

        place = pose(next(f for f in figures if f.person == self.speaker.person))
        side = "right" if place["arm"][0] > 0 else "left"
        return np.asarray(self.camera.pixels(place[f"{side}_{name}"])[0][0])

    def other(self, target: str) -> str | None:
        """A device that is far to the side of the target, as seen from the speaker's shoulders."""
        shoulder = np.asarray(self.speaker.mouth_m) - [0, 0, 0.17]
        ray = {name: np.asarray(at) - shoulder for name, at in self.devices.items()}
        unit = {name: v / np.linalg.norm(v) for name, v in ray.items()}
        apart = {n: float(np.degrees(np.arccos(np.clip(u @ unit[target], -1, 1)))) for n, u in unit.items()}
        return next((name for name, degrees in apart.items() if degrees >= OTHER_DEG), None)


def behind_the_back(figure_: Any) -> dict[str, np.ndarray]:
    """Joints of somebody with both hands behind the waist; as `capture.virtual.person.pose`."""
    from capture.virtual.avatar import joints

    place = joints(replace(figure_, pointing_at_m=None))
    ahead = np.array([*figure_.facing, 0.0])
    for side in ("left", "right"):
        place[f"{side}_elbow"] = place[f"{side}_elbow"] - 0.12 * ahead
        place[f"{side}_hand"] = place["waist"] - 0.16 * ahead
        place[f"{side}_wrist"] = place[f"{side}_elbow"] + 0.86 * (
            place[f"{side}_hand"] - place[f"{side}_elbow"]
        )
    return place


def cut_off(image: np.ndarray, arms: Any, shoulder: np.ndarray, wrist: np.ndarray) -> Any:
    """The picture cut half-way along the arm, and the arms in it; None when the arm hardly goes sideways."""
    half = round(float(shoulder[0] + wrist[0]) / 2)
    if abs(wrist[0] - shoulder[0]) < 60 or abs(arms.mouth[0] - half) < 10 or not 0 < half < WIDTH:
        return None
    if wrist[0] > shoulder[0]:
        return image[:, :half], arms
    return image[:, half:], replace(arms, mouth=arms.mouth - [half, 0])


def _verdict(image: np.ndarray, arms: Any) -> tuple[str, str]:
    """The check's answer on a take of such pictures, and what was seen in one."""
    from edge.session.hand_check import Hands, finder, seen

    if arms is None:
        return "not checked", "outside"
    found = seen(finder()(np.ascontiguousarray(image)), arms, (image.shape[1], image.shape[0]))
    return Hands({found: 6}, 6, told_apart=arms.told_apart).verdict("device")[0], found


def _pointing(plan: Any, step: int) -> Iterator[Drawn]:
    items = [item for item in plan.items if item.grounding == "G1" and speaker_of(item).pointing_at]
    for item in items[::step]:
        yield Drawn(item, plan)


def pictures(short: bool) -> None:
    """Rates of the verdicts, by what the speaker does."""
    from edge.session.hand_check import finder

    try:
        find = finder()
    except MissingDependency as error:
        for name in ("pointing.ok", "nobody.not_ok", "hanging.not_ok", "behind.not_ok", "cut.not_ok"):
            not_measured(f"hands.{name}", "share", ">=", 0.95, str(error))
        return
    plan = _plan()
    told: dict[str, list[tuple[str, str]]] = {}
    wrists, spent = [], []
    for drawn in _pointing(plan, 5 if short else 1):
        target = drawn.speaker.pointing_at
        up = drawn.figures(target)
        image, arms = drawn.picture(up), drawn.arms(target)
        told.setdefault("pointing", []).append(_verdict(image, arms))
        wrist = drawn.joint(up, "wrist")
        begin = time.process_time()
        bodies = find(image)
        spent.append(time.process_time() - begin)
        if bodies and 0 <= wrist[0] < WIDTH and 0 <= wrist[1] < HEIGHT:
            near = [body.pixel(f"{side}_wrist") for body in bodies for side in ("left", "right")]
            arm = float(np.linalg.norm(arms.hanging[0]))
            wrists.append(min(float(np.linalg.norm(at - wrist)) for at in near) / arm)
        down = drawn.figures(target, 0.0)
        told.setdefault("hanging", []).append(_verdict(drawn.picture(down), arms))
        with patch("capture.virtual.person.pose", behind_the_back):
            told.setdefault("behind", []).append(_verdict(drawn.picture(down), arms))
        cut = cut_off(image, arms, drawn.joint(up, "shoulder"), wrist)
        if cut is not None:
            told.setdefault("cut", []).append(_verdict(*cut))
        other = drawn.other(target)
        if other is not None:
            told.setdefault("other", []).append(_verdict(drawn.picture(drawn.figures(other)), arms))
    items = [item for item in plan.items if item.grounding == "G0"]
    for item in items[:: 8 if short else 1]:
        drawn = Drawn(item, plan)
        if item.target_device in drawn.devices:
            image = drawn.picture(drawn.figures(None))
            told.setdefault("nobody", []).append(_verdict(image, drawn.arms(item.target_device)))
    for name, verdicts in told.items():
        seen = sorted({one for _, one in verdicts})
        by = ", ".join(f"{sum(one == s for _, one in verdicts)} {s}" for s in seen)
        note(f"{name}: {len(verdicts)} scenes: {by}")
        ok = float(np.mean([verdict == "ok" for verdict, _ in verdicts]))
        if name == "pointing":
            figure("hands.pointing.ok", ok, "share", ">=", 0.95)
        else:
            figure(f"hands.{name}.not_ok", 1 - ok, "share", ">=", 0.9 if name == "other" else 0.95)
    figure("hands.wrist.median", float(np.median(wrists)), "arm lengths", "<=", 0.1)
    figure("hands.wrist.p90", float(np.quantile(wrists, 0.9)), "arm lengths", "<=", 0.3)
    figure("hands.picture.computing", float(np.median(spent)), "s", "<=", 0.5)


def takes(short: bool) -> None:
    """The check on recorded takes of items in which the speaker points."""
    from bench.recordings_virtual import _take
    from edge.session.checks import check_take
    from edge.session.hand_check import finder
    from recordings import Episode

    try:
        finder()
    except MissingDependency as error:
        not_measured("hands.takes.ok", "share", ">=", 0.9, str(error))
        return
    plan = _plan()
    told = []
    with tempfile.TemporaryDirectory() as folder:
        for drawn in _pointing(plan, 20 if short else 5):
            path, _, _ = _take(drawn.item, plan, folder)
            checks = {check.name: check for check in check_take(Episode.open(path), drawn.item, plan)}
            told.append(checks["hand"].verdict)
            note(f"{drawn.item.id}: {checks['hand'].verdict}: {checks['hand'].text}")
    figure("hands.takes.ok", float(np.mean([verdict == "ok" for verdict in told])), "share", ">=", 0.9)


PARTS = {"pictures": pictures, "takes": takes}


def run(short: bool) -> None:
    """Every figure of this subject."""
    for part in PARTS.values():
        part(short)


def main() -> int:
    """The chosen parts; the exit code."""
    for part in chosen_parts("recordings_hands", PARTS):
        PARTS[part](quick())
    return end_of_part("recordings_hands")


if __name__ == "__main__":
    raise SystemExit(main())
