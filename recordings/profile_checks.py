"""What `hearth verify` checks of a profile: its rules, and the goal in the home twin where that is installed.

The twin lives in a package above this one, so it is named here and found when it is used: whoever composes
the commands calls `use_goal_check("<module>:<function>")`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from dsp.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from recordings.problem import Problem
    from recordings.profile import Profile

PROFILE_FILE = "episode.yaml"
_goal_check: list[str] = []


class GoalFindings(Protocol):
    """What a goal check finds."""

    problems: list[Problem]

    def to_dict(self) -> dict[str, Any]:
        """verdict (ok, wrong, not checked), not_checked, orders, shown."""


@dataclass(frozen=True)
class ProfileFindings:
    """problems: of the profile and of its goal. goal: what the goal check says; None without such."""

    problems: tuple[Problem, ...] = ()
    goal: dict[str, Any] | None = None


def use_goal_check(where: str) -> None:
    """Check goals by `<module>:<function>`, which takes a Profile and gives `GoalFindings`."""
    _goal_check[:] = [where]


def check_profile(profile: Profile, *, complete: bool = False) -> ProfileFindings:
    """Rules and goal of one profile. What the rules have found is not said a second time by the twin."""
    from recordings.combinations import profile_problems
    from recordings.problem import Problem

    problems = profile_problems(profile, complete=complete)
    goal = None
    if profile.goal is not None and _goal_check:
        module, _, function = _goal_check[0].partition(":")
        found: GoalFindings = getattr(import_module(module), function)(profile)
        known = {problem.code for problem in problems}
        problems += [problem for problem in found.problems if problem.code not in known]
        goal = found.to_dict()
    return ProfileFindings(tuple(Problem(p.code, p.message, PROFILE_FILE) for p in problems), goal)


def check_episode(path: Path) -> ProfileFindings:
    """As `check_profile`, of an episode's folder. One whose episode.yaml cannot be read gives nothing: that
    is told by `recordings.verify`."""
    from recordings.episode import Episode

    try:
        profile = Episode.open(path).profile
    except InputError:
        return ProfileFindings()
    return check_profile(profile)
