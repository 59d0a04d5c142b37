"""The shooting plan: how even it is, whether its scenes can be set up and its goals be reached:
`python -m bench.recordings_plan`.

Over several seeds of the virtual home of five rooms and five people. Peer: as many items drawn at random
(room, speaker, device and turn independent and even), which is what a list written without counting gives.
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np

from bench.figures import end_of_part, figure, note, peer, quick
from edge.home.goals import check_goal
from recordings.combinations import COMBINATIONS, profile_problems
from recordings.plan.balance import Spread, balance, spread
from recordings.plan.builtin import virtual_home
from recordings.plan.check import plan_problems
from recordings.plan.generate import make_plan
from recordings.plan.model import Plan
from recordings.plan.store import plan_from_yaml, plan_to_yaml
from recordings.profile import Profile

OF_PROFILE = (
    "grounding", "query", "feasibility", "difficulty", "request", "speaker", "target_device", "goal", "home",
    "staging",
)  # fmt: skip


def _goals_wrong(plan: Plan) -> int:
    wrong = 0
    for item in plan.items:
        fields = {name: getattr(item, name) for name in OF_PROFILE}
        profile = Profile(
            id=item.id, session="s", created_utc="2026-01-01T00:00:00Z", origin="virtual", **fields
        )
        wrong += bool(check_goal(profile).problems)
    return wrong


def _drawn(plan: Plan, seed: int) -> dict[str, Spread]:
    """The same number of items drawn without looking at what was drawn before."""
    rng = random.Random(seed)
    found = {}
    for one in balance(plan):
        total = sum(one.counts.values())
        names = list(one.counts)
        weights = [one.expected[name] for name in names]
        shares = dict(zip(names, weights, strict=True))
        found[one.name] = spread(one.name, names, rng.choices(names, weights, k=total), shares)
    return found


def run(short: bool) -> None:
    """Print the figures."""
    seeds = range(4 if short else 25)
    rooms, people = virtual_home()
    start = time.process_time()
    plans = [make_plan(rooms, people, seed) for seed in seeds]
    each = (time.process_time() - start) / len(plans)
    items = [item for plan in plans for item in plan.items]
    note(f"{len(plans)} plans, {len(items)} items")
    figure("plan_items", min(len(plan.items) for plan in plans), "items", "==", 272)
    cells = {(i.grounding, i.query, i.feasibility == "feasible") for i in plans[0].items}
    figure("plan_cells", len(cells), "cells", "==", 2 * len(COMBINATIONS))
    figure("plan_profile_problems", sum(len(profile_problems(i, complete=True)) for i in items), "", "==", 0)
    figure("plan_scene_and_word_problems", sum(len(plan_problems(plan)) for plan in plans), "", "==", 0)
    figure("plan_goals_that_the_twin_denies", sum(map(_goals_wrong, plans)), "items", "==", 0)
    written = plan_to_yaml(plans[0])
    same = plan_to_yaml(make_plan(rooms, people, seeds[0])) == written and plan_from_yaml(written) == plans[0]
    figure("plan_same_seed_same_bytes", float(same), "", "==", 1)
    distinct = min(len({i.request.casefold() for i in plan.items}) for plan in plans)
    figure("plan_different_requests", distinct, "of 272", ">=", 265)
    _balance(plans)
    figure("plan_make_seconds", each, "s CPU", "<=", 5)


def _balance(plans: list[Plan]) -> None:
    found = [{one.name: one for one in balance(plan)} for plan in plans]
    drawn = [_drawn(plan, seed) for seed, plan in enumerate(plans)]
    for name, most in (
        ("rooms", 2),
        ("participants", 2),
        ("rooms x participants", 4),
        ("target devices", 6),
        ("difficulty of feasible ones", 2),
        ("sides said, G3", 3),
    ):
        key = name.replace(" x ", "_by_").replace(",", "").replace(" ", "_").lower()
        largest = max(spreads[name].max_min for spreads in found)
        figure(f"plan_{key}_max_minus_min", largest, "items", "<=", most)
        peer(f"plan_{key}_max_minus_min_drawn", float(np.mean([s[name].max_min for s in drawn])), "items")
    turns = [name for name in found[0] if name.startswith("orientation")]
    figure(
        "plan_orientation_max_minus_min",
        max(spreads[name].max_min for spreads in found for name in turns),
        "items",
        "<=",
        2,
    )
    peer(
        "plan_orientation_max_minus_min_drawn",
        float(np.mean([max(s[name].max_min for name in turns) for s in drawn])),
        "items",
    )
    types = next(name for name in found[0] if name.startswith("device types"))
    ratio = max(spreads[types].chi_square / spreads[types].freedom for spreads in found)
    figure("plan_device_types_chi_square_per_freedom", ratio, "", "<=", 1)
    expected = float(np.mean([s[types].chi_square / s[types].freedom for s in drawn]))
    peer("plan_device_types_chi_square_per_freedom_drawn", expected, "")


def main() -> int:
    """Run it alone."""
    run(quick())
    return end_of_part("recordings-plan")


if __name__ == "__main__":
    sys.exit(main())
