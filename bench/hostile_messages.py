"""Hostile messages: real traffic, mutated by chance; and senders that are bound to no protocol.

The mutations are those of a fuzzer that knows a little of the format: bits, lengths and parts, and below that
values of a MessagePack map replaced by others of any type and size.
"""

from __future__ import annotations

import random
import socket as sockets
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import zmq

from edge.stream.messages import Header, Request, encode_data, pack, topic

Parts = list[bytes]

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1 << 62, -(1 << 62), (1 << 64) - 1, 1.5, float("nan"), float("inf"), "", "x",
    "\0", "../../etc/passwd", "a" * 300, b"", b"\xff" * 40, [], {}, [[]], {"": {}}, [0] * 50, {"v": 1},
)  # fmt: skip
_HEADERS = (
    b"\xc1",
    b"\xdf\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91" * 3000,
)


def commands() -> list[bytes]:
    """Requests as clients send them, one of each kind."""
    device = {"device_id": "living_room_fan_1"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("ops", {}),
        ("time.ping", {"t0_ns": 123}),
        ("client.beat", {"client": "abc", "name": "x", "leaving": False}),
        ("live.stats", {}),
        ("home.describe", {}),
        ("home.state", device),
        ("home.command", {**device, "command": "On", "args": {}, "endpoint": 1}),
        ("home.write", {**device, "attribute": "1.FanControl.FanMode", "value": 1}),
        ("agent.ready", {"agent": "x"}),
        ("agent.heard", {"text": "turn it off", "evidence": {"p": 0.5}}),
        ("agent.declare", {**device, "evidence": {"scores": [1, 2, 3]}}),
        ("agent.say", {"text": "done"}),
        ("agent.finish", {"answer": "done", "outcome": "done"}),
    ]
    return [encode_data(Request(op=op, args=args)) for op, args in asked]


def published() -> list[Parts]:
    """Messages as a rig publishes them, one of each kind."""
    sound = np.zeros((240, 4), "<f4")
    jpeg = b"\xff\xd8\xff\xe0" + bytes(400)
    common: dict[str, Any] = {"epoch": 7, "t_ns": 10**15}
    told = {"next": {"foa24": 5}, "latest_address": "tcp://127.0.0.1:40001", "closing": False}
    kept = [{"stream": "home", "seq": 1, "t_ns": 1, "units": "", "data": {"devices": {}}}]
    messages: list[tuple[Header, bytes]] = [
        (
            Header(stream="foa24", seq=1, shape=(240, 4), dtype="float32", encoding="raw", **common),
            sound.tobytes(),
        ),
        (Header(stream="video", seq=1, shape=(48, 64, 3), dtype="uint8", encoding="jpeg", **common), jpeg),
        (Header(stream="doa", seq=1, data={"azimuth_deg": 1.5, "active": True}, **common), b""),
        (Header(stream="tracks", seq=1, data={"tracks": [{"id": 1, "azimuth_deg": 3.0}]}, **common), b""),
        (Header(stream="event", seq=1, data={"kind": "gap", "lost_frames": 3}, **common), b""),
        (Header(stream="beat", seq=0, data=told, **common), b""),
        (Header(stream="hello", seq=0, data={**told, "retained": kept}, **common), b""),
    ]
    return [[bytes(part) for part in pack(header, body)] for header, body in messages]


def subscriptions() -> list[bytes]:
    """What a client sends to the stream's socket."""
    return [b"\1" + topic("doa"), b"\1" + topic("hello", b"12345678"), b"\0" + topic("doa"), b"\1", b"\1foa"]


def mutate(rng: random.Random, parts: Sequence[bytes], others: Sequence[bytes]) -> Parts:
    """A message in which one to four things are wrong."""
    changed = [bytes(part) for part in parts]
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed)) if changed else 0
        kind = rng.randrange(12)
        if not changed or kind == 0:
            changed.insert(place, rng.choice((b"", b"\0", rng.randbytes(rng.randrange(60)))))
        elif kind == 1 and len(changed) > 1:
            del changed[place]
        elif kind == 2:
            changed = [*changed, *changed][: rng.randint(1, 12)]
        elif kind == 3:
            changed[place] = rng.choice(_HEADERS)
        elif kind == 4:
            changed[place] = rng.choice(others)
        elif kind < 8:
            changed[place] = _values(rng, changed[place])
        else:
            changed[place] = _bytes(rng, changed[place])
    return changed


