"""How long a page's server waits for a request, and how many connections one peer may hold.

Without it anybody who reaches the port can keep everybody else out: connections that never finish a request
count against `limit_concurrency` before any token is asked for.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0  # from the first byte (or the connection) to the end of the head
MOST_PER_PEER = 32  # a browser holds six


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 for `uvicorn.Config(http=BoundedProtocol)`: slow requests and too many connections are cut."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A peer with too many connections loses this one, otherwise its first request is waited for."""
        super().connection_made(transport)
        own = self.client[0] if self.client else None
        held = sum(1 for other in self.connections if (getattr(other, "client", None) or [None])[0] == own)
        if held > MOST_PER_PEER:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """A request that is complete stops the wait; a part of one begins or goes on with it."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._late is None and self.conn.their_state is h11.IDLE:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """A WebSocket has its own pings."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def _wait(self) -> None:
        self._late = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
