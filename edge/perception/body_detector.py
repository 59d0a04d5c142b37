"""Where people are in a picture: the detector of BlazePose.

Bazarevsky et al., BlazePose (arXiv 2006.10204): a detector of faces in the manner of BlazeFace (arXiv
1907.05047) that also says where the middle of the hips is, how large a circle holds the whole person, and how
the person leans. It was made for one person who fills the picture; so that people further away are found too,
a wide picture is also looked at in overlapping squares.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.perception.landmark_models import POSE_DETECTION, Network, model_path

_SIDE = 224  # pixels of the network's picture
_GRIDS = ((8, 2), (16, 2), (32, 6))  # stride of the cells, and boxes per cell
_MARGIN = 1.25  # the networks were trained with that much around the circle
_OVERLAP = 0.3  # of two boxes of faces: the same person
_SAME = 0.2  # of the region's size between two middles of hips: the same person
_MOST_LOGIT = 60.0


@dataclass(frozen=True, slots=True)
class Region:
    """A square of a picture, turned so that a person in it stands upright.

    x, y: its middle in pixels. size: of its sides, pixels. turn: radians, clockwise as one sees the picture.
    """

    x: float
    y: float
    size: float
    turn: float

    def to_picture(self, side: int) -> NDArray[np.float64]:
        """(2, 3): from pixels of the square, drawn `side` wide, to pixels of the picture.

        Pixel centres lie at whole numbers in both (OpenCV).
        """
        zoom = self.size / side
        cos, sin = math.cos(self.turn) * zoom, math.sin(self.turn) * zoom
        rotation = np.array([[cos, -sin], [sin, cos]])
        middle = (side - 1) / 2
        return np.column_stack([rotation, np.array([self.x, self.y]) - rotation @ [middle, middle]])

    @classmethod
    def around(cls, hips: NDArray[np.float64], rim: NDArray[np.float64]) -> Region:
        """The square of a person from the middle of the hips and the point of the circle above the head."""
        right, up = float(rim[0] - hips[0]), float(hips[1] - rim[1])
        turn = math.pi / 2 - math.atan2(up, right)
        size = 2 * _MARGIN * math.hypot(right, up)
        return cls(float(hips[0]), float(hips[1]), size, (turn + math.pi) % (2 * math.pi) - math.pi)


@dataclass(frozen=True, slots=True)
class Found:
    """A person. score: 0 to 1. face: x, y, width, height in pixels. region: of the whole body."""

    score: float
    face: tuple[float, float, float, float]
    region: Region


class BodyDetector:
    """People in a picture, best first. Used by one thread."""

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, threshold: float = 0.5, threads: int = 1
    ) -> None:
        """folder: of the networks, see `landmark_models.model_path`, which also says what is raised."""
        self._net = Network(model_path(POSE_DETECTION, folder), threads)
        self._threshold = threshold
        self._anchors = _anchors()

    def __call__(self, image: NDArray[np.uint8]) -> list[Found]:
        """image: (height, width, 3) BGR."""
        found = [one for tile in _tiles(*image.shape[:2]) for one in self._in_tile(image, *tile)]
        found.sort(key=lambda one: -one.score)
        kept: list[Found] = []
        for one in found:
            if not any(_same(one, other) for other in kept):
                kept.append(one)
        return kept

    def _in_tile(self, image: NDArray[np.uint8], x: int, y: int, width: int, height: int) -> list[Found]:
        part = image[y : y + height, x : x + width]
        zoom = _SIDE / max(width, height)
        wide, tall = max(1, round(width * zoom)), max(1, round(height * zoom))
        left, top = (_SIDE - wide) // 2, (_SIDE - tall) // 2
        picture = np.zeros((_SIDE, _SIDE, 3), np.uint8)
        way = cv2.INTER_AREA if zoom < 1 else cv2.INTER_LINEAR
        picture[top : top + tall, left : left + wide] = cv2.resize(part, (wide, tall), interpolation=way)
        boxes, logits = self._net(picture[:, :, ::-1] * np.float32(2 / 255) - np.float32(1))
        score = 1 / (1 + np.exp(-np.clip(logits[:, 0].astype(float), -_MOST_LOGIT, _MOST_LOGIT)))
        hits = np.flatnonzero(score >= self._threshold)
        hits = hits[np.argsort(-score[hits], kind="stable")][:50]
        # Middle, extent, then four points: hips, rim of the circle, and the same two for the upper body.
        points = boxes[hits].astype(float).reshape(-1, 6, 2)
        points[:, [0, 2, 3, 4, 5]] += self._anchors[hits, None] * _SIDE
        points[:, [0, 2, 3, 4, 5]] -= (left, top)
        points /= (wide / width, tall / height)
        points[:, [0, 2, 3, 4, 5]] += (x - 0.5, y - 0.5)
        return [
            Found(
                float(score[hit]),
                (*(float(v) for v in middle - extent / 2), float(extent[0]), float(extent[1])),  # type: ignore[arg-type]
                Region.around(hips, rim),
            )
            for hit, (middle, extent, hips, rim, _, _) in zip(hits, points, strict=True)
        ]


def _anchors() -> NDArray[np.float64]:
    """(2254, 2): middles of the cells, as shares of the side, in the order of the network's boxes."""
    parts = []
    for stride, boxes in _GRIDS:
        cells = _SIDE // stride
        y, x = np.divmod(np.arange(cells * cells), cells)
        parts.append(np.repeat((np.stack([x, y], axis=1) + 0.5) / cells, boxes, axis=0))
    return np.concatenate(parts)


def _tiles(height: int, width: int) -> list[tuple[int, int, int, int]]:
    """x, y, width, height: the picture, and of a long one squares that overlap by a half or more."""
    side, longer = min(height, width), max(height, width)
    tiles = [(0, 0, width, height)]
    if longer < 1.25 * side:
        return tiles
    count = math.ceil((longer - side) / (side / 2)) + 1
    for at in np.linspace(0, longer - side, count).round().astype(int):
        tiles.append((int(at), 0, side, side) if width > height else (0, int(at), side, side))
    return tiles


def _same(one: Found, other: Found) -> bool:
    apart = math.hypot(one.region.x - other.region.x, one.region.y - other.region.y)
    if apart < _SAME * min(one.region.size, other.region.size):
        return True
    (ax, ay, aw, ah), (bx, by, bw, bh) = one.face, other.face
    wide, tall = min(ax + aw, bx + bw) - max(ax, bx), min(ay + ah, by + bh) - max(ay, by)
    both = max(wide, 0.0) * max(tall, 0.0)
    return both > _OVERLAP * (aw * ah + bw * bh - both)
