"""The home's time: cycles that end when they must, time of day, and real time."""

from __future__ import annotations

from typing import Any

import pytest

from dsp.errors import InputError
from edge.home.clock import HomeClock, RealTime
from edge.home.simulation import Simulation
from edge.home.twin import Home, HomeDevice

CYCLE, LEFT = "1.OperationalState.OperationalState", "1.OperationalState.CountdownTime"
PHASE = "1.OperationalState.CurrentPhase"


def simulated(kind: str, **attributes: Any) -> Simulation:
    return Simulation(Home([HomeDevice("d", kind, "thing", "room")], {"d": attributes}))


def test_time_of_day() -> None:
    clock = HomeClock("2025-08-23 23:59:50")
    assert clock.at(0) == "2025-08-23 23:59:50" and clock.at(109) == "2025-08-24 00:00:00"
    assert clock.tick_of("2025-08-24 00:00:10") == 200 and clock.tick_of("2025-08-23 23:59:49") == -10
    for text in ("tomorrow", None, "2025-02-30 00:00:00"):
        with pytest.raises(InputError, match="YYYY-MM-DD"):
            HomeClock(text)  # type: ignore[arg-type]


def test_a_cycle_ends_at_its_tick_and_not_before() -> None:
    sim = simulated("laundry_dryer", **{"1.OnOff.OnOff": True})
    sim.advance_to(7)
    sim.command("d", "Start")
    assert sim.done_at("d") == 7 + 27000
    sim.advance_to(27006)
    assert (sim.home.read("d", CYCLE), sim.home.read("d", LEFT)) == (1, 1)
    sim.advance_to(27007)
    state = sim.home.state("d")
    assert (state[CYCLE], state[LEFT], state[PHASE], state["1.OnOff.OnOff"]) == (0, None, None, True)
    assert sim.done_at("d") is None


def test_a_cycle_that_was_running_at_the_start() -> None:
    sim = simulated("dishwasher", **{CYCLE: 1, LEFT: 5353})
    sim.advance_to(53529)
    assert sim.home.read("d", CYCLE) == 1
    sim.advance_to(53530)
    assert sim.home.read("d", CYCLE) == 0


def test_phases_of_a_dishwasher() -> None:
    """1/9, 5/9, 2/9 and 1/9 of 90 minutes."""
    sim = simulated("dishwasher", **{"1.OnOff.OnOff": True})
    sim.command("d", "Start")
    for minute, phase in ((0, 0), (9.9, 0), (10, 1), (59.9, 1), (60, 2), (79.9, 2), (80, 3), (89.9, 3)):
        sim.advance_to(round(minute * 600))
        assert sim.home.read("d", PHASE) == phase, minute


def test_a_pause_takes_no_time_from_the_cycle() -> None:
    sim = simulated("laundry_washer", **{"1.OnOff.OnOff": True})
    sim.command("d", "Start")
    sim.advance_to(12345)
    sim.command("d", "Pause")
    sim.advance_to(20000)
    assert sim.home.read("d", LEFT) == -(-(36000 - 12345) // 10)
    sim.command("d", "Resume")
    assert sim.done_at("d") == 20000 + 36000 - 12345
    sim.command("d", "Stop")
    sim.advance(7200)
    assert sim.home.read("d", LEFT) is None


def test_a_microwave_runs_until_it_is_stopped() -> None:
    sim = simulated("microwave", **{"1.OnOff.OnOff": True})
    sim.command("d", "Start")
    sim.advance(24 * 3600)
    assert sim.home.read("d", CYCLE) == 1


def test_a_robot_cleans_seeks_its_charger_and_docks() -> None:
    sim = simulated("rvc")
    state, mode = "1.RVCOperationalState.OperationalState", "1.RVCRunMode.CurrentMode"
    sim.command("d", "RVCRunMode.ChangeToMode", {"new_mode": 2})
    for tick, wanted in ((17999, (1, 2)), (18000, (64, 1)), (18149, (64, 1)), (18150, (66, 1))):
        sim.advance_to(tick)
        assert (sim.home.read("d", state), sim.home.read("d", mode)) == wanted


def test_commands_from_other_threads_while_time_passes() -> None:
    """Neither waits for the other for ever, and no command is lost."""
    import threading

    sim = simulated("dimmable_light", **{"1.OnOff.OnOff": True, "1.LevelControl.CurrentLevel": 1})
    ways = (sim.command, sim.home.command)

    def work(send: Any) -> None:
        for _ in range(50):
            send("d", "LevelControl.Step", {"step_mode": 0, "step_size": 1})

    threads = [threading.Thread(target=work, args=(send,), daemon=True) for send in ways]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and sim.tick < 10**6:
        sim.advance_to(sim.tick + 10)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sim.home.read("d", "1.LevelControl.CurrentLevel") == 101


def test_time_goes_one_way() -> None:
    sim = simulated("fan")
    sim.advance_to(100)
    for tick in (99, 10**12, 1.5, True):
        with pytest.raises(InputError, match="time passes"):
            sim.advance_to(tick)  # type: ignore[arg-type]
    assert (sim.tick, sim.time) == (100, "2026-01-01 08:00:10")


def test_real_time_catches_up_with_the_clock_and_never_goes_back() -> None:
    sim = simulated("fan")
    now = [50.0]
    real = RealTime(sim, speed=2.0, now=lambda: now[0])
    for seconds, tick in ((0.0, 0), (0.26, 5), (10.0, 200)):
        now[0] = 50.0 + seconds
        real.catch_up()
        assert sim.tick == tick
    sim.advance_to(1000)  # by hand, further than it would be
    real.catch_up()
    assert sim.tick == 1000
    with pytest.raises(InputError, match="speed"):
        RealTime(sim, speed=0.0)


def test_the_thread_of_real_time_moves_the_home_and_ends() -> None:
    import threading

    sim = simulated("laundry_dryer", **{"1.OnOff.OnOff": True})
    sim.command("d", "Start")
    done = threading.Event()
    sim.home.listen(lambda _, changed: done.set() if changed.get(CYCLE) == 0 else None)
    real = RealTime(sim, speed=1e6).start()
    assert done.wait(30), "45 minutes pass at a million seconds a second"
    sim.command("d", "Off")
    real.stop()
    tick = sim.tick
    assert tick >= 27000 and sim.tick == tick


def test_who_is_told_of_a_change_may_ask_for_the_time_again() -> None:
    home = Home([HomeDevice("washer", "laundry_washer", "washer", "room")],
                {"washer": {"1.OnOff.OnOff": True, "1.LaundryWasherMode.CurrentMode": 4}})  # fmt: skip
    sim = Simulation(home)
    sim.command("washer", "Start")
    now = [0.0]
    real = RealTime(sim, now=lambda: now[0])
    ticks: list[int] = []

    def told(device_id: str, changed: object) -> None:
        real.catch_up()
        ticks.append(sim.tick)

    home.listen(told)
    now[0] = 2000.0
    real.catch_up()
    assert sim.tick == 20000 and ticks[0] == 9000, "the cycle ended at its tick"
