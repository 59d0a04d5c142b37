"""The doctor's report: what is said first, and what is never said."""

from __future__ import annotations

import json
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.blocks import AudioBlock, AudioInfo, VideoFrame
from capture.camera_address import without_secrets
from capture.doctor_findings import Finding, make_report
from capture.fanout import Fanout
from capture.take_watch import PictureWatch, SoundWatch


def test_the_verdict_says_first_what_everything_else_needs() -> None:
    findings = [
        Finding("camera door", "fault", "dark", "open it"),
        Finding("processor", "warning", "busy", "close programs"),
        Finding("microphone", "warning", "quiet"),
        Finding("microphone", "fault", "it is gone.", "plug it in"),
        Finding("disk", "ok", "large"),
    ]
    report = make_report(findings, "this rig", {}, 1.0)
    assert report.first == "microphone: it is gone. Plug it in"
    assert report.verdict == f"not ready to record with this rig. First: {report.first}"
    assert report.to_do() == [
        "microphone: plug it in", "camera door: open it", "microphone: quiet", "processor: close programs",
    ]  # fmt: skip
    lines = report.lines()
    assert lines[-1] == f"verdict: {report.verdict}"
    assert [line.split(":")[0].split()[1] for line in lines[:5]] == [
        "microphone", "microphone", "disk", "camera", "processor",
    ]  # fmt: skip
    assert not report.ok


def test_verdicts_without_a_fault() -> None:
    good = make_report([Finding("disk", "ok", "large")], "this rig", {}, 1.0)
    assert good.ok and good.first is None and good.verdict == "ready to record with this rig"
    look = make_report([Finding("clock", "warning", "late")], "this rig", {}, 1.0)
    assert look.ok and look.verdict == "ready to record with this rig; look at: clock"
    early = make_report([Finding("disk", "ok", "large")], "this rig", {}, 1.0, ended_early=True)
    assert not early.ok and "ended by hand" in early.verdict


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://admin:geheim@cam.local:81/a.mjpg", "http://***@cam.local:81/a.mjpg"),
        ("rtsp://u:p@ss:w@10.0.0.9/x?y=1", "rtsp://***@10.0.0.9/x?***"),
        ("rtsp://u:pa/ss@10.0.0.9/x", "rtsp://***@10.0.0.9/x"),
        ("http://u@cam/", "http://***@cam/"),
        ("http://cam/v.cgi?user=admin&pwd=12%203&size=2", "http://cam/v.cgi?***"),
        ("http://cam/v?loginuse=a&loginpas=b&access_token=c", "http://cam/v?***"),
        ("rtsp://cam/user=admin_password=geheim_channel=1_stream=0.sdp?p=x", "rtsp://cam/***?***"),
        ("http://cam/live/password%3Dx/1#code=y", "http://cam/live/***/1#***"),
        ("http://u:pa?ss@cam/v", "http://***@cam/v"),
        ("no: rtsp://u:p@h/x: refused, 'http://a:b@c'", "no: rtsp://***@h/x: refused, 'http://***@c'"),
        ("(found 'admin:geheim@10.0.0.9/x')", "(found '***@10.0.0.9/x')"),
        ("(uvcvideo): MJPG 1920x1080@30 or 1280x720@60", "(uvcvideo): MJPG 1920x1080@30 or 1280x720@60"),
        ("rtsp://host:554/stream@1", "rtsp://host:554/stream@1"),
        ("tcp://127.0.0.1:5771 and a@b", "tcp://127.0.0.1:5771 and a@b"),
    ],
)  # fmt: skip
def test_no_password_is_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets({"a": [text, {text: 1}]}) == {"a": [shown, {shown: 1}]}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=4, max_size=20))
def test_no_quoted_password_survives(password: str) -> None:
    secret = quote(f"<{password}>", safe="")
    finding = Finding(
        "camera", "fault", f"rtsp://me:{secret}@10.0.0.9:554/live: refused", f"x http://{secret}@h/"
    )
    report = make_report([finding], "this rig", {"opened": [{"problem": finding.text}]}, 0.0)
    for text in (json.dumps(report.to_dict()), *report.lines()):
        assert secret not in text
    assert "10.0.0.9:554/live" in report.lines()[0], "where it is stays"


def test_pictures_are_counted_by_what_they_carry() -> None:
    """20 fps with one place missing and stamps 2 ms off in turn: rate and jitter in closed form."""
    fanout = Fanout()
    watch = PictureWatch("camera", fanout)
    image = np.full((16, 24, 3), 7, np.uint8)
    for number in [*range(20), *range(21, 41)]:
        off = 2_000_000 if number % 2 else -2_000_000
        flags = ("late",) if number == 5 else ("duplicate", "frozen") if number == 6 else ()
        dropped = 1 if number == 21 else 0
        fanout.sink(VideoFrame(number * 50_000_000 + off, number, image, "filtered", dropped, flags))
    watch.close()
    facts = watch.facts(look=True)
    assert (facts.pictures, facts.dropped, facts.t_source) == (40, 1, {"filtered": 40})
    assert facts.flags == {"late": 1, "duplicate": 1, "frozen": 1}
    assert facts.fps == pytest.approx(39 / 2.0, rel=0.01), "40 pictures within 2 s, at both ends"
    assert facts.jitter_ms == pytest.approx(2.0, abs=0.3)
    assert (facts.width_px, facts.height_px, facts.mean, facts.spread) == (24, 16, 7.0, 0.0)


def test_sound_is_judged_after_its_last_gap() -> None:
    """A sine of -6.02 dBFS over noise of -60 dBFS; the clock 100 ppm fast, told without delay."""
    fs = 48000
    info = AudioInfo("m", "test", fs, 4, "array", 24, 480)
    fanout = Fanout()
    watch = SoundWatch(info, fanout)
    random = np.random.default_rng(0)
    n = np.arange(5 * fs)
    x = random.standard_normal((len(n), 4)) * 1e-3
    x[fs:, 0] += 0.5 * np.sin(2 * np.pi * 997 * n[fs:] / fs)
    samples = np.round(x * 2**31).astype(np.int32)
    first = 0
    for seq, start in enumerate(range(0, len(n), 480)):
        lost = 4800 if start == fs else 0
        first += lost
        t_ns = round(first / fs * 1e9 / (1 + 100e-6))
        fanout.sink(AudioBlock(t_ns, seq, first, fs, samples[start : start + 480], t_ns, lost))
        first += 480
    watch.close()
    assert (watch.frames, watch.lost_frames, watch.gaps) == (5 * fs, 4800, 1)
    floor = watch.noise_floor_dbfs()
    assert floor is not None and floor[0] == pytest.approx(-60, abs=1), "the first second has noise alone"
    clock = watch.clock()
    assert clock is not None and clock.drift_ppm == pytest.approx(100, abs=1)
    levels = watch.levels_now()
    assert levels is not None and levels.peak_dbfs[0] == pytest.approx(-6.02, abs=0.1)
    assert watch.levels_now() is None, "nothing new came"
