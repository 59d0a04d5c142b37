"""Resampling with a ratio that can be steered while it runs, to follow the drift between two clocks.

An interpolator at the input rate (windowed sinc, 512 phases with linear interpolation between them) reads at
the steered speed, and a fixed `Resampler` brings the result to the output rate. Where the output rate is half
the input rate the interpolator is short, because the resampler removes its images later.
Source: Smith and Gossett, "A flexible sampling-rate conversion method", ICASSP 1984.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dsp.errors import InputError
from dsp.resample import OnNonfinite, Quality, Resampler, _as_frames

Array = NDArray[np.float32]
_PHASES = 512
MAX_PPM = 1000.0


@njit(cache=True, nogil=True)
def _interpolate(block, line, table, place, clock, out):  # type: ignore[no-untyped-def]
    """Appends block to line and reads at clock's speed. Returns the frames written.

    line: (size, channels); place: [rows filled, row of the next output's first tap, steps left of a ramp];
    clock: [fraction, step, change of the step per output]; table: (phases + 1, taps).
    """
    taps = table.shape[1]
    phases = table.shape[0] - 1
    channels = block.shape[1]
    filled, row, ramp = place[0], place[1], place[2]
    fraction, step, change = clock[0], clock[1], clock[2]
    read = 0
    written = 0
    weights = np.empty(taps, np.float32)
    while True:
        count = min(line.shape[0] - filled, block.shape[0] - read)
        for i in range(count):
            for c in range(channels):
                line[filled + i, c] = block[read + i, c]
        filled += count
        read += count
        while row + taps <= filled:
            scaled = fraction * phases
            phase = int(scaled)
            between = np.float32(scaled - phase)
            for k in range(taps):
                weights[k] = table[phase, k] + between * (table[phase + 1, k] - table[phase, k])
            for c in range(channels):
                total = np.float32(0.0)
                for k in range(taps):
                    total += weights[k] * line[row + k, c]
                out[written, c] = total
            written += 1
            fraction += step
            whole = int(fraction)
            row += whole
            fraction -= whole
            if ramp > 0:
                step += change
                ramp -= 1
        keep = max(0, filled - row)
        for i in range(keep):
            for c in range(channels):
                line[i, c] = line[filled - keep + i, c]
        row -= filled - keep
        filled = keep
        if read == block.shape[0]:
            break
    place[0], place[1], place[2] = filled, row, ramp
    clock[0], clock[1] = fraction, step
    return written


def _table(fs_in: int, fs_out: int) -> Array:
    """(phases + 1, taps): row p holds the weights for a position p / phases after the middle tap."""
    passband = 11 / 12 * 0.5 * min(fs_in, fs_out) / fs_in
    width = 1.0 - 2.0 * passband
    attenuation = 112.0
    half = 4 * ceil((attenuation - 7.95) / (2.285 * 2 * np.pi * width) / 8)
    beta = 0.1102 * (attenuation - 8.7)
    t = np.arange(_PHASES + 1)[:, None] / _PHASES + half - 1 - np.arange(2 * half)[None, :]
    inside = np.abs(t) < half
    window = np.i0(beta * np.sqrt(np.where(inside, 1 - (t / half) ** 2, 0.0))) / np.i0(beta)
    weights = np.where(inside, np.sinc(t) * window, 0.0)
    return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


class AsyncResampler:
    """fs_in -> fs_out for an input clock that runs `ppm` fast (positive) or slow, steered without clicks.

    With ppm = 100 the input delivers 100 parts per million more frames than its rate says; so many fewer come
    out. `steer` moves to a new value along a straight line. The result depends on when it is called, counted
    in frames pushed, and not on how the frames are cut into blocks. The frames per push vary by one.
    """

    def __init__(
        self,
        fs_in: int,
        fs_out: int,
        channels: int,
        ppm: float = 0.0,
        quality: Quality = "standard",
        on_nonfinite: OnNonfinite = "raise",
    ):
        self._resampler = Resampler(fs_in, fs_out, channels, quality, on_nonfinite)
        self.fs_in, self.fs_out, self.channels = self._resampler.fs_in, self._resampler.fs_out, channels
        self._flag = on_nonfinite == "flag"
        self._table = _table(self.fs_in, self.fs_out)
        taps = self._table.shape[1]
        self._line = np.zeros((taps + 4096, channels), np.float32)
        # Half a filter of silence before the first frame: output starts at once, late by a constant time.
        self._place = np.array([taps - 1, 0, 0], np.int64)
        self._clock = np.array([0.0, 1.0, 0.0])
        self.delay_s = (taps // 2) / self.fs_in + self._resampler.delay_s
        self.nonfinite_samples = 0
        self.steer(ppm)

    @property
    def ppm(self) -> float:
        """What the ratio is corrected by now, in parts per million."""
        return float((self._clock[1] - 1.0) * 1e6)

    def steer(self, ppm: float, over_s: float = 0.0) -> None:
        """Go to `ppm` (within +-MAX_PPM) evenly over the next `over_s` seconds. Raises InputError."""
        if not (np.isfinite(ppm) and abs(ppm) <= MAX_PPM):
            raise InputError(f"ppm must be within +-{MAX_PPM:.0f}, not {ppm!r}")
        if not 0.0 <= over_s <= 3600.0:
            raise InputError(f"over_s must be from 0 to 3600 s, not {over_s!r}")
        target = 1.0 + ppm * 1e-6
        steps = round(over_s * self.fs_in)
        if steps == 0:
            self._clock[1], self._clock[2], self._place[2] = target, 0.0, 0
        else:
            self._clock[2], self._place[2] = (target - self._clock[1]) / steps, steps

    def push(self, block: Any) -> Array:
        """The next (frames, channels) in, the frames that are ready out."""
        x = _as_frames(block, self.channels)
        wrong = ~np.isfinite(x)
        if wrong.any():
            count = int(np.count_nonzero(wrong))
            if not self._flag:
                raise InputError(f"{count} samples are NaN or infinite; use on_nonfinite='flag' for silence")
            self.nonfinite_samples += count
            x = np.where(wrong, np.float32(0.0), x)
        out = np.empty((int(len(x) * (1 + 2e-6 * MAX_PPM)) + 4, self.channels), np.float32)
        rows = _interpolate(x, self._line, self._table, self._place, self._clock, out)
        return self._resampler.push(out[:rows])
