"""The guard of a rig's sockets: asks for keys, names who fails, cuts who was revoked or floods.

One thread per ZeroMQ context. It answers ZAP (RFC 27): libzmq asks it for each CURVE connection whether the
client's key is on the list. It reads the socket monitors, because a handshake that fails shows nowhere else.
And it watches every standing TCP connection, encrypted or not, because libzmq itself would hold any number of
them, and of each a message without end.

libzmq has no call that ends one connection. The guard shuts down its TCP socket (the monitor tells the file
descriptor, the peer's address proves that it is still the same one); libzmq then clears up as for any peer
that went away, and the others notice nothing.
"""

from __future__ import annotations

import logging
import os
import socket as sockets
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

import zmq

from edge.stream.access import Access, Cut
from edge.stream.keys import fingerprint

log = logging.getLogger(__name__)

_ZAP = "inproc://zeromq.zap.01"
_TICK_S = 0.1
_IDLE_S = 0.25
UNPROVEN_S = 3.0  # libzmq ends a handshake that takes longer (addresses.HANDSHAKE_MS)
MAX_CONNECTIONS = 64  # of one socket
MAX_UNPROVEN = 32  # of one socket from one address: connections that have not said anything yet
_PLACED_S = 1.0  # until a refusal is told without an address
_IDLE_BYTES_S = 64.0  # heartbeats of a connection that says nothing else
_TCP_INFO_RECEIVED = 128  # offset of tcpi_bytes_received in Linux's struct tcp_info
_CRYPTOGRAPHIC, _MECHANISM_MISMATCH, _BROKEN_OFF = 0x11000001, 0x11000002, 0
_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


@dataclass(frozen=True, slots=True)
class Limit:
    """What one connection may send: burst_bytes at once, then bytes_s; unfinished_bytes without a message
    coming of it."""

    burst_bytes: float
    bytes_s: float
    unfinished_bytes: float


@dataclass(slots=True)
class _Connection:
    peer: tuple[str, int] | None  # None: not tcp
    since: float
    tokens: float
    received: int = 0
    unfinished: float = 0.0
    looked: float = 0.0
    proven: bool = False
    mark: str | None = None  # fingerprint of the client's key, once it said something
    heard: bool = False


@dataclass(slots=True)
class _Watched:
    name: str
    monitor: zmq.Socket[bytes]
    limit: Limit
    encrypted: bool
    connections: dict[int, _Connection] = field(default_factory=dict)
    failed: int | None = None  # why the handshake failed that is told to be disconnected next
    unplaced: dict[int, float] = field(default_factory=dict)  # such reasons, by whom is not known yet; since


