"""Spectrograms with a calibrated scale: 0 dB is a full-scale sine, at any window length.

Power of a bin: |sum x w exp|^2 (2 / sum w)^2, so that a sine of amplitude A on a bin reads 20 log10 A with
any window (between bins a Hann window reads up to 1.42 dB less, "flattop" 0.02 dB). White noise spreads over
the bins: of its power each reads the share that the window's noise bandwidth has in fs / 2. In mel bands the
powers of the bins are added up with triangular weights and the noise bandwidth is taken out: a sine in the
middle of a wide band reads its level, and the bands together hold the power of the signal.
Sources: Harris, Proc. IEEE 66 (1978), windows and their calibration; Stevens, Volkmann and Newman, JASA 8
(1937), in the form mel = 2595 log10(1 + f / 700).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

Floats = NDArray[np.float64]
Array = NDArray[np.float32]

FLOOR_DB = -200.0
WINDOWS = ("hann", "hamming", "blackman", "flattop", "boxcar")


@dataclass(frozen=True, slots=True)
class Spectrogram:
    """times_s: (rows,) middle of each window. frequencies_hz: (bins,), the bins or the middles of the mel
    bands. power_db: (rows, bins), or (rows, bins, channels) for input of that form; float32, dB re a
    full-scale sine, at least FLOOR_DB.
    """

    times_s: Floats
    frequencies_hz: Floats
    power_db: Array


@lru_cache(maxsize=16)
def _mel_weights(fs: int, size: int, bands: int) -> tuple[Floats, Floats]:
    """((bands, bins) triangles of height 1 that add up to 1 between the outer middles, their middles)."""
    edges = np.linspace(0.0, 2595.0 * np.log10(1.0 + 0.5 * fs / 700.0), bands + 2)
    corners = 700.0 * (10 ** (edges / 2595.0) - 1.0)
    f = np.fft.rfftfreq(size, 1.0 / fs)
    rise = (f - corners[:-2, None]) / np.diff(corners)[:-1, None]
    fall = (corners[2:, None] - f) / np.diff(corners)[1:, None]
    weights = np.maximum(0.0, np.minimum(rise, fall))
    empty = np.flatnonzero(weights.sum(axis=1) == 0)
    if len(empty):
        raise InputError(
            f"mel band {empty[0]} lies between two bins ({fs / size:.1f} Hz apart); use fewer than {bands} "
            "bands or a longer window"
        )
    return weights, corners[1:-1]


def _window(name: str, size: int) -> Floats:
    """A periodic window. The usual one is written out: scipy.signal takes a second to load."""
    if name == "hann":
        return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size), np.float64)
    from scipy.signal import get_window

    return np.asarray(get_window(name, size), np.float64)


class SpectrogramStream:
    """The streaming form, for a live display: `push` returns the rows that a block completes.

    fs in Hz; window_s: length of the window, hop_s: distance of the rows, both rounded to frames. mel: number
    of mel bands from 0 to fs / 2 instead of bins. Rows do not depend on how the blocks are cut. A row comes
    half a window after its time. Raises InputError for settings out of range.
    """

    def __init__(
        self,
        fs: int,
        window_s: float = 0.032,
        hop_s: float = 0.01,
        window: str = "hann",
        mel: int | None = None,
    ):
        if not (isinstance(fs, (int, np.integer)) and 1000 <= fs <= 768_000):
            raise InputError(f"a sample rate must be a whole number of Hz from 1000 to 768000, not {fs!r}")
        self.fs = int(fs)
        for name, value in (("window_s", window_s), ("hop_s", hop_s)):
            if not (isinstance(value, (int, float)) and 2 / fs <= value <= 60.0):
                raise InputError(f"{name} must be from 2 frames to 60 s, not {value!r}")
        if window not in WINDOWS:
            raise InputError(f"unknown window {window!r}; one of {', '.join(WINDOWS)}")
        self._size, self._hop = round(window_s * fs), round(hop_s * fs)
        w = _window(window, self._size)
        self._window = w * (2.0 / w.sum())
        self.frequencies_hz: Floats = np.fft.rfftfreq(self._size, 1.0 / fs).astype(np.float64)
        self._mel: Floats | None = None
        if mel is not None:
            if not (isinstance(mel, (int, np.integer)) and 1 <= mel <= 512):
                raise InputError(f"mel must be a number of bands from 1 to 512, not {mel!r}")
            weights, self.frequencies_hz = _mel_weights(self.fs, self._size, int(mel))
            bandwidth = self._size * np.sum(w**2) / np.sum(w) ** 2  # of the window, in bins
            self._mel = weights / bandwidth
        self._pending: Floats | None = None
        self._rows = 0

    def push(self, block: ArrayLike) -> Spectrogram:
        """The next (frames,) or (frames, channels), float with full scale +-1. Raises InputError for another
        form than before, NaN or infinity.
        """
        x: NDArray[Any] = np.asarray(block)
        if x.ndim not in (1, 2) or x.dtype.kind != "f":
            raise InputError(f"expected float (frames,) or (frames, channels), got {x.dtype} {x.shape}")
        if not np.isfinite(x).all():
            raise InputError("the block holds NaN or infinity; a spectrum of it would be nothing else")
        if self._pending is None:
            self._pending = np.zeros((0, *x.shape[1:]), np.float64)
        if x.shape[1:] != self._pending.shape[1:]:
            raise InputError(f"the blocks had the form (frames, {self._pending.shape[1:]}), now {x.shape}")
        held = np.concatenate([self._pending, x])
        count = max(0, (len(held) - self._size) // self._hop + 1) if len(held) >= self._size else 0
        power = np.empty((count, len(self.frequencies_hz), *x.shape[1:]))
        shaped = self._window.reshape(-1, *([1] * (x.ndim - 1)))
        for i in range(count):  # a row at a time: the same bits for any blocks
            part = held[i * self._hop : i * self._hop + self._size] * shaped
            spectrum = np.fft.rfft(part, axis=0)
            row = spectrum.real**2 + spectrum.imag**2
            power[i] = row if self._mel is None else self._mel @ row
        times = ((self._rows + np.arange(count)) * self._hop + self._size / 2) / self.fs
        self._rows += count
        self._pending = held[count * self._hop :]
        decibels = 10 * np.log10(np.maximum(power, 10 ** (FLOOR_DB / 10)))
        return Spectrogram(times, self.frequencies_hz, decibels.astype(np.float32))


def spectrogram(
    x: ArrayLike,
    fs: int,
    window_s: float = 0.032,
    hop_s: float = 0.01,
    window: str = "hann",
    mel: int | None = None,
) -> Spectrogram:
    """The spectrogram of (frames,) or (frames, channels): one row per hop whose window is inside the signal.

    Arguments and errors of `SpectrogramStream`; the same values, bit for bit.
    """
    return SpectrogramStream(fs, window_s, hop_s, window, mel).push(x)
