"""Processes that are looked after: killed, hung and failing ones come back; a recording notices nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from capture.rig import parse_rig
from capture.service_manager import ServiceManager
from capture.sources import open_rig
from capture.take import new_profile
from edge.home.service import home_of
from edge.live import LiveService
from edge.service import attend
from edge.service.attend import attended
from edge.service.child import Child
from recordings.episode import Episode

SPEAKS = """
import os, socket, sys, time
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def say(text): to.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
assert int(os.environ["WATCHDOG_USEC"]) == 600000
say("READY=1")
"""
BUSY = SPEAKS + "while True: say('WATCHDOG=1'); time.sleep(0.1)"
SILENT = SPEAKS + "time.sleep(60)"


class Events:
    """What a child told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict]] = []
        self._new = threading.Condition()

    def __call__(self, kind: str, **values) -> None:
        with self._new:
            self.told.append((kind, values))
            self._new.notify_all()

    def wait(self, kind: str, count: int = 1, seconds: float = 30.0) -> dict:
        with self._new:
            found = self._new.wait_for(lambda: len(self.of(kind)) >= count, seconds)
        assert found, f"no {kind} number {count}: {self.told}"
        return self.of(kind)[count - 1]

    def of(self, kind: str) -> list[dict]:
        return [values for told, values in self.told if told == kind]


def run(code: str, events: Events, **options) -> Child:
    return Child("busy", [sys.executable, "-c", code], events, **{"silent_s": 0.6, **options})


def wait_ready(child: Child, seconds: float = 60.0) -> int:
    end = time.monotonic() + seconds
    while not child.ready and time.monotonic() < end:
        time.sleep(0.02)
    assert child.ready and child.pid
    return child.pid


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_silent_process_is_hung_and_comes_back_after_a_pause():
    events = Events()
    with run(SILENT, events) as child:
        first = events.wait("process_started")["pid"]
        assert events.wait("process_hung")["pid"] == first
        ended = events.wait("process_ended")
        assert "no sign of life" in ended["detail"] and ended["again_in_s"] == 0.5
        assert events.wait("process_started", 2)["restarts"] == 1
        assert events.wait("process_ended", 2)["again_in_s"] == 1.0, "longer each time"
        assert gone(first)
    assert child.pid is None


def test_one_that_fails_at_once_is_tried_again_and_again_with_growing_pauses():
    events = Events()
    with run("import sys; sys.exit(3)", events):
        assert events.wait("process_ended", 2) == {
            "process": "busy",
            "detail": "ended with exit code 3",
            "again_in_s": 1.0,
        }
    missing = Events()
    with Child("none", ["/nowhere/to/be/found"], missing):
        assert "could not be started" in missing.wait("process_ended")["detail"]


def test_a_wanted_restart_and_the_end_are_no_faults():
    events = Events()
    with run(BUSY, events) as child:
        first = wait_ready(child)
        child.start_again()
        assert events.wait("process_started", 2)["pid"] != first and gone(first)
        last = wait_ready(child)
    assert events.of("process_ended") == [] and gone(last)


def test_its_own_children_end_with_it():
    events = Events()
    code = (
        "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True)\n" + SILENT
    ).replace("print(p.pid, flush=True)", "open(sys.argv[1], 'w').write(str(p.pid))")
    code = "import sys\n" + code
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"hearth-test-{os.getpid()}"
    try:
        with Child("busy", [sys.executable, "-c", code, str(path)], events, silent_s=0.6):
            events.wait("process_ended")
            grandchild = int(path.read_text())
            end = time.monotonic() + 5
            while not gone(grandchild) and _state(grandchild) != "Z" and time.monotonic() < end:
                time.sleep(0.02)
            assert gone(grandchild) or _state(grandchild) == "Z"
    finally:
        path.unlink(missing_ok=True)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return "Z"


@pytest.mark.slow
def test_perception_is_killed_and_hangs_while_a_take_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The issue's "must show": SIGKILL and SIGSTOP of the agent's process cost the recording no sample."""
    rng = np.random.default_rng(7)
    written = (rng.standard_normal((90 * 48000, 4)) * 0.05).astype(np.float32)
    soundfile.write(tmp_path / "sound.wav", written, 48000, subtype="PCM_24")
    (tmp_path / "hears_nothing.py").write_text("def recognise(mono, fs):\n    return ''\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(attend, "AGENT_SILENT_S", 2.0)
    rig = parse_rig(f"""
hearth_rig: 1
microphone: {{source: file, file: {tmp_path / "sound.wav"}}}
camera: {{source: none}}
room: {{devices: [{{id: lamp, type: on_off_light, name: lamp, position_m: [1, 1, 1]}}]}}
storage: {{folder: {tmp_path / "data"}, min_free_mib: 0}}
endpoints: {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0", console: off, metrics: off}}
""")
    events = Events()
    options = ["--recogniser", "hears_nothing:recognise"]
    with open_rig(rig) as opened:
        profile = new_profile(rig, opened, "killed")
        with (
            LiveService(rig, opened, home=home_of(rig), record=True, profile=profile) as service,
            attended(service, lambda: rig, manager=ServiceManager(), agent=options) as attendance,
        ):
            service.publisher.listen(lambda header: events(**header.data) if "kind" in header.data else None)
            service.start()
            agent = attendance.agent
            assert agent is not None
            first = wait_ready(agent)
            os.kill(first, signal.SIGKILL)
            assert "SIGKILL" in events.wait("process_ended")["detail"]
            second = wait_ready(agent)
            os.kill(second, signal.SIGSTOP)
            hung = events.wait("process_hung")
            assert hung["pid"] == second and hung["silent_s"] >= 2.0
            assert "no sign of life" in events.wait("process_ended", 2)["detail"]
            third = wait_ready(agent)
            assert len({first, second, third}) == 3 and gone(second)
            stats = service.stop()
    assert agent.restarts == 2
    assert stats["recording"]["lost_frames"] == 0
    # On a machine that is too busy the live chain may pass blocks over, and says so; the source lost none.
    assert stats["lost_frames"] == 480 * stats["blocks_dropped"]
    episode = Episode.open(stats["recording"]["episode"])
    kept = np.concatenate(
        [soundfile.read(p, dtype="int32")[0] for p in sorted((episode.path / "foa_48k").glob("*.wav"))]
    )
    source, _ = soundfile.read(tmp_path / "sound.wav", dtype="int32")
    assert len(kept) > 3 * 48000
    np.testing.assert_array_equal(kept, source[: len(kept)])
