"""Two rigs on two hosts: one here, one in a network namespace behind keys; the cable is pulled."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cable import cable_to, ip

from capture.blocks import monotonic_ns
from edge.perception.utterance import UtteranceCutter
from edge.perception.voice import Voice
from edge.rigs.addresses import RigAddress
from edge.rigs.rig_set import RigSet
from edge.stream import CommandServer, Publisher
from edge.stream.keys_folder import KeysFolder

pytestmark = pytest.mark.real
REPOSITORY = Path(__file__).parents[2]
AGENT, RIG = "10.213.72.1", "10.213.72.2"
BLOCK = np.zeros((240, 4), np.float32)
PROGRAM = """
import sys, time
import numpy as np
from capture.blocks import monotonic_ns
from edge.stream import Access, CommandServer, Publisher
stream, commands, folder = sys.argv[1:]
access = Access.to_rig(folder, stream)
with Publisher(stream, access=access) as publisher, CommandServer(commands, access) as server:
    server.register("rig.describe", lambda: {"id": "there", "run": publisher.epoch})
    print("ready", flush=True)
    while True:
        block = np.zeros((240, 4), np.float32)
        publisher.publish("foa24", monotonic_ns() - 10_000_000, block, units="full scale +-1")
        time.sleep(0.01)
"""


@pytest.fixture
def cable() -> Iterator[tuple[str, str]]:
    """A namespace, and this side's end of the cable to it."""
    with cable_to(AGENT, RIG) as ends:
        yield ends


class Deaf:
    """A voice detector for streams without sound."""

    def push(self, mono: object) -> list[Voice]:
        return []


def test_a_rig_behind_keys_and_a_cable_that_is_pulled(cable: tuple[str, str], tmp_path: Path) -> None:
    namespace, end = cable
    rig, agent = KeysFolder(tmp_path / "rig"), KeysFolder(tmp_path / "agent")
    agent.allow("there", rig.make("there", "rig").public.word)
    rig.allow("agent", agent.make("agent", "client").public.word)
    remote = [f"tcp://{RIG}:{port}" for port in (5771, 5772)]
    program = subprocess.Popen(
        ["ip", "netns", "exec", namespace, sys.executable, "-c", PROGRAM, *remote, str(rig.path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    publisher, server = Publisher("tcp://127.0.0.1:0"), CommandServer("tcp://127.0.0.1:0")
    server.register("rig.describe", lambda: {"id": "here", "run": publisher.epoch})
    rigs = RigSet(
        [
            RigAddress(stream=remote[0], commands=remote[1], keys=str(agent.path)),
            RigAddress(stream=publisher.address, commands=server.address),
        ],
        lambda heard: None,
        cutter=lambda: UtteranceCutter(lambda: Deaf()),
    )

    def until(there: bool, timeout_s: float = 20.0) -> bool:
        """Publish here until the remote rig is heard, or is not, while the local one is."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            publisher.publish("foa24", monotonic_ns() - 10_000_000, BLOCK, units="full scale +-1")
            if rigs.links[0].alive == there and rigs.links[1].alive:
                return True
            time.sleep(0.01)
        return False

    try:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        rigs.start(15.0)
        assert [link.id for link in rigs.links] == ["there", "here"]
        assert until(there=True)
        assert rigs.links[0].clock_s < 0.25
        ip("link", "set", end, "down")
        assert until(there=False)
        ip("link", "set", end, "up")
        assert until(there=True, timeout_s=30)
    finally:
        rigs.close()
        publisher.close()
        server.close()
        program.kill()
        program.communicate()
