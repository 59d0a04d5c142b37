"""The 272-episode plan recorded by a scripted operator in the virtual rig, killed at random on the way.

python -m bench.recordings_session            272 items and 20 kills, then 272 takes in one process
                                              (QUICK=1: 12 items, 2 kills, 8 takes)

A child records (the engine of `hearth session --script auto` and its stage); this process sends it SIGKILL
at random moments and starts it again. Each item's pictures and sound carry a number that is drawn by lot: 16
black and white fields in a corner of every picture, 16 tones above the speech at the start of the sound. They
are put in where camera and microphone are, so they tell what was in front of them, whatever folders and files
are called. Afterwards the numbers are read from each episode's video.mkv and foa_24k.wav and must be those of
its plan item, as its profile and its truth must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import end_of_part, figure, note, quick
from capture.blocks import AudioBlock, Item, Sink, VideoFrame
from edge.session.engine import FIELDS, Session
from edge.session.operators import Auto, Command
from edge.session.stage import ScenePlayed, Setting, Stage
from recordings.plan.model import Plan, PlanItem
from recordings.session_journal import kept_takes, read_journal

REPOSITORY = Path(__file__).resolve().parents[1]
SESSION = "bench"
BITS = 16
FIELD_PX = 14
TONES_HZ = 8400.0 + 200.0 * np.arange(BITS)
TONE = 10 ** (-50 / 20)  # amplitude of one tone in W
TONE_S = (0.05, 0.30)  # before the slate
_LOT = 20261130


def numbers(plan: Plan) -> dict[str, int]:
    """Item -> the number that its pictures and sound carry: all different, in no order."""
    drawn = random.Random(_LOT).sample(range(1, 1 << BITS), len(plan.items))
    return dict(zip((item.id for item in plan.items), drawn, strict=True))


# ---------------------------------------------------------------- the numbers, written and read


class _Marked:
    """A source whose blocks or pictures carry a number."""

    def __init__(self, source: Any, number: int) -> None:
        self._source, self._number = source, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def start(self, sink: Sink) -> None:
        self._source.start(lambda item: sink(self._mark(item)))

    def _mark(self, item: Item) -> Item:
        if isinstance(item, VideoFrame):
            image = item.image.copy()
            draw_number(image, self._number)
            return VideoFrame(item.t_ns, item.seq, image, item.t_source, item.dropped, item.flags)
        if isinstance(item, AudioBlock) and item.first_frame < TONE_S[1] * item.rate_hz:
            samples = item.samples.copy()
            wave = tones(self._number, item.first_frame, len(samples), item.rate_hz)
            samples[:, 0] += (wave * 2.0**23).astype(np.int32) << 8
            return AudioBlock(
                item.t_ns, item.seq, item.first_frame, item.rate_hz, samples, item.t_observed_ns
            )
        return item


def draw_number(image: NDArray[np.uint8], number: int) -> None:
    """Into the lower left corner: a row of fields, and its complement below."""
    high = image.shape[0]
    for bit in range(BITS):
        value = 235 if number >> bit & 1 else 16
        columns = slice(bit * FIELD_PX, (bit + 1) * FIELD_PX)
        image[high - 2 * FIELD_PX : high - FIELD_PX, columns] = value
        image[high - FIELD_PX :, columns] = 251 - value


def read_picture(image: NDArray[np.uint8]) -> int | None:
    """The number in a picture; None when a field and its complement do not agree."""
    grey = image.mean(axis=2)
    number, high = 0, image.shape[0]
    inner = slice(3, FIELD_PX - 3)
    for bit in range(BITS):
        columns = slice(bit * FIELD_PX + 3, (bit + 1) * FIELD_PX - 3)
        upper = float(grey[high - 2 * FIELD_PX : high - FIELD_PX][inner, columns].mean())
        lower = float(grey[high - FIELD_PX :][inner, columns].mean())
        if abs(upper - lower) < 80:
            return None
        number |= (upper > lower) << bit
    return number


def tones(number: int, first: int, frames: int, rate_hz: int) -> NDArray[np.float64]:
    """(frames,) of the number's tones from a frame of the take on."""
    time_s = (first + np.arange(frames)) / rate_hz
    gate = (time_s >= TONE_S[0]) & (time_s < TONE_S[1])
    wave = np.zeros(frames)
    for bit in range(BITS):
        if number >> bit & 1:
            wave += np.sin(2 * np.pi * TONES_HZ[bit] * time_s)
    return np.asarray(TONE * wave * gate)


