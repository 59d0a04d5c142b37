"""Temporal logic: the monitor against the textbook semantics on whole traces, and the text of formulas."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from edge.safety.formula import (
    FALSE,
    TRUE,
    Atom,
    Both,
    Either,
    Formula,
    Future,
    Next,
    Not,
    Past,
    Truth,
    both,
    either,
    negation,
    parse,
)
from edge.safety.progress import Progress

Trace = list[tuple[float, set[str]]]


def holds(f: Formula, trace: Trace, i: int) -> bool:
    """The definition, word for word: pointwise metric temporal logic on a finite trace."""
    t, true = trace[i]
    if isinstance(f, Truth):
        return f.value
    if isinstance(f, Atom):
        return f.name in true
    if isinstance(f, Not):
        return not holds(f.of, trace, i)
    if isinstance(f, Both):
        return all(holds(part, trace, i) for part in f.parts)
    if isinstance(f, Either):
        return any(holds(part, trace, i) for part in f.parts)
    if isinstance(f, Next):
        return i + 1 < len(trace) and holds(f.of, trace, i + 1)
    assert isinstance(f, Future | Past)
    if f.kind == "Y":
        return i > 0 and holds(f.right, trace, i - 1)
    future = isinstance(f, Future)
    span = range(i, len(trace)) if future else range(i, -1, -1)
    inside = [j for j in span if f.low <= abs(trace[j][0] - t) <= f.high]
    if f.kind in "GH":
        return all(holds(f.right, trace, j) for j in inside)
    for j in inside:
        between = range(i, j) if future else range(j + 1, i + 1)
        if holds(f.right, trace, j) and all(holds(f.left, trace, k) for k in between):
            return True
    return False


ATOMS = st.sampled_from("abc").map(Atom)
BOUNDS = st.tuples(st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([0.0, 2.0, 5.0, inf])).map(
    lambda b: (b[0], b[0] + b[1])
)


def grown(parts: st.SearchStrategy[Formula], kinds: str, make: type) -> st.SearchStrategy[Formula]:
    timed = st.tuples(st.sampled_from(kinds), parts, parts, BOUNDS).map(
        lambda x: make(x[0], x[1] if x[0] in "US" else TRUE, x[2], *((0.0, inf) if x[0] == "Y" else x[3]))
    )
    logic = st.tuples(st.sampled_from([both, either]), parts, parts).map(lambda x: x[0](x[1], x[2]))
    return st.one_of(timed, logic, parts.map(negation))


PAST = st.recursive(ATOMS, lambda parts: grown(parts, "OHSY", Past), max_leaves=4)
FORMULAS = st.recursive(
    PAST, lambda parts: st.one_of(grown(parts, "FGU", Future), parts.map(Next)), max_leaves=5
)
TRACES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sets(st.sampled_from("abc"))), min_size=1, max_size=7
)


@settings(max_examples=150, deadline=None)
@given(FORMULAS, TRACES)
def test_the_verdict_is_that_of_the_definition(formula: Formula, steps: list[tuple[float, set[str]]]) -> None:
    trace: Trace = []
    for step, true in steps:
        trace.append(((trace[-1][0] if trace else 0.0) + step, true))
    progress = Progress(formula)
    early = [progress.push(t, true) for t, true in trace]
    final = progress.finish()
    assert (final == "holds") == holds(formula, trace, 0) and final != "open"
    # What is decided early never changes.
    decided = [verdict for verdict in early if verdict != "open"]
    assert set(decided) <= {final}


def test_what_is_due_is_broken_when_its_time_is_over_not_at_the_next_event() -> None:
    progress = Progress(parse("G(alarm -> F[<=30] told)"))
    assert progress.push(10.0, {"alarm"}) == "open"
    assert progress.pass_to(40.0) == "open"
    assert progress.pass_to(40.1) == "violated"
    again = Progress(parse("G(alarm -> F[<=30] told)"))
    again.push(10.0, {"alarm"})
    assert again.push(40.0, {"told"}) == "open" and again.finish() == "holds"


def test_text() -> None:
    a, b, c = Atom("a"), Atom("b"), Atom("c")
    assert parse("a & b | !c") == either(both(a, b), negation(c))
    assert parse("a -> b -> c") == either(negation(a), negation(b), c)
    assert parse("G a U b") == Future("U", Future("G", TRUE, a), b)
    assert parse("F[2,5](a)") == Future("F", TRUE, a, 2.0, 5.0)
    assert parse("a S[>=3] b") == Past("S", a, b, 3.0, inf)
    assert parse("O[<=1.5] x_y1") == Past("O", TRUE, Atom("x_y1"), 0.0, 1.5)
    assert parse("X !a") == Next(Not(a))
    assert parse("a & !a") == FALSE and parse("true | a") == TRUE


@pytest.mark.parametrize(
    "text,wrong",
    [
        ("", "expected an atom"),
        ("a &", "expected an atom"),
        ("(a", "expected `\\)`"),
        ("a b", "expected the end"),
        ("a ? b", "means nothing"),
        ("F[3,1] a", "is empty"),
        ("F[a] b", "expected seconds"),
        ("F[<=1 b", "expected `\\]`"),
        ("O F a", "looks back"),
        ("a S X b", "looks back"),
        ("Q a", "expected an atom"),
    ],
)
def test_what_is_no_formula(text: str, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        parse(text)


def test_events_come_in_order() -> None:
    progress = Progress(parse("F a"))
    progress.push(2.0, set())
    with pytest.raises(InputError, match="order"):
        progress.push(1.0, set())
