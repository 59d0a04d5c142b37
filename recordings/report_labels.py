"""Where the names on the plan go: beside their dots, covering neither each other nor a dot, and no ray if
possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Box = tuple[float, float, float, float]  # left, top, right, bottom
LETTER, STRONG_LETTER, LINE = 6.7, 7.9, 13.0  # of the plan's text
# What a place costs: another name, a dot, the edge of the room, a piece of a ray, a point of distance.
NAME, DOT, EDGE, RAY, AWAY = 1000.0, 300.0, 250.0, 9.0, 0.5


@dataclass(frozen=True)
class Placed:
    """A name and where it is written; y is the base line."""

    words: str
    kind: str
    x: float
    y: float
    anchor: Literal["start", "middle", "end"]
    box: Box


@dataclass(frozen=True)
class _Wish:
    x: float
    y: float
    words: str
    gap: float
    kind: str
    first: bool


class Labels:
    """Collects names and obstacles, then places the names inside the given rectangle."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self._inside = (left, top, right, bottom)
        self._dots: list[Box] = []
        self._rays: list[Box] = []
        self._wishes: list[_Wish] = []

    def keep_clear(self, x: float, y: float, radius: float) -> None:
        """A dot or mark that no name should cover."""
        self._dots.append((x - radius, y - radius, x + radius, y + radius))

    def ray(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A line that names should rather not cross."""
        steps = max(1, int(np.hypot(end[0] - start[0], end[1] - start[1]) / 5))
        for share in np.linspace(0, 1, steps + 1):
            x, y = (float(a + (b - a) * share) for a, b in zip(start, end, strict=True))
            self._rays.append((x - 2, y - 2, x + 2, y + 2))

    def add(self, x: float, y: float, words: str, gap: float, kind: str, first: bool = False) -> None:
        """A name for the dot at (x, y), `gap` away from its middle. `first` ones choose before the others."""
        self._wishes.append(_Wish(x, y, words, gap, kind, first))

    def placed(self) -> list[Placed]:
        """All names, each where it costs least; those that come first and from the top choose first."""
        done: list[Placed] = []
        for wish in sorted(self._wishes, key=lambda w: (not w.first, w.y)):
            done.append(min(_places(wish), key=lambda place: self._cost(place, wish, done)))
        return done

    def _cost(self, place: Placed, wish: _Wish, done: list[Placed]) -> float:
        box, (left, top, right, bottom) = place.box, self._inside
        out = max(left - box[0], 0) + max(top - box[1], 0) + max(box[2] - right, 0) + max(box[3] - bottom, 0)
        middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        return (
            NAME * sum(_cover(box, other.box) for other in done)
            + DOT * sum(_cover(box, dot) for dot in self._dots)
            + RAY * sum(_cover(box, piece) for piece in self._rays)
            + (EDGE + 20 * out if out > 0 else 0.0)
            + AWAY * (abs(middle[1] - wish.y) + (12 if place.anchor == "middle" else 0))
        )


def _places(wish: _Wish) -> list[Placed]:
    wide = (STRONG_LETTER if "strong" in wish.kind else LETTER) * len(wish.words)
    found: list[Placed] = []
    for down in (0, 7, -7, 13, -13, 20, -20, 26, -26):
        near = wish.x + wish.gap, wish.x - wish.gap
        boxes = {"start": (near[0], near[0] + wide), "end": (near[1] - wide, near[1])}
        for anchor, at in (("start", near[0]), ("end", near[1])):
            found.append(_place(wish, at, wish.y + down, anchor, boxes[anchor]))
    for below in (wish.gap + 5, -wish.gap - 5):
        across = (wish.x - wide / 2, wish.x + wide / 2)
        found.append(_place(wish, wish.x, wish.y + below, "middle", across))
    return found


def _place(wish: _Wish, x: float, middle: float, anchor: str, across: tuple[float, float]) -> Placed:
    box = (across[0], middle - LINE / 2, across[1], middle + LINE / 2)
    return Placed(wish.words, wish.kind, x, middle + 4, anchor, box)  # type: ignore[arg-type]


def _cover(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
