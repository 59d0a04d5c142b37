"""The people of a staged scene, drawn with light and shade and a face on a round head.

The joints are those of `capture.virtual.avatar`: the mouth is where the voice comes from, and a raised arm
lies on the straight line from its shoulder to what is pointed at. Each person is painted twice as large on a
transparent layer and reduced, then laid over the picture; a person who stands still is painted once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from capture.rig import Rig
from capture.virtual.avatar import ARM_M, Look, joints
from capture.virtual.drawing import NEAR_M, Canvas, Colour, Pinhole, shade
from capture.virtual.head import HEAD_M, SHAPES, FaceShape, lit, stranger, surface_of
from capture.virtual.scene import Figure

SUPER = 2  # the layer is that much larger than the picture
REACH_M = 0.17  # of what is drawn around the joints
MOUTH_STEPS = 6
ARM_STEPS = 12
FINGER_M = 0.16

Place = dict[str, NDArray[np.float64]]


LOOKS = (
    Look((150, 182, 228), (36, 50, 72), (160, 104, 50), (84, 66, 54)),
    Look((110, 146, 196), (22, 26, 34), (70, 80, 190), (110, 98, 90), long_hair=True),
    Look((172, 200, 240), (96, 150, 192), (92, 150, 84), (60, 60, 64), glasses=True),
    Look((78, 104, 150), (20, 20, 22), (60, 170, 220), (120, 90, 60), beard=True),
    Look((160, 188, 232), (40, 60, 140), (150, 80, 150), (50, 54, 70), long_hair=True, glasses=True),
    Look((140, 170, 214), (150, 152, 156), (96, 96, 100), (70, 78, 96), beard=True),
)


SKINS: tuple[Colour, ...] = (
    (176, 202, 242), (156, 184, 232), (128, 164, 214), (110, 146, 196), (86, 118, 168), (58, 82, 124),
)  # fmt: skip
HAIRS: tuple[Colour, ...] = (
    (20, 20, 22), (36, 50, 72), (60, 92, 130), (96, 150, 192), (40, 60, 140), (150, 152, 156),
    (214, 216, 218),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sprite:
    """A painted person: place in the picture, colours times alpha, and 255 - alpha, both (h, w, 3) uint8."""

    x: int
    y: int
    colours: NDArray[np.uint8]
    clear: NDArray[np.uint8]

    def lay_over(self, image: NDArray[np.uint8]) -> None:
        """Put the person into the picture."""
        h, w = self.colours.shape[:2]
        part = image[self.y : self.y + h, self.x : self.x + w]
        cv2.add(cv2.multiply(part, self.clear, scale=1 / 255), self.colours, dst=part)


class People:
    """Paints the people of a rig's room, each pose once. The first six have looks of their own; whoever else
    there is looks as `visitor` says."""

    def __init__(self, rig: Rig) -> None:
        self._camera = Pinhole(rig, SUPER)
        known = zip(rig.room.people, LOOKS, SHAPES, strict=False)
        self._looks = {person.id: (look, shape) for person, look, shape in known}
        self._kept: dict[Any, Sprite | None] = {}

    def sprite(self, figure: Figure) -> Sprite | None:
        """The person in this pose; None when nothing of it is in the picture. Mouth and arm move in steps."""
        mouth = round(figure.mouth_open * MOUTH_STEPS) / MOUTH_STEPS
        raised = round(figure.raised * ARM_STEPS) / ARM_STEPS if figure.pointing_at_m is not None else 0.0
        place = (*figure.mouth_m, *figure.facing)
        key = (figure.person, tuple(map(float, place)), mouth, raised, figure.pointing_at_m)
        if key not in self._kept:
            if len(self._kept) >= 64:
                self._kept.pop(next(iter(self._kept)))
            look, shape = self._looks.get(figure.person) or visitor(figure.person)
            still = replace(figure, mouth_open=mouth, raised=raised)
            self._kept[key] = _paint(self._camera, still, look, shape)
        return self._kept[key]


def visitor(name: str) -> tuple[Look, FaceShape]:
    """What somebody looks like who is not of the rig's people; the same for the same name."""
    draw = random.Random(f"look of {name}")
    base = draw.choice(LOOKS)
    (one, other), share = draw.sample(SKINS, 2), draw.random()
    skin = [share * a + (1 - share) * b for a, b in zip(one, other, strict=True)]
    look = replace(
        base,
        skin=shade((skin[0], skin[1], skin[2]), draw.uniform(0.92, 1.05)),
        hair=shade(draw.choice(HAIRS), draw.uniform(0.7, 1.3)),
        long_hair=draw.random() < 0.4, beard=draw.random() < 0.2, glasses=draw.random() < 0.3,
    )  # fmt: skip
    return look, stranger(name)


