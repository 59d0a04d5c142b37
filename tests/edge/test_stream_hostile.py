"""Hostile messages against real sockets: counted, dropped, and nobody else notices.

The mutations are those of bench/hostile_messages.py; bench/stream_security.py sends 100,000 and more of them.
"""

from __future__ import annotations

import random
import socket as sockets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import hostile_messages as hostile
from capture.rig import DEFAULT_RIG, load_rig
from dsp.errors import DeviceError, InputError
from edge.home import HomeService, home_of
from edge.stream import Client, CommandClient, CommandServer, Publisher, command_server
from edge.stream.messages import Header, MessageError, pack, unpack
from edge.stream.pace import Pace
from edge.stream.received import MAX_PIXELS, Message

ANY = "tcp://127.0.0.1:0"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Publisher, CommandServer]]:
    """A rig's sockets with a home behind them; commands are read as fast as they come."""
    monkeypatch.setattr(command_server, "_RATE_PER_S", 1e9)
    rig = load_rig(DEFAULT_RIG)
    with Publisher(ANY) as publisher, CommandServer(ANY) as server:
        HomeService(rig, home_of(rig), server, publisher)
        yield publisher, server


def port_of(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def wait_for(true: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_mutated_commands_are_answered_or_counted(service: tuple[Publisher, CommandServer]) -> None:
    _, server = service
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(server.address)
        hostile.flood_commands(socket, 6000, seed=1)
        with closing(CommandClient(server.address)) as client:
            assert len(client.command("home.describe", timeout_s=20)["devices"]) > 3
    assert min(server.rejected["malformed"], server.rejected["wrong_version"], server.served) > 20
    assert server.access.cut == {}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["ops", "time.ping", "client.beat", "home.command", "home.write", "agent.declare", "x"]),
    st.dictionaries(
        st.sampled_from(
            ["t0_ns", "client", "name", "leaving", "device_id", "command", "args", "value", "self"]
        ),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(1 << 63), (1 << 64) - 1)
            | st.floats()
            | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=5,
    ),
)
def test_any_arguments_get_an_answer(service: tuple[Publisher, CommandServer], op: str, args: dict) -> None:
    _, server = service
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(server.address)
        socket.send(hostile.encode_data(hostile.Request(op=op, args=args)))
        assert socket.poll(20_000)
        assert len(socket.recv()) < 100_000


def test_mutated_subscriptions_and_handshakes_hurt_no_subscriber(
    service: tuple[Publisher, CommandServer],
) -> None:
    publisher, server = service
    with Client(publisher.address, streams=("doa",)) as client:
        client.wait_connected(20)
        with closing(hostile.RawPeer(port_of(publisher.address), b"SUB")) as peer:
            hostile.flood_subscriptions(peer, 12_000, seed=2)
            wait_for(lambda: publisher.rejected["malformed"] > 50)
            deadline, number = time.monotonic() + 20, 0
            while not publisher.access.cut and time.monotonic() < deadline:
                number += 1  # well-formed, and each one stays in ZeroMQ's memory
                peer.send([b"\1" + number.to_bytes(200, "big")])
            assert publisher.access.cut == {"flood": 1}
        for address in (publisher.address, server.address):
            hostile.flood_handshakes(port_of(address), 150, seed=3)
        for number in range(100):
            publisher.publish("doa", number, data={"n": number})
        assert [client.receive(20).data["n"] for _ in range(100)] == list(range(100))
        with Client(publisher.address, server.address, streams=("doa",)) as another:
            another.wait_connected(20)
            assert another.command("ops", timeout_s=20)


def test_a_hostile_rig_is_survived(service: tuple[Publisher, CommandServer]) -> None:
    """What a client makes of 6000 mutated messages: nothing that it could not check, and it still reads."""
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    try:
        with Client(f"tcp://127.0.0.1:{port}") as client:
            wanted = {b"\1" + hostile.topic(name) for name in ("foa24", "doa", "event", "beat")}
            while wanted:
                assert socket.poll(20_000)
                wanted.discard(socket.recv())
            hostile.flood_client(socket.send_multipart, 6000, seed=4)
            socket.send_multipart(pack(Header(stream="doa", epoch=99, seq=0, t_ns=0, data={"good": True})))
            deadline, message = time.monotonic() + 30, None
            while message is None or message.epoch != 99:
                assert time.monotonic() < deadline, "the good message did not come through"
                message = next_or_none(client)
                if message is not None and message.header.encoding == "jpeg":
                    with pytest.raises(InputError):
                        message.image()
                elif message is not None:
                    assert message.array is None or message.array.nbytes == len(message.payload)
            assert client.rejected["malformed"] > 1000 and client.rejected["wrong_version"] > 20
    finally:
        context.destroy(linger=0)


