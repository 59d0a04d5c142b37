"""Short-time spectra of several channels, frame by frame, in one Numba kernel.

Two real channels share one complex transform, and all transforms of a row run side by side so that the
inner loop is contiguous. A row always goes through the same arithmetic, however the samples arrived;
this is what makes the streaming estimators equal to the offline ones bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp.errors import InputError

F32 = npt.NDArray[np.float32]

_FAST = {"contract", "reassoc", "nsz", "arcp"}  # not nnan/ninf: a NaN must stay one


@dataclass(frozen=True)
class StftPlan:
    """Sizes and tables of a short-time transform with a Hann window.

    A row is 100 ms in `frames_per_row` hops (about that many: the hops must fill the row exactly). A frame
    ends where its hop ends, so a row needs only `history` samples from before it and none from after it.
    """

    fs: int
    low_hz: float
    high_hz: float
    frames_per_row: int = 10
    window_s: float = 512 / 24000
    n_fft: int = field(init=False)
    hop: int = field(init=False)
    first_bin: int = field(init=False)
    bins: int = field(init=False)
    window: F32 = field(init=False, repr=False)
    twiddle: F32 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 8000 <= self.fs <= 192000:
            raise InputError(f"sample rate {self.fs} Hz is outside 8000..192000 Hz; resample first")
        put = object.__setattr__
        row = round(self.fs / 10)
        wanted = self.frames_per_row
        frames = min((n for n in range(1, row + 1) if row % n == 0), key=lambda n: abs(n - wanted))
        put(self, "frames_per_row", frames)
        put(self, "hop", row // frames)
        n_fft = 1 << round(np.log2(self.fs * self.window_s))
        while n_fft < self.hop:
            n_fft *= 2
        put(self, "n_fft", n_fft)
        first = max(1, int(np.ceil(self.low_hz * self.n_fft / self.fs)))
        last = min(self.n_fft // 2 - 1, int(np.floor(self.high_hz * self.n_fft / self.fs)))
        if last - first < 2:
            raise InputError(
                f"the band {self.low_hz:g}..{self.high_hz:g} Hz holds too few bins at {self.fs} Hz; "
                "use a higher sample rate"
            )
        put(self, "first_bin", first)
        put(self, "bins", last - first + 1)
        n = np.arange(self.n_fft)
        put(self, "window", (0.5 - 0.5 * np.cos(2 * np.pi * (n + 0.5) / self.n_fft)).astype(np.float32))
        angle = -2 * np.pi * n[: self.n_fft // 2] / self.n_fft
        put(self, "twiddle", np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32))

    @property
    def row(self) -> int:
        """Samples per row (100 ms)."""
        return self.hop * self.frames_per_row

    @property
    def history(self) -> int:
        """Samples from before the row that its first frames reach back to."""
        return self.n_fft - self.hop

    @property
    def frequencies_hz(self) -> npt.NDArray[np.float64]:
        """Centre frequency of each kept bin, shape (bins,)."""
        return (self.first_bin + np.arange(self.bins)) * self.fs / self.n_fft


@njit(nogil=True, cache=True, fastmath=_FAST)
def _transform(
    a_re: F32, a_im: F32, b_re: F32, b_im: F32, twiddle: F32
) -> tuple[F32, F32]:  # pragma: no cover - compiled
    """Stockham radix-2 transform of many columns at once; arrays (n_fft, columns). Returns the buffers
    that hold the result. (C. Van Loan, Computational Frameworks for the FFT, SIAM 1992, section 1.7.)"""
    size, columns = a_re.shape
    n = size
    s = 1
    while n > 1:
        m = n // 2
        for p in range(m):
            w_re = twiddle[0, p * s]
            w_im = twiddle[1, p * s]
            for q in range(s):
                i, j = q + s * p, q + s * (p + m)
                k = q + s * 2 * p
                for c in range(columns):
                    u_re, u_im = a_re[i, c], a_im[i, c]
                    v_re, v_im = a_re[j, c], a_im[j, c]
                    b_re[k, c] = u_re + v_re
                    b_im[k, c] = u_im + v_im
                    d_re = u_re - v_re
                    d_im = u_im - v_im
                    b_re[k + s, c] = d_re * w_re - d_im * w_im
                    b_im[k + s, c] = d_re * w_im + d_im * w_re
        a_re, b_re = b_re, a_re
        a_im, b_im = b_im, a_im
        n = m
        s *= 2
    return a_re, a_im


@njit(nogil=True, cache=True, fastmath=_FAST)
def row_spectra(
    x: F32, hop: int, frames: int, first_bin: int, bins: int, window: F32, twiddle: F32, work: F32, out: F32
) -> None:  # pragma: no cover - compiled
    """Spectra of one row.

    x: (history + row, channels); work: (4, n_fft, frames * pairs); out: (frames, channels, 2, bins), where
    axis 2 is real and imaginary part. An odd channel count leaves the last pair half empty.
    """
    size = window.size
    channels = x.shape[1]
    pairs = (channels + 1) // 2
    a_re, a_im = work[0], work[1]
    for f in range(frames):
        for p in range(pairs):
            c = f * pairs + p
            for n in range(size):
                g = window[n]
                a_re[n, c] = x[f * hop + n, 2 * p] * g
                a_im[n, c] = x[f * hop + n, 2 * p + 1] * g if 2 * p + 1 < channels else np.float32(0)
    z_re, z_im = _transform(a_re, a_im, work[2], work[3], twiddle)
    half = np.float32(0.5)
    for f in range(frames):
        for p in range(pairs):
            c = f * pairs + p
            for b in range(bins):
                k = first_bin + b
                r1, i1 = z_re[k, c], z_im[k, c]
                r2, i2 = z_re[size - k, c], z_im[size - k, c]
                out[f, 2 * p, 0, b] = half * (r1 + r2)
                out[f, 2 * p, 1, b] = half * (i1 - i2)
                if 2 * p + 1 < channels:
                    out[f, 2 * p + 1, 0, b] = half * (i1 + i2)
                    out[f, 2 * p + 1, 1, b] = half * (r2 - r1)


class RowStft:
    """Turns rows of samples into spectra, keeping the samples that the next row reaches back to."""

    def __init__(self, plan: StftPlan, channels: int) -> None:
        self.plan = plan
        self.channels = channels
        pairs = (channels + 1) // 2
        self._work = np.zeros((4, plan.n_fft, plan.frames_per_row * pairs), np.float32)
        self._buffer = np.zeros((plan.history + plan.row, channels), np.float32)
        self.spectra: F32 = np.zeros((plan.frames_per_row, channels, 2, plan.bins), np.float32)

    def push_row(self, row: F32) -> F32:
        """row: (plan.row, channels). Returns spectra (frames, channels, 2, bins), reused by the next call."""
        plan = self.plan
        self._buffer[plan.history :] = row
        row_spectra(
            self._buffer,
            plan.hop,
            plan.frames_per_row,
            plan.first_bin,
            plan.bins,
            plan.window,
            plan.twiddle,
            self._work,
            self.spectra,
        )
        self._buffer[: plan.history] = self._buffer[plan.row :].copy()
        return self.spectra


def stft(x: F32, plan: StftPlan) -> npt.NDArray[np.complex64]:
    """Short-time spectra of a whole clip.

    x: (samples, channels) float32. Returns complex64 (frames, bins, channels); frame f ends at sample
    (f + 1) * plan.hop, and the last row is filled up with zeros.
    """
    rows = -(-len(x) // plan.row)
    engine = RowStft(plan, x.shape[1])
    out = np.empty((rows * plan.frames_per_row, plan.bins, x.shape[1]), np.complex64)
    for r in range(rows):
        block = x[r * plan.row : (r + 1) * plan.row]
        if len(block) < plan.row:
            block = np.concatenate([block, np.zeros((plan.row - len(block), x.shape[1]), np.float32)])
        s = engine.push_row(block)
        frames = slice(r * plan.frames_per_row, (r + 1) * plan.frames_per_row)
        out[frames] = (s[:, :, 0] + 1j * s[:, :, 1]).transpose(0, 2, 1)
    return out
