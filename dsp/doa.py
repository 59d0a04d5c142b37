"""Direction of arrival from first-order ambisonics: per 100 ms, streaming or offline, and per clip.

Method: in each cell of a short-time spectrum (200 Hz to 4 kHz) the active intensity Re(W* [X Y Z]) points
to where the sound comes from, exactly for one plane wave (pseudo-intensity vector: Jarrett, Habets, Naylor,
EUSIPCO 2010). Reflections bend it, so the cells vote by how much they look like direct sound: those at an
onset, where the level jumps above what the room's decay leaves behind (the precedence effect), and those of
low diffuseness (DirAC: Pulkki, JAES 55(6), 2007). The votes form a histogram on the sphere whose smoothed
peak is refined off the grid (`dsp.histogram`). A steady sound has no onsets; then the cells of low
diffuseness decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp import histogram
from dsp.errors import InputError
from dsp.stft import RowStft, StftPlan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

LOW_HZ = 200.0
HIGH_HZ = 4000.0
# Short windows: direct sound leads its first reflections by a few ms, and only a window that short can see
# it alone. While choosing it, 21 ms windows every 10 ms cost 2 to 3 degrees more at RT60 0.5 s, SNR 20 dB.
WINDOW_S = 128 / 24000
FRAMES_PER_ROW = 40
# Spaced capsules bend directions in proportion to frequency squared; so bins above this count less.
TRUST_HZ = 1000.0
DECAY_S = 0.060  # the room's decay that an onset must rise out of
ONSET_RATIO = 1.5
ONSET_CAP = 10.0
STEADY_SHARE = 0.02  # weight of a cell without onset
START_FRAMES = 8  # no onsets while the decay is not known yet
LEVEL_TIME_S = 0.5
MEMORY_PER_ROW = 0.5  # what is left of older votes after 100 ms
WIDE_EDGE_DEG = 80.0
NARROW_EDGE_DEG = 55.0
ACTIVE_CONFIDENCE = 0.15
# log(uncertainty) = c0 + c1 log(scatter in degrees) + c2 log(effective votes) + c3 log(share near the peak),
# by maximum likelihood over 260 simulated rooms (RT60 0 to 0.8 s, SNR 0 to 20 dB, 0.5 to 2 s), scaled so
# that 68 % of the errors lie within. On the other rooms and speech of `bench/dsp_doa.py` it was 78 % for 2 s
# clips: somewhat cautious there.
CLIP_FIT = (-2.346, 1.735, -0.252, -0.391)
ROW_FIT = (-2.010, 1.598, -0.278, -0.746)
FLOOR_DEG = 0.4  # what spaced capsules (r = 15 mm) bend an ideal wave
SILENCE_DBFS = -110.0
# Share of a uniform sphere that lies within 30 degrees of any direction.
_UNIFORM_SHARE = 0.0669873


@dataclass(frozen=True, slots=True)
class DoaFrame:
    """Direction during one 100 ms window that starts `t_s` after the first sample pushed.

    Angles and `uncertainty_deg` are NaN when nothing can be said (silence). `confidence` is 0..1: how much
    more the votes agree than those of a diffuse field would. `uncertainty_deg`: 68 % of the errors are
    expected within it. `active`: there is direct sound in this window.
    """

    t_s: float
    azimuth_deg: float
    elevation_deg: float
    confidence: float
    uncertainty_deg: float
    level_dbfs: float
    active: bool


@dataclass(frozen=True)
class Doa:
    """The same as `DoaFrame`, as arrays with one entry per 100 ms."""

    times_s: F64
    azimuth_deg: F64
    elevation_deg: F64
    confidence: F64
    uncertainty_deg: F64
    level_dbfs: F64
    active: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DirectionEstimate:
    """One direction for a whole clip; fields as in `DoaFrame`. NaN angles and confidence 0: none found."""

    azimuth_deg: float
    elevation_deg: float
    confidence: float
    uncertainty_deg: float


@njit(nogil=True, cache=True, fastmath=_FAST)
def _collect_votes(
    spectra: F32,
    envelope: F32,
    running: F64,
    settings: F64,
    trust: F32,
    unit: F32,
    weight: F32,
) -> int:  # pragma: no cover - compiled
    """Votes of one row. spectra: (frames, 4 [W Y Z X], 2, bins). Carried from row to row: envelope (bins,),
    what the room's decay leaves; running (2,): mean power per bin, frames seen. settings (5,): decay per
    frame, onset ratio, onset cap, steady share, level smoothing. trust (bins,): weight of a bin. Fills
    unit (n, 3) and weight (n,); returns n.
    """
    frames, _, _, bins = spectra.shape
    decay = np.float32(settings[0])
    ratio = np.float32(settings[1])
    cap = np.float32(settings[2])
    steady = np.float32(settings[3])
    smoothing = settings[4]
    power = np.empty(bins, np.float32)
    intensity = np.empty((3, bins), np.float32)
    half = np.float32(0.5)
    one = np.float32(1)
    count = 0
    for f in range(frames):
        s = spectra[f]
        total = np.float32(0)
        for b in range(bins):
            wr, wi = s[0, 0, b], s[0, 1, b]
            yr, yi = s[1, 0, b], s[1, 1, b]
            zr, zi = s[2, 0, b], s[2, 1, b]
            xr, xi = s[3, 0, b], s[3, 1, b]
            power[b] = half * (wr * wr + wi * wi + yr * yr + yi * yi + zr * zr + zi * zi + xr * xr + xi * xi)
            intensity[0, b] = wr * xr + wi * xi
            intensity[1, b] = wr * yr + wi * yi
            intensity[2, b] = wr * zr + wi * zi
            total += power[b]
        running[1] += 1.0
        running[0] += (total / bins - running[0]) * max(smoothing, 1.0 / running[1])
        level = np.float32(running[0])
        settled = running[1] > START_FRAMES
        for b in range(bins):
            p = power[b]
            left = envelope[b] * decay
            envelope[b] = max(p, left)
            x, y, z = intensity[0, b], intensity[1, b], intensity[2, b]
            r = np.sqrt(x * x + y * y + z * z)
            if not (p > np.float32(0) and r > np.float32(0)):
                continue
            direct = min(one, r / p)
            relative = np.sqrt(p / level)
            w = steady * relative
            left *= ratio
            if settled and p > left:
                # Compressed ratio of new sound to what was there: about the inverse variance of the vote.
                rise = np.sqrt(min(cap, p / left - one) if left > np.float32(0) else cap)
                w = max(w, rise * np.sqrt(rise) * np.sqrt(np.sqrt(relative)))
            w *= direct * direct * direct * direct * trust[b]
            if w > np.float32(0):
                unit[count, 0], unit[count, 1], unit[count, 2] = x / r, y / r, z / r
                weight[count] = w
                count += 1
    return count


class _VoteCounter:
    """Spectra and selection for consecutive rows; each row's votes as a histogram."""

    def __init__(self, fs: int) -> None:
        self.plan = StftPlan(fs, LOW_HZ, HIGH_HZ, FRAMES_PER_ROW, WINDOW_S)
        plan = self.plan
        self._stft = RowStft(plan, 4)
        self._envelope = np.zeros(plan.bins, np.float32)
        self._running = np.zeros(2)
        room = plan.frames_per_row * plan.bins
        self._unit = np.empty((room, 3), np.float32)
        self._weight = np.empty(room, np.float32)
        self._trust = (1.0 / (1.0 + (plan.frequencies_hz / TRUST_HZ) ** 2)).astype(np.float32)
        step_s = plan.hop / plan.fs
        self._settings = np.array(
            [
                np.exp(-step_s / DECAY_S),
                ONSET_RATIO,
                ONSET_CAP,
                STEADY_SHARE,
                1.0 - np.exp(-step_s / LEVEL_TIME_S),
            ]
        )

    def enough(self, samples: int) -> bool:
        """Whether so many samples say anything: one whole window, and a third of a row."""
        return samples >= self.plan.n_fft and 3 * samples >= self.plan.row

    def add_row(self, row: F32, cells: F32) -> None:
        """Add the votes of one row (plan.row, 4) to `cells`."""
        spectra = self._stft.push_row(row)
        count = _collect_votes(
            spectra, self._envelope, self._running, self._settings, self._trust, self._unit, self._weight
        )
        histogram.add_votes(cells, self._unit, self._weight, count)


