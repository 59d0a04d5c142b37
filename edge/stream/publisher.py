"""The sending side of the stream: numbered messages, two sockets by delivery class, handshake, heartbeat."""

from __future__ import annotations

import collections
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import zmq
from numpy.typing import NDArray

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.stream.access import Access
from edge.stream.addresses import bind
from edge.stream.context import Context
from edge.stream.guard import Guard, Limit
from edge.stream.local_door import LocalDoor
from edge.stream.messages import MESSAGES, Encoding, Header, describe_payload, pack, topic

log = logging.getLogger(__name__)

# Messages queued per subscriber before ZeroMQ drops. A live rig sends about 180 a second on the main socket,
# so a subscriber may stand still for about 40 s (some 15 MB) before it loses sound. A picture is worth
# nothing when it is old: two frames and a small socket buffer, so that even a plain subscriber never sees a
# long past.
EVERY_HWM = 8000
LATEST_HWM = 2
LATEST_SOCKET_BUFFER = 256 * 1024
BEAT_S = 1.0
SUBSCRIPTIONS_S = 0.02  # how soon a handshake is answered
# What subscribers may send: a few hundred bytes of subscriptions, then heartbeats. Each subscription stays in
# ZeroMQ's memory as long as its connection stands.
_LIMIT = Limit(burst_bytes=128 << 10, bytes_s=4 << 10, unfinished_bytes=256 << 10)
_MAX_SUBSCRIPTION_BYTES = 1024  # CURVE's own handshake needs 300
_MAX_RECEIVED = 1000  # subscriptions read at a time, and handshakes that may wait for an answer
_MAX_ANSWERED = 20  # handshakes answered at a time: they must not hold up what is published


