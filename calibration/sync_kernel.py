"""The inner loop of `calibration.sync_fit`: the likelihood of shares of light, for many draws at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

UNUSED, PARTIAL, DARK, LIT = 0, 1, 2, 3
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_phi(x: float) -> float:
    """log of the normal distribution function (beyond -10 by the first terms of its asymptotic series)."""
    if x > -10.0:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    return -0.5 * x * x - math.log(-x) - 0.9189385332046727 + math.log1p(-1.0 / (x * x))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_between(a: float, b: float) -> float:
    """log(Phi(a) - Phi(b)); very small where b >= a."""
    if not b < a:
        return -1e3
    if b == -math.inf:
        return 0.0 if a == math.inf else _log_phi(a)
    if a == math.inf:
        return _log_phi(-b)
    if b > 0:  # both nearly 1: from the other side
        a, b = -b, -a
    upper = _log_phi(a)
    difference = _log_phi(b) - upper
    return upper + math.log1p(-math.exp(difference)) if difference < -1e-12 else -1e3


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def edge_place(share: float, wide: float, narrow: float) -> tuple[float, float]:
    """Where an edge is, against the middle of the exposure of the band's middle row, that leaves this lit
    share, and how far it moves per share. wide, narrow: exposure and the time in which the shutter passes
    the band (the larger first), both of which spread the share."""
    less = min(share, 1.0 - share)
    bend = 0.5 * narrow / wide  # below this share, only a part of the band is lit at all
    if less < bend:
        less = max(less, 1e-4)
        x = math.sqrt(2.0 * less * narrow * wide)
        slope = math.sqrt(0.5 * narrow * wide / less)
    else:
        x = less * wide + 0.5 * narrow
        slope = wide
    place = 0.5 * (wide + narrow) - x
    return (place if share < 0.5 else -place), slope


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def log_likelihood(
    theta: Floats,
    late: Floats,
    elapsed: Floats,
    is_off: Any,
    event: Any,
    sound_sigma: Floats,
    band_height: Floats,
    kind: Any,
    share: Floats,
    share_noise: Floats,
    slack: Floats,
    rho: Floats,
    events: int,
    on_only: bool,
) -> Floats:
    """(walkers, events). theta: (walkers, 6) as `sync_fit.NAMES`. Per picture of an edge (n,): late, the
    sound's stamp less the picture's; elapsed, ms per ppm of drift; is_off; event; sound_sigma; band_height.
    Per band of it (n, bands): kind, share, share_noise, slack (of a share that counts as
    none or all), rho. Times in ms.
    """
    out = np.zeros((theta.shape[0], events))
    for w in range(theta.shape[0]):
        offset, drift, exposure = theta[w, 0], theta[w, 1], theta[w, 2]
        readout, stamp_noise, flash = theta[w, 3], theta[w, 4], theta[w, 5]
        for i in range(late.shape[0]):
            if on_only and is_off[i]:
                continue
            u = late[i] - offset - drift * elapsed[i]  # the edge of light, against the picture's stamp
            if is_off[i]:
                u += flash
            smear = band_height[i] * abs(readout)
            wide, narrow = max(exposure, smear), max(min(exposure, smear), 1e-6)
            weights, total, squares = 0.0, 0.0, 0.0
            low, high = -math.inf, math.inf
            for b in range(kind.shape[1]):
                at = rho[i, b] * readout
                if kind[i, b] == PARTIAL:
                    place, slope = edge_place(share[i, b], wide, narrow)
                    own = at + place
                    weight = 1.0 / (slope * share_noise[i, b]) ** 2
                    weights += weight
                    total += weight * own
                    squares += weight * own * own
                elif kind[i, b] == DARK:
                    low = max(low, at + edge_place(slack[i, b], wide, narrow)[0])
                elif kind[i, b] == LIT:
                    high = min(high, at - edge_place(slack[i, b], wide, narrow)[0])
            variance = stamp_noise * stamp_noise + sound_sigma[i] * sound_sigma[i]
            if weights > 0.0:
                mean = total / weights
                spread = max(squares - total * mean, 0.0)
                variance += 1.0 / weights
                # The density of the shares, but for what does not depend on the parameters.
                value = -0.5 * (
                    (u - mean) ** 2 / variance + math.log(2.0 * math.pi * variance * weights) + spread
                )
            else:
                sigma = math.sqrt(variance)
                value = _log_between((u - low) / sigma, (u - high) / sigma)
            # Nothing is quite impossible.
            out[w, event[i]] += max(value, -14.0) + math.log1p(math.exp(-abs(value + 14.0)))
    return out
