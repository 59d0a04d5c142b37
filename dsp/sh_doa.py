"""The reference methods for direction of arrival in spherical harmonics, SRP and MUSIC, on first order.

In N3D a plane wave from the unit vector u is d(u) = (1, sqrt 3 u) at every frequency, so covariances of all
frequencies may be added before the search (the broadband or frequency-smoothed form: Khaykin and Rafaely,
WASPAA 2009), and a diffuse field is white. Both methods look for the maxima of a form d(u)^T Q d(u):
SRP: Q is the covariance itself, steered with the plane-wave decomposition, which for the first order is the
beam of maximum directivity (Rafaely, Fundamentals of Spherical Array Processing, Springer 2015, chapters 5
and 6). MUSIC: Q projects onto the largest eigenvectors, and 1 / (1 - d^T Q d / 4) is the usual spectrum
(Schmidt, IEEE Trans. AP 34(3), 1986). The maxima are refined off the grid.

`dsp.steady_direction` and `dsp.DoaEstimator` are more exact in rooms; these are here to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp.ambisonics import direction_to_unit, unit_to_direction
from dsp.arguments import sample_rate
from dsp.doa import DirectionEstimate, Doa, DoaFrame
from dsp.errors import InputError
from dsp.foa_rows import RowBuffer, checked_foa, clip_rows, level_dbfs
from dsp.stft import RowStft, StftPlan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

METHODS = ("srp", "music")
LOW_HZ = 200.0
HIGH_HZ = 4000.0
FRAMES_PER_ROW = 10
WINDOW_S = 512 / 24000
MEMORY_PER_ROW = 0.5  # as in `dsp.doa`: what is left of older rows after 100 ms
MOST_SOURCES = 3  # of four channels one must be left for the noise
APART_DEG = 25.0
SILENCE_DBFS = -110.0
ACTIVE_CONFIDENCE = 0.1  # isotropic noise stays below 0.05; talkers in rooms are at 0.05 to 0.25
# A bin's share of the sum is its power to the power of this: 0 all bins alike, 1 by power.
LOUDNESS = 0.3
# An eigenvalue belongs to a source when it exceeds the mean of the smaller ones by this ratio, and this share
# of all.
SOURCE_RATIO = 3.0
SOURCE_SHARE = 0.05
# Uncertainty in degrees by confidence: about 70 % of the errors of the rows of 78 simulated talkers (RT60 0
# to 0.8 s, SNR 0 to 20 dB; seed 200 of `bench.doa_rooms`) were within it; a clip is better by CLIP_GAIN.
CONFIDENCES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.6, 1.0)
UNCERTAINTIES_DEG = (90.0, 40.0, 22.0, 16.0, 13.5, 11.5, 5.0, 2.5, 2.2)
CLIP_GAIN = 0.6


@njit(nogil=True, cache=True, fastmath=_FAST)
def _add_row(spectra: F32, loudness: float, out: F64, per_bin: F32) -> None:  # pragma: no cover - compiled
    """Add to `out` the covariance (4, 4, N3D, real part) of spectra (frames, 4 [W Y Z X], 2, bins)."""
    frames, _, _, bins = spectra.shape
    root = np.float32(np.sqrt(3.0))
    place = 0
    for i in range(4):
        for j in range(i + 1):
            per_bin[place, :] = 0.0
            for f in range(frames):
                for b in range(bins):
                    per_bin[place, b] += (
                        spectra[f, i, 0, b] * spectra[f, j, 0, b] + spectra[f, i, 1, b] * spectra[f, j, 1, b]
                    )
            if i > 0:
                per_bin[place, :] *= root
            if j > 0:
                per_bin[place, :] *= root
            place += 1
    for b in range(bins):
        trace = float(per_bin[0, b]) + per_bin[2, b] + per_bin[5, b] + per_bin[9, b]
        if not trace > 0.0:
            continue
        scale = trace**loudness / trace
        place = 0
        for i in range(4):
            for j in range(i + 1):
                value = scale * per_bin[place, b]
                out[i, j] += value
                if i != j:
                    out[j, i] += value
                place += 1


@njit(nogil=True, cache=True, fastmath=_FAST)
def _climb(q: F64, u: F64) -> float:  # pragma: no cover - compiled
    """Moves the unit vector u (in the order Y Z X) to the maximum of d^T Q d uphill of it; returns the value.

    Fixed point of u <- b + S u, with b the linear and S the quadratic part: Q is positive semidefinite, so
    the form is convex and each step goes uphill, as in the power method.
    """
    root = np.sqrt(3.0)
    v = np.empty(3)
    for _ in range(500):
        size = 0.0
        for i in range(3):
            v[i] = q[0, i + 1] / root
            for j in range(3):
                v[i] += q[i + 1, j + 1] * u[j]
            size += v[i] * v[i]
        size = np.sqrt(size)
        if size <= 0.0:
            break
        moved = 0.0
        for i in range(3):
            step = v[i] / size - u[i]
            moved += step * step
            u[i] = v[i] / size
        if moved < 1e-14:
            break
    return _value(q, u)


@njit(nogil=True, cache=True, fastmath=_FAST)
def _value(q: F64, u: F64) -> float:  # pragma: no cover - compiled
    linear = 0.0
    square = 0.0
    for i in range(3):
        linear += q[0, i + 1] * u[i]
        for j in range(3):
            square += q[i + 1, j + 1] * u[i] * u[j]
    return q[0, 0] + 2.0 * np.sqrt(3.0) * linear + 3.0 * square


def _sphere(count: int) -> F64:
    n = np.arange(count) + 0.5
    z = 1.0 - 2.0 * n / count
    turn = np.pi * (1 + 5**0.5) * n
    r = np.sqrt(1.0 - z**2)
    return np.stack([r * np.sin(turn), z, r * np.cos(turn)], axis=1)  # Y Z X


_STARTS = _sphere(64)
_START_WAVES = np.column_stack([np.ones(64), np.sqrt(3.0) * _STARTS])


def _maxima(q: F64, most: int) -> list[tuple[F64, float]]:
    """Unit vectors (Y Z X) and values of the highest maxima of d^T Q d, at least APART_DEG apart."""
    values = np.sum((_START_WAVES @ q) * _START_WAVES, axis=1)
    found: list[tuple[F64, float]] = []
    close = np.cos(np.radians(APART_DEG))
    for k in np.argsort(values)[::-1][: 1 if most == 1 else len(values)]:
        u = _STARTS[k].copy()
        value = _climb(q, u)
        if all(float(u @ other) < close for other, _ in found):
            found.append((u, value))
    found.sort(key=lambda item: -item[1])
    return found[:most]


def _count_sources(eigenvalues: F64) -> int:
    """How many of the four eigenvalues (ascending) stand above the rest; at least one."""
    for count in range(MOST_SOURCES, 1, -1):
        rest = SOURCE_RATIO * float(eigenvalues[: 4 - count].mean())
        if eigenvalues[4 - count] > max(rest, SOURCE_SHARE * float(eigenvalues.sum())):
            return count
    return 1


def _form(covariance: F64, method: str, sources: int | None) -> tuple[F64, int]:
    """The matrix Q of the search, and the number of sources."""
    values, vectors = np.linalg.eigh(covariance)
    count = _count_sources(values) if sources is None else sources
    if method == "srp":
        return covariance, count
    signal = vectors[:, 4 - count :]
    return signal @ signal.T, count


def _contrast(covariance: F64, u: F64) -> float:
    """0 for a diffuse field, 1 for one plane wave: the steered power against its mean over the sphere."""
    trace = float(np.trace(covariance))
    return float(np.clip((_value(covariance, u) / max(trace, 1e-30) - 1.0) / 3.0, 0.0, 1.0))


def _uncertainty_deg(confidence: float) -> float:
    return float(np.exp(np.interp(confidence, CONFIDENCES, np.log(UNCERTAINTIES_DEG))))


def _angles(u: F64) -> tuple[float, float]:
    azimuth, elevation = unit_to_direction(u[[2, 0, 1]])
    return float(azimuth), float(elevation)


def _check_choice(method: str, sources: int | None) -> None:
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; one of {', '.join(METHODS)}")
    if sources is not None and sources not in range(1, MOST_SOURCES + 1):
        raise InputError(
            f"first order can tell 1 to {MOST_SOURCES} sources, not {sources!r}; "
            "None lets the eigenvalues choose"
        )


class _Covariances:
    """The spectra of consecutive rows, and each row's covariance."""

    def __init__(self, fs: int) -> None:
        self.plan = StftPlan(fs, LOW_HZ, HIGH_HZ, FRAMES_PER_ROW, WINDOW_S)
        self._stft = RowStft(self.plan, 4)
        self._per_bin = np.empty((10, self.plan.bins), np.float32)

    def row(self, row: F32) -> F64:
        """(plan.row, 4) -> (4, 4) in N3D."""
        out = np.zeros((4, 4))
        _add_row(self._stft.push_row(row), LOUDNESS, out, self._per_bin)
        return out

    def enough(self, samples: int) -> bool:
        """Whether so many samples say anything: a third of a row."""
        return 3 * samples >= self.plan.row


