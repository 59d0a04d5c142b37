"""Network cameras of well-kept servers, started by the tests: FFmpeg for MJPEG over HTTP, GStreamer for RTSP.

What a camera shows is a Matroska file of JPEG pictures with true times; each picture carries its number, so a
test knows what was sent. Servers are stalled, ended and started again by signals to their process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

WIDTH, HEIGHT = 320, 192
_GST_PYTHON = "/usr/bin/python3"  # Debian's bindings belong to the system's Python

_GST_SERVER = """
import sys, gi
gi.require_version("Gst", "1.0"); gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1"); server.set_service(sys.argv[1])
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch(sys.argv[2])
server.get_mount_points().add_factory("/camera", factory)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
"""


def numbered_picture(number: int) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3) uint8: 16 squares, black or white, are the number's bits; the rest is texture of its
    own."""
    texture = np.random.default_rng(number).integers(60, 190, (6, 10, 3), dtype=np.uint8)
    image = cv2.resize(texture, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
    for bit in range(16):
        row, column = divmod(bit, 8)
        level = 235 if number >> bit & 1 else 20
        image[row * 40 : row * 40 + 40, column * 40 : column * 40 + 40] = level
    return np.asarray(image, np.uint8)


def number_of(image: NDArray[np.uint8]) -> int:
    """The number that a picture carries."""
    value = 0
    for bit in range(16):
        row, column = divmod(bit, 8)
        square = image[row * 40 + 10 : row * 40 + 30, column * 40 + 10 : column * 40 + 30]
        value |= int(square.mean() > 127) << bit
    return value


def numbered_jpeg(number: int) -> bytes:
    """The picture as a camera's JPEG."""
    return bytes(cv2.imencode(".jpg", numbered_picture(number))[1])


def write_pictures(
    path: Path,
    pictures: Iterable[tuple[int, bytes]],
    fps: float,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> None:
    """JPEGs with their places in time, in periods, as Matroska; nothing is coded anew. size: (width, height)
    px."""
    with av.open(str(path), "w", format="matroska") as container:
        stream = container.add_stream("mjpeg", rate=Fraction(fps).limit_denominator(1000))
        (stream.width, stream.height), stream.pix_fmt = size, "yuvj420p"
        for place, data in pictures:
            packet = av.Packet(data)
            packet.stream, packet.time_base = stream, Fraction(1, 1000)
            packet.pts = packet.dts = round(1000 * place / fps)
            packet.is_keyframe = True
            container.mux(packet)


def write_h264(path: Path, numbers: Iterable[tuple[int, int]], fps: float) -> None:
    """(place in time, number) as H.264 without B-pictures, as cameras send it."""
    with av.open(str(path), "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        stream.options = {"preset": "ultrafast", "tune": "zerolatency", "g": "10", "crf": "18"}
        for place, number in numbers:
            frame = av.VideoFrame.from_ndarray(numbered_picture(number), format="bgr24")
            frame.pts, frame.time_base = round(1000 * place / fps), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    """Without connecting: a server for one client would take that for the client. It listens no more when a
    camera that was waiting for it is connected (01) already."""
    wanted = f"0100007F:{port:04X}"
    return any(
        line.split()[1] == wanted and line.split()[3] in ("0A", "01")
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
    )


class CameraServer(ABC):
    """A server process at a fixed port; `url` stays the same when it is ended and started again."""

    def __init__(self, video: Path, log: Path) -> None:
        self.video, self.log, self.port = video, log, _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CameraServer:
        reason = self.why_not()
        if reason is not None:
            pytest.skip(f"no test camera: {reason}")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @abstractmethod
    def why_not(self) -> str | None:
        """What is missing, in plain words."""

    @abstractmethod
    def command(self) -> list[str]:
        """How to start it."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where a client finds it."""

    def start(self) -> None:
        """Start it and wait until it listens."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self._process.poll() is None:
            if _listens(self.port):
                return
            time.sleep(0.02)
        self.end()
        pytest.fail(f"the test camera does not start: {self.log.read_text(errors='replace')[-600:]}")

    def stall(self) -> None:
        """The process stands still; connections stay open and say nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """After `stall`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Gone at once; the kernel closes its connections."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, how)
            process.wait(10)


class HttpCamera(CameraServer):
    """MJPEG over HTTP from FFmpeg, which copies the file's JPEGs in real time to one client."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/camera.mjpg"

    def why_not(self) -> str | None:
        return None if shutil.which("ffmpeg") else "ffmpeg is not installed"

    def command(self) -> list[str]:
        return [
            "ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-re", "-i", str(self.video),
            "-c", "copy", "-f", "mpjpeg", "-listen", "1", self.url,
        ]  # fmt: skip


class RtspCamera(CameraServer):
    """RTSP from GStreamer's server; the file is MJPEG or H.264."""

    def __init__(self, video: Path, log: Path, codec: str) -> None:
        super().__init__(video, log)
        self.codec = codec

    @property
    def url(self) -> str:
        return f"rtsp://127.0.0.1:{self.port}/camera"

    def why_not(self) -> str | None:
        try:
            done = subprocess.run(
                [_GST_PYTHON, "-c", _GST_SERVER.split("server =")[0]], capture_output=True, timeout=30
            )
        except OSError:
            return f"{_GST_PYTHON} is missing"
        if done.returncode != 0:
            return "gir1.2-gst-rtsp-server-1.0 or python3-gi is not installed"
        inspect = shutil.which("gst-inspect-1.0")
        good = list(Path("/usr/lib").glob("*/gstreamer-1.0/libgstrtp.so"))
        return None if good or inspect else "gstreamer1.0-plugins-good is not installed"

    def command(self) -> list[str]:
        pay = "rtpjpegpay" if self.codec == "mjpeg" else "rtph264pay"
        launch = f"( filesrc location={self.video} ! matroskademux ! {pay} name=pay0 pt=96 )"
        return [_GST_PYTHON, "-c", _GST_SERVER, str(self.port), launch]


if __name__ == "__main__":
    # By hand: python tests/real/camera_servers.py video.mkv http|mjpeg|h264
    video = Path(sys.argv[1])
    kind = sys.argv[2]
    log = Path("/dev/stderr")
    server: CameraServer = HttpCamera(video, log) if kind == "http" else RtspCamera(video, log, kind)
    with server:
        print(server.url, flush=True)
        signal.pause()
