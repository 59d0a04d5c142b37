"""The receiving side of the stream: handshake, checked messages, counted losses, the newest picture."""

from __future__ import annotations

import collections
import difflib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import zmq

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError, InputError
from edge.stream.addresses import same_host
from edge.stream.command_client import CommandClient
from edge.stream.connection import Connection, Keys, keys_for
from edge.stream.context import Context
from edge.stream.counting import StreamCount
from edge.stream.keys import AccessDenied
from edge.stream.messages import (
    MAX_PAYLOAD_BYTES,
    MESSAGES,
    REJECTIONS,
    STREAMS,
    Count,
    Header,
    MessageError,
    topic,
    unpack,
)
from edge.stream.publisher import EVERY_HWM, LATEST_HWM, LATEST_SOCKET_BUFFER
from edge.stream.receive_times import ReceiveTimes
from edge.stream.received import Message, StreamEnded, StreamLost, StreamTimeout
from edge.stream.rig_clock import RigClock

log = logging.getLogger(__name__)

SILENT_S = 3.0  # no heartbeat for this long: the publisher is gone or stopped
_LOOK_S = 0.05  # how often a waiting reader looks whether the heartbeat has stopped
MAX_QUEUED = 20_000  # messages kept for a reader that does not read, about 100 s of a live rig


class _HelloData(msgspec.Struct):
    next: dict[str, Count] = {}
    latest_address: str = ""
    retained: list[dict[str, Any]] = []
    closing: bool = False


@dataclass(slots=True, eq=False)
class _Link:
    """One SUB socket and how far its handshake is."""

    socket: zmq.Socket[bytes]
    connection: Connection
    address: str
    streams: tuple[str, ...]
    greeting: bytes
    check: bytes | None = None
    confirmed_epoch: int | None = None
    heard_ns: int = 0


def _no_such_stream(unknown: list[str]) -> str:
    known = f"streams: {', '.join(STREAMS)}"
    if not unknown:
        return f"no stream was asked for; {known}"
    near = difflib.get_close_matches(str(unknown[0]), STREAMS, 1)
    return f"there is no stream {unknown[0]!r}{f'; did you mean {near[0]!r}?' if near else ''} ({known})"


