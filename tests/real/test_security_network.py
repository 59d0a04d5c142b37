"""Keys between two hosts: the rig here, its clients in a network namespace, over a virtual cable."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cable import cable_to

from edge.stream import Access, CommandServer, Publisher
from edge.stream.keys_folder import KeysFolder

pytestmark = pytest.mark.real
REPOSITORY = Path(__file__).parents[2]
RIG, CLIENT = "10.213.71.1", "10.213.71.2"
PROGRAM = """
import json, sys, time
from edge.stream import AccessDenied, Client
stream, commands, folder = sys.argv[1:]
began = time.monotonic()
told = {"error": None}
try:
    with Client(stream, commands, ("doa", "video"), keys=folder or None) as client:
        client.wait_connected(10)
        told["ops"] = len(client.command("ops")["ops"])
        told["streams"] = sorted({client.receive(5).stream for _ in range(20)})
        told["clock"] = client.clock.wait().exchanges > 0
except AccessDenied as error:
    told["error"] = str(error)
told["seconds"] = time.monotonic() - began
print(json.dumps(told))
"""
PLAIN = """
import sys, zmq
with zmq.Context() as context, context.socket(zmq.SUB) as socket:
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(sys.argv[1])
    print(socket.poll(2000))
"""


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A namespace whose only network is a cable to this one."""
    with cable_to(RIG, CLIENT) as (name, _):
        yield name


def there(namespace: str, program: str, *args: object) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-c", program, *map(str, args)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_from_another_host(namespace: str, tmp_path: Path) -> None:
    rig, client = KeysFolder(tmp_path / "rig"), KeysFolder(tmp_path / "client")
    stranger, lost = KeysFolder(tmp_path / "stranger"), KeysFolder(tmp_path / "lost")
    word = rig.make("rig", "rig").public.word
    for folder in (client, stranger):
        folder.allow("rig", word)
    lost.allow("rig", KeysFolder(tmp_path / "other").make("rig", "rig").public.word)
    rig.allow("tablet", client.make("tablet", "client").public.word)
    unlisted = stranger.make("stranger", "client").public.fingerprint
    lost.make("lost", "client")
    access = Access.to_rig(rig.path, "tcp://0.0.0.0:0")
    denied: list[dict[str, Any]] = []
    access.listen(lambda kind, fields: denied.append(fields))

    def ask(folder: KeysFolder) -> dict[str, Any]:
        return dict(json.loads(there(namespace, PROGRAM, stream, commands, folder.path)))

    with (
        Publisher("tcp://0.0.0.0:0", access=access) as publisher,
        CommandServer("tcp://0.0.0.0:0", access) as server,
        Steady(publisher),
    ):
        stream = f"tcp://{RIG}:{publisher.address.rsplit(':', 1)[1]}"
        commands = f"tcp://{RIG}:{server.address.rsplit(':', 1)[1]}"
        told = ask(client)
        assert told["error"] is None and told["streams"] == ["doa", "video"]
        assert told["ops"] > 0 and told["clock"] and denied == []
        assert there(namespace, PLAIN, stream).strip() == "0"  # not one byte of a message
        assert {fields["reason"] for fields in denied} <= {"plaintext", "incomplete"} and denied
        for folder, reason, words in (
            (stranger, "unlisted", unlisted),
            (lost, "wrong_server_key", "has another key than rig"),
        ):
            denied.clear()
            told = ask(folder)
            assert words in told["error"] and told["seconds"] < 10
            named = [fields for fields in denied if fields["reason"] == reason]
            assert named and named[0]["address"] == CLIENT
        rig.revoke("tablet")
        told = ask(client)
        assert "hearth keys allow tablet" in told["error"]


class Steady:
    """Publishes all the time, from a thread."""

    def __init__(self, publisher: Publisher) -> None:
        import threading

        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(publisher,))

    def _run(self, publisher: Publisher) -> None:
        number = 0
        while not self._stop.wait(0.02):
            number += 1
            publisher.publish("doa", number, data={"n": number})
            publisher.publish("video", number, b"\xff\xd8\xff", shape=(1, 1, 3))

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
