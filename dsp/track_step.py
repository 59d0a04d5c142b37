"""One 100 ms step of all tracks: predict, share the votes out, update, begin and end tracks, in Numba.

A track is a Kalman filter of constant velocity in the plane that touches the sphere at its direction. Its
error is taken to be the same along and across, so one 2 x 2 covariance serves both axes. Velocities fade,
as in the Langevin model of speaker tracking (Vermaak and Blake, ICASSP 2001). Votes are shared out by how
likely each track would have caused them, beside a uniform part (probabilistic multi-hypothesis tracking:
Streit and Luginbuhl, NUWC-NPT 10428, 1995; histograms of first-order intensity for tracking: Kitic and
Guerin, TRAMP, arXiv 1810.04080). What no track explains is collected, and a peak in it begins a track.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dsp.histogram import find_peak
from dsp.peaks import clear_around

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_FAST = {"contract", "reassoc", "nsz", "arcp"}

STEP_S = 0.1
MAX_TRACKS = 8
MAX_REMEMBERED = 16

# Columns of a track. 0 to 2: direction, a unit vector. VX to VX + 2: its change per second. P00, P01, P11:
# covariance of angle and rate per axis (rad, s). EVIDENCE: weight of its sure onsets, fading. HITS: rows
# with such onsets. SILENT: rows since the last. AGE: rows. ID: 0 while tentative. CLOSE: rows for which it
# has lain beside an older track. LOUDEST: greatest power of 50 ms since it began. DIPPED: 1 when that has
# fallen.
VX, P00, P01, P11, EVIDENCE, HITS, SILENT, AGE, ID, CLOSE = 3, 6, 7, 8, 9, 10, 11, 12, 13, 14
LOUDEST, DIPPED = 15, 16
COLUMNS = 17
# Columns of a remembered track: direction 0 to 2, then:
MEMORY_ID, MEMORY_AGE = 3, 4
_CHANCE = 0.067  # share of a uniform sphere within 30 degrees
_EDGE_60, _EDGE_40 = 0.5, 0.7660444431


class Settings(NamedTuple):
    """All constants of a step. Angles in rad, squared where they are variances; ages in rows of 100 ms."""

    fade: float  # of velocity per row, while heard
    silent_fade: float  # while not
    walk: float  # variance of the velocity's change per second
    drift: float  # of the direction's, per second
    spread: float  # variance of a vote around its talker
    gate: float  # at most so much of a track's own variance widens that
    uniform: float  # prior share of votes from nowhere
    least_part: float  # so much is added to each track's share of a row
    vote_noise: float  # variance of a row's mean direction: vote_noise / weight + row_noise
    row_noise: float
    least_update: float  # weight of votes below which a row moves nothing
    memory: float  # of unexplained votes, per row
    birth_spread: float  # variance of votes that a track explains for good: no births beside it
    birth: float  # weight near a peak that begins a track,
    birth_share: float  # and its share of all that is unexplained
    start_variance: float
    start_rate_variance: float
    hit: float  # weight of sure onsets in a row that count as heard,
    hit_share: float  # and their share of all
    evidence_fade: float  # per row
    confirm: float  # evidence that confirms a track,
    confirm_hits: float  # in so many rows,
    dip: float  # after the power has fallen to this part of its greatest since the track began,
    ghost: float  # and not less than this part of the strongest track's
    tentative_rows: float  # a tentative track ends after so many rows without a hit,
    hold_rows: float  # a confirmed one after so many
    merge: float  # cosine of the angle under which two tracks are one,
    merge_rate: float  # when their velocities differ by less (squared),
    merge_rows: float  # for so many rows
    remember_rows: float  # a new track so near in time
    remember_within: float  # and angle (cosine) to one that ended is that one


@njit(nogil=True, cache=True, fastmath=_FAST)
def _move(track: F64, dx: float, dy: float, dz: float) -> None:  # pragma: no cover - compiled
    """Move a track's direction along a great circle by a tangent vector (rad), and carry its velocity
    along."""
    angle = np.sqrt(dx * dx + dy * dy + dz * dz)
    if angle < 1e-12:
        return
    c, s = np.cos(angle), np.sin(angle) / angle
    x = c * track[0] + s * dx
    y = c * track[1] + s * dy
    z = c * track[2] + s * dz
    norm = np.sqrt(x * x + y * y + z * z)
    x, y, z = x / norm, y / norm, z / norm
    vx, vy, vz = track[VX], track[VX + 1], track[VX + 2]
    before = np.sqrt(vx * vx + vy * vy + vz * vz)
    along = vx * x + vy * y + vz * z
    vx, vy, vz = vx - along * x, vy - along * y, vz - along * z
    after = np.sqrt(vx * vx + vy * vy + vz * vz)
    scale = before / after if after > 1e-12 else 0.0
    track[0], track[1], track[2] = x, y, z
    track[VX], track[VX + 1], track[VX + 2] = vx * scale, vy * scale, vz * scale


@njit(nogil=True, cache=True, fastmath=_FAST)
def _predict(track: F64, s: Settings) -> None:  # pragma: no cover - compiled
    dt = STEP_S
    fade = s.fade if track[SILENT] < 3.0 else s.silent_fade
    _move(track, track[VX] * dt, track[VX + 1] * dt, track[VX + 2] * dt)
    for i in range(3):
        track[VX + i] *= fade
    p00, p01, p11 = track[P00], track[P01], track[P11]
    track[P00] = p00 + 2.0 * dt * p01 + dt * dt * p11 + s.walk * dt**3 / 3.0 + s.drift * dt
    track[P01] = fade * (p01 + dt * p11) + s.walk * dt * dt / 2.0
    track[P11] = fade * fade * p11 + s.walk * dt


@njit(nogil=True, cache=True, fastmath=_FAST)
def _share_out(
    cells: F32, tracks: F64, at: F64, s: Settings, part: F64, sums: F64, near: F64, claimed: F64
) -> None:  # pragma: no cover - compiled
    """Which votes the tracks, thought at `at` (n, 3), explain: sums (n, 3), their vectors, and near (n,),
    their weight, both without what other tracks explain too; claimed (n,): their weight with it. part (n +
    1,): prior share of each track and, last, of the uniform part; replaced by what these votes say of it.
    """
    count = at.shape[0]
    uniform = float(part[count]) / (4.0 * np.pi)
    r = np.empty(count)
    kappa = np.empty(count)
    total = 0.0
    nowhere = 0.0
    for k in range(count):
        kappa[k] = 1.0 / (s.spread + min(tracks[k, P00], s.gate))
    sums[:] = 0.0
    near[:] = 0.0
    claimed[:] = 0.0
    for c in range(cells.shape[0]):
        w = float(cells[c, 0])
        if not w > 0.0:
            continue
        a, b, e = float(cells[c, 1]), float(cells[c, 2]), float(cells[c, 3])
        length = np.sqrt(a * a + b * b + e * e)
        if not length > 0.0:
            continue
        whole = uniform
        for k in range(count):
            d = (a * at[k, 0] + b * at[k, 1] + e * at[k, 2]) / length
            r[k] = part[k] * kappa[k] / (2.0 * np.pi) * np.exp(kappa[k] * (d - 1.0))
            whole += float(r[k])
        inside = (whole - uniform) / whole
        total += w
        nowhere += w * (1.0 - inside)
        for k in range(count):
            q = r[k] / whole
            own = q * (1.0 - (inside - q))
            sums[k, 0] += own * a
            sums[k, 1] += own * b
            sums[k, 2] += own * e
            near[k] += own * w
            claimed[k] += q * w
    if total > 0.0:
        least = s.least_part
        for k in range(count):
            part[k] = (claimed[k] / total + least) / (1.0 + (count + 1) * least)
        part[count] = (nowhere / total + least) / (1.0 + (count + 1) * least)


@njit(nogil=True, cache=True, fastmath=_FAST)
def _tangent_to(at: F64, sums: F64) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The tangent vector (rad) at the unit vector `at` that leads to the direction of `sums`."""
    norm = np.sqrt(sums[0] ** 2 + sums[1] ** 2 + sums[2] ** 2)
    if not norm > 0.0:
        return 0.0, 0.0, 0.0
    x, y, z = sums[0] / norm, sums[1] / norm, sums[2] / norm
    d = at[0] * x + at[1] * y + at[2] * z
    tx, ty, tz = x - d * at[0], y - d * at[1], z - d * at[2]
    across = np.sqrt(tx * tx + ty * ty + tz * tz)
    if across < 1e-12:
        return 0.0, 0.0, 0.0
    scale = np.arctan2(across, d) / across
    return tx * scale, ty * scale, tz * scale


