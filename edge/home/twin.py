"""The home twin: the devices of a room, their state, and what commands and writes do to it.

Deterministic: the state depends only on the first state and the order of commands. Nothing happens by itself
in here: time, cycles that end and the air of rooms are in `edge.home.simulation`, around it. Blinds and
levels move at once. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dsp.errors import InputError
from edge.home.actions import ACTIONS, Attributes, require_on, settle
from edge.home.errors import HomeError
from edge.home.schema import COMMANDS, DEVICE_TYPES, Argument, Attribute, Value, commands_of, defaults

log = logging.getLogger(__name__)

Listener = Callable[[str, dict[str, Value]], None]


@dataclass(frozen=True, slots=True)
class HomeDevice:
    """What a device is and where it stands (room frame, metres; None: unknown)."""

    id: str
    type: str
    name: str
    room: str
    position_m: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command or write did: the attributes that changed, and all of them read back afterwards."""

    device_id: str
    command: str
    changed: dict[str, Value]
    attributes: dict[str, Value]


class Home:
    """Devices with Matter-like clusters; see `edge.home.schema` for what each type has.

    devices: what stands in the home; ids must be unique and types known.
    initial: device id -> {"1.OnOff.OnOff": True, ...}; what is not named has its default.
    as_given: the first state is taken as it is, without what follows from it (a fan's speed from its being
        on), and attributes that the type does not have are kept: they can be read, and nothing changes them.
    thirds: fans are low up to 33 %, medium up to 66 %; else by the nearest of 33, 66, 100 %.

    Listeners are called with (device_id, changed attributes) after each change, in the thread that caused
    it, in the order of the changes. They may read the home, and should be quick. An exception of a listener
    is logged and stops nobody.

    Raises InputError for unknown types, ids, attributes or values in the first state.
    """

    def __init__(
        self,
        devices: list[HomeDevice],
        initial: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        as_given: bool = False,
        thirds: bool = False,
    ) -> None:
        self._devices: dict[str, HomeDevice] = {}
        self._state: dict[str, Attributes] = {}
        self._listeners: list[Listener] = []
        self._as_given, self._thirds = as_given, thirds
        self._lock = threading.Lock()  # the state
        self.order = threading.RLock()  # held during a change with its listeners: one after the other
        initial = initial or {}
        for device in devices:
            if device.type not in DEVICE_TYPES:
                raise InputError(
                    f"device {device.id!r} has the unknown type {device.type!r};"
                    f" known: {', '.join(DEVICE_TYPES)}"
                )
            if device.id in self._devices:
                raise InputError(f"the device id {device.id!r} is used twice; ids must be unique")
            self._devices[device.id] = device
            self._state[device.id] = self._first_state(device, initial.get(device.id, {}))
        unknown = sorted(set(initial) - set(self._devices))
        if unknown:
            raise InputError(f"the first state names the device {unknown[0]!r}, which the home does not have")

    def _first_state(self, device: HomeDevice, given: Mapping[str, Any]) -> Attributes:
        state = defaults(device.type)
        for path, value in given.items():
            if self._as_given and not in_schema(device.type, path):
                state[path] = value
                continue
            try:
                _check_value(path, value, _attribute(device, path)[1])
            except HomeError as error:
                raise InputError(f"the first state of {device.id!r}: {error}") from None
            state[path] = value
        if self._as_given:
            return state
        works = given.get("1.OperationalState.OperationalState") in (1, 2)
        plays = given.get("1.MediaPlayback.CurrentState") in (0, 1)
        if (works or plays) and "1.OnOff.OnOff" not in given:
            state["1.OnOff.OnOff"] = True
        # As if switched on from rest, so that what follows (a fan's speed) follows here too.
        rest = defaults(device.type)
        if "1.FanControl.PercentSetting" in given:
            rest["1.FanControl.FanMode"] = state["1.FanControl.FanMode"]
        settle(rest, state, self._thirds)
        return state

    @property
    def devices(self) -> tuple[HomeDevice, ...]:
        """What stands in the home, in the order given."""
        return tuple(self._devices.values())

    def replace_devices(self, devices: list[HomeDevice]) -> None:
        """Other devices from now on; one that had its id and type before keeps its state. Nobody is told.
        Raises InputError as the constructor does, and then nothing has changed."""
        fresh = Home(devices)
        with self.order, self._lock:
            for device in devices:
                before = self._devices.get(device.id)
                if before is not None and before.type == device.type:
                    fresh._state[device.id] = self._state[device.id]
            self._devices, self._state = fresh._devices, fresh._state

    def add_device(self, device: HomeDevice, initial: Mapping[str, Any] | None = None) -> None:
        """One more device. Raises HomeError DEVICE_ALREADY_EXISTS; InputError as the constructor does."""
        fresh = Home([device], {device.id: initial or {}}, as_given=self._as_given, thirds=self._thirds)
        with self.order, self._lock:
            if device.id in self._devices:
                raise HomeError("DEVICE_ALREADY_EXISTS", f"there is a device {device.id!r} already")
            self._devices = {**self._devices, device.id: device}
            self._state[device.id] = fresh._state[device.id]

    def remove_device(self, device_id: str) -> None:
        """Take a device out. Raises HomeError DEVICE_NOT_FOUND."""
        with self.order, self._lock:
            gone = self._device(device_id)
            self._devices = {name: device for name, device in self._devices.items() if name != gone.id}
            del self._state[gone.id]

    def listen(self, listener: Listener) -> None:
        """Call `listener(device_id, changed)` after every change from now on."""
        with self.order:
            self._listeners.append(listener)

    def state(self, device_id: str) -> dict[str, Value]:
        """All attributes of one device, a copy. Raises HomeError DEVICE_NOT_FOUND."""
        with self._lock:
            return dict(self._state[self._device(device_id).id])

    def snapshot(self) -> dict[str, dict[str, Value]]:
        """device id -> attributes, of the whole home at one moment."""
        with self._lock:
            return {device_id: dict(state) for device_id, state in self._state.items()}

    def read(self, device_id: str, path: str) -> Value:
        """One attribute, e.g. "1.OnOff.OnOff". Raises HomeError *_NOT_FOUND."""
        with self._lock:
            device = self._device(device_id)
            if not (isinstance(path, str) and path in self._state[device_id]):
                _attribute(device, path)  # says which part of it is wrong
            return self._state[device_id][path]

    def command(
        self, device_id: str, command: str, args: Mapping[str, Any] | None = None, endpoint: int | None = None
    ) -> CommandResult:
        """Carry out a command: "Off", or with its cluster "OnOff.Off", or with the endpoint "1.OnOff.Off".

        Raises HomeError: DEVICE_NOT_FOUND, COMMAND_NOT_FOUND, COMMAND_INVALID_ARGS (missing, unknown, wrong
        type, out of range), DEPENDENCY_VIOLATION (needs the device on), INVALID_STATE (not possible now).
        Then nothing has changed.
        """
        device = self._device(device_id)
        at, cluster, name = _find_command(device, command, endpoint)
        checked = _check_args(device, name, COMMANDS[cluster][name], args or {})

        def change(state: Attributes) -> None:
            ACTIONS[cluster][name](state, at, checked)

        return self._change(device, f"{at}.{cluster}.{name}", change)

    def write(self, device_id: str, path: str, value: Value) -> CommandResult:
        """Write one attribute, e.g. "1.FanControl.PercentSetting".

        Raises HomeError: DEVICE_NOT_FOUND and the like, READ_ONLY (reach it by a command), VALIDATION_ERROR
        (type or range), UNSUPPORTED_MODE, DEPENDENCY_VIOLATION (needs the device on).
        """
        device = self._device(device_id)
        if isinstance(path, str) and not in_schema(device.type, path) and path in self._state[device_id]:
            raise HomeError("READ_ONLY", f"{path} of {device_id} cannot be written")
        endpoint, attribute = _attribute(device, path)
        if not attribute.writable:
            raise HomeError("READ_ONLY", f"{path} of {device_id} cannot be written; a command changes it")
        _check_value(path, value, attribute)

        def change(state: Attributes) -> None:
            if attribute.needs_on:
                require_on(state, endpoint, f"writing {path}")
            state[path] = value

        return self._change(device, f"write {path}", change)

    def evolve(self, device_id: str, change: Callable[[Attributes], None]) -> CommandResult:
        """What a device does by itself (a cycle ends, a sensor reads another value): `change` alters its
        attributes in place. Raises HomeError DEVICE_NOT_FOUND."""
        return self._change(self._device(device_id), "by itself", change)

    def describe(self) -> list[dict[str, Any]]:
        """Every device as plain data: id, type, name, room, position_m, attributes, commands."""
        with self._lock:
            devices, states = self.devices, {name: dict(state) for name, state in self._state.items()}
        return [
            {
                "id": d.id,
                "type": d.type,
                "name": d.name,
                "room": d.room,
                "position_m": None if d.position_m is None else list(d.position_m),
                "attributes": states[d.id],
                "commands": commands_of(d.type),
            }
            for d in devices
        ]

    def _device(self, device_id: str) -> HomeDevice:
        device = self._devices.get(device_id) if isinstance(device_id, str) else None
        if device is None:
            raise HomeError("DEVICE_NOT_FOUND", f"there is no device {device_id!r} in this home")
        return device

    def _change(self, device: HomeDevice, what: str, change: Callable[[Attributes], None]) -> CommandResult:
        with self.order:
            with self._lock:
                before = self._state[self._device(device.id).id]
                after = dict(before)
                change(after)
                settle(before, after, self._thirds)
                for path, value in after.items():  # a mode that the device does not have
                    if value != before.get(path) and in_schema(device.type, path):
                        _check_value(path, value, _attribute(device, path)[1])
                self._state[device.id] = after
            changed = {
                path: value for path, value in after.items() if path not in before or value != before[path]
            }
            if changed:
                for listener in list(self._listeners):
                    try:
                        listener(device.id, dict(changed))
                    except Exception:
                        log.exception("a listener of the home failed on %s", device.id)
        return CommandResult(device.id, what, changed, dict(after))


