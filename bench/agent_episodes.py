"""What an agent may perceive of the episodes of a plan, rendered once and kept.

`python -m bench.agent_episodes FOLDER SEED... [--voices NAME]`

`make_plan` gives 340 episodes per seed: all 17 combinations of grounding and query, feasible and not. Each is
acted in the virtual room and written to `FOLDER/seed_<n>/<episode>/`:

    sound.flac     AmbiX at 24 kHz, 24 bit, as the live chain gives it (resampled from 48 kHz)
    picture_<ms>.jpg   the camera at 5 pictures a second, ms of the recording
    home.json      what `home.describe` answers at the start

The truths stay beside them, in `FOLDER/seed_<n>/plan.yaml`, which no agent is given. The household's
enrolment (`FOLDER/household/`, see `bench.agent_household`) is recorded in scenes of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dsp.errors import DeviceError, InputError
from edge.agent.world import decoded
from edge.perception.room_map import RoomMap
from edge.perception.tools import BEFORE_S, Picture, Scene
from edge.perception.utterance import RATE_HZ, utterances_in
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.plan.model import Plan, PlanItem
from recordings.plan.store import plan_from_yaml, plan_to_yaml

PER_CELL = 10
PICTURES_PER_S = 5
JPEG_QUALITY = 92
START_NS = 1_000_000_000_000  # of every recording, on a clock that agents are given


@dataclass(frozen=True)
class Bundle:
    """foa: (frames, 4) AmbiX at 24 kHz, first sample at START_NS. pictures: (t_ns, JPEG). home: what
    `home.describe` answers."""

    foa: NDArray[np.float32]
    pictures: tuple[tuple[int, bytes], ...]
    home: dict[str, Any]

    def scene(self, before_s: float = BEFORE_S) -> Scene | None:
        """The request as an agent sees it: the longest utterance with the pictures from `before_s` before it
        until its end. None when nobody is heard to speak."""
        heard = utterances_in(self.foa, times_ns)
        if not heard:
            return None
        utterance = max(heard, key=lambda one: one.duration_s)
        begin = utterance.t_ns - round(before_s * 1e9)
        inside = [Picture(t, _image(jpeg)) for t, jpeg in self.pictures if begin <= t <= utterance.ended_ns]
        return Scene(utterance, tuple(inside), RoomMap(self.home))


def times_ns(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times of frames of a bundle's sound."""
    return START_NS + np.round(frames * 1e9 / RATE_HZ).astype(np.int64)


def _image(jpeg: bytes) -> NDArray[np.uint8]:
    image = decoded(jpeg)
    assert image is not None, "the bundle's own picture"
    return image


def seed_plan(seed: int, voices: str | None = None, per_cell: int = PER_CELL) -> Plan:
    """The plan of a seed. voices: another set of voices, "<voices>_1" to "<voices>_5" for the five people."""
    rooms, people = virtual_home()
    if voices is not None:
        people = tuple(replace(p, voice=f"{voices}_{n}") for n, p in enumerate(people, 1))
    return make_plan(rooms, people, seed, name=f"seed_{seed}", per_cell=per_cell)


@lru_cache(maxsize=4)
def read_plan(folder: Path) -> Plan:
    """The truths of a folder of episodes."""
    return plan_from_yaml((folder / "plan.yaml").read_text(encoding="utf-8"), str(folder / "plan.yaml"))


def read_bundle(folder: Path) -> Bundle:
    """What was rendered of one episode; folder: `seed_<n>/<episode>`."""
    import soundfile

    foa, _ = soundfile.read(folder / "sound.flac", dtype="float32", always_2d=True)
    pictures = []
    for file in sorted(folder.glob("picture_*.jpg")):
        at_ms = int(file.stem.removeprefix("picture_"))
        pictures.append((START_NS + at_ms * 1_000_000, file.read_bytes()))
    home = json.loads((folder / "home.json").read_text(encoding="utf-8"))
    return Bundle(foa, tuple(pictures), home)