def read_sound(w: NDArray[np.float32], rate_hz: int) -> int:
    """The number in the sound's first channel: tones that are louder than half of what was put in."""
    begin, end = (round((at + margin) * rate_hz) for at, margin in zip(TONE_S, (0.02, -0.02), strict=True))
    piece = w[begin:end].astype(np.float64)
    window = np.hanning(len(piece))
    time_s = np.arange(begin, end) / rate_hz
    number = 0
    for bit in range(BITS):
        tone = np.abs(np.sum(piece * window * np.exp(-2j * np.pi * TONES_HZ[bit] * time_s))) * 2
        number |= (tone / window.sum() > TONE / 2) << bit
    return number


# ---------------------------------------------------------------- the child that is killed


class MarkedStage(Stage):
    """The virtual room of `hearth session`, with the item's number before its camera and microphone."""

    def __init__(self, plan: Plan, storage: Path) -> None:
        super().__init__(plan, storage)
        self._numbers = numbers(plan)

    def open_scene(self, item: PlanItem, take: int) -> Setting:
        setting = super().open_scene(item, take)
        assert isinstance(setting, ScenePlayed)
        number = self._numbers[item.id]
        opened = setting.opened
        opened.microphone = _Marked(opened.microphone, number)
        opened.camera = _Marked(opened.camera, number)
        return setting


class Watched(Auto):
    """The scripted operator; notes what the process holds after each take."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def answer(self, state: Mapping[str, Any]) -> Command | None:
        if state["phase"] == "decide":
            held = {"pid": os.getpid(), "mib": resident_mib(), "threads": threading.active_count()}
            with self._file.open("a") as file:
                file.write(json.dumps(held) + "\n")
        return super().answer(state)


def resident_mib() -> float:
    """What this process has in memory."""
    found = re.search(r"^VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else float("nan")


def child(plan_file: Path, data: Path, only: list[str] | None) -> None:
    """Record what is open; ends when everything is kept."""
    from recordings.plan.store import read_plan

    plan = read_plan(plan_file)
    session = Session(
        plan, data, SESSION, MarkedStage(plan, data),
        only=only, operator=Watched(data / "held.jsonl"), countdown_s=0,
    )  # fmt: skip
    result = session.run()
    print(json.dumps(result.to_dict()))
    sys.exit(0 if not result.open else 1)


# ---------------------------------------------------------------- the run


@dataclass
class Run:
    """What the kills hit, and how it ended."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    phases: Counter[str] = field(default_factory=Counter)  # what was going on when it was killed
    starts: int = 0
    ended_well: bool = False


def record_with_kills(plan_file: Path, data: Path, only: list[str], kills: int) -> Run:
    """Start the child again and again; kill it at random progress, and at random within the next seconds."""
    lot = random.Random(7)
    marks = sorted(lot.uniform(0, max(1, len(only) - 2)) for _ in range(kills))
    run = Run()
    began = time.monotonic()
    command = [sys.executable, "-m", "bench.recordings_session", "--child", str(plan_file), str(data)]
    while True:
        run.starts += 1
        process = subprocess.Popen(
            [*command, "--only", ",".join(only)], cwd=REPOSITORY, stdout=subprocess.DEVNULL
        )
        if not marks:
            run.ended_well = process.wait() == 0
            break
        mark = marks.pop(0)
        while process.poll() is None and _kept(data) < int(mark):
            time.sleep(0.1)
        each = max(2.0, (time.monotonic() - began) / max(1, _kept(data)))
        until = time.monotonic() + lot.uniform(0.0, 1.5 * each)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if process.poll() is not None:
            run.ended_well = process.returncode == 0
            note(f"the child ended ({process.returncode}) before {len(marks) + 1} kills were sent")
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        phase = _phase(data)
        run.phases[phase] += 1
        note(f"killed at {time.monotonic() - began:.0f} s, {_kept(data)} kept, after {phase!r}")
    run.seconds = time.monotonic() - began
    own = os.times()
    run.cpu_s = own.children_user + own.children_system
    return run