class Guard:
    """Watches sockets of one context. First `watch` each one, then bind it, then `start`; at the end `close`
    before the context is terminated."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], access: Access) -> None:
        self._context, self._access = context, access
        self._lock = threading.Lock()
        self._watched: list[_Watched] = []
        self._closing = threading.Event()
        self._revision = access.revision
        self._zap: zmq.Socket[bytes] | None = None
        if access.key is not None:
            self._zap = context.socket(zmq.ROUTER)
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(_ZAP)
        self._thread = threading.Thread(target=self._run, name="stream-guard", daemon=True)

    def watch(self, socket: zmq.Socket[bytes], name: str, address: str, limit: Limit) -> int:
        """Watch a socket, before it is bound to `address`; name: as it is told in messages. Returns its
        number."""
        where = f"inproc://hearth-monitor-{id(self)}-{len(self._watched)}"
        socket.monitor(where, _EVENTS)
        monitor: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        monitor.setsockopt(zmq.LINGER, 0)
        monitor.connect(where)
        encrypted = self._access.key_for(address) is not None
        self._watched.append(_Watched(name, monitor, limit, encrypted))
        return len(self._watched) - 1

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread and close its sockets; safe to call twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        for watched in self._watched:
            watched.monitor.close(0)
        if self._zap is not None:
            self._zap.close(0)
        self._access.note_seen()

    def heard(self, number: int, frame: zmq.Frame) -> bool:
        """Call it with a frame of every message that the socket `number` received.

        False: drop the message. Its client has been revoked since it connected, or it is libzmq's own: what
        was subscribed by a connection that went away.
        """
        watched, mark = self._watched[number], None
        if watched.encrypted:
            with suppress(zmq.ZMQError):  # only the local ipc endpoint has no key
                mark = str(frame.get("User-Id"))
        try:
            descriptor = int(frame.get(zmq.SRCFD))
        except zmq.ZMQError:
            return False
        with self._lock:
            connection = watched.connections.get(descriptor)
            if connection is not None:
                connection.proven = connection.heard = True
                # A late message of an earlier connection may have the same descriptor: then it is not clear
                # whose it is, and "" is on no list.
                connection.mark = mark if connection.mark in (None, mark) else ""
        if mark is None or self._access.allows(mark):
            return True
        if connection is not None:
            self._cut(descriptor, connection, "revoked")
        return False

    # --- the thread ---

    def _run(self) -> None:
        poller = zmq.Poller()
        for watched in self._watched:
            poller.register(watched.monitor, zmq.POLLIN)
        if self._zap is not None:
            poller.register(self._zap, zmq.POLLIN)
        looked = 0.0
        while not self._closing.is_set():
            busy = any(watched.connections for watched in self._watched)
            poller.poll(int(1000 * (_TICK_S if busy else _IDLE_S)))
            try:
                # In this order: who was let in is known as a connection before the list may change.
                for watched in self._watched:
                    self._read_monitor(watched)
                self._answer_zap()
                if time.monotonic() - looked >= _TICK_S:
                    looked = time.monotonic()
                    self._access.look()
                    self._look_at_connections()
            except zmq.ContextTerminated:
                return
            except Exception:
                log.exception("the guard of the stream goes on after an error")
                self._closing.wait(_TICK_S)

    def _answer_zap(self) -> None:
        for _ in range(100):
            if self._zap is None or not self._zap.poll(0, zmq.POLLIN):
                return
            parts = self._zap.recv_multipart()
            if len(parts) < 8:
                continue
            peer, empty, version, request, _domain, address, _identity, mechanism, *credentials = parts
            host = address.decode("ascii", "replace")[:64]
            mark = b""
            known = version == b"1.0" and mechanism == b"CURVE" and len(credentials) == 1
            if known and self._access.admit(credentials[0], host, "the rig") is not None:
                mark = fingerprint(credentials[0]).encode()
            status = [b"200", b"allowed"] if mark else [b"400", b"this key is not allowed"]
            self._zap.send_multipart([peer, empty, b"1.0", request, *status, mark, b""])

    def _read_monitor(self, watched: _Watched) -> None:
        for _ in range(1000):
            try:
                told, _endpoint = watched.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, value = struct.unpack("=HI", told)
            if event == zmq.EVENT_ACCEPTED:
                self._accepted(watched, value)
            elif event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED):
                with self._lock:
                    connection = watched.connections.pop(value, None)
                if watched.failed is not None:
                    self._place(watched, watched.failed, connection)
                    watched.failed = None
            elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                watched.failed = value
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                watched.failed = _BROKEN_OFF

    def _accepted(self, watched: _Watched, descriptor: int) -> None:
        now = time.monotonic()
        connection = _Connection(_peer(descriptor), now, watched.limit.burst_bytes, looked=now)
        with self._lock:
            watched.connections[descriptor] = connection
            others = [c for c in watched.connections.values() if c is not connection and c.peer]
        if connection.peer is None:
            return
        host = connection.peer[0]
        unproven = sum(
            not c.proven and now - c.since < UNPROVEN_S and c.peer is not None and c.peer[0] == host
            for c in others
        )
        if len(others) >= MAX_CONNECTIONS or unproven >= MAX_UNPROVEN:
            log.debug("%s: too many connections, one more from %s is cut", watched.name, host)
            self._cut(descriptor, connection, "connections")

    def _place(self, watched: _Watched, code: int, connection: _Connection | None) -> None:
        """Tell who failed. A peer that was gone before its address could be read will most likely try again
        in a moment; only when it does not, it is told without."""
        if connection is not None and connection.peer is not None:
            watched.unplaced.pop(code, None)
            self._failed(watched, code, connection.peer[0])
        else:
            watched.unplaced.setdefault(code, time.monotonic())

    def _failed(self, watched: _Watched, code: int, host: str) -> None:
        access = self._access
        name = access.name_at(host)
        last = f" ({name} came from there last)" if name else ""
        if code == _CRYPTOGRAPHIC and watched.encrypted and access.key is not None:
            own = access.key.public
            text = (
                f"{watched.name} refuses a client from {host}{last}: it expects another rig's key. This "
                f"rig's is {access.key.name} ({own.fingerprint}); there, `hearth keys allow NAME {own.word}`"
            )
            access.refuse("wrong_server_key", text, host, watched.name, name=name)
        elif code == _MECHANISM_MISMATCH and watched.encrypted:
            text = (
                f"{watched.name} refuses a client from {host}{last}: it speaks without encryption. It needs "
                "a key: `hearth keys make NAME` there"
            )
            access.refuse("plaintext", text, host, watched.name, name=name)
        elif code == _BROKEN_OFF:
            text = (
                f"{watched.name}: {host}{last} did not finish its handshake. A client without or with "
                "another kind of encryption, one that is too slow, or somebody who looks which ports are open"
            )
            access.refuse("incomplete", text, host, watched.name, name=name)
        else:
            text = f"{watched.name} refuses {host}{last}: what it says is no ZeroMQ handshake that fits here"
            access.refuse("malformed", text, host, watched.name, name=name)

    def _look_at_connections(self) -> None:
        revoked = self._access.revision != self._revision
        self._revision = self._access.revision
        now = time.monotonic()
        for watched in self._watched:
            for code, since in list(watched.unplaced.items()):
                if now - since > _PLACED_S:
                    del watched.unplaced[code]
                    self._failed(watched, code, "an unknown address")
            with self._lock:
                standing = list(watched.connections.items())
            for descriptor, connection in standing:
                if connection.peer is None:
                    continue
                known = connection.mark is not None and self._access.allows(connection.mark)
                if revoked and watched.encrypted and not known:
                    # Also those that have not said yet who they are: they just connect again.
                    self._cut(descriptor, connection, "revoked")
                elif (reason := self._beyond(watched.limit, descriptor, connection, now)) is not None:
                    host = connection.peer[0]
                    log.warning("%s cuts a connection from %s: %s", watched.name, host, reason)
                    self._cut(descriptor, connection, reason)

    def _beyond(self, limit: Limit, descriptor: int, connection: _Connection, now: float) -> Cut | None:
        """Which limit a connection is beyond, by what its TCP socket has received."""
        received = _received(descriptor, connection)
        if received is None:
            return None
        came, connection.received = received - connection.received, received
        passed, connection.looked = now - connection.looked, now
        connection.tokens = min(limit.burst_bytes, connection.tokens + passed * limit.bytes_s) - came
        with self._lock:
            if connection.heard:
                # Messages of one connection come in order: what is unfinished came after this one.
                connection.heard, connection.unfinished = False, 0.0
        connection.unfinished = max(0.0, connection.unfinished + came - passed * _IDLE_BYTES_S)
        if connection.tokens < 0:
            return "flood"
        return "unfinished" if connection.unfinished > limit.unfinished_bytes else None

    def _cut(self, descriptor: int, connection: _Connection, reason: Cut) -> None:
        with suppress(OSError), _own(descriptor) as own:
            if own.getpeername()[:2] == connection.peer:
                own.shutdown(sockets.SHUT_RDWR)
                self._access.count_cut(reason)


def _own(descriptor: int) -> sockets.socket:
    """A socket object of our own on what libzmq's descriptor stands for at this moment; OSError when that is
    no socket any more."""
    copy = os.dup(descriptor)
    try:
        return sockets.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _peer(descriptor: int) -> tuple[str, int] | None:
    """Host and port of the peer; None when it is gone or not on TCP."""
    with suppress(OSError), _own(descriptor) as own:
        if own.family in (sockets.AF_INET, sockets.AF_INET6):
            host, port = own.getpeername()[:2]
            return str(host), int(port)
    return None


def _received(descriptor: int, connection: _Connection) -> int | None:
    """Bytes that a connection received since it stands; None when it is gone, or not on Linux."""
    if not hasattr(sockets, "TCP_INFO"):
        return None
    with suppress(OSError, struct.error), _own(descriptor) as own:
        if own.getpeername()[:2] == connection.peer:
            told = own.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _TCP_INFO_RECEIVED + 8)
            return int(struct.unpack_from("=Q", told, _TCP_INFO_RECEIVED)[0])
    return None
