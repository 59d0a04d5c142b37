"""From pictures and recordings to sightings of a device: where a picture was taken from, a marker in it, the
direction of a sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.board import Board
from calibration.camera_detect import Detection
from calibration.direct_arrival import Arrival, foa_arrival
from calibration.pose_board import NOISE_PX, board_tilts
from calibration.pose_model import Floats
from calibration.room_devices_sightings import AIM_DEG, HELD_M, Heard, Held, Pointed, Surroundings
from calibration.room_frame import FEWEST_CORNERS, MOST_PLACE_M, MOST_TURN_DEG
from calibration.room_frame_board import FarDetector, enlarged, far_parameters
from calibration.room_frame_pose import MicrophonePlace, board_motion, chosen, in_room, standpoints
from calibration.sweep import Sweep
from dsp.errors import CheckFailed, InputError

_SAME_PLACE_PX = 3.0  # corners where the frame's camera sees them: the camera was not moved
_MARKER_PX = 0.3  # usual noise of a lone marker's corners
LEAST_CONFIDENCE, LEAST_STEADY = 0.3, 0.5
MOST_DOA_SIGMA_DEG = 10.0
STEADY_DB = 4.0  # a sound whose level fluctuates less is a steady noise


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
            f"{name}: {two}its place is known to {turn:.1f} degrees and {100 * place:.0f} cm only"
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
            self._detector = FarDetector(self.board)
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
        far = far_parameters()
        far.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
        dictionary = aruco_dictionary(first[0])
        self._detector = cv2.aruco.ArucoDetector(dictionary, parameters)
        self._far = cv2.aruco.ArucoDetector(dictionary, far)
        shared = room_board.dictionary and room_board.dictionary == first[0].removeprefix("dict_")
        self._taken = set(range(int(room_board.cells().max()) + 1)) if shared else set()

    def find(self, grey: NDArray[np.uint8], name: str) -> tuple[Floats, Floats]:
        """Points (n, 3) of the marker, and their pixels (n, 2).

        Raises CheckFailed when it is not seen, or more than one is and none was named.
        """
        if self.board is not None:
            seen = self._detector.find(grey)
            if seen is None or len(seen) < 4:
                raise CheckFailed(f"{name}: the board that is held is not seen (show it whole and sharp)")
            return self.board.corners_m[seen.ids], seen.points_px
        found = self._squares(self._detector, grey)
        if not found:
            large, scale = enlarged(grey)
            found = {i: (c + 0.5) / scale - 0.5 for i, c in self._squares(self._far, large).items()}
        if len(found) != 1:
            what = "no marker is seen" if not found else f"markers {sorted(found)} are seen"
            raise CheckFailed(f"{name}: {what} (show one marker {self.words}, or name it with --marker-id)")
        half = self.side_m / 2
        outline = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
        return outline, next(iter(found.values()))

    def _squares(self, detector: Any, grey: NDArray[np.uint8]) -> dict[int, Floats]:
        """Corners (4, 2) of the markers that may be meant."""
        corners, ids, _ = detector.detectMarkers(grey)
        return {
            int(i): np.asarray(c, np.float64).reshape(4, 2)
            for i, c in zip(np.ravel(ids) if ids is not None else (), corners, strict=False)
            if int(i) not in self._taken and self.marker_id in (None, int(i))
        }


# ------------------------------------------------------------------ sound


def heard(foa: NDArray[np.float32], fs: int, at: int | MicrophonePlace, name: str) -> Heard:
    """The direction of a recording's one sound, (frames, 4) AmbiX: a voice, music, beeps, or a steady noise.

    The clip's direction is `dsp.steady_direction`; the windows of `dsp.estimate_doa` must agree with it.
    Sounds with onsets give the direct sound away, a steady noise does not: from near reflections it is wrong
    by 5 degrees in the median, and gets a sigma over four times as large. Both sigmas were fitted on 60
    simulated rooms of RT60 0.3 to 0.5 s with sources anywhere (the estimator's own formula was fitted on
    talkers at the height of people). Raises CheckFailed for a sound that is diffuse, of several directions or
    silent.
    """
    import dsp

    clip = dsp.steady_direction(foa, fs)
    if not np.isfinite(clip.azimuth_deg):
        raise CheckFailed(f"{name}: no sound with a direction in it (record the device while it sounds)")
    direction = dsp.direction_to_unit(clip.azimuth_deg, clip.elevation_deg)
    windows = dsp.estimate_doa(foa, fs)
    active = windows.active & np.isfinite(windows.azimuth_deg)
    near = 0.0
    if active.any():
        each = dsp.direction_to_unit(windows.azimuth_deg[active], windows.elevation_deg[active])
        near = float(np.mean(each @ direction > np.cos(np.radians(20.0))))
    steady = _fluctuation_db(foa[:, 0], fs) < STEADY_DB
    u = float(clip.uncertainty_deg)
    # Of noise 2.1 u is the root mean square, but one in ten is off by more than 12 degrees.
    sigma = max(5.0, 3.0 * u) if steady else max(0.7, 0.48 * u**2)
    if clip.confidence < LEAST_CONFIDENCE or near < LEAST_STEADY or sigma > MOST_DOA_SIGMA_DEG:
        kind = "a steady noise, whose reflections count as much as itself; " if steady else ""
        raise CheckFailed(
            f"{name}: the sound's direction is not sure: {kind}confidence {clip.confidence:.2f} "
            f"({LEAST_CONFIDENCE:g} is needed), {100 * near:.0f} % of its windows agree "
            "(let only the device sound, go nearer to it, record 5 to 10 seconds; or knock on it: --knocks)"
        )
    return Heard(at, np.asarray(direction, np.float64), sigma, name + (" (steady noise)" if steady else ""))


def _fluctuation_db(w: NDArray[np.float32], fs: int) -> float:
    """Standard deviation of the level of 20 ms pieces: about 1 for noise of a fan, 7 to 10 for speech."""
    size = round(0.02 * fs)
    pieces = np.asarray(w[: len(w) // size * size], np.float64).reshape(-1, size)
    level = 10 * np.log10(np.mean(pieces**2, axis=1) + 1e-14)
    return float(level[level > level.max() - 40].std())


def heard_knocks(foa: NDArray[np.float32], fs: int, at: int | MicrophonePlace, name: str) -> Heard:
    """The direction of knocks on the device (or claps at it): the direct sound of each, by
    `calibration.direct_arrival`, and their weighted mean. All of them come by the same reflections, so their
    sigma is that of one. Raises CheckFailed when there are none or they disagree.
    """
    found = []
    for start in _knocks(foa[:, 0], fs):
        part = foa[max(0, start - round(0.1 * fs)) : start + round(0.12 * fs)]
        try:
            arrival = foa_arrival(part, fs)
        except InputError:
            continue
        if arrival.snr_db > 15:
            found.append(arrival)
    return _mean_arrival(found, at, name, "knock", "knock firmly, three times, with a second between")


def heard_sweep(
    foa: NDArray[np.float32], fs: int, sweep: Sweep, at: int | MicrophonePlace, name: str
) -> Heard:
    """The direction of sweeps that a phone at the device (or the device) plays, each deconvolved.

    Raises CheckFailed when there are none or they disagree.
    """
    from calibration.pose_files import Sound, sweep_arrivals

    found = []
    for _, response in sweep_arrivals(Sound(foa, fs), sweep):
        try:
            found.append(foa_arrival(response, fs))
        except InputError:
            continue
    return _mean_arrival(found, at, name, "sweep", "is --sweep the one that was played?")


def _mean_arrival(
    found: list[Arrival], at: int | MicrophonePlace, name: str, what: str, remedy: str
) -> Heard:
    if not found:
        raise CheckFailed(f"{name}: no {what} is heard clearly ({remedy})")
    units = np.array([a.direction for a in found])
    middle = np.median(units, axis=0)
    good = units @ (middle / max(float(np.linalg.norm(middle)), 1e-9)) > np.cos(np.radians(10.0))
    if 2 * int(good.sum()) <= len(found):
        raise CheckFailed(f"{name}: its {len(found)} {what}s come from different directions ({remedy})")
    sigma = np.array([a.sigma_deg for a in found])[good]
    mean = np.sum(units[good] / sigma[:, None] ** 2, axis=0)
    return Heard(at, mean / np.linalg.norm(mean), float(np.median(sigma)), f"{name} ({len(sigma)} {what}s)")


def _knocks(w: NDArray[np.float32], fs: int) -> list[int]:
    """Frames where something short begins that stands 20 dB out of what was before, a quarter of a second or
    more apart."""
    size = round(0.002 * fs)
    power = np.mean(np.asarray(w[: len(w) // size * size], np.float64).reshape(-1, size) ** 2, axis=1)
    top = power.max(initial=0.0)
    found: list[int] = []
    before = round(0.1 / 0.002)
    for k in range(1, len(power)):
        usual = float(np.median(power[max(0, k - before) : k]))
        loud = power[k] > 100 * usual and power[k] > 0.01 * top
        if loud and (not found or (k * size - found[-1]) > 0.25 * fs):
            found.append(k * size)
    return found


def read_recording(path: Path, format_name: str | None) -> tuple[NDArray[np.float32], int]:
    """AmbiX and rate of a sound file. Raises InputError."""
    from calibration.pose_files import read_sound

    sound = read_sound(path, format_name)
    return sound.foa, sound.fs
