"""The session's page in a real browser: a take from the change of room to the decision, by keyboard alone."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser

from edge.session.engine import Session
from edge.session.stage import Stage
from edge.session.web import serving
from recordings.session_journal import read_journal
from tests.edge.session_plans import humming, item, plan_of

PLAN = plan_of(humming(1), item(2, grounding="G1", pointing_at="living_room_tv_1", speaker=1))
PHASE = "document.documentElement.dataset.phase"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TEXT = "document.body.innerText"


def enter(browser: Browser) -> None:
    """Enter as a keyboard sends it: it also submits a form."""
    key: dict[str, Any] = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    browser.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **key)


def phase(browser: Browser, name: str) -> None:
    browser.until(f"{PHASE} === '{name}'", 150)


@pytest.mark.real
def test_a_take_by_keyboard_in_chromium(tmp_path: Path) -> None:
    session = Session(PLAN, tmp_path, "day", Stage(PLAN, tmp_path), countdown_s=1, report=False)
    results: list[Any] = []
    engine = threading.Thread(target=lambda: results.append(session.run()))
    try:
        with serving("127.0.0.1:0", session) as url, Browser(tmp_path / "profile") as browser:
            assert url is not None
            engine.start()
            browser.view(1180, 820)
            browser.open(url)
            phase(browser, "room")
            enter(browser)
            phase(browser, "ready")
            says_who_stands_where(browser)
            notes(browser)
            enter(browser)
            phase(browser, "countdown")
            enter(browser)  # does not call it off
            phase(browser, "recording")
            assert browser.evaluate("document.documentElement.dataset.light") == "recording"
            phase(browser, "decide")
            checks = browser.evaluate("[...document.querySelectorAll('#checks li')].map((e) => e.innerText)")
            assert len(checks) == 5 and all(text.startswith("ok") for text in checks), checks
            enter(browser)
            browser.until(f"{PHASE} === 'ready' && {TEXT}.includes('ep0002')", 150)
            assert "1 of 2" in browser.evaluate(TEXT)
            fits(browser)
            browser.press("q")
            phase(browser, "over")
            assert browser.complaints == []
    finally:
        session.interrupt()
        engine.join(60)
    assert results[0].kept == 1 and read_journal(tmp_path / "day").kept == {"ep0001": "ep0001-t1"}


def says_who_stands_where(browser: Browser) -> None:
    text = browser.evaluate(TEXT)
    for words in (
        "Please silence that humming.", "Anna says", "1.6 m in front of the rig, faces the rig",
        "standing fan on, 100 %, sounds", "ep0001 · take 1 · living room",
    ):  # fmt: skip
        assert words in text, words
    assert browser.evaluate("document.querySelectorAll('#room .device').length") == 10
    assert browser.evaluate("document.querySelectorAll('#room .device.sounds').length") == 1
    large = "parseFloat(getComputedStyle(document.getElementById('request')).fontSize)"
    assert browser.evaluate(large) > 48, "to be read from across the room"


def notes(browser: Browser) -> None:
    browser.press("n")
    browser.until("document.activeElement.id === 'note'")
    for letter in "skq":  # keys of commands, which they are not here
        browser.press(letter)
    enter(browser)
    browser.until("document.getElementById('notes').innerText === 'skq'")
    assert browser.evaluate(PHASE) == "ready"


def fits(browser: Browser) -> None:
    """Nothing hangs out of the page, on a tablet either way round and on a phone."""
    for width, height, phone in ((1180, 820, False), (820, 1180, False), (400, 860, True)):
        browser.view(width, height, phone=phone)
        time.sleep(0.3)
        assert browser.evaluate(WIDE) <= 0, width


@pytest.mark.real
def test_a_command_for_what_was_asked_before_is_refused(tmp_path: Path) -> None:
    import json

    from websockets.sync.client import connect

    plan = plan_of(item(1))
    session = Session(plan, tmp_path, "day", Stage(plan, tmp_path), countdown_s=0, report=False)
    engine = threading.Thread(target=session.run)
    with serving("127.0.0.1:0", session) as url:
        assert url is not None
        engine.start()
        address = url.replace("http", "ws") + "data"
        with connect(address, origin=url.rstrip("/"), proxy=None) as socket:  # type: ignore[arg-type]

            def told(what: str) -> Any:
                while what not in (said := json.loads(socket.recv(30))):
                    pass
                return said[what]

            def ask(**command: Any) -> Any:
                socket.send(json.dumps({"id": "1", **command}))
                return told("reply")

            while (state := told("state"))["phase"] != "room":
                pass
            turn = state["turn"]
            for wrong in (
                {"op": "keep", "args": {"text": "", "turn": turn}},
                {"op": "go", "args": {"text": "", "turn": turn - 1}},
                {"op": "go", "args": {"text": 3, "turn": turn}},
                {"op": ["go"], "args": {"turn": turn}},
                {"op": "go", "args": None},
            ):
                assert not ask(**wrong)["ok"], wrong
            assert ask(op="quit", args={"text": "", "turn": turn})["ok"]
            socket.send("[" * 30000)
            engine.join(30)
            assert not engine.is_alive()


@pytest.mark.real
def test_off_loopback_the_page_needs_its_token(tmp_path: Path) -> None:
    import urllib.error
    import urllib.request

    plan = plan_of(item(1))
    session = Session(plan, tmp_path, "day", Stage(plan, tmp_path))
    try:
        with serving("0.0.0.0:0", session) as url:
            assert url is not None and "?token=" in url
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
            )
            with pytest.raises(urllib.error.HTTPError, match="401"):
                opener.open(url.partition("?")[0], timeout=20)
            assert b"Hearth session" in opener.open(url, timeout=20).read()
    finally:
        engine = threading.Thread(target=session.run)
        engine.start()
        session.interrupt()
        engine.join(30)
