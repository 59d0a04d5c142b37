"""Learn the memory that comes with the package: `python -m bench.agent_training FOLDER SEED... [--out FILE]`.

From the findings of development seeds (`bench.agent_findings`); the reward of a run is whether the device
that the agent would declare is the target. Prints the mean return of each epoch and, for the seeds given with
`--test`, how the memory does beside the generic order.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.agent_findings import Case, cases_of
from edge.agent.decide_request import decide
from edge.agent.grounding import ground
from edge.agent.memory.bank import PACKAGED, MemoryBank, MemoryPolicy
from edge.agent.memory.evidence import Policy
from edge.agent.memory.order import GenericOrder
from edge.agent.memory.training import Ground, Lesson, follow, train
from edge.agent.posterior import Posterior

LEAST_VISITS = 50


def lessons_of(cases: Iterable[Case]) -> list[Lesson]:
    """A lesson for every case whose words were understood."""
    return [lesson for case in cases if (lesson := _lesson(case)) is not None]


def _lesson(case: Case) -> Lesson | None:
    intent, item, home = case.intent, case.item, case.home
    if intent is None or intent.query is None:
        return None
    target = None if item.feasibility == "nonexistent_resource" else item.target_device

    def reward(posterior: Posterior) -> float:
        return float(decide(intent, posterior, home).device_id == target)

    shared = case.findings.get("speaker")
    found = dict(case.findings)
    if shared is not None:  # its time is what all that look share
        found["speaker"] = replace(shared, seconds=0.0)
    return Lesson(
        intent, found, lambda known: ground(intent, known, home), reward, shared.seconds if shared else 0.0
    )


def results(grounds: Sequence[Ground], policy: Policy) -> tuple[float, float, float]:
    """(share right, mean seconds of tools, mean calls) of a policy."""
    runs = [follow(one, policy) for one in grounds]
    n = max(len(runs), 1)
    return sum(r.reward for r in runs) / n, sum(r.seconds for r in runs) / n, sum(r.calls for r in runs) / n


def main() -> int:
    """Train, save, and say how it does."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_training")
    parser.add_argument("folders", type=Path, nargs="+", help="seed_<n> folders that were searched")
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=PACKAGED)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    lessons = lessons_of(case for folder in given.folders for case in cases_of(folder))
    bank = MemoryBank(source={"seeds": [f.name for f in given.folders], "lessons": len(lessons)})

    def told(epoch: int, reward: float, worth: float) -> None:
        if epoch % 5 == 0 or epoch == given.epochs - 1:
            print(f"epoch {epoch}: reward {reward:.3f}, return {worth:.3f}", flush=True)

    train(lessons, bank, seed=1, epochs=given.epochs, told=told)
    bank = bank.without_rare(LEAST_VISITS)
    bank.save(given.out)
    for name, folders in (("training", given.folders), ("test", given.test)):
        grounds = [Ground(one) for folder in folders for one in lessons_of(cases_of(folder))]
        if not grounds:
            continue
        for most in range(8):
            right, seconds, calls = results(grounds, GenericOrder(most))
            print(f"{name}: generic, at most {most}: {right:.3f} right, {seconds:.2f} s, {calls:.1f} calls")
        right, seconds, calls = results(grounds, MemoryPolicy(bank))
        told_of = f"{right:.3f} right, {seconds:.2f} s, {calls:.1f} calls, {len(grounds)} episodes"
        print(f"{name}: memory: {told_of}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
