"""The commands `hearth plan ...`: thin; what they do is in recordings/plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dsp.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from recordings.plan.model import Plan

plan = typer.Typer(
    name="plan",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="The shooting plan: which episodes are recorded, where, by whom, and what is said and done.",
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="plan.yaml, or the folder that holds it")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
Session = Annotated[
    Path | None,
    typer.Option(help="folder of a session by this plan: what was said in its kept takes is not changed"),
]


@plan.command()
def new(
    out: Annotated[Path, typer.Argument(help="the file to write; must not exist")] = Path("plan.yaml"),
    rig: Annotated[
        list[Path] | None,
        typer.Option(help="rig.yaml of a room; once for each room. Default: the virtual home of five rooms"),
    ] = None,
    participants: Annotated[
        Path | None,
        typer.Option(
            help="YAML list of participants; default: the people of the rigs, or the virtual home's"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="another one gives another plan")] = 0,
    per_cell: Annotated[
        int, typer.Option(min=1, max=200, help="feasible, and as many infeasible, per combination")
    ] = 8,
    name: Annotated[str, typer.Option(help="of the plan")] = "plan",
    as_json: Json = False,
) -> None:
    """Make a plan: 17 combinations x (8 feasible + 8 infeasible) = 272 episodes, balanced."""
    from capture.plan_rooms import people_from_file, people_of_rigs, rooms_of_rigs
    from recordings.plan.builtin import virtual_home
    from recordings.plan.generate import make_plan
    from recordings.plan.store import write_plan

    if out.exists():
        raise InputError(f"{out} exists already; choose another name, or `hearth plan extend` it")
    rooms, people = virtual_home()
    if rig:
        rooms = rooms_of_rigs(rig)
    if participants is not None:
        people = people_from_file(participants)
    elif rig:
        people = people_of_rigs(rig)
    made = make_plan(rooms, people, seed, name=name, per_cell=per_cell)
    write_plan(made, out)
    _report(made, out, [f"{out}: {len(made.items)} episodes in {len(rooms)} rooms"], as_json)


@plan.command()
def extend(
    path: PlanFile,
    per_cell: Annotated[
        int, typer.Option(min=1, max=200, help="feasible, and as many infeasible, per combination")
    ] = 8,
    as_json: Json = False,
) -> None:
    """Add episodes until every combination has so many; what is there stays as it is, ids and all."""
    from recordings.plan.generate import extend_plan
    from recordings.plan.store import plan_file, read_plan, write_plan

    before = read_plan(path)
    after = extend_plan(before, per_cell)
    write_plan(after, plan_file(path))
    added = len(after.items) - len(before.items)
    _report(after, plan_file(path), [f"{plan_file(path)}: {added} added, {len(after.items)} in all"], as_json)


@plan.command()
def show(
    path: PlanFile,
    items: Annotated[bool, typer.Option("--items", help="a line for each episode as well")] = False,
    as_json: Json = False,
) -> None:
    """Count what a plan holds, and how evenly: largest minus smallest count, and chi-square."""
    from recordings.plan.store import plan_file, read_plan

    read = read_plan(path)
    lines = [f"{read.name}: {len(read.items)} episodes (seed {read.seed})"]
    if items:
        lines += [
            f"{i.id} {i.grounding} {i.query} {i.difficulty or i.feasibility:<22} {i.staging.room:<12}"
            f" {i.speaker:<8} {i.request}" + (" [skip]" if i.skip else "")
            for i in read.items
        ]
    _report(read, plan_file(path), lines, as_json)


@plan.command()
def check(path: PlanFile, as_json: Json = False) -> None:
    """Check that every episode can be recorded as the plan says: rules, places, words. Exit 1 when not."""
    from recordings.plan.check import plan_problems
    from recordings.plan.store import read_plan
    from recordings.terminal import counted, emit

    read = read_plan(path)
    problems = plan_problems(read)
    text = [str(problem) for problem in problems]
    text.append(f"{counted(len(read.items), 'episode')}, {counted(len(problems), 'problem')}")
    rows = [{"item": p.item, "column": p.column, "message": p.message} for p in problems]
    emit({"ok": not problems, "items": len(read.items), "problems": rows}, as_json, text)
    if problems:
        raise CheckFailed(f"{counted(len(problems), 'problem')} in the plan")


@plan.command()
def csv(
    path: PlanFile,
    out: Annotated[Path, typer.Argument(help="the spreadsheet to write")] = Path("plan.csv"),
    force: Annotated[bool, typer.Option("--force", help="write over a file that is there")] = False,
    as_json: Json = False,
) -> None:
    """Write a plan as a spreadsheet (CSV, UTF-8), a row for each episode."""
    from recordings.plan.sheet import write_csv
    from recordings.plan.store import read_plan
    from recordings.terminal import emit

    read = read_plan(path)
    if out.exists() and not force:
        raise InputError(f"{out} exists already, with edits perhaps; --force writes over it")
    write_csv(read, out)
    emit({"csv": str(out), "items": len(read.items)}, as_json, f"{out}: {len(read.items)} rows")


@plan.command()
def apply(
    path: PlanFile,
    sheet: Annotated[Path, typer.Argument(metavar="CSV", help="the edited spreadsheet")],
    session: Session = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would change, and change nothing")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take over an edited spreadsheet: speaker, request, note, skip and order. Exit 1 when a change cannot
    be: then nothing is changed."""
    from recordings.plan.sheet import apply_csv, read_csv
    from recordings.plan.store import plan_file, read_plan, write_plan
    from recordings.terminal import counted, emit

    read = read_plan(path)
    applied = apply_csv(read, read_csv(sheet), str(sheet), _recorded(session))
    if applied.changed and not applied.problems and not dry_run:
        write_plan(applied.plan, plan_file(path))
    text = list(applied.problems)
    if not applied.problems:
        text = [f"{item}: {', '.join(columns)}" for item, columns in applied.changed.items()]
        text.append(f"{counted(len(applied.changed), 'episode')} changed" + (" (dry run)" if dry_run else ""))
    emit(
        {
            "ok": not applied.problems,
            "changed": [{"item": item, "columns": columns} for item, columns in applied.changed.items()],
            "problems": applied.problems,
            "written": bool(applied.changed) and not applied.problems and not dry_run,
        },
        as_json,
        text,
    )
    if applied.problems:
        raise CheckFailed(f"{counted(len(applied.problems), 'problem')} in {sheet}; the plan is as it was")


