"""The page of `hearth review` in a real browser: flash and beep together, decisions by key, blind."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser
from review_slate import (
    FPS,
    SHOWN,
    beeps_of,
    lamp_of,
    listen_and_look,
    seen_without_playing,
    serving,
    virtual_take,
    while_playing,
)

from recordings.review.log import LOG, read_reviews, verdict

LATE_MS = 120.0
LOADING = "document.getElementById('content').classList.contains('loading')"
OVERFLOWING = """[...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  const apart = e.closest("svg, .scroll, .skip, .plots, .list, .said-note");
  return box.width && !apart && (box.right > innerWidth + 1 || box.left < -1);
}).map((e) => e.tagName + "#" + e.id + "." + e.className)"""
# Texts whose contrast is below what WCAG 2.2 (1.4.3) asks for: 4.5, or 3 where they are large.
FAINT = """(() => {
  const colour = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const bright = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const written = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!written || !node.offsetParent || node.closest("svg, .eye, :disabled, .said-note")) continue;
    const style = getComputedStyle(node), layers = [];
    let opacity = 1;
    for (let up = node; up; up = up.parentElement) {
      const here = getComputedStyle(up);
      opacity *= here.opacity;
      layers.unshift(here.backgroundColor.startsWith("rgb") ? colour(here.backgroundColor) : [0, 0, 0, 0]);
    }
    const ground = layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    const [r, g, b, a] = colour(style.color), ink = over([r, g, b, a * opacity], ground);
    const [low, high] = [bright(ink), bright(ground)].sort((x, y) => x - y), ratio = high / low;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push([ratio.toFixed(2), node.className, node.textContent]);
  }
  return found;
})()"""
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A take of the virtual room with its slate, the sound 120 ms late, and two more of the same."""
    root = tmp_path_factory.mktemp("data")
    take = virtual_take(root, LATE_MS, seconds=2.0)
    for name in ("ep2", "ep3"):
        shutil.copytree(take, root / "s" / name)
    take.rename(root / "s" / "ep1")
    return root


@pytest.mark.real
def test_flash_and_beep_are_seen_and_heard_together(data: Path, tmp_path: Path) -> None:
    take = data / "s" / "ep1"
    slate_s = np.array(json.loads((take / "truth.json").read_text())["slate"]["times_s"])
    late = json.loads((take / "checks.json").read_text())["av_offset"]["offset_ms"]
    assert abs(late - LATE_MS) < 15
    lamp = lamp_of(take)
    with Browser(tmp_path / "profile") as browser, serving(data, "--reviewer", "Ann") as url:
        browser.call("Page.setBypassCSP", enabled=True)  # for the probe, which is no part of the page
        browser.view(1440, 900)
        browser.open(url)
        browser.until(f"{SHOWN} !== undefined", 40)
        browser.until("!!document.getElementById('cursor')", 30)
        beeps = beeps_of(url)
        # The slate's own times, and 3 m of air: what is played is what was recorded.
        assert np.abs(beeps - slate_s - LATE_MS / 1e3 - 0.005).max() < 0.006
        flashes = seen_without_playing(browser, lamp)
        print("flash after beep, ms, picture by picture:", np.round(1e3 * (flashes - beeps), 1))
        # A camera tells when something lit up to half a picture; 10 ms are for the offset that was measured.
        assert len(flashes) == 2 and np.abs(flashes - beeps).max() < 0.5 / FPS + 0.01
        browser.press("o")  # as recorded: the flash is early by what the take is off
        flashes = seen_without_playing(browser, lamp)
        assert np.abs(flashes - beeps + LATE_MS / 1e3).max() < 0.5 / FPS + 0.01
        browser.press("o")
        listen_and_look(browser, lamp)
        played = [while_playing(browser)]
        while played[-1].apart_s is None and len(played) < 4:
            played.append(while_playing(browser))
        assert [said for said in browser.complaints if "readback" not in said] == []
    if played[-1].apart_s is None:
        frames = ", ".join(f"{1e3 * one.longest_frame_s:.0f}" for one in played)
        pytest.skip(f"picture by picture they agree; while it plays frames of the screen took {frames} ms")
    print("flash after beep, ms, while it plays:", np.round(1e3 * played[-1].apart_s, 1))
    assert np.abs(played[-1].apart_s).max() < 1 / FPS


