"""The home as the agent may know it when it decides: the room map, the air of rooms, what is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from edge.perception.room_map import MapDevice, RoomMap


@dataclass(frozen=True)
class HomeView:
    """room: `home.describe`. air: `home.rooms`, room -> variable -> value. workflows: `home.workflows`."""

    room: RoomMap
    air: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    workflows: tuple[Mapping[str, Any], ...] = ()

    @property
    def devices(self) -> tuple[MapDevice, ...]:
        """Of all rooms."""
        return self.room.devices

    @property
    def here(self) -> str:
        """Id of the room that the rig stands in: the one whose devices have positions."""
        placed = [device.room for device in self.devices if device.position_m is not None]
        if placed:
            return max(dict.fromkeys(placed), key=placed.count)
        return self.room.room_name.replace(" ", "_")

    @property
    def rooms(self) -> tuple[str, ...]:
        """Ids of all rooms that are known."""
        return tuple(dict.fromkeys([*self.room.rooms, *(d.room for d in self.devices if d.room)]))

    @property
    def now(self) -> datetime | None:
        """The home's own time."""
        return datetime.strptime(self.room.time, "%Y-%m-%d %H:%M:%S") if self.room.time else None

    @property
    def now_min(self) -> float:
        """Minutes after midnight; 0 where the home tells no time."""
        now = self.now
        return 0.0 if now is None else now.hour * 60 + now.minute + now.second / 60

    def device(self, device_id: str) -> MapDevice:
        """Raises InputError if there is none."""
        return self.room.device(device_id)

    def placed(self) -> tuple[MapDevice, ...]:
        """Devices of this room whose place is known."""
        return tuple(device for device in self.devices if device.position_m is not None)


def room_words(room: str) -> str:
    """ "the living room"."""
    return "the " + room.replace("_", " ").replace("-", " ")


def path_of(device: MapDevice, name: str) -> str | None:
    """The device's attribute of this cluster and name ("OnOff.OnOff"), at whichever endpoint."""
    return next((path for path in device.attributes if path.partition(".")[2] == name), None)


def value_of(device: MapDevice, name: str) -> Any:
    """Its value; None when the device has no such attribute."""
    path = path_of(device, name)
    return None if path is None else device.attributes[path]
