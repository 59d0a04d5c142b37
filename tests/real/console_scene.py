"""A moving source whose place at each moment is known, and where the console's page draws it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import soundfile
from browser import Browser
from numpy.typing import NDArray

import dsp
from capture.blocks import monotonic_ns
from capture.rig import Rig, parse_rig
from recordings.mjpeg_matroska import MjpegMatroska

RATE = 48000
WIDEST_DEG, SWEEP_S = 38.0, 2.0  # from one side to the other and back
SPEED = 2 * WIDEST_DEG / SWEEP_S
HFOV_DEG = 90.0

# Notes each frame of the screen where the mark of the direction stands, on the browser's own clock.
PROBE = """(() => {
  const mark = document.getElementById("doa-mark");
  window.seen = [];
  const look = () => {
    if (mark.getAttribute("visibility") === "visible" && mark.dataset.inside === "true")
      window.seen.push([performance.now(), Number(mark.dataset.x)]);
    if (window.seen.length < 20000) requestAnimationFrame(look);
  };
  look();
})()"""


def azimuth_deg(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the source is: to and fro between the two sides, at an even speed."""
    phase = np.asarray(seconds, np.float64) / SWEEP_S % 2.0
    return WIDEST_DEG * (1.0 - 2.0 * np.abs(phase - 1.0))


def make_rig(folder: Path, seconds: float, size: tuple[int, int] = (640, 360), fps: int = 15) -> Rig:
    """Files with the source's sound and pictures of a disc that moves with it, and a rig of them."""
    rng = np.random.default_rng(1)
    times = np.arange(round(seconds * RATE)) / RATE
    foa = dsp.encode(0.1 * rng.standard_normal(len(times)), azimuth_deg(times), np.zeros(len(times)))
    foa += 3e-4 * rng.standard_normal(foa.shape).astype(np.float32)
    soundfile.write(folder / "sound.wav", foa, RATE, subtype="PCM_24")
    width, height = size
    still = np.full((height, width, 3), 90, np.uint8)
    still += rng.integers(0, 40, (height // 4, width // 4, 3), np.uint8).repeat(4, 0).repeat(4, 1)
    file = MjpegMatroska(folder / "pictures.mkv", width, height, fps)
    for number in range(round(seconds * fps)):
        picture = still.copy()
        aside = 0.5 - 0.5 * np.tan(np.radians(azimuth_deg(np.array(number / fps))))  # hfov: 90 degrees
        cv2.circle(picture, (round(float(aside) * width), height // 2), width // 24, (40, 60, 230), -1)
        file.write(cv2.imencode(".jpg", picture)[1].tobytes(), number * 1_000_000_000 // fps)
    file.close()
    video = folder / "pictures.mkv"
    return parse_rig(f"""
hearth_rig: 1
name: living room
microphone: {{source: file, file: {folder / "sound.wav"}, position_m: [2.6, 1.0, 1.2], yaw_deg: 90}}
camera:
  {{source: file, file: {video}, width_px: {width}, height_px: {height}, hfov_deg: {HFOV_DEG}}}
room:
  devices: [{{id: fan_1, type: fan, name: standing fan, position_m: [1, 3, 1]}}]
storage: {{folder: {folder / "data"}, min_free_mib: 10}}
endpoints: {{stream: "tcp://127.0.0.1:0", commands: "tcp://127.0.0.1:0", console: "127.0.0.1:0"}}
""")


@dataclass
class Drawn:
    """Where the mark was on the screen. times_s: on CLOCK_MONOTONIC, seconds; azimuth_deg: by its place."""

    times_s: NDArray[np.float64]
    azimuth_deg: NDArray[np.float64]

    def lag_s(self, start_ns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How long before each frame of the screen the source was where the page shows it: (times, lags).

        Only where it moved one way for the last 0.6 s, so that the place tells the time.
        """
        since = self.times_s - start_ns / 1e9
        into = since % SWEEP_S
        one_way = into > 0.6
        rightward = (since // SWEEP_S % 2) == 1
        speed = np.where(rightward, -SPEED, SPEED)
        lag = (azimuth_deg(since) - self.azimuth_deg) / speed
        return self.times_s[one_way], lag[one_way]


def collect(browser: Browser) -> Drawn:
    """What PROBE has noted. The browser's clock is compared with ours: the quickest of 20 answers counts."""
    pairs = []
    for _ in range(20):
        before = monotonic_ns()
        there_ms = browser.evaluate("performance.now()")
        after = monotonic_ns()
        pairs.append((after - before, (before + after) / 2e9 - there_ms / 1e3))
        time.sleep(0.01)
    offset_s = min(pairs)[1]
    seen = np.array(browser.evaluate("window.seen.splice(0)"), np.float64).reshape(-1, 2)
    tangent = (0.5 - seen[:, 1]) * 2 * np.tan(np.radians(HFOV_DEG / 2))
    return Drawn(seen[:, 0] / 1e3 + offset_s, np.degrees(np.arctan(tangent)))
