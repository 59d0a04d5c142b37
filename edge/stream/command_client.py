"""Sending commands to a running service and understanding its errors."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import zmq

from dsp.errors import CheckFailed, DeviceError, HearthError, InputError, MissingDependency
from edge.stream.addresses import require_loopback
from edge.stream.messages import MAX_COMMAND_BYTES, Reply, Request, encode_data

_KNOWN: dict[str, type[HearthError]] = {
    error.__name__: error for error in (InputError, CheckFailed, DeviceError, MissingDependency, HearthError)
}


class CommandError(HearthError):
    """The service refused or failed a command; `type` is the error's name there."""

    def __init__(self, type: str, detail: str) -> None:
        super().__init__(f"{type}: {detail}")
        self.type = type
        self.detail = detail


class CommandTimeout(DeviceError):
    """The service did not answer in time. Whether the command was carried out is unknown."""


class CommandClient:
    """A connection to a `CommandServer`. Thread-safe: one command at a time."""

    def __init__(self, address: str) -> None:
        require_loopback(address)
        self.address = address
        self._lock = threading.Lock()
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.REQ)
        # A late answer to a command that timed out must not be taken for the answer to the next one.
        self._socket.setsockopt(zmq.REQ_RELAXED, 1)
        self._socket.setsockopt(zmq.REQ_CORRELATE, 1)
        self._socket.setsockopt(zmq.LINGER, 0)
        if address.startswith("tcp://["):
            self._socket.setsockopt(zmq.IPV6, 1)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise InputError(f"cannot connect to {address!r}: {error}") from None

    def command(self, op: str, timeout_s: float = 5.0, **args: Any) -> dict[str, Any]:
        """Carry out `op` and return its data.

        Raises the error that the service raised when it is one of the HearthError family, CommandError for
        any other, CommandTimeout when no answer comes within `timeout_s`.
        """
        body = encode_data(Request(op=op, args=args))
        if len(body) > MAX_COMMAND_BYTES:
            raise InputError(f"{op}: the command has {len(body)} bytes; the limit is {MAX_COMMAND_BYTES}")
        with self._lock:
            if self._socket.closed:
                raise DeviceError("this command client is closed")
            self._socket.send(body)
            if not self._socket.poll(int(timeout_s * 1000), zmq.POLLIN):
                raise CommandTimeout(
                    f"{op}: no answer from {self.address} within {timeout_s:g} s; is `hearth live` running?"
                )
            answer = self._socket.recv()
        try:
            reply = msgspec.msgpack.decode(answer, type=Reply)
        except (msgspec.DecodeError, ValueError) as error:
            raise CommandError("MalformedReply", f"{op}: {error}") from None
        if reply.ok:
            return reply.data if isinstance(reply.data, dict) else {"value": reply.data}
        if reply.error is None:
            raise CommandError("MalformedReply", f"{op} failed without saying why")
        known = _KNOWN.get(reply.error.type)
        raise known(reply.error.detail) if known else CommandError(reply.error.type, reply.error.detail)

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._context.destroy(linger=0)
