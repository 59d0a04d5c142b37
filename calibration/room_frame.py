"""The frame of a room from a fixed board: where the camera and the microphone are in it, and how surely.

A board fixed to a wall or laid on the floor says where the room is; a calibrated camera that sees it is
placed by its corners. Pictures taken from one and the same place are averaged corner by corner, so that what
they have in common (a corner pulled by its window, a board that is not flat) stays in the residuals and is
not averaged away on paper. Two things are kept apart in the uncertainty, because they are shared by
everything that is seen later from the same place: the noise of the corners, and the errors of the intrinsics,
which move camera and projection together.

The room: z up; where the board is and how it hangs is told in words (`BoardPlace`). A small turn w and shift
d of the camera mean p_room = exp(w) R p_camera + c + d.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.board import Board
from calibration.camera_detect import Detection
from calibration.camera_judge import Shortfall
from calibration.pose_board import NOISE_PX, board_tilts
from calibration.pose_model import Floats, cross_matrix, rotation_angle_deg
from calibration.result import CalibrationResult
from dsp.errors import CheckFailed, InputError
from recordings.camera_model import CameraModel, project
from recordings.geometry import CV_FROM_AMBIX

FEWEST_CORNERS = 8
MOST_TURN_DEG, MOST_PLACE_M = 1.0, 0.05
"""One sigma of the camera in the room beyond which there is no frame: 1 degree is 5 cm at 3 m."""

_COMMON_PX = 0.05  # least sigma of a corner that was averaged over many pictures
_MOVED_PX = 1.5  # a picture whose corners lie so far from the others' was taken from elsewhere
_TWO_FIT = 1.6  # a second tilt whose error is within this of the best one's is possible as well
_APART_DEG = 1.0  # tilts closer than this are one
_WORDS = {
    "up": (0.0, 0.0, 1.0), "down": (0.0, 0.0, -1.0), "+x": (1.0, 0.0, 0.0), "-x": (-1.0, 0.0, 0.0),
    "+y": (0.0, 1.0, 0.0), "-y": (0.0, -1.0, 0.0),
}  # fmt: skip


class WeakFrame(CheckFailed):
    """The pictures give no frame that can be stood for. `shortfalls` says why and what to do."""

    def __init__(self, shortfalls: list[Shortfall], frame: RoomFrame | None = None) -> None:
        self.shortfalls, self.frame = shortfalls, frame
        super().__init__("no room frame: " + "; ".join(f"{s.problem} ({s.remedy})" for s in shortfalls))


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


@dataclass(frozen=True)
class Averaged:
    """Corners of one board seen from one place: ids (n,), points_px (n, 2) means; used and left: names of the
    pictures; scatter_px: of one corner between pictures, None for one picture."""

    ids: NDArray[np.intp]
    points_px: Floats
    used: list[str]
    left: list[tuple[str, str]]
    scatter_px: float | None


def average(seen: Sequence[tuple[str, Detection]]) -> Averaged:
    """Mean corners of pictures taken from one place; those taken from elsewhere are left out and named.

    Raises InputError without a picture, WeakFrame when most pictures disagree.
    """
    if not seen:
        raise InputError("no picture shows the board")
    count = 1 + max(int(d.ids.max()) for _, d in seen)
    table = np.full((len(seen), count, 2), np.nan)
    for row, (_, detection) in zip(table, seen, strict=True):
        row[detection.ids] = detection.points_px
    # The picture that most others agree with is the reference, not the mean, which one stray picture moves.
    apart = np.full((len(seen), len(seen)), np.inf)
    for i in range(len(seen)):
        for j in range(len(seen)):
            both = np.isfinite(table[i, :, 0] + table[j, :, 0])
            if both.sum() >= 4:
                apart[i, j] = np.median(np.linalg.norm(table[i, both] - table[j, both], axis=1))
    near = apart < _MOVED_PX
    use = near[int(np.argmax(near.sum(axis=1)))]
    left = [
        (name, "taken from another place than the others: camera or board moved")
        for (name, _), keep in zip(seen, use, strict=True)
        if not keep
    ]
    if 2 * int(use.sum()) <= len(seen) and len(seen) > 1:
        raise WeakFrame(
            [
                Shortfall(
                    f"only {int(use.sum())} of {len(seen)} pictures were taken from the same place",
                    "fix camera and board, and take all pictures of the frame without touching them",
                )
            ]
        )
    kept = table[use]
    often = np.isfinite(kept[:, :, 0]).sum(axis=0) * 2 >= len(kept)
    ids = np.flatnonzero(often)
    mean = np.nanmean(kept[:, ids], axis=0)
    scatter = None
    if len(kept) > 1:
        scatter = float(np.sqrt(np.nanmean((kept[:, ids] - mean) ** 2) * len(kept) / (len(kept) - 1)))
    used = [name for (name, _), keep in zip(seen, use, strict=True) if keep]
    return Averaged(ids, mean, used, left, scatter)


@dataclass(frozen=True)
class RoomFrame:
    """The room frame: where the board is, where the camera sees it from, and the microphone with it.

    residuals_px: (n, 2) of the averaged corners; corner_ids (n,).
    """

    board: Board
    place: BoardPlace
    standpoint: Standpoint
    camera: CameraModel
    camera_covariance: Floats | None
    mount: Mount | None
    corners: Averaged
    residuals_px: Floats
    warnings: list[str]

    @property
    def covariance(self) -> Floats:
        """(6, 6) of the camera in the room, with the intrinsics and the board's own place."""
        at = self.standpoint
        return at.total(self.camera_covariance) + self.place.covariance_of_pose(at.centre_m)

    @property
    def microphone(self) -> MicrophonePlace | None:
        """Where the microphone is, its covariance with everything; None without a pose."""
        if self.mount is None:
            return None
        found = microphone_at(self.standpoint, self.mount, self.camera_covariance)
        return replace(found, covariance=found.covariance + self.place.covariance_of_pose(found.place_m))


