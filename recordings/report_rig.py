"""The rig snapshot of an episode as far as it can be used: numbers checked, the rest left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recordings import geometry
from recordings.calibrated import Calibrations
from recordings.camera_model import CameraModel
from recordings.geometry import Floats


def number(value: Any, low: float = -1e6, high: float = 1e6) -> float:
    """A finite number within the limits, else nan."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if low <= value <= high else math.nan  # nan fails both comparisons


def sideways(azimuth_deg: float) -> str:
    """An azimuth in words: "30° left", "12° right", "straight ahead"."""
    if round(azimuth_deg) == 0:
        return "straight ahead"
    return f"{abs(azimuth_deg):.0f}° {'left' if azimuth_deg > 0 else 'right'}"


def point(value: Any) -> Floats | None:
    """Three finite numbers (metres), else None."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        return None
    found = np.array([number(v) for v in value])
    return found if np.isfinite(found).all() else None


@dataclass(frozen=True)
class Eye:
    """The camera: pose in the microphone frame, horizontal field of view and yaw (degrees); `lens` where it
    was calibrated. sound_late_s: what is seen at t is heard at t + this."""

    pose: Floats
    hfov_deg: float
    yaw_deg: float
    lens: CameraModel | None = None
    sound_late_s: float = 0.0

    def model(self, width_px: int, height_px: int) -> CameraModel:
        """The camera for pictures of a size: the calibrated one if it was made at that size."""
        if self.lens is not None and (self.lens.width_px, self.lens.height_px) == (width_px, height_px):
            return self.lens
        return CameraModel.nominal(width_px, height_px, self.hfov_deg)


@dataclass(frozen=True)
class Ear:
    """The microphone: place in the room (m) and yaw (degrees)."""

    position_m: Floats
    yaw_deg: float


@dataclass(frozen=True)
class Thing:
    """A device of the room."""

    id: str
    name: str
    position_m: Floats | None


@dataclass(frozen=True)
class RigView:
    """What a page uses of a rig; None or empty where the snapshot does not say it."""

    camera: Eye | None = None
    microphone: Ear | None = None
    room_name: str = "room"
    room_size_m: Floats | None = None
    devices: tuple[Thing, ...] = ()
    people: tuple[tuple[str, str], ...] = ()

    @property
    def has_plan(self) -> bool:
        """Whether the room can be drawn: its size is known and the microphone stands in it."""
        if self.room_size_m is None or self.microphone is None:
            return False
        place = self.microphone.position_m
        return bool((place >= 0).all() and (place <= self.room_size_m).all())

    def device(self, device_id: str | None) -> Thing | None:
        """The device with this id."""
        return next((d for d in self.devices if d.id == device_id), None)


def view_rig(raw: Any, calibrations: Calibrations | None = None) -> RigView:
    """Take what is sound from a snapshot of rig.yaml; never raises. What was calibrated replaces what the
    file says of the camera."""
    rig = raw if isinstance(raw, dict) else {}
    room = rig["room"] if isinstance(rig.get("room"), dict) else {}
    size = point(room.get("size_m"))
    if size is not None and not ((size >= 0.2) & (size <= 1000)).all():
        size = None
    return RigView(
        camera=_calibrated(_camera(rig.get("camera")), calibrations or Calibrations()),
        microphone=_microphone(rig.get("microphone")),
        room_name=str(room.get("name", "room")).replace("_", " "),
        room_size_m=size,
        devices=tuple(
            Thing(str(d["id"]), str(d.get("name", d["id"])), point(d.get("position_m")))
            for d in _dicts(room.get("devices"))
        ),
        people=tuple((str(p["id"]), str(p.get("name", p["id"]))) for p in _dicts(room.get("people"))),
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [d for d in value if isinstance(d, dict) and "id" in d] if isinstance(value, list | tuple) else []


def _camera(raw: Any) -> Eye | None:
    if not isinstance(raw, dict) or raw.get("source") == "none":
        return None
    hfov = number(raw.get("hfov_deg"), 5, 175)
    yaw, pitch = number(raw.get("yaw_deg", 0.0)), number(raw.get("pitch_deg", 0.0))
    position = point(raw.get("position_m", (0.0, 0.0, 0.0)))
    if position is None or not np.isfinite([hfov, yaw, pitch]).all():
        return None
    return Eye(geometry.camera_pose(position.tolist(), yaw, pitch), hfov, yaw)


def _calibrated(eye: Eye | None, calibrations: Calibrations) -> Eye | None:
    if eye is None:
        return None
    lens, pose = calibrations.camera(), calibrations.T_mic_camera()
    if (late := calibrations.sound_late()) is not None:
        eye = replace(eye, sound_late_s=late[0] / 1e3)
    if lens is not None:
        eye = replace(eye, lens=lens, hfov_deg=lens.hfov_deg)
    if pose is not None:
        forward = float(geometry.direction_from_vector(pose[:3, 2])[0])
        eye = replace(eye, pose=pose, yaw_deg=forward)
    return eye


def _microphone(raw: Any) -> Ear | None:
    if not isinstance(raw, dict):
        return None
    position, yaw = point(raw.get("position_m")), number(raw.get("yaw_deg"))
    return None if position is None or math.isnan(yaw) else Ear(position, yaw)
