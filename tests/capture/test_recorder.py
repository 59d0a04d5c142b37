from __future__ import annotations

import shutil
import threading
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from msgspec.structs import replace

import capture.disk_room
from capture.blocks import AudioBlock, Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.fanout import Fanout
from capture.recorder import Recorder
from capture.recording import Meter
from capture.rig import DEFAULT_RIG, Rig, load_rig, parse_rig
from capture.sources import OpenedRig, open_rig
from capture.take import new_profile, record
from dsp.errors import InputError
from recordings import Episode, StorageError, repair

FS = 48000


def noise_file(path: Path, seconds: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    samples = (random.normal(0, 0.05, (round(seconds * FS), 4)) * 2**23).astype(np.int32) << 8
    soundfile.write(path, samples, FS, subtype="PCM_24")
    return samples


def file_rig(folder: Path, pace: str = "fast") -> Rig:
    return parse_rig(
        "hearth_rig: 1\n"
        f"microphone: {{source: file, file: {folder / 'in.wav'}, pace: {pace}}}\n"
        f"camera: {{source: none}}\nstorage: {{folder: {folder / 'data'}, min_free_mib: 1}}\n"
    )


def take(rig: Rig, **options: Any) -> Any:
    with open_rig(rig) as opened:
        return record(rig, opened, new_profile(rig, opened, "test"), **options)


def original(episode: Episode) -> np.ndarray:
    return (episode.audio(rate=FS).astype(np.float64) * 2**31).astype(np.int64).astype(np.int32)


def test_a_file_is_recorded_sample_for_sample(tmp_path: Path) -> None:
    samples = noise_file(tmp_path / "in.wav", 30)
    result = take(file_rig(tmp_path))  # as fast as possible
    assert result.stop_reason == "ended" and result.lost_frames == 0
    assert result.episode.verify().ok
    np.testing.assert_array_equal(original(result.episode), samples)
    assert result.episode.profile.origin == "recorded"
    assert result.episode.profile.source["microphone"]["backend"] == "file"


def test_seconds_end_the_take_on_the_frame(tmp_path: Path) -> None:
    samples = noise_file(tmp_path / "in.wav", 5)
    result = take(file_rig(tmp_path), seconds=1.2345)
    assert result.stop_reason == "duration"
    assert result.frames == round(1.2345 * FS)
    np.testing.assert_array_equal(original(result.episode), samples[: result.frames])


def test_meter_shows_levels_while_the_take_runs(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 1.5)
    meters: list[Meter] = []
    take(file_rig(tmp_path, pace="realtime"), on_meter=meters.append)
    assert len(meters) >= 2
    assert meters[-1].rms_dbfs == pytest.approx([-26.0] * 4, abs=0.5)  # 0.05 of full scale
    assert meters[-1].dead == () and meters[-1].clipped == ()


class Camera:
    """A camera that stalls for ever in its own thread after some pictures, as broken drivers do."""

    def __init__(self, pictures: int) -> None:
        self.pictures = pictures

    def open(self) -> VideoInfo:
        return VideoInfo("stalling", "test", 64, 48, 20.0)

    def start(self, sink: Sink) -> None:
        def run() -> None:
            for i in range(self.pictures):
                image = np.full((48, 64, 3), i, np.uint8)
                sink(VideoFrame(monotonic_ns(), i, image, dropped=2 if i == 3 else 0))
                time.sleep(0.02)
            sink(SourceEvent(monotonic_ns(), "camera", "stalled", "no picture"))
            threading.Event().wait()

        threading.Thread(target=run, daemon=True).start()

    def stop(self) -> None: ...
    def close(self) -> None: ...


def test_a_stalled_camera_costs_no_sound_and_is_told(tmp_path: Path) -> None:
    samples = noise_file(tmp_path / "in.wav", 2)
    rig = file_rig(tmp_path, pace="realtime")
    with open_rig(rig) as opened:
        camera = Camera(10)
        opened = OpenedRig(rig, opened.microphone, camera, None, opened.audio_info, camera.open())
        result = record(rig, opened, new_profile(rig, opened, "test"))
    np.testing.assert_array_equal(original(result.episode), samples)
    # Two that the camera counted, and those that never came after the stall: 2 s at 20 a second.
    assert result.pictures == 10 and 2 < result.dropped_pictures < 2 + 40 and result.estimated
    events = [line for line in result.episode.timeline() if line["type"] == "event"]
    assert "stalled" in [e["kind"] for e in events]
    assert len(result.episode.frame_times()) == 10


def test_lost_frames_become_a_gap_with_place_and_length(tmp_path: Path) -> None:
    """The recorder fed by hand: a block that says that 4800 frames are missing before it."""
    rig = file_rig(tmp_path)
    noise_file(tmp_path / "in.wav", 0.1)
    with open_rig(rig) as opened:
        audio = Fanout()
        recorder = Recorder(rig, opened, new_profile(rig, opened, "test"), audio)
        recorder.start()
        first, base = 0, monotonic_ns()
        for i in range(100):
            lost = 4800 if i == 50 else 0
            first += lost
            samples = np.full((480, 4), i << 8, np.int32)
            t_ns = base + first * 1_000_000_000 // FS
            audio.sink(
                AudioBlock(t_ns, i, first, FS, samples, t_ns, lost, ("input_overflow",) if lost else ())
            )
            first += 480
        result = recorder.stop()
    [gap] = [line for line in result.episode.timeline() if line["type"] == "gap"]
    assert gap["lost_frames"] == 4800 and gap["file_frame"] == 50 * 480
    assert gap["t_ns"] == pytest.approx(base + 50 * 10_000_000, abs=1000)
    assert result.lost_frames == 4800 and result.frames == 48000
    assert result.seconds == pytest.approx(1.1, abs=1e-6)


def test_too_little_room_refuses_to_start_and_leaves_nothing(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    free_mib = shutil.disk_usage(tmp_path).free >> 20
    rig = parse_rig(
        f"hearth_rig: 1\nmicrophone: {{source: file, file: {tmp_path / 'in.wav'}}}\n"
        "camera: {source: none}\n"
        f"storage: {{folder: {tmp_path / 'data'}, min_free_mib: {free_mib + 100_000}}}\n"
    )
    with pytest.raises(InputError, match=r"MiB free.*storage\.min_free_mib"):
        take(rig)
    assert not (tmp_path / "data").exists()


def test_a_disk_that_fills_up_ends_the_take_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the number of free bytes is made up: a real full disk is a matter of the writer's own tests."""
    noise_file(tmp_path / "in.wav", 30)
    usage = namedtuple("usage", "total used free")
    begin = time.monotonic()

    def filling(path: object) -> Any:
        left = 100 if time.monotonic() - begin < 1.5 else 1
        return usage(10**12, 0, left << 20)

    monkeypatch.setattr(capture.disk_room.shutil, "disk_usage", filling)
    result = take(file_rig(tmp_path, pace="realtime"))
    assert result.stop_reason == "disk"
    assert result.episode.verify().ok
    assert 0 < result.seconds < 25


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="data"):
        take(file_rig(tmp_path))


def test_wrong_profile_value_is_named(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    rig = file_rig(tmp_path)
    with open_rig(rig) as opened, pytest.raises(InputError, match="G9"):
        new_profile(rig, opened, "test", grounding="G9")


def test_profile_of_a_real_take_guesses_nothing(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    rig = file_rig(tmp_path)
    with open_rig(rig) as opened:
        profile = new_profile(rig, opened, "test", request="Turn on the lamp!")
    assert profile.grounding is None and profile.goal is None and profile.consent.recording == "unknown"
    assert profile.id.endswith("-turn-on-the-lamp")


@pytest.mark.parametrize("what", ["folder removed", "folder moved", "sound removed", "mark removed"])
def test_an_episode_that_goes_away_stops_the_take_and_is_not_finished(tmp_path: Path, what: str) -> None:
    noise_file(tmp_path / "in.wav", 60)
    moved = tmp_path / "elsewhere"

    def take_away(recorder: Recorder) -> None:
        time.sleep(0.5)
        if what == "folder removed":
            shutil.rmtree(recorder.path)
        elif what == "folder moved":
            recorder.path.rename(moved)
        elif what == "sound removed":
            next(recorder.path.glob("*/*.wav")).unlink()
        else:
            (recorder.path / "RECORDING.json").unlink()

    with pytest.raises(StorageError, match="moved, removed or replaced during the take"):
        take(file_rig(tmp_path, pace="realtime"), on_start=take_away)
    assert not list(tmp_path.glob("data/*/*/manifest.json"))
    if what.startswith("folder"):
        assert not list(tmp_path.glob("data/*/*"))
    if what == "folder moved":
        (moved / "RECORDING.json").write_text("")  # it names this process, which lives on here
        repair(moved)
        assert Episode.open(moved).verify().ok
        assert len(original(Episode.open(moved))) > FS // 10


def test_a_folder_removed_just_before_the_end_is_no_episode(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.5)
    rig = file_rig(tmp_path)
    with open_rig(rig) as opened:
        recorder = Recorder(rig, opened, new_profile(rig, opened, "test"), Fanout())
        recorder.start()
        shutil.rmtree(recorder.path)
        with pytest.raises(StorageError, match="removed"):
            recorder.stop()
    assert not list(tmp_path.glob("data/*/*"))


def test_a_place_that_takes_no_folder_is_not_called_full(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    with pytest.raises(StorageError, match="cannot record to /proc/hearth") as raised:
        take(file_rig(tmp_path), root="/proc/hearth")
    assert "MiB free" not in str(raised.value)


def test_a_target_that_the_rig_does_not_have_is_refused(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 0.1)
    devices = "\nroom: {devices: [{id: lamp, type: on_off_light, name: lamp}]}\n"
    rig = parse_rig(
        f"hearth_rig: 1\nmicrophone: {{source: file, file: {tmp_path / 'in.wav'}}}\n"
        f"camera: {{source: none}}{devices}"
    )
    with open_rig(rig) as opened:
        with pytest.raises(InputError, match=r"'nosuchdevice' is not in the rig.*lamp"):
            new_profile(rig, opened, "test", target_device="nosuchdevice")
        assert new_profile(rig, opened, "test", target_device="lamp").target_device == "lamp"
    bare = file_rig(tmp_path)  # a rig without devices knows nothing of them
    with open_rig(bare) as opened:
        assert new_profile(bare, opened, "test", target_device="lamp").target_device == "lamp"


def test_a_fast_take_has_the_pictures_up_to_the_end_of_its_sound(tmp_path: Path) -> None:
    demo = load_rig(DEFAULT_RIG)
    rig = replace(
        demo,
        microphone=replace(demo.microphone, pace="fast"),
        camera=replace(demo.camera, pace="fast"),
    )
    result = take(rig, seconds=2, root=tmp_path)
    assert result.frames == 2 * FS and result.stop_reason == "duration"
    assert result.pictures == 30 and result.dropped_pictures == 0  # 15 a second
    times = result.episode.frame_times()
    np.testing.assert_allclose(np.diff(times) / 1e9, 1 / 15, atol=1e-6)


def test_pictures_that_a_fast_take_waits_for_in_vain_are_counted(tmp_path: Path) -> None:
    noise_file(tmp_path / "in.wav", 2)
    rig = file_rig(tmp_path)
    with open_rig(rig) as opened:
        camera = Camera(1)
        opened = OpenedRig(rig, opened.microphone, camera, None, opened.audio_info, camera.open())
        audio, video = Fanout(hold_at=500), Fanout()
        recorder = Recorder(rig, opened, new_profile(rig, opened, "test"), audio, video)
        recorder.start()
        opened.start(audio.sink, video.sink)
        assert recorder.done.wait(20)
        recorder.wait_for_pictures(patience_s=0.3)
        opened.stop()
        result = recorder.stop()
    assert result.pictures == 1
    assert 37 <= result.dropped_pictures <= 39  # 2 s at 20 a second; the camera began a little earlier
    assert any(e.kind == "stalled" and "did not come" in e.detail for e in result.events)