@njit(nogil=True, cache=True, fastmath=_FAST)
def _update(cells: F32, tracks: F64, count: int, s: Settings, part: F64) -> None:  # pragma: no cover
    """Move the tracks by the votes of one row. Three rounds: which votes are whose depends on where they
    are."""
    at = tracks[:count, :3].copy()
    sums = np.zeros((count, 3))
    near = np.zeros(count)
    claimed = np.zeros(count)
    moved = np.empty(tracks.shape[1])
    for turn in range(3):
        _share_out(cells, tracks, at, s, part, sums, near, claimed)
        for k in range(count):
            if near[k] < s.least_update:
                continue
            t = tracks[k]
            dx, dy, dz = _tangent_to(t, sums[k])
            expected = t[P00] + s.vote_noise / near[k] + s.row_noise
            gain, rate = t[P00] / expected, t[P01] / expected
            if turn < 2:
                moved[:] = t
                _move(moved, gain * dx, gain * dy, gain * dz)
                at[k] = moved[:3]
                continue
            t[VX] += rate * dx
            t[VX + 1] += rate * dy
            t[VX + 2] += rate * dz
            _move(t, gain * dx, gain * dy, gain * dz)
            t[P11] -= rate * t[P01]
            t[P01] *= 1.0 - gain
            t[P00] *= 1.0 - gain


