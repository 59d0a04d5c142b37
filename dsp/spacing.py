"""Non-coincidence correction: the B-format of a tetrahedral microphone made flat, its capsules apart.

Four cardioids at radius r hear a plane wave at different times. Summed to W and to X, Y, Z by the A-to-B
matrix this costs W level (-1.7 dB at 5 kHz for r = 14.7 mm), gives V = (X, Y, Z) too much (+3 dB) and turns
its phase ahead of W's. One filter for W and one for X, Y, Z undo what does not depend on the direction:

- Capsule d at r d hears g(d . u) = (1 + d . u) / 2 * exp(j k r d . u) of a wave from u. Its Legendre parts
  of order 0 and 1 are g0 = (j0 + j j1) / 2 and g1 = 3/2 (j j1 + j0 - 2 j1 / kr), with spherical Bessel
  functions of k r; they are what reaches W and V in the right directions. The filters turn their phases back.
- The level is set by the diffuse field: over waves from everywhere, with the higher orders that the
  tetrahedron lets through, W and V have the power they should have.

No filter removes those higher orders: they bend the patterns, and above c / (4 r) (5.8 kHz for 14.7 mm) W,
X, Y, Z are not those of the name. There the phases are left and the levels kept flat: right sound, wrong
place.

For listening, beams and ratios of levels, not for directions: what the capsules hear too much of stands at
right angles to V before the correction, where the active intensity Re(W* V) does not see it, and in phase
with V after it. The intensity of one wave then points 2.8 degrees beside it at 2 kHz (1.4 without the
correction) and 8.7 at 4 kHz (5.2), on average over directions at 14.7 mm. Find directions on the plain
conversion, as all here does.

Sources: Gerzon, "The design of precisely coincident microphone arrays for stereo and surround sound", AES 50
(1975); Faller and Kolundzija, "Design and limitations of non-coincidence correction filters for soundfield
microphones", AES 126 (2009).
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from dsp.ambisonics import CAPSULE_DIRECTIONS, Array, Floats, _frames, conversion_matrix
from dsp.arguments import sample_rate
from dsp.errors import InputError
from dsp.fir import all_finite

RADIUS_M = 0.0147
"""Distance of the capsules from the centre that is assumed unless told."""

SPEED_OF_SOUND = 343.0
MAX_GAIN_DB = 6.0
_HALF_LENGTH_S = 0.0007
_WINDOW_BETA = 3.0
_ROWS = 1024


def spacing_limit_hz(radius_m: float = RADIUS_M) -> float:
    """About where capsules at this radius stop being a first-order microphone: c / (4 r)."""
    return SPEED_OF_SOUND / (4.0 * _radius(radius_m))


def spaced_response(frequency_hz: ArrayLike, directions: ArrayLike, radius_m: float = RADIUS_M) -> Any:
    """What a tetrahedron of ideal cardioids gives as AmbiX, uncorrected: complex (frequencies, waves, 4).

    frequency_hz: (frequencies,); directions: unit vectors (waves, 3) to the sources. W of a microphone
    without spacing would be 1, and Y, Z, X the components of the direction.
    """
    f, u = np.atleast_1d(np.asarray(frequency_hz, np.float64)), np.atleast_2d(directions)
    toward = u @ CAPSULE_DIRECTIONS["a"].T  # (waves, 4)
    turns = 2j * np.pi * _radius(radius_m) / SPEED_OF_SOUND * f[:, None, None]
    capsules = 0.5 * (1.0 + toward) * np.exp(turns * toward)
    return capsules @ conversion_matrix("a", "ambix").T


@lru_cache(maxsize=16)
def _filters(fs: int, radius_m: float) -> tuple[Floats, Floats]:
    from scipy.special import spherical_jn

    half = ceil(_HALF_LENGTH_S * fs)
    size = 1 << (16 * half).bit_length()
    f = np.fft.rfftfreq(size, 1.0 / fs)
    kr = np.maximum(2 * np.pi * f * radius_m / SPEED_OF_SOUND, 1e-9)
    j0, j1 = spherical_jn(0, kr), spherical_jn(1, kr)
    # The mean power over directions; above kr = 8 it stays what it is there. 18 x 36 directions are exact to
    # order 35.
    nodes, weights = np.polynomial.legendre.leggauss(18)
    azimuth = np.arange(36) * (2 * np.pi / 36)
    side = np.sqrt(1 - nodes**2)
    u = np.stack(
        [
            np.outer(side, np.cos(azimuth)),
            np.outer(side, np.sin(azimuth)),
            np.repeat(nodes[:, None], len(azimuth), axis=1),
        ],
        axis=-1,
    ).reshape(-1, 3)
    share = np.repeat(weights / 2 / len(azimuth), len(azimuth))
    known = np.linspace(0.0, 8.0, 129)
    response = spaced_response(known * SPEED_OF_SOUND / (2 * np.pi * radius_m), u, radius_m)
    power = np.einsum("fwc,w->fc", np.abs(response) ** 2, share)
    loudest = 10 ** (MAX_GAIN_DB / 20)
    last = 0.5 * fs
    start = min(spacing_limit_hz(radius_m), 0.8 * last)
    end = min(2 * start, last)
    fade = 0.5 + 0.5 * np.cos(np.pi * np.clip((f - start) / (end - start), 0.0, 1.0))
    result = []
    window = np.kaiser(2 * half + 1, _WINDOW_BETA)
    parts = ((power[:, 0], j0 + 1j * j1), (power[:, 1:].sum(axis=1), 1j * j1 + j0 - 2 * j1 / kr))
    for mean, order in parts:
        gain = np.minimum(np.interp(kr, known, mean) ** -0.5, loudest)
        wanted = gain * np.exp(-1j * fade * np.unwrap(np.angle(order)))
        response = np.fft.irfft(wanted * np.exp(-2j * np.pi * f * half / fs), size)
        taps = response[: 2 * half + 1] * window
        result.append(taps / taps.sum())
    return result[0], result[1]


def spacing_filters(fs: int, radius_m: float = RADIUS_M) -> tuple[Floats, Floats]:
    """(for W, for X, Y and Z): FIR filters of the same odd length, delay (length - 1) / 2; 1 at 0 Hz.

    Gains are limited to MAX_GAIN_DB. Raises InputError for a rate or radius out of range.
    """
    w, v = _filters(sample_rate(fs), _radius(radius_m))
    return w.copy(), v.copy()


def _radius(radius_m: float) -> float:
    if not (isinstance(radius_m, (int, float, np.floating)) and 0.001 <= radius_m <= 0.1):
        raise InputError(f"the capsule radius must be from 0.001 to 0.1 m, not {radius_m!r}")
    return float(radius_m)


@njit(cache=True, nogil=True)
def _filter(block, line, taps, out):  # type: ignore[no-untyped-def]
    """line: (4, past + rows) whose first `past` columns hold the past; taps: (4, past + 1), newest last.

    Sums run over taps outside and frames inside, so each output is the same sum wherever a block ends.
    """
    past = taps.shape[1] - 1
    room = line.shape[1] - past
    total = np.empty(room, np.float32)
    read = 0
    while read < block.shape[0]:
        rows = min(room, block.shape[0] - read)
        for c in range(4):
            for i in range(rows):
                line[c, past + i] = block[read + i, c]
                total[i] = 0.0
            for k in range(past + 1):
                tap = taps[c, k]
                for i in range(rows):
                    total[i] += tap * line[c, k + i]
            for i in range(rows):
                out[read + i, c] = total[i]
            for i in range(past):
                line[c, i] = line[c, rows + i]
        read += rows


class SpacingCorrector:
    """The streaming form: AmbiX (frames, 4) blocks of any size, as many frames out as in, late by
    `delay_frames` (0.7 ms).

    concatenate(all pushes + [flush()])[delay_frames:] equals correct_spacing of the whole, bit for bit.
    """

    def __init__(self, fs: int, radius_m: float = RADIUS_M):
        w, v = spacing_filters(fs, radius_m)
        self.fs = fs
        self.delay_frames = len(w) // 2
        self.delay_s = self.delay_frames / fs
        self._taps = np.ascontiguousarray(np.stack([w, v, v, v])[:, ::-1], dtype=np.float32)
        self._line = np.zeros((4, len(w) - 1 + _ROWS), np.float32)

    def push(self, foa: ArrayLike) -> Array:
        """The next block in, as many corrected frames out. Raises InputError for another shape, NaN or
        infinity.
        """
        x = np.ascontiguousarray(_frames(foa))
        if not all_finite(x.reshape(-1)):
            raise InputError("the block holds NaN or infinity; repair it before the correction")
        out = np.empty_like(x)
        _filter(x, self._line, self._taps, out)
        return out

    def flush(self) -> Array:
        """The last `delay_frames` frames; the corrector is then as new."""
        tail = self.push(np.zeros((self.delay_frames, 4), np.float32))
        self._line[:] = 0.0
        return tail


def correct_spacing(foa: ArrayLike, fs: int, radius_m: float = RADIUS_M) -> Array:
    """AmbiX (frames, 4) made from the capsules by `convert`, with the spacing of the capsules corrected.

    For recordings converted from "a" or "a2" only: B-format from a recorder may have been corrected already
    (look whether V/W in diffuse sound rises with frequency). Not before directions are estimated: they get
    worse, see this module. radius_m: from the centre to each capsule. The same length, aligned in time.
    Raises InputError for another shape, rate or radius, NaN or infinity.
    """
    corrector = SpacingCorrector(fs, radius_m)
    return np.concatenate([corrector.push(foa), corrector.flush()])[corrector.delay_frames :]
