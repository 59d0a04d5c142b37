"""Front end for small microphone arrays that are not ambisonic: four capsules, say, omni or cardioid.

Two ways in: the direction straight from the capsules by steered response power, with phase transform for
omni capsules (SRP-PHAT: DiBiase, Silverman, Brandstein, in Microphone Arrays, Springer 2001, chapter 8) and
with the capsules' gains for directional ones (`dsp.directional_array`); or a conversion to first-order
ambisonics by a least-squares encoder (Moreau, Daniel, Bertet, AES 120, 2006; Tikhonov-limited), after which
everything else in `dsp` applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.signal import fftconvolve

from dsp.arguments import as_array, sample_rate
from dsp.directional_array import DirectionalModel, sphere
from dsp.doa import DirectionEstimate, Doa
from dsp.errors import InputError
from dsp.stft import StftPlan, stft

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

SPEED_OF_SOUND = 343.0
LOW_HZ = 200.0
HIGH_HZ = 7000.0
SILENCE_DBFS = -110.0
DECAY_S = 0.060  # the room's decay that an onset must rise out of
ONSET_RATIO = 1.5
# Own azimuths of a row scatter by about this much in a furnished room; it bounds what averaging can gain.
_FLOOR_DEG = 1.5


class _PhaseModel:
    """SRP-PHAT of omni capsules: the statistics are weighted phase-only cross-spectra (rows, pairs, bins)."""

    active_confidence = 0.25
    clip_spread_deg = 0.0

    def __init__(self, fs: int, positions: F64) -> None:
        self.plan = StftPlan(fs, LOW_HZ, min(HIGH_HZ, 0.45 * fs))
        first, second = np.triu_indices(len(positions), 1)
        self._pairs = np.stack([first, second], 1)
        self._baseline = positions[second] - positions[first]
        self.most = float(len(self._pairs))  # the response to one plane wave of weight 1

    def statistics(self, spectra: npt.NDArray[np.complex64], weight: F32) -> npt.NDArray[np.complex64]:
        frames = self.plan.frames_per_row
        rows = len(spectra) // frames
        phase = spectra / np.maximum(np.abs(spectra), np.float32(1e-20))
        cross = np.empty((rows, len(self._pairs), self.plan.bins), np.complex64)
        for p, (i, j) in enumerate(self._pairs):
            product = weight * phase[:, :, j] * phase[:, :, i].conj()
            cross[:, p] = product.reshape(rows, frames, -1).sum(axis=1)
        return cross

    def response(self, cross: npt.NDArray, unit: F64) -> F64:
        delay = unit @ self._baseline.T / SPEED_OF_SOUND
        out = np.empty(len(unit))
        step = self.plan.fs / self.plan.n_fft
        _steered(cross, delay, self.plan.first_bin * step, step, out)
        return out

    def plane_wave(self, unit: F64) -> npt.NDArray[np.complex64]:
        """Statistics of one plane wave of weight 1 per bin."""
        delay = self._baseline @ unit / SPEED_OF_SOUND
        wave = np.exp(2j * np.pi * delay[:, None] * self.plan.frequencies_hz)
        return np.asarray(wave, np.complex64)


@dataclass(frozen=True)
class _Search:
    """What the search for one array and sample rate needs again and again."""

    model: _PhaseModel | DirectionalModel
    grid: F64  # (directions, 3)
    grid_az: F64
    grid_el: F64
    flat: bool  # up and down cannot be told apart
    ideal_mean: float  # mean over the grid of the response to one plane wave of weight 1

    @property
    def plan(self) -> StftPlan:
        return self.model.plan


def _checked(x: npt.ArrayLike, positions_m: npt.ArrayLike) -> tuple[F32, F64]:
    sound = as_array(x)
    positions = np.asarray(as_array(positions_m, "positions_m"), np.float64)
    if positions.ndim != 2 or positions.shape[1] != 3 or len(positions) < 3:
        raise InputError(
            f"positions_m must be (capsules, 3) in metres with at least 3 capsules, got {positions.shape}"
        )
    if sound.ndim != 2 or sound.shape[1] != len(positions):
        raise InputError(
            f"audio of shape {sound.shape} does not match {len(positions)} capsules; "
            "expected (frames, capsules)"
        )
    if not np.issubdtype(sound.dtype, np.floating):
        raise InputError(
            f"expected float samples with full scale 1.0, got {sound.dtype}; divide by full scale"
        )
    if not len(sound):
        raise InputError("the audio holds no frame")
    if not np.isfinite(sound).all():
        raise InputError("audio holds values that are not finite; repair or cut the recording there")
    aperture = float(np.linalg.norm(positions[:, None] - positions[None], axis=-1).max())
    if not 0.005 <= aperture <= 1.0:
        raise InputError(
            f"the capsules are {aperture:.4g} m apart at most; expected 0.005 to 1 m: "
            "are the positions in metres?"
        )
    return np.ascontiguousarray(sound, np.float32), positions


def is_planar(positions_m: npt.ArrayLike) -> bool:
    """True when all capsules lie in one horizontal plane: up and down cannot be told apart then."""
    z = np.asarray(positions_m, np.float64)[:, 2]
    return bool(np.ptp(z) < 1e-3)


def _unit(azimuth: F64, elevation: F64) -> F64:
    return np.stack(
        [
            np.cos(azimuth) * np.cos(elevation),
            np.sin(azimuth) * np.cos(elevation),
            np.sin(elevation),
        ],
        axis=-1,
    )


def _facing(positions: F64, facing: npt.ArrayLike | None, pattern: float) -> F64:
    """Unit vectors (capsules, 3) of where the capsules point; by default away from the array's centre."""
    if not 0.0 <= pattern <= 1.0:
        raise InputError(f"pattern must be from 0 (figure of eight) to 1 (omni), not {pattern!r}")
    look = positions - positions.mean(axis=0) if facing is None else np.asarray(facing, np.float64)
    if look.shape != positions.shape:
        raise InputError(f"facing must have the shape of positions_m, {positions.shape}, not {look.shape}")
    length = np.linalg.norm(look, axis=1, keepdims=True)
    if pattern < 1.0 and not np.all(length > 1e-9):
        which = int(np.argmin(length))
        raise InputError(f"capsule {which} points nowhere; give `facing`, a direction for every capsule")
    return np.asarray(look / np.maximum(length, 1e-12))


