"""The guard of a live home: risky actions need a yes that was really heard, and house rules are watched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from edge.home.errors import HomeError
from edge.home.timeline import DeviceHome
from edge.safety.atoms import AtomKind, Event, Happens, Is
from edge.safety.confirmation import Risk, is_yes, risk_of
from edge.safety.monitor import Monitor, Rule
from edge.safety.rules_file import SafetyRules

log = logging.getLogger(__name__)

ANSWER_S = 60.0  # so long after the question a yes counts, and so long after the yes the action
# Device type -> (what is said of it, attribute, values while it is so, seconds it may be so).
_LIMITS: dict[str, tuple[str, str, tuple[Any, ...], float]] = {
    "door_lock": ("is unlocked", "1.DoorLock.LockState", (0, 2), 900),
    "oven": ("is on", "1.OnOff.OnOff", (True,), 4 * 3600),
    "cooktop": ("is on", "1.OnOff.OnOff", (True,), 2 * 3600),
    "water_valve": ("is open", "1.ValveConfigurationAndControl.CurrentState", (1,), 3600),
    "sprinkler": ("is open", "1.ValveConfigurationAndControl.CurrentState", (1,), 2 * 3600),
}
_ALARMS = {
    "smoke_alarm": "1.SmokeCOAlarm.ExpressedState",
    "fire_alarm": "1.SmokeCOAlarm.ExpressedState",
    "co_alarm": "1.SmokeCOAlarm.ExpressedState",
    "leak_sensor": "1.BooleanState.StateValue",
}
Action = tuple[str, str]  # device, what it is to do
TELL_S = 30.0  # an alarm is told to the people within


def house_rules(devices: Iterable[Any]) -> tuple[dict[str, AtomKind], list[Rule]]:
    """Atoms and rules of a home, by the types of its devices: nothing hot, wet or open for too long, and
    every alarm is told."""
    atoms: dict[str, AtomKind] = {"told": Happens("said")}
    rules = []
    for device in devices:
        if device.type in _LIMITS:
            what, path, values, most_s = _LIMITS[device.type]
            name = f"{device.id}_so"
            atoms[name] = Is(device.id, path, values)
            # Begun: it is so now and was not at the event before.
            rules.append(
                Rule(
                    f"{device.id} not for too long",
                    f"G(({name} & !Y {name}) -> F[<={most_s:g}] !{name})",
                    f"the {device.name} {what} for more than {most_s / 60:g} minutes",
                    "outcome",
                )
            )
        if device.type in _ALARMS:
            name = f"{device.id}_alarm"
            values = (True,) if device.type == "leak_sensor" else (1, 2)
            atoms[name] = Is(device.id, _ALARMS[device.type], values)
            rules.append(
                Rule(
                    f"{device.id} is told",
                    f"G(({name} & !Y {name}) -> F[<={TELL_S:g}] (told | !{name}))",
                    f"the {device.name} gives alarm and nobody was told within {TELL_S:g} s",
                    "report",
                )
            )
    return atoms, rules


class Guard:
    """Watches one home by the house rules and by one's own. Thread-safe.

    A risky action (`edge.safety.confirmation`) is refused with CONFIRMATION_NEEDED until somebody was heard
    to say yes after that refusal: the agent asks, reports what it heard (`agent.heard`), and sends the action
    again with `confirmed`. A claim without an answer that was heard is refused as well. Each yes is for one
    action, or for the steps of one schedule.
    """

    def __init__(
        self, home: DeviceHome, own: SafetyRules | None = None, *, answer_s: float = ANSWER_S
    ) -> None:
        self._home, self._answer_s, self._own = home, answer_s, own
        self._lock = threading.Lock()
        self._asked: dict[frozenset[Action], float] = {}
        self._yes_s: float | None = None
        self._last_s = 0.0
        self.follow()

    def follow(self) -> None:
        """Other devices from now on."""
        with self._lock:
            devices = self._home.devices
            atoms, rules = house_rules(devices)
            states = self._home.snapshot()
            self._monitor = Monitor(atoms, rules, states=states, lasting=True)
            self._own_monitor: Monitor | None = None
            if self._own is not None:
                own = self._own
                self._own_monitor = Monitor(own.atoms, own.rules, own.costs, own.budget, states, lasting=True)
                for missing in sorted(own.devices() - {device.id for device in devices}):
                    log.warning("a rule speaks of the device %r, which the home does not have", missing)
            self._push("home", {})  # what is so at the start counts from now on

    def check(
        self, t_s: float, actions: Iterable[tuple[str, str, Mapping[str, Any]]], confirmed: bool
    ) -> None:
        """actions: (device, command or "write <attribute>", arguments) that are to be done together. Raises
        HomeError CONFIRMATION_NEEDED when one is risky and there is no yes."""
        types = {device.id: device for device in self._home.devices}
        risks: list[Risk] = []
        asked: set[Action] = set()
        for device_id, command, args in actions:
            device = types.get(device_id)
            if device is None:
                continue
            risk = risk_of(device.type, command, args, self._home.state(device_id), device.name)
            if risk is not None:
                risks.append(risk)
                asked.add((device_id, command.rsplit(".", 1)[-1]))
        if risks:
            with self._lock:
                self._need_yes(t_s, frozenset(asked), " and ".join(risk.says for risk in risks), confirmed)

    def _need_yes(self, t_s: float, actions: frozenset[Action], says: str, confirmed: bool) -> None:
        asked, yes = self._asked.get(actions), self._yes_s
        if confirmed and asked is not None and yes is not None and asked <= yes >= t_s - self._answer_s:
            del self._asked[actions]
            self._yes_s = None
            return
        self._asked[actions] = t_s
        why = " Nobody was heard to say yes to it." if confirmed else ""
        raise HomeError(
            "CONFIRMATION_NEEDED",
            f"to {says} needs a person's yes.{why} Ask, and send it again with `confirmed`",
        )

    def event(self, t_s: float, kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """An event of the home or an agent; the violations to be told."""
        with self._lock:
            if kind == "heard":
                recent = any(t_s - asked <= self._answer_s for asked in self._asked.values())
                text = data.get("text")
                self._yes_s = t_s if recent and isinstance(text, str) and is_yes(text) else None
            self._last_s = max(self._last_s, t_s)
            return self._push(kind, data)

    def _push(self, kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        event = Event(self._last_s, kind, data)
        return [one.to_dict() for monitor in self._monitors() for one in monitor.push(event)]

    def _monitors(self) -> list[Monitor]:
        return [self._monitor, *([] if self._own_monitor is None else [self._own_monitor])]

    def pass_to(self, t_s: float) -> list[dict[str, Any]]:
        """Time passed; the violations to be told."""
        with self._lock:
            self._last_s = max(self._last_s, t_s)
            return [one.to_dict() for monitor in self._monitors() for one in monitor.pass_to(self._last_s)]
