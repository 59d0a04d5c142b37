"""The session's screen in a terminal, its keys, and a whole visit through a pseudo-terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dsp.errors import InputError
from edge.session.large_type import large
from edge.session.progress import Pace, Progress
from edge.session.terminal import HEADINGS, KEYS, Keyboard, screen
from edge.session.words import facing_in_words, item_in_words, state_in_words
from recordings.plan.store import write_plan
from recordings.profile import Placed
from recordings.session_journal import Journal
from tests.edge.session_plans import humming, item, plan_of

REPOSITORY = Path(__file__).resolve().parents[2]
PLAN = plan_of(humming(1), item(2, grounding="G1", pointing_at="living_room_tv_1", speaker=1))


def state(phase: str, **more: Any) -> dict[str, Any]:
    words = {**item_in_words(PLAN, PLAN.items[1]), "notes": ["the lamp flickers"], "kept": None}
    words["loudspeaker"] = "music player"
    return {
        "phase": phase, "turn": 3, "version": 9, "item": words, "can": ["go", "note", "quit"], "enter": "go",
        "take": 2, "takes": 1, "count": None, "meter": None, "checks": [], "checks_ok": None, "refused": None,
        "message": "", "trouble": None, "plan": "small", "session": "monday",
        "progress": Progress(PLAN.items, Journal(Path("none"))).now(Pace()), **more,
    }  # fmt: skip


def shown(told: dict[str, Any], width: int = 120, height: int = 45, note: str | None = None) -> str:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(screen(told, width, height, note))
    return console.export_text()


def test_the_screen_says_who_stands_where_and_what_is_said():
    text = shown(state("ready"), height=20)
    for words in (
        "Ben says", "Turn on the floor lamp.", "1.6 m in front of the rig, faces the rig", "big television",
        "standing fan: off", "ep0002  take 2  living room", "0 of 2 kept", "the lamp flickers",
        "Enter, space or G",
    ):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize("phase", HEADINGS)
def test_every_phase_has_a_screen_that_fits_the_width(phase: str):
    meter = {
        "seconds": 1.5, "peak_dbfs": [-12.0] * 4, "clipped": True, "lost_frames": 3, "dropped_pictures": 1,
    }  # fmt: skip
    verdicts = ("ok", "warning", "bad", "not checked")
    checks = [{"name": "level", "verdict": verdict, "text": verdict} for verdict in verdicts]
    told = state(phase, count=3, meter=meter, checks=checks, trouble="no device", refused="anna: not asked")
    for width in (60, 100, 200):
        text = shown(told, width)
        assert HEADINGS[phase] in text
        assert max(map(len, text.splitlines())) <= width


def test_large_letters():
    assert large("on", 20) == ["▄▀▀▀▄ █▄  █", "█   █ █ █ █", "█   █ █  ▀█", " ▀▀▀  ▀   ▀"]
    assert len(large("turn it on", 40) or []) == 9, "two lines of four rows and a gap"
    assert large("turn it on", 20, most_lines=2) is None and large("Größe", 100) is None


class Asked:
    """What a keyboard asks of its session."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, int | None]] = []

    def do(self, op: str, text: str = "", turn: int | None = None) -> None:
        if turn != 3:
            raise InputError("look again")
        self.done.append((op, text, turn))


def test_keys_become_commands_and_notes_are_typed():
    asked = Asked()
    keyboard = Keyboard(asked)  # type: ignore[arg-type]
    for key in ("\n", " ", "G", "k", "x", "n", "a", "q", "\x7f", "b", "\r", "n", "z", "\x1b", "q"):
        keyboard.key(key, state("ready"))
    assert asked.done == [("go", "", 3)] * 3 + [("note", "ab", 3), ("quit", "", 3)]
    keyboard.key("\n", {**state("countdown"), "can": ["cancel"], "enter": None})
    assert len(asked.done) == 5, "a second Enter does not call off the count"
    keyboard.key("g", {**state("ready"), "turn": 4})
    assert keyboard.trouble == "look again"
    assert len({key for key, _ in KEYS.values()}) == len(KEYS)


def test_words_for_facing_and_states():
    room = PLAN.rooms[0]
    x, y, _ = room.microphone_m
    turns = {
        -90.0: "faces the rig", 90.0: "faces away from the rig", 0.0: "turned: the rig is 90° to the right",
        180.0: "turned: the rig is 90° to the left",
    }  # fmt: skip
    for facing, words in turns.items():
        placed = Placed(person="anna", mouth_m=(x, y + 2, 1.5), facing_deg=facing)
        assert facing_in_words(placed, room) == words
    assert state_in_words({"1.OnOff.OnOff": False, "1.FanControl.PercentSetting": 60}) == "off"
    assert state_in_words({"1.OnOff.OnOff": True, "1.FanControl.PercentSetting": 60}) == "on, 60 %"
    assert state_in_words({"1.WindowCovering.CurrentPositionLiftPercent100ths": 10000}) == "closed"
    assert state_in_words({}) == "as it is"


def test_a_visit_through_a_pseudo_terminal(tmp_path: Path):
    write_plan(PLAN, tmp_path / "plan.yaml")
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color", "COLUMNS": "110"}
    command = [sys.executable, "-m", "hearth", "session", "plan.yaml", "--no-web"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    seen = ""
    try:
        seen = until(master, "Change of room")
        os.write(master, b"q")
        seen += until(master, "0 of 2 kept (0 now")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "Anna says" in seen and "\x1b[?1049l" in seen, "the terminal is given back"
    steps = [json.loads(line)["step"] for line in (tmp_path / "data/small/session.jsonl").open()]
    assert steps == ["opened", "closed"]


def until(master: int, words: str) -> str:
    """What the terminal shows until these words came."""
    seen, deadline = "", time.monotonic() + 120
    while words not in seen:
        ready, _, _ = select.select([master], [], [], 1.0)
        assert time.monotonic() < deadline, seen
        if ready:
            seen += os.read(master, 65536).decode("utf-8", "replace")
    return seen


def test_no_sound_at_all_is_called_silent():
    silent = {
        "seconds": 1.0,
        "peak_dbfs": [-200.0] * 4,
        "clipped": False,
        "lost_frames": 0,
        "dropped_pictures": 0,
    }
    text = shown(state("recording", meter=silent))
    assert "silent" in text and "-200" not in text
    assert "-12 dBFS" in shown(state("recording", meter={**silent, "peak_dbfs": [-12.0] * 4}))


def test_an_open_page_is_told_that_the_session_is_over_before_it_is_closed():
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from edge.session.web import serving

    class Ending:
        """A session that says what it is told to."""

        phase = "ready"

        def state(self) -> dict[str, Any]:
            return {"phase": self.phase, "version": 1}

        def wait_for_change(self, version: int, timeout_s: float) -> dict[str, Any]:
            time.sleep(timeout_s)  # slow: the end comes before it
            return self.state()

    session = Ending()
    with ExitStack() as stack:
        with serving("127.0.0.1:0", session) as page:  # type: ignore[arg-type]
            assert page is not None
            where = page.replace("http", "ws", 1).rstrip("/") + "/data"
            socket = stack.enter_context(connect(where, origin=page.rstrip("/")))
            assert json.loads(socket.recv(10))["state"]["phase"] == "ready"
            session.phase = "over"
        last = "ready"
        with pytest.raises(ConnectionClosed):
            while True:
                last = json.loads(socket.recv(10))["state"]["phase"]
    assert last == "over"
