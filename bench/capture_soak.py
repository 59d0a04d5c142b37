"""Long recordings: no block lost, flat memory, and what recording costs.

python -m bench.capture_soak                 2 hours' worth at 8 times real time, 20 minutes in real time
python -m bench.capture_soak --minutes 5     each part that long by the clock (QUICK=1: one minute)

The soak is the live service with a recorder: fan-outs, recorder, live chain (resampling, levels, activity,
directions, publisher), fed with 4 channels at 48 kHz and 1280x720 JPEGs at 30 fps whose content is known, so
that every sample and every picture on disk is compared afterwards. The cost is that of `hearth record` taking
MJPEG from a camera over HTTP, which another process plays, beside peers that do the same job; what playing
the sound from a file costs in it is measured by itself and taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.capture_kill import FPS, HEIGHT, RATE, WIDTH, PatternCamera, PatternMicrophone, pattern, prepare
from bench.figures import end_of_part, figure, not_measured, note, peer, quick

REPOSITORY = Path(__file__).resolve().parents[1]
_TICK = os.sysconf("SC_CLK_TCK")
_LEAST_S = 240.0  # of the clock after warm-up: a slope over less says nothing about an hour


# ---------------------------------------------------------------- the process that records


def _look() -> tuple[float, float, int, int]:
    """(seconds, resident MB, open files, threads) of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return time.monotonic(), resident, len(os.listdir("/proc/self/fd")), threading.active_count()


def child(arguments: argparse.Namespace) -> None:
    """Record for so many minutes of the clock at `speed`; prints one JSON object."""
    from capture.rig import parse_rig
    from capture.sources import OpenedRig
    from capture.take import new_profile
    from edge.live import LiveService

    rig = parse_rig(
        f"hearth_rig: 1\nstorage: {{folder: {json.dumps(str(arguments.root))}, min_free_mib: 0}}\n"
        "endpoints: {stream: 'tcp://127.0.0.1:0', commands: 'tcp://127.0.0.1:0'}\n"
    )
    microphone = PatternMicrophone(arguments.speed)
    camera = PatternCamera(arguments.material, True, arguments.speed)
    opened = OpenedRig(rig, microphone, camera, None, microphone.open(), camera.open())
    profile = new_profile(rig, opened, "soak", id=arguments.name)
    samples = []
    with LiveService(rig, opened, record=True, profile=profile) as live:
        live.start()
        began, cpu = time.monotonic(), time.process_time()
        while (now := time.monotonic()) < began + 60 * arguments.minutes:
            samples.append(_look())
            time.sleep(max(0.0, 1.0 - (time.monotonic() - now)))
        wall, cpu = time.monotonic() - began, time.process_time() - cpu
        stats = live.stats()
        live.stop()
        recording = live.recording
    said = {
        "samples": samples,
        "cpu_share": cpu / wall,
        "blocks_dropped": stats["blocks_dropped"],
        "episode": str(recording.path) if recording else "",
        "frames": recording.frames if recording else 0,
        "pictures": recording.pictures if recording else 0,
        "lost_frames": recording.lost_frames if recording else -1,
        "finish_s": time.monotonic() - began - wall,
    }
    print(json.dumps(said), flush=True)


# ---------------------------------------------------------------- what came out


def wrong_samples(episode: Path, frames: int) -> int:
    """Samples on disk that are not the pattern's, and those of `frames` that are not there."""
    from recordings import read_wav

    at = wrong = 0
    for path in sorted((episode / "foa_48k").glob("*.wav")):
        for block in read_wav(path).blocks(1 << 18):
            wrong += int((block != pattern(at, len(block))).sum())
            at += len(block)
    return wrong + 4 * abs(frames - at)


def wrong_pictures(episode: Path, material: Path, pictures: int) -> int:
    """Pictures on disk that are not byte for byte the camera's, and those that are not there."""
    import av

    jpegs = PatternCamera(material, True)._jpegs
    count = wrong = 0
    with av.open(str(episode / "video.mkv")) as container:
        for packet in container.demux(video=0):
            if packet.size:
                wrong += bytes(packet) != jpegs[count % len(jpegs)]
                count += 1
    return wrong + abs(pictures - count)


