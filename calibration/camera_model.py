"""The camera as a function: points to pixels with all derivatives, pixels back to rays, and how much two
cameras, or one camera and its uncertainty, differ over the picture.

The models are those of OpenCV, ROS and Kalibr: `radtan` (k1 k2 p1 p2; Brown 1966), `plumb_bob` (and k3) and
`rational_polynomial` (and k4 k5 k6). They are written out here, so that a result does not depend on the
OpenCV that is installed; the tests hold them against `cv2.projectPoints`.

Two cameras are compared as mrcal does (mrcal.secretsauce.net, "cross-validation"): intrinsics can only be
known up to a small turn of the camera, which the poses of a calibration take up. So the turn that brings
both closest over the whole picture is taken out first, for points far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

Floats = NDArray[np.float64]
Model = Literal["radtan", "plumb_bob", "rational_polynomial"]
COEFFICIENTS: dict[str, tuple[str, ...]] = {
    "radtan": ("k1", "k2", "p1", "p2"),
    "plumb_bob": ("k1", "k2", "p1", "p2", "k3"),
    "rational_polynomial": ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"),
}
# Points of the maps over the picture: columns, rows.
MAP_SIZE = (16, 10)


@dataclass(frozen=True, slots=True)
class CameraModel:
    """Intrinsics of a camera. parameters: (n,) fx, fy, cx, cy, then the coefficients of the model."""

    width_px: int
    height_px: int
    model: Model
    parameters: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """Names of `parameters`."""
        return ("fx", "fy", "cx", "cy", *COEFFICIENTS[self.model])

    @property
    def matrix(self) -> Floats:
        """Camera matrix (3, 3)."""
        fx, fy, cx, cy = self.parameters[:4]
        return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])

    @property
    def distortion(self) -> Floats:
        """Coefficients in OpenCV's order."""
        return self.parameters[4:].copy()

    @property
    def hfov_deg(self) -> float:
        """Horizontal field of view in degrees, with the distortion."""
        middle = self.parameters[3]
        x, y = self.rays(np.array([[-0.5, middle], [self.width_px - 0.5, middle]])).T
        rays = np.stack([x, y, np.ones(2)], axis=1)
        rays /= np.linalg.norm(rays, axis=1)[:, None]
        return float(np.degrees(np.arccos(np.clip(rays[0] @ rays[1], -1, 1))))

    def to_fields(self) -> dict[str, Any]:
        """What a result file says of a camera; keys in docs/calibration.md."""
        return {
            "width_px": self.width_px,
            "height_px": self.height_px,
            "model": self.model,
            **dict(zip(self.names, self.parameters, strict=True)),
            "camera_matrix": self.matrix,
            "distortion_coefficients": self.distortion,
            "hfov_deg": self.hfov_deg,
        }

    def project(self, points: ArrayLike) -> Floats:
        """Pixels (..., 2) of points (..., 3) in the camera's frame; nan for what is not in front of it."""
        p = np.asarray(points, dtype=np.float64)
        depth = np.where(p[..., 2] > 0, p[..., 2], np.nan)
        pixels, _, _ = project(self.parameters, p[..., 0] / depth, p[..., 1] / depth)
        return pixels

    def rays(self, pixels: ArrayLike) -> Floats:
        """Undistorted (x / z, y / z), (n, 2), of pixels (n, 2), by Newton's method.

        nan where no ray leads to that pixel: a distortion that folds back within the picture.
        """
        target = np.asarray(pixels, dtype=np.float64).reshape(-1, 2)
        # From the middle outwards in four steps: near the rim a single start may not converge.
        centre = self.parameters[2:4]
        guess = np.zeros_like(target)
        with np.errstate(all="ignore"):
            for share in (0.4, 0.7, 0.9, 1.0):
                goal = centre + share * (target - centre)
                for _ in range(25):
                    seen, by_ray, _ = project(self.parameters, guess[:, 0], guess[:, 1])
                    step = _solve2(by_ray, goal - seen)
                    guess = guess + step
                    if np.nanmax(np.abs(step), initial=0.0) < 1e-13:
                        break
            seen, by_ray, _ = project(self.parameters, guess[:, 0], guess[:, 1])
            det = by_ray[:, 0, 0] * by_ray[:, 1, 1] - by_ray[:, 0, 1] * by_ray[:, 1, 0]
            # Beyond the fold the picture is turned inside out: seen twice, or from behind.
            upright = (det > 0) & (by_ray[:, 0, 0] + by_ray[:, 1, 1] > 0)
            good = (np.abs(seen - target).max(1) < 1e-6) & upright
        return np.where(good[:, None], guess, np.nan)

    def map_pixels(self) -> Floats:
        """Pixels (rows * columns, 2) of the maps: the middles of a `MAP_SIZE` grid over the picture."""
        columns, rows = MAP_SIZE
        u = (np.arange(columns) + 0.5) / columns * self.width_px - 0.5
        v = (np.arange(rows) + 0.5) / rows * self.height_px - 0.5
        uu, vv = np.meshgrid(u, v)
        return np.stack([uu.ravel(), vv.ravel()], axis=1)