def next_or_none(client: Client) -> Message | None:
    """A hostile rig may say that it ends, or fall silent; neither is the end of the client."""
    try:
        return client.receive(0.05)
    except DeviceError:
        return None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_unpack_raises_one_error_only(seed: int) -> None:
    rng, samples = random.Random(seed), hostile.published()
    others = [part for sample in samples for part in sample]
    for _ in range(20):
        try:
            header, payload = unpack(hostile.mutate(rng, rng.choice(samples), others))
        except MessageError:
            continue
        Message(header, payload, 0).array  # noqa: B018 - of what passes, the array can be read


def test_a_picture_that_claims_gigabytes_is_not_decoded() -> None:
    frame = (
        b"\xff\xc0\x00\x11\x08" + (60000).to_bytes(2, "big") + (60000).to_bytes(2, "big") + b"\x03" + bytes(9)
    )
    header = Header(stream="video", epoch=1, seq=0, t_ns=0, shape=(1, 1, 3), dtype="uint8", encoding="jpeg")
    assert MAX_PIXELS < 60000 * 60000
    with pytest.raises(InputError, match="60000 x 60000"):
        Message(header, b"\xff\xd8" + frame + bytes(50), 0).image()


def test_a_message_without_end_is_cut(service: tuple[Publisher, CommandServer]) -> None:
    """libzmq would collect its parts until the memory is full."""
    _, server = service
    with closing(hostile.RawPeer(port_of(server.address), b"DEALER")) as peer:
        deadline = time.monotonic() + 20
        while not server.access.cut and time.monotonic() < deadline:
            peer.send([bytes(100_000)], more=True)
            time.sleep(0.002)
    assert server.access.cut and set(server.access.cut) <= {"unfinished", "flood"}
    with closing(CommandClient(server.address)) as client:
        assert client.command("ops", timeout_s=20)


def test_a_flood_of_commands_leaves_the_others_their_turn() -> None:
    """At the true pace: somebody sends as fast as he can, another client still gets its answers."""
    with CommandServer(ANY) as server, closing(CommandClient(server.address)) as client:
        stop = threading.Event()

        def flood() -> None:
            with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(server.address)
                body = hostile.commands()[0]
                while not stop.is_set():
                    if socket.poll(20, zmq.POLLOUT):
                        socket.send_multipart([b"", body])
                    hostile.drain(socket)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            wait_for(lambda: server._pace.waited > 10)
            before = server.served
            for _ in range(20):
                assert client.command("ops", timeout_s=20)
            assert server.served > before + 20  # the flood went on meanwhile
        finally:
            stop.set()
            thread.join()


def test_the_pace_lets_no_more_through_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of its own: 1000 turns at 100 a second and 50 saved up take 9.5 s."""
    now = [0.0]

    class Closing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0.0
            return False

    monkeypatch.setattr("edge.stream.pace.time.monotonic", lambda: now[0])
    pace = Pace(100.0, 50.0)
    for _ in range(1000):
        pace.take(Closing())
    assert 9.4 < now[0] < 9.6
    now[0] += 1000.0
    for _ in range(50):
        pace.take(Closing())
    assert now[0] < 1009.7


def test_idle_connections_are_not_cut(service: tuple[Publisher, CommandServer]) -> None:
    """Connections that only stand there are nobody's fault."""
    publisher, _ = service
    with Client(publisher.address, streams=("doa",)) as client:
        client.wait_connected(20)
        time.sleep(0.5)
        assert publisher.access.cut == {}
        publisher.publish("doa", 1, data={})
        assert client.receive(5)


def test_junk_on_the_port_is_not_a_crash(service: tuple[Publisher, CommandServer]) -> None:
    publisher, server = service
    for address in (publisher.address, publisher.latest_address, server.address):
        port = port_of(address)
        for junk in (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01" + bytes(200),
            bytes(5000),
            b"\xff" * 64,
        ):
            with sockets.create_connection(("127.0.0.1", port), 5) as stream:
                stream.sendall(junk)
    with Client(publisher.address, server.address, streams=("doa", "video")) as client:
        client.wait_connected(20)
        assert client.command("ops", timeout_s=20)
