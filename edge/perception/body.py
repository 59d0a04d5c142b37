"""Body landmarks of the people in a picture: detector, then 33 points of each person.

Bazarevsky et al., BlazePose (arXiv 2006.10204): the person is cut out upright by what the detector says, and
a second network places the points in that square; a map of heat refines them. The points in metres are those
of Grishchenko et al., BlazePose GHUM Holistic (arXiv 2206.11678). `python -m bench.recordings_hands` holds
them against the joints of the virtual people.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.perception.body_detector import BodyDetector, Region
from edge.perception.landmark_models import POSE_LANDMARK, Network, model_path

Floats = NDArray[np.float64]

LANDMARKS = (
    "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer",
    "left_ear", "right_ear", "mouth_left", "mouth_right", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_pinky", "right_pinky", "left_index", "right_index",
    "left_thumb", "right_thumb", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
    "right_ankle", "left_heel", "right_heel", "left_foot_index", "right_foot_index",
)  # fmt: skip
NUMBER = {name: number for number, name in enumerate(LANDMARKS)}
_SIDE = 256  # pixels of the network's picture
_POINTS = 39  # the 33, two that give the next region of a film (hips and rim), and four without a meaning
_REACH = 3  # cells of the map of heat around a point that refine it
_SURE = 0.5  # of the hottest of them
_SAME_HEAD = 0.05  # of the region's size, about half a head


@dataclass(frozen=True, slots=True)
class Body:
    """One person; arrays have a row per name in `LANDMARKS`. "left" and "right" are the person's own.

    pixels: (33, 2) in the picture, x to the right, y down, pixel centres at whole numbers (OpenCV); what the
    network guesses outside of the picture is given as it is.
    depth_px: (33,) towards the scene, in the scale of `pixels`; 0 at the hips, less is nearer to the camera.
    metres: (33, 3) x to the right of the picture, y down, z away from the camera; origin between the hips.
    The network's own guess from one picture, for a person of ordinary size.
    visibility: (33,) 0 to 1, in the picture and not hidden. presence: (33,) 0 to 1, in the picture.
    score: 0 to 1, that this is a person. next_region: the square for the next picture of a film.
    """

    pixels: Floats
    depth_px: Floats
    metres: Floats
    visibility: Floats
    presence: Floats
    score: float
    region: Region
    next_region: Region

    def pixel(self, name: str) -> Floats:
        """(2,) of one landmark."""
        return np.asarray(self.pixels[NUMBER[name]])

    def seen(self, name: str, width_px: int, height_px: int, *, least: float = 0.5) -> bool:
        """Whether a landmark lies within a picture of that size and is at least so visible."""
        x, y = self.pixel(name)
        inside = -0.5 <= x <= width_px - 0.5 and -0.5 <= y <= height_px - 0.5
        return bool(inside and self.visibility[NUMBER[name]] >= least)


class BodyFinder:
    """People with their landmarks. Used by one thread."""

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, threshold: float = 0.5, threads: int = 1
    ) -> None:
        """folder: of the networks; without one as `landmark_models.model_path` says.

        threshold: of the scores of both networks. Raises MissingDependency or InputError as that does.
        """
        self._detector = BodyDetector(folder, threshold=threshold, threads=threads)
        self._net = Network(model_path(POSE_LANDMARK, folder), threads)
        self._threshold = threshold

    def __call__(self, image: NDArray[np.uint8]) -> list[Body]:
        """image: (height, width, 3) BGR. The people, what the detector is surest of first.

        Each is looked at twice, the second time in the region that the landmarks give, as in a film.
        """
        bodies: list[Body] = []
        for found in self._detector(image):
            first = self.within(image, found.region)
            body = first and (self.within(image, first.next_region) or first)
            if body is not None and not any(_same_head(body, other) for other in bodies):
                bodies.append(body)
        return bodies

    def within(self, image: NDArray[np.uint8], region: Region) -> Body | None:
        """The person in a region of the picture; None when the network says that there is none."""
        into = region.to_picture(_SIDE)
        cut = cv2.warpAffine(image, into, (_SIDE, _SIDE), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        outputs = {output.size: output for output in self._net(cut[:, :, ::-1] * np.float32(1 / 255))}
        score = float(outputs[1].reshape(-1)[0])
        if not score >= self._threshold:
            return None
        points = outputs[_POINTS * 5].reshape(_POINTS, 5).astype(float)
        metres = outputs[_POINTS * 3].reshape(_POINTS, 3)[: len(LANDMARKS)].astype(float)
        heat = outputs[64 * 64 * _POINTS].reshape(64, 64, _POINTS)
        square = refined(points[:, :2] / _SIDE, _sigmoid(heat)) * _SIDE - 0.5
        pixels = square @ into[:, :2].T + into[:, 2]
        turned = into[:, :2] / (region.size / _SIDE)
        metres[:, :2] = metres[:, :2] @ turned.T
        points = points[: len(LANDMARKS)]
        return Body(
            pixels=pixels[: len(LANDMARKS)],
            depth_px=points[:, 2] * region.size / _SIDE,
            metres=metres,
            visibility=_sigmoid(points[:, 3]),
            presence=_sigmoid(points[:, 4]),
            score=score,
            region=region,
            next_region=Region.around(pixels[len(LANDMARKS)], pixels[len(LANDMARKS) + 1]),
        )


def _same_head(one: Body, other: Body) -> bool:
    """Whether two findings are one person, of whom the detector took two squares."""
    apart = float(np.linalg.norm((one.pixels - other.pixels)[: NUMBER["mouth_right"] + 1].mean(axis=0)))
    return apart < _SAME_HEAD * min(one.region.size, other.region.size)


def refined(places: Floats, heat: NDArray[np.floating]) -> Floats:
    """Places (n, 2), as shares of the square, moved to the mean of the heat (rows, columns, n) around them.

    A place outside the map, or where it is nowhere hot, stays.
    """
    rows, columns, count = heat.shape
    moved = places.copy()
    for number in range(count):
        x, y = int(places[number, 0] * columns), int(places[number, 1] * rows)
        if not (0 <= x < columns and 0 <= y < rows):
            continue
        left, top = max(x - _REACH, 0), max(y - _REACH, 0)
        part = heat[top : y + _REACH + 1, left : x + _REACH + 1, number].astype(float)
        total = part.sum()
        if part.max() < _SURE or total <= 0:
            continue
        down, right = np.mgrid[: part.shape[0], : part.shape[1]]
        moved[number] = (
            (part * (right + left)).sum() / total / columns,
            (part * (down + top)).sum() / total / rows,
        )
    return moved


def _sigmoid(values: NDArray[np.floating]) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values.astype(float), -60, 60))))
