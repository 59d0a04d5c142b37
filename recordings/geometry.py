"""Where directions lead: rotations, the frames of microphone, room and camera, and the way into a picture.

Public names:

- `rotation_from_yaw_pitch`  3x3 rotation of something that is turned left by yaw and then tilted up by pitch
- `unit_from_direction`, `direction_from_vector`  azimuth and elevation <-> x forward, y left, z up
- `CV_FROM_AMBIX`            the fixed turn from (x forward, y left, z up) to OpenCV's (right, down, forward)
- `camera_pose`              4x4 `T_mic_camera`: OpenCV camera points into the microphone frame
- `microphone_pose`          4x4 `T_room_mic`: microphone points into the room frame
- `transform`                points through a 4x4 pose; `invert_pose` turns a pose round
- `direction_to_point`       azimuth, elevation and distance of a room point as the microphone sees it
- `direction_in_room`        unit vector in the room of a direction seen by the microphone
- `wall_distance`            how far it is from a point in a box room to the wall in some direction
- `project_direction`        AmbiX directions -> `Projection` (pixel, inside or not, point at the edge)

Pure numpy, so that capture, calibration and edge can use it. Frames are those of
the design: azimuth counter-clockwise from the front in degrees, elevation up; the microphone's yaw in the
room counts from the room's +x axis towards +y; the camera's pose is given in the microphone frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordings.camera_model import CameraModel

Floats = NDArray[np.float64]

# Rows: right = -left, down = -up, forward = forward. The transpose goes back: (x, y, z) = (z, -x, -y)_cv.
CV_FROM_AMBIX: Floats = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])


def rotation_from_yaw_pitch(yaw_deg: float, pitch_deg: float = 0.0, roll_deg: float = 0.0) -> Floats:
    """Rotation (3, 3) that maps vectors of the turned frame into the frame that it is turned in.

    Its first column is where the turned front points: azimuth `yaw_deg` (to the left), elevation `pitch_deg`
    (upwards). `roll_deg` turns about that front first; positive lowers the right-hand side.
    """
    yaw, pitch, roll = np.radians([yaw_deg, pitch_deg, roll_deg])
    cy, sy, cp, sp, cr, sr = (
        np.cos(yaw),
        np.sin(yaw),
        np.cos(pitch),
        np.sin(pitch),
        np.cos(roll),
        np.sin(roll),
    )
    about_z = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    about_y = np.array([[cp, 0.0, -sp], [0.0, 1.0, 0.0], [sp, 0.0, cp]])
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    return np.asarray(about_z @ about_y @ about_x, dtype=np.float64)


def unit_from_direction(azimuth_deg: ArrayLike, elevation_deg: ArrayLike) -> Floats:
    """Unit vectors (..., 3) x forward, y left, z up; the two angles broadcast."""
    azimuth, elevation = np.broadcast_arrays(np.radians(azimuth_deg), np.radians(elevation_deg))
    flat = np.cos(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)


def direction_from_vector(vector: ArrayLike) -> tuple[Floats, Floats]:
    """Azimuth in [-180, 180) and elevation in degrees of vectors (..., 3) of any length.

    The zero vector has no direction and gives (0, 0).
    """
    v = np.asarray(vector, dtype=np.float64)
    azimuth = np.degrees(np.arctan2(v[..., 1], v[..., 0]))
    elevation = np.degrees(np.arctan2(v[..., 2], np.hypot(v[..., 0], v[..., 1])))
    return (azimuth + 180.0) % 360.0 - 180.0, elevation


def camera_pose(position_m: Sequence[float], yaw_deg: float = 0.0, pitch_deg: float = 0.0) -> Floats:
    """`T_mic_camera` (4, 4): maps points of the OpenCV camera frame (right, down, forward; metres) into the
    microphone frame, for a camera at `position_m` that is turned left by yaw and up by pitch (rig.yaml)."""
    pose = np.eye(4)
    pose[:3, :3] = rotation_from_yaw_pitch(yaw_deg, pitch_deg) @ CV_FROM_AMBIX.T
    pose[:3, 3] = position_m
    return pose


def microphone_pose(position_m: Sequence[float], yaw_deg: float = 0.0) -> Floats:
    """`T_room_mic` (4, 4): maps points of the microphone frame into the room frame (metres)."""
    pose = np.eye(4)
    pose[:3, :3] = rotation_from_yaw_pitch(yaw_deg)
    pose[:3, 3] = position_m
    return pose


def invert_pose(pose: Floats) -> Floats:
    """The inverse of a rigid 4x4 pose."""
    inverse = np.eye(4)
    inverse[:3, :3] = pose[:3, :3].T
    inverse[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return inverse


def transform(pose: Floats, points: ArrayLike) -> Floats:
    """Points (..., 3) through a 4x4 pose."""
    return np.asarray(points, dtype=np.float64) @ pose[:3, :3].T + pose[:3, 3]


def direction_to_point(
    point_m: ArrayLike, microphone_m: Sequence[float], microphone_yaw_deg: float
) -> tuple[Floats, Floats, Floats]:
    """Azimuth, elevation (degrees, microphone frame) and distance (m) of room points (..., 3)."""
    seen = transform(invert_pose(microphone_pose(microphone_m, microphone_yaw_deg)), point_m)
    azimuth, elevation = direction_from_vector(seen)
    return azimuth, elevation, np.linalg.norm(seen, axis=-1)


def direction_in_room(azimuth_deg: ArrayLike, elevation_deg: ArrayLike, microphone_yaw_deg: float) -> Floats:
    """Unit vectors (..., 3) in the room frame of directions in the microphone frame."""
    return unit_from_direction(azimuth_deg, elevation_deg) @ rotation_from_yaw_pitch(microphone_yaw_deg).T


def wall_distance(origin_m: ArrayLike, direction: ArrayLike, size_m: ArrayLike) -> float:
    """Metres from a point inside the box [0, size_m] to its surface along `direction` (3,).

    Works for a floor plan too, with two-dimensional arguments. 0 when the point is outside; infinite when
    the direction is the zero vector.
    """
    origin, unit = np.asarray(origin_m, dtype=np.float64), np.asarray(direction, dtype=np.float64)
    size = np.asarray(size_m, dtype=np.float64)
    length = float(np.linalg.norm(unit))
    if length == 0.0:
        return float("inf")
    if np.any(origin < 0) or np.any(origin > size):
        return 0.0
    unit = unit / length
    with np.errstate(divide="ignore", invalid="ignore"):
        along = np.where(unit > 0, (size - origin) / unit, np.where(unit < 0, -origin / unit, np.inf))
    return float(along.min())


@dataclass(frozen=True, slots=True)
class Projection:
    """Directions seen in a picture; all arrays have one entry per direction.

    u_px, v_px: the pixel (column, row); nan for what lies behind the camera.
    inside: whether that pixel is within the picture.
    edge_u_px, edge_v_px: the pixel itself where inside, else the point at the picture's edge in whose
    direction the camera would have to turn; never nan.
    turn_deg: the angle of that direction in the picture, 0 right, 90 down (as the pixel axes go).
    """

    u_px: Floats
    v_px: Floats
    inside: NDArray[np.bool_]
    edge_u_px: Floats
    edge_v_px: Floats
    turn_deg: Floats


def project_direction(
    azimuth_deg: ArrayLike,
    elevation_deg: ArrayLike,
    *,
    T_mic_camera: Floats,
    camera: CameraModel,
    distance_m: ArrayLike = 2.0,
) -> Projection:
    """Where directions of the microphone frame (AmbiX) appear in a camera's picture.

    camera: as calibrated, or `CameraModel.nominal` when only the field of view is known. A direction has no
    distance, yet the camera is not where the microphone is: `distance_m` says how far from the microphone the
    sound is taken to be. With the camera 8 cm above the microphone, an error between 1 m and 3 m moves the
    point by about 3 degrees.
    """
    azimuth, elevation, distance = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (azimuth_deg, elevation_deg, distance_m))
    )
    points = unit_from_direction(azimuth, elevation) * distance[..., None]
    seen = transform(invert_pose(T_mic_camera), points)
    right, down, forward = np.moveaxis(seen, -1, 0)
    width_px, height_px = camera.width_px, camera.height_px
    centre_u, centre_v = camera.parameters[2], camera.parameters[3]
    ahead = forward > 1e-6
    # Beyond the picture a distortion may fold back and put a point into it that the camera cannot see.
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead &= np.hypot(right, down) <= 1.02 * camera.rim * forward
    u, v = np.moveaxis(camera.project(np.where(ahead[..., None], seen, np.nan)), -1, 0)
    with np.errstate(invalid="ignore"):
        inside = ahead & (u >= -0.5) & (u <= width_px - 0.5) & (v >= -0.5) & (v <= height_px - 0.5)
    # Straight behind has no side; it is shown at the right-hand edge rather than nowhere.
    length = np.hypot(right, down)
    side_u = np.where(length > 1e-9, right / np.maximum(length, 1e-9), 1.0)
    side_v = np.where(length > 1e-9, down / np.maximum(length, 1e-9), 0.0)
    with np.errstate(divide="ignore"):
        reach = np.minimum(
            np.where(side_u > 0, width_px - 1 - centre_u, centre_u) / np.abs(side_u),
            np.where(side_v > 0, height_px - 1 - centre_v, centre_v) / np.abs(side_v),
        )
    return Projection(
        u_px=u,
        v_px=v,
        inside=inside,
        edge_u_px=np.where(inside, u, centre_u + reach * side_u),
        edge_v_px=np.where(inside, v, centre_v + reach * side_v),
        turn_deg=np.degrees(np.arctan2(side_v, side_u)),
    )