class ShDoaEstimator:
    """SRP or MUSIC per 100 ms, streaming, in the form of `dsp.DoaEstimator`; one direction per row.

    method: "srp" or "music". sources: how many MUSIC expects in its subspace (1 to 3, None: by the
    eigenvalues); the strongest is given. Push AmbiX blocks (n, 4) of any length: the result does not depend
    on how the samples are cut. Raises InputError for another method or count, a wrong shape, and samples that
    are integers or not finite.
    """

    def __init__(self, fs: int = 24000, method: str = "srp", sources: int | None = 1) -> None:
        _check_choice(method, sources)
        self.fs = sample_rate(fs, 8000, 192_000)
        self._method, self._sources = method, sources
        self._covariances = _Covariances(self.fs)
        self._buffer = RowBuffer(self._covariances.plan.row)
        self._sum = np.zeros((4, 4))

    def push(self, block: npt.ArrayLike) -> list[DoaFrame]:
        """block: (n, 4) float. Returns the windows that this block completes."""
        return [self._finish_row() for _ in self._buffer.push(checked_foa(block))]

    def flush(self) -> list[DoaFrame]:
        """The last window, when samples are left that do not fill one; see `dsp.DoaEstimator.flush`."""
        return [self._finish_row()] if self._buffer.filled else []

    def _finish_row(self) -> DoaFrame:
        number, row, filled = self._buffer.take()
        level = level_dbfs(row[:filled, 0])
        t_s = number * len(row) / self.fs
        own = self._covariances.row(row)
        enough = self._covariances.enough(filled)
        self._sum *= MEMORY_PER_ROW
        if enough:
            self._sum += own
        if not enough or level < SILENCE_DBFS or not np.trace(self._sum) > 0:
            return DoaFrame(t_s, np.nan, np.nan, 0.0, np.nan, level, False)
        form, _ = _form(self._sum, self._method, self._sources)
        ((u, _),) = _maxima(form, 1)
        confidence = _contrast(self._sum, u)
        azimuth, elevation = _angles(u)
        active = confidence >= ACTIVE_CONFIDENCE and _contrast(own, u) >= ACTIVE_CONFIDENCE
        return DoaFrame(t_s, azimuth, elevation, confidence, _uncertainty_deg(confidence), level, active)


