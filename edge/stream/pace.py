"""A pace that a loop keeps: so many turns per second, with some saved up for a burst."""

from __future__ import annotations

import threading
import time


class Pace:
    """rate_per_s turns on average, at most `burst` at once. One thread uses it."""

    def __init__(self, rate_per_s: float, burst: float) -> None:
        self._rate, self._burst = rate_per_s, burst
        self._tokens, self._at = burst, time.monotonic()
        self.waited = 0  # turns that had to wait: a sign of a flood

    def take(self, closing: threading.Event) -> None:
        """Take a turn; waits when there is none left, at most until `closing` is set."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        if self._tokens < 0:
            self.waited += 1
            # Not for each turn: ten milliseconds at a time, so that a flood costs few wakings.
            closing.wait(max(0.01, -self._tokens / self._rate))
