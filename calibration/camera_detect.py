"""Corners of a board in one picture: found by OpenCV, refined by us, the same on OpenCV 4.14 and 5.

Finding gives corners that are right to about half a pixel. The second pass (`cornerSubPix`, the point to
which all gradients of its window are at right angles; Foerstner and Guelch 1987) takes a window as large as
the board allows around each corner: part of the way to the next corner or, with ChArUco, to the nearest
marker. The usual tutorial takes one fixed window, which in a small or slanted board reaches over its
neighbours and pulls corners off by pixels (left02.jpg of OpenCV's samples).

What differs between the OpenCV lines (shapes of corners and ids, None or empty for nothing) is settled in
`_points` and `_ids`; nothing else in Hearth sees raw results of a detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import BLACK, Board
from calibration.saddle import polished
from dsp.errors import InputError

Floats = NDArray[np.float64]
# Boards are searched in a picture no wider than this and refined in the full one.
_CHESSBOARD_PX, _CHARUCO_PX = 640, 1280
# Half windows of the second pass, in pixels; below the smallest the gradients have no room.
_SMALLEST_PX, _LARGEST_PX = 2, 15
# Part of the way to the next corner (edges run on to there), and to the nearest edge of a marker.
_TO_NEXT, _TO_MARKER = 0.3, 0.9
# A corner that moves further than this part of a square in the second pass was none.
_MOVED = 0.25
# ArUco's thresholds: one window (pixels) first, and OpenCV's usual three when that finds too little.
_WINDOW_PX, _ENOUGH = 13, 8
# A corner this part of a square away from where its neighbours say is another one.
_AGREES = 0.3
# The four squares around a corner must differ by this part of the median contrast of the others.
_CONTRAST = 0.35


@dataclass(frozen=True, slots=True)
class Detection:
    """Corners of a board in a picture.

    ids: (n,) which corners, ascending; points_px: (n, 2) column and row, pixel centres at whole numbers.
    spacing_px: (n,) distance to the nearest neighbouring corner on the board.
    edge_width_px: over how many pixels an edge goes from dark to bright, median; nan if not measured.
    """

    ids: NDArray[np.int32]
    points_px: Floats
    spacing_px: Floats
    edge_width_px: float = float("nan")

    def __len__(self) -> int:
        return len(self.ids)


class Detector:
    """Finds one board in grey pictures. Not to be shared between threads."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._flat = board.corners_m[:, :2] / board.square_m
        self._charuco: list[Any] = []
        if board.kind == "charuco":
            import cv2

            quick, usual = cv2.aruco.DetectorParameters(), cv2.aruco.DetectorParameters()
            quick.adaptiveThreshWinSizeMin = quick.adaptiveThreshWinSizeMax = _WINDOW_PX
            self._charuco = [
                cv2.aruco.CharucoDetector(board.opencv(), cv2.aruco.CharucoParameters(), parameters)
                for parameters in (quick, usual)
            ]

    def find(self, grey: NDArray[np.uint8]) -> Detection | None:
        """Corners in a grey picture (rows, columns) uint8, or None when the board is not seen.

        A chessboard must be seen whole. Raises InputError for another kind of array.
        """
        return self.refine(grey, *self.find_raw(grey))

    def find_raw(self, grey: NDArray[np.uint8]) -> tuple[NDArray[np.int32], Floats]:
        """What OpenCV finds, before the second pass: ids (n,) and points (n, 2)."""
        if grey.ndim != 2 or grey.dtype != np.uint8:
            raise InputError(
                f"a grey picture (rows, columns) of uint8 is needed, not {grey.shape} {grey.dtype}"
            )
        if self.board.inverted:
            grey = 255 - grey
        return self._find_charuco(grey) if self._charuco else self._find_chessboard(grey)

    def _find_charuco(self, grey: NDArray[np.uint8]) -> tuple[NDArray[np.int32], Floats]:
        small, scale = _at_most(grey, _CHARUCO_PX)
        ids, points = np.empty(0, np.int32), np.empty((0, 2))
        for detector in self._charuco:
            found = detector.detectBoard(small)
            if np.size(found[1]) > len(ids) and found[1] is not None:
                ids, points = _ids(found[1]), _points(found[0])
            if len(ids) >= _ENOUGH:
                break
        order = np.argsort(ids, kind="stable")
        return ids[order], _to_full(points[order], scale)

    def _find_chessboard(self, grey: NDArray[np.uint8]) -> tuple[NDArray[np.int32], Floats]:
        import cv2

        size = self.board.corner_grid
        flags = cv2.CALIB_CB_ADAPTIVE_THRESH | cv2.CALIB_CB_NORMALIZE_IMAGE
        small, scale = _at_most(grey, _CHESSBOARD_PX)
        found, corners = cv2.findChessboardCorners(small, size, flags=flags)
        if not found and scale < 1.0:
            scale = 1.0
            found, corners = cv2.findChessboardCorners(grey, size, flags=flags | cv2.CALIB_CB_FAST_CHECK)
        points = _to_full(_points(corners), scale)
        if not found or len(points) != size[0] * size[1]:
            return np.empty(0, np.int32), np.empty((0, 2))
        return np.arange(len(points), dtype=np.int32), points

    def refine(self, grey: NDArray[np.uint8], ids: NDArray[np.int32], points: Floats) -> Detection | None:
        """The second pass: corners that OpenCV missed are looked for where the others say, all are moved to
        the saddle of their window, and what then has not two dark and two bright squares around it goes."""
        if len(ids) < 4:
            return None
        found = np.zeros(len(self._flat), bool)
        found[ids] = True
        grid = _Grid(self._flat, ids, points)
        if not found.all() and len(ids) >= _ENOUGH:
            ids, points = grid.complete(grey.shape)
        spacing = _spacing(self.board, ids, points)
        room = np.minimum(spacing, grid.height(ids))
        gap = _gap(self.board)
        reach = room * (min(_TO_NEXT, _TO_MARKER * gap) if gap > 0 else _TO_NEXT)
        half = np.clip(np.floor(np.nan_to_num(reach)), _SMALLEST_PX, _LARGEST_PX).astype(int)
        rows, columns = grey.shape
        keep = np.isfinite(spacing) & (points >= half[:, None] + 1).all(1)
        keep &= (points < [columns, rows] - half[:, None] - 2).all(1)
        start = points
        if not found[ids].all():
            # What was only predicted is some pixels off and needs a window that reaches the corner.
            wide = np.clip(np.nan_to_num(0.3 * room), half, _LARGEST_PX).astype(int)
            start = _refined(grey, points, wide, keep & ~found[ids], exact=False)
        moved = _refined(grey, start, half, keep, exact=True)
        # A corner that was only predicted may be a pixel off; one that was found, half a pixel.
        away = np.linalg.norm(moved - points, axis=1)
        keep &= away <= np.maximum(1.5, _MOVED * spacing)
        keep &= _is_saddle(grey, self.board, ids, moved, grid, found[ids])
        keep &= grid.agrees(ids, moved, spacing, keep)
        ids, moved, spacing = ids[keep], moved[keep], spacing[keep]
        if len(ids) < 4:
            return None
        return Detection(ids, moved, spacing, _edge_width(grey, self.board, ids, moved))


