"""Learning procedures: REINFORCE with the mean return of a group of runs of the same episode as baseline.

A run follows the bank's own odds; its return is what came of it, less what its tools cost in time. Each
step's push is the learning rate times (return - mean of the group) / the group's spread, as in group-relative
policy optimisation (arXiv 2402.03300), on the tabular softmax of `edge.agent.memory.procedure`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

from edge.agent.memory.bank import MemoryBank
from edge.agent.memory.evidence import Action, Policy, Schema, actions_after, schema_of, state_of
from edge.agent.memory.procedure import Procedure
from edge.agent.posterior import Posterior
from edge.language.intent import Intent
from edge.perception.tools import Finding

Findings = Mapping[str, Finding[Any]]
Choice = Callable[[str, tuple[Action, ...], dict[str, Finding[Any]]], Action]
LOOKING = frozenset(("speaker", "pointing", "facing", "face"))
COST_PER_S = 0.05  # of perception: a second is worth as much as 5 % of being right
COST_PER_CALL = 0.005
LEAST_SPREAD = 0.3  # else small costs push as hard as being right where all runs are right


@dataclass(frozen=True)
class Lesson:
    """An episode to learn from. found: what every tool finds in it. posterior: over devices, given some of
    it. reward: 0 to 1, of declaring on a posterior. shared_s: what the tools that look at pictures share,
    paid by the first of them and in none of their own times."""

    intent: Intent
    found: Findings
    posterior: Callable[[Findings], Posterior]
    reward: Callable[[Posterior], float]
    shared_s: float = 0.0


@dataclass(frozen=True)
class Run:
    """One run through a lesson: the states and actions on the way, what it was worth, what it cost."""

    steps: tuple[tuple[str, Action, tuple[Action, ...]], ...]
    reward: float
    seconds: float
    calls: int

    @property
    def worth(self) -> float:
        """The return: reward less costs."""
        return self.reward - COST_PER_S * self.seconds - COST_PER_CALL * self.calls


class Ground:
    """A lesson with its posteriors remembered: many runs look at the same evidence."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson = lesson
        self.schema: Schema = schema_of(lesson.intent)
        self._known: dict[frozenset[str], Posterior] = {}
        self._reward = lru_cache(maxsize=None)(self._rewarded)

    def posterior(self, called: frozenset[str]) -> Posterior:
        """Given what these tools find."""
        if called not in self._known:
            self._known[called] = self.lesson.posterior(self._findings(called))
        return self._known[called]

    def _findings(self, called: frozenset[str]) -> dict[str, Finding[Any]]:
        return {name: finding for name, finding in self.lesson.found.items() if name in called}

    def _rewarded(self, called: frozenset[str]) -> float:
        return self.lesson.reward(self.posterior(called))

    def run(self, choose: Choice) -> Run:
        """One run: choose(state, what can be done, findings) until it declares."""
        called: frozenset[str] = frozenset()
        steps: list[tuple[str, Action, tuple[Action, ...]]] = []
        while True:
            findings = self._findings(called)
            state = state_of(findings, self.posterior(called))
            allowed = tuple(a for a in actions_after(findings) if a == "declare" or a in self.lesson.found)
            action = choose(state, allowed, findings)
            steps.append((state, action, allowed))
            if action == "declare":
                seconds = sum(self.lesson.found[name].seconds for name in called)
                seconds += self.lesson.shared_s if called & LOOKING else 0.0
                return Run(tuple(steps), self._reward(called), seconds, len(called))
            called |= {action}


def follow(ground: Ground, policy: Policy) -> Run:
    """One run as a policy decides."""

    def choose(state: str, allowed: tuple[Action, ...], findings: dict[str, Finding[Any]]) -> Action:
        step = policy.next(ground.lesson.intent, findings, ground.posterior(frozenset(findings)))
        return step.tool if step.tool in allowed else "declare"

    return ground.run(choose)


def _drawn(procedure: Procedure, rng: random.Random) -> Choice:
    return lambda state, allowed, findings: procedure.sample(state, allowed, rng)


def train(
    lessons: Sequence[Lesson],
    bank: MemoryBank,
    *,
    seed: int,
    epochs: int = 40,
    group: int = 8,
    rate: float = 0.5,
    told: Callable[[int, float, float], None] = lambda epoch, reward, worth: None,
) -> None:
    """Improve a bank in place. told: after each epoch, with the mean reward and return of its runs.

    The same lessons, bank and seed give the same bank.
    """
    rng = random.Random(seed)
    grounds = [Ground(lesson) for lesson in lessons]
    for epoch in range(epochs):
        rng.shuffle(grounds)
        rewards, worths = [], []
        for ground in grounds:
            procedure = bank.procedures[ground.schema]
            runs = [ground.run(_drawn(procedure, rng)) for _ in range(group)]
            mean = sum(run.worth for run in runs) / group
            spread = sqrt(sum((run.worth - mean) ** 2 for run in runs) / group)
            for run in runs:
                push = rate * (run.worth - mean) / max(spread, LEAST_SPREAD)
                for state, action, allowed in run.steps:
                    if push and len(allowed) > 1:
                        procedure.learn(state, action, allowed, push / len(run.steps))
            rewards += [run.reward for run in runs]
            worths.append(mean)
        told(epoch, sum(rewards) / len(rewards), sum(worths) / len(worths))
