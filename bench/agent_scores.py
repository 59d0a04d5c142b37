"""The agent on 340 generated episodes of an unseen seed: grounding and goal accuracy, with and without
procedural memory, and how long it takes: `python -m bench.agent scores`.

HEARTH_AGENT_CACHE: where rendered episodes are kept (default: build/agent below this repository).
HEARTH_AGENT_SEED: another seed than the one of the figures. The pace of the agent is that of its process
alone: run nothing beside it.

The published figures that are printed beside them are of the original benchmark (arXiv 2609.32569), whose
pictures, sounds and requests are others: they say what is hard, not who is better.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import get_args

import numpy as np

from bench.agent_episodes import prepare, read_plan
from bench.agent_household import household_book
from bench.agent_run import ROOT, Run, run_agent
from bench.figures import end_of_part, figure, note, quick
from capture.virtual.voices import voice_named
from dsp.errors import HearthError
from recordings.evaluate.answers import write_answers
from recordings.evaluate.evaluation import Share
from recordings.evaluate.tables import table_lines
from recordings.profile import Grounding

SEED, QUICK_SEED = 900, 90
QUICK_EVERY = 17
GENERIC_CALLS = 7  # all tools there are: as long as it is not sure
PUBLISHED = (
    "people: grounding 94.8 %, goal 82.3 %",
    "Gemini-3.1-Pro: grounding 85.6 %, goal 73.4 %",
    "Gemini-2.5-Pro: 81.0 / 63.1, with procedural memory 85.0 / 69.2",
)


def natural() -> str | None:
    """The set of voices: natural ones when they are installed, else espeak-ng's (None)."""
    from capture.virtual.voices import speak

    try:
        speak("Turn on the lamp, please.", voice_named("natural_1"))
    except HearthError as error:
        note(f"bench.agent: espeak-ng speaks, natural voices are not there: {error}")
        return None
    return "natural"


def run(is_quick: bool) -> None:
    """Print the figures."""
    cache = Path(os.environ.get("HEARTH_AGENT_CACHE", ROOT / "build" / "agent"))
    seed = int(os.environ.get("HEARTH_AGENT_SEED", QUICK_SEED if is_quick else SEED))
    voices = natural()
    cache.mkdir(parents=True, exist_ok=True)
    profiles = household_book(cache, voices)
    names: list[str] = []
    if is_quick:
        from bench.agent_episodes import seed_plan

        names = [item.id for item in seed_plan(seed, voices).items[::QUICK_EVERY]]
    folder = prepare(cache, seed, voices, names)
    names = names or [item.id for item in read_plan(folder).items]
    note(f"bench.agent: seed {seed}, {len(names)} episodes, voices {voices or 'espeak'}")

    memory = run_agent(folder, profiles, "packaged", episodes=names)
    _keep(memory, folder / "with_memory")
    figure("agent_episodes", len(memory.episodes), "", ">=", len(names))
    _accuracy("agent", memory, 85, 75)
    for line in PUBLISHED:
        print(f"published, on other data: {line}", flush=True)
    late = memory.seconds_to_declare
    figure("agent_speech_end_to_declare_p50", float(np.median(late)), "s", "<=", 1.5)
    figure("agent_speech_end_to_declare_p95", float(np.percentile(late, 95)), "s", "<=", 3.0)
    for line in table_lines(memory.evaluation):
        note(line)
    other = run_agent(folder, profiles, "none", GENERIC_CALLS, names)
    _told("without_memory", other)
    _keep(other, folder / "without_memory")
    gain = 100 * (_overall(memory, 0) - _overall(other, 0))
    figure("memory_gain_grounding", gain, "points", ">", 0)
    gain = 100 * (_overall(memory, 1) - _overall(other, 1))
    figure("memory_gain_goal", gain, "points", ">", 0)
    saved = float(np.median(other.seconds_to_declare)) - float(np.median(late))
    figure("memory_saves_p50", saved, "s", ">", 0)


def _overall(run_: Run, which: int) -> float:
    share = run_.evaluation.shares()[which]
    return share.right / max(share.of, 1)


def _accuracy(name: str, run_: Run, grounding_target: float, goal_target: float) -> None:
    """Overall against the targets; each grounding type with its interval as peers of each other."""
    grounding, goal = run_.evaluation.shares()
    figure(f"{name}_grounding", 100 * grounding.right / grounding.of, "%", ">=", grounding_target)
    figure(f"{name}_goal", 100 * goal.right / goal.of, "%", ">=", goal_target)
    _told(name, run_)


def _keep(run_: Run, file: Path) -> None:
    """The answers, for `hearth evaluate`, and what was wrong, for people, beside the episodes."""
    answers = [episode.answer for episode in run_.episodes if episode.answer is not None]
    file.with_suffix(".jsonl").write_bytes(write_answers(answers))
    lines = []
    for score, episode in zip(run_.evaluation.scores, run_.episodes, strict=True):
        wrong = [
            f"{one.by}: {one.why}" for one in (score.grounding, score.goal) if one and one.verdict != "right"
        ]
        if wrong:
            item, told = episode.item, episode.last("finished")
            heard = episode.last("heard").get("text")
            lines.append(f"{item.id} {item.grounding} {item.query} {item.feasibility}: {item.request}")
            lines.append(f"    heard: {heard}; said: {told.get('answer')} ({told.get('outcome')})")
            lines += [f"    {one}" for one in wrong]
    file.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _told(name: str, run_: Run) -> None:
    for kind in (None, *get_args(Grounding)):
        shares = run_.evaluation.shares(**({} if kind is None else {"grounding": kind}))
        words = " / ".join(_interval(share) for share in shares)
        print(f"interval {name} {kind or 'all'}: grounding / goal {words}", flush=True)
    late = run_.seconds_to_declare
    print(f"latency {name}: p50 {np.median(late):.2f} s, p95 {np.percentile(late, 95):.2f} s", flush=True)


def _interval(share: Share) -> str:
    found = share.interval()
    if found is None:
        return "-"
    return f"{100 * share.right / share.of:.1f} % ({100 * found[0]:.1f}-{100 * found[1]:.1f}, n {share.of})"


def main() -> int:
    """Print the figures; 1 when one is short."""
    run(quick())
    return end_of_part("agent")


if __name__ == "__main__":
    sys.exit(main())
