"""The people of a staged scene, drawn with light and shade and a face on a round head.

The joints are those of `capture.virtual.avatar`: the mouth is where the voice comes from, and a raised arm
lies on the straight line from its shoulder to what is pointed at. Each person is painted twice as large on a
transparent layer and reduced, then laid over the picture; a person who stands still is painted once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from capture.rig import Rig
from capture.virtual.avatar import ARM_M, Look, joints
from capture.virtual.drawing import NEAR_M, Canvas, Colour, Pinhole, shade
from capture.virtual.scene import Figure

SUPER = 2  # the layer is that much larger than the picture
HEAD_M = np.array([0.094, 0.074, 0.118])  # half axes of the head: forward, to the side, up
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
    """Paints the people of a rig's room, each pose once. looks: by person; others get one of their own."""

    def __init__(self, rig: Rig) -> None:
        self._camera = Pinhole(rig, SUPER)
        self._looks = {person.id: LOOKS[i % len(LOOKS)] for i, person in enumerate(rig.room.people)}
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
            number = sum(figure.person.encode())
            look = self._looks.get(figure.person, LOOKS[number % len(LOOKS)])
            self._kept[key] = _paint(self._camera, replace(figure, mouth_open=mouth, raised=raised), look)
        return self._kept[key]


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


def _paint(camera: Pinhole, figure: Figure, look: Look) -> Sprite | None:
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
    _Painting(layer, figure, place, look).paint()
    small = cv2.resize(layer.image, (wide // SUPER, tall // SUPER), interpolation=cv2.INTER_AREA)
    clear = np.repeat(255 - small[:, :, 3:], 3, axis=2)
    colours = np.ascontiguousarray(small[:, :, :3])
    return Sprite(int(low[0]) // SUPER, int(low[1]) // SUPER, colours, clear)


class _Painting:
    """One person on a layer."""

    def __init__(self, layer: _Layer, figure: Figure, place: Place, look: Look) -> None:
        self._layer, self._figure, self._place, self._look = layer, figure, place, look
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
        self._head()
        for side in ("left", "right"):
            if side not in behind:
                self._arm(side)
        soft = max(3, round(0.012 * self._m["chest"])) | 1
        cv2.GaussianBlur(self._layer.image, (soft, soft), 0, dst=self._layer.image)

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

    # ------------------------------------------------------------------ the head

    def _surface(self, side: ArrayLike, up: ArrayLike, out_m: float = 0.0) -> NDArray[np.float64]:
        """Room points on the face from metres to the person's right and up; out_m: in front of the skin."""
        l, u = np.broadcast_arrays(np.asarray(side, float), np.asarray(up, float))  # noqa: E741
        rest = np.clip(1 - (l / HEAD_M[1]) ** 2 - (u / HEAD_M[2]) ** 2, 0.0, 1.0)
        ahead = HEAD_M[0] * np.sqrt(rest) + out_m
        offset = ahead[..., None] * self._forward + l[..., None] * self._right
        return np.asarray(self._place["head"] + offset + u[..., None] * np.array([0.0, 0.0, 1.0]))

    def _patch(
        self, side: float, up: float, half: tuple[float, float], colour: Colour, out: float = 0.0
    ) -> None:
        """An oval on the skin, foreshortened as the head is turned; nothing where it is turned away."""
        normal = self._forward * math.sqrt(max(0.0, 1 - (side / HEAD_M[1]) ** 2)) / HEAD_M[0]
        normal = normal + self._right * side / HEAD_M[1] ** 2
        if float(_unit(normal) @ self._towards) < 0.12:
            return
        angle = np.arange(16) * (math.pi / 8)
        ring = self._surface(side + half[0] * np.cos(angle), up + half[1] * np.sin(angle), out)
        self._layer.shape(self._camera.pixels(ring)[0], colour)

    def _skin(self, lowest: float, highest: float, tone: float, inset: float = 1.0) -> None:
        """The part of the head between two heights (m) that is face and is seen from here."""
        azimuth, up = np.meshgrid(np.radians(np.linspace(-100, 100, 25)), np.linspace(lowest, highest, 9))
        # The hair comes down over the temples.
        up = np.minimum(up, 0.062 - 0.035 * np.abs(np.sin(azimuth)))
        round_ = np.sqrt(np.clip(1 - (up / HEAD_M[2]) ** 2, 0, 1)) * inset
        ahead, side = HEAD_M[0] * np.cos(azimuth) * round_, HEAD_M[1] * np.sin(azimuth) * round_
        normal = (
            (ahead / HEAD_M[0] ** 2)[..., None] * self._forward
            + (side / HEAD_M[1] ** 2)[..., None] * self._right
            + (up / HEAD_M[2] ** 2)[..., None] * np.array([0.0, 0.0, 1.0])
        )
        points = self._place["head"] + ahead[..., None] * self._forward + side[..., None] * self._right
        points = points + up[..., None] * np.array([0.0, 0.0, 1.0])
        seen = (normal @ self._towards > 0) & (np.abs(up) <= HEAD_M[2])
        if seen.sum() < 3:
            return
        pixels = self._camera.pixels(points[seen])[0]
        hull = cv2.convexHull(pixels.astype(np.float32))[:, 0].astype(float)
        self._layer.shape(hull, shade(self._look.skin, tone))

    def _head(self) -> None:
        look, m, head = self._look, self._m["head"], self._px["head"]
        turned = math.sqrt(max(0.0, 1 - self._seen**2))
        wide = math.hypot(HEAD_M[1] * self._seen, HEAD_M[0] * turned)
        for part, tone in ((1.0, 0.7), (0.8, 1.0), (0.45, 1.25)):  # hair all round, then the face on it
            centre = head - np.array([0.02 * m, 0.026 * m]) * (1 - part) - np.array([0.0, 0.012 * m])
            self._layer.oval(
                centre, (part * (wide + 0.008) * m, part * (HEAD_M[2] + 0.006) * m), shade(look.hair, tone)
            )
        for side in (-1, 1):  # ears
            ear = self._place["head"] + side * HEAD_M[1] * self._right * 1.02
            if self._depth["head"] - self._camera.depth(ear) > -0.045:
                self._layer.oval(
                    self._camera.pixels(ear)[0][0], (0.012 * m, 0.024 * m), shade(look.skin, 0.78)
                )
        if self._seen < -0.35:
            return  # the back of the head
        self._skin(-0.117, 0.062, 0.78)
        self._skin(-0.108, 0.058, 0.94, 0.93)
        self._skin(-0.085, 0.056, 1.0, 0.78)
        if look.beard:
            self._beard()
        self._patch(0.0, 0.042, (0.034, 0.012), shade(look.skin, 1.08))  # forehead
        for side in (-1, 1):
            self._eye(side)
        self._nose()
        self._mouth()

    def _beard(self) -> None:
        tone = shade(self._look.hair, 1.15)
        for side, up, half in ((0.0, -0.092, (0.036, 0.022)), (0.0, -0.047, (0.032, 0.008))):
            self._patch(side, up, half, tone)
        for side in (-1, 1):
            self._patch(side * 0.046, -0.07, (0.014, 0.03), tone)

    def _eye(self, side: int) -> None:
        skin, hair = self._look.skin, self._look.hair
        at = side * 0.031
        self._patch(side * 0.036, -0.026, (0.02, 0.018), shade(skin, 1.08))  # cheek
        self._patch(at, 0.02, (0.021, 0.015), shade(skin, 0.74))
        self._patch(at, 0.016, (0.0145, 0.0075), (236, 238, 240))
        self._patch(at, 0.016, (0.0075, 0.0075), (52, 42, 36))
        self._patch(at, 0.0225, (0.0165, 0.003), (46, 42, 44))
        self._patch(at, 0.039, (0.02, 0.0048), shade(hair, 0.7))
        if self._look.glasses:
            angle = np.arange(20) * (math.pi / 10)
            ring = self._surface(at + 0.023 * np.cos(angle), 0.015 + 0.017 * np.sin(angle), 0.012)
            if float(self._right @ self._towards) * side > -0.75:
                self._ring(self._camera.pixels(ring)[0])

    def _ring(self, corners: NDArray[np.float64]) -> None:
        fixed = np.round(corners * 16).astype(np.int32)
        width = max(1, round(0.0028 * self._m["head"]))
        cv2.polylines(self._layer.image, [fixed], True, (30, 28, 28, 255), width, cv2.LINE_AA, 4)

    def _nose(self) -> None:
        skin = self._look.skin
        bridge, base = self._surface([0.0], [0.022]), self._surface([-0.016, 0.016], [-0.027, -0.027])
        tip = self._surface([0.0], [-0.02], 0.02)
        self._layer.shape(
            self._camera.pixels(np.concatenate([bridge, base[:1], tip, base[1:]]))[0], shade(skin, 0.92)
        )
        self._patch(0.0, 0.0, (0.006, 0.022), shade(skin, 1.12), 0.008)
        self._patch(0.0, -0.03, (0.015, 0.0055), shade(skin, 0.62))

    def _mouth(self) -> None:
        opened = self._figure.mouth_open
        wide = 0.027 - 0.006 * opened
        tall = 0.0065 + 0.0105 * opened
        up = float(self._place["mouth"][2] - self._place["head"][2])
        lips: Colour = shade((96, 92, 178), 0.55 + 0.45 * self._look.skin[2] / 240)
        self._patch(0.0, up - 0.022, (0.018, 0.006), shade(self._look.skin, 0.84))
        self._patch(0.0, up, (wide, tall), lips)
        self._patch(0.0, up, (wide * 0.8, 0.0016 + 0.0095 * opened), (36, 26, 52))
