"""A judge without a language model: the same answer is judged the same everywhere, and at once.

It is stricter than people are. What `recordings.evaluate.words` and `recordings.evaluate.causes` do not
recognise as right is wrong, so a share that it gives is a lower bound for answers in English.
"""

from __future__ import annotations

from recordings.evaluate.answers import Answer
from recordings.evaluate.causes import explains
from recordings.evaluate.goal_score import Scored
from recordings.profile import Profile


class RuleJudge:
    """Reads what the narrow rules of `goal_score` leave open."""

    def ask(self, profile: Profile, answer: Answer) -> Scored:
        """A refusal (or a question back) that explains the true cause is right; an answer to a question whose
        value the rules did not find is wrong."""
        goal = profile.goal
        assert goal is not None
        if goal.kind == "answer":
            return Scored("wrong", "rules", "the rules do not find the true value in the answer")
        if answer.outcome not in ("refused", "asked"):
            return Scored("wrong", "rules", f"the agent {answer.outcome or 'did not say how it ended'}")
        if explains(answer.answer, profile):
            return Scored("right", "rules")
        return Scored("wrong", "rules", "the answer does not explain the cause")
