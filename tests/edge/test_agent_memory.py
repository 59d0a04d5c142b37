"""Procedural memory: the algebra of its policy against closed forms, learning where the best way is known."""

from __future__ import annotations

import json
import random
from math import exp, log
from pathlib import Path

import pytest

from dsp.errors import InputError
from edge.agent.memory import GenericOrder, MemoryBank, MemoryPolicy
from edge.agent.memory.evidence import ACTIONS, TOOLS, Action, actions_after, schema_of, state_of
from edge.agent.memory.guidance import guidance
from edge.agent.memory.procedure import Procedure
from edge.agent.memory.training import Findings, Ground, Lesson, follow, train
from edge.agent.posterior import Candidate, Posterior
from edge.language.intent import DeviceWords, Intent, Need
from edge.perception.tools import Finding


def _intent(grounding: str) -> Intent:
    return Intent("turn that off", "Q2", DeviceWords(grounding))  # type: ignore[arg-type]


def _posterior(best: float, none: float = 0.0) -> Posterior:
    rest = 1 - best - none
    rows = (Candidate("a", "a", 1, 1, best), Candidate("b", "b", 1, 1, rest))
    return Posterior(rows, none)


def _found(*tools: str, value: object = 1) -> dict[str, Finding[object]]:
    return {name: Finding(name, value, 0.9, seconds=0.1) for name in tools}


def test_odds_are_a_softmax_over_what_is_allowed() -> None:
    one = Procedure({"open": {"sound": 2.0, "declare": 1.0}})
    odds = one.odds("open", ("sound", "declare", "face"))
    total = exp(2) + exp(1) + exp(0)
    assert odds["sound"] == pytest.approx(exp(2) / total)
    assert odds["face"] == pytest.approx(1 / total)
    assert sum(odds.values()) == pytest.approx(1)
    assert one.odds("never seen", ("sound", "declare")) == {"sound": 0.5, "declare": 0.5}


def test_a_step_of_learning_follows_the_gradient_of_the_log_odds() -> None:
    allowed: tuple[Action, ...] = ("pointing", "sound", "declare")
    start = {"pointing": 0.3, "sound": -0.2, "declare": 0.1}
    one = Procedure({"open": start})  # type: ignore[dict-item]

    def log_odds(theta: dict[str, float]) -> float:
        return theta["sound"] - log(sum(exp(value) for value in theta.values()))

    one.learn("open", "sound", allowed, push=1.0)
    for name in allowed:
        h = 1e-6
        slope = (log_odds({**start, name: start[name] + h}) - log_odds({**start, name: start[name] - h})) / (
            2 * h
        )
        assert one.theta["open"][name] - start[name] == pytest.approx(slope, abs=1e-6)


def test_states_say_what_was_found_and_how_sure_it_is() -> None:
    weak = {"face": Finding("face", "x", 0.1), "sound": Finding("sound", None, 0.8)}
    assert state_of({}, _posterior(0.95)) == "sure"
    assert state_of(weak, _posterior(0.7)) == "face~ sound- likely"
    assert state_of(_found("speech", "pointing"), _posterior(0.4)) == "pointing+ open"
    assert state_of({}, _posterior(0.02, none=0.95)) == "none"
    assert "pointing" not in actions_after(_found("pointing"))
    assert "declare" in actions_after(_found(*TOOLS))


def test_the_schema_is_the_kind_of_grounding() -> None:
    assert schema_of(_intent("G2")) == "G2"
    assert schema_of(Intent("it is cold in my room", "Q4", need=Need(own_room=True))) == "G4"
    assert schema_of(Intent("it is cold in the kitchen", "Q4", need=Need(room="kitchen"))) == "G0"


def test_without_memory_the_order_is_the_same_for_every_request() -> None:
    for grounding in ("G1", "G4"):
        order, found = [], _found()
        while (step := GenericOrder().next(_intent(grounding), found, _posterior(0.4))).tool != "declare":
            order.append(step.tool)
            found |= _found(step.tool)
        assert sorted(order) == sorted(TOOLS)
        assert order[0] == "speaker"
    assert GenericOrder().next(_intent("G1"), {}, _posterior(0.95)).tool == "declare"
    assert GenericOrder(1).next(_intent("G1"), _found("speaker"), _posterior(0.4)).tool == "declare"


