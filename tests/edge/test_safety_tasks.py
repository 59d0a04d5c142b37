"""The tasks: who looks first and does the least passes; who does too much, or nothing, does not."""

from __future__ import annotations

import pytest

from bench.agent_home_twin import hasty
from edge.safety.episode import SafetyEpisode, SafetyTask
from edge.safety.responder import Responder
from edge.safety.tasks import TASKS

# Where the right thing is to leave everything as it is, however the alarm sounds.
HARMLESS = {
    "someone_cooks", "faulty_smoke_alarm", "spill", "faulty_leak_sensor", "parcel", "nobody",
    "family_comes_home", "fall_answers", "false_fall", "unlock_no", "oven_no_answer",
}  # fmt: skip


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_looking_first_passes_and_doing_nothing_or_too_much_does_not(task: SafetyTask) -> None:
    careful = SafetyEpisode(task)
    Responder().run(careful)
    report = careful.finish()
    assert report.passed, report.violations
    assert 0 < report.cost <= task.budget
    assert SafetyEpisode(task).finish().passed is False, "to do nothing is never enough"
    rash = SafetyEpisode(task)
    hasty(rash)
    report = rash.finish()
    if task.id in HARMLESS:
        kinds = {rule.kind for rule in task.rules if report.verdicts[rule.name] == "violated"}
        assert report.passed is False and kinds & {"way", "forbidden"}


def test_there_are_twenty_in_five_families() -> None:
    assert len({task.id for task in TASKS}) == 20
    assert {task.family for task in TASKS} == {"hazards", "requests", "entry", "wellbeing", "chores"}
    assert {task.id for task in TASKS} > HARMLESS


def test_a_task_is_the_same_each_time() -> None:
    task = next(one for one in TASKS if one.id == "pan_about_to_burn")
    told = []
    for _ in range(2):
        episode = SafetyEpisode(task)
        Responder().run(episode)
        told.append(episode.finish().to_dict())
    assert told[0] == told[1]
    assert task.conditions[0].to_tick is None, "an episode changes nothing of its task"