def _kept(data: Path) -> int:
    file = data / SESSION / "session.jsonl"
    return file.read_bytes().count(b'"step":"kept"') if file.is_file() else 0


def _phase(data: Path) -> str:
    lines = read_journal(data / SESSION).lines
    return str(lines[-1]["step"]) if lines else "nothing"


# ---------------------------------------------------------------- what came of it


@dataclass
class Found:
    """Counts over all episodes on disk."""

    episodes: int = 0
    kept: int = 0
    verified: int = 0
    unfinished: int = 0
    repaired: int = 0
    holes: int = 0
    pictures_read: int = 0
    other_profile: list[str] = field(default_factory=list)
    other_truth: list[str] = field(default_factory=list)
    other_picture: list[str] = field(default_factory=list)
    other_sound: list[str] = field(default_factory=list)
    kept_s: float = 0.0
    all_s: float = 0.0
    speech_off_s: list[float] = field(default_factory=list)  # of kept takes: begin and end against the truth
    sound_off_deg: list[float] = field(default_factory=list)  # the device's sound against its place


def examine(plan: Plan, data: Path, only: list[str]) -> Found:
    """Read every episode: whose is it by its profile, its truth, its pictures and its sound?"""
    from recordings.episode import Episode

    found = Found()
    folder, lot = data / SESSION, numbers(plan)
    items = {item.id: item for item in plan.items}
    kept = kept_takes(folder)
    found.kept = sum(name in kept for name in only)
    takes: dict[str, list[int]] = {}
    checks = {
        (line["episode"], check["name"]): check
        for line in read_journal(folder).lines
        if line["step"] == "checks"
        for check in line["checks"]
    }
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        name, _, take = path.name.rpartition("-t")
        takes.setdefault(name, []).append(int(take))
        found.episodes += 1
        episode = Episode.open(path)
        found.unfinished += episode.state != "finished"
        found.verified += episode.verify().ok
        found.repaired += episode.profile.interrupted
        found.all_s += episode.duration_s
        item, number = items[name], lot[name]
        if kept.get(name) == path:
            found.kept_s += episode.duration_s
            speech, device = (checks.get((path.name, one), {}) for one in ("speech", "sound of the device"))
            active = next(one["active_s"] for one in episode.truth()["sources"] if one["kind"] == "talker")
            if "begin_s" in speech:
                off = (speech["begin_s"] - active[0][0], speech["end_s"] - active[-1][1])
                found.speech_off_s.append(max(map(abs, off)))
            if "away_deg" in device:
                found.sound_off_deg.append(device["away_deg"])
        profile = episode.profile
        same = all(getattr(profile, one) == getattr(item, one) for one in FIELDS)
        if not same or (profile.plan_item, profile.take) != (name, int(take)):
            found.other_profile.append(path.name)
        truth = episode.truth()  # a take that was killed has none
        told = (item.request, item.speaker, item.target_device)
        if truth and (truth["request"], truth["speaker"], truth["target_device"]) != told:
            found.other_truth.append(path.name)
        seen = {read_picture(image) for _, image in episode.frames()}
        found.pictures_read += len(episode.frame_times())
        if seen not in ({number}, set()) or (not seen and kept.get(name) == path):
            found.other_picture.append(path.name)
        sound = episode.audio(24000)[:, 0]
        if len(sound) > TONE_S[1] * 24000 and read_sound(sound, 24000) != number:
            found.other_sound.append(path.name)
    for name in only:
        found.holes += sorted(takes.get(name, [])) != list(range(1, len(takes.get(name, [])) + 1))
        found.holes += not takes.get(name)
    return found


