"""What a workflow waits for: an appliance that is done, an attribute or a room's value that becomes so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from edge.home.clock import TICKS_PER_S
from edge.home.errors import HomeError
from edge.home.timeline import Timeline, beyond, works
from recordings.profile import RoomVariable

FURTHEST_S = 7 * 86400
FORMS = (
    "{ended: device}, {device_id, attribute, equals | above | below}, or {room, variable, above | below};"
    " each may have after_s"
)


@dataclass(frozen=True)
class Trigger:
    """One of three: `ended` names an appliance that works; `device_id` and `attribute` with `equals`, `above`
    or `below`; `room` and `variable` with `above` or `below`, in the units of `Timeline.rooms`.

    after_ticks: counted from the moment at which it becomes so; negative (only with `ended`): before it.
    """

    told: dict[str, Any]  # as it was given
    ended: str | None = None
    device_id: str | None = None
    attribute: str | None = None
    room: str | None = None
    variable: Any = None
    equals: Any = None
    above: float | None = None
    below: float | None = None
    after_ticks: int = 0

    def holds(self, value: Any) -> bool:
        """Whether a value is what is waited for."""
        if self.above is None and self.below is None:
            return type(value) is type(self.equals) and value == self.equals
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and beyond(value, self.above, self.below)

    def holds_now(self, timeline: Timeline) -> bool:
        """Whether it is so already; an appliance that is done is waited for while it works, so never."""
        if self.room is not None:
            value = timeline.rooms().get(self.room, {}).get(self.variable)
            return value is not None and self.holds(value)
        if self.device_id is not None and self.attribute is not None:
            return self.holds(timeline.home.state(self.device_id).get(self.attribute))
        return False

    def heard_from(self, device_id: str, changed: Mapping[str, Any], timeline: Timeline) -> bool:
        """Whether a change of a device can make it so. What the air does is reckoned beforehand."""
        if self.device_id is not None and self.attribute is not None:
            touched = device_id == self.device_id and self.attribute in changed
            return touched and timeline.sensor_of(device_id, self.attribute) is None
        return self.variable == "illuminance"

    def expected(self, timeline: Timeline, limit: int) -> int | None:
        """The tick at which it is to run, as far as that is known already and not after `limit`."""
        if self.ended is not None:
            done = timeline.done_at(self.ended)
            return None if done is None or self.after_ticks >= 0 else done + self.after_ticks
        room, variable, above, below = self.room, self.variable, self.above, self.below
        if self.device_id is not None and self.attribute is not None:
            found = timeline.sensor_of(self.device_id, self.attribute)
            if found is None or self.equals is not None:
                return None
            room, variable, shift = found
            above, below = _before_rounding(above, below, shift)
        assert room is not None
        return timeline.crossing(room, variable, above, below, limit)


def _before_rounding(
    above: float | None, below: float | None, shift: float
) -> tuple[float | None, float | None]:
    """The limits of a room's value at which its sensor, which drops the fraction, reads above or below."""
    if above is not None:
        first = math.floor(above) + 1  # the smallest reading that is above
        above = (math.nextafter(first, -math.inf) if first > 0 else first - 1) - shift
    if below is not None:
        last = math.ceil(below) - 1  # the largest reading that is below
        below = (last + 1 if last >= 0 else math.nextafter(last, math.inf)) - shift
    return above, below


def _refusal(text: str) -> HomeError:
    return HomeError("VALIDATION_ERROR", text)


def checked_trigger(when: Any, timeline: Timeline, restoring: bool = False) -> Trigger:
    """A trigger as it is on the wire. restoring: an appliance need not run any more.

    Raises HomeError VALIDATION_ERROR for another form, *_NOT_FOUND for what the home does not have,
    INVALID_STATE for an appliance that does not run.
    """
    if not isinstance(when, Mapping):
        raise _refusal(f"when is {FORMS}; not {when!r}")
    after = when.get("after_s", 0)
    if isinstance(after, bool) or not isinstance(after, int | float) or not abs(after) <= FURTHEST_S:
        raise _refusal(f"after_s is seconds, up to a week, not {after!r}")
    ticks = round(after * TICKS_PER_S)
    tests = set(when) & {"equals", "above", "below"}
    subject = set(when) - tests - {"after_s"}
    if subject == {"ended"} and not tests:
        return _of_appliance(when, ticks, timeline, restoring)
    if ticks < 0:
        raise _refusal("after_s is negative only with `ended`: nobody knows when the rest will be so")
    if subject == {"device_id", "attribute"} and len(tests) == 1:
        return _of_attribute(when, tests, ticks, timeline)
    if subject == {"room", "variable"} and len(tests) == 1 and "equals" not in tests:
        return _of_room(when, ticks, timeline)
    raise _refusal(f"when is {FORMS}; not {dict(when)!r}")


def _of_appliance(when: Mapping[str, Any], ticks: int, timeline: Timeline, restoring: bool) -> Trigger:
    name = when["ended"]
    state = timeline.home.state(name)
    if restoring:
        return Trigger(dict(when), ended=name, after_ticks=ticks)
    if not works(state):
        raise HomeError("INVALID_STATE", f"{name} does not run, so it will not end")
    if ticks < 0 and timeline.done_at(name) is None:
        raise HomeError("INVALID_STATE", f"{name} does not tell when it will end: nothing can be before it")
    return Trigger(dict(when), ended=name, after_ticks=ticks)


def _of_attribute(when: Mapping[str, Any], tests: set[str], ticks: int, timeline: Timeline) -> Trigger:
    device, path = when["device_id"], when["attribute"]
    value = timeline.home.read(device, path)
    if path.endswith(".CountdownTime"):
        raise _refusal("a countdown is waited for with {ended: device, after_s: -seconds}")
    if "equals" in tests:
        equals = when["equals"]
        if value is not None and type(value) is not type(equals):
            raise _refusal(f"{path} is {value!r} now; it will never equal {equals!r}")
        return Trigger(dict(when), device_id=device, attribute=path, equals=equals, after_ticks=ticks)
    above, below = _limits(when)
    return Trigger(dict(when), device_id=device, attribute=path, above=above, below=below, after_ticks=ticks)


def _of_room(when: Mapping[str, Any], ticks: int, timeline: Timeline) -> Trigger:
    room, variable = when["room"], when["variable"]
    if variable not in get_args(RoomVariable):
        raise _refusal(f"variable is one of {', '.join(get_args(RoomVariable))}, not {variable!r}")
    if not isinstance(room, str) or room not in timeline.rooms():
        raise HomeError("ROOM_NOT_FOUND", f"there is no room {room!r} in this home whose air is measured")
    above, below = _limits(when)
    return Trigger(dict(when), room=room, variable=variable, above=above, below=below, after_ticks=ticks)


def _limits(when: Mapping[str, Any]) -> tuple[float | None, float | None]:
    for name in ("above", "below"):
        value = when.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _refusal(f"{name} is a number, not {value!r}")
    return when.get("above"), when.get("below")
