"""What is told to a service manager, read from a socket of our own as systemd would read it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from capture.service_manager import PathWatch, ServiceManager

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 0.4


class Told:
    """The manager's side: datagrams with their times."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lines: list[tuple[float, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(0.05)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._closing.is_set():
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                continue
            self.lines += [(time.monotonic(), line) for line in data.decode().splitlines()]

    def count(self, line: str) -> int:
        return sum(text == line for _, text in self.lines)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def told(request: pytest.FixtureRequest, tmp_path: Path):
    address = str(tmp_path / "notify") if request.param == "path" else f"@hearth-test-{os.getpid()}"
    manager = Told(address)
    yield manager
    manager.close()


def wait_for(what, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(what())


def test_the_environment_names_the_manager_and_is_cleared():
    environ = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid()), "A": "b"}
    manager = ServiceManager.of_environment(environ)
    assert manager.listens and manager.watchdog_s == 30.0
    assert environ == {"A": "b"}, "processes that we start must not speak for us"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "@x"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "1000000"},
    ],
)
def test_no_watchdog_unless_it_is_ours(environ: dict[str, str]):
    assert ServiceManager.of_environment(environ).watchdog_s is None


def test_ready_with_the_first_sound_then_fed_as_long_as_sound_comes(told: Told):
    blocks: list[int | None] = [0]
    ending = [False]
    manager = ServiceManager(told.address, LIMIT_S)
    with PathWatch(manager, lambda: blocks[0], lambda: ending[0], lambda: "at tcp://x\nREADY=0"):
        time.sleep(LIMIT_S)
        assert told.lines == [], "no sound came yet"
        blocks[0] = 1
        assert wait_for(lambda: told.count("READY=1"))
        assert told.count("STATUS=at tcp://x READY=0") == 1, "a status is one line, whatever is in it"
        for _ in range(30):
            assert blocks[0] is not None
            blocks[0] += 1
            time.sleep(0.04)
        assert wait_for(lambda: told.count("WATCHDOG=1") >= 3)
        # Far more often than the limit asks for, and each time because of sound.
        feeds = [t for t, line in told.lines if line == "WATCHDOG=1"]
        assert max(b - a for a, b in pairwise(feeds)) < LIMIT_S

        time.sleep(0.2)  # what was on its way
        hung_at = told.count("WATCHDOG=1")
        time.sleep(2 * LIMIT_S)
        assert told.count("WATCHDOG=1") == hung_at, "a path that stands still feeds nothing"

        blocks[0] = None  # the microphone was pulled out: waiting for it is not hanging
        assert wait_for(lambda: told.count("WATCHDOG=1") > hung_at)

        blocks[0], ending[0] = 31, True
        assert wait_for(lambda: told.count("STOPPING=1"))
        fed = told.count("WATCHDOG=1")
        assert wait_for(lambda: told.count("WATCHDOG=1") > fed), "finishing an episode may take long"
    assert told.count("READY=1") == told.count("STOPPING=1") == 1


def test_a_manager_that_is_gone_or_does_not_read_holds_nothing_up(tmp_path: Path, caplog):
    gone = ServiceManager(str(tmp_path / "nothing"), 10.0)
    gone.ready()
    gone.alive()
    assert len([r for r in caplog.records if "does not hear us" in r.message]) == 1
    deaf = tmp_path / "deaf"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(str(deaf))
        manager = ServiceManager(str(deaf))
        began = time.monotonic()
        for _ in range(2000):
            manager.ready("x" * 100)
        assert time.monotonic() - began < 30, "it blocked"


def test_a_take_tells_its_service_manager(tmp_path: Path):
    """`hearth record` as the unit hearth-capture runs it."""
    noise = 0.05 * np.random.default_rng(9).standard_normal((4 * 48000, 4))
    soundfile.write(tmp_path / "sound.wav", noise, 48000)
    (tmp_path / "rig.yaml").write_text(
        "hearth_rig: 1\nmicrophone: {source: file, file: sound.wav}\ncamera: {source: none}\n"
        "storage: {folder: data, min_free_mib: 0}\n"
    )
    manager = Told(str(tmp_path / "notify"))
    try:
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
        told = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "800000", "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-m", "hearth", "record", "--json"],
            cwd=tmp_path,
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        manager.close()
    assert done.returncode == 0, done.stderr
    lines = [line for _, line in manager.lines if not line.startswith("STATUS=")]
    assert lines[0] == "READY=1" and "STOPPING=1" in lines
    assert lines[: lines.index("STOPPING=1")].count("WATCHDOG=1") >= 5
