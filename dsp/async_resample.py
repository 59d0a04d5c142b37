"""Resampling with a ratio that can be steered while it runs, to follow the drift between two clocks.

An interpolator at the input rate (windowed sinc, 512 phases with linear interpolation between them) reads at
the steered speed, and a fixed `Resampler` brings the result to the output rate. Where the output rate is half
the input rate the interpolator is short, because the resampler removes its images later.
Source: Smith and Gossett, "A flexible sampling-rate conversion method", ICASSP 1984.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dsp.arguments import sample_rate
from dsp.errors import InputError
from dsp.fir import PAIR, all_finite, append_frames, between, dots, drop_rows
from dsp.resample import OnNonfinite, Quality, Resampler, _as_frames

Array = NDArray[np.float32]
_PHASES = 512
_MAX_UP = 640
MAX_PPM = 1000.0
"""The furthest that the ratio may be steered from the nominal one."""


@njit(cache=True, nogil=True)
def _interpolate(block, line, table, place, clock, out):  # type: ignore[no-untyped-def]
    """Appends block to line and reads at clock's speed. Returns the frames written.

    line: (channels, size); place: [rows filled, row of the next output's first tap, steps left of a ramp];
    clock: [fraction, step, change of the step per output, step at the end of the ramp]; table: (phases + 1,
    taps), the last phase being the first one a row later.
    """
    frames, channels = block.shape
    size = line.shape[1]
    taps = table.shape[1]
    phases = table.shape[0] - 1
    filled, row, ramp = place[0], place[1], place[2]
    fraction, step, change = clock[0], clock[1], clock[2]
    x = block.reshape(-1)
    flat = line.reshape(-1)
    target = out.reshape(-1)
    bank = table.reshape(-1)
    weights = np.empty(taps, np.float32)
    read = 0
    written = 0
    while True:
        count = min(size - filled, frames - read)
        append_frames(x, read, count, channels, line, filled)
        filled += count
        read += count
        while row + taps <= filled:
            scaled = fraction * phases
            phase = int(scaled)
            between(bank, phase * taps, taps, np.float32(scaled - phase), weights)
            dots(flat, row, size, weights, 0, taps // PAIR, target, written * channels, channels)
            written += 1
            fraction += step
            whole = int(fraction)
            row += whole
            fraction -= whole
            if ramp > 0:
                ramp -= 1
                step = step + change if ramp > 0 else clock[3]
        drop = min(row, filled)
        drop_rows(line, drop, filled)
        row -= drop
        filled -= drop
        if read == frames:
            break
    place[0], place[1], place[2] = filled, row, ramp
    clock[0], clock[1] = fraction, step
    return written


def _table(fs_in: int, fs_out: int) -> Array:
    """(phases + 1, taps): row p holds the weights for a position p / phases after the middle tap."""
    passband = 11 / 12 * 0.5 * min(fs_in, fs_out) / fs_in
    width = 1.0 - 2.0 * passband
    attenuation = 112.0
    half = PAIR // 2 * ceil((attenuation - 7.95) / (2.285 * 2 * np.pi * width) / PAIR)
    beta = 0.1102 * (attenuation - 8.7)
    t = np.arange(_PHASES + 1)[:, None] / _PHASES + half - 1 - np.arange(2 * half)[None, :]
    inside = np.abs(t) < half
    window = np.i0(beta * np.sqrt(np.where(inside, 1 - (t / half) ** 2, 0.0))) / np.i0(beta)
    weights = np.where(inside, np.sinc(t) * window, 0.0)
    return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


class AsyncResampler:
    """fs_in -> fs_out for an input clock that runs `ppm` fast (positive) or slow, steered without clicks.

    With ppm = 100 the input delivers 100 parts per million more frames than its rate says; so many fewer come
    out. `steer` moves to a new value at once or along a straight line: the speed of reading changes, the
    place of reading never jumps, so that a tone stays without a click. Any pair of rates will do, 48000 ->
    47999 too. The result depends on when `steer` is called, counted in frames pushed, and not on how the
    frames are cut into blocks. The frames per push vary by one. Output frame m belongs to input time m /
    fs_out - delay_s (of the corrected clock). Not thread safe; the kernel runs without the GIL.

    Raises InputError for rates, channels, quality or ppm out of range.
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
        self.fs_in, self.fs_out, self.channels = sample_rate(fs_in), sample_rate(fs_out), channels
        # The fixed resampler makes the nearest ratio of small numbers, the interpolator what is left: nothing
        # for 48 and 44.1 kHz, some tenths of a per cent for rates that have none.
        near = Fraction(self.fs_out, self.fs_in).limit_denominator(_MAX_UP)
        scale = ceil(1000 / min(near.numerator, near.denominator))
        self._resampler = Resampler(
            near.denominator * scale, near.numerator * scale, channels, quality, on_nonfinite
        )
        self._nominal = float(Fraction(self.fs_in, self.fs_out) * near)
        self._table = _table(self.fs_in, self.fs_out)
        self._taps = self._table.shape[1]
        self._line = np.zeros((channels, self._taps + 4096), np.float32)
        self._place = np.zeros(3, np.int64)
        self._clock = np.array([0.0, self._nominal, 0.0, self._nominal])
        self._flag = on_nonfinite == "flag"
        self.nonfinite_samples = 0
        self.delay_s = self._taps // 2 / self.fs_in + self._resampler.delay_frames / self.fs_out
        self.reset()
        self.steer(ppm)

    @property
    def ppm(self) -> float:
        """What the ratio is corrected by now, in parts per million."""
        return float((self._clock[1] / self._nominal - 1.0) * 1e6)

    def steer(self, ppm: float, over_s: float = 0.0) -> None:
        """Go to `ppm` (within +-MAX_PPM) evenly over the next `over_s` seconds; else InputError."""
        if not (_is_number(ppm) and abs(ppm) <= MAX_PPM):
            raise InputError(f"ppm must be within +-{MAX_PPM:.0f}, not {ppm!r}")
        if not (_is_number(over_s) and 0.0 <= over_s <= 3600.0):
            raise InputError(f"over_s must be from 0 to 3600 s, not {over_s!r}")
        target = self._nominal * (1.0 + ppm * 1e-6)
        steps = round(over_s * self.fs_in)
        self._clock[3], self._place[2] = target, steps
        if steps == 0:
            self._clock[1], self._clock[2] = target, 0.0
        else:
            self._clock[2] = (target - self._clock[1]) / steps

    def push(self, block: Any) -> Array:
        """The next (frames, channels) in, the frames that are ready out."""
        x = _as_frames(block, self.channels)
        if not all_finite(x.reshape(-1)):
            wrong = ~np.isfinite(x)
            count = int(np.count_nonzero(wrong))
            if not self._flag:
                raise InputError(f"{count} samples are NaN or infinite; use on_nonfinite='flag' for silence")
            self.nonfinite_samples += count
            x = np.where(wrong, np.float32(0.0), x)
        return self._resampler.push(self._read(x))

    def _read(self, x: Array) -> Array:
        slowest = self._nominal * (1 - MAX_PPM * 1e-6)
        out = np.empty((int((len(x) + 1) / slowest) + 2, self.channels), np.float32)
        return out[: _interpolate(x, self._line, self._table, self._place, self._clock, out)]

    def flush(self) -> Array:
        """The end of the signal: what is still inside. Then all is as new, at the ppm where it stands.

        Every input frame has then come out: with N frames in at a constant ppm, all pushes and the flush give
        N * fs_out / fs_in / (1 + ppm * 1e-6) + delay_s * fs_out frames, to within one of rounding up.
        """
        rest = self._read(np.zeros((self._taps // 2, self.channels), np.float32))
        tail = np.concatenate([self._resampler.push(rest), self._resampler.flush()])
        self.reset()
        return tail

    def reset(self, start: float = 0.0) -> None:
        """Forget the past (not the ppm; a ramp ends where it stands).

        start: begin so many input frames later, 0 to 1000, a fraction too, so that the output falls on a grid
        of times: output frame m then belongs to input time m / fs_out - delay_s + start / fs_in.
        """
        if not (_is_number(start) and 0.0 <= start <= 1000.0):
            raise InputError(f"start must be from 0 to 1000 input frames, not {start!r}")
        self._line[:] = 0.0
        # Half a filter of silence before the first frame: output starts at once, late by a constant time.
        self._place[:] = self._taps - 1, int(start), 0
        self._clock[0], self._clock[2] = start - int(start), 0.0
        self._resampler.reset()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(np.isfinite(value))
