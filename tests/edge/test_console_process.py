"""The console's process over its own socket: the token's way in, a slow page, a killed process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from capture.blocks import monotonic_ns
from dsp.errors import InputError
from edge.console import ConsoleProcess, listen
from edge.stream import CommandServer, Publisher

RIG: dict[str, Any] = {"name": "test", "camera": None, "room": {"devices": []}}
PICTURE = b"\xff\xd8\xff" + bytes(np.random.default_rng(0).integers(0, 255, 120_000, np.uint8))


class Rig:
    """A publisher and a command server that the console can follow, and the console."""

    def __init__(self, address: str) -> None:
        self.told: list[str] = []
        self.commands_got: list[tuple[str, Any]] = []
        self.publisher = Publisher("tcp://127.0.0.1:0")
        self.commands = CommandServer("tcp://127.0.0.1:0")
        self.commands.register("live.mute", self._mute)
        self.publisher.publish("state", 1, data={"muted": False, "light": "ready"})
        self.console = ConsoleProcess(
            listen(address), self.publisher.address, self.commands.address, RIG, self.told.append
        )
        self.port = self.console.listening.port

    def _mute(self, muted: bool) -> dict[str, Any]:
        if not isinstance(muted, bool):
            raise InputError("true or false")
        self.commands_got.append(("live.mute", muted))
        return {}

    def close(self) -> None:
        self.console.close()
        self.commands.close()
        self.publisher.close()

    def ask(self, path: str = "/", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.body = answer.read()  # type: ignore[attr-defined]
        return answer

    def page(self, origin: str | None = None, **headers: str) -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}/data",
            origin=origin or f"http://127.0.0.1:{self.port}",  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
            proxy=None,
            max_size=None,
            open_timeout=20,
        )


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    made = Rig("127.0.0.1:0")
    yield made
    made.close()


def hello(page: ClientConnection) -> dict[str, Any]:
    while True:
        said = page.recv(timeout=20)
        if isinstance(said, str) and "hello" in json.loads(said):
            return dict(json.loads(said)["hello"])


def light(page: ClientConnection) -> str:
    """The first state that a page is told."""
    while True:
        said = page.recv(timeout=20)
        told = json.loads(said) if isinstance(said, str) else {}
        if state := told.get("hello", told).get("state"):
            return str(state["light"])


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_the_page_and_everything_it_needs_come_from_here(rig: Rig) -> None:
    page = rig.ask()
    assert page.status == 200 and b"Hearth" in page.body  # type: ignore[attr-defined]
    assert "default-src 'none'" in str(page.headers["content-security-policy"])
    folder = Path(__file__).parents[2] / "edge" / "console"
    for name in ("console.css", "icon.svg", *(path.name for path in folder.glob("*.js"))):
        answer = rig.ask(f"/{name}")
        text = answer.body.decode()  # type: ignore[attr-defined]
        assert answer.status == 200, name
        for scheme in ("https:", "http:", "//cdn", "@import", "innerHTML = `"):
            assert scheme not in text.replace("http://www.w3.org/2000/svg", ""), f"{name}: {scheme}"
    assert rig.ask("/../rig.yaml").status == rig.ask("/app.py").status == 404
    assert rig.ask(Host="evil.example").status == 403


def test_only_this_page_may_open_the_data(rig: Rig) -> None:
    for origin in ("http://evil.example", f"http://localhost:{rig.port + 1}"):
        with pytest.raises(InvalidStatus):
            rig.page(origin=origin)
    with rig.page() as page:
        assert light(page) == "ready"


def test_commands_and_their_refusals(rig: Rig) -> None:
    def reply(page: ClientConnection, **said: Any) -> dict[str, Any]:
        page.send(json.dumps(said))
        while True:
            answer = page.recv(timeout=20)
            if isinstance(answer, str) and "reply" in json.loads(answer):
                return dict(json.loads(answer)["reply"])

    with rig.page() as page:
        hello(page)
        assert reply(page, op="live.mute", args={"muted": True}, id="1") == {"id": "1", "ok": True}
        assert reply(page, op="live.mute", args={"muted": 3}, id="2")["error"] == "true or false"
        assert "only" in reply(page, op="home.command", args={"device_id": "x"}, id="3")["error"]
        assert "only" in reply(page, op="live.mute", args={"op": "home.command"}, id="4")["error"]
        assert "only" in reply(page, op=["live.mute"], args={}, id="5")["error"]
        page.send(json.dumps({"ping": 7}))
        while "pong" not in (said := json.loads(page.recv(timeout=10))):
            pass
        assert said["pong"] == 7 and abs(said["now_ms"] - monotonic_ns() / 1e6) < 2000
    assert rig.commands_got == [("live.mute", True)]
    for nonsense in ("[]", "nonsense", "[" * 3000, json.dumps({"op": "x" * 5000})):
        with rig.page() as page:
            hello(page)
            page.send(nonsense)
            with pytest.raises(ConnectionClosed):
                for _ in range(100):
                    page.recv(timeout=20)


def test_a_page_that_sleeps_finds_a_fresh_picture_and_costs_no_memory(rig: Rig) -> None:
    with rig.page() as slow, rig.page() as fast:
        hello(slow)
        hello(fast)
        before = None
        fast_ages = []
        end = time.monotonic() + 2.5
        number = 0
        while time.monotonic() < end:
            number += 1
            rig.publisher.publish("video", monotonic_ns(), PICTURE, shape=(720, 1280, 3))
            rig.publisher.publish("event", monotonic_ns(), data={"kind": "tick", "text": "x" * 300})
            due = time.monotonic() + 0.033
            while (left := due - time.monotonic()) > 0:
                try:
                    said = fast.recv(timeout=left)
                except TimeoutError:
                    break
                if isinstance(said, bytes):
                    fast_ages.append(age_ms(said))
                    fast.send('{"ack": 1}')
            if number == 30:
                before = rss_mib(rig.console.pid)
        assert before is not None and rss_mib(rig.console.pid) - before < 8
        assert len(fast_ages) > 0.6 * number and np.median(fast_ages) < 150
        # The slow one has at most two pictures on their way; the next is the newest.
        pictures = []
        while len(pictures) < 2:
            if isinstance(said := slow.recv(timeout=10), bytes):
                pictures.append(said)
                slow.send('{"ack": 1}')
        while not isinstance(said := slow.recv(timeout=10), bytes):
            pass
        assert age_ms(pictures[0]) > 1500 > 600 > age_ms(said)
        slow.send('{"ack": 1}')
        rest = list(during(slow, 0.5))
        assert not any(isinstance(said, bytes) for said in rest) and len(rest) < 60  # nothing piled up


def during(page: ClientConnection, seconds: float) -> Iterator[str | bytes]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            yield page.recv(timeout=left)
        except TimeoutError:
            return


def age_ms(picture: bytes) -> float:
    length = int.from_bytes(picture[:4], "little")
    return monotonic_ns() / 1e6 - float(json.loads(picture[4 : 4 + length])["t_ms"])


def test_a_killed_console_comes_back_at_its_address_and_the_rig_is_told(rig: Rig) -> None:
    with rig.page() as page:
        hello(page)
        os.kill(rig.console.pid, signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            while True:
                page.recv(timeout=10)
    with rig.page() as page:  # the address stays bound, so this waits for the new one
        assert light(page) == "ready"
    assert rig.console.restarts == 1 and "started again" in rig.told[0]


def test_off_loopback_nobody_comes_in_without_the_token() -> None:
    rig = Rig("0.0.0.0:0")
    try:
        token = rig.console.listening.token
        assert token is not None and token not in Path(f"/proc/{rig.console.pid}/cmdline").read_text()
        assert rig.ask().status == rig.ask("/console.js").status == 401
        assert rig.ask("/?token=wrong").status == 401
        with pytest.raises(InvalidStatus):
            rig.page()
        let_in = rig.ask(f"/?token={token}")
        assert let_in.status == 303 and let_in.headers["location"] == "/"
        cookie = str(let_in.headers["set-cookie"])
        assert "HttpOnly" in cookie and "SameSite" in cookie
        (kept,) = SimpleCookie(cookie).values()
        sent = {"Cookie": f"{kept.key}={kept.value}"}
        assert rig.ask(**sent).status == 200
        assert rig.ask(**sent, Host="evil.example").status == 403
        with rig.page(**sent) as page:
            hello(page)
    finally:
        rig.close()
    assert not Path(f"/proc/{rig.console.pid}").exists()
