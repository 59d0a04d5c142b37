"""`hearth demo`: the main job from source to agent, scored against the truth where there is one.

The rig is recorded and streamed by this process; the agent runs in a process of its own and gets nothing but
the two addresses, so what it knows it heard on the stream or was told by the home.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from capture.rig import Rig
from capture.sources import open_rig
from capture.stop_signals import StopSignals
from capture.take import new_profile
from dsp.errors import CheckFailed, DeviceError, InputError
from edge.home.service import home_of
from edge.live import LiveService, check_ready
from edge.live_session import SECOND
from edge.stream import Header
from recordings import Episode
from recordings.score import Score, score
from recordings.terminal import counted

AGENT_READY_S = 60.0  # the first start on a machine loads the speech model from a cold disk
LATE_ANSWER_S = 30.0  # how long a slow agent is waited for after the scene is over
AFTER_ANSWER_S = 1.0  # keep recording, so that the change is heard and seen
REAL_RIG_S = 60.0  # how long a rig without a scene waits for somebody to ask


@dataclass(frozen=True)
class DemoResult:
    """What the demo did. `verified` is the verdict of `hearth verify` on the finished episode; `trouble` says
    why there is no answer, if it was not the agent's own decision."""

    episode: str
    page: str
    request: str | None
    heard: str | None
    said: str | None
    declared: str | None
    truth: str | None
    grounding_correct: bool | None
    goal_reached: bool | None
    verified: bool
    problems: tuple[str, ...]
    seconds: float
    pictures: int
    dropped_pictures: int
    lost_frames: int
    drift_ppm: float | None
    drift_sigma_ppm: float | None
    av_offset_ms: float | None
    av_offset_sigma_ms: float | None
    trouble: str | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The result for people; the last line is the score."""
        lines = [
            f"asked:    {self.request or 'not known (a real rig)'}",
            f"heard:    {self.heard or 'nothing'}",
            f"answered: {self.said or 'nothing'}",
            f"recorded: {counted(self.pictures, 'picture')}, {self.dropped_pictures} dropped;"
            f" sound lost: {counted(self.lost_frames, 'frame')}",
            *(
                ["slow:     this computer was too busy to keep up, so no agent can answer in time"]
                if self.dropped_pictures > self.pictures
                else []
            ),
            "clock:    drift " + _with_sigma(self.drift_ppm, self.drift_sigma_ppm, "ppm"),
            "sync:     sound against picture "
            + _with_sigma(self.av_offset_ms, self.av_offset_sigma_ms, "ms")
            + "; positive: sound late",
            f"episode:  {self.episode} ({'verified' if self.verified else 'DOES NOT VERIFY'})",
            f"page:     {self.page}",
        ]
        return [*lines, self.text]


def _with_sigma(value: float | None, sigma: float | None, unit: str) -> str:
    """A number with how good it is, or that it is not known."""
    if value is None:
        return "not known"
    return f"{value:+.1f} {unit}" if sigma is None else f"{value:+.1f} \u00b1 {sigma:.1f} {unit}"


class AgentProcess:
    """`hearth agent --once` beside the service. Its standard error is shown with the demo's."""

    def __init__(self, stream: str, commands: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hearth", "agent", "--once"),
                *("--stream", stream, "--commands", commands),
            ],
            stdout=subprocess.DEVNULL,  # what it says comes over the stream
            cwd=Path(__file__).parents[1],
            start_new_session=True,  # Ctrl-C is for the demo, which then ends the agent
        )

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def end(self, patience_s: float) -> None:
        """Give it `patience_s` to end by itself, then end it."""
        try:
            self._process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


class AgentLog:
    """What the agent said on the stream, gathered from the events of a service."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.finished = threading.Event()
        self.declared: str | None = None
        self.was_declared = False
        self.heard: str | None = None
        self.said: list[str] = []
        self.outcome: str | None = None

    def listen(self, header: Header) -> None:
        """A listener for `Publisher.listen`."""
        if header.stream != "event":
            return
        data = header.data
        kind = data.get("kind")
        if kind == "ready":
            self.ready.set()
        elif kind == "heard":
            self.heard = data.get("text")
        elif kind == "declared":
            self.was_declared, self.declared = True, data.get("device_id")
        elif kind == "said":
            self.said.append(str(data.get("text", "")))
        elif kind == "finished":
            self.outcome = data.get("outcome")
            self.finished.set()


def run_demo(rig: Rig, seed: int | None = None, tell: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Run the main job once and return what came out of it.

    rig:  a virtual rig (then the scene's truth is known) or a real one (then somebody has to ask within
          REAL_RIG_S). seed: another virtual request.
    tell: is called with a line for people as things happen.
    Raises DeviceError (a device, or the agent did not start), StorageError, InputError.
    """
    began = time.monotonic()
    rig = _demo_rig(rig, seed)
    check_ready(rig, record=True)
    tell(f"opening the rig {rig.name!r} (microphone: {rig.microphone.source}, camera: {rig.camera.source})")
    with open_rig(rig) as opened, StopSignals(aborting=SECOND) as stop:
        profile = new_profile(rig, opened, "demo")
        home = home_of(rig, profile.home)
        service = LiveService(rig, opened, home=home, record=True, profile=profile)
        log = AgentLog()
        service.publisher.listen(log.listen)
        agent = AgentProcess(service.local_stream_address, service.local_commands_address)
        try:
            _wait_ready(log, agent, stop)
            tell("the agent is listening; recording starts")
            service.start()
            trouble = _until_answered(service, log, agent, stop)
            result = score(
                profile,
                log.declared,
                home.snapshot(),
                was_declared=log.was_declared,
                outcome=log.outcome,  # type: ignore[arg-type]
            )
            _keep(service, result)
            tell("finishing the episode: release sound, directions, checks, page, hashes")
            service.stop()
        except KeyboardInterrupt:
            path = service.recorder.path if service.recorder is not None else ""
            raise CheckFailed(f"aborted; what was recorded is kept: `hearth repair {path}`") from None
        except BaseException:
            service.stop()
            raise
        finally:
            agent.end(5.0 if log.finished.is_set() else 0.0)
    return _result(service, log, result, trouble, time.monotonic() - began)


