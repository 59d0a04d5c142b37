"""What can be seen or heard of a device, and what all of it refers to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibration.pose_model import Floats
from calibration.room_frame_pose import BoardPlace, MicrophonePlace, Mount, Standpoint
from dsp.errors import InputError
from recordings.camera_model import CameraModel

CLICK_PX, HELD_M, PLANE_M, AIM_DEG = 3.0, 0.02, 0.01, 2.0
"""Usual sigmas: of a click, a marker held onto a device, a plane, and of pointing by hand."""


@dataclass(frozen=True)
class Click:
    """A pixel (2,) of the picture taken at standpoint `at`."""

    at: int
    pixel: Floats
    sigma_px: float = CLICK_PX
    name: str = "click"


@dataclass(frozen=True)
class Plane:
    """normal @ p = offset_m, within sigma_m; in words for people."""

    normal: Floats
    offset_m: float
    sigma_m: float = PLANE_M
    name: str = "plane"


@dataclass(frozen=True)
class Held:
    """A marker held onto the device: point_m (3,) of the camera frame at standpoint `at`, its covariance (3,
    3) from the noise of the corners, by_camera (3, n), and how near to the device it was held."""

    at: int
    point_m: Floats
    covariance: Floats
    by_camera: Floats
    sigma_m: float = HELD_M
    name: str = "marker"


@dataclass(frozen=True)
class Pointed:
    """A marker that points at the device: origin_m and direction (3,) in the camera frame, covariance (6, 6)
    of the marker's turn (camera axes) and place, by_camera (6, n), and the sigma of the hand."""

    at: int
    origin_m: Floats
    direction: Floats
    covariance: Floats
    by_camera: Floats
    sigma_deg: float = AIM_DEG
    name: str = "pointer"


@dataclass(frozen=True)
class Heard:
    """The direction (3,) of the device's sound in the microphone frame, sigma_deg of each of its components;
    the microphone with the camera at standpoint `at`, or where a tape measure says."""

    at: int | MicrophonePlace
    direction: Floats
    sigma_deg: float
    name: str = "sound"


Sighting = Click | Plane | Held | Pointed | Heard


@dataclass
class Surroundings:
    """What all sightings refer to: camera, standpoints (0 is that of the frame), microphone on the camera."""

    camera: CameraModel
    camera_covariance: Floats | None
    board: BoardPlace
    standpoints: list[Standpoint]
    mount: Mount | None = None


def plane_of_words(text: str, size_z_m: float | None = None, sigma_m: float = PLANE_M) -> Plane:
    """A plane from words: "floor", "ceiling" (needs the room's height), or "x=4.2", "y=0", "z=0.75".

    Raises InputError.
    """
    word = text.strip().lower().replace(" ", "")
    if word == "floor":
        return Plane(np.array([0.0, 0.0, 1.0]), 0.0, sigma_m, "floor")
    if word == "ceiling":
        if size_z_m is None:
            raise InputError("--plane ceiling needs the room's height: give --rig, or --plane z=2.6")
        return Plane(np.array([0.0, 0.0, 1.0]), size_z_m, sigma_m, "ceiling")
    axis, _, number = word.partition("=")
    try:
        offset = float(number)
    except ValueError:
        offset = float("nan")
    if axis not in ("x", "y", "z") or not np.isfinite(offset):
        raise InputError(
            f"--plane is floor, ceiling, or like z=0.75 (a table), x=0 (a wall); in metres, not {text!r}"
        )
    normal = np.zeros(3)
    normal["xyz".index(axis)] = 1.0
    return Plane(normal, offset, sigma_m, f"{axis}={offset:g} m")
