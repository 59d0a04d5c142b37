"""LiveCamera on GStreamer's RTSP server: MJPEG as it came, H.264 decoded, the sender's clock counts drops."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from camera_servers import RtspCamera, number_of, numbered_jpeg, write_h264, write_pictures

from capture.blocks import Item, SourceEvent, VideoFrame
from capture.camera import LiveCamera

pytestmark = pytest.mark.real

FPS = 25.0
GONE = {70, 71, 80}


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("codec", ["mjpeg", "h264"])
def test_drops_stall_death_and_return(codec: str, tmp_path: Path) -> None:
    numbers = [n for n in range(500) if n not in GONE]
    video = tmp_path / "camera.mkv"
    if codec == "mjpeg":
        write_pictures(video, [(n, numbered_jpeg(n)) for n in numbers], FPS)
    else:
        write_h264(video, [(n, n) for n in numbers], FPS)
    got: list[Item] = []

    def frames() -> list[VideoFrame]:
        return [i for i in got if isinstance(i, VideoFrame)]

    def events() -> list[SourceEvent]:
        return [i for i in got if isinstance(i, SourceEvent)]

    def kinds() -> list[str]:
        return [e.kind for e in events()]

    with RtspCamera(video, tmp_path / "log", codec) as server:
        camera = LiveCamera(server.url, fps=FPS, read_deadline_s=5.0)
        info = camera.open()
        camera.start(got.append)
        assert wait_for(lambda: sum(f.dropped for f in frames()) >= 3, 15)
        server.stall()
        assert wait_for(lambda: "stalled" in kinds(), 5)
        server.go_on()
        assert wait_for(lambda: "returned" in kinds(), 5)
        assert wait_for(lambda: (time.monotonic_ns() - frames()[-1].t_ns) / 1e9 < 0.2, 5)
        server.end()
        assert wait_for(lambda: "lost" in kinds(), 5)
        server.start()
        before = len(frames())
        assert wait_for(lambda: len(frames()) > before + 5, 20)
        camera.close()
    assert (info.backend, info.fourcc) == ("rtsp", "MJPG" if codec == "mjpeg" else "H264")
    assert (info.width_px, info.height_px) == (320, 192)
    assert info.fps == pytest.approx(FPS, rel=0.5)
    assert kinds() == ["stalled", "returned", "lost", "returned"]
    assert events()[2].data["noticed_after_s"] < 1.0
    pictures = frames()
    assert all((f.jpeg is not None) == (codec == "mjpeg") for f in pictures)
    shown = [number_of(f.image) for f in pictures]
    at = next(i for i, n in enumerate(np.diff(shown) < 0, 1) if n)  # the file begins again
    missing = {shown[i]: shown[i] - shown[i - 1] - 1 for i in range(1, at) if shown[i] - shown[i - 1] > 1}
    assert missing == {72: 2, 81: 1}, "the stall lost nothing"
    assert {shown[f.seq]: f.dropped for f in pictures[:at] if f.dropped} == missing
    times = np.array([f.t_ns for f in pictures])
    assert np.diff(times).min() > 0
    error = times[:at] / 1e6 - 1000 / FPS * np.array(shown[:at])
    assert np.quantile(np.abs(error - np.median(error)), 0.9) < 10.0
    assert {f.t_source for f in pictures} == {"filtered"}
    assert pictures[at].dropped == events()[3].data["dropped"] > 0
