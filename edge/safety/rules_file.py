"""Rules of one's own in a YAML file: atoms, rules, what acts cost, and the budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from dsp.errors import InputError
from edge.safety.atoms import AtomKind, Event, Happens, Is, atom_of
from edge.safety.monitor import Cost, Monitor, Rule, RuleKind
from recordings.timeline import read_timeline
from recordings.yaml_text import load_strict_yaml


class _Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    formula: str
    says: str = ""
    kind: RuleKind = "way"


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    hearth_safety: Literal[1]
    atoms: dict[str, Any] = {}
    rules: list[_Rule] = []
    costs: list[dict[str, Any]] = []
    budget: float | None = None


@dataclass(frozen=True)
class SafetyRules:
    """What a file of rules holds."""

    atoms: dict[str, AtomKind]
    rules: tuple[Rule, ...]
    costs: tuple[Cost, ...] = ()
    budget: float | None = None

    def monitor(self) -> Monitor:
        """A monitor of these rules, from the beginning."""
        return Monitor(self.atoms, self.rules, self.costs, self.budget)

    def devices(self) -> set[str]:
        """Ids of the devices whose state is spoken of."""
        return {atom.device_id for atom in self.atoms.values() if isinstance(atom, Is)}


def load_rules(path: Path) -> SafetyRules:
    """Read and check a file of rules. Raises InputError that names the file and what is wrong with it."""
    try:
        data = load_strict_yaml(path.read_text(encoding="utf-8"))
        _refuse_words_of_yaml(data, path)
        told = msgspec.convert(data, _File)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of rules") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the rules: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: no file of rules: {error}") from None
    try:
        rules = SafetyRules(
            {name: atom_of(atom, name) for name, atom in told.atoms.items()},
            tuple(Rule(one.name, one.formula, one.says, one.kind) for one in told.rules),
            tuple(_cost(one, number) for number, one in enumerate(told.costs)),
            told.budget,
        )
        rules.monitor()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return rules


def _refuse_words_of_yaml(data: Any, path: Path) -> None:
    atoms = data.get("atoms") if isinstance(data, dict) else None
    for name in atoms if isinstance(atoms, dict) else ():
        if not isinstance(name, str):
            raise InputError(
                f"{path}: an atom's name is read as {name!r}: YAML takes yes, no, on and off for true and"
                " false; put it in quotes"
            )


def _cost(told: dict[str, Any], number: int) -> Cost:
    cost = told.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or cost < 0:
        raise InputError(f"costs[{number}]: `cost` is a number from 0 on, not {cost!r}")
    atom = atom_of({key: value for key, value in told.items() if key != "cost"}, f"costs[{number}]")
    if not isinstance(atom, Happens):
        raise InputError(f"costs[{number}]: events cost something, states do not")
    return Cost(atom, float(cost))


def events_of(timeline: Path) -> Iterable[Event]:
    """The events of a recorded episode, in the order of their times; seconds from the first line.

    Raises InputError when the file cannot be read.
    """
    lines = read_timeline(timeline).lines
    first = min((line["t_ns"] for line in lines), default=0)
    events = [line for line in lines if line["type"] == "event"]
    for line in sorted(events, key=lambda line: int(line["t_ns"])):
        data = line.get("data")
        yield Event(
            (line["t_ns"] - first) / 1e9, str(line.get("kind")), data if isinstance(data, dict) else {}
        )
