"""The page of `hearth calibrate sync --show` in a real browser: it flashes and beeps together, as it says."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from calibration.sync_sound import find_chirps
from tests.real.chromium_pipe import CHROMIUM, Browser

# Writes down every sample that goes to the loudspeaker with its time in the audio context.
TAP = """(async () => {
  audio = new AudioContext({ latencyHint: "interactive" });
  const code = `registerProcessor("tap", class extends AudioWorkletProcessor {
    process(inputs) { this.port.postMessage([currentTime, inputs[0][0] ? Array.from(inputs[0][0]) : []]);
                      return true; } });`;
  await audio.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const tap = new AudioWorkletNode(audio, "tap");
  window.heard = [];
  tap.port.onmessage = (event) => { if (event.data[1].some((v) => v !== 0)) window.heard.push(event.data); };
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target === audio.destination) connect.call(this, tap);
    return connect.call(this, target, ...rest);
  };
  connect.call(tap, audio.destination);
  window.litAt = []; window.darkAt = [];
  new MutationObserver(() => {
    const lit = document.body.classList.contains("lit");
    const list = lit ? window.litAt : window.darkAt;
    if (lit || window.darkAt.length < window.litAt.length) list.push(performance.now());
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  return audio.sampleRate;
})()"""


@pytest.fixture
def page() -> Iterator[str]:
    """The address of the page, served by the command."""
    server = subprocess.Popen(
        [sys.executable, "-m", "hearth", "calibrate", "sync", "--show", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    try:
        assert server.stdout is not None
        found = json.loads(server.stdout.readline())
        yield found["urls"][0]
    finally:
        server.terminate()
        server.wait(10)


@pytest.mark.real
def test_flash_and_beep_are_shown_and_played_together(page: str, tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with Browser(tmp_path / "profile") as browser:
        browser.call("Page.setBypassCSP", enabled=True)  # for the tap, which is no part of the page
        browser.call("Page.navigate", url=page)
        browser.wait_for("document.readyState === 'complete' && typeof run === 'function'", 20)
        rate = browser.run(TAP)
        dark = _brightness(browser)
        browser.run("document.getElementById('go').click()")
        browser.wait_for("document.body.classList.contains('lit')", 20)
        browser.wait_for("log.length >= 5", 30)
        # A flash lasts for a sixth of a second: look until one is caught.
        brightest = max(_brightness(browser) for _ in range(40))
        log = browser.run("log")
        lit_at = browser.run("window.litAt")
        pieces = browser.run("window.heard")
        zero_ms = browser.run("heardAt(0)")  # when context time 0 was heard, in ms of performance.now()
        browser.run("document.getElementById('go').click()")
        browser.wait_for("!document.body.classList.contains('running')", 20)
    assert dark < 30 and brightest > 150
    begin = pieces[0][0]
    sound = np.zeros(round((pieces[-1][0] - begin + 1.0) * rate))
    for start, samples in pieces:
        at = round((start - begin) * rate)
        sound[at : at + len(samples)] = samples
    chirps = np.array([beep.time_s for beep in find_chirps(sound, float(rate))])
    assert len(chirps) >= len(log)
    played_ms = 1e3 * (chirps[: len(log)] + begin) + zero_ms
    flash = np.array([entry["flash"] for entry in log])
    beep = np.array([entry["beep"] for entry in log])
    step = log[0]["refresh"]
    # What the page writes down is what was played, and when the class changed (one frame before it is seen).
    drawn = np.array(lit_at[: len(log)]) + step
    assert np.median(np.abs(played_ms - beep)) < 4.0
    assert np.median(np.abs(drawn - flash)) < step
    # Together: the beep meets the frame of the flash. A browser's clocks wander by a few ms under load.
    assert np.median(np.abs(beep - flash)) < 8.0
    spacing = np.diff(flash)
    assert spacing.min() > 880 and spacing.max() < 2200 and np.ptp(spacing) > 100  # unequal, as they must be
    length = np.array([entry["flashEnd"] - entry["flash"] for entry in log])
    assert abs(np.median(length) - 150) < 25


def _brightness(browser: Browser) -> float:
    """Grey level of the page's upper right corner, where no text is."""
    import cv2

    data = browser.call("Page.captureScreenshot", format="png")["data"]
    image = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    return float(image[20:80, -80:-20].mean())
