"""Where things are and how they see and hear: camera intrinsics, the pose between microphone and camera, the
offset between sound and picture, the capsules, the room. Results are files with units and covariance.

Public names (loaded when they are first used):

- `Board`              a chessboard or ChArUco board, from one line of words
- `calibrate_camera`   intrinsics from pictures of a board, with uncertainties; refuses weak sets (`WeakSet`)
- `CameraCalibration`  what it found; `CameraModel`: the camera alone
- `solve_pose`         rotation and lever arm between camera and microphone from `Sighting`s, with a tape
                       measure as `Prior`; gives a `PoseFit` that says what it is worth
- `estimate_sync`      how late the sound is against the picture, from flashes and beeps
- `fit_capsules`       gains, delays, wiring and encoding of the microphone from known directions; gives a
                       `CapsuleFit` with the correction
- `Sweep`              an exponential sine sweep to be played
- `CalibrationResult`  the file in which every calibration ends; `load_result` reads it

The geometry that a rig file states by hand (yaw, pitch, position, field of view) is in `recordings.geometry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsp.lazy import lazy_package

if TYPE_CHECKING:
    from calibration.board import Board as Board
    from calibration.camera import CameraCalibration as CameraCalibration
    from calibration.camera import WeakSet as WeakSet
    from calibration.camera import calibrate_camera as calibrate_camera
    from calibration.camera_model import CameraModel as CameraModel
    from calibration.capsules_fit import CapsuleFit as CapsuleFit
    from calibration.capsules_fit import fit_capsules as fit_capsules
    from calibration.pose_model import Prior as Prior
    from calibration.pose_model import Sighting as Sighting
    from calibration.pose_solver import PoseFit as PoseFit
    from calibration.pose_solver import solve_pose as solve_pose
    from calibration.result import CalibrationResult as CalibrationResult
    from calibration.result import load_result as load_result
    from calibration.sweep import Sweep as Sweep
    from calibration.sync import estimate_sync as estimate_sync

_HOME = {
    "calibration.board": ("Board",),
    "calibration.camera": ("CameraCalibration", "WeakSet", "calibrate_camera"),
    "calibration.camera_model": ("CameraModel",),
    "calibration.capsules_fit": ("CapsuleFit", "fit_capsules"),
    "calibration.pose_model": ("Prior", "Sighting"),
    "calibration.pose_solver": ("PoseFit", "solve_pose"),
    "calibration.result": ("CalibrationResult", "load_result"),
    "calibration.sweep": ("Sweep",),
    "calibration.sync": ("estimate_sync",),
}
__all__ = lazy_package(__name__, _HOME)