def slope(seconds: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Units per hour and the half width of its 95 % interval: Theil and Sen's line over the medians of 40
    stretches, which are nearly independent although neighbouring samples are not."""
    from scipy.stats import theilslopes

    parts = np.array_split(np.arange(len(seconds)), 40)
    x = np.array([np.median(seconds[p]) for p in parts]) / 3600
    y = np.array([np.median(values[p]) for p in parts])
    line = theilslopes(y, x, 0.95)
    return float(line[0]), float(max(line[0] - line[2], line[3] - line[0]))


def soak(name: str, speed: float, minutes: float, material: Path) -> None:
    """One long recording; prints its figures."""
    room = shutil.disk_usage(material).free / 1e9
    needed = minutes * 60 * speed * (0.58 + 0.4 + FPS * 0.09) / 1e3 + 2
    if room < needed:
        for what in ("samples_wrong", "pictures_wrong", "rss_slope"):
            not_measured(f"{name}_{what}", "", "==", 0, f"needs {needed:.0f} GB of disk, {room:.0f} are free")
        return
    command = [sys.executable, "-m", "bench.capture_soak", "--child", "--root", str(material / "data")]
    command += ["--material", str(material), "--name", name, "--speed", str(speed)]
    done = subprocess.run(
        [*command, "--minutes", str(minutes)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode or not done.stdout.strip():
        figure(f"{name}_samples_wrong", np.inf, "samples", "==", 0)
        return
    said = json.loads(done.stdout.strip().splitlines()[-1])
    episode = Path(said["episode"])
    hours = said["frames"] / RATE / 3600
    note(f"{name}: {60 * hours:.1f} min recorded, finished within {said['finish_s']:.0f} s after the end")
    figure(f"{name}_minutes_recorded", 60 * hours, "min", ">=", minutes * speed * 0.99)
    figure(f"{name}_samples_wrong", wrong_samples(episode, said["frames"]), "samples", "==", 0)
    figure(f"{name}_pictures_wrong", wrong_pictures(episode, material, said["pictures"]), "pictures", "==", 0)
    due = said["frames"] / RATE * FPS
    figure(f"{name}_pictures_missing", max(0.0, due - said["pictures"] - 2), "pictures", "<=", 0)
    figure(f"{name}_frames_lost", said["lost_frames"], "frames", "==", 0)
    if speed == 1:
        figure(f"{name}_live_blocks_dropped", said["blocks_dropped"], "blocks", "==", 0)
    else:  # it may be too slow for that; the recording must not mind
        note(f"{name}: the live chain left out {said['blocks_dropped']} blocks")
    table = np.array(said["samples"], np.float64)
    table = table[table[:, 0] >= table[0, 0] + max(60.0, 0.2 * 60 * minutes)]
    if len(table) < 10 or table[-1, 0] - table[0, 0] < _LEAST_S:
        why = f"less than {_LEAST_S / 60:.0f} min after warm-up"
        not_measured(f"{name}_rss_slope", "MB/h", "<", 1.0, why)
    else:
        # Per hour of recording: what a leak per block would be.
        rise, half = (value / speed for value in slope(table[:, 0], table[:, 1]))
        figure(f"{name}_rss_slope", rise, f"MB/h +- {half:.2g} (95 %) at {table[-1, 1]:.0f} MB", "<", 1.0)
    if len(table):
        figure(f"{name}_open_files_growth", table[-1, 2] - table[0, 2], "files", "<=", 0)
        figure(f"{name}_threads_growth", table[-1, 3] - table[0, 3], "threads", "<=", 0)
    share = 100 * said["cpu_share"]
    figure(f"{name}_cpu_share", share, "% of one core, sources and live chain included", "<=", 25 * speed)
    shutil.rmtree(episode, ignore_errors=True)


# ---------------------------------------------------------------- what recording costs


def serve(arguments: argparse.Namespace) -> None:
    """A camera: multipart MJPEG over HTTP at 30 fps, to anybody who asks; prints its port."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    jpegs = PatternCamera(arguments.material, True)._jpegs

    class Camera(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=picture")
            self.end_headers()
            begin, number = time.monotonic(), 0
            try:
                while True:
                    jpeg = jpegs[number % len(jpegs)]
                    head = f"--picture\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                    self.wfile.write(head.encode() + jpeg + b"\r\n")
                    number += 1
                    time.sleep(max(0.0, begin + number / FPS - time.monotonic()))
            except OSError:
                return

        def log_message(self, format: str, *rest: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def _opencv(url: str, target: str) -> None:
    """The usual loop: VideoCapture into VideoWriter, which decodes and encodes each picture."""
    import cv2

    cv2.setNumThreads(1)
    capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
    writer = cv2.VideoWriter(target, cv2.VideoWriter.fourcc(*"MJPG"), FPS, (WIDTH, HEIGHT))
    while True:
        ok, image = capture.read()
        if not ok:
            return
        writer.write(image)


def _play(path: Path) -> None:
    """Only play the sound file: what the test's microphone costs within `hearth record`."""
    from capture.file_microphone import FileMicrophone

    FileMicrophone(path).start(lambda item: None)
    threading.Event().wait()


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _share(process: subprocess.Popen[Any], warm_s: float, seconds: float) -> float:
    """CPU of a running process as % of one core over `seconds`, after `warm_s`; ends the process."""
    time.sleep(warm_s)
    begin, cpu = time.monotonic(), _cpu_s(process.pid)
    time.sleep(seconds)
    if process.poll() is not None:
        raise RuntimeError(f"{process.args!r} ended early with {process.returncode}")
    share = 100 * (_cpu_s(process.pid) - cpu) / (time.monotonic() - begin)
    process.terminate()
    process.wait()
    return share


def cost(seconds: float, material: Path) -> None:
    """CPU of `hearth record` while it keeps 4 channels and MJPEG, beside FFmpeg and OpenCV."""
    import soundfile

    source = material / "in.wav"
    soundfile.write(source, pattern(0, round((seconds + 40) * RATE)), RATE, subtype="PCM_24")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    here: dict[str, Any] = {"env": environment, "cwd": REPOSITORY}
    module = [sys.executable, "-m", "bench.capture_soak", "--material", str(material)]
    camera = subprocess.Popen([*module, "--serve"], stdout=subprocess.PIPE, text=True, **here)
    try:
        assert camera.stdout is not None
        url = f"http://127.0.0.1:{camera.stdout.readline().strip()}/camera.mjpg"
        rig = material / "rig.yaml"
        rig.write_text(
            f"hearth_rig: 1\nmicrophone: {{source: file, file: {json.dumps(str(source))}}}\n"
            f"camera: {{source: url, url: '{url}', width_px: {WIDTH}, height_px: {HEIGHT}, fps: {FPS}}}\n"
            f"storage: {{folder: {json.dumps(str(material / 'cost'))}, min_free_mib: 0}}\n"
        )
        record = [sys.executable, "-m", "hearth", "record", "--rig", str(rig), "--session", "cost"]
        process = subprocess.Popen(
            record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **here
        )
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("recording "):
                break
        share = _share(process, 5, seconds)
        [episode] = (material / "cost" / "cost").iterdir()
        from recordings import Episode

        video = Episode.open(episode).profile.source["video"]
        if video.get("encoder") != "copy":
            not_measured("record_mjpeg_cpu_share", "% of one core", "<=", 15, f"pictures were {video}")
        else:
            player = subprocess.Popen([*module, "--play", "--root", str(source)], **here)
            played = _share(player, 3, seconds / 2)
            note(f"hearth record: {share:.1f} % of one core, of which playing the sound file {played:.1f} %")
            figure("record_mjpeg_cpu_share", share - played, "% of one core", "<=", 15)
        if shutil.which("ffmpeg"):
            command = ["ffmpeg", "-v", "error", "-f", "mpjpeg", "-i", url, "-re", "-i", str(source)]
            command += ["-map", "0:v", "-map", "1:a", "-c", "copy", str(material / "peer.mkv")]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            peer("record_mjpeg_cpu_share_ffmpeg_copy", _share(process, 5, seconds), "% of one core")
        target = str(material / "peer.avi")
        process = subprocess.Popen([*module, "--opencv", url, "--root", target], **here)
        share = _share(process, 5, seconds)
        peer("record_mjpeg_cpu_share_opencv_pictures_only", share, "% of one core")
    finally:
        camera.terminate()
        camera.wait()


def run(quick: bool, minutes: tuple[float, float] | None = None, parts: str = "") -> None:
    """Print the figures. minutes: by the clock, of the fast and of the real-time part. parts: only one of
    "8x", "realtime", "cost"."""
    fast, real = minutes or ((1.0, 1.0) if quick else (15.0, 20.0))
    with tempfile.TemporaryDirectory(prefix="hearth-soak-") as folder:
        material = Path(folder)
        prepare(material, quality=30)
        if parts in ("", "cost"):
            cost(15 if quick else 60, material)
        if parts in ("", "8x"):
            soak("soak_8x", 8.0, fast, material)
        if parts in ("", "realtime"):
            soak("soak_realtime", 1.0, real, material)


def main() -> int:
    """Entry of python -m bench.capture_soak; the other options start its helpers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, help="length of each part by the clock")
    parser.add_argument("--part", choices=("8x", "realtime", "cost"), default="")
    for name in ("--child", "--serve", "--play"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name, kind in (("root", Path), ("material", Path), ("name", str), ("speed", float), ("opencv", str)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
    elif arguments.serve:
        serve(arguments)
    elif arguments.play:
        _play(arguments.root)
    elif arguments.opencv:
        _opencv(arguments.opencv, str(arguments.root))
    else:
        minutes = arguments.minutes
        run(quick(), None if minutes is None else (minutes, minutes), arguments.part)
        return end_of_part("capture-soak")
    return 0


if __name__ == "__main__":
    sys.exit(main())