def _demo_rig(rig: Rig, seed: int | None) -> Rig:
    """The seed put in, and addresses that collide with nothing that runs on this machine."""
    if seed is not None and "virtual" not in (rig.microphone.source, rig.camera.source):
        raise InputError(f"--seed is for the virtual room; the rig {rig.name!r} has real or file sources")
    replace = msgspec.structs.replace
    endpoints = replace(rig.endpoints, stream="tcp://127.0.0.1:0", commands="tcp://127.0.0.1:0")
    virtual = replace(rig.virtual, scene="request", seed=rig.virtual.seed if seed is None else seed)
    return replace(rig, endpoints=endpoints, virtual=virtual)


def _wait_ready(log: AgentLog, agent: AgentProcess, stop: StopSignals) -> None:
    deadline = time.monotonic() + AGENT_READY_S
    while not log.ready.wait(0.1):
        if stop.asked.is_set():
            raise CheckFailed("ended by hand before the recording began; nothing was recorded")
        if agent.exit_code is not None:
            raise DeviceError("the agent ended before it was ready; its own message stands above")
        if time.monotonic() > deadline:
            raise DeviceError(f"the agent was not ready within {AGENT_READY_S:g} s")


def _until_answered(
    service: LiveService, log: AgentLog, agent: AgentProcess, stop: StopSignals
) -> str | None:
    """Until the scene is over and the agent has answered; on a real rig, until it has answered.

    Returns None then, else in words why there is no answer.
    """
    scene = service.opened.scene
    real = scene is None
    patience_s = REAL_RIG_S if scene is None else scene.duration_s + LATE_ANSWER_S
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        time.sleep(0.05)
        answered = log.finished.is_set()
        if stop.asked.is_set():
            return "ended by hand"
        if service.failed.is_set():
            return "a part of the live chain failed; its own message stands above"
        if answered and (real or service.ended.is_set()):
            time.sleep(AFTER_ANSWER_S if real else 0.0)
            return None
        if agent.exit_code is not None and not log.finished.wait(0.5):
            return f"the agent process ended without an answer (exit code {agent.exit_code})"
    return None if log.finished.is_set() else f"the agent did not answer within {patience_s:.0f} s"


def _keep(service: LiveService, result: Score) -> None:
    """The score belongs in the episode; the recorder is still open."""
    assert service.recorder is not None
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False)
    service.recorder.writer.add_file("score.json", text.encode("utf-8"))


def _result(
    service: LiveService, log: AgentLog, result: Score, trouble: str | None, seconds: float
) -> DemoResult:
    recording = service.recording
    if recording is None:
        raise CheckFailed("no episode was recorded; see the messages above")
    episode = Episode.open(recording.path)
    report = episode.verify()
    clocks, offset = episode.checks.get("clocks") or {}, episode.checks.get("av_offset") or {}
    return DemoResult(
        episode=str(recording.path),
        page=str(recording.path / "report.html"),
        request=episode.profile.request,
        heard=log.heard,
        said=log.said[-1] if log.said else None,
        declared=log.declared,
        truth=result.truth,
        grounding_correct=result.grounding_correct,
        goal_reached=result.goal_reached,
        verified=report.ok,
        problems=tuple(str(p) for p in report.problems),
        seconds=round(seconds, 1),
        pictures=recording.pictures,
        dropped_pictures=recording.dropped_pictures,
        lost_frames=recording.lost_frames,
        drift_ppm=clocks.get("drift_ppm"),
        drift_sigma_ppm=clocks.get("drift_sigma_ppm"),
        av_offset_ms=offset.get("offset_ms"),
        av_offset_sigma_ms=offset.get("sigma_ms"),
        trouble=trouble,
        text=result.text,
    )
