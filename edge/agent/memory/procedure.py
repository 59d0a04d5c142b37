"""One grounding procedure: a tabular softmax policy over actions, pi(a | state) ~ exp(theta[state, a])."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import exp

from edge.agent.memory.evidence import Action

MOST = 30.0  # a preference beyond it changes no choice any more


class Procedure:
    """theta: state -> action -> preference; what is not there is 0, so that a state never seen is even odds.

    visits: state -> how often training was there.
    """

    def __init__(
        self,
        theta: Mapping[str, Mapping[Action, float]] | None = None,
        visits: Mapping[str, int] | None = None,
    ) -> None:
        self.theta: dict[str, dict[Action, float]] = {s: dict(a) for s, a in (theta or {}).items()}
        self.visits: dict[str, int] = dict(visits or {})

    def odds(self, state: str, allowed: Sequence[Action]) -> dict[Action, float]:
        """Probability of each allowed action; they sum to 1."""
        known = self.theta.get(state, {})
        top = max((known.get(action, 0.0) for action in allowed), default=0.0)
        weights = {action: exp(known.get(action, 0.0) - top) for action in allowed}
        total = sum(weights.values())
        return {action: weight / total for action, weight in weights.items()}

    def sample(self, state: str, allowed: Sequence[Action], rng: random.Random) -> Action:
        """One action at its odds."""
        odds = self.odds(state, allowed)
        return rng.choices(list(odds), weights=list(odds.values()))[0]

    def best(self, state: str, allowed: Sequence[Action]) -> Action | None:
        """The most likely action; None for a state of which nothing was learnt."""
        if state not in self.theta:
            return None
        odds = self.odds(state, allowed)
        return max(odds, key=lambda action: odds[action])

    def learn(self, state: str, action: Action, allowed: Sequence[Action], push: float) -> None:
        """One step of REINFORCE: the gradient of log pi(action | state) is (1 for the action, else 0) - pi,
        scaled by `push`, the learning rate times the advantage."""
        odds = self.odds(state, allowed)
        known = self.theta.setdefault(state, {})
        self.visits[state] = self.visits.get(state, 0) + 1
        for other, share in odds.items():
            moved = known.get(other, 0.0) + push * ((other == action) - share)
            known[other] = min(max(moved, -MOST), MOST)