@njit(nogil=True, cache=True, fastmath=_FAST)
def _weigh(
    sure: F32, births: F32, tracks: F64, count: int, s: Settings, part: F64
) -> None:  # pragma: no cover
    """What a row's sure onsets say for each track, and what they leave in `births` for new ones."""
    own = np.zeros(count)
    r = np.empty(count)
    total = 0.0
    uniform = s.uniform / (4.0 * np.pi)
    each = (1.0 - s.uniform) / max(count, 1)
    wide, narrow = 1.0 / s.birth_spread, 1.0 / s.spread
    memory = np.float32(s.memory)
    for c in range(sure.shape[0]):
        for i in range(births.shape[1]):
            births[c, i] *= memory
        w = float(sure[c, 0])
        if not w > 0.0:
            continue
        a, b, e = float(sure[c, 1]), float(sure[c, 2]), float(sure[c, 3])
        length = np.sqrt(a * a + b * b + e * e)
        if not length > 0.0:
            continue
        whole = part[count] / (4.0 * np.pi)
        explained = uniform
        for k in range(count):
            d = (a * tracks[k, 0] + b * tracks[k, 1] + e * tracks[k, 2]) / length
            r[k] = part[k] * narrow / (2.0 * np.pi) * np.exp(narrow * (d - 1.0))
            whole += r[k]
            explained += each * wide / (2.0 * np.pi) * np.exp(wide * (d - 1.0))
        for k in range(count):
            own[k] += w * r[k] / whole
        left = np.float32(uniform / explained)
        for i in range(4):
            births[c, i] += left * sure[c, i]
        births[c, 4] += left * left * sure[c, 4]
        total += w
    for k in range(count):
        tracks[k, EVIDENCE] += own[k]
        if own[k] >= s.hit and own[k] >= s.hit_share * total:
            tracks[k, HITS] += 1.0
            tracks[k, SILENT] = 0.0


@njit(nogil=True, cache=True, fastmath=_FAST)
def _begin(births: F32, tracks: F64, count: int, s: Settings) -> int:  # pragma: no cover - compiled
    """A peak of what is left begins a tentative track; returns the number of tracks."""
    peak = np.empty(8)
    if count >= tracks.shape[0] or not find_peak(births, _EDGE_60, _EDGE_40, peak):
        return count
    weight, share = peak[3] * peak[7], peak[3]
    chance = _CHANCE + 5.0 * np.sqrt(_CHANCE / max(peak[5], 1.0))
    if weight < s.birth or share < s.birth_share or share < min(chance, 0.6):
        return count
    new = tracks[count]
    new[:] = 0.0
    new[0], new[1], new[2] = peak[0], peak[1], peak[2]
    new[P00], new[P11] = s.start_variance, s.start_rate_variance
    new[EVIDENCE], new[HITS] = weight, 1.0
    clear_around(births, peak[0], peak[1], peak[2], _EDGE_40)
    return count + 1


