"""Publisher and client over real sockets: what is promised arrives, what is lost is counted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import msgspec
import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.stream import Client, Publisher, StreamEnded, StreamLost, StreamTimeout
from edge.stream.client import SILENT_S
from edge.stream.messages import Header, pack, topic
from edge.stream.meter import measure
from edge.stream.publisher import EVERY_HWM

ANY = "tcp://127.0.0.1:0"
REPO = Path(__file__).parents[2]


def wait_for(condition, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


def test_nothing_is_lost_after_the_handshake() -> None:
    """Publishing the moment `wait_connected` returns loses nothing; 20 fresh connections in a row."""
    with Publisher(ANY) as publisher:
        for _ in range(20):
            with Client(publisher.address, streams=("doa", "event")) as client:
                client.wait_connected(5)
                first = publisher.publish("doa", 1, data={"n": 0})
                publisher.publish("doa", 2, data={"n": 1})
                got = [client.receive(5).seq, client.receive(5).seq]
                assert got == [first, first + 1]
                assert client.statistics()["doa"]["lost"] == 0


def test_many_threads_publish_in_one_order() -> None:
    """The lock makes the order on the wire the order of the numbers, whoever publishes."""
    with Publisher(ANY) as publisher, Client(publisher.address, streams=("doa", "levels")) as client:
        client.wait_connected(5)

        def publish(worker: int) -> None:
            for n in range(250):
                publisher.publish("doa" if n % 2 else "levels", n, data={"worker": worker, "n": n})

        threads = [threading.Thread(target=publish, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        messages = [client.receive(10) for _ in range(1000)]
        for thread in threads:
            thread.join()
        assert publisher.sent == {"doa": 500, "levels": 500}
        for stream in ("doa", "levels"):
            assert [m.seq for m in messages if m.stream == stream] == list(range(500))
        for worker in range(4):  # and each thread's own order is kept within a stream
            for stream in ("doa", "levels"):
                mine = [m.data["n"] for m in messages if m.stream == stream and m.data["worker"] == worker]
                assert mine == sorted(mine) and len(mine) == 125
        counts = client.statistics()
        assert all(c["lost"] == c["reordered"] == c["repeated"] == 0 for c in counts.values())


def test_samples_and_pictures_arrive_as_they_were() -> None:
    rng = np.random.default_rng(1)
    sound = rng.standard_normal((240, 4)).astype(np.float32)
    picture = rng.integers(0, 255, (48, 64, 3), dtype=np.uint8)
    with Publisher(ANY) as publisher, Client(publisher.address, streams=("foa24", "video")) as client:
        client.wait_connected(5)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        publisher.publish("foa24", now - 10_000_000, sound, duration_ns=10_000_000)
        message = client.receive(5)
        assert message.stream == "foa24" and message.header.units == "full scale +-1"
        assert np.array_equal(message.array, sound)
        assert 0 <= message.age_ms < 5000  # since the end of the block, not since its start
        assert message.received_ns - message.t_ns == pytest.approx(message.age_ms * 1e6 + 10_000_000)
        publisher.publish("video", now, picture)
        assert np.array_equal(client.receive(5).image(), picture)
        jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
        publisher.publish("video", now, jpeg, shape=picture.shape)
        message = client.receive(5)
        assert message.array is None and message.image().shape == (48, 64, 3)
        assert np.array_equal(message.image(), cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR))


def test_a_sleeping_reader_finds_all_the_sound_and_only_the_newest_picture() -> None:
    picture = np.zeros((90, 160, 3), np.uint8)
    block = np.zeros((240, 4), np.float32)
    with Publisher(ANY) as publisher, Client(publisher.address, streams=("foa24", "video")) as client:
        client.wait_connected(5)
        for n in range(300):
            publisher.publish("foa24", n, block)
            if n % 10 == 0:
                publisher.publish("video", n, picture)
                time.sleep(0.005)
        wait_for(lambda: client.statistics()["foa24"]["received"] == 300)
        wait_for(lambda: client.statistics()["video"]["received"] >= 10)
        time.sleep(0.1)
        messages = [client.receive(5)]
        while messages[-1].seq != 299:
            messages.append(client.receive(5))
        pictures = [m for m in messages if m.stream == "video"]
        assert [m.seq for m in messages if m.stream == "foa24"] == list(range(300))
        assert len(pictures) == 1 and pictures[0].seq == 29
        counts = client.statistics()["video"]
        assert counts["superseded"] == counts["received"] - 1
        assert counts["received"] + counts["lost"] == 30


def test_a_full_queue_drops_the_oldest_and_counts() -> None:
    with Publisher(ANY) as publisher, Client(publisher.address, streams=("doa",), max_queued=10) as client:
        client.wait_connected(5)
        for n in range(50):
            publisher.publish("doa", n, data={})
        wait_for(lambda: client.statistics()["doa"]["received"] == 50)
        assert [client.receive(5).seq for _ in range(10)] == list(range(40, 50))
        assert client.statistics()["doa"]["overflowed"] == 40


def test_late_joiners_get_the_last_state_once() -> None:
    with Publisher(ANY) as publisher:
        publisher.publish("home", 1, data={"lamp": False})
        publisher.publish("home", 2, data={"lamp": True})
        with Client(publisher.address, streams=("home", "event")) as client:
            client.wait_connected(5)
            state = client.receive(5)
            assert state.retained and state.seq == 1 and state.data == {"lamp": True}
            publisher.publish("home", 3, data={"lamp": False})
            change = client.receive(5)
            assert not change.retained and change.seq == 2
            assert client.statistics()["home"] == client.statistics()["home"] | {"received": 1, "lost": 0}
            with pytest.raises(StreamTimeout, match="sent nothing on home, event"):
                client.receive(0.2)


def test_a_restarted_publisher_is_seen_and_followed() -> None:
    publisher = Publisher(ANY)
    with Client(publisher.address, streams=("doa", "video")) as client:
        client.wait_connected(5)
        publisher.publish("doa", 1, data={})
        publisher.publish("doa", 2, data={})
        publisher.close()
        assert [m.seq for m in client.messages(5)] == [0, 1]  # and ends, because the end was announced
        with pytest.raises(StreamTimeout, match=r"for 0\.2 s|silent"):
            client.receive(0.2)
        with Publisher(publisher.address) as again:
            deadline = time.monotonic() + 10
            seen = None
            while seen is None and time.monotonic() < deadline:
                again.publish("doa", 1, data={})
                again.publish("video", 1, np.zeros((2, 2, 3), np.uint8))
                try:
                    seen = client.receive(0.1)
                except StreamTimeout:
                    continue
            assert seen is not None and seen.epoch == again.epoch != publisher.epoch
            assert client.statistics()["doa"]["restarted"] == 1
            # pictures come from the new address
            while client.statistics()["video"]["restarted"] == 0 and time.monotonic() < deadline:
                again.publish("video", 1, np.zeros((2, 2, 3), np.uint8))
                time.sleep(0.05)
            assert client.statistics()["video"]["restarted"] == 1


def test_silence_is_an_error_that_says_which() -> None:
    with Client("tcp://127.0.0.1:1", streams=("doa",)) as client:
        with pytest.raises(StreamTimeout, match="no publisher answered at tcp://127"):
            client.wait_connected(0.2)
        with pytest.raises(StreamTimeout, match="nothing heard from"):
            next(client.messages(0.1))
        assert not client.connected
    with pytest.raises(StreamEnded):
        client.receive(0.1)


def test_wrong_use_is_named() -> None:
    with Publisher(ANY) as publisher:
        with pytest.raises(InputError, match="there is no stream 'foa'"):
            publisher.publish("foa", 0, data={})
        with pytest.raises(InputError, match="complex128"):
            publisher.publish("foa24", 0, np.zeros(4, np.complex128))
        with pytest.raises(InputError, match="JPEG"):
            publisher.publish("video", 0, b"not a picture", shape=(1, 1, 3))
        with pytest.raises(InputError, match="MessagePack"):
            publisher.publish("doa", 0, data={"x": object()})
        with pytest.raises(InputError, match="there is no stream"):
            Client(publisher.address, streams=("doa", "nope"))
        with pytest.raises(DeviceError, match="is in use"):
            Publisher(publisher.address)
        with pytest.raises(InputError, match="commands_address"), Client(publisher.address) as client:
            client.command("home.describe")
        assert publisher.sent == {}  # what was refused took no number
    with pytest.raises(DeviceError, match="is closed"):
        publisher.publish("doa", 0, data={})
    for address in ("tcp://0.0.0.0:0", "tcp://*:0", "tcp://10.0.0.1:5771"):
        with pytest.raises(InputError, match="needs keys"):
            Publisher(address)


@pytest.fixture(scope="module")
def hostile():
    """A publisher under our control that speaks anything, and a client that listens to it."""
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    client = Client(f"tcp://127.0.0.1:{port}", streams=("doa",))
    subscribed: set[bytes] = set()
    while topic("doa") not in subscribed or topic("beat") not in subscribed:
        assert socket.poll(5000)
        subscribed.add(socket.recv()[1:])
    yield socket, client
    client.close()
    context.destroy(linger=0)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["doa", "beat"]),
    st.lists(st.binary(max_size=120), max_size=4)
    | st.dictionaries(
        st.sampled_from(["next", "latest_address", "retained", "closing", "x"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(-5, 5), max_size=3),
        max_size=4,
    ),
)
def test_hostile_messages_are_dropped_and_the_client_lives(hostile, stream, rest) -> None:
    """Random parts, and well-formed headers with rubbish in `data`; a good message still comes through."""
    socket, client = hostile
    if isinstance(rest, dict):
        try:
            body = msgspec.msgpack.encode(
                {
                    "v": 1,
                    "stream": stream,
                    "epoch": 1,
                    "seq": 0,
                    "t_ns": 0,
                    "data": {**rest, "closing": False},
                }
            )
        except OverflowError:
            return
        parts = [body, b""]
    else:
        parts = rest
    socket.send_multipart([topic(stream), *parts])
    hostile_epoch = time.monotonic_ns()
    socket.send_multipart(pack(Header(stream="doa", epoch=hostile_epoch, seq=3, t_ns=0, data={"good": True})))
    while True:
        message = client.receive(5)
        if message.epoch == hostile_epoch:
            break
    assert message.data == {"good": True}


def test_rejected_messages_are_counted_by_reason(hostile) -> None:
    socket, client = hostile
    before = dict(client.rejected)
    good = {"v": 1, "stream": "doa", "epoch": 1, "seq": 0, "t_ns": 0}
    socket.send_multipart([topic("doa"), b"\xc1", b""])
    socket.send_multipart([topic("doa"), msgspec.msgpack.encode({**good, "v": 9}), b""])
    socket.send_multipart([topic("doa"), b"\0" * ((1 << 20) + 1), b""])
    wait_for(lambda: sum(client.rejected.values()) >= sum(before.values()) + 3)
    grown = {reason: client.rejected[reason] - before[reason] for reason in before}
    assert grown == {"malformed": 1, "wrong_version": 1, "oversized": 1}


def test_a_stranger_with_plain_zeromq_understands_it() -> None:
    """No Hearth code on the receiving side: three parts, a MessagePack map, little-endian samples."""
    block = np.linspace(-1, 1, 960, dtype=np.float32).reshape(240, 4)
    with Publisher(ANY) as publisher, zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.setsockopt(zmq.SUBSCRIBE, b"foa24\0")
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(publisher.address)
        while not socket.poll(20):  # a stranger does not know the handshake: send until it hears
            publisher.publish("foa24", 77, block)
        name, header, payload = socket.recv_multipart()
    fields = msgspec.msgpack.decode(header)
    assert name == b"foa24\0" and fields["v"] == 1 and fields["t_ns"] == 77
    assert np.array_equal(np.frombuffer(payload, "<f4").reshape(fields["shape"]), block)


def test_a_subscriber_that_never_reads_costs_nobody_anything() -> None:
    """Beyond its queue it loses messages; the one beside it gets every one, and the publisher is not held."""
    block = np.zeros((240, 4), np.float32)
    total = EVERY_HWM + 20_000  # more than its queues and the buffers of the connection can hold
    with (
        Publisher(ANY) as publisher,
        zmq.Context() as context,
        context.socket(zmq.SUB) as stuck,
        Client(publisher.address, streams=("foa24",)) as client,
    ):
        stuck.setsockopt(zmq.SUBSCRIBE, b"foa24\0")
        stuck.setsockopt(zmq.RCVHWM, 100)
        stuck.setsockopt(zmq.LINGER, 0)
        stuck.connect(publisher.address)
        client.wait_connected(5)
        got = 0
        for n in range(total):
            publisher.publish("foa24", n, block)
            if n % 500 == 499:
                while got <= n:
                    assert client.receive(10).seq == got
                    got += 1
        while got < total:
            assert client.receive(10).seq == got
            got += 1
        assert client.statistics()["foa24"]["lost"] == 0
        late = 0
        while stuck.poll(200):
            stuck.recv_multipart()
            late += 1
        assert late < total


PUBLISHER = """
import sys, time, numpy as np
from edge.stream import Publisher
publisher = Publisher(sys.argv[1])
print(publisher.address, flush=True)
while True:
    publisher.publish("doa", 0, data={})
    time.sleep(0.01)
