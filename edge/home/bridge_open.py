"""The home that rig.yaml names: the twin, Home Assistant, or devices behind an MQTT broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capture.rig import Rig
from dsp.errors import InputError
from edge.home.bridge import BridgeHome, Link
from edge.home.schema import Value
from edge.home.timeline import WallTimeline
from edge.home.twin import CommandResult, Home
from recordings.profile import HomeState


class RealHome(WallTimeline):
    """A real home in time: its devices, the air that its sensors measure, and a schedule kept here."""

    def __init__(self, rig: Rig, link: Link) -> None:
        super().__init__()
        self._home = BridgeHome(rig, link)
        self._watch_cycles()

    @property
    def home(self) -> BridgeHome:
        """Its devices."""
        return self._home

    def rooms(self) -> dict[str, dict[Any, float]]:
        """room -> variable -> value, as far as sensors tell."""
        return self._home.air()

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult:
        """See `BridgeHome.command`."""
        return self._home.command(device_id, command, args, endpoint)

    def write(self, device_id: str, path: str, value: Value) -> CommandResult:
        """See `BridgeHome.write`."""
        return self._home.write(device_id, path, value)

    def close(self) -> None:
        """End the connection."""
        self._home.close()


def link_of(rig: Rig) -> Link:
    """The way to the rig's real home; it connects by itself, now or when the home is there.

    Raises InputError for a token or password that cannot be read, or a rig whose home is a twin.
    """
    if rig.home.kind == "home_assistant":
        from edge.home.home_assistant import HomeAssistantLink, read_token

        assert rig.home.url is not None and rig.home.token_file is not None  # checked with the rig
        return HomeAssistantLink(rig.home.url, read_token(Path(rig.home.token_file)))
    if rig.home.kind == "mqtt":
        from edge.home.mqtt import MqttLink

        assert rig.mqtt is not None
        return MqttLink(rig.mqtt)
    raise InputError("this rig's home is a twin: there is nothing to connect to (`home.kind` of rig.yaml)")


@contextlib.contextmanager
def home_opened(
    rig: Rig, initial: HomeState | dict[str, dict[str, Value]] | None = None
) -> Iterator[Home | RealHome | None]:
    """The rig's home until the block ends: a twin in the state `initial` (None for a room without devices),
    or a real one, which is as it is. A real home that does not answer yet is waited for in the background."""
    if rig.home.kind == "twin":
        from edge.home.service import home_of

        yield home_of(rig, initial) if rig.room.devices else None
        return
    home = RealHome(rig, link_of(rig))
    try:
        yield home
    finally:
        home.close()
