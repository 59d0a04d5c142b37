"""The rig's clock as seen from another host: offset and drift from exchanges of four stamps, with bounds.

An exchange is NTP's (RFC 5905, section 8): sent at t0 and answered back at t3 on the local clock, arrived at
t1 and answered at t2 on the rig's clock. Nothing arrives before it was sent, so the offset (rig - local) lies
between t2 - t3 and t1 - t0 whatever the path does; a line through all these intervals bounds offset and drift
(Duda et al., "Estimating global time in distributed systems", 1987). Inside the bounds the estimate is a
weighted line fit in which the exchanges with the shortest round trip count most (minimum-RTT filtering).

What no exchange can show is a lasting difference between the two ways: it moves the estimate by half of that
difference, which is never more than the stated uncertainty.
"""

from __future__ import annotations

import collections
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MAX_DRIFT = 500e-6  # two crystals of any computer differ by less
PRIOR_DRIFT = 50e-6  # what is expected of two of them before the exchanges tell (standard deviation)
WANDER = 0.2e-6  # how much a drift may change within the window: temperature
RESOLUTION_NS = 1000.0
BIN_NS = 4_000_000_000  # of this long only the exchange with the shortest round trip is kept
BINS = 64  # about four minutes
MAX_RTT_NS = 5_000_000_000
RECENT = 32

