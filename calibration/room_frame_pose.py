"""Poses of board, camera and microphone in the room, with their covariance (see `room_frame`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from calibration.board import Board
from calibration.pose_board import NOISE_PX, board_tilts
from calibration.pose_model import Floats, cross_matrix, rotation_angle_deg
from calibration.result import CalibrationResult
from dsp.errors import InputError
from recordings.camera_model import CameraModel, project
from recordings.geometry import CV_FROM_AMBIX

_TWO_FIT = 1.6  # a second tilt whose error is within this of the best one's is possible as well
_APART_DEG = 1.0  # tilts closer than this are one
_WORDS = {
    "up": (0.0, 0.0, 1.0), "down": (0.0, 0.0, -1.0), "+x": (1.0, 0.0, 0.0), "-x": (-1.0, 0.0, 0.0),
    "+y": (0.0, 1.0, 0.0), "-y": (0.0, -1.0, 0.0),
}  # fmt: skip


def direction_of_words(text: str, what: str = "a direction") -> Floats:
    """Unit vector (3,) of "up", "down", "+x", "-x", "+y", "-y", degrees from +x towards +y, or three numbers.

    Raises InputError.
    """
    word = text.strip().lower()
    if word in _WORDS:
        return np.array(_WORDS[word])
    try:
        numbers = [float(part) for part in re.split(r"[\s,]+", word)]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and abs(numbers[0]) <= 360:
        angle = np.radians(numbers[0])
        return np.array([np.cos(angle), np.sin(angle), 0.0])
    if len(numbers) == 3 and np.isfinite(numbers).all() and np.linalg.norm(numbers) > 1e-6:
        return np.array(numbers) / np.linalg.norm(numbers)
    raise InputError(
        f"{what} is one of {', '.join(_WORDS)}, an angle in degrees from +x towards +y, or three numbers; "
        f"not {text!r}"
    )


@dataclass(frozen=True)
class BoardPlace:
    """Where the board is: at_m, the outer corner of its pattern at the lower left as one reads it; the
    directions in which it faces and its top points. at_sigma_m, turn_sigma_deg: how well that is known; 0
    when the board is what defines the room."""

    at_m: Floats
    facing: Floats
    top: Floats
    at_sigma_m: float = 0.0
    turn_sigma_deg: float = 0.0

    @classmethod
    def of(
        cls,
        at_m: ArrayLike = (0.0, 0.0, 0.0),
        facing: str = "up",
        top: str = "",
        at_sigma_m: float = 0.0,
        turn_sigma_deg: float = 0.0,
    ) -> BoardPlace:
        """From numbers and words; top: up for a board on a wall, +y for one on floor or ceiling.

        Raises InputError.
        """
        at = np.asarray(at_m, np.float64)
        if at.shape != (3,) or not np.isfinite(at).all() or np.abs(at).max() > 100:
            raise InputError(f"the board's place is three numbers in metres up to 100, not {at_m!r:.80}")
        if not (0 <= at_sigma_m <= 1 and 0 <= turn_sigma_deg <= 20):
            raise InputError(
                f"the board's place is known to {at_sigma_m!r} m and {turn_sigma_deg!r} degrees;"
                " expected 0 to 1 m and 0 to 20 degrees"
            )
        normal = direction_of_words(facing, "where the board faces")
        flat = abs(normal[2]) > 0.7
        upwards = direction_of_words(top or ("+y" if flat else "up"), "where the board's top points")
        across = float(normal @ upwards)
        if abs(across) > np.sin(np.radians(20)):
            raise InputError(
                f"a board that faces {facing!r} cannot have its top towards {top or upwards.tolist()!r}: the"
                " two must be at right angles"
            )
        upwards = upwards - across * normal
        return cls(at, normal, upwards / np.linalg.norm(upwards), at_sigma_m, turn_sigma_deg)

    @property
    def rotation(self) -> Floats:
        """(3, 3) from the board's frame (x right, y down, z into it) to the room."""
        return np.stack([np.cross(self.top, self.facing), -self.top, -self.facing], axis=1)

    def origin(self, board: Board) -> Floats:
        """The board's own origin, the outer corner at the top left, in the room."""
        return self.at_m + board.size_m[1] * self.top

    def covariance_at(self, points_m: ArrayLike) -> Floats:
        """(3 n, 3 n) that the board's place adds to points (n, 3): a turn about `at_m`, and a shift."""
        arm = np.asarray(points_m, np.float64).reshape(-1, 3) - self.at_m
        jacobian = np.concatenate([-cross_matrix(arm), np.broadcast_to(np.eye(3), (len(arm), 3, 3))], axis=2)
        sigma = np.repeat([np.radians(self.turn_sigma_deg), self.at_sigma_m], 3)
        flat = jacobian.reshape(-1, 6) * sigma
        return np.asarray(flat @ flat.T)

    def covariance_of_pose(self, place_m: ArrayLike) -> Floats:
        """(6, 6) that the board's place adds to the turn and place (3,) of something in the room."""
        jacobian = np.eye(6)
        jacobian[3:, :3] = -cross_matrix(np.asarray(place_m, np.float64) - self.at_m)
        flat = jacobian * np.repeat([np.radians(self.turn_sigma_deg), self.at_sigma_m], 3)
        return np.asarray(flat @ flat.T)


