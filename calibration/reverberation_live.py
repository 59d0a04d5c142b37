"""The guided form of `hearth calibrate room rt60`: the rig's microphone is recorded while somebody plays the
sweep or pops balloons. Hearth plays nothing itself.

What was heard goes into a folder, one WAV for each sweep or pop, and the guide says how much range it has in
the octaves and what would help. The folder is then measured as files are, so that nothing of it is special.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.live_rig import RecentSound, follow, write_sound
from calibration.reverberation import Response, measure
from calibration.reverberation_decay import RANGE_NEEDED_DB
from calibration.reverberation_files import of_claps, of_sweeps
from calibration.reverberation_noise import Floats
from calibration.sweep import Sweep, find_sweeps
from dsp.errors import DeviceError, HearthError, InputError

AFTER_S = 3.0
"""How long is listened after a sweep or a pop."""

_POP_S = 0.4  # before a pop, for the noise


class RoomGuide:
    """Feed it blocks as they come; it writes what it hears and says what it is worth. One thread calls.

    sweep None: it listens for claps and pops. rate_hz, format_name ("" with one channel): of the microphone.
    """

    def __init__(
        self, folder: Path, sweep: Sweep | None, rate_hz: int, format_name: str, say: Callable[[str], None]
    ) -> None:
        from recordings.storage import storage_errors

        self.folder, self.sweep, self.rate_hz, self.format_name = folder, sweep, rate_hz, format_name
        self.taken: list[Path] = []
        self._say = say
        with storage_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
        self._number = len(list(folder.glob("*.wav")))
        self._recent = RecentSound(rate_hz)
        self._done_ns = -(1 << 62)
        self._length_s = 0.0 if sweep is None else sweep.seconds

    def add_sound(self, t_ns: int, samples: NDArray[np.int32]) -> None:
        """Frames (n, channels) int32 that begin at t_ns. A gap in time starts anew."""
        self._recent.add(t_ns, samples)
        if self._recent.due(self._length_s + AFTER_S + 0.5, 2 * self._length_s + AFTER_S + 4):
            self._look()

    def _omni(self, raw: NDArray[np.int32]) -> Floats:
        import dsp

        floats = raw.astype(np.float32) * np.float32(2.0**-31)
        if self.format_name:
            floats = dsp.convert(floats, source=self.format_name, target="ambix")
        return np.asarray(floats[:, 0], np.float64)

    def _look(self) -> None:
        start_ns, raw = self._recent.whole()
        w = self._omni(raw)
        if not w.any():
            return
        for start_s in self._starts(w):
            begin = start_ns + round(start_s * 1e9)
            # What is cut at the front, by a gap for one, would be found as well, but not right.
            if begin < self._done_ns or start_s < _POP_S:
                continue
            if start_s + self._length_s + AFTER_S > len(raw) / self.rate_hz:
                continue
            self._done_ns = begin + round((self._length_s + AFTER_S - 0.1) * 1e9)
            first = round(max(0.0, start_s - 1.0) * self.rate_hz)
            last = round((start_s + self._length_s + AFTER_S) * self.rate_hz)
            self._take(raw[first:last], w[first:last])

    def _starts(self, w: Floats) -> list[float]:
        if self.sweep is not None:
            return [float(s) for s in find_sweeps(w, self.sweep)]
        step = max(1, self.rate_hz // 200)
        whole = len(w) // step * step
        level = (np.diff(w, prepend=0.0)[:whole].reshape(-1, step) ** 2).mean(axis=1)
        loud = np.flatnonzero(level > 1e3 * max(float(np.median(level)), 1e-16))
        return [float(k * step / self.rate_hz) for k in loud[np.diff(loud, prepend=-1000) > 100]]

    def _take(self, raw: NDArray[np.int32], w: Floats) -> None:
        try:
            if self.sweep is not None:
                found: list[Response] = of_sweeps(w, self.rate_hz, self.sweep, "this")
            else:
                found = of_claps(w, self.rate_hz, "this")
            measured = measure(found[0])
        except InputError as error:
            self._say(f"that could not be used: {error}")
            return
        self._number += 1
        path = self.folder / f"{self._number:03d}.wav"
        write_sound(path, raw, self.rate_hz, "PCM_24")
        self.taken.append(path)
        self._say(f"{path.name}: {self._in_words(measured.decays[1:])}")
        for text in found[0].warnings:
            self._say(f"  {text}")

    def _in_words(self, decays: tuple[Any, ...]) -> str:
        enough = [d.band.name for d in decays if "t30" in d.values]
        some = [d.band.name for d in decays if "t30" not in d.values and "t20" in d.values]
        ranges = ", ".join(f"{d.band.name} {d.range_db:.0f}" for d in decays)
        if len(enough) == len(decays):
            return f"enough range for T30 in all octaves (dB: {ranges}); now another place"
        missing = RANGE_NEEDED_DB["t30"] - min(d.range_db for d in decays)
        louder = f"; {missing:.0f} dB more would fill all: louder, longer or quieter" if missing > 0 else ""
        return (
            f"T30 in {len(enough)}, T20 in {len(some)} more of {len(decays)} octaves (dB: {ranges}){louder}"
        )


def run_live(
    rig_path: Path | None,
    folder: Path,
    sweep: Sweep | None,
    places: int,
    seconds: float,
    say: Callable[[str], None],
) -> str:
    """Record with the rig's microphone until so many sweeps or pops were taken, the time is over or Ctrl-C.

    Gives the format of the sound. Raises DeviceError when the device ends, HearthError when
    nothing was heard.
    """
    from capture.rig import load_rig
    from capture.sources import open_rig

    with open_rig(load_rig(rig_path)) as rig:
        info = rig.audio_info
        if info.format == "array":
            raise InputError("the microphone is no first-order ambisonic one; record and use the files' form")
        heard = None if sweep is None else sweep.at(info.rate_hz)
        guide = RoomGuide(folder, heard, info.rate_hz, info.format, say)
        what = "pop a balloon or clap" if sweep is None else "play the sweep"
        say(f"{what}, be quiet for {AFTER_S:g} s after it, go to another place and again; Ctrl-C ends")
        ended = follow(
            rig,
            lambda block: guide.add_sound(block.t_ns, block.samples),  # type: ignore[union-attr]
            lambda: len(guide.taken) >= places,
            say,
            pictures=False,
            longest_s=seconds,
            too_slow="this computer is too slow: sound was lost; once more, please",
        )
    if ended is not None and not guide.taken:
        raise DeviceError(f"the microphone {ended.kind}: {ended.detail}")
    if not guide.taken:
        raise HearthError("nothing was heard that could be used; is it loud enough, is it the right sweep?")
    return info.format
