"""The home's time: ticks of 0.1 s since its first moment, moved by hand or by the time that really passes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from dsp.errors import InputError

log = logging.getLogger(__name__)

TICK_S = 0.1
TICKS_PER_S = 10
FURTHEST_TICK = 366 * 86400 * TICKS_PER_S  # a year, which takes about half a minute
FORM = "%Y-%m-%d %H:%M:%S"


class HomeClock:
    """Ticks as the home's own time of day.

    base: "YYYY-MM-DD HH:MM:SS" at tick 0. Raises InputError for another form.
    """

    def __init__(self, base: str) -> None:
        self.base = self._parse(base)

    @staticmethod
    def _parse(text: str) -> datetime:
        try:
            return datetime.strptime(text, FORM)
        except (TypeError, ValueError):
            raise InputError(f"a time of the home is YYYY-MM-DD HH:MM:SS, not {text!r}") from None

    def at(self, tick: int) -> str:
        """The time at a tick, whole seconds that have passed."""
        return (self.base + timedelta(seconds=tick // TICKS_PER_S)).strftime(FORM)

    def tick_of(self, text: str) -> int:
        """The tick of a time, negative before the first moment. Raises InputError for another form."""
        past = self._parse(text) - self.base
        return (past.days * 86400 + past.seconds) * TICKS_PER_S


class Advances(Protocol):
    """Something whose time can be moved: `edge.home.simulation.Simulation`."""

    @property
    def tick(self) -> int:
        """Where it is."""

    def advance_to(self, tick: int) -> None:
        """Move on to a tick."""


class RealTime:
    """Moves a simulation as time really passes, from `start()` to `stop()`, in a thread of its own.

    speed: home seconds per real second. now: seconds of a clock that never goes back.
    """

    def __init__(
        self, simulation: Advances, speed: float = 1.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        if not 0 < speed <= 1e6:
            raise InputError(f"the home's clock runs at a speed above 0, up to a million, not {speed}")
        self._simulation, self._speed, self._now = simulation, speed, now
        self._first_tick, self._first_s = simulation.tick, now()
        self._lock = threading.RLock()
        self._moving = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def catch_up(self) -> None:
        """Move the simulation to where it should be now; one that is further already stays there, and does
        what is due there. From within such a move (what is told of it commands the home) it does nothing."""
        with self._lock:
            if self._moving:
                return
            self._moving = True
            try:
                past = int((self._now() - self._first_s) * self._speed * TICKS_PER_S + 1e-6)
                self._simulation.advance_to(max(self._first_tick + past, self._simulation.tick))
            finally:
                self._moving = False

    def start(self) -> RealTime:
        """Begin to move it."""
        with self._lock:
            self._first_tick, self._first_s = self._simulation.tick, self._now()
        self._thread = threading.Thread(target=self._run, name="home clock", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Move it no more; returns when the thread has ended."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            try:
                self.catch_up()
            except InputError as error:  # as far as a home's time goes
                log.warning("the home's time stands still: %s", error)
                return
