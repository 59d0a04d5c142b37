"""The search of `dsp.array` for directional capsules: their gains beside their delays, in diffuse noise.

A capsule with the omni part p that faces n hears a plane wave from u with the gain p + (1 - p) n . u, and
earlier by r . u / c. With a(f, u) these responses and G(f) their covariance over the sphere (a diffuse
field, loaded for the capsules' own noise), the response is the sum over cells of time and frequency of
w |a^H G^-1 x|^2 / ((a^H G^-1 a) (x^H G^-1 x)): the share of the whitened sound that one plane wave explains,
the likelihood of one source in diffuse noise (Brandstein and Ward, Microphone Arrays, Springer 2001, chapter
8). w is the onset weight that SRP-PHAT has here too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dsp.stft import StftPlan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
C64 = npt.NDArray[np.complex64]
C128 = npt.NDArray[np.complex128]

SPEED_OF_SOUND = 343.0
LOW_HZ = 200.0
HIGH_HZ = 4000.0
FRAMES_PER_ROW = 40
WINDOW_S = 128 / 24000  # as short as in `dsp.doa`: the direct sound leads its reflections by a few ms
OWN_NOISE = 0.01  # of the capsules, relative to the diffuse sound in them


def capsule_response(unit: F64, frequencies_hz: F64, positions: F64, facing: F64, pattern: float) -> C128:
    """(bins, directions, capsules): gain and phase for plane waves from unit vectors (directions, 3)."""
    gain = pattern + (1.0 - pattern) * (unit @ facing.T)
    lead = unit @ positions.T / SPEED_OF_SOUND
    return np.asarray(gain * np.exp(2j * np.pi * frequencies_hz[:, None, None] * lead))


def sphere(count: int) -> F64:
    """`count` directions that cover the sphere evenly, (count, 3)."""
    n = np.arange(count) + 0.5
    z = 1.0 - 2.0 * n / count
    turn = np.pi * (1 + 5**0.5) * n
    r = np.sqrt(1.0 - z**2)
    return np.stack([r * np.cos(turn), r * np.sin(turn), z], axis=1)


class DirectionalModel:
    """One array and sample rate: whitening, and the response as a linear map of the whitened covariance."""

    most = 1.0  # the response to one plane wave of weight 1
    # On rooms of seed 200 of `bench.doa_rooms`: capsule noise stays below 0.12 in a row, and errors of clips
    # were about this times (1 - confidence) / confidence.
    active_confidence = 0.15
    clip_spread_deg = 3.0

    def __init__(self, fs: int, positions: F64, facing: F64, pattern: float, grid: F64) -> None:
        self.plan = StftPlan(fs, LOW_HZ, min(HIGH_HZ, 0.45 * fs), FRAMES_PER_ROW, WINDOW_S)
        self._array = (positions, facing, pattern)
        around = capsule_response(sphere(600), self.plan.frequencies_hz, *self._array)
        diffuse = around.transpose(0, 2, 1) @ around.conj() / around.shape[1]
        capsules = len(positions)
        trace = np.real(np.trace(diffuse, axis1=1, axis2=2)) / capsules
        diffuse += OWN_NOISE * trace[:, None, None] * np.eye(capsules)
        self._whiten = np.linalg.inv(np.linalg.cholesky(diffuse))  # (bins, capsules, capsules)
        self._upper = np.triu_indices(capsules, 1)
        self._grid, self._grid_table = grid, self._table(grid)

    def response(self, row: npt.NDArray, unit: F64) -> F64:
        """Response (directions,) to the statistics (bins * capsules^2,) from unit vectors (directions, 3)."""
        table = self._grid_table if unit is self._grid else self._table(unit)
        return np.asarray(table @ row, np.float64)

    def plane_wave(self, unit: F64) -> F32:
        """Statistics of one plane wave of weight 1 per bin."""
        wave = capsule_response(unit[None], self.plan.frequencies_hz, *self._array)
        weight = np.ones((1, self.plan.bins), np.float32)
        return self._products(wave.transpose(1, 0, 2), weight)[0].ravel()

    def _table(self, unit: F64) -> F32:
        """(directions, bins * capsules^2) rows that turn what `covariances` gives into the response."""
        waves = capsule_response(unit, self.plan.frequencies_hz, *self._array)
        waves = waves @ self._whiten.transpose(0, 2, 1)
        waves /= np.linalg.norm(waves, axis=2, keepdims=True)
        i, j = self._upper
        # z^H R z = sum |z_i|^2 R_ii + 2 Re sum conj(z_i) z_j R_ij
        cross = waves[:, :, i].conj() * waves[:, :, j]
        parts = [np.abs(waves) ** 2, 2.0 * cross.real, -2.0 * cross.imag]
        rows = np.concatenate(parts, axis=2).transpose(1, 0, 2)
        return np.asarray(rows.reshape(len(unit), -1), np.float32)

    def statistics(self, spectra: C64, weight: F32) -> F32:
        """Whitened covariances of rows (rows, bins * capsules^2) from spectra (frames, bins, capsules) and
        the weight (frames, bins) that each cell is to have."""
        parts = self._products(spectra, weight)
        frames = self.plan.frames_per_row
        return np.asarray(parts.reshape(len(parts) // frames, frames, -1).sum(axis=1), np.float32)

    def _products(self, spectra: npt.NDArray, weight: F32) -> F32:
        white = np.einsum("bij,fbj->fbi", self._whiten.astype(np.complex64), spectra)
        power = np.sum(np.abs(white) ** 2, axis=2)
        white *= np.sqrt(weight / np.maximum(power, np.float32(1e-30)))[:, :, None]
        i, j = self._upper
        cross = white[:, :, i] * white[:, :, j].conj()
        return np.asarray(np.concatenate([np.abs(white) ** 2, cross.real, cross.imag], axis=2), np.float32)
