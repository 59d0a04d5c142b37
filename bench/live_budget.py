"""The live path's budget: how old a direction is when a subscriber has it, and what that costs.

python -m bench.live_budget                30 minutes on all cores, then 2 on one
python -m bench.live_budget --minutes 5    shorter (QUICK=1: 40 s and 30 s)

The virtual room's talkers (rendered before) as 4 channels at 48 kHz in blocks of 10 ms, and 1280x720 JPEGs at
30 fps, both paced, through the live service with its stream; `edge.stream.meter` subscribes to everything in
a process of its own. CPU and memory are the service's process, sources included. On one core, service and
subscriber share it. Ages count from the end of the window that a direction covers (100 ms).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.capture_kill import PatternCamera, PatternMicrophone, prepare
from bench.figures import end_of_part, figure, not_measured, note, peer, quick

REPOSITORY = Path(__file__).resolve().parents[1]
RATE, BLOCK = 48000, 480
SCENE_S = 60
# ODAS, as published: hop of 128 frames at 16 kHz (Grondin and Michaud 2019, section 4); its age cannot be
# below one hop and one frame of 256.
ODAS_HOP_MS = 8.0


class TalkMicrophone(PatternMicrophone):
    """The rendered talk scene, over and over, in real time."""

    def __init__(self, samples: np.ndarray) -> None:
        super().__init__()
        self._samples = samples

    def _run(self, sink: Any) -> None:
        from capture.blocks import AudioBlock
        from capture.pacing import wait_until

        begin, seq, blocks = int(self.start_ns or 0), 0, len(self._samples) // BLOCK
        while wait_until(begin + (seq + 1) * 10_000_000, self._stop):
            t_ns, at = begin + seq * 10_000_000, (seq % blocks) * BLOCK
            sink(AudioBlock(t_ns, seq, seq * BLOCK, RATE, self._samples[at : at + BLOCK], t_observed_ns=t_ns))
            seq += 1


def render(folder: Path) -> None:
    """talk.npy: a minute of the virtual room's talk scene, int32 (frames, 4)."""
    from capture.blocks import AudioBlock
    from capture.rig import parse_rig
    from capture.sources import open_rig

    text = "hearth_rig: 1\nmicrophone: {pace: fast}\ncamera: {source: none}\nvirtual: {scene: talk}\n"
    blocks: list[Any] = []
    full = threading.Event()

    def keep(item: Any) -> None:
        if isinstance(item, AudioBlock) and not full.is_set():
            blocks.append(item.samples)
            if len(blocks) * len(item.samples) >= SCENE_S * RATE:
                full.set()

    with open_rig(parse_rig(text)) as opened:
        opened.start(keep)
        full.wait(300)
        opened.stop()
    np.save(folder / "talk.npy", np.concatenate(blocks)[: SCENE_S * RATE])


def child(material: Path, seconds: float) -> None:
    """The service for so long; prints one JSON object."""
    from capture.rig import parse_rig
    from capture.sources import OpenedRig
    from edge.live import LiveService
    from edge.live_session import run

    rig = parse_rig(
        "hearth_rig: 1\nendpoints: {stream: 'tcp://127.0.0.1:0', commands: 'tcp://127.0.0.1:0'}\n"
        f"storage: {{folder: {json.dumps(str(material))}, min_free_mib: 0}}\n"
    )
    microphone = TalkMicrophone(np.load(material / "talk.npy"))
    camera = PatternCamera(material, True)
    opened = OpenedRig(rig, microphone, camera, None, microphone.open(), camera.open())
    service = LiveService(rig, opened)
    spent: dict[str, float] = {}

    def watch() -> None:
        """CPU of the audio worker's thread, from when it is warm."""
        time.sleep(min(10.0, seconds / 4))
        thread = next(t for t in threading.enumerate() if t.name == "live audio")
        clock = time.pthread_getcpuclockid(thread.ident or 0)
        begin = time.monotonic(), time.clock_gettime(clock), time.process_time()
        time.sleep(seconds / 2)
        wall = time.monotonic() - begin[0]
        spent["audio"] = 100 * (time.clock_gettime(clock) - begin[1]) / wall
        spent["all"] = 100 * (time.process_time() - begin[2]) / wall

    threading.Thread(target=watch, daemon=True).start()
    report = run(service, seconds, measured=True)
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    print(json.dumps({**report, "spent": spent, "rss_mib": rss}), flush=True)