@plan.command()
def rewrite(
    path: PlanFile,
    endpoint: Annotated[str, typer.Option(help="OpenAI-compatible address, e.g. http://127.0.0.1:8080/v1")],
    model: Annotated[str, typer.Option(help="name of the model there")],
    key_from: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="environment variable that holds the key, if any")
    ] = None,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="for each answer")] = 60.0,
    limit: Annotated[int | None, typer.Option(min=1, help="ask for so many episodes at most")] = None,
    session: Session = None,
    as_json: Json = False,
) -> None:
    """Let a language model write the requests; one that breaks the rules leaves the request as it was.

    What the model has written before is left alone, so that a run that was broken off goes on.
    """
    from recordings.chat_model import ChatModel
    from recordings.plan.rewrite import rewrite_plan
    from recordings.plan.store import plan_file, read_plan, write_plan
    from recordings.terminal import counted, emit, progress

    key = None
    if key_from is not None:
        key = os.environ.get(key_from)
        if not key:
            raise InputError(f"--key-from: the environment has no variable {key_from}")
    chat = ChatModel(endpoint, model, key=key, timeout_s=timeout_s)
    read = read_plan(path)
    file = plan_file(path)
    with progress("rewriting", len(read.items)) as advance:
        result = rewrite_plan(
            read,
            chat,
            recorded=_recorded(session),
            limit=limit,
            save=lambda changed: write_plan(changed, file),
            advance=advance,
        )
    text = [f"{item}: stays as it was: {why}" for item, why in result.kept.items()]
    text.append(
        f"{counted(len(result.rewritten), 'request')} written by {model}, {len(result.kept)} stay as they"
        f" were, {result.already} were written before"
    )
    emit(
        {
            "rewritten": len(result.rewritten),
            "kept": [{"item": item, "why": why} for item, why in result.kept.items()],
            "already": result.already,
            "recorded": result.recorded,
        },
        as_json,
        text,
    )


def _recorded(session: Path | None) -> tuple[str, ...]:
    from recordings.session_journal import kept_takes

    return () if session is None else tuple(kept_takes(session))


def _report(read: Plan, file: Path, head: Sequence[str], as_json: bool) -> None:
    from recordings.plan.balance import balance, kinds_of_infeasibility
    from recordings.terminal import emit

    spreads = balance(read)
    kinds = kinds_of_infeasibility(read)
    lines = list(head)
    skipped = sum(item.skip for item in read.items)
    if skipped:
        lines.append(f"marked skip: {skipped} of {len(read.items)}; what follows counts the others")
    for spread in spreads:
        lines.append(
            f"{spread.name}: max - min {spread.max_min}, chi-square {spread.chi_square:.2f}"
            f" ({spread.freedom} degrees of freedom)"
        )
        if len(spread.counts) <= 12:
            lines.append("    " + ", ".join(f"{name} {count}" for name, count in spread.counts.items()))
    for query, counts in kinds.items():
        lines.append(f"infeasible, {query}: " + ", ".join(f"{kind} {n}" for kind, n in counts.items()))
    result = {
        "plan": str(file),
        "name": read.name,
        "seed": read.seed,
        "items": len(read.items),
        "skipped": skipped,
        "rooms": [room.id for room in read.rooms],
        "participants": [person.id for person in read.participants],
        "balance": [spread.to_dict() for spread in spreads],
        "infeasible": kinds,
    }
    emit(result, as_json, lines)
