"""The types of SimuHome in the twin: what they have, what they refuse, and what each command does."""

from __future__ import annotations

from typing import Any

import pytest

from edge.home import Home, HomeDevice, HomeError
from edge.home.schema import DEVICE_TYPES, commands_of, defaults

# Types and their clusters as the benchmark's homes have them (facts of 600 files).
CLUSTERS = {
    "on_off_light": {"1.OnOff"},
    "dimmable_light": {"1.OnOff", "1.LevelControl"},
    "air_conditioner": {"1.OnOff", "1.Thermostat", "1.FanControl"},
    "heat_pump": {
        "1.PowerSource",
        "2.ElectricalPowerMeasurement",
        "3.DeviceEnergyManagement",
        "4.Thermostat",
    },
    "fan": {"1.OnOff", "1.FanControl"},
    "air_purifier": {"1.OnOff", "1.FanControl"},
    "humidifier": {"1.OnOff", "1.FanControl", "2.RelativeHumidityMeasurement"},
    "dehumidifier": {"1.OnOff", "1.FanControl", "2.RelativeHumidityMeasurement"},
    "window_covering_controller": {"1.WindowCovering"},
    "tv": {"1.OnOff", "1.Channel", "1.MediaPlayback", "1.KeypadInput", "1.LevelControl"},
    "refrigerator": {"1.TemperatureControl", "1.RTCCMode", "1.TemperatureMeasurement"},
    "freezer": {"1.TemperatureControl", "1.RTCCMode", "1.TemperatureMeasurement"},
    "dishwasher": {"1.OnOff", "1.OperationalState", "1.DishwasherMode", "1.DishwasherAlarm"},
    "laundry_washer": {
        "1.OnOff",
        "1.OperationalState",
        "1.LaundryWasherMode",
        "1.LaundryWasherControls",
        "1.TemperatureControl",
    },
    "laundry_dryer": {"1.OnOff", "1.OperationalState", "1.LaundryDryerControls"},
    "rvc": {"1.RVCRunMode", "1.RVCCleanMode", "1.RVCOperationalState"},
}
READ_ONLY = (
    ("fan", "1.OnOff.OnOff", True),
    ("dimmable_light", "1.LevelControl.CurrentLevel", 9),
    ("refrigerator", "1.TemperatureControl.TemperatureSetpoint", 300),
    ("tv", "1.MediaPlayback.CurrentState", 0),
    ("dishwasher", "1.OperationalState.OperationalState", 1),
    ("laundry_dryer", "1.OperationalState.CountdownTime", 5),
    ("fan", "1.FanControl.PercentCurrent", 5),
    ("heat_pump", "4.Thermostat.LocalTemperature", 2000),
)


def one(kind: str, **more: Any) -> Home:
    given = {f"1.{key.replace('__', '.')}": value for key, value in more.items()}
    return Home([HomeDevice("d", kind, "thing", "room")], {"d": given})


def error_of(call: Any, *args: Any) -> str:
    with pytest.raises(HomeError) as caught:
        call(*args)
    return caught.value.type


@pytest.mark.parametrize("kind", list(CLUSTERS))
def test_the_types_have_their_clusters(kind: str) -> None:
    there = {f"{e}.{name}" for e, clusters in DEVICE_TYPES[kind].items() for name in clusters}
    assert there == CLUSTERS[kind]
    assert one(kind).state("d") == defaults(kind)


def test_microwave_and_audio_player() -> None:
    assert {"1.OnOff.OnOff", "1.OperationalState.OperationalState"} < set(defaults("microwave"))
    assert {"1.OnOff.OnOff", "1.MediaPlayback.CurrentState", "1.LevelControl.CurrentLevel"} < set(
        defaults("audio_player")
    )
    home = one("microwave", OnOff__OnOff=True)
    assert home.command("d", "Start").changed == {"1.OperationalState.OperationalState": 1}


@pytest.mark.parametrize(("kind", "path", "value"), READ_ONLY)
def test_what_only_a_command_reaches(kind: str, path: str, value: Any) -> None:
    assert error_of(one(kind).write, "d", path, value) == "READ_ONLY"


def test_writes_that_need_the_device_on() -> None:
    for path, value in (
        ("1.Thermostat.OccupiedCoolingSetpoint", 2400),
        ("1.Thermostat.SystemMode", 3),
        ("1.FanControl.FanMode", 2),
    ):
        assert error_of(one("air_conditioner").write, "d", path, value) == "DEPENDENCY_VIOLATION"
    pump = one("heat_pump")  # has no OnOff
    pump.write("d", "4.Thermostat.SystemMode", 4)
    pump.write("d", "4.Thermostat.OccupiedHeatingSetpoint", 2450)
    assert pump.read("d", "4.Thermostat.OccupiedHeatingSetpoint") == 2450


