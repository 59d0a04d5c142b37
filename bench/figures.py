"""The form of every figure of `make bench`: one line each, measured in this run, with its target.

figure <name> = <value> <unit> (target <op> <value>): ok | short
figure <name> (target <op> <value> <unit>): not measured (<why>)
peer <name> = <value> <unit>
"""

from __future__ import annotations

import operator
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_counts: Counter[str] = Counter()


def quick() -> bool:
    """The short form is asked for (QUICK=1): every part within three minutes."""
    return os.environ.get("QUICK", "") not in ("", "0")


def figure(name: str, value: float, unit: str, op: str, target: float) -> bool:
    """Print one measured figure beside its target; returns whether it is met. NaN is never met."""
    met = _OPERATORS[op](value, target)
    verdict = "ok" if met else "short"
    _counts[verdict] += 1
    print(f"figure {name} = {value:.6g} {unit} (target {op} {target:g}): {verdict}", flush=True)
    return met


def not_measured(name: str, unit: str, op: str, target: float, why: str) -> None:
    """Say that a figure could not be measured here, and why."""
    _counts["not measured"] += 1
    print(f"figure {name} (target {op} {target:g} {unit}): not measured ({why})", flush=True)


def peer(name: str, value: float, unit: str) -> None:
    """Print what a peer reached in the same run."""
    print(f"peer {name} = {value:.6g} {unit}", flush=True)


def note(text: str) -> None:
    """A remark for the reader of the figures; goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def chosen_parts(part: str, known: Iterable[str]) -> list[str]:
    """Which parts the command line names; all when it names none. Ends the program (2) for another."""
    names = list(known)
    chosen = sys.argv[1:] or names
    for name in chosen:
        if name not in names:
            print(f"bench.{part}: no part {name!r}; parts: {', '.join(names)}", file=sys.stderr)
            raise SystemExit(2)
    return chosen


def run_modules(part: str, modules: Mapping[str, str]) -> int:
    """Run `run(quick)` of the chosen modules, given by part; the exit code of the whole."""
    for name in chosen_parts(part, modules):
        import_module(modules[name]).run(quick())
    return end_of_part(part)


def end_of_part(part: str) -> int:
    """Print the count of each verdict; returns 1 when a figure is short, else 0: the part's exit code."""
    total = ", ".join(f"{_counts[v]} {v}" for v in ("ok", "short", "not measured"))
    print(f"bench-{part}: {total}", flush=True)
    short = _counts["short"]
    _counts.clear()
    return 1 if short else 0