class _Grid:
    """Where the corners of a board should be in a picture, from those that were found."""

    def __init__(self, flat: Floats, ids: NDArray[np.int32], points: Floats) -> None:
        """flat: all corners (n, 2) in squares; ids, points: those found."""
        import cv2

        self.flat, self._ids, self._points = flat, ids, points
        self.matrix = cv2.findHomography(flat[ids], points)[0] if len(ids) >= 4 else None
        if self.matrix is None:
            return
        # All corners through the homography, and the pixels by which a square along x and y moves them.
        h = self.matrix
        x, y = flat[:, 0], flat[:, 1]
        below = h[2, 0] * x + h[2, 1] * y + h[2, 2]
        self._mapped = np.stack([(h[k, 0] * x + h[k, 1] * y + h[k, 2]) / below for k in (0, 1)], axis=1)
        self._along_x = (h[:2, 0] - self._mapped * h[2, 0]) / below[:, None]
        self._along_y = (h[:2, 1] - self._mapped * h[2, 1]) / below[:, None]

    def steps(self, ids: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Pixels by which one square along x and along y moves a corner; both (n, 2)."""
        return self._along_x[ids], self._along_y[ids]

    def height(self, ids: NDArray[np.int32]) -> Floats:
        """Smallest distance in pixels between opposite sides of a square at each corner: what a slanted
        board leaves of it."""
        if self.matrix is None:
            return np.full(len(ids), np.inf)
        x, y = self.steps(ids)
        area = np.abs(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0])
        longest = np.maximum(np.hypot(x[:, 0], x[:, 1]), np.hypot(y[:, 0], y[:, 1]))
        return np.asarray(area / np.maximum(longest, 1e-9))

    def agrees(
        self, ids: NDArray[np.int32], points: Floats, spacing: Floats, keep: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether each corner is where its neighbours (of those to keep) say: markers read with one wrong bit
        give corners that look right and are not."""
        good = np.ones(len(ids), bool)
        if self.matrix is None or np.count_nonzero(keep) < 6:
            return good
        used = np.flatnonzero(keep)
        rest = points - self._mapped[ids]
        expected = _local(self.flat[ids], self.flat[ids[used]], rest[used])
        away = np.linalg.norm(rest - expected, axis=1)
        return np.asarray(away <= np.maximum(2.0, _AGREES * np.nan_to_num(spacing)))

    def complete(self, shape: tuple[int, ...]) -> tuple[NDArray[np.int32], Floats]:
        """The corners found and those predicted within the picture. A plane maps by a homography; what the
        lens adds is taken from the nearest corners found."""
        if self.matrix is None:
            return self._ids, self._points
        rest = self._points - self._mapped[self._ids]
        absent = np.ones(len(self.flat), bool)
        absent[self._ids] = False
        missing = np.flatnonzero(absent).astype(np.int32)
        far = np.linalg.norm(self.flat[missing][:, None] - self.flat[self._ids][None], axis=2)
        lens = _local(self.flat[missing], self.flat[self._ids], rest)
        predicted = self._mapped[missing] + lens
        inside = ((predicted > 0) & (predicted < [shape[1] - 1, shape[0] - 1])).all(1)
        # Extrapolation over more than two squares is guessing.
        inside &= far.min(axis=1) <= 2.3
        ids = np.concatenate([self._ids, missing[inside]])
        points = np.concatenate([self._points, predicted[inside]])
        order = np.argsort(ids)
        return ids[order], points[order]


def _local(places: Floats, known: Floats, values: Floats) -> Floats:
    """Values (n, 2) at places (n, 2) of the board: a plane through those of the nearest eight known ones,
    which are not at the place itself."""
    far = np.linalg.norm(places[:, None] - known[None], axis=2)
    far[far < 1e-9] = np.inf
    near = np.argsort(far, axis=1)[:, : min(8, len(known) - 1)]
    weight = 1 / np.take_along_axis(far, near, axis=1) ** 2
    slope = np.concatenate([np.ones((*near.shape, 1)), known[near] - places[:, None]], axis=2)
    weighted = np.swapaxes(slope * weight[..., None], 1, 2)
    # A trace of ridge on the slopes: the known ones may lie on one line.
    normal = weighted @ slope + np.diag([0.0, 1e-3, 1e-3])
    return np.asarray(np.linalg.solve(normal, weighted @ values[near])[:, 0])


def choose_layout(board: Board, pictures: list[NDArray[np.uint8]]) -> Board:
    """The layout (`legacy` or not) in which more corners of these grey pictures are found."""
    if not board.layouts_differ:
        return board
    counts = []
    for candidate in (board, board.other_layout()):
        detector = Detector(candidate)
        counts.append(sum(len(detector.find_raw(picture)[0]) for picture in pictures))
    return board if counts[0] >= counts[1] else board.other_layout()


def _points(found: Any) -> Floats:
    """Corners of any OpenCV line as (n, 2): it gives (n, 1, 2), (n, 2), None or something empty."""
    if found is None or np.size(found) == 0:
        return np.empty((0, 2))
    return np.asarray(found, dtype=np.float64).reshape(-1, 2)


def _ids(found: Any) -> NDArray[np.int32]:
    """Ids of any OpenCV line as (n,): it gives (n, 1), (n,), None or something empty."""
    if found is None or np.size(found) == 0:
        return np.empty(0, np.int32)
    return np.asarray(found, dtype=np.int32).ravel()


def _at_most(grey: NDArray[np.uint8], width: int) -> tuple[NDArray[np.uint8], float]:
    """The picture, made smaller where it is wider than that, and the factor."""
    import cv2

    scale = min(1.0, width / grey.shape[1])
    if scale == 1.0:
        return grey, scale
    size = (width, max(1, round(grey.shape[0] * scale)))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA)), scale


