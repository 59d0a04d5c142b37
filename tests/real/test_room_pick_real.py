"""The page of `hearth calibrate room device --pick` in a real browser: click, nudge, name, place, correct."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from calibration.room_devices_pick import PickServer
from tests.real.browser import Browser

pytestmark = pytest.mark.real


def test_a_device_is_clicked_nudged_named_and_placed(tmp_path: Path):
    image = np.full((720, 1280, 3), 120, np.uint8)
    cv2.circle(image, (900, 300), 6, (0, 0, 200), -1)
    png = cv2.imencode(".png", image)[1].tobytes()
    asked: list[tuple[str, list[Any]]] = []

    def answer(name: str, clicks: list[Any]) -> tuple[bool, str]:
        asked.append((name, clicks))
        return len(asked) > 1, "well placed" if len(asked) > 1 else "add a second picture"

    with (
        PickServer([("left.png", png), ("right.png", png)], "", "a hint", answer) as server,
        Browser(tmp_path / "profile") as browser,
    ):
        browser.view(1400, 900)
        browser.open(server.address)
        browser.until("document.getElementById('image').naturalWidth === 1280")

        def click(u: float, v: float) -> None:
            box = browser.evaluate(
                "(() => { const b = document.getElementById('image').getBoundingClientRect();"
                " return [b.left, b.top, b.width, b.height]; })()"
            )
            x, y = box[0] + (u + 0.5) * box[2] / 1280, box[1] + (v + 0.5) * box[3] / 720
            for kind in ("mousePressed", "mouseReleased"):
                browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

        click(890, 300)
        browser.evaluate("document.activeElement.blur()")
        assert browser.evaluate("document.getElementById('place').disabled") is True, "it has no name yet"
        for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
            browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowDown", modifiers=8)
        browser.evaluate("document.getElementById('name').focus()")
        browser.call("Input.insertText", text="desk lamp")
        browser.evaluate("document.getElementById('place').click()")
        browser.until("document.getElementById('answer').textContent.includes('second picture')")
        name, clicks = asked[0]
        assert name == "desk lamp" and clicks[1] is None
        # A pixel of the screen is nearly one of the picture here; two to the right, one up, ten down.
        assert abs(clicks[0][0] - 892) < 1.2 and abs(clicks[0][1] - 309) < 1.2
        browser.evaluate("document.querySelectorAll('button.tab')[1].click()")
        browser.until("document.getElementById('image').src.endsWith('/1')")
        click(900, 300)
        browser.screenshot(tmp_path / "pick.png")
        browser.evaluate("document.getElementById('place').click()")
        browser.until("document.getElementById('answer').className === 'good'")
        assert "well placed" in browser.evaluate("document.getElementById('answer').textContent")
        server.wait(10)
        assert asked[1][1][0] is not None and abs(asked[1][1][1][0] - 900) < 1.2
        assert abs(asked[1][1][1][1] - 300) < 1.2
        complaints = [c for c in browser.complaints if "favicon" not in c]
        assert complaints == []
