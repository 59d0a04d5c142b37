"""A client in another language reads what our publisher sends: Node.js with zeromq and @msgpack/msgpack."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edge.stream import Access, Publisher
from edge.stream.keys_folder import KeysFolder

NODEJS = Path(__file__).parents[2] / "edge" / "stream" / "nodejs"

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def node() -> str:
    program = shutil.which("node")
    npm = shutil.which("npm")
    if program is None or npm is None:
        pytest.skip("Node.js with npm is not installed (Debian: apt-get install nodejs npm)")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < 18:
        pytest.skip(f"Node.js {version.strip()} is too old; the packages need 18")
    if not (NODEJS / "node_modules" / "zeromq").is_dir():
        done = subprocess.run([npm, "ci"], cwd=NODEJS, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"npm ci could not fetch the packages: {done.stderr.strip()[-300:]}")
    return program


def run_subscriber(node: str, publisher: Publisher, streams: str, count: int, publish) -> list[dict]:
    """Publish until the Node.js program has printed `count` messages; its lines as dicts."""
    process = subprocess.Popen(
        [node, "subscriber.js", publisher.address, streams, str(count)],
        cwd=NODEJS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    done = threading.Event()

    def keep_publishing() -> None:
        number = 0
        while not done.is_set():
            publish(number)
            number += 1
            time.sleep(0.01)

    thread = threading.Thread(target=keep_publishing)
    thread.start()
    try:
        out, err = process.communicate(timeout=30)
    finally:
        done.set()
        thread.join()
        process.kill()
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_node_decodes_samples_values_and_times(node: str) -> None:
    """Every field and the samples themselves come out in JavaScript as they went in."""
    rng = np.random.default_rng(7)
    blocks = rng.standard_normal((16, 240, 4)).astype(np.float32)
    start_ns = (1 << 53) + 1  # a float64 cannot hold it: the client must keep integers

    with Publisher("tcp://127.0.0.1:0") as publisher:

        def publish(number: int) -> None:
            block = blocks[number % 16]
            publisher.publish("foa24", start_ns + number, block, duration_ns=10_000_000)
            publisher.publish(
                "doa", start_ns + number, data={"azimuth_deg": -12.5, "active": True, "n": number, "é": None}
            )

        lines = run_subscriber(node, publisher, "foa24,doa", 40, publish)
        epoch = publisher.epoch

    sound = [line for line in lines if line["stream"] == "foa24"]
    directions = [line for line in lines if line["stream"] == "doa"]
    assert len(sound) >= 15 and len(directions) >= 15
    for line in sound:
        number = int(line["t_ns"]) - start_ns
        assert line["seq"] == number and int(line["epoch"]) == epoch and line["v"] == 1
        assert line["shape"] == [240, 4] and line["dtype"] == "float32" and line["bytes"] == 240 * 4 * 4
        assert line["units"] == "full scale +-1" and line["duration_ns"] == 10_000_000
        expected = blocks[number % 16].ravel()[:8]
        assert np.array_equal(np.array(line["first"], np.float32), expected)
    for line in directions:
        number = int(line["t_ns"]) - start_ns
        assert line["data"] == {"azimuth_deg": -12.5, "active": True, "n": number, "é": None}
        assert line["encoding"] == "none" and line["bytes"] == 0
    numbers = [line["seq"] for line in sound]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_node_finds_the_pictures(node: str) -> None:
    """Video comes over its own socket, whose address the heartbeat tells."""
    import cv2

    picture = np.full((48, 64, 3), 90, np.uint8)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
    with Publisher("tcp://127.0.0.1:0") as publisher:
        lines = run_subscriber(
            node, publisher, "video", 5, lambda n: publisher.publish("video", n, jpeg, shape=picture.shape)
        )
    assert [line["encoding"] for line in lines] == ["jpeg"] * 5
    assert all(line["shape"] == [48, 64, 3] and line["bytes"] == len(jpeg) for line in lines)


def test_node_uses_keys_and_says_when_they_are_refused(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, client = KeysFolder(tmp_path / "rig"), KeysFolder(tmp_path / "client")
    client.allow("rig", rig.make("rig", "rig").public.word)
    monkeypatch.setenv("HEARTH_KEYS", str(client.path))
    own = client.make("node", "client")
    jpeg = b"\xff\xd8\xff"
    with Publisher("tcp://127.0.0.1:0", access=Access(rig, everywhere=True)) as publisher:
        refused = subprocess.run(
            [node, "subscriber.js", publisher.address, "doa", "1"],
            cwd=NODEJS, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert refused.returncode == 1 and "hearth keys allow" in refused.stderr
        rig.allow("node", own.public.word)
        while not publisher.access.allows(own.public.fingerprint):
            time.sleep(0.05)

        def publish(number: int) -> None:
            publisher.publish("doa", number, data={"n": number})
            publisher.publish("video", number, jpeg, shape=(1, 1, 3))

        lines = run_subscriber(node, publisher, "doa", 5, publish)
        assert [line["data"]["n"] for line in lines] == [int(line["t_ns"]) for line in lines]
        assert run_subscriber(node, publisher, "video", 1, publish)[0]["encoding"] == "jpeg"


def test_node_tells_a_silent_rig_and_ends_with_the_rig(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Publisher("tcp://127.0.0.1:0") as publisher:
        process = subprocess.Popen(
            [node, "subscriber.js", publisher.address, "doa"],
            cwd=NODEJS,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None and process.stderr is not None
            stop = threading.Event()

            def publish() -> None:
                while not stop.wait(0.05):
                    publisher.publish("doa", 1, data={})

            thread = threading.Thread(target=publish)
            thread.start()
            assert json.loads(process.stdout.readline())["stream"] == "doa"
            stop.set()
            thread.join()
            with monkeypatch.context() as silent:
                silent.setattr(publisher, "_beat", lambda closing=False: None)
                assert "no heartbeat for 3 s" in process.stderr.readline()
            publisher.close()
            process.communicate(timeout=20)
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()
