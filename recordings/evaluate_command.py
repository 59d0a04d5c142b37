"""The command `hearth evaluate`. Thin: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import CheckFailed, InputError


def evaluate(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="JSON Lines, an answer per episode")],
    episodes: Annotated[
        list[Path],
        typer.Argument(metavar="EPISODES...", help="episode folders, folders of them, or profile files"),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            help="what reads the rest: an OpenAI-compatible endpoint, e.g. http://host/v1, or `rules`"
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="its name of the model")] = None,
    judge_timeout_s: Annotated[
        float, typer.Option("--judge-timeout", min=0.05, max=3600, help="seconds that one call may take")
    ] = 60.0,
    csv: Annotated[Path | None, typer.Option("--csv", help="write the tables here as well")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Score an agent's answers: grounding and goal accuracy per class. Exit 1 when one cannot be scored."""
    from recordings.evaluate.answers import read_answers
    from recordings.evaluate.episodes import profiles_of
    from recordings.evaluate.evaluation import evaluate as score
    from recordings.evaluate.judge import Judge
    from recordings.evaluate.rule_judge import RuleJudge
    from recordings.evaluate.tables import table_csv, table_lines
    from recordings.storage import write_atomic
    from recordings.terminal import counted, emit, progress

    by_rules = judge == "rules"
    if by_rules and model is not None:
        raise InputError("--judge rules needs no --model: no language model is asked")
    if not by_rules and (judge is None) != (model is None):
        raise InputError("--judge and --model belong together: the endpoint, and its name of the model")
    if csv is not None and not csv.absolute().parent.is_dir():  # before a judge is asked for an hour
        raise InputError(f"--csv {csv}: there is no folder {csv.parent}")
    reader: Judge | RuleJudge | None = RuleJudge() if by_rules else None
    if judge is not None and model is not None:
        reader = Judge(judge, model, judge_timeout_s)
    given = read_answers(answers)
    profiles = profiles_of(episodes)
    with progress("scoring", len(profiles)) as advance:
        found = score(profiles, given, reader, advance)
    if csv is not None:
        write_atomic(csv, table_csv(found).encode())
    text = table_lines(found)
    for what, names in (
        ("not answered, counted as wrong", found.missing),
        ("answered more than once, counted as errors", found.duplicates),
        ("answers to other episodes, not counted", found.unknown),
    ):
        if names:
            text.append(f"{what}: {', '.join(names)}")
    for one in found.errors:
        for measure, scored in (("grounding", one.grounding), ("goal", one.goal)):
            if scored is not None and scored.verdict == "error":
                text.append(f"{one.profile.id}: {measure} could not be told: {scored.why}")
    if found.judge is not None:
        told = found.judge
        text.append(
            f"judge: {counted(told['answers'], 'answer')}, {counted(told['calls'], 'call')},"
            f" {told['failed_calls']} failed, {told['split']} split, {told['undecided']} undecided"
        )
    emit({"ok": found.complete, **found.to_dict()}, as_json, text)
    if not found.complete:
        parts = [
            (len(found.missing), "missing"),
            (len(found.duplicates), "answered twice"),
            (len(found.unknown), "unknown"),
            (len(found.errors), "not told"),
        ]
        raise CheckFailed(
            f"not all {counted(len(profiles), 'episode')} could be scored:"
            f" {', '.join(f'{number} {what}' for number, what in parts if number)}"
        )