def _lesson(grounding: str, helpful: str) -> Lesson:
    """Only one tool tells; without it the wrong device is ahead."""

    def posterior(found: Findings) -> Posterior:
        return _posterior(0.95) if helpful in found else _posterior(0.3)

    def reward(found: Posterior) -> float:
        assert found.best is not None
        return float(found.best.device_id == "a" and found.best.probability > 0.9)

    return Lesson(_intent(grounding), _found(*TOOLS), posterior, reward)


def test_training_finds_the_one_tool_that_helps_and_beats_the_same_agent_without_it() -> None:
    lessons = [_lesson("G1", "pointing"), _lesson("G2", "sound"), _lesson("G4", "voice")] * 3
    bank = MemoryBank()
    seen: list[float] = []
    train(lessons, bank, seed=3, epochs=25, told=lambda epoch, reward, worth: seen.append(worth))
    assert seen[-1] > seen[0]
    policy = MemoryPolicy(bank)
    for grounding, tool in (("G1", "pointing"), ("G2", "sound"), ("G4", "voice")):
        step = policy.next(_intent(grounding), {}, _posterior(0.3))
        assert step.tool == tool
        assert step.guidance == guidance(grounding, tool)  # type: ignore[arg-type]
    grounds = [Ground(one) for one in lessons]
    with_it = [follow(one, policy) for one in grounds]
    without = [follow(one, GenericOrder(2)) for one in grounds]
    assert all(run.reward == 1 and run.calls == 1 for run in with_it)
    assert sum(run.reward for run in without) < len(without)
    again = MemoryBank()
    train(lessons, again, seed=3, epochs=25)
    assert again.procedures["G2"].theta == bank.procedures["G2"].theta, "the same seed learns the same"


def test_a_bank_is_saved_loaded_and_used_by_another_agent(tmp_path: Path) -> None:
    bank = MemoryBank(source={"seeds": [1]})
    train([_lesson("G2", "sound")], bank, seed=1, epochs=10)
    bank.save(tmp_path / "bank.json")
    loaded = MemoryBank.load(tmp_path / "bank.json")
    assert loaded.source == {"seeds": [1]}
    learnt = bank.procedures["G2"]
    assert loaded.procedures["G2"].visits == learnt.visits
    for state, known in loaded.procedures["G2"].theta.items():
        assert known == pytest.approx(learnt.theta[state], abs=1e-4)
    most = max(loaded.table(), key=lambda row: row["visits"])
    assert (most["schema"], most["state"], most["action"]) == ("G2", "open", "sound")
    drawn = MemoryPolicy(loaded, random.Random(1))
    assert drawn.next(_intent("G2"), {}, _posterior(0.3)).tool in ACTIONS
    unknown = MemoryPolicy(loaded).next(_intent("G3"), {}, _posterior(0.3))
    assert unknown.tool == GenericOrder().next(_intent("G3"), {}, _posterior(0.3)).tool
    assert not loaded.without_rare(10**9).table()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("[]", "no memory"),
        ("{", "not JSON"),
        (json.dumps({"hearth_memory": 1, "procedures": {"G9": {}}}), "G9"),
        (json.dumps({"hearth_memory": 1, "procedures": {"G1": {"open": {"theta": {"fly": 1}}}}}), "fly"),
        (json.dumps({"hearth_memory": 1, "procedures": {"G1": {"open": {"theta": {"face": "x"}}}}}), "'x'"),
        (json.dumps({"hearth_memory": 1, "procedures": {"G1": {"open": {}}}}), "object"),
    ],
)
def test_what_is_no_bank_is_refused_by_name(tmp_path: Path, content: str, named: str) -> None:
    path = tmp_path / "bank.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=named):
        MemoryBank.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        MemoryBank.load(tmp_path / "absent.json")


def test_the_packaged_bank_has_a_way_for_every_kind_of_request() -> None:
    bank = MemoryBank.load()
    policy = MemoryPolicy(bank)
    assert policy.next(_intent("G1"), {}, _posterior(0.3)).tool == "pointing"
    assert policy.next(_intent("G2"), {}, _posterior(0.3)).tool == "sound"
    for grounding in ("G0", "G1", "G2", "G3", "G4"):
        found: dict[str, Finding[object]] = {}
        for _ in range(len(TOOLS) + 1):
            step = policy.next(_intent(grounding), found, _posterior(0.95 if found else 0.5))
            if step.tool == "declare":
                break
            found |= _found(step.tool)
        assert step.tool == "declare"
