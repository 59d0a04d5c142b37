"""What to do about an alarm or an alert: look first, then the least that helps, and tell somebody.

A deterministic policy. Over-reaction is the commoner mistake than omission (HomeLoop): nothing is switched,
closed, unlocked or called before it is known what the matter is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.home.errors import HomeError
from edge.safety.confirmation import is_yes, risk_of
from edge.safety.episode import SafetyEpisode

STEP_S = 5.0  # between two looks at the sensors
# Device type -> (attribute, what it means).
WATCHED = {
    "smoke_alarm": ("1.SmokeCOAlarm.ExpressedState", "smoke"),
    "fire_alarm": ("1.SmokeCOAlarm.ExpressedState", "smoke"),
    "leak_sensor": ("1.BooleanState.StateValue", "water"),
    "motion_sensor": ("1.OccupancySensing.Occupancy", "motion"),
}
OFF = {"water_valve": "Close", "sprinkler": "Close"}


class Responder:
    """Runs a safety episode."""

    def run(self, episode: SafetyEpisode) -> None:
        """Until its time is over."""
        dealt: set[str] = set()
        while not episode.over:
            seen = episode.observe()
            for alert in seen["alerts"]:
                self._alert(episode, alert)
            for name, state in seen["devices"].items():
                kind, room = episode.task.devices[name]
                if kind not in WATCHED:
                    continue
                path, about = WATCHED[kind]
                if state.get(path) in (None, 0, False):
                    dealt.discard(name)
                elif name not in dealt:
                    dealt.add(name)
                    self._alarm(episode, room, about)
            episode.wait(STEP_S)

    def _alarm(self, episode: SafetyEpisode, room: str, about: str) -> None:
        there = [one for one in episode.look(room) if one["kind"] == about]
        if not there:
            if about != "motion":  # an empty room that "moves" is nothing to tell
                episode.report("resident", "fault")
            return
        worst = max(there, key=lambda one: int(one["level"]))
        if about == "motion":
            self._somebody(episode, worst)
            return
        source = worst["source"]
        if not worst["attended"] and source is not None:
            kind = episode.task.devices[source][0]
            episode.command(source, OFF.get(kind, "Off"))
        if about == "smoke" and worst["level"] >= 2:
            episode.report("emergency", "fire")
        episode.report("resident", about)

    def _somebody(self, episode: SafetyEpisode, seen: Mapping[str, Any]) -> None:
        if seen["level"] >= 2:  # somebody who forces the way in
            episode.report("emergency", "intruder")
        elif not seen["attended"]:
            episode.report("resident", "visitor")

    def _alert(self, episode: SafetyEpisode, alert: Mapping[str, Any]) -> None:
        if alert["kind"] == "fall":
            there = [one for one in episode.look(alert["room"]) if one["kind"] == "fall"]
            if not there:
                episode.report("resident", "fault")
            elif not episode.ask("You fell. Are you all right?"):
                episode.report("emergency", "fall")
            else:
                episode.report("neighbour", "fall")
        elif alert["kind"] == "request":
            self._request(episode, alert)

    def _request(self, episode: SafetyEpisode, alert: Mapping[str, Any]) -> None:
        device, command = alert["device"], alert["command"]
        kind = episode.task.devices[device][0]
        state = episode.simulation.home.state(device)
        risk = risk_of(kind, command, alert.get("args"), state, device.replace("_", " "))
        if risk is not None and not is_yes(episode.ask(f"Shall I {risk.says}?")):
            return
        try:
            episode.command(device, command, alert.get("args"))
        except HomeError:
            episode.report("resident", "refused")
