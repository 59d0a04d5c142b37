"""What a schedule needs of a home: its time, its devices, and to be told when something is due or has ended.

`edge.home.simulation.Simulation` is one whose time is reckoned in ticks. `WallTimeline` is the base of homes
that are real: their time passes by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from dsp.errors import InputError
from edge.home.clock import FORM, TICKS_PER_S, HomeClock
from edge.home.schema import Value
from edge.home.twin import CommandResult, HomeDevice, Listener

if TYPE_CHECKING:
    from edge.home.environment import Variable  # brings in the compiler

Due = Callable[[int], int | None]
Ended = Callable[[str, bool], None]
RUNNING, PAUSED = 1, 2  # OperationalState


class DeviceHome(Protocol):
    """The devices of a home, in software or real; `edge.home.twin.Home` says what each method does."""

    @property
    def devices(self) -> tuple[HomeDevice, ...]: ...

    @property
    def order(self) -> Any:
        """A re-entrant lock, held during a change with its listeners."""

    def describe(self) -> list[dict[str, Any]]: ...

    def state(self, device_id: str) -> dict[str, Value]: ...

    def snapshot(self) -> dict[str, dict[str, Value]]: ...

    def read(self, device_id: str, path: str) -> Value: ...

    def listen(self, listener: Listener) -> None: ...

    def replace_devices(self, devices: list[HomeDevice]) -> None: ...

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult: ...

    def write(self, device_id: str, path: str, value: Value) -> CommandResult: ...


class Timeline(Protocol):
    """A home in time."""

    clock: HomeClock

    @property
    def home(self) -> DeviceHome: ...

    @property
    def tick(self) -> int:
        """Ticks of 0.1 s since the first moment of `clock`."""

    @property
    def time(self) -> str:
        """The home's time of day."""

    def rooms(self) -> dict[str, dict[Variable, float]]:
        """room -> variable -> value now; what is not measured is missing."""

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult: ...

    def write(self, device_id: str, path: str, value: Value) -> CommandResult: ...

    def on_due(self, due: Due, run: Callable[[], None]) -> None:
        """due(limit): the tick of the next thing that is scheduled, as far as it comes up to the tick
        `limit`; run(): do what is due at `tick`."""

    def on_end(self, ended: Ended) -> None:
        """ended(device, by_itself) when a device's cycle is over: done, or stopped by somebody."""

    def done_at(self, device_id: str) -> int | None:
        """The tick at which the cycle that runs now is done; None when none runs, or its end is not known."""

    def crossing(
        self, room: str, variable: Variable, above: float | None, below: float | None, limit: int
    ) -> int | None:
        """The first tick after `tick`, up to `limit`, at which a room's value is above (below) a limit."""

    def sensor_of(self, device_id: str, path: str) -> tuple[str, Variable, float] | None:
        """(room, variable, offset): an attribute that reads a room's value plus an offset; else None."""

    def advance_to(self, tick: int) -> None:
        """Let time pass; raises InputError for a tick that is past."""


class WallTimeline:
    """Time, schedule and cycles of a real home; `home`, `rooms`, `command` and `write` are the heir's.

    Ticks pass with the wall clock whether anybody calls `advance_to` or not: it only does what is due. Call
    `_watch_cycles` from the constructor when `home` is there. now: seconds of a clock that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, base: str | None = None) -> None:
        self.clock = HomeClock(base or datetime.now().strftime(FORM))
        self._now, self._first_s = now, now()
        self._due: Due = lambda limit: None
        self._run_due: Callable[[], None] = lambda: None
        self._ended: list[Ended] = []
        self._working: set[str] = set()
        self._time_lock = threading.RLock()

    @property
    def home(self) -> DeviceHome:
        """The devices."""
        raise TypeError("a WallTimeline has no devices of its own")

    def rooms(self) -> dict[str, dict[Variable, float]]:
        """What is measured in the rooms."""
        return {}

    @property
    def tick(self) -> int:
        """Ticks of 0.1 s since it was made."""
        return int((self._now() - self._first_s) * TICKS_PER_S + 1e-6)

    @property
    def time(self) -> str:
        """The home's time of day."""
        return self.clock.at(self.tick)

    def on_due(self, due: Due, run: Callable[[], None]) -> None:
        """See `Timeline.on_due`."""
        with self._time_lock:
            self._due, self._run_due = due, run

    def on_end(self, ended: Ended) -> None:
        """See `Timeline.on_end`; of real appliances every end counts as one by itself."""
        self._ended.append(ended)

    def advance_to(self, tick: int) -> None:
        """Do what is due by now. Raises InputError for a tick that is still to come."""
        now = self.tick
        if tick > now:
            raise InputError(f"the time of a real home cannot be moved: it is tick {now}, not {tick}")
        with self._time_lock:
            due = self._due(now)
            if due is not None and due <= now:
                self._run_due()

    def done_at(self, device_id: str) -> int | None:
        """By what the device says of itself (CountdownTime), if it does."""
        state = self.home.state(device_id)
        for cluster in ("1.OperationalState", "1.RVCOperationalState"):
            left = state.get(f"{cluster}.CountdownTime")
            running = state.get(f"{cluster}.OperationalState") == RUNNING
            if running and isinstance(left, int | float) and not isinstance(left, bool):
                return self.tick + int(left * TICKS_PER_S)
        return None

    def crossing(
        self, room: str, variable: Variable, above: float | None, below: float | None, limit: int
    ) -> int | None:
        """Now, when it holds now: what a real room will do nobody knows."""
        value = self.rooms().get(room, {}).get(variable)
        return self.tick if value is not None and beyond(value, above, below) else None

    def sensor_of(self, device_id: str, path: str) -> tuple[str, Variable, float] | None:
        """None: what a device measures is heard from it."""
        return None

    def _watch_cycles(self) -> None:
        for device in self.home.devices:
            if works(self.home.state(device.id)):
                self._working.add(device.id)
        self.home.listen(self._follow_cycle)

    def _follow_cycle(self, device_id: str, changed: Mapping[str, Value]) -> None:
        if works(self.home.state(device_id)):
            self._working.add(device_id)
        elif device_id in self._working:
            self._working.discard(device_id)
            for ended in self._ended:
                ended(device_id, True)


def beyond(value: float, above: float | None, below: float | None) -> bool:
    """Whether a value is above the one threshold or below the other, as far as they are given."""
    return (above is not None and value > above) or (below is not None and value < below)


def at_rest(state: Mapping[str, Any]) -> bool:
    """Whether an appliance is known not to work; one whose state is not known yet is neither."""
    paths = ("1.OperationalState.OperationalState", "1.RVCOperationalState.OperationalState")
    known = [state.get(path) for path in (*paths, "1.ValveConfigurationAndControl.CurrentState")]
    return any(one is not None for one in known) and not works(state)


def works(state: Mapping[str, Any]) -> bool:
    """Whether an appliance is in the middle of its work, running or paused, or a valve open."""
    return state.get("1.ValveConfigurationAndControl.CurrentState") == 1 or any(
        state.get(f"{cluster}.OperationalState") in (RUNNING, PAUSED)
        for cluster in ("1.OperationalState", "1.RVCOperationalState")
    )