def estimate_sh_doa(foa: npt.ArrayLike, fs: int, method: str = "srp", sources: int | None = 1) -> Doa:
    """SRP or MUSIC for a whole clip, one row per 100 ms; equal to `ShDoaEstimator` fed with the same samples.

    Arguments and errors as there; the result has the form of `dsp.estimate_doa`.
    """
    estimator = ShDoaEstimator(fs, method, sources)
    frames = estimator.push(foa)
    frames += estimator.flush()
    return Doa.of(frames)


def sh_directions(
    foa: npt.ArrayLike, fs: int, method: str = "srp", sources: int | None = 1
) -> list[DirectionEstimate]:
    """Directions of a whole clip by SRP or MUSIC, the strongest first, at most `sources`.

    foa: AmbiX (frames, 4) float; sources None: by the eigenvalues. `confidence` is the contrast of the
    steered power: 1 for one plane wave, 0 for a diffuse field; further maxima of SRP that are no stronger
    than a diffuse field are left out. Silence gives an empty list. Errors as `ShDoaEstimator`.
    """
    _check_choice(method, sources)
    x = checked_foa(foa)
    covariances = _Covariances(sample_rate(fs, 8000, 192_000))
    total = np.zeros((4, 4))
    for row in clip_rows(x, covariances.plan.row):
        total += covariances.row(row)
    power = float(np.mean(np.square(x[:, 0], dtype=np.float64))) if len(x) else 0.0
    if power < 10 ** (SILENCE_DBFS / 10) or not covariances.enough(len(x)) or not np.trace(total) > 0:
        return []
    form, count = _form(total, method, sources)
    out: list[DirectionEstimate] = []
    for u, _ in _maxima(form, count):
        confidence = _contrast(total, u)
        if method == "srp" and out and confidence <= 0.0:
            continue  # the back lobe
        uncertainty = _uncertainty_deg(confidence) * CLIP_GAIN
        out.append(DirectionEstimate(*_angles(u), confidence, uncertainty))
    return out


def steered_response(
    foa: npt.ArrayLike,
    fs: int,
    azimuth_deg: Sequence[float] | F64,
    elevation_deg: Sequence[float] | F64,
    method: str = "srp",
    sources: int | None = 1,
) -> F64:
    """The map of a clip over directions, for plots: steered power relative to its mean over the sphere
    (srp), or the MUSIC spectrum 1 / (1 - d^T Q d / 4). The two angles broadcast; errors as `ShDoaEstimator`.
    """
    _check_choice(method, sources)
    x = checked_foa(foa)
    covariances = _Covariances(sample_rate(fs, 8000, 192_000))
    size = covariances.plan.row
    total = np.zeros((4, 4))
    for row in clip_rows(x, size, least=size):
        total += covariances.row(row)
    form, _ = _form(total, method, sources)
    unit = direction_to_unit(azimuth_deg, elevation_deg)
    d = np.concatenate([np.ones((*unit.shape[:-1], 1)), np.sqrt(3.0) * unit[..., [1, 2, 0]]], axis=-1)
    value = np.einsum("...i,ij,...j->...", d, form, d)
    if method == "srp":
        return np.asarray(value / max(float(np.trace(total)), 1e-30))
    return np.asarray(1.0 / np.maximum(1.0 - value / 4.0, 1e-12))


def warm() -> None:
    """Compile (or load from the cache) every kernel, so that the first real block is not late."""
    noise = np.random.default_rng(0).standard_normal((4800, 4)).astype(np.float32)
    estimate_sh_doa(noise, 24000)
