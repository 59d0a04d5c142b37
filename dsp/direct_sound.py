"""Votes of direct sound for several talkers: which cells of a short-time spectrum begin something new, and
where they point.

A cell votes with its pseudo-intensity Re(W* [X Y Z]) when its power rises above what the room's decay
leaves of the loudest before (the precedence effect) and above a floor that follows steady noise (the least
mean power of 50 ms within 1.5 s, per bin: minimum statistics, Martin, IEEE Trans. SAP 9, 2001). Unlike in
`dsp.doa`, which wants the one strongest direction, weights do not grow with the level, so that the quieter
of two talkers is not outvoted. That a cell belongs to one talker alone is the W-disjoint orthogonality of
speech (Yilmaz and Rickard, IEEE Trans. SP 52(7), 2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp.histogram import cell_of
from dsp.stft import RowStft, StftPlan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

LOW_HZ = 200.0
HIGH_HZ = 4000.0
WINDOW_S = 128 / 24000
FRAMES_PER_ROW = 40
TRUST_HZ = 5000.0  # spaced capsules bend high bins: weight 1 / (1 + (f / 5 kHz)^2)
DECAY_S = 0.030
FLOOR_PARTS = 30  # half rows that the floor looks back on: 1.5 s
START_FRAMES = 8  # no onsets while the decay is not known yet
MEAN_TIME_S = 0.25
STEADY_SHARE = 0.02


class VoteSettings(NamedTuple):
    """What makes a cell vote, as float32 ratios of powers. The numbers are of `bench.doa_rooms`, seeds 100
    to 107."""

    decay: np.float32  # of the loudest before, per frame
    smoothing: np.float32  # of the mean power, per frame
    onset: np.float32  # over what the decay leaves
    above_floor: np.float32
    cap: np.float32  # of the weight
    # A sure onset, the evidence that there is a talker: steady noise hardly ever rises this far over what
    # the decay leaves, its own floor, and (when it was just switched on, and has no floor yet) its mean of
    # 0.25 s.
    sure_onset: np.float32
    sure_above_floor: np.float32
    sure_above_mean: np.float32
    steady: np.float32  # weight of a cell that is no onset, at the mean power of all


@njit(nogil=True, cache=True, fastmath=_FAST)
def _cell_powers(spectra: F32, power: F32) -> None:  # pragma: no cover - compiled
    """Half the summed power of W, Y, Z and X: that of W for one plane wave. power: (frames, bins)."""
    half = np.float32(0.5)
    for f in range(power.shape[0]):
        s = spectra[f]
        for b in range(power.shape[1]):
            wr, wi = s[0, 0, b], s[0, 1, b]
            yr, yi = s[1, 0, b], s[1, 1, b]
            zr, zi = s[2, 0, b], s[2, 1, b]
            xr, xi = s[3, 0, b], s[3, 1, b]
            total = wr * wr + wi * wi + yr * yr + yi * yi + zr * zr + zi * zi + xr * xr + xi * xi
            power[f, b] = half * total


@njit(nogil=True, cache=True, fastmath=_FAST)
def _follow_floor(
    power: F32, recent: F32, halves: int, floor: F32, powers: F64
) -> None:  # pragma: no cover - compiled
    """Floor of each bin: the least of the mean powers of half rows, kept in `recent` (FLOOR_PARTS, bins).
    powers (2,): mean power per bin in each half of this row."""
    frames, bins = power.shape
    middle = frames // 2
    for part in range(2):
        first, last = (0, middle) if part == 0 else (middle, frames)
        at = (halves + part) % recent.shape[0]
        powers[part] = 0.0
        for b in range(bins):
            total = np.float32(0)
            for f in range(first, last):
                total += power[f, b]
            recent[at, b] = total / np.float32(last - first)
            powers[part] += recent[at, b] / bins
    known = min(halves + 2, recent.shape[0])
    for b in range(bins):
        low, high = max(b - 2, 0), min(b + 3, bins)
        least = np.float32(np.inf)
        for i in range(known):
            total = np.float32(0)
            for n in range(low, high):
                total += recent[i, n]
            least = min(least, total / np.float32(high - low))
        floor[b] = least


@njit(nogil=True, cache=True, fastmath=_FAST)
def _add_votes(
    spectra: F32,
    power: F32,
    floor: F32,
    envelope: F32,
    mean: F32,
    seen: int,
    s: VoteSettings,
    trust: F32,
    cells: F32,
    sure: F32,
) -> None:  # pragma: no cover - compiled
    """Votes of one row into the histograms. spectra: (frames, 4 [W Y Z X], 2, bins). Carried from row to
    row, per bin: envelope, what the decay leaves of the loudest before; mean, a slow mean power. seen:
    frames before."""
    frames, bins = power.shape
    one, zero = np.float32(1), np.float32(0)
    for f in range(frames):
        v = spectra[f]
        settled = seen + f >= START_FRAMES
        level = zero
        for b in range(bins):
            level += mean[b]
        level /= np.float32(bins)
        for b in range(bins):
            p = power[f, b]
            left = envelope[b] * s.decay
            envelope[b] = max(p, left)
            before = mean[b]
            mean[b] = before + s.smoothing * (p - before)
            gate = max(left * s.onset, floor[b] * s.above_floor)
            onset = settled and p > gate and gate > zero
            if not (onset or (s.steady > zero and p > zero and level > zero)):
                continue
            x = v[0, 0, b] * v[3, 0, b] + v[0, 1, b] * v[3, 1, b]
            y = v[0, 0, b] * v[1, 0, b] + v[0, 1, b] * v[1, 1, b]
            z = v[0, 0, b] * v[2, 0, b] + v[0, 1, b] * v[2, 1, b]
            r = np.sqrt(x * x + y * y + z * z)
            if not r > zero:
                continue
            direct = min(one, r / p)
            direct *= direct
            w = s.steady * np.sqrt(p / level) if level > zero else zero
            if onset:
                w = max(w, min(s.cap, p / gate - one))
            w *= direct * direct * trust[b]
            if not w > zero:
                continue
            c = cell_of(x, y, z)
            scale = w / r
            cells[c, 0] += w
            cells[c, 1] += scale * x
            cells[c, 2] += scale * y
            cells[c, 3] += scale * z
            cells[c, 4] += w * w
            if onset and p > max(
                left * s.sure_onset, floor[b] * s.sure_above_floor, before * s.sure_above_mean
            ):
                sure[c, 0] += w
                sure[c, 1] += scale * x
                sure[c, 2] += scale * y
                sure[c, 3] += scale * z
                sure[c, 4] += w * w


class DirectSoundVotes:
    """Spectra and selection for consecutive rows of 100 ms; each row's votes as two histograms.

    fs: 8 to 192 kHz (InputError otherwise). steady_share: weight of cells that are no onset; 0 for none.
    """

    def __init__(self, fs: int, steady_share: float = 0.0) -> None:
        self.plan = StftPlan(fs, LOW_HZ, HIGH_HZ, FRAMES_PER_ROW, WINDOW_S)
        plan = self.plan
        self._stft = RowStft(plan, 4)
        self._power = np.empty((plan.frames_per_row, plan.bins), np.float32)
        self._recent = np.zeros((FLOOR_PARTS, plan.bins), np.float32)
        self._floor = np.zeros(plan.bins, np.float32)
        self._envelope = np.zeros(plan.bins, np.float32)
        self._mean = np.zeros(plan.bins, np.float32)
        self._rows = 0
        self.powers = np.zeros(2)  # mean power per bin in the halves of the last row
        self._trust = (1.0 / (1.0 + (plan.frequencies_hz / TRUST_HZ) ** 2)).astype(np.float32)
        step_s = plan.hop / plan.fs
        values = (
            np.exp(-step_s / DECAY_S),
            1.0 - np.exp(-step_s / MEAN_TIME_S),
            1.5,
            2.0,
            10.0,
            2.0,
            24.0,
            4.0,
            steady_share,
        )
        self._settings = VoteSettings(*(np.float32(v) for v in values))

    def add_row(self, row: F32, cells: F32, sure: F32) -> None:
        """Add the votes of one row (plan.row, 4) to `cells`, and those of sure onsets also to `sure`."""
        spectra = self._stft.push_row(row)
        _cell_powers(spectra, self._power)
        _follow_floor(self._power, self._recent, 2 * self._rows, self._floor, self.powers)
        seen = self._rows * self.plan.frames_per_row
        _add_votes(
            spectra,
            self._power,
            self._floor,
            self._envelope,
            self._mean,
            seen,
            self._settings,
            self._trust,
            cells,
            sure,
        )
        self._rows += 1
