"""The fast loop over real sockets, and how the slow one obeys it."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from scipy.signal import resample_poly

from capture.rig import DEFAULT_RIG, load_rig
from edge.agent import Action, RequestLoop, Run
from edge.agent.attention import Attention
from edge.agent.fast import FastLoop, beside, listen
from edge.agent.loop import Steps
from edge.agent.memory import GenericOrder
from edge.agent.planned import PlannedPolicy
from edge.home import HomeService, home_of
from edge.perception.listening import SpeechTool
from edge.perception.room_map import RoomMap
from edge.perception.speech import FunctionRecogniser
from edge.perception.tools import Scene
from edge.perception.utterance import Utterance
from edge.stream import Client, CommandClient, CommandServer, Publisher

pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")

FS = 24000
BLOCK = FS // 50
LAMP = "living_room_on_off_light_1"


class Rig:
    """A home on real sockets, and sound to publish."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.publisher = Publisher("tcp://127.0.0.1:0")
        self.server = CommandServer("tcp://127.0.0.1:0")
        self.publisher.listen(lambda header: self.events.append(dict(header.data)))
        self.home = home_of(load_rig(DEFAULT_RIG))
        self.service = HomeService(load_rig(DEFAULT_RIG), self.home, self.server, self.publisher)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.publisher.close()
        self.server.close()

    def play(self, mono: np.ndarray) -> None:
        foa = np.zeros((len(mono), 4), np.float32)
        foa[:, 0] = foa[:, 3] = mono
        for first in range(0, len(foa), BLOCK):
            self.publisher.publish("foa24", round(first * 1e9 / FS), foa[first : first + BLOCK])

    def noticed(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("kind") in kinds]


def floor(seconds: float) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 3e-4, round(seconds * FS)).astype(np.float32)


def alarm() -> np.ndarray:
    """The temporal pattern of ISO 8201 (three pulses of half a second, then a pause), twice, at 3.1 kHz."""
    tone = 0.1 * np.sin(2 * np.pi * 3100 * np.arange(FS // 2) / FS)
    once = np.r_[np.tile(np.r_[tone, np.zeros(FS // 2)], 3), np.zeros(FS)]
    sound = np.r_[np.zeros(2 * FS), np.tile(once, 2)].astype(np.float32)
    return sound + floor(len(sound) / FS)


def spoken(text: str) -> np.ndarray:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    from capture.virtual.voices import speak, voice_named

    words = 0.05 * resample_poly(speak(text, voice_named("voice_1")), 1, 2).astype(np.float32)
    sound = np.r_[np.zeros(3 * FS, np.float32), words, np.zeros(round(1.5 * FS), np.float32)]
    return sound + floor(len(sound) / FS)


def test_an_alarm_and_a_word_become_events() -> None:
    with Rig() as rig:
        client = Client(rig.publisher.address, rig.server.address, streams=["foa24"])
        over = threading.Event()
        thread = threading.Thread(target=listen, args=(client, FastLoop(client), over))
        thread.start()
        client.wait_connected()
        sound = np.r_[alarm(), spoken("Stop!")]
        rig.play(sound)
        until = time.monotonic() + 60
        while not rig.noticed("stop") or rig.noticed("speech")[-1]["on"]:
            assert time.monotonic() < until
            time.sleep(0.02)
        over.set()
        thread.join(60)
        client.close()
        assert [event["kind"] for event in rig.noticed("alarm", "stop")] == ["alarm", "stop"]
        (stop,) = rig.noticed("stop")
        assert stop["text"] == "stop"
        assert stop["t_ns"] / 1e9 == pytest.approx(len(sound) / FS - 1.5, abs=0.3)
        assert [event["on"] for event in rig.noticed("speech")][-2:] == [True, False]


def test_it_ends_with_the_agent_that_started_it() -> None:
    with Rig() as rig:
        with beside(rig.publisher.address, rig.server.address, None) as process:
            assert process.poll() is None
            rig.play(floor(0.5))
        assert process.poll() is not None


def scene(rig: Rig, client: CommandClient) -> Scene:
    noise = np.tile(floor(1.0)[:, None], (1, 4))
    spoken_at = Utterance(noise, 0, np.ones(FS, bool), noise[:0], 10**9, 10**9)
    return Scene(spoken_at, (), RoomMap(client.command("home.describe")))


class Slow:
    """A policy that somebody interrupts. when: the fast loop's event comes before this step."""

    name = "slow"

    def __init__(self, attention: Attention, when: int, t_ns: int) -> None:
        self._attention, self._when, self._t_ns = attention, when, t_ns

    def steps(self, run: Run) -> Steps:
        actions = [
            Action("declare", {"device_id": LAMP}),
            Action("home.command", {"device_id": LAMP, "command": "On"}),
            Action("finish", {"answer": "The lamp is on.", "outcome": "done"}),
        ]
        for number, action in enumerate(actions):
            if number == self._when:
                self._attention.notice({"kind": "stop", "t_ns": self._t_ns})
            yield action


@pytest.mark.parametrize(
    ("when", "t_s", "outcome", "on"),
    [(0, 3.0, None, False), (1, 3.0, "failed", False), (2, 3.0, "failed", True), (1, 0.5, "done", True)],
)
def test_stop_ends_a_request_that_is_under_way(when: int, t_s: float, outcome: str | None, on: bool) -> None:
    """Nothing declared yet: it is dropped; declared: said so; a stop from before the request is none."""
    attention = Attention()
    with Rig() as rig, closing(CommandClient(rig.server.address)) as client:
        loop = RequestLoop(client, {}, Slow(attention, when, round(t_s * 1e9)), attention=attention)
        answer = loop.answer(scene(rig, client))
        assert (None if answer is None else answer.outcome) == outcome
        assert rig.home.state(LAMP)["1.OnOff.OnOff"] is on


def test_who_was_told_to_be_quiet_answers_nothing_until_unmuted() -> None:
    attention, words = Attention(), ["Turn on the floor lamp.", "Unmute.", "Turn on the floor lamp."]
    with Rig() as rig, closing(CommandClient(rig.server.address)) as client:
        tools = {"speech": SpeechTool(FunctionRecogniser(lambda mono, fs: words.pop(0), "the test"))}
        loop = RequestLoop(client, tools, PlannedPolicy(GenericOrder()), attention=attention)
        attention.notice({"kind": "mute", "t_ns": 0})
        answers = [loop.answer(scene(rig, client)) for _ in range(3)]
        assert answers[0] is None and answers[2] is not None
        assert answers[2].outcome == "done"


def test_the_desk_takes_only_what_it_knows() -> None:
    with Rig() as rig, closing(CommandClient(rig.server.address)) as client:
        client.command("agent.noticed", kind="speech", t_ns=5, on=True)
        assert rig.noticed("speech") == [{"kind": "speech", "t_ns": 5, "on": True}]
        for wrong in ({"kind": "coup", "t_ns": 1}, {"kind": "stop", "t_ns": "soon"}):
            with pytest.raises(Exception, match=r"agent\.noticed"):
                client.command("agent.noticed", **wrong)
