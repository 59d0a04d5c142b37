"""What the console must know of a rig: how to draw directions on the picture and on the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recordings import geometry
from recordings.camera_model import CameraModel

if TYPE_CHECKING:
    from capture.rig import Rig
    from capture.sources import OpenedRig

DISTANCE_M = 2.0  # at which a sound is taken to be: a direction has none, and the camera sits elsewhere
_SHARPEST_DEG = 1.0  # smaller rings would vanish


def settings_of(opened: OpenedRig, rig: Rig | None = None) -> dict[str, Any]:
    """Plain values for the console's process: name, room, microphone, and the camera as calibrated, or by the
    rig file's field of view. rig: where the room was changed since it was opened."""
    rig = rig or opened.rig
    return {
        "name": rig.name,
        "room": {
            "name": rig.room.name.replace("_", " "),
            "size_m": list(rig.room.size_m),
            "devices": [
                {"id": d.id, "type": d.type, "name": d.name, "position_m": list(d.position_m)}
                for d in rig.room.devices
            ],
        },
        "microphone": {
            "name": opened.audio_info.name,
            "position_m": list(rig.microphone.position_m),
            "yaw_deg": rig.microphone.yaw_deg,
        },
        "camera": _camera(opened),
    }


def _camera(opened: OpenedRig) -> dict[str, Any] | None:
    info, camera = opened.video_info, opened.rig.camera
    if info is None:
        return None
    lens = opened.calibrations.camera()
    lens = lens or CameraModel.nominal(info.width_px, info.height_px, camera.hfov_deg)
    pose = opened.calibrations.T_mic_camera()
    if pose is None:
        pose = geometry.camera_pose(camera.position_m, camera.yaw_deg, camera.pitch_deg)
    return {
        "name": info.name,
        "width_px": lens.width_px,
        "height_px": lens.height_px,
        "model": lens.model,
        "parameters": [float(p) for p in lens.parameters],
        "T_mic_camera": pose.tolist(),
        "sides_deg": _sides(lens, pose),
    }


def _sides(lens: CameraModel, pose: geometry.Floats) -> list[float]:
    """Azimuths of the left-hand and the right-hand edge of the picture, at its middle height."""
    middle = lens.parameters[3]
    x, y = lens.rays(np.array([[-0.5, middle], [lens.width_px - 0.5, middle]])).T
    rays = np.stack([x, y, np.ones(2)], axis=1) @ pose[:3, :3].T
    azimuth, _ = geometry.direction_from_vector(rays)
    return [float(a) for a in azimuth]


class Eye:
    """Where directions appear in the picture, in fractions of its width and height."""

    def __init__(self, camera: dict[str, Any] | None) -> None:
        self._lens: CameraModel | None = None
        if camera is not None:
            self._lens = CameraModel(
                camera["width_px"], camera["height_px"], camera["model"], np.array(camera["parameters"])
            )
            self._pose = np.array(camera["T_mic_camera"], dtype=np.float64)
            self._focal = float(self._lens.parameters[0]) / self._lens.width_px

    def place(self, azimuth_deg: float, elevation_deg: float, uncertainty_deg: float) -> dict[str, Any]:
        """x, y: where to draw, always within the picture; inside: false for an arrow at the edge, pointing to
        turn_deg (0 right, 90 down). radius: of the uncertainty, of the width. {} without a camera."""
        if self._lens is None:
            return {}
        seen = geometry.project_direction(
            azimuth_deg,
            elevation_deg,
            T_mic_camera=self._pose,
            camera=self._lens,
            distance_m=DISTANCE_M,
        )
        spread = float(np.tan(np.radians(min(max(uncertainty_deg, _SHARPEST_DEG), 30.0))))
        return {
            "x": round((float(seen.edge_u_px[0]) + 0.5) / self._lens.width_px, 5),
            "y": round((float(seen.edge_v_px[0]) + 0.5) / self._lens.height_px, 5),
            "inside": bool(seen.inside[0]),
            "turn_deg": round(float(seen.turn_deg[0]), 1),
            "radius": round(self._focal * spread, 4),
        }
