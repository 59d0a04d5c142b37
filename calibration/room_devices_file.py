"""The devices of room.json: put one in, take one out, keep the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibration.result import InputFile, hash_inputs, load
from calibration.room_devices import Located
from calibration.room_devices_gather import Gathered
from calibration.room_devices_rig import position_of
from calibration.room_file import update_room
from dsp.errors import InputError
from recordings.storage import utc_now

_UNITS = {
    "position_m": "m; in the room",
    "covariance": "m2",
    "radius95_m": "m; the error is within it at 95 %",
    "azimuth_deg": "deg; from the microphone's front, to the left",
    "elevation_deg": "deg; up",
    "distance_m": "m; from the microphone",
    "angle_sigma_deg": "deg; root mean square of the angle seen from the microphone",
    "crossing_deg": "deg; largest angle between two rays",
}


def read_devices(path: Path) -> dict[str, Any]:
    """The devices by id; none when no one was placed yet. Raises InputError."""
    found = load(path, "room").result.get("devices", {})
    if not isinstance(found, dict):
        raise InputError(f"{path}: `devices` must be an object with a key for each device")
    for key, entry in found.items():
        if not (isinstance(entry, dict) and {"name", "position_m", "covariance", "radius95_m"} <= set(entry)):
            raise InputError(f"{path}: the device {key} lacks its name, position_m, covariance or radius95_m")
    return found


def save_device(
    path: Path, key: str, name: str, kind: str | None, room: str | None, found: Located, got: Gathered
) -> dict[str, Any]:
    """Write a device that was located; one of the same id is replaced. Returns its entry.

    Raises CheckFailed when it cannot be stood for, InputError, StorageError.
    """
    found.require()
    devices = read_devices(path)
    position = position_of(found.position_m)
    entry = {
        "name": name,
        "type": kind,
        "room": room,
        "position_m": position,
        "covariance": {"parameters": ["x_m", "y_m", "z_m"], "matrix": found.covariance},
        "radius95_m": found.radius95_m,
        "azimuth_deg": found.azimuth_deg,
        "elevation_deg": found.elevation_deg,
        "distance_m": found.distance_m,
        "angle_sigma_deg": found.angle_sigma_deg,
        "crossing_deg": found.crossing_deg,
        "residual": found.residual,
        "degrees_of_freedom": found.dof,
        "method": found.method,
        "sightings": list(found.sightings),
        "clicks": got.clicks,
        "inputs": [{"name": f.name, "sha256": f.sha256} for f in hash_inputs(got.inputs)],
        "warnings": [*got.warnings, *found.warnings],
        "measured_utc": utc_now(),
        "frame_utc": load(path, "room").quality["frame"]["measured_utc"],
    }
    write_devices(path, {**devices, key: entry})
    return entry


def remove_device(path: Path, key: str) -> None:
    """Take a device out. Raises InputError when it is not there."""
    devices = read_devices(path)
    if key not in devices:
        raise InputError(f"{path} has no device {key!r}; it has {', '.join(devices) or 'none'}")
    write_devices(path, {k: entry for k, entry in devices.items() if k != key})


def write_devices(path: Path, devices: Mapping[str, Any]) -> None:
    """Write all devices by id, in place of those that are there. Raises InputError, StorageError."""
    inputs = [InputFile(f["name"], f["sha256"]) for e in devices.values() for f in e.get("inputs", ())]
    warnings = [f"{key}: {text}" for key, e in devices.items() for text in e.get("warnings", ())]
    update_room(
        path, "devices", devices or None, units=_UNITS if devices else {}, inputs=inputs, warnings=warnings
    )


def older_than_frame(path: Path, devices: Mapping[str, Any]) -> list[str]:
    """Ids of devices that were placed in an earlier frame than the one in the file."""
    now = load(path, "room").quality.get("frame", {}).get("measured_utc")
    return [key for key, entry in devices.items() if entry.get("frame_utc") != now]