_Rows = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=8)
def _search(positions: _Rows, fs: int, facing: _Rows, pattern: float) -> _Search:
    place, look = np.array(positions), np.array(facing)
    flat = is_planar(place) and (pattern == 1.0 or bool(np.all(np.abs(look[:, 2]) < 1e-3)))
    elevations = np.arange(0, 80, 15) if flat else np.arange(-75, 80, 15)
    az, el = np.meshgrid(np.radians(np.arange(-180, 180, 5.0)), np.radians(elevations), indexing="ij")
    az, el = az.ravel(), el.ravel()
    grid = _unit(az, el)
    model: _PhaseModel | DirectionalModel
    if pattern == 1.0:
        model = _PhaseModel(fs, place)
    else:
        model = DirectionalModel(fs, place, look, pattern, grid)
    wave = model.plane_wave(grid[np.argmax(grid[:, 0])])
    ideal = float(np.mean(model.response(wave, grid)) / (model.most * model.plan.bins))
    return _Search(model, grid, az, el, flat, ideal)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def _steered(
    cross: npt.NDArray[np.complex64], delay: F64, first_hz: float, step_hz: float, out: F64
) -> None:  # pragma: no cover - compiled
    """Steered response; cross (pairs, bins), delay (directions, pairs) in s. The phase turns by a fixed
    angle from bin to bin, so it is multiplied on instead of computed anew."""
    pairs, bins = cross.shape
    for d in range(delay.shape[0]):
        total = 0.0
        for p in range(pairs):
            a = -2.0 * np.pi * delay[d, p]
            re, im = np.cos(a * first_hz), np.sin(a * first_hz)
            t_re, t_im = np.cos(a * step_hz), np.sin(a * step_hz)
            for b in range(bins):
                total += cross[p, b].real * re - cross[p, b].imag * im
                re, im = re * t_re - im * t_im, re * t_im + im * t_re
        out[d] = total


