"""A virtual take with its slate on the page of a review: when its flash is seen and its beep heard."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import soundfile
from browser import Browser
from numpy.typing import NDArray

from capture.rig import DEFAULT_RIG, load_rig
from capture.sources import open_rig
from capture.take import new_profile, record

FPS = 15.0
SHOWN = "document.getElementById('picture').dataset.shown"
# The green of the picture where the slate's lamp is.
LAMP = """(() => {
  const context = document.getElementById("picture").getContext("2d");
  const spot = context.getImageData(LED_X - 3, LED_Y - 3, 7, 7).data;
  let green = 0;
  for (let i = 1; i < spot.length; i += 4) green += spot[i];
  return green / 49;
})()"""
# Jumps, and gives the number of the picture that is seen then, once it is drawn.
JUMP = """new Promise((resolve) => {
  const audio = document.getElementById("sound");
  const look = () => {
    const wanted = /· (\\d+) of/.exec(document.getElementById("picture-now").textContent)[1] - 1;
    if (String(wanted) === document.getElementById("picture").dataset.shown) resolve(String(wanted));
    else setTimeout(look, 5);
  };
  audio.addEventListener("seeked", () => setTimeout(look), { once: true });
  audio.currentTime = THERE;
})"""
# Notes each frame of the screen the lamp, and how loud each piece of sound is that leaves the element.
PROBE = """(async () => {
  const audio = document.getElementById("sound"), context = new AudioContext({ latencyHint: "interactive" });
  const code = `registerProcessor("tap", class extends AudioWorkletProcessor {
    process(inputs) {
      if (inputs[0][0]) this.port.postMessage([currentTime, Math.max(...inputs[0][0].map(Math.abs))]);
      return true;
    } });`;
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const source = context.createMediaElementSource(audio), tap = new AudioWorkletNode(context, "tap");
  window.heard = []; window.seen = [];
  tap.port.onmessage = (event) => window.heard.push(event.data);
  source.connect(tap); source.connect(context.destination);
  const look = (now) => { window.seen.push([now, audio.currentTime, LAMP]); requestAnimationFrame(look); };
  requestAnimationFrame(look);
  const now = () => context.getOutputTimestamp();
  window.stamp = () => [now().contextTime, now().performanceTime];
  await context.resume();
})()"""


@dataclass(frozen=True)
class WhilePlaying:
    """When the flashes were drawn and the beeps left the element, s of the page's clock; and the longest time
    between two frames of the screen meanwhile."""

    flash_s: NDArray[np.float64]
    beep_s: NDArray[np.float64]
    longest_frame_s: float

    @property
    def apart_s(self) -> NDArray[np.float64] | None:
        """Flash after beep; None where the screen was drawn too seldom to tell, or not all was seen."""
        told = self.longest_frame_s <= 1 / FPS and len(self.flash_s) == len(self.beep_s) == 2
        return self.flash_s - self.beep_s if told else None


def virtual_take(root: Path, late_ms: float, seconds: float) -> Path:
    """Record it as fast as this machine can; the sound is `late_ms` late. Two seconds hold both flashes."""
    rig = load_rig(DEFAULT_RIG)
    rig = msgspec.structs.replace(
        rig,
        virtual=msgspec.structs.replace(rig.virtual, seed=3, av_offset_ms=late_ms),
        microphone=msgspec.structs.replace(rig.microphone, pace="fast"),
        camera=msgspec.structs.replace(rig.camera, pace="fast"),
    )
    with open_rig(rig) as opened:
        profile = new_profile(rig, opened, "s", request="stop <b>that</b>")
        return record(rig, opened, profile, seconds=seconds, root=root).path


@contextmanager
def serving(data: Path, *options: str) -> Iterator[str]:
    """The address of the page, served by the command."""
    server = subprocess.Popen(
        [sys.executable, "-m", "hearth", "review", str(data), "--port", "0", "--json", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    try:
        assert server.stdout is not None
        yield str(json.loads(server.stdout.readline())["url"])
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 0


def onsets(times_s: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """When the level rises above half way between its floor and its peak, and had been below for 0.2 s."""
    above = levels > 0.5 * (np.median(levels) + levels.max())
    found: list[float] = []
    last = -np.inf
    for time, on in zip(times_s, above, strict=True):
        if on:
            if time - last > 0.2:
                found.append(float(time))
            last = time
    return np.array(found)


def beeps_of(url: str) -> NDArray[np.float64]:
    """When the beeps begin in the sound that the page plays, in s of that file."""
    with urllib.request.urlopen(f"{url}sound/0/w.wav") as answer:
        sound, rate = soundfile.read(io.BytesIO(answer.read()))
    step = rate // 1000
    levels = np.abs(sound[: 2 * rate // step * step]).reshape(-1, step).max(axis=1)
    return onsets(np.arange(len(levels)) / 1000, levels)


def lamp_of(episode: Path) -> str:
    """The expression that gives how bright the lamp of the slate is drawn."""
    left, top, wide, high = json.loads((episode / "truth.json").read_text())["slate"]["led_px"]
    return LAMP.replace("LED_X", str(left + wide // 2)).replace("LED_Y", str(top + high // 2))


def seen_without_playing(browser: Browser, lamp: str) -> NDArray[np.float64]:
    """Jump through the sound in steps of 5 ms where pictures change; when the lamp begins to be lit, s."""
    browser.press("Home")
    rows = []
    for number in range(20):  # 1.3 s of pictures, one after the other: which of them are lit
        browser.until(f"{SHOWN} === '{number}'", 30)
        rows.append(browser.evaluate(f"[document.getElementById('sound').currentTime, {lamp}]"))
        browser.press(".")
    times, levels = np.array(rows).T
    found = []
    for at in onsets(times, levels):
        number = int(np.flatnonzero(times == at)[0])
        jumps = np.arange(times[number - 1], at + 0.005, 0.005)
        jumps = jumps[::-1]  # backwards: the lit one first
        shown = [browser.evaluate(JUMP.replace("THERE", f"{jump:.4f}")) for jump in jumps]
        assert set(shown) == {str(number - 1), str(number)} and shown == sorted(shown, key=int, reverse=True)
        found.append(float(jumps[shown.count(str(number)) - 1]))
    return np.array(found)


def listen_and_look(browser: Browser, lamp: str) -> None:
    """Put the probe into the page, once; the page's security policy must be off (Page.setBypassCSP)."""
    browser.evaluate(PROBE.replace("LAMP", lamp))


def while_playing(browser: Browser) -> WhilePlaying:
    """Play from the beginning over both flashes."""
    browser.press("Home")
    browser.evaluate("(window.heard.length = window.seen.length = 0)")
    browser.press(" ")
    browser.until("document.getElementById('sound').currentTime >= 1.6", 60)
    browser.press(" ")
    # Context time -> time of the page: what is at `contextTime` comes out at `performanceTime`.
    context_s, page_ms = browser.evaluate("stamp()")
    seen = np.array(browser.evaluate("window.seen"), np.float64)
    starts, levels = np.array(browser.evaluate("window.heard"), np.float64).T
    moving = seen[(seen[:, 1] > 0.2) & (seen[:, 1] < 1.5), 0] / 1e3
    return WhilePlaying(
        onsets(seen[:, 0] / 1e3, seen[:, 2]),
        onsets(starts, levels) - context_s + page_ms / 1e3,
        float(np.diff(moving).max()) if len(moving) > 1 else np.inf,
    )
