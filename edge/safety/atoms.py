"""What formulas speak of: events of the stream, and states of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from dsp.errors import InputError

States: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Event:
    """Something that happened: t_s on the clock of whoever tells it; kind and fields as in the events of the
    stream (`command`, `heard`, `said`, `declared`, `finished`, ...), or of one's own (`looked`)."""

    t_s: float
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Happens:
    """True at an event of this kind whose fields are as given: texts are patterns with `*`, lists any of
    them, other values equal."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, event: Event, states: States) -> bool:
        """Whether it is true at this event."""
        return event.kind == self.kind and all(
            _fits(event.data.get(name), wanted) for name, wanted in self.fields.items()
        )


@dataclass(frozen=True)
class Is:
    """True while an attribute of a device has a value: `equals` one of them, or beyond a limit."""

    device_id: str
    attribute: str
    equals: tuple[Any, ...] = ()
    above: float | None = None
    below: float | None = None

    def holds(self, event: Event, states: States) -> bool:
        """Whether it is true after this event."""
        value = states.get(self.device_id, {}).get(self.attribute)
        if any(type(one) is type(value) and one == value for one in self.equals):
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.above is not None and value > self.above) or (
            self.below is not None and value < self.below
        )


AtomKind: TypeAlias = Happens | Is


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return any(_fits(value, one) for one in wanted)
    if isinstance(wanted, str):
        return isinstance(value, str) and fnmatchcase(value, wanted)
    return type(value) is type(wanted) and value == wanted


def atom_of(told: Any, name: str) -> AtomKind:
    """An atom from plain data: {event: kind, field: value, ...}, or {device: id, attribute: path} with one of
    equals (a value or a list), above, below. Raises InputError that names the atom."""
    if not isinstance(told, Mapping):
        raise InputError(f"atom {name}: an object with `event` or `device`, not {told!r}")
    if "event" in told:
        rest = {key: value for key, value in told.items() if key != "event"}
        if not isinstance(told["event"], str):
            raise InputError(f"atom {name}: `event` is the name of a kind, not {told['event']!r}")
        return Happens(told["event"], rest)
    tests = set(told) & {"equals", "above", "below"}
    if set(told) - tests != {"device", "attribute"} or len(tests) != 1:
        raise InputError(
            f"atom {name}: device, attribute and one of equals, above, below; not {', '.join(map(str, told))}"
        )
    equals = told.get("equals", ())
    several = tuple(equals) if isinstance(equals, list | tuple) else (equals,)
    for limit in ("above", "below"):
        value = told.get(limit, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"atom {name}: `{limit}` is a number, not {value!r}")
    return Is(told["device"], told["attribute"], several, told.get("above"), told.get("below"))
