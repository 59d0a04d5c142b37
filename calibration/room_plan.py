"""The room drawn to scale: from above, and from the side below it on the same axis of x, in metres.

Microphone with the direction it faces, camera with its field of view, the board, and every device with the
ellipse that holds it at 95 %. Names avoid each other, the dots and the lines. One drawing, as SVG or PNG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calibration.pose_model import Floats
from recordings.camera_model import CameraModel
from recordings.canvas import Canvas, Point, SvgCanvas
from recordings.report_labels import Labels

WIDTH, MOST_HEIGHT = 900, 1500
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 62, 26, 44, 64, 50
_INK, _SOFT, _GRID, _WALL = "#211f1c", "#6b665e", "#ece8df", "#8a8478"
_DEVICE, _MIC, _CAMERA, _BOARD = "#0067a3", "#b3261e", "#7a4fa3", "#1f7a4d"
_CHI_95 = 2.4477  # radius of two dimensions that holds 95 %


@dataclass(frozen=True)
class Mark:
    """A device: its name, place (3,) and covariance (3, 3) in the room."""

    name: str
    position_m: Floats
    covariance: Floats


@dataclass(frozen=True)
class RoomDrawing:
    """What is drawn. board_m: (4, 3) its outline. microphone, camera: (rotation into the room, place).

    size_m: the room's box, if it is known.
    """

    devices: Sequence[Mark]
    camera: tuple[Floats, Floats]
    model: CameraModel
    board_m: Floats
    microphone: tuple[Floats, Floats] | None = None
    size_m: Floats | None = None

    def bounds(self) -> tuple[Floats, Floats]:
        """Corners (3,), (3,) of what must be on the plan, with half a metre around it."""
        points = [self.camera[1], *self.board_m, *(d.position_m for d in self.devices)]
        if self.microphone is not None:
            points.append(self.microphone[1])
        low, high = np.min(points, axis=0) - 0.5, np.max(points, axis=0) + 0.5
        if self.size_m is not None:
            low, high = np.minimum(low + 0.4, -0.1), np.maximum(high - 0.4, self.size_m + 0.1)
        # The floor is always shown, and something of every direction.
        low[2] = min(low[2], -0.1) if self.size_m is None else low[2]
        return low, np.maximum(high, low + 1.0)


class _View:
    """One of the two views: room coordinates `across` and `up` to the drawing."""

    def __init__(
        self, low: Floats, high: Floats, axes: tuple[int, int], left: float, top: float, scale: float
    ) -> None:
        self.axes, self.scale = axes, scale
        self.low = np.array([low[axes[0]], low[axes[1]]])
        self.high = np.array([high[axes[0]], high[axes[1]]])
        self.left, self.top = left, top
        self.width, self.height = (self.high - self.low) * scale

    def at(self, point: Floats) -> Point:
        """Drawing coordinates of a room point (3,)."""
        return self.flat(np.array([point[self.axes[0]], point[self.axes[1]]]))

    def flat(self, point: Floats) -> Point:
        x, y = (point - self.low) * self.scale
        return self.left + float(x), self.top + self.height - float(y)

    def clipped(self, start: Floats, direction: Floats, most: float) -> Floats:
        """The end of a ray from a point (2,) within this view, no longer than `most` metres."""
        length = most
        for axis in range(2):
            if direction[axis] > 1e-9:
                length = min(length, (self.high[axis] - start[axis]) / direction[axis])
            elif direction[axis] < -1e-9:
                length = min(length, (self.low[axis] - start[axis]) / direction[axis])
        return start + max(length, 0.0) * direction


def draw_plan(canvas: Canvas, room: RoomDrawing) -> None:
    """Draw both views; the canvas must have the size of `plan_size`."""
    above, side = _views(room)
    height = plan_size(room)[1]
    for view, title, axes in ((above, "from above", "xy"), (side, "from the side", "xz")):
        canvas.text(view.left, view.top - 14, title, 14, _INK, bold=True)
        _grid(canvas, view, axes)
        _room(canvas, view, room)
        _things(canvas, view, room)
    words = "an ellipse holds its device at 95 %; dashed: what the camera sees"
    canvas.text(above.left, height - 10, words, 12, _SOFT)


def plan_size(room: RoomDrawing) -> tuple[int, int]:
    """Width and height of the drawing."""
    above, side = _views(room)
    return WIDTH, round(_TOP + above.height + _GAP + side.height + _BOTTOM)


def plan_svg(room: RoomDrawing) -> bytes:
    """The plan as SVG."""
    canvas = SvgCanvas(*plan_size(room), "Plan of the room")
    draw_plan(canvas, room)
    return canvas.data()


def _views(room: RoomDrawing) -> tuple[_View, _View]:
    low, high = room.bounds()
    across, deep, tall = high - low
    scale = min((WIDTH - _LEFT - _RIGHT) / across, (MOST_HEIGHT - _TOP - _GAP - _BOTTOM) / (deep + tall))
    left = _LEFT + ((WIDTH - _LEFT - _RIGHT) - across * scale) / 2
    above = _View(low, high, (0, 1), left, _TOP, scale)
    return above, _View(low, high, (0, 2), left, _TOP + above.height + _GAP, scale)


def _grid(canvas: Canvas, view: _View, axes: str) -> None:
    right, bottom = view.left + view.width, view.top + view.height
    step = 1.0 if max(view.high - view.low) > 3 else 0.5
    for axis in range(2):
        first = np.ceil(view.low[axis] / step - 1e-9) * step
        for value in np.arange(first, view.high[axis] + 1e-9, step):
            point = np.array([value, view.low[1]]) if axis == 0 else np.array([view.low[0], value])
            x, y = view.flat(point)
            words = f"{value + 0.0:g}"
            if axis == 0:
                canvas.line([(x, view.top), (x, bottom)], _GRID)
                canvas.text(x, bottom + 16, words, 11, _SOFT, "middle")
            else:
                canvas.line([(view.left, y), (right, y)], _GRID)
                canvas.text(view.left - 7, y + 4, words, 11, _SOFT, "end")
    canvas.text(right, bottom + 32, f"{axes[0]} (m)", 12, _SOFT, "end")
    canvas.text(view.left - 40, view.top + 8, f"{axes[1]} (m)", 12, _SOFT, "middle", upright=False)


def _room(canvas: Canvas, view: _View, room: RoomDrawing) -> None:
    """Walls or floor, field of view and board."""
    if room.size_m is not None:
        size = np.array([room.size_m[view.axes[0]], room.size_m[view.axes[1]]])
        x, y = view.flat(np.array([0.0, size[1]]))
        canvas.box(x, y, float(size[0]) * view.scale, float(size[1]) * view.scale, "", _WALL)
    elif view.axes[1] == 2:
        canvas.line([view.flat(np.array([v, 0.0])) for v in (view.low[0], view.high[0])], _WALL, 1.4)
    for ray in _field_of_view(room, view):
        canvas.line(ray, _CAMERA, 1.1, dash=True)
    board = [view.at(p) for p in (*room.board_m, room.board_m[0])]
    canvas.line(board, _BOARD, 3.0)


def _field_of_view(room: RoomDrawing, view: _View) -> list[list[Point]]:
    """The two edges of what the camera sees, through the middle of the picture's edges, in this view; nothing
    where it looks at right angles to the view."""
    rotation, place = room.camera
    if float(np.linalg.norm(rotation[list(view.axes), 2])) < 0.35:
        return []
    model = room.model
    w, h = model.width_px - 0.5, model.height_px - 0.5
    cx, cy = float(model.parameters[2]), float(model.parameters[3])
    edges = ((-0.5, cy), (w, cy)) if view.axes[1] == 1 else ((cx, -0.5), (cx, h))
    start = np.array([place[view.axes[0]], place[view.axes[1]]])
    found = []
    for pixel in edges:
        x, y = model.rays(np.array([pixel]))[0]
        if not np.isfinite(x + y):
            continue
        ray = rotation @ np.array([x, y, 1.0])
        flat = np.array([ray[view.axes[0]], ray[view.axes[1]]])
        length = float(np.linalg.norm(flat))
        if length > 0.15 * float(np.linalg.norm(ray)):
            end = view.clipped(start, flat / length, 30.0)
            found.append([view.flat(start), view.flat(end)])
    return found


def _things(canvas: Canvas, view: _View, room: RoomDrawing) -> None:
    labels = Labels(view.left, view.top, view.left + view.width, view.top + view.height)
    for ray in _field_of_view(room, view):
        labels.ray(*ray)
    for a, b in zip(room.board_m, np.roll(room.board_m, -1, axis=0), strict=True):
        labels.ray(view.at(a), view.at(b))
    for mark in room.devices:
        outline = ellipse(mark, view.axes)
        points = [view.flat(p) for p in (*outline, outline[0])]
        canvas.line(points, _DEVICE, 1.0)
        for a, b in pairwise(points):
            labels.ray(a, b)
    if view.axes[1] == 2:
        labels.ray(*(view.flat(np.array([x, 0.0])) for x in (view.low[0], view.high[0])))
    for mark in room.devices:
        x, y = view.at(mark.position_m)
        canvas.dots([(x, y)], 4.0, _DEVICE, "#ffffff")
        labels.keep_clear(x, y, 6)
        labels.add(x, y, mark.name, 9, "device")
    # Names before those of the rig: it has two marks side by side that must both be told apart.
    x, y = view.at(room.board_m.mean(axis=0))
    reach = max(abs(view.at(corner)[0] - x) for corner in room.board_m)
    labels.add(x, y, "board", reach + 6, "board")
    _rig(canvas, view, room, labels)
    colours = {"device": _INK, "board": _BOARD, "microphone": _MIC, "camera": _CAMERA}
    for placed in labels.placed():
        canvas.text(placed.x, placed.y, placed.words, 12, colours[placed.kind], placed.anchor)


def _rig(canvas: Canvas, view: _View, room: RoomDrawing, labels: Labels) -> None:
    things = [("camera", room.camera, _CAMERA, np.array([0.0, 0.0, 1.0]))]
    if room.microphone is not None:
        things.append(("microphone", room.microphone, _MIC, np.array([1.0, 0.0, 0.0])))
    for name, (rotation, place), colour, front in things:
        x, y = view.at(place)
        towards = rotation @ front
        flat = np.array([towards[view.axes[0]], -towards[view.axes[1]]])
        if float(np.linalg.norm(flat)) > 0.2:
            end = (x + 22 * float(flat[0]), y + 22 * float(flat[1]))
            canvas.line([(x, y), end], colour, 2.4)
            labels.ray((x, y), end)
        canvas.dots([(x, y)], 5.5, colour, "#ffffff")
        labels.keep_clear(x, y, 8)
        labels.add(x, y, name, 11, name)


def ellipse(mark: Mark, axes: tuple[int, int], points: int = 48) -> Floats:
    """(points, 2) of the outline, in two of the room's axes, that holds the device at 95 %."""
    part = mark.covariance[np.ix_(axes, axes)]
    values, vectors = np.linalg.eigh(part)
    angle = np.arange(points) * 2 * np.pi / points
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    reach = _CHI_95 * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mark.position_m[list(axes)] + (circle * reach) @ vectors.T)
