from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path

import av
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
        if isinstance(item, SourceEvent):
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
