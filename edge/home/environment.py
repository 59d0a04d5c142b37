"""Air and light of rooms, tick by tick: what devices do to them, and how they go back to where they were.

Rates are those of the SimuHome benchmark (arXiv 2509.24282), in the units of its interface: temperature and
humidity in hundredths (of a degree C, of a percent), PM10 in ug/m3, light in lux. Without devices each value
goes back to its baseline b as dx/dt = k (b - x), with k = 0.0002 /s (temperature), 0.01 /s (humidity) and
0.1 /s (PM10), in explicit Euler steps of 0.1 s: x(n) = b + (x(0) - b) (1 - 0.1 k)^n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dsp.errors import InputError
from edge.home.clock import TICK_S
from edge.home.power import is_on
from edge.home.quirks import Quirks

Variable = Literal["temperature", "humidity", "illuminance", "pm10"]
VARIABLES: tuple[Variable, ...] = get_args(Variable)
USUAL: dict[Variable, float] = {"temperature": 2200.0, "humidity": 4500.0, "illuminance": 300.0, "pm10": 20.0}
AIR: tuple[Variable, ...] = ("temperature", "humidity", "pm10")
COOL, HEAT, FAN, HUMIDIFY, DEHUMIDIFY, PURIFY = range(6)
MOVERS = {
    "fan": FAN, "ceiling_fan": FAN, "humidifier": HUMIDIFY, "dehumidifier": DEHUMIDIFY,
    "air_purifier": PURIFY, "range_hood": PURIFY,
}  # fmt: skip
DIMMABLE = ("dimmable_light", "color_light", "light_strip", "floodlight", "dimmer")
LAMP_LUX = 500.0  # of a lamp that is on; a dimmable one gives its share of level 254
MOST = 1e9  # of any value of a room
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def _effect(kind: int, f: float, setpoint: float, air: Floats, base: Floats) -> float:  # pragma: no cover
    """How fast one device moves its variable, per second; f: its speed, 0 to 1."""
    if kind == COOL:
        return -max(0.0, min(0.05, air[0] - setpoint)) * f
    if kind == HEAT:
        return max(0.0, min(0.05, setpoint - air[0])) * f
    if kind == FAN:
        return -max(0.0, min(0.02, 0.5 * (air[0] - (base[0] - 200.0)))) * f
    if kind == HUMIDIFY:
        return 5.0 * f * max(0.1, (9000.0 - air[1]) / 9000.0) if air[1] < 9000.0 else 0.0
    if kind == DEHUMIDIFY:
        return -5.0 * f * max(0.1, (air[1] - 1000.0) / 9000.0) if air[1] > 1000.0 else 0.0
    ratio = air[2] / base[2] if base[2] > 0.0 else (2.0 if air[2] > 0.0 else 0.0)
    return -5.0 * f**0.8 * (0.8 * ratio if ratio > 2.0 else ratio)


@njit(cache=True, nogil=True)
def _run(
    air: Floats,
    base: Floats,
    kinds: NDArray[np.int64],
    speeds: Floats,
    setpoints: Floats,
    rates: Floats,
    latched: bool,
    ticks: int,
    watched: int,
    low: float,
    high: float,
) -> int:  # pragma: no cover - compiled
    """Move `air` (temperature, humidity, pm10) on by so many ticks, in place, or until the one that is
    watched (-1: none) is below low or above high. The ticks that it was moved."""
    moved = np.zeros(3)
    for tick in range(ticks):
        moved[0] = 0.0002 * (base[0] - air[0])
        moved[1] = 0.01 * (base[1] - air[1])
        moved[2] = 0.1 * (base[2] - air[2])
        for n in range(kinds.size):
            kind = kinds[n]
            which = 0 if kind <= FAN else (1 if kind <= DEHUMIDIFY else 2)
            moved[which] += rates[n] if latched else _effect(kind, speeds[n], setpoints[n], air, base)
        for which in range(3):
            air[which] += TICK_S * moved[which]
        air[1] = min(max(air[1], 0.0), 10000.0)
        air[2] = max(air[2], 0.0)
        if watched >= 0 and not low <= air[watched] <= high:
            return tick + 1
    return ticks


def part_of(device_type: str, attributes: Mapping[str, Any]) -> tuple[int, float, float] | None:
    """(kind, speed 0-1, setpoint in hundredths) of what a device does to the air now; None: nothing."""
    if not is_on(dict(attributes), 1):
        return None
    speed = (attributes.get("1.FanControl.PercentCurrent") or 0) / 100
    if device_type in ("air_conditioner", "heat_pump", "thermostat"):
        prefix = f"{4 if device_type == 'heat_pump' else 1}.Thermostat"
        speed = speed if device_type == "air_conditioner" else 1.0
        mode = attributes[f"{prefix}.SystemMode"]
        if mode == 3 and device_type != "heat_pump":
            return COOL, speed, float(attributes[f"{prefix}.OccupiedCoolingSetpoint"])
        if mode == 4:
            return HEAT, speed, float(attributes[f"{prefix}.OccupiedHeatingSetpoint"])
        return None
    return (MOVERS[device_type], speed, 0.0) if device_type in MOVERS else None


def lux_of(device_type: str, attributes: Mapping[str, Any]) -> float:
    """What a device adds to the light of its room."""
    if not attributes.get("1.OnOff.OnOff"):
        return 0.0
    if device_type == "on_off_light":
        return LAMP_LUX
    if device_type in DIMMABLE:
        level = attributes.get("1.LevelControl.CurrentLevel")
        return LAMP_LUX * (254 if level is None else level) / 254
    return 0.0


class RoomAir:
    """Air and light of one room.

    state: variable -> value at the start; one that is not named is usual for a room (`USUAL`). Raises
    InputError for an unknown variable or a value that is no finite number up to `MOST`.
    """

    def __init__(self, state: Mapping[str, float], quirks: Quirks) -> None:
        for name, value in state.items():
            good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST
            if name not in VARIABLES or not good:
                raise InputError(f"a room has {', '.join(VARIABLES)} as numbers, not {name} = {value!r}")
        whole: dict[str, float] = {str(name): value for name, value in (*USUAL.items(), *state.items())}
        self._air = np.array([whole[name] for name in AIR], dtype=np.float64)
        self._base = self._air.copy()
        self._dark_lux = float(whole["illuminance"])
        self._lamps_lux = 0.0
        self._quirks = quirks
        self._begun = False
        self._parts: dict[str, tuple[tuple[int, float, float], float]] = {}
        self._arrays: tuple[Any, ...] | None = None

    def follow(self, devices: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """(id, type, attributes) of the room's devices, all of them, whenever one has changed."""
        lux, parts = 0.0, {}
        for device_id, kind, attributes in devices:
            lux += lux_of(kind, attributes)
            part = part_of(kind, attributes)
            if part is not None:
                before = self._parts.get(device_id)
                same = before is not None and before[0] == part
                rate = before[1] if before is not None and same else _effect(*part, self._air, self._base)
                parts[device_id] = (part, rate)
        self._parts, self._lamps_lux, self._arrays = parts, lux, None
        if not self._begun and not self._quirks.lamps_twice:
            self._dark_lux = max(0.0, self._dark_lux - lux)
        self._begun = True

    def run(self, ticks: int) -> None:
        """Move on by so many ticks of 0.1 s, with the devices as they are."""
        _run(self._air, self._base, *self._numbers(), self._quirks.latched_rates, ticks, -1, 0.0, 0.0)

    def first_beyond(
        self, variable: Variable, above: float | None, below: float | None, ticks: int
    ) -> int | None:
        """After how many ticks, up to so many, a value is above (below) a threshold if no device changes;
        None: not so soon. Nothing is moved. Light is as it is until a device changes: always None."""
        if variable not in AIR or ticks < 1:
            return None
        low, high = -math.inf if below is None else below, math.inf if above is None else above
        air, which = self._air.copy(), AIR.index(variable)
        moved = _run(air, self._base, *self._numbers(), self._quirks.latched_rates, ticks, which, low, high)
        return None if low <= air[which] <= high else int(moved)

    def _numbers(self) -> tuple[Any, ...]:
        if self._arrays is None:
            parts = list(self._parts.values())
            self._arrays = (
                np.array([part[0] for part, _ in parts], dtype=np.int64),
                np.array([part[1] for part, _ in parts], dtype=np.float64),
                np.array([part[2] for part, _ in parts], dtype=np.float64),
                np.array([rate for _, rate in parts], dtype=np.float64),
            )
        return self._arrays

    def state(self) -> dict[Variable, float]:
        """Each variable now."""
        temperature, humidity, pm10 = (float(value) for value in self._air)
        light = self._dark_lux + self._lamps_lux
        return {"temperature": temperature, "humidity": humidity, "illuminance": light, "pm10": pm10}


def warm() -> None:
    """Load the kernels (half a second, compiled once per machine), so that no first command is late."""
    room = RoomAir({}, Quirks())
    room.follow([("fan", "fan", {"1.OnOff.OnOff": True, "1.FanControl.PercentCurrent": 50})])
    room.run(1)
    room.first_beyond("temperature", 9999.0, None, 1)
