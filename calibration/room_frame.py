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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.board import Board
from calibration.camera_detect import Detection
from calibration.camera_judge import Shortfall
from calibration.pose_board import NOISE_PX
from calibration.pose_model import Floats
from calibration.room_frame_pose import (
    BoardPlace,
    MicrophonePlace,
    Mount,
    Standpoint,
    chosen,
    in_room,
    microphone_at,
    standpoints,
)
from dsp.errors import CheckFailed, InputError
from recordings.camera_model import CameraModel

FEWEST_CORNERS = 8
MOST_TURN_DEG, MOST_PLACE_M = 1.0, 0.05
"""One sigma of the camera in the room beyond which there is no frame: 1 degree is 5 cm at 3 m."""

_COMMON_PX = 0.05  # least sigma of a corner that was averaged over many pictures
_MOVED_PX = 1.5  # a picture whose corners lie so far from the others' was taken from elsewhere


class WeakFrame(CheckFailed):
    """The pictures give no frame that can be stood for. `shortfalls` says why and what to do."""

    def __init__(self, shortfalls: list[Shortfall], frame: RoomFrame | None = None) -> None:
        self.shortfalls, self.frame = shortfalls, frame
        super().__init__("no room frame: " + "; ".join(f"{s.problem} ({s.remedy})" for s in shortfalls))


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
