"""Temporal logic over events with times: formulas, and their text.

Metric temporal logic (Koymans 1990) with pointwise semantics on finite traces: a formula is judged at an
event. Future: X next event, F[a,b] sometime between a and b seconds from now, G always then, U until. Past: Y
the event before, O[a,b] once between a and b seconds ago, H always then, S since. Past operators may stand
inside future ones, not the other way round.

    G(unlocked -> O[<=60] confirmed)          nobody unlocks without a yes in the minute before
    !intervenes U looked                      (strong) one looks, and does not intervene before
    alarm -> F[<=30] reported                 an alarm at the first event is reported within half a minute
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import Literal

from dsp.errors import InputError


@dataclass(frozen=True)
class Formula:
    """Any formula."""


@dataclass(frozen=True)
class Truth(Formula):
    """True or false whatever happens."""

    value: bool


@dataclass(frozen=True)
class Atom(Formula):
    """True at an event by what the event is, or by the home's state after it."""

    name: str


@dataclass(frozen=True)
class Not(Formula):
    """Negation."""

    of: Formula


@dataclass(frozen=True)
class Both(Formula):
    """Conjunction."""

    parts: frozenset[Formula]


@dataclass(frozen=True)
class Either(Formula):
    """Disjunction."""

    parts: frozenset[Formula]


@dataclass(frozen=True)
class Next(Formula):
    """At the next event, and there is one."""

    of: Formula


@dataclass(frozen=True)
class Future(Formula):
    """F: `right` sometime; G: `right` always; U: `right` sometime and `left` at every event before.
    low, high: seconds from the event at which it is judged, both ends counted."""

    kind: Literal["F", "G", "U"]
    left: Formula
    right: Formula
    low: float = 0.0
    high: float = inf


@dataclass(frozen=True)
class Past(Formula):
    """O: `right` once; H: `right` always; S: `right` once and `left` at every event since; Y: `right` at the
    event before, and there was one. low, high: seconds before the event at which it is judged."""

    kind: Literal["O", "H", "S", "Y"]
    left: Formula
    right: Formula
    low: float = 0.0
    high: float = inf


TRUE, FALSE = Truth(True), Truth(False)


def negation(of: Formula) -> Formula:
    """Not, simplified."""
    if isinstance(of, Truth):
        return Truth(not of.value)
    return of.of if isinstance(of, Not) else Not(of)


def both(*parts: Formula) -> Formula:
    """And, simplified."""
    return _joined(Both, FALSE, TRUE, parts)


def either(*parts: Formula) -> Formula:
    """Or, simplified."""
    return _joined(Either, TRUE, FALSE, parts)


def _joined(
    kind: type[Both] | type[Either], strong: Truth, weak: Truth, parts: tuple[Formula, ...]
) -> Formula:
    found: set[Formula] = set()
    for part in parts:
        if part == strong:
            return strong
        if part != weak:
            found |= part.parts if isinstance(part, kind) else {part}
    if any(negation(one) in found for one in found):
        return strong
    if len(found) <= 1:
        return found.pop() if found else weak
    return kind(frozenset(found))


def implies(first: Formula, then: Formula) -> Formula:
    """If, simplified."""
    return either(negation(first), then)


def children(of: Formula) -> tuple[Formula, ...]:
    """The parts of which a formula is made."""
    if isinstance(of, Both | Either):
        return tuple(of.parts)
    if isinstance(of, Not | Next):
        return (of.of,)
    return (of.left, of.right) if isinstance(of, Future | Past) else ()


def atoms_of(of: Formula) -> set[str]:
    """The names of the atoms of a formula."""
    own = {of.name} if isinstance(of, Atom) else set()
    return own.union(*(atoms_of(part) for part in children(of)))


# -- text

_TOKEN = re.compile(r"\s*(->|<=|>=|[()\[\],!&|]|\d+(?:\.\d+)?|[A-Za-z_][A-Za-z0-9_]*)")
_FUTURE, _PAST = ("F", "G", "X"), ("O", "H", "Y")


def parse(text: str) -> Formula:
    """A formula from its text: `!`, `&`, `|`, `->` (weakest, to the right), `X Y F G O H` before, `U S`
    between, true, false, and names of atoms in small letters. Times: [a,b], [<=b], [>=a] in seconds.

    Raises InputError with the place for anything else.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise InputError(f"formula {text!r}: {text[place:].strip()[:1]!r} at {place} means nothing")
            self._tokens.append((found.group(1), found.start(1)))
            place = found.end()
        self._at = 0

    def whole(self) -> Formula:
        found = self._implication()
        if self._peek():
            raise self._wrong("the end")
        return found

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> bool:
        if self._peek() in wanted and self._peek():
            self._at += 1
            return True
        return False

    def _wrong(self, wanted: str) -> InputError:
        place = self._tokens[self._at][1] if self._at < len(self._tokens) else len(self._text)
        return InputError(f"formula {self._text!r}: expected {wanted} at {place}, found {self._peek()!r}")

    def _implication(self) -> Formula:
        first = self._disjunction()
        return implies(first, self._implication()) if self._take("->") else first

    def _disjunction(self) -> Formula:
        found = self._conjunction()
        while self._take("|"):
            found = either(found, self._conjunction())
        return found

    def _conjunction(self) -> Formula:
        found = self._between()
        while self._take("&"):
            found = both(found, self._between())
        return found

    def _between(self) -> Formula:
        left = self._unary()
        for kind, make in (("U", Future), ("S", Past)):
            if self._take(kind):
                low, high = self._interval()
                right = self._unary()
                return self._checked(make(kind, left, right, low, high))  # type: ignore[arg-type]
        return left

    def _unary(self) -> Formula:
        if self._take("!"):
            return negation(self._unary())
        if self._take("("):
            found = self._implication()
            if not self._take(")"):
                raise self._wrong("`)`")
            return found
        word = self._peek()
        if word in _FUTURE or word in _PAST:
            self._at += 1
            low, high = self._interval() if word not in ("X", "Y") else (0.0, inf)
            of = self._unary()
            if word == "X":
                return Next(of)
            if word in _FUTURE:
                return Future(word, TRUE, of, low, high)  # type: ignore[arg-type]
            return self._checked(Past(word, TRUE, of, low, high))  # type: ignore[arg-type]
        if re.fullmatch(r"[a-z_][a-z0-9_]*", word):
            self._at += 1
            return {"true": TRUE, "false": FALSE}.get(word) or Atom(word)
        raise self._wrong("an atom, an operator or `(`")

    def _checked(self, found: Formula) -> Formula:
        if isinstance(found, Past) and any(_has_future(part) for part in children(found)):
            raise InputError(f"formula {self._text!r}: {found.kind} looks back and cannot hold F, G, X or U")
        return found

    def _interval(self) -> tuple[float, float]:
        if not self._take("["):
            return 0.0, inf
        if self._take("<="):
            low, high = 0.0, self._number()
        elif self._take(">="):
            low, high = self._number(), inf
        else:
            low = self._number()
            if not self._take(","):
                raise self._wrong("`,`")
            high = self._number()
        if not self._take("]"):
            raise self._wrong("`]`")
        if high < low:
            raise InputError(f"formula {self._text!r}: [{low:g},{high:g}] is empty")
        return low, high

    def _number(self) -> float:
        if not re.fullmatch(r"\d+(\.\d+)?", self._peek()):
            raise self._wrong("seconds")
        self._at += 1
        return float(self._tokens[self._at - 1][0])


def _has_future(of: Formula) -> bool:
    return isinstance(of, Future | Next) or any(_has_future(part) for part in children(of))
