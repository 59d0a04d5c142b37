"""How long each stage of the live path may take, and how long it took: the rig publishes both in `health`.

A direction that a subscriber has is as old as: what the device and the source hold back (`capture`), the wait
behind earlier blocks and the work on this one (`levels`, `resample`, `doa`, `publish`), and the way through
the sockets (`receive`: every client of edge.stream measures it and tells the rig with its heartbeat; the rig
publishes the slowest client's). The window of 100 ms that a direction covers comes on top, by definition.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

# ms at the 99 % point, on a Jetson-class machine with capture blocks of 10 ms; together below the 80 ms that
# a direction may be old (p99, beyond its window).
LIMIT_MS = {
    "capture": 25.0,  # end of a block at the microphone -> the live chain begins with it
    "levels": 2.0,
    "resample": 3.0,
    "doa": 12.0,  # directions, tracks and activity
    "publish": 3.0,  # onto the sockets
    "captured_to_published": 45.0,  # end of a block -> its last message is on the wire
    "receive": 35.0,  # on the wire -> in the subscriber's hands, another process on the same host
    "jpeg": 20.0,  # a picture that the camera did not encode itself
    "picture_to_published": 60.0,
}


class StageTimes:
    """How long the stages took since they were last asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, list[float]] = {}
        self._over: dict[str, list[int]] = {}  # passages, those beyond the limit; since the start

    def add(self, stage: str, seconds: float) -> None:
        """One passage through a stage, one of LIMIT_MS."""
        with self._lock:
            self._spent.setdefault(stage, []).append(seconds * 1e3)
            counts = self._over.setdefault(stage, [0, 0])
            counts[0] += 1
            counts[1] += seconds * 1e3 > LIMIT_MS[stage]

    def totals(self) -> dict[str, tuple[int, int]]:
        """By stage: how many passages there were since the start, and how many beyond the limit."""
        with self._lock:
            return {stage: (count, over) for stage, (count, over) in self._over.items()}

    @staticmethod
    def receive(clients: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The stage `receive`, as `take` gives the others: of the slowest of these clients of `health`."""
        told = [(client["receive"], client["name"]) for client in clients if client["receive"]]
        if not told:
            return {}
        times, name = max(told, key=lambda pair: pair[0]["p99_ms"])
        limit = LIMIT_MS["receive"]
        kept = times["p99_ms"] <= limit
        return {"receive": {**times, "limit_ms": limit, "kept": kept, "client": name}}

    def take(self) -> dict[str, dict[str, Any]]:
        """By stage: p50_ms, p99_ms and count since the last call, limit_ms, and whether it was kept."""
        with self._lock:
            spent, self._spent = self._spent, {}
        told: dict[str, dict[str, Any]] = {}
        for stage, values in spent.items():
            p50, p99 = np.percentile(values, [50, 99])
            told[stage] = {
                "p50_ms": round(float(p50), 3),
                "p99_ms": round(float(p99), 3),
                "count": len(values),
                "limit_ms": LIMIT_MS[stage],
                "kept": bool(p99 <= LIMIT_MS[stage]),
            }
        return told
