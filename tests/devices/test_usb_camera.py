"""MJPEG from a USB camera, through the kernel's uvcvideo: bytes, stamps, faults of the camera, the plug.

The camera is software (usb_camera.py) behind USB/IP: each picture's number, bytes and time are known.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from kernel import Collected, skip_if_it_stood_still, wait_for
from usb_camera import jpeg, number_of

from capture.rig import Camera
from capture.sources import camera_of

SIZE = (320, 180)


def camera(**settings: Any) -> Any:
    mode = {"source": "v4l2", "device": "Test Camera", "fps": 10.0, "fourcc": "MJPG"}
    return camera_of(Camera(**{**mode, "width_px": SIZE[0], "height_px": SIZE[1], **settings}), None)


def run(source: Any, pictures: int = 20) -> Collected:
    got = Collected()
    source.start(got)
    wait_for(f"{pictures} pictures", lambda: len(got.frames) >= pictures)
    return got


def test_every_picture_is_the_cameras_own_bytes(usb_camera):
    source = camera()
    skip_if_it_stood_still(begin=True)
    try:
        info = source.open()
        assert (info.fourcc, info.width_px, info.height_px) == ("MJPG", *SIZE)
        got = run(source, 40)
    finally:
        source.close()
    frames = got.frames
    numbers = [number_of(f.jpeg) for f in frames]
    assert all(f.jpeg == jpeg(n, SIZE) for f, n in zip(frames, numbers, strict=True))
    assert frames[0].image.shape == (180, 320, 3)
    assert {flag for f in frames for flag in f.flags} <= {"late"}
    # A picture that the driver had to leave out is counted, at its place. (A camera that runs into a full
    # driver waits: this one then sends later, and nothing is missing.)
    assert [f.dropped for f in frames[1:]] == [b - a - 1 for a, b in itertools.pairwise(numbers)]
    skip_if_it_stood_still()
    assert {f.t_source for f in frames} == {"driver"}
    left = usb_camera.left_ns()
    assert all(0 <= f.t_ns - left[n] < 1_000_000_000 for f, n in zip(frames, numbers, strict=True))


def test_another_mode_is_read_back(usb_camera):
    source = camera(width_px=640, height_px=360, fps=5.0)
    try:
        info = source.open()
        assert (info.fourcc, info.width_px, info.height_px) == ("MJPG", 640, 360)
        assert info.detail["fps_reported"] == pytest.approx(5)
        assert info.fps == pytest.approx(5, rel=0.25)
        assert run(source, 5).frames[-1].image.shape == (360, 640, 3)
    finally:
        source.close()


def test_a_jpeg_without_its_end_is_marked(usb_camera):
    source = camera()
    try:
        source.open()
        got = run(source, 10)
        usb_camera.say("cut 3")
        wait_for("the damaged ones", lambda: sum("damaged" in f.flags for f in got.frames) >= 3)
        there = len(got.frames)
        wait_for("whole ones again", lambda: len(got.frames) > there + 5)
    finally:
        source.close()
    for frame in got.frames:
        assert ("damaged" in frame.flags) == (not frame.jpeg.endswith(b"\xff\xd9"))
    assert sum("damaged" in f.flags for f in got.frames) == 3
    assert got.event("lost") is None


def test_a_frozen_camera_is_noticed(usb_camera):
    source = camera()
    try:
        source.open()
        got = run(source, 15)
        usb_camera.say("frozen 1")
        frozen = wait_for("frozen", lambda: got.event("frozen"))
        usb_camera.say("frozen 0")
        thawed = wait_for("thawed", lambda: got.event("thawed"))
        assert thawed.t_ns > frozen.t_ns
    finally:
        source.close()
    frames = got.frames
    same = [a.jpeg == b.jpeg for a, b in itertools.pairwise(frames)]
    assert [("duplicate" in f.flags or "frozen" in f.flags) for f in frames[1:]] == same


def test_a_camera_that_falls_silent_is_noticed_and_goes_on(usb_camera):
    source = camera()
    try:
        source.open()
        got = run(source, 15)
        usb_camera.say("silent 1")
        stalled = wait_for("stalled", lambda: got.event("stalled") or got.event("lost"))
        last = got.frames[-1]
        assert stalled.t_ns > last.t_ns
        usb_camera.say("silent 0")
        wait_for("returned", lambda: got.event("returned"))
        there = len(got.frames)
        wait_for("pictures again", lambda: len(got.frames) > there + 5)
    finally:
        source.close()


def test_the_plug_is_pulled_and_put_back(usb_camera):
    source = camera()
    try:
        source.open()
        got = run(source, 20)
        skip_if_it_stood_still(begin=True)
        usb_camera.say("unplug")
        lost = wait_for("lost", lambda: got.event("lost"))
        last = got.frames[-1]
        wait_for("the device is gone", lambda: not list(Path("/dev").glob("video*")))
        usb_camera.say("plug")
        wait_for("returned", lambda: got.event("returned"))
        there = len(got.frames)
        wait_for("pictures again", lambda: len(got.frames) > there + 10)
    finally:
        source.close()
    frames = got.frames
    assert [f.seq for f in frames] == list(range(len(frames)))
    assert all(b.t_ns > a.t_ns for a, b in itertools.pairwise(frames))
    assert all(f.jpeg == jpeg(number_of(f.jpeg), SIZE) for f in frames if "damaged" not in f.flags)
    gap = frames.index(next(f for f in frames if f.t_ns > lost.t_ns))
    away_s = (frames[gap].t_ns - frames[gap - 1].t_ns) / 1e9
    assert frames[gap].dropped == pytest.approx(away_s * 10 - 1, rel=0.1, abs=2)
    skip_if_it_stood_still()
    assert lost.t_ns - last.t_ns < 1e9
