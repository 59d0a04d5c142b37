"""A page's server beside peers that hold connections without ever asking for anything."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from recordings.web import connections


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    listening = socket.create_server(("0.0.0.0", 0))
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])
    server = uvicorn.Server(
        uvicorn.Config(app, http=connections.BoundedProtocol, limit_concurrency=64, log_level="error")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def connect(port: int, own: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(own, 0))


def closed(held: socket.socket) -> bool:
    held.setblocking(False)
    try:
        return held.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def answer(asked: socket.socket) -> bytes:
    """The whole of one answer; its body is "here"."""
    told = b""
    while not told.endswith(b"here") and (piece := asked.recv(1000)):
        told += piece
    return told


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)


def test_half_requests_keep_nobody_out_and_are_cut(port: int) -> None:
    held = []
    for number in range(70):
        held.append(connect(port, "127.0.0.2"))
        held[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + str(number).encode())
    wait_for(lambda: 70 - sum(map(closed, held)) <= connections.MOST_PER_PEER)
    with connect(port, "127.0.0.3") as other:
        other.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer(other).startswith(b"HTTP/1.1 200")
        time.sleep(1.5)  # no longer than one may take for a request: the next on this connection is served
        other.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer(other).startswith(b"HTTP/1.1 200")
        other.sendall(b"GET / HT")  # and the rest never comes
        wait_for(lambda: closed(other))
    wait_for(lambda: all(map(closed, held)))
    for one in held:
        one.close()
