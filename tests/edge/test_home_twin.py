"""The home twin: Matter's rules for commands and attributes, with the error types of SimuHome."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.rig import load_rig
from dsp.errors import InputError
from edge.home import Home, HomeDevice, HomeError, home_of, room_map
from edge.home.schema import DEVICE_TYPES, commands_of


def one(device_type: str, **state: object) -> Home:
    """A home with one device "d" whose first state names attributes of endpoint 1 as Cluster__Attribute."""
    given_state = {f"1.{key.replace('__', '.')}": value for key, value in state.items()}
    return Home([HomeDevice("d", device_type, "thing", "room")], {"d": given_state})  # type: ignore[dict-item]


def error_of(call: object, *args: object) -> str:
    with pytest.raises(HomeError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.type


def test_on_off_toggle_and_what_changed() -> None:
    home = one("on_off_light")
    assert home.command("d", "On").changed == {"1.OnOff.OnOff": True}
    assert home.command("d", "On").changed == {}
    assert home.command("d", "Toggle").attributes == {"1.OnOff.OnOff": False}
    assert home.read("d", "1.OnOff.OnOff") is False


@pytest.mark.parametrize("name", ["Off", "OnOff.Off", "1.OnOff.Off"])
def test_a_command_may_be_qualified(name: str) -> None:
    home = one("fan", OnOff__OnOff=True)
    home.command("d", name)
    assert home.read("d", "1.OnOff.OnOff") is False


def test_every_error_type() -> None:
    home = one("fan")
    assert error_of(home.command, "nobody", "On") == "DEVICE_NOT_FOUND"
    assert error_of(home.command, "d", "Explode") == "COMMAND_NOT_FOUND"
    assert error_of(home.command, "d", "SetPercent") == "COMMAND_INVALID_ARGS"
    assert error_of(home.command, "d", "SetPercent", {"percent": 101}) == "COMMAND_INVALID_ARGS"
    assert error_of(home.command, "d", "SetPercent", {"percent": True}) == "COMMAND_INVALID_ARGS"
    assert error_of(home.command, "d", "On", {"level": 3}) == "COMMAND_INVALID_ARGS"
    assert error_of(home.command, "d", "SetPercent", {"percent": 50}) == "DEPENDENCY_VIOLATION"
    assert error_of(home.write, "d", "1.OnOff.OnOff", True) == "READ_ONLY"
    assert error_of(home.write, "d", "1.FanControl.PercentCurrent", 50) == "READ_ONLY"
    assert error_of(home.write, "d", "1.FanControl.PercentSetting", 50) == "DEPENDENCY_VIOLATION"
    assert error_of(home.write, "d", "1.FanControl.PercentSetting", "50") == "VALIDATION_ERROR"
    assert error_of(home.write, "d", "1.FanControl.PercentSetting", -1) == "VALIDATION_ERROR"
    assert error_of(home.write, "d", "1.FanControl.FanMode", 9) == "UNSUPPORTED_MODE"
    assert error_of(home.read, "d", "1.FanControl.Colour") == "ATTRIBUTE_NOT_FOUND"
    assert error_of(home.read, "d", "1.Oven.Colour") == "CLUSTER_NOT_FOUND"
    assert error_of(home.read, "d", "7.OnOff.OnOff") == "ENDPOINT_NOT_FOUND"
    assert home.read("d", "1.OnOff.OnOff") is False  # nothing of this changed anything


def test_statuses() -> None:
    assert HomeError("DEVICE_NOT_FOUND", "").status == 404
    assert HomeError("INVALID_STATE", "").status == 409
    assert HomeError("READ_ONLY", "").status == 400


def test_level_with_and_without_on_off() -> None:
    home = one("dimmable_light")
    assert error_of(home.command, "d", "MoveToLevel", {"level": 90}) == "DEPENDENCY_VIOLATION"
    home.command("d", "MoveToLevelWithOnOff", {"level": 90})
    assert home.state("d")["1.LevelControl.CurrentLevel"] == 90
    assert home.read("d", "1.OnOff.OnOff") is True
    home.command("d", "Step", {"step_mode": 1, "step_size": 40})
    assert home.read("d", "1.LevelControl.CurrentLevel") == 50
    home.command("d", "StepWithOnOff", {"step_mode": 1, "step_size": 200})  # to the lowest level: off
    assert home.read("d", "1.LevelControl.CurrentLevel") == 1
    assert home.read("d", "1.OnOff.OnOff") is False


def test_fan_mode_and_percent_follow_each_other() -> None:
    """0/33/66/100 % for off, low, medium, high, as SimuHome maps them."""
    home = one("fan", OnOff__OnOff=True, FanControl__PercentSetting=40)
    state = home.state("d")
    assert state["1.FanControl.FanMode"] == 1
    assert state["1.FanControl.PercentCurrent"] == 40
    home.write("d", "1.FanControl.FanMode", 2)
    assert home.read("d", "1.FanControl.PercentSetting") == 66
    home.command("d", "SetPercent", {"percent": 95})
    assert home.read("d", "1.FanControl.FanMode") == 3
    home.command("d", "Off")
    assert home.read("d", "1.FanControl.PercentCurrent") == 0
    assert home.read("d", "1.FanControl.PercentSetting") == 95
    home.command("d", "On")
    assert home.read("d", "1.FanControl.PercentCurrent") == 95


def test_a_fan_that_is_switched_on_moves_air() -> None:
    home = one("fan")
    home.command("d", "On")
    assert home.read("d", "1.FanControl.PercentCurrent") == 100
    assert one("fan", OnOff__OnOff=True).read("d", "1.FanControl.PercentCurrent") == 100


def test_appliance_cycle() -> None:
    home = one("laundry_washer")
    assert error_of(home.command, "d", "Start") == "DEPENDENCY_VIOLATION"
    home.command("d", "On")
    assert error_of(home.command, "d", "Pause") == "INVALID_STATE"
    for command, state in (("Start", 1), ("Pause", 2), ("Resume", 1), ("Stop", 0), ("Start", 1)):
        home.command("d", command)
        assert home.read("d", "1.OperationalState.OperationalState") == state
    home.command("d", "Off")  # ends the cycle
    assert home.read("d", "1.OperationalState.OperationalState") == 0


def test_player_and_blinds_and_refrigerator() -> None:
    home = one("audio_player", OnOff__OnOff=True)
    home.command("d", "Play")
    assert home.read("d", "1.MediaPlayback.CurrentState") == 0
    home.command("d", "Off")
    assert home.read("d", "1.MediaPlayback.CurrentState") == 2
    blinds = one("window_covering")
    blinds.command("d", "GoToLiftPercentage", {"lift_percent_100ths": 2500})
    assert blinds.read("d", "1.WindowCovering.CurrentPositionLiftPercent100ths") == 2500
    fridge = one("refrigerator")
    assert (
        error_of(fridge.command, "d", "SetTemperature", {"target_temperature": 900}) == "COMMAND_INVALID_ARGS"
    )
    fridge.command("d", "SetTemperature", {"target_temperature": 300})
    assert fridge.read("d", "1.TemperatureControl.TemperatureSetpoint") == 300


def test_a_running_device_given_without_on_off_is_on() -> None:
    home = one("laundry_washer", OperationalState__OperationalState=1)
    assert home.read("d", "1.OnOff.OnOff") is True
    assert home.read("d", "1.OperationalState.OperationalState") == 1


def test_bad_first_states_say_what_is_wrong() -> None:
    with pytest.raises(InputError, match="unknown type 'toaster'"):
        Home([HomeDevice("d", "toaster", "t", "r")])
    with pytest.raises(InputError, match="used twice"):
        Home([HomeDevice("d", "fan", "t", "r")] * 2)
    with pytest.raises(InputError, match="'x', which the home does not have"):
        Home([], {"x": {}})
    with pytest.raises(InputError, match="takes a bool"):
        one("fan", OnOff__OnOff=1)


def test_listeners_get_the_changes_in_order_and_a_broken_one_stops_nobody() -> None:
    home = one("fan")
    got: list[tuple[str, dict[str, object]]] = []

    def broken(device_id: str, changed: object) -> None:
        raise RuntimeError("broken listener")

    home.listen(broken)
    home.listen(lambda device_id, changed: got.append((device_id, dict(changed))))
    home.command("d", "On")
    home.command("d", "On")  # changes nothing, tells nothing
    home.command("d", "SetPercent", {"percent": 33})
    assert [device for device, _ in got] == ["d", "d"]
    assert got[0][1]["1.OnOff.OnOff"] is True
    assert got[1][1] == {
        "1.FanControl.PercentSetting": 33,
        "1.FanControl.PercentCurrent": 33,
        "1.FanControl.FanMode": 1,
    }


def test_a_listener_may_read_the_home() -> None:
    home = one("fan")
    seen: list[object] = []
    home.listen(lambda device_id, changed: seen.append(home.snapshot()[device_id]["1.OnOff.OnOff"]))
    home.command("d", "On")
    assert seen == [True]


def test_threads_lose_no_step() -> None:
    """200 steps of one from four threads end at 1 + 200, and the listener saw each value once."""
    home = one("dimmable_light", OnOff__OnOff=True, LevelControl__CurrentLevel=1)
    seen: list[object] = []
    home.listen(lambda device_id, changed: seen.append(changed["1.LevelControl.CurrentLevel"]))

    def work() -> None:
        for _ in range(50):
            home.command("d", "Step", {"step_mode": 0, "step_size": 1})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert home.read("d", "1.LevelControl.CurrentLevel") == 201
    assert seen == list(range(2, 202))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(DEVICE_TYPES)),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**16)), max_size=12),
)
def test_any_sequence_of_commands_leaves_a_valid_deterministic_state(
    device_type: str, steps: list[tuple[int, int]]
) -> None:
    """Every state can be the first of a new home, off means at rest, the same steps end the same."""

    def run() -> dict[str, object]:
        home = one(device_type)
        commands = commands_of(device_type)
        for which, value in steps:
            if not commands:
                break
            chosen = commands[which % len(commands)]
            args = {
                name: rule["low"] + value % (rule["high"] - rule["low"] + 1)
                for name, rule in chosen["args"].items()
            }
            try:
                home.command("d", f"{chosen['cluster']}.{chosen['command']}", args)
            except HomeError as error:
                assert error.type in (
                    "DEPENDENCY_VIOLATION",
                    "INVALID_STATE",
                    "COMMAND_INVALID_ARGS",
                    "UNSUPPORTED_MODE",
                )
        return home.state("d")

    state = run()
    assert run() == state
    Home([HomeDevice("d", device_type, "t", "r")], {"d": state})  # type: ignore[dict-item]
    if state.get("1.OnOff.OnOff") is False:
        assert state.get("1.FanControl.PercentCurrent", 0) == 0
        assert state.get("1.OperationalState.OperationalState", 0) == 0
        assert state.get("1.MediaPlayback.CurrentState", 2) == 2


def test_the_room_map_of_the_built_in_rig_holds_no_truth() -> None:
    rig = load_rig("capture/virtual/demo_rig.yaml")
    told = room_map(rig, home_of(rig))
    assert len(told["devices"]) == len(rig.room.devices)
    assert set(told) == {
        "room", "rooms", "devices", "microphone", "camera", "people", "household", "time",
    }  # fmt: skip
    assert "seed" not in str(told)
