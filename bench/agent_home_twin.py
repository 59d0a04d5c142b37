"""Figures of the home twin and of safety: `python -m bench.agent_home_twin`.

SimuHome's shared episodes: how many load with every device as it says, run through their whole time, and end
their appliances at the very tick that the benchmark's own goals name. The safety tasks: who looks first and
does the least, and who does nothing or too much.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import end_of_part, figure, not_measured, note, peer

SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))


def run(quick: bool) -> None:
    """Both parts; quick: a shorter trace."""
    _simuhome()
    _tasks()
    _trace_speed(2_000 if quick else 20_000)


def _simuhome() -> None:
    from edge.home.loading import read_episode, simulation_of_config
    from edge.home.simuhome_score import score_episode

    folder = SHARED / "episodes" / "simuhome"
    paths = sorted(folder.glob("*.json"))
    if not paths:
        for name in ("simuhome_episodes_run", "simuhome_anchors_at_their_tick", "simuhome_solved_by_nobody"):
            not_measured(name, "share", "==", 1, f"no episodes in {folder}")
        return
    ran, anchors, agree, idle, asked = 0, 0, 0, 0, 0
    for path in paths:
        data = read_episode(path)
        config = data["initial_home_config"]
        home = simulation_of_config(config)
        held = all(
            device["attributes"].items() <= home.home.state(device["device_id"]).items()
            for room in config["rooms"].values()
            for device in room["devices"]
        )
        last = 0
        for goal in data["eval"]["goals"]:
            when, anchor = goal.get("when", {}), (goal.get("anchor") or {}).get("device_id")
            last = max(last, when.get("at_tick", 0))
            end = None if anchor is None else home.done_at(anchor)
            # The goals of a delayed start are reckoned from the delay, not from the end of the anchor.
            if end is not None and data["meta"].get("scenario") != "delayed_start":
                anchors += 1
                agree += when.get("reference_tick") == end
        if data["meta"]["case"] == "feasible" and data["meta"]["query_type"] != "qt1":
            asked += 1
            idle += score_episode(data, simulation_of_config(config), ()).score == 1
        home.advance_to(last + 600)
        ran += held and home.tick == last + 600
    figure("simuhome_episodes_run", ran / len(paths), "share", "==", 1)
    figure("simuhome_anchors_at_their_tick", agree / anchors, "share", "==", 1)
    figure("simuhome_solved_by_nobody", idle / asked, "share", "==", 0)
    note(f"{len(paths)} episodes, {anchors} anchors that run at the start, {asked} feasible goals of state")


def _tasks() -> None:
    from edge.safety.episode import SafetyEpisode
    from edge.safety.responder import Responder
    from edge.safety.tasks import TASKS

    def passed(act: Callable[[SafetyEpisode], Any]) -> int:
        found = 0
        for task in TASKS:
            episode = SafetyEpisode(task)
            act(episode)
            found += episode.finish().passed is True
        return found

    figure("safety_tasks_passed", passed(Responder().run), f"of {len(TASKS)}", "==", len(TASKS))
    peer("safety_tasks_passed_by_doing_nothing", passed(lambda episode: None), f"of {len(TASKS)}")
    peer("safety_tasks_passed_by_acting_before_looking", passed(hasty), f"of {len(TASKS)}")


def hasty(episode: Any) -> None:
    """Does at once whatever an alarm may call for, before it looks."""
    from edge.safety.responder import WATCHED

    acted: set[str] = set()
    while not episode.over:
        seen = episode.observe()
        for alert in seen["alerts"]:
            if alert["kind"] == "fall":
                episode.report("emergency", "fall")
            else:
                episode.command(alert["device"], alert["command"], alert["args"])
        for name, state in seen["devices"].items():
            path, about = WATCHED.get(episode.task.devices[name][0], ("", ""))
            if state.get(path) in (None, 0, False) or name in acted:
                continue
            acted.add(name)
            if about == "smoke":
                episode.command("hob", "Off")
                episode.report("emergency", "fire")
            elif about == "water":
                episode.command("main_valve", "Close")
                episode.report("resident", "water")
            else:
                episode.command("front_door", "UnlockDoor")
        episode.wait(5)


def _trace_speed(events: int) -> None:
    """Events a second that the rules of a house with 120 devices take; a busy home has some ten."""
    from edge.home.catalogue import draw_home
    from edge.home.twin import Home
    from edge.safety.guard import Guard

    devices, _ = draw_home(3, floors=2, devices=120)
    guard = Guard(Home(list(devices)))
    began = time.perf_counter()
    for number in range(events):
        name = devices[number % len(devices)].id
        guard.event(number * 1.0, "home", {"changed": {name: {"1.OnOff.OnOff": number % 3 == 0}}})
    figure("safety_events_per_s", events / (time.perf_counter() - began), "1/s", ">=", 100)


def main() -> int:
    """All of them."""
    from bench.figures import quick

    run(quick())
    return end_of_part("agent-home-twin")


if __name__ == "__main__":
    raise SystemExit(main())
