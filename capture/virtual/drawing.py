"""A pinhole camera in the virtual room and flat shapes drawn through it with OpenCV."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from capture.rig import Rig
from recordings.camera_model import CameraModel
from recordings.geometry import camera_pose, invert_pose, microphone_pose, transform

NEAR_M = 0.08
SHIFT = 4  # sub-pixel bits of OpenCV's drawing functions
Colour = tuple[float, float, float]  # BGR, 0 to 255


def shade(colour: Colour, factor: float) -> Colour:
    """Darker (factor < 1) or lighter."""
    b, g, r = (min(255.0, max(0.0, c * factor)) for c in colour)
    return (b, g, r)


class Pinhole:
    """Room points to pixels for the camera of a rig; `scale` draws larger, to be reduced afterwards."""

    def __init__(self, rig: Rig, scale: int = 1) -> None:
        camera, microphone = rig.camera, rig.microphone
        pose = microphone_pose(microphone.position_m, microphone.yaw_deg) @ camera_pose(
            camera.position_m, camera.yaw_deg, camera.pitch_deg
        )
        self.position = pose[:3, 3]
        self._into = invert_pose(pose)
        matrix = CameraModel.nominal(camera.width_px, camera.height_px, camera.hfov_deg).matrix
        self._focal = float(matrix[0, 0]) * scale
        self._centre = ((matrix[:2, 2] + 0.5) * scale) - 0.5
        self.width, self.height = camera.width_px * scale, camera.height_px * scale

    def window(self, x: int, y: int, width: int, height: int) -> Pinhole:
        """The same view, for a canvas that holds only this part of the picture."""
        part = copy.copy(self)
        part._centre = self._centre - (x, y)
        part.width, part.height = width, height
        return part

    def pixels(self, points_m: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Pixels (n, 2) and depths (n,) of room points (n, 3); meaningful where the depth is positive."""
        seen = transform(self._into, np.atleast_2d(np.asarray(points_m, float)))
        depth = np.where(np.abs(seen[:, 2]) < 1e-9, 1e-9, seen[:, 2])
        return seen[:, :2] / depth[:, None] * self._focal + self._centre, seen[:, 2]

    def depth(self, point_m: ArrayLike) -> float:
        """Metres along the optical axis."""
        return float(self.pixels(point_m)[1][0])

    def size_px(self, metres: float, depth_m: float) -> float:
        """How many pixels a length across the view takes at a depth."""
        return self._focal * metres / max(depth_m, NEAR_M)

    def clip(self, points_m: ArrayLike) -> NDArray[np.float64]:
        """A polygon of room points cut at the near plane, as pixels (n, 2); empty when it is all behind."""
        seen = transform(self._into, np.asarray(points_m, float))
        if seen[:, 2].min() >= NEAR_M:
            return np.asarray(seen[:, :2] / seen[:, 2:] * self._focal + self._centre)
        kept = []
        for here, after in zip(seen, np.roll(seen, -1, axis=0), strict=True):
            if here[2] >= NEAR_M:
                kept.append(here)
            if (here[2] >= NEAR_M) != (after[2] >= NEAR_M):
                part = (NEAR_M - here[2]) / (after[2] - here[2])
                kept.append(here + part * (after - here))
        if not kept:
            return np.zeros((0, 2))
        inside = np.array(kept)
        return np.asarray(inside[:, :2] / inside[:, 2:] * self._focal + self._centre)


