"""The room frame in room.json, and back: everything that placing a device later needs.

Files (camera, pose, pictures) are remembered by their path relative to room.json and by their SHA-256, so
that later commands find them by themselves and notice when one of them is no longer what the frame was made
with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibration.board import Board
from calibration.pose_report import quaternion_xyzw
from calibration.result import CalibrationResult, InputFile, load
from calibration.room_devices_sightings import Surroundings
from calibration.room_file import read_section, update_room
from calibration.room_frame import Floats, RoomFrame
from calibration.room_frame_pose import BoardPlace, Mount, Standpoint, angles_of, microphone_at
from dsp.errors import InputError
from recordings.camera_model import CameraModel
from recordings.storage import sha256_file, storage_errors

_PARAMETERS = ["turn_x_rad", "turn_y_rad", "turn_z_rad", "x_m", "y_m", "z_m"]
_UNITS = {
    "board_at_m": "m; the outer corner of the board's pattern at its lower left, in the room",
    "board_facing": "1; unit vector in the room",
    "board_top": "1; unit vector in the room",
    "board_at_sigma_m": "m",
    "board_turn_sigma_deg": "deg",
    "T_room_camera": "m; p_room = T p_camera (OpenCV: x right, y down, z forward)",
    "T_room_microphone": "m; p_room = T p_microphone (AmbiX: x forward, y left, z up)",
    "camera": "m, deg; yaw from +x towards +y, pitch up, roll right-hand side down",
    "microphone": "m, deg; the same",
    "corner_covariance": "rad, m; turn about the room's axes and place of the camera, from the corners alone",
    "by_camera": "rad, m per parameter of the camera",
}


def remembered(path: Path, beside: Path) -> dict[str, str]:
    """Path relative to the folder of `beside`, and SHA-256, of a file."""
    with storage_errors(path, "read"):
        return {"path": os.path.relpath(path, beside.parent), "sha256": sha256_file(path)}


def found_again(entry: Mapping[str, str] | None, beside: Path) -> Path | None:
    """The file that `remembered` meant, if it is still there, unchanged."""
    if not entry:
        return None
    path = beside.parent / entry["path"]
    return path if path.is_file() and sha256_file(path) == entry["sha256"] else None


def save_frame(
    path: Path,
    frame: RoomFrame,
    *,
    camera: Path,
    pose: Path | None,
    pictures: Sequence[Path],
    skipped: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write the section `frame` of room.json. Raises InputError, StorageError."""
    at, microphone = frame.standpoint, frame.microphone
    files: dict[str, Any] = {
        "camera": remembered(camera, path),
        "pose": None if pose is None else remembered(pose, path),
        "pictures": [remembered(picture, path) for picture in pictures],
    }
    value: dict[str, Any] = {
        "board": str(frame.board),
        "board_at_m": frame.place.at_m,
        "board_facing": frame.place.facing,
        "board_top": frame.place.top,
        "board_at_sigma_m": frame.place.at_sigma_m,
        "board_turn_sigma_deg": frame.place.turn_sigma_deg,
        "T_room_camera": at.pose,
        "camera": _described(at.rotation, at.centre_m, frame.covariance, True),
        "T_room_microphone": None if microphone is None else microphone.pose,
        "microphone": None
        if microphone is None
        else _described(microphone.rotation, microphone.place_m, microphone.covariance, False),
        "corner_covariance": at.covariance,
        "by_camera": at.by_camera,
        "files": files,
    }
    listed = [camera, *([] if pose is None else [pose]), *pictures]
    remembered_files = [files["camera"], *([] if pose is None else [files["pose"]]), *files["pictures"]]
    length = np.linalg.norm(frame.residuals_px, axis=1)
    return update_room(
        path,
        "frame",
        value,
        units=_UNITS,
        inputs=[InputFile(p.name, r["sha256"]) for p, r in zip(listed, remembered_files, strict=True)],
        residuals={
            "rms_px": at.rms_px,
            "largest_px": float(length.max()),
            "scatter_px": frame.corners.scatter_px,
            "corner_ids": frame.corners.ids,
            "corners_px": frame.residuals_px,
        },
        quality={
            "pictures": frame.corners.used,
            "corners": at.corners,
            "tilts": at.tilts,
            "skipped": [{"name": n, "reason": why} for n, why in (*skipped, *frame.corners.left)],
        },
        warnings=frame.warnings,
    )


