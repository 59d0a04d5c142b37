"""Cameras: how soon a loss is noticed, whether bytes and drops are right, and what receiving costs.

The cameras are servers of others (FFmpeg for MJPEG over HTTP, GStreamer for RTSP) as in tests/real. The cost
of receiving 1280x720 MJPEG at 30 fps is measured beside OpenCV's VideoCapture, which is how most programs
read a camera; each receives in a process of its own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bench.figures import figure, not_measured, note, peer
from capture.blocks import Item, SourceEvent, VideoFrame
from capture.camera import LiveCamera
from capture.camera_clock import PictureClock
from capture.camera_link import Picture

REPOSITORY = Path(__file__).resolve().parents[1]
FPS = 25.0
SEED = 9404


def _servers() -> Any:
    """The module of the tests that starts the servers."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "real"))
    import camera_servers

    return camera_servers


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.002)
    return False


def run(quick: bool) -> None:
    """Print the figures."""
    _times(60.0 if quick else 600.0)
    servers = _servers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        video = folder / "camera.mkv"
        servers.write_pictures(video, [(n, servers.numbered_jpeg(n)) for n in range(1000)], FPS)
        kinds: dict[str, Any] = {"http": servers.HttpCamera(video, folder / "log")}
        rtsp = servers.RtspCamera(video, folder / "log", "mjpeg")
        for label, server in (("http", kinds["http"]), ("rtsp", rtsp)):
            reason = server.why_not()
            if reason is not None:
                not_measured(f"camera_lost_noticed_{label}", "s", "<=", 1.0, reason)
                kinds.pop(label, None)
            else:
                kinds[label] = server
        _lost(kinds, 1 if quick else 3)
        if "http" in kinds:
            _identical(servers, folder)
        _drops(servers, folder, list(kinds), 6.0 if quick else 30.0)
        if "http" in kinds:
            _cost(servers, folder, 4.0 if quick else 20.0)


# ------------------------------------------------------------------ times of pictures


def _times(seconds: float) -> None:
    """Simulated 29.97 fps camera, 100 ppm fast, over a network: exponential delays of 5 ms, up to 20 ms of
    scheduling, and stalls of 0.3 s after which all that waited comes at once. The error is p95 around the
    median, after 5 s: nobody can know a constant delay from arrivals."""
    rng = np.random.default_rng(SEED + 3)
    true = 10**12 + np.arange(round(29.97 * seconds)) * (1e9 / 29.97 * (1 - 1e-4))
    delay = rng.exponential(5e6, len(true)) + rng.uniform(0, 20e6, len(true)) * (rng.random(len(true)) < 0.3)
    for k in rng.integers(0, len(true) - 10, max(2, round(seconds / 20))):
        delay[k : k + 9] += np.maximum(0.0, 3e8 - (true[k : k + 9] - true[k]))
    arrival = np.maximum.accumulate(true + delay).astype(np.int64)
    clock, held, stamps = PictureClock(30.0), None, []
    for number, t in enumerate(arrival):  # as LiveCamera does it
        picture = Picture(int(t) + number, (1, 1), jpeg=b"")
        if held is not None:
            stamps.append(clock.stamp(held, picture.arrival_ns))
            held = None
        if clock.wants_next(picture):
            held = picture
        else:
            stamps.append(clock.stamp(picture))
    times = np.array([stamp.t_ns for stamp in stamps])
    steady = (true - true[0] > 5e9)[: len(times)]

    def p95_ms(t: np.ndarray) -> float:
        error = (t[: len(times)] - true[: len(times)])[steady] / 1e6
        return float(np.quantile(np.abs(error - np.median(error)), 0.95))

    note(f"camera times: {sum(stamp.dropped for stamp in stamps)} called missing of 0 in {len(times)}")
    figure("camera_time_error_p95", p95_ms(times), "ms", "<=", 1.0)
    peer("camera_time_error_p95_raw_arrival", p95_ms(arrival.astype(np.float64)), "ms")


