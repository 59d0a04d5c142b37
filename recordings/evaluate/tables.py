"""The tables of an evaluation: the form of the benchmark's Table 2, and margins with confidence intervals."""

from __future__ import annotations

import csv
import io
from typing import Any, get_args

from recordings.evaluate.evaluation import Evaluation, Share
from recordings.profile import Difficulty, Feasibility, Grounding, Query

_NAMES = {"G0": "speech", "G1": "gesture", "G2": "sound", "G3": "space", "G4": "identity"}
COLUMNS = ("part", "name", "measure", "right", "of", "errors", "share", "low", "high")


def _percent(share: Share) -> str:
    return f"{100 * share.right / share.of:.1f}" if share.of else "-"


def _pair(shares: tuple[Share, Share]) -> str:
    return " / ".join(_percent(share) for share in shares)


def table_lines(found: Evaluation) -> list[str]:
    """Lines for people: grounding / goal in percent per grounding and query, feasible and infeasible, then
    the margins with their 95 % intervals."""
    types = [*get_args(Grounding), None]
    heads = ["all" if kind is None else f"{kind} {_NAMES[kind]}" for kind in types]
    lines = ["grounding / goal accuracy, %", f"{'':<14}" + "".join(f"{head:>15}" for head in heads)]
    for query in (*get_args(Query), None):
        for feasible in ("yes", "no"):
            name = f"{query or 'all'} {'feasible' if feasible == 'yes' else 'infeasible'}"
            lines.append(_row(found, name, types, {"query": query, "feasible": feasible}))
    lines.append(_row(found, "all", types, {}))
    lines += ["", f"{'':<24}{'grounding, %':>26}{'goal, %':>26}{'n':>8}"]
    for name, shares in margins(found):
        told = "".join(f"{_with_interval(share):>26}" for share in shares)
        lines.append(f"{name:<24}{told}{max(share.of for share in shares):>8}")
    return lines


def _row(found: Evaluation, name: str, types: list[Any], wanted: dict[str, str | None]) -> str:
    """A row of the table: a cell for each grounding, and for all (None)."""
    chosen = {key: value for key, value in wanted.items() if value is not None}
    cells = [_pair(found.shares(**chosen, **({} if kind is None else {"grounding": kind}))) for kind in types]
    return f"{name:<14}" + "".join(f"{cell:>15}" for cell in cells)


def _with_interval(share: Share) -> str:
    interval = share.interval()
    if interval is None:
        return "-"
    low, high = (100 * end for end in interval)
    errors = f", {share.errors} err." if share.errors else ""
    return f"{_percent(share)} ({low:.1f}-{high:.1f}{errors})"


def margins(found: Evaluation) -> list[tuple[str, tuple[Share, Share]]]:
    """(name, (grounding, goal)) of all episodes and of each class that has any."""
    rows = [("all", found.shares()), ("feasible", found.shares(feasible="yes"))]
    rows.append(("infeasible", found.shares(feasible="no")))
    for key, kind in (
        ("grounding", Grounding),
        ("query", Query),
        ("feasibility", Feasibility),
        ("difficulty", Difficulty),
    ):
        rows += [(value, found.shares(**{key: value})) for value in get_args(kind) if value != "feasible"]
    return [row for row in rows if any(share.of for share in row[1])]


def table_csv(found: Evaluation) -> str:
    """The same as CSV, a row per class and measure: shares between 0 and 1, empty where there is no
    episode."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)

    def rows(part: str, name: str, shares: tuple[Share, Share]) -> None:
        for measure, share in zip(("grounding", "goal"), shares, strict=True):
            told = share.to_dict()
            values = [told[key] for key in ("right", "of", "errors", "share", "low", "high")]
            writer.writerow([part, name, measure, *("" if value is None else value for value in values)])

    for name, shares in margins(found):
        rows("margin", name, shares)
    for cell in found.to_dict()["cells"]:
        feasible = "yes" if cell["feasible"] else "no"
        name = f"{cell['grounding_type']} {cell['query']} {'feasible' if cell['feasible'] else 'infeasible'}"
        shares = found.shares(grounding=cell["grounding_type"], query=cell["query"], feasible=feasible)
        rows("cell", name, shares)
    return out.getvalue()
