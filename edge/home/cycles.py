"""How long appliances run, and what their attributes say on the way and at the end.

Times are those of the SimuHome benchmark (arXiv 2509.24282), in seconds. A microwave or an oven runs for its
cook time, or until somebody stops it when none is set; what boils takes a minute for each cup; a valve closes
after the time for which it was opened.
"""

from __future__ import annotations

from typing import Any

from edge.home.errors import HomeError
from edge.home.house_actions import close_valve

Attributes = dict[str, Any]

STOPPED, RUNNING, PAUSED = 0, 1, 2  # OperationalState
SEEKING_CHARGER, DOCKED = 64, 66  # RVCOperationalState

DISHWASHER_S = {0: 5400, 1: 7200, 2: 3600, 3: 1800, 4: 5400, 5: 5400}  # by DishwasherMode.CurrentMode
WASHER_S = {0: 3600, 1: 2700, 2: 5400, 3: 3600, 4: 900, 5: 5400}  # by LaundryWasherMode.CurrentMode
DRYER_S = {0: 1800, 1: 2700, 2: 3600, 3: 4500}  # by SelectedDrynessLevel: low, normal, extra, max
DURATIONS = {
    "DishwasherMode.CurrentMode": DISHWASHER_S,
    "LaundryWasherMode.CurrentMode": WASHER_S,
    "LaundryDryerControls.SelectedDrynessLevel": DRYER_S,
}
DISHWASHER_PHASES = (1, 6, 8, 9)  # ninths of the time at which each phase ends
CYCLES = ("1.OperationalState", "1.RVCOperationalState")  # where an appliance's cycle is
VALVE = "1.ValveConfigurationAndControl"
COUNTDOWNS = {  # `<endpoint>.<Cluster>` of what ends by itself -> the seconds that are left
    **{cluster: f"{cluster}.CountdownTime" for cluster in CYCLES},
    VALVE: f"{VALVE}.RemainingDuration",
}
CUP_S = 60
CLEANING_S, SEEKING_S, DOCKING_S = 1800, 10, 5  # robot vacuum
IDLE = 1  # RVCRunMode


def duration_s(attributes: Attributes, endpoint: int) -> int | None:
    """How long a cycle that begins now takes, by the mode that is set; None: until it is stopped."""
    for path, seconds in DURATIONS.items():
        mode = attributes.get(f"{endpoint}.{path}")
        if mode is not None:
            return seconds.get(mode)
    cups = attributes.get(f"{endpoint}.BrewControl.Cups")
    if cups is not None:
        return CUP_S * int(cups)
    return attributes.get(f"{endpoint}.MicrowaveOvenControl.CookTime")


def phase_at(attributes: Attributes, endpoint: int, left_s: float) -> int:
    """CurrentPhase of a cycle with so much time left. Only the dishwasher's shares are known; others stay in
    their first phase."""
    mode = attributes.get(f"{endpoint}.DishwasherMode.CurrentMode")
    if mode is None:
        return 0
    ninths = 9 * (1 - left_s / DISHWASHER_S[mode])
    return sum(ninths >= end for end in DISHWASHER_PHASES[:-1])


def begin(attributes: Attributes, endpoint: int) -> None:
    """Times of a cycle that begins, in place."""
    prefix = f"{endpoint}.OperationalState"
    if f"{prefix}.CountdownTime" in attributes:
        seconds = duration_s(attributes, endpoint)
        attributes[f"{prefix}.CountdownTime"] = seconds
        attributes[f"{prefix}.CurrentPhase"] = None if seconds is None else 0


def end(attributes: Attributes, endpoint: int) -> None:
    """A cycle is over: stopped, or done. In place."""
    prefix = f"{endpoint}.OperationalState"
    attributes[f"{prefix}.OperationalState"] = STOPPED
    for name in ("CountdownTime", "CurrentPhase"):
        if f"{prefix}.{name}" in attributes:
            attributes[f"{prefix}.{name}"] = None


# -- robot vacuum


def set_run_mode(attributes: Attributes, endpoint: int, mode: int) -> None:
    """RVCRunMode.ChangeToMode: idle sends it to its charger, another mode begins to clean or map."""
    attributes[f"{endpoint}.RVCRunMode.CurrentMode"] = mode
    state = f"{endpoint}.RVCOperationalState.OperationalState"
    if mode != IDLE:
        attributes[state] = RUNNING
        attributes[f"{endpoint}.RVCOperationalState.CountdownTime"] = CLEANING_S
    elif attributes[state] in (RUNNING, PAUSED):
        go_home(attributes, endpoint)


def go_home(attributes: Attributes, endpoint: int) -> None:
    """RVCOperationalState.GoHome: seeks its charger."""
    state = f"{endpoint}.RVCOperationalState.OperationalState"
    if attributes[state] == DOCKED:
        raise HomeError("INVALID_STATE", "GoHome is not possible while the device is docked")
    if attributes[state] != SEEKING_CHARGER:
        attributes[state] = SEEKING_CHARGER
        attributes[f"{endpoint}.RVCRunMode.CurrentMode"] = IDLE
        attributes[f"{endpoint}.RVCOperationalState.CountdownTime"] = SEEKING_S + DOCKING_S


def pause_robot(attributes: Attributes, endpoint: int, *, resume: bool) -> None:
    """RVCOperationalState.Pause and .Resume."""
    path = f"{endpoint}.RVCOperationalState.OperationalState"
    if attributes[path] not in (RUNNING, PAUSED):
        name = "Resume" if resume else "Pause"
        raise HomeError("INVALID_STATE", f"{name} is not possible while the device does not clean")
    attributes[path] = RUNNING if resume else PAUSED


# -- on the clock


def busy_path(attributes: Attributes) -> str | None:
    """`<endpoint>.<Cluster>` of a cycle that runs now and will end by itself; None without one."""
    for cluster in CYCLES:
        works = attributes.get(f"{cluster}.OperationalState") in (RUNNING, SEEKING_CHARGER)
        if works and attributes.get(f"{cluster}.CountdownTime") is not None:
            return cluster
    return VALVE if attributes.get(COUNTDOWNS[VALVE]) is not None else None


def finish(attributes: Attributes, cluster: str) -> None:
    """What happens when the countdown is over, in place: a robot that cleaned seeks its charger, one that
    sought it is docked, any other appliance stops."""
    if cluster == VALVE:
        close_valve(attributes, 1)
    elif cluster == "1.OperationalState":
        end(attributes, 1)
    elif attributes[f"{cluster}.OperationalState"] == RUNNING:
        go_home(attributes, 1)
    else:
        attributes[f"{cluster}.OperationalState"] = DOCKED
        attributes[f"{cluster}.CountdownTime"] = None
