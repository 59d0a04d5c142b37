"""The units under a real systemd: watchdog, restart, read-only operation, reload, what status tells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from systemd_box import SystemdBox, in_tmp, start

from edge.stream import Client
from recordings.episode import list_episodes
from tests.test_cli_json import assert_documented

REPOSITORY = Path(__file__).parents[2]
HEARTH = str(Path(sys.executable).parent / "hearth")
SHORT = """[Service]
WatchdogSec=3
TimeoutAbortSec=1
RestartSec=1
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdBox]:
    if not os.access(HEARTH, os.X_OK):
        pytest.skip("Hearth is not installed beside this Python (make setup)")
    running = start(tmp_path_factory.mktemp("systemd") / "log")
    yield running
    running.close()


def until(what: Callable[[], bool], box: SystemdBox, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, box.said()
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def take_compiled_kernels(cache: Path) -> None:
    """What was compiled for this checkout already, so that the first start does not compile for a minute."""
    from numba.core.caching import _CacheLocator

    for package in ("dsp", "capture", "recordings", "edge"):
        for file in (REPOSITORY / package).rglob("*.nb[ic]"):
            source = file.parent.parent / "any.py"
            into = cache / _CacheLocator.get_suitable_cache_subpath(str(source))
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, into)


@pytest.mark.real
@pytest.mark.slow
def test_the_live_unit(box: SystemdBox) -> None:
    stream, commands = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
    home = box.root / "srv" / "a home"
    home.mkdir()
    noise = 0.05 * np.random.default_rng(8).standard_normal((120 * 48000, 4))
    soundfile.write(home / "sound.wav", noise.astype(np.float32), 48000, subtype="PCM_16")
    text = f"""
hearth_rig: 1
microphone: {{source: file, file: sound.wav}}
camera: {{source: none}}
storage: {{folder: data, min_free_mib: 10}}
endpoints: {{stream: "{stream}", commands: "{commands}", console: off, metrics: off}}
"""
    (home / "rig.yaml").write_text(text)
    short = box.root / "etc/systemd/system/hearth-live.service.d"
    short.mkdir()
    (short / "short.conf").write_text(SHORT + ("PrivateTmp=no\n" if in_tmp() else ""))
    take_compiled_kernels(home / "data" / ".cache" / "numba")

    # Installed and started: systemctl returns when READY=1 came, so sound is on its way.
    words = ("service", "install", "live", "--system", "--record", "--json")
    installed = json.loads(box.run(HEARTH, *words, cwd="/srv/a home"))
    assert_documented("service install", installed)
    assert installed["written"] is True and installed["folder"] == "/etc/systemd/system"
    told = json.loads(box.run(HEARTH, "service", "status", "--system", "--json"))
    assert_documented("service status", told)
    live = next(unit for unit in told["units"] if unit["name"] == "hearth-live.service")
    assert told["ok"] and live["active"] and live["enabled"] and live["restarts"] == 0
    assert stream in live["status"]

    # Read-only but for the data folder, even for root.
    first = box.host_pid(live["pid"])
    closed = ["/", "/etc", "/usr", "/var", "/run", "/srv", "/srv/a home", str(REPOSITORY), str(Path.home())]
    for folder in closed:
        command = ("nsenter", "-t", str(live["pid"]), "-m", "touch", f"{folder}/hearth-test-file")
        assert box.run("sh", "-c", '"$@" 2>&1', "sh", *command, check=False).endswith("Read-only file system")
    box.run("nsenter", "-t", str(live["pid"]), "-m", "touch", "/srv/a home/data/may-be-written")
    status = Path(f"/proc/{first}/status").read_text()
    assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status and "Seccomp:\t2" in status

    with Client(stream, commands, streams=["foa24", "event"]) as client:
        client.wait_connected(10)
        (home / "rig.yaml").write_text(text.replace("min_free_mib: 10", "min_free_mib: 11"))
        box.run("systemctl", "reload", "hearth-live")
        events = (m.data for m in client.messages(10) if m.stream == "event")
        reloaded = next(data for data in events if data["kind"] == "reloaded")
        assert reloaded["applied"] == ["storage.min_free_mib"]

        # The whole process hangs: no sound, no WATCHDOG=1, and systemd starts it anew.
        os.kill(first, signal.SIGSTOP)
        shown = ("NRestarts", "ActiveState", "MainPID")
        until(lambda: box.show("hearth-live", "Result")["Result"] == "watchdog", box)
        until(lambda: box.show("hearth-live", *shown)["NRestarts"] == "1", box)
        until(lambda: box.show("hearth-live", *shown)["ActiveState"] == "active", box)
        assert int(box.show("hearth-live", *shown)["MainPID"]) != live["pid"]
        assert client.command("live.stats", timeout_s=10)["blocks"] > 0, "the new one answers"
    time.sleep(1.0)
    box.run("systemctl", "stop", "hearth-live")
    assert box.show("hearth-live", "Result")["Result"] == "success"
    interrupted, finished = list_episodes(home / "data")
    assert (interrupted.state, finished.state) == ("interrupted", "finished") and finished.verify().ok
    assert finished.checks["audio"]["lost_frames"] == 0

    # The journal knows priority and unit of each line.
    logged = json.loads(box.run(HEARTH, "service", "logs", "live", "--system", "--lines", "200", "--json"))
    assert_documented("service logs", logged)
    said = [
        (line["level"], line["message"]) for line in logged["lines"] if line["unit"] == "hearth-live.service"
    ]
    assert any(level == "info" and f"stream {stream}" in text for level, text in said), said
    assert any("event reloaded" in text for _, text in said)
    shown = box.run(HEARTH, "service", "logs", "live", "--system")
    assert "event recorded" in shown and "<6>" not in shown

    removed = json.loads(box.run(HEARTH, "service", "uninstall", "--system", "--json"))
    assert_documented("service uninstall", removed)
    assert removed["removed"] == ["/etc/systemd/system/hearth-live.service"]
    assert box.show("hearth-live", "LoadState")["LoadState"] == "not-found"
