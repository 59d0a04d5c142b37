"""`hearth record` when the disk fills, breaks, or loses its power: what is kept, what is said, the repair.

The sound is a function of its frame number and each picture says its own: what is left tells the time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from recordings import Episode
from recordings.video_write import VideoFile

sys.path.insert(0, str(Path(__file__).parent))
from small_disks import ext4, fill, tmpfs

pytestmark = pytest.mark.real
ROOT = Path(__file__).resolve().parents[2]
RATE, FPS, SECONDS = 48000, 30, 20


def sound(frames: int) -> np.ndarray:
    n = np.arange(1, frames + 1, dtype=np.uint64)[:, None] * np.array([2654435761, 40503, 9973, 7], np.uint64)
    return ((n >> np.uint64(3)).astype(np.uint32) << np.uint32(8)).view(np.int32)


def picture(number: int) -> np.ndarray:
    """Ten fields, black or white, say the number; the rest is noise, as costly to store as a real scene."""
    image = np.random.default_rng(number % 8).integers(90, 160, (192, 320, 3)).astype(np.uint8)
    for bit in range(10):
        image[:32, bit * 32 : (bit + 1) * 32] = 235 if number >> bit & 1 else 16
    return image


def number_of(image: np.ndarray) -> int:
    fields = [image[8:24, bit * 32 + 8 : bit * 32 + 24].mean() for bit in range(10)]
    return sum(int(value > 128) << bit for bit, value in enumerate(fields))


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    soundfile.write(folder / "in.wav", sound(SECONDS * RATE), RATE, subtype="PCM_24")
    video = VideoFile(folder / "in.mkv", 320, 192, FPS, "mpeg4")
    for i in range(SECONDS * FPS):
        video.write(picture(i), i * 1_000_000_000 // FPS)
    video.close()
    return folder


class Take:
    """`hearth record` of the material onto `disk`, in a process of its own."""

    def __init__(self, material: Path, disk: Path, min_free_mib: int = 0) -> None:
        rig = material / f"{disk.parent.name}.yaml"
        rig.write_text(
            "hearth_rig: 1\n"
            f"microphone: {{source: file, file: {material / 'in.wav'}}}\n"
            f"camera: {{source: file, file: {material / 'in.mkv'}}}\n"
            f"storage: {{folder: {disk / 'data'}, min_free_mib: {min_free_mib}}}\n"
        )
        self.disk, self.errors = disk, ""
        self.process = subprocess.Popen(
            [sys.executable, "hearth.py", "record", "--rig", str(rig), "--session", "s", "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_for(self, seconds: float) -> None:
        """Return when so much is recorded."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line
            if line.startswith("recording "):
                break
        else:
            pytest.fail(self.errors)
        time.sleep(seconds)
        self.now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def end(self) -> dict[str, Any]:
        """Wait for its end; gives its JSON object, or nothing."""
        output, errors = self.process.communicate(timeout=100)
        self.errors += errors
        assert "Traceback" not in self.errors
        return json.loads(output) if output.strip() else {}

    @property
    def episode(self) -> Path:
        [path] = (self.disk / "data" / "s").iterdir()
        return path


def repair(path: Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "hearth.py", "repair", str(path), "--no-report", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def check_content(path: Path) -> tuple[float, float]:
    """Every sample and picture of a finished episode is the one that was played; gives the ends on
    CLOCK_MONOTONIC in seconds."""
    episode = Episode.open(path)
    assert episode.state == "finished" and episode.verify().ok
    kept = np.concatenate([soundfile.read(p, dtype="int32")[0] for p in episode.audio_paths])
    np.testing.assert_array_equal(kept, sound(len(kept)))
    numbers = [number_of(image) for _, image in episode.frames()]
    assert numbers == list(range(len(numbers))) and len(numbers) == len(episode.frame_times())
    start_s = episode.start_ns / 1e9
    return start_s + len(kept) / RATE, start_s + (len(numbers) - 1) / FPS


def check_losses(path: Path, at_ns: int, most_s: float = 0.5) -> None:
    sound_end, picture_end = check_content(path)
    assert at_ns / 1e9 - sound_end <= most_s, "sound"
    assert at_ns / 1e9 - picture_end <= most_s, "pictures"


def test_a_disk_that_is_nearly_full_ends_the_take_whole(tmp_path: Path, material: Path) -> None:
    with tmpfs(tmp_path / "disk", 19) as disk:
        take = Take(material, disk)
        take.run_for(0)
        said = take.end()
        assert take.process.returncode == 1, take.errors  # it ended before its time
        assert said["stop_reason"] == "disk" and 0.5 < said["seconds"] < SECONDS - 2
        check_content(take.episode)


def test_a_disk_that_somebody_else_fills(tmp_path: Path, material: Path) -> None:
    with tmpfs(tmp_path / "disk", 40) as disk:
        take = Take(material, disk)
        take.run_for(2.5)
        filler = fill(disk)
        assert take.end() == {} and take.process.returncode != 0
        assert "disk is full" in take.errors and "hearth repair" in take.errors
        assert Episode.open(take.episode).state == "interrupted"
        # While there is no room the repair says so, changes nothing, and can be tried again.
        code, said = repair(take.episode)
        assert code == 1 and "disk is full" in said["results"][0]["problems"][0]
        filler.unlink()
        code, said = repair(take.episode)
        assert code == 0, said
        check_losses(take.episode, take.now_ns)


def test_a_disk_that_becomes_read_only(tmp_path: Path, material: Path) -> None:
    with ext4(tmp_path, 100) as disk:
        take = Take(material, disk.path)
        take.run_for(2.5)
        disk.become_read_only()
        assert take.end() == {} and take.process.returncode != 0
        assert "read-only" in take.errors and "hearth repair" in take.errors
        assert Episode.open(take.episode).state == "interrupted"
        code, said = repair(take.episode)
        assert code == 1 and "read-only" in said["results"][0]["problems"][0]
        disk.pull_out()
        disk.plug_in()
        code, said = repair(take.episode)
        assert code == 0, said
        check_losses(take.episode, take.now_ns)


def test_power_loss(tmp_path: Path, material: Path) -> None:
    """The file system drops all that was not synced, and the machine is gone."""
    with ext4(tmp_path, 100) as disk:
        take = Take(material, disk.path)
        take.run_for(1.7)
        disk.lose_power()
        take.process.send_signal(signal.SIGKILL)
        take.process.wait()
        disk.pull_out()
        disk.plug_in()
        mark = take.episode / "RECORDING.json"
        mark.write_text(json.dumps({**json.loads(mark.read_text()), "boot_id": "the one before"}))
        code, said = repair(take.episode)
        assert code == 0, said
        check_losses(take.episode, take.now_ns)


def test_an_unwritable_folder_is_refused_before_anything_opens(tmp_path: Path, material: Path) -> None:
    with tmpfs(tmp_path / "disk", 20, "ro") as disk:
        take = Take(material, disk)
        assert take.end() == {} and take.process.returncode == 2
        assert "read-only" in take.errors and "storage.folder" in take.errors


def test_sigterm_ends_the_take_whole(tmp_path: Path, material: Path) -> None:
    (tmp_path / "disk").mkdir()
    take = Take(material, tmp_path / "disk")
    take.run_for(1.0)
    os.kill(take.process.pid, signal.SIGTERM)
    said = take.end()
    assert take.process.returncode == 0 and said["stop_reason"] == "interrupt"
    check_losses(take.episode, take.now_ns, 0.1)
