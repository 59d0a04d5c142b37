"""The camera as a function: points to pixels with all derivatives, and pixels back to rays.

The models are those of OpenCV, ROS and Kalibr: `radtan` (k1 k2 p1 p2; Brown 1966), `plumb_bob` (and k3) and
`rational_polynomial` (and k4 k5 k6). They are written out here, so that a result does not depend on the
OpenCV that is installed; the tests hold them against `cv2.projectPoints`.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    @classmethod
    def nominal(cls, width_px: int, height_px: int, hfov_deg: float) -> CameraModel:
        """A pinhole camera with square pixels that sees `hfov_deg` over the full width, without distortion.

        Pixel centres lie at whole numbers (OpenCV): the middle of the picture is ((w - 1) / 2, (h - 1) / 2).
        """
        focal = 0.5 * width_px / np.tan(np.radians(hfov_deg) / 2)
        middle = [(width_px - 1) / 2, (height_px - 1) / 2]
        return cls(width_px, height_px, "radtan", np.array([focal, focal, *middle, 0.0, 0.0, 0.0, 0.0]))

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

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> CameraModel:
        """The camera that a result file of kind "camera" holds in `result` (`to_fields`).

        Raises InputError when something is missing or is no number.
        """
        try:
            names = ("fx", "fy", "cx", "cy", *COEFFICIENTS[fields["model"]])
            parameters = np.array([float(fields[name]) for name in names])
            camera = cls(int(fields["width_px"]), int(fields["height_px"]), fields["model"], parameters)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the camera's result lacks or garbles {error}; calibrate the camera again"
            ) from None
        if not np.isfinite(parameters).all() or camera.parameters[:2].min() <= 0 or camera.width_px < 1:
            raise InputError(f"the camera's result is no camera: {dict(zip(names, parameters, strict=True))}")
        return camera

    @property
    def rim(self) -> float:
        """Tangent of the widest angle off the axis that the picture shows. Beyond it a distortion may fold
        back into the picture; infinite without distortion, and where no ray leads to a corner."""
        if not self.parameters[4:].any():
            return float("inf")
        right, bottom = self.width_px - 0.5, self.height_px - 0.5
        corners = self.rays(np.array([[-0.5, -0.5], [right, -0.5], [-0.5, bottom], [right, bottom]]))
        widest = np.hypot(*corners.T).max()
        return float(widest) if np.isfinite(widest) else float("inf")

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
