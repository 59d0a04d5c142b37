"""Onsets: when sounds start (claps, clicks, syllables), to a few milliseconds.

Spectral flux (Bello et al., "A tutorial on onset detection in music signals", IEEE Trans. SAP 13, 2005) on
the log powers of ten bands, every 4 ms, windows of 12 ms: the mean rise over the level 12 to 24 ms before. A
peak that stands out by 3 dB from the flux of the last second is an onset, unless the sound as a whole stops
there (the click of an abrupt end). Its time is then read off the signal: the first millisecond whose energy
reaches a tenth of the rise, so that a click and the attack of a vowel are both found where they begin and not
where the flux is highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.arguments import as_array, sample_rate
from dsp.errors import InputError

Floats = NDArray[np.float64]

_HOP, _WINDOW = 4, 12  # in ticks of 1 ms
_LAG = 3  # hops back to the level that a new one is compared with, and
_BEFORE = 4  # hops over which that is averaged
_LOOK = 6  # hops on both sides within which an onset is the highest
_REST = 13  # hops between two onsets
_MEMORY = 250  # hops of flux that the threshold looks back on
_BANDS = 10
_QUIET = 20  # hops of flux 0 that are taken to have gone before the first
_FLOOR = 1e-9  # of a band's power: below it rises mean nothing (-90 dBFS)


@dataclass(frozen=True, slots=True)
class Onset:
    """t_s: seconds from the first frame. strength_db: the mean rise of the bands, above the usual."""

    t_s: float
    strength_db: float


class OnsetDetector:
    """Streaming onset detector on the first channel (W). An onset is told about 40 ms after it happened; the
    result does not depend on how the blocks are cut.

    fs: 8000 to 192000 Hz. threshold_db: how far the flux must rise above its median of the last second; lower
    finds weaker starts and more that are none.
    """

    def __init__(self, fs: int, threshold_db: float = 3.0):
        from scipy.signal import butter

        if not (isinstance(threshold_db, (int, float)) and 0.5 <= threshold_db <= 40.0):
            raise InputError(f"threshold_db must be from 0.5 to 40, not {threshold_db!r}")
        self.fs, self.threshold_db = sample_rate(fs, 8000, 192_000), float(threshold_db)
        self._tick = round(fs / 1000)
        size = _WINDOW * self._tick
        self._window = np.hanning(size + 1)[:-1]
        self._scale = 2.0 / np.sum(self._window) ** 2
        edges = np.geomspace(100.0, min(8000.0, 0.45 * fs), _BANDS + 1)
        bins = np.round(edges * size / fs).astype(int)
        for i in range(1, len(bins)):  # at least four bins each: fewer fluctuate too much
            bins[i] = max(bins[i], bins[i - 1] + 4)
        self._bins = np.minimum(bins, size // 2)
        self._sos = butter(2, [150.0, min(7500.0, 0.45 * fs)], "bandpass", fs=fs, output="sos")
        self._state = np.zeros((len(self._sos), 2))
        self._samples = np.zeros(0)  # from the start of the next window on
        self._unsummed = np.zeros(0)  # filtered, less than a tick
        self._ticks = np.zeros(0)  # energies of the last ticks
        self._first_tick = 0
        self._powers = np.zeros((0, _BANDS))  # of the last windows
        self._flux = np.zeros(_QUIET)  # as if silence had gone before
        self._hops = 0  # windows so far
        self._last = -_REST

    def push(self, block: ArrayLike) -> list[Onset]:
        """A block (frames,) or (frames, channels), float; the onsets that are certain by now."""
        x = as_array(block)
        if x.ndim not in (1, 2) or x.dtype.kind != "f":
            raise InputError(f"expected float (frames,) or (frames, channels), got {x.dtype} {x.shape}")
        w = (x if x.ndim == 1 else x[:, 0]).astype(np.float64)
        if not np.isfinite(w).all():
            raise InputError("the block holds NaN or infinity; repair it first")
        return self._advance(w)

    def flush(self) -> list[Onset]:
        """The end of the signal: onsets of the last 50 ms. Start anew with a new detector."""
        return self._advance(np.zeros((_WINDOW + _HOP * (_LOOK + 1)) * self._tick))

    def _advance(self, w: Floats) -> list[Onset]:
        self._add_ticks(w)
        self._samples = np.concatenate([self._samples, w])
        size, hop = _WINDOW * self._tick, _HOP * self._tick
        count = max(0, (len(self._samples) - size) // hop + 1) if len(self._samples) >= size else 0
        if count == 0:
            return []
        parts = np.lib.stride_tricks.sliding_window_view(self._samples, size)[: count * hop : hop]
        spectrum = np.fft.rfft(parts * self._window, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2) * self._scale
        self._samples = self._samples[count * hop :]
        self._add_flux(np.add.reduceat(power, self._bins, axis=1)[:, :_BANDS] + _FLOOR)
        found = [self._pick(hop) for hop in range(self._hops - count - _LOOK, self._hops - _LOOK)]
        self._flux = self._flux[-(_MEMORY + 2 * _LOOK + 1) :]
        keep = _WINDOW + _HOP * 3 * _LOOK
        if len(self._ticks) > keep:
            self._first_tick += len(self._ticks) - keep
            self._ticks = self._ticks[-keep:]
        return [onset for onset in found if onset is not None]

    def _add_ticks(self, w: Floats) -> None:
        from scipy.signal import sosfilt

        if len(w) == 0:
            return
        filtered, self._state = sosfilt(self._sos, w, zi=self._state)
        self._unsummed = np.concatenate([self._unsummed, filtered])
        whole = len(self._unsummed) // self._tick * self._tick
        squares = np.square(self._unsummed[:whole]).reshape(-1, self._tick)
        self._ticks = np.concatenate([self._ticks, squares.mean(axis=1)])
        self._unsummed = self._unsummed[whole:]

    def _add_flux(self, powers: Floats) -> None:
        past = _LAG + _BEFORE - 1
        held = np.concatenate([self._powers, powers])
        fresh = len(held) - past
        if fresh > 0:
            before = sum(held[i : i + fresh] for i in range(_BEFORE)) / _BEFORE
            rise = np.maximum(10 * np.log10(held[past:] / before), 0.0)
            flux = rise.mean(axis=1)[-len(powers) :]
        else:
            flux = np.zeros(0)
        nothing = np.zeros(len(powers) - len(flux))  # the first windows have none to be compared with
        self._flux = np.concatenate([self._flux, nothing, flux])
        self._powers = held[-past:]
        self._hops += len(powers)

    def _pick(self, hop: int) -> Onset | None:
        """Is this window the start of a sound? All windows up to _LOOK later are known."""
        at = len(self._flux) - self._hops + hop
        if hop < 0 or self._flux[at] < self.threshold_db or hop - self._last < _REST:
            return None
        if self._flux[at] < self._flux[at - _LOOK : at + _LOOK + 1].max():
            return None
        above = float(self._flux[at] - np.median(self._flux[max(0, at - _LOOK - _MEMORY) : at - _LOOK]))
        if above < self.threshold_db:
            return None
        start = self._start(hop)
        if start is None:
            return None
        self._last = hop
        return Onset(start * self._tick / self.fs, above)

    def _start(self, hop: int) -> int | None:
        """The tick where the energy rises, around the window of this hop; None where a sound ends."""
        begin = max(0, hop * _HOP - _HOP * _LAG - self._first_tick)
        end = hop * _HOP + _WINDOW - self._first_tick
        ticks = self._ticks[begin:end]
        before = self._ticks[max(0, begin - 20) : begin]
        low = float(np.median(before)) if len(before) else 0.0
        if np.mean(self._ticks[end : end + _WINDOW]) < 0.5 * low:
            return None
        return self._first_tick + begin + int(np.argmax(ticks >= low + 0.1 * (ticks.max() - low)))


def onsets(x: Any, fs: int, threshold_db: float = 3.0) -> Floats:
    """(n,) times in seconds at which sounds start in (frames,) or (frames, channels); see `OnsetDetector`."""
    detector = OnsetDetector(fs, threshold_db)
    found = detector.push(x) + detector.flush()
    length = len(np.asarray(x)) / fs
    return np.array([o.t_s for o in found if o.t_s < length])
