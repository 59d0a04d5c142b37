"""A language model as the agent's policy, against a real HTTP server whose replies are scripted."""

from __future__ import annotations

import base64
import io
import json
import threading
import wave
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture.rig import DEFAULT_RIG, load_rig
from edge.agent import Answer, RequestLoop, Trace
from edge.agent.llm_policy import NO_ANSWER, LlmOptions, LlmPolicy
from edge.agent.memory import GenericOrder
from edge.agent.planned import PlannedPolicy
from edge.home import HomeService, home_of
from edge.perception.listening import SpeechTool
from edge.perception.room_map import RoomMap
from edge.perception.speech import FunctionRecogniser
from edge.perception.tools import Picture, Scene
from edge.perception.utterance import Utterance
from edge.stream import CommandClient, CommandServer
from recordings.chat_model import ChatModel

LAMP = "living_room_on_off_light_1"
ASKED = "Turn on the floor lamp."
PATIENCE_S = 0.3
Reply = dict[str, Any] | int | str


def call(name: str, **args: Any) -> dict[str, Any]:
    """A message that calls one tool."""
    return raw_call(name, json.dumps(args))


def raw_call(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": f"id_{name}", "type": "function", "function": function}]}


RIGHT = [
    call("speech"),
    call("declare", device_id=LAMP),
    call("home_command", device_id=LAMP, command="1.OnOff.On"),
    call("finish", answer="The lamp is on.", outcome="done"),
]


class Peer:
    """Replies in the order of `script`: a message, an HTTP status, or "late". `asked`: what came in."""

    def __init__(self) -> None:
        self.script: list[Reply | Callable[[], Reply]] = []
        self.asked: list[dict[str, Any]] = []
        self.release = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                peer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                reply = peer.script.pop(0) if peer.script else 500
                reply = reply() if callable(reply) else reply
                if reply == "late":
                    peer.release.wait(30)
                status = reply if isinstance(reply, int) else 200
                usage = {"prompt_tokens": 1000, "completion_tokens": 10}
                body = json.dumps({"choices": [{"message": reply}], "usage": usage}).encode()
                try:
                    self.send_response(status)
                    if status == 429:
                        self.send_header("Retry-After", "0")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # it did not wait

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class House:
    """A home on a real socket, and one request in it."""

    def __init__(self, peer: Peer, trace: Path) -> None:
        rig = load_rig(DEFAULT_RIG)
        self.peer, self.home = peer, home_of(rig)
        self.server = CommandServer("tcp://127.0.0.1:0")
        self.service = HomeService(rig, self.home, self.server)
        self.client = CommandClient(self.server.address)
        self.trace_path = trace

    def ask(
        self, *script: Reply | Callable[[], Reply], patience_s: float = 5.0, retries: int = 0, **given: Any
    ) -> Answer:
        """What the agent answers to ASKED when the model replies with `script`."""
        self.peer.script, self.peer.asked = list(script), []
        options = given.pop("options", LlmOptions())
        chat = ChatModel(self.peer.url, "scripted", timeout_s=patience_s, retries=retries, pause_s=0.0)
        tools = {"speech": SpeechTool(FunctionRecogniser(lambda mono, fs: ASKED, "the test"))}
        with Trace(self.trace_path) as trace:
            loop = RequestLoop(self.client, tools, LlmPolicy(chat, options, **given), trace)
            answer = loop.answer(self.scene())
        assert answer is not None
        return answer

    def scene(self) -> Scene:
        noise = np.random.default_rng(0).normal(0, 0.01, (24000, 4)).astype(np.float32)
        spoken = Utterance(noise, 0, np.ones(24000, bool), noise[:0], 10**9, 10**9)
        pictures = tuple(Picture(n * 10**8, np.full((36, 64, 3), n, np.uint8)) for n in range(9))
        return Scene(spoken, pictures, RoomMap(self.client.command("home.describe")))

    def steps(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.trace_path.read_text("utf-8").splitlines()]
        return [line for line in lines if line["kind"] == kind]

    @property
    def lamp_is_on(self) -> bool:
        return bool(self.home.state(LAMP)["1.OnOff.OnOff"])


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.release.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def house(peer: Peer, tmp_path: Path) -> Iterator[House]:
    made = House(peer, tmp_path / "trace.jsonl")
    yield made
    made.client.close()
    made.server.close()


def test_a_model_that_calls_tools_switches_the_lamp(house: House, peer: Peer) -> None:
    answer = house.ask(*RIGHT, options=LlmOptions(prices=(2.0, 5.0)))
    assert (answer.device_id, answer.outcome, answer.said) == (LAMP, "done", "The lamp is on.")
    assert house.lamp_is_on
    assert answer.cost["prompt_tokens"] == 4000 and answer.cost["calls"] == 4
    assert answer.cost["dollars"] == pytest.approx((4000 * 2.0 + 40 * 5.0) / 1e6)
    heard = peer.asked[1]["messages"][-1]
    assert heard["role"] == "tool" and heard["tool_call_id"] == "id_speech" and ASKED in heard["content"]
    names = [{t["function"]["name"] for t in asked["tools"]} for asked in peer.asked]
    assert "home_command" not in names[0] and "finish" not in names[0]  # nothing before the declaration
    assert {"home_command", "finish"} <= names[2]


def test_what_it_calls_wrongly_is_told_to_it_and_it_may_go_on(house: House, peer: Peer) -> None:
    answer = house.ask(
        raw_call("declare", '{"device_id": "living'),  # no JSON
        call("open_the_pod_bay_doors"),
        call("declare", device_id="lamp of another home"),
        call("home_command", device_id=LAMP, command="1.OnOff.On"),  # not declared yet
        *RIGHT[1:],
    )
    assert (answer.device_id, answer.outcome) == (LAMP, "done")
    told = [asked["messages"][-1]["content"] for asked in peer.asked[1:5]]
    for words, text in zip(("no JSON", "no tool", "lamp of another home", "before"), told, strict=True):
        assert words in text
    assert len(house.steps("malformed")) == 1


def test_success_that_nobody_read_back_is_not_claimed(house: House) -> None:
    """It says that the lamp is on although the home refused: the loop does not let it."""
    answer = house.ask(
        call("declare", device_id=LAMP),
        call("home_command", device_id=LAMP, command="1.OnOff.Explode"),
        call("finish", answer="The lamp is on.", outcome="done"),
        call("finish", answer="The lamp cannot do that.", outcome="failed"),
    )
    assert (answer.outcome, answer.said) == ("failed", "The lamp cannot do that.")
    assert not house.lamp_is_on


@pytest.mark.parametrize("fault", ["late", 503, {"content": None}])
def test_a_model_that_does_not_answer_ends_as_failed(house: House, fault: Reply) -> None:
    answer = house.ask(RIGHT[0], fault, patience_s=PATIENCE_S if fault == "late" else 5.0)
    assert (answer.device_id, answer.outcome, answer.said) == (None, "failed", NO_ANSWER)
    assert not house.lamp_is_on
    assert len(house.steps("handed_over")) == 1


def test_the_planned_policy_takes_over(house: House) -> None:
    answer = house.ask(503, otherwise=PlannedPolicy(GenericOrder()))
    assert (answer.device_id, answer.outcome) == (LAMP, "done")
    assert house.lamp_is_on


def test_a_busy_model_is_asked_again(house: House, peer: Peer) -> None:
    answer = house.ask(429, RIGHT[0], 502, *RIGHT[1:], retries=1)
    assert answer.outcome == "done"
    assert answer.cost["attempts"] == 6 and answer.cost["calls"] == 4
    assert peer.asked[0] == peer.asked[1]


def test_a_request_that_is_wrong_is_not_sent_again(house: House, peer: Peer) -> None:
    assert house.ask(400, retries=3).outcome == "failed"
    assert len(peer.asked) == 1


def test_a_refusal_is_a_refusal(house: House) -> None:
    answer = house.ask({"content": None, "refusal": "I do not switch lamps."})
    assert (answer.device_id, answer.outcome, answer.said) == (None, "refused", "I do not switch lamps.")


def test_words_instead_of_tools_come_to_an_end(house: House, peer: Peer) -> None:
    answer = house.ask(*[{"content": "I am only a language model."}] * 20)
    assert (answer.outcome, len(peer.asked)) == ("failed", 5)


def test_a_model_without_tool_calls_replies_in_json(house: House, peer: Peer) -> None:
    said = [
        'Sure! ```json\n{"tool": "speech", "args": {}}\n```',
        json.dumps({"tool": "declare", "args": {"device_id": LAMP}}),
        json.dumps({"tool": "home_command", "args": {"device_id": LAMP, "command": "1.OnOff.On"}}),
        json.dumps({"tool": "finish", "args": {"answer": "It is on.", "outcome": "done"}}),
    ]
    answer = house.ask(*({"content": text} for text in said), options=LlmOptions(speaks="json"))
    assert (answer.outcome, house.lamp_is_on) == ("done", True)
    schema = peer.asked[0]["response_format"]["schema"]
    assert {"const": "declare"} in [form["properties"]["tool"] for form in schema["oneOf"]]


def test_when_it_dawdles_only_the_end_is_offered(house: House, peer: Peer) -> None:
    house.ask(call("home_time"), *[call("home_rooms")] * 2, *RIGHT[1:2], RIGHT[3],
              options=LlmOptions(most_tools=3))  # fmt: skip
    names = [[t["function"]["name"] for t in asked["tools"]] for asked in peer.asked]
    assert names[3:] == [["declare"], ["finish"]]


@pytest.mark.parametrize(("ears", "channels"), [("mono", 1), ("foa", 4)])
def test_it_may_hear_and_see_for_itself(house: House, peer: Peer, ears: Any, channels: int) -> None:
    house.ask(*RIGHT, options=LlmOptions(ears=ears, pictures=3))
    parts = peer.asked[0]["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text", "input_audio", *["image_url"] * 3]
    with wave.open(io.BytesIO(base64.b64decode(parts[1]["input_audio"]["data"]))) as sound:
        assert (sound.getnchannels(), sound.getframerate(), sound.getsampwidth()) == (channels, 24000, 2)
        assert sound.getnframes() >= 24000
    assert parts[2]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


def test_guidance_of_a_procedure_is_told_before_each_step(house: House, peer: Peer) -> None:
    house.ask(*RIGHT, memory=GenericOrder())
    assert "Guidance" not in str(peer.asked[0]["messages"])  # the words are not known yet
    assert "Guidance: next `declare`" in peer.asked[1]["messages"][-1]["content"]
    assert f"{LAMP} 1.00" in peer.asked[1]["messages"][-1]["content"]


def test_a_home_that_changes_its_mind_is_not_done(house: House) -> None:
    """Somebody switches the lamp off again before the model claims that it is on."""

    def meanwhile() -> Reply:
        house.home.command(LAMP, "1.OnOff.Off")
        return RIGHT[3]

    sorry = call("finish", answer="It went off again.", outcome="failed")
    answer = house.ask(*RIGHT[:3], meanwhile, sorry)
    assert (answer.outcome, answer.said) == ("failed", "It went off again.")
