"""The asyncio client: the same typed face as `Client`, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from edge.stream.client import MAX_QUEUED, Client
from edge.stream.connection import Keys
from edge.stream.received import Message, StreamEnded
from edge.stream.rig_clock import RigClock

_LOOK_S = 0.05  # how often a waiting reader looks whether the heartbeat has stopped


class AsyncClient:
    """Receives streams and sends commands within asyncio.

    Takes the arguments of `Client` and raises what it raises. Make it where an event loop runs, and use it in
    that loop only:

        async with AsyncClient(stream_address, commands_address, streams=["doa"]) as rig:
            await rig.wait_connected()
            async for message in rig.messages():
                print(message.data)

    A thread of its own reads the sockets, so a loop that is busy finds what it missed as a sleeping reader of
    `Client` does: all sound, the newest picture.
    """

    def __init__(
        self,
        stream_address: str,
        commands_address: str | None = None,
        streams: Sequence[str] | None = None,
        max_queued: int = MAX_QUEUED,
        name: str | None = None,
        keys: Keys = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._told = False  # the loop was woken and has not looked since
        self._client = Client(
            stream_address, commands_address, streams, max_queued, name, on_ready=self._wake, keys=keys
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading and close the sockets; safe to call twice."""
        await asyncio.to_thread(self._client.close)

    @property
    def connected(self) -> bool:
        """See `Client.connected`."""
        return self._client.connected

    @property
    def clock(self) -> RigClock:
        """See `Client.clock`; its conversions do not block."""
        return self._client.clock

    @property
    def rejected(self) -> dict[str, int]:
        """See `Client.rejected`."""
        return self._client.rejected

    def statistics(self) -> dict[str, dict[str, Any]]:
        """See `Client.statistics`."""
        return self._client.statistics()

    async def wait_connected(self, timeout_s: float = 5.0) -> None:
        """See `Client.wait_connected`."""
        await asyncio.to_thread(self._client.wait_connected, timeout_s)

    async def receive(self, timeout_s: float | None = None) -> Message:
        """See `Client.receive`."""
        deadline = None if timeout_s is None else self._loop.time() + timeout_s
        while True:
            self._look()
            message = self._client.receive_nowait()
            if message is not None:
                return message
            left = None if deadline is None else deadline - self._loop.time()
            if left is not None and left <= 0:
                raise self._client.timed_out(timeout_s or 0.0)
            await self._sleep(_LOOK_S if left is None else min(left, _LOOK_S))

    async def messages(self, timeout_s: float | None = None) -> AsyncIterator[Message]:
        """See `Client.messages`."""
        while True:
            try:
                message = await self.receive(timeout_s)
            except StreamEnded:
                return
            yield message

    async def command(self, op: str, timeout_s: float = 5.0, **args: Any) -> dict[str, Any]:
        """See `Client.command`. Cancelling the task does not take back a command that was sent."""
        return await asyncio.to_thread(self._client.command, op, timeout_s, **args)

    def _wake(self) -> None:
        """Called in the reading thread: once per look of the loop, however many messages came."""
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._news.set)

    def _look(self) -> None:
        self._news.clear()
        self._told = False

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