def _find_peak(cells: F32, out: F64) -> bool:
    """A wide kernel decides which peak (noise scatters votes), a narrower one where it is (reflections)."""
    wide, narrow = np.cos(np.radians(WIDE_EDGE_DEG)), np.cos(np.radians(NARROW_EDGE_DEG))
    return bool(histogram.find_peak(cells, float(wide), float(narrow), out))


def _confidence(share: float, votes: float) -> float:
    """0 for a share of the votes near the peak that a diffuse field could give, 1 when all votes are there.

    The peak of isotropic noise exceeds the uniform share by 5 standard deviations in 1 of 100 windows.
    """
    null = _UNIFORM_SHARE + 5.0 * np.sqrt(_UNIFORM_SHARE / max(votes, 1.0))
    return float(np.clip((share - null) / max(1.0 - null, 1e-3), 0.0, 1.0)) if null < 1 else 0.0


def _uncertainty_deg(peak: F64, confidence: float, fit: tuple[float, float, float, float]) -> float:
    """Expected error in degrees (68 %), from the scatter of the votes under the kernel, their effective
    number and the share near the peak; 90 degrees when the confidence is 0."""
    scatter = np.degrees(np.sqrt(max(peak[4], 0.0))) + 0.3
    log_u = fit[0] + fit[1] * np.log(scatter) + fit[2] * np.log(max(peak[6], 1.0))
    log_u += fit[3] * np.log(max(peak[3], 0.01))
    known = np.hypot(np.exp(log_u), FLOOR_DEG)
    unknown = 90.0 * (1.0 - min(1.0, confidence / 0.05))
    return float(min(90.0, np.hypot(known, unknown)))


