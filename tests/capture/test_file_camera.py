from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from capture.blocks import Item, SourceEvent, VideoFrame, monotonic_ns
from capture.file_camera import FileCamera
from dsp.errors import InputError

# Milliseconds, uneven as from a camera that halves its rate in the dark.
TIMES_MS = [0, 33, 67, 100, 167, 233, 300, 333, 480, 520, 560, 700]


def write_video(path: Path, times_ms: list[int]) -> None:
    """Grey pictures whose level tells their number."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        for i, ms in enumerate(times_ms):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * i, np.uint8), format="bgr24")
            frame.pts, frame.time_base = ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def play(source: FileCamera) -> list[Item]:
    got: list[Item] = []
    over = threading.Event()

    def sink(item: Item) -> None:
        got.append(item)
        if isinstance(item, SourceEvent) and item.kind == "ended":
            over.set()

    source.start(sink)
    assert over.wait(20)
    source.stop()
    return got


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_times_are_the_containers(tmp_path: Path, suffix: str) -> None:
    write_video(tmp_path / f"x.{suffix}", TIMES_MS)
    source = FileCamera(tmp_path / f"x.{suffix}", pace="fast")
    info = source.open()
    assert (info.width_px, info.height_px) == (64, 48)
    source.start_ns = begin = 10**15
    items = play(source)
    frames = [f for f in items if isinstance(f, VideoFrame)]
    assert [round((f.t_ns - begin) / 1e6) for f in frames] == TIMES_MS
    assert [f.seq for f in frames] == list(range(len(TIMES_MS)))
    assert [round(float(f.image.mean()) / 20) for f in frames] == list(range(len(TIMES_MS)))
    assert {f.t_source for f in frames} == {"container"}
    assert not frames[0].image.flags.writeable
    last = items[-1]
    assert isinstance(last, SourceEvent) and last.kind == "ended"


def test_real_time_does_not_run_ahead(tmp_path: Path) -> None:
    write_video(tmp_path / "x.mkv", TIMES_MS)
    source = FileCamera(tmp_path / "x.mkv")
    source.start_ns = monotonic_ns()
    early: list[int] = []
    over = threading.Event()

    def sink(item: Item) -> None:
        if isinstance(item, VideoFrame):
            early.append(item.t_ns - monotonic_ns())
        else:
            over.set()

    source.start(sink)
    assert over.wait(20)
    assert max(early) <= 0


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such video file"):
        FileCamera(tmp_path / "absent.mkv").open()
    (tmp_path / "x.mp4").write_text("not a video")
    with pytest.raises(InputError, match="not a readable video file"):
        FileCamera(tmp_path / "x.mp4").open()


def test_mjpeg_comes_as_it_is_and_faults_are_flagged(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    jpegs = [bytes(cv2.imencode(".jpg", rng.integers(0, 255, (48, 64, 3), np.uint8))[1]) for _ in range(30)]
    jpegs[12] = jpegs[12][:-200]
    jpegs[20:28] = [jpegs[20]] * 8
    times_ms = [40 * i if i < 20 else 40 * 20 + 250 * (i - 20) for i in range(30)]
    with av.open(str(tmp_path / "x.mkv"), "w") as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for ms, data in zip(times_ms, jpegs, strict=True):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 1000), True
            packet.pts = packet.dts = ms
            container.mux(packet)
    source = FileCamera(tmp_path / "x.mkv", pace="fast")
    assert source.open().fourcc == "MJPG"
    source.start_ns = begin = 10**15
    items = play(source)
    frames = [f for f in items if isinstance(f, VideoFrame)]
    assert [f.jpeg for f in frames] == jpegs
    assert [round((f.t_ns - begin) / 1e6) for f in frames] == times_ms
    assert [f.seq for f in frames if "damaged" in f.flags] == [12]
    assert [f.seq for f in frames if "duplicate" in f.flags] == list(range(21, 28))
    assert [e.kind for e in items if isinstance(e, SourceEvent)] == ["frozen", "thawed", "ended"]
    assert source.counts() == {"pictures": 30, "duplicate": 7, "frozen": 2, "damaged": 1}
    assert frames[3].image.shape == (48, 64, 3)
