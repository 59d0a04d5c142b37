"""Ctrl-C and SIGTERM as a wish to end, not as an error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class StopSignals:
    """While it is entered: the first SIGINT or SIGTERM sets `asked` and calls `ask`; a further one of
    `aborting` raises KeyboardInterrupt in the main thread. Does nothing outside the main thread.
    """

    def __init__(
        self,
        ask: Callable[[], None] = lambda: None,
        aborting: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
    ) -> None:
        self.asked = threading.Event()
        self._ask, self._aborting = ask, aborting
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set() and number in self._aborting:
            raise KeyboardInterrupt
        self.asked.set()
        self._ask()