# ------------------------------------------------------------------ a camera that goes away


def _lost(kinds: dict[str, Any], times: int) -> None:
    """Seconds from the ending until the event, for every way to end that a client can meet."""
    worst = 0.0
    for label, server in kinds.items():
        for ending in ("killed", "asked to end", "standing still"):
            for _ in range(times):
                noticed = _one_ending(server, ending)
                note(f"camera {label}, {ending}: noticed after {noticed:.3f} s")
                worst = max(worst, noticed)
    if kinds:
        figure("camera_lost_noticed_worst", worst, "s", "<=", 1.0)


def _one_ending(server: Any, ending: str) -> float:
    told: list[float] = []

    def sink(item: Item) -> None:
        if isinstance(item, SourceEvent) and item.kind in ("lost", "stalled"):
            told.append(time.monotonic())

    with server:
        camera = LiveCamera(server.url, fps=FPS)
        camera.start(sink)
        time.sleep(0.5)
        begin = time.monotonic()
        if ending == "standing still":
            server.stall()
        else:
            server.end(signal.SIGKILL if ending == "killed" else signal.SIGINT)
        found = _wait(lambda: bool(told), 10)
        camera.close()
    return told[0] - begin if found else float("inf")


# ------------------------------------------------------------------ what arrives


def _receive(server: Any, seconds: float) -> list[VideoFrame]:
    got: list[VideoFrame] = []
    with server:
        camera = LiveCamera(server.url, fps=FPS)
        camera.start(lambda item: got.append(item) if isinstance(item, VideoFrame) else None)
        time.sleep(seconds)
        camera.close()
    return got


def _identical(servers: Any, folder: Path) -> None:
    """JPEGs of sizes from 3 kB to 200 kB: which share came byte for byte, none left out and none twice."""
    rng = np.random.default_rng(SEED)
    sent = []
    for number in range(400):
        image = servers.numbered_picture(number)
        scale = float(rng.uniform(1, 4))
        image = cv2.resize(image, None, fx=scale, fy=scale)
        image = cv2.add(image, rng.integers(0, 40, image.shape, dtype=np.uint8))
        sent.append(
            bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(30, 98))])[1])
        )
    video = folder / "sizes.mkv"
    servers.write_pictures(video, enumerate(sent), FPS)
    got = _receive(servers.HttpCamera(video, folder / "log"), 4.0)
    first = sent.index(got[0].jpeg) if got and got[0].jpeg in sent else 0
    same = sum(f.jpeg == sent[first + i] for i, f in enumerate(got))
    note(f"camera: {len(got)} pictures, {min(map(len, sent))} to {max(map(len, sent))} bytes")
    figure("camera_jpeg_identical", same / len(got) if got else 0.0, "share", "==", 1.0)