def pose(figure: Figure) -> Place:
    """Places (3,) of the joints in the room with the arm raised as far as `figure.raised` says (0 to 1).

    "finger" is there while somebody points; "arm" then holds +1 for the person's right arm, -1 for the left.
    """
    resting = joints(replace(figure, pointing_at_m=None))
    if figure.pointing_at_m is None or figure.raised <= 0:
        return resting
    full = joints(figure)
    side = "right" if full["finger_of"][0] > 0 else "left"
    shoulder = full[f"{side}_shoulder"]
    place = {name: at for name, at in full.items() if name != "finger_of"}
    place["arm"] = full["finger_of"]
    if figure.raised < 1:
        elbow, hand = resting[f"{side}_elbow"], resting[f"{side}_hand"]
        ray = _unit(full["finger"] - shoulder)
        upper = _unit((1 - figure.raised) * _unit(elbow - shoulder) + figure.raised * ray)
        lower = _unit((1 - figure.raised) * _unit(hand - elbow) + figure.raised * ray)
        place[f"{side}_elbow"] = shoulder + upper * ARM_M / 2
        place[f"{side}_hand"] = place[f"{side}_elbow"] + lower * ARM_M / 2
        place[f"{side}_wrist"] = place[f"{side}_elbow"] + lower * ARM_M / 2 * 0.86
        place["finger"] = place[f"{side}_hand"] + lower * FINGER_M
    return place


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9))


class _Layer(Canvas):
    """A transparent picture (height, width, 4), colours times alpha."""

    def shape(self, corners_px: NDArray[np.float64], colour: Any, edge: Any = None, width: int = 1) -> None:
        super().shape(corners_px, (*colour, 255.0), edge and (*edge, 255.0), width)

    def disc(self, centre: Any, radius: float, colour: Any) -> None:
        super().disc(centre, radius, (*colour, 255.0))  # type: ignore[arg-type]

    def oval(self, centre: Any, half: tuple[float, float], colour: Any, angle: float = 0.0) -> None:
        super().oval(centre, half, (*colour, 255.0), angle)  # type: ignore[arg-type]


