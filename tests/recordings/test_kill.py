"""SIGKILL at random instants: how much is lost, and does the repaired episode open everywhere."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from recordings import Episode, interrupted, repair
from recordings.audio_file import open_audio

CHILD = Path(__file__).with_name("kill_child.py")
REPOSITORY = Path(__file__).parents[2]


def record_and_kill(
    root: Path, name: str, after_s: float, segment_mib: int = 1900, pictures: str = ""
) -> tuple[Path, int]:
    """Run the child, kill it `after_s` after its first block; gives the folder and the time of the kill."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(CHILD), str(root), name, str(segment_mib), *pictures.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdout is not None
        started = child.stdout.readline().strip()
        time.sleep(after_s)
        killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert started == "started"
    return root / "kill" / name, killed_ns


def losses_s(path: Path, killed_ns: int) -> dict[str, float]:
    """Seconds between the kill and the end of what the repaired episode holds, per stream."""
    episode = Episode.open(path)
    audio_end = int(episode.audio_map.time_ns(episode.original.frames))
    return {
        "audio": (killed_ns - audio_end) * 1e-9,
        "video": (killed_ns - int(episode.frame_times()[-1])) * 1e-9,
    }


def expected_noise(frames: int) -> np.ndarray:
    noise = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, (48000, 4), np.int32) << 8
    return np.resize(noise, (frames, 4))