def _to_full(points: Floats, scale: float) -> Floats:
    """Pixels of the smaller picture in the full one: the centre of a large pixel is not at the centre of the
    first small one in it."""
    return points if scale == 1.0 else np.asarray((points + 0.5) / scale - 0.5)


def _gap(board: Board) -> float:
    """From the side of a square to the marker in it, in squares; 0 for a chessboard."""
    return 0.0 if board.kind == "chessboard" else (board.square_m - board.marker_m) / 2 / board.square_m


def _is_saddle(
    grey: NDArray[np.uint8],
    board: Board,
    ids: NDArray[np.int32],
    points: Floats,
    grid: _Grid,
    found: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Whether the four squares that meet in each corner are dark and bright as on the board."""
    import cv2

    if grid.matrix is None:
        return np.ones(len(ids), bool)
    gap = _gap(board)
    x, y = grid.steps(ids)
    # Close to the corner, but outside of its blur: further out a point beside it would pass as well.
    size = np.minimum(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
    step = np.clip(3.0 / np.maximum(size, 1e-9), 0.1, 0.25 if gap == 0 else min(0.25, 0.75 * gap))[
        :, None, None
    ]
    signs = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]])
    where = points[:, None] + step * (signs[None, :, :1] * x[:, None] + signs[None, :, 1:] * y[:, None])
    seen = cv2.remap(
        grey, where[..., 0].astype(np.float32), where[..., 1].astype(np.float32), cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    ).astype(np.float64)  # fmt: skip
    across, _ = board.corner_grid
    row, column = ids // across, ids % across
    dark = board.cells() == BLACK
    if board.inverted:
        dark = ~dark
    top_left_dark = dark[row, column]
    falling, rising = seen[:, [0, 3]], seen[:, [1, 2]]
    darker = np.where(top_left_dark[:, None], falling, rising)
    brighter = np.where(top_left_dark[:, None], rising, falling)
    if board.kind == "chessboard" and np.median(brighter.mean(1) - darker.mean(1)) < 0:
        # It may be found turned by 180 degrees; then all contrasts are the other way round.
        darker, brighter = brighter, darker
    contrast = brighter.min(1) - darker.max(1)
    return np.asarray(contrast > _CONTRAST * max(float(np.median(contrast[found])), 8.0))


def _spacing(board: Board, ids: NDArray[np.int32], points: Floats) -> Floats:
    """Distance in the picture to the nearest corner beside each on the board; nan without such."""
    across, down = board.corner_grid
    grid = np.full((down + 2, across + 2, 2), np.nan)
    row, column = ids // across + 1, ids % across + 1
    grid[row, column] = points
    distances = np.stack(
        [
            np.linalg.norm(grid[row + dr, column + dc] - points, axis=1)
            for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0))
        ]
    )
    nearest = np.where(np.isnan(distances), np.inf, distances).min(axis=0)
    return np.where(np.isinf(nearest), np.nan, nearest)


def _refined(
    grey: NDArray[np.uint8], points: Floats, half: NDArray[np.int_], which: NDArray[np.bool_], exact: bool
) -> Floats:
    """The points, those of `which` moved to the saddle of their window of half width `half`."""
    moved = points.copy()
    for size in np.unique(half[which]):
        group = which & (half == size)
        moved[group] = _sub_pixel(grey, points[group], int(size))
        if exact:
            moved[group] = polished(grey, moved[group], int(size))
    return moved


def _sub_pixel(grey: NDArray[np.uint8], points: Floats, half: int) -> Floats:
    import cv2

    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 40, 1e-2)
    start = np.ascontiguousarray(points, dtype=np.float32).reshape(-1, 1, 2)
    return _points(cv2.cornerSubPix(grey, start, (half, half), (-1, -1), stop))


def _edge_width(grey: NDArray[np.uint8], board: Board, ids: NDArray[np.int32], points: Floats) -> float:
    """Median width in pixels of the edges half way between neighbouring corners: contrast by steepest step.

    1 to 2 is sharp; it grows with defocus and with motion across the edge.
    """
    import cv2

    across, _ = board.corner_grid
    place = {int(i): n for n, i in enumerate(ids)}
    pairs = [
        (n, place[other])
        for i, n in place.items()
        for other in ((i + 1 if (i + 1) % across else -1), i + across)
        if other in place
    ]
    if len(pairs) < 4:
        return float("nan")
    a, b = (points[[pair[k] for pair in pairs[:: max(1, len(pairs) // 40)]]] for k in (0, 1))
    along = b - a
    length = np.linalg.norm(along, axis=1)
    # Across the edge, as far as nothing else begins, every quarter of a pixel.
    reach = max(float(np.median((0.9 * _gap(board) or 0.3) * length)), 2.0)
    across_edge = np.stack([-along[:, 1], along[:, 0]], axis=1) / length[:, None]
    steps = np.arange(-reach, reach + 0.01, 0.25)
    where = ((a + b)[:, None] / 2 + steps[None, :, None] * across_edge[:, None]).astype(np.float32)
    profile = cv2.remap(grey, where[..., 0], where[..., 1], cv2.INTER_LINEAR).astype(np.float32)
    steepest = np.abs(profile[:, 4:] - profile[:, :-4]).max(axis=1)
    contrast = profile.max(axis=1) - profile.min(axis=1)
    clear = contrast > 20
    if np.count_nonzero(clear) < 4:
        return float("nan")
    return float(np.median(contrast[clear] / np.maximum(steepest[clear], 1e-6)))
