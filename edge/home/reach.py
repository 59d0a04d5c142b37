"""Can commands bring a device from one state into another? A search over what the twin's commands do."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from edge.home.errors import HomeError
from edge.home.schema import COMMANDS, DEVICE_TYPES, Attribute, Value, commands_of
from edge.home.twin import Home, HomeDevice

DEPTH = 5  # switch on, set mode, set speed, set temperature, switch off: no goal needs more
MOST_STATES = 4000
State = dict[str, Value]


@dataclass(frozen=True)
class Order:
    """One command or write: what an agent would send."""

    device_id: str
    command: str  # "1.OnOff.On", or "write 1.FanControl.FanMode"
    args: dict[str, Any]

    def __str__(self) -> str:
        args = ", ".join(f"{key}={value}" for key, value in self.args.items())
        return f"{self.device_id} {self.command}({args})"


def schema_of(device_type: str, path: str) -> Attribute | None:
    """The twin's schema of an attribute; None when that device type does not have it."""
    endpoint, _, rest = path.partition(".")
    cluster, _, attribute = rest.partition(".")
    if not endpoint.isdecimal():
        return None
    return DEVICE_TYPES.get(device_type, {}).get(int(endpoint), {}).get(cluster, {}).get(attribute)


def orders_to(
    device: HomeDevice,
    start: Mapping[str, Value],
    wanted: Mapping[str, Value],
    allowed: Collection[str] | None = None,
) -> list[Order] | None:
    """The shortest list of orders after which `wanted` holds, [] when it holds already; None: there is none
    of up to `DEPTH` orders.

    start: attributes of the device. allowed: the commands that this very device has ("1.OnOff.On"; None: all
    of its type). Values to try are those that are wanted; that is enough, because in the
    twin every settable attribute is set to a value that a command or write names. A thermostat is also moved
    by steps, as SetpointRaiseLower does.
    """
    home = Home([device], {device.id: dict(start)})
    first = home.state(device.id)
    if _holds(first, wanted):
        return []
    seen = {_key(first)}
    queue: deque[tuple[State, list[Order]]] = deque([(first, [])])
    while queue and len(seen) < MOST_STATES:
        state, way = queue.popleft()
        if len(way) == DEPTH:
            continue
        for order in _tries(device, state, wanted, allowed):
            after = _after(device, state, order)
            if after is None or _key(after) in seen:
                continue
            if _holds(after, wanted):
                return [*way, order]
            seen.add(_key(after))
            queue.append((after, [*way, order]))
    return None


def _key(state: State) -> tuple[Any, ...]:
    return tuple((path, type(value), value) for path, value in state.items())


def _holds(state: Mapping[str, Value], wanted: Mapping[str, Value]) -> bool:
    return all(
        path in state and isinstance(state[path], bool) == isinstance(value, bool) and state[path] == value
        for path, value in wanted.items()
    )


def _after(device: HomeDevice, state: State, order: Order) -> State | None:
    home = Home([device], {device.id: state})
    try:
        if order.command.startswith("write "):
            return home.write(device.id, order.command.removeprefix("write "), order.args["value"]).attributes
        return home.command(device.id, order.command, order.args).attributes
    except HomeError:
        return None


def _tries(
    device: HomeDevice, state: State, wanted: Mapping[str, Value], allowed: Collection[str] | None
) -> Iterator[Order]:
    numbers = {value for value in wanted.values() if isinstance(value, int) and not isinstance(value, bool)}
    for known in commands_of(device.type):
        name = f"{known['endpoint']}.{known['cluster']}.{known['command']}"
        if allowed is not None and name not in allowed:
            continue
        if known["command"] == "SetpointRaiseLower":
            yield from _setpoints(device, state, wanted, name)
            continue
        arguments = [a for a in COMMANDS[known["cluster"]][known["command"]] if a.default is None]
        if not arguments:
            yield Order(device.id, name, {})
        elif len(arguments) <= 2 and not any(argument.text for argument in arguments):
            fitting = [sorted(n for n in numbers if a.low <= n <= a.high) for a in arguments]
            for chosen in product(*fitting):
                yield Order(device.id, name, {a.name: n for a, n in zip(arguments, chosen, strict=True)})
    for path, value in wanted.items():
        attribute = schema_of(device.type, path)
        if attribute is not None and attribute.writable:
            yield Order(device.id, f"write {path}", {"value": value})


def _setpoints(device: HomeDevice, state: State, wanted: Mapping[str, Value], name: str) -> Iterator[Order]:
    for mode, what in ((0, "OccupiedHeatingSetpoint"), (1, "OccupiedCoolingSetpoint")):
        for path, value in wanted.items():
            now = state.get(path)
            if path.endswith(f"Thermostat.{what}") and isinstance(value, int) and isinstance(now, int):
                amount = min(max((value - now) // 10, -128), 127)
                if amount:
                    yield Order(device.id, name, {"mode": mode, "amount": amount})