def _paint(camera: Pinhole, figure: Figure, look: Look, shape: FaceShape) -> Sprite | None:
    place = pose(figure)
    names = [name for name in place if name != "arm"]
    pixels, depths = camera.pixels(np.array([place[name] for name in names]))
    if depths.min() < NEAR_M:
        return None
    reach = np.array([camera.size_px(REACH_M, float(depth)) for depth in depths])[:, None]
    size = np.array([camera.width, camera.height])
    low = np.clip(np.floor((pixels - reach).min(axis=0)), 0, size).astype(int) // SUPER * SUPER
    high = -(-np.clip(np.ceil((pixels + reach).max(axis=0)), 0, size).astype(int) // SUPER) * SUPER
    wide, tall = (int(v) for v in high - low)
    if wide < SUPER or tall < SUPER:
        return None
    window = camera.window(int(low[0]), int(low[1]), wide, tall)
    layer = _Layer(np.zeros((tall, wide, 4), np.uint8), window, SUPER)
    _Painting(layer, figure, place, look, shape).paint()
    small = cv2.resize(layer.image, (wide // SUPER, tall // SUPER), interpolation=cv2.INTER_AREA)
    clear = np.repeat(255 - small[:, :, 3:], 3, axis=2)
    colours = np.ascontiguousarray(small[:, :, :3])
    return Sprite(int(low[0]) // SUPER, int(low[1]) // SUPER, colours, clear)


class _Painting:
    """One person on a layer."""

    def __init__(self, layer: _Layer, figure: Figure, place: Place, look: Look, shape: FaceShape) -> None:
        self._layer, self._figure, self._place, self._look, self._shape = layer, figure, place, look, shape
        camera = layer.camera
        self._camera = camera
        names = [name for name in place if name != "arm"]
        pixels, depths = camera.pixels(np.array([place[name] for name in names]))
        self._px = dict(zip(names, pixels, strict=True))
        self._m = {n: camera.size_px(1.0, float(d)) for n, d in zip(names, depths, strict=True)}
        self._depth = {name: float(depth) for name, depth in zip(names, depths, strict=True)}
        self._forward = np.array([*figure.facing, 0.0])
        self._right = np.array([self._forward[1], -self._forward[0], 0.0])
        self._towards = _unit(camera.position - place["head"])
        self._seen = float(self._towards @ self._forward)  # 1: face on, -1: the back of the head

    def paint(self) -> None:
        """All parts, the farther ones first; nothing sharp but the face."""
        look = self._look
        for side in ("left", "right"):
            foot, m = self._px[f"{side}_foot"], self._m[f"{side}_foot"]
            self._limb(
                [f"{side}_{joint}" for joint in ("hip", "knee", "foot")], [0.095, 0.068, 0.05], look.trousers
            )
            self._layer.oval(foot + np.array([0, 0.03 * m]), (0.068 * m, 0.045 * m), (38, 36, 40))
        behind = [s for s in ("left", "right") if self._depth[f"{s}_hand"] > self._depth["chest"] + 0.05]
        for side in behind:
            self._arm(side)
        if look.long_hair and self._seen > -0.2:
            self._hair_down()
        self._trunk()
        self._soften(self._layer.image)
        self._head()  # sharp: it has details of its own
        body = self._layer.image
        self._layer.image = np.zeros_like(body)
        for side in ("left", "right"):
            if side not in behind:
                self._arm(side)
        self._soften(self._layer.image)
        over = self._layer.image
        clear = np.repeat(255 - over[:, :, 3:], 4, axis=2)
        self._layer.image = body
        cv2.add(cv2.multiply(body, clear, scale=1 / 255), over, dst=body)

    def _soften(self, image: NDArray[np.uint8]) -> None:
        soft = max(3, round(0.012 * self._m["chest"])) | 1
        cv2.GaussianBlur(image, (soft, soft), 0, dst=image)

    def _limb(self, names: Sequence[str], radii: Sequence[float], colour: Colour) -> None:
        """Bars from joint to joint, lighter towards the middle and the upper left, where the light is."""
        for part, tone, shift in ((1.0, 0.62, 0.0), (0.86, 0.84, 0.08), (0.62, 1.0, 0.2), (0.3, 1.1, 0.3)):
            for k in range(len(names) - 1):
                (a, b), (ra, rb) = names[k : k + 2], radii[k : k + 2]
                ra, rb = ra * self._m[a], rb * self._m[b]
                one = self._px[a] - np.array([0.7, 0.5]) * shift * ra
                other = self._px[b] - np.array([0.7, 0.5]) * shift * rb
                self._layer.limb(one, other, ra * part, rb * part, shade(colour, tone))

    def _arm(self, side: str) -> None:
        look = self._look
        hand, wrist = f"{side}_hand", f"{side}_wrist"
        pointing = "finger" in self._place and (self._place["arm"][0] > 0) == (side == "right")
        self._limb([f"{side}_elbow", wrist, hand], [0.04, 0.028, 0.036], look.skin)
        self._limb([f"{side}_shoulder", f"{side}_elbow"], [0.066, 0.052], look.shirt)
        half = (self._place[f"{side}_elbow"] + self._place[wrist]) / 2  # the sleeve ends at mid-forearm
        self._px["sleeve"] = self._camera.pixels(half)[0][0]
        self._m["sleeve"] = self._m[wrist]
        self._limb([f"{side}_elbow", "sleeve"], [0.052, 0.045], look.shirt)
        if pointing:
            self._limb([hand, "finger"], [0.024, 0.011], look.skin)
        else:
            fingers = 2 * self._place[hand] - self._place[wrist]
            self._px["fingers"], self._m["fingers"] = self._camera.pixels(fingers)[0][0], self._m[hand]
            self._limb([hand, "fingers"], [0.034, 0.024], look.skin)

    def _trunk(self) -> None:
        m, look = self._m["chest"], self._look
        left, right = sorted((self._px["left_shoulder"], self._px["right_shoulder"]), key=lambda p: p[0])
        middle = (left + right) / 2
        half = max(float(right[0] - left[0]), 0.2 * m) / 2
        waist = self._px["waist"]
        for part, tone, shift in ((1.0, 0.66, 0.0), (0.9, 0.86, 0.04), (0.68, 0.98, 0.12), (0.4, 1.06, 0.2)):
            h = half * part
            x, w = middle[0] - shift * half, waist[0] - shift * half
            top, low = middle[1] - 0.06 * m, waist[1] + 0.14 * m
            outline = [
                (x - h * 0.42, top), (x + h * 0.42, top), (x + h * 0.95, top + 0.045 * m),
                (x + h * 1.15, middle[1] + 0.05 * m), (x + h * 1.08, middle[1] + 0.16 * m),
                (w + h * 0.82, waist[1] - 0.02 * m), (w + h * 0.9, low),
                (w - h * 0.9, low), (w - h * 0.82, waist[1] - 0.02 * m),
                (x - h * 1.08, middle[1] + 0.16 * m), (x - h * 1.15, middle[1] + 0.05 * m),
                (x - h * 0.95, top + 0.045 * m),
            ]  # fmt: skip
            self._layer.shape(np.array(outline), shade(look.shirt, tone))
        self._layer.limb(self._px["neck"], self._px["head"], 0.056 * m, 0.05 * m, shade(look.skin, 0.72))
        if self._seen > 0:
            collar = middle + np.array([[-0.4 * half, -0.06 * m], [0.4 * half, -0.06 * m], [0.0, 0.05 * m]])
            self._layer.shape(collar, shade(look.skin, 0.84))

    def _hair_down(self) -> None:
        m, head = self._m["head"], self._px["head"]
        self._layer.oval(head + np.array([0, 0.06 * m]), (0.112 * m, 0.17 * m), shade(self._look.hair, 0.8))

    def _head(self) -> None:
        """The head's surface, the far points first; then the glasses on it."""
        mouth_up = round(float(self._place["mouth"][2] - self._place["head"][2]), 3)
        # Points lie closer than the pixels.
        around = 1.1 * 2 * math.pi * HEAD_M[2] * self._m["head"]
        columns = next((c for c in (160, 320) if c >= around), 512)
        surface = surface_of(self._look, self._shape, mouth_up, self._figure.mouth_open, columns)
        normals, colours = lit(surface, self._forward, self._right, self._towards)
        points = self._place["head"] + surface.points @ np.stack(
            [self._forward, self._right, [0.0, 0.0, 1.0]]
        )
        to_camera = self._camera.position - points
        seen = (normals * to_camera).sum(axis=1) > 0
        pixels, depths = self._camera.pixels(points[seen])
        at = np.round(pixels).astype(int)
        height, width = self._layer.image.shape[:2]
        inside = (at >= 0).all(axis=1) & (at < (width, height)).all(axis=1)
        order = np.argsort(-depths[inside], kind="stable")
        x, y = at[inside][order].T
        self._layer.image[y, x, :3] = np.round(colours[seen][inside][order])
        self._layer.image[y, x, 3] = 255
        if self._look.glasses:
            self._glasses()

    def _glasses(self) -> None:
        if self._seen < -0.2:
            return
        apart = self._shape.eyes_apart
        angle = np.arange(24) * (math.pi / 12)
        for side in (-1, 1):
            if float(self._right @ self._towards) * side > -0.75:
                across, up = (
                    side * apart + 0.0225 * np.cos(angle),
                    self._shape.eyes_up - 0.002 + 0.0175 * np.sin(angle),
                )
                self._wire(across, up, closed=True)
        bridge = np.linspace(-apart + 0.0225, apart - 0.0225, 5)
        self._wire(bridge, self._shape.eyes_up + 0.004 + 0 * bridge, closed=False)

    def _wire(self, across: NDArray[np.float64], up: NDArray[np.float64], *, closed: bool) -> None:
        """A line in front of the eyes."""
        ahead = HEAD_M[0] * np.sqrt(np.clip(1 - (across / HEAD_M[1]) ** 2, 0, 1)) + 0.012
        points = self._place["head"] + ahead[:, None] * self._forward + across[:, None] * self._right
        points = points + up[:, None] * np.array([0.0, 0.0, 1.0])
        fixed = np.round(self._camera.pixels(points)[0] * 16).astype(np.int32)
        width = max(1, round(0.0028 * self._m["head"]))
        cv2.polylines(self._layer.image, [fixed], closed, (30, 28, 28, 255), width, cv2.LINE_AA, 4)