def _angles(peak: F64) -> tuple[float, float]:
    azimuth = float(np.degrees(np.arctan2(peak[1], peak[0])))
    if azimuth >= 180.0:
        azimuth -= 360.0
    elevation = float(np.degrees(np.arcsin(np.clip(peak[2], -1.0, 1.0))))
    return azimuth, elevation


def _checked(foa: npt.ArrayLike) -> F32:
    x = np.asarray(foa)
    if x.ndim != 2 or x.shape[1] != 4:
        raise InputError(
            f"direction of arrival needs AmbiX audio of shape (frames, 4), got {x.shape}; "
            "transpose it or convert it with dsp.convert"
        )
    if not np.issubdtype(x.dtype, np.floating):
        raise InputError(f"expected float samples with full scale 1.0, got {x.dtype}; divide by full scale")
    x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        bad = int(np.argmin(np.isfinite(x).all(axis=1)))
        raise InputError(f"sample {bad} is not a finite number; repair or cut the recording there")
    return x


class DoaEstimator:
    """Streaming direction of arrival; the result does not depend on how the samples are cut into blocks.

    Push AmbiX blocks (n, 4) of any length; each completed 100 ms window gives one `DoaFrame`, with no delay
    beyond the window's end. Votes of earlier windows fade by half per window. Raises InputError for a wrong
    shape, integer samples, or samples that are not finite.
    """

    def __init__(self, fs: int = 24000) -> None:
        self.fs = int(fs)
        self._votes = _VoteCounter(self.fs)
        self._row = np.zeros((self._votes.plan.row, 4), np.float32)
        self._filled = 0
        self._rows = 0
        self._cells = histogram.empty()
        self._own = histogram.empty()
        self._peak = np.zeros(8)

    def push(self, block: npt.ArrayLike) -> list[DoaFrame]:
        """block: (n, 4) float. Returns the windows that this block completes."""
        x = _checked(block)
        row = self._row
        out = []
        start = 0
        while start < len(x):
            n = min(len(row) - self._filled, len(x) - start)
            row[self._filled : self._filled + n] = x[start : start + n]
            self._filled += n
            start += n
            if self._filled == len(row):
                out.append(self._finish_row())
        return out

    def flush(self) -> list[DoaFrame]:
        """The last window, when samples are left that do not fill one. The estimator can go on afterwards.

        With less than a third of a window (or less than one spectrum needs) it says nothing: inactive, NaN.
        """
        return [self._finish_row()] if self._filled else []

    def _finish_row(self) -> DoaFrame:
        row = self._row
        row[self._filled :] = 0.0
        w = row[: self._filled, 0].astype(np.float64)
        level = float(10.0 * np.log10(max(float(np.dot(w, w)) / len(w), 1e-20)))
        t_s = self._rows * len(row) / self.fs
        self._rows += 1
        enough = self._votes.enough(self._filled)
        self._filled = 0
        self._own[:] = 0.0
        self._votes.add_row(row, self._own)
        self._cells *= np.float32(MEMORY_PER_ROW)
        if enough:  # else the votes are mostly the edge where the padding begins
            self._cells += self._own
        peak = self._peak
        if not enough or level < SILENCE_DBFS or not _find_peak(self._cells, peak):
            return DoaFrame(t_s, np.nan, np.nan, 0.0, np.nan, level, False)
        confidence = _confidence(peak[3], peak[5])
        own_share = histogram.share_near(self._own, peak[0], peak[1], peak[2])
        azimuth, elevation = _angles(peak)
        active = confidence >= ACTIVE_CONFIDENCE and bool(own_share > 2.5 * _UNIFORM_SHARE)
        return DoaFrame(
            t_s,
            azimuth,
            elevation,
            confidence,
            _uncertainty_deg(peak, confidence, ROW_FIT),
            level,
            active,
        )


