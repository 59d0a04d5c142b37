"""How much two cameras, or one camera and its uncertainty, differ over the picture.

Two cameras are compared as mrcal does (mrcal.secretsauce.net, "cross-validation"): intrinsics can only be
known up to a small turn of the camera, which the poses of a calibration take up. So the turn that brings
both closest over the whole picture is taken out first, for points far away. The camera itself is in
`recordings.camera_model`, because episodes carry it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError
from recordings.camera_model import COEFFICIENTS, MAP_SIZE, CameraModel, Floats, Model, project

__all__ = [
    "COEFFICIENTS",
    "MAP_SIZE",
    "CameraModel",
    "Model",
    "project",
    "projection_difference",
    "projection_sigma",
    "rotation_matrix",
    "turn_derivative",
]


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
