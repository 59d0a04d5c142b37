"""What a second of sound tells about its channels: silent, dead, copied, mixed of others, clipped, too low.

Copies and mixtures are what a sound server makes when it maps channels. They are told from sound by
exactness: one fixed combination of channels vanishes, in every tenth of the window and down to the rounding
of the samples. Capsules in a room never do that: their noise is independent and reverberation is diffuse. One
dry plane wave can, but its first-order components keep X² + Y² + Z² = W² (SN3D), and a remix does not: where
that holds, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsp.levels import CLIP_LEVEL, DEAD_DBFS

Faults = dict[tuple[str, tuple[int, ...]], bool]
"""(fault, channels) -> it is there. What could not be judged in this window is left out; channels () say for
faults of several channels ("copied", "mixed") whether any is there.
"""

PIECES = 10
_VANISHES = 1e-6  # of the power: -60 dB. Real rooms leave 1e-3 and more in some tenth of a second
_ROUNDING = 4.0  # times the rounding noise of the samples involved is still rounding
_HEARD = 100.0  # times the rounding noise: loud enough to judge
_ENOUGH = 3  # pieces that are loud enough
_BALANCE = 0.05  # of a plane wave, relative
_WEAK_DB, _WEAK_BESIDE_DBFS = -50.0, -70.0
_QUIET_DBFS = -84.0
_CLIP_RUN = 3
_CLIP = round(CLIP_LEVEL * 2**31)
_W_POWER = {"ambix": 1.0, "fuma": 2.0, "n3d": 3.0}  # W² of a plane wave with X² + Y² + Z² = 1 becomes this


@dataclass(frozen=True, slots=True)
class WindowLevels:
    """Per channel, dBFS (0 dB is an amplitude of 1): the highest sample and the RMS without the mean."""

    peak_dbfs: NDArray[np.float64]
    rms_dbfs: NDArray[np.float64]


def window_faults(x: NDArray[np.int32], format: str) -> tuple[Faults, WindowLevels, NDArray[np.int64]]:
    """x: (frames, channels) int32, left-justified, a window of about a second; format: one of dsp.FORMATS.

    Faults: "zero" (every sample is 0), "dead" (constant, or below any microphone's noise), "clipped", "weak"
    (one channel against the loudest), "quiet" (all channels) of one channel each; "copied" (equal, or equal
    up to a gain) and "mixed" (one is a fixed mixture of the others) of several. And the levels, and the
    number of low bits that are always 0.
    """
    count = x.shape[1]
    low, high = _reduce(np.minimum, x), _reduce(np.maximum, x)
    bits = _reduce(np.bitwise_or, x).astype(np.int64) & 0xFFFFFFFF
    unused = np.array([32 if b == 0 else (int(b) & -int(b)).bit_length() - 1 for b in bits], np.int64)
    covariance = _covariances(x)
    power = np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0)
    peak = np.maximum(high.astype(np.float64), -low.astype(np.float64)) * 2.0**-31
    levels = WindowLevels(_db(peak), 0.5 * _db(power))
    zero = bits == 0
    dead = ~zero & (levels.rms_dbfs < DEAD_DBFS)
    alive = np.flatnonzero(~zero & ~dead)
    found: Faults = {}
    strongest = float(levels.rms_dbfs[alive].max()) if len(alive) else -200.0
    for c in range(count):
        found["zero", (c,)] = bool(zero[c])
        found["dead", (c,)] = bool(dead[c])
        found["clipped", (c,)] = bool(peak[c] >= CLIP_LEVEL) and _longest_clip(x[:, c]) >= _CLIP_RUN
        if not (zero[c] or dead[c]) and strongest > _WEAK_BESIDE_DBFS:
            found["weak", (c,)] = bool(levels.rms_dbfs[c] < strongest + _WEAK_DB)
    if len(alive):
        found["quiet", tuple(range(count))] = bool(levels.peak_dbfs.max() < _QUIET_DBFS)
    if len(alive) > 1:
        found.update(_dependences(x, covariance, alive, 4.0 ** (unused - 31) / 12, format))
    return found, levels, unused


def _reduce(function: np.ufunc, x: NDArray[np.int32]) -> NDArray[np.int32]:
    """function.reduce(x, axis=0) in long rows: ten times as fast for few channels."""
    rows = len(x) // 64
    if rows < 2:
        return np.asarray(function.reduce(x, axis=0))
    wide = function.reduce(x[: rows * 64].reshape(rows, -1), axis=0).reshape(64, -1)
    return np.asarray(function.reduce(np.concatenate([wide, x[rows * 64 :]]), axis=0))


def _covariances(x: NDArray[np.int32]) -> NDArray[np.float64]:
    """(PIECES, channels, channels), full scale 1."""
    n = len(x) // PIECES
    y = (x[: n * PIECES].astype(np.float64) * 2.0**-31).reshape(PIECES, n, -1)
    mean = y.mean(axis=1)
    y -= mean[:, None]
    return np.matmul(y.transpose(0, 2, 1), y) / n


def _db(amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(20.0 * np.log10(np.maximum(amplitude, 1e-20)))


def _longest_clip(x: NDArray[np.int32]) -> int:
    at = (x >= _CLIP) | (x <= -_CLIP)
    edge = np.flatnonzero(np.diff(np.concatenate([[0], at.view(np.int8), [0]])))
    return int((edge[1::2] - edge[::2]).max()) if len(edge) else 0


def _dependences(
    x: NDArray[np.int32],
    covariance: NDArray[np.float64],
    alive: NDArray[np.int64],
    rounding: NDArray[np.float64],
    format: str,
) -> Faults:
    """Copies and mixtures among the channels that carry something. rounding: (channels,) its power."""
    dry = _may_be_one_dry_wave(covariance, rounding, format)
    mean = covariance.mean(axis=0)
    found: Faults = {}
    group = {int(c): int(c) for c in alive}
    judged = False
    for i in alive:
        for j in alive[alive > i]:
            gain = mean[i, j] / mean[i, i]
            u = np.zeros(len(mean))
            u[i], u[j] = -gain, 1.0
            heard = vanishes(covariance, u, rounding)
            if heard is not True and gain > 0 and np.array_equal(x[:, i], x[:, j]):
                heard = True
            judged = judged or heard is not None
            if heard and not dry:
                old, new = group[int(j)], group[int(i)]
                group = {c: new if g == old else g for c, g in group.items()}
    if not judged:
        return found
    for first in set(group.values()):
        members = tuple(c for c, g in group.items() if g == first)
        if len(members) > 1:
            found["copied", members] = True
    found["copied", ()] = any(k[0] == "copied" for k in found)
    alone = sorted(set(group.values()))
    if len(alone) < 3:
        return found
    part = mean[np.ix_(alone, alone)]
    scale = np.sqrt(np.diag(part))
    vectors = np.linalg.eigh(part / np.outer(scale, scale))[1]
    u = np.zeros(len(mean))
    u[alone] = vectors[:, 0] / scale
    mixed = vanishes(covariance, u, rounding)
    if mixed is not None:
        found["mixed", ()] = mixed and not dry
        if mixed and not dry:
            involved = tuple(c for c, w in zip(alone, vectors[:, 0], strict=True) if abs(w) > 0.01)
            found["mixed", involved] = True
    return found


def vanishes(
    covariance: NDArray[np.float64], u: NDArray[np.float64], rounding: NDArray[np.float64]
) -> bool | None:
    """Is the combination u of the channels nothing but rounding in every piece? None: too quiet to judge."""
    left = np.einsum("i,pij,j->p", u, covariance, u)
    whole = np.einsum("i,pii->p", u**2, covariance)
    noise = float(np.sum(u**2 * rounding))
    if np.any(left > np.maximum(_VANISHES * whole, _ROUNDING * noise)):
        return False
    return True if np.count_nonzero(whole > _HEARD * noise) >= _ENOUGH else None


def _may_be_one_dry_wave(covariance: NDArray[np.float64], rounding: NDArray[np.float64], format: str) -> bool:
    """The first-order components are as those of plane waves without a room, in every piece that is loud."""
    if format not in _W_POWER or covariance.shape[1] != 4:
        return False
    power = np.diagonal(covariance, axis1=1, axis2=2)
    loud = power[:, 0] > max(_HEARD * float(rounding[0]), 0.01 * float(power[:, 0].max()))
    if not loud.any():
        return False
    ratio = power[loud, 1:].sum(axis=1) / (power[loud, 0] * _W_POWER[format])
    return bool(np.all(np.abs(ratio - 1) < _BALANCE))
