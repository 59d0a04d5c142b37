"""The asyncio client: the same face, and the event loop stays free."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture.blocks import monotonic_ns
from dsp.errors import InputError
from edge.stream import AsyncClient, Client, CommandServer, Publisher, StreamLost, StreamTimeout

ANY = "tcp://127.0.0.1:0"
REPO = Path(__file__).parents[2]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def test_it_has_the_face_of_the_other_client() -> None:
    public = {name for name in vars(Client) if not name.startswith("_")}
    assert public - set(vars(AsyncClient)) <= {"receive_nowait", "timed_out"}
    theirs = inspect.signature(Client).parameters
    assert {name: p for name, p in theirs.items() if name != "on_ready"} == dict(
        inspect.signature(AsyncClient).parameters
    )


def test_messages_commands_and_the_end() -> None:
    async def work() -> None:
        with Publisher(ANY) as publisher, CommandServer(ANY) as server:
            server.register("add", lambda a, b: {"sum": a + b})
            async with AsyncClient(publisher.address, server.address, streams=("foa24", "event")) as rig:
                await rig.wait_connected()
                assert rig.connected
                block = np.ones((240, 4), np.float32)
                for n in range(200):
                    publisher.publish("foa24", n, block)
                publisher.publish("event", monotonic_ns(), data={"kind": "said"})
                assert await rig.command("add", a=2, b=3) == {"sum": 5}
                with pytest.raises(InputError, match="there is no command"):
                    await rig.command("sub")
                publisher.close()
                got = [message async for message in rig.messages(5)]
                assert [m.seq for m in got if m.stream == "foa24"] == list(range(200))
                assert got[-1].data == {"kind": "said"}
                assert rig.statistics()["foa24"]["lost"] == 0 and sum(rig.rejected.values()) == 0
                state = await asyncio.to_thread(rig.clock.wait, 5)
                assert state.uncertainty_ns >= 0

    run(work())


def test_a_slow_command_does_not_hold_the_messages() -> None:
    """While a command is carried out, the loop receives."""

    async def work() -> None:
        with Publisher(ANY) as publisher, CommandServer(ANY) as server:
            server.register("slow", lambda: time.sleep(0.5))
            async with AsyncClient(publisher.address, server.address, streams=("doa",)) as rig:
                await rig.wait_connected()
                asked = asyncio.create_task(rig.command("slow"))
                await asyncio.sleep(0.05)
                for n in range(5):
                    publisher.publish("doa", n, data={})
                    assert (await rig.receive(0.4)).seq == n
                assert not asked.done()
                await asked

    run(work())


def test_two_clients_in_one_loop_and_silence() -> None:
    async def work() -> None:
        with Publisher(ANY) as publisher:
            async with (
                AsyncClient(publisher.address, streams=("doa",)) as one,
                AsyncClient(publisher.address, streams=("levels",)) as two,
            ):
                await asyncio.gather(one.wait_connected(), two.wait_connected())
                publisher.publish("doa", 1, data={})
                publisher.publish("levels", 2, data={})
                first, second = await asyncio.gather(one.receive(5), two.receive(5))
                assert (first.stream, second.stream) == ("doa", "levels")
                with pytest.raises(StreamTimeout, match="sent nothing on doa"):
                    await one.receive(0.1)
                with pytest.raises(InputError, match="commands_address"):
                    await one.command("ops")
        async with AsyncClient("tcp://127.0.0.1:1", streams=("doa",)) as nobody:
            with pytest.raises(StreamTimeout, match=r"no publisher answered .* within 0\.1 s"):
                await nobody.wait_connected(0.1)

    run(work())


def test_a_lost_publisher_is_an_error_without_any_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.stream.client.SILENT_S", 0.5)

    async def work() -> None:
        with Publisher(ANY) as publisher:
            async with AsyncClient(publisher.address, streams=("doa",)) as rig:
                await rig.wait_connected()
                monkeypatch.setattr(publisher, "_beat", lambda closing=False: None)
                with pytest.raises(StreamLost, match="silent since"):
                    await rig.receive()

    run(work())


def test_a_cancelled_reader_loses_nothing() -> None:
    async def work() -> None:
        with Publisher(ANY) as publisher:
            async with AsyncClient(publisher.address, streams=("doa",)) as rig:
                await rig.wait_connected()
                for n in range(20):
                    publisher.publish("doa", n, data={})
                got: list[int] = []
                while len(got) < 20:
                    reading = asyncio.create_task(rig.receive(1))
                    await asyncio.sleep(0)
                    reading.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        got.append((await reading).seq)
                assert got == list(range(20))

    run(work())


def test_the_example_prints_directions_with_their_age_and_ends_with_the_rig() -> None:
    with Publisher(ANY) as publisher, CommandServer(ANY) as server:
        example = subprocess.Popen(
            [sys.executable, "examples/asyncio_client.py", publisher.address, server.address],
            cwd=REPO,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert example.stdout is not None
            assert example.stdout.readline() == "commands: client.beat, ops, time.ping\n"
            publisher.publish("event", monotonic_ns(), data={"kind": "said"})
            assert example.stdout.readline() == "event said\n"
            data = {"azimuth_deg": -31.5, "active": True}
            publisher.publish("doa", monotonic_ns() - 50_000_000, duration_ns=50_000_000, data=data)
            line = example.stdout.readline().split()
            assert line[:2] == ["-31.5", "deg,"] and 0 <= float(line[2]) < 5000 and line[3] == "+-"
            publisher.close()
            assert example.wait(10) == 0
        finally:
            example.kill()
            example.communicate()