@dataclass(frozen=True)
class Standpoint:
    """A camera in the room: p_room = rotation @ p_camera + centre_m.

    covariance: (6, 6) of its turn about the room's axes (rad) and its place (m) from the noise of the
    corners. by_camera: (6, n) how both move with the camera's n parameters. tilts: 2 when two tilts of the
    board fit; their difference is then part of the covariance.
    """

    rotation: Floats
    centre_m: Floats
    covariance: Floats
    by_camera: Floats
    rms_px: float = 0.0
    corners: int = 0
    tilts: int = 1

    def total(self, camera_covariance: Floats | None) -> Floats:
        """(6, 6) with the uncertainty of the intrinsics (n, n)."""
        if camera_covariance is None:
            return self.covariance
        return np.asarray(self.covariance + self.by_camera @ camera_covariance @ self.by_camera.T)

    @property
    def pose(self) -> Floats:
        """`T_room_camera` (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = self.rotation, self.centre_m
        return pose

    def pixels(self, camera: CameraModel, points_m: ArrayLike) -> Floats:
        """Pixels (n, 2) of room points (n, 3); nan behind the camera."""
        return camera.project((np.asarray(points_m, np.float64) - self.centre_m) @ self.rotation)


def standpoints(
    points_m: Floats, pixels: Floats, camera: CameraModel, noise_px: float = NOISE_PX
) -> list[Standpoint]:
    """The camera relative to a flat board, in the board's own frame: the better tilt first, and the other one
    when it fits nearly as well. points_m: (n, 3) with z = 0; pixels: (n, 2). Raises InputError."""
    found = board_tilts(points_m, pixels, camera)
    n = len(points_m)
    best = found[0][3]
    floor = 2 * n * noise_px**2
    kept: list[Standpoint] = []
    for rotation, place, information, error in found:
        if kept and error + floor > _TWO_FIT**2 * (best + floor):
            continue
        if kept and rotation_angle_deg(rotation, found[0][0]) < _APART_DEG:
            continue
        covariance, by_camera = board_motion(points_m, camera, rotation, place, information, error, noise_px)
        # Camera in the board instead of board in the camera; so do their small changes.
        into = rotation.T
        turned = np.zeros((6, 6))
        turned[:3, :3], turned[3:, 3:] = -into, -into
        turned[3:, :3] = -cross_matrix(into @ place) @ into
        covariance = turned @ covariance @ turned.T
        kept.append(
            Standpoint(
                into,
                -into @ place,
                (covariance + covariance.T) / 2,
                turned @ by_camera,
                float(np.sqrt(error / n)),
                n,
            )
        )
    return kept


def board_motion(
    points: Floats,
    camera: CameraModel,
    rotation: Floats,
    place: Floats,
    information: Floats,
    error: float,
    noise_px: float,
) -> tuple[Floats, Floats]:
    """Of a board's pose as `board_tilts` gives it: its covariance (6, 6) from the noise of the corners, and
    d pose / d camera parameters (6, n): the pose follows them, so that the pixels stay."""
    sigma = max(noise_px, float(np.sqrt(error / max(2 * len(points) - 6, 1))))
    covariance = np.linalg.inv(information) * sigma**2
    turned = points @ rotation.T
    p = turned + place
    _, by_ray, by_parameter = project(camera.parameters, p[:, 0] / p[:, 2], p[:, 1] / p[:, 2])
    to_ray = np.zeros((len(p), 2, 3))
    to_ray[:, 0, 0] = to_ray[:, 1, 1] = 1 / p[:, 2]
    to_ray[:, :, 2] = -p[:, :2] / p[:, 2:] ** 2
    by_point = by_ray @ to_ray
    by_pose = np.concatenate([-by_point @ cross_matrix(turned), by_point], axis=2).reshape(-1, 6)
    by_camera = -np.linalg.solve(information, by_pose.T @ by_parameter.reshape(-1, by_parameter.shape[2]))
    return (covariance + covariance.T) / 2, by_camera


def in_room(found: list[Standpoint], board: Board, place: BoardPlace) -> list[Standpoint]:
    """Standpoints in the board's frame, as ones in the room."""
    turn, origin = place.rotation, place.origin(board)
    both = np.kron(np.eye(2), turn)
    return [
        replace(
            s,
            rotation=turn @ s.rotation,
            centre_m=turn @ s.centre_m + origin,
            covariance=both @ s.covariance @ both.T,
            by_camera=both @ s.by_camera,
        )
        for s in found
    ]