def project(parameters: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Pixels of normalised points x = X/Z, y = Y/Z (...), with derivatives.

    Returns (pixels (..., 2), d pixels / d (x, y) (..., 2, 2), d pixels / d parameters (..., 2, n)).
    """
    fx, fy, cx, cy, k1, k2, p1, p2 = parameters[:8]
    k3 = parameters[8] if len(parameters) > 8 else 0.0
    rational = len(parameters) > 9
    k4, k5, k6 = parameters[9:12] if rational else (0.0, 0.0, 0.0)
    r2 = x * x + y * y
    r4, r6 = r2 * r2, r2 * r2 * r2
    top = 1 + k1 * r2 + k2 * r4 + k3 * r6
    bottom = 1 + k4 * r2 + k5 * r4 + k6 * r6
    radial = top / bottom
    xd = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    yd = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    # d radial / d r2
    slope = ((k1 + 2 * k2 * r2 + 3 * k3 * r4) - radial * (k4 + 2 * k5 * r2 + 3 * k6 * r4)) / bottom
    by_ray = np.empty((*np.shape(x), 2, 2))
    cross = 2 * slope * x * y + 2 * p1 * x + 2 * p2 * y
    by_ray[..., 0, 0] = fx * (radial + 2 * slope * x * x + 2 * p1 * y + 6 * p2 * x)
    by_ray[..., 0, 1] = fx * cross
    by_ray[..., 1, 0] = fy * cross
    by_ray[..., 1, 1] = fy * (radial + 2 * slope * y * y + 6 * p1 * y + 2 * p2 * x)
    by_parameter = np.zeros((*np.shape(x), 2, len(parameters)))
    by_parameter[..., 0, 0], by_parameter[..., 1, 1] = xd, yd
    by_parameter[..., 0, 2] = by_parameter[..., 1, 3] = 1.0
    for column, power in ((4, r2), (5, r4), (8, r6))[: 3 if len(parameters) > 8 else 2]:
        by_parameter[..., 0, column] = fx * x * power / bottom
        by_parameter[..., 1, column] = fy * y * power / bottom
    by_parameter[..., 0, 6], by_parameter[..., 1, 6] = fx * 2 * x * y, fy * (r2 + 2 * y * y)
    by_parameter[..., 0, 7], by_parameter[..., 1, 7] = fx * (r2 + 2 * x * x), fy * 2 * x * y
    if rational:
        for column, power in ((9, r2), (10, r4), (11, r6)):
            by_parameter[..., 0, column] = -fx * x * radial * power / bottom
            by_parameter[..., 1, column] = -fy * y * radial * power / bottom
    pixels = np.stack([fx * xd + cx, fy * yd + cy], axis=-1)
    return pixels, by_ray, by_parameter


def _solve2(matrix: Floats, right: Floats) -> Floats:
    """Solutions (n, 2) of n systems of two equations."""
    a, b, c, d = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1]
    det = a * d - b * c
    return np.stack([d * right[:, 0] - b * right[:, 1], a * right[:, 1] - c * right[:, 0]], 1) / det[:, None]


def turn_derivative(by_ray: Floats, x: Floats, y: Floats) -> Floats:
    """d pixels / d small turn of the camera (n, 2, 3) for rays (x, y, 1) far away."""
    # A turn w moves the ray by w x ray; the normalised point moves by that less the change of depth.
    moved = np.empty((len(x), 2, 3))
    moved[:, 0, 0], moved[:, 0, 1], moved[:, 0, 2] = -x * y, 1 + x * x, -y
    moved[:, 1, 0], moved[:, 1, 1], moved[:, 1, 2] = -(1 + y * y), x * y, x
    return np.einsum("nij,njk->nik", by_ray, moved)


def projection_sigma(
    camera: CameraModel, covariance: Floats, seen: NDArray[np.bool_] | None = None, worst: bool = True
) -> Floats:
    """Standard uncertainty of projection in pixels at `map_pixels`: (rows, columns), in its worst direction,
    or with worst=False the root mean square length of the error.

    The covariance (n, n) of the parameters, through the projection of points far away, after the turn that a
    change of the parameters implies was taken out. seen: (rows, columns) where that turn is fitted, the part
    of the picture in which the board was; else the whole. nan where the model gives no ray.
    """
    rays = camera.rays(camera.map_pixels())
    x, y = rays.T
    _, by_ray, by_parameter = project(camera.parameters, x, y)
    turn = turn_derivative(by_ray, x, y)
    good = np.isfinite(x)
    if seen is not None and np.count_nonzero(good & seen.ravel()) >= 3:
        good &= seen.ravel()
    flat_turn, flat_parameter = turn[good].reshape(-1, 3), by_parameter[good].reshape(-1, len(covariance))
    taken = np.linalg.lstsq(flat_turn, flat_parameter, rcond=None)[0]
    left = by_parameter - turn @ taken
    spread = left @ covariance @ np.swapaxes(left, 1, 2)
    columns, rows = MAP_SIZE
    if not worst:
        return np.sqrt(spread[:, 0, 0] + spread[:, 1, 1]).reshape(rows, columns)
    mean = (spread[:, 0, 0] + spread[:, 1, 1]) / 2
    half = np.hypot((spread[:, 0, 0] - spread[:, 1, 1]) / 2, spread[:, 0, 1])
    return np.sqrt(np.maximum(mean + half, 0.0)).reshape(rows, columns)


def projection_difference(
    first: CameraModel, second: CameraModel, seen: NDArray[np.bool_] | None = None
) -> Floats:
    """By how many pixels (rows, columns, 2) the second camera projects the first's far points elsewhere, at
    `first.map_pixels()`, after the turn that brings them closest over the picture, or over where `seen`.

    Raises InputError for cameras of different picture size.
    """
    if (first.width_px, first.height_px) != (second.width_px, second.height_px):
        raise InputError(
            f"cameras of {first.width_px}x{first.height_px} and {second.width_px}x{second.height_px} pixels "
            "cannot be compared"
        )
    pixels = first.map_pixels()
    rays = first.rays(pixels)
    good = np.isfinite(rays[:, 0])
    used = np.ones(np.count_nonzero(good), bool)
    if seen is not None and np.count_nonzero(good & seen.ravel()) >= 3:
        used = seen.ravel()[good]
    turned = np.c_[rays[good], np.ones(len(used))]
    for _ in range(8):
        x, y = turned[used, 0] / turned[used, 2], turned[used, 1] / turned[used, 2]
        now, by_ray, _ = project(second.parameters, x, y)
        step = np.linalg.lstsq(
            turn_derivative(by_ray, x, y).reshape(-1, 3), (pixels[good][used] - now).ravel(), rcond=None
        )[0]
        turned = turned @ rotation_matrix(step).T
        if np.abs(step).max() < 1e-13:
            break
    now, _, _ = project(second.parameters, turned[:, 0] / turned[:, 2], turned[:, 1] / turned[:, 2])
    difference = np.full(pixels.shape, np.nan)
    difference[good] = now - pixels[good]
    columns, rows = MAP_SIZE
    return difference.reshape(rows, columns, 2)


def rotation_matrix(vector: ArrayLike) -> Floats:
    """Rotation (3, 3) of a rotation vector (radians; Rodrigues)."""
    v = np.asarray(vector, dtype=np.float64)
    angle = float(np.linalg.norm(v))
    cross = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    if angle < 1e-8:
        return np.asarray(np.eye(3) + cross + cross @ cross / 2)
    return np.asarray(
        np.eye(3) + np.sin(angle) / angle * cross + (1 - np.cos(angle)) / angle**2 * (cross @ cross)
    )
