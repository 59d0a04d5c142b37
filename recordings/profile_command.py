"""The commands `hearth profile schema | check | import | export`. Thin: parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError

profile = typer.Typer(
    name="profile",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="What an episode says of itself (episode.yaml): schema, rules, and other benchmarks' forms of it.",
)
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="profile files, plans, episode folders, or folders of these"),
]


@profile.command()
def schema(
    out: Annotated[Path | None, typer.Option("--out", help="write it here instead of printing it")] = None,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a profile, with the meaning and unit of every key."""
    from recordings.profile_schema import profile_schema
    from recordings.storage import write_atomic
    from recordings.terminal import emit

    made = profile_schema()
    text = json.dumps(made, indent=2, ensure_ascii=False)
    if out is not None:
        write_atomic(out, text.encode() + b"\n")
        text = f"written to {out}"
    emit({"file": None if out is None else str(out), "schema": made}, as_json, text)


@profile.command()
def check(
    paths: Paths,
    complete: Annotated[
        bool, typer.Option("--complete", help="ask for all that an episode of a benchmark needs")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check profiles: their rules, and the goal in the home twin. Exit 1 when one is wrong."""
    from recordings.evaluate.episodes import profiles_of
    from recordings.profile_checks import check_profile
    from recordings.terminal import counted, emit

    results: list[dict[str, Any]] = []
    text = []
    for one in profiles_of(paths):
        found = check_profile(one, complete=complete)
        problems = [{"code": p.code, "message": p.message} for p in found.problems]
        results.append({"profile": one.id, "ok": not problems, "problems": problems, "goal": found.goal})
        verdict = "NOT OK" if problems else "ok"
        if found.goal is not None and not problems:
            verdict += f", goal {found.goal['verdict']}"
        text.append(f"{one.id}: {verdict}")
        text += [f"  {problem['code']}: {problem['message']}" for problem in problems]
        text += [
            f"  note: the goal is not fully checked: {why}"
            for why in (found.goal or {}).get("not_checked", [])
        ]
    bad = sum(not result["ok"] for result in results)
    emit({"ok": bad == 0, "results": results}, as_json, text)
    if bad:
        raise CheckFailed(f"{bad} of {counted(len(results), 'profile')} {'is' if bad == 1 else 'are'} wrong")


@profile.command("import")
def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="SimuHome's .json files, or folders of them or of an assist set"
        ),
    ],
    into: Annotated[Path, typer.Option("--into", help="folder for the profiles; nothing is overwritten")],
    as_json: Json = False,
) -> None:
    """Make profiles of SimuHome episodes or of Home Assistant's assist sets."""
    from recordings.ha_assist import read_assist_set
    from recordings.profile import profile_to_yaml
    from recordings.simuhome import read_simuhome
    from recordings.terminal import counted, emit

    found = []
    for path in paths:
        if path.is_dir():
            files = sorted(path.glob("*.json"))
            found += [read_simuhome(file) for file in files] if files else read_assist_set(path)
        else:
            found.append(read_simuhome(path))
    written = _write_new(
        {into / f"{one.id}.yaml": profile_to_yaml(one).encode() for one in found}, len(found)
    )
    notes = sorted({str(one.consent.note) for one in found})
    emit(
        {"profiles": len(found), "files": [str(path) for path in written], "licences": notes},
        as_json,
        [f"{counted(len(found), 'profile')} in {into}", *(f"  note: {text}" for text in notes)],
    )


@profile.command()
def export(
    paths: Paths,
    to: Annotated[str, typer.Option("--to", help="simuhome or ha-assist")],
    out: Annotated[Path, typer.Option("--out", help="folder for the files; nothing is overwritten")],
    as_json: Json = False,
) -> None:
    """Write profiles as SimuHome's JSON or as an assist set; what was imported comes out as it was."""
    from recordings.evaluate.episodes import profiles_of
    from recordings.ha_assist import write_assist_set
    from recordings.simuhome import simuhome_of_profile
    from recordings.terminal import counted, emit

    if to not in ("simuhome", "ha-assist"):
        raise InputError(f"--to is one of simuhome, ha-assist, not {to!r}")
    found = profiles_of(paths)
    if to == "simuhome":
        texts = {
            out / f"{one.id}.json": json.dumps(
                simuhome_of_profile(one), indent=2, ensure_ascii=False
            ).encode()
            for one in found
        }
        written = _write_new(texts, len(found))
    else:
        written = write_assist_set(found, out)
    emit(
        {"profiles": len(found), "to": to, "files": [str(path) for path in written]},
        as_json,
        f"{counted(len(found), 'profile')} in {counted(len(written), 'file')} below {out}",
    )


def _write_new(files: dict[Path, bytes], wanted: int) -> list[Path]:
    """Write all or, when one of them exists or two have one name, none."""
    from recordings.storage import write_new

    if len(files) != wanted:
        raise InputError("two profiles have the same id; give each once")
    return write_new(files)
