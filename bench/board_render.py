"""Pictures of a calibration board with known truth: exact projection, light, blur, noise, 8 bits.

Every sample of a pixel is a ray of the true camera (distortion inverted to 1e-12), cut with the plane of the
board and looked up in the board's own geometry: no texture is warped, and the true corners come from the
projection, never from a detector. Light is linear until the end: reflectance times a lighting gradient, mean
over the pixel (64 samples of a rank-1 lattice), blur of the lens, sRGB, noise, rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from calibration.board import BLACK, Board

Floats = NDArray[np.float64]
SAMPLES = 64
DARK, BRIGHT, ROOM = 0.04, 0.80, 0.25
MARGIN = 0.6  # white around the pattern, in squares


@dataclass(frozen=True)
class Camera:
    """The true camera: OpenCV's pinhole with k1 k2 p1 p2 k3."""

    width: int
    height: int
    matrix: Floats
    distortion: Floats

    @classmethod
    def typical(cls, width: int = 1280, height: int = 720) -> Camera:
        """About 70 degrees across, off-centre, with clear barrel distortion and some tangential."""
        focal = 0.71 * width
        matrix = np.array(
            [[focal, 0, width * 0.508], [0, focal * 1.003, height * 0.489], [0, 0, 1.0]], dtype=np.float64
        )
        return cls(width, height, matrix, np.array([-0.28, 0.11, 0.0007, -0.0004, -0.022]))

    def project(self, points: Floats) -> Floats:
        """Pixels (n, 2) of points (n, 3) of the camera frame. Own formula, not OpenCV's code."""
        x, y = points[:, 0] / points[:, 2], points[:, 1] / points[:, 2]
        return self.pixels(np.stack(distort(x, y, self.distortion), axis=1))

    def pixels(self, normalised: Floats) -> Floats:
        """Pixels of distorted normalised coordinates (..., 2)."""
        k = self.matrix
        return np.stack(
            [k[0, 0] * normalised[..., 0] + k[0, 2], k[1, 1] * normalised[..., 1] + k[1, 2]], axis=-1
        )

    def rays(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Undistorted normalised x, y of pixels, by Newton's method to 1e-12."""
        k = self.matrix
        xd, yd = (u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1]
        x, y = xd.copy(), yd.copy()
        for _ in range(30):
            fx, fy = distort(x, y, self.distortion)
            h = 1e-7
            ax, ay = distort(x + h, y, self.distortion)
            bx, by = distort(x, y + h, self.distortion)
            a, b, c, d = (ax - fx) / h, (bx - fx) / h, (ay - fy) / h, (by - fy) / h
            ex, ey, det = xd - fx, yd - fy, a * d - b * c
            dx, dy = (d * ex - b * ey) / det, (a * ey - c * ex) / det
            x, y = x + dx, y + dy
            if max(np.abs(dx).max(), np.abs(dy).max()) < 1e-13:
                break
        return x, y


def distort(x: Floats, y: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Brown's model as OpenCV documents it: k1 k2 p1 p2 k3."""
    r2 = x * x + y * y
    radial = 1 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]))
    return (
        x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x),
        y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y,
    )


@dataclass(frozen=True)
class View:
    """A rendered picture and where every corner of the board truly is in it."""

    grey: NDArray[np.uint8]
    corners_px: Floats  # (n, 2), also of those outside
    rotation: Floats
    translation: Floats


