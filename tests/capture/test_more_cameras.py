"""Two cameras in one rig, and a camera's own JPEGs kept byte for byte, through `record`."""

from __future__ import annotations

import threading
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import soundfile

from capture.blocks import Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.rig import parse_rig
from capture.sources import OpenedRig, open_rig
from capture.take import new_profile, record
from dsp.errors import DeviceError, InputError
from recordings import Episode, EpisodeWriter, Profile, repair

RATE, FPS, SECONDS = 48000, 20, 3


def picture(number: int, width: int = 160, height: int = 96) -> np.ndarray:
    """Its number stands in eight squares, black or white."""
    image = np.full((height, width, 3), 90, np.uint8)
    for bit in range(8):
        x = bit * width // 8
        image[: height // 2, x : x + width // 8] = 255 if number >> bit & 1 else 0
    return image


def number_of(image: np.ndarray) -> int:
    height, width = image.shape[:2]
    middles = [image[height // 4, bit * width // 8 + width // 16].mean() for bit in range(8)]
    return sum(1 << bit for bit, level in enumerate(middles) if level > 127)


def write_sound(path: Path) -> None:
    noise = np.random.default_rng(3).normal(0, 0.05, (SECONDS * RATE, 4))
    soundfile.write(path, noise, RATE, subtype="PCM_24")


def write_video(path: Path, numbers: range) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        stream.bit_rate = 4_000_000
        for n in numbers:
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture(n), format="bgr24")):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)


RIG = """
hearth_rig: 1
microphone: {source: file, file: sound.wav, pace: fast}
camera: {source: file, file: main.mkv, pace: fast}
more_cameras:
  - {name: door, source: file, file: door.mkv, pace: fast}
storage: {min_free_mib: 1}
"""


def test_two_cameras_are_recorded_each_in_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sound(Path("sound.wav"))
    write_video(Path("main.mkv"), range(60))
    write_video(Path("door.mkv"), range(100, 160))
    rig = parse_rig(RIG)
    with open_rig(rig) as opened:
        result = record(rig, opened, new_profile(rig, opened, "two"), root=tmp_path / "data")
    episode = Episode.open(result.path)
    assert episode.cameras == ("", "door") and episode.verify().ok
    assert [number_of(image) for _, image in episode.frames()] == list(range(60))
    assert [number_of(image) for _, image in episode.frames("door")] == list(range(100, 160))
    # Both files were started together, so picture k of each has the same time.
    assert np.array_equal(episode.frame_times(), episode.frame_times("door"))
    assert result.more_pictures == {"door": 60} and "door: 60 pictures" in "\n".join(result.lines())
    assert episode.checks["video"]["more"]["door"]["frames"] == 60
    assert "Pictures (door)" in (episode.path / "report.html").read_text()


class JpegCamera:
    """Delivers prepared JPEGs as a network camera does."""

    def __init__(self, jpegs: list[bytes]) -> None:
        self.jpegs = jpegs
        self.start_ns: int | None = None

    def open(self) -> VideoInfo:
        return VideoInfo("jpegs", "test", 160, 96, FPS, "MJPG")

    def start(self, sink: Sink) -> None:
        assert self.start_ns is not None
        t_ns = self.start_ns
        for seq, jpeg in enumerate(self.jpegs):
            flags = () if jpeg.endswith(b"\xff\xd9") else ("damaged",)
            sink(VideoFrame(t_ns, seq, t_source="arrival", flags=flags, jpeg=jpeg, size=(160, 96)))
            t_ns += 10**9 // FPS
        sink(SourceEvent(t_ns, "camera", "ended"))

    def stop(self) -> None:
        pass

    close = stop


def recorded(tmp_path: Path, store: str, jpegs: list[bytes]) -> Episode:
    text = RIG.split("more_cameras")[0].replace("main.mkv,", f"main.mkv, store: {store},")
    rig = parse_rig(text + "storage: {min_free_mib: 1}\n")
    write_sound(tmp_path / "sound.wav")
    write_video(tmp_path / "main.mkv", range(2))
    with open_rig(rig) as opened:
        camera = JpegCamera(jpegs)
        ours = OpenedRig(rig, opened.microphone, camera, None, opened.audio_info, camera.open())
        result = record(rig, ours, new_profile(rig, ours, store), root=tmp_path / "data")
    return Episode.open(result.path)


def packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(p) for p in container.demux(video=0) if p.size]


@pytest.fixture
def jpegs() -> list[bytes]:
    return [cv2.imencode(".jpg", picture(n))[1].tobytes() for n in range(60)]