def _onset_weight(spectra: npt.NDArray[np.complex64], plan: StftPlan) -> F32:
    """Weight per (frame, bin): the fourth root of power, and cells without an onset count little."""
    power = np.sum(np.abs(spectra) ** 2, axis=2)
    decay = np.float32(np.exp(-plan.hop / plan.fs / DECAY_S))
    envelope = np.zeros(plan.bins, np.float32)
    weight = np.sqrt(np.sqrt(power))
    for f in range(len(power)):
        left = envelope * decay
        weight[f] *= np.where(power[f] > ONSET_RATIO * left, 1.0, 0.02)
        envelope = np.maximum(power[f], left)
    return weight.astype(np.float32)


def _row_statistics(x: F32, search: _Search) -> tuple[npt.NDArray, F64, F64]:
    """The statistics of each row (rows, ...), their weight, and the level in dBFS."""
    plan = search.plan
    spectra = stft(x, plan)
    weight = _onset_weight(spectra, plan)
    rows = len(spectra) // plan.frames_per_row
    total = weight.reshape(rows, -1).sum(axis=1).astype(np.float64)
    padded = np.zeros(rows * plan.row)
    padded[: len(x)] = np.mean(np.square(x, dtype=np.float64), axis=1)
    level = 10 * np.log10(np.maximum(padded.reshape(rows, -1).mean(axis=1), 1e-20))
    return search.model.statistics(spectra, weight), total, level


def _locate(row: npt.NDArray, weight: float, search: _Search) -> tuple[float, float, float]:
    """Azimuth and elevation (degrees) of the highest steered response to the statistics of a row or a sum of
    rows, refined off the grid, and the contrast: 1 for one plane wave, about 0 for a diffuse field."""
    response = search.model.response(row, search.grid)
    best = int(np.argmax(response))
    az, el = search.grid_az[best], search.grid_el[best]
    step = np.radians(5.0)
    lowest = 0.0 if search.grid_el.min() == 0.0 else -np.pi / 2
    values = np.array([response[best]])
    for _ in range(5):
        step_el = 2.0 * step
        da, de = np.meshgrid(np.arange(-2, 3) * 0.5 * step, np.arange(-2, 3) * 0.5 * step_el, indexing="ij")
        near_az = (az + da).ravel()
        near_el = np.clip(el + de, lowest, np.pi / 2).ravel()
        values = search.model.response(row, _unit(near_az, near_el))
        k = int(np.argmax(values))
        az, el = near_az[k], near_el[k]
        step *= 0.4
    scale = max(weight * search.model.most, 1e-30)
    contrast = (float(values.max()) - float(response.mean())) / scale / max(1 - search.ideal_mean, 1e-6)
    azimuth = (np.degrees(az) + 180.0) % 360.0 - 180.0
    return float(azimuth), float(np.degrees(el)), float(np.clip(contrast, 0.0, 1.0))


def _prepare(
    x: npt.ArrayLike, positions_m: npt.ArrayLike, fs: int, facing: npt.ArrayLike | None, pattern: float
) -> tuple[F32, _Search]:
    sound, positions = _checked(x, positions_m)
    look = _facing(positions, facing, pattern)
    centred = positions - positions.mean(axis=0)
    rows = [tuple(map(tuple, m.tolist())) for m in (centred, look)]
    return sound, _search(rows[0], sample_rate(fs, 8000, 192_000), rows[1], float(pattern))


def estimate_array_doa(
    x: npt.ArrayLike,
    positions_m: npt.ArrayLike,
    fs: int,
    facing: npt.ArrayLike | None = None,
    pattern: float = 1.0,
) -> Doa:
    """Direction of arrival at an array of omni or directional capsules, one row per 100 ms.

    x: (frames, capsules) float; positions_m: (capsules, 3), x forward, y left, z up. pattern: the omni part
    of a capsule, 1 omni, 0.5 cardioid, 0 figure of eight; facing: (capsules, 3) where a directional capsule
    points, by default away from the array's centre. A planar array (with axes in its plane) cannot tell up
    from down: its elevation is NaN. Raises InputError for shapes, positions and patterns that do not fit.
    """
    sound, search = _prepare(x, positions_m, fs, facing, pattern)
    statistics, weight, level = _row_statistics(sound, search)
    rows = len(statistics)
    azimuth, elevation = np.full(rows, np.nan), np.full(rows, np.nan)
    confidence, uncertainty = np.zeros(rows), np.full(rows, np.nan)
    for r in range(rows):
        if level[r] < SILENCE_DBFS or weight[r] <= 0:
            continue
        azimuth[r], elevation[r], confidence[r] = _locate(statistics[r], weight[r], search)
        uncertainty[r] = _FLOOR_DEG + 10.0 * (1 - confidence[r]) / max(confidence[r], 0.05)
    if search.flat:
        elevation[:] = np.nan
    times = np.arange(rows) * search.plan.row / search.plan.fs
    return Doa(
        times,
        azimuth,
        elevation,
        confidence,
        uncertainty,
        level,
        confidence >= search.model.active_confidence,
    )


