"""From pictures and recordings to sightings of a device: where a picture was taken from, a marker in it, the
direction of a sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_detect import Detection, Detector
from calibration.pose_board import NOISE_PX, board_tilts
from calibration.pose_model import Floats
from calibration.room_devices import AIM_DEG, HELD_M, Heard, Held, Pointed, Surroundings
from calibration.room_frame import (
    FEWEST_CORNERS,
    MOST_PLACE_M,
    MOST_TURN_DEG,
    MicrophonePlace,
    board_motion,
    chosen,
    in_room,
    standpoints,
)
from dsp.errors import CheckFailed, InputError

_SAME_PLACE_PX = 3.0  # corners where the frame's camera sees them: the camera was not moved
_MARKER_PX = 0.3  # usual noise of a lone marker's corners
LEAST_CONFIDENCE, LEAST_STEADY = 0.3, 0.5
MOST_DOA_SIGMA_DEG = 10.0


# ------------------------------------------------------------------ pictures


def seen_from(
    around: Surroundings, board: Board, detection: Detection | None, name: str
) -> tuple[int, str | None]:
    """The number of the standpoint from which a picture was taken, and a warning if it had to be assumed.

    Where the board is seen where the frame's camera sees it, it is the frame's standpoint; where it is seen
    elsewhere, a new one is added to `around`; where it is not seen the camera is taken not to have moved.
    Raises CheckFailed when the board is seen too badly to say from where.
    """
    if detection is None or len(detection) < FEWEST_CORNERS:
        return 0, f"{name}: the board is not seen; the camera is taken not to have moved since the frame"
    points = board.corners_m[detection.ids]
    expected = around.standpoints[0].pixels(
        around.camera, points @ around.board.rotation.T + around.board.origin(board)
    )
    off = np.linalg.norm(expected - detection.points_px, axis=1)
    if float(np.median(np.nan_to_num(off, nan=1e6))) < _SAME_PLACE_PX * around.camera.width_px / 1280:
        return 0, None
    found = chosen(in_room(standpoints(points, detection.points_px, around.camera), board, around.board))
    sigma = np.sqrt(np.diag(found.total(around.camera_covariance)))
    turn, place = float(np.degrees(sigma[:3].max())), float(sigma[3:].max())
    if turn > 2 * MOST_TURN_DEG or place > 2 * MOST_PLACE_M:
        two = "two tilts of the board fit; " if found.tilts == 2 else ""
        raise CheckFailed(
            f"{name}: {two}where it was taken from is known to {turn:.1f} degrees and {100 * place:.0f} cm only"
            " (take it nearer to the board, looking at it from 20 to 50 degrees aside)"
        )
    around.standpoints.append(found)
    return len(around.standpoints) - 1, None


def held_marker(
    around: Surroundings, at: int, object_m: Floats, pixels: Floats, name: str, sigma_m: float = HELD_M
) -> Held:
    """A marker or board held onto the device: the middle of its points (n, 3) is where the device is."""
    noise = _MARKER_PX if len(object_m) == 4 else NOISE_PX
    middle = object_m.mean(axis=0)
    tilts = board_tilts(object_m, pixels, around.camera)
    rotation, place, information, error = tilts[0]
    covariance, by_camera = board_motion(object_m, around.camera, rotation, place, information, error, noise)
    point = rotation @ middle + place
    # Of the middle: the turn about the board's origin moves it.
    lever = np.concatenate([-_cross(rotation @ middle), np.eye(3)], axis=1)
    spread = lever @ covariance @ lever.T
    if len(tilts) > 1:
        apart = tilts[1][0] @ middle + tilts[1][1] - point
        if float(np.linalg.norm(apart)) < 0.1:  # both tilts have nearly the same middle
            spread = spread + np.outer(apart, apart) / 4
    return Held(at, point, (spread + spread.T) / 2, lever @ by_camera, sigma_m, name)


def pointing_marker(
    around: Surroundings,
    at: int,
    object_m: Floats,
    pixels: Floats,
    name: str,
    sigma_deg: float = AIM_DEG,
) -> Pointed:
    """A marker whose top edge points at the device: the ray from its middle along its own upward axis.

    Raises CheckFailed when two tilts of the marker fit, for then so do two rays.
    """
    noise = _MARKER_PX if len(object_m) == 4 else NOISE_PX
    tilts = board_tilts(object_m, pixels, around.camera)
    rotation, place, information, error = tilts[0]
    floor = 2 * len(object_m) * noise**2
    if len(tilts) > 1 and tilts[1][3] + floor < 2.56 * (error + floor):
        turn = float(np.degrees(np.arccos(np.clip(rotation[:, 1] @ tilts[1][0][:, 1], -1, 1))))
        if turn > 2.0:
            raise CheckFailed(
                f"{name}: two tilts of the marker fit, which point {turn:.0f} degrees apart (use a larger"
                " marker, or hold it nearer to the camera)"
            )
    covariance, by_camera = board_motion(object_m, around.camera, rotation, place, information, error, noise)
    middle = rotation @ object_m.mean(axis=0)
    shift = np.eye(6)
    shift[3:, :3] = -_cross(middle)
    return Pointed(
        at, place + middle, -rotation[:, 1], shift @ covariance @ shift.T, shift @ by_camera, sigma_deg, name
    )


def _cross(v: Floats) -> Floats:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0.0]])


class MarkerFinder:
    """Finds a marker in pictures that also show the room's board.

    words: "4x4_50 60mm" (an ArUco dictionary and the side of the black square) or a board's words.
    """

    def __init__(self, words: str, room_board: Board, marker_id: int | None = None) -> None:
        self.words, self.marker_id = words, marker_id
        self._detector: Any
        self.board: Board | None = None
        first = words.strip().lower().split()
        if first and first[0] in ("charuco", "chessboard"):
            self.board = Board.parse(words)
            if self.board.kind == "chessboard":
                raise InputError("a chessboard looks the same upside down; use a ChArUco board or a marker")
            self._detector = Detector(self.board)
            return
        from calibration.board import _length_m, aruco_dictionary

        if len(first) != 2 or not first[1][:1].isdigit() or first[1].isdigit():
            raise InputError(
                f'a marker is written like "4x4_50 60mm" (dictionary, side of its square), not {words!r}'
            )
        import cv2

        self.side_m = _length_m(first[1])
        parameters = cv2.aruco.DetectorParameters()
        parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
        self._detector = cv2.aruco.ArucoDetector(aruco_dictionary(first[0]), parameters)
        shared = room_board.dictionary and room_board.dictionary == first[0].removeprefix("dict_")
        self._taken = set(range(int(room_board.cells().max()) + 1)) if shared else set()

    def find(self, grey: NDArray[np.uint8], name: str) -> tuple[Floats, Floats]:
        """Points (n, 3) of the marker, and their pixels (n, 2).

        Raises CheckFailed when it is not seen, or more than one is and none was named.
        """
        if self.board is not None:
            seen = self._detector.find(grey)
            if seen is None or len(seen) < 6:
                raise CheckFailed(f"{name}: the board that is held is not seen (show it whole and sharp)")
            return self.board.corners_m[seen.ids], seen.points_px
        corners, ids, _ = self._detector.detectMarkers(grey)
        found = {
            int(i): np.asarray(c, np.float64).reshape(4, 2)
            for i, c in zip(np.ravel(ids) if ids is not None else (), corners, strict=False)
            if int(i) not in self._taken
        }
        if self.marker_id is not None:
            found = {i: c for i, c in found.items() if i == self.marker_id}
        if len(found) != 1:
            what = "no marker is seen" if not found else f"markers {sorted(found)} are seen"
            raise CheckFailed(f"{name}: {what} (show one marker {self.words}, or name it with --marker-id)")
        half = self.side_m / 2
        outline = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
        return outline, next(iter(found.values()))


# ------------------------------------------------------------------ sound


def heard(foa: NDArray[np.float32], fs: int, at: int | MicrophonePlace, name: str) -> Heard:
    """The direction of a recording's one sound, (frames, 4) AmbiX.

    The clip's direction is `dsp.steady_direction`; the windows of `dsp.estimate_doa` must agree with it.
    Raises CheckFailed for a sound that is diffuse, of several directions or silent.
    """
    import dsp

    clip = dsp.steady_direction(foa, fs)
    if not np.isfinite(clip.azimuth_deg):
        raise CheckFailed(
            f"{name}: it holds no sound that has a direction (record the device while it sounds)"
        )
    direction = dsp.direction_to_unit(clip.azimuth_deg, clip.elevation_deg)
    windows = dsp.estimate_doa(foa, fs)
    active = windows.active & np.isfinite(windows.azimuth_deg)
    near = 0.0
    if active.any():
        each = dsp.direction_to_unit(windows.azimuth_deg[active], windows.elevation_deg[active])
        near = float(np.mean(each @ direction > np.cos(np.radians(20.0))))
    if clip.confidence < LEAST_CONFIDENCE or near < LEAST_STEADY or clip.uncertainty_deg > MOST_DOA_SIGMA_DEG:
        raise CheckFailed(
            f"{name}: the sound's direction is not sure: confidence {clip.confidence:.2f} "
            f"({LEAST_CONFIDENCE:g} is needed), {100 * near:.0f} % of its windows agree "
            "(let only the device sound, go nearer to it, record 5 to 10 seconds)"
        )
    # 68 % of the errors are within uncertainty_deg: 1.51 sigma of each of two components.
    return Heard(at, np.asarray(direction, np.float64), float(clip.uncertainty_deg) / 1.51, name)


def read_recording(path: Path, format_name: str | None) -> tuple[NDArray[np.float32], int]:
    """AmbiX and rate of a sound file. Raises InputError."""
    from calibration.pose_files import read_sound

    sound = read_sound(path, format_name)
    return sound.foa, sound.fs
