"""A real home behind the same commands as the twin: what is told is carried out there, and read back.

A command is first tried in the twin, from the state that was just read: what the twin refuses is refused
here, with the same errors, and nothing is sent. What it would change is translated into calls of the real
home. It has succeeded when the real state says so, not when the call was accepted.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from capture.rig import Rig
from edge.home.bridge_entities import Asked, Call, Entity, Told, air_of
from edge.home.bridge_kinds import can_do, read, tell
from edge.home.bridge_map import Bound, Place, device_map
from edge.home.errors import HomeError
from edge.home.reach import schema_of
from edge.home.schema import Attribute, Value, commands_of, defaults
from edge.home.twin import CommandResult, Home, HomeDevice, Listener

log = logging.getLogger(__name__)

# Commands that change something although no attribute shows it.
_SHOWLESS = ("MediaPlayback.Next", "MediaPlayback.Previous", "WindowCovering.StopMotion")


class Link(Protocol):
    """The way to a home. What it knows of entities is kept up to date by itself while it is connected."""

    @property
    def where(self) -> str:
        """The home, for messages: "Home Assistant at http://..."."""

    @property
    def connected(self) -> bool: ...

    @property
    def trouble(self) -> str:
        """Why it is not connected, in words; "" when it is."""

    def entities(self) -> dict[str, Entity]:
        """All that is known, by id."""

    def places(self) -> dict[str, Place]:
        """What the home's registries say of entities, by id."""

    def refresh(self, entity_id: str) -> Entity:
        """Its state, asked for just now where one can ask. Raises HomeError CONNECTION_ERROR,
        DEVICE_NOT_FOUND."""

    def call(self, entity_id: str, call: Call) -> None:
        """Returns when the call was accepted. Raises HomeError as `refresh`, VALIDATION_ERROR when refused,
        TIMEOUT_ERROR."""

    def wait(self, entity_id: str, done: Callable[[Entity], bool], seconds: float) -> Entity:
        """Its state as soon as `done` holds, or after so many seconds."""

    def listen(self, changed: Callable[[str | None], None]) -> None:
        """changed(entity id); None: anything may have changed, also which entities there are."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Change:
    """What a command would do in the twin."""

    what: str
    asked: Asked


class BridgeHome:
    """The devices of a real home; the face of `edge.home.twin.Home` (`edge.home.timeline.DeviceHome`).

    answer_s: how long a device may take to do what it was told. Attributes that are not known are None. In a
    blind that moves, the target is what it was told and the position where it is.
    """

    def __init__(self, rig: Rig, link: Link) -> None:
        self._link, self._answer_s = link, rig.home.answer_s
        self._leave_out = rig.home.leave_out
        self._here = rig.room.name
        self._named = rig.room.devices
        self._listeners: list[Listener] = []
        self._devices_listeners: list[Callable[[], None]] = []
        self.order = threading.RLock()
        self._lock = threading.Lock()
        self._bound: dict[str, Bound] = {}
        self._of_entity: dict[str, str] = {}
        self._told: dict[str, dict[str, Value]] = {}
        self._targets: dict[str, int] = {}
        self.left_out: dict[str, str] = {}
        self._busy: dict[str, threading.Lock] = {}
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._closing = False
        self._rebuild()
        link.listen(self._events.put)
        self._thread = threading.Thread(target=self._follow, name="home events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the connection."""
        self._closing = True
        self._link.close()
        self._events.put(None)
        self._thread.join()

    # -- what is there

    @property
    def link(self) -> Link:
        """The way to the home."""
        return self._link

    @property
    def devices(self) -> tuple[HomeDevice, ...]:
        """Those of the rig file that are bound to an entity, then what else the home has."""
        with self._lock:
            return tuple(bound.device for bound in self._bound.values())

    def replace_devices(self, devices: list[HomeDevice]) -> None:
        """Nothing: a real home has the devices that it has. See `follow`."""

    def follow(self, rig: Rig) -> None:
        """Another description of the same room."""
        self._named, self._here, self._leave_out = rig.room.devices, rig.room.name, rig.home.leave_out
        self._rebuild()

    def listen(self, listener: Listener) -> None:
        """As in the twin; changes of the real home are told by a thread of this object."""
        with self.order:
            self._listeners.append(listener)

    def listen_devices(self, others: Callable[[], None]) -> None:
        """Call `others()` when the home has other devices than before: it was reached, or got new ones."""
        self._devices_listeners.append(others)

    def state(self, device_id: str) -> dict[str, Value]:
        """All attributes of one device. Raises HomeError DEVICE_NOT_FOUND."""
        return self._attributes(self._device(device_id))

    def snapshot(self) -> dict[str, dict[str, Value]]:
        """device id -> attributes."""
        with self._lock:
            bound = list(self._bound.values())
        return {one.device.id: self._attributes(one) for one in bound}

    def read(self, device_id: str, path: str) -> Value:
        """One attribute. Raises HomeError DEVICE_NOT_FOUND, ATTRIBUTE_NOT_FOUND."""
        bound = self._device(device_id)
        state = self._attributes(bound)
        if path not in state:
            raise HomeError("ATTRIBUTE_NOT_FOUND", f"{self._name(bound)} tells no {path}")
        return state[path]

    def describe(self) -> list[dict[str, Any]]:
        """Every device as plain data, as in the twin, with `entity` and `connected`."""
        with self._lock:
            bound = list(self._bound.values())
        told = []
        for one in bound:
            device, state = one.device, self._attributes(one)
            told.append(
                {
                    "id": device.id,
                    "type": device.type,
                    "name": device.name,
                    "room": device.room,
                    "position_m": None if device.position_m is None else list(device.position_m),
                    "attributes": state,
                    "commands": [c for c in commands_of(device.type) if self._offers(one, c, state)],
                    "entity": one.entity,
                    "connected": self._known(one) is not None,
                }
            )
        return told

    def air(self) -> dict[str, dict[str, float]]:
        """room -> variable -> value in the twin's units, by the sensors of the home; the middle one of
        several."""
        found: dict[str, dict[str, list[float]]] = {}
        places = self._link.places()
        for entity_id, entity in self._link.entities().items():
            air, place = air_of(entity), places.get(entity_id)
            if air is not None and place is not None and place.room:
                found.setdefault(place.room, {}).setdefault(air[0], []).append(air[1])
        return {
            room: {variable: sorted(values)[len(values) // 2] for variable, values in variables.items()}
            for room, variables in found.items()
        }

    # -- what is done

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult:
        """Carry out a command there. Raises HomeError as the twin does, and CONNECTION_ERROR (the home or the
        device cannot be reached), VALIDATION_ERROR (the home refuses), TIMEOUT_ERROR (told, but its state
        does not say that it followed)."""
        return self._run(
            device_id, str(command), lambda twin: twin.command(device_id, command, args, endpoint), args or {}
        )

    def write(self, device_id: str, path: str, value: Value) -> CommandResult:
        """Write an attribute there; raises as `command`."""
        return self._run(
            device_id, f"write {path}", lambda twin: twin.write(device_id, path, value), {"value": value}
        )

    def _run(
        self, device_id: str, what: str, change: Callable[[Home], CommandResult], args: Mapping[str, Any]
    ) -> CommandResult:
        bound = self._device(device_id)
        with self._lock:
            busy = self._busy.setdefault(device_id, threading.Lock())
        with busy:  # two commands to one device would read back each other's state
            what, before, after = self._run_alone(bound, what, change, args)
        self._tell(device_id)  # not inside: who holds `order` may be waiting for this device
        changed = {path: value for path, value in after.items() if before.get(path) != value}
        return CommandResult(device_id, what, changed, after)

    def _run_alone(
        self, bound: Bound, what: str, change: Callable[[Home], CommandResult], args: Mapping[str, Any]
    ) -> tuple[str, dict[str, Value], dict[str, Value]]:
        """(command, attributes before, attributes read back)."""
        entity = self._link.refresh(bound.entity)
        if entity.state == "unavailable":
            raise HomeError("CONNECTION_ERROR", f"{self._name(bound)} cannot be reached by {self._where}")
        before = self._attributes(bound)
        self._check_told(bound, before, what)
        wanted = self._in_twin(bound.device, before, change, args)
        if not wanted.asked.changed and wanted.asked.name not in _SHOWLESS:
            return wanted.what, before, before
        told = tell(entity, wanted.asked)
        if told is None:
            raise HomeError("COMMAND_NOT_FOUND", f"{self._name(bound)} cannot do {wanted.asked.name} now")
        self._carry_out(bound, entity, wanted, told)
        return wanted.what, before, self._attributes(bound)

    def _carry_out(self, bound: Bound, entity: Entity, wanted: _Change, told: Told) -> None:
        target = wanted.asked.changed.get("WindowCovering.TargetPositionLiftPercent100ths")
        if isinstance(target, int):
            self._targets[bound.device.id] = target
        for call in told.calls:
            self._link.call(bound.entity, call)
        if entity.assumed:
            raise HomeError(
                "TIMEOUT_ERROR",
                f"{self._name(bound)} was told {wanted.asked.name}, but {self._where} only assumes its state:"
                " nobody can read back whether it followed",
            )
        now = self._link.wait(bound.entity, told.done, self._answer_s)
        if not told.done(now):
            now = self._link.refresh(bound.entity)
        if not told.done(now):
            self._targets.pop(bound.device.id, None)
            raise HomeError(
                "TIMEOUT_ERROR",
                f"{self._name(bound)} was told {wanted.asked.name}, but after {self._answer_s:g} s its state"
                f" is {_in_words(now)}",
            )

    def _check_told(self, bound: Bound, state: Mapping[str, Value], what: str) -> None:
        """Raises HomeError when the type has this command or attribute, but this device tells nothing of its
        cluster, or that it cannot; what not even the type has, the twin refuses."""
        kind, path = bound.device.type, what.removeprefix("write ")
        if path != what:
            if path not in state and schema_of(kind, path) is not None:
                raise HomeError("ATTRIBUTE_NOT_FOUND", f"{self._name(bound)} tells no {path}")
            return
        parts = what.split(".")
        known = [c for c in commands_of(kind) if _ends_with(c, parts)]
        if known and not any(self._offers(bound, command, state) for command in known):
            raise HomeError(
                "COMMAND_NOT_FOUND", f"{self._name(bound)} has no {known[0]['cluster']}.{parts[-1]}"
            )

    def _in_twin(
        self,
        device: HomeDevice,
        before: Mapping[str, Value],
        change: Callable[[Home], CommandResult],
        args: Mapping[str, Any],
    ) -> _Change:
        """What the twin would do. Raises HomeError as it does."""
        first = {path: value for path, value in before.items() if _fits(device.type, path, value)}
        twin = Home([device], {device.id: first}, as_given=True)
        result = change(twin)
        name = result.command
        path = name.removeprefix("write ") if name.startswith("write ") else ""
        cluster = (path or name).rpartition(".")[0]
        # While its state is not known at all, it may be other than the twin's: it is told anyway.
        unknown = all(value is None for value in before.values())
        told = {p for p in before if p in result.changed or (unknown and p.startswith(f"{cluster}."))}
        changed = {_bare(p): result.attributes[p] for p in told}
        if result.changed and not changed:
            raise HomeError("COMMAND_NOT_FOUND", f"{device.id} tells nothing of what {name} would change")
        return _Change(
            name,
            Asked(
                name=f"write {_bare(path)}" if path else _bare(name),
                args=args,
                changed=changed,
                after={_bare(p): v for p, v in result.attributes.items() if p in before},
            ),
        )

    # -- inside

    @property
    def _where(self) -> str:
        return self._link.where

    def _name(self, bound: Bound) -> str:
        return f"{bound.device.id} ({bound.entity})"

    def _device(self, device_id: str) -> Bound:
        with self._lock:
            bound = self._bound.get(device_id) if isinstance(device_id, str) else None
        if bound is None:
            raise HomeError("DEVICE_NOT_FOUND", f"there is no device {device_id!r} in this home")
        return bound

    def _known(self, bound: Bound) -> Entity | None:
        """None while the home or the device is away."""
        entity = self._link.entities().get(bound.entity) if self._link.connected else None
        return None if entity is None or entity.away else entity

    def _attributes(self, bound: Bound) -> dict[str, Value]:
        entity = self._link.entities().get(bound.entity)
        if entity is None:  # of rig.yaml, but the home does not tell of it (yet)
            return dict.fromkeys(defaults(bound.device.type))
        state = read(entity, bound.device.type)
        if self._known(bound) is None:
            return dict.fromkeys(state)
        target = self._targets.get(bound.device.id)
        if target is not None:
            if entity.state in ("opening", "closing"):
                state["1.WindowCovering.TargetPositionLiftPercent100ths"] = target
            else:
                self._targets.pop(bound.device.id, None)
        return state

    def _offers(self, bound: Bound, command: Mapping[str, Any], state: Mapping[str, Value]) -> bool:
        entity = self._link.entities().get(bound.entity)
        name = f"{command['cluster']}.{command['command']}"
        return _has_cluster(command, state) and (entity is None or can_do(entity, name))

    def _rebuild(self) -> None:
        bound, left_out = device_map(
            self._named, self._here, self._link.entities(), self._link.places(), self._leave_out
        )
        with self._lock:
            self._bound = {one.device.id: one for one in bound}
            self._of_entity = {one.entity: one.device.id for one in bound}
            self.left_out = left_out
            self._told = {name: state for name, state in self._told.items() if name in self._bound}

    def _follow(self) -> None:
        while True:
            events = {self._events.get()}
            with contextlib.suppress(queue.Empty):  # they come in crowds when the home starts
                while True:
                    events.add(self._events.get_nowait())
            if self._closing:
                return
            try:
                self._heard(events)
            except Exception:
                log.exception("following the home failed at %s", events)

    def _heard(self, events: set[str | None]) -> None:
        if None in events:
            before = self.devices
            self._rebuild()
            if self.devices != before:
                for others in list(self._devices_listeners):
                    others()
            changed = [device.id for device in self.devices]
        else:
            with self._lock:
                changed = [self._of_entity[one] for one in events if one in self._of_entity]
        for device_id in changed:
            with contextlib.suppress(HomeError):  # it went away meanwhile
                self._tell(device_id)

    def _tell(self, device_id: str) -> None:
        """Tell the listeners what differs from what they were told before."""
        with self.order:
            now = self.state(device_id)
            before = self._told.get(device_id)
            self._told[device_id] = now
            changed = {p: v for p, v in now.items() if before is None or p not in before or before[p] != v}
            for listener in list(self._listeners) if changed else []:
                try:
                    listener(device_id, dict(changed))
                except Exception:
                    log.exception("a listener of the home failed on %s", device_id)


def _bare(path: str) -> str:
    return path.partition(".")[2]


def _ends_with(command: Mapping[str, Any], parts: list[str]) -> bool:
    whole = [str(command["endpoint"]), command["cluster"], command["command"]]
    return whole[-len(parts) :] == parts


def _has_cluster(command: Mapping[str, Any], state: Mapping[str, Value]) -> bool:
    return any(path.startswith(f"{command['endpoint']}.{command['cluster']}.") for path in state)


def _fits(device_type: str, path: str, value: Value) -> bool:
    """Whether the twin can have this value; what a real device is in, it may not know."""
    attribute: Attribute | None = schema_of(device_type, path)
    if attribute is None:
        return False
    if value is None:
        return attribute.nullable
    if type(value) is not attribute.kind or (attribute.choices and value not in attribute.choices):
        return False
    low, high = attribute.low, attribute.high
    return low is None or high is None or not isinstance(value, int) or low <= value <= high


def _in_words(entity: Entity) -> str:
    shown = ("brightness", "percentage", "temperature", "current_position", "volume_level", "fan_mode")
    more = [f"{key} {entity.attributes[key]}" for key in shown if entity.attributes.get(key) is not None]
    return ", ".join([entity.state, *more])
