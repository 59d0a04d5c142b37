"""One frame of an adaptive first-order beam: noise covariance, MVDR weights, and the spatial postfilter.

The kernel behind `dsp.beam`. Per frequency, x is the AmbiX spectrum (4,), d the response to a plane wave
from the wanted direction, and G the covariance of a diffuse field, which is diagonal for a coincident or a
tetrahedral microphone. The beam of maximum directivity is a = d^H G^-1 x / D with D = d^H G^-1 d. What it
does not explain, r = (x^H G^-1 x / D - |a|^2) / 3, is what a diffuse field would put into the beam (the
maximum likelihood estimate behind a blocking matrix: Kuklasinski, Doclo, Jensen and Jensen, TASLP 24(9),
2016), and a source from the side puts more into r than into a.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
C64 = npt.NDArray[np.complex64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}  # not nnan/ninf: a NaN must stay one

# Places of the settings in the array that the kernel takes.
SMOOTHING, FORGETTING, LOADING, PRIOR, MAX_NORM, STRENGTH, FLOOR = range(7)


@njit(nogil=True, cache=True, fastmath=_FAST)
def filter_frame(
    x: C64,
    steering: C64,
    inverse: F32,
    covariance: C64,
    count: F32,
    power: F32,
    settings: F32,
    adapt: bool,
    postfilter: bool,
    out: C64,
) -> None:  # pragma: no cover - compiled
    """x: (4, bins); steering: (bins, 4); inverse: (bins, 4), the diagonal of G^-1. Carried from frame to
    frame: covariance (bins, 4, 4) and count (bins,), the sum of x x^H of frames without the wanted sound and
    of their weights; power (2, bins), smoothed |a|^2 and r. Fills out (bins,), the spectrum of the beam.
    """
    bins = x.shape[1]
    one = np.float32(1)
    zero = np.float32(0)
    third = np.float32(1 / 3)
    tiny = np.float32(1e-30)
    keep = settings[SMOOTHING]
    memory = settings[FORGETTING]
    factor = np.zeros((4, 4), np.complex64)
    z = np.zeros(4, np.complex64)
    for k in range(bins):
        a = np.complex64(0)
        total = zero
        whole = zero
        for c in range(4):
            g = inverse[k, c]
            s, v = steering[k, c], x[c, k]
            a += g * np.conj(s) * v
            whole += g * (s.real * s.real + s.imag * s.imag)
            total += g * (v.real * v.real + v.imag * v.imag)
        a /= whole
        beam = a.real * a.real + a.imag * a.imag
        rest = max(total / whole - beam, zero) * third
        power[0, k] = keep * power[0, k] + (one - keep) * beam
        power[1, k] = keep * power[1, k] + (one - keep) * rest
        share = min(one, power[1, k] / max(power[0, k], tiny))
        y = a
        if adapt:
            # Only frames that clearly lack the wanted sound teach the covariance.
            weight = share * share
            weight *= weight
            weight *= weight
            count[k] = memory * count[k] + weight
            trace = zero
            for i in range(4):
                for j in range(i + 1):
                    covariance[k, i, j] = memory * covariance[k, i, j] + weight * x[i, k] * np.conj(x[j, k])
                trace += inverse[k, i] * covariance[k, i, i].real
            if trace > tiny and count[k] > tiny:
                load = settings[LOADING] * (one + settings[PRIOR] / count[k]) * trace * np.float32(0.25)
                _mvdr(covariance[k], load, inverse[k], steering[k], factor, z)
                y = _constrained(x, k, steering[k], inverse[k], whole, z, settings[MAX_NORM], a)
        if postfilter:
            y *= max(one - settings[STRENGTH] * share, settings[FLOOR])
        out[k] = y


@njit(nogil=True, cache=True, fastmath=_FAST, inline="always")
def _mvdr(
    covariance: C64, load: np.float32, inverse: F32, steering: C64, factor: C64, z: C64
) -> None:  # pragma: no cover - compiled
    """z = (R + load G)^-1 d by Cholesky, from the lower triangle of R."""
    for i in range(4):
        for j in range(i + 1):
            value = covariance[i, j]
            if i == j:
                value += load / inverse[i]
            for m in range(j):
                value -= factor[i, m] * np.conj(factor[j, m])
            if i == j:
                factor[i, i] = np.sqrt(max(value.real, np.float32(1e-35)))
            else:
                factor[i, j] = value / factor[j, j].real
    for i in range(4):
        value = steering[i]
        for m in range(i):
            value -= factor[i, m] * z[m]
        z[i] = value / factor[i, i].real
    for i in range(3, -1, -1):
        value = z[i]
        for m in range(i + 1, 4):
            value -= np.conj(factor[m, i]) * z[m]
        z[i] = value / factor[i, i].real


@njit(nogil=True, cache=True, fastmath=_FAST, inline="always")
def _constrained(
    x: C64,
    k: int,
    steering: C64,
    inverse: F32,
    whole: np.float32,
    z: C64,
    max_norm: np.float32,
    fixed: np.complex64,
) -> np.complex64:  # pragma: no cover - compiled
    """Output of the weights w = z / (d^H z), moved toward those of maximum directivity as far as |w|^2 <=
    max_norm asks; both pass the wanted direction unchanged, so every mixture of them does too."""
    one = np.float32(1)
    gain = np.float32(0)
    for c in range(4):
        gain += steering[c].real * z[c].real + steering[c].imag * z[c].imag
    gain = one / max(gain, np.float32(1e-35))
    y = np.complex64(0)
    norm = np.float32(0)
    norm_fixed = np.float32(0)
    cross = np.float32(0)
    for c in range(4):
        w = z[c] * gain
        f = steering[c] * (inverse[c] / whole)
        y += np.conj(w) * x[c, k]
        norm += w.real * w.real + w.imag * w.imag
        norm_fixed += f.real * f.real + f.imag * f.imag
        cross += w.real * f.real + w.imag * f.imag
    if norm <= max_norm:
        return y
    if norm_fixed >= max_norm:
        return fixed
    # |f + t (w - f)|^2 = max_norm for t in (0, 1)
    a = norm - 2 * cross + norm_fixed
    b = cross - norm_fixed
    t = (np.sqrt(max(b * b + a * (max_norm - norm_fixed), np.float32(0))) - b) / a
    return fixed + t * (y - fixed)
