"""The room map: what an agent may know of a home and of the rig in it, never who is there or speaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from capture.rig import Rig
from recordings import geometry
from recordings.calibrated import Calibrations
from recordings.camera_model import CameraModel
from recordings.profile import Member


class Devices(Protocol):
    """A home that can list its devices as plain data."""

    def describe(self) -> list[dict[str, Any]]: ...


def members_of(rig: Rig) -> tuple[Member, ...]:
    """The household as the rig file names it."""
    return tuple(Member(id=p.id, name=p.name, room=p.room, devices=p.devices) for p in rig.room.people)


def camera_of(rig: Rig, calibrations: Calibrations | None = None) -> dict[str, Any] | None:
    """The main camera as data: `width_px`, `height_px`, `matrix` (3 x 3) and `distortion` of OpenCV, and
    `room_from_camera` (4 x 4). What was calibrated replaces what the rig file says. None: no camera.

    Raises InputError for calibration results that hold no such thing.
    """
    camera = rig.camera
    if camera.source == "none":
        return None
    results = calibrations or Calibrations()
    lens = results.camera() or CameraModel.nominal(camera.width_px, camera.height_px, camera.hfov_deg)
    pose = results.T_mic_camera()
    if pose is None:
        pose = geometry.camera_pose(camera.position_m, camera.yaw_deg, camera.pitch_deg)
    microphone = geometry.microphone_pose(rig.microphone.position_m, rig.microphone.yaw_deg)
    return {
        "width_px": lens.width_px,
        "height_px": lens.height_px,
        "matrix": lens.matrix.tolist(),
        "distortion": lens.distortion.tolist(),
        "room_from_camera": (microphone @ pose).tolist(),
    }


def room_map(
    rig: Rig,
    home: Devices,
    *,
    household: Sequence[Member] | None = None,
    rooms: Iterable[str] = (),
    time: str | None = None,
    calibrations: Calibrations | None = None,
) -> dict[str, Any]:
    """What `home.describe` answers; keys in docs/home.md.

    household: who lives here; None: the rig's people. rooms: ids of the home's rooms beside those of its
    devices. time: on the home's clock.
    """
    here = rig.room.name
    members = members_of(rig) if household is None else household
    devices = home.describe()
    for device in devices:  # places are in the frame of the rig's room
        if device["room"] != here:
            device["position_m"] = None
    return {
        "room": {"name": here, "size_m": list(rig.room.size_m)},
        "rooms": list(dict.fromkeys([here, *rooms, *(d["room"] for d in devices if d["room"])])),
        "devices": devices,
        "microphone": {
            "position_m": list(rig.microphone.position_m),
            "yaw_deg": rig.microphone.yaw_deg,
        },
        "camera": camera_of(rig, calibrations),
        "people": [{"id": p.id, "name": p.name, "room": p.room} for p in members],
        "household": [
            {"id": p.id, "name": p.name, "room": p.room, "devices": list(p.devices)} for p in members
        ],
        "time": time,
    }