@lru_cache(maxsize=4096)
def in_schema(device_type: str, path: str) -> bool:
    """Whether a device type has this attribute."""
    parts = path.split(".")
    if len(parts) != 3 or not parts[0].isdecimal():
        return False
    return parts[2] in DEVICE_TYPES[device_type].get(int(parts[0]), {}).get(parts[1], {})


def check_attribute(device: HomeDevice, path: str, value: Any) -> None:
    """Raises HomeError for an attribute that the device does not have or a value that it cannot have."""
    _check_value(path, value, _attribute(device, path)[1])


def _attribute(device: HomeDevice, path: str) -> tuple[int, Attribute]:
    """Endpoint and schema of an attribute path; HomeError *_NOT_FOUND says which part is wrong."""
    parts = path.split(".") if isinstance(path, str) else []
    if len(parts) != 3 or not parts[0].isdecimal():
        raise HomeError("ATTRIBUTE_NOT_FOUND", f"{path!r} is no path like 1.OnOff.OnOff")
    clusters = DEVICE_TYPES[device.type].get(int(parts[0]))
    if clusters is None:
        raise HomeError("ENDPOINT_NOT_FOUND", f"{device.id} has no endpoint {parts[0]}")
    if parts[1] not in clusters:
        raise HomeError("CLUSTER_NOT_FOUND", f"{device.id} has {', '.join(clusters)}, not {parts[1]}")
    if parts[2] not in clusters[parts[1]]:
        known = ", ".join(clusters[parts[1]])
        raise HomeError("ATTRIBUTE_NOT_FOUND", f"{parts[1]} of {device.id} has {known}, not {parts[2]}")
    return int(parts[0]), clusters[parts[1]][parts[2]]


