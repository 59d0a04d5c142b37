"""An independent reader, FFmpeg, opens what a kill left and what was repaired; a really full disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recordings import Episode, EpisodeWriter, Profile, StorageError, read_wav, repair

sys.path.insert(0, str(Path(__file__).parents[1] / "recordings"))
from test_kill import record_and_kill

pytestmark = pytest.mark.real


def probe(path: Path) -> dict:
    """Packets and duration of the first stream as ffprobe counts them."""
    command = ["ffprobe", "-v", "error", "-count_packets", "-show_streams", "-of", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["streams"][0]


def decode(path: Path, *options: str) -> bytes:
    command = ["ffmpeg", "-v", "error", "-i", str(path), *options, "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_ffmpeg_reads_a_killed_and_a_repaired_episode_like_we_do(tmp_path):
    path, _ = record_and_kill(tmp_path, "killed", 1.5)
    wav = path / "foa_48k" / "audio_001.wav"
    raw = np.frombuffer(decode(wav, "-f", "s32le"), "<i4").reshape(-1, 4)
    np.testing.assert_array_equal(raw, read_wav(wav).samples)
    assert int(probe(path / "video.mkv")["nb_read_packets"]) > 20
    assert repair(path, report=False).ok
    episode = Episode.open(path)
    raw = np.frombuffer(decode(wav, "-f", "s32le"), "<i4").reshape(-1, 4)
    np.testing.assert_array_equal(raw, read_wav(wav).samples)
    release = np.frombuffer(decode(path / "foa_24k.wav", "-f", "f32le"), "<f4").reshape(-1, 4)
    np.testing.assert_array_equal(release, episode.audio(24000))
    stream = probe(path / "video.mkv")
    assert int(stream["nb_read_packets"]) == len(episode.frame_times())
    pictures = decode(path / "video.mkv", "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray")
    assert len(pictures) == len(episode.frame_times()) * stream["width"] * stream["height"]


def test_a_full_disk_ends_the_take_clearly_and_keeps_what_was_written(tmp_path):
    """A tmpfs of 3 MiB fills up in the middle of a take; after more room is given the take is repaired."""
    disk = tmp_path / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    try:
        profile = Profile(id="full", session="s", created_utc="2026-01-01T00:00:00Z", origin="recorded")
        audio = {"rate_hz": 48000, "channels": 4, "format": "ambix"}
        writer = EpisodeWriter.create(disk, profile, audio, {"width_px": 64, "height_px": 48, "fps": 20})
        block = np.arange(480 * 4, dtype=np.int32).reshape(480, 4) << 8
        error = None
        for i in range(2000):
            try:
                writer.write_audio(block, 10**9 + i * 10**7, i, i * 480)
            except StorageError as caught:
                error = caught
                break
            if i % 5 == 0:
                writer.write_frame(np.full((48, 64, 3), i % 256, np.uint8), 10**9 + i * 10**7, i // 5)
            time.sleep(0.001)
        with pytest.raises(StorageError, match="disk is full"):
            writer.finish(report=False)
        assert error is None or "disk is full" in str(error)
        episode = Episode.open(writer.path)
        assert episode.state == "interrupted"
        frames = read_wav(writer.path / "foa_48k" / "audio_001.wav", recover=True).frames
        assert frames > 100_000
        subprocess.run(["mount", "-o", "remount,size=60m", str(disk)], check=True)
        done = repair(writer.path, report=False)
        assert done.ok, done.problems
        kept = Episode.open(writer.path).audio(48000).astype(np.float64) * 2**31
        np.testing.assert_array_equal(kept, np.resize(block, (frames, 4)))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_read_only_disk_is_named(tmp_path):
    disk = tmp_path / "readonly"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    try:
        profile = Profile(id="ro", session="s", created_utc="2026-01-01T00:00:00Z", origin="recorded")
        with pytest.raises(StorageError, match="read-only"):
            EpisodeWriter.create(disk, profile, {"rate_hz": 48000, "channels": 4, "format": "ambix"}, None)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
