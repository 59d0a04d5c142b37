"""Several peaks of one histogram on the sphere: found one after the other, then moved together.

Found: the highest peak under a wide kernel, refined under a narrower one (`dsp.histogram.find_peak`); the
votes around it are taken out before the next search. Moved: expectation maximisation for a mixture of von
Mises-Fisher distributions of one fixed concentration and a uniform part that takes reverberation and noise
(Banerjee, Dhillon, Ghosh, Sra, JMLR 6, 2005; the uniform part as in Traa and Smaragdis, ICASSP 2014).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp import histogram
from dsp.arguments import sample_rate
from dsp.direct_sound import STEADY_SHARE, DirectSoundVotes
from dsp.doa import SILENCE_DBFS, DirectionEstimate, _angles, _confidence
from dsp.errors import InputError
from dsp.foa_rows import checked_foa, clip_rows

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

WIDE_EDGE_DEG = 60.0
NARROW_EDGE_DEG = 40.0
CLEAR_DEG = 40.0  # votes nearer than this to a found peak are out of the next search
STRAY_DEG = 20.0
SPREAD_DEG = 15.0  # of the votes around their talker: concentration 1 / spread^2
ROUNDS = 20
MAX_COUNT = 8
# log(uncertainty) = c0 + c1 log(scatter in degrees) + c2 log(share of all votes) + c3 log(votes per
# second), by maximum likelihood over 360 tuning rooms (one to three talkers, RT60 0.3 to 0.8 s, SNR 0 to 20
# dB), scaled so that 68 % of the errors lie within.
SEVERAL_FIT = (-1.563, 1.565, -0.456, -0.434)
FLOOR_DEG = 1.5


@njit(nogil=True, cache=True, fastmath=_FAST)
def clear_around(cells: F32, x: float, y: float, z: float, cos_edge: float) -> None:  # pragma: no cover
    """Take all votes within acos(cos_edge) of the unit vector (x, y, z) out of the histogram."""
    for c in range(cells.shape[0]):
        a, b, e = float(cells[c, 1]), float(cells[c, 2]), float(cells[c, 3])
        if a * x + b * y + e * z > cos_edge * np.sqrt(a * a + b * b + e * e):
            for k in range(cells.shape[1]):
                cells[c, k] = np.float32(0)


@njit(nogil=True, cache=True, fastmath=_FAST)
def refine_together(
    cells: F32, peaks: F64, spread: float, rounds: int, out: F64
) -> None:  # pragma: no cover - compiled
    """Move `peaks` (n, 3), unit vectors, to the means of a mixture. spread: radians.

    out (n, 4): share of all weight that a peak explains; mean squared angle (rad^2) of its votes; their
    effective number; the share of its votes that other peaks claim too.
    """
    n = peaks.shape[0]
    kappa = 1.0 / (spread * spread)
    norm = kappa / (2.0 * np.pi * (1.0 - np.exp(-2.0 * kappa)))
    uniform = 1.0 / (4.0 * np.pi)
    part = np.full(n + 1, 1.0 / (n + 1))
    r = np.empty(n + 1)
    sums = np.empty((n, 3))
    stats = np.empty((n, 5))
    for turn in range(rounds):
        sums[:] = 0.0
        stats[:] = 0.0
        rest = 0.0
        total = 0.0
        for c in range(cells.shape[0]):
            w = float(cells[c, 0])
            if not w > 0.0:
                continue
            a, b, e = float(cells[c, 1]), float(cells[c, 2]), float(cells[c, 3])
            length = np.sqrt(a * a + b * b + e * e)
            if not length > 0.0:
                continue
            r[n] = part[n] * uniform
            whole = float(r[n])
            for k in range(n):
                d = (a * peaks[k, 0] + b * peaks[k, 1] + e * peaks[k, 2]) / length
                r[k] = part[k] * norm * np.exp(kappa * (d - 1.0))
                whole += r[k]
            inside = 1.0 - float(r[n]) / whole
            spread_in = max(0.0, 2.0 * (1.0 - length / w))
            for k in range(n):
                q = r[k] / whole
                sums[k, 0] += q * a
                sums[k, 1] += q * b
                sums[k, 2] += q * e
                d = (a * peaks[k, 0] + b * peaks[k, 1] + e * peaks[k, 2]) / length
                stats[k, 0] += q * w
                stats[k, 1] += q * w * (2.0 * (1.0 - min(1.0, d)) + spread_in)
                stats[k, 2] += q * q * float(cells[c, 4])
                stats[k, 3] += q * w * (inside - q)
            rest += w * (1.0 - inside)
            total += w
        if not total > 0.0:
            break
        for k in range(n):
            part[k] = stats[k, 0] / total
            norm_k = np.sqrt(sums[k, 0] ** 2 + sums[k, 1] ** 2 + sums[k, 2] ** 2)
            if norm_k > 0.0 and turn + 1 < rounds:
                for i in range(3):
                    peaks[k, i] = sums[k, i] / norm_k
        part[n] = rest / total
    for k in range(n):
        near = max(stats[k, 0], 1e-12)
        out[k, 0] = part[k]
        out[k, 1] = stats[k, 1] / near
        out[k, 2] = near * near / max(stats[k, 2], 1e-12)
        out[k, 3] = stats[k, 3] / near


def find_peaks(cells: F32, count: int) -> tuple[F64, F64]:
    """Up to `count` peaks, unit vectors (n, 3), strongest found first, and what `refine_together` says of
    each, (n, 4). Leaves `cells` as it was."""
    left = cells.copy()
    found: list[F64] = []
    peak = np.zeros(8)
    wide, narrow, clear = (
        float(np.cos(np.radians(edge))) for edge in (WIDE_EDGE_DEG, NARROW_EDGE_DEG, CLEAR_DEG)
    )
    while len(found) < count and histogram.find_peak(left, wide, narrow, peak):
        found.append(peak[:3].copy())
        clear_around(left, peak[0], peak[1], peak[2], clear)
    start = np.array(found).reshape(-1, 3)
    peaks = start.copy()
    about = np.zeros((len(peaks), 4))
    if not len(peaks):
        return peaks, about
    spread = float(np.radians(SPREAD_DEG))
    refine_together(cells, peaks, spread, ROUNDS, about)
    # A peak without votes of its own slides into a neighbour: it stays where it was found.
    strayed = np.sum(peaks * start, axis=1) < np.cos(np.radians(STRAY_DEG))
    if strayed.any():
        peaks[strayed] = start[strayed]
        refine_together(cells, peaks, spread, 1, about)
    return peaks, about


def several_directions(foa: npt.ArrayLike, fs: int, count: int) -> list[DirectionEstimate]:
    """Directions of `count` talkers that may speak at once, for a whole clip; the one with most votes
    first.

    foa: AmbiX (frames, 4) float, at 8 to 192 kHz; about 2 s are needed, and talkers 45 degrees apart or
    more. The list has `count` entries; those beyond what was found have NaN angles and confidence 0. How
    many talkers there are is not decided here. Raises InputError for a count outside 1 to 8, and as
    `estimate_doa`.
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= MAX_COUNT:
        raise InputError(f"count must be a whole number from 1 to {MAX_COUNT}, not {count!r}")
    x = checked_foa(foa)
    votes = DirectSoundVotes(sample_rate(fs, 8000, 192_000), STEADY_SHARE)
    cells, sure = histogram.empty(), histogram.empty()
    size = votes.plan.row
    for row in clip_rows(x, size, least=size // 3 + 1):  # less than a third of a row says nothing
        votes.add_row(row, cells, sure)
    power = float(np.mean(np.square(x[:, 0], dtype=np.float64))) if len(x) else 0.0
    if power < 10 ** (SILENCE_DBFS / 10):
        cells[:] = 0.0
    peaks, about = find_peaks(cells, int(count))
    near = [histogram.share_near(cells, *p) for p in peaks]
    total, squared = (
        float(np.sum(cells[:, 0], dtype=np.float64)),
        float(np.sum(cells[:, 4], dtype=np.float64)),
    )
    effective = total * total / squared if squared > 0 else 0.0
    found = []
    for k in np.argsort(-about[:, 0], kind="stable"):
        others = sum(near) - near[k]
        left = max(1.0 - others, near[k], 1e-6)  # what the other talkers do not explain
        confidence = _confidence(near[k] / left, left * effective)
        azimuth, elevation = _angles(peaks[k])
        uncertainty = _uncertainty(about[k], total * int(fs) / len(x), confidence)
        found.append(DirectionEstimate(azimuth, elevation, confidence, uncertainty))
    nothing = DirectionEstimate(np.nan, np.nan, 0.0, np.nan)
    return found + [nothing] * (int(count) - len(found))


def _uncertainty(about: F64, votes_per_s: float, confidence: float) -> float:
    """Expected error in degrees (68 %); 90 degrees when the confidence is 0."""
    scatter = float(np.degrees(np.sqrt(max(about[1], 0.0)))) + 0.3
    log_u = SEVERAL_FIT[0] + SEVERAL_FIT[1] * np.log(scatter) + SEVERAL_FIT[2] * np.log(max(about[0], 0.01))
    log_u += SEVERAL_FIT[3] * np.log(max(votes_per_s, 1.0))
    known = np.hypot(np.exp(log_u), FLOOR_DEG)
    unknown = 90.0 * (1.0 - min(1.0, confidence / 0.02))
    return float(min(90.0, np.hypot(known, unknown)))
