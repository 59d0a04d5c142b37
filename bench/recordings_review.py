"""The page of `hearth review`: are flash and beep together, and how long one waits for a list and an episode.

python -m bench.recordings_review

A take of the virtual room with its slate (two flashes of an LED with beeps), its sound 120 ms late, is played
in a headless Chromium. Flash: when the lamp is drawn bright; beep: when it leaves the audio element; both on
the page's own clock, and once more picture by picture without playing. The target is one picture (15 per
second). Then a folder with 300 copies of an episode is opened, 3 s after the command printed its address, and
anew: the time until its list stands there, and until the picture and the plots of the first episode do.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.figures import end_of_part, figure, not_measured, note, quick

REPOSITORY = Path(__file__).resolve().parents[1]
LATE_MS, FRAME_MS = 120.0, 1e3 / 15
EPISODES = 300
FIGURES = {
    "review_flash_after_beep_by_picture": ("ms", "<=", FRAME_MS),
    "review_flash_after_beep_playing": ("ms", "<=", FRAME_MS),
    "review_list_of_300_stands_after": ("s", "<=", 1.0),
    "review_picture_of_the_first_after": ("s", "<=", 1.5),
    "review_next_episode_after": ("s", "<=", 1.0),
}
ROWS = f"document.querySelectorAll('#list li').length === {EPISODES}"
PLOTS = "document.getElementById('plots').getAttribute('aria-busy') === 'false'"


def run(short: bool) -> None:
    """Measure and print every figure."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "real"))
    import browser

    if browser.CHROMIUM is None:
        for name, (unit, op, target) in FIGURES.items():
            not_measured(name, unit, op, target, "Chromium is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="hearth-review-") as folder:
        found = measure(Path(folder), tries=2 if short else 8)
    for name, (unit, op, target) in FIGURES.items():
        value = found[name]
        if np.isnan(value):
            not_measured(name, unit, op, target, "the screen was drawn too seldom: the machine is busy")
        else:
            figure(name, value, unit, op, target)


def measure(root: Path, tries: int) -> dict[str, float]:
    """The figures by name; the largest of all events and tries for the offsets, medians for the waits."""
    from browser import Browser
    from review_slate import (
        SHOWN,
        beeps_of,
        lamp_of,
        listen_and_look,
        seen_without_playing,
        serving,
        virtual_take,
        while_playing,
    )

    take = virtual_take(root / "one", LATE_MS, seconds=8.0)
    many = root / "many" / "s"
    for number in range(EPISODES):
        shutil.copytree(take, many / f"ep{number:04}", copy_function=os.link)
    with Browser(root / "profile") as browser:
        browser.view(1440, 900)
        with serving(root / "many", "--reviewer", "Ann") as url:
            time.sleep(3.0)  # until somebody has opened the address that the command printed
            lists, pictures, nexts = [], [], []
            for _ in range(tries):
                began = time.monotonic()
                browser.call("Page.navigate", url=url)
                browser.until(f"location.protocol === 'http:' && {ROWS}", 60)
                lists.append(time.monotonic() - began)
                browser.until(f"{SHOWN} !== undefined && {PLOTS}", 60)
                pictures.append(time.monotonic() - began)
                time.sleep(1.5)  # as long as anybody looks; the next one is prepared meanwhile
                began = time.monotonic()
                browser.press("n")
                browser.until(f"document.title.startsWith('ep0001') && {SHOWN} !== undefined && {PLOTS}", 60)
                nexts.append(time.monotonic() - began)
        with serving(root / "one", "--reviewer", "Ann") as url:
            browser.call("Page.setBypassCSP", enabled=True)  # for the probe, which is no part of the page
            browser.open(url)
            browser.until(f"{SHOWN} !== undefined && {PLOTS}", 60)
            lamp = lamp_of(take)
            still = seen_without_playing(browser, lamp) - beeps_of(url)
            listen_and_look(browser, lamp)
            played = [while_playing(browser) for _ in range(2 * tries)]
    told = [one.apart_s for one in played if one.apart_s is not None]
    note(f"flash after beep while it plays, ms: {[list(np.round(1e3 * apart, 1)) for apart in told]}")
    note(f"list {np.round(lists, 2)}, picture and plots {np.round(pictures, 2)}, next {np.round(nexts, 2)} s")
    playing = 1e3 * float(np.abs(told).max()) if told else np.nan
    return {
        "review_flash_after_beep_by_picture": 1e3 * float(np.abs(still).max()),
        "review_flash_after_beep_playing": playing,
        "review_list_of_300_stands_after": float(np.median(lists)),
        "review_picture_of_the_first_after": float(np.median(pictures)),
        "review_next_episode_after": float(np.median(nexts)),
    }


def main() -> int:
    """Print the figures; the exit code of the part."""
    run(quick())
    return end_of_part("recordings_review")


if __name__ == "__main__":
    sys.exit(main())
