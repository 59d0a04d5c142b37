"""The room as an agent knows it: what `home.describe` answers, checked and typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError

Metres = tuple[float, float, float]
_Row = tuple[float, float, float, float]


class MapDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device: what it is, how people call it, where it stands (None: unknown), its present attributes."""

    id: str
    type: str
    name: str
    room: str = ""
    position_m: Metres | None = None
    attributes: dict[str, Any] = {}
    commands: list[dict[str, Any]] = []


class MapMember(msgspec.Struct, frozen=True, kw_only=True):
    """Who lives here: the room that "my room" means, and the devices that are this person's own."""

    id: str
    name: str
    room: str | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MapCamera:
    """The camera: matrix (3, 3) and distortion (n,) of OpenCV; room_from_camera (4, 4) takes points of the
    camera's frame (x right, y down, z forward, metres) into the room's."""

    width_px: int
    height_px: int
    matrix: NDArray[np.float64]
    distortion: NDArray[np.float64]
    room_from_camera: NDArray[np.float64]


class _Camera(msgspec.Struct, frozen=True, kw_only=True):
    width_px: int
    height_px: int
    matrix: tuple[Metres, Metres, Metres]
    distortion: tuple[float, ...]
    room_from_camera: tuple[_Row, _Row, _Row, _Row]


class _Room(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    size_m: Metres | None = None


class _Microphone(msgspec.Struct, frozen=True, kw_only=True):
    position_m: Metres
    yaw_deg: float


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    devices: tuple[MapDevice, ...]
    microphone: _Microphone
    people: list[dict[str, Any]] = []
    room: _Room = _Room()
    rooms: tuple[str, ...] = ()
    camera: _Camera | None = None
    household: tuple[MapMember, ...] = ()
    time: str | None = None


class RoomMap:
    """Devices, the microphone's and the camera's pose in one frame, and what is known of the home around.

    devices: of the whole home; those of other rooms have no position. room_name, size_m: the room that the
    rig is in (size None: not told). rooms: ids of all rooms. camera: None without one. household: who lives
    here. time: "YYYY-MM-DD HH:MM:SS" on the home's clock when it was asked.
    Raises InputError for an answer that is no room map.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        try:
            told = msgspec.convert(answer, _Answer)
        except msgspec.ValidationError as error:
            raise InputError(f"home.describe did not answer a room map: {error}") from None
        self.devices = told.devices
        self.people = told.people
        self.microphone_m = told.microphone.position_m
        self.microphone_yaw_deg = told.microphone.yaw_deg
        self.room_name, self.size_m = told.room.name, told.room.size_m
        self.rooms = told.rooms or tuple(dict.fromkeys(d.room for d in told.devices if d.room))
        self.camera = None if told.camera is None else _camera(told.camera)
        self.household = told.household
        self.time = told.time

    def member(self, person: str) -> MapMember | None:
        """Who lives here under this id; None for anybody else."""
        return next((one for one in self.household if one.id == person), None)

    def device(self, device_id: str) -> MapDevice:
        """The device with this id. Raises InputError if there is none."""
        for device in self.devices:
            if device.id == device_id:
                return device
        raise InputError(f"the room map has no device {device_id!r}")

    def direction_to(self, device: MapDevice) -> NDArray[np.float64]:
        """Unit vector from the microphone to the device in the room frame."""
        offset = np.asarray(device.position_m, np.float64) - np.asarray(self.microphone_m)
        return np.asarray(offset / max(float(np.linalg.norm(offset)), 1e-9))


def _camera(told: _Camera) -> MapCamera:
    pose = np.asarray(told.room_from_camera, np.float64)
    turn = pose[:3, :3]
    rigid = np.allclose(turn @ turn.T, np.eye(3), atol=1e-6) and np.linalg.det(turn) > 0
    if not rigid or not np.allclose(pose[3], (0, 0, 0, 1)):
        raise InputError(f"home.describe: camera.room_from_camera is no rigid pose: {pose.tolist()}")
    return MapCamera(
        told.width_px,
        told.height_px,
        np.asarray(told.matrix, np.float64),
        np.asarray(told.distortion, np.float64),
        pose,
    )
