"""The ZeroMQ context of one object, which garbage collection never waits for."""

from __future__ import annotations

import sys
import threading

import zmq


class Context(zmq.Context[zmq.Socket[bytes]]):
    """As zmq.Context, but one that nobody closed ends in a thread of its own.

    pyzmq ends a forgotten context when it is collected, and that waits for its sockets. Where both are
    garbage at once the context may come first; its sockets are then never closed, and all stands still.
    """

    def __del__(self) -> None:
        if not self.closed and not sys.is_finalizing():
            threading.Thread(target=self.term, name="forgotten ZeroMQ context", daemon=True).start()