class Client:
    """Receives streams and sends commands.

    stream_address:   the publisher's address.
    commands_address: the command server's address; only needed for `command` and `clock`. With it, the rig
                      also knows that this client is alive (`health` lists it under `name`).
    streams:          names of the table `MESSAGES`; None means all of them.
    max_queued:       messages of "every" and "reliable" streams kept for a slow reader; beyond it the oldest
                      is dropped and counted as `overflowed`.
    keys:             a folder of keys or loaded ones (edge.stream.ClientKeys). Needed for a rig on another
                      machine (there it defaults to the default folder); with it, loopback is encrypted too.
    on_ready:         called in the reading thread whenever `receive_nowait` may have something new to say.

    A thread of the client reads the sockets all the time, so a reader that sleeps finds the newest picture
    ("latest" streams keep one) and all other messages in order. Bytes that are no message of this protocol
    are counted in `rejected` and dropped. When the publisher is restarted the client reconnects by itself;
    `restarted` counts it. Use as a context manager, or call `close`.
    """

    def __init__(
        self,
        stream_address: str,
        commands_address: str | None = None,
        streams: Sequence[str] | None = None,
        max_queued: int = MAX_QUEUED,
        name: str | None = None,
        on_ready: Callable[[], None] | None = None,
        keys: Keys = None,
    ) -> None:
        self._keys = keys_for(keys, stream_address, commands_address)
        wanted = STREAMS if streams is None else tuple(dict.fromkeys(streams))
        unknown = [name for name in wanted if name not in STREAMS]
        if unknown or not wanted:
            raise InputError(_no_such_stream(unknown))
        self.stream_address = stream_address
        self.rejected: dict[str, int] = dict.fromkeys(REJECTIONS, 0)
        self._on_ready = on_ready
        self._receive_times = ReceiveTimes()
        self._commands = CommandClient(commands_address, self._keys) if commands_address else None
        self._clock = RigClock(commands_address, name, self._keys, self._report) if commands_address else None
        self._counts = {name: StreamCount() for name in wanted}
        self._latest_streams = tuple(n for n in wanted if MESSAGES[n].delivery == "latest")
        self._main_streams = tuple(n for n in wanted if MESSAGES[n].delivery != "latest")
        self._max_queued = max_queued
        self._queue: collections.deque[Message | str | None] = (
            collections.deque()
        )  # str: see _newest; None: end
        self._newest: dict[str, Message] = {}
        self._told_lost = False  # this silence was told already, or the end was announced
        self._ready = threading.Condition()
        self._error: Exception | None = None  # what ended the reading thread
        self._connected = threading.Event()
        self._closing = threading.Event()
        self._context = Context()
        self._poller = zmq.Poller()
        self._told_problem: str | None = None
        try:
            self._main = self._connect(stream_address, self._main_streams)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._latest: _Link | None = None
        self._thread = threading.Thread(target=self._read, name="stream-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and close the sockets; safe to call twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        self._context.destroy(linger=0)
        if self._commands is not None:
            self._commands.close()
        if self._clock is not None:
            self._clock.close()
        self._notify()

    # --- for the reader ---

    def wait_connected(self, timeout_s: float = 5.0) -> None:
        """Wait until all subscriptions are known to be active: nothing published from now on is missed.

        Raises StreamTimeout when no publisher answers in time, AccessDenied as soon as it is clear that the
        rig and this client do not accept each other's keys.
        """
        deadline = time.monotonic() + timeout_s
        while not self._connected.wait(max(0.0, min(_LOOK_S, deadline - time.monotonic()))):
            if (problem := self._problem()) is not None:
                self._told_problem = problem
                raise AccessDenied(problem)
            if time.monotonic() < deadline:
                continue
            raise StreamTimeout(
                f"no publisher answered at {self.stream_address} within {timeout_s:g} s; is `hearth live` on?"
            )

    @property
    def connected(self) -> bool:
        """The handshake is done and the publisher was heard within the last few seconds."""
        heard = monotonic_ns() - self._main.heard_ns < SILENT_S * 1e9
        return self._connected.is_set() and heard and self._main.connection.problem is None

    @property
    def clock(self) -> RigClock:
        """Rig time <-> this host's time, with its uncertainty. Raises InputError without commands_address."""
        if self._clock is None:
            raise InputError(
                "this client was made without a commands_address, so it cannot ask for the rig's time"
            )
        return self._clock

    def receive(self, timeout_s: float | None = None) -> Message:
        """The next message.

        Raises StreamTimeout after `timeout_s` without one, StreamLost (a StreamTimeout) as soon as the
        publisher's heartbeat is missing for SILENT_S, whatever `timeout_s` is, AccessDenied (once) when the
        rig and this client do not accept each other's keys, StreamEnded at the end.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            message = self.receive_nowait()
            if message is not None:
                return message
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self.timed_out(timeout_s or 0.0)
            with self._ready:
                if not self._queue:
                    self._ready.wait(_LOOK_S if left is None else min(left, _LOOK_S))

    def receive_nowait(self) -> Message | None:
        """The next message if there is one; otherwise raises what `receive` would, but for its time-out."""
        with self._ready:
            if self._queue:
                entry = self._queue.popleft()
                if entry is None:
                    raise StreamEnded(f"the publisher at {self.stream_address} has ended")
                return self._newest.pop(entry) if isinstance(entry, str) else entry
            if self._closing.is_set():
                raise StreamEnded("this client is closed")
            if self._error is not None:
                raise DeviceError(f"this client cannot read any more: {self._error}") from self._error
            if (problem := self._problem()) is not None and problem != self._told_problem:
                self._told_problem = problem
                raise AccessDenied(problem)
            silent_s = (monotonic_ns() - self._main.heard_ns) / 1e9
            if self._main.heard_ns and silent_s > SILENT_S and not self._told_lost:
                self._told_lost = True
                raise StreamLost(self._why_silent(silent_s))
        return None

    def timed_out(self, timeout_s: float) -> StreamTimeout:
        """The error that says what is silent: the publisher, or only the streams asked for."""
        return StreamTimeout(self._why_silent(timeout_s))

    def messages(self, timeout_s: float | None = None) -> Iterator[Message]:
        """Messages as they come, in order per stream, until the publisher says that it ends.

        Raises StreamTimeout when `timeout_s` seconds pass without any, StreamLost when the heartbeat stops.
        Call it again to wait for a publisher that comes back.
        """
        while True:
            try:
                message = self.receive(timeout_s)
            except StreamEnded:
                return
            yield message

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Per stream: received, lost, reordered, repeated, restarted, overflowed, superseded."""
        with self._ready:
            return {name: count.to_dict() for name, count in self._counts.items()}

    def command(self, op: str, timeout_s: float = 5.0, **args: Any) -> dict[str, Any]:
        """Send a command and return its data; see `CommandClient.command`."""
        if self._commands is None:
            raise InputError("this client was made without a commands_address, so it cannot send commands")
        return self._commands.command(op, timeout_s=timeout_s, **args)

    def _why_silent(self, timeout_s: float) -> str:
        names = ", ".join(self._counts)
        if self._main.heard_ns == 0:
            return f"nothing heard from {self.stream_address} for {timeout_s:g} s; is `hearth live` running?"
        silent_s = (monotonic_ns() - self._main.heard_ns) / 1e9
        if silent_s > SILENT_S:
            return f"the publisher at {self.stream_address} is silent since {silent_s:.1f} s: stopped or gone"
        return (
            f"the publisher at {self.stream_address} lives, but sent nothing on {names} for {timeout_s:g} s"
        )

    def _problem(self) -> str | None:
        """Why a connection does not come about for want of a key."""
        links = (self._main, self._latest)
        found = [link.connection.problem for link in links if link is not None and link.connection.problem]
        if not found:
            self._told_problem = None
        return found[0] if found else None

    # --- the reading thread: the only one that touches the sockets ---

    def _connect(self, address: str, streams: tuple[str, ...]) -> _Link:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        latest = bool(streams) and MESSAGES[streams[0]].delivery == "latest"
        socket.setsockopt(zmq.RCVHWM, LATEST_HWM if latest else EVERY_HWM)
        if latest:
            socket.setsockopt(zmq.RCVBUF, LATEST_SOCKET_BUFFER)
        socket.setsockopt(zmq.MAXMSGSIZE, 2 * MAX_PAYLOAD_BYTES)  # beyond it ZeroMQ cuts the connection
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        socket.setsockopt(
            zmq.HEARTBEAT_IVL, 2000
        )  # finds a host that vanished, where TCP would wait for long
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10000)
        for name in (*streams, "beat"):
            socket.setsockopt(zmq.SUBSCRIBE, topic(name))
        greeting = secrets.token_bytes(8)
        socket.setsockopt(zmq.SUBSCRIBE, topic("hello", greeting))
        connection = Connection(self._context, socket, address, self._keys)
        link = _Link(socket, connection, address, streams, greeting)
        self._poller.register(socket, zmq.POLLIN)
        return link

    def _read(self) -> None:
        looked_ns = monotonic_ns()
        try:
            while not self._closing.is_set():
                waiting = dict(self._poller.poll(50))
                held_ns, looked_ns = monotonic_ns() - looked_ns, monotonic_ns()
                if held_ns > 1_000_000_000 and self._main.heard_ns:
                    self._main.heard_ns += held_ns  # it was we who stood still: nobody can be called silent
                for link in (self._main, self._latest):
                    if link is not None and link.socket in waiting:
                        self._drain(link)
                    if link is not None and link.connection.look():
                        self._notify()
        except Exception as error:
            log.exception("the stream client's reading thread failed")
            self._error = error
            self._notify()

    def _drain(self, link: _Link) -> None:
        for _ in range(500):  # then look at the other socket
            try:
                parts = link.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            received_ns = monotonic_ns()
            try:
                header, payload = unpack(parts)
                if header.stream in ("hello", "beat"):
                    hello = msgspec.convert(header.data, _HelloData)
                    self._greeted(link, header, hello, parts[0], received_ns)
                elif header.stream in link.streams:
                    message = Message(header, payload, received_ns, False, *self._offset(received_ns))
                    if header.sent_ns and message.clock_uncertainty_ns is not None and link is self._main:
                        self._receive_times.add(header.sent_ns, received_ns, message.clock_offset_ns)
                    self._deliver(message)
            except MessageError as error:
                self.rejected[error.reason] += 1
            except (msgspec.ValidationError, InputError):  # what a hello or beat says makes no sense
                self.rejected["malformed"] += 1

    def _deliver(self, message: Message) -> None:
        with self._ready:
            count = self._counts[message.stream]
            if not count.arrived(message.epoch, message.seq):
                return
            if message.stream in self._latest_streams:
                if message.stream in self._newest:
                    count.superseded += 1
                else:
                    self._queue.append(message.stream)
                self._newest[message.stream] = message
            else:
                self._queue.append(message)
                self._limit()
        self._notify()

    def _report(self) -> dict[str, Any]:
        """What the heartbeat tells the rig: how long its messages were on their way."""
        times = self._receive_times.take()
        return {} if times is None else {"receive": times}

    def _offset(self, local_ns: int) -> tuple[int, int | None]:
        """The rig's clock less ours, and how far that may be wrong."""
        state = self._clock.state if self._clock is not None else None
        return (0, None) if state is None else (state.offset_at(local_ns), state.uncertainty_at(local_ns))

    def _notify(self) -> None:
        with self._ready:
            self._ready.notify_all()
        if self._on_ready is not None:
            self._on_ready()

    def _limit(self) -> None:
        while len(self._queue) > self._max_queued:
            oldest = self._queue.popleft()
            if isinstance(oldest, Message):
                self._counts[oldest.stream].overflowed += 1
            else:
                self._queue.append(oldest)  # the newest picture or the end: keep it

    def _greeted(self, link: _Link, header: Header, hello: _HelloData, name: bytes, received_ns: int) -> None:
        """A message of the protocol itself.

        The handshake takes two steps. An answer to our greeting proves that the connection stands, but
        ZeroMQ may have sent the greeting ahead of the other subscriptions. So a second one is made now:
        subscriptions of a standing connection are handled in order, hence its answer proves that all the
        others are active.
        """
        link.heard_ns = received_ns
        if link is self._main:
            self._told_lost = hello.closing
        suffix = name.split(b"\0", 1)[1]
        if header.stream == "beat":
            if link.confirmed_epoch == header.epoch:
                self._promised(link, header.epoch, hello)
            if hello.closing and link is self._main:
                with self._ready:
                    self._queue.append(None)
                self._notify()
        elif suffix == link.greeting:
            if link.check is not None:
                link.socket.setsockopt(zmq.UNSUBSCRIBE, topic("hello", link.check))
            link.check = secrets.token_bytes(9)
            link.socket.setsockopt(zmq.SUBSCRIBE, topic("hello", link.check))
        elif suffix == link.check:
            link.socket.setsockopt(zmq.UNSUBSCRIBE, topic("hello", link.check))
            link.check = None
            link.confirmed_epoch = header.epoch
            self._confirmed(link, header, hello, received_ns)

    def _confirmed(self, link: _Link, header: Header, hello: _HelloData, received_ns: int) -> None:
        if link is self._main:
            for kept in hello.retained:
                self._deliver_retained(header, kept, received_ns)
        self._promised(link, header.epoch, hello)
        if link is self._main and self._latest_streams:
            self._follow_latest(same_host(hello.latest_address, self.stream_address))
        if self._latest_streams and (self._latest is None or self._latest.confirmed_epoch != header.epoch):
            return
        self._connected.set()
        self._notify()

    def _deliver_retained(self, hello: Header, kept: dict[str, Any], received_ns: int) -> None:
        """The last message of a "reliable" stream, unless it came by itself already."""
        header = msgspec.convert({**kept, "epoch": hello.epoch}, Header)
        count = self._counts.get(header.stream)
        if count is None:
            return
        with self._ready:
            if count.knows(header.epoch, header.seq):
                return
            self._queue.append(Message(header, b"", received_ns, True, *self._offset(received_ns)))
        self._notify()

    def _promised(self, link: _Link, epoch: int, hello: _HelloData) -> None:
        with self._ready:
            for name in link.streams:
                # A stream that the publisher does not name yet begins with number 0.
                self._counts[name].promised(epoch, hello.next.get(name, 0))

    def _follow_latest(self, address: str) -> None:
        """Connect to where pictures are sent; a restarted publisher may send them elsewhere."""
        if self._latest is not None and self._latest.address == address:
            return
        if self._latest is not None:
            self._poller.unregister(self._latest.socket)
            self._latest.connection.close()
            self._latest.socket.close(linger=0)
        self._latest = self._connect(address, self._latest_streams)
