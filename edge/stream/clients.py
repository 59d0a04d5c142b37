"""Which clients are alive, as the rig knows it: by the heartbeats that they send on the command socket."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capture.blocks import monotonic_ns
from dsp.errors import InputError
from edge.stream.receive_times import checked_times

log = logging.getLogger(__name__)

CLIENT_SILENT_S = 3.0  # no heartbeat for this long: the client is gone or stopped
MAX_CLIENTS = 256  # a flood of made-up clients must not grow the memory
FORGOTTEN_S = 600.0  # a lost client that does not come back is not listed for ever
_MAX_NAME = 64

Listener = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class _Entry:
    name: str
    since_ns: int
    heard_ns: int
    lost: bool = False
    receive: dict[str, float] | None = None


class Clients:
    """The list behind `client.beat`.

    Listeners are told `client_lost` (a client stopped its heartbeat without a word; the fields are client,
    name, silent_s) and `client_returned` (client, name, silent_s). A client that leaves with a word is
    forgotten. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener(kind, fields)` when a client is lost or returns, in the thread that found out."""
        self._listeners.append(listener)

    def beat(
        self, client: str, name: str = "", leaving: bool = False, receive: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer to `client.beat`. receive: `ReceiveTimes.take` of the client, when it has any.

        Raises InputError for what is no id, name or times, or too many clients.
        """
        times = None if receive is None else checked_times(receive)
        for key, text, least in (("client", client, 1), ("name", name, 0)):
            if not isinstance(text, str) or not least <= len(text) <= _MAX_NAME:
                wanted = f"a text of {least} to {_MAX_NAME} characters"
                raise InputError(f"client.beat: {key} is {wanted}, not {str(text)[:80]!r}")
        now = monotonic_ns()
        told = None
        with self._lock:
            entry = self._entries.get(client)
            if leaving is True:
                self._entries.pop(client, None)
            elif entry is None:
                if len(self._entries) >= MAX_CLIENTS:
                    raise InputError(f"client.beat: {MAX_CLIENTS} clients are known already")
                self._entries[client] = _Entry(name, now, now, receive=times)
            else:
                if entry.lost:
                    told = _fields(client, entry, now)
                entry.name, entry.heard_ns, entry.lost, entry.receive = name, now, False, times
        if told is not None:
            self._tell("client_returned", told)
        return {"timeout_s": CLIENT_SILENT_S}

    def expire(self) -> None:
        """Find those whose heartbeat has stopped. Call it when no request waits, so that nobody is called
        silent whose word lies unread."""
        now = monotonic_ns()
        lost = []
        with self._lock:
            for client, entry in list(self._entries.items()):
                silent_s = (now - entry.heard_ns) / 1e9
                if silent_s > FORGOTTEN_S:
                    del self._entries[client]
                elif silent_s > CLIENT_SILENT_S and not entry.lost:
                    entry.lost = True
                    lost.append(_fields(client, entry, now))
        for fields in lost:
            self._tell("client_lost", fields)

    def to_list(self) -> list[dict[str, Any]]:
        """For `health`: client, name, alive, silent_s, connected_s, receive (p50_ms, p99_ms, count of the
        last second; None when it told none), longest connected first."""
        now = monotonic_ns()
        with self._lock:
            return [
                {
                    **_fields(client, entry, now),
                    "alive": not entry.lost,
                    "connected_s": round((now - entry.since_ns) / 1e9, 1),
                    "receive": None if entry.lost else entry.receive,
                }
                for client, entry in self._entries.items()
            ]

    def _tell(self, kind: str, fields: dict[str, Any]) -> None:
        for listener in self._listeners:
            try:
                listener(kind, fields)
            except Exception:
                log.exception("%s could not be told: %s", kind, fields)


def _fields(client: str, entry: _Entry, now: int) -> dict[str, Any]:
    return {"client": client, "name": entry.name, "silent_s": round((now - entry.heard_ns) / 1e9, 2)}