def test_a_cameras_jpegs_are_kept_byte_for_byte(tmp_path, monkeypatch, jpegs):
    monkeypatch.chdir(tmp_path)
    jpegs[7] = jpegs[7][: len(jpegs[7]) // 2]  # cut off on its way: kept as it came, and said
    episode = recorded(tmp_path, "auto", jpegs)
    assert packets(episode.path / "video.mkv") == jpegs
    assert episode.checks["video"]["encoder"] == "copy" and episode.verify().ok
    assert episode.checks["video"]["flags"] == {"damaged": 1}
    times = episode.frame_times()
    assert np.all(np.diff(times) == 10**9 // FPS)
    shown = [(t_ns, number_of(image)) for t_ns, image in episode.frames()]
    assert shown == [(t_ns, n) for n, t_ns in enumerate(times.tolist()) if n != 7], (
        "the others keep their times"
    )


def test_store_encode_codes_them_anew_and_counts_what_cannot_be_decoded(tmp_path, monkeypatch, jpegs):
    monkeypatch.chdir(tmp_path)
    jpegs[7] = b"\xff\xd8 no picture at all"
    episode = recorded(tmp_path, "encode", jpegs)
    assert episode.checks["video"]["encoder"] != "copy"
    assert episode.checks["video"]["dropped_by_cause"] == {"damaged": 1}
    assert [number_of(image) for _, image in episode.frames()] == [n for n in range(60) if n != 7]


def test_a_jpeg_that_is_none_says_so_when_it_is_looked_at():
    frame = VideoFrame(0, 3, jpeg=b"no jpeg", size=(4, 4))
    with pytest.raises(DeviceError, match="picture 3"):
        _ = frame.image


def test_an_interrupted_episode_with_two_cameras_is_repaired(tmp_path, jpegs):
    profile = Profile(id="two", session="kill", created_utc="2026-01-01T00:00:00Z", origin="recorded")
    audio = {"rate_hz": RATE, "channels": 4, "format": "ambix"}
    size = {"width_px": 160, "height_px": 96, "fps": FPS}
    writer = EpisodeWriter.create(tmp_path, profile, audio, size, more_videos={"door": size})
    writer.write_audio(np.zeros((RATE, 4), np.int32), 0, 0, 0)
    for n in range(20):
        t_ns = n * 10**9 // FPS
        writer.write_frame(None, t_ns, n, jpeg=jpegs[n], size=(160, 96))
        writer.write_frame(picture(100 + n), t_ns, n, camera="door")
    with pytest.raises(InputError, match="door2"):
        writer.write_frame(picture(0), 0, 0, camera="door2")
    writer.abort("test")
    for name in ("video.mkv", "video_door.mkv"):
        path = writer.path / name
        path.write_bytes(path.read_bytes()[:-300])
    done = repair(writer.path)
    assert done.ok, done.problems
    episode = Episode.open(writer.path)
    main = [number_of(image) for _, image in episode.frames()]
    door = [number_of(image) for _, image in episode.frames("door")]
    assert main == list(range(len(main))) and door == list(range(100, 100 + len(door)))
    assert (
        len(main) == len(episode.frame_times()) >= 10 and len(door) == len(episode.frame_times("door")) >= 10
    )


class CameraThatDies(JpegCamera):
    """Delivers a second of pictures in real time, is lost, and never comes back."""

    def start(self, sink: Sink) -> None:
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(sink,))
        self.thread.start()

    def _run(self, sink: Sink) -> None:
        for seq in range(FPS):
            sink(VideoFrame(monotonic_ns(), seq, jpeg=self.jpegs[seq], size=(160, 96)))
            self.over.wait(1 / FPS)
        sink(SourceEvent(monotonic_ns(), "camera", "lost", "no picture any more"))

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def test_a_camera_that_never_comes_back_is_a_gap_to_the_end_and_told_at_once(tmp_path, monkeypatch, jpegs):
    monkeypatch.chdir(tmp_path)
    rig = parse_rig(RIG.split("camera:")[0].replace("fast", "realtime") + "camera: {source: none}\n"
                    "storage: {min_free_mib: 1}\n")  # fmt: skip
    write_sound(tmp_path / "sound.wav")
    told: list[str] = []
    with open_rig(rig) as opened:
        camera = CameraThatDies(jpegs)
        ours = OpenedRig(rig, opened.microphone, camera, None, opened.audio_info, camera.open())
        result = record(
            rig,
            ours,
            new_profile(rig, ours, "dies"),
            root=tmp_path / "data",
            on_meter=lambda meter: told.extend(f"{e.source} {e.kind}" for e in meter.events),
        )
    assert "camera lost" in told, "while the take ran"
    episode = Episode.open(result.path)
    last_s = (int(episode.frame_times()[-1]) - episode.start_ns) / 1e9
    missing = (SECONDS - last_s) * FPS
    assert result.dropped_pictures == pytest.approx(missing, abs=2) and result.estimated
    assert episode.checks["video"]["dropped"] == result.dropped_pictures
    assert f"about {result.dropped_pictures} pictures" in "\n".join(result.lines())
    assert episode.verify().ok
