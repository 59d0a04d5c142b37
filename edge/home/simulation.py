"""The home in time: its devices, the air of its rooms, appliances that end, and what was scheduled.

Each tick: devices first (cycles), then rooms, then workflows that are due. Deterministic: the same first
state and the same calls at the same ticks give the same home, however the time between was cut into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsp.errors import InputError
from edge.home.clock import FURTHEST_TICK, TICKS_PER_S, HomeClock
from edge.home.cycles import COUNTDOWNS, CYCLES, PAUSED, busy_path, finish, phase_at
from edge.home.environment import RoomAir, Variable
from edge.home.errors import HomeError
from edge.home.quirks import Quirks
from edge.home.schema import DEVICE_TYPES, Value
from edge.home.timeline import Due, Ended, works
from edge.home.twin import CommandResult, Home, HomeDevice, check_attribute, in_schema
from edge.home.world import READS, Condition, Fault, World

SENSORS: dict[str, Variable] = {
    "1.Thermostat.LocalTemperature": "temperature",
    "4.Thermostat.LocalTemperature": "temperature",
    "2.RelativeHumidityMeasurement.MeasuredValue": "humidity",
}
SENSING = {kind: [path for path in SENSORS if in_schema(kind, path)] for kind in DEVICE_TYPES}
LIMITS: dict[Variable, tuple[float, float]] = {"temperature": (-5000, 10000), "humidity": (0, 10000)}


class Simulation:
    """A home whose time passes when `advance_to` says so; see `edge.home.clock.RealTime` for real time.

    home: its devices; commands may also be sent to it directly. rooms: room -> variable -> value in the
    units of `edge.home.environment`; rooms that only devices name are usual ones. clock: its time of day.
    Thread-safe. Raises InputError for rooms with unknown variables.
    """

    def __init__(
        self,
        home: Home,
        rooms: Mapping[str, Mapping[str, float]] | None = None,
        *,
        clock: HomeClock | None = None,
        quirks: Quirks | None = None,
    ) -> None:
        self.home = home
        self.clock = clock or HomeClock("2026-01-01 08:00:00")
        self.quirks = quirks or Quirks()
        self._lock = home.order  # one lock: whoever changes a device holds it when `_changed` is told
        self._tick = 0
        self._due: Due = lambda limit: None
        self._run_due: Callable[[], None] = lambda: None
        states = dict(rooms or {})
        names = dict.fromkeys([*states, *(device.room for device in home.devices)])
        self._ended: list[Ended] = []
        self._rooms = {name: RoomAir(states.get(name, {}), self.quirks) for name in names}
        self._cycles: dict[str, tuple[str, int]] = {}  # device -> (cluster, tick at which it is done)
        self._paused: dict[str, tuple[str, int]] = {}  # device -> (cluster, ticks left)
        self._world = World()
        self._working: dict[str, bool] = {}  # devices in the middle of their work -> it has a known end
        self._finishing: str | None = None
        self._reading = False
        for device in home.devices:
            self._follow_cycle(device.id, home.state(device.id), {})
        for name in self._rooms:
            self._follow_room(name)
        home.listen(self._changed)

    # -- time

    @property
    def tick(self) -> int:
        """Ticks of 0.1 s since the first moment."""
        with self._lock:
            return self._tick

    @property
    def time(self) -> str:
        """The home's time of day."""
        return self.clock.at(self.tick)

    def on_due(self, due: Due, run: Callable[[], None]) -> None:
        """due(limit): the tick of the next thing that is scheduled, as far as it comes up to the tick
        `limit`; run(): do what is due at `tick`."""
        with self._lock:
            self._due, self._run_due = due, run

    def on_end(self, ended: Ended) -> None:
        """ended(device, by_itself) when a device's cycle is over: done, or stopped by somebody."""
        with self._lock:
            self._ended.append(ended)

    def crossing(
        self, room: str, variable: Variable, above: float | None, below: float | None, limit: int
    ) -> int | None:
        """The first tick after this one, up to `limit`, at which a room's value is above (below) a threshold
        if no device changes before. Raises HomeError ROOM_NOT_FOUND."""
        with self._lock:
            if room not in self._rooms:
                raise HomeError("ROOM_NOT_FOUND", f"there is no room {room!r} in this home")
            ticks = self._rooms[room].first_beyond(variable, above, below, limit - self._tick)
            return None if ticks is None else self._tick + ticks

    def advance_to(self, tick: int) -> None:
        """Let time pass up to this tick. Raises InputError for a tick that is past, or years away."""
        if isinstance(tick, bool) or not isinstance(tick, int) or not self.tick <= tick <= FURTHEST_TICK:
            raise InputError(
                f"time passes from tick {self.tick} on, to {FURTHEST_TICK} at most; {tick!r} is no such tick"
            )
        with self._lock:
            while self._tick < tick:
                mark = self._world.next_mark(self._tick)
                ends = [end for _, end in self._cycles.values()]
                following = max(min([tick, *ends, *([] if mark is None else [mark])]), self._tick + 1)
                due = self._due(following)
                if due is not None:
                    following = max(min(following, due), self._tick + 1)
                for room in self._rooms.values():
                    room.run(following - self._tick)
                self._tick = following
                for device_id, (cluster, end) in list(self._cycles.items()):
                    if end <= self._tick:
                        del self._cycles[device_id]
                        self._finish(device_id, cluster)
                if mark is not None and mark <= self._tick:
                    self._read_sensors()
                triggered = self._due(self._tick)  # by a cycle that ended
                if any(one is not None and one <= self._tick for one in (due, triggered)):
                    self._read_sensors()
                    self._run_due()
            self._read_sensors()

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.advance_to(self.tick + round(seconds * TICKS_PER_S))

    # -- what is there

    def rooms(self) -> dict[str, dict[Variable, float]]:
        """room -> variable -> value now."""
        with self._lock:
            return {name: room.state() for name, room in self._rooms.items()}

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult:
        """As `Home.command`, between two ticks."""
        with self._lock:
            return self.home.command(device_id, command, args, endpoint)

    def write(self, device_id: str, path: str, value: Value) -> CommandResult:
        """As `Home.write`, between two ticks."""
        with self._lock:
            return self.home.write(device_id, path, value)

    def add_device(self, device: HomeDevice, initial: Mapping[str, Any] | None = None) -> None:
        """As `Home.add_device`; its room must be there. Raises HomeError ROOM_NOT_FOUND as well."""
        with self._lock:
            if device.room not in self._rooms:
                raise HomeError("ROOM_NOT_FOUND", f"there is no room {device.room!r} in this home")
            self.home.add_device(device, initial)
            self._follow_cycle(device.id, self.home.state(device.id), {})
            self._follow_room(device.room)

    def remove_device(self, device_id: str) -> None:
        """As `Home.remove_device`."""
        with self._lock:
            room = next((d.room for d in self.home.devices if d.id == device_id), None)
            self.home.remove_device(device_id)
            self._cycles.pop(device_id, None)
            self._paused.pop(device_id, None)
            self._working.pop(device_id, None)
            if room is not None:
                self._follow_room(room)

    def sensor_of(self, device_id: str, path: str) -> tuple[str, Variable, float] | None:
        """(room, variable, offset): an attribute that reads a room's value plus an offset; else None."""
        with self._lock:
            device = next((d for d in self.home.devices if d.id == device_id), None)
            if device is None or path not in SENSING[device.type]:
                return None
            fault = self._world.fault_of(device_id, path, self._tick)
            if fault is not None and fault.kind != "offset":
                return None
            return device.room, SENSORS[path], 0.0 if fault is None else float(fault.value)

    def add_condition(self, condition: Condition) -> None:
        """Something is really there: smoke, water, ... Raises InputError; HomeError ROOM_NOT_FOUND."""
        with self._lock:
            if condition.room not in self._rooms:
                raise HomeError("ROOM_NOT_FOUND", f"there is no room {condition.room!r} in this home")
            if condition.source is not None:
                self.home.state(condition.source)
            self._world.add(condition)
            self._read_sensors()

    def add_fault(self, fault: Fault) -> None:
        """A sensor tells it wrongly. Raises InputError; HomeError *_NOT_FOUND; VALIDATION_ERROR for a value
        that the attribute cannot have, INVALID_STATE for an attribute that no sensor reads."""
        with self._lock:
            self.home.read(fault.device_id, fault.attribute)
            device = next(d for d in self.home.devices if d.id == fault.device_id)
            read = fault.attribute in SENSING[device.type]
            if not read and fault.attribute not in (one.get(device.type) for one in READS.values()):
                raise HomeError("INVALID_STATE", f"{fault.attribute} of {device.id} is not read by a sensor")
            if fault.kind == "stuck" and fault.value is not None:
                check_attribute(device, fault.attribute, fault.value)
            self._world.fail(fault)
            self._read_sensors()

    def look(self, room: str) -> list[dict[str, Any]]:
        """What is really there, as one sees who looks: kind, level, cause, source, attended.

        Raises HomeError ROOM_NOT_FOUND.
        """
        with self._lock:
            if room not in self._rooms:
                raise HomeError("ROOM_NOT_FOUND", f"there is no room {room!r} in this home")
            return self._world.look(room, self._tick)

    def follow_devices(self) -> None:
        """The home has other devices now (`Home.replace_devices`)."""
        with self._lock:
            there = {device.id for device in self.home.devices}
            for gone in [name for name in self._cycles if name not in there]:
                del self._cycles[gone]
            for known in (self._paused, self._working):
                for gone in [name for name in known if name not in there]:
                    known.pop(gone)  # type: ignore[attr-defined]
            for device in self.home.devices:
                if device.room not in self._rooms:
                    self._rooms[device.room] = RoomAir({}, self.quirks)
                self._follow_cycle(device.id, self.home.state(device.id), {})
            for name in self._rooms:
                self._follow_room(name)

    def done_at(self, device_id: str) -> int | None:
        """The tick at which the cycle that runs now is done; None when none runs, or it has no known end."""
        with self._lock:
            cycle = self._cycles.get(device_id)
            return None if cycle is None else cycle[1]

    # -- inside

    def _changed(self, device_id: str, changed: Mapping[str, Value]) -> None:
        with self._lock:
            if self._reading:
                return
            state = self.home.state(device_id)
            self._follow_cycle(device_id, state, changed)
            self._world.follow(device_id, state, self._tick)
            room = next((d.room for d in self.home.devices if d.id == device_id), None)
            if room in self._rooms:
                self._follow_room(room)

    def _follow_cycle(self, device_id: str, state: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Note when a cycle that runs now will be done; remember what is left of one that is paused."""
        cluster = busy_path(dict(state))
        if works(state):
            self._working[device_id] = self._working.get(device_id, False) or cluster is not None
        elif device_id in self._working:
            has_end = self._working.pop(device_id)
            for ended in self._ended:
                ended(device_id, self._finishing == device_id or not has_end)
        if cluster is None:
            before = self._cycles.pop(device_id, None)
            if not any(state.get(f"{name}.OperationalState") == PAUSED for name in CYCLES):
                self._paused.pop(device_id, None)
            elif before is not None:
                self._paused[device_id] = (before[0], before[1] - self._tick)
            return
        left = state[COUNTDOWNS[cluster]] * TICKS_PER_S
        if COUNTDOWNS[cluster] in changed or device_id not in self._cycles:
            if COUNTDOWNS[cluster] not in changed:
                left = self._paused.get(device_id, (cluster, left))[1]
            self._cycles[device_id] = (cluster, self._tick + left)
        self._paused.pop(device_id, None)

    def _left(self, device_id: str, cluster: str) -> int | None:
        """Ticks that a cycle still takes, running or paused."""
        name, end = self._cycles.get(device_id, ("", 0))
        if name == cluster:
            return end - self._tick
        name, left = self._paused.get(device_id, ("", 0))
        return left if name == cluster else None

    def _follow_room(self, name: str) -> None:
        here = [d for d in self.home.devices if d.room == name]
        self._rooms[name].follow((d.id, d.type, self.home.state(d.id)) for d in here)

    def _finish(self, device_id: str, cluster: str) -> None:
        self._finishing = device_id
        try:
            self.home.evolve(device_id, lambda attributes: finish(attributes, cluster))
        finally:
            self._finishing = None

    def _read_sensors(self) -> None:
        """What devices measure and count down, into their attributes."""
        states = {name: room.state() for name, room in self._rooms.items()}
        for device in self.home.devices:
            sensors = SENSING[device.type]
            detects = self._world.concerns(device.id, device.type, device.room)
            if (
                not sensors
                and not detects
                and device.id not in self._cycles
                and device.id not in self._paused
            ):
                continue
            now = self.home.state(device.id)
            read: dict[str, Any] = {}
            for path in sensors:
                variable = SENSORS[path]
                low, high = LIMITS[variable]
                truth = int(min(max(states[device.room][variable], low), high))
                value = self._world.reading(device.id, path, truth, now[path], self._tick)
                read[path] = value if value is None else int(min(max(value, low), high))
            if detects:
                read |= self._world.readings(device.id, device.type, device.room, now, self._tick)
            for cluster, countdown in COUNTDOWNS.items():
                left = self._left(device.id, cluster)
                if left is not None:
                    read[countdown] = -(-left // TICKS_PER_S)
                    if now.get(f"{cluster}.CurrentPhase") is not None:
                        read[f"{cluster}.CurrentPhase"] = phase_at(now, 1, left / TICKS_PER_S)
            if any(now[path] != value for path, value in read.items()):
                self._reading = True
                try:
                    self.home.evolve(device.id, _taking(read))
                finally:
                    self._reading = False


def _taking(read: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def take(attributes: dict[str, Any]) -> None:
        attributes.update(read)

    return take