def some(plan: Plan) -> list[str]:
    """Twelve items: of each grounding, in different rooms, and more of those that a sound belongs to."""
    chosen: set[str] = set()
    for grounding, many in (("G0", 2), ("G1", 2), ("G2", 4), ("G3", 2), ("G4", 2)):
        fit = [item.id for item in plan.items if item.grounding == grounding and item.target_device]
        chosen |= set(fit[:: max(1, len(fit) // many)][:many])
    return [item.id for item in plan.items if item.id in chosen]


def growth(values: list[float]) -> float:
    """How much a series rises from its first third's end to its end, by a straight line."""
    rest = values[len(values) // 3 :]
    if len(rest) < 3:
        return float("nan")
    slope = np.polyfit(np.arange(len(rest)), rest, 1)[0]
    return float(slope * (len(rest) - 1))


class OneItem(Auto):
    """Takes one item again and again, then quits."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self._left = takes
        self.mib: list[float] = []
        self.threads: list[float] = []

    def answer(self, state: Mapping[str, Any]) -> Command | None:
        if state["phase"] != "decide":
            return Command("quit") if self._left == 0 else Command("go")
        self._left -= 1
        self.mib.append(resident_mib())
        self.threads.append(float(threading.active_count()))
        return Command("retake" if self._left else "quit")


def repeat(plan: Plan, item: str, takes: int) -> tuple[list[float], list[float]]:
    """MiB and threads of this process after each of many takes of one item."""
    with tempfile.TemporaryDirectory(prefix="hearth_session_") as folder:
        data, operator = Path(folder), OneItem(takes)
        options: dict[str, Any] = {"operator": operator, "countdown_s": 0, "report": False}
        Session(plan, data, SESSION, Stage(plan, data), only=[item], **options).run()
    return operator.mib, operator.threads


def run(short: bool) -> None:
    """All figures. short: 12 items, 2 kills, 8 takes of one item."""
    from recordings.plan.builtin import virtual_home
    from recordings.plan.generate import make_plan
    from recordings.plan.store import write_plan

    rooms, participants = virtual_home()
    plan = make_plan(rooms, participants, 1, name="bench")
    ids = [item.id for item in plan.items]
    only = some(plan) if short else ids
    kills, takes = (2, 8) if short else (20, 272)
    with tempfile.TemporaryDirectory(prefix="hearth_session_") as folder:
        data = Path(folder)
        write_plan(plan, data / "plan.yaml")
        done = record_with_kills(data / "plan.yaml", data, only, kills)
        found = examine(plan, data, only)
        held = [json.loads(line) for line in (data / "held.jsonl").read_text().splitlines()]
    note(f"killed after: {dict(done.phases)}; {done.starts} starts; {found.episodes} episodes on disk")
    figure("session items kept", found.kept, f"of {len(only)}", "==", len(only))
    figure("session kills survived", sum(done.phases.values()), "kills", "==", kills)
    figure("session episodes that do not verify", found.episodes - found.verified, "episodes", "==", 0)
    figure("session takes left unfinished", found.unfinished, "episodes", "==", 0)
    figure("session items with a hole in the numbers of their takes", found.holes, "items", "==", 0)
    figure("session episodes with another item's profile", len(found.other_profile), "episodes", "==", 0)
    figure("session episodes with another item's truth", len(found.other_truth), "episodes", "==", 0)
    figure("session episodes with another item's pictures", len(found.other_picture), "episodes", "==", 0)
    figure("session episodes with another item's sound", len(found.other_sound), "episodes", "==", 0)
    figure("session pictures whose number was read", found.pictures_read, "pictures", ">=", 50 * len(only))
    off_s, off_deg = (np.percentile(one or [np.nan], 95) for one in (found.speech_off_s, found.sound_off_deg))
    figure("session begin and end of speech against the truth, 95 % of kept takes", off_s, "s", "<", 0.3)
    figure("session sound of the device against its place, 95 % of kept takes", off_deg, "deg", "<", 20)
    figure("session speed, kept sound per time with all restarts", found.kept_s / done.seconds, "x", ">", 1.0)
    note(
        f"{found.kept_s:.0f} s of kept sound ({found.all_s:.0f} s in all takes) in {done.seconds:.0f} s with"
        f" {done.cpu_s:.0f} s of processor time; {found.repaired} takes were repaired"
    )
    figure("session memory of one process, most", max(one["mib"] for one in held), "MiB", "<", 1500)
    mib, threads = repeat(plan, only[0], takes)
    figure(f"session memory gained over {takes} takes in one process", growth(mib), "MiB", "<", 40)
    figure(f"session threads gained over {takes} takes in one process", growth(threads), "threads", "<", 1)


def main() -> int:
    """The figures, or (--child) the process that is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--child", nargs=2, metavar=("PLAN", "DATA"), help=argparse.SUPPRESS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.child:
        child(Path(told.child[0]), Path(told.child[1]), told.only.split(",") if told.only else None)
    run(quick())
    return end_of_part("recordings-session")


if __name__ == "__main__":
    sys.exit(main())