@pytest.mark.parametrize(
    ("kind", "mode", "minutes"),
    [
        *(("dishwasher", mode, minutes) for mode, minutes in enumerate((90, 120, 60, 30, 90, 90))),
        *(("laundry_washer", mode, minutes) for mode, minutes in enumerate((60, 45, 90, 60, 15, 90))),
        *(("laundry_dryer", level, minutes) for level, minutes in enumerate((30, 45, 60, 75))),
    ],
)
def test_how_long_a_cycle_takes(kind: str, mode: int, minutes: int) -> None:
    home = one(kind, OnOff__OnOff=True)
    if kind == "laundry_dryer":
        home.write("d", "1.LaundryDryerControls.SelectedDrynessLevel", mode)
    else:
        home.command("d", "ChangeToMode", {"new_mode": mode})
    assert home.command("d", "Start").attributes["1.OperationalState.CountdownTime"] == minutes * 60
    home.command("d", "Pause")
    assert home.command("d", "Resume").changed == {"1.OperationalState.OperationalState": 1}
    stopped = home.command("d", "Off").attributes
    assert stopped["1.OperationalState.OperationalState"] == 0
    assert stopped["1.OperationalState.CountdownTime"] is None


def test_modes_that_a_device_does_not_have() -> None:
    for kind, mode in (("dishwasher", 6), ("laundry_washer", 6), ("rvc", 0), ("freezer", 1)):
        command = "RVCRunMode.ChangeToMode" if kind == "rvc" else "ChangeToMode"
        home = one(kind)
        before = home.state("d")
        assert error_of(home.command, "d", command, {"new_mode": mode}) == "UNSUPPORTED_MODE"
        assert home.state("d") == before
    assert error_of(one("rvc").command, "d", "ChangeToMode", {"new_mode": 1}) == "COMMAND_INVALID_ARGS"


def test_robot() -> None:
    home = one("rvc")
    state = "1.RVCOperationalState.OperationalState"
    assert error_of(home.command, "d", "Pause") == "INVALID_STATE"
    home.command("d", "RVCRunMode.ChangeToMode", {"new_mode": 2})
    assert home.read("d", state) == 1
    home.command("d", "Pause")
    assert home.read("d", state) == 2
    home.command("d", "Resume")
    home.command("d", "GoHome")
    assert (home.read("d", state), home.read("d", "1.RVCRunMode.CurrentMode")) == (64, 1)


def test_channels_are_those_of_the_first_state() -> None:
    assert error_of(one("tv", OnOff__OnOff=True).command, "d", "SkipChannel", {"count": 1}) == "INVALID_STATE"
    channels = [{"MajorNumber": n, "MinorNumber": 0, "Name": f"channel {n}"} for n in (3, 5, 7)]
    given = {"1.OnOff.OnOff": True, "1.Channel.ChannelList": channels, "0.BasicInformation.VendorName": "V"}
    home = Home([HomeDevice("d", "tv", "t", "r")], {"d": given}, as_given=True)
    for command, args, number in (
        ("ChangeChannelByNumber", {"major_number": 5}, 5),
        ("ChangeChannel", {"match": "Channel 7"}, 7),
        ("SkipChannel", {"count": 1}, 3),
    ):
        home.command("d", command, args)
        assert home.read("d", "1.Channel.CurrentChannel") == channels[[3, 5, 7].index(number)]
    assert error_of(home.command, "d", "ChangeChannel", {"match": "none"}) == "COMMAND_INVALID_ARGS"
    assert error_of(home.command, "d", "ChangeChannel", {"match": 3}) == "COMMAND_INVALID_ARGS"
    assert home.read("d", "0.BasicInformation.VendorName") == "V"
    assert error_of(home.write, "d", "0.BasicInformation.VendorName", "W") == "READ_ONLY"


def test_thirds_of_a_fan_and_a_state_as_given() -> None:
    given = {"1.OnOff.OnOff": True, "1.FanControl.PercentSetting": 0}
    thing = HomeDevice("d", "fan", "t", "r")
    home = Home([thing], {"d": given}, as_given=True, thirds=True)
    assert home.read("d", "1.FanControl.PercentCurrent") == 0, "on, at no speed, as it was given"
    for percent, mode in ((1, 1), (33, 1), (34, 2), (66, 2), (67, 3), (100, 3), (0, 0)):
        home.command("d", "SetPercent", {"percent": percent})
        assert home.read("d", "1.FanControl.FanMode") == mode
    home.command("d", "Step", {"direction": 1, "wrap": True})
    assert home.read("d", "1.FanControl.FanMode") == 3
    home.write("d", "1.FanControl.FanMode", 1)
    home.command("d", "FanControl.Step", {"direction": 1, "lowest_off": False})
    assert home.read("d", "1.FanControl.FanMode") == 1


def test_every_command_of_every_type_is_carried_out_or_refused_with_a_type() -> None:
    for kind in DEVICE_TYPES:
        for known in commands_of(kind):
            home = one(kind, **({"OnOff__OnOff": True} if "1.OnOff.OnOff" in defaults(kind) else {}))
            args = {n: "x" if a.get("text") else a["low"] for n, a in known["args"].items()}
            try:
                home.command("d", f"{known['endpoint']}.{known['cluster']}.{known['command']}", args)
            except HomeError as error:
                assert error.status in (400, 404, 409), (kind, known, error)
