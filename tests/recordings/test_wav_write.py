"""The segmented writer: openable by others at any instant, no sample lost or doubled at a roll."""

from __future__ import annotations

import subprocess
import sys
import wave
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings import StorageError, open_audio, read_wav
from recordings.wav_write import SegmentedWavWriter, WavWriter


def noise(frames: int, channels: int = 4, bits: int = 24, seed: int = 0) -> np.ndarray:
    low = np.random.default_rng(seed).integers(-(1 << (bits - 1)), 1 << (bits - 1), (frames, channels))
    return (low << (32 - bits)).astype(np.int32)


@pytest.mark.parametrize("bits", [16, 24, 32])
@pytest.mark.parametrize("channels", [1, 4, 5])
def test_libsndfile_and_our_reader_give_the_samples_back(tmp_path, bits, channels):
    x = noise(1001, channels, bits)
    writer = WavWriter(tmp_path / "a.wav", 48000, channels, bits=bits)
    writer.write(x)
    writer.close()
    theirs, rate = soundfile.read(tmp_path / "a.wav", dtype="int32", always_2d=True)
    assert rate == 48000
    np.testing.assert_array_equal(theirs, x)
    ours = read_wav(tmp_path / "a.wav")
    np.testing.assert_array_equal(ours.samples, x)
    assert ours.problems == [] and ours.bits == bits


def test_the_stdlib_reader_agrees(tmp_path):
    x = noise(777, 4, 16)
    writer = WavWriter(tmp_path / "a.wav", 44100, 4, bits=16)
    writer.write(x)
    writer.close()
    with wave.open(str(tmp_path / "a.wav")) as reader:
        assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (4, 2, 44100)
        raw = reader.readframes(10_000)
    np.testing.assert_array_equal(np.frombuffer(raw, "<i2").reshape(-1, 4).astype(np.int32) << 16, x)


def test_the_file_is_whole_after_every_block_without_closing(tmp_path):
    x = noise(4800)
    writer = SegmentedWavWriter(tmp_path, "audio", 48000, 4, format_name="ambix")
    assert soundfile.info(tmp_path / "audio_001.wav").frames == 0
    for at in range(0, len(x), 480):
        writer.write(x[at : at + 480])
        theirs, _ = soundfile.read(tmp_path / "audio_001.wav", dtype="int32")
        np.testing.assert_array_equal(theirs, x[: at + 480])
    writer.close()


@settings(max_examples=25, deadline=None)
@given(
    blocks=st.lists(st.integers(0, 900), min_size=1, max_size=12),
    segment=st.integers(4096, 9000),
    channels=st.integers(1, 5),
)
def test_rolling_loses_and_doubles_nothing(tmp_path_factory, blocks, segment, channels):
    folder = tmp_path_factory.mktemp("roll")
    x = noise(sum(blocks), channels)
    writer = SegmentedWavWriter(folder, "a", 48000, channels, segment_bytes=segment)
    at = 0
    for block in blocks:
        writer.write(x[at : at + block])
        at += block
    writer.close()
    paths = sorted(folder.glob("*.wav"))
    assert [p.name for p in paths] == [f"a_{i:03d}.wav" for i in range(1, len(paths) + 1)]
    assert all(p.stat().st_size <= segment for p in paths)
    np.testing.assert_array_equal(np.concatenate([read_wav(p).samples for p in paths]), x)
    joined = open_audio(paths)
    assert joined.frames == len(x)
    np.testing.assert_array_equal(joined.read().astype(np.float64) * 2**31, x)
    a, b = len(x) // 3, 2 * len(x) // 3
    np.testing.assert_array_equal(joined.read(a, b - a).astype(np.float64) * 2**31, x[a:b])


