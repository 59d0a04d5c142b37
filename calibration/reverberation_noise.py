"""The late decay of a response and its noise floor: A exp(-k t) + N, by maximum likelihood.

Short-time energies of Gaussian noise are gamma distributed around their mean; a start as in Lundeby, Vigran,
Bietz and Vorlaender, "Uncertainties of measurements in room acoustics", Acustica 81 (1995): a line to 6 dB
above a first noise level, the noise from what comes after, and again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DB = float(10 / np.log(10))
T60 = float(6 * np.log(10))
_LATE_DB, _LAST_DB = 25.0, 12.0  # parts above the noise to which the late decay is fitted
_LEAST = 8  # short-time energies in a fit


@dataclass(frozen=True)
class LateDecay:
    """A exp(-k t) + N, the squared signal t seconds after the direct sound; covariance of ln A, ln k, N."""

    a: float
    k: float
    n: float
    covariance: Floats
    end_s: float
    excess: float = 0.0
    """Energy after the knee that neither decay nor noise explains, beyond chance: of a slower decay."""

    @property
    def knee_s(self) -> float:
        """Where decay and noise are equal; the end of the response when it ends before."""
        if self.n <= 0:
            return self.end_s
        return float(min(self.end_s, np.log(self.a / self.n) / self.k)) if self.a > self.n else 0.0

    def rest(self, t: float) -> float:
        """Energy of the decay from t on."""
        return float(self.a * np.exp(-self.k * t) / self.k)


def middles(count: int, step_s: float) -> Floats:
    """(count,) seconds in the middles of consecutive stretches of step_s."""
    return np.asarray((np.arange(count) + 0.5) * step_s, np.float64)


def fit_late_decay(energy: Floats, step_s: float, dof: float) -> LateDecay | None:
    """Fit to short-time energies (blocks of step_s; dof degrees of freedom each). None: no decay is seen.

    To the last 25 dB above the noise; where the last 12 of them fall differently, to those.
    """
    energy, n0 = _without_ending(energy, dof)
    start = _first_look(energy, middles(len(energy), step_s), n0)
    if start is None:
        return None
    wide = _fit_late(energy, step_s, dof, start, n0, _LATE_DB)
    if wide is None:
        return None
    last = _fit_late(energy, step_s, dof, (wide.a, wide.k, max(wide.n, 1e-9 * n0)), n0, _LAST_DB)
    if last is None:
        return wide
    sigma = float(np.sqrt(last.covariance[1, 1]))
    chosen = last if sigma < 0.25 and abs(np.log(last.k / wide.k)) > 2 * sigma else wide
    return replace(chosen, excess=_excess(energy, step_s, dof, chosen))


def _excess(energy: Floats, step_s: float, dof: float, late: LateDecay) -> float:
    """What stands above (or below) the fit after the knee, within 3 to 12 time constants; see LateDecay."""
    t = middles(len(energy), step_s)
    expected = late.a * np.exp(-late.k * t) + late.n
    most = 0.0
    for reach in (3.0, 6.0, 12.0):
        after = (t > late.knee_s) & (t < late.knee_s + reach / late.k)
        rest = float(np.sum(energy[after] - expected[after])) * step_s
        chance = float(np.sqrt(np.sum(expected[after] ** 2) * 2 / dof)) * step_s
        most = max(most, abs(rest) - chance)
    return most


def _fit_late(
    energy: Floats, step_s: float, dof: float, start: tuple[float, float, float], n0: float, late_db: float
) -> LateDecay | None:
    """Maximum likelihood for A, ln k and N over the last `late_db` above the noise, and the noise."""
    t = middles(len(energy), step_s)
    end_s = len(energy) * step_s
    a, k, n = start
    covariance = np.zeros((3, 3))
    for _ in range(30):
        knee = np.log(max(a / max(n, 1e-300), 1.0)) / k
        # At least a fifth of all, else a drop at the very end of a file makes the fit ever shorter.
        first_s = max(0.0, min(knee, end_s) - max(late_db / DB / k, 0.2 * min(knee, end_s)))
        used = t >= min(first_s, t[-min(_LEAST, len(t))])
        if used.sum() < _LEAST:
            return None
        e, tt = energy[used], t[used]
        decay = a * np.exp(-k * tt)
        m = decay + n
        # Fisher scoring; derivatives by ln A, ln k and N / n0.
        j = np.stack([decay, -k * tt * decay, np.full(len(tt), n0)], axis=1) / m[:, None]
        information = 0.5 * dof * j.T @ j
        gradient = 0.5 * dof * j.T @ (e / m - 1)
        damped = information + 1e-9 * np.diag(np.diag(information)) + 1e-12 * np.eye(3)
        step = np.clip(np.linalg.solve(damped, gradient), [-1.0, -0.3, -5.0], [1.0, 0.3, 5.0])
        a, k = a * np.exp(step[0]), k * np.exp(step[1])
        n = max(n + step[2] * n0, 1e-9 * n0)
        covariance = np.linalg.inv(damped) * np.outer([1, 1, n0], [1, 1, n0])
        if not (T60 / 60 < k < T60 / 0.01 and np.isfinite(a)):
            return None
        if np.abs(step[:2]).max() < 1e-5 and abs(step[2]) < 1e-5:
            break
    found = LateDecay(float(a), float(k), float(n), covariance, end_s)
    return found if found.knee_s > 0 else None


def _without_ending(energy: Floats, dof: float) -> tuple[Floats, float]:
    """Without a fade-out or silence at the end, which would be taken for the noise; and a first noise level.

    Twentieths at the end that are clearly lower than those before them go, when a straight decay does not
    explain it: a decay in dB falls by as much in each, a fade falls ever faster.
    """
    floor = 1e-12 * float(energy.max())
    while len(energy) > 40:
        share = len(energy) // 20
        level = [
            DB * np.log(max(energy[len(energy) - (i + 1) * share :][:share].mean(), floor)) for i in range(4)
        ]
        spread = DB * np.sqrt(2 / (dof * share))
        falls = level[1] - level[0], level[2] - level[1], level[3] - level[2]
        if falls[0] > 2 * max(falls[1], falls[2], 0.0) + 1.0 + 4 * spread:
            energy = energy[: len(energy) - share]
        else:
            break
    tail = energy[-max(4, len(energy) // 10) :]
    return energy, max(float(tail.mean()), floor)


def _first_look(energy: Floats, t: Floats, n0: float) -> tuple[float, float, float] | None:
    """A, k and N by a line through smoothed levels from the highest to 6 dB above the noise."""
    size = int(np.clip(len(energy) // 80, 2, 40))
    whole = len(energy) // size * size
    coarse, at = (x[:whole].reshape(-1, size).mean(axis=1) for x in (energy, t))
    peak = int(np.argmax(coarse))
    top, n = float(coarse[peak]), n0
    if top < 10 * n0:
        return None
    for _ in range(6):
        low = coarse[peak:] < 4 * n
        # Where it stays low: a gap before the first reflection is no noise.
        low[:-2] &= low[1:-1] & low[2:]
        last = peak + (int(np.argmax(low)) if low.any() else len(low))
        if last - peak < 2:
            return None
        slope, offset = np.polyfit(at[peak:last], np.log(coarse[peak:last]), 1)
        if slope >= 0:
            return None
        knee = (offset - np.log(n)) / -slope
        quiet = energy[t > min(knee + 1.5 / -slope, t[-1] * 0.9)]
        n = max(float(quiet.mean()), 1e-12 * top)
    return float(np.exp(offset)), float(-slope), n
