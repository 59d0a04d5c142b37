"""Scores of an answer file: grounding and goal of every episode, and their shares with confidence intervals.

The measures are those of the OmniSmartHome benchmark (arXiv 2609.32569): grounding accuracy (the declared
device is the target; "none" where the request names what is not there) and goal accuracy (the home at the
end for feasible Q2-Q4, a judge for Q1 and infeasible requests).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import Any, get_args

from msgspec import UNSET

from dsp.errors import InputError
from recordings.evaluate.answers import Answer, Answers
from recordings.evaluate.goal_score import JudgeCalls, Scored, score_goal
from recordings.evaluate.judge import Judge
from recordings.profile import Difficulty, Grounding, Profile, Query

AT_ONCE = 4  # answers that are judged at the same time
Z_95 = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True)
class Share:
    """right of `of`; errors could not be told and count as not right."""

    right: int = 0
    of: int = 0
    errors: int = 0

    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the share (Wilson 1927), which stays within 0 and 1."""
        if not self.of:
            return None
        n, p, z = self.of, self.right / self.of, Z_95
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return max(0.0, centre - half), min(1.0, centre + half)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: right, of, errors, share, low, high (null without episodes)."""
        low, high = self.interval() or (None, None)
        share = self.right / self.of if self.of else None
        counts = {"right": self.right, "of": self.of, "errors": self.errors}
        return {**counts, "share": share, "low": low, "high": high}


@dataclass(frozen=True)
class EpisodeScore:
    """grounding, goal: None where the profile does not hold the truth of it."""

    profile: Profile
    declared: str | None
    grounding: Scored | None
    goal: Scored | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        p = self.profile
        told = {
            name: None if scored is None else {"verdict": scored.verdict, "by": scored.by, "why": scored.why}
            for name, scored in (("grounding", self.grounding), ("goal", self.goal))
        }
        keys = {key: getattr(p, key) for key in ("grounding", "query", "feasibility", "difficulty")}
        return {"episode": p.id, "class": keys, "declared": self.declared, "target": p.target_device, **told}


@dataclass(frozen=True)
class Evaluation:
    """scores: of each episode, in the order given. missing: episodes without an answer. duplicates:
    answered more than once. unknown: answers to episodes that were not given."""

    scores: tuple[EpisodeScore, ...]
    missing: tuple[str, ...]
    duplicates: tuple[str, ...]
    unknown: tuple[str, ...]
    judge: dict[str, Any] | None = None

    @property
    def errors(self) -> list[EpisodeScore]:
        """Episodes of which something could not be told."""
        return [
            s
            for s in self.scores
            if any(m is not None and m.verdict == "error" for m in (s.grounding, s.goal))
        ]

    @property
    def complete(self) -> bool:
        """Every episode has one answer, every answer an episode, and everything could be told."""
        return not (self.missing or self.duplicates or self.unknown or self.errors)

    def shares(self, **wanted: str | None) -> tuple[Share, Share]:
        """(grounding, goal) of the episodes whose profile has these values; feasible="yes" or "no"."""
        chosen = [s for s in self.scores if _fits(s.profile, wanted)]
        return _share(s.grounding for s in chosen), _share(s.goal for s in chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""

        def pair(**wanted: str | None) -> dict[str, Any]:
            grounding, goal = self.shares(**wanted)
            return {"grounding": grounding.to_dict(), "goal": goal.to_dict()}

        feasibilities = sorted({s.profile.feasibility for s in self.scores if s.profile.feasibility})
        return {
            "episodes": len(self.scores),
            "overall": pair(),
            "feasible": pair(feasible="yes"),
            "infeasible": pair(feasible="no"),
            "by_grounding": {g: pair(grounding=g) for g in get_args(Grounding)},
            "by_query": {q: pair(query=q) for q in get_args(Query)},
            "by_feasibility": {f: pair(feasibility=f) for f in feasibilities},
            "by_difficulty": {d: pair(difficulty=d) for d in get_args(Difficulty)},
            "cells": [
                {
                    "grounding_type": g,
                    "query": q,
                    "feasible": f == "yes",
                    **pair(grounding=g, query=q, feasible=f),
                }
                for g in get_args(Grounding)
                for q in get_args(Query)
                for f in ("yes", "no")
                if any(_fits(s.profile, {"grounding": g, "query": q, "feasible": f}) for s in self.scores)
            ],
            "missing": list(self.missing),
            "duplicates": list(self.duplicates),
            "unknown": list(self.unknown),
            "errors": [s.to_dict() for s in self.errors],
            "goal_by": dict(Counter(s.goal.by for s in self.scores if s.goal is not None)),
            "judge": self.judge,
            "results": [s.to_dict() for s in self.scores],
        }


def _fits(profile: Profile, wanted: dict[str, str | None]) -> bool:
    for key, value in wanted.items():
        if key == "feasible":
            if profile.feasibility is None or (profile.feasibility == "feasible") != (value == "yes"):
                return False
        elif getattr(profile, key) != value:
            return False
    return True


def _share(scored: Iterable[Scored | None]) -> Share:
    counts = Counter(one.verdict for one in scored if one is not None)
    return Share(counts["right"], sum(counts.values()), counts["error"])


def evaluate(
    profiles: Sequence[Profile],
    answers: Answers,
    judge: JudgeCalls | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Evaluation:
    """Score the answers to these episodes.

    An episode without an answer is wrong, one with several answers an error. `judge` reads what the rules
    cannot tell. advance is called with 1 for every episode. Raises InputError when an id stands for two
    episodes, or an episode has neither target nor goal to score.
    """
    ids = Counter(profile.id for profile in profiles)
    twice = [name for name, count in ids.items() if count > 1]
    if twice:
        raise InputError(f"two episodes have the id {twice[0]!r}; give each episode once")
    for profile in profiles:
        if profile.goal is None and not has_grounding(profile):
            raise InputError(f"{profile.id}: its profile has neither target nor goal: nothing to score")
    several = set(answers.duplicates)

    def score(profile: Profile) -> EpisodeScore:
        answer = answers.by_episode.get(profile.id)
        if profile.id in several:
            found = _both(profile, Scored("error", "missing", "answered more than once"))
        elif answer is None:
            found = _both(profile, Scored("wrong", "missing", "no answer"))
        else:
            goal = None if profile.goal is None else score_goal(profile, answer, judge)
            found = EpisodeScore(profile, _declared(answer), _grounding(profile, answer), goal)
        advance(1)
        return found

    if judge is None:
        scores = [score(profile) for profile in profiles]
    else:
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            scores = list(pool.map(score, profiles))
        finally:  # at Ctrl-C nothing more is asked; the calls that wait end by their time-out
            if isinstance(judge, Judge):
                judge.stop()
            pool.shutdown(wait=False, cancel_futures=True)
    return Evaluation(
        tuple(scores),
        tuple(p.id for p in profiles if p.id not in answers.by_episode),
        tuple(name for name in answers.duplicates if name in ids),
        tuple(name for name in answers.by_episode if name not in ids),
        judge.counts.to_dict() if isinstance(judge, Judge) else None,
    )


def _both(profile: Profile, scored: Scored) -> EpisodeScore:
    grounding = scored if has_grounding(profile) else None
    return EpisodeScore(profile, None, grounding, None if profile.goal is None else scored)


def has_grounding(profile: Profile) -> bool:
    """Whether the truth is known: a target, or that there is none."""
    return profile.target_device is not None or profile.feasibility == "nonexistent_resource"


def _declared(answer: Answer) -> str | None:
    return None if answer.declared is UNSET else answer.declared


def _grounding(profile: Profile, answer: Answer) -> Scored | None:
    if not has_grounding(profile):
        return None
    truth = None if profile.feasibility == "nonexistent_resource" else profile.target_device
    if answer.declared is UNSET:
        return Scored("wrong", "rules", "nothing was declared")
    if answer.declared == truth:
        return Scored("right", "rules")
    return Scored("wrong", "rules", f"declared {answer.declared or 'none'}, the target is {truth or 'none'}")
