"""Does the speaker point, and is the hand seen? By the landmarks of bodies in pictures during the request.

A check of the take, not a measurement: the arm in the picture is held against the arm that the plan asks
for, drawn from where the speaker should stand. So a device that the speaker hides, or that is outside of the
picture or behind the camera, is no matter; and an arm towards the camera is short there in both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import MissingDependency
from edge.perception.body import Body, BodyFinder
from edge.session.seen import in_picture
from recordings.episode import Episode
from recordings.plan.model import PlanRoom
from recordings.profile import Placed
from recordings.terminal import counted

PICTURES = 6  # that are looked at, spread over the request
NEAR = 0.12  # of the picture's width: who stands further from the speaker's place is somebody else
# Shoulder to wrist and below the mouth, of a person of 1.7 m (Drillis and Contini 1966: 0.332 and 0.1 of the
# height); the shoulders stand 0.19 m to the side of the neck, which is 0.085 m behind the mouth.
ARM_M, BELOW_M, ASIDE_M, BEHIND_M = 0.57, 0.17, 0.19, 0.085
RAISED = 0.4  # of an arm's length between the wrist and where it would hang
AGREES = 0.6  # of an arm's length between the wrist and where it should be: 35 degrees across the view
VISIBLE = 0.2  # of the wrist, by the network

Seen = Literal["pointing", "elsewhere", "hanging", "hidden", "nobody"]
Verdict = Literal["ok", "warning", "bad", "not checked"]
SAID: dict[Seen, str] = {
    "pointing": "an arm points towards the {}",
    "elsewhere": "no arm points towards the {}, and one does not hang either",
    "hanging": "no arm is raised: both hang",
    "hidden": "no arm is seen to be raised, and a hand is hidden or outside of the picture",
    "nobody": "nobody is found where the speaker should stand",
}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Arms:
    """The speaker's arms as the plan asks for them, left and right, in pixels of the picture.

    mouth: (2,). hanging: (2, 2) from the shoulder to the wrist of an arm that hangs. pointing: (2, 2) of one
    that points, None when nothing is to be pointed at; nan where it would reach behind the camera.
    """

    mouth: Floats
    hanging: Floats
    pointing: Floats | None

    @property
    def told_apart(self) -> bool:
        """Whether an arm that points looks unlike one that hangs."""
        if self.pointing is None:
            return True
        apart = np.linalg.norm(self.pointing - self.hanging, axis=1)
        return bool(np.all(apart >= RAISED * np.linalg.norm(self.hanging, axis=1)))


@dataclass(frozen=True)
class Hands:
    """What was looked for. counts: of `looked` pictures, by what was seen. why: it was not looked for.

    told_apart: see `Arms`.
    """

    counts: Mapping[Seen, int]
    looked: int = 0
    why: str | None = None
    told_apart: bool = True

    def verdict(self, device: str | None) -> tuple[Verdict, str]:
        """What it means for the take, in words. device: the name of what is pointed at, None: nothing is."""
        if self.why is not None:
            return "not checked", self.why
        if not self.told_apart:
            return "not checked", f"an arm that points at the {device} looks like one that hangs"
        of = f"of {counted(self.looked, 'picture')}"
        times = {seen: self.counts.get(seen, 0) for seen in SAID}
        if 2 * times["nobody"] > self.looked:
            return "warning", f"nobody is found where the speaker should stand, in {times['nobody']} {of}"
        if device is None:
            raised = times["elsewhere"]
            if 2 * raised >= self.looked:
                return "warning", f"an arm is raised in {raised} {of}, and nothing is to be pointed at"
            return "ok", f"no arm is seen to be raised in {self.looked - times['nobody'] - raised} {of}"
        pointing = times.pop("pointing")
        if 2 * pointing >= self.looked:
            return "ok", f"an arm points towards the {device} in {pointing} {of}"
        most = max(times, key=lambda seen: times[seen])
        said = f"{SAID[most].format(device)} in {times[most]} {of}"
        return ("bad" if most in ("hanging", "hidden") and not pointing else "warning"), said


@lru_cache(maxsize=1)  # takes are checked one after the other, in one thread
def finder() -> BodyFinder:
    """The networks, loaded once. Raises MissingDependency, InputError."""
    return BodyFinder(threshold=0.3)


def hands_in(
    episode: Episode, room: PlanRoom, speaker: Placed | None, target_m: Sequence[float] | None,
    begin_s: float, end_s: float,
) -> Hands:  # fmt: skip
    """Look at the speaker's arms in the pictures between two times from the first sound frame.

    target_m: what is to be pointed at, None for nothing. Raises InputError for other files than the networks.
    """
    nothing: dict[Seen, int] = {}
    if speaker is None:
        return Hands(nothing, why="the plan places no speaker")
    times = episode.frame_times()
    if not len(times):
        return Hands(nothing, why="there are no pictures")
    try:
        find = finder()
    except MissingDependency as error:
        return Hands(nothing, why=str(error))
    wanted = episode.start_ns + np.linspace(begin_s, end_s, PICTURES + 2)[1:-1] * 1e9
    chosen = {int(np.argmin(np.abs(times - t_ns))) for t_ns in wanted}
    counts: Counter[Seen] = Counter()
    arms = None
    for number, (_, image) in enumerate(episode.frames()):
        if number not in chosen:
            continue
        size = (image.shape[1], image.shape[0])
        arms = arms or planned_arms(episode, room, speaker, target_m, size)
        if arms is None:
            return Hands(nothing, why="the speaker's place is not in the picture, by the plan")
        counts[seen(find(image), arms, size)] += 1
        if number == max(chosen):
            break
    return Hands(dict(counts), sum(counts.values()), told_apart=arms is None or arms.told_apart)


def planned_arms(
    episode: Episode, room: PlanRoom, speaker: Placed, target_m: Sequence[float] | None, size: tuple[int, int]
) -> Arms | None:
    """The arms of the plan in a picture of (width, height); None: the speaker's place is outside of it."""
    joints = arm_joints(speaker, target_m)
    places, inside = in_picture(episode, room, joints)
    return arms_of(places * size, bool(inside[0]))


