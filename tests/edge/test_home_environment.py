"""Air and light of rooms against closed forms of the rates in the benchmark's description."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from edge.home.environment import RoomAir
from edge.home.quirks import SIMUHOME, Quirks
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice

ON = "1.OnOff.OnOff"
HOUR = 36000  # ticks


def home(kind: str, **attributes: Any) -> Home:
    return Home([HomeDevice("d", kind, "thing", "room")], {"d": attributes}, as_given=True)


def running(kind: str, state: dict[str, float], quirks: Quirks | None = None, **more: Any) -> Simulation:
    return Simulation(home(kind, **{ON: True, **more}), {"room": state}, quirks=quirks or Quirks())


def fan_at(percent: int) -> dict[str, Any]:
    return {"1.FanControl.PercentSetting": percent, "1.FanControl.PercentCurrent": percent}


def cooling(setpoint: int, percent: int = 100) -> dict[str, Any]:
    return {
        "1.Thermostat.SystemMode": 3,
        "1.Thermostat.OccupiedCoolingSetpoint": setpoint,
        **fan_at(percent),
    }


def approach(start: float, target: float, rate_per_s: float, ticks: int) -> float:
    """Explicit Euler of dx/dt = rate (target - x), in steps of 0.1 s."""
    return target + (start - target) * (1 - 0.1 * rate_per_s) ** ticks


def test_a_room_left_alone_stays_as_it_is() -> None:
    state = {"temperature": 2345.5, "humidity": 4100.0, "illuminance": 250.0, "pm10": 17.0}
    sim = Simulation(home("on_off_light"), {"room": state})
    sim.advance_to(24 * HOUR)
    assert sim.rooms()["room"] == state


def test_latched_cooling_goes_on_past_its_setpoint() -> None:
    """b = 30 C, 0.0005 C/s against 0.0002 (b - t): steady 2.5 C below b, at 27.5, though 29 was set."""
    sim = running("air_conditioner", {"temperature": 3000.0}, SIMUHOME, **cooling(2900))
    for ticks in (1, 600, HOUR, 10 * HOUR):
        sim.advance_to(ticks)
        wanted = approach(3000.0, 2750.0, 0.0002, ticks)
        assert sim.rooms()["room"]["temperature"] == pytest.approx(wanted, rel=1e-9)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(2750.0, abs=0.2)


def test_cooling_that_is_not_latched_stays_above_its_setpoint() -> None:
    """Near it the rate is t - setpoint (per s), so it rests where that equals 0.0002 (b - t)."""
    sim = running("air_conditioner", {"temperature": 3000.0}, **cooling(2900))
    sim.advance_to(10 * HOUR)
    assert sim.rooms()["room"]["temperature"] == pytest.approx((2900 + 0.0002 * 3000) / 1.0002, abs=1e-6)


def test_half_the_fan_cools_half_as_fast_and_a_warm_room_is_not_heated() -> None:
    sim = running("air_conditioner", {"temperature": 3000.0}, SIMUHOME, **cooling(2000, 50))
    sim.advance_to(20 * HOUR)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(3000 - 125, abs=0.1)
    for setpoint in (3100, 3000):
        sim = running("air_conditioner", {"temperature": 3000.0}, **cooling(setpoint))
        sim.advance_to(HOUR)
        assert sim.rooms()["room"]["temperature"] == 3000.0


def test_a_heat_pump_heats_without_a_switch() -> None:
    pump = home("heat_pump", **{"4.Thermostat.SystemMode": 4, "4.Thermostat.OccupiedHeatingSetpoint": 2800})
    sim = Simulation(pump, {"room": {"temperature": 1800.0}}, quirks=SIMUHOME)
    sim.advance_to(HOUR)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(approach(1800.0, 2050.0, 0.0002, HOUR))
    assert pump.read("d", "4.Thermostat.LocalTemperature") == int(sim.rooms()["room"]["temperature"])
    sim.write("d", "4.Thermostat.SystemMode", 0)
    before = sim.rooms()["room"]["temperature"]
    sim.advance(3600)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(approach(before, 1800.0, 0.0002, HOUR))


def test_a_fan_cools_a_little() -> None:
    """0.0002 C/s against the same pull: one degree below the baseline."""
    sim = running("fan", {"temperature": 2600.0}, SIMUHOME, **fan_at(100))
    sim.advance_to(20 * HOUR)
    assert sim.rooms()["room"]["temperature"] == pytest.approx(2500.0, abs=0.1)


def test_humidity() -> None:
    for kind, sign, strength in (("humidifier", 1, (9000 - 4000) / 9000), ("dehumidifier", -1, 3000 / 9000)):
        sim = running(kind, {"humidity": 4000.0}, SIMUHOME, **fan_at(60))
        sim.advance_to(HOUR)
        assert sim.rooms()["room"]["humidity"] == pytest.approx(4000 + sign * 5 * 0.6 * strength / 0.01)
        # Not latched: 5 f (9000 - h) / 9000 = 0.01 (h - b), and likewise for drying.
        sim = running(kind, {"humidity": 4000.0}, **fan_at(60))
        sim.advance_to(HOUR)
        edge, k = (9000, 3 / 9000) if sign > 0 else (1000, 3 / 9000)
        assert sim.rooms()["room"]["humidity"] == pytest.approx((k * edge + 0.01 * 4000) / (k + 0.01))
        assert sim.home.read("d", "2.RelativeHumidityMeasurement.MeasuredValue") == int(
            sim.rooms()["room"]["humidity"]
        )


def test_a_purifier_takes_dust_out() -> None:
    """r = p/b = 1: 5 f^0.8 against 0.1 (b - p). Not latched: 5 f^0.8 p/b = 0.1 (b - p)."""
    sim = running("air_purifier", {"pm10": 100.0}, SIMUHOME, **fan_at(50))
    sim.advance_to(HOUR)
    assert sim.rooms()["room"]["pm10"] == pytest.approx(100 - 50 * 0.5**0.8)
    sim = running("air_purifier", {"pm10": 100.0}, **fan_at(100))
    sim.advance_to(HOUR)
    assert sim.rooms()["room"]["pm10"] == pytest.approx(10 / (0.05 + 0.1))
    sim = running("air_purifier", {"pm10": 20.0}, SIMUHOME, **fan_at(100))
    sim.advance_to(HOUR)
    assert sim.rooms()["room"]["pm10"] == 0.0, "50 below 20 is nothing"


def test_light() -> None:
    lamp = Simulation(home("on_off_light"), {"room": {"illuminance": 120.0}})
    lamp.command("d", "On")
    assert lamp.rooms()["room"]["illuminance"] == 620.0
    level = {ON: True, "1.LevelControl.CurrentLevel": 127}
    for quirks, first, dark in ((Quirks(), 400.0, 150.0), (SIMUHOME, 650.0, 400.0)):
        dimmed = Simulation(home("dimmable_light", **level), {"room": {"illuminance": 400.0}}, quirks=quirks)
        assert dimmed.rooms()["room"]["illuminance"] == first
        dimmed.command("d", "Off")
        assert dimmed.rooms()["room"]["illuminance"] == dark


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.booleans())
def test_time_may_be_cut_as_one_likes(cuts: list[int], latched: bool) -> None:
    state = {"temperature": 2900.0, "humidity": 3000.0}
    whole, pieces = (
        running("air_conditioner", state, Quirks(latched_rates=latched), **cooling(2600, 70)) for _ in "12"
    )
    whole.advance_to(sum(cuts))
    for cut in cuts:
        pieces.advance_to(pieces.tick + cut)
    assert whole.rooms() == pieces.rooms() and whole.home.snapshot() == pieces.home.snapshot()


def test_bad_rooms_are_refused() -> None:
    for state in ({"smell": 1.0}, {"pm10": float("nan")}, {"pm10": 10**400}, {"pm10": True}):
        with pytest.raises(InputError, match="a room has"):
            RoomAir(state, Quirks())
