"""A small drawing surface with two outputs: SVG text, or a PNG drawn by OpenCV.

Plots need lines, dots, text and one kind of picture; this keeps a plotting library out of the dependencies.
Coordinates are in points from the top left corner; colours are "#rrggbb".
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
# OpenCV's own font holds ASCII only.
_ASCII = str.maketrans({"−": "-", "–": "-", "±": "+", "·": "|", "°": " ", "×": "x", "“": '"', "”": '"'})


class Canvas(Protocol):
    """What both outputs can draw."""

    def line(self, points: Sequence[Point], colour: str, width: float = 1.0, dash: bool = False) -> None:
        """An open polygon; `dash` is for straight pieces."""

    def dots(self, points: Sequence[Point], radius: float, colour: str, rim: str = "") -> None:
        """Filled circles, with a rim of another colour or none."""

    def box(self, x: float, y: float, width: float, height: float, fill: str = "", edge: str = "") -> None:
        """A rectangle, filled, outlined or both."""

    def text(
        self, x: float, y: float, words: str, size: float = 12.0, colour: str = "#211f1c",
        anchor: Anchor = "start", bold: bool = False, upright: bool = False,
    ) -> None:  # fmt: skip
        """Text whose baseline is at y; `upright` turns it to read from the bottom to the top."""

    def picture(self, x: float, y: float, width: float, height: float, rgb: NDArray[np.uint8]) -> None:
        """An RGB picture (rows, columns, 3), stretched to fill the rectangle."""

    def data(self) -> bytes:
        """The content of the file."""


class SvgCanvas:
    """Writes SVG that needs nothing from outside."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="{FONT}" role="img"><title>{_safe(title)}</title>'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        ]

    def line(self, points: Sequence[Point], colour: str, width: float = 1.0, dash: bool = False) -> None:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dash else ""
        self._parts.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes} '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )

    def dots(self, points: Sequence[Point], radius: float, colour: str, rim: str = "") -> None:
        stroke = f' stroke="{rim}" stroke-width="0.7"' if rim else ""
        circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>' for x, y in points)
        if circles:
            self._parts.append(f'<g fill="{colour}"{stroke}>{circles}</g>')

    def box(self, x: float, y: float, width: float, height: float, fill: str = "", edge: str = "") -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{fill or "none"}" stroke="{edge or "none"}"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: float = 12.0, colour: str = "#211f1c",
        anchor: Anchor = "start", bold: bool = False, upright: bool = False,
    ) -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if upright else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}{turn}>{_safe(words)}</text>'
        )

    def picture(self, x: float, y: float, width: float, height: float, rgb: NDArray[np.uint8]) -> None:
        import cv2

        png = cv2.imencode(".png", np.ascontiguousarray(rgb[:, :, ::-1]))[1].tobytes()
        data = base64.b64encode(png).decode()
        self._parts.append(
            f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'
        )

    def data(self) -> bytes:
        return ("".join(self._parts) + "</svg>\n").encode("utf-8", "replace")


def _safe(words: str) -> str:
    """Escaped, without characters that XML does not allow and without halves of surrogate pairs."""
    allowed = "".join(c if c >= " " and not "\ud800" <= c <= "\udfff" else "?" for c in words)
    return escape(allowed.replace("\ufffe", "?").replace("\uffff", "?"))