class Canvas:
    """A picture and the camera that it is drawn through."""

    def __init__(self, image: NDArray[np.uint8], camera: Pinhole, scale: int = 1) -> None:
        self.image = image
        self.camera = camera
        self.scale = scale

    def polygon(
        self, points_m: ArrayLike, colour: Colour, edge: Colour | None = None, width: int = 1
    ) -> None:
        """A filled flat shape in the room, with an outline if `edge` is given."""
        corners = self.camera.clip(points_m)
        if len(corners) >= 3:
            self.shape(corners, colour, edge, width)

    def shape(
        self, corners_px: NDArray[np.float64], colour: Colour, edge: Colour | None = None, width: int = 1
    ) -> None:
        """A filled shape in the picture."""
        fixed = np.round(np.clip(corners_px, -20000, 20000) * 2**SHIFT).astype(np.int32)
        cv2.fillPoly(self.image, [fixed], colour, cv2.LINE_AA, SHIFT)
        if edge is not None:
            cv2.polylines(self.image, [fixed], True, edge, width * self.scale, cv2.LINE_AA, SHIFT)

    def outline(self, points_m: ArrayLike, colour: Colour, width: int = 1) -> None:
        """A closed thin line through room points."""
        corners = self.camera.clip(points_m)
        if len(corners) >= 3:
            fixed = np.round(np.clip(corners, -20000, 20000) * 2**SHIFT).astype(np.int32)
            cv2.polylines(self.image, [fixed], True, colour, width * self.scale, cv2.LINE_AA, SHIFT)

    def line(self, points_m: ArrayLike, colour: Colour, thick_m: float) -> None:
        """A line through room points whose thickness is given in metres."""
        pixels, depths = self.camera.pixels(points_m)
        for k in range(len(pixels) - 1):
            if min(depths[k], depths[k + 1]) > NEAR_M:
                ra, rb = (self.camera.size_px(thick_m, float(depth)) / 2 for depth in depths[k : k + 2])
                self.limb(pixels[k], pixels[k + 1], ra, rb, colour)

    def limb(
        self, a: NDArray[np.float64], b: NDArray[np.float64], ra: float, rb: float, colour: Colour
    ) -> None:
        """A round-ended bar between two pixels whose radius changes from ra to rb."""
        way = b - a
        length = float(np.hypot(*way))
        across = np.array([-way[1], way[0]]) / length if length > 1e-6 else np.array([0.0, 1.0])
        if length > 1e-6:
            self.shape(np.array([a + across * ra, b + across * rb, b - across * rb, a - across * ra]), colour)
        self.disc(a, ra, colour)
        self.disc(b, rb, colour)

    def disc(self, centre: Iterable[float], radius: float, colour: Colour) -> None:
        """A filled circle in the picture."""
        x, y = (min(max(float(v), -8000.0), 8000.0) for v in centre)
        if radius > 0.2:
            place = (round(x * 2**SHIFT), round(y * 2**SHIFT))
            cv2.circle(self.image, place, round(radius * 2**SHIFT), colour, -1, cv2.LINE_AA, SHIFT)

    def oval(
        self, centre: Iterable[float], half: tuple[float, float], colour: Colour, angle: float = 0.0
    ) -> None:
        """A filled ellipse in the picture, half axes in pixels."""
        x, y = (min(max(float(v), -8000.0), 8000.0) for v in centre)
        if min(half) > 0.1:
            place = (round(x * 2**SHIFT), round(y * 2**SHIFT))
            axes = (round(half[0] * 2**SHIFT), round(half[1] * 2**SHIFT))
            cv2.ellipse(self.image, place, axes, angle, 0, 360, colour, -1, cv2.LINE_AA, SHIFT)

    def text(self, words: str, place_px: ArrayLike, colour: Colour, height_px: float) -> None:
        """Centred text with a dark outline."""
        size = height_px / 22.0
        width = max(1, round(size * 1.6))
        (w, h), _ = cv2.getTextSize(words, cv2.FONT_HERSHEY_SIMPLEX, size, width)
        x, y = np.asarray(place_px, float)
        place = (round(float(x) - w / 2), round(float(y) + h / 2))
        if -w < place[0] < self.camera.width and -h < place[1] < self.camera.height + h:
            cv2.putText(
                self.image, words, place, cv2.FONT_HERSHEY_SIMPLEX, size, (30, 30, 30), width + 2, cv2.LINE_AA
            )
            cv2.putText(self.image, words, place, cv2.FONT_HERSHEY_SIMPLEX, size, colour, width, cv2.LINE_AA)


class Face:
    """A frame on a device's front: u to the right as one looks at it, v up, n out of it; metres."""

    def __init__(self, centre_m: ArrayLike, normal: ArrayLike) -> None:
        self.centre = np.asarray(centre_m, float)
        n = np.asarray(normal, float)
        self.n = n / np.linalg.norm(n)
        up = np.array([0.0, 0.0, 1.0])
        u = np.cross(up, self.n)
        self.u = u / np.linalg.norm(u)
        self.v = np.cross(self.n, self.u)

    def at(self, u: float, v: float, n: float = 0.0) -> NDArray[np.float64]:
        """A room point from coordinates on the face."""
        return np.asarray(self.centre + u * self.u + v * self.v + n * self.n)

    def points(self, flat: ArrayLike, n: float = 0.0) -> NDArray[np.float64]:
        """Room points (n, 3) from coordinates (n, 2) on the face."""
        uv = np.asarray(flat, float)
        return np.asarray(self.centre + n * self.n + uv[:, :1] * self.u + uv[:, 1:] * self.v)

    def rectangle(
        self, u: float, v: float, half_u: float, half_v: float, n: float = 0.0
    ) -> NDArray[np.float64]:
        """(4, 3) corners."""
        return self.points(_SIGNS * (half_u, half_v) + (u, v), n)

    def circle(
        self, u: float, v: float, radius: float, n: float = 0.0, points: int = 32
    ) -> NDArray[np.float64]:
        """(points, 3) on a circle."""
        return self.points(_ring(points) * radius + (u, v), n)


_SIGNS = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


@lru_cache(maxsize=16)
def _ring(points: int) -> NDArray[np.float64]:
    angle = np.arange(points) * 2 * math.pi / points
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def box(
    canvas: Canvas, face: Face, half: Sequence[float], colour: Colour, edge: Colour | None = None
) -> None:
    """A box with its front on `face`; `half` is half width, half height, depth. Only the sides one sees."""
    hu, hv, depth = half
    eye = canvas.camera.position - face.centre
    sides = (
        (face.u, (1, -1), (1, 1), 0.72),
        (-face.u, (-1, -1), (-1, 1), 0.72),
        (face.v, (-1, 1), (1, 1), 1.12),
        (-face.v, (-1, -1), (1, -1), 0.5),
    )
    for normal, one, other, light in sides:
        middle = normal * (hu if abs(float(normal @ face.u)) > 0.5 else hv)
        if float((eye - middle) @ normal) > 0:
            a = face.at(one[0] * hu, one[1] * hv), face.at(one[0] * hu, one[1] * hv, -depth)
            b = face.at(other[0] * hu, other[1] * hv), face.at(other[0] * hu, other[1] * hv, -depth)
            canvas.polygon(np.array([a[0], b[0], b[1], a[1]]), shade(colour, light), edge)
    if float(eye @ face.n) > 0:
        canvas.polygon(face.rectangle(0, 0, hu, hv), colour, edge)
