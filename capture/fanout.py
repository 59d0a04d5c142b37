"""One source, several readers: the recorder never waits for the live chain, nor the other way round."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

from capture.blocks import Item, SourceEvent


class Subscription:
    """One reader's queue of a Fanout. `get` may be called by one thread."""

    def __init__(self, fanout: Fanout, name: str, maxsize: int | None) -> None:
        self.name = name
        self.maxsize = maxsize
        self.dropped = 0  # items that this reader was too slow for
        self._fanout = fanout
        self._items: deque[Item] = deque()
        self._ready = threading.Condition()
        self._closed = False

    def get(self, timeout: float | None = None) -> Item | None:
        """The next item in order; None when `timeout` seconds passed without one, or after the close."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._ready:
            while not self._items:
                if self._closed:
                    return None
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._ready.wait(left)
            return self._items.popleft()

    def __iter__(self) -> Iterator[Item]:
        """Each item in order, waiting for the next one, until this is closed and empty."""
        while (item := self.get()) is not None:
            yield item

    @property
    def depth(self) -> int:
        """How many items wait."""
        return len(self._items)

    @property
    def closed(self) -> bool:
        """True once nothing more will come; items that wait can still be read."""
        return self._closed

    def close(self) -> None:
        """Take no more items. What waits can still be read."""
        self._fanout._remove(self)
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def _put(self, item: Item) -> None:
        with self._ready:
            if self._closed:
                return
            if self.maxsize is not None and len(self._items) >= self.maxsize:
                self._drop_oldest()
            self._items.append(item)
            self._ready.notify()

    def _drop_oldest(self) -> None:
        """Make room. Events are few and say what happened, so a block or picture goes first."""
        for index, item in enumerate(self._items):
            if not isinstance(item, SourceEvent):
                del self._items[index]
                break
        else:
            self._items.popleft()
        self.dropped += 1


class Fanout:
    """Hands each item of one source to every subscriber, in order, without copying and without waiting.

    `sink` is what a source is started with. Items are immutable and shared: no reader writes to them.
    """

    def __init__(self, hold_at: int | None = None) -> None:
        """hold_at: only for sources that play "as fast as possible": `sink` waits while a reader that never
        drops is that many items behind, so that memory stays bounded. A live source must not be held."""
        self._subscribers: tuple[Subscription, ...] = ()
        self._lock = threading.Lock()
        self._hold_at = hold_at

    def sink(self, item: Item) -> None:
        """Deliver one item; returns at once (see hold_at)."""
        while (limit := self._hold_at) is not None:
            if not any(s.maxsize is None and s.depth >= limit for s in self._subscribers):
                break
            time.sleep(0.001)
        for subscriber in self._subscribers:
            subscriber._put(item)

    def subscribe(self, name: str, maxsize: int | None = None) -> Subscription:
        """A new reader, which gets everything from now on.

        maxsize None: nothing is ever dropped (the recorder). A number: when the reader is that many items
        behind, the oldest one is dropped and counted in `.dropped`.
        """
        if maxsize is not None and maxsize < 1:
            raise ValueError(f"maxsize must be at least 1 or None, not {maxsize}")
        subscription = Subscription(self, name, maxsize)
        with self._lock:
            self._subscribers = (*self._subscribers, subscription)
        return subscription

    def close(self) -> None:
        """No more items will come: wake every reader."""
        for subscriber in self._subscribers:
            subscriber.close()

    def release(self) -> None:
        """Hold the source no more: it is being stopped."""
        self._hold_at = None

    @property
    def subscribers(self) -> tuple[Subscription, ...]:
        """Who reads now."""
        return self._subscribers

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscription)