def _scatter_deg(azimuth: F64, weight: F64, centre: float) -> tuple[float, float]:
    """Weighted rms deviation from `centre` within 30 degrees, and the effective number of votes."""
    off = (azimuth - centre + 180.0) % 360.0 - 180.0
    near = (np.abs(off) < 30.0) & (weight > 0)
    if not near.any():
        return 180.0, 1.0
    w = weight[near]
    rms = float(np.sqrt(np.sum(w * off[near] ** 2) / w.sum()))
    return rms, float(w.sum() ** 2 / np.sum(w**2))


def estimate_array_azimuth(
    x: npt.ArrayLike,
    positions_m: npt.ArrayLike,
    fs: int,
    facing: npt.ArrayLike | None = None,
    pattern: float = 1.0,
) -> DirectionEstimate:
    """The one direction that explains a whole clip of an array best (onset-weighted steered response).

    Arguments as `estimate_array_doa`. `confidence` is the contrast of the steered response: 1 for one plane
    wave, 0 for a diffuse field. The elevation is NaN for a planar array. Silence gives NaN and confidence 0.
    """
    sound, search = _prepare(x, positions_m, fs, facing, pattern)
    statistics, weight, level = _row_statistics(sound, search)
    heard = level >= SILENCE_DBFS
    if not heard.any() or weight[heard].sum() <= 0:
        return DirectionEstimate(np.nan, np.nan, 0.0, np.nan)
    total = float(weight[heard].sum())
    azimuth, elevation, confidence = _locate(statistics[heard].sum(axis=0), total, search)
    per_row = [_locate(c, w, search) for c, w in zip(statistics[heard], weight[heard], strict=True)]
    row_az = np.array([p[0] for p in per_row])
    vote = weight[heard] * np.array([p[2] for p in per_row]) ** 2
    rms, votes = _scatter_deg(row_az, vote, azimuth)
    uncertainty = float(np.hypot(_FLOOR_DEG, rms / np.sqrt(max(votes, 1.0))))
    spread = search.model.clip_spread_deg * (1 - confidence) / max(confidence, 0.05)
    uncertainty = float(np.hypot(uncertainty, spread))
    enough = search.model.active_confidence
    if confidence < enough:
        uncertainty = float(np.hypot(uncertainty, 100.0 * (1 - confidence / enough)))
    if search.flat:
        elevation = np.nan
    return DirectionEstimate(azimuth, elevation, confidence, uncertainty)


def array_azimuths(
    x: npt.ArrayLike,
    positions_m: npt.ArrayLike,
    fs: int,
    most: int = 2,
    apart_deg: float = 25.0,
    facing: npt.ArrayLike | None = None,
    pattern: float = 1.0,
) -> list[DirectionEstimate]:
    """Azimuths of up to `most` talkers in a clip, the strongest first.

    Each 100 ms votes for the azimuth that dominates it, so talkers separate because they seldom sound at
    the same instant. A further talker needs 15 % of the votes and `apart_deg` to the ones found before.
    `confidence` is the share of the votes. Arguments and errors as `estimate_array_doa`.
    """
    sound, search = _prepare(x, positions_m, fs, facing, pattern)
    statistics, weight, level = _row_statistics(sound, search)
    heard = np.flatnonzero((level >= SILENCE_DBFS) & (weight > 0))
    if heard.size == 0:
        return []
    per_row = np.array([_locate(statistics[r], weight[r], search) for r in heard])
    vote = weight[heard] * per_row[:, 2] ** 2
    total = vote.sum()
    axis = np.arange(-180.0, 180.0, 0.5)
    off = (axis[:, None] - per_row[None, :, 0] + 180.0) % 360.0 - 180.0
    kernel = np.exp(-0.5 * (off / 6.0) ** 2)
    free = np.ones(len(axis), bool)
    left = vote.copy()
    found: list[DirectionEstimate] = []
    while len(found) < most and free.any() and total > 0:
        density = kernel @ left
        k = int(np.argmax(np.where(free, density, -1.0)))
        centre = float(axis[k])
        w = left * kernel[k]
        if w.sum() < 0.15 * total * (1 if found else 0):
            break
        centre += float(np.sum(w * off[k] * -1.0) / max(w.sum(), 1e-30))
        rms, votes = _scatter_deg(per_row[:, 0], w, centre)
        found.append(
            DirectionEstimate(
                (centre + 180.0) % 360.0 - 180.0,
                np.nan,
                float(w.sum() / total),
                float(np.hypot(_FLOOR_DEG, rms / np.sqrt(max(votes, 1.0)))),
            )
        )
        away = np.abs((axis - centre + 180.0) % 360.0 - 180.0) >= apart_deg
        free &= away
        left = np.where(np.abs((per_row[:, 0] - centre + 180.0) % 360.0 - 180.0) < apart_deg / 2, 0.0, left)
    return found