@njit(nogil=True, cache=True, fastmath=_FAST)
def _cosine(a: F64, b: F64) -> float:  # pragma: no cover - compiled
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _name(t: F64, remembered: F64, clock: F64, s: Settings) -> None:  # pragma: no cover - compiled
    """Give a confirmed track its id: that of one that ended there not long ago, or a new one."""
    who = -1
    closest = s.remember_within
    for m in range(remembered.shape[0]):
        if remembered[m, MEMORY_ID] > 0.0 and remembered[m, MEMORY_AGE] <= s.remember_rows:
            d = _cosine(remembered[m], t)
            if d > closest:
                closest, who = d, m
    if who >= 0:
        t[ID] = remembered[who, MEMORY_ID]
        remembered[who, MEMORY_ID] = 0.0
    else:
        t[ID] = clock[1]
        clock[1] += 1.0


@njit(nogil=True, cache=True, fastmath=_FAST)
def _beside(tracks: F64, k: int, s: Settings) -> bool:  # pragma: no cover - compiled
    """Whether an older track lies beside track k; counts the rows in which both also move alike."""
    t = tracks[k]
    for j in range(k):
        if _cosine(tracks[j], t) > s.merge:
            apart = 0.0
            for i in range(VX, VX + 3):
                apart += (tracks[j, i] - t[i]) ** 2
            if apart < s.merge_rate:
                t[CLOSE] += 1.0
            return True
    t[CLOSE] = 0.0
    return False


@njit(nogil=True, cache=True, fastmath=_FAST)
def advance(
    cells: F32,
    sure: F32,
    powers: F64,
    births: F32,
    tracks: F64,
    remembered: F64,
    clock: F64,
    s: Settings,
) -> int:  # pragma: no cover - compiled
    """One step. cells, sure: histograms of this row's votes. powers: of its halves. Carried from row to
    row: births, the histogram of votes that no track explains; tracks (MAX_TRACKS, COLUMNS), oldest first;
    remembered (MAX_REMEMBERED, 5), tracks that ended; clock (3,): tracks now, next id, next place in
    `remembered`. Returns the number of tracks; those with ID > 0 are confirmed."""
    count = int(clock[0])
    for k in range(count):
        _predict(tracks[k], s)
        tracks[k, AGE] += 1.0
        tracks[k, SILENT] += 1.0
        tracks[k, EVIDENCE] *= s.evidence_fade
        for p in powers:
            tracks[k, LOUDEST] = max(tracks[k, LOUDEST], p)
            if p < s.dip * tracks[k, LOUDEST]:
                tracks[k, DIPPED] = 1.0
    for m in range(remembered.shape[0]):
        remembered[m, MEMORY_AGE] += 1.0
    part = np.empty(count + 1)
    part[:] = (1.0 - s.uniform) / max(count, 1)
    part[count] = s.uniform
    if count > 0:
        _update(cells, tracks, count, s, part)
    _weigh(sure, births, tracks, count, s, part)
    count = _begin(births, tracks, count, s)

    strongest = 0.0
    for k in range(count):
        if tracks[k, ID] > 0.0:
            strongest = max(strongest, tracks[k, EVIDENCE])
    k = 0
    while k < count:
        t = tracks[k]
        tentative = t[ID] == 0.0
        gone = t[SILENT] > (s.tentative_rows if tentative else s.hold_rows)
        if _beside(tracks, k, s):
            gone = gone or tentative or t[CLOSE] > s.merge_rows
        elif (
            tentative
            and not gone
            and t[HITS] >= s.confirm_hits
            and t[DIPPED] > 0.0
            and t[EVIDENCE] >= max(s.confirm, s.ghost * strongest)
        ):
            _name(t, remembered, clock, s)
        if not gone:
            k += 1
            continue
        if t[ID] > 0.0:
            place = int(clock[2])
            remembered[place, :3] = t[:3]
            remembered[place, MEMORY_ID], remembered[place, MEMORY_AGE] = t[ID], 0.0
            clock[2] = (place + 1) % remembered.shape[0]
        for i in range(k, count - 1):
            tracks[i] = tracks[i + 1]
        count -= 1
    clock[0] = count
    return count
