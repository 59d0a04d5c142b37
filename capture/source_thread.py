"""The one thread that a source delivers from: begun once at a time, ended from anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class SourceThread:
    """`prepare`, then `begin`; the body looks at `stopping` and returns soon after it is set by `end`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()

    def prepare(self) -> None:
        """Raises RuntimeError when it runs already: a source is started once until it is stopped."""
        if self._thread is not None:
            raise RuntimeError(f"this source was started already ({self._name})")
        self.stopping.clear()

    def begin(self, body: Callable[..., None], *args: Any) -> None:
        """Run `body(*args)` in the thread."""
        self._thread = threading.Thread(target=body, args=args, name=self._name, daemon=True)
        self._thread.start()

    def end(self) -> bool:
        """Ask it to stop and wait until it has, unless called from itself; whether it had been begun."""
        self.stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return thread is not None