def encoder_filters(
    positions_m: npt.ArrayLike,
    fs: int,
    facing: npt.ArrayLike | None = None,
    pattern: float = 1.0,
    taps: int = 512,
    noise_gain_db: float = 30.0,
) -> F64:
    """FIR filters from capsules to AmbiX (4, capsules, taps), delayed by taps / 2.

    Least squares over 400 plane waves on the sphere, with the noise gain limited (Tikhonov). `pattern` is
    the omni part of a capsule (1 omni, 0.5 cardioid) and `facing` (capsules, 3) where a directional capsule
    points; by default away from the array's centre.
    """
    positions = np.asarray(positions_m, np.float64)
    positions = positions - positions.mean(axis=0)
    unit = sphere(400)
    look = _facing(positions, facing, pattern)
    gain = pattern + (1 - pattern) * (unit @ look.T)
    target = np.stack([np.ones(len(unit)), unit[:, 1], unit[:, 2], unit[:, 0]])
    if is_planar(positions) and pattern == 1.0:
        target[2] = 0.0
    freq = np.fft.rfftfreq(taps, 1 / fs)
    limit = 10 ** (-noise_gain_db / 10)
    response = np.empty((len(freq), 4, len(positions)), np.complex128)
    for k, f in enumerate(freq):
        heard = (gain * np.exp(2j * np.pi * f / SPEED_OF_SOUND * (unit @ positions.T))).T
        gram = heard @ heard.conj().T / len(unit)
        right = target @ heard.conj().T / len(unit)
        loading = limit * np.real(np.trace(gram)) / len(positions) * 0.05
        response[k] = np.linalg.solve((gram + loading * np.eye(len(positions))).T, right.T).T
    response[0] = response[0].real
    response[-1] = response[-1].real
    fir = np.fft.irfft(response, taps, axis=0)
    fir = np.roll(fir, taps // 2, axis=0) * np.hanning(taps + 1)[:-1, None, None]
    return fir.transpose(1, 2, 0)


def array_to_foa(
    x: npt.ArrayLike,
    positions_m: npt.ArrayLike,
    fs: int,
    facing: npt.ArrayLike | None = None,
    pattern: float = 1.0,
) -> F32:
    """First-order ambisonics (AmbiX, (frames, 4), float32) from a small array, in time with its input.

    x: (frames, capsules) float; positions_m: (capsules, 3); `facing` and `pattern` as in `encoder_filters`.
    Limits: above about c / (2 d), d the largest spacing (2.7 kHz for a 65 mm square), space is sampled too
    coarsely and directions bend; at low frequencies X, Y (and Z) come from small pressure differences, so
    the capsules' noise is raised, by at most about 30 dB. A planar array of omni capsules has no Z: it is
    zero, and elevations come out too low or as 0. Prefer `estimate_array_azimuth` for directions.
    """
    sound, positions = _checked(x, positions_m)
    fir = encoder_filters(positions, int(fs), facing, pattern)
    taps = fir.shape[2]
    out = np.zeros((len(sound), 4))
    for c in range(4):
        for m in range(len(positions)):
            if np.any(fir[c, m]):
                full = fftconvolve(sound[:, m].astype(np.float64), fir[c, m])
                out[:, c] += full[taps // 2 : taps // 2 + len(sound)]
    return out.astype(np.float32)
