"""The person in the virtual camera's picture: a jointed figure in room coordinates, drawn part by part.

The mouth is where the voice comes from; a pointing arm lies exactly on the straight line from its shoulder to
what it points at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.virtual.drawing import NEAR_M, Canvas, Colour, Pinhole, shade
from capture.virtual.scene import Figure

ARM_M = 0.62  # shoulder to the tip of a pointing finger is 0.16 more


@dataclass(frozen=True, slots=True)
class Look:
    """What somebody looks like. Colours are BGR."""

    skin: Colour
    hair: Colour
    shirt: Colour
    trousers: Colour
    long_hair: bool = False
    beard: bool = False
    glasses: bool = False


LOOKS = (
    Look((150, 180, 226), (38, 52, 74), (150, 100, 52), (84, 66, 54), False),
    Look((116, 150, 196), (24, 28, 36), (84, 92, 188), (112, 98, 88), True),
    Look((172, 200, 238), (92, 146, 186), (96, 140, 84), (60, 60, 64), True),
)


def joints(figure: Figure) -> dict[str, NDArray[np.float64]]:
    """Places (3,) of the figure's joints in the room; "left" and "right" are the person's own."""
    forward = np.array([*figure.facing, 0.0])
    right = np.array([forward[1], -forward[0], 0.0])
    up = np.array([0.0, 0.0, 1.0])
    mouth = np.asarray(figure.mouth_m, float)
    scale = mouth[2] / 1.52
    axis = mouth - 0.085 * forward
    axis = axis - mouth[2] * up  # on the floor

    def body(side: float, height: float, ahead: float = 0.0) -> NDArray[np.float64]:
        return np.asarray(axis + right * side * scale + up * height * scale + forward * ahead * scale)

    swing = 0.16 * math.sin(figure.walked_m * 2 * math.pi / 1.3)
    lift = 0.05 * abs(math.cos(figure.walked_m * 2 * math.pi / 1.3)) if figure.walked_m else 0.0
    places = {
        "mouth": mouth,
        "head": mouth - 0.075 * forward + 0.07 * scale * up,
        "neck": body(0, 1.42),
        "chest": body(0, 1.26),
        "waist": body(0, 1.0),
        "left_shoulder": body(-0.19, 1.36),
        "right_shoulder": body(0.19, 1.36),
        "left_elbow": body(-0.26, 1.1, -0.3 * swing),
        "right_elbow": body(0.26, 1.1, 0.3 * swing),
        "left_hand": body(-0.25, 0.86, 0.08 - 0.8 * swing),
        "right_hand": body(0.25, 0.86, 0.08 + 0.8 * swing),
        "left_hip": body(-0.09, 0.93),
        "right_hip": body(0.09, 0.93),
        "left_knee": body(-0.1, 0.5, 0.05 + 0.6 * swing),
        "right_knee": body(0.1, 0.5, 0.05 - 0.6 * swing),
        "left_foot": body(-0.11, 0.06 + (lift if swing > 0 else 0), swing),
        "right_foot": body(0.11, 0.06 + (lift if swing < 0 else 0), -swing),
    }
    if figure.pointing_at_m is not None:
        target = np.asarray(figure.pointing_at_m, float)
        side = "right" if float((target - axis) @ right) >= 0 else "left"
        shoulder = places[f"{side}_shoulder"]
        ray = (target - shoulder) / np.linalg.norm(target - shoulder)
        places[f"{side}_elbow"] = shoulder + ray * ARM_M / 2
        places[f"{side}_hand"] = shoulder + ray * ARM_M
        places["finger"] = shoulder + ray * (ARM_M + 0.16)
        places["finger_of"] = np.array([1.0 if side == "right" else -1.0, 0.0, 0.0])
    for side in ("left", "right"):  # where the sleeve ends
        elbow, hand = places[f"{side}_elbow"], places[f"{side}_hand"]
        places[f"{side}_wrist"] = elbow + 0.86 * (hand - elbow)
    return places


def draw_figure(canvas: Canvas, figure: Figure, look: Look) -> None:
    """The whole person; nothing when any part of the trunk is behind the camera."""
    place = joints(figure)
    camera = canvas.camera
    pixel: dict[str, NDArray[np.float64]] = {}
    metre: dict[str, float] = {}
    names = [name for name in place if name != "finger_of"]
    projected, depths = camera.pixels(np.array([place[name] for name in names]))
    if depths.min() < NEAR_M:
        return
    for name, xy, depth in zip(names, projected, depths, strict=True):
        pixel[name], metre[name] = xy, camera.size_px(1.0, float(depth))

    def chain(names: list[str], radii: list[float], colour: Colour) -> None:
        """Bars from joint to joint with one outline around all of them."""
        for border, tone in ((True, shade(colour, 0.62)), (False, colour)):
            for k in range(len(names) - 1):
                (a, b), (ra, rb) = names[k : k + 2], radii[k : k + 2]
                edge = max(0.8, 0.006 * metre[a]) if border else 0.0
                canvas.limb(pixel[a], pixel[b], ra * metre[a] + edge, rb * metre[b] + edge, tone)

    _shadow(canvas, place)
    for side in ("left", "right"):
        shoes = pixel[f"{side}_foot"]
        names = [f"{side}_{joint}" for joint in ("hip", "knee", "foot")]
        chain(names, [0.088, 0.066, 0.05], look.trousers)
        size = metre[f"{side}_foot"]
        canvas.oval(shoes + np.array([0, 0.03 * size]), (0.066 * size, 0.045 * size), (40, 38, 40))
    if look.long_hair:
        _hair_behind(canvas, pixel, metre, look)
    behind = [s for s in ("left", "right") if _behind(camera, place, s)]
    for side in behind:
        _arm(chain, side, look, "finger" in place and _finger_side(place) == side)
    _trunk(canvas, pixel, metre, look)
    for side in ("left", "right"):
        if side not in behind:
            _arm(chain, side, look, "finger" in place and _finger_side(place) == side)
    _head(canvas, figure, place, pixel, metre, look)


def _finger_side(place: dict[str, NDArray[np.float64]]) -> str:
    return "right" if place["finger_of"][0] > 0 else "left"


def _behind(camera: Pinhole, place: dict[str, NDArray[np.float64]], side: str) -> bool:
    return camera.depth(place[f"{side}_hand"]) > camera.depth(place["chest"]) + 0.05


def _shadow(canvas: Canvas, place: dict[str, NDArray[np.float64]]) -> None:
    x, y = (place["left_foot"][:2] + place["right_foot"][:2]) / 2
    ring = [[x + 0.3 * math.cos(a), y + 0.2 * math.sin(a), 0.0] for a in np.linspace(0, 2 * np.pi, 24)[:-1]]
    corners = canvas.camera.clip(np.array(ring))
    if len(corners) < 3:
        return
    low, high = np.floor(corners.min(axis=0)).astype(int), np.ceil(corners.max(axis=0)).astype(int)
    height, width = canvas.image.shape[:2]
    x0, y0, x1, y1 = max(0, low[0]), max(0, low[1]), min(width, high[0]), min(height, high[1])
    if x1 <= x0 or y1 <= y0:
        return
    part = canvas.image[y0:y1, x0:x1]
    before = part.copy()
    canvas.shape(corners, (52, 66, 84))
    part[:] = (part.astype(np.uint16) * 5 // 10 + before.astype(np.uint16) * 5 // 10).astype(np.uint8)


def _arm(
    chain: Callable[[list[str], list[float], Colour], None], side: str, look: Look, pointing: bool
) -> None:
    hand = f"{side}_hand"
    if pointing:
        chain([hand, "finger"], [0.03, 0.011], look.skin)
    chain([f"{side}_wrist", hand], [0.03, 0.042], look.skin)
    chain([f"{side}_shoulder", f"{side}_elbow", f"{side}_wrist"], [0.058, 0.047, 0.038], look.shirt)


def _trunk(
    canvas: Canvas, pixel: dict[str, NDArray[np.float64]], metre: dict[str, float], look: Look
) -> None:
    m = metre["chest"]
    left, right = pixel["left_shoulder"], pixel["right_shoulder"]
    if left[0] > right[0]:
        left, right = right, left
    wide = max(float(right[0] - left[0]), 0.2 * m)
    middle = (left + right) / 2
    waist = pixel["waist"]
    half = wide / 2
    outline = [
        (middle[0] - half * 0.45, middle[1] - 0.055 * m), (middle[0] + half * 0.45, middle[1] - 0.055 * m),
        (middle[0] + half * 1.08, middle[1] - 0.01 * m), (middle[0] + half * 1.12, middle[1] + 0.09 * m),
        (waist[0] + half * 0.82, waist[1] - 0.02 * m), (waist[0] + half * 0.86, waist[1] + 0.14 * m),
        (waist[0] - half * 0.86, waist[1] + 0.14 * m), (waist[0] - half * 0.82, waist[1] - 0.02 * m),
        (middle[0] - half * 1.12, middle[1] + 0.09 * m), (middle[0] - half * 1.08, middle[1] - 0.01 * m),
    ]  # fmt: skip
    canvas.shape(np.array(outline), look.shirt, shade(look.shirt, 0.62))
    canvas.limb(pixel["neck"], pixel["head"], 0.05 * m, 0.05 * m, shade(look.skin, 0.82))
    collar = middle + np.array([[-0.42 * half, -0.05 * m], [0.42 * half, -0.05 * m], [0.0, 0.06 * m]])
    canvas.shape(collar, shade(look.skin, 0.9), shade(look.shirt, 0.62))


def _hair_behind(
    canvas: Canvas, pixel: dict[str, NDArray[np.float64]], metre: dict[str, float], look: Look
) -> None:
    m = metre["head"]
    canvas.oval(pixel["head"] + (0, 0.06 * m), (0.105 * m, 0.16 * m), look.hair)


def _head(
    canvas: Canvas,
    figure: Figure,
    place: dict[str, NDArray[np.float64]],
    pixel: dict[str, NDArray[np.float64]],
    metre: dict[str, float],
    look: Look,
) -> None:
    m, head = metre["head"], pixel["head"]
    canvas.oval(head, (0.086 * m, 0.116 * m), shade(look.skin, 0.62))
    canvas.oval(head, (0.08 * m, 0.11 * m), look.skin)
    # A cap of hair: an upper half of the head's outline, a little larger.
    angle = np.linspace(math.pi * 1.02, math.pi * 1.98, 18)
    cap = np.stack([head[0] + 0.09 * m * np.cos(angle), head[1] + 0.124 * m * np.sin(angle)], axis=1)
    brow = head + np.array([[0.066, -0.05], [0.0, -0.07], [-0.066, -0.05]]) * m
    canvas.shape(np.concatenate([cap, brow]), look.hair)
    forward = np.array([*figure.facing, 0.0])
    right = np.array([forward[1], -forward[0], 0.0])
    eye_height = place["head"] + np.array([0, 0, 0.018])
    seen = canvas.camera.position - place["head"]
    if float(seen @ forward) <= 0:
        return  # the back of the head
    for side in (-0.032, 0.032):
        eye, _ = canvas.camera.pixels(eye_height + 0.072 * forward + side * right)
        canvas.oval(eye[0], (0.014 * m, 0.011 * m), (246, 246, 246))
        canvas.oval(eye[0], (0.0085 * m, 0.0095 * m), (52, 40, 34))
        canvas.oval(eye[0] - (0, 0.02 * m), (0.017 * m, 0.004 * m), look.hair)
    nose, _ = canvas.camera.pixels(place["head"] + 0.09 * forward - np.array([0, 0, 0.02]))
    canvas.oval(nose[0], (0.011 * m, 0.016 * m), shade(look.skin, 0.86))
    mouth = pixel["mouth"]
    opened = 0.004 + 0.026 * figure.mouth_open
    wide = 0.028 - 0.008 * figure.mouth_open
    canvas.oval(mouth, (wide * m, (opened + 0.004) * m), (91, 87, 180))
    canvas.oval(mouth, ((wide - 0.006) * m, opened * m * 0.85), (38, 24, 60))