"""


def test_a_killed_publisher_is_noticed_and_its_successor_followed() -> None:
    def start(address: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, address], stdout=subprocess.PIPE, text=True, cwd=REPO
        )
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    process, address = start(ANY)
    try:
        with Client(address, streams=("doa",)) as client:
            client.wait_connected(10)
            first = client.receive(10)
            process.kill()
            process.wait()
            killed = time.monotonic()
            with pytest.raises(StreamLost, match="is silent since"):
                for _ in client.messages():  # without any time-out: the heartbeat tells
                    pass
            assert time.monotonic() - killed < SILENT_S + 2
            assert not client.connected
            with pytest.raises(StreamTimeout) as again:  # told once; from now on only what was asked for
                client.receive(0.2)
            assert not isinstance(again.value, StreamLost)
            process, _ = start(address)
            after = client.receive(20)
            assert after.epoch != first.epoch
            assert client.statistics()["doa"]["restarted"] == 1
            wait_for(lambda: client.connected, 10)
    finally:
        process.kill()
        process.wait()


def test_the_example_prints_directions_and_ends_with_the_publisher() -> None:
    with Publisher(ANY) as publisher:
        example = subprocess.Popen(
            [sys.executable, str(REPO / "examples" / "subscriber.py"), publisher.address],
            stdout=subprocess.PIPE,
            text=True,
        )
        stop = threading.Event()

        def publish() -> None:
            while not stop.wait(0.02):
                data = {"azimuth_deg": -31.5, "confidence": 0.75, "active": True}
                publisher.publish("doa", 12_300_000_000, data=data)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert example.stdout is not None
            assert example.stdout.readline().split() == ["12.3", "s", "-31.5", "deg", "0.75"]
            time.sleep(1.2)  # a heartbeat is not the end
            assert example.poll() is None
            stop.set()
            thread.join()
            publisher.close()
            assert example.wait(10) == 0
        finally:
            stop.set()
            thread.join()
            example.kill()
            example.communicate()


def test_the_meter_tells_losses_and_outlives_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reports is what was sent: counts, ages, a loss made on purpose, and a pause is not the end."""
    monkeypatch.setattr("edge.stream.meter.MAX_SILENCE_S", 0.3)
    publisher = Publisher(ANY)
    with Client(publisher.address, streams=("doa", "levels")) as client:
        client.wait_connected(5)

        def publish() -> None:
            for n in range(20):
                age_ns = 100_000_000 + n * 10_000_000
                publisher.publish("doa", monotonic_ns() - age_ns, duration_ns=100_000_000, data={})
                publisher.publish("levels", 0, data={})
            time.sleep(1.0)
            publisher._next["levels"] += 3  # three numbers that are never sent
            publisher.close()

        thread = threading.Thread(target=publish)
        thread.start()
        found = measure(client, ("doa", "levels"))
        thread.join()
    assert found["ended"] == "publisher ended" and found["in_order"] is False
    assert found["streams"]["levels"]["lost"] == 3  # told by the last beat alone
    assert found["streams"]["doa"]["lost"] == 0 and found["streams"]["doa"]["received"] == 20
    latency = found["doa_latency"]
    assert latency["window_ms"] == 100
    assert 95 <= latency["since_window_end_p50_ms"] < 1000
    assert latency["since_first_sample_p50_ms"] == pytest.approx(latency["since_window_end_p50_ms"] + 100)
