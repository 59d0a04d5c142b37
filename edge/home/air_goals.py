"""Can a room's air or light be moved a way, and by which commands? Asked of the twin: the home with the
commands against the same home left alone, after a while (the rule of SimuHome for implicit intents).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edge.home.reach import Order
from edge.home.schema import Value
from recordings.profile import DeviceState, HomeState, RoomChange

# Which devices move the air or light of their room (SimuHome): type -> directions of each variable.
MOVERS: dict[str, dict[str, tuple[str, ...]]] = {
    "air_conditioner": {"temperature": ("increase", "decrease")},
    "heat_pump": {"temperature": ("increase",)},
    "fan": {"temperature": ("decrease",)},
    "humidifier": {"humidity": ("increase",)},
    "dehumidifier": {"humidity": ("decrease",)},
    "air_purifier": {"pm10": ("decrease",)},
    "on_off_light": {"illuminance": ("increase", "decrease")},
    "dimmable_light": {"illuminance": ("increase", "decrease")},
}
PERCENT = 100  # what a fan's PercentSetting can be at most
WAIT_S = 60.0  # the difference is looked at after a minute
NOTICEABLE = 1e-8  # SimuHome

_ON: tuple[str, dict[str, Value]] = ("1.OnOff.On", {})
_OFF: tuple[str, dict[str, Value]] = ("1.OnOff.Off", {})
_FULL: tuple[str, dict[str, Value]] = ("1.FanControl.SetPercent", {"percent": PERCENT})
Tries = list[tuple[str, dict[str, Value]]]


def movers(home: Sequence[DeviceState], change: RoomChange) -> Iterator[str]:
    """Devices of the room that may move the variable that way: one that has more to give, or one that works
    against it and can be switched off. What the home does not say counts as possible."""
    for device in home:
        ways = MOVERS.get(device.type, {}).get(change.variable, ())
        if device.room != change.room or not ways:
            continue
        if (change.direction in ways and _has_more(device, change)) or _works_against(device, change, ways):
            yield device.id


def orders_that_move(home: HomeState, change: RoomChange, as_given: bool = False) -> list[Order] | None:
    """Commands for one device of the room after which the variable goes the wanted way; None: the twin knows
    of none. as_given: see `edge.home.loading.simulation_of_home`."""
    from edge.home.errors import HomeError
    from edge.home.loading import simulation_of_home

    here = [d for d in home.devices if d.room == change.room and d.type in MOVERS]
    states = {change.room: home.room_states[change.room]} if change.room in home.room_states else {}
    room = HomeState(devices=tuple(here), rooms=(change.room,), room_states=states)
    untouched = simulation_of_home(room, as_given=as_given).simulation
    untouched.advance(WAIT_S)
    alone = untouched.rooms()[change.room][change.variable]
    for device in untouched.home.devices:
        for tries in _tries(device.type):
            simulation = simulation_of_home(room, as_given=as_given).simulation
            orders = []
            for command, args in tries:
                try:
                    if command.startswith("write "):
                        done = simulation.write(device.id, command.removeprefix("write "), args["value"])
                    else:
                        done = simulation.command(device.id, command, args)
                except HomeError:
                    continue
                if done.changed:
                    orders.append(Order(device.id, command, args))
            simulation.advance(WAIT_S)
            moved = simulation.rooms()[change.room][change.variable] - alone
            if (moved if change.direction == "increase" else -moved) >= NOTICEABLE:
                return orders
    return None


def unknown_of(home: Sequence[DeviceState], names: Sequence[str]) -> list[str]:
    """Those of the devices of which the home does not say whether they are on, or how strong."""
    needed = {"heat_pump": ("4.Thermostat.SystemMode",), "on_off_light": ("1.OnOff.OnOff",)}
    lamp, air = (
        ("1.OnOff.OnOff", "1.LevelControl.CurrentLevel"),
        ("1.OnOff.OnOff", "1.FanControl.PercentSetting"),
    )
    found = []
    for device in home:
        paths = needed.get(device.type, lamp if device.type == "dimmable_light" else air)
        if device.id in names and any(path not in device.attributes for path in paths):
            found.append(device.id)
    return found


def _tries(device_type: str) -> list[Tries]:
    """What to send to a device: to its most, the other way, and off."""
    if device_type == "on_off_light":
        return [[_ON], [_OFF]]
    if device_type == "dimmable_light":
        return [[("1.LevelControl.MoveToLevelWithOnOff", {"level": 254})], [_OFF]]
    if device_type == "heat_pump":
        return [_thermostat("4.Thermostat", 4), [("write 4.Thermostat.SystemMode", {"value": 0})]]
    if device_type == "air_conditioner":
        return [[_ON, *_thermostat("1.Thermostat", mode), _FULL] for mode in (3, 4)] + [[_OFF]]
    return [[_ON, _FULL], [_OFF]]


def _thermostat(prefix: str, mode: int) -> Tries:
    name, value = ("OccupiedCoolingSetpoint", 1600) if mode == 3 else ("OccupiedHeatingSetpoint", 3000)
    return [(f"write {prefix}.SystemMode", {"value": mode}), (f"write {prefix}.{name}", {"value": value})]


def _has_more(device: DeviceState, change: RoomChange) -> bool:
    """Whether a device has anything left to give. What the home does not say counts as left."""
    attributes: Mapping[str, Value] = device.attributes
    on = attributes.get("1.OnOff.OnOff")
    if change.variable == "illuminance":
        if change.direction == "decrease":
            return on is not False
        if device.type == "on_off_light":
            return on is not True
        level = attributes.get("1.LevelControl.CurrentLevel")
        most = attributes.get("1.LevelControl.MaxLevel", 254)
        return on is not True or (isinstance(level, int) and isinstance(most, int) and level < most)
    percent = attributes.get("1.FanControl.PercentSetting")
    full = on is True and percent == PERCENT
    return not full or device.type == "air_conditioner"  # that one has a setpoint as well


def _works_against(device: DeviceState, change: RoomChange, ways: tuple[str, ...]) -> bool:
    """Whether the device works now, the other way: then switching it off helps."""
    if change.variable == "illuminance" or not any(way != change.direction for way in ways):
        return False
    if device.attributes.get("1.OnOff.OnOff") is False:
        return False
    mode = next((v for p, v in device.attributes.items() if p.endswith("Thermostat.SystemMode")), None)
    if mode is not None:  # 3 cools, 4 heats
        return mode == (4 if change.direction == "decrease" else 3)
    return device.attributes.get("1.OnOff.OnOff") is True
