"""The computer as /proc and /sys show it: cores, who uses them, memory, temperature, power."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu")
_ZONES = Path("/sys/class/thermal")
_SUPPLY = Path("/sys/class/power_supply")
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True)
class Busy:
    """A program that used a part of a core: 100 % is one core."""

    name: str
    pid: int
    percent: float


class CpuWatch:
    """What other programs and ourselves used of the processor between two moments."""

    def __init__(self) -> None:
        self._processes = _process_ticks()
        self._threads = thread_cpu_s()
        self._own = time.process_time()
        self._start = time.monotonic()
        self._throttled = throttle_count()

    def end(self) -> None:
        """The second moment."""
        self.seconds = max(time.monotonic() - self._start, 1e-3)
        self.own_percent = 100 * (time.process_time() - self._own) / self.seconds
        now = thread_cpu_s()
        self.thread_percent = {
            thread: 100 * (used - self._threads.get(thread, 0.0)) / self.seconds
            for thread, used in now.items()
        }
        used = _process_ticks()
        busy = [
            Busy(name, pid, 100 * (ticks - self._processes.get(pid, ("", 0))[1]) / _TICK / self.seconds)
            for pid, (name, ticks) in used.items()
            if pid != os.getpid() and pid in self._processes
        ]
        self.others = sorted(busy, key=lambda b: -b.percent)
        self.others_percent = sum(b.percent for b in busy)
        before, after = self._throttled, throttle_count()
        self.throttled = None if before is None or after is None else after - before


def thread_cpu_s() -> dict[int, float]:
    """Seconds of processor time of each thread of this process, by its kernel id."""
    found = {}
    for task in Path("/proc/self/task").glob("[0-9]*"):
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            continue
    return found


def _process_ticks() -> dict[int, tuple[str, int]]:
    """pid -> (name, ticks of processor time)."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "stat").read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        found[int(process.name)] = (name, int(rest[11]) + int(rest[12]))
    return found


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_free_bytes(
    meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Memory that can still be had, within the limit of a container too; None when unknown."""
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB", meminfo.read_text(), re.M)
    except OSError:
        return None
    if found is None:
        return None
    free = int(found[1]) * 1024
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit.isdigit():
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(free, 0)


def temperature_c(zones: Path = _ZONES) -> tuple[float, str] | None:
    """The hottest sensor: degrees Celsius and its name; None where there is none."""
    found = []
    for zone in zones.glob("thermal_zone*"):
        try:
            degrees = int((zone / "temp").read_text()) / 1000
            found.append((degrees, (zone / "type").read_text().strip()))
        except (OSError, ValueError):
            continue
    plausible = [entry for entry in found if -20 < entry[0] < 150]
    return max(plausible, default=None)


def throttle_count(cpu: Path = _CPU) -> int | None:
    """How often cores were slowed down because of heat since the start; None where it is not counted."""
    counts = []
    for path in cpu.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        try:
            counts.append(int(path.read_text()))
        except (OSError, ValueError):
            continue
    return sum(counts) if counts else None


def governors(cpu: Path = _CPU) -> list[tuple[str, str]]:
    """(driver, governor) of the clock frequency, each once; empty where the kernel does not say."""
    found = set()
    for policy in cpu.glob("cpufreq/policy*"):
        try:
            driver, governor = (
                (policy / f"scaling_{key}").read_text().strip() for key in ("driver", "governor")
            )
        except OSError:
            continue
        found.add((driver, governor))
    return sorted(found)


def on_battery(supply: Path = _SUPPLY) -> int | None:
    """Percent left when the computer runs from its battery; None when it is plugged in or has none."""
    for battery in sorted(supply.glob("*")):
        try:
            if (battery / "type").read_text().strip() != "Battery":
                continue
            if (battery / "status").read_text().strip() == "Discharging":
                return int((battery / "capacity").read_text())
        except (OSError, ValueError):
            continue
    return None
