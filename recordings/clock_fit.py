"""How fast a device's sample clock runs against CLOCK_MONOTONIC: the line under the arrivals.

A block can arrive late (a busy computer, callbacks in batches) but hardly early. So the clock is the highest
line that no arrival lies under, not the line through their middle: lateness then costs nothing, however much
of it there is. With exponential lateness it is the line of maximum likelihood; its error falls with the
number of arrivals and not with the square root of it. One rate is fitted for all sections, because there is
one crystal, and one offset for each section between two places where the line may have stepped.

Sources: the linear program is that of quantile regression at quantile 0 (Koenker 2005, Quantile Regression);
lower envelopes of delays for clock skew go back to Moon, Skelly and Towsley, "Estimation and removal of clock
skew from network delay measurements" (INFOCOM 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

_NEAREST = 8  # so many of the earliest arrivals tell how dense they are at the edge
_FEWEST = 400  # arrivals per piece of a line that may bend
_PIECES_S = (240.0, 120.0, 60.0)
_PRICE = 6.0  # of one more parameter, in widths of the edge
_SIGMA_STRAIGHT, _SIGMA_BENT = 1.6, 3.5  # edges to sigma of a slope; found in simulation (tests)
_APART_S = 20.0
_EARLY_S = 1e-3  # a lone arrival so much before all others is a wrong stamp

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClockFit:
    """A line t = offset + frame / (rate * (1 + drift)).

    drift_ppm:       positive when the device's clock is fast (more frames per second than nominal).
    drift_sigma_ppm: one standard deviation; inf with fewer than 3 points.
    offset_ns:       fitted time of frame 0 (of the counter), int64 ns; offset_sigma_ns: of the line where
                     the sound is, not of its continuation to frame 0.
    jitter_ms:       95 % of all observations are at most this much later than the line (as in ClockState).
    """

    drift_ppm: float
    drift_sigma_ppm: float
    offset_ns: int
    jitter_ms: float
    points: int
    span_s: float
    offset_sigma_ns: float = 0.0


@dataclass(frozen=True)
class Envelope:
    """The line under n observations in S sections: late = offset[section] + bend(x).

    knots_s, bend_s: (K + 1,) the common line, straight between knots, 0 at the first. offsets_s, sigmas_s:
    (S,) of each section, and one sigma of it. slope: mean over all, s/s; slope_sigma: of that.
    """

    knots_s: Floats
    bend_s: Floats
    offsets_s: Floats
    sigmas_s: Floats
    slope: float
    slope_sigma: float

    def late_s(self, x_s: ArrayLike, section: NDArray[np.int64]) -> Floats:
        """The line at nominal times x_s in the given sections."""
        x = np.asarray(x_s, np.float64)
        bend = np.interp(x, self.knots_s, self.bend_s)
        beyond = np.clip(x - self.knots_s[-1], 0, None) + np.clip(x - self.knots_s[0], None, 0)
        return np.asarray(self.offsets_s[section] + bend + beyond * self.slope)


def fit_clock(frames: ArrayLike, t_ns: ArrayLike, rate_hz: float = 48000.0) -> ClockFit:
    """Fit one gap-free segment: `frames` (n,) counter values, `t_ns` (n,) observed times.

    Raises InputError for fewer than 2 points, unequal lengths, or a counter that does not advance.
    """
    frame = np.asarray(frames, np.int64)
    time = np.asarray(t_ns, np.int64)
    if frame.shape != time.shape or frame.ndim != 1 or len(frame) < 2:
        raise InputError(
            f"clock fit: got {frame.shape} frames and {time.shape} times; two equal (n,), n >= 2, are needed"
        )
    if rate_hz <= 0:
        raise InputError(f"clock fit: rate {rate_hz} Hz; it must be positive")
    # Integer differences first: float64 does not hold CLOCK_MONOTONIC ns of a long uptime to the ns.
    x = (frame - frame[0]) / float(rate_hz)
    late = (time - time[0]) * 1e-9 - x
    if x[-1] <= 0:
        raise InputError("clock fit: the frame counter does not advance")
    found = fit_envelope(x, late, np.zeros(len(x), np.int64), bend=False)
    residual = late - found.late_s(x, np.zeros(len(x), np.int64))
    offset_s = float(found.offsets_s[0]) - (1.0 + found.slope) * frame[0] / float(rate_hz)
    return ClockFit(
        drift_ppm=(1.0 / (1.0 + found.slope) - 1.0) * 1e6,
        drift_sigma_ppm=found.slope_sigma * 1e6,
        offset_ns=int(time[0]) + round(offset_s * 1e9),
        jitter_ms=float(np.quantile(residual, 0.95)) * 1e3,
        points=len(x),
        span_s=float(x[-1]),
        offset_sigma_ns=float(found.sigmas_s[0]) * 1e9,
    )


def fit_envelope(x_s: Floats, late_s: Floats, section: NDArray[np.int64], bend: bool = True) -> Envelope:
    """The line under the points: x_s (n,) rising nominal times, late_s (n,) observed minus nominal, section
    (n,) 0, 0, ... 1, 1, ... where a new offset begins.

    bend: let the rate change from minute to minute where that lowers the lateness by more than chance does
    (a crystal that warms up), at most once per minute and per 400 arrivals.
    """
    slope = rough_slope(x_s, late_s)
    keep = ~_too_early(x_s, late_s - slope * x_s, section)
    x, late, section = x_s[keep], late_s[keep] - slope * x_s[keep], section[keep]
    count = int(section[-1]) + 1
    low = _lowest(x, late, section)
    best = _solve(x, late, section, low, count, np.array([x[0], x[-1]]))
    if bend:
        best = _bent(x, late, section, low, count, best)
    knots, values, offsets, _ = best
    residual = late - offsets[section] - np.interp(x, knots, values)
    sigmas = np.zeros(count)
    for s in range(count):
        edge = edge_of(residual[section == s])
        offsets[s] -= edge
        sigmas[s] = 1.2 * edge
    span = max(knots[-1] - knots[0], 1e-9)
    mean = float((values[-1] - values[0]) / span)
    return Envelope(
        knots, values + slope * (knots - knots[0]), offsets + slope * knots[0], sigmas, slope + mean,
        _slope_sigma(x, residual, section, (knots[1] - knots[0]) if len(knots) > 2 else np.inf),
    )  # fmt: skip


def rough_slope(x: Floats, late: Floats) -> float:
    """The slope of the earliest arrivals of short windows: the median of pairs (Sen 1968), of which steps of
    the line spoil only few."""
    count = int(np.clip(min(x[-1] - x[0], len(x) / 8), 2, 7200))
    window = np.minimum(((x - x[0]) / (x[-1] - x[0]) * count).astype(np.int64), count - 1)
    order = np.lexsort((late, window))
    _, first = np.unique(window[order], return_index=True)
    low = order[first]
    a, b = x[low], late[low]
    if len(low) < 2:
        return 0.0
    # Twenty seconds apart where there is more: few such pairs have a step between them.
    apart = int(np.clip(round(_APART_S * len(low) / (x[-1] - x[0])), 1, max(len(low) // 3, 1)))
    return float(np.median((b[apart:] - b[:-apart]) / (a[apart:] - a[:-apart])))


def _too_early(x: Floats, late: Floats, section: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Lone arrivals far before all others of their section: wrong stamps, for sound is not early."""
    wrong = np.zeros(len(x), np.bool_)
    for s in range(int(section[-1]) + 1):
        inside = np.flatnonzero(section == s)
        if len(inside) < 20:
            continue
        order = inside[np.argsort(late[inside])[: max(len(inside) // 1000, 3) + 3]]
        steps = np.diff(late[order])
        far = np.flatnonzero(steps[: len(order) - 4] > max(_EARLY_S, 4 * (late[order[-1]] - late[order[-4]])))
        if len(far):
            wrong[order[: far[-1] + 1]] = True
    return wrong


def _lowest(x: Floats, late: Floats, section: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the earliest arrival of each quarter of a second and section: only those touch the line."""
    cell = np.floor((x - x[0]) * 4).astype(np.int64)
    order = np.lexsort((late, cell, section))
    new = np.ones(len(x), np.bool_)
    new[1:] = (np.diff(cell[order]) != 0) | (np.diff(section[order]) != 0)
    return np.sort(order[new])


def _hull(x: Floats, y: Floats) -> NDArray[np.int64]:
    """Indices of the lower convex hull (Andrew's monotone chain)."""
    chain: list[int] = []
    for i in range(len(x)):
        while len(chain) > 1:
            a, b = chain[-2], chain[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            chain.pop()
        chain.append(i)
    return np.array(chain, np.int64)


Solution = tuple[Floats, Floats, Floats, float]  # knots, values at them, offsets, mean lateness


def _solve(
    x: Floats, late: Floats, section: NDArray[np.int64], low: NDArray[np.int64], count: int, knots: Floats
) -> Solution:
    """The linear program: the highest line under all points, straight between knots."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    pieces = len(knots) - 1
    piece = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, pieces - 1)
    part = (x - knots[piece]) / np.diff(knots)[piece]
    # Only corners of the hull of each (section, piece) can touch the line.
    cell = section[low] * pieces + piece[low]
    starts = np.flatnonzero(np.r_[True, np.diff(cell) != 0])
    corners = np.concatenate([group[_hull(x[group], late[group])] for group in np.split(low, starts[1:])])
    rows = np.arange(len(corners))
    # Unknowns: offsets (count), then values at knots[1:]; the value at knots[0] is 0.
    columns = [section[corners]]
    values = [np.ones(len(corners))]
    for at, weight in ((piece[corners], 1 - part[corners]), (piece[corners] + 1, part[corners])):
        columns.append(np.where(at > 0, count + at - 1, 0))
        values.append(np.where(at > 0, weight, 0.0))
    matrix = csr_matrix(
        (np.concatenate(values), (np.tile(rows, 3), np.concatenate(columns))), (len(rows), count + pieces)
    )
    gain = np.bincount(section, minlength=count).astype(np.float64)
    inner = np.bincount(piece, 1 - part, pieces + 1) + np.bincount(piece + 1, part, pieces + 1)
    cost = -np.r_[gain, inner[1:]] / len(x)
    unit = 1e-3  # in ms: HiGHS works to 1e-7 of what it is given
    answer = linprog(cost, A_ub=matrix, b_ub=late[corners] / unit, bounds=(None, None), method="highs")
    if answer.x is None:  # cannot happen with points in every section; a flat line is no harm
        return knots, np.zeros(pieces + 1), _flat(late, section, count), float("inf")
    found = np.r_[0.0, answer.x[count:]] * unit
    # What the solver leaves (1e-7 ms) goes into the offsets, so that the line is under every point.
    offsets = _flat(late - np.interp(x, knots, found), section, count)
    lateness = float(np.mean(late - np.interp(x, knots, found) - offsets[section]))
    return knots, found, offsets, lateness


def _flat(late: Floats, section: NDArray[np.int64], count: int) -> Floats:
    lowest = np.full(count, np.inf)
    np.minimum.at(lowest, section, late)
    return lowest


def _bent(
    x: Floats,
    late: Floats,
    section: NDArray[np.int64],
    low: NDArray[np.int64],
    count: int,
    straight: Solution,
) -> Solution:
    """The straight line, or one with bends when it is clearly better: each bend has a price."""
    best, best_cost = straight, np.inf
    span = x[-1] - x[0]
    for length in (np.inf, *_PIECES_S):
        pieces = 1 if np.isinf(length) else int(span // length)
        if not np.isinf(length) and (pieces < 2 or len(x) < pieces * _FEWEST):
            continue
        knots = np.linspace(x[0], x[-1], pieces + 1)
        found = straight if pieces == 1 else _solve(x, late, section, low, count, knots)
        residual = late - found[2][section] - np.interp(x, found[0], found[1])
        width = max(edge_of(residual), 1e-9) * len(x)  # of lateness at the edge: 1 / density
        cost = found[3] * len(x) + _PRICE * pieces * width
        if pieces == 1:
            floor = width
        cost = found[3] * len(x) + _PRICE * pieces * min(width, floor)
        if cost < best_cost:
            best, best_cost = found, cost
    return best


def edge_of(residual: Floats) -> float:
    """How far the earliest of these lies above the true edge, on average: the spacing of the earliest few."""
    n = len(residual)
    k = min(_NEAREST, n - 1)
    if k < 1:
        return 2e-3  # nothing is known of a single arrival
    return float(np.partition(residual, k)[k] - residual.min()) / k


def _slope_sigma(x: Floats, residual: Floats, section: NDArray[np.int64], piece_s: float) -> float:
    """From the edges of the first and last third of each section (of a bent line: the first and last piece of
    all): their errors over their distance."""
    if np.isfinite(piece_s):
        section = np.zeros(len(x), np.int64)
    information = 0.0
    for s in range(int(section[-1]) + 1):
        inside = section == s
        if inside.sum() < 6:
            continue
        xs, rs = x[inside], residual[inside]
        third = min((xs[-1] - xs[0]) / 3, piece_s)
        first, last = xs <= xs[0] + third, xs >= xs[-1] - third
        if first.sum() < 3 or last.sum() < 3 or third <= 0:
            continue
        apart = float(xs[last].mean() - xs[first].mean())
        variance = edge_of(rs[first]) ** 2 + edge_of(rs[last]) ** 2
        information += apart**2 / max(variance, 1e-30)
    factor = _SIGMA_BENT if np.isfinite(piece_s) else _SIGMA_STRAIGHT
    return float("inf") if information == 0 else factor / float(np.sqrt(information))
