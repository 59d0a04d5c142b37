"""Where things are and where they face in the virtual room; used by sound and picture alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture.rig import Device, Rig
from recordings.camera_model import CameraModel
from recordings.geometry import camera_pose, microphone_pose, transform

SLATE_IN_PICTURE = (0.07, 0.88)  # LED and buzzer, in parts of the picture's width and height
SLATE_DEPTH_M = 0.3


def front_of(device: Device, rig: Rig) -> NDArray[np.float64]:
    """Where a device's front looks, (3,) unit vector: away from the nearest wall, or to the rig in mid-room.

    Fans are turned to the rig wherever they stand.
    """
    x, y, _ = device.position_m
    size = rig.room.size_m
    walls = [(x, (1, 0)), (size[0] - x, (-1, 0)), (y, (0, 1)), (size[1] - y, (0, -1))]
    distance, normal = min(walls, key=lambda wall: wall[0])
    if distance > 0.9 or device.type == "fan":
        towards = np.asarray(rig.microphone.position_m)[:2] - (x, y)
        if np.linalg.norm(towards) > 0.1:
            return np.array([*(towards / np.linalg.norm(towards)), 0.0])
    return np.array([*normal, 0.0])


def slate_place(rig: Rig) -> NDArray[np.float64]:
    """Where LED and buzzer are, in the room frame: low on the left of the picture, 0.3 m in front."""
    camera = rig.camera
    pose = microphone_pose(rig.microphone.position_m, rig.microphone.yaw_deg) @ camera_pose(
        camera.position_m, camera.yaw_deg, camera.pitch_deg
    )
    matrix = CameraModel.nominal(camera.width_px, camera.height_px, camera.hfov_deg).matrix
    pixel = np.array([SLATE_IN_PICTURE[0] * camera.width_px, SLATE_IN_PICTURE[1] * camera.height_px, 1.0])
    place = transform(pose, np.linalg.solve(matrix, pixel) * SLATE_DEPTH_M)
    return np.asarray(np.clip(place, 0.0, np.asarray(rig.room.size_m)))