class Renderer:
    """Renders one board with one camera; the rays of the camera are computed once."""

    def __init__(self, board: Board, camera: Camera, blur_px: float = 0.8, noise: float = 2.0) -> None:
        self.board, self.camera, self.blur_px, self.noise = board, camera, blur_px, noise
        v, u = np.mgrid[0 : camera.height + 1, 0 : camera.width + 1].astype(np.float64) - 0.5
        self._x, self._y = camera.rays(u, v)
        self._cells = board.cells()
        bits = board.marker_bits()
        self._bits = bits if len(bits) else np.zeros((1, 1, 1), np.uint8)

    @property
    def corner_rays(self) -> tuple[Floats, Floats]:
        """x and y of the rays (x, y, 1) through the corners of the pixels, (rows + 1, columns + 1)."""
        return self._x, self._y

    def view(
        self, rotation: Floats, translation: Floats, rng: np.random.Generator, light: Floats | None = None
    ) -> View:
        """The board at this pose (board to camera; metres). light: gradient (right, down) per picture."""
        import cv2

        board, camera = self.board, self.camera
        corners = camera.project(board.corners_m @ rotation.T + translation)
        normal = rotation[:, 2]
        linear = _cast(
            self._x, self._y, rotation, translation, normal, float(normal @ translation),
            board.square_m, board.marker_m, self._cells, self._bits, board.inverted,
        )  # fmt: skip
        slope = rng.uniform(-0.35, 0.35, 2) if light is None else light
        down, right = np.mgrid[-0.5 : 0.5 : camera.height * 1j, -0.5 : 0.5 : camera.width * 1j]
        linear *= (rng.uniform(0.6, 1.0) * (1 + slope[0] * right + slope[1] * down)).astype(np.float32)
        if self.blur_px > 0:
            linear = cv2.GaussianBlur(linear, (0, 0), self.blur_px, borderType=cv2.BORDER_REPLICATE)
        power = 1.055 * np.maximum(linear, 0) ** np.float32(1 / 2.4) - 0.055
        coded = np.where(linear <= 0.0031308, 12.92 * linear, power)
        noisy = 255 * coded + self.noise * rng.standard_normal(coded.shape, np.float32)
        return View(np.clip(np.rint(noisy), 0, 255).astype(np.uint8), corners, rotation, translation)


@numba.njit(cache=True)
def _zone(value, size):  # type: ignore[no-untyped-def]
    """0 before, 1 within, 2 after [0, size)."""
    return 0 if value < 0 else (1 if value < size else 2)


@numba.njit(cache=True)
def _region(  # type: ignore[no-untyped-def]
    rx, ry, rotation, translation, normal, height, square, marker, cells, bits, inverted
):
    """(number of the convex patch of the board that a ray hits, its reflectance); 0 is the room."""
    down, across = cells.shape
    side = bits.shape[1]
    depth = height / (normal[0] * rx + normal[1] * ry + normal[2])
    qx, qy, qz = depth * rx - translation[0], depth * ry - translation[1], depth - translation[2]
    bx = rotation[0, 0] * qx + rotation[1, 0] * qy + rotation[2, 0] * qz
    by = rotation[0, 1] * qx + rotation[1, 1] * qy + rotation[2, 1] * qz
    edge = MARGIN * square
    if depth <= 0 or _zone(bx + edge, across * square + 2 * edge) != 1:
        return 0, ROOM
    if _zone(by + edge, down * square + 2 * edge) != 1:
        return 0, ROOM
    i_zone, j_zone = _zone(by, down * square), _zone(bx, across * square)
    patch, white = 1 + 3 * i_zone + j_zone, True
    if i_zone == 1 and j_zone == 1:
        i, j = min(int(by / square), down - 1), min(int(bx / square), across - 1)
        cell = cells[i, j]
        white = cell != BLACK
        patch = 10 + (i * across + j) * (side + 2) * (side + 2)
        if cell >= 0:
            gap = (square - marker) / 2
            mx = (bx - j * square - gap) / marker * side
            my = (by - i * square - gap) / marker * side
            x_bit, y_bit = min(max(int(np.floor(mx)), -1), side), min(max(int(np.floor(my)), -1), side)
            patch += (y_bit + 1) * (side + 2) + x_bit + 1
            if 0 <= x_bit < side and 0 <= y_bit < side:
                white = bits[cell, y_bit, x_bit] == 1
    return patch, BRIGHT if white != inverted else DARK


