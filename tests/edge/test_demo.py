"""`hearth demo` as people run it: from source to agent, and when it is ended by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recordings import Episode, list_episodes

ROOT = Path(__file__).resolve().parents[2]
MARK = "HEARTH_TEST_OF"  # inherited by the agent, so that it can be told from others
pytest.importorskip("faster_whisper", reason="the speech model is not installed: extra [perception]")


class Demo:
    """A demo in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.errors = folder / "errors.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hearth", "demo", "--json", *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), MARK: str(folder)},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wait_for_recording(self) -> None:
        deadline = time.monotonic() + 120
        while "recording starts" not in self.errors.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.errors.read_text()
            time.sleep(0.1)

    def result(self) -> dict:
        out, _ = self.process.communicate(timeout=150)
        return json.loads(out) if out.strip() else {}


def agents_of(demo: Demo) -> list[str]:
    """Command lines of the agents that this demo started and that still live."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
            environment = (process / "environ").read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        if "hearth" in words and "agent" in words and f"{MARK}={demo.folder}" in environment:
            found.append(" ".join(words))
    return found


def test_a_spatial_request_ends_in_a_verified_episode_and_a_reached_goal(tmp_path):
    demo = Demo(tmp_path, "--seed", "1")
    result = demo.result()
    assert demo.process.returncode == 0, demo.errors.read_text()
    assert result["trouble"] is None
    assert result["text"] == f"declared {result['truth']}, truth {result['truth']}, goal reached"
    episode = Episode.open(tmp_path / result["episode"])
    assert episode.verify().ok and episode.state == "finished"
    page = (tmp_path / result["page"]).read_text(encoding="utf-8")
    assert result["truth"] in page and "http://" not in page.replace("http://www.w3.org", "")
    # The clock and the slate are the virtual room's: no drift and no offset, within what is said of them.
    assert abs(result["drift_ppm"]) < 5 * result["drift_sigma_ppm"] + 5
    assert abs(result["av_offset_ms"]) < 4 * result["av_offset_sigma_ms"] + 1
    kinds = [line.get("kind") for line in episode.timeline() if line["type"] == "event"]
    assert kinds.index("heard") < kinds.index("declared") < kinds.index("command") < kinds.index("finished")


def test_sigterm_finishes_the_episode_and_ends_the_agent(tmp_path):
    demo = Demo(tmp_path)
    demo.wait_for_recording()
    time.sleep(2.0)
    assert len(agents_of(demo)) == 1
    demo.process.send_signal(signal.SIGTERM)
    result = demo.result()
    assert demo.process.returncode == 1
    assert result["trouble"] == "ended by hand"
    (episode,) = list_episodes(tmp_path / "data")
    assert episode.state == "finished" and episode.verify().ok
    assert agents_of(demo) == []
