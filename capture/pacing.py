"""Waiting until a moment on CLOCK_MONOTONIC, for sources that play recorded or rendered material."""

from __future__ import annotations

import threading

from capture.blocks import monotonic_ns


def wait_until(t_ns: int, stop: threading.Event) -> bool:
    """Sleep until CLOCK_MONOTONIC reaches t_ns; False as soon as `stop` is set."""
    while not stop.is_set():
        left = t_ns - monotonic_ns()
        if left <= 0:
            return True
        stop.wait(left / 1e9)
    return False
