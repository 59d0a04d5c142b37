"""How far a session is, as a whole, per room and today."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from edge.session.words import in_words
from recordings.plan.model import PlanItem
from recordings.session_journal import Journal

_LAST = 12  # kept takes whose pace counts
_LONG_S = 600.0  # between two kept takes: that was a pause, not the pace


class Pace:
    """How long an episode takes, from the last ones that were kept in this run."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_LAST)
        self._last = time.monotonic()

    def kept(self) -> None:
        """Another one."""
        now = time.monotonic()
        if now - self._last <= _LONG_S:
            self._times.append(now - self._last)
        self._last = now

    @property
    def seconds_each(self) -> float | None:
        """None before the first."""
        return sum(self._times) / len(self._times) if self._times else None


class Progress:
    """Counts of the items in `order` as a journal grows."""

    def __init__(self, order: Sequence[PlanItem], journal: Journal) -> None:
        self._order, self._journal = order, journal
        self._read = 0  # lines of the journal that are counted
        self._days: Counter[tuple[Any, str]] = Counter()  # (local day, step) -> lines
        self._counts: dict[str, Any] = {}

    def now(self, pace: Pace) -> dict[str, Any]:
        """Plain values: total, kept, skipped, open, takes; kept_today and takes_today (local day);
        minutes_left by the present pace (null: not known); rooms: total and kept of each, in the order of
        recording."""
        lines = self._journal.lines
        if self._read < len(lines) or not self._counts:
            for line in lines[self._read :]:
                if line["step"] in ("kept", "recording"):
                    self._days[_day(line.get("t_utc")), line["step"]] += 1
            self._read = len(lines)
            self._counts = self._count()
        today, each = datetime.now().date(), pace.seconds_each
        return {
            **self._counts,
            "kept_today": self._days[today, "kept"],
            "takes_today": self._days[today, "recording"],
            "minutes_left": None if each is None else round(self._counts["open"] * each / 60, 1),
        }

    def _count(self) -> dict[str, Any]:
        journal = self._journal
        rooms: dict[str, dict[str, Any]] = {}
        for item in self._order:
            name = item.staging.room
            room = rooms.setdefault(name, {"id": name, "name": in_words(name), "total": 0, "kept": 0})
            room["total"] += 1
            room["kept"] += item.id in journal.kept
        kept = sum(room["kept"] for room in rooms.values())
        return {
            "total": len(self._order),
            "kept": kept,
            "skipped": sum(item.id in journal.skipped for item in self._order),
            "open": len(self._order) - kept,
            "takes": sum(journal.take_count(item.id) for item in self._order),
            "rooms": list(rooms.values()),
        }


def _day(stamp: Any) -> Any:
    """The local day of a journal's time."""
    try:
        return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).astimezone().date()
    except ValueError:
        return None
