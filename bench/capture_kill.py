"""SIGKILL at random instants of a recording of 4 channels and 1280x720 at 30 pictures a second.

python -m bench.capture_kill            100 kills, 12 losses of power, about 15 minutes (QUICK=1: 8 and 2)

The recording is capture.take.record, fed in real time by two sources whose content says when it was: each
sample is a function of its number, each picture carries its number in black and white fields. So what is
lost, and whether sound and pictures still belong together, is read from the repaired files themselves,
without trusting any stamp. Half of the takes encode the pictures, half keep a camera's JPEGs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import end_of_part, figure, not_measured, note, quick

REPOSITORY = Path(__file__).resolve().parents[1]
RATE, CHANNELS, FPS, WIDTH, HEIGHT = 48000, 4, 30, 1280, 720
_FIELD = 40  # pixels of one black or white field
_BITS = 10
_PICTURES = 1 << _BITS  # numbers repeat after 34 s: longer than any take here
_BACKGROUNDS = 12


# ---------------------------------------------------------------- content that says when it was


def pattern(first: int, frames: int) -> NDArray[np.int32]:
    """(frames, 4) int32 left-justified 24-bit samples; each is a function of its number alone."""
    n = np.arange(first, first + frames, dtype=np.uint64)[:, None]
    mixed = (n + 1) * np.array([2654435761, 2246822519, 3266489917, 668265263], np.uint64)
    return ((mixed >> np.uint64(7)).astype(np.uint32) << np.uint32(8)).view(np.int32)


def backgrounds() -> NDArray[np.uint8]:
    """(n, HEIGHT, WIDTH, 3) pictures of a fixed scene with detail, fresh sensor noise in each, and something
    that moves through it: what a camera on a tripod sees."""
    import cv2

    rng = np.random.default_rng(3)
    scene = cv2.resize(rng.integers(0, 255, (90, 160, 3), np.uint8), (WIDTH, HEIGHT)).astype(np.float32)
    person = cv2.resize(rng.integers(0, 255, (40, 20, 3), np.uint8), (160, 400)).astype(np.float32)
    made = []
    for place in range(_BACKGROUNDS):
        picture = scene.copy()
        left = 400 + 12 * abs(place - _BACKGROUNDS // 2)
        picture[250:650, left : left + 160] = person
        picture += rng.normal(0, 2.0, picture.shape)
        made.append(np.clip(picture, 0, 255).astype(np.uint8))
    return np.stack(made)


def draw_number(image: NDArray[np.uint8], number: int) -> None:
    """Write the number into the upper left corner: a row of fields, and its complement below."""
    for bit in range(_BITS):
        value = 235 if number >> bit & 1 else 16
        columns = slice(bit * _FIELD, (bit + 1) * _FIELD)
        image[:_FIELD, columns] = value
        image[_FIELD : 2 * _FIELD, columns] = 251 - value


def read_number(grey: NDArray[np.uint8]) -> int | None:
    """The number in a (HEIGHT, WIDTH) picture; None when a field and its complement do not agree."""
    number = 0
    for bit in range(_BITS):
        columns = slice(bit * _FIELD + 8, (bit + 1) * _FIELD - 8)
        above = float(grey[8 : _FIELD - 8, columns].mean())
        below = float(grey[_FIELD + 8 : 2 * _FIELD - 8, columns].mean())
        if abs(above - below) < 100:
            return None
        number |= int(above > below) << bit
    return number


# ---------------------------------------------------------------- the process that is killed


class PatternMicrophone:
    """`pattern` in real time, in blocks of 10 ms, as an AudioSource."""

    def __init__(self, speed: float = 1.0) -> None:
        self.start_ns: int | None = None
        self._stop, self._speed = threading.Event(), speed
        self._thread: threading.Thread | None = None

    def open(self) -> Any:
        from capture.blocks import AudioInfo

        return AudioInfo("pattern", "bench", RATE, CHANNELS, "ambix", 24, RATE // 100)

    def start(self, sink: Any) -> None:
        self._thread = threading.Thread(target=self._run, args=(sink,), daemon=True)
        self._thread.start()

    def _run(self, sink: Any) -> None:
        from capture.blocks import AudioBlock
        from capture.pacing import wait_until

        begin, size, seq = int(self.start_ns or 0), RATE // 100, 0
        while True:
            t_ns = begin + seq * 10_000_000
            if not wait_until(begin + round((seq + 1) * 10_000_000 / self._speed), self._stop):
                return
            sink(AudioBlock(t_ns, seq, seq * size, RATE, pattern(seq * size, size), t_observed_ns=t_ns))
            seq += 1

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    close = stop


class PatternCamera(PatternMicrophone):
    """Numbered pictures in real time, as pixels or as JPEGs, as a VideoSource."""

    def __init__(self, material: Path, jpeg: bool, speed: float = 1.0) -> None:
        super().__init__(speed)
        self._jpegs: list[bytes] = []
        if jpeg:
            data = (material / "jpegs.bin").read_bytes()
            ends = json.loads((material / "ends.json").read_text())
            self._jpegs = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        else:
            self._backgrounds = np.load(material / "backgrounds.npy")

    def open(self) -> Any:
        from capture.blocks import VideoInfo

        return VideoInfo("pattern", "bench", WIDTH, HEIGHT, float(FPS), "MJPG" if self._jpegs else "")

    def _run(self, sink: Any) -> None:
        from capture.blocks import VideoFrame
        from capture.pacing import wait_until

        begin, seq = int(self.start_ns or 0), 0
        while True:
            t_ns = begin + seq * 1_000_000_000 // FPS
            if not wait_until(begin + round(seq * 1e9 / FPS / self._speed), self._stop):
                return
            if self._jpegs:
                jpeg = self._jpegs[seq % len(self._jpegs)]
                sink(VideoFrame(t_ns, seq, t_source="driver", jpeg=jpeg, size=(WIDTH, HEIGHT)))
            else:
                image = self._backgrounds[seq % _BACKGROUNDS].copy()
                draw_number(image, seq % _PICTURES)
                sink(VideoFrame(t_ns, seq, image, "driver"))
            seq += 1


def prepare(material: Path, pictures: int = 300, quality: int = 80) -> None:
    """Backgrounds and numbered JPEGs, made once: making them must not compete with the recording."""
    import cv2

    scene = backgrounds()
    np.save(material / "backgrounds.npy", scene)
    ends, parts, total = [], [], 0
    for number in range(pictures):
        image = scene[number % _BACKGROUNDS].copy()
        draw_number(image, number)
        parts.append(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes())
        total += len(parts[-1])
        ends.append(total)
    (material / "jpegs.bin").write_bytes(b"".join(parts))
    (material / "ends.json").write_text(json.dumps(ends))
    note(f"pictures: {total / pictures / 1e3:.0f} kB each as JPEG")


def child(arguments: argparse.Namespace) -> None:
    """Record until the kill; says the session's start time when the sources run."""
    from capture.rig import parse_rig
    from capture.sources import OpenedRig
    from capture.take import new_profile, record

    text = f"hearth_rig: 1\nstorage: {{folder: {json.dumps(str(arguments.root))}, min_free_mib: 0"
    rig = parse_rig(text + f", segment_mib: {arguments.segment_mib}}}\n")
    microphone = PatternMicrophone()
    camera = PatternCamera(arguments.material, arguments.jpeg)
    opened = OpenedRig(rig, microphone, camera, None, microphone.open(), camera.open())
    profile = new_profile(rig, opened, "kill", id=arguments.name)

    def started(_: Any) -> None:
        print(microphone.start_ns, flush=True)

    record(rig, opened, profile, seconds=arguments.seconds, on_start=started, handle_sigint=True)


