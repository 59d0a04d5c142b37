"""Sound activity per 20 ms against a floor that follows steady noise, so that a hum becomes silence.

The floor of each band is the minimum of its smoothed energy over the last 1.5 s (minimum statistics: Martin,
"Noise power spectral density estimation based on optimal smoothing and minimum statistics", IEEE Trans. SAP
9, 2001, here without the optimal smoothing). Speech leaves each band for a moment at least once in that time;
a fan does not. A steady sound is therefore "active" for its first 1.5 s and floor from then on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.arguments import as_array, sample_rate
from dsp.errors import InputError
from dsp.levels import FLOOR_DBFS

HOP_S = 0.02
_MEMORY_S = 1.5
_HANG_S = 0.16
_ABSOLUTE_FLOOR = 1e-11  # band energy of silence (-110 dBFS): below it nothing is ever active
_EDGES_HZ = (100, 400, 700, 1050, 1450, 2000, 2800, 4000, 5500, 7500)


@dataclass(frozen=True, slots=True)
class Activity:
    """One 20 ms hop. t_s: its start, in seconds from the first frame ever pushed (plus the start time given).

    level_dbfs and floor_dbfs: power of the first channel between 100 Hz and 7.5 kHz in the 40 ms that end
    with the hop, and the part of it that is steady noise. active: something rises over the floor.
    """

    t_s: float
    active: bool
    level_dbfs: float
    floor_dbfs: float


class ActivityDetector:
    """Tells talking, clatter and beeps from silence and steady noise. Results do not depend on the block
    size.

    fs: sample rate in Hz (8 kHz or more). threshold_db: rise over the floor, as the mean of the three bands
    that rise most. t_start_s: time of the first frame.
    """

    def __init__(self, fs: int, threshold_db: float = 8.0, t_start_s: float = 0.0):
        self.fs = sample_rate(fs, 8000, 384_000)
        self.threshold_db = threshold_db
        self.t_start_s = t_start_s
        self._hop = round(self.fs * HOP_S)
        self._window = np.hanning(2 * self._hop + 1)[:-1]
        frequency = np.fft.rfftfreq(2 * self._hop, 1 / self.fs)
        edges = [e for e in _EDGES_HZ if e <= 0.5 * self.fs]
        self._first_bins = np.searchsorted(frequency, edges)
        self._scale = 2.0 / (2 * self._hop * np.sum(self._window**2))
        self._pending: NDArray[np.float64] = np.zeros(0)
        self._past = np.zeros(self._hop)
        self._hops = 0
        bands = len(edges) - 1
        self._recent: deque[NDArray[np.float64]] = deque(maxlen=5)
        self._minima: deque[NDArray[np.float64]] = deque(maxlen=round(_MEMORY_S / HOP_S))
        self._hang = 0
        self._bands = bands

    def push(self, block: ArrayLike) -> list[Activity]:
        """A block (frames,) or (frames, channels), float, of which channel 0 (W) is used; the hops it
        completes.
        """
        x = as_array(block)
        if x.ndim not in (1, 2) or x.dtype.kind != "f":
            raise InputError(f"expected float (frames,) or (frames, channels), got {x.dtype} {x.shape}")
        w = (x if x.ndim == 1 else x[:, 0]).astype(np.float64)
        self._pending = np.concatenate([self._pending, np.nan_to_num(w, nan=0.0, posinf=0.0, neginf=0.0)])
        hops = len(self._pending) // self._hop
        result = [self._step(self._pending[i * self._hop : (i + 1) * self._hop]) for i in range(hops)]
        self._pending = self._pending[hops * self._hop :]
        return result

    def _step(self, hop: NDArray[np.float64]) -> Activity:
        spectrum = np.fft.rfft(np.concatenate([self._past, hop]) * self._window)
        self._past = hop.copy()
        power = (spectrum.real**2 + spectrum.imag**2) * self._scale
        bands = np.add.reduceat(power, self._first_bins)[: self._bands]
        if self._hops > 0:  # the first window is half empty
            self._recent.append(bands)
        smooth = np.mean(self._recent, axis=0) if self._recent else bands
        if len(self._recent) == self._recent.maxlen:
            self._minima.append(smooth)
        # The minimum lies below the mean. Until there is one, the first 100 ms are their own floor.
        floor = 1.3 * np.min(self._minima, axis=0) if self._minima else smooth
        rise = 10 * np.log10((bands + _ABSOLUTE_FLOOR) / (floor + _ABSOLUTE_FLOOR))
        most = np.sort(rise)[-3:].mean()
        if most >= self.threshold_db:
            self._hang = round(_HANG_S / HOP_S)
        active = self._hang > 0
        self._hang = max(0, self._hang - 1)
        t_s = self.t_start_s + self._hops * self._hop / self.fs
        self._hops += 1
        return Activity(t_s, bool(active), _db(bands.sum()), _db(floor.sum()))


def _db(power: float) -> float:
    return float(10 * np.log10(max(power, 10 ** (FLOOR_DBFS / 10))))
