"""The least-squares fit behind a camera calibration: all poses and the intrinsics at once.

Own Levenberg-Marquardt with exact derivatives and the Schur complement over the poses (Triggs et al. 2000,
"Bundle adjustment"). Own, because OpenCV's stops after a fixed number of steps, gives no covariance between
parameters, and its solver changed between 4.14 and 5; run to the bottom, the answer depends on neither.
OpenCV only makes the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.camera_model import COEFFICIENTS, CameraModel, Model, project, rotation_matrix
from dsp.errors import CheckFailed

Floats = NDArray[np.float64]
_STEPS = 200
# Stop when the sum of squares and every parameter have settled to this.
_SETTLED = 1e-13


@dataclass(frozen=True, slots=True)
class Observation:
    """Corners of one view: board points (n, 3) in metres and pixels (n, 2).

    bow: (n, 2) by how much each corner rises when the middle of the board rises by 1, for a board bent along
    x and along y.
    """

    board_m: Floats
    pixels: Floats
    bow: Floats


def bow_of(corners_m: Floats, size_m: tuple[float, float]) -> Floats:
    """(n, 2) parabolas over a board: 1 in its middle, 0 at its left and right (upper and lower) edge."""
    return np.asarray(1 - (2 * corners_m[:, :2] / np.asarray(size_m) - 1) ** 2)


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted camera.

    rotations (views, 3, 3), translations (views, 3): board to camera. residuals: per view (n, 2), measured
    less projected. covariance: (n, n) of the parameters with the noise found. noise_px: standard deviation
    of one coordinate of a corner, from the residuals and the degrees of freedom. bow_m: height (2,) of the
    board's middle over its edges, bent along x and y, with its uncertainty; zeros for a board taken as flat.
    """

    camera: CameraModel
    rotations: Floats
    translations: Floats
    residuals: list[Floats]
    covariance: Floats
    noise_px: float
    bow_m: Floats
    bow_sigma_m: Floats

    @property
    def view_rms_px(self) -> Floats:
        """(views,) root mean square length of the residuals of each view."""
        return np.array([np.sqrt((r**2).sum(1).mean()) for r in self.residuals])

    @property
    def rms_px(self) -> float:
        """Root mean square length of all residuals: OpenCV's reprojection error."""
        joined = np.concatenate(self.residuals)
        return float(np.sqrt((joined**2).sum(1).mean()))


def fit_camera(
    views: Sequence[Observation],
    width_px: int,
    height_px: int,
    model: Model,
    start: CameraModel | None = None,
    bow_m: Floats | None = None,
) -> Fit:
    """Fit intrinsics and poses, and with `bow_m` (a start, (2,)) how far the board is bent.

    Raises CheckFailed when there is no minimum to be found.
    """
    if start is None:
        start = _start(views, width_px, height_px, model)
    return _Problem(views, start, bow_m).solve(intrinsics=True, bow=bow_m is not None)


def fit_poses(views: Sequence[Observation], camera: CameraModel, bow_m: Floats | None = None) -> Fit:
    """Only the poses, with camera and board as they are: the error of views that had no part in a fit."""
    return _Problem(views, camera, bow_m).solve(intrinsics=False, bow=False)


def _start(views: Sequence[Observation], width: int, height: int, model: Model) -> CameraModel:
    """Focal length from the homographies of the views, principal point in the middle, no distortion."""
    import cv2

    guess = cv2.initCameraMatrix2D(
        [v.board_m.astype(np.float32) for v in views],
        [v.pixels.astype(np.float32) for v in views],
        (width, height),
        0,
    )
    focal = float(np.sqrt(abs(guess[0, 0] * guess[1, 1])))
    middle = [(width - 1) / 2, (height - 1) / 2]
    plain = np.zeros(len(COEFFICIENTS[model]))
    likely = [focal] if np.isfinite(focal) and 0.3 * width < focal < 20 * width else []
    best: tuple[float, CameraModel] | None = None
    for candidate in likely or [0.5 * width, 0.8 * width, 1.2 * width, 2.0 * width, 4.0 * width]:
        camera = CameraModel(
            width, height, model, np.array([candidate, candidate, *middle, *plain], dtype=np.float64)
        )
        try:
            error = fit_poses(views, camera).rms_px
        except CheckFailed:
            continue
        if best is None or error < best[0]:
            best = (error, camera)
    if best is None:
        raise CheckFailed("no start for the calibration: is this the board that was printed?")
    return best[1]


