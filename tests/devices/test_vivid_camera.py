"""The camera code against vivid, the kernel's virtual V4L2 driver: modes, stamps, faults, unplugging.

The machine is emulated, so nothing here asks for speed; small pictures keep its processor free.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel import Collected, load, set_control, skip_if_it_stood_still, unload, wait_for

from capture.rig import Camera
from capture.sources import camera_of
from dsp.errors import DeviceError

SIZE = {"width_px": 320, "height_px": 180}


@pytest.fixture
def node() -> Iterator[str]:
    """A webcam of vivid with a second device for metadata beside it, as USB cameras have."""
    load("vivid", "n_devs=1", "node_types=0x20001", "num_inputs=1", "input_types=0")
    path = f"/dev/video{min(int(p.name[5:]) for p in Path('/dev').glob('video*'))}"
    set_control(path, "Timestamp Source", 1)  # start of exposure; its other choice lies in the future
    yield path
    unload("vivid")


def camera(**settings: Any) -> Any:
    return camera_of(Camera(**{"source": "v4l2", "fps": 15.0, "fourcc": "YUYV", **SIZE, **settings}), None)


def run(source: Any, pictures: int = 30) -> Collected:
    """What the source delivers until there are so many pictures; it goes on running."""
    got = Collected()
    source.start(got)
    wait_for(f"{pictures} pictures", lambda: len(got.frames) >= pictures)
    return got


def test_what_was_asked_is_read_back(node):
    source = camera(device=int(node[10:]))
    try:
        info = source.open()
        assert (info.width_px, info.height_px, info.fourcc, info.backend) == (320, 180, "YUYV", "v4l2")
        assert info.fps == pytest.approx(15, rel=0.15)
        got = run(source)
        assert {(f.width_px, f.height_px) for f in got.frames} == {(320, 180)}
        assert got.frames[0].image.shape == (180, 320, 3)
        assert source.measured_fps == pytest.approx(15, rel=0.15)
    finally:
        source.close()


def test_what_the_camera_does_not_have_is_said(node):
    """vivid has no MJPEG and no 300 x 170: what comes instead is in the answer, with what was asked."""
    source = camera(device=int(node[10:]), fourcc="MJPG", width_px=300, height_px=170)
    try:
        info = source.open()
        assert info.fourcc not in ("", "MJPG")
        assert (info.width_px, info.height_px) == (320, 180)
        asked = info.detail["asked"]
        assert (asked["fourcc"], asked["width_px"]) == ("MJPG", 300)
        assert run(source, 3).frames[-1].image.shape == (180, 320, 3)
    finally:
        source.close()


def test_the_drivers_stamps_are_used_and_nothing_is_called_lost(node):
    source = camera(device=int(node[10:]))
    skip_if_it_stood_still(begin=True)
    try:
        source.open()
        got = run(source, 45)
        frames = got.frames
        skip_if_it_stood_still()
        assert {f.t_source for f in frames} == {"driver"}
        assert [f.seq for f in frames] == list(range(len(frames)))
        assert all(b.t_ns > a.t_ns for a, b in itertools.pairwise(frames))
        assert min(got.ages_s()) > 0
        # vivid counts on while nobody reads, at the asked rate: what its clock says is missing was counted.
        periods = (frames[-1].t_ns - frames[0].t_ns) * 15 / 1e9
        assert sum(f.dropped for f in frames[1:]) == pytest.approx(periods - (len(frames) - 1), abs=2)
    finally:
        source.close()


def test_stamps_in_the_future_are_not_believed(node):
    """vivid can stamp the end of the exposure before it happens: 0.9 periods ahead of delivery."""
    skip_if_it_stood_still(begin=True)
    set_control(node, "Timestamp Source", 0)
    source = camera(device=int(node[10:]), fps=2.0)
    try:
        source.open()
        got = run(source, 12)
        assert got.events == []
        skip_if_it_stood_still()
        assert "driver" not in {f.t_source for f in got.frames}
        assert min(got.ages_s()) >= 0
    finally:
        source.close()


def test_pictures_that_the_driver_drops_are_counted(node):
    """vivid drops one buffer in three, and counts on: the sequence numbers tell exactly how many."""
    source = camera(device=int(node[10:]))
    try:
        source.open()
        got = run(source, 10)
        set_control(node, "Percentage of Dropped Buffers", 33)
        before = len(got.frames)
        wait_for("pictures with gaps", lambda: len(got.frames) >= before + 30)
        frames = got.frames[before + 2 :]
        periods = (frames[-1].t_ns - frames[0].t_ns) * 15 / 1e9
        dropped = sum(f.dropped for f in frames[1:])
        assert dropped > 5
        assert dropped == pytest.approx(periods - (len(frames) - 1), abs=2)
    finally:
        source.close()


def test_unplugged_in_the_middle_and_back(node):
    source = camera(device=int(node[10:]))
    try:
        source.open()
        got = run(source, 20)
        skip_if_it_stood_still(begin=True)
        set_control(node, "Disconnect", 1)
        lost = wait_for("lost", lambda: got.event("lost"))
        last = got.frames[-1]
        returned = wait_for("returned", lambda: got.event("returned"))
        there = len(got.frames)
        wait_for("pictures again", lambda: len(got.frames) > there + 10)
        frames = got.frames
        assert [f.seq for f in frames] == list(range(len(frames)))
        assert all(b.t_ns > a.t_ns for a, b in itertools.pairwise(frames))
        assert returned.t_ns > lost.t_ns
        # The pictures that never were are known at the first one after the gap.
        gap = max(range(1, len(frames)), key=lambda i: frames[i].t_ns - frames[i - 1].t_ns)
        away_s = (frames[gap].t_ns - frames[gap - 1].t_ns) / 1e9
        assert frames[gap].dropped == pytest.approx(away_s * 15 - 1, abs=1.5)
        skip_if_it_stood_still()
        assert lost.t_ns - last.t_ns < 1e9
    finally:
        source.close()


def test_a_fatal_streaming_error_is_a_loss_and_is_healed(node):
    source = camera(device=int(node[10:]))
    try:
        source.open()
        got = run(source, 15)
        set_control(node, "Inject Fatal Streaming Error", 1)
        wait_for("lost", lambda: got.event("lost"))
        wait_for("returned", lambda: got.event("returned"))
        there = len(got.frames)
        wait_for("pictures again", lambda: len(got.frames) > there + 5)
    finally:
        source.close()


def test_the_metadata_device_is_refused_in_words(node):
    source = camera(device=int(node[10:]) + 1)
    try:
        with pytest.raises(DeviceError, match=r"metadata|no pictures|cannot be opened"):
            source.open()
    finally:
        source.close()


def test_a_camera_is_found_by_its_name(node):
    source = camera(device="vivid")
    try:
        assert (source.open().width_px, source.open().height_px) == (320, 180)
        assert run(source, 5).frames[0].image.shape == (180, 320, 3)
    finally:
        source.close()


def test_a_camera_that_another_program_streams_from_is_refused_in_words(node):
    first, second = camera(device=int(node[10:])), camera(device=int(node[10:]))
    try:
        first.open()
        got = run(first, 5)
        with pytest.raises(DeviceError):
            second.open()
        second.close()
        before = len(got.frames)
        wait_for("the first goes on", lambda: len(got.frames) > before + 5)
        assert got.events == []
    finally:
        second.close()
        first.close()
