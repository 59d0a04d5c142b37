"""Votes for directions: each cell of a short-time spectrum, its direction, and how much that is worth.

In a cell (190 Hz to 4 kHz, 5.3 ms) the active intensity Re(W* [X Y Z]) points to where the sound comes from,
exactly for one plane wave (pseudo-intensity vector: Jarrett, Habets, Naylor, EUSIPCO 2010). Reflections and
noise bend it. Sixteen features of the cell tell how likely that is: the diffuseness (DirAC: Pulkki, JAES
55(6), 2007), the rise above what the room's decay leaves (the precedence effect), the rise above the noise
floor, the agreement with the neighbours. A net of two small layers turns them into the weight. It was trained
end to end on simulated rooms: on the angle between the weighted mean and the truth, not on single cells,
because the errors of cells that share a reflection do not average out (`bench/doa_training.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp import histogram
from dsp.stft import RowStft, StftPlan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

LOW_HZ = 150.0  # the first bin is at 187.5 Hz: most of a voice's power over white noise
HIGH_HZ = 4000.0
# Short windows: direct sound leads its first reflections by a few ms, and only a window that short can see
# it alone. While choosing it, 21 ms windows every 10 ms cost 2 to 3 degrees more at RT60 0.5 s, SNR 20 dB.
WINDOW_S = 128 / 24000
FRAMES_PER_ROW = 40
START_FRAMES = 8  # no votes while the decay is not known yet
FEATURES = 16
LEAST_DIRECT = np.float32(1e-4)  # of |I|/E; less is no direction
ROUNDING = np.float32(1e-9)  # of a frame's power: what single precision leaves in an empty channel
# A Hann window lets a constant into its second bin, and that would be the surest direction of all.
HIGH_PASS_HZ = 80.0
# Rows of the state that is carried from frame to frame, each (bins,): the envelopes that a 60 ms and a 20 ms
# decay leave, noise floor, smoothed power, power one and two frames ago, and of the frame before: the sum of
# |I| over three bins and of I (x, y, z).
_STATE_ROWS = 10
_WEIGHTS = Path(__file__).with_name("vote_weights.json")


@dataclass(frozen=True)
class VoteNet:
    """weight = s(w2 . f(w1 f(w0 features + b0) + b1) + b2); f(x) = max(x, x / 10), s(x) = 1 / (1 + exp(-x)).

    w0: (hidden, FEATURES), with the features' mean and scale folded in; b0: (hidden,); w1: (hidden2, hidden);
    b1, w2: (hidden2,); b2: (1,). All float32.
    """

    w0: F32
    b0: F32
    w1: F32
    b1: F32
    w2: F32
    b2: F32


@lru_cache(maxsize=1)
def vote_net() -> VoteNet:
    """The trained net, from vote_weights.json beside this file."""
    content = json.loads(_WEIGHTS.read_text())
    return VoteNet(*(np.array(content[k], np.float32) for k in ("w0", "b0", "w1", "b1", "w2", "b2")))


@njit(nogil=True, cache=True, fastmath=_FAST)
def frame_features(
    s: F32, state: F32, running: F64, settings: F64, at: int, features: F32, unit: F32
) -> bool:  # pragma: no cover - compiled
    """Features of one frame. s: (4 [W Y Z X], 2, bins) spectrum. Carried: state (_STATE_ROWS, bins), running
    (3,): mean power per bin, frames seen, envelope of that power. settings (4,): decay per frame at 60 and
    20 ms, smoothing of the level and of the noise floor. Fills the columns at .. at + bins of features
    (FEATURES, cells) and unit (3, cells). Returns False for a frame without power or before the decay is
    known."""
    bins = s.shape[2]
    one = np.float32(1)
    tiny = np.float32(1e-20)
    milli = np.float32(1e-3)
    decay60, decay20 = np.float32(settings[0]), np.float32(settings[1])
    total = np.float32(0)
    power = np.empty(bins, np.float32)
    for b in range(bins):
        w2 = s[0, 0, b] * s[0, 0, b] + s[0, 1, b] * s[0, 1, b]
        v2 = s[1, 0, b] * s[1, 0, b] + s[1, 1, b] * s[1, 1, b] + s[2, 0, b] * s[2, 0, b]
        v2 += s[2, 1, b] * s[2, 1, b] + s[3, 0, b] * s[3, 0, b] + s[3, 1, b] * s[3, 1, b]
        p = np.float32(0.5) * (w2 + v2)
        power[b] = p
        total += p
        features[10, at + b] = (w2 + milli * p) / (v2 + milli * p + tiny)
    mean = total / np.float32(bins)
    running[1] += 1.0
    running[0] += (mean - running[0]) * max(settings[2], 1.0 / running[1])
    left = np.float32(running[2]) * decay60
    running[2] = max(mean, left)
    if not mean > np.float32(0):
        return False
    least = ROUNDING * mean
    frame_rise = np.log(mean / (left + tiny) + np.float32(1e-6))
    level = np.float32(running[0]) + tiny
    smoothing = np.float32(max(settings[3], 1.0 / running[1]))
    counted = running[1] > START_FRAMES
    sum_x = np.float32(0)
    sum_y = np.float32(0)
    sum_z = np.float32(0)
    sum_d = tiny
    for b in range(bins):
        p = power[b] + tiny
        wr, wi = s[0, 0, b], s[0, 1, b]
        x = wr * s[3, 0, b] + wi * s[3, 1, b]
        y = wr * s[1, 0, b] + wi * s[1, 1, b]
        z = wr * s[2, 0, b] + wi * s[2, 1, b]
        jx = wr * s[3, 1, b] - wi * s[3, 0, b]
        jy = wr * s[1, 1, b] - wi * s[1, 0, b]
        jz = wr * s[2, 1, b] - wi * s[2, 0, b]
        r = np.sqrt(x * x + y * y + z * z) + tiny
        direct = min(r / p, one)
        v2 = s[1, 0, b] ** 2 + s[1, 1, b] ** 2 + s[2, 0, b] ** 2
        v2 += s[2, 1, b] ** 2 + s[3, 0, b] ** 2 + s[3, 1, b] ** 2
        if r < LEAST_DIRECT * p or v2 < least:  # X, Y, Z are rounding errors
            r = np.float32(1)
            x, y, z = np.float32(0), np.float32(0), np.float32(0)
        unit[0, at + b], unit[1, at + b], unit[2, at + b] = x / r, y / r, z / r
        sum_x += direct * unit[0, at + b]
        sum_y += direct * unit[1, at + b]
        sum_z += direct * unit[2, at + b]
        sum_d += direct
        left60, left20 = state[0, b] * decay60, state[1, b] * decay20
        state[0, b], state[1, b] = max(power[b], left60), max(power[b], left20)
        state[3, b] += (power[b] - state[3, b]) * smoothing
        if counted:
            grown = state[2, b] * np.float32(1.0006)
            state[2, b] = min(grown, state[3, b]) if state[2, b] > np.float32(0) else state[3, b]
        noise = (state[2, b] if state[2, b] > np.float32(0) else state[3, b]) + tiny
        features[0, at + b] = direct
        features[1, at + b] = np.log(p / (left60 + tiny) + np.float32(1e-6))
        features[2, at + b] = np.log(p / (left20 + tiny) + np.float32(1e-6))
        features[3, at + b] = np.log(p / noise + np.float32(1e-6))
        features[4, at + b] = np.log(p / level + np.float32(1e-9))
        features[5, at + b] = frame_rise
        features[6, at + b] = np.float32(b) / np.float32(bins)
        features[7, at + b] = -np.log(np.float32(1.0001) - direct)
        features[8, at + b] = np.log(level / noise)
        features[9, at + b] = np.sqrt(jx * jx + jy * jy + jz * jz) / p
        features[10, at + b] = np.log(features[10, at + b])
        features[11, at + b] = np.log(p / (state[4, b] + tiny) + milli)
        features[12, at + b] = np.log(p / (state[5, b] + tiny) + milli)
        state[5, b] = state[4, b]
        state[4, b] = power[b]
    whole = np.sqrt(sum_x * sum_x + sum_y * sum_y + sum_z * sum_z) / sum_d
    for b in range(bins):
        sum_p = np.float32(0)
        near_x = np.float32(0)
        near_y = np.float32(0)
        near_z = np.float32(0)
        for k in range(max(0, b - 1), min(bins, b + 2)):
            q = power[k] * features[0, at + k]
            sum_p += q
            near_x += q * unit[0, at + k]
            near_y += q * unit[1, at + k]
            near_z += q * unit[2, at + k]
        px, py, pz = near_x + state[7, b], near_y + state[8, b], near_z + state[9, b]
        features[13, at + b] = np.sqrt(px * px + py * py + pz * pz) / (sum_p + state[6, b] + tiny)
        state[6, b], state[7, b], state[8, b], state[9, b] = sum_p, near_x, near_y, near_z
        along = sum_x * unit[0, at + b] + sum_y * unit[1, at + b] + sum_z * unit[2, at + b]
        features[14, at + b] = along / sum_d
        features[15, at + b] = whole
    return bool(counted)


@njit(nogil=True, cache=True, fastmath=_FAST)
def _layer(weights: F32, bias: F32, x: F32, out: F32) -> None:  # pragma: no cover - compiled
    """out (m, cells) = f(weights (m, n) x (n, cells) + bias); the inner loop runs along them."""
    cells = x.shape[1]
    for i in range(weights.shape[0]):
        for b in range(cells):
            out[i, b] = bias[i]
        for j in range(weights.shape[1]):
            g = weights[i, j]
            for b in range(cells):
                out[i, b] += g * x[j, b]
        for b in range(cells):
            out[i, b] = max(out[i, b], np.float32(0.1) * out[i, b])


@njit(nogil=True, cache=True, fastmath=_FAST)
def _collect_votes(
    spectra: F32,
    state: F32,
    running: F64,
    settings: F64,
    w0: F32,
    b0: F32,
    w1: F32,
    b1: F32,
    w2: F32,
    b2: F32,
    unit: F32,
    weight: F32,
) -> int:  # pragma: no cover - compiled
    """Votes of one row. spectra: (frames, 4, 2, bins); the rest as `frame_features` and VoteNet. Fills
    unit (n, 3) and weight (n,); returns n."""
    frames, _, _, bins = spectra.shape
    cells = frames * bins
    features = np.zeros((FEATURES, cells), np.float32)
    toward = np.zeros((3, cells), np.float32)
    first = np.empty((w0.shape[0], cells), np.float32)
    second = np.empty((w1.shape[0], cells), np.float32)
    usable = np.zeros(frames, np.bool_)
    for f in range(frames):
        usable[f] = frame_features(spectra[f], state, running, settings, f * bins, features, toward)
    _layer(w0, b0, features, first)
    _layer(w1, b1, first, second)
    count = 0
    for f in range(frames):
        if not usable[f]:
            continue
        for c in range(f * bins, (f + 1) * bins):
            x = b2[0]
            for i in range(w2.size):
                x += w2[i] * second[i, c]
            w = np.float32(1) / (np.float32(1) + np.exp(-max(x, np.float32(-20))))
            norm = toward[0, c] ** 2 + toward[1, c] ** 2 + toward[2, c] ** 2
            if norm > np.float32(0.5) and w > np.float32(0):
                unit[count, 0], unit[count, 1], unit[count, 2] = toward[0, c], toward[1, c], toward[2, c]
                weight[count] = w
                count += 1
    return count


@njit(nogil=True, cache=True, fastmath=_FAST)
def row_features(
    spectra: F32, state: F32, running: F64, settings: F64, features: F32, unit: F32
) -> None:  # pragma: no cover - compiled
    """Features (FEATURES, frames * bins) and units (3, frames * bins) of a row, for the training."""
    frames, _, _, bins = spectra.shape
    for f in range(frames):
        frame_features(spectra[f], state, running, settings, f * bins, features, unit)


@njit(nogil=True, cache=True)
def _high_pass(x: F32, section: F64, state: F64, out: F32) -> None:  # pragma: no cover - compiled
    """out = x through one second-order section (b0, b1, b2, a1, a2); x, out (frames, 4), state (4, 2)."""
    b0, b1, b2, a1, a2 = section
    for c in range(x.shape[1]):
        u, v = state[c, 0], state[c, 1]
        for n in range(x.shape[0]):
            i = np.float64(x[n, c])
            o = b0 * i + u
            u = b1 * i - a1 * o + v
            v = b2 * i - a2 * o
            out[n, c] = o
        state[c, 0], state[c, 1] = u, v


def high_pass(corner_hz: float, fs: float) -> F64:
    """b0, b1, b2, a1, a2 of a second-order Butterworth high-pass (bilinear transform with the corner warped).

    As scipy.signal.butter(2, corner_hz, "highpass", fs=fs), which takes a second to load.
    """
    k = np.tan(np.pi * corner_hz / fs)
    scale = 1.0 / (1.0 + np.sqrt(2.0) * k + k * k)
    return np.array(
        [scale, -2 * scale, scale, 2 * (k * k - 1.0) * scale, (1.0 - np.sqrt(2.0) * k + k * k) * scale]
    )


class VoteCounter:
    """Spectra and weights for consecutive rows; each row's votes go into a histogram."""

    def __init__(self, fs: int, net: VoteNet | None = None) -> None:
        self.plan = StftPlan(fs, LOW_HZ, HIGH_HZ, FRAMES_PER_ROW, WINDOW_S)
        plan = self.plan
        net = vote_net() if net is None else net
        self._net = (net.w0, net.b0, net.w1, net.b1, net.w2, net.b2)
        self._stft = RowStft(plan, 4)
        self._state = np.zeros((_STATE_ROWS, plan.bins), np.float32)
        self._running = np.zeros(3)
        self._section = high_pass(HIGH_PASS_HZ, fs)
        self._filter_state = np.zeros((4, 2))
        self._filter_used = False
        self._filtered = np.zeros((plan.row, 4), np.float32)
        room = plan.frames_per_row * plan.bins
        self._unit = np.empty((room, 3), np.float32)
        self._weight = np.empty(room, np.float32)
        step_s = plan.hop / plan.fs
        self._settings = np.array(
            [
                np.exp(-step_s / 0.060),
                np.exp(-step_s / 0.020),
                1.0 - np.exp(-step_s / 0.5),
                1.0 - np.exp(-step_s / 0.05),
            ]
        )

    def enough(self, samples: int) -> bool:
        """Whether so many samples say anything: one whole window, and a third of a row."""
        return samples >= self.plan.n_fft and 3 * samples >= self.plan.row

    def _spectra(self, row: F32) -> F32:
        if not self._filter_used:  # as if the first sample had always been there: a constant makes no step
            self._filter_used = True
            b0 = self._section[0]
            self._filter_state[:, 0] = -b0 * row[0]
            self._filter_state[:, 1] = self._section[2] * row[0]
        _high_pass(row, self._section, self._filter_state, self._filtered)
        return self._stft.push_row(self._filtered)

    def add_row(self, row: F32, cells: F32) -> None:
        """Add the votes of one row (plan.row, 4) to `cells`."""
        spectra = self._spectra(row)
        count = _collect_votes(
            spectra, self._state, self._running, self._settings, *self._net, self._unit, self._weight
        )
        histogram.add_votes(cells, self._unit, self._weight, count)

    def features(self, row: F32) -> tuple[F32, F32]:
        """What the net sees of one row (frames * bins, FEATURES), and the directions (frames * bins, 3)."""
        spectra = self._spectra(row)
        cells = self.plan.frames_per_row * self.plan.bins
        features = np.zeros((FEATURES, cells), np.float32)
        unit = np.zeros((3, cells), np.float32)
        row_features(spectra, self._state, self._running, self._settings, features, unit)
        return features.T, unit.T
