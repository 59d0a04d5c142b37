"""Which actions are risky: a person has to say yes before they are done.

Locks and doors that let somebody in, heat that can burn something, water that runs, alarms that are silenced.
What makes a home safer (lock, close, off) never needs a yes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

RiskKind = Literal["entry", "heat", "water", "alarm"]
HEAT = ("oven", "cooktop", "kettle")
DOORS = ("garage_door",)
WATER = ("water_valve", "sprinkler")
CLOSED = 10000  # of a covering
YES = re.compile(r"\b(yes|yeah|yep|sure|ok|okay|confirm|confirmed|do it|go ahead|please do)\b", re.IGNORECASE)
NO = re.compile(r"\b(no|not|don't|do not|never|stop|cancel|wait)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Risk:
    """kind, and a question that a person can answer with yes or no; `says` completes "Shall I ...?"."""

    kind: RiskKind
    says: str


def risk_of(
    device_type: str,
    command: str,
    args: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    name: str = "it",
) -> Risk | None:
    """The risk of a command ("UnlockDoor", "1.OnOff.On") or a write ("write 1.CookSurface.PowerLevel", args
    {"value": 5}) to a device of this type in this state; None: no yes is needed. name: as people call it."""
    does, given = command.rsplit(".", 1)[-1], dict(args or {})
    on = (state or {}).get("1.OnOff.OnOff")
    does = "Off" if does == "Toggle" and on is True else "On" if does == "Toggle" else does
    if device_type == "door_lock" and does == "UnlockDoor":
        return Risk("entry", f"unlock the {name}")
    if device_type in DOORS and (
        does == "UpOrOpen" or (does == "GoToLiftPercentage" and given.get("lift_percent_100ths") != CLOSED)
    ):
        return Risk("entry", f"open the {name}")
    if device_type in WATER and does == "Open":
        return Risk("water", f"turn the water of the {name} on")
    if device_type in HEAT:
        hotter = does in ("On", "Start", "Resume", "SetTemperature") or (
            command.startswith("write ") and does == "PowerLevel" and given.get("value") != 0
        )
        return Risk("heat", f"heat the {name}") if hotter else None
    if does == "Silence":
        return Risk("alarm", f"silence the {name}")
    return None


def is_yes(text: str) -> bool:
    """Whether an answer is a plain yes: with a word for it, and none against it."""
    return bool(YES.search(text)) and not NO.search(text)
