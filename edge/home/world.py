"""What really is in the rooms (smoke, gas, water, somebody who moves), and sensors that tell it wrongly.

Agents see what sensors read. What is really there they learn only by looking (`Simulation.look`), as with a
camera. A sensor that is faulty gives a false alarm, misses one, or measures wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dsp.errors import InputError
from edge.home.clock import TICKS_PER_S

ConditionKind = Literal["smoke", "co", "water", "motion", "fall"]
FaultKind = Literal["stuck", "offset", "silent"]
ALARM = "1.SmokeCOAlarm"
# What reads each kind of condition: device type -> attribute.
READS: dict[str, dict[str, str]] = {
    "smoke": dict.fromkeys(("smoke_alarm", "fire_alarm"), f"{ALARM}.SmokeState"),
    "co": dict.fromkeys(("co_alarm", "smoke_alarm", "fire_alarm"), f"{ALARM}.COState"),
    "water": {"leak_sensor": "1.BooleanState.StateValue"},
    "motion": {"motion_sensor": "1.OccupancySensing.Occupancy"},
    "fall": {},  # only seen; what a person wears tells of it on its own
}
NORMAL, SMOKE, CO, TESTED = 0, 1, 2, 4  # SmokeCOAlarm.ExpressedState


@dataclass
class Condition:
    """Something that is really there.

    level: 1 warning, 2 critical (smoke, CO). cause: what one sees who looks ("a pan about to burn").
    source: the device it comes from; when that is off or closed, it is gone `clears_after_s` later.
    worsens_after_s: seconds from its beginning after which it is critical. from_tick, to_tick: from when on,
    until when; None: until its source ends it, or always. attended: somebody is there and sees to it.
    """

    room: str
    kind: ConditionKind
    cause: str
    level: int = 1
    source: str | None = None
    clears_after_s: float = 0.0
    worsens_after_s: float | None = None
    from_tick: int = 0
    to_tick: int | None = None
    attended: bool = False

    def level_at(self, tick: int) -> int:
        """0 when it is not there."""
        if tick < self.from_tick or (self.to_tick is not None and tick >= self.to_tick):
            return 0
        worse = self.worse_at()
        return 2 if worse is not None and tick >= worse else self.level

    def worse_at(self) -> int | None:
        """The tick at which it becomes critical."""
        after = self.worsens_after_s
        return None if after is None else self.from_tick + round(after * TICKS_PER_S)


@dataclass(frozen=True)
class Fault:
    """A sensor that tells it wrongly.

    stuck: reads `value` whatever is there (None: what it read last). offset: reads `value` too much. silent:
    reads nothing (None). from_tick, to_tick: from when until when; None: always.
    """

    device_id: str
    attribute: str
    kind: FaultKind
    value: Any = None
    from_tick: int = 0
    to_tick: int | None = None

    def at(self, tick: int) -> bool:
        """Whether the sensor is faulty then."""
        return self.from_tick <= tick and (self.to_tick is None or tick < self.to_tick)

    def reading(self, truth: Any, before: Any) -> Any:
        """What is read instead of the truth."""
        if self.kind == "silent":
            return None
        if self.kind == "offset":
            return truth + self.value
        return before if self.value is None else self.value


class World:
    """Conditions and faults of one home. Not thread-safe by itself: the simulation holds its lock."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self.faults: list[Fault] = []

    def add(self, condition: Condition) -> None:
        """Raises InputError for a level other than 1 and 2, or an end before the beginning."""
        if condition.kind not in READS or condition.level not in (1, 2):
            raise InputError(
                f"a condition is {', '.join(READS)} of level 1 or 2, not {condition.kind!r} {condition.level}"
            )
        if condition.to_tick is not None and condition.to_tick <= condition.from_tick:
            raise InputError(f"{condition.kind} that ends at tick {condition.to_tick} begins before that")
        self.conditions.append(condition)

    def fail(self, fault: Fault) -> None:
        """A sensor is faulty. Raises InputError for an offset that is no number."""
        number = isinstance(fault.value, int | float) and not isinstance(fault.value, bool)
        if fault.kind == "offset" and not number:
            raise InputError(f"an offset of a sensor is a number, not {fault.value!r}")
        self.faults.append(fault)

    def next_mark(self, tick: int) -> int | None:
        """The next tick at which anything of this changes by itself."""
        marks: list[int | None] = []
        for condition in self.conditions:
            marks += [condition.from_tick, condition.to_tick, condition.worse_at()]
        for fault in self.faults:
            marks += [fault.from_tick, fault.to_tick]
        return min((mark for mark in marks if mark is not None and mark > tick), default=None)

    def follow(self, device_id: str, state: Mapping[str, Any], tick: int) -> None:
        """A device has changed: what comes from it ends, or goes on."""
        gives = gives_off(state)
        for condition in self.conditions:
            if condition.source != device_id or condition.level_at(tick) == 0:
                continue
            if gives:
                condition.to_tick = None
            elif condition.to_tick is None:
                condition.to_tick = tick + max(round(condition.clears_after_s * TICKS_PER_S), 0)

    def level(self, room: str, kind: ConditionKind, tick: int) -> int:
        """How bad it really is: 0 nothing."""
        found = (c.level_at(tick) for c in self.conditions if c.room == room and c.kind == kind)
        return max(found, default=0)

    def look(self, room: str, tick: int) -> list[dict[str, Any]]:
        """What one sees who looks at each condition."""
        return [
            {
                "kind": c.kind,
                "level": c.level_at(tick),
                "cause": c.cause,
                "source": c.source,
                "attended": c.attended,
            }
            for c in self.conditions
            if c.room == room and c.level_at(tick)
        ]

    def fault_of(self, device_id: str, path: str, tick: int) -> Fault | None:
        """The fault of a sensor at a tick; of several the one told last."""
        for fault in reversed(self.faults):
            if fault.device_id == device_id and fault.attribute == path and fault.at(tick):
                return fault
        return None

    def reading(self, device_id: str, path: str, truth: Any, before: Any, tick: int) -> Any:
        """What a sensor reads when `truth` is there and it read `before` last."""
        fault = self.fault_of(device_id, path, tick)
        return truth if fault is None else fault.reading(truth, before)

    def concerns(self, device_id: str, kind: str, room: str) -> bool:
        """Whether a device reads anything of this; what nobody spoke of keeps the state that it was given."""
        return any(f.device_id == device_id for f in self.faults) or any(
            c.room == room and kind in READS[c.kind] for c in self.conditions
        )

    def readings(
        self, device_id: str, kind: str, room: str, state: Mapping[str, Any], tick: int
    ) -> dict[str, Any]:
        """The attributes of an alarm or a detector as they are read now."""
        read: dict[str, Any] = {}
        for what, readers in READS.items():
            path = readers.get(kind)
            if path is None:
                continue
            level = self.level(room, what, tick)  # type: ignore[arg-type]
            truth = level if what in ("smoke", "co") else level > 0 if what == "water" else int(level > 0)
            read[path] = self.reading(device_id, path, truth, state[path], tick)
        if f"{ALARM}.SmokeState" in state:
            smoke, gas = (read.get(f"{ALARM}.{n}", state[f"{ALARM}.{n}"]) for n in ("SmokeState", "COState"))
            expressed = SMOKE if smoke else CO if gas else NORMAL
            if expressed == NORMAL and state[f"{ALARM}.ExpressedState"] == TESTED:
                expressed = TESTED
            read[f"{ALARM}.ExpressedState"] = expressed
            read[f"{ALARM}.DeviceMuted"] = state[f"{ALARM}.DeviceMuted"] if expressed in (SMOKE, CO) else 0
        return read


def gives_off(state: Mapping[str, Any]) -> bool:
    """Whether a device can still be the source of anything: it is on, or open."""
    valve = state.get("1.ValveConfigurationAndControl.CurrentState")
    if valve is not None:
        return bool(valve)
    return bool(state.get("1.OnOff.OnOff", True))
