"""A client's standing conversation with the rig: heartbeats to it, and exchanges of stamps for its clock."""

from __future__ import annotations

import os
import secrets
import socket as sockets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import zmq

from capture.blocks import monotonic_ns
from dsp.errors import DeviceError
from edge.stream.connection import Connection, Keys, keys_for
from edge.stream.context import Context
from edge.stream.messages import Reply, Request, encode_data
from edge.stream.time_sync import ClockEstimator, ClockState, Exchange, clock_id

BEAT_S = 1.0
PING_S = 1.0
BURST = 8  # exchanges at once at the start and after silence, so that the first estimate is a good one
BURST_S = 0.02
SILENT_S = 3.0


class _Pong(msgspec.Struct):
    t0_ns: int
    t1_ns: int
    t2_ns: int
    clock: str = ""


_decode_reply = msgspec.msgpack.Decoder(Reply).decode


def default_name() -> str:
    """The program, its process number and host: how the rig names this client."""
    return f"{Path(sys.argv[0]).name or 'python'} {os.getpid()} {sockets.gethostname()}"[:64]


class RigClock:
    """Rig time <-> local time, kept by exchanges over the command socket in a thread of its own.

    commands_address: of a CommandServer.
    name:             how the rig calls this client in `health`.
    keys:             as for `edge.stream.Client`.
    report:           asked before each heartbeat for what else it carries: arguments of `client.beat`.

    The same thread sends the client's heartbeat once a second. All times are CLOCK_MONOTONIC in ns, the rig's
    or this host's. On the rig's own host both are the same clock, and the offset is exactly 0.
    """

    def __init__(
        self,
        commands_address: str,
        name: str | None = None,
        keys: Keys = None,
        report: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._report = report
        self.address = commands_address
        self._keys = keys_for(keys, commands_address)
        self.client_id = secrets.token_hex(8)
        self.name = default_name() if name is None else name[:64]
        self._own_clock = clock_id()
        self._estimator = ClockEstimator()
        self._state: ClockState | None = None
        self._known = threading.Event()
        self._closing = threading.Event()
        self._pending: dict[bytes, int] = {}  # number of a ping -> t0
        self._heard_ns = 0
        self._context = Context()
        self._thread = threading.Thread(target=self._talk, name="rig-clock", daemon=True)
        self._thread.start()

    @property
    def state(self) -> ClockState | None:
        """What is known of the rig's clock, with its uncertainty now; None before the first exchange."""
        return self._state

    @property
    def answering(self) -> bool:
        """The command server answered within the last few seconds."""
        return self._heard_ns != 0 and monotonic_ns() - self._heard_ns < SILENT_S * 1e9

    def wait(self, timeout_s: float = 5.0) -> ClockState:
        """Wait for the first estimate and return it. Raises DeviceError when none comes in time."""
        if not self._known.wait(timeout_s):
            raise DeviceError(
                f"the rig at {self.address} told no time within {timeout_s:g} s; is `hearth live` on?"
            )
        return self._need()

    def to_rig_ns(self, local_ns: int) -> int:
        """The rig's time at a local one. Raises DeviceError before the first exchange."""
        return local_ns + self._need().offset_at(local_ns)

    def to_local_ns(self, rig_ns: int) -> int:
        """The local time at a time of the rig (`t_ns` of a message). Raises DeviceError before the first
        exchange."""
        state = self._need()
        guess = rig_ns - state.offset_ns
        return rig_ns - state.offset_at(guess)

    def close(self) -> None:
        """Say goodbye and stop; safe to call twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        self._context.destroy(linger=200)

    def _need(self) -> ClockState:
        state = self._state
        if state is None:
            raise DeviceError(f"the clock of the rig at {self.address} is not known yet; use `clock.wait()`")
        return state

    # --- the thread: the only one that touches the socket ---

    def _talk(self) -> None:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 200)
        socket.setsockopt(zmq.IMMEDIATE, 1)  # what cannot be sent now is worth nothing later
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        connection = Connection(self._context, socket, self.address, self._keys)
        number, burst = 0, BURST
        next_ping = next_beat = time.monotonic()
        while not self._closing.is_set():
            connection.look()
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + BEAT_S
                self._send(
                    socket, b"", "client.beat", client=self.client_id, name=self.name, **self._report()
                )
            if now >= next_ping:
                number += 1
                if not self.answering and not self._pending:
                    burst = BURST
                burst -= burst > 0
                next_ping = now + (BURST_S if burst else PING_S)
                self._ping(socket, number)
            wait_s = max(min(next_ping, next_beat) - time.monotonic(), 0.0)
            if socket.poll(min(int(wait_s * 1000) + 1, 100), zmq.POLLIN):
                self._hear(socket)
        self._send(socket, b"", "client.beat", client=self.client_id, name=self.name, leaving=True)
        connection.close()
        socket.close()

    def _send(self, socket: zmq.Socket[bytes], tag: bytes, op: str, **args: object) -> bool:
        try:
            socket.send_multipart([tag, b"", encode_data(Request(op=op, args=args))], zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _ping(self, socket: zmq.Socket[bytes], number: int) -> None:
        now = monotonic_ns()
        self._pending = {tag: t0 for tag, t0 in self._pending.items() if now - t0 < 5_000_000_000}
        tag = number.to_bytes(8, "big")
        t0_ns = monotonic_ns()
        if self._send(socket, tag, "time.ping", t0_ns=t0_ns):
            self._pending[tag] = t0_ns

    def _hear(self, socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            t3_ns = monotonic_ns()
            t0_ns = self._pending.pop(parts[0], None)
            if t0_ns is None:
                continue  # the answer to a heartbeat, or one that is too late
            try:
                reply = _decode_reply(parts[-1])
                pong = msgspec.convert(reply.data, _Pong)
            except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
                continue  # not an answer of this protocol: no exchange
            self._heard_ns = t3_ns
            exchange = Exchange(t0_ns, pong.t1_ns, pong.t2_ns, t3_ns)
            if self._estimator.add(exchange):
                same = bool(pong.clock) and pong.clock == self._own_clock
                self._state = self._estimator.state(t3_ns, same_clock=same)
                self._known.set()
