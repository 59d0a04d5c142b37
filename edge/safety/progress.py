"""A formula followed event by event: what is left of it after each (Bacchus and Kabanza 1998), its past parts
as values that are carried along (Havelund and Rosu 2002).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass
from math import inf
from typing import Literal

from dsp.errors import InputError
from edge.safety.formula import (
    FALSE,
    TRUE,
    Atom,
    Both,
    Either,
    Formula,
    Future,
    Next,
    Not,
    Past,
    Truth,
    both,
    children,
    either,
    negation,
)

Verdict = Literal["holds", "violated", "open"]


@dataclass(frozen=True)
class _Window(Formula):
    """A future operator since the event at which it began to be judged: low and high are times."""

    kind: str
    left: Formula
    right: Formula
    low: float
    high: float


@dataclass(frozen=True)
class _Pending(Formula):
    """What has to hold at the next event."""

    of: Formula


class Progress:
    """One formula on one trace. verdict: `holds` or `violated` as soon as nothing can change it any more."""

    def __init__(self, formula: Formula) -> None:
        self.left = self._formula = formula
        self._past = [(one, _Memory(one)) for one in _pasts(formula)]
        self._t_s: float | None = None

    @property
    def verdict(self) -> Verdict:
        """How it stands."""
        if isinstance(self.left, Truth):
            return "holds" if self.left.value else "violated"
        return "open"

    def push(self, t_s: float, true: Set[str]) -> Verdict:
        """One event: its time, and the names of the atoms that are true at it. Raises InputError for a time
        before that of the last event."""
        if self._t_s is not None and t_s < self._t_s:
            raise InputError(f"events come in the order of their times; {t_s} s is before {self._t_s} s")
        self._t_s = t_s
        values: dict[Formula, bool] = {}
        for past, memory in self._past:
            values[past] = memory.push(t_s, true, values)
        if self.verdict == "open":
            self.left = _step(self.left, t_s, true, values)
        return self.verdict

    def pass_to(self, t_s: float) -> Verdict:
        """Nothing happened up to this time: what had to happen before it has not."""
        self.left = _expired(self.left, t_s)
        return self.verdict

    def restart(self) -> None:
        """Judge it anew from the next event on; what was is still remembered."""
        self.left = self._formula

    def finish(self) -> Verdict:
        """There are no more events. Never `open`."""
        self.left = _ended(self.left)
        return self.verdict


def _step(f: Formula, t_s: float, true: Set[str], past: dict[Formula, bool]) -> Formula:
    """What must hold from the next event on so that `f` holds now."""
    if isinstance(f, Truth):
        return f
    if isinstance(f, Atom):
        return Truth(f.name in true)
    if isinstance(f, Past):
        return Truth(past[f])
    if isinstance(f, Not):
        return negation(_step(f.of, t_s, true, past))
    if isinstance(f, Both):
        return both(*(_step(part, t_s, true, past) for part in f.parts))
    if isinstance(f, Either):
        return either(*(_step(part, t_s, true, past) for part in f.parts))
    if isinstance(f, Next):
        return _Pending(f.of)
    if isinstance(f, _Pending):
        return _step(f.of, t_s, true, past)
    if isinstance(f, Future):
        f = _Window(f.kind, f.left, f.right, t_s + f.low, t_s + f.high)
    assert isinstance(f, _Window)
    if t_s > f.high:
        return Truth(f.kind == "G")
    now = _step(f.right, t_s, true, past) if t_s >= f.low else Truth(f.kind == "G")
    if f.kind == "G":
        return both(now, f)
    if f.kind == "F":
        return either(now, f)
    return either(now, both(_step(f.left, t_s, true, past), f))


def _expired(f: Formula, t_s: float) -> Formula:
    if isinstance(f, _Window):
        return Truth(f.kind == "G") if t_s > f.high else f
    return _rebuilt(f, lambda part: _expired(part, t_s))


def _ended(f: Formula) -> Formula:
    if isinstance(f, _Window):
        return Truth(f.kind == "G")
    if isinstance(f, _Pending):
        return FALSE
    if isinstance(f, Atom | Past | Future | Next):  # no event at all: nothing was ever judged
        return Truth(isinstance(f, Future) and f.kind == "G")
    return _rebuilt(f, _ended)


def _rebuilt(f: Formula, change) -> Formula:  # type: ignore[no-untyped-def]
    if isinstance(f, Not):
        return negation(change(f.of))
    if isinstance(f, Both):
        return both(*(change(part) for part in f.parts))
    if isinstance(f, Either):
        return either(*(change(part) for part in f.parts))
    return f


def _pasts(f: Formula) -> list[Past]:
    """The past operators of a formula, inner ones first, each once."""
    found: dict[Past, None] = {}
    for part in children(f):
        found |= dict.fromkeys(_pasts(part))
    if isinstance(f, Past):
        found[f] = None
    return list(found)


class _Memory:
    """What a past operator has to remember."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._times: deque[float] = deque()  # at which `right` held (H: did not), and `left` ever since
        self._before: bool | None = None  # Y

    def push(self, t_s: float, true: Set[str], values: dict[Formula, bool]) -> bool:
        past = self._past
        right = _value(past.right, true, values)
        if past.kind == "Y":
            before, self._before = self._before, right
            return bool(before)
        if past.kind == "S" and not _value(past.left, true, values):
            self._times.clear()
        if right is not (past.kind == "H"):
            self._times.append(t_s)
        if past.high < inf:
            while self._times and t_s - self._times[0] > past.high:
                self._times.popleft()
        elif len(self._times) > 1:
            self._times = deque([self._times[0]])  # the oldest is the last to be too young
        found = any(past.low <= t_s - one <= past.high for one in self._times)
        return found is not (past.kind == "H")


def _value(f: Formula, true: Set[str], values: dict[Formula, bool]) -> bool:
    """A formula without future operators at this event."""
    stepped = _step(f, 0.0, true, values)
    assert isinstance(stepped, Truth)
    return stepped.value


__all__ = ["FALSE", "TRUE", "Progress", "Verdict"]
