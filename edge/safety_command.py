"""The command `hearth safety`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dsp.errors import CheckFailed, InputError


def safety(
    episodes: Annotated[list[Path], typer.Argument(help="Episode folders, or folders with episodes.")],
    rules: Annotated[Path, typer.Option(help="The rules: a YAML file (docs/safety.md).")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Judge what was done in recorded episodes by rules of your own: on the way, at the end, and its cost."""
    from edge.safety.rules_file import events_of, load_rules
    from recordings.marker import episodes_below
    from recordings.terminal import counted, emit

    wanted = load_rules(rules)
    found: list[dict[str, Any]] = []
    folders = list(dict.fromkeys(one for place in episodes for one in episodes_below(place)))
    if not folders:
        raise InputError(f"{', '.join(map(str, episodes))}: no episodes there")
    for folder in folders:
        monitor = wanted.monitor()
        for event in events_of(folder / "timeline.jsonl"):
            monitor.push(event)
        found.append({"episode": str(folder), **monitor.finish().to_dict()})
    failed = sum(not one["passed"] for one in found)
    lines = [line for one in found for line in _lines(one)]
    lines.append(f"{counted(len(found), 'episode')}, {failed} against the rules")
    emit({"rules": str(rules), "episodes": found, "failed": failed}, as_json, lines)
    if failed:
        raise CheckFailed(f"{counted(failed, 'episode')} of {len(found)} against the rules")


def _lines(report: dict[str, Any]) -> list[str]:
    cost = f"cost {report['cost']:g}"
    cost += "" if report["budget"] is None else f" of {report['budget']:g}"
    told = [f"{report['episode']}: {'well' if report['passed'] else 'against the rules'}, {cost}"]
    return told + [
        f"  {one['t_s']:8.2f} s  {one['rule']}: {one['says'] or 'does not hold'}"
        for one in report["violations"]
    ]
