"""A client with another CLOCK_MONOTONIC: a time namespace of Linux, 100,000 s ahead, to the nanosecond.

What the namespace shifts is known exactly, so the estimate is compared with the truth, through real sockets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capture.blocks import monotonic_ns
from edge.stream import CommandServer, Publisher

REPOSITORY = Path(__file__).parents[2]
AHEAD_S = 100_000
OTHER_CLOCK = ["unshare", "--user", "--map-root-user", "-T", "--monotonic", str(AHEAD_S)]

pytestmark = pytest.mark.real

CLIENT = """
import json, sys, time
from edge.stream import Client
with Client(sys.argv[1], sys.argv[2], streams=["doa"], name="elsewhere") as rig:
    rig.wait_connected(20)
    rig.clock.wait(20)
    while rig.clock.state.exchanges < 9:
        time.sleep(0.01)
    print("ready", flush=True)
    message = rig.receive(20)
    state = rig.clock.state
    print(json.dumps({
        "age_ms": message.age_ms, "age_uncertainty_ms": message.clock_uncertainty_ns / 1e6,
        "offset_ns": state.offset_ns, "uncertainty_ns": state.uncertainty_ns, "rtt_ns": state.rtt_ns,
        "same": state.same_clock, "local_ns": rig.clock.to_local_ns(message.t_ns), "t_ns": message.t_ns,
    }))
"""


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not installed")
    done = subprocess.run([*OTHER_CLOCK, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no time namespaces here: {done.stderr.strip()[:100]}")


def test_the_offset_of_another_clock_is_found_within_what_is_stated() -> None:
    with Publisher("tcp://127.0.0.1:0") as publisher, CommandServer("tcp://127.0.0.1:0") as server:
        client = subprocess.Popen(
            [*OTHER_CLOCK, sys.executable, "-c", CLIENT, publisher.address, server.address],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert client.stdout is not None and client.stdout.readline() == "ready\n"
            assert [row["name"] for row in server.clients.to_list()] == ["elsewhere"]
            publisher.publish("doa", monotonic_ns() - 300_000_000, duration_ns=100_000_000, data={})
            found = json.loads(client.communicate(timeout=30)[0])
        finally:
            client.kill()
            client.communicate()
    truth_ns = -AHEAD_S * 1_000_000_000
    assert not found["same"]
    assert abs(found["offset_ns"] - truth_ns) <= found["uncertainty_ns"]
    assert found["uncertainty_ns"] <= found["rtt_ns"] / 2 + 3_000_000
    assert abs(found["local_ns"] - (found["t_ns"] - truth_ns)) <= found["uncertainty_ns"] + 1_000_000
    # 200 ms old when it was sent; without the clock it would be 100,000 s.
    assert 200 - found["age_uncertainty_ms"] <= found["age_ms"] < 5000