class _Problem:
    """Observations of all views in flat arrays, and one solver for both uses."""

    def __init__(self, views: Sequence[Observation], camera: CameraModel, bow_m: Floats | None) -> None:
        self.camera = camera
        self.count = len(camera.parameters)
        self.bow = np.zeros(2) if bow_m is None else np.asarray(bow_m, dtype=np.float64)
        self.shapes = np.concatenate([v.bow for v in views])
        self.counts = np.array([len(v.pixels) for v in views])
        self.view = np.repeat(np.arange(len(views)), self.counts)
        self.first = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        self.board = np.concatenate([v.board_m for v in views])
        self.pixels = np.concatenate([v.pixels for v in views])
        poses = [_start_pose(v, camera) for v in views]
        self.rotations = np.stack([rotation for rotation, _ in poses])
        self.translations = np.stack([translation for _, translation in poses])

    def solve(self, intrinsics: bool, bow: bool) -> Fit:
        # One vector for what all views share: the camera, then the board's bow.
        parameters = np.concatenate([self.camera.parameters, self.bow])
        free = np.concatenate([np.full(self.count, intrinsics), np.full(2, bow)])
        rotations, translations = self.rotations, self.translations
        residual, by_parameter, by_pose = self._linearise(parameters, rotations, translations)
        cost, damping = float((residual**2).sum()), 1e-3
        for _ in range(_STEPS):
            blocks = self._blocks(residual, by_parameter[:, :, free], by_pose)
            settled = improved = False
            while damping < 1e12:
                try:
                    free_step, pose_step = self._step(blocks, damping)
                except np.linalg.LinAlgError:
                    damping *= 10
                    continue
                step = np.zeros_like(parameters)
                step[free] = free_step
                new_parameters = parameters + step
                new_rotations = np.stack(
                    [rotation_matrix(w) @ r for w, r in zip(pose_step[:, :3], rotations, strict=True)]
                )
                new_translations = translations + pose_step[:, 3:]
                new = self._linearise(new_parameters, new_rotations, new_translations)
                new_cost = float((new[0] ** 2).sum())
                # At the bottom rounding alone decides whether the sum rises; the step is better than that.
                if np.isfinite(new_cost) and new_cost <= cost * (1 + 1e-12):
                    scale = np.abs(parameters) + 1e-3
                    settled = bool(
                        cost - new_cost <= _SETTLED * cost
                        and np.abs(step / scale).max() < 1e-10
                        and np.abs(pose_step).max() < 1e-10 * (1 + np.abs(translations).max())
                    )
                    parameters, rotations, translations = new_parameters, new_rotations, new_translations
                    (residual, by_parameter, by_pose), cost = new, new_cost
                    damping = max(damping / 10, 1e-15)
                    improved = True
                    break
                damping *= 10
            if settled or not improved:
                break
        if not np.isfinite(cost):
            raise CheckFailed("the calibration does not converge: is this the board that was printed?")
        return self._finish(parameters, rotations, translations, residual, by_parameter, by_pose, free)

    def _linearise(
        self, parameters: Floats, rotations: Floats, translations: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Residuals (n, 2), derivatives by parameter (n, 2, p) and by pose (n, 2, 6)."""
        turning = rotations[self.view]
        board = self.board.copy()
        board[:, 2] += self.shapes @ parameters[self.count :]
        turned = np.einsum("nij,nj->ni", turning, board)
        points = turned + translations[self.view]
        depth = np.where(points[:, 2] > 1e-6, points[:, 2], np.nan)
        x, y = points[:, 0] / depth, points[:, 1] / depth
        with np.errstate(all="ignore"):
            seen, by_ray, by_camera = project(parameters[: self.count], x, y)
        by_point = np.empty((len(x), 2, 3))
        by_point[:, :, :2] = by_ray / depth[:, None, None]
        by_point[:, :, 2] = -(by_point[:, :, 0] * x[:, None] + by_point[:, :, 1] * y[:, None])
        by_bow = np.einsum("nij,nj->ni", by_point, turning[:, :, 2])[:, :, None] * self.shapes[:, None, :]
        by_parameter = np.concatenate([by_camera, by_bow], axis=2)
        by_pose = np.empty((len(x), 2, 6))
        # A turn w of the board about its origin moves a point by w x turned.
        by_pose[:, :, :3] = np.cross(turned[:, None, :], by_point)
        by_pose[:, :, 3:] = by_point
        return self.pixels - seen, by_parameter, by_pose

    def _blocks(
        self, residual: Floats, by_parameter: Floats, by_pose: Floats
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Normal equations in blocks: parameters, mixed, poses, and both right-hand sides."""
        a = np.einsum("nki,nkj->ij", by_parameter, by_parameter)
        b = np.add.reduceat(np.einsum("nki,nkj->nij", by_parameter, by_pose), self.first, axis=0)
        d = np.add.reduceat(np.einsum("nki,nkj->nij", by_pose, by_pose), self.first, axis=0)
        right = np.einsum("nki,nk->i", by_parameter, residual)
        pose_right = np.add.reduceat(np.einsum("nki,nk->ni", by_pose, residual), self.first, axis=0)
        return a, b, d, right, pose_right

    def _step(
        self, blocks: tuple[Floats, Floats, Floats, Floats, Floats], damping: float
    ) -> tuple[Floats, Floats]:
        a, b, d, right, pose_right = blocks
        d = d + damping * np.einsum("vii->vi", d)[:, :, None] * np.eye(6)
        if len(a) == 0:
            return np.zeros(0), np.linalg.solve(d, pose_right[..., None])[..., 0]
        a = a + damping * np.diag(np.diag(a))
        inverse_times_b = np.linalg.solve(d, np.swapaxes(b, 1, 2))
        schur = a - np.einsum("vij,vjk->ik", b, inverse_times_b)
        reduced = right - np.einsum("vji,vj->i", inverse_times_b, pose_right)
        # Scaled: focal lengths and coefficients differ by many powers of ten.
        scale = 1 / np.sqrt(np.maximum(np.diag(a), 1e-300))
        step = scale * np.linalg.solve(schur * np.outer(scale, scale), reduced * scale)
        rest = pose_right - np.einsum("vij,i->vj", b, step)
        return step, np.linalg.solve(d, rest[..., None])[..., 0]

    def _finish(
        self,
        parameters: Floats,
        rotations: Floats,
        translations: Floats,
        residual: Floats,
        by_parameter: Floats,
        by_pose: Floats,
        free: NDArray[np.bool_],
    ) -> Fit:
        unknown = 6 * len(self.counts) + int(np.count_nonzero(free))
        freedom = 2 * len(residual) - unknown
        variance = float((residual**2).sum()) / max(freedom, 1)
        covariance = np.zeros((len(parameters), len(parameters)))
        if free.any():
            a, b, d, _, _ = self._blocks(residual, by_parameter[:, :, free], by_pose)
            schur = a - np.einsum("vij,vjk->ik", b, np.linalg.solve(d, np.swapaxes(b, 1, 2)))
            scale = 1 / np.sqrt(np.maximum(np.diag(schur), 1e-300))
            # A direction that is not determined at all must come out as very uncertain, not as exact.
            values, vectors = np.linalg.eigh(schur * np.outer(scale, scale))
            inverse = (vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T
            found = variance * inverse * np.outer(scale, scale)
            covariance[np.ix_(free, free)] = (found + found.T) / 2
        return Fit(
            CameraModel(
                self.camera.width_px, self.camera.height_px, self.camera.model, parameters[: self.count]
            ),
            rotations,
            translations,
            np.split(residual, self.first[1:]),
            covariance[: self.count, : self.count],
            float(np.sqrt(variance)),
            parameters[self.count :],
            np.sqrt(np.diag(covariance)[self.count :]),
        )


def _start_pose(view: Observation, camera: CameraModel) -> tuple[Floats, Floats]:
    """Pose of one planar view (Collins and Bartoli's IPPE, in OpenCV). Raises CheckFailed."""
    import cv2

    found, turn, shift = cv2.solvePnP(
        view.board_m, view.pixels.reshape(-1, 1, 2), camera.matrix, camera.distortion, flags=cv2.SOLVEPNP_IPPE
    )
    if not found or not np.isfinite(turn).all() or float(np.ravel(shift)[2]) <= 0:
        raise CheckFailed("no pose for a view: its corners do not lie as on the board")
    return rotation_matrix(np.ravel(turn)), np.ravel(shift).astype(np.float64)