def measure(name: str, material: Path, seconds: float, cores: set[int] | None = None) -> dict[str, Any]:
    """Run the child; {} when it failed."""
    command = [
        sys.executable,
        "-m",
        "bench.live_budget",
        "--child",
        str(seconds),
        "--material",
        str(material),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
    )
    if done.returncode or not done.stdout.strip():
        note(f"{name}: the service ended with {done.returncode}")
        return {}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def lost(said: dict[str, Any]) -> int:
    """Messages of streams whose messages all count that the subscriber did not get, in order, once."""
    rows = said["subscriber"]["streams"]
    return sum(
        row["lost"] + row["reordered"] + row["repeated"] for name, row in rows.items() if name != "video"
    )


def whole_path(material: Path, seconds: float) -> None:
    """Ages, loss, CPU, memory with video, on all cores."""
    said = measure("budget", material, seconds)
    if not said:
        not_measured("doa_age_p50", "ms", "<=", 40, "the service failed")
        return
    latency, service = said["subscriber"]["doa_latency"], said["service"]
    figure("live_minutes", service["seconds"] / 60, "min", ">=", 0.98 * seconds / 60)
    figure("doa_age_p50", latency["since_window_end_p50_ms"], "ms after the window", "<=", 40)
    figure("doa_age_p99", latency["since_window_end_p99_ms"], "ms after the window", "<=", 80)
    note(f"a direction covers {latency['window_ms']} ms")
    peer("odas_hop", ODAS_HOP_MS, "ms (published: a direction per hop of 128 frames at 16 kHz)")
    figure("messages_lost", lost(said), "messages", "==", 0)
    figure("blocks_dropped", service["blocks_dropped"] + service["gaps"], "blocks", "==", 0)
    figure("pictures_dropped", service["pictures_dropped"], "pictures", "==", 0)
    figure("audio_chain_cpu", said["spent"]["audio"], "% of one core", "<=", 10)
    figure("live_path_cpu", said["spent"]["all"], "% of one core", "<=", 60)
    figure("rss", said["rss_mib"], "MiB", "<=", 400)


def one_core(material: Path, seconds: float) -> None:
    """Service and subscriber on one core: no sound may be lost."""
    core = {min(os.sched_getaffinity(0))}
    said = measure("one core", material, seconds, core)
    if not said:
        not_measured("one_core_audio_lost", "messages", "==", 0, "the service failed")
        return
    rows = said["subscriber"]["streams"]
    sound = sum(rows[name]["lost"] for name in ("foa24", "doa", "tracks", "levels", "activity"))
    dropped = said["service"]["blocks_dropped"] + said["service"]["gaps"]
    figure("one_core_audio_lost", sound + dropped, "messages and blocks", "==", 0)
    note(f"one core: directions {said['subscriber']['doa_latency']['since_window_end_p99_ms']} ms old (p99)")


def start_up(material: Path) -> None:
    """From `hearth live` to the first message of sound at a subscriber, kernels compiled before."""
    import soundfile

    from edge.stream import Client

    samples = np.load(material / "talk.npy")
    soundfile.write(material / "talk.wav", samples, RATE, subtype="PCM_24")
    rig = material / "rig.yaml"
    ports = {"stream": _free_port(), "commands": _free_port()}
    rig.write_text(
        f"hearth_rig: 1\nmicrophone: {{source: file, file: {json.dumps(str(material / 'talk.wav'))}}}\n"
        "camera: {source: none}\n"
        f"storage: {{folder: {json.dumps(str(material))}, min_free_mib: 0}}\n"
        "endpoints: "
        + json.dumps({name: f"tcp://127.0.0.1:{port}" for name, port in ports.items()}).replace('"', "'")
        + "\n"
    )
    times = []
    for _ in range(2 if quick() else 5):
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "hearth", "live", "--rig", str(rig)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with Client(f"tcp://127.0.0.1:{ports['stream']}", streams=["foa24"]) as client:
                next(iter(client.messages(timeout_s=60)))
                times.append(time.monotonic() - began)
        finally:
            process.terminate()
            process.wait(30)
    note("start to first message: " + ", ".join(f"{t:.2f} s" for t in times))
    figure("start_to_first_message", float(np.median(times[1:])), "s, warm", "<=", 3)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(quick: bool, minutes: float | None = None) -> None:
    """Print the figures. minutes: of the long run."""
    with tempfile.TemporaryDirectory(prefix="hearth-budget-") as folder:
        material = Path(folder)
        prepare(material, quality=30)
        render(material)
        start_up(material)
        whole_path(material, 40.0 if quick else 60 * (minutes or 30))
        one_core(material, 30.0 if quick else 120.0)


def main() -> int:
    """Entry of python -m bench.live_budget."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, help="length of the long run")
    parser.add_argument("--child", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--material", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.material, arguments.child)
        return 0
    run(quick(), arguments.minutes)
    return end_of_part("live-budget")


if __name__ == "__main__":
    sys.exit(main())
