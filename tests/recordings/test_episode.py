"""An episode written, finished and read back; what is immutable stays so."""

from __future__ import annotations

import json
import shutil
import time

import numpy as np
import pytest

import dsp
from dsp.errors import InputError
from recordings import Episode, EpisodeWriter, Profile, StorageError, interrupted, list_episodes, verify

RATE = 48000
AUDIO = {"rate_hz": RATE, "channels": 4, "format": "ambix", "bits": 24}
VIDEO = {"width_px": 64, "height_px": 48, "fps": 20.0}


def profile(name: str = "take-1", **fields) -> Profile:
    return Profile(id=name, session="s1", created_utc="2026-01-02T03:04:05Z", origin="recorded", **fields)


def scene(seconds: float, azimuth_deg: float = 40.0, seed: int = 0) -> np.ndarray:
    """Noise from one direction as 24-bit AmbiX, int32 left-justified."""
    mono = 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    foa = dsp.encode(mono, azimuth_deg, 10.0)
    return np.round(foa.astype(np.float64) * 2**23).astype(np.int32) << 8


def record(
    root, samples: np.ndarray, start_ns: int, name: str = "take-1", ppm: float = 0.0, **options
) -> EpisodeWriter:
    """Write `samples` in 10 ms blocks and a picture every 50 ms, stamped from start_ns on."""
    writer = EpisodeWriter.create(root, profile(name), AUDIO, VIDEO, **options)
    for seq, first in enumerate(range(0, len(samples), 480)):
        t_ns = start_ns + round(first / (RATE * (1 + ppm * 1e-6)) * 1e9)
        writer.write_audio(samples[first : first + 480], t_ns, seq, first)
        if seq % 5 == 0:
            image = np.full((48, 64, 3), (seq * 7) % 256, np.uint8)
            writer.write_frame(image, t_ns + 1_234_567, seq // 5)
    return writer


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    samples = scene(2.0)
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    writer = record(tmp_path_factory.mktemp("data"), samples, start_ns, ppm=50.0)
    writer.event("hello", start_ns + 7, who="alex", value=np.float32(1.5))
    writer.add_file("truth.json", b'{"sources": []}')
    writer.update_profile(grounding="G2", request="silence that humming")
    writer.add_check("av_offset", {"offset_ms": 1.5})
    return writer.finish(report=False), samples, start_ns


def test_a_finished_episode_verifies_and_gives_back_every_sample(finished):
    episode, samples, _ = finished
    assert episode.state == "finished"
    report = episode.verify()
    assert report.ok, report.problems
    original = episode.audio(48000)
    assert original.dtype == np.float32
    np.testing.assert_array_equal(original.astype(np.float64) * 2**31, samples)


def test_the_release_form_is_dsp_resample_of_the_original(finished):
    episode, samples, _ = finished
    release = episode.audio(24000)
    np.testing.assert_array_equal(release, dsp.resample((samples * 2.0**-31).astype(np.float32), RATE, 24000))
    assert len(release) == len(samples) // 2


def test_directions_are_those_of_the_scene_on_the_session_clock(finished):
    episode, _, start_ns = finished
    track = episode.doa()
    assert len(track) == 20
    inner = track.azimuth_deg[2:-2]
    assert np.nanmax(np.abs(inner - 40.0)) < 2.0
    expected = start_ns + track.times_s / (1 + 50e-6) * 1e9
    assert np.max(np.abs(track.t_ns - expected)) < 1e6


def test_pictures_come_back_with_their_exact_times(finished):
    episode, _, start_ns = finished
    times = episode.frame_times()
    pictures = list(episode.frames())
    assert len(times) == len(pictures) == 40
    expected = [start_ns + 1_234_567 + round(i * 2400 / (RATE * 1.00005) * 1e9) for i in range(40)]
    np.testing.assert_array_equal(times, expected)
    assert [t for t, _ in pictures] == expected
    for i, (_, image) in enumerate(pictures):
        assert abs(float(image.mean()) - (i * 35) % 256) < 6.0


def test_the_drift_of_the_sound_clock_is_in_the_checks(finished):
    episode, _, _ = finished
    clocks = episode.checks["clocks"]
    assert abs(clocks["drift_ppm"] - 50.0) < 0.1  # ns rounding over 2 s
    assert abs(clocks["wall_clock_step_ms"]) < 50
    assert episode.checks["av_offset"] == {"offset_ms": 1.5}
    assert episode.checks["sound"]["ok"] is True


def test_profile_event_and_added_file_are_kept(finished):
    episode, _, start_ns = finished
    assert (episode.profile.grounding, episode.profile.request) == ("G2", "silence that humming")
    assert episode.profile.source["video"]["encoder"] in ("libx264", "mpeg4", "mjpeg")
    events = [line for line in episode.timeline() if line["type"] == "event"]
    assert events == [
        {"type": "event", "t_ns": start_ns + 7, "kind": "hello", "data": {"who": "alex", "value": 1.5}}
    ]
    assert episode.truth() == {"sources": []}


@pytest.mark.parametrize("damage", ["flip", "missing", "extra", "manifest", "profile"])
def test_verify_finds_every_change_to_a_finished_episode(finished, tmp_path, damage):
    path = tmp_path / finished[0].path.name
    shutil.copytree(finished[0].path, path)
    assert Episode.open(path).verify().ok
    if damage == "flip":
        wav = path / "foa_48k" / "audio_001.wav"
        data = bytearray(wav.read_bytes())
        data[len(data) // 2] ^= 1
        wav.write_bytes(data)
    elif damage == "missing":
        (path / "truth.json").unlink()
    elif damage == "extra":
        (path / "foa_48k" / "notes.txt").write_text("x")
    elif damage == "manifest":
        (path / "manifest.json").write_text("{")
    else:
        (path / "episode.yaml").write_text("hearth_episode: 1\n")
    report = verify(path)
    assert not report.ok
    expected = {
        "flip": "hash",
        "missing": "missing",
        "extra": "unexpected",
        "manifest": "manifest",
        "profile": "size",
    }
    assert expected[damage] in [problem.code for problem in report.problems]


def test_verify_compares_lengths_and_not_only_hashes(finished, tmp_path):
    path = tmp_path / finished[0].path.name
    shutil.copytree(finished[0].path, path)
    lines = (path / "timeline.jsonl").read_text().splitlines(keepends=True)
    last_frame = max(i for i, line in enumerate(lines) if json.loads(line)["type"] == "frame")
    del lines[last_frame]
    (path / "timeline.jsonl").write_text("".join(lines))
    codes = [(problem.code, problem.path) for problem in Episode.open(path).verify().problems]
    assert ("length", "video.mkv") in codes


def test_segments_roll_inside_an_episode_without_losing_a_sample(tmp_path):
    samples = scene(2.5, seed=3)
    episode = record(tmp_path, samples, 10**9, segment_mib=1).finish(report=False)
    assert len(episode.audio_paths) == 2
    np.testing.assert_array_equal(episode.audio(48000).astype(np.float64) * 2**31, samples)
    assert episode.verify().ok


def test_gaps_are_noted_with_place_length_and_cause_and_not_filled(tmp_path):
    samples = scene(1.0)
    writer = EpisodeWriter.create(tmp_path, profile(), AUDIO, None)
    for seq in range(100):
        first = seq * 480 + (480 if seq >= 50 else 0) + (1000 if seq >= 70 else 0)
        block = samples[seq * 480 : (seq + 1) * 480]
        lost, flags = (480, ("input_overflow",)) if seq == 50 else (0, ())
        writer.write_audio(block, 5_000_000_000 + round(first / RATE * 1e9), seq, first, lost, flags)
    episode = writer.finish(report=False)
    gaps = [line for line in episode.timeline() if line["type"] == "gap"]
    assert [(g["cause"], g["lost_frames"], g["file_frame"]) for g in gaps] == [
        ("input_overflow", 480, 24000),
        ("counter_jump", 1000, 33600),
    ]
    assert gaps[0]["t_ns"] == 5_500_000_000
    assert len(episode.audio(48000)) == 48000
    report = episode.verify()
    assert report.ok
    assert "2 gaps" in report.notes[0]
    # A frame after the losses is at its true time.
    assert abs(episode.audio_map.time_ns(40000) - (5e9 + (40000 + 1480) / RATE * 1e9)) <= 1


def test_an_unfinished_episode_is_recording_then_interrupted_and_listed_first(tmp_path):
    done = record(tmp_path, scene(0.2), 10**9, name="a-done").finish(report=False)
    writer = record(tmp_path, scene(0.2), 10**9, name="b-open")
    assert Episode.open(writer.path).state == "recording"
    with pytest.raises(RuntimeError, match="the loop broke"), writer:
        raise RuntimeError("the loop broke")
    assert [e.state for e in list_episodes(tmp_path)] == ["interrupted", "finished"]
    assert [e.path for e in interrupted(tmp_path)] == [writer.path]
    assert list_episodes(tmp_path)[1].path == done.path
    report = Episode.open(writer.path).verify()
    assert not report.ok and report.problems[0].code == "not_finished"


def test_a_crash_inside_finish_leaves_an_interrupted_episode(tmp_path, monkeypatch):
    import recordings.finish as finish

    writer = record(tmp_path, scene(0.2), 10**9)
    monkeypatch.setattr(finish, "write_manifest", lambda folder: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        writer.finish(report=False)
    assert Episode.open(writer.path).state == "interrupted"
    assert not (writer.path / "manifest.json").exists()


def test_a_fault_of_the_page_is_noted_and_costs_no_episode(tmp_path, monkeypatch, caplog):
    import recordings.report

    def broken(folder):
        raise ZeroDivisionError("no width")

    monkeypatch.setattr(recordings.report, "write_report", broken)
    episode = record(tmp_path, scene(0.2), 10**9).finish()
    assert episode.state == "finished" and episode.verify().ok
    assert episode.checks["report_error"] == "ZeroDivisionError: no width"
    assert "no report.html" in caplog.text


def test_wrong_input_is_named(tmp_path):
    writer = record(tmp_path, scene(0.1), 10**9)
    with pytest.raises(InputError, match="exists already"):
        EpisodeWriter.create(tmp_path, profile(), AUDIO, VIDEO)
    with pytest.raises(InputError, match=r"\(10, 3\)"):
        writer.write_audio(np.zeros((10, 3), np.int32), 0, 0, 0)
    with pytest.raises(InputError, match="grounding"):
        writer.update_profile(grounding="G9")
    with pytest.raises(InputError, match="manifest"):
        writer.add_file("manifest.json", b"")
    with pytest.raises(InputError, match="elsewhere"):
        writer.add_file("../elsewhere", b"")
    writer.abort("end of test")
    with pytest.raises(InputError, match="44100"):
        Episode.open(writer.path).audio(44100)
    with pytest.raises(InputError, match="no such folder"):
        Episode.open(tmp_path / "nothing")


def test_an_unwritable_folder_is_a_clear_error(tmp_path):
    blocker = tmp_path / "data"
    blocker.write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="not a folder"):
        EpisodeWriter.create(blocker, profile(), AUDIO, VIDEO)


def test_a_moved_episode_is_neither_rebuilt_nor_sealed(tmp_path):
    writer = record(tmp_path, scene(0.2), 10**9)
    writer.path.rename(tmp_path / "moved")
    with pytest.raises(StorageError, match="folder was moved or removed"):
        writer.add_file("truth.json", b"{}")
    with pytest.raises(StorageError):
        writer.finish(report=False)
    assert not writer.path.exists()


@pytest.mark.parametrize("lost", ["RECORDING.json", "foa_48k/audio_001.wav", "second half"])
def test_an_episode_that_lost_its_mark_or_its_sound_is_not_sealed(tmp_path, monkeypatch, lost):
    import recordings.finish as finish

    writer = record(tmp_path, scene(0.2), 10**9)
    complete = finish.complete

    def lose_then_complete(folder, **options):
        if lost == "second half":
            wav = folder / "foa_48k" / "audio_001.wav"
            wav.write_bytes(wav.read_bytes()[: wav.stat().st_size // 2])
        else:
            (folder / lost).unlink()
        return complete(folder, **options)

    monkeypatch.setattr(finish, "complete", lose_then_complete)
    with pytest.raises(StorageError, match="not sealed"):
        writer.finish(report=False)
    assert not (writer.path / "manifest.json").exists()
    assert Episode.open(writer.path).state == "interrupted"
