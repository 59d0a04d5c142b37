"""Heartbeats of clients: the rig knows who is alive, and says who is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from dsp.errors import InputError
from edge.latency_budget import StageTimes
from edge.stream import Client, CommandClient, CommandServer, Publisher
from edge.stream import clients as module
from edge.stream.clients import MAX_CLIENTS, Clients

ANY = "tcp://127.0.0.1:0"


def wait_for(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def test_a_client_is_known_while_it_lives_and_leaves_with_a_word() -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    with Publisher(ANY) as publisher, CommandServer(ANY) as server:
        server.clients.listen(lambda kind, fields: told.append((kind, fields)))
        with Client(publisher.address, server.address, streams=("doa",), name="kitchen screen") as client:
            client.wait_connected(5)
            wait_for(lambda: len(server.clients.to_list()) == 1)
            (row,) = server.clients.to_list()
            assert row["name"] == "kitchen screen" and row["alive"] and row["silent_s"] < 3
            assert row["client"] == client.clock.client_id
        wait_for(lambda: server.clients.to_list() == [])
    assert told == []  # who says goodbye is not lost


def test_a_silent_client_is_told_once_and_its_return_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_SILENT_S", 0.4)
    told: list[tuple[str, dict[str, Any]]] = []
    with CommandServer(ANY) as server:
        server.clients.listen(lambda kind, fields: told.append((kind, fields)))
        stranger = CommandClient(server.address)  # a client in any language: one command a second
        assert stranger.command("client.beat", client="abc", name="plain") == {"timeout_s": 0.4}
        wait_for(lambda: len(told) == 1)
        kind, fields = told[0]
        assert kind == "client_lost" and fields["client"] == "abc" and fields["name"] == "plain"
        assert 0.4 <= fields["silent_s"] < 5
        time.sleep(0.5)
        assert len(told) == 1 and not server.clients.to_list()[0]["alive"]
        stranger.command("client.beat", client="abc", name="plain")
        assert told[1][0] == "client_returned" and server.clients.to_list()[0]["alive"]
        stranger.command("client.beat", client="abc", leaving=True)
        assert server.clients.to_list() == []
        stranger.close()


def test_a_listener_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients()
    clients.beat("a")
    clients._entries["a"].heard_ns -= 4_000_000_000
    told: list[str] = []

    def fail(kind: str, fields: dict[str, Any]) -> None:
        raise RuntimeError("inside")

    clients.listen(fail)
    clients.listen(lambda kind, fields: told.append(kind))
    clients.expire()
    assert told == ["client_lost"] and "could not be told" in caplog.text
    clients._entries["a"].heard_ns -= 1_000_000_000_000
    clients.expire()
    assert clients.to_list() == []  # forgotten in the end


def test_the_slowest_client_is_the_stage_receive() -> None:
    clients = Clients()
    clients.beat("a", "near", receive={"p50_ms": 0.5, "p99_ms": 2.0, "count": 250})
    clients.beat("b", "far", receive={"p50_ms": 9.0, "p99_ms": 41.0, "count": 240})
    clients.beat("c", "tells none")
    (stage,) = StageTimes.receive(clients.to_list()).values()
    assert stage["client"] == "far" and stage["p99_ms"] == 41.0 and not stage["kept"]
    clients.beat("b", "far", leaving=True)
    assert StageTimes.receive(clients.to_list())["receive"]["client"] == "near"
    clients._entries["a"].heard_ns -= 4_000_000_000
    clients.expire()
    assert StageTimes.receive(clients.to_list()) == {}  # nobody knows how it is with a client that is lost


@pytest.mark.parametrize(
    "args",
    [
        {"client": ""},
        {"client": 7},
        {"client": "x" * 65},
        {"client": "a", "name": ["x"]},
        {"client": "a", "receive": 5},
        {"client": "a", "receive": {"p50_ms": 1.0}},
        {"client": "a", "receive": {"p50_ms": 1.0, "p99_ms": float("nan"), "count": 3}},
        {"client": "a", "receive": {"p50_ms": 1.0, "p99_ms": "9", "count": 3}},
    ],
)
def test_rubbish_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"client\.beat"):
        Clients().beat(**args)


def test_a_flood_of_clients_is_bounded() -> None:
    clients = Clients()
    for n in range(MAX_CLIENTS):
        clients.beat(str(n))
    with pytest.raises(InputError, match="known already"):
        clients.beat("one more")
    clients.beat("0")  # those that are known go on
    assert len(clients.to_list()) == MAX_CLIENTS
