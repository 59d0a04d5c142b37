"""Rules of one's own: the file, and a live home that is watched by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsp.errors import InputError
from edge.home.twin import Home, HomeDevice
from edge.safety import Event
from edge.safety.guard import Guard
from edge.safety.rules_file import load_rules

DOCUMENT = Path(__file__).parents[2] / "docs" / "safety.md"


def written(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def of_the_document(folder: Path) -> Path:
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    return written(folder, text)


def test_the_file_of_the_document_is_the_monitor_of_the_document(tmp_path: Path) -> None:
    monitor = load_rules(of_the_document(tmp_path)).monitor()
    smoke = "1.SmokeCOAlarm.SmokeState"
    monitor.push(Event(0.0, "home", {"changed": {"kitchen_alarm": {smoke: 1}}}))
    off = {"device_id": "hob", "command": "1.OnOff.Off"}
    assert [one.rule for one in monitor.push(Event(6.0, "command", off))] == ["look first"]
    assert [one.rule for one in monitor.pass_to(120.1)] == ["in time"]
    report = monitor.finish()
    assert (report.passed, report.cost, report.budget) == (False, 2.0, 6.0)
    assert report.by_kind["outcome"]["violated"] == 1


@pytest.mark.parametrize(
    "text,wrong",
    [
        ("", "no file of rules"),
        ("hearth_safety: 2", "no file of rules"),
        ("hearth_safety: 1\nrulez: []", "rulez"),
        ("hearth_safety: 1\nrules: [{name: a, formula: F ghost}]", "no atom 'ghost'"),
        ("hearth_safety: 1\nrules: [{name: a, formula: 'F ('}]", "expected"),
        ("hearth_safety: 1\natoms: {a: {event: 3}}", "atom a"),
        ("hearth_safety: 1\ncosts: [{event: command}]", "costs"),
        ("hearth_safety: 1\ncosts: [{device: a, attribute: b, equals: 1, cost: 1}]", "events cost"),
        ("hearth_safety: 1\nrules: [{name: a, formula: F a, kind: odd}]", "odd"),
        ("a: [", "no file of rules"),
        ("hearth_safety: 1\natoms: {yes: {event: heard}}", "put it in quotes"),
    ],
)
def test_what_is_no_file_of_rules(tmp_path: Path, text: str, wrong: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=wrong) as caught:
        load_rules(path)
    assert str(path) in str(caught.value)


def test_a_live_home_is_watched_by_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home([HomeDevice("hob", "cooktop", "hob", "kitchen")])
    guard = Guard(home, load_rules(of_the_document(tmp_path)))
    assert "kitchen_alarm" in caplog.text, "a device that the home does not have"
    off = {"device_id": "hob", "command": "1.OnOff.Off"}
    (found,) = guard.event(5.0, "command", off)
    assert found["rule"] == "look first" and found["about"]["device_id"] == "hob"
    guard.event(6.0, "looked", {"room": "kitchen"})
    assert guard.event(7.0, "command", off) == []
    assert [one["rule"] for one in guard.event(70.0, "command", off)] == ["look first", "budget"], (
        "judged anew"
    )
    assert [one["rule"] for one in guard.event(71.0, "command", off)] == ["look first"]