def record(item: PlanItem, plan: Plan, folder: Path) -> None:
    """Act one episode and write what can be perceived of it. A folder that is there already is kept."""
    import soundfile

    from capture.sources import open_rig
    from capture.virtual.staged import staged_request, staged_rig

    if (folder / "home.json").exists():
        return
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    making.mkdir(parents=True)
    rig = staged_rig(item, plan, storage=str(making))
    with open_rig(rig, staged=staged_request(item, plan)) as opened:
        assert opened.scene is not None
        foa = heard(opened)
        soundfile.write(making / "sound.flac", foa, RATE_HZ, subtype="PCM_24")
        for at_ms, jpeg in seen(opened.scene):
            (making / f"picture_{at_ms:05d}.jpg").write_bytes(jpeg)
    described = json.dumps(described_home(item, plan), indent=1)
    (making / "home.json").write_text(described, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    making.rename(folder)


def heard(opened: Any) -> NDArray[np.float32]:
    """(frames, 4) AmbiX at 24 kHz of a virtual microphone from its start to its end."""
    import dsp
    from capture.blocks import AudioBlock, SourceEvent

    blocks: list[NDArray[np.int32]] = []
    over = threading.Event()

    def sink(block: Any) -> None:
        if isinstance(block, AudioBlock):
            blocks.append(block.samples.copy())
        elif isinstance(block, SourceEvent) and block.kind == "ended":
            over.set()

    opened.microphone.start(sink)
    if not over.wait(120.0):
        raise DeviceError("the virtual microphone did not come to its end within two minutes")
    opened.microphone.stop()
    samples = np.concatenate(blocks).astype(np.float64) / 2**31
    return np.clip(dsp.resample(samples.astype(np.float32), 48000, RATE_HZ), -1, 1)


def seen(scene: Any) -> Iterable[tuple[int, bytes]]:
    """(milliseconds, JPEG) of a virtual scene."""
    import cv2

    painter = scene.painter()
    for number in range(int(scene.truth.duration_s * PICTURES_PER_S)):
        image = painter.draw(scene.snapshot(number / PICTURES_PER_S))
        done, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        assert done
        yield round(number * 1000 / PICTURES_PER_S), jpeg.tobytes()


def described_home(item: PlanItem, plan: Plan) -> dict[str, Any]:
    """What `home.describe` answers at the start of an episode."""
    from capture.virtual.staged import staged_rig
    from edge.home.describe import room_map
    from edge.home.loading import simulation_of_home

    simulation = simulation_of_home(item.home).simulation
    rig = staged_rig(item, plan, storage=".")
    home = item.home
    return room_map(rig, simulation.home, household=home.household, rooms=home.rooms, time=simulation.time)


def prepare(
    folder: Path, seed: int, voices: str | None = None, episodes: Sequence[str] = (), processes: int = 2
) -> Path:
    """Render a seed (or some of its episodes) into `folder`; what is there is kept. Returns its folder."""
    root = folder / (f"seed_{seed}" if voices is None else f"seed_{seed}_{voices}")
    plan = seed_plan(seed, voices)
    text = plan_to_yaml(plan)
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "plan.yaml").exists():
        (root / "plan.yaml").write_text(text, encoding="utf-8")
    elif (root / "plan.yaml").read_text(encoding="utf-8") != text:
        raise InputError(f"{root} was rendered from another plan of seed {seed}; delete it to render it anew")
    items = [item for item in plan.items if not episodes or item.id in episodes]
    if processes == 1:
        for item in items:
            record(item, plan, root / item.id)
        return root
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(record, item, plan, root / item.id) for item in items]:
            done.result()
    return root


def main() -> int:
    """Render the seeds that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_episodes")
    parser.add_argument("folder", type=Path)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--voices")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    for seed in given.seeds:
        print(prepare(given.folder, seed, given.voices, processes=given.processes), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
