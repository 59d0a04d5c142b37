"""A whole take by the command line from a USB microphone and a USB camera that is pulled out midway."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from kernel import PATIENCE_S
from test_usb_camera import SIZE
from test_usb_microphone import matches
from usb_camera import jpeg, number_of
from usb_microphone import RATE

from recordings import Episode

ROOT = Path(__file__).resolve().parents[2]
RIG = f"""
hearth_rig: 1
microphone: {{source: sounddevice, device: H3-VR, channels: 4}}
camera: {{source: v4l2, device: Test Camera, width_px: {SIZE[0]}, height_px: {SIZE[1]}, fps: 10}}
storage: {{folder: takes, min_free_mib: 20}}
"""


def hearth(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "hearth.py"), *arguments, "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_every_bit_of_sound_and_pictures_is_in_the_episode(usb_camera, usb_microphone, tmp_path):
    (tmp_path / "rig.yaml").write_text(RIG)
    process = hearth("record", "--seconds", "12", folder=tmp_path)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("recording"):
                break
        time.sleep(4)
        usb_camera.say("unplug")
        time.sleep(2)
        usb_camera.say("plug")
        said, messages = process.communicate(timeout=4 * PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, messages
    result = json.loads(said)
    happened = [event["kind"] for event in result["events"] if event["source"] == "camera"]
    assert "lost" in happened and "returned" in happened[happened.index("lost") :]
    assert not [e for e in result["events"] if e["source"] == "microphone" and e["kind"] in ("lost", "error")]
    assert result["frames"] == pytest.approx(12 * RATE, abs=RATE // 10)

    episode = Episode.open(tmp_path / result["episode"])
    assert episode.verify().ok
    recorded = np.concatenate(
        [soundfile.read(path, dtype="int32", always_2d=True)[0] for path in episode.audio_paths]
    )
    assert len(recorded) == result["frames"]
    assert matches(recorded if result["lost_frames"] == 0 else recorded[: RATE // 4])

    with av.open(str(episode.path / "video.mkv")) as video:
        stored = [bytes(packet) for packet in video.demux(video=0) if packet.size]
    numbers = [number_of(picture) for picture in stored]
    assert len(stored) == result["pictures"] == len(episode.frame_times())
    assert [p == jpeg(n, SIZE) for p, n in zip(stored, numbers, strict=True)].count(
        False
    ) <= 1  # cut by the plug
    assert all(b > a for a, b in itertools.pairwise(numbers))
    left = usb_camera.left_ns()
    late = [(t - left[n]) / 1e9 for t, n in zip(episode.frame_times(), numbers, strict=True) if n in left]
    assert 0 <= np.median(late) < 0.5