def _drops(servers: Any, folder: Path, kinds: list[str], seconds: float) -> None:
    """Pictures that the camera leaves out, 1 to 4 at a time: the share of gaps found with their length
    and at their place; gaps that were none count against it."""
    rng = np.random.default_rng(SEED + 1)
    starts = np.cumsum(rng.integers(12, 30, 100)) + 40
    gaps = {int(s): int(rng.integers(1, 5)) for s in starts if s < (seconds + 3) * FPS}
    gone = {s + i for s, length in gaps.items() for i in range(length)}
    numbers = [n for n in range(round((seconds + 10) * FPS)) if n not in gone]
    pictures = [(n, servers.numbered_jpeg(n)) for n in numbers]
    found: dict[str, list[int]] = {"http": [0, 0], "rtsp": [0, 0]}
    for label, codec in (("http", "mjpeg"), ("rtsp", "mjpeg"), ("rtsp", "h264")):
        if label not in kinds:
            continue
        video = folder / f"drops-{label}-{codec}.mkv"
        if codec == "h264":
            servers.write_h264(video, [(n, n) for n in numbers], FPS)
        else:
            servers.write_pictures(video, pictures, FPS)
        server = (
            servers.HttpCamera(video, folder / "log")
            if label == "http"
            else servers.RtspCamera(video, folder / "log", codec)
        )
        got = _receive(server, seconds)
        shown = [servers.number_of(f.image) for f in got]
        # FFmpeg sends a picture when the one before it is due, so its gaps show one picture later.
        moved = 1 if label == "http" else 0
        told = {f.seq: f.dropped for f in got if f.dropped}
        true = {i + moved: b - a - 1 for i, (a, b) in enumerate(pairwise(shown), 1) if b - a > 1}
        true = {i: n for i, n in true.items() if moved < i < len(shown)}
        exact = sum(told.get(i) == n for i, n in true.items())
        extra = len(set(told) - set(true) - {moved, 0})
        note(f"camera {label} {codec}: {exact} of {len(true)} gaps exact, {extra} that were none")
        found[label][0] += exact
        found[label][1] += len(true) + extra
    # RTP carries the sender's clock, so its gaps are counted; over HTTP only the times of arrival tell.
    for label, op, target in (("rtsp", "==", 1.0), ("http", ">=", 0.95)):
        exact, total = found[label]
        name = "camera_drops_counted_rtsp" if label == "rtsp" else "camera_drops_estimated_http"
        if total:
            figure(name, exact / total, "share", op, target)
        else:
            not_measured(name, "share", op, target, "no test camera")


# ------------------------------------------------------------------ what it costs


def _cost(servers: Any, folder: Path, seconds: float) -> None:
    rng = np.random.default_rng(SEED + 2)
    pictures = []
    for number in range(round((seconds + 8) * 30)):
        image = cv2.resize(servers.numbered_picture(number), (1280, 720))
        image = cv2.add(image, rng.integers(0, 12, image.shape, dtype=np.uint8))  # a sensor's noise
        pictures.append((number, bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])[1])))
    video = folder / "hd.mkv"
    servers.write_pictures(video, pictures, 30.0, (1280, 720))
    size = sum(len(data) for _, data in pictures) / len(pictures)
    shares, each = {}, {}
    for receiver in ("hearth", "opencv"):
        with servers.HttpCamera(video, folder / "log") as server:
            done = subprocess.run(
                [sys.executable, "-m", "bench.capture_camera", receiver, server.url, str(seconds)],
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                timeout=seconds + 60,
                check=True,
            )
        share, fps = map(float, done.stdout.split())
        note(f"camera {receiver}: {fps:.1f} pictures per second of {size / 1e3:.0f} kB each")
        shares[receiver], each[receiver] = share, share / max(fps, 1e-3)  # a busy machine costs pictures
    figure("camera_receive_720p30_mjpeg", 100 * shares["hearth"], "% of one core", "<=", 5.0)
    peer("camera_receive_720p30_mjpeg_opencv", 100 * shares["opencv"], "% of one core")
    figure("camera_receive_per_picture_beside_opencv", each["hearth"] / each["opencv"], "ratio", "<=", 0.5)


def _receiver(kind: str, url: str, seconds: float) -> None:
    """In a process of its own: prints the share of one core and the pictures per second."""
    pictures = 0
    if kind == "opencv":
        capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
        for _ in range(25):  # opening and the first second are not counted for either
            capture.read()
        begin, cpu = time.monotonic(), time.process_time()
        while time.monotonic() - begin < seconds:
            pictures += int(capture.read()[0])
    else:
        got: list[int] = []
        camera = LiveCamera(url, fps=30)
        camera.start(lambda item: got.append(len(item.jpeg or b"")) if isinstance(item, VideoFrame) else None)
        begin, cpu = time.monotonic(), time.process_time()
        time.sleep(seconds)
        pictures = len(got)
    used, lasted = time.process_time() - cpu, time.monotonic() - begin
    print(used / lasted, pictures / lasted)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        _receiver(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    else:
        from bench.figures import end_of_part
        from bench.figures import quick as short_form

        run(short_form())
        sys.exit(end_of_part("capture"))