class Publisher:
    """Sends messages of the table `MESSAGES` to any number of subscribers.

    address:        where everything but pictures goes, e.g. "tcp://127.0.0.1:5771" (port 0: the system
                    chooses; `address` tells).
    latest_address: where streams with delivery "latest" (video) go. Default: the same host with a port that
                    the system chooses, or `<path>-latest` for ipc; the handshake tells it to clients.
    access:         keys of the rig and the list of allowed clients; needed for an address off loopback.
                    `local_address` is then an ipc address for programs of the same user on this host, who
                    need no key; otherwise it is `address`.

    Thread-safe: any thread may publish; one lock makes the order on the wire the order of the numbers.
    Nothing blocks on a slow subscriber: beyond its queue, messages for that one are dropped, which it sees by
    `seq`.
    What subscribers send that is no subscription is counted in `rejected` and dropped.
    Raises InputError for an address off loopback without keys, DeviceError for one in use.
    """

    def __init__(self, address: str, latest_address: str | None = None, access: Access | None = None) -> None:
        self.epoch = secrets.randbits(48)
        self._lock = threading.Lock()
        self._next: dict[str, int] = {}
        self._retained: dict[str, Header] = {}
        self._listeners: list[Callable[[Header], None]] = []
        self._closed = False
        self._closing = threading.Event()
        self._context = Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._wishes: collections.deque[tuple[zmq.Socket[bytes], bytes]] = collections.deque()
        self.rejected = {"malformed": 0, "flooded": 0}
        self.access = access or Access()
        self._guard = Guard(self._context, self.access)
        self._door = LocalDoor("stream", address, self.access)
        try:
            self._main = self._open(EVERY_HWM)
            self._guard.watch(self._main, "the stream", address, _LIMIT)
            self._door.bind(self._main)
            self.address = bind(self._main, address, "stream", self.access)
            self.local_address = self._door.address or self.address
            latest_address = latest_address or _beside(self.address)
            self._latest = self._open(LATEST_HWM, LATEST_SOCKET_BUFFER)
            self._guard.watch(self._latest, "the pictures", latest_address, _LIMIT)
            self._door.bind(self._latest, "-latest")
            self.latest_address = bind(self._latest, latest_address, "stream", self.access)
        except BaseException:
            self._guard.close()
            self._context.destroy(linger=0)
            self._door.close()
            raise
        self._guard.start()
        self._thread = threading.Thread(target=self._serve, name="stream-publisher", daemon=True)
        self._thread.start()

    def _open(self, hwm: int, buffer: int | None = None) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.XPUB)
        socket.setsockopt(zmq.SNDHWM, hwm)
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # a client that comes back is seen to subscribe again
        socket.setsockopt(zmq.MAXMSGSIZE, _MAX_SUBSCRIPTION_BYTES)  # beyond it ZeroMQ cuts the connection
        if buffer is not None:
            socket.setsockopt(zmq.SNDBUF, buffer)
        self._sockets.append(socket)
        return socket

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish(
        self,
        stream: str,
        t_ns: int,
        payload: NDArray[Any] | bytes | None = None,
        *,
        units: str | None = None,
        data: dict[str, Any] | None = None,
        duration_ns: int = 0,
        shape: tuple[int, ...] | None = None,
        encoding: Encoding | None = None,
    ) -> int:
        """Send one message; returns its sequence number.

        payload: an array (sent raw), the bytes of a JPEG (with `shape` = (height, width, 3)), or None.
        units:   default: what the table says.
        Raises InputError for a stream that is not in the table or values that cannot be sent, DeviceError
        after `close`.
        """
        spec = MESSAGES.get(stream)
        if spec is None or stream in ("hello", "beat"):
            names = ", ".join(n for n in MESSAGES if n not in ("hello", "beat"))
            raise InputError(f"there is no stream {stream!r} to publish on; streams: {names}")
        body, shape, dtype, encoding = describe_payload(payload, shape, encoding)
        with self._lock:
            if self._closed:
                raise DeviceError(f"the publisher at {self.address} is closed")
            seq = self._next.get(stream, 0)
            header = Header(
                stream=stream,
                epoch=self.epoch,
                seq=seq,
                t_ns=int(t_ns),
                duration_ns=int(duration_ns),
                shape=shape,
                dtype=dtype,
                units=spec.units if units is None else units,
                encoding=encoding,
                sent_ns=monotonic_ns(),
                data=data or {},
            )
            parts = pack(header, body)
            (self._latest if spec.delivery == "latest" else self._main).send_multipart(parts)
            self._next[stream] = seq + 1
            if spec.delivery == "reliable" and payload is None:
                self._retained[stream] = header
        if spec.delivery == "reliable":
            for listener in self._listeners:
                listener(header)
        return seq

    def listen(self, listener: Callable[[Header], None]) -> None:
        """Call `listener(header)` after each message of a "reliable" stream, in the thread that published it.

        This is how events and the home's state get into the timeline of an episode, whoever publishes them.
        """
        self._listeners.append(listener)

    @property
    def sent(self) -> dict[str, int]:
        """Messages sent so far, per stream."""
        with self._lock:
            return dict(self._next)

    def close(self, linger_s: float = 1.0) -> None:
        """Announce the end, let queued messages leave (at most `linger_s`), close. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._closing.set()
        self._thread.join()
        self._guard.close()
        with self._lock:
            self._beat(closing=True)
            for socket in self._sockets:
                socket.close(linger=int(linger_s * 1000))
        self._context.term()
        self._door.close()

    def _serve(self) -> None:
        """Answer handshakes and send the heartbeat; the only reader of the sockets."""
        next_beat = time.monotonic()
        while not self._closing.wait(SUBSCRIPTIONS_S):
            with self._lock:
                for number, socket in enumerate(self._sockets):
                    self._receive(number, socket)
                for _ in range(min(len(self._wishes), _MAX_ANSWERED)):
                    self._greet(*self._wishes.popleft())
                if time.monotonic() >= next_beat:
                    self._beat()
                    next_beat = time.monotonic() + BEAT_S

    def _receive(self, number: int, socket: zmq.Socket[bytes]) -> None:
        """Read subscriptions; what is a handshake waits for its answer."""
        greeting = topic("hello")
        for _ in range(_MAX_RECEIVED):  # bounded: a flood of subscriptions must not hold the lock for long
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if not self._guard.heard(number, parts[0]):
                continue
            wish = parts[0].bytes
            if len(parts) != 1 or wish[:1] not in (b"\0", b"\1"):
                self.rejected["malformed"] += 1
            elif wish.startswith(b"\1" + greeting) and 1 <= len(wish) - 1 - len(greeting) <= 32:
                if len(self._wishes) < _MAX_RECEIVED:
                    self._wishes.append((socket, wish[1 + len(greeting) :]))
                else:
                    self.rejected["flooded"] += 1

    def _greet(self, socket: zmq.Socket[bytes], suffix: bytes) -> None:
        retained = [
            {"stream": h.stream, "seq": h.seq, "t_ns": h.t_ns, "units": h.units, "data": h.data}
            for h in self._retained.values()
        ]
        self._send_own(socket, "hello", {"retained": retained}, suffix)

    def _beat(self, closing: bool = False) -> None:
        for socket in self._sockets:
            self._send_own(socket, "beat", {"closing": closing})

    def _send_own(
        self, socket: zmq.Socket[bytes], stream: str, data: dict[str, Any], suffix: bytes = b""
    ) -> None:
        """A message of the protocol itself.

        `next` holds only what goes over this socket: messages of one socket arrive in order, so a receiver
        knows exactly which numbers must have reached it before this one.
        """
        latest = socket is self._latest
        numbers = {s: n for s, n in self._next.items() if (MESSAGES[s].delivery == "latest") == latest}
        data = {"next": numbers, "latest_address": self.latest_address, **data}
        header = Header(stream=stream, epoch=self.epoch, seq=0, t_ns=monotonic_ns(), data=data)
        try:
            with contextlib.suppress(zmq.Again):
                socket.send_multipart(pack(header, suffix=suffix), zmq.NOBLOCK)
        except InputError as error:
            log.warning("cannot send %s: %s", stream, error)


def _beside(address: str) -> str:
    """The default address for "latest" streams beside the main one."""
    if address.startswith("ipc://"):
        return address + "-latest"
    return address.rsplit(":", 1)[0] + ":0"