def estimate_doa(foa: npt.ArrayLike, fs: int) -> Doa:
    """Direction of arrival of a whole clip, one row per 100 ms (the last one may be shorter).

    foa: AmbiX (frames, 4) float, at 8 to 192 kHz. Equal to `DoaEstimator` fed with the same samples.
    Raises InputError for a wrong shape, integer samples, or samples that are not finite.
    """
    estimator = DoaEstimator(fs)
    frames = estimator.push(foa)
    frames += estimator.flush()
    return Doa(
        np.array([f.t_s for f in frames]),
        np.array([f.azimuth_deg for f in frames]),
        np.array([f.elevation_deg for f in frames]),
        np.array([f.confidence for f in frames]),
        np.array([f.uncertainty_deg for f in frames]),
        np.array([f.level_dbfs for f in frames]),
        np.array([f.active for f in frames], bool),
    )


def steady_direction(foa: npt.ArrayLike, fs: int) -> DirectionEstimate:
    """The one direction that explains a whole clip best: a talker's sentence or a device's steady sound.

    foa: AmbiX (frames, 4) float. All votes of the clip count alike; a clip of less than a third of a 100 ms
    window has no direction. Raises InputError as `estimate_doa`.
    """
    x = _checked(foa)
    votes = _VoteCounter(int(fs))
    cells = histogram.empty()
    size = votes.plan.row
    for start in range(0, len(x), size):
        row = x[start : start + size]
        if len(row) < size:
            row = np.concatenate([row, np.zeros((size - len(row), 4), np.float32)])
        votes.add_row(row, cells)
    peak = np.zeros(8)
    power = float(np.mean(np.square(x[:, 0], dtype=np.float64))) if len(x) else 0.0
    silent = power < 10 ** (SILENCE_DBFS / 10)
    if silent or not votes.enough(len(x)) or not _find_peak(cells, peak):
        return DirectionEstimate(np.nan, np.nan, 0.0, np.nan)
    azimuth, elevation = _angles(peak)
    confidence = _confidence(peak[3], peak[5])
    return DirectionEstimate(
        azimuth,
        elevation,
        confidence,
        _uncertainty_deg(peak, confidence, CLIP_FIT),
    )


def warm() -> None:
    """Compile (or load from the cache) every kernel, so that the first real block is not late."""
    noise = np.random.default_rng(0).standard_normal((2400, 4)).astype(np.float32)
    estimate_doa(noise, 24000)