def chosen(found: list[Standpoint], near_m: ArrayLike | None = None) -> Standpoint:
    """One standpoint of the one or two that fit: the only one; else that which is where the camera is said to
    be (near_m, room frame), if the other one is clearly elsewhere; else the better one, its covariance
    enlarged by the difference of both and `tilts` 2."""
    best = found[0]
    if len(found) == 1:
        return best
    if near_m is not None:
        away = [float(np.linalg.norm(s.centre_m - np.asarray(near_m, np.float64))) for s in found]
        if min(away) < 0.5 * max(away):
            return found[int(np.argmin(away))]
    other = found[1]
    turn = other.rotation @ best.rotation.T
    angle = np.radians(rotation_angle_deg(other.rotation, best.rotation))
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis *= angle / max(float(np.linalg.norm(axis)), 1e-12)
    apart = np.concatenate([axis, other.centre_m - best.centre_m])
    return replace(best, covariance=best.covariance + np.outer(apart, apart) / 4, tilts=2)


@dataclass(frozen=True)
class Mount:
    """The microphone on the camera: p_microphone = rotation @ (p_camera - lever_arm_m). covariance: (6, 6) of
    a turn about the microphone's axes (rad) and of the lever arm (m, camera frame)."""

    rotation: Floats
    lever_arm_m: Floats
    covariance: Floats

    @classmethod
    def of(cls, result: CalibrationResult) -> Mount:
        """From a result file of kind "pose". Raises InputError when something is missing."""
        try:
            rotation = np.asarray(result.result["rotation_matrix"], np.float64)
            arm = np.asarray(result.result["lever_arm_m"], np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the pose's result lacks or garbles {error}; calibrate the pose again"
            ) from None
        if rotation.shape != (3, 3) or arm.shape != (3,) or not np.allclose(rotation @ rotation.T, np.eye(3)):
            raise InputError("the pose's result holds no rotation and lever arm; calibrate the pose again")
        if result.covariance is None or len(result.covariance.parameters) < 6:
            raise InputError("the pose's result has no covariance; calibrate the pose again")
        return cls(rotation, arm, result.covariance.array()[:6, :6])


@dataclass(frozen=True)
class MicrophonePlace:
    """A microphone in the room: p_room = rotation @ p_microphone + place_m. covariance: (6, 6) of a turn
    about the room's axes (rad) and of the place (m)."""

    rotation: Floats
    place_m: Floats
    covariance: Floats

    @property
    def pose(self) -> Floats:
        """`T_room_microphone` (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = self.rotation, self.place_m
        return pose


def microphone_at(camera: Standpoint, mount: Mount, camera_covariance: Floats | None) -> MicrophonePlace:
    """The microphone in the room from the camera in the room and the microphone on the camera."""
    rotation = camera.rotation @ mount.rotation.T
    arm = camera.rotation @ mount.lever_arm_m
    by_camera = np.eye(6)
    by_camera[3:, :3] = -cross_matrix(arm)
    by_mount = np.zeros((6, 6))
    by_mount[:3, :3], by_mount[3:, 3:] = -rotation, camera.rotation
    total = camera.total(camera_covariance)
    covariance = by_camera @ total @ by_camera.T + by_mount @ mount.covariance @ by_mount.T
    return MicrophonePlace(rotation, camera.centre_m + arm, (covariance + covariance.T) / 2)


def angles_of(rotation: Floats, camera: bool = False) -> tuple[float, float, float]:
    """Yaw (from +x towards +y), pitch (up) and roll (right-hand side down) in degrees of a microphone's
    rotation into the room, or of a camera's (OpenCV axes)."""
    body = rotation @ CV_FROM_AMBIX if camera else rotation
    yaw, pitch = np.arctan2(body[1, 0], body[0, 0]), np.arcsin(np.clip(body[2, 0], -1, 1))
    roll = np.arctan2(body[2, 1], body[2, 2])
    return float(np.degrees(yaw)), float(np.degrees(pitch)), float(np.degrees(roll))
