"""The home on the wire: its commands on the command server, its state and events on the stream."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from capture.blocks import monotonic_ns
from capture.rig import Rig
from edge.home.agent_desk import AgentDesk
from edge.home.clock import FORM
from edge.home.describe import room_map
from edge.home.schema import Value
from edge.home.twin import Home, HomeDevice
from edge.stream import CommandServer, Publisher
from recordings.profile import HomeState


def home_of(rig: Rig, initial: HomeState | dict[str, dict[str, Value]] | None = None) -> Home:
    """The twin of a rig's room, in the state that an episode begins with."""
    if isinstance(initial, HomeState):
        initial = {device.id: dict(device.attributes) for device in initial.devices}
    return Home(_devices(rig), initial)


def _devices(rig: Rig) -> list[HomeDevice]:
    here = rig.room.name
    return [HomeDevice(d.id, d.type, d.name, d.room or here, d.position_m) for d in rig.room.devices]


class HomeService:
    """Answers `home.describe`, `home.state`, `home.command`, `home.write`; publishes `home` and `event`.

    The reports of agents (`agent.*`, see `edge.home.agent_desk`) are answered here too: they name devices.

    Errors of the home travel as their type (DEVICE_NOT_FOUND, ...) with the text. Every change publishes the
    whole state on `home` (a reliable stream: whoever joins late gets it too); every command, also one that
    changed nothing or was refused, publishes an `event` of kind "command".
    """

    def __init__(
        self, rig: Rig, home: Home, server: CommandServer, publisher: Publisher | None = None
    ) -> None:
        self.rig = rig
        self.home = home
        self._publisher = publisher
        home.listen(self._changed)
        server.register("home.describe", self.describe)
        server.register("home.state", self.state)
        server.register("home.command", self.command)
        server.register("home.write", self.write)
        self.desk = AgentDesk(home, server, publisher)
        self._publish_state({})

    def follow(self, rig: Rig) -> None:
        """Another description of the same room: devices that stay keep their state. Raises InputError."""
        self.home.replace_devices(_devices(rig))
        self.rig = rig
        self._publish_state({})

    def describe(self) -> dict[str, Any]:
        """The room map; see `edge.home.describe.room_map`."""
        return room_map(self.rig, self.home, time=self._time())

    def _time(self) -> str:
        return datetime.now().strftime(FORM)

    def state(self, device_id: str | None = None) -> dict[str, Any]:
        """Attributes of one device, or of all."""
        if device_id is None:
            return {"devices": self.home.snapshot()}
        return {"device_id": device_id, "attributes": self.home.state(device_id)}

    def command(
        self, device_id: str, command: str, args: dict[str, Any] | None = None, endpoint: int | None = None
    ) -> dict[str, Any]:
        """Carry out a command and tell what changed, with the state read back."""
        return self._run(
            device_id, command, args or {}, lambda: self.home.command(device_id, command, args, endpoint)
        )

    def write(self, device_id: str, attribute: str, value: Value) -> dict[str, Any]:
        """Write one attribute and tell what changed."""
        return self._run(
            device_id,
            f"write {attribute}",
            {"value": value},
            lambda: self.home.write(device_id, attribute, value),
        )

    def _run(self, device_id: str, command: str, args: dict[str, Any], run: Any) -> dict[str, Any]:
        told = {"device_id": device_id, "command": command, "args": args}
        try:
            result = run()
        except Exception as error:
            self._event({**told, "ok": False, "error": getattr(error, "type", type(error).__name__)})
            raise
        self._event({**told, "command": result.command, "ok": True, "changed": result.changed})
        return {
            "device_id": device_id,
            "command": result.command,
            "changed": result.changed,
            "attributes": result.attributes,
        }

    def _changed(self, device_id: str, changed: dict[str, Value]) -> None:
        self._publish_state({device_id: changed})

    def _publish_state(self, changed: dict[str, dict[str, Value]]) -> None:
        if self._publisher is not None:
            data = {"devices": self.home.snapshot(), "changed": changed}
            self._publisher.publish("home", monotonic_ns(), data=data)

    def _event(self, data: dict[str, Any]) -> None:
        if self._publisher is not None:
            self._publisher.publish("event", monotonic_ns(), data={"kind": "command", **data})