def test_tags_tell_order_time_and_place_of_each_segment(tmp_path):
    started = datetime(2026, 3, 24, 10, 0, 1, 500_000, tzinfo=timezone.utc)
    writer = SegmentedWavWriter(
        tmp_path, "a", 48000, 4, format_name="fuma", started=started, segment_bytes=20_000
    )
    writer.write(noise(4000))
    writer.close()
    first, second = read_wav(tmp_path / "a_001.wav"), read_wav(tmp_path / "a_002.wav")
    assert (first.format, first.tracks) == ("fuma", ("W", "X", "Y", "Z"))
    assert first.bext is not None and second.bext is not None
    assert (first.bext.date, first.bext.time) == ("2026-03-24", "10:00:01")
    assert first.bext.time_reference == round(36001.5 * 48000)
    assert second.bext.time_reference == first.bext.time_reference + first.frames


def test_beyond_4_gib_the_header_becomes_rf64(tmp_path, monkeypatch):
    # The limit is lowered so that the test needs no 4 GiB: what is tested is the form of the header.
    monkeypatch.setattr("recordings.wav_write._4GIB", 5000)
    writer = WavWriter(tmp_path / "long.wav", 24000, 4, sample_type="float", format_name="ambix")
    x = np.random.default_rng(0).standard_normal((1000, 4)).astype(np.float32)
    writer.write(x)
    writer.close()
    assert (tmp_path / "long.wav").read_bytes()[:4] == b"RF64"
    assert soundfile.info(tmp_path / "long.wav").format == "RF64"
    np.testing.assert_array_equal(soundfile.read(tmp_path / "long.wav", dtype="float32")[0], x)
    ours = read_wav(tmp_path / "long.wav")
    assert ours.problems == []
    np.testing.assert_array_equal(ours.samples, x)


def test_wrong_input_names_what_is_allowed(tmp_path):
    writer = WavWriter(tmp_path / "a.wav", 48000, 4)
    with pytest.raises(InputError, match=r"\(frames, 4\) int32"):
        writer.write(np.zeros((5, 4), np.float32))
    writer.close()
    with pytest.raises(StorageError, match="exists already"):
        WavWriter(tmp_path / "a.wav", 48000, 4)
    with pytest.raises(InputError, match="24"):
        WavWriter(tmp_path / "b.wav", 48000, 4, bits=20)
    with pytest.raises(StorageError, match="No such file"):
        WavWriter(tmp_path / "nowhere" / "b.wav", 48000, 4)


_LIMITED = """
import resource, signal, sys, numpy as np
from pathlib import Path
from recordings import EpisodeWriter, Profile, StorageError, Episode, repair
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
profile = Profile(id="full", session="s", created_utc="2026-01-01T00:00:00Z", origin="recorded")
writer = EpisodeWriter.create(sys.argv[1], profile, dict(rate_hz=48000, channels=4, format="ambix"), None)
import time
block = (np.arange(480 * 4).reshape(480, 4) << 8).astype(np.int32)
try:
    for i in range(200):
        writer.write_audio(block, 10**9 + i * 10**7, i, i * 480)
        time.sleep(0.001)
    print("no error")
except StorageError as error:
    print("error:", error)
try:
    writer.finish(report=False)
except StorageError as error:
    print("finish:", error)
"""


def test_a_write_that_fails_keeps_whole_frames_and_says_why(tmp_path):
    """The kernel refuses to let the file grow (RLIMIT_FSIZE): the same path as a full disk."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path)], capture_output=True, text=True, cwd=root, check=True
    )
    assert "error: cannot write" in done.stdout and "too large" in done.stdout, done.stdout + done.stderr
    assert "finish: cannot write" in done.stdout
    from recordings import Episode, repair

    path = tmp_path / "s" / "full"
    wav = read_wav(path / "foa_48k" / "audio_001.wav")
    assert wav.problems == [] and wav.frames > 10_000
    block = (np.arange(480 * 4).reshape(480, 4) << 8).astype(np.int32)
    np.testing.assert_array_equal(wav.samples, np.resize(block, (wav.frames, 4)))
    assert Episode.open(path).state == "interrupted"
    result = repair(path, report=False)
    assert result.ok, result.problems
    gaps = [line for line in Episode.open(path).timeline() if line["type"] == "gap"]
    assert gaps and gaps[0]["cause"] == "storage"