def arm_joints(speaker: Placed, target_m: Sequence[float] | None) -> Floats:
    """Points of the room (5 or 7, 3): mouth; then, left and right, shoulders, wrists hanging and pointing."""
    mouth = np.asarray(speaker.mouth_m, float)
    turn = math.radians(speaker.facing_deg)
    ahead, left = (
        np.array([math.cos(turn), math.sin(turn), 0]),
        np.array([-math.sin(turn), math.cos(turn), 0]),
    )
    neck = mouth - BEHIND_M * ahead - [0, 0, BELOW_M]
    shoulders = np.stack([neck + ASIDE_M * left, neck - ASIDE_M * left])
    parts = [mouth[None], shoulders, shoulders - [0, 0, ARM_M]]
    if target_m is not None:
        ray = np.asarray(target_m, float) - shoulders
        parts.append(shoulders + ARM_M * ray / np.maximum(np.linalg.norm(ray, axis=1), 1e-9)[:, None])
    return np.concatenate(parts)


def arms_of(places_px: Floats, inside: bool) -> Arms | None:
    """From the pixels (5 or 7, 2) of `arm_joints`; inside: the mouth is in the picture."""
    if not inside or not np.isfinite(places_px[:5]).all():
        return None
    shoulders = places_px[1:3]
    pointing = places_px[5:7] - shoulders if len(places_px) == 7 else None
    return Arms(places_px[0], places_px[3:5] - shoulders, pointing)


def seen(bodies: Sequence[Body], arms: Arms, size: tuple[int, int]) -> Seen:
    """What the speaker's arms do in one picture of (width, height)."""
    width, height = size
    away = [float(np.hypot(*(mouth_of(body) - arms.mouth))) for body in bodies]
    if not away or min(away) > NEAR * width:
        return "nobody"
    body = bodies[int(np.argmin(away))]
    said: set[Seen] = set()
    for number, side in enumerate(("left", "right")):
        if not body.seen(f"{side}_wrist", width, height, least=VISIBLE):
            said.add("hidden")
            continue
        arm = body.pixel(f"{side}_wrist") - body.pixel(f"{side}_shoulder")
        reach = float(np.linalg.norm(arms.hanging[number]))
        raised = float(np.linalg.norm(arm - arms.hanging[number])) >= RAISED * reach
        wanted = arms.pointing[number] if arms.pointing is not None else None
        if raised and wanted is not None and float(np.linalg.norm(arm - wanted)) <= AGREES * reach:
            return "pointing"
        said.add("elsewhere" if raised else "hanging")
    order: tuple[Seen, ...] = ("elsewhere", "hidden", "hanging")
    return next(one for one in order if one in said)


def mouth_of(body: Body) -> Floats:
    """(2,) pixels of the middle of the mouth."""
    return np.asarray((body.pixel("mouth_left") + body.pixel("mouth_right")) / 2)
