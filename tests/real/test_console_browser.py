"""The console in a real browser: a moving source is drawn where it is, mute and takes work, it comes back."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser
from console_scene import PROBE, collect, make_rig

from capture.sources import open_rig
from edge.console.address import listen
from edge.console.process import ConsoleProcess, serving
from edge.home.service import home_of
from edge.live import LiveService
from recordings.episode import Episode

LIGHT = "document.documentElement.dataset.light"
SECONDS = 40.0  # more than the test needs
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BRIGHTEST = """Math.max(...document.getElementById("picture").getContext("2d")
  .getImageData(0, 0, 200, 200).data.filter((value, at) => at % 4 < 3))"""
COLOURS = """(() => { const canvas = document.getElementById("spectrum");
  return new Set(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data).size; })()"""
SHOWN = "Number(document.getElementById('picture').dataset.shown)"
OVERFLOWING = """[...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  const apart = e.closest("svg, .scroll, .unseen, .skip");
  return box.width && !apart && (box.right > innerWidth + 1 || box.left < -1);
}).map((e) => e.tagName + "." + e.className)"""


@pytest.mark.real
def test_the_console_in_chromium(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, SECONDS)
    with (
        Browser(tmp_path / "profile") as browser,
        open_rig(rig) as opened,
        LiveService(rig, opened, home=home_of(rig)) as service,
        serving(rig.endpoints.console_address, service, print) as console,
    ):
        assert console is not None
        browser.view(1280, 900)
        browser.open(console.url)
        browser.until(f"{LIGHT} === 'off'", 40)
        browser.evaluate(PROBE)
        service.start()
        browser.until(f"{LIGHT} === 'ready'", 40)
        browser.until(f"window.seen.length > 0 && {SHOWN} > 3", 40)
        start_ns = opened.microphone.start_ns  # type: ignore[attr-defined]
        shows_the_source_where_it_is(browser, start_ns)
        shows_the_rest(browser, service)
        fits_a_phone(browser)
        mutes_and_records(browser, service)
        own = "readback"  # that this test reads canvases
        assert [said for said in browser.complaints if own not in said] == []
        comes_back(browser, console)


def shows_the_source_where_it_is(browser: Browser, start_ns: int) -> None:
    """`python -m bench.console` measures how late; here other programs may hold the processor meanwhile."""
    collect(browser)
    found = []
    for _ in range(4):
        time.sleep(2.5)
        _, lags = collect(browser).lag_s(start_ns)
        found.append(np.percentile(lags, [5, 50, 95]) if len(lags) > 30 else np.full(3, np.inf))
        if found[-1][2] < 0.3:
            break
    print("drawn late, ms (5, 50, 95 %):", *(np.round(f * 1e3) for f in found))
    assert min(f[1] for f in found) < 0.3, found
    assert found[-1][0] > -0.05  # nobody is shown before being there


def shows_the_rest(browser: Browser, service: LiveService) -> None:
    # The disc in the picture is where the mark is: both are of the same moment, give or take a window.
    apart = browser.evaluate("""(() => {
      const canvas = document.getElementById("picture"), width = canvas.width;
      const row = canvas.getContext("2d").getImageData(0, canvas.height / 2, width, 1).data;
      let sum = 0, count = 0;
      for (let x = 0; x < width; x += 1)
        if (row[4 * x] > 180 && row[4 * x + 1] < 110) { sum += x; count += 1; }
      return Math.abs(sum / count / width - Number(document.getElementById("doa-mark").dataset.x));
    })()""")
    assert apart < 0.16
    browser.until("document.getElementById('reading').textContent.startsWith('Sound from')")
    levels = browser.evaluate("[...document.querySelectorAll('.meter output')].map((o) => o.value)")
    assert len(levels) == 4 and all(-60 < float(level.replace("−", "-")) < 0 for level in levels[:2])
    assert (
        browser.evaluate("document.getElementById('plan-direction').getAttribute('visibility')") == "visible"
    )
    browser.until("document.querySelectorAll('#health div').length >= 8")
    assert browser.evaluate(COLOURS) > 20  # a picture of the sound, not a blank
    service.home_service.command("fan_1", "On")
    browser.until("document.querySelector('#plan .device').classList.contains('on')")
    desk = service.home_service.desk
    desk.ready("an agent")
    desk.heard("turn <b>on</b> the fan")
    candidates = [{"device_id": "fan_1", "name": "standing fan", "probability": 0.9}]
    voice = {"value": {"position_m": [1.5, 1.5, 1.5], "direction": {"azimuth_deg": 90.0, "sigma_deg": 5.0}}}
    arm = {"origin_m": [1.5, 1.5, 1.4], "rays": [{"direction": [1.0, 0.2, 0.0], "share": 0.8}], "who": "left"}
    pointing = {"value": arm, "confidence": 0.9, "seconds": 0.03}
    findings = {"speaker": voice, "pointing": pointing}
    desk.declare("fan_1", {"posterior": candidates, "none": 0.1, "findings": findings})
    desk.say("The fan is on.")
    desk.finish("The fan is on.", "done")
    browser.until("document.querySelectorAll('.turn .chip').length === 1")
    turn = browser.evaluate("document.querySelector('.turn').innerText")
    assert "turn <b>on</b> the fan" in turn and "standing fan" in turn and "straight ahead" in turn
    assert "none of them" in turn and "points with the left arm" in turn and "30 ms" in turn
    drawn = "['pointed', 'stands'].map((name) => document.querySelectorAll(`#plan .why .${name}`).length)"
    assert browser.evaluate(drawn) == [1, 1]


def fits_a_phone(browser: Browser) -> None:
    for width, height in ((390, 844), (320, 640), (844, 390), (1280, 900)):
        browser.view(width, height, phone=width < 900)
        time.sleep(0.2)
        assert browser.evaluate(WIDE) <= 0, (width, browser.evaluate(OVERFLOWING))
        assert browser.evaluate(OVERFLOWING) == [], width
    browser.view(390, 844, phone=True)
    small = browser.evaluate("[...document.querySelectorAll('.controls button')].map((b) => b.offsetHeight)")
    assert min(small) >= 44  # to be hit with a thumb
    browser.view(1280, 900)


def mutes_and_records(browser: Browser, service: LiveService) -> None:
    browser.press("r")
    browser.until(f"{LIGHT} === 'recording'")
    assert browser.evaluate("document.getElementById('light-word').textContent") == "Recording"
    assert "●" in browser.evaluate("document.title")
    browser.until("document.getElementById('light-time').textContent >= '00:01'")
    browser.press("m")
    browser.until(f"{LIGHT} === 'muted'")
    shown = browser.evaluate(SHOWN)
    before = service.publisher.sent
    time.sleep(0.8)
    after = service.publisher.sent
    assert all(after[name] == before[name] for name in ("foa24", "video", "doa", "tracks", "levels"))
    assert browser.evaluate(SHOWN) == shown
    assert browser.evaluate(BRIGHTEST) == 0  # the last picture does not stay there
    assert browser.evaluate("document.getElementById('doa-mark').getAttribute('visibility')") == "hidden"
    assert browser.evaluate("document.getElementById('mute').getAttribute('aria-pressed')") == "true"
    browser.press("m")
    browser.until(f"{LIGHT} === 'recording'")
    browser.until(f"{SHOWN} > {shown}")
    browser.press("r")
    browser.until(f"{LIGHT} === 'ready'")
    browser.until("document.getElementById('events').textContent.includes('take finished')", 60)
    assert service.recording is not None
    episode = Episode.open(service.recording.path)
    assert episode.verify().ok
    assert "muted" in [line["cause"] for line in episode.timeline() if line["type"] == "gap"]


def comes_back(browser: Browser, console: ConsoleProcess) -> None:
    os.kill(console.pid, signal.SIGKILL)
    browser.until(f"{LIGHT} === 'lost'")
    assert "lost" in browser.evaluate("document.getElementById('trouble').textContent")
    assert browser.evaluate("document.getElementById('record').disabled")
    shown = browser.evaluate(SHOWN)
    browser.until(f"{LIGHT} === 'ready'", 40)
    browser.until(f"{SHOWN} > {shown}", 20)
    assert "connected again" in browser.evaluate("document.getElementById('events').textContent")


@pytest.mark.real
def test_the_token_in_chromium(tmp_path: Path) -> None:
    from edge.stream import CommandServer, Publisher

    rig = {
        "name": "kitchen",
        "camera": None,
        "room": {"name": "kitchen", "size_m": [3, 3, 2.5], "devices": []},
    }
    rig["microphone"] = {"position_m": [1, 1, 1], "yaw_deg": 0}
    with Publisher("tcp://127.0.0.1:0") as publisher, CommandServer("tcp://127.0.0.1:0") as commands:
        publisher.publish("state", 1, data={"muted": False, "light": "ready", "finishing": []})
        listening = listen("0.0.0.0:0")
        with (
            Browser(tmp_path / "profile") as browser,
            ConsoleProcess(listening, publisher.address, commands.address, rig) as console,
        ):
            here = f"http://127.0.0.1:{listening.port}/"
            browser.open(here + "?token=wrong")
            assert "needs its token" in browser.evaluate("document.body.textContent")
            browser.open(f"{here}?token={listening.token}")
            browser.until(f"{LIGHT} === 'ready'", 30)
            assert browser.evaluate("location.href") == here  # the token is not left in the address
            assert browser.evaluate("document.cookie") == ""  # nor where a script could read it
            assert browser.evaluate("document.getElementById('rig-name').textContent") == "kitchen"
            assert console.restarts == 0
