"""The room as an agent knows it: what `home.describe` answers, checked and typed."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError

Metres = tuple[float, float, float]


class MapDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device: what it is, how people call it, where it stands (None: unknown), its present attributes."""

    id: str
    type: str
    name: str
    room: str = ""
    position_m: Metres | None = None
    attributes: dict[str, Any] = {}
    commands: list[dict[str, Any]] = []

    def has_command(self, name: str) -> bool:
        """Whether the device knows a command of this name."""
        return any(command.get("command") == name for command in self.commands)


class _Microphone(msgspec.Struct, frozen=True, kw_only=True):
    position_m: Metres
    yaw_deg: float


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    devices: tuple[MapDevice, ...]
    microphone: _Microphone
    people: list[dict[str, Any]] = []


class RoomMap:
    """Devices and the microphone's pose in one frame. Raises InputError for an answer that is no room map."""

    def __init__(self, answer: dict[str, Any]) -> None:
        try:
            told = msgspec.convert(answer, _Answer)
        except msgspec.ValidationError as error:
            raise InputError(f"home.describe did not answer a room map: {error}") from None
        self.devices = told.devices
        self.people = told.people
        self.microphone_m = told.microphone.position_m
        self.microphone_yaw_deg = told.microphone.yaw_deg

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
