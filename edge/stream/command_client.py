"""Sending commands to a running service and understanding its errors."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import msgspec
import zmq

from dsp.errors import CheckFailed, DeviceError, HearthError, InputError, MissingDependency
from edge.stream.connection import Connection, Keys, keys_for
from edge.stream.context import Context
from edge.stream.keys import AccessDenied
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
    """A connection to a `CommandServer`. Thread-safe: one command at a time.

    keys: a folder of keys or loaded ones (edge.stream.ClientKeys); needed off loopback, where the default
    folder is used without it.
    """

    def __init__(self, address: str, keys: Keys = None) -> None:
        loaded = keys_for(keys, address)
        self.address = address
        self._lock = threading.Lock()
        self._context = Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.REQ)
        # A late answer to a command that timed out must not be taken for the answer to the next one.
        self._socket.setsockopt(zmq.REQ_RELAXED, 1)
        self._socket.setsockopt(zmq.REQ_CORRELATE, 1)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._connection = Connection(self._context, self._socket, address, loaded)
        except BaseException:
            self._context.destroy(linger=0)
            raise

    def command(self, op: str, timeout_s: float = 5.0, **args: Any) -> dict[str, Any]:
        """Carry out `op` and return its data.

        Raises the error that the service raised when it is one of the HearthError family, CommandError for
        any other, AccessDenied as soon as it is clear that the rig and this client do not accept each other's
        keys, CommandTimeout when no answer comes within `timeout_s`.
        """
        body = encode_data(Request(op=op, args=args))
        if len(body) > MAX_COMMAND_BYTES:
            raise InputError(f"{op}: the command has {len(body)} bytes; the limit is {MAX_COMMAND_BYTES}")
        with self._lock:
            if self._socket.closed:
                raise DeviceError("this command client is closed")
            answer = self._exchange(op, body, timeout_s)
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

    def _exchange(self, op: str, body: bytes, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        self._connection.retry()  # perhaps the key was entered meanwhile
        refusals, sent = self._connection.refusals, False
        poller = zmq.Poller()
        for socket in (self._socket, self._connection.monitor):
            poller.register(socket, zmq.POLLIN)
        while True:
            if not sent:
                with suppress(zmq.Again):  # a refused connection is none, and would block
                    self._socket.send(body, zmq.NOBLOCK)
                    sent = True
            left_s = deadline - time.monotonic()
            waiting = dict(poller.poll(max(0, min(int(left_s * 1000) + 1, 200 if sent else 20))))
            if self._socket in waiting:
                return self._socket.recv()
            self._connection.look()
            problem = self._connection.problem
            if problem is not None and (self._connection.refusals > refusals or left_s <= 0):
                raise AccessDenied(problem)
            if left_s <= 0:
                raise CommandTimeout(
                    f"{op}: no answer from {self.address} within {timeout_s:g} s; is `hearth live` running?"
                )

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._context.destroy(linger=0)