@pytest.mark.parametrize("seed", range(5))
def test_a_kill_loses_less_than_half_a_second_and_repairs(tmp_path, seed):
    # With 1 MiB segments (1.8 s each) some kills fall around the roll to the next file.
    after_s = random.Random(seed).uniform(0.6, 3.0)
    path, killed_ns = record_and_kill(tmp_path, f"take-{seed}", after_s, segment_mib=1 if seed % 2 else 1900)
    assert Episode.open(path).state == "interrupted"
    assert [episode.path for episode in interrupted(tmp_path)] == [path]

    before = {p.name: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    # Before any repair each segment opens in libsndfile, with all but the last blocks.
    frames = sum(soundfile.info(p).frames for p in sorted((path / "foa_48k").glob("*.wav")))
    assert killed_ns * 1e-9 - Episode.open(path).start_ns * 1e-9 - frames / 48000 < 0.5

    done = repair(path, report=False)
    assert done.ok, done.problems
    episode = Episode.open(path)
    assert episode.state == "finished" and episode.verify().ok
    assert episode.profile.interrupted and episode.checks["interrupted"] is True
    assert interrupted(tmp_path) == []

    lost = losses_s(path, killed_ns)
    print(f"lost at kill: {lost}")
    assert max(lost.values()) <= 0.5
    samples = episode.audio(48000).astype(np.float64) * 2**31
    np.testing.assert_array_equal(samples, expected_noise(len(samples)))
    assert sum(1 for _ in episode.frames()) == len(episode.frame_times())
    # What was changed is kept as it was.
    for kept in (path / "before_repair").rglob("*"):
        if kept.is_file():
            assert kept.read_bytes() == before[kept.name]


def test_a_torn_file_is_repaired_and_the_original_kept(tmp_path):
    """Power loss: sizes ahead of the data, a torn frame, a torn timeline line, a torn cluster."""
    path, _ = record_and_kill(tmp_path, "torn", 1.6)
    wav, timeline, video = path / "foa_48k" / "audio_001.wav", path / "timeline.jsonl", path / "video.mkv"
    wav.write_bytes(wav.read_bytes()[:-5003])
    timeline.write_bytes(timeline.read_bytes()[:-40])
    video.write_bytes(video.read_bytes()[: -video.stat().st_size // 10])
    torn = {p: p.read_bytes() for p in (wav, timeline, video)}
    done = repair(path, report=False)
    assert done.ok, done.problems
    for file, data in torn.items():
        assert (path / "before_repair" / file.relative_to(path)).read_bytes() == data
    episode = Episode.open(path)
    samples = episode.audio(48000).astype(np.float64) * 2**31
    assert 0 < len(samples) == soundfile.info(wav).frames
    np.testing.assert_array_equal(samples, expected_noise(len(samples)))
    assert not open_audio(wav).problems


def test_a_killed_take_of_jpegs_keeps_every_whole_one_wherever_its_video_is_cut(tmp_path):
    """As the kill left it, and cut within its last two pictures."""
    path, killed_ns = record_and_kill(tmp_path, "jpegs", 0.8, pictures="jpeg")
    data = (path / "video.mkv").read_bytes()
    with av.open(str(path / "video.mkv")) as container:
        jpegs = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    ends = [data.rfind(jpeg) + len(jpeg) for jpeg in jpegs[-3:]]
    assert ends == sorted(ends) and len(jpegs) > 12
    cuts = {len(data): 0, ends[2] - 1: 1, ends[1] + 16: 1, ends[1] - 700: 2}
    for number, (end, lost) in enumerate(cuts.items()):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(path, copy)
        (copy / "video.mkv").write_bytes(data[:end])
        done = repair(copy, report=False)
        assert done.ok, done.problems
        episode = Episode.open(copy)
        assert len(episode.frame_times()) == len(jpegs) - lost == sum(1 for _ in episode.frames())
        with av.open(str(copy / "video.mkv")) as container:
            assert [bytes(p) for p in container.demux(video=0) if p.size] == jpegs[: len(jpegs) - lost]
        if not number:
            assert losses_s(copy, killed_ns)["video"] <= 0.5


def test_a_repair_that_was_cut_off_is_taken_up_again(tmp_path, monkeypatch):
    path, _ = record_and_kill(tmp_path, "again", 1.0)
    wav = path / "foa_48k" / "audio_001.wav"
    wav.write_bytes(wav.read_bytes()[:-1001])
    import recordings.repair_episode as module

    def crash(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "complete", crash)
        with pytest.raises(KeyboardInterrupt):
            repair(path, report=False)
    assert Episode.open(path).state == "interrupted"
    # As if the crash had come between moving the original away and naming the new file.
    wav.unlink()
    done = repair(path, report=False)
    assert done.ok, done.problems
    assert Episode.open(path).original.frames > 24000


def test_what_cannot_be_mended_is_said_and_the_rest_is_finished(tmp_path):
    """Without the timeline nobody knows when the sound was: no whole episode, and the exit code is 1."""
    path, _ = record_and_kill(tmp_path, "lost", 1.0)
    (path / "timeline.jsonl").unlink()
    command = [sys.executable, "-m", "hearth", "repair", str(path), "--no-report", "--json"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert done.returncode == 1 and not said["ok"]
    assert "timeline.jsonl: is missing" in said["results"][0]["problems"][0]
    samples = Episode.open(path).audio(48000).astype(np.float64) * 2**31
    np.testing.assert_array_equal(samples, expected_noise(len(samples)))


@pytest.mark.parametrize("left", [0, 40])
def test_a_video_file_without_any_picture_is_set_aside(tmp_path, left):
    """A kill in the first instant leaves an empty or headless file; the sound is repaired all the same."""
    path, _ = record_and_kill(tmp_path, "early", 0.3)
    video = path / "video.mkv"
    video.write_bytes(b"\x1a\x45\xdf\xa3" * (left // 4))  # the first bytes of Matroska, again and again
    done = repair(path, report=False)
    assert done.ok, done.problems
    episode = Episode.open(path)
    assert not video.exists() and len(episode.frame_times()) == 0 and episode.duration_s > 0.1
    assert (path / "before_repair" / "unreadable" / "video.mkv").stat().st_size == left


def test_nothing_recorded_cannot_be_repaired_and_says_so(tmp_path):
    from dsp.errors import InputError
    from recordings import EpisodeWriter, Profile

    profile = Profile(id="empty", session="kill", created_utc="2026-01-01T00:00:00Z", origin="recorded")
    writer = EpisodeWriter.create(
        tmp_path, profile, {"rate_hz": 48000, "channels": 4, "format": "ambix"}, None
    )
    with pytest.raises(InputError, match="lives"):
        repair(writer.path)
    writer.abort("test")
    with pytest.raises(InputError, match="nothing to repair"):
        repair(writer.path)
    assert Episode.open(writer.path).state == "interrupted"
