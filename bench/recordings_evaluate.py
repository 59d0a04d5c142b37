"""An evaluation is sound when answers of known worth get the score that is known: perfect, empty, shuffled.

Over the built-in plan of 272 episodes (17 combinations, half of them infeasible). Targets are closed forms:
1; the share of episodes whose truth is "none"; the sum over targets of (share of the target)^2, and for goals
the mean over all pairs of answer and episode, each within three standard errors of as many permutations. The
variance of a permuted sum is Hoeffding's (Annals of Mathematical Statistics 22, 1951, 558). Profiles and
goals are checked too: with the rules, in the home twin, and SimuHome's files there and back.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from math import sqrt
from pathlib import Path

import numpy as np

from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from edge.home.goals import check_goal
from recordings.combinations import COMBINATIONS, profile_problems
from recordings.evaluate.answers import Answer, collect
from recordings.evaluate.episodes import profile_of_item
from recordings.evaluate.evaluation import Share, evaluate
from recordings.evaluate.goal_score import score_goal
from recordings.evaluate.reference import chance, empty, perfect, shuffled
from recordings.evaluate.tables import table_lines
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan
from recordings.profile import Profile
from recordings.simuhome import profile_of_simuhome, simuhome_of_profile

SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SIMUHOME = SHARED / "episodes" / "simuhome"
SHUFFLES = 200
SEED = 11


def planned() -> list[Profile]:
    """The plan's items as profiles."""
    plan = make_plan(*virtual_home(), SEED)
    return [profile_of_item(item, plan.name) for item in plan.items]


def share(of: Share) -> float:
    """Right ones of all."""
    return of.right / of.of


def run(short: bool) -> None:
    """Print the figures; `short` shuffles less often."""
    profiles = planned()
    _profiles(profiles)
    _known_files(profiles)
    _shuffled(profiles, SHUFFLES // 5 if short else SHUFFLES)
    _simuhome()


def _profiles(profiles: list[Profile]) -> None:
    cells = Counter((p.grounding, p.query, p.feasibility == "feasible") for p in profiles)
    figure(
        "evaluate_combinations", len({cell[:2] for cell in cells}), "combinations", "==", len(COMBINATIONS)
    )
    figure("evaluate_episodes", len(profiles), "episodes", "==", 16 * len(COMBINATIONS))
    figure("evaluate_least_per_cell", min(cells.values()), "episodes", "==", 8)
    wrong = [problem for p in profiles for problem in profile_problems(p, complete=True)]
    figure("evaluate_profile_problems", len(wrong), "problems", "==", 0)
    reports = [check_goal(p) for p in profiles]
    figure("evaluate_goals_wrong_in_twin", sum(r.verdict == "wrong" for r in reports), "episodes", "==", 0)
    peer("evaluate_goals_shown_in_twin", sum(r.verdict == "ok" for r in reports), "episodes")
    peer("evaluate_goals_not_checked", sum(r.verdict == "not checked" for r in reports), "episodes")


def _known_files(profiles: list[Profile]) -> None:
    began = time.perf_counter()
    found = evaluate(profiles, collect(perfect(p) for p in profiles))
    seconds = time.perf_counter() - began
    for name, measured in zip(("grounding", "goal"), found.shares(), strict=True):
        figure(f"evaluate_perfect_{name}", 100 * share(measured), "%", "==", 100)
    figure("evaluate_perfect_without_judge", len(found.errors), "episodes not told", "==", 0)
    peer("evaluate_rate", len(profiles) / seconds, "episodes/s")
    none = sum(p.feasibility == "nonexistent_resource" for p in profiles) / len(profiles)
    found = evaluate(profiles, collect(empty(p) for p in profiles))
    grounding, goal = found.shares()
    figure("evaluate_empty_grounding_minus_none_rate", 100 * abs(share(grounding) - none), "%", "==", 0)
    peer("evaluate_none_rate", 100 * none, "%")
    figure("evaluate_empty_goal", 100 * share(goal), "%", "==", 0)
    missing = evaluate(profiles, collect([]))
    figure("evaluate_no_answers_grounding", 100 * share(missing.shares()[0]), "%", "==", 0)
    figure("evaluate_no_answers_named", len(missing.missing), "episodes", "==", len(profiles))


def _shuffled(profiles: list[Profile], times: int) -> None:
    answers = [perfect(p) for p in profiles]
    targets = [None if p.feasibility == "nonexistent_resource" else p.target_device for p in profiles]
    found = [evaluate(profiles, collect(shuffled(answers, seed))) for seed in range(times)]
    pairs = _pairs(profiles, answers)
    for number, (name, (expected, sigma)) in enumerate(
        {"grounding": chance(targets), "goal": permuted(pairs)}.items()
    ):
        mean = sum(share(one.shares()[number]) for one in found) / times
        peer(f"evaluate_chance_{name}", 100 * expected, "%")
        peer(f"evaluate_shuffled_{name}", 100 * mean, "%")
        off = abs(mean - expected) / (sigma / sqrt(times))
        figure(f"evaluate_shuffled_{name}_off_chance", off, "standard errors", "<=", 3)
    for line in table_lines(found[0]):
        note(line)


def _pairs(profiles: list[Profile], answers: list[Answer]) -> np.ndarray:
    """(episodes, answers): 1 where the answer reaches the goal of the episode."""
    return np.array(
        [[score_goal(p, answer, None).verdict == "right" for answer in answers] for p in profiles], float
    )


def permuted(pairs: np.ndarray) -> tuple[float, float]:
    """(mean, standard deviation) of the share of right ones when the columns are permuted at random."""
    n = len(pairs)
    centred = pairs - pairs.mean(0) - pairs.mean(1)[:, None] + pairs.mean()
    return float(pairs.mean()), float(sqrt((centred**2).sum() / (n - 1)) / n)


def _simuhome() -> None:
    files = sorted(SIMUHOME.glob("*.json"))
    if not files:
        why = "SimuHome's episodes are not on this machine"
        not_measured("profile_simuhome_lossless", "% of files", "==", 100, why)
        not_measured("profile_simuhome_labels_contradicted", "files", "==", 0, why)
        return
    same = wrong = shown = infeasible = 0
    for path in files:
        data = json.loads(path.read_text("utf-8"))
        profile = profile_of_simuhome(data, path.stem)
        same += json.dumps(simuhome_of_profile(profile), sort_keys=True) == json.dumps(data, sort_keys=True)
        report = check_goal(profile)
        wrong += report.verdict == "wrong" or bool(profile_problems(profile))
        infeasible += profile.feasibility != "feasible"
        shown += profile.feasibility != "feasible" and report.verdict == "ok"
    figure("profile_simuhome_lossless", 100 * same / len(files), "% of files", "==", 100)
    figure("profile_simuhome_labels_contradicted", wrong, "files", "==", 0)
    figure("profile_simuhome_infeasible_shown", 100 * shown / infeasible, "%", "==", 100)


def main() -> int:
    """Print the figures and how many of them are met."""
    run(quick())
    return end_of_part("recordings")


if __name__ == "__main__":
    raise SystemExit(main())
