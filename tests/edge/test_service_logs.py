"""Log lines in their three forms."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import sys

import pytest

from dsp.errors import DeviceError, InputError
from edge.service import logs


@pytest.fixture
def restored():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.OURS}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)


def lines_in(form: str, level: str = "info") -> list[str]:
    out = io.StringIO()
    assert logs.set_up(form, level, out) in (form, "human")
    ours, other = logging.getLogger("edge.live"), logging.getLogger("someone.else")
    ours.debug("fine")
    ours.info('a "gap"\nof %d frames', 480, extra=logs.fields(lost_frames=480, ratio=float("nan"), to="ü"))
    other.info("chatter")
    other.warning("trouble")
    try:
        raise ValueError("why")
    except ValueError:
        ours.exception("it failed")
    return out.getvalue().splitlines()


def test_json_is_one_object_per_line(restored):
    told = [json.loads(line, parse_constant=pytest.fail) for line in lines_in("json")]
    assert [t["message"] for t in told] == ['a "gap"\nof 480 frames', "trouble", "it failed"]
    assert told[0]["level"] == "info" and told[0]["component"] == "edge.live"
    assert told[0]["fields"] == {"lost_frames": 480, "ratio": None, "to": "ü"}
    assert "fields" not in told[1]
    assert told[2]["exception"].endswith("ValueError: why")
    assert all(t["time"].endswith("Z") and len(t["time"]) == 24 for t in told)


def test_the_journal_gets_a_priority_on_every_line(restored):
    told = lines_in("journal", "debug")
    assert told[0] == "<7>debug edge.live: fine"
    assert told[1].startswith('<6>info edge.live: a "gap"') and told[2].startswith("<6>of 480 frames")
    assert told[3] == "<4>warning someone.else: trouble"
    assert told[4] == "<3>error edge.live: it failed" and told[-1] == "<3>ValueError: why"


def test_lines_for_people_and_the_level(restored):
    told = lines_in("human", "error")
    assert [line.split(" ", 1)[1] for line in told[:2]] == [
        "warning someone.else: trouble",
        "error edge.live: it failed",
    ]
    logs.set_level("info")
    assert logging.getLogger("edge.live").isEnabledFor(logging.INFO)
    for wrong in (lambda: logs.set_up("xml"), lambda: logs.set_level("loud")):
        with pytest.raises(InputError, match="one of"):
            wrong()


def test_auto_is_the_journal_when_stderr_goes_there(restored, monkeypatch):
    one, other = socket.socketpair()
    with one, other, one.makefile("w") as stream:
        about = os.fstat(one.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{about.st_dev}:{about.st_ino}")
        assert logs.set_up("auto", "info", stream) == "journal"
        monkeypatch.setenv("JOURNAL_STREAM", "1:1")
        assert logs.set_up("auto", "info", stream) == "human"
        logs.set_up("auto", "info", sys.stderr)
    ours = [h for h in logging.getLogger().handlers if getattr(h, "hearth", False)]
    assert len(ours) == 1, "each set-up replaces the one before"


def test_the_error_that_ends_a_service_has_the_form_of_the_others(restored):
    out = io.StringIO()
    logs.set_up("json", "info", out)
    with pytest.raises(SystemExit) as end, logs.errors_in("json"):
        raise DeviceError("no microphone")
    assert end.value.code == DeviceError.exit_code
    assert json.loads(out.getvalue())["fields"] == {"error": "DeviceError"}
    with pytest.raises(DeviceError), logs.errors_in("human"):
        raise DeviceError("no microphone")
