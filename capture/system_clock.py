"""The computer's own clocks: whether UTC is kept by a time server, and what counts the time underneath."""

from __future__ import annotations

import ctypes
import sys
import time
from ctypes import c_int, c_long, c_uint
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

_SOURCES = Path("/sys/devices/system/clocksource/clocksource0")
_SLOW_SOURCES = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
_STA_UNSYNC = 0x0040  # linux/timex.h
_TIME_ERROR = 5


class _Timex(ctypes.Structure):
    """struct timex of a 64-bit system, adjtimex(2)."""

    _fields_ = [
        ("modes", c_uint),
        ("offset", c_long),
        ("freq", c_long),
        ("maxerror", c_long),
        ("esterror", c_long),
        ("status", c_int),
        ("constant", c_long),
        ("precision", c_long),
        ("tolerance", c_long),
        ("time_sec", c_long),
        ("time_usec", c_long),
        ("tick", c_long),
        ("ppsfreq", c_long),
        ("jitter", c_long),
        ("shift", c_int),
        ("stabil", c_long),
        ("jitcnt", c_long),
        ("calcnt", c_long),
        ("errcnt", c_long),
        ("stbcnt", c_long),
        ("tai", c_int),
        ("padding", c_int * 11),
    ]


@dataclass(frozen=True, slots=True)
class UtcState:
    """synchronised: "yes", "no" or "unknown". correction_ppm: by how much the kernel makes the clock faster
    or slower to follow its server; max_error_ms: the kernel's own bound. None: unknown."""

    synchronised: Literal["yes", "no", "unknown"]
    correction_ppm: float | None = None
    max_error_ms: float | None = None


def utc_state() -> UtcState:
    """What the kernel says about its clock; it is only read."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(c_long) != 8:
        return UtcState("unknown")
    answer = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(answer))
    except (OSError, AttributeError):
        return UtcState("unknown")
    if state < 0:
        return UtcState("unknown")
    out = state == _TIME_ERROR or bool(answer.status & _STA_UNSYNC)
    return UtcState(
        "no" if out else "yes", answer.freq / 65536, None if out else round(answer.maxerror / 1e3, 3)
    )


def clock_source(folder: Path = _SOURCES) -> tuple[str | None, list[str]]:
    """(what counts the time, what else there would be); None where the kernel does not say."""
    try:
        current = (folder / "current_clocksource").read_text().strip()
        return current, (folder / "available_clocksource").read_text().split()
    except OSError:
        return None, []


def is_slow_source(name: str) -> bool:
    """Reading it takes microseconds, and its steps are coarse: stamps jitter."""
    return name in _SLOW_SOURCES


class WallClockWatch:
    """Whether UTC was set to another time while something ran. Steps of the wall clock move nothing of a
    recording; they only make its date wrong."""

    def __init__(self) -> None:
        self._offset = _utc_minus_monotonic()
        self.largest_step_ms = 0.0

    def look(self) -> None:
        """Compare again; call it now and then."""
        offset = _utc_minus_monotonic()
        step = (offset - self._offset) / 1e6
        self._offset = offset
        if abs(step) > abs(self.largest_step_ms):
            self.largest_step_ms = step


def _utc_minus_monotonic() -> int:
    """ns. Of a few tries the one between whose two readings the least time passed."""
    tries = []
    for _ in range(3):
        before = time.monotonic_ns()
        utc = time.time_ns()
        after = time.monotonic_ns()
        tries.append((after - before, utc - (before + after) // 2))
    return min(tries)[1]


def monotonic_step_ns(count: int = 2000) -> int:
    """The smallest step of CLOCK_MONOTONIC that can be seen, ns."""
    times = [time.clock_gettime_ns(time.CLOCK_MONOTONIC) for _ in range(count)]
    steps = [b - a for a, b in pairwise(times) if b > a]
    return min(steps, default=0)