def state(browser: Browser, name: str) -> None:
    """Wait until an episode is open."""
    browser.until(f"document.title.startsWith('{name}') && !{LOADING}", 30)


@pytest.mark.real
def test_two_people_review_by_keyboard_and_blind(data: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    root = Path(shutil.copytree(data, tmp_path / "data"))
    episodes = [root / "s" / name for name in ("ep1", "ep2", "ep3")]
    with Browser(tmp_path / "profile") as browser, serving(root) as url:
        browser.view(1440, 900)
        browser.open(url)
        name_oneself(browser, "Ann")
        state(browser, "ep1")
        assert browser.evaluate("document.querySelector('h1').textContent") == "“stop <b>that</b>”"
        browser.press("a")
        state(browser, "ep2")
        browser.press("4")
        browser.press("1")
        assert browser.evaluate("document.getElementById('reasons').hidden") is False
        browser.press("Enter")
        state(browser, "ep3")
        browser.press("r")
        browser.press("Enter")  # no reason yet
        browser.until("document.getElementById('trouble').textContent.includes('reason')")
        browser.press("Escape")
        browser.press("a")
        browser.until("document.getElementById('progress-words').textContent === '3 reviewed, 0 to do'")
        assert [r.reasons for r in read_reviews(root / "s").reviews] == [(), ("sound", "sync"), ()]
        browser.until(f"!{LOADING}")
        fits(browser)

        browser.evaluate("document.getElementById('who').click()")
        name_oneself(browser, "Ben")
        browser.until("document.getElementById('progress-words').textContent.startsWith('0 reviewed')")
        browser.evaluate("void (location.hash = '#1')")
        state(browser, "ep2")
        assert browser.evaluate("document.getElementById('others').hidden")
        told = browser.evaluate("fetch('/api/episode/1?reviewer=Ben').then((a) => a.text())")
        assert "Ann" not in told and "sync" not in json.loads(told)["review"]["all"]
        assert json.loads(told)["review"]["row"]["reviews"] == 1
        browser.press("a")
        browser.until("document.getElementById('said').textContent.includes('disputed')")
        assert verdict(episodes[1]) == "disputed" and verdict(episodes[0]) == "open"
        browser.evaluate("(document.getElementById('only').value = 'disputed')")
        browser.evaluate("document.getElementById('only').dispatchEvent(new Event('change'))")
        browser.evaluate("document.querySelector('#list li button').click()")
        state(browser, "ep2")
        browser.until("document.getElementById('others').textContent.includes('Ann')")
        assert "Sound and pictures are apart" in browser.evaluate(
            "document.getElementById('others').textContent"
        )
        browser.press("s")
        browser.press("a")
        browser.until("document.getElementById('said').textContent.includes('accepted')")
        assert verdict(episodes[1]) == "accepted"
        last = json.loads((root / "s" / LOG).read_text().splitlines()[-1])
        assert last["settles"] is True and last["reviewer"] == "Ben"
        assert browser.complaints == []


def name_oneself(browser: Browser, name: str) -> None:
    browser.until("document.getElementById('name-dialog').open", 30)
    browser.evaluate(f"(document.getElementById('name').value = '{name}')")
    browser.evaluate("document.querySelector('#name-form button').click()")


def fits(browser: Browser) -> None:
    """Nothing sticks out at the sizes of a desktop and of tablets, and keys and buttons can be hit."""
    for width, height in ((1440, 900), (1024, 768), (768, 1024)):
        browser.view(width, height)
        browser.until("document.getElementById('picture').getBoundingClientRect().width > 200")
        assert browser.evaluate(WIDE) <= 0, (width, browser.evaluate(OVERFLOWING))
        assert browser.evaluate(OVERFLOWING) == [], width
    buttons = "['accept', 'reject', 'next', 'previous', 'play']"
    heights = browser.evaluate(f"{buttons}.map((id) => document.getElementById(id).offsetHeight)")
    assert min(heights) >= 43
    for dark in (True, False):
        browser.view(1440, 900, dark=dark)
        assert browser.evaluate(FAINT) == []