Waiting = Literal["unknown", "even", "slower to the rig", "slower from the rig"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Four stamps in ns: t0 and t3 on the local clock, t1 and t2 on the rig's."""

    t0_ns: int
    t1_ns: int
    t2_ns: int
    t3_ns: int

    @property
    def rtt_ns(self) -> int:
        """The time on the way, both ways together."""
        return (self.t3_ns - self.t0_ns) - (self.t2_ns - self.t1_ns)

    @property
    def lower_ns(self) -> int:
        """The offset rig - local is not less."""
        return self.t2_ns - self.t3_ns

    @property
    def upper_ns(self) -> int:
        """The offset rig - local is not more."""
        return self.t1_ns - self.t0_ns

    @property
    def middle_ns(self) -> int:
        """Local time to which the offset belongs."""
        return (self.t0_ns + self.t3_ns) // 2


@dataclass(frozen=True, slots=True)
class ClockState:
    """What is known of the rig's clock at local time `at_ns`.

    offset_ns:       rig - local.
    uncertainty_ns:  the true offset lies within offset_ns +- this, for any path whatever, as long as the two
                     clocks drift by less than 500 ppm and steadily to 0.2 ppm.
    sigma_ns:        standard uncertainty if both ways take equally long.
    drift_ppm:       how much faster the rig's clock runs; with drift_sigma_ppm.
    rtt_ns:          shortest round trip in the window.
    exchanges:       that were used since the start.
    steps, step_ns:  how often one of the clocks jumped (or the rig moved to another host), and the last jump.
    path:            where exchanges wait longer than the fastest did; "even" when neither way stands out.
    same_clock:      both read the same clock (one host): offset and drift are exactly 0.
    """

    at_ns: int
    offset_ns: int
    uncertainty_ns: int
    sigma_ns: float
    drift_ppm: float
    drift_sigma_ppm: float
    rtt_ns: int
    exchanges: int
    steps: int
    step_ns: int
    path: Waiting
    same_clock: bool

    def offset_at(self, local_ns: int) -> int:
        """The offset at another local time, by the drift."""
        return self.offset_ns + round((local_ns - self.at_ns) * self.drift_ppm * 1e-6)

    def uncertainty_at(self, local_ns: int) -> int:
        """`uncertainty_ns` grown by what the drift may do until `local_ns`."""
        away = abs(local_ns - self.at_ns)
        if self.same_clock:
            return 0
        return self.uncertainty_ns + math.ceil(away * (min(3e-6 * self.drift_sigma_ppm, MAX_DRIFT) + WANDER))


def clock_id() -> str:
    """Names the clock that CLOCK_MONOTONIC is here: equal on one host since its start. Empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""
    try:
        shifted = Path(
            "/proc/self/timens_offsets"
        ).read_text()  # a time namespace has a monotonic clock of its own
    except OSError:
        shifted = ""
    return hashlib.sha256((boot + shifted).encode()).hexdigest()[:16]


class ClockEstimator:
    """Collects exchanges; `state` gives offset and drift with their uncertainty.

    Not thread-safe. Exchanges come in order of time. One that contradicts all earlier ones is set aside; when
    the next one agrees with it, a clock has stepped, and everything starts anew from there.
    """

    def __init__(self) -> None:
        self._kept: list[Exchange] = []  # the best of each bin
        self._recent: collections.deque[Exchange] = collections.deque(maxlen=RECENT)
        self._odd: Exchange | None = None
        self.exchanges = 0
        self.steps = 0
        self.step_ns = 0

    def add(self, exchange: Exchange) -> bool:
        """Take an exchange; False for one that is impossible, too slow, or contradicts the earlier ones."""
        if not 0 <= exchange.rtt_ns <= MAX_RTT_NS or not exchange.t1_ns <= exchange.t2_ns:
            return False
        if self._kept and not self._agrees(exchange):
            if self._odd is None or not _overlap(self._odd, exchange):
                self._odd = exchange
                return False
            self._follow(self._odd, exchange)
        self._odd = None
        self.exchanges += 1
        self._recent.append(exchange)
        self._keep(exchange)
        return True

    def state(self, at_ns: int, same_clock: bool = False) -> ClockState | None:
        """Offset and drift at local time `at_ns`; None before the first exchange.

        same_clock: both sides name the same clock; believed as long as no exchange contradicts it.
        """
        if not self._kept:
            return None
        x, lower, upper = self._intervals(at_ns)
        bounds = _bounds(x, lower, upper)
        while bounds is None:  # the drift changed by more than WANDER: the older half tells nothing any more
            self._kept = self._kept[len(self._kept) // 2 :]
            x, lower, upper = self._intervals(at_ns)
            bounds = _bounds(x, lower, upper)
        base = self._kept[-1].lower_ns
        low, high = bounds
        rtt = min(e.rtt_ns for e in self._kept)
        told = (self.exchanges, self.steps, self.step_ns)
        if same_clock and low + base <= RESOLUTION_NS and high + base >= -RESOLUTION_NS:
            return ClockState(at_ns, 0, 0, 0.0, 0.0, 0.0, rtt, *told, self._path(0.0, 0.0, at_ns, rtt), True)
        fitted, sigma, drift, drift_sigma = _fit(x, lower, upper, self._weights_ns(rtt))
        offset = min(max(fitted, low), high)
        return ClockState(
            at_ns=at_ns,
            offset_ns=base + round(offset),
            uncertainty_ns=math.ceil(max(high - offset, offset - low)),
            sigma_ns=sigma,
            drift_ppm=1e6 * drift,
            drift_sigma_ppm=1e6 * drift_sigma,
            rtt_ns=rtt,
            exchanges=self.exchanges,
            steps=self.steps,
            step_ns=self.step_ns,
            path=self._path(offset + base, drift, at_ns, rtt),
            same_clock=False,
        )

    def _follow(self, odd: Exchange, exchange: Exchange) -> None:
        """Two exchanges in a row contradict the earlier ones: a drift that changed, or else a step."""
        before = self.state(exchange.middle_ns)
        assert before is not None
        while len(self._kept) > 3:
            self._kept = self._kept[len(self._kept) // 2 :]
            if self._agrees(exchange):
                return
        self.steps += 1
        self.step_ns = (exchange.lower_ns + exchange.upper_ns) // 2 - before.offset_ns
        self._kept = [odd]
        self._recent.clear()

    def _keep(self, exchange: Exchange) -> None:
        if self._kept and self._kept[-1].middle_ns // BIN_NS == exchange.middle_ns // BIN_NS:
            if exchange.rtt_ns < self._kept[-1].rtt_ns:
                self._kept[-1] = exchange
        else:
            self._kept.append(exchange)
            del self._kept[:-BINS]

    def _intervals(self, at_ns: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Seconds from `at_ns`, lower and upper bounds in ns relative to the newest exchange's lower one."""
        base = self._kept[-1].lower_ns
        x = np.array([(e.middle_ns - at_ns) / 1e9 for e in self._kept])
        lower = np.array([float(e.lower_ns - base) for e in self._kept])
        upper = np.array([float(e.upper_ns - base) for e in self._kept])
        # During a round trip the offset itself drifts, and over the window the drift does.
        slack = (
            RESOLUTION_NS
            + MAX_DRIFT * np.array([e.rtt_ns for e in self._kept]) / 2
            + 1e9 * WANDER * np.abs(x)
        )
        return x, lower - slack, upper + slack

    def _agrees(self, exchange: Exchange) -> bool:
        x, lower, upper = self._intervals(exchange.middle_ns)
        base = self._kept[-1].lower_ns
        slack = RESOLUTION_NS + MAX_DRIFT * exchange.rtt_ns
        low, high = exchange.lower_ns - base - slack, exchange.upper_ns - base + slack
        rtt = min(e.rtt_ns for e in self._kept)
        if low <= _fit(x, lower, upper, self._weights_ns(rtt))[0] <= high:
            return True  # the usual case, and cheap
        bounds = _bounds(x, lower, upper)
        return bounds is None or (low <= bounds[1] and high >= bounds[0])

    def _weights_ns(self, rtt_ns: int) -> NDArray[np.float64]:
        """Standard deviation of each kept exchange: what it waited longer than the fastest, on either way.

        The fastest has waited too, the less the more exchanges there were: their spread tells how much.
        """
        waited = np.array([e.rtt_ns - rtt_ns for e in self._kept], dtype=np.float64)
        number = len(self._recent)
        spread = float(np.median([e.rtt_ns for e in self._recent])) - rtt_ns
        fastest = 0.5 * max(spread, 0.0) / math.sqrt(number) + rtt_ns / (4 * number**2)
        return np.asarray(waited / 2 + fastest + 0.05 * rtt_ns + RESOLUTION_NS)

    def _path(self, offset_ns: float, drift: float, at_ns: int, rtt_ns: int) -> Waiting:
        """Which way waits: medians of both ways beyond half of the shortest round trip."""
        if len(self._recent) < 8:
            return "unknown"
        out, back = [], []
        for e in self._recent:
            offset = offset_ns + drift * (e.middle_ns - at_ns)
            out.append(e.t1_ns - e.t0_ns - offset - rtt_ns / 2)
            back.append(e.t3_ns - e.t2_ns + offset - rtt_ns / 2)
        longer = float(np.median(out) - np.median(back))
        if abs(longer) <= max(500_000.0, rtt_ns / 2):
            return "even"
        return "slower to the rig" if longer > 0 else "slower from the rig"


def _overlap(a: Exchange, b: Exchange) -> bool:
    slack = RESOLUTION_NS + MAX_DRIFT * abs(b.middle_ns - a.middle_ns)
    return a.lower_ns - slack <= b.upper_ns and b.lower_ns - slack <= a.upper_ns


def _fit(
    x_s: NDArray[np.float64],
    lower_ns: NDArray[np.float64],
    upper_ns: NDArray[np.float64],
    sigma_ns: NDArray[np.float64],
) -> tuple[float, float, float, float]:
    """Weighted line through the middles: value at x = 0 in ns with its sigma, slope (1) with its sigma.

    The slope has the prior PRIOR_DRIFT, so that two exchanges a second apart claim no drift that they cannot
    know. When the middles scatter more than `sigma_ns` says, the uncertainties grow with them.
    """
    y = (lower_ns + upper_ns) / 2
    weight = 1.0 / sigma_ns**2
    prior = 1.0 / (1e9 * PRIOR_DRIFT) ** 2
    normal = np.array(
        [[weight.sum(), (weight * x_s).sum()], [(weight * x_s).sum(), (weight * x_s**2).sum() + prior]]
    )
    covariance = np.linalg.inv(normal)
    value, slope = covariance @ np.array([(weight * y).sum(), (weight * x_s * y).sum()])
    scatter = 1.0
    if len(x_s) > 3:
        scatter = max(1.0, float((weight * (y - value - slope * x_s) ** 2).sum()) / (len(x_s) - 2))
    return (
        float(value),
        math.sqrt(scatter * covariance[0, 0]),
        float(slope) / 1e9,
        math.sqrt(scatter * covariance[1, 1]) / 1e9,
    )


def _bounds(
    x_s: NDArray[np.float64], lower_ns: NDArray[np.float64], upper_ns: NDArray[np.float64]
) -> tuple[float, float] | None:
    """Smallest and largest value at x = 0 of all lines that pass every interval with a slope of at most
    MAX_DRIFT; None when there is no such line.

    For a slope b the value is at most min(upper - b x), which is concave in b, and at least
    max(lower - b x), which is convex: searches in one variable find the ends.
    """
    limit = 1e9 * MAX_DRIFT

    def top(b: float) -> float:
        return float(np.min(upper_ns - b * x_s))

    def bottom(b: float) -> float:
        return float(np.max(lower_ns - b * x_s))

    def room(b: float) -> float:
        return top(b) - bottom(b)

    widest = _highest(room, -limit, limit)
    if room(widest) < 0:
        return None
    first, last = _edge(room, widest, -limit), _edge(room, widest, limit)
    return bottom(_highest(lambda b: -bottom(b), first, last)), top(_highest(top, first, last))


def _highest(concave: Callable[[float], float], low: float, high: float) -> float:
    """Where a concave function is highest, by golden sections."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = concave(a), concave(b)
    for _ in range(45):
        if at_a < at_b:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = concave(b)
        else:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = concave(a)
    return max((low, a, b, high), key=concave)


def _edge(concave: Callable[[float], float], inside: float, end: float) -> float:
    """The last place from `inside` towards `end` where the function is not negative, by halving."""
    if concave(end) >= 0:
        return end
    for _ in range(45):
        middle = (inside + end) / 2
        if concave(middle) >= 0:
            inside = middle
        else:
            end = middle
    return inside
