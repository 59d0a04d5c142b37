"""The monitor: rules on the way and at the end, what actions cost, and what may not be done at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dsp.errors import InputError
from edge.safety.atoms import AtomKind, Event, Happens
from edge.safety.formula import atoms_of, parse
from edge.safety.progress import Progress, Verdict

RuleKind = Literal["outcome", "way", "forbidden", "report"]


@dataclass(frozen=True)
class Rule:
    """formula: in the language of `edge.safety.formula`. says: what it asks, for people. kind: what it is
    about: the outcome, the way there (evidence before an intervention), something forbidden, a report that
    is due."""

    name: str
    formula: str
    says: str = ""
    kind: RuleKind = "way"


@dataclass(frozen=True)
class Cost:
    """What each event of a kind costs."""

    of: Happens
    cost: float


@dataclass(frozen=True)
class Violation:
    """A rule that cannot hold any more; event: at which it became so, None: time passed, or the end."""

    t_s: float
    rule: str
    says: str
    event: Event | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it is published."""
        about = {} if self.event is None else {"of": self.event.kind, "about": dict(self.event.data)}
        return {"rule": self.rule, "says": self.says, "t_s": round(self.t_s, 3), **about}


@dataclass
class SafetyReport:
    """How a trace stands. verdicts: rule -> holds, violated, open. passed: every rule holds and the budget
    was kept; None as long as that is open."""

    verdicts: dict[str, Verdict]
    violations: list[Violation]
    cost: float
    budget: float | None
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """All held; not all did; None: not known yet."""
        if self.violations:
            return False
        return None if "open" in self.verdicts.values() else True

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "passed": self.passed,
            "verdicts": dict(self.verdicts),
            "violations": [one.to_dict() for one in self.violations],
            "cost": self.cost,
            "budget": self.budget,
            "by_kind": self.by_kind,
        }


class Monitor:
    """Follows events and states of a home and judges them.

    atoms: name -> what the formulas of `rules` speak of. costs: an event may fall under several, they add up.
    budget: the most that they may cost together; None: any. states: the home's at the start. lasting: a rule
    that was broken is judged anew from then on, so that it can be broken again.
    Raises InputError for a formula that is none, or that speaks of an unknown atom.
    """

    def __init__(
        self,
        atoms: Mapping[str, AtomKind],
        rules: Iterable[Rule],
        costs: Iterable[Cost] = (),
        budget: float | None = None,
        states: Mapping[str, Mapping[str, Any]] | None = None,
        lasting: bool = False,
    ) -> None:
        self._lasting = lasting
        self._atoms = dict(atoms)
        self.rules = tuple(rules)
        self._costs, self._budget = tuple(costs), budget
        self._states: dict[str, dict[str, Any]] = {n: dict(s) for n, s in (states or {}).items()}
        self._progress: dict[str, Progress] = {}
        self.violations: list[Violation] = []
        self.cost = 0.0
        self._broken: set[str] = set()
        self._t_s = 0.0
        for rule in self.rules:
            formula = parse(rule.formula)
            unknown = sorted(atoms_of(formula) - set(self._atoms))
            if unknown:
                known = ", ".join(sorted(self._atoms))
                raise InputError(f"rule {rule.name}: there is no atom {unknown[0]!r}; there are {known}")
            if rule.name in self._progress:
                raise InputError(f"two rules have the name {rule.name!r}")
            self._progress[rule.name] = Progress(formula)

    def push(self, event: Event) -> list[Violation]:
        """One event; the rules that it breaks. An event of kind `home` with `changed` (device -> attributes)
        changes what is known of the home's state. Raises InputError for one that is earlier than the last."""
        if event.kind == "home":
            for device, changed in event.data.get("changed", {}).items():
                self._states.setdefault(device, {}).update(changed)
        true = {name for name, atom in self._atoms.items() if atom.holds(event, self._states)}
        self._t_s = max(self._t_s, event.t_s)
        found = []
        for rule in self.rules:
            progress = self._progress[rule.name]
            if progress.push(event.t_s, true) == "violated" and rule.name not in self._broken:
                found.append(self._break(rule, event.t_s, event))
        spent = sum(cost.cost for cost in self._costs if cost.of.holds(event, self._states))
        if spent and self._budget is not None and self.cost <= self._budget < self.cost + spent:
            says = f"actions cost more than the budget of {self._budget:g}"
            found.append(Violation(event.t_s, "budget", says, event))
        self.cost += spent
        self.violations += found
        return found

    def pass_to(self, t_s: float) -> list[Violation]:
        """Time passed and nothing happened; the rules whose time is over."""
        self._t_s = max(self._t_s, t_s)
        return self._judged(lambda progress: progress.pass_to(self._t_s))

    def finish(self) -> SafetyReport:
        """There are no more events."""
        self._judged(lambda progress: progress.finish())
        return self.report()

    def report(self) -> SafetyReport:
        """How it stands."""
        by_kind: dict[str, dict[str, int]] = {}
        for rule in self.rules:
            count = by_kind.setdefault(rule.kind, {"holds": 0, "violated": 0, "open": 0})
            count[self._progress[rule.name].verdict] += 1
        verdicts = {rule.name: self._progress[rule.name].verdict for rule in self.rules}
        return SafetyReport(verdicts, list(self.violations), self.cost, self._budget, by_kind)

    def _judged(self, move: Any) -> list[Violation]:
        found = []
        for rule in self.rules:
            progress = self._progress[rule.name]
            if move(progress) == "violated" and rule.name not in self._broken:
                found.append(self._break(rule, self._t_s))
        self.violations += found
        return found

    def _break(self, rule: Rule, t_s: float, event: Event | None = None) -> Violation:
        if self._lasting:
            self._progress[rule.name].restart()
        else:
            self._broken.add(rule.name)
        return Violation(t_s, rule.name, rule.says, event)