class PngCanvas:
    """Draws with OpenCV at four times the size and gives a picture of twice the size: smooth, and sharp on
    today's screens."""

    _SCALE, _SHIFT = 4, 4

    def __init__(self, width: int, height: int) -> None:
        self._image = np.full((height * self._SCALE, width * self._SCALE, 3), 255, np.uint8)

    def _fixed(self, value: float) -> int:
        return round(value * self._SCALE * (1 << self._SHIFT))

    def _px(self, value: float) -> int:
        return round(value * self._SCALE)

    def line(self, points: Sequence[Point], colour: str, width: float = 1.0, dash: bool = False) -> None:
        import cv2

        pieces = _dashes(points) if dash else [list(points)]
        curves = [
            np.array([[self._fixed(x), self._fixed(y)] for x, y in piece], np.int32) for piece in pieces
        ]
        cv2.polylines(
            self._image, curves, False, _bgr(colour), max(1, self._px(width)), cv2.LINE_AA, self._SHIFT
        )

    def dots(self, points: Sequence[Point], radius: float, colour: str, rim: str = "") -> None:
        import cv2

        for x, y in points:
            place = (self._fixed(x), self._fixed(y))
            if rim:
                size = self._fixed(radius + 0.35)
                cv2.circle(self._image, place, size, _bgr(rim), -1, cv2.LINE_AA, self._SHIFT)
            size = self._fixed(radius - (0.35 if rim else 0.0))
            cv2.circle(self._image, place, size, _bgr(colour), -1, cv2.LINE_AA, self._SHIFT)

    def box(self, x: float, y: float, width: float, height: float, fill: str = "", edge: str = "") -> None:
        import cv2

        a, b = (self._px(x), self._px(y)), (self._px(x + width), self._px(y + height))
        if fill:
            cv2.rectangle(self._image, a, b, _bgr(fill), -1)
        if edge:
            cv2.rectangle(self._image, a, b, _bgr(edge), self._SCALE)

    def text(
        self, x: float, y: float, words: str, size: float = 12.0, colour: str = "#211f1c",
        anchor: Anchor = "start", bold: bool = False, upright: bool = False,
    ) -> None:  # fmt: skip
        import cv2

        words = words.translate(_ASCII).encode("ascii", "replace").decode()
        font, scale = cv2.FONT_HERSHEY_DUPLEX, size * self._SCALE / 31.0
        thick = round(self._SCALE * (1.05 if bold else 0.55) * size / 12.0)
        (wide, high), below = cv2.getTextSize(words, font, scale, thick)
        room = np.zeros((high + below + 2 * thick, wide + 2 * thick), np.uint8)
        cv2.putText(room, words, (thick, high + thick), font, scale, 255, thick, cv2.LINE_AA)
        shift = {"start": 0, "middle": wide // 2, "end": wide}[anchor]
        left, top = self._px(x) - shift - thick, self._px(y) - high - thick
        if upright:
            room = np.ascontiguousarray(np.rot90(room))
            left = self._px(x) - high - thick
            top = self._px(y) - (wide - shift) - thick
        self._blend(left, top, room, _bgr(colour))

    def _blend(self, left: int, top: int, cover: NDArray[np.uint8], colour: tuple[int, int, int]) -> None:
        rows, columns = self._image.shape[:2]
        cover = cover[max(-top, 0) : rows - top, max(-left, 0) : columns - left]
        top, left = max(top, 0), max(left, 0)
        part = self._image[top : top + cover.shape[0], left : left + cover.shape[1]]
        share = cover[:, :, None].astype(np.float32) / 255.0
        part[:] = np.rint(part * (1 - share) + np.array(colour, np.float32) * share).astype(np.uint8)

    def picture(self, x: float, y: float, width: float, height: float, rgb: NDArray[np.uint8]) -> None:
        import cv2

        left, top = self._px(x), self._px(y)
        size = (self._px(x + width) - left, self._px(y + height) - top)
        grown = cv2.resize(np.ascontiguousarray(rgb[:, :, ::-1]), size, interpolation=cv2.INTER_LINEAR)
        self._image[top : top + size[1], left : left + size[0]] = grown

    def data(self) -> bytes:
        import cv2

        rows, columns = self._image.shape[:2]
        half = cv2.resize(self._image, (columns // 2, rows // 2), interpolation=cv2.INTER_AREA)
        return bytes(cv2.imencode(".png", half, [cv2.IMWRITE_PNG_COMPRESSION, 9])[1].tobytes())


def _bgr(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return blue, green, red


def _dashes(points: Sequence[Point], on: float = 5.0, off: float = 4.0) -> list[list[Point]]:
    """Straight pieces of a polygon cut into dashes."""
    pieces: list[list[Point]] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        length = float(np.hypot(x1 - x0, y1 - y0))
        for start in np.arange(0.0, length, on + off):
            a, b = start / length, min((start + on) / length, 1.0)
            pieces.append(
                [(x0 + a * (x1 - x0), y0 + a * (y1 - y0)), (x0 + b * (x1 - x0), y0 + b * (y1 - y0))]
            )
    return pieces