def _check_value(path: str, value: Any, attribute: Attribute) -> None:
    if value is None and attribute.nullable:
        return
    if type(value) is not attribute.kind:
        raise HomeError("VALIDATION_ERROR", f"{path} takes a {attribute.kind.__name__}, got {value!r}")
    if attribute.choices is not None and value not in attribute.choices:
        raise HomeError("UNSUPPORTED_MODE", f"{path} takes one of {list(attribute.choices)}, got {value}")
    low, high = attribute.low, attribute.high
    if isinstance(value, int) and low is not None and high is not None and not low <= value <= high:
        raise HomeError("VALIDATION_ERROR", f"{path} takes {low} to {high}, got {value}")


def _find_command(device: HomeDevice, command: str, endpoint: int | None) -> tuple[int, str, str]:
    """(endpoint, cluster, command) of a bare or qualified command name."""
    parts = command.split(".") if isinstance(command, str) else []
    found = [
        (c["endpoint"], c["cluster"], c["command"])
        for c in commands_of(device.type)
        if [str(c["endpoint"]), c["cluster"], c["command"]][-len(parts) :] == parts
        and endpoint in (None, c["endpoint"])
    ]
    if not parts or not found:
        known = sorted({f"{c['cluster']}.{c['command']}" for c in commands_of(device.type)})
        raise HomeError(
            "COMMAND_NOT_FOUND", f"{device.id} has no command {command!r}; it has {', '.join(known)}"
        )
    if len(found) > 1:
        names = ", ".join(f"{e}.{cluster}.{name}" for e, cluster, name in found)
        raise HomeError("COMMAND_INVALID_ARGS", f"{command!r} is ambiguous for {device.id}: {names}")
    return found[0]


def _check_args(
    device: HomeDevice, command: str, expected: tuple[Argument, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    def refuse(text: str) -> HomeError:
        return HomeError("COMMAND_INVALID_ARGS", f"{command} of {device.id}: {text}")

    if not isinstance(given, Mapping):
        raise refuse(f"args must be named, got {given!r}")
    names = [a.name for a in expected]
    for name in given:
        if name not in names:
            raise refuse(f"unknown argument {name!r}; it takes {', '.join(names) or 'none'}")
    checked: dict[str, Any] = {}
    for argument in expected:
        value = given.get(argument.name, argument.default)
        if value is None:
            raise refuse(f"the argument {argument.name!r} is missing")
        if argument.text:
            if not isinstance(value, str):
                raise refuse(f"{argument.name} takes a text, got {value!r}")
            checked[argument.name] = value
            continue
        if argument.flag and isinstance(value, bool):
            value = int(value)
        if type(value) is not int or not argument.low <= value <= argument.high:
            raise refuse(f"{argument.name} takes {argument.low} to {argument.high}, got {value!r}")
        checked[argument.name] = value
    return checked
