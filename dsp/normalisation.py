"""Which normalisation a recording has: AmbiX (SN3D), FuMa's W or N3D, from the velocity-to-W ratio.

(X^2+Y^2+Z^2)/W^2, read as SN3D, is 0, +3.0 or +4.8 dB. Two estimates with nearly independent errors:

- at onsets, where the direct sound leads, each cell is one plane wave and has the ratio exactly; the median
  over the cells whose intensity is that of a plane wave (|Re W* V|^2 > 0.85 |W|^2 |V|^2, a test that no scale
  changes) hardly feels the reflections;
- over all louder sound the ratio holds in the mean over frequency and place; capsules that do not lie in one
  point raise it with frequency in a known way, so the bands are fitted with that rise, its radius free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import erf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.ambisonics import CAPSULE_DIRECTIONS, conversion_matrix
from dsp.field_statistics import BANDS_HZ, Field

Floats = NDArray[np.floating[Any]]
RATIOS_DB = {"ambix": 0.0, "fuma": 3.0103, "n3d": 4.7712}  # of a file with this scale that is read as AmbiX
MICROPHONE_DB = 0.6  # W against X, Y, Z in real recordings: -1.0 to +1.2 dB off in seven of known convention
_SURE = 0.6
PLANE = 0.85  # |Re W* V|^2 / (|W|^2 |V|^2) of a cell that counts as one wave
_RADII_M = np.linspace(0.0, 0.024, 13)
# Fitted on simulated rooms (seeds 1000-1079 of bench/dsp_checks.py, and 40 rooms with one talker and
# capsules at one point): how far the ratio of each band wanders from room to room, and what stays at onsets.
_BAND_ERRORS_DB = np.array([1.2, 0.94, 1.0, 0.85, 0.65, 0.71, 0.72, 0.53, 0.56, 0.57, 0.79])
_BAND_BIAS_DB = 0.15


@dataclass(frozen=True)
class Ratio:
    """value_db: the ratio as a coincident microphone would have it, with its standard error. cells: onset
    cells that count as one plane wave; scatter_db: of them (robust, 1.33 in healthy rooms)."""

    value_db: float
    error_db: float
    cells: int
    scatter_db: float


@lru_cache(maxsize=1)
def spacing_curves() -> Floats:
    """(radii, bands) ratio in dB of a diffuse field heard by cardioids on a sphere of each of _RADII_M.

    Capsule i hears 0.5 (1 + d_i.u) exp(j k r d_i.u) of a wave from u; the plain matrix makes W, X, Y, Z.
    """
    i = np.arange(400) + 0.5
    polar, turn = np.arccos(1 - 2 * i / 400), np.pi * (1 + 5**0.5) * i  # even directions
    u = np.stack([np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar), np.cos(polar)], axis=1)
    along = u @ CAPSULE_DIRECTIONS["a"].T
    to_b = conversion_matrix("a", "ambix")
    curves = np.zeros((len(_RADII_M), len(BANDS_HZ) - 1))
    for b, (low, high) in enumerate(pairwise(BANDS_HZ)):
        for n, radius in enumerate(_RADII_M):
            values = []
            for f in np.linspace(low, high, 5):
                heard = 0.5 * (1 + along) * np.exp(2j * np.pi * f * radius / 343.0 * along)
                power = np.mean(np.abs(heard @ to_b.T) ** 2, axis=0)
                values.append(10 * np.log10(power[1:].sum() / power[0]))
            curves[n, b] = np.mean(values)
    return curves


def velocity_ratio(field: Field) -> Ratio:
    """The ratio of a field that is read as AmbiX; an infinite error when there is nothing to go by."""
    onset, cells, scatter = _onset_ratio(field)
    steady, steady_error = _steady_ratio(field)
    if cells >= 30 and steady is not None:
        weight = 0.9 * cells / (cells + 50)
        value = weight * onset + (1 - weight) * steady
        error = float(np.hypot(0.19, 2.2 / np.sqrt(cells)))
    elif cells >= 30:
        value, error = onset, float(np.hypot(0.2, 3.5 / np.sqrt(cells)))
    elif steady is not None:
        value, error = steady, steady_error
    else:
        return Ratio(0.0, float("inf"), cells, scatter)
    if field.steady:
        error = float(np.hypot(error, 0.3))
    return Ratio(float(value), float(np.sqrt(error**2 + 0.2 / field.seconds)), cells, scatter)


def plane_cells(field: Field) -> NDArray[np.bool_]:
    """Which of the onset cells are one plane wave, whatever the scale of V against W."""
    z = field.cells
    w, v = np.abs(z[:, 0]) ** 2, np.sum(np.abs(z[:, 1:]) ** 2, axis=1)
    intensity = (z[:, :1].conj() * z[:, 1:]).real
    return np.asarray(np.sum(intensity**2, axis=1) > PLANE * w * v)


def _onset_ratio(field: Field) -> tuple[float, int, float]:
    """(median ratio in dB, number of plane cells, their robust scatter in dB)."""
    plane = plane_cells(field)
    count = int(plane.sum())
    if count < 10:
        return 0.0, count, float("nan")
    power = np.abs(field.cells[plane]) ** 2
    clean = power - np.einsum("nii->ni", field.cell_noise[plane])
    w, v = clean[:, 0], clean[:, 1:].sum(axis=1)
    top = 10 * np.log10(np.maximum(v, 1e-3 * power[:, 1:].sum(axis=1)) + 1e-30)
    ratios = top - 10 * np.log10(np.maximum(w, 1e-3 * power[:, 0]) + 1e-30)
    middle = float(np.median(ratios))
    return middle, count, float(1.4826 * np.median(np.abs(ratios - middle)))


def _steady_ratio(field: Field) -> tuple[float | None, float]:
    """(ratio in dB or None, its error from how well the bands agree)."""
    power = np.einsum("bii->bi", field.bands)
    w, v = power[:, 0], power[:, 1:].sum(axis=1)
    ok = np.isfinite(w) & (w > 0) & (v > 0)
    if ok.sum() < 2:
        return None, float("inf")
    measured = 10 * np.log10(v[ok] / w[ok])
    errors = _BAND_ERRORS_DB[ok]
    weight = np.linalg.inv(np.outer(errors, errors) * (0.9 * np.eye(len(errors)) + 0.1))
    best, value = np.inf, 0.0
    for curve in spacing_curves()[:, ok]:
        y = measured - curve
        level = float(np.sum(weight @ y) / np.sum(weight))
        misfit = float((y - level) @ weight @ (y - level))
        if misfit < best:
            best, value = misfit, level
    agreement = np.sqrt(best / (ok.sum() - 1))  # 1 in the rooms the errors are from
    return value - _BAND_BIAS_DB, float(np.clip(0.5 * agreement, 0.2, 0.8))


@dataclass(frozen=True)
class Convention:
    """name: "ambix", "fuma", "n3d" or "unknown"; probabilities of the three; clear: the ratio is that of one
    of them at all."""

    name: str
    probabilities: dict[str, float]
    clear: bool


def name_convention(ratio: Ratio, declared: str) -> Convention:
    """Probabilities of the three scales from a Gaussian error, all equally likely before; the error of the
    estimate and that of real microphones (MICROPHONE_DB) count.

    The ratio is that of the signal after its conversion from `declared` to AmbiX; a declared capsule format
    has the scale of AmbiX then.
    """
    even = dict.fromkeys(RATIOS_DB, 1 / 3)
    if not np.isfinite(ratio.error_db) or ratio.error_db > 1.2:
        return Convention("unknown", even, False)
    off = ratio.value_db + RATIOS_DB.get(declared, 0.0)
    error = float(np.hypot(ratio.error_db, MICROPHONE_DB))
    distance = {name: abs(off - at) / error for name, at in RATIOS_DB.items()}
    tail = 1 - erf(min(distance.values()) / sqrt(2))
    if tail < 2e-4:
        return Convention("unknown", even, False)
    likely = {name: float(np.exp(-0.5 * d**2)) for name, d in distance.items()}
    total = sum(likely.values())
    p = {name: v / total for name, v in likely.items()}
    best = max(p, key=lambda name: p[name])
    return Convention(best if p[best] > _SURE else "unknown", p, True)
