"""Entities of real homes as our devices. Truths: Home Assistant's documented states and services."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edge.home.bridge_entities import Asked, Entity, air_of, brightness_of, degrees, level_of
from edge.home.bridge_kinds import can_become, can_do, kind_of, read, tell
from edge.home.bridge_map import Place, device_map, slug
from edge.home.schema import DEVICE_TYPES
from edge.home.twin import in_schema

AC = {"hvac_modes": ["off", "cool", "heat", "fan_only"], "temperature": 22.0, "current_temperature": 24.5}


def entity(entity_id: str, state: str, **attributes: Any) -> Entity:
    return Entity(entity_id, state, attributes)


@pytest.mark.parametrize(
    ("one", "kind", "attributes"),
    [
        (entity("light.a", "on", supported_color_modes=["onoff"]), "on_off_light", {"1.OnOff.OnOff": True}),
        (
            entity("light.a", "on", supported_color_modes=["color_temp"], brightness=128),
            "dimmable_light",
            {"1.OnOff.OnOff": True, "1.LevelControl.CurrentLevel": 127},
        ),
        (
            entity("light.a", "off", supported_color_modes=["hs"], brightness=None),
            "dimmable_light",
            {"1.OnOff.OnOff": False, "1.LevelControl.CurrentLevel": None},
        ),
        (
            entity("fan.a", "on", supported_features=1, percentage=66),
            "fan",
            {
                "1.OnOff.OnOff": True,
                "1.FanControl.FanMode": 2,
                "1.FanControl.PercentSetting": 66,
                "1.FanControl.PercentCurrent": 66,
            },
        ),
        (entity("fan.a", "off", friendly_name="Air Purifier"), "air_purifier", {"1.OnOff.OnOff": False}),
        (
            entity("climate.a", "cool", **AC),
            "air_conditioner",
            {
                "1.OnOff.OnOff": True,
                "1.Thermostat.SystemMode": 3,
                "1.Thermostat.LocalTemperature": 2450,
                "1.Thermostat.OccupiedCoolingSetpoint": 2200,
                "1.Thermostat.OccupiedHeatingSetpoint": None,  # its one number is for cooling now
            },
        ),
        (
            entity("climate.a", "heat", hvac_modes=["off", "heat"], temperature=68.0, temperature_unit="°F"),
            "thermostat",
            {
                "1.Thermostat.SystemMode": 4,
                "1.Thermostat.LocalTemperature": None,
                "1.Thermostat.OccupiedHeatingSetpoint": 2000,
            },
        ),
        (
            entity("cover.a", "open", current_position=30),  # 100 is open there, 0 is open here
            "window_covering",
            {
                "1.WindowCovering.CurrentPositionLiftPercent100ths": 7000,
                "1.WindowCovering.TargetPositionLiftPercent100ths": 7000,
            },
        ),
        (
            entity("media_player.a", "paused", device_class="tv", volume_level=0.5),
            "tv",
            {
                "1.OnOff.OnOff": True,
                "1.MediaPlayback.CurrentState": 1,
                "1.LevelControl.CurrentLevel": 127,
            },
        ),
        (
            entity("vacuum.a", "returning"),
            "rvc",
            {"1.RVCRunMode.CurrentMode": 1, "1.RVCOperationalState.OperationalState": 64},
        ),
        (entity("lock.a", "unlocked"), "door_lock", {"1.DoorLock.LockState": 2}),
        (entity("valve.a", "open"), "water_valve", {"1.ValveConfigurationAndControl.CurrentState": 1}),
        (
            entity("binary_sensor.a", "on", device_class="smoke"),
            "smoke_alarm",
            {"1.SmokeCOAlarm.SmokeState": 2, "1.SmokeCOAlarm.ExpressedState": 1},
        ),
        (
            entity(
                "binary_sensor.a", "on", device_class="door"
            ),  # on is open there; true is closed in Matter
            "contact_sensor",
            {"1.BooleanState.StateValue": False},
        ),
        (entity("switch.a", "off", device_class="outlet"), "plug", {"1.OnOff.OnOff": False}),
    ],
    ids=lambda value: value.id if isinstance(value, Entity) else None,
)
def test_what_an_entity_is_and_tells(one: Entity, kind: str, attributes: dict[str, Any]):
    assert kind_of(one) == (kind, "")
    assert read(one, kind) == attributes
    assert all(in_schema(kind, path) for path in attributes)
    gone = read(Entity(one.id, "unavailable", one.attributes), kind)
    assert set(gone) == set(attributes) and set(gone.values()) == {None}


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (entity("switch.a", "on"), "rig.yaml"),
        (entity("camera.a", "idle"), "camera"),
        (entity("cover.a", "open", device_class="gate"), "gate"),
        (entity("climate.a", "dry", hvac_modes=["off", "dry"]), "neither cools nor heats"),
        (entity("sensor.a", "21", device_class="temperature"), "air"),
        (entity("valve.a", "open", device_class="gas"), "gas"),
    ],
    ids=lambda value: value.id if isinstance(value, Entity) else None,
)
def test_what_is_none_of_ours_says_why(one: Entity, word: str):
    kind, why = kind_of(one)
    assert kind is None and word in why


def test_levels_come_back_as_they_went():
    for level in range(1, 255):
        assert 1 <= brightness_of(level) <= 255 and level_of(brightness_of(level)) == level
    assert level_of(255) == 254 and level_of(0) == 1 and level_of(None) is None
    assert degrees(2000, "°C") == 20 and degrees(2000, "°F") == 68 and degrees(-1800, "F") == -0.4


def asked(name: str, changed: dict[str, Any], args: dict[str, Any] | None = None, **after: Any) -> Asked:
    return Asked(
        name, args or {}, changed, {**changed, **{key.replace("__", "."): v for key, v in after.items()}}
    )


def told(one: Entity, what: Asked) -> list[tuple[str, dict[str, Any]]]:
    made = tell(one, what)
    return [] if made is None else [(f"{c.domain}.{c.service}", dict(c.data)) for c in made.calls]


def test_what_to_call():
    lamp = entity("light.a", "on", supported_color_modes=["brightness"], brightness=50)
    dim = asked("LevelControl.MoveToLevel", {"LevelControl.CurrentLevel": 127}, OnOff__OnOff=True)
    assert told(lamp, dim) == [("light.turn_on", {"brightness": 128})]
    made = tell(lamp, dim)
    assert made is not None and made.done(entity("light.a", "on", brightness=129)) and not made.done(lamp)
    assert not made.done(entity("light.a", "off"))
    assert told(lamp, asked("OnOff.Off", {"OnOff.OnOff": False})) == [("light.turn_off", {})]
    slow = entity("fan.a", "on", supported_features=1, percentage=33, percentage_step=100 / 3)
    made = tell(slow, asked("FanControl.SetPercent", {"FanControl.PercentSetting": 50}))
    assert made is not None and made.calls[0].data == {"percentage": 50}
    assert made.done(entity("fan.a", "on", percentage=66, percentage_step=100 / 3))  # the next of its speeds
    assert not made.done(entity("fan.a", "on", percentage=100, percentage_step=100 / 3))
    cool = asked("write Thermostat.OccupiedCoolingSetpoint", {"Thermostat.OccupiedCoolingSetpoint": 2150})
    assert told(entity("climate.a", "cool", **AC), cool) == [
        ("climate.set_temperature", {"temperature": 21.5})
    ]
    assert told(entity("climate.a", "heat", **AC), cool) == []  # that is the setpoint of the other mode
    assert told(entity("climate.a", "off", **AC), cool) == []
    both = {"hvac_modes": ["heat_cool", "cool", "heat"], "target_temp_low": 19.0, "target_temp_high": 25.0}
    assert told(entity("climate.a", "heat_cool", **both), cool) == [
        ("climate.set_temperature", {"target_temp_low": 19.0, "target_temp_high": 21.5})
    ]
    mode = asked("write Thermostat.SystemMode", {"Thermostat.SystemMode": 3})
    assert told(entity("climate.a", "off", **AC), mode) == [("climate.set_hvac_mode", {"hvac_mode": "cool"})]
    target = "WindowCovering.TargetPositionLiftPercent100ths"
    blind = entity("cover.a", "open", current_position=100)
    assert told(blind, asked("WindowCovering.GoToLiftPercentage", {target: 2500})) == [
        ("cover.set_cover_position", {"position": 75})
    ]
    made = tell(blind, asked("WindowCovering.DownOrClose", {target: 10000}))
    assert made is not None and made.done(entity("cover.a", "closing", current_position=100))
    assert made.done(entity("cover.a", "open", current_position=90)) and not made.done(blind)
    assert told(entity("cover.b", "open"), asked("WindowCovering.GoToLiftPercentage", {target: 2500})) == []
    assert told(entity("lock.a", "locked"), asked("DoorLock.UnlockDoor", {"DoorLock.LockState": 2})) == [
        ("lock.unlock", {})
    ]
    clean = asked("RVCRunMode.ChangeToMode", {"RVCRunMode.CurrentMode": 2}, {"new_mode": 2})
    assert told(entity("vacuum.a", "docked"), clean) == [("vacuum.start", {})]


def test_what_it_cannot_do_is_not_offered():
    door = entity("cover.a", "open", supported_features=1 | 2)
    assert can_do(door, "WindowCovering.UpOrOpen") and not can_do(door, "WindowCovering.GoToLiftPercentage")
    player = entity("media_player.a", "on", supported_features=1 | 16384)
    assert can_do(player, "MediaPlayback.Play") and not can_do(player, "OnOff.Off")
    assert not can_do(player, "LevelControl.StepWithOnOff") and not can_do(player, "MediaPlayback.Rewind")
    assert can_do(entity("vacuum.a", "docked"), "RVCOperationalState.GoHome")  # it does not say: try
    assert can_do(entity("light.a", "on", supported_features=0), "OnOff.Off")


def test_air_in_the_units_of_the_twin():
    def sensor(kind: str, state: str, unit: str = "") -> tuple[str, float] | None:
        return air_of(entity("sensor.a", state, device_class=kind, unit_of_measurement=unit))

    assert sensor("temperature", "21.5", "°C") == ("temperature", 2150)
    assert sensor("temperature", "68", "°F") == ("temperature", 2000)
    assert sensor("humidity", "45") == ("humidity", 4500)
    assert sensor("pm10", "12", "µg/m³") == ("pm10", 12)
    assert sensor("temperature", "unavailable") is None and sensor("battery", "90") is None
    assert sensor("temperature", "warm") is None


def named(**fields: Any) -> Any:
    return SimpleNamespace(**{"room": None, "position_m": (1, 1, 1), "entity": None, **fields})


def test_the_device_map():
    lamps = {f"light.{name}": entity(f"light.{name}", "on", friendly_name="Lamp") for name in ("a", "b", "c")}
    entities = {**lamps, "switch.x": entity("switch.x", "on"), "light.own": entity("light.own", "on")}
    places = {"light.a": Place("hall"), "light.b": Place("den"), "light.own": Place(own=True)}
    rig = [
        named(id="mine", type="on_off_light", name="lamp", entity="light.c"),
        named(id="plug", type="microwave", name="oven", entity="switch.x"),
        named(id="wrong", type="door_lock", name="lock", entity="light.b"),
        named(id="nowhere", type="fan", name="fan", entity="fan.none"),
    ]
    bound, why = device_map(rig, "den", entities, places)
    found = {one.device.id: one for one in bound}
    assert found["mine"].device.room == "den" and found["mine"].device.position_m == (1, 1, 1)
    assert (
        found["plug"].entity == "switch.x" and "nowhere" in found
    )  # as long as the home may still tell of it
    assert found["light_a"].device.name == "hall Lamp" and found["light_a"].device.position_m is None
    assert "door_lock" in why["light.b"] and "own" in why["light.own"] and len(bound) == 4
    names = [one.device.name.lower() for one in bound]
    assert len(set(names)) == len(names)
    _, why = device_map([], "den", entities, {"light.a": Place(hidden="disabled")}, ["light.[bc]"])
    assert "disabled" in why["light.a"] and "leave_out" in why["light.c"]
    assert slug("Living Room") == "living_room" and slug("1 First floor") == "x_1_first_floor"


def test_every_type_of_the_catalogue_can_be_asked():
    on = entity("switch.a", "on")
    with_power = {kind for kind in DEVICE_TYPES if can_become(on, kind)}
    assert {"microwave", "oven", "kettle", "plug", "on_off_light"} <= with_power
    assert "door_lock" not in with_power and not can_become(on, "no such type")