def _bytes(rng: random.Random, part: bytes) -> bytes:
    if not part:
        return rng.randbytes(rng.randrange(8))
    at, kind = rng.randrange(len(part)), rng.randrange(5)
    if kind == 0:
        return part[:at]
    if kind == 1:
        return part[:at] + rng.randbytes(rng.randrange(1, 20)) + part[at:]
    if kind == 2:
        return part[:at] + part[at + rng.randrange(1, 9) :]
    if kind == 3:
        return part[:at] + part[at // 2 : at] + part[at:]
    return part[:at] + bytes([part[at] ^ (1 << rng.randrange(8))]) + part[at + 1 :]


def _values(rng: random.Random, part: bytes) -> bytes:
    """One value, key or a whole sub-tree of a MessagePack map is another one."""
    try:
        tree = msgspec.msgpack.decode(part)
        node = tree
        if isinstance(tree, dict) and rng.random() < 0.1:
            return msgspec.msgpack.encode({**tree, "v": rng.choice((0, 2, 9, -1, "1", None))})
        while isinstance(node, dict) and node:
            key = rng.choice(list(node))
            if isinstance(node[key], dict) and node[key] and rng.random() < 0.6:
                node = node[key]
                continue
            kind = rng.randrange(4)
            if kind == 0:
                del node[key]
            elif kind == 1:
                node[str(rng.choice(_VALUES))[:60]] = node.pop(key)
            else:
                node[key] = rng.choice(_VALUES)
            break
        return msgspec.msgpack.encode(tree)
    except (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError, TypeError, RecursionError):
        return _bytes(rng, part)


def flood_commands(socket: zmq.Socket[bytes], number: int, seed: int) -> None:
    """Send mutated requests over a DEALER, and read what comes back."""
    rng, samples = random.Random(seed), commands()
    for sent in range(number):
        parts = mutate(rng, [b"", rng.choice(samples)], samples)
        _send(socket, parts or [b""])
        if sent % 50 == 0:
            drain(socket)
    drain(socket)


class RawPeer:
    """Speaks ZMTP 3 without encryption over plain TCP: what no ZeroMQ library would send, this can.

    Connects anew when it was hung up on; `cuts` counts that.
    """

    def __init__(self, port: int, socket_type: bytes) -> None:
        self.cuts = 0
        self._port, self._type = port, socket_type
        self._stream = self._open()

    def _open(self) -> sockets.socket:
        stream = sockets.create_connection(("127.0.0.1", self._port), 5)
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
        ready = b"\x05READY\x0bSocket-Type" + len(self._type).to_bytes(4, "big") + self._type
        stream.sendall(greeting + b"\x04" + bytes([len(ready)]) + ready)
        return stream

    def send(self, parts: Sequence[bytes], more: bool = False) -> None:
        """Send the parts of a message; with `more`, the last one says that another follows."""
        text = b""
        for number, part in enumerate(parts):
            flag = 2 | (more or number < len(parts) - 1)
            text += bytes([flag]) + len(part).to_bytes(8, "big") + part
        try:
            self._stream.sendall(text)
        except OSError:
            self.cuts += 1
            self._stream.close()
            self._stream = self._open()

    def close(self) -> None:
        self._stream.close()


def flood_subscriptions(peer: RawPeer, number: int, seed: int) -> None:
    """Send mutated subscriptions."""
    rng, samples = random.Random(seed), subscriptions()
    for _ in range(number):
        peer.send(mutate(rng, [rng.choice(samples)], samples) or [b"\1"])


def flood_client(send: Callable[[Parts], object], number: int, seed: int) -> None:
    """Send mutated messages of a rig through `send`, under their true topic or a wrong one."""
    rng, samples = random.Random(seed), published()
    others = [part for sample in samples for part in sample]
    for _ in range(number):
        sample = rng.choice(samples)
        parts = mutate(rng, sample, others)
        if rng.random() < 0.8 and parts:
            parts[0] = sample[0]  # otherwise hardly any would pass the subscriptions
        send(parts or [sample[0]])


def flood_handshakes(port: int, number: int, seed: int) -> None:
    """Connect and say something that is nearly a ZMTP handshake (RFC 23, 26)."""
    rng = random.Random(seed)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
    hello = b"\x04\xc8\x05HELLO\x01\x00" + bytes(72) + rng.randbytes(32) + bytes(8) + rng.randbytes(80)
    ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
    samples = [greeting + hello, greeting.replace(b"CURVE", b"NULL\0") + ready, greeting]
    for _ in range(number):
        text = rng.choice(samples)
        for _ in range(rng.randint(1, 3)):
            text = _bytes(rng, text)
        try:
            with sockets.create_connection(("127.0.0.1", port), 2) as stream:
                stream.sendall(text)
                if rng.random() < 0.1:
                    stream.settimeout(0.05)
                    stream.recv(200)
        except OSError:
            continue


def drain(socket: zmq.Socket[bytes]) -> int:
    """Read what waits; how much that was."""
    read = 0
    while socket.poll(0, zmq.POLLIN):
        socket.recv_multipart()
        read += 1
    return read


def _send(socket: zmq.Socket[bytes], parts: Parts) -> None:
    while not socket.poll(1000, zmq.POLLOUT):
        drain(socket) if socket.socket_type == zmq.DEALER else None
    socket.send_multipart(parts)