def _described(rotation: Floats, place: Floats, covariance: Floats, camera: bool) -> dict[str, Any]:
    yaw, pitch, roll = angles_of(rotation, camera)
    sigma = np.sqrt(np.diag(covariance))
    return {
        "position_m": place,
        "yaw_deg": yaw,
        "pitch_deg": pitch,
        "roll_deg": roll,
        "q_xyzw": quaternion_xyzw(rotation),
        "position_sigma_m": sigma[3:],
        "turn_sigma_deg": np.degrees(sigma[:3]),
        "covariance": {"parameters": _PARAMETERS, "matrix": covariance},
    }


@dataclass(frozen=True)
class SavedFrame:
    """The frame as room.json holds it. pictures: those that are still there, unchanged."""

    board: Board
    around: Surroundings
    camera_file: Path
    pictures: list[Path]
    section: dict[str, Any]

    @property
    def T_mic_camera(self) -> Floats | None:
        """The camera in the microphone's frame (4, 4); None without a pose."""
        mount = self.around.mount
        if mount is None:
            return None
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = mount.rotation, -mount.rotation @ mount.lever_arm_m
        return pose

    @property
    def microphone(self) -> tuple[Floats, Floats] | None:
        """Rotation into the room and place (3,) of the microphone; None without a pose."""
        if self.around.mount is None:
            return None
        at = microphone_at(self.around.standpoints[0], self.around.mount, self.around.camera_covariance)
        return at.rotation, at.place_m


def read_frame(path: Path, camera: Path | None = None) -> SavedFrame:
    """Read the frame back. camera: the result of `hearth calibrate camera`, where it was moved meanwhile.

    Raises InputError when there is no frame, or the camera or pose it was made with is not there any more.
    """
    section = read_section(path, "frame")
    try:
        files = section["files"]
        place = BoardPlace(
            np.asarray(section["board_at_m"], np.float64),
            np.asarray(section["board_facing"], np.float64),
            np.asarray(section["board_top"], np.float64),
            float(section["board_at_sigma_m"]),
            float(section["board_turn_sigma_deg"]),
        )
        pose = np.asarray(section["T_room_camera"], np.float64)
        quality = load(path, "room").quality["frame"]
        standpoint = Standpoint(
            pose[:3, :3],
            pose[:3, 3],
            np.asarray(section["corner_covariance"], np.float64),
            np.asarray(section["by_camera"], np.float64),
            0.0,
            int(quality["corners"]),
            int(quality["tilts"]),
        )
        board = Board.parse(section["board"])
        camera_file = _needed(files["camera"], path, camera, "camera")
        mount = None if files["pose"] is None else Mount.of(load(_needed(files["pose"], path, None, "pose")))
        pictures = [p for entry in files["pictures"] if (p := found_again(entry, path)) is not None]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: the frame lacks or garbles {error}; run `hearth calibrate room frame` again"
        ) from None
    model, covariance = camera_and_covariance(load(camera_file, "camera"))
    if standpoint.by_camera.shape != (6, len(model.parameters)):
        raise InputError(f"{path}: the frame was made with another camera model; make it again")
    return SavedFrame(
        board, Surroundings(model, covariance, place, [standpoint], mount), camera_file, pictures, section
    )


def _needed(entry: Mapping[str, str], beside: Path, given: Path | None, kind: str) -> Path:
    if given is not None and given.is_file() and sha256_file(given) == entry["sha256"]:
        return given
    found = found_again(entry, beside)
    if found is None:
        raise InputError(
            f"the {kind} result {entry['path']} that the room frame was made with is gone or changed; put it"
            f" back, or run `hearth calibrate room frame` again with the new one"
        )
    return found


def camera_and_covariance(result: CalibrationResult) -> tuple[CameraModel, Floats | None]:
    """The camera of a result, and the covariance of its parameters, None where the file has none."""
    camera = CameraModel.from_fields(result.result)
    if result.covariance is None or list(result.covariance.parameters) != list(camera.names):
        return camera, None
    return camera, result.covariance.array()
