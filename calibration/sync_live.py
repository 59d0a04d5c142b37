"""The guided form of `hearth calibrate sync`: flashes and beeps are counted while the rig looks and
listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.live_rig import follow
from calibration.sync import ENOUGH_EVENTS, LEAST_EVENTS
from calibration.sync_files import Material
from calibration.sync_light import find_flashes
from calibration.sync_setting import Sound
from calibration.sync_sound import find_chirps, find_tones
from dsp.errors import DeviceError

if TYPE_CHECKING:
    from capture.blocks import VideoFrame

LOOK_EVERY_S = 3.0
Blocks = list[tuple[int, int, NDArray[np.float32]]]


class SyncGuide:
    """Feed it pictures and sound as they come; it says what is missing and knows when there is enough.

    Not thread-safe: one thread calls. rate_hz: of the sound.
    """

    def __init__(self, rate_hz: int, say: Callable[[str], None], name: str = "live") -> None:
        self.rate_hz, self._say, self._name = rate_hz, say, name
        self.flashes = self.beeps = 0
        self._material = Material(name, Sound.of(np.zeros(0), rate_hz))
        self._blocks: Blocks = []
        self._next_s = LOOK_EVERY_S
        self._heard_s = 0.0
        self._said = ""

    @property
    def enough(self) -> bool:
        """Whether more events would add little."""
        return min(self.flashes, self.beeps) >= ENOUGH_EVENTS

    def add_frame(self, t_ns: int, image: NDArray[np.uint8]) -> None:
        """A picture, grey or BGR."""
        if self._material.log.times_ns and t_ns <= self._material.log.times_ns[-1]:
            return
        self._material.take([(t_ns, image)])

    def add_sound(self, t_ns: int, first_frame: int, samples: NDArray[Any]) -> None:
        """A block (frames, channels), int32 with full scale 2**31 or float; first_frame counts lost ones
        too."""
        mono = samples[:, 0].astype(np.float32)
        if samples.dtype == np.int32:
            mono *= np.float32(2.0**-31)
        self._blocks.append((t_ns, first_frame, mono))
        self._heard_s += len(mono) / self.rate_hz
        if self._heard_s >= self._next_s:
            self._next_s = self._heard_s + LOOK_EVERY_S
            self._look()

    def material(self) -> Material:
        """What was seen and heard so far."""
        if self._blocks:
            self._material.sound = self._sound()
            self._material.start_ns = int(self._material.sound.time_ns(0))
        return self._material

    def _sound(self) -> Sound:
        """All blocks as one, with zeros where some were lost, on the straight line that their stamps lie
        on."""
        base_ns, origin = self._blocks[0][:2]
        frames = np.array([first - origin for _, first, _ in self._blocks], np.float64)
        mono = np.zeros(int(frames[-1]) + len(self._blocks[-1][2]), np.float32)
        for _, first, samples in self._blocks:
            mono[first - origin : first - origin + len(samples)] = samples
        slope, level = 1e9 / self.rate_hz, 0.0
        if len(frames) > 10:
            slope, level = np.polyfit(
                frames, np.array([t - base_ns for t, _, _ in self._blocks], np.float64), 1
            )

        def time_ns(sample: ArrayLike) -> NDArray[np.int64]:
            return base_ns + np.round(level + slope * np.asarray(sample, np.float64)).astype(np.int64)

        return Sound(mono, 1e9 / float(slope), time_ns)

    def _look(self) -> None:
        log = self._material.log
        if len(log) < 12:
            return
        times = np.asarray(log.times_ns, np.int64)
        found = find_flashes(log, (times - times[0]) / 1e9)
        self.flashes = len(found)
        sound = self._sound()
        x = sound.samples.astype(np.float64)
        self.beeps = len(find_chirps(x, sound.rate_hz))
        if self.beeps < 0.5 * self.flashes:
            start = int(sound.time_ns(0))
            near = [flash.time_s + (int(times[0]) - start) / 1e9 for flash in found]
            self.beeps = max(self.beeps, len(find_tones(x, sound.rate_hz, near, 0.5)))
        advice = self.advice()
        if advice != self._said:
            self._said = advice
            self._say(f"{self.flashes} flashes, {self.beeps} beeps of {ENOUGH_EVENTS}; {advice}")

    def advice(self) -> str:
        """What to do next, in one line."""
        if self.enough:
            return "enough"
        if self.flashes == 0 and self.beeps == 0:
            return "start the page (--show) or the lamp: still, in the middle of the picture, near the mic"
        if self.flashes < 0.6 * self.beeps - 1:
            return "beeps are heard, no flashes seen: hold the light into the picture, nearer or brighter"
        if self.beeps < 0.6 * self.flashes - 1:
            return "flashes are seen, beeps are not heard: make it louder or bring it nearer"
        return f"go on, hold it still ({max(ENOUGH_EVENTS - min(self.flashes, self.beeps), 0)} to go)"


def run_live(rig_path: Any, seconds: float, say: Callable[[str], None]) -> Material:
    """Look and listen with the devices of a rig until there is enough, the time is up or Ctrl-C.

    Raises DeviceError when the rig has no camera, or nothing came.
    """
    import time

    from capture.blocks import AudioBlock
    from capture.rig import load_rig
    from capture.sources import open_rig

    with open_rig(load_rig(rig_path)) as rig:
        if rig.camera is None:
            raise DeviceError("the rig has no camera; name one in rig.yaml (`hearth init` finds it)")
        guide = SyncGuide(rig.audio_info.rate_hz, say)
        say(f"{ENOUGH_EVENTS} flashes with beeps are needed; {guide.advice()}")

        def take(item: AudioBlock | VideoFrame) -> None:
            if isinstance(item, AudioBlock):
                guide.add_sound(item.t_ns, item.first_frame, item.samples)
            elif "damaged" not in item.flags:
                guide.add_frame(item.t_ns, item.image)

        follow(
            rig,
            take,
            lambda: guide.enough,
            say,
            pictures=True,
            longest_s=seconds,
            too_slow="this computer is too slow: pictures or sound were lost; try a smaller picture",
            room=4000,
        )
    got = guide.material()
    if len(got.log) == 0 or len(got.sound.samples) == 0:
        raise DeviceError("no pictures or no sound came; look at both with `hearth doctor`")
    shift = time.time_ns() - time.monotonic_ns()
    got.utc_ns = lambda t_ns: t_ns + shift
    if min(guide.flashes, guide.beeps) < LEAST_EVENTS:
        say("that was too little")
    return got