def find_frame(
    seen: Sequence[tuple[str, Detection]],
    board: Board,
    place: BoardPlace,
    camera: CameraModel,
    camera_covariance: Floats | None = None,
    mount: Mount | None = None,
    near_m: ArrayLike | None = None,
) -> RoomFrame:
    """The room frame from pictures of a fixed board, all taken from one place.

    near_m: about where the camera is, to choose between two tilts that fit. Raises InputError, and WeakFrame
    when the camera's place cannot be stood for.
    """
    if board.kind != "charuco":
        raise InputError(
            "a chessboard looks the same after half a turn, which would turn the room; use a ChArUco board"
        )
    corners = average(seen)
    if len(corners.ids) < FEWEST_CORNERS:
        raise WeakFrame(
            [
                Shortfall(
                    f"{len(corners.ids)} corners of the board are seen; {FEWEST_CORNERS} are needed",
                    "let the camera see the whole board, sharp and bright",
                )
            ]
        )
    points = board.corners_m[corners.ids]
    noise = max(_COMMON_PX, NOISE_PX / np.sqrt(len(corners.used)))
    found = in_room(standpoints(points, corners.points_px, camera, noise), board, place)
    standpoint = chosen(found, near_m)
    in_the_room = points @ place.rotation.T + place.origin(board)
    residuals = standpoint.pixels(camera, in_the_room) - corners.points_px
    frame = RoomFrame(
        board, place, standpoint, camera, camera_covariance, mount, corners, residuals, []
    )  # fmt: skip
    shortfalls, warnings = _judge(frame, len(found))
    frame = replace(frame, warnings=warnings)
    if shortfalls:
        raise WeakFrame(shortfalls, frame)
    return frame


def _judge(frame: RoomFrame, fitting: int) -> tuple[list[Shortfall], list[str]]:
    at, warnings, shortfalls = frame.standpoint, [], []
    sigma = np.sqrt(np.diag(at.total(frame.camera_covariance)))
    turn_deg, place_m = float(np.degrees(sigma[:3].max())), float(sigma[3:].max())
    nearer = (
        "bring the camera nearer to the board, print it larger, or look at it from 20 to 50 degrees aside"
    )
    if at.tilts == 2:
        nearer += "; or say about where the camera is (--camera-near)"
    two = " (two tilts of the board fit these corners)" if at.tilts == 2 else ""
    if turn_deg > MOST_TURN_DEG:
        shortfalls.append(
            Shortfall(
                f"the camera's orientation in the room is known to {turn_deg:.1f} degrees, "
                f"{MOST_TURN_DEG:g} is needed{two}",
                nearer,
            )
        )
    if place_m > MOST_PLACE_M:
        shortfalls.append(
            Shortfall(
                f"the camera's place in the room is known to {100 * place_m:.0f} cm, "
                f"{100 * MOST_PLACE_M:g} cm is needed{two}",
                nearer,
            )
        )
    limit = 1.0 * frame.camera.width_px / 1280
    if at.rms_px > limit:
        shortfalls.append(
            Shortfall(
                f"the corners miss the board by {at.rms_px:.1f} px RMS, {limit:.1f} px is the limit",
                "use the calibration of this camera at this picture size, the board's true measures, and"
                " a flat board",
            )
        )
    if at.tilts == 2 and not shortfalls:
        warnings.append("two tilts of the board fit its corners; their difference is in the uncertainty")
    if fitting == 2 and at.tilts == 1:
        warnings.append("two tilts of the board fit its corners; the one near --camera-near was taken")
    if frame.camera_covariance is None:
        warnings.append("the camera's result has no covariance: its uncertainty is not counted")
    if len(frame.corners.used) == 1:
        warnings.append("one picture only: three to five average out the noise of the corners")
    if frame.place.facing[2] > 0.7 and at.centre_m[2] < frame.place.at_m[2]:
        shortfalls.append(
            Shortfall("the camera would be below a board that faces up", "check --board-facing")
        )
    return shortfalls, warnings
