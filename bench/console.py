"""The console: how late its page draws a moving source, and what serving it costs.

python -m bench.console

A file microphone plays a source that swings between 38 degrees left and right at 38 degrees/s (encoded as a
plane wave, so its place at each moment is known), a file camera 1280x720 JPEGs at 30 fps. A headless Chromium
shows the page; where it draws the mark is read for each frame of the screen and compared with where the
source was: the lag is the age of that place. It holds what the direction itself is late (its estimate is
smoothed, about 100 ms, and stands for the middle of its window, 50 ms) and up to 100 ms until the next one.
CPU is that of the console's process, with one page and with none.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import end_of_part, figure, not_measured, note, quick

REPOSITORY = Path(__file__).resolve().parents[1]
LIGHT = "document.documentElement.dataset.light"
SHOWN = "Number(document.getElementById('picture').dataset.shown)"
FIGURES = {
    "console_moving_source_drawn_late_p95": ("ms", "<=", 300.0),
    "console_picture_age_on_screen_p50": ("ms", "<=", 300.0),
    "console_cpu_one_page_720p30": ("% of a core", "<=", 10.0),
    "console_cpu_no_page": ("% of a core", "<=", 2.0),
    "console_memory_growth": ("MiB", "<=", 5.0),
}


def run(short: bool) -> None:
    """Measure and print every figure."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "real"))
    import browser

    if browser.CHROMIUM is None:
        for name, (unit, op, target) in FIGURES.items():
            not_measured(name, unit, op, target, "Chromium is not installed")
        return
    found = measure(8.0 if short else 60.0)
    for name, (unit, op, target) in FIGURES.items():
        figure(name, found[name], unit, op, target)


def measure(seconds: float) -> dict[str, float]:
    """The figures by name; seconds: how long the page is watched."""
    from browser import Browser
    from console_scene import PROBE, collect, make_rig

    from capture.sources import open_rig
    from edge.console.process import serving
    from edge.live import LiveService

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rig = make_rig(folder, seconds + 45, size=(1280, 720), fps=30)
        with (
            Browser(folder / "profile") as page,
            open_rig(rig) as opened,
            LiveService(rig, opened) as service,
            serving("127.0.0.1:0", service, note) as console,
        ):
            assert console is not None
            page.view(1280, 900)
            page.open(console.url)
            page.until(f"{LIGHT} === 'off'", 40)
            page.evaluate(PROBE)
            service.start()
            page.until(f"window.seen.length > 0 && {SHOWN} > 3", 40)
            time.sleep(2.0)
            start_ns: Any = opened.microphone.start_ns  # type: ignore[attr-defined]
            collect(page)
            ages, lags = [], []
            shown, used, memory = page.evaluate(SHOWN), cpu_s(console.pid), rss_mib(console.pid)
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                time.sleep(1.0)
                lags.append(collect(page).lag_s(start_ns)[1])
                text = page.evaluate("document.getElementById('picture-age').textContent")
                ages.append(float(text.split()[0]) if text else np.nan)
            took = time.monotonic() - began
            busy = 100 * (cpu_s(console.pid) - used) / took
            grown = rss_mib(console.pid) - memory
            rate = (page.evaluate(SHOWN) - shown) / took
            page.call("Page.navigate", url="about:blank")  # the page is left
            time.sleep(7.0)
            used, began = cpu_s(console.pid), time.monotonic()
            time.sleep(4.0)
            idle = 100 * (cpu_s(console.pid) - used) / (time.monotonic() - began)
    lag = np.concatenate(lags) * 1e3
    low, middle = np.percentile(lag, [5, 50])
    note(f"drawn late: p5 {low:.0f}, p50 {middle:.0f} ms; {rate:.1f} pictures/s drawn")
    return {
        "console_moving_source_drawn_late_p95": float(np.percentile(lag, 95)),
        "console_picture_age_on_screen_p50": float(np.nanmedian(ages)),
        "console_cpu_one_page_720p30": busy,
        "console_cpu_no_page": idle,
        "console_memory_growth": grown,
    }


def cpu_s(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main() -> None:
    """`python -m bench.console`"""
    run(quick())
    end_of_part("console")


if __name__ == "__main__":
    main()
