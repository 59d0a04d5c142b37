"""What a recording says about its own sound field: one analysis that every interpretation is read from.

Most faults of an ambisonic recording are a fixed 4x4 matrix: another normalisation, a weak channel, a dead or
inverted capsule, capsule signals taken for W, Y, Z, X. So a signal is analysed once, into covariances by
frequency band, the covariance of decaying sound and the cells of onsets, and `Field.through` shows how all of
them would look without the fault. The measures of a healthy field rest on physics: (X^2+Y^2+Z^2)/W^2 is 1 in
SN3D, for a plane wave exactly and in any room in the mean; late sound comes from all around, so that X, Y, Z
are about equally strong and uncorrelated. Noise of the microphone is taken from the quietest frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
FS = 24000
BANDS_HZ = (150, 300, 500, 800, 1200, 1700, 2300, 3000, 4000, 5000, 6500, 8000)
_STEADY = 2.0  # louder frames this little above the quietest: a steady sound, of which noise cannot be told
_SIZE = 1024
_CELL_SIZE, _CELL_HOP = 128, 32
_CELL_BAND_HZ = (180, 1500)  # below, the window is too short; above, capsules are no longer at one point
_MOST_CELLS = 20_000


def spectra(x: Floats, size: int, hop: int | None = None) -> NDArray[np.complex64]:
    """(frames, 4, size // 2 + 1) Hann-windowed spectra, by default with half overlap."""
    from scipy.fft import rfft

    if len(x) < size:
        x = np.concatenate([x, np.zeros((size - len(x), x.shape[1]))])
    window = np.hanning(size + 1)[:-1].astype(np.float32)
    columns = np.ascontiguousarray(x.T, dtype=np.float32)
    pieces = np.lib.stride_tricks.sliding_window_view(columns, size, axis=1)[:, :: hop or size // 2]
    return np.asarray(rfft(pieces * window, axis=-1)).transpose(1, 0, 2)


def _smooth(x: Floats, width: int | tuple[int, int]) -> Floats:
    from scipy.ndimage import uniform_filter

    size = (width,) * x.ndim if isinstance(width, int) else width
    return np.asarray(uniform_filter(x, size, mode="nearest"))


@dataclass(frozen=True)
class Field:
    """The statistics of W, Y, Z, X (or of what is taken for them); shapes with b bands and n cells.

    bands: (b, 4, 4) covariance of the louder frames in BANDS_HZ, each place in time and frequency counting
    alike, noise subtracted; NaN where noise hides the sound. late: (4, 4) of decaying sound, 200-2000 Hz.
    cells: (n, 4) complex spectra at onsets, 180-1500 Hz, where the direct sound leads, with the noise
    covariance (n, 4, 4) of their bins. steady: the sound never rises over its quietest tenth, so that noise
    was not subtracted. seconds: how much was analysed.
    """

    bands: Floats
    late: Floats
    cells: NDArray[np.complex64]
    cell_noise: Floats
    steady: bool
    seconds: float

    def through(self, matrix: Floats) -> Field:
        """The field as it would be after `matrix` @ each frame."""
        m = np.asarray(matrix, np.float64)
        return Field(
            m @ self.bands @ m.T,
            m @ self.late @ m.T,
            self.cells @ m.T,
            m @ self.cell_noise @ m.T,
            self.steady,
            self.seconds,
        )

    @property
    def covariance(self) -> Floats:
        """(4, 4) mean of the bands from 150 to 2300 Hz that are clear of noise."""
        low = self.bands[:6]
        clear = np.isfinite(low).all(axis=(1, 2))
        return np.asarray(low[clear].mean(axis=0)) if clear.any() else self.late

    @property
    def spread_db(self) -> float:
        """Second eigenvalue of the covariance against the first: far below 0 for one plane wave."""
        eigen = np.linalg.eigvalsh(self.covariance)
        return float(10 * np.log10(max(float(eigen[-2]), 1e-12) / max(float(eigen[-1]), 1e-12)))


def analyse_field(x: Floats) -> Field:
    """Statistics of (frames, 4) at 24 kHz."""
    f = np.fft.rfftfreq(_SIZE, 1 / FS)
    z = spectra(x, _SIZE)[:, :, f <= BANDS_HZ[-1]]
    f = f[f <= BANDS_HZ[-1]]
    power = np.sum(np.abs(z) ** 2, axis=1)
    speech = (f >= 200) & (f <= 5000)
    level = np.log(power[:, speech] + 1e-30).mean(axis=1)
    quiet, loud = level <= np.quantile(level, 0.1), level >= np.quantile(level, 0.3)
    noise = _covariance(z[quiet])
    floor = np.einsum("fii->f", noise)
    rise = float(np.sum(power[loud][:, speech].mean(axis=0)) / max(float(np.sum(floor[speech])), 1e-30))
    steady = rise < _STEADY
    if steady:
        noise, floor = np.zeros_like(noise), np.zeros_like(floor)
    near = np.maximum(_smooth(power, (5, 17))[loud], 0.0)
    weight = np.where(near > 2 * floor, 1 / np.sqrt(near * power[loud].mean(axis=0) + 1e-30), 0.0)
    bands = np.full((len(BANDS_HZ) - 1, 4, 4), np.nan)
    for b, (low, high) in enumerate(pairwise(BANDS_HZ)):
        k = (f >= low) & (f < high)
        w, part = weight[:, k], z[loud][:, :, k]
        if np.count_nonzero(w) >= 20:
            rows = (np.sqrt(w)[:, None] * part).transpose(1, 0, 2).reshape(4, -1)
            raw = (rows @ rows.conj().T).real.astype(np.float64)
            bands[b] = (raw - np.einsum("f,fij->ij", w.sum(axis=0), noise[k])) / w.sum()
    late = _late(z, level, noise, loud)
    cells, cell_noise = _onset_cells(x, steady)
    return Field(bands, late, cells, cell_noise, steady, len(x) / FS)


def _covariance(z: NDArray[np.complex64]) -> Floats:
    """(bins, 4, 4) mean over the frames."""
    rows = np.ascontiguousarray(z.transpose(2, 1, 0))  # bins, channels, frames
    return np.asarray((rows @ rows.conj().transpose(0, 2, 1)).real, np.float64) / max(1, len(z))


def _late(z: NDArray[np.complex64], level: Floats, noise: Floats, loud: NDArray[np.bool_]) -> Floats:
    """(4, 4) of the frames in which the sound decays, each frequency from 200 to 2000 Hz counting alike."""
    decaying = np.zeros(len(level), bool)
    decaying[1:] = (level[1:] < level[:-1] - 0.3) & (level[1:] > np.quantile(level, 0.15))
    if decaying.sum() < 5:
        decaying = loud
    k = slice(int(200 * _SIZE / FS) + 1, int(2000 * _SIZE / FS) + 1)
    white = 1.0 / (_smooth(np.einsum("tif,tif->f", z[loud], z[loud].conj()).real / loud.sum(), 9) + 1e-30)
    return np.asarray(np.einsum("fij,f->ij", (_covariance(z[decaying]) - noise)[k], white[k]))


def _pieces(x: Floats, seconds: float) -> Iterator[Floats]:
    step = int(seconds * FS)
    for start in range(0, max(1, len(x) - _CELL_SIZE), step):
        yield x[start : start + step]


def _onset_cells(x: Floats, steady: bool) -> tuple[NDArray[np.complex64], Floats]:
    """Cells that rise 6 dB over what a 60 ms decay leaves of the loudest before: the direct sound leads the
    reflections by a few ms, which is why the windows are short (5.3 ms)."""
    f = np.fft.rfftfreq(_CELL_SIZE, 1 / FS)
    k = (f >= _CELL_BAND_HZ[0]) & (f <= _CELL_BAND_HZ[1])
    z = np.concatenate([spectra(part, _CELL_SIZE, _CELL_HOP)[:, :, k] for part in _pieces(x, 10.0)])
    power = np.sum(np.abs(z) ** 2, axis=1)
    level = np.log(power + 1e-30).mean(axis=1)
    noise = _covariance(z[level <= np.quantile(level, 0.1)])
    if steady:
        noise = np.zeros_like(noise)
    fade = 10 ** (-0.6 * (_CELL_HOP / FS) / 0.06)
    lag = _CELL_SIZE // _CELL_HOP // 2
    past, held = np.zeros_like(power), np.zeros(power.shape[1])
    for t in range(len(power)):
        past[t] = held
        held = np.maximum(held * fade, power[max(0, t - lag)])
    onset = (power > 4 * past) & (power > 8 * np.einsum("fii->f", noise)) & (power > np.quantile(power, 0.25))
    at, bins = np.nonzero(onset)
    if len(at) > _MOST_CELLS:
        keep = np.linspace(0, len(at) - 1, _MOST_CELLS).astype(int)
        at, bins = at[keep], bins[keep]
    return z[at, :, bins], noise[bins]
