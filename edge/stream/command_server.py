"""Answering commands: a ROUTER socket in a thread, handlers by name, every error an answer."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import zmq

from capture.blocks import monotonic_ns
from dsp.errors import HearthError, InputError
from edge.stream.access import Access
from edge.stream.addresses import bind
from edge.stream.clients import Clients
from edge.stream.context import Context
from edge.stream.guard import Guard, Limit
from edge.stream.local_door import LocalDoor
from edge.stream.messages import (
    MAX_COMMAND_BYTES,
    REJECTIONS,
    MessageError,
    Reply,
    ReplyError,
    encode_data,
    unpack_request,
)
from edge.stream.pace import Pace
from edge.stream.time_sync import clock_id

log = logging.getLogger(__name__)

Handler = Callable[..., dict[str, Any] | None]

# Read per second, of all clients together; ZeroMQ takes from each in turn, so a flood only makes its own
# queue long. What waits is bounded by the marks: messages per client.
_RATE_PER_S, _BURST = 2000.0, 200.0
_RECEIVED_HWM, _SENT_HWM = 64, 256
_LIMIT = Limit(burst_bytes=8 << 20, bytes_s=1 << 20, unfinished_bytes=4 << 20)
_MAX_DETAIL = 4000  # characters of an error's text: an answer must not be longer than what it answers

_OWN = ("time.ping", "client.beat")  # come by themselves all the time; not counted as commands served


class CommandServer:
    """Carries out commands for any number of clients (ZeroMQ REQ or DEALER).

    Handlers are called one after the other in the server's thread, with the command's arguments as keyword
    arguments, and return a dict (or None). A HearthError becomes the answer's error under its name (`type`,
    if it has one); wrong or missing arguments become an InputError; anything else is logged and answered as
    "InternalError". Requests that are malformed, oversized or of another version are counted in `rejected`
    and answered with an error.
    `time.ping` and `client.beat` it answers itself; `clients` knows which clients are alive.
    access: keys of the rig and the list of allowed clients; needed for an address off loopback.
    `local_address` is then one for programs of the same user on this host, otherwise it is `address`.
    Raises InputError for an address off loopback without keys, DeviceError for one in use.
    """

    def __init__(self, address: str, access: Access | None = None) -> None:
        self.rejected: dict[str, int] = dict.fromkeys(REJECTIONS, 0)
        self.received = 0  # whatever came
        self.served = 0
        self.clients = Clients()
        self._arrived_ns = 0
        self._clock_id = clock_id()
        self._handlers: dict[str, Handler] = {
            "ops": self._list,
            "time.ping": self._ping,
            "client.beat": self.clients.beat,
        }
        self._closing = threading.Event()
        self._context = Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 500)
        self._socket.setsockopt(zmq.MAXMSGSIZE, 2 * MAX_COMMAND_BYTES)  # beyond it ZeroMQ cuts the connection
        self._socket.setsockopt(zmq.RCVHWM, _RECEIVED_HWM)
        self._socket.setsockopt(zmq.SNDHWM, _SENT_HWM)
        self.access = access or Access()
        self._guard = Guard(self._context, self.access)
        self._door = LocalDoor("commands", address, self.access)
        self._pace = Pace(_RATE_PER_S, _BURST)
        try:
            self._guard.watch(self._socket, "the command socket", address, _LIMIT)
            self._door.bind(self._socket)
            self.address = bind(self._socket, address, "commands", self.access)
            self.local_address = self._door.address or self.address
        except BaseException:
            self._guard.close()
            self._context.destroy(linger=0)
            self._door.close()
            raise
        self._guard.start()
        self._thread = threading.Thread(target=self._serve, name="command-server", daemon=True)
        self._thread.start()

    def __enter__(self) -> CommandServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, op: str, handler: Handler) -> None:
        """Answer `op` with `handler(**args)`; an op that exists is replaced."""
        self._handlers[op] = handler

    def close(self) -> None:
        """Stop serving; a command being carried out is finished first. Safe to call twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        self._guard.close()
        self._context.destroy()
        self._door.close()

    def _list(self) -> dict[str, Any]:
        return {"ops": sorted(self._handlers)}

    def _ping(self, t0_ns: int) -> dict[str, Any]:
        """One exchange of stamps, see edge.stream.time_sync."""
        if type(t0_ns) is not int:
            raise InputError(f"time.ping: t0_ns is a whole number of nanoseconds, not {str(t0_ns)[:80]!r}")
        answer: dict[str, Any] = {"t0_ns": t0_ns, "t1_ns": self._arrived_ns, "clock": self._clock_id}
        return {**answer, "t2_ns": monotonic_ns()}

    def _serve(self) -> None:
        looked_ns = monotonic_ns()
        while not self._closing.is_set():
            since_ns = monotonic_ns() - looked_ns
            if since_ns > 200_000_000:
                looked_ns += since_ns
                # Nobody can be called silent while requests wait unread, or when it was we who stood still.
                if since_ns < 1_000_000_000 and not self._socket.poll(0, zmq.POLLIN):
                    self.clients.expire()
            if not self._socket.poll(100, zmq.POLLIN):
                continue
            frames = self._socket.recv_multipart(copy=False)
            self._arrived_ns = monotonic_ns()
            self.received += 1
            self._pace.take(self._closing)
            if not self._guard.heard(0, frames[-1]):
                continue  # revoked
            parts = [frame.bytes for frame in frames]
            # Everything before the body (identity, REQ's numbers and delimiter) goes back as it came.
            reply = self._answer(parts)
            if reply is not None:
                self._socket.send_multipart([*parts[:-1], reply])

    def _answer(self, parts: list[bytes]) -> bytes | None:
        if not 2 <= len(parts) <= 8 or sum(map(len, parts[:-1])) > 1024:
            self.rejected["malformed"] += 1
            return None
        op = "command"
        try:
            request = unpack_request(parts[-1])
            op = request.op
            data = self._call(op, request.args)
            return encode_data(Reply(ok=True, data=data))
        except MessageError as error:
            self.rejected[error.reason] += 1
            failure = ReplyError(type="MessageError", detail=str(error))
        except HearthError as error:
            # An error may carry a finer name than its class, e.g. a home's DEVICE_NOT_FOUND.
            name = getattr(error, "type", None)
            failure = ReplyError(
                type=name if isinstance(name, str) else type(error).__name__, detail=str(error)
            )
        except Exception as error:
            log.exception("the handler of %s failed", op)
            failure = ReplyError(type="InternalError", detail=f"{op} failed: {type(error).__name__}: {error}")
        failure.detail = failure.detail[:_MAX_DETAIL]
        return encode_data(Reply(ok=False, error=failure))

    def _call(self, op: str, args: dict[str, Any]) -> dict[str, Any] | None:
        handler = self._handlers.get(op)
        if handler is None:
            raise InputError(f"there is no command {op!r}; commands: {', '.join(sorted(self._handlers))}")
        try:
            inspect.signature(handler).bind(**args)
        except TypeError as error:
            raise InputError(f"{op}: {error}; arguments: {inspect.signature(handler)}") from None
        if op not in _OWN:
            self.served += 1
        return handler(**args)
