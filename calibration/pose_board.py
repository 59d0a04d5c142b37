"""Where a board or a marker is in the camera's frame, and how well that is known.

The pose of a flat board from its corners: both solutions of IPPE (Collins and Bartoli, IJCV 109, 2014, in
OpenCV) are refined by least squares on the pixels. A small or distant board fits two tilts nearly alike: then
the difference of the two goes into the covariance instead of being guessed away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.board import Board
from calibration.camera_model import CameraModel, project
from calibration.pose_model import Floats, cross_matrix, rotation_from_vector
from calibration.result import CalibrationResult
from dsp.errors import InputError

NOISE_PX = 0.1
"""Least sigma of a corner: what refined corners of a sharp picture reach."""

_TWO_FIT = 1.6  # a second tilt whose error is within this of the best one's is possible as well


@dataclass(frozen=True)
class BoardPose:
    """p_camera = rotation @ p_board + place_m. covariance: (6, 6) of a small turn about the camera's axes
    (rad) and of the place (m). rms_px: of the corners. tilts: 2 when two tilts fit."""

    rotation: Floats
    place_m: Floats
    covariance: Floats
    rms_px: float
    corners: int
    tilts: int = 1


def camera_of(result: CalibrationResult) -> CameraModel:
    """The camera of a result file of kind "camera". Raises InputError when something is missing."""
    return CameraModel.from_fields(result.result)


def ray_of(camera: CameraModel, pixel: ArrayLike) -> Floats:
    """Unit vector (3,) of a pixel (2,). Raises InputError where the picture ends or no ray leads."""
    u, v = (float(value) for value in np.asarray(pixel, np.float64).ravel())
    if not (-0.5 <= u <= camera.width_px - 0.5 and -0.5 <= v <= camera.height_px - 0.5):
        raise InputError(
            f"pixel ({u:.1f}, {v:.1f}) lies outside the picture of {camera.width_px} x {camera.height_px}"
        )
    x, y = camera.rays(np.array([[u, v]]))[0]
    if not np.isfinite(x + y):
        raise InputError(f"no ray leads to pixel ({u:.1f}, {v:.1f}): the camera's distortion folds there")
    ray = np.array([x, y, 1.0])
    return np.asarray(ray / np.linalg.norm(ray))


def board_tilts(
    object_m: ArrayLike, pixels: ArrayLike, camera: CameraModel
) -> list[tuple[Floats, Floats, Floats, float]]:
    """The one or two poses of flat points (n, 3) with z = 0 seen at pixels (n, 2), the better one first:
    rotation, place, information matrix (6, 6) for pixels of unit sigma, squared error. Raises InputError."""
    import cv2

    points, seen = np.asarray(object_m, np.float64), np.asarray(pixels, np.float64)
    if len(points) < 4 or len(points) != len(seen):
        raise InputError(f"{len(seen)} corners are too few for a board's pose; 4 are needed")
    flat = camera.rays(seen)
    if not np.isfinite(flat).all():
        raise InputError("a corner lies where the camera's model has no ray")
    # IPPE wants the points around the origin.
    middle = points.mean(axis=0)
    _, turns, places, _ = cv2.solvePnPGeneric(
        points - middle, flat[:, None, :], np.eye(3), None, flags=cv2.SOLVEPNP_IPPE
    )
    found = []
    for turn, place in zip(turns, places, strict=True):
        rotation = np.asarray(cv2.Rodrigues(turn)[0], np.float64)
        start = np.asarray(place, np.float64).ravel() - rotation @ middle
        if np.all((points @ rotation.T + start)[:, 2] > 0):
            found.append(_refine(points, seen, camera, rotation, start))
    if not found:
        raise InputError("the corners fit no board in front of the camera")
    return sorted(found, key=lambda item: item[3])


def pose_of_points(
    object_m: ArrayLike, pixels: ArrayLike, camera: CameraModel, noise_px: float = NOISE_PX
) -> BoardPose:
    """Pose of flat points (n, 3) with z = 0 seen at pixels (n, 2), n at least 4. Raises InputError."""
    import cv2

    found = board_tilts(object_m, pixels, camera)
    rotation, place, information, error = found[0]
    n = len(np.asarray(object_m))
    rms = float(np.sqrt(error / n))
    sigma = max(noise_px, float(np.sqrt(error / max(2 * n - 6, 1))))
    covariance = np.linalg.inv(information) * sigma**2
    tilts = 1
    if len(found) > 1:
        other, at, _, second = found[1]
        floor = 2 * n * noise_px**2
        if second + floor < _TWO_FIT**2 * (error + floor):
            turn = cv2.Rodrigues(other @ rotation.T)[0].ravel()
            apart = np.concatenate([turn, at - place])
            if np.linalg.norm(turn) > np.radians(2.0):
                covariance, tilts = covariance + np.outer(apart, apart) / 4, 2
    return BoardPose(rotation, place, np.asarray((covariance + covariance.T) / 2), rms, n, tilts)


def _refine(
    points: Floats, seen: Floats, camera: CameraModel, rotation: Floats, place: Floats
) -> tuple[Floats, Floats, Floats, float]:
    """Least squares on the pixels: rotation, place, information matrix, squared error."""
    error, damping = np.inf, 1e-6
    information = np.eye(6)
    step = np.zeros(6)
    for _ in range(20):
        turned_by = rotation_from_vector(step[:3]) @ rotation
        moved_to = place + step[3:]
        turned = points @ turned_by.T
        p = turned + moved_to
        ok = bool(np.all(p[:, 2] > 1e-6))
        if ok:
            pixels, by_ray, _ = project(camera.parameters, p[:, 0] / p[:, 2], p[:, 1] / p[:, 2])
            left = pixels - seen
            now = float(np.sum(left**2))
        if ok and now <= error:
            gain = error - now
            rotation, place, error = turned_by, moved_to, now
            to_ray = np.zeros((len(p), 2, 3))
            to_ray[:, 0, 0] = to_ray[:, 1, 1] = 1 / p[:, 2]
            to_ray[:, :, 2] = -p[:, :2] / p[:, 2:] ** 2
            by_point = by_ray @ to_ray
            jacobian = np.concatenate([-by_point @ cross_matrix(turned), by_point], axis=2).reshape(-1, 6)
            information = jacobian.T @ jacobian
            gradient = jacobian.T @ left.ravel()
            damping = max(damping / 10, 1e-12)
            if gain < 1e-10 * (1 + now):
                break
        else:
            damping *= 20
            if damping > 1e6:
                break
        step = -np.linalg.solve(information + damping * np.diag(np.diag(information)), gradient)
    return rotation, place, information, error


class BoardFinder:
    """Finds the board, or one ArUco marker, in pictures of one camera.

    A chessboard looks the same upside down, and then its loudspeaker would be on the wrong side: it is taken
    to be upright, its rows going down in the picture. A ChArUco board may be turned as one likes.
    marker: dictionary of a lone marker ("4x4_50") instead of a board; marker_m: its side, 0 when unknown:
    then only its direction is told.
    """

    def __init__(
        self, camera: CameraModel, board: Board | None = None, marker: str = "", marker_m: float = 0.0
    ) -> None:
        if (board is None) == (not marker):
            raise InputError("name the board (--board), or the dictionary of the marker (--marker), not both")
        self.camera, self.board, self.marker_m = camera, board, marker_m
        self._detector: Any
        if board is not None:
            from calibration.camera_detect import Detector

            self._detector = Detector(board)
        else:
            import cv2

            from calibration.board import aruco_dictionary

            parameters = cv2.aruco.DetectorParameters()
            parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
            self._detector = cv2.aruco.ArucoDetector(aruco_dictionary(marker), parameters)

    def find(self, grey: NDArray[np.uint8]) -> BoardPose | Floats | None:
        """The pose; of a marker without a known side its ray (3,); None when it is not seen.

        Raises InputError for a picture of another size than the camera's.
        """
        size = (self.camera.width_px, self.camera.height_px)
        if (grey.shape[1], grey.shape[0]) != size:
            raise InputError(
                f"a picture of {grey.shape[1]} x {grey.shape[0]} pixels; the camera was calibrated at"
                f" {size[0]} x {size[1]}"
            )
        if self.board is not None:
            seen = self._detector.find(grey)
            if seen is None or len(seen) < 6:
                return None
            corners_m = self.board.corners_m
            pose = pose_of_points(corners_m[seen.ids], seen.points_px, self.camera)
            if self.board.kind == "chessboard" and pose.rotation[1, 1] < 0:
                pose = pose_of_points(corners_m[::-1][seen.ids], seen.points_px, self.camera)
            return pose
        corners, ids, _ = self._detector.detectMarkers(grey)
        if ids is None or np.size(ids) != 1:
            return None
        square = np.asarray(corners[0], np.float64).reshape(4, 2)
        if self.marker_m > 0:
            half = self.marker_m / 2
            outline = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
            return pose_of_points(outline, square, self.camera, 0.3)
        # The centre of the square is where its diagonals meet, also in perspective.
        a, b, c, d = square
        across = np.stack([c - a, b - d], axis=1)
        centre = a + np.linalg.solve(across, b - a)[0] * (c - a)
        return ray_of(self.camera, centre)
