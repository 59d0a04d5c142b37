"""How long messages were on their way, as a client measures it and tells the rig with its heartbeat."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from dsp.errors import InputError

_KEPT = 2000  # passages between two heartbeats; a rig sends about 250 a second


class ReceiveTimes:
    """From the publisher's socket into the client's hands, in the client's reading thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent_ms: list[float] = []

    def add(self, sent_ns: int, received_ns: int, offset_ns: int) -> None:
        """One message: sent on the rig's clock, received on this host's; offset: the rig's minus this."""
        with self._lock:
            if len(self._spent_ms) < _KEPT:
                self._spent_ms.append((received_ns + offset_ns - sent_ns) / 1e6)

    def take(self) -> dict[str, float] | None:
        """p50_ms, p99_ms and count since the last call; None when nothing came."""
        with self._lock:
            spent, self._spent_ms = self._spent_ms, []
        if not spent:
            return None
        p50, p99 = np.percentile(spent, [50, 99])
        return {"p50_ms": round(float(p50), 3), "p99_ms": round(float(p99), 3), "count": len(spent)}


def checked_times(told: Any) -> dict[str, float]:
    """What a client told, if it is what `take` gives; raises InputError otherwise."""
    keys = {"p50_ms", "p99_ms", "count"}
    if not isinstance(told, dict) or set(told) != keys:
        raise InputError(
            f"client.beat: receive has the keys {', '.join(sorted(keys))}, not {str(told)[:80]!r}"
        )
    for key, value in told.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or abs(value) > 1e9:
            raise InputError(f"client.beat: receive.{key} is a number, not {str(value)[:80]!r}")
    return dict(told)
