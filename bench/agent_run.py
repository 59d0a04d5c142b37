"""Start the agent's process on the episodes of a seed and score what it did."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.agent_episodes import read_plan
from bench.agent_server import Episode, EpisodeServer
from dsp.errors import CheckFailed
from recordings.evaluate.answers import collect
from recordings.evaluate.episodes import profile_of_item
from recordings.evaluate.evaluation import Evaluation, evaluate
from recordings.evaluate.rule_judge import RuleJudge

ROOT = Path(__file__).parent.parent
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "HEARTH_MODELS")  # nothing else of our environment


@dataclass(frozen=True)
class Run:
    """One agent on the episodes of a seed."""

    episodes: tuple[Episode, ...]
    evaluation: Evaluation

    @property
    def seconds_to_declare(self) -> list[float]:
        """Of every episode that was declared."""
        return [e.seconds_to_declare for e in self.episodes if e.seconds_to_declare is not None]


def child_environment() -> dict[str, str]:
    """What the agent's process is given of the environment: nothing that tells of episodes."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def run_agent(
    folder: Path,
    profiles: Path,
    memory: str = "packaged",
    most_calls: int = 7,
    episodes: Sequence[str] = (),
    child: Sequence[str] = ("-m", "bench.agent_child"),
) -> Run:
    """Let an agent answer the episodes of `seed_<n>` (or some of them) in a process of its own, whose working
    directory is empty. memory, most_calls: see `bench.agent_child`.

    Raises CheckFailed when its process ends before the episodes do.
    """
    plan = read_plan(folder)
    names = list(episodes) or [item.id for item in plan.items]
    with (
        EpisodeServer(plan, folder, names) as server,
        tempfile.TemporaryDirectory(prefix="hearth-agent-") as empty,
    ):
        command = [sys.executable, *child, server.address, str(profiles), memory, str(most_calls)]
        done = subprocess.run(command, cwd=empty, env=child_environment(), check=False)
        if done.returncode or not server.over:
            raise CheckFailed(
                f"the agent's process ended with {done.returncode} after {len(server.done)} of"
                f" {len(names)} episodes"
            )
        return scored(server.done)


def scored(done: Sequence[Episode]) -> Run:
    """The scores of what was done, by rules alone."""
    profiles = [profile_of_item(episode.item, "bench") for episode in done]
    answers = collect([episode.answer for episode in done if episode.answer is not None])
    return Run(tuple(done), evaluate(profiles, answers, RuleJudge()))
