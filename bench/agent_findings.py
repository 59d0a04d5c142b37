"""What the perception tools find in rendered episodes, all of them once, kept for training and for finding
what fails: `python -m bench.agent_findings FOLDER SEED... [--voices NAME]`.

Nothing here goes to an agent that is scored; that one calls its tools itself (`bench.agent`).
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.agent_episodes import described_home, prepare, read_bundle, read_plan
from bench.agent_household import household_book
from edge.agent.home_view import HomeView
from edge.home.loading import simulation_of_home
from edge.language import HomeWords, Intent, understand_speech
from edge.perception.profiles import ProfileBook
from edge.perception.room_map import RoomMap
from edge.perception.tools import Finding
from recordings.plan.model import Plan, PlanItem


@dataclass(frozen=True)
class Case:
    """An episode as its tools found it. intent: of what was recognised; None: not understood, or nobody was
    heard to speak. said: what the recogniser wrote."""

    item: PlanItem
    intent: Intent | None
    said: str
    findings: Mapping[str, Finding[Any]]
    home: HomeView


_KEPT: dict[str, Any] = {}


def find(root: Path, name: str, profiles: Path) -> None:
    """Search one episode, in a worker process, and keep (recognition, findings) in `findings/`. What is
    there already is kept."""
    kept = root / "findings" / name
    if kept.exists():
        return
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(pickle.dumps(_found(root, name, profiles)))


def _found(root: Path, name: str, profiles: Path) -> tuple[Any, dict[str, Any]]:
    from edge.agent.runtime import perception_tools
    from edge.perception.speech import load_recogniser

    if not _KEPT:
        book = ProfileBook.open(profiles, virtual=True)
        _KEPT.update(perception_tools(load_recogniser("whisper"), book))
    scene = read_bundle(root / name).scene()
    if scene is None:
        return None, {}
    tools = dict(_KEPT)
    said = tools.pop("speech")(scene).value
    # The speaker first: what all tools that look share is in its time.
    found = {key: tools[key](scene) for key in sorted(tools, key=lambda key: key != "speaker")}
    speaker = found["speaker"]
    if speaker.value is not None:  # without the pictures
        where = SimpleNamespace(
            position_m=speaker.value.position_m, sigma_m=speaker.value.sigma_m, share=speaker.value.share
        )
        found["speaker"] = replace(speaker, value=where)
    return said, found


def cases_of(root: Path) -> list[Case]:
    """The cases of a seed that was searched by `main`."""
    plan = read_plan(root)
    kept = {file.name: pickle.loads(file.read_bytes()) for file in (root / "findings").iterdir()}
    return [_case(item, plan, *kept[item.id]) for item in plan.items if item.id in kept]


def _case(item: PlanItem, plan: Plan, said: Any, findings: Mapping[str, Finding[Any]]) -> Case:
    simulation = simulation_of_home(item.home).simulation
    room = RoomMap(described_home(item, plan))
    rooms = simulation.rooms().items()
    air = {name: {str(key): value for key, value in values.items()} for name, values in rooms}
    home = HomeView(room, air)
    intent = None if said is None else understand_speech(said, HomeWords.of(room))
    return Case(item, intent, "" if said is None else said.text, findings, home)


def main() -> int:
    """Render and search the seeds that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_findings")
    parser.add_argument("folder", type=Path)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--voices")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    profiles = household_book(given.folder, given.voices)
    for seed in given.seeds:
        root = prepare(given.folder, seed, given.voices, processes=given.processes)
        names = [item.id for item in read_plan(root).items]
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            for done in [pool.submit(find, root, name, profiles) for name in names]:
                done.result()
        print(root, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
