"""Commands: answers, errors with their names, time-outs, and rubbish."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsp.errors import CheckFailed, InputError
from edge.stream import Client, CommandClient, CommandError, CommandServer, CommandTimeout, Publisher

ANY = "tcp://127.0.0.1:0"


def add(a: int, b: int = 1) -> dict[str, int]:
    return {"sum": a + b}


@pytest.fixture()
def server():
    with CommandServer(ANY) as server:
        server.register("add", add)
        yield server


def test_answers_and_errors(server: CommandServer) -> None:
    def refuse() -> None:
        raise CheckFailed("the lamp is a fan")

    def fail() -> None:
        raise KeyError("inside")

    server.register("refuse", refuse)
    server.register("fail", fail)
    server.register("nothing", lambda: None)
    server.register("unsendable", lambda: {"x": object()})
    client = CommandClient(server.address)
    assert client.command("add", a=2) == {"sum": 3}
    assert client.command("add", a=2, b=5) == {"sum": 7}
    assert client.command("nothing") == {"value": None}
    own = {"client.beat", "ops", "time.ping"}
    mine = {"add", "fail", "nothing", "refuse", "unsendable"}
    assert client.command("ops") == {"ops": sorted(own | mine)}
    with pytest.raises(InputError, match=r"missing a required argument: 'a'.*\(a: "):
        client.command("add", b=1)
    with pytest.raises(InputError, match="there is no command 'sub'; commands: add"):
        client.command("sub")
    with pytest.raises(CheckFailed, match="the lamp is a fan"):
        client.command("refuse")
    with pytest.raises(CommandError, match="InternalError: fail failed: KeyError"):
        client.command("fail")
    with pytest.raises(InputError, match="cannot be sent"):
        client.command("unsendable")
    with pytest.raises(InputError, match="limit"):
        client.command("add", a="x" * (2 << 20))
    assert client.command("add", a=1) == {"sum": 2}  # still at your service
    client.close()
    client.close()


def test_a_late_answer_is_not_taken_for_the_next_one(server: CommandServer) -> None:
    go = threading.Event()
    server.register("slow", lambda: {"slow": go.wait(5)})
    with Publisher(ANY) as publisher, Client(publisher.address, server.address) as client:
        with pytest.raises(CommandTimeout, match=r"slow: no answer from .* within 0\.2 s"):
            client.command("slow", timeout_s=0.2)
        go.set()
        assert client.command("add", a=5) == {"sum": 6}


def test_no_server_is_a_timeout() -> None:
    client = CommandClient("tcp://127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(CommandTimeout, match="hearth live"):
        client.command("add", timeout_s=0.2, a=1)
    assert time.monotonic() - began < 5
    client.close()


def test_many_clients_at_once(server: CommandServer) -> None:
    results: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        client = CommandClient(server.address)
        results[number] = [client.command("add", a=number, b=n)["sum"] for n in range(50)]
        client.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [number + n for n in range(50)] for number in range(6)}


def test_off_loopback_is_refused_without_keys() -> None:
    with pytest.raises(InputError, match="needs keys"):
        CommandServer("tcp://0.0.0.0:5772")


@pytest.fixture(scope="module")
def raw():
    """A DEALER that can send anything, to a server that must survive it."""
    with CommandServer(ANY) as server, zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        server.register("add", add)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(server.address)
        yield server, socket


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=10)
    | st.dictionaries(
        st.sampled_from(["v", "op", "args", "x"]),
        st.none()
        | st.integers(-9, 9)
        | st.text(max_size=6)
        | st.dictionaries(st.text(max_size=2), st.integers(0, 3)),
    ).map(lambda fields: [b"", msgspec.msgpack.encode(fields)])
)
def test_rubbish_never_stops_the_server(raw, parts: list[bytes]) -> None:
    _, socket = raw
    socket.send_multipart(parts)
    tag = str(time.monotonic_ns()).encode()
    socket.send_multipart([tag, b"", msgspec.msgpack.encode({"v": 1, "op": "add", "args": {"a": 1, "b": 2}})])
    while True:
        assert socket.poll(5000), "the server does not answer any more"
        answer = socket.recv_multipart()
        reply = msgspec.msgpack.decode(answer[-1])
        if answer[0] == tag:
            assert reply["ok"] and reply["data"] == {"sum": 3}
            return
        assert reply["ok"] in (True, False)


def test_rejected_commands_are_counted_and_answered(raw) -> None:
    server, socket = raw
    before = dict(server.rejected)
    for body, reason in (
        (b"\xc1", "malformed"),
        (msgspec.msgpack.encode({"v": 2, "op": "add", "args": {}}), "wrong_version"),
        (b"x" * ((1 << 20) + 1), "oversized"),
    ):
        socket.send_multipart([b"", body])
        assert socket.poll(5000)
        reply = msgspec.msgpack.decode(socket.recv_multipart()[-1])
        assert reply["ok"] is False and reply["error"]["type"] == "MessageError"
        assert server.rejected[reason] == before[reason] + 1