@numba.njit(parallel=True, cache=True)
def _cast(  # type: ignore[no-untyped-def]
    x, y, rotation, translation, normal, height, square, marker, cells, bits, inverted
):
    """Mean reflectance of each pixel. x, y: rays of the corners of pixels, one more each way."""
    rows, columns = x.shape[0] - 1, x.shape[1] - 1
    out = np.empty((rows, columns), np.float32)
    patches = np.empty(x.shape, np.int32)
    values = np.empty(x.shape, np.float32)
    for r in numba.prange(rows + 1):
        for c in range(columns + 1):
            patches[r, c], values[r, c] = _region(
                x[r, c], y[r, c], rotation, translation, normal, height, square, marker, cells, bits, inverted
            )
    for r in numba.prange(rows):
        for c in range(columns):
            # A pixel whose four corners hit the same convex patch holds nothing else.
            first = patches[r, c]
            if patches[r, c + 1] == first and patches[r + 1, c] == first and patches[r + 1, c + 1] == first:
                out[r, c] = values[r, c]
                continue
            total = 0.0
            for s in range(SAMPLES):
                # Rank-1 lattice of the golden section: 64 different offsets both ways.
                fu, fv = (s + 0.5) / SAMPLES, (s * 0.6180339887498949 + 0.25) % 1.0
                a, b, d, e = (1 - fu) * (1 - fv), fu * (1 - fv), (1 - fu) * fv, fu * fv
                rx = a * x[r, c] + b * x[r, c + 1] + d * x[r + 1, c] + e * x[r + 1, c + 1]
                ry = a * y[r, c] + b * y[r, c + 1] + d * y[r + 1, c] + e * y[r + 1, c + 1]
                _, value = _region(
                    rx, ry, rotation, translation, normal, height, square, marker, cells, bits, inverted
                )
                total += value
            out[r, c] = total / SAMPLES
    return out


def rotation(tilt_x_deg: float, tilt_y_deg: float, roll_deg: float) -> Floats:
    """Board-to-camera rotation: rolled in its plane, then tilted about the camera's x and y axes."""
    a, b, c = np.radians([tilt_x_deg, tilt_y_deg, roll_deg])
    rx = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    ry = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    rz = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return np.asarray(rx @ ry @ rz, dtype=np.float64)


def good_set(renderer: Renderer, views: int, rng: np.random.Generator) -> list[View]:
    """Views as a careful person takes them: close, tilted, in the corners, some far, whole board seen."""
    board, camera = renderer.board, renderer.camera
    made: list[View] = []
    width, height = board.size_m
    grid = [(u, v) for v in (0.25, 0.5, 0.75) for u in (0.2, 0.4, 0.6, 0.8)]
    while len(made) < views:
        u, v = grid[len(made) % len(grid)]
        for _ in range(200):
            share = rng.uniform(0.38, 0.75)  # width of the board over width of the picture
            tilt = rng.uniform(12, 40)
            way = rng.uniform(0, 2 * np.pi)
            turn = rotation(tilt * np.cos(way), tilt * np.sin(way), rng.uniform(-25, 25))
            distance = camera.matrix[0, 0] * width / (share * camera.width)
            x, y = camera.rays(
                np.array([(u + rng.normal(0, 0.05)) * camera.width]),
                np.array([(v + rng.normal(0, 0.05)) * camera.height]),
            )
            shift = distance * np.array([x[0], y[0], 1.0]) - turn @ np.array([width / 2, height / 2, 0])
            edge = np.array([[0, 0, 0], [width, 0, 0], [0, height, 0], [width, height, 0.0]])
            placed = edge @ turn.T + shift
            if placed[:, 2].min() < 0.05:
                continue
            pixels = camera.project(placed)
            if (pixels > 4).all() and (pixels < [camera.width - 5, camera.height - 5]).all():
                made.append(renderer.view(turn, shift, rng))
                break
        else:
            u, v = 0.5, 0.5
            grid[len(made) % len(grid)] = (0.5, 0.5)
    return made
