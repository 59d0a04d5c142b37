"""SIGKILL in the middle of `hearth record`: at most half a second is lost, and the next start says so; Ctrl-C
finishes the episode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recordings import Episode, repair

ROOT = Path(__file__).resolve().parents[2]


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "hearth.py", "record", "--folder", str(folder), "--session", "kill", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_recording(process: subprocess.Popen[str]) -> list[str]:
    """Read its messages until it records; gives those before."""
    assert process.stderr is not None
    before = []
    for line in process.stderr:
        if line.startswith("recording "):
            return before
        before.append(line)
    raise AssertionError("".join(before))


@pytest.mark.slow
def test_sigkill_costs_at_most_half_a_second_and_ctrl_c_nothing(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for_recording(process)
    time.sleep(4)
    killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    [folder] = (tmp_path / "kill").iterdir()
    assert Episode.open(folder).state == "interrupted"

    # The next start lists it, with the command that finishes it, and records its own episode none the less;
    # that one ends by Ctrl-C, which finishes it.
    following = start(tmp_path, "--json")
    messages = wait_for_recording(following)
    assert any(str(folder) in line and "hearth repair" in line for line in messages)
    time.sleep(2)
    following.send_signal(signal.SIGINT)
    output, errors = following.communicate(timeout=100)
    assert following.returncode == 0, errors
    result = json.loads(output)
    assert result["interrupted"] == [str(folder)]
    assert result["stop_reason"] == "interrupt" and result["seconds"] > 1
    whole = Episode.open(result["episode"])
    assert whole.state == "finished" and whole.verify().ok
    assert len(whole.truth()["sources"]) > 0

    repair(folder)
    episode = Episode.open(folder)
    assert episode.state == "finished" and episode.verify().ok
    blocks = [line for line in episode.timeline() if line["type"] == "audio"]
    end_ns = blocks[0]["t_ns"] + episode.original.frames * 1_000_000_000 // 48000
    assert (killed_ns - end_ns) / 1e9 <= 0.5, "sound"
    assert (killed_ns - int(episode.frame_times()[-1])) / 1e9 <= 0.5, "pictures"
    pictures = sum(1 for _ in episode.frames())
    assert pictures == len(episode.frame_times())
    assert np.abs(episode.audio()).max() > 0
