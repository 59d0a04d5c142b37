"""The catalogue of a larger home: what its types can do, where they may stand, and what their commands do."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from dsp.errors import InputError
from edge.home.catalogue import CAPABILITIES, CATALOGUE, ROOM_KINDS, attributes_of, draw_home, misplaced
from edge.home.errors import HomeError
from edge.home.schema import DEVICE_TYPES
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice
from recordings.device_types import DeviceType


def made(kind: str, **first: Any) -> Simulation:
    given = {f"1.{key.replace('__', '.')}": value for key, value in first.items()}
    return Simulation(Home([HomeDevice("d", kind, "thing", "room")], {"d": given}))


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(HomeError) as caught:
        call(*args)
    return caught.value.type


def test_fifty_types_and_twenty_seven_capabilities_each_with_its_attributes() -> None:
    assert len(CATALOGUE) == 50 and len(CAPABILITIES) == 27 and len(ROOM_KINDS) == 10
    assert {c for entry in CATALOGUE.values() for c in entry.capabilities} == set(CAPABILITIES)
    for kind, entry in CATALOGUE.items():
        assert kind in DEVICE_TYPES
        for capability in entry.capabilities:
            assert attributes_of(kind, capability), (kind, capability)
        assert set(entry.rooms) <= set(ROOM_KINDS)


def test_a_rig_may_name_every_type_of_the_twin() -> None:
    assert set(get_args(DeviceType)) == set(DEVICE_TYPES) - {"window_covering_controller"}


def test_types_stand_only_where_they_may() -> None:
    kinds = {"yard": "backyard", "lounge": "living_room", "kitchen": "kitchen", "cinema": "home_theater"}

    def stands(kind: str, room: str) -> bool:
        return not misplaced([HomeDevice("d", kind, "d", room)], kinds)

    assert stands("sprinkler", "yard") and not stands("sprinkler", "lounge")
    assert stands("projector", "cinema") and not stands("projector", "lounge")
    assert stands("air_conditioner", "lounge") and not stands("air_conditioner", "kitchen")
    assert stands("doorbell", "lounge") and not stands("doorbell", "kitchen")
    assert stands("color_light", "kitchen") and not stands("color_light", "yard")
    assert "belongs in home_theater" in misplaced([HomeDevice("d", "projector", "d", "lounge")], kinds)[0]


def test_drawn_homes_keep_the_rules_and_run() -> None:
    seen: set[str] = set()
    for seed in range(30):
        devices, kinds = draw_home(seed, floors=1 + seed % 3, devices=80)
        assert (devices, kinds) == draw_home(seed, floors=1 + seed % 3, devices=80)
        assert misplaced(devices, kinds) == []
        assert len({d.id for d in devices}) == len({d.name for d in devices}) == 80
        seen |= {d.type for d in devices}
    assert seen == set(CATALOGUE)
    sim = Simulation(Home(list(devices)))
    sim.advance(60)
    with pytest.raises(InputError):
        draw_home(1, floors=4)


def test_colours_and_scenes() -> None:
    sim = made("color_light")
    assert refused(sim.command, "d", "MoveToHueAndSaturation", {"hue": 9, "saturation": 9}) == (
        "DEPENDENCY_VIOLATION"
    )
    changed = sim.command("d", "RecallScene", {"scene_id": 4}).changed
    assert changed["1.OnOff.OnOff"] is True and changed["1.ColorControl.ColorMode"] == 0
    assert refused(sim.command, "d", "RecallScene", {"scene_id": 16}) == "COMMAND_INVALID_ARGS"
    sim.command("d", "MoveToColorTemperature", {"color_temperature_mireds": 200})
    assert sim.home.read("d", "1.ColorControl.ColorMode") == 2
    assert sim.rooms()["room"]["illuminance"] == pytest.approx(300 + 500 * 40 / 254)


def test_an_oven_cooks_for_its_time_and_heats_to_what_it_can() -> None:
    sim = made("oven", OnOff__OnOff=True)
    sim.command("d", "SetTemperature", {"target_temperature": 22000})
    assert refused(sim.command, "d", "SetTemperature", {"target_temperature": 30000}) == (
        "COMMAND_INVALID_ARGS"
    )
    sim.command("d", "SetCookingParameters", {"cook_time": 1200})
    sim.command("d", "Start")
    assert refused(sim.command, "d", "SetCookingParameters", {"cook_time": 60}) == "INVALID_STATE"
    sim.advance(1199.9)
    assert sim.home.read("d", "1.OperationalState.OperationalState") == 1
    sim.advance(0.1)
    assert sim.home.read("d", "1.OperationalState.OperationalState") == 0


def test_coffee_takes_a_minute_for_each_cup() -> None:
    sim = made("coffee_maker", OnOff__OnOff=True)
    sim.write("d", "1.BrewControl.Cups", 3)
    sim.command("d", "Start")
    assert sim.done_at("d") == 1800
    assert refused(sim.write, "d", "1.BrewControl.BrewStrength", 7) == "UNSUPPORTED_MODE"


def test_a_valve_closes_after_its_time_or_stays_open() -> None:
    sim = made("sprinkler")
    sim.command("d", "Open", {"open_duration": 90})
    sim.advance(30)
    assert sim.home.read("d", "1.ValveConfigurationAndControl.RemainingDuration") == 60
    sim.advance(60)
    assert sim.home.read("d", "1.ValveConfigurationAndControl.CurrentState") == 0
    sim.command("d", "Open")
    sim.advance(86400)
    assert sim.home.read("d", "1.ValveConfigurationAndControl.CurrentState") == 1
    sim.command("d", "Close")
    assert sim.home.read("d", "1.ValveConfigurationAndControl.CurrentState") == 0


def test_locks_chimes_inputs_and_food() -> None:
    lock = made("door_lock")
    assert lock.command("d", "UnlockDoor").changed == {"1.DoorLock.LockState": 2}
    assert refused(lock.write, "d", "1.DoorLock.LockState", 1) == "READ_ONLY"
    bell = made("doorbell")
    bell.write("d", "1.Chime.Enabled", False)
    assert refused(bell.command, "d", "PlayChimeSound") == "INVALID_STATE"
    bar = made("soundbar")
    assert refused(bar.command, "d", "SelectInput", {"index": 2}) == "DEPENDENCY_VIOLATION"
    feeder = made("pet_feeder")
    feeder.command("d", "Dispense", {"portions": 2})
    assert feeder.command("d", "Dispense", {"portions": 3}).changed == {"1.Dispenser.PortionsGiven": 5}


def test_a_critical_alarm_cannot_be_silenced() -> None:
    alarm = made("smoke_alarm", SmokeCOAlarm__ExpressedState=1, SmokeCOAlarm__SmokeState=1)
    assert alarm.command("d", "Silence").changed == {"1.SmokeCOAlarm.DeviceMuted": 1}
    assert refused(alarm.command, "d", "SelfTestRequest") == "INVALID_STATE"
    worse = made("smoke_alarm", SmokeCOAlarm__ExpressedState=1, SmokeCOAlarm__SmokeState=2)
    assert refused(worse.command, "d", "Silence") == "INVALID_STATE"
