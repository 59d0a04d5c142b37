"""A running rig that asks for keys: strangers are told on its own stream, and reach no command."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))
from test_live_service import make_files, rig_text

from bench import hostile_messages as hostile
from capture.rig import Rig, Security, parse_rig
from capture.sources import open_rig
from dsp.errors import InputError
from edge.live import LiveService, access_of
from edge.stream import AccessDenied, Client, CommandClient
from edge.stream.keys_folder import KeysFolder


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    make_files(tmp_path, seconds=3.0)
    keys = Security(keys=str(tmp_path / "keys"), loopback="keys")
    return msgspec.structs.replace(parse_rig(rig_text(tmp_path)), security=keys)


def test_a_rig_without_its_key_does_not_start(rig: Rig) -> None:
    with pytest.raises(InputError, match="hearth keys make --rig"):
        access_of(rig)


def test_a_stranger_is_told_and_can_do_nothing(rig: Rig, tmp_path: Path) -> None:
    ours, theirs = KeysFolder(rig.security.keys), KeysFolder(tmp_path / "stranger")
    theirs.allow("rig", ours.make("rig", "rig").public.word)
    stranger = theirs.make("stranger", "client")
    with open_rig(rig) as opened, LiveService(rig, opened) as service:
        local = (service.local_stream_address, service.local_commands_address)
        with Client(*local, ["event", "state", "health", "foa24"]) as watcher:
            watcher.wait_connected()
            service.start()
            with closing(CommandClient(service.commands_address, theirs.path)) as client:
                for _ in range(2):
                    with pytest.raises(AccessDenied, match=stranger.public.fingerprint):
                        client.command("live.mute", muted=True, timeout_s=10)
            with closing(CommandClient(service.commands_address)) as client, pytest.raises(AccessDenied):
                client.command("live.mute", muted=True, timeout_s=10)
            assert not service.muted and service.commands.served == 0
            denied: list[dict[str, Any]] = []
            health: dict[str, Any] = {}
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and not (denied and health.get("denied", {}).get("unlisted")):
                message = watcher.receive(10)
                if message.stream == "event" and message.data["kind"] == "denied":
                    denied.append(message.data)
                elif message.stream == "health":
                    health = message.data["security"]
            assert denied[0]["reason"] == "unlisted"
            assert denied[0]["fingerprint"] == stranger.public.fingerprint
            assert health["encrypted"] is True and health["denied"]["unlisted"] >= 2
            assert watcher.command("live.mute", muted=True)["muted"] is True  # this user's own programs may
            # No command, well or badly made, brings out what a muted rig hears or sees.
            before = content(service)
            with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(service.local_commands_address)
                hostile.flood_commands(socket, 600, seed=5)
                for body in hostile.commands():
                    socket.send_multipart([b"", body])
            assert watcher.command("ops", timeout_s=20)
            assert service.muted and content(service) == before


def content(service: LiveService) -> dict[str, int]:
    """Messages so far that carry something heard or seen."""
    names = ("foa24", "video", "doa", "tracks", "activity", "levels")
    return {name: count for name, count in service.publisher.sent.items() if name in names}
