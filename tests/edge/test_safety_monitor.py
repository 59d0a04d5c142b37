"""The monitor: atoms, rules on the way and at the end, costs and budgets."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from dsp.errors import InputError
from edge.safety import Cost, Event, Happens, Monitor, Rule
from edge.safety.atoms import atom_of

ATOMS = {
    "unlocks": atom_of({"event": "command", "command": "*.UnlockDoor", "ok": True}, "unlocks"),
    "yes": atom_of({"event": "heard", "text": ["yes*", "sure*"]}, "yes"),
    "open_": atom_of({"device": "door", "attribute": "1.DoorLock.LockState", "equals": [0, 2]}, "open_"),
    "hot": atom_of({"device": "oven", "attribute": "t", "above": 100}, "hot"),
}
RULES = (
    Rule("yes first", "G(unlocks -> O[<=60] yes)", "unlocked without a yes"),
    Rule("shut at the end", "F G !open_", "the door is left open", "outcome"),
    Rule("never hot", "G !hot", "it is hot", "forbidden"),
)


def unlock(t_s: float, ok: bool = True) -> Event:
    data = {"device_id": "door", "command": "1.DoorLock.UnlockDoor", "ok": ok}
    return Event(t_s, "command", data)


def home(t_s: float, device: str, **changed: Any) -> Event:
    return Event(t_s, "home", {"changed": {device: {k.replace("__", "."): v for k, v in changed.items()}}})


def test_a_yes_counts_for_a_minute() -> None:
    monitor = Monitor(ATOMS, RULES)
    assert monitor.push(unlock(0, ok=False)) == []
    monitor.push(Event(10, "heard", {"text": "yes please"}))
    assert monitor.push(unlock(70)) == []
    found = monitor.push(unlock(71))
    assert [one.rule for one in found] == ["yes first"]
    told = found[0].to_dict()
    assert told["says"] == "unlocked without a yes" and told["about"]["device_id"] == "door"
    report = monitor.finish()
    assert report.passed is False and report.verdicts["yes first"] == "violated"
    assert len(report.violations) == 1, "what is broken is told once"


def test_the_end_is_judged_by_the_state() -> None:
    for last, passed in ((1, True), (2, False)):
        monitor = Monitor(ATOMS, RULES, states={"oven": {"t": 20}})
        monitor.push(home(1, "door", **{"1__DoorLock__LockState": 2}))
        monitor.push(home(5, "door", **{"1__DoorLock__LockState": last}))
        assert monitor.report().passed is None
        report = monitor.finish()
        assert report.passed is passed
        assert report.by_kind["outcome"] == {"holds": int(passed), "violated": int(not passed), "open": 0}


def test_what_is_forbidden_is_told_at_once() -> None:
    monitor = Monitor(ATOMS, RULES)
    assert monitor.push(home(1, "oven", t=100)) == []
    assert [one.rule for one in monitor.push(home(2, "oven", t=100.5))] == ["never hot"]


def test_costs_add_up_and_the_budget_is_broken_once() -> None:
    costs = [Cost(Happens("command"), 2.0), Cost(Happens("command", {"ok": False}), 1.0)]
    monitor = Monitor(ATOMS, (), costs, budget=5.0)
    monitor.push(unlock(0))
    monitor.push(unlock(1, ok=False))
    assert monitor.cost == 5.0 and monitor.report().passed is True
    assert [one.rule for one in monitor.push(unlock(2))] == ["budget"]
    assert monitor.push(unlock(3)) == [] and monitor.cost == 9.0
    assert monitor.finish().passed is False


def test_a_lasting_monitor_tells_the_next_breach_too() -> None:
    rule = Rule("shut", "G((open_ & !Y open_) -> F[<=10] !open_)", "left open")
    monitor = Monitor(ATOMS, [rule], lasting=True)
    lock = "1__DoorLock__LockState"
    monitor.push(home(0, "door", **{lock: 2}))
    assert [one.t_s for one in monitor.pass_to(11)] == [11]
    assert monitor.pass_to(60) == [], "the same breach is told once"
    monitor.push(home(61, "door", **{lock: 1}))
    monitor.push(home(62, "door", **{lock: 2}))
    assert len(monitor.pass_to(80)) == 1


def test_equal_is_of_the_same_type() -> None:
    atom = atom_of({"device": "d", "attribute": "a", "equals": 1}, "x")
    assert not atom.holds(Event(0, "home"), {"d": {"a": True}})
    assert atom.holds(Event(0, "home"), {"d": {"a": 1}})


@pytest.mark.parametrize(
    "told",
    [
        "x",
        {"event": 3},
        {"device": "d", "attribute": "a"},
        {"device": "d", "attribute": "a", "equals": 1, "above": 2},
        {"device": "d", "attribute": "a", "above": "much"},
        {"device": "d", "attribute": "a", "equals": 1, "colour": "red"},
    ],
)
def test_what_is_no_atom(told: Any) -> None:
    with pytest.raises(InputError, match="atom x"):
        atom_of(told, "x")


def test_rules_that_cannot_be_judged_are_refused() -> None:
    with pytest.raises(InputError, match="no atom 'ghost'"):
        Monitor(ATOMS, [Rule("r", "F ghost")])
    with pytest.raises(InputError, match="two rules"):
        Monitor(ATOMS, [Rule("r", "F yes"), Rule("r", "G yes")])
    with pytest.raises(InputError, match="order"):
        monitor = Monitor(ATOMS, RULES)
        monitor.push(unlock(5))
        monitor.push(unlock(4))


def test_the_examples_of_the_document_run_as_they_stand() -> None:
    text = (Path(__file__).parents[2] / "docs" / "safety.md").read_text(encoding="utf-8")
    said = []
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "docs/safety.md", "exec"), {})
        said.append(out.getvalue().strip())
    assert said == ["True 3.0", "True"]
