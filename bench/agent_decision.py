"""The decision of the agent alone: true words, and evidence that is true or off by as much as it says.

`python -m bench.agent_decision`. What is missing to 100 % with true evidence would be lost to every agent
that decides so, however well it sees and hears. The 340 episodes of a development plan; errors of the
evidence as `bench.agent_oracle.findings_of` has them (pointing 5, facing 8, sound 6 degrees, place 0.15 m).
"""

from __future__ import annotations

import time

import numpy as np

from bench.agent_oracle import Run, findings_of, profile_of, view_of
from bench.figures import end_of_part, figure, note, quick
from edge.agent.decide_request import decide
from edge.agent.grounding import ground
from edge.language import HomeWords, understand
from recordings.evaluate.answers import collect
from recordings.evaluate.evaluation import Evaluation, evaluate
from recordings.evaluate.rule_judge import RuleJudge
from recordings.plan.builtin import virtual_home
from recordings.plan.generate import make_plan

SEED = 12


def score(seed: int, per_cell: int, noise: int | None) -> tuple[Evaluation, list[float]]:
    """The evaluation, and the seconds that each decision took (grounding and planning together)."""
    rooms, people = virtual_home()
    plan = make_plan(rooms, people, seed, name="dev", per_cell=per_cell)
    rng = None if noise is None else np.random.default_rng(noise)
    answers, seconds = [], []
    for item in plan.items:
        run = Run.of(item)
        home = view_of(item, plan, run.simulation)
        intent, findings = understand(item.request, HomeWords.of(home.room)), findings_of(item, plan, rng)
        began = time.perf_counter()
        decision = decide(intent, ground(intent, findings, home), home)
        seconds.append(time.perf_counter() - began)
        answers.append(run.answer(decision))
    profiles = [profile_of(item) for item in plan.items]
    return evaluate(profiles, collect(answers), RuleJudge()), seconds


def run(is_quick: bool) -> None:
    """Print the figures."""
    per_cell = 2 if is_quick else 10
    found, seconds = score(SEED, per_cell, None)
    grounding, goal = found.shares()
    figure("agent_decision_true_evidence_grounding", 100 * grounding.right / grounding.of, "%", ">=", 99)
    figure("agent_decision_true_evidence_goal", 100 * goal.right / goal.of, "%", ">=", 99)
    noisy, _ = score(SEED, per_cell, 1)
    grounding, goal = noisy.shares()
    figure("agent_decision_noisy_evidence_grounding", 100 * grounding.right / grounding.of, "%", ">=", 95)
    figure("agent_decision_noisy_evidence_goal", 100 * goal.right / goal.of, "%", ">=", 95)
    figure("agent_decision_p95", 1000 * float(np.percentile(seconds, 95)), "ms", "<=", 20)
    for one in (*found.scores, *noisy.scores):
        if one.goal is not None and one.goal.verdict != "right":
            note(f"{one.profile.id} {one.profile.request!r}: {one.goal.why}")


def main() -> int:
    """The part alone."""
    run(quick())
    return end_of_part("agent-decision")


if __name__ == "__main__":
    raise SystemExit(main())
