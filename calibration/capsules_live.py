"""The guided form of `hearth calibrate capsules`: says where to put the loudspeaker, and hears when it is
done.

First a few seconds of quiet, then the six directions one after another. A direction is taken when a whole
sweep was heard, without clipping and clear of the noise; its sound goes into a folder as front.wav and so
on, which is then solved as any other (`capsules_files.from_folder`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.capsules_files import QUIET, SIX
from calibration.capsules_fit import LEAST_SNR_DB
from calibration.capsules_response import Direction, direct_sound, hear
from calibration.live_rig import RecentSound, follow, write_sound
from calibration.sweep import Sweep, find_sweeps
from dsp.errors import HearthError, InputError
from dsp.levels import levels
from dsp.sample_faults import clipped_samples

QUIET_S = 5.0
_WHERE = {
    "front": "in front of the microphone",
    "back": "behind the microphone",
    "left": "to its left, as seen from behind it",
    "right": "to its right",
    "up": "straight above it",
    "down": "straight below it",
}


class CapsuleGuide:
    """Feed it blocks of sound as they come; it writes directions and says what to do next. done: all are
    taken.

    rate_hz and format_name of the microphone. Not thread-safe: one thread calls.
    """

    def __init__(
        self, folder: Path, sweep: Sweep, rate_hz: int, format_name: str, say: Callable[[str], None]
    ) -> None:
        from recordings.storage import storage_errors

        self.folder, self.sweep, self.rate_hz, self.format_name = folder, sweep, rate_hz, format_name
        self._say = say
        with storage_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
        self.missing = [name for name in SIX if not (folder / f"{name}.wav").is_file()]
        self._quiet = not (folder / f"{QUIET}.wav").is_file()
        self._recent = RecentSound(rate_hz)
        self._done_ns = -(1 << 62)

    @property
    def done(self) -> bool:
        return not self.missing and not self._quiet

    def next_step(self) -> str:
        """What to do now."""
        if self._quiet:
            return f"be quiet for {QUIET_S:.0f} s: the noise of the microphone is measured"
        if not self.missing:
            return "all directions are taken"
        name = self.missing[0]
        return (
            f"put the loudspeaker {_WHERE[name]}, about 1 m away, aimed at it, 0.5 m or more from walls and"
            f" floor, and play the sweep ({name}, {len(SIX) - len(self.missing) + 1} of {len(SIX)})"
        )

    def add_sound(self, t_ns: int, samples: NDArray[np.int32]) -> None:
        """Frames (n, 4) int32 that begin at t_ns. A gap in time starts anew: a sweep must be whole."""
        self._recent.add(t_ns, samples)
        if self._quiet:
            if self._recent.seconds >= QUIET_S:
                self._take_quiet()
        elif self._recent.due(self.sweep.seconds + 0.4, 2 * self.sweep.seconds + 2.5):
            self._look_for_sweep()

    def _take_quiet(self) -> None:
        _, raw = self._recent.whole()
        write_sound(self.folder / f"{QUIET}.wav", raw, self.rate_hz, "PCM_24")
        self._quiet = False
        self._recent.clear()
        loud = levels(raw.astype(np.float32) * np.float32(2.0**-31)).rms_dbfs.max()
        self._say(f"quiet taken ({loud:.0f} dBFS); {self.next_step()}")

    def _look_for_sweep(self) -> None:
        start_ns, raw = self._recent.whole()
        x = raw.astype(np.float32) * np.float32(2.0**-31)
        loudest = x[:, int(np.argmax(np.einsum("ij,ij->j", x, x)))]
        for start_s in find_sweeps(loudest, self.sweep):
            begin = start_ns + round(float(start_s) * 1e9)
            if begin < self._done_ns or start_s < 0.1:
                continue
            if start_s + self.sweep.seconds + 0.2 > len(raw) / self.rate_hz:
                continue
            self._done_ns = begin + round(self.sweep.seconds * 1e9)
            first = max(0, round((start_s - 0.15) * self.rate_hz))
            last = round((start_s + self.sweep.seconds + 0.2) * self.rate_hz)
            self._take(raw[first:last], x[first:last], float(start_s) - first / self.rate_hz)
            if not self.missing:
                return

    def _take(self, raw: NDArray[np.int32], x: NDArray[np.float32], start_s: float) -> None:
        from calibration.capsules_files import sweep_response

        measured = levels(x)
        peak = float(measured.peak_dbfs.max())
        if clipped_samples(x):
            self._say(f"that clipped ({peak:.0f} dBFS): play softer or lower the gain, and play it again")
            return
        name = self.missing[0]
        azimuth, elevation = SIX[name]
        response = sweep_response(x, start_s, self.sweep)
        direction = Direction(name, azimuth, elevation, response, self.rate_hz)
        heard = hear([direction], [direct_sound(direction)], "b_format")
        snr = float(heard.snr_db[0])
        if snr < LEAST_SNR_DB:
            self._say(f"heard, but only {snr:.0f} dB above the noise: play louder or come nearer, and repeat")
            return
        write_sound(self.folder / f"{name}.wav", raw, self.rate_hz, "PCM_24")
        self.missing.pop(0)
        self._say(f"{name} taken (peak {peak:.0f} dBFS, SNR {snr:.0f} dB); {self.next_step()}")


def run_live(
    rig_path: Path | None,
    folder: Path,
    sweep: Sweep,
    say: Callable[[str], None],
    longest_s: float = 1800.0,
) -> str:
    """Take the directions with the microphone of a rig until all are there, the time is over or Ctrl-C; gives
    the format of the sound. Raises DeviceError when a device ends, HearthError when nothing was taken."""
    from capture.rig import load_rig
    from capture.sources import open_rig

    with open_rig(load_rig(rig_path)) as rig:
        info = rig.audio_info
        if info.format == "array":
            raise InputError(
                "the microphone is no first-order ambisonic one: it has no capsules to calibrate"
            )
        guide = CapsuleGuide(folder, sweep.at(info.rate_hz), info.rate_hz, info.format, say)
        say(guide.next_step())
        follow(
            rig,
            lambda block: guide.add_sound(block.t_ns, block.samples),  # type: ignore[union-attr]
            lambda: guide.done,
            say,
            pictures=False,
            longest_s=longest_s,
            too_slow="this computer is too slow: sound was lost; play the sweep again",
        )
    if len(guide.missing) == len(SIX):
        raise HearthError("no direction was taken; was the sweep loud enough, and the right one (--sweep)?")
    return info.format
