"""What the fast loop tells the slow one: stop, and be quiet."""

from __future__ import annotations

import threading
from typing import Any


class Attention:
    """quiet: requests are not answered, until somebody says "unmute". Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop_ns: int | None = None
        self._quiet = False

    def notice(self, event: dict[str, Any]) -> None:
        """An event of the stream; others than `stop` and `mute` are passed over."""
        kind, t_ns = event.get("kind"), event.get("t_ns")
        with self._lock:
            if kind == "stop" and isinstance(t_ns, int):
                self._stop_ns = max(t_ns, self._stop_ns or t_ns)
            elif kind == "mute":
                self._quiet = True

    def stopped(self, since_ns: int) -> bool:
        """Whether somebody said stop after this time of the rig."""
        with self._lock:
            return self._stop_ns is not None and self._stop_ns > since_ns

    @property
    def quiet(self) -> bool:
        with self._lock:
            return self._quiet

    @quiet.setter
    def quiet(self, on: bool) -> None:
        with self._lock:
            self._quiet = on
