"""What the home twin says of a goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from edge.home.reach import Order
from recordings.problem import Problem


@dataclass
class GoalReport:
    """What the twin says of a goal.

    problems: what is wrong. not_checked: what the twin cannot tell, and why. orders: the commands that reach
    a feasible goal. shown: why an infeasible request is infeasible.
    """

    problems: list[Problem] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Literal["ok", "wrong", "not checked"]:
        """wrong: there is a problem. not checked: there is none, and something could not be told."""
        if self.problems:
            return "wrong"
        return "not checked" if self.not_checked else "ok"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "verdict": self.verdict,
            "not_checked": self.not_checked,
            "orders": [{"device": o.device_id, "command": o.command, "args": o.args} for o in self.orders],
            "shown": self.shown,
        }