# ---------------------------------------------------------------- kills


@dataclass
class Outcome:
    """What one kill cost and whether the take came back."""

    repaired: bool = False
    opens: bool = False
    untouched: bool = False
    truthful: bool = False
    sound_lost_s: float = np.inf
    pictures_lost_s: float = np.inf
    apart_s: float = np.inf  # sound against pictures at the cut, by content
    ends_apart_s: float = np.inf
    faults: list[str] = field(default_factory=list)


def start_child(root: Path, material: Path, name: str, jpeg: bool, segment_mib: int) -> Any:
    """The recording process, and the CLOCK_MONOTONIC ns at which its sound began."""
    command = [sys.executable, "-m", "bench.capture_kill", "--child", "--root", str(root)]
    command += ["--material", str(material), "--name", name, "--segment-mib", str(segment_mib)]
    command += ["--jpeg"] if jpeg else []
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        process.wait()
        raise RuntimeError(f"the recording process ended with {process.returncode} before it recorded")
    return process, int(line)


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of an episode, but for the mark, whose purpose is to change."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "RECORDING.json"
    }


def one_kill(root: Path, material: Path, name: str, after_s: float, jpeg: bool, segment_mib: int) -> Outcome:
    """Record, kill after `after_s` of sound, repair by the command line, look at what is there."""
    process, start_ns = start_child(root, material, name, jpeg, segment_mib)
    due = start_ns + round(after_s * 1e9)
    time.sleep(max(0.0, (due - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / 1e9))
    process.send_signal(signal.SIGKILL)
    killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    process.wait()
    return _repaired(root / "kill" / name, start_ns, killed_ns)


def one_power_loss(disk: Any, material: Path, name: str, after_s: float, jpeg: bool) -> Outcome:
    """The same on a file system that drops all that was not synced: the machine is gone with the process."""
    process, start_ns = start_child(disk.path / "data", material, name, jpeg, 1900)
    due = start_ns + round(after_s * 1e9)
    time.sleep(max(0.0, (due - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / 1e9))
    disk.lose_power()
    lost_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    process.send_signal(signal.SIGKILL)
    process.wait()
    disk.pull_out()
    disk.plug_in()
    episode = disk.path / "data" / "kill" / name
    mark = episode / "RECORDING.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "boot_id": "the one before"}))
    return _repaired(episode, start_ns, lost_ns)


def _repaired(episode: Path, start_ns: int, killed_ns: int) -> Outcome:
    before = hashes(episode)
    done = subprocess.run(
        [sys.executable, "-m", "hearth", "repair", str(episode), "--no-report", "--json"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    outcome = Outcome()
    try:
        said = json.loads(done.stdout)
    except ValueError:
        outcome.faults.append(f"repair said nothing: {done.stderr[-300:]}")
        return outcome
    outcome.repaired = done.returncode == 0 and said["ok"]
    outcome.faults += said["results"][0]["problems"]
    outcome.untouched = _untouched(episode, before, outcome.faults)
    try:
        _look(episode, start_ns, killed_ns, outcome)
    except Exception as error:
        outcome.faults.append(f"{type(error).__name__}: {error}")
    # Exit code 0 must mean that everything is there and opens; anything else that it says so.
    outcome.truthful = (done.returncode == 0) == (said["ok"] and outcome.opens and not outcome.faults)
    return outcome


def _untouched(episode: Path, before: dict[str, str], faults: list[str]) -> bool:
    """Each file of the killed take is as it was, in its place or in before_repair/."""
    for name, digest in before.items():
        places = [episode / name, episode / "before_repair" / name]
        places += [episode / "before_repair" / "unreadable" / name]
        found = [hashlib.sha256(p.read_bytes()).hexdigest() for p in places if p.is_file()]
        if digest not in found and name != "episode.yaml":  # its only change is `interrupted: true`
            faults.append(f"{name}: the original is gone")
            return False
    return True


def _look(episode: Path, start_ns: int, killed_ns: int, outcome: Outcome) -> None:
    """Read sound with libsndfile and pictures with FFmpeg, and tell the time from their content."""
    import av
    import soundfile

    from recordings import Episode

    opened = Episode.open(episode)
    stretches = [soundfile.read(p, dtype="int32", always_2d=True)[0] for p in opened.audio_paths]
    sound = np.concatenate(stretches)
    if not np.array_equal(sound, pattern(0, len(sound))):
        outcome.faults.append("a sample is not the one that was recorded")
    if not (episode / "video.mkv").is_file():  # killed before a picture was on the disk: all are lost
        outcome.opens = len(sound) > 0
        outcome.sound_lost_s = (killed_ns - start_ns) / 1e9 - len(sound) / RATE
        outcome.pictures_lost_s = (killed_ns - start_ns) / 1e9
        return
    numbers, stamps = [], []
    with av.open(str(episode / "video.mkv")) as container:
        for frame in container.decode(video=0):
            numbers.append(read_number(frame.to_ndarray(format="gray")))
            stamps.append(round(float(frame.pts * frame.time_base) * 1e9))
    if None in numbers or numbers != list(range(len(numbers))):
        outcome.faults.append("the pictures are not those that were recorded, in order")
        return
    times = opened.frame_times()
    if len(times) != len(numbers):
        outcome.faults.append(f"{len(times)} stamps for {len(numbers)} pictures")
    outcome.opens = len(sound) > 0 and len(numbers) > 0
    sound_end, last = start_ns + len(sound) * 1e9 / RATE, len(numbers) - 1
    picture_ns = start_ns + last * 1e9 / FPS
    outcome.sound_lost_s = (killed_ns - sound_end) / 1e9
    outcome.pictures_lost_s = (killed_ns - picture_ns) / 1e9
    outcome.ends_apart_s = abs(sound_end - picture_ns) / 1e9
    # What the repaired episode says of the moments of its last sample and its last picture, and what the
    # file alone says, against when they were.
    sound_off = float(opened.audio_map.time_ns(len(sound) - 1)) - (start_ns + (len(sound) - 1) * 1e9 / RATE)
    by_stamp = float(times[-1]) - picture_ns
    by_file = float(times[0]) + stamps[-1] - stamps[0] - picture_ns
    outcome.apart_s = max(abs(by_stamp - sound_off), abs(by_file - sound_off)) / 1e9


def run(quick: bool, count: int | None = None) -> None:
    """Print the figures. count: of kills, instead of 8 or 100."""
    count = count or (8 if quick else 100)
    generator = random.Random(time.time_ns())
    outcomes: dict[str, list[Outcome]] = {"encoded": [], "jpeg": []}
    with tempfile.TemporaryDirectory(prefix="hearth-kill-") as folder:
        material = Path(folder)
        prepare(material)
        for number in range(count):
            kind = "jpeg" if number % 2 else "encoded"
            after_s = generator.uniform(0.5, 6.0)
            # Every fourth rolls to a new file each 1.8 s, so that kills fall around that too.
            segment = 1 if number % 4 >= 2 else 1900
            name = f"take-{number:03d}"
            outcome = one_kill(material / "data", material, name, after_s, kind == "jpeg", segment)
            outcomes[kind].append(outcome)
            note(
                f"kill {number + 1} after {after_s:.2f} s ({kind}): lost {outcome.sound_lost_s:.3f} s of"
                f" sound, {outcome.pictures_lost_s:.3f} s of pictures, apart {1e3 * outcome.apart_s:.2f} ms"
                + (f"; {'; '.join(outcome.faults)}" if outcome.faults else "")
            )
            subprocess.run(["rm", "-rf", str(material / "data" / "kill" / name)], check=False)
        _power_losses(material, 2 if quick else 12, generator)
    every = outcomes["encoded"] + outcomes["jpeg"]

    def share(name: str, good: list[bool]) -> None:
        figure(name, float(np.mean(good)), f"of {len(good)} kills", "==", 1.0)

    share("kill_repaired_share", [o.repaired for o in every])
    share("kill_opens_in_ffmpeg_and_libsndfile_share", [o.opens for o in every])
    share("kill_originals_untouched_share", [o.untouched for o in every])
    share("kill_exit_code_true_share", [o.truthful for o in every])
    figure("kill_sound_lost_worst", max(o.sound_lost_s for o in every), "s", "<=", 0.5)
    for kind, some in outcomes.items():
        figure(f"kill_pictures_lost_worst_{kind}", max(o.pictures_lost_s for o in some), "s", "<=", 0.5)
    figure("kill_av_apart_at_the_cut_worst", 1e3 * max(o.apart_s for o in every), "ms", "<=", 1e3 / FPS)
    note(f"worst distance of the two ends: {max(o.ends_apart_s for o in every):.3f} s")


def _power_losses(material: Path, count: int, generator: random.Random) -> None:
    """Figures over `count` losses of power, on an ext4 file system in a file."""
    from importlib import import_module

    import pytest

    sys.path.insert(0, str(REPOSITORY / "tests" / "real"))
    ext4 = import_module("small_disks").ext4

    names = ("power_loss_sound_lost_worst", "power_loss_pictures_lost_worst")
    outcomes = []
    try:
        for number in range(count):
            folder = material / f"power{number}"
            folder.mkdir()
            with ext4(folder, 300) as disk:
                after_s = generator.uniform(1.0, 5.0)
                outcome = one_power_loss(disk, material, f"power-{number}", after_s, bool(number % 2))
            outcomes.append(outcome)
            note(
                f"power loss {number + 1} after {after_s:.2f} s: lost {outcome.sound_lost_s:.3f} s of sound,"
                f" {outcome.pictures_lost_s:.3f} s of pictures"
                + (f"; {'; '.join(outcome.faults)}" if outcome.faults else "")
            )
            (folder / "disk.img").unlink()
    except pytest.skip.Exception as why:
        for name in names:
            not_measured(name, "s", "<=", 0.5, str(why))
        return
    good = [o.repaired and o.opens and not o.faults for o in outcomes]
    figure("power_loss_repaired_share", float(np.mean(good)), f"of {count} losses of power", "==", 1.0)
    figure(names[0], max(o.sound_lost_s for o in outcomes), "s", "<=", 0.5)
    figure(names[1], max(o.pictures_lost_s for o in outcomes), "s", "<=", 0.5)


def main() -> int:
    """Entry of python -m bench.capture_kill; with --child the process that is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--material", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--jpeg", action="store_true")
    parser.add_argument("--segment-mib", type=int, default=1900)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--count", type=int, help="kills, instead of 100 (8 with QUICK=1)")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return 0
    run(quick(), arguments.count)
    return end_of_part("capture-kill")


if __name__ == "__main__":
    sys.exit(main())
