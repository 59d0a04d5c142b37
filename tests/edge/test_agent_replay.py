"""Traces read again: what an agent did to a home is done to the same home once more, and scored."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from bench.agent_oracle import profile_of
from bench.agent_server import with_ends
from capture.virtual.staged import staged_rig
from dsp.errors import InputError
from edge.agent import RequestLoop, Trace
from edge.agent.memory import GenericOrder
from edge.agent.planned import PlannedPolicy
from edge.agent.replay import check, read_requests, replay
from edge.home import HomeService
from edge.home.loading import simulation_of_home
from edge.perception.listening import SpeechTool
from edge.perception.room_map import RoomMap
from edge.perception.speech import FunctionRecogniser
from edge.perception.tools import Scene
from edge.perception.utterance import Utterance
from edge.stream import CommandClient, CommandServer
from hearth import app
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.plan.model import PlanItem
from recordings.profile import profile_to_yaml

PLAN = make_plan(*virtual_home(), 3, name="p", per_cell=1)
# Requests that words alone ground: what is heard and seen does not matter.
ITEMS = [replace(item, home=with_ends(item.home)) for item in PLAN.items if item.grounding == "G0"]


def traced(item: PlanItem, folder: Path) -> tuple[Path, Path]:
    """The trace of an agent that heard the request of an item perfectly, and an episode with its truth."""
    trace, episode = folder / "trace.jsonl", folder / "episode"
    episode.mkdir()
    (episode / "episode.yaml").write_text(profile_to_yaml(profile_of(item)), "utf-8")
    server = CommandServer("tcp://127.0.0.1:0")
    HomeService(
        staged_rig(item, PLAN, storage=str(folder)),
        simulation_of_home(item.home).simulation,
        server,
        household=item.home.household,
        real_time=False,
    )
    tools = {"speech": SpeechTool(FunctionRecogniser(lambda mono, fs: item.request, "the test"))}
    with closing(server), closing(CommandClient(server.address)) as client, Trace(trace) as steps:
        noise = np.random.default_rng(0).normal(0, 0.01, (24000, 4)).astype(np.float32)
        spoken = Utterance(noise, 0, np.ones(24000, bool), noise[:0], 10**9, 10**9)
        scene = Scene(spoken, (), RoomMap(client.command("home.describe")))
        assert RequestLoop(client, tools, PlannedPolicy(GenericOrder()), steps).answer(scene) is not None
    return trace, episode


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.query} {item.feasibility}")
def test_what_was_done_scores_the_same_when_it_is_done_again(item: PlanItem, tmp_path: Path) -> None:
    found = replay(*traced(item, tmp_path))
    assert found.problems == []
    assert found.scores is not None
    assert (found.scores["grounding"], found.scores["goal"]) == ("right", "right"), found.scores["why"]


@pytest.fixture(scope="module")
def acted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of a request that changes something at once."""
    item = next(i for i in ITEMS if i.query == "Q2" and i.feasibility == "feasible")
    return traced(item, tmp_path_factory.mktemp("acted"))


def rewritten(path: Path, to: Path, change: Any) -> Path:
    """A trace whose lines went through `change`; None leaves a line out."""
    lines = [change(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    to.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None), "utf-8")
    return to


def test_a_trace_that_is_not_what_happened_is_found_out(acted: tuple[Path, Path], tmp_path: Path) -> None:
    trace, episode = acted

    def other(line: dict[str, Any]) -> dict[str, Any]:
        if line.get("tool") == "home.command":
            line["observed"]["changed"] = {"1.OnOff.OnOff": "a lie"}
        return line

    found = replay(rewritten(trace, tmp_path / "t", other), episode)
    assert any("a lie" in problem for problem in found.problems)

    def without_command(line: dict[str, Any]) -> dict[str, Any] | None:
        return None if line.get("tool") in ("home.command", "home.write") else line

    found = replay(rewritten(trace, tmp_path / "u", without_command), episode)
    assert found.scores is not None
    assert found.scores["goal"] == "wrong"


@pytest.mark.parametrize(
    ("left_out", "words"), [("declare", "before a declaration"), ("end", "no end")]
)  # fmt: skip
def test_what_is_against_the_protocol_is_said(
    acted: tuple[Path, Path], tmp_path: Path, left_out: str, words: str
) -> None:
    def without(line: dict[str, Any]) -> dict[str, Any] | None:
        gone = line["kind"] == "finished" if left_out == "end" else line.get("tool") == left_out
        return None if gone else line

    (request,) = read_requests(rewritten(acted[0], tmp_path / "t", without))
    check(request)
    assert any(words in problem for problem in request.problems)


@pytest.mark.parametrize("text", ["", "nonsense\n", "[]\n", '{"kind": "utterance"}\n{"kind": "step"}\n'])
def test_a_file_that_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(InputError, match=r"trace|line"):
        replay(tmp_path / "t")


def test_the_command_replays(acted: tuple[Path, Path]) -> None:
    trace, episode = acted
    done = CliRunner().invoke(app, ["agent", "--replay", str(trace), "--episode", str(episode), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["scores"]["goal"] == "right"
    assert told["requests"][0]["tools"][0] == "speech" and told["requests"][0]["outcome"] == "done"
