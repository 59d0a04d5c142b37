"""The memory: a procedure for every schema of grounding, kept in a JSON file that any agent can use.

After "Tool-grounded procedural memory" (PROME) of arXiv 2609.32569: schemas, tabular softmax procedures, and
a sentence of guidance before each step; the code is our own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from dsp.errors import InputError
from edge.agent.memory.evidence import (
    ACTIONS,
    SCHEMAS,
    Action,
    Schema,
    Step,
    actions_after,
    schema_of,
    state_of,
)
from edge.agent.memory.guidance import SCHEMA_WORDS, guidance
from edge.agent.memory.order import GenericOrder
from edge.agent.memory.procedure import Procedure
from edge.agent.posterior import Posterior
from edge.language.intent import Intent
from edge.perception.tools import Finding

PACKAGED = Path(__file__).parent / "bank.json"
FORMAT = 1
MOST_BYTES = 16 << 20


class MemoryBank:
    """procedures: schema -> procedure. source: what it was learnt from, as plain data."""

    def __init__(
        self,
        procedures: Mapping[Schema, Procedure] | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        given = procedures or {}
        self.procedures: dict[Schema, Procedure] = {s: given.get(s, Procedure()) for s in SCHEMAS}
        self.source: dict[str, Any] = dict(source or {})

    def save(self, path: Path) -> None:
        """Write the bank as JSON. Raises InputError when it cannot be written."""
        data = {
            "hearth_memory": FORMAT,
            "source": self.source,
            "procedures": {
                schema: {
                    state: {
                        "visits": one.visits.get(state, 0),
                        "theta": {a: round(value, 4) for a, value in sorted(known.items())},
                    }
                    for state, known in sorted(one.theta.items())
                }
                for schema, one in self.procedures.items()
            },
        }
        try:
            path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: the memory cannot be written: {error.strerror}") from None

    @classmethod
    def load(cls, path: Path | None = None) -> MemoryBank:
        """Read a bank; None: the one that comes with this package.

        Raises InputError, naming what is wrong, for a file that is none.
        """
        path = path or PACKAGED
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InputError(f"{path}: {path.stat().st_size} bytes are more than a memory can have")
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: the memory cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path}: not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("hearth_memory") != FORMAT:
            raise InputError(f"{path}: no memory of an agent (hearth_memory: {FORMAT})")
        procedures: dict[Schema, Procedure] = {}
        for schema, states in _items(data.get("procedures"), path):
            if schema not in SCHEMAS:
                raise InputError(f"{path}: unknown schema {schema!r}; known: {', '.join(SCHEMAS)}")
            theta: dict[str, dict[Action, float]] = {}
            visits: dict[str, int] = {}
            for state, told in _items(states, path):
                entries = dict(_items(told, path))
                theta[state] = {
                    _action(a, path): _number(v, path) for a, v in _items(entries.get("theta"), path)
                }
                visits[state] = int(_number(entries.get("visits", 0), path))
            procedures[schema] = Procedure(theta, visits)
        return cls(procedures, data.get("source") if isinstance(data.get("source"), dict) else {})

    def without_rare(self, least_visits: int) -> MemoryBank:
        """The bank without states that training saw less often: what was learnt of them is mostly chance."""
        kept: dict[Schema, Procedure] = {}
        for schema, one in self.procedures.items():
            states = [state for state in one.theta if one.visits.get(state, 0) >= least_visits]
            visits = {state: one.visits[state] for state in states if state in one.visits}
            kept[schema] = Procedure({state: one.theta[state] for state in states}, visits)
        return MemoryBank(kept, self.source)

    def table(self, least_visits: int = 1) -> list[dict[str, Any]]:
        """The procedures as rows, the most visited states first: schema, state, visits, action (the most
        likely), odds (of it), guidance."""
        rows = []
        for schema, one in self.procedures.items():
            for state in sorted(one.theta, key=lambda name: -one.visits.get(name, 0)):
                if one.visits.get(state, 0) < least_visits:
                    continue
                odds = one.odds(state, tuple(a for a in ACTIONS if a in one.theta[state]))
                action = max(odds, key=lambda name: odds[name])
                rows.append(
                    {
                        "schema": schema,
                        "when": SCHEMA_WORDS[schema],
                        "state": state,
                        "visits": one.visits.get(state, 0),
                        "action": action,
                        "odds": round(odds[action], 3),
                        "guidance": guidance(schema, action),
                    }
                )
        return rows


class MemoryPolicy:
    """Does what the memory finds best; where it knows nothing of a state, the generic order goes on.

    rng: None takes the most likely action; else actions are drawn at their odds, as in training."""

    def __init__(self, bank: MemoryBank, rng: random.Random | None = None, most_calls: int = 7) -> None:
        self._bank, self._rng, self._most = bank, rng, most_calls
        self._else = GenericOrder(most_calls)

    def next(self, intent: Intent, findings: Mapping[str, Finding[Any]], posterior: Posterior) -> Step:
        """The next step for this state of the evidence."""
        schema = schema_of(intent)
        state = state_of(findings, posterior)
        allowed = actions_after(findings)
        if len(ACTIONS) - len(allowed) >= self._most:
            return Step("declare", guidance(schema, "declare"))
        procedure = self._bank.procedures[schema]
        if self._rng is not None:
            action: Action | None = procedure.sample(state, allowed, self._rng)
        else:
            action = procedure.best(state, allowed)
        if action is None:
            return self._else.next(intent, findings, posterior)
        return Step(action, guidance(schema, action))


def _items(value: Any, path: Path) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected an object, not {str(value)[:60]!r}")
    return list(value.items())


def _action(name: Any, path: Path) -> Action:
    if name not in get_args(Action):
        raise InputError(f"{path}: unknown action {name!r}; known: {', '.join(get_args(Action))}")
    return name  # type: ignore[no-any-return]


def _number(value: Any, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{path}: expected a number, not {str(value)[:60]!r}")
    return float(value)
