"""The equations between loudspeakers at known directions and what the channels hear, and their solution.

    y_ic = L_i (K b(u_i))_c,   b(u) = (1, x, y, z),   K = diag(e^a) K0 diag(1, e^q, e^q, e^q) M(g) (1 + E)

y: the factors of `capsules_response`. L_i: the loudness of each direction, free. K0: the wiring
(`capsules_wiring`). a: gains of the channels. q: how directive the capsules are. M(g): what unequal capsules
do to a B-format that was made from them. E: what else is wrong with the encoding, expected within 1 %. u_i:
where the loudspeaker stood, expected within `placement_deg` of its label, all of them turned alike by up to
10 degrees. For capsule signals the delays are part of it:

    tau_ic = t_i + tau_c - r / c (d_c . u_i)

with the time t_i of each wave, the delay of each capsule, the radius r; they tell the places of the
loudspeakers better than a tape. All are found together by least squares with these expectations
(Gauss-Newton, a maximum a posteriori estimate), so the covariance knows what the data cannot tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibration.capsules_response import Heard
from calibration.capsules_wiring import Wiring
from calibration.direct_arrival import SPEED_OF_SOUND, Floats
from dsp.ambisonics import CAPSULE_DIRECTIONS, conversion_matrix

_FLOOR = 0.003  # sigma of a factor that remains without noise: windows, reflections in them
_CHANNEL_SIGMA, _PATTERN_SIGMA, _CAPSULE_SIGMA, _ENCODING_SIGMA = 1.0, 0.1, 0.2, 0.01
_TURN_SIGMA = np.radians(10.0)
_PLACE_US = 1.0  # sigma of a capsule's place, 0.35 mm, as sound travels
_US_PER_MM = 1e3 / SPEED_OF_SOUND
_DELAY_HZ = 2500.0  # about where a delay is read off the phase
TO_XYZ = np.eye(4)[[0, 3, 1, 2]]
"""W, Y, Z, X to W, X, Y, Z."""


def _capsule_effect(layout: str) -> tuple[Floats, Floats]:
    """A and its inverse: capsules of ideal cardioids from (1, x, y, z)."""
    a = conversion_matrix("ambix", layout) @ TO_XYZ.T
    return a, np.linalg.inv(a)


def _tangents(u: Floats) -> tuple[Floats, Floats]:
    """(n, 3) twice: unit vectors across each direction."""
    other = np.where(np.abs(u[:, 2:3]) < 0.9, np.array([[0.0, 0, 1]]), np.array([[1.0, 0, 0]]))
    first = np.cross(other, u)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(u, first)


class Model:
    """The equations of the fit with their expectations, for one wiring and one set of directions."""

    def __init__(self, heard: Heard, wiring: Wiring, placement_deg: float) -> None:
        self.heard, self.wiring = heard, wiring
        self.n = len(heard.u)
        self.layout = wiring.format if wiring.format in ("a", "a2") else "a"
        self.raw = wiring.kind == "capsules"
        self.capsule, self.back = _capsule_effect(self.layout)
        self.into = np.eye(4)
        if np.linalg.det(wiring.turn) > 0:
            # The microphone was turned. A mirror is made behind its encoder, by exchanged channels.
            self.into[1:, 1:] = wiring.turn
        self.first, self.second = _tangents(heard.u)
        self.across = [np.cross(axis, heard.u) for axis in np.eye(3)]
        self.sigma = np.hypot(heard.noise, _FLOOR)
        place = np.radians(placement_deg)
        n = self.n
        self.prior = np.concatenate(
            [
                np.full(4, _CHANNEL_SIGMA),
                [_PATTERN_SIGMA if self.raw else 1e-4],
                np.full(4, 1e-4 if self.raw else _CAPSULE_SIGMA),
                np.full(16, (0.5 if self.raw else 1.0) * _ENCODING_SIGMA),
                np.full(n, 2.0),
                np.full(3, _TURN_SIGMA),
                np.full(2 * n, place),
            ]
        )
        self.start = np.zeros(len(self.prior))
        basis = np.column_stack([np.ones(n), heard.u]) @ wiring.matrix.T
        level = (basis * heard.y).sum(axis=1) / (basis**2).sum(axis=1)
        self.level_sign = np.where(level < 0, -1.0, 1.0)
        self.start[25 : 25 + n] = np.log(np.maximum(np.abs(level), 1e-3))
        if self.raw:
            # Microseconds and millimetres: times of the waves, delays of the capsules, radius.
            self.prior = np.concatenate([self.prior, np.full(n + 4, 1e3), [10.0]])
            self.start = np.concatenate([self.start, np.zeros(n + 4), [15.0]])
            self.axes = CAPSULE_DIRECTIONS[wiring.format] @ wiring.turn
            unclear = self.sigma / np.maximum(np.abs(heard.y), 1e-3)
            self.delay_sigma = np.hypot(_PLACE_US, 1e6 * unclear / (2 * np.pi * _DELAY_HZ))
        # Sums that are free: one loudness for all, one time for all.
        gauge = np.zeros((3, len(self.prior)))
        gauge[0, :4] = gauge[1, 5:9] = 1e3
        if self.raw:
            gauge[2, 28 + 4 * n : 32 + 4 * n] = 1e3
        self.fixed = np.vstack([np.diag(1 / self.prior), gauge])
        self.wanted = np.concatenate([self.start / self.prior, np.zeros(3)])

    def _parts(self, p: Floats) -> tuple[Floats, Floats]:
        """What makes the channels: (up to the pattern, with what unequal capsules do); see `channels`."""
        k = np.exp(p[:4])[:, None] * self.wiring.matrix
        k = k * np.array([1.0, *[np.exp(p[4])] * 3])
        if self.raw:
            return k, k
        mixed = self.back @ (np.exp(p[5:9])[:, None] * self.capsule)
        return k, k @ self.into.T @ mixed @ self.into

    def channels(self, p: Floats) -> Floats:
        """K (4, 4) from (1, x, y, z) to the channels."""
        return np.asarray(self._parts(p)[1] @ (np.eye(4) + p[9:25].reshape(4, 4)))

    def units(self, p: Floats) -> Floats:
        """(n, 3) where the loudspeakers stood, in the microphone's frame before mounting."""
        n = self.n
        turn, place = p[25 + n : 28 + n], p[28 + n : 28 + 3 * n].reshape(2, n)
        u = self.heard.u + place[0][:, None] * self.first + place[1][:, None] * self.second
        u = u + sum(angle * move for angle, move in zip(turn, self.across, strict=True))
        return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))

    def factors(self, p: Floats) -> Floats:
        """(n, 4) what the channels should have heard."""
        level = self.level_sign * np.exp(p[25 : 25 + self.n])
        basis = np.column_stack([np.ones(self.n), self.units(p)])
        return np.asarray(level[:, None] * (basis @ self.channels(p).T))

    def data(self, p: Floats) -> Floats:
        """What was heard less what should have been, each in its sigma: factors, and delays of capsules."""
        left = ((self.heard.y - self.factors(p)) / self.sigma).ravel()
        if not self.raw:
            return left
        n = self.n
        t, late, radius = p[28 + 3 * n : 28 + 4 * n], p[28 + 4 * n : 32 + 4 * n], p[-1]
        expected = t[:, None] + late - radius * _US_PER_MM * (self.units(p) @ self.axes.T)
        return np.append(left, ((1e6 * self.heard.delay_s - expected) / self.delay_sigma).ravel())

    def slopes(self, p: Floats) -> Floats:
        """(data, parameters) derivatives of what should have been heard, each in its sigma."""
        n = self.n
        level = self.level_sign * np.exp(p[25 : 25 + n])
        u = self.units(p)
        basis = np.column_stack([np.ones(n), u])
        off = np.eye(4) + p[9:25].reshape(4, 4)
        pattern, before = self._parts(p)
        k = before @ off
        f = level[:, None] * (basis @ k.T)
        d = np.zeros((n, 4, len(p)))
        for c in range(4):
            d[:, c, c] = f[:, c]
        inner = basis @ off.T
        if self.raw:
            d[:, :, 4] = level[:, None] * (inner[:, 1:] @ pattern[:, 1:].T)
        else:
            heard = inner @ self.into.T @ self.capsule.T
            out = pattern @ self.into.T @ self.back
            d[:, :, 5:9] = np.einsum("i,cj,j,ij->icj", level, out, np.exp(p[5:9]), heard)
            velocity = basis @ (np.diag([0.0, 1, 1, 1]) @ np.linalg.solve(pattern, k)).T
            d[:, :, 4] = level[:, None] * (velocity @ pattern.T)
        d[:, :, 9:25] = np.einsum("i,ck,il->ickl", level, before, basis).reshape(n, 4, 16)
        rows = np.arange(n)
        d[rows, :, 25 + rows] = f
        e = np.zeros((n, 4, len(p)))
        for j, move in enumerate([*self.across, self.first, self.second]):
            move = move - u * np.sum(move * u, axis=1, keepdims=True)
            where = (rows, slice(None), 28 + n + (j - 3) * n + rows) if j > 2 else (..., 25 + n + j)
            d[where] = level[:, None] * (move @ k[:, 1:].T)
            if self.raw:
                e[where] = -p[-1] * _US_PER_MM * (move @ self.axes.T)
        first = (d / self.sigma[:, :, None]).reshape(4 * n, -1)
        if not self.raw:
            return first
        e[rows, :, 28 + 3 * n + rows] = 1.0
        e[:, np.arange(4), 28 + 4 * n + np.arange(4)] = 1.0
        e[:, :, -1] = -_US_PER_MM * (u @ self.axes.T)
        return np.vstack([first, (e / self.delay_sigma[:, :, None]).reshape(4 * n, -1)])

    def solve(self) -> Floats:
        """The parameters that fit best (Gauss-Newton, damped where it does not get better)."""
        p = self.start.copy()

        def cost(q: Floats) -> float:
            return float((self.data(q) ** 2).sum() + ((self.wanted - self.fixed @ q) ** 2).sum())

        now, damping = cost(p), 1e-6
        while damping < 1e6:
            slopes = self.slopes(p)
            information = slopes.T @ slopes + self.fixed.T @ self.fixed
            push = slopes.T @ self.data(p) + self.fixed.T @ (self.wanted - self.fixed @ p)
            step = np.linalg.solve(information + damping * np.diag(np.diag(information)), push)
            then = cost(p + step)
            if then > now:
                damping = max(10 * damping, 1e-4)
                continue
            small = now - then < 1e-8 * (1 + now)
            p, now, damping = p + step, then, max(damping / 10, 1e-9)
            if small:
                break
        return p


@dataclass(frozen=True)
class Solved:
    p: Floats
    covariance: Floats
    scale: float
    model: Model


def solve_model(heard: Heard, wiring: Wiring, placement_deg: float) -> Solved:
    model = Model(heard, wiring, placement_deg)
    p = model.solve()
    slopes, data = model.slopes(p), model.data(p)
    covariance = np.linalg.inv(slopes.T @ slopes + model.fixed.T @ model.fixed)
    free = len(data) - float(np.trace(slopes @ covariance @ slopes.T))
    places = (p / model.prior)[28 + model.n : 28 + 3 * model.n]
    # Loudspeakers that are further off than was said count as well.
    scale = max(_excess(float(data @ data), free), _excess(float(places @ places), len(places)))
    return Solved(p, covariance * scale**2, scale, model)


def _excess(squares: float, free: float) -> float:
    """By how much residuals exceed their sigmas; 1 for what chance explains (19 times of 20)."""
    from scipy.stats import chi2

    if free < 0.5 or squares <= chi2.ppf(0.95, free):
        return 1.0
    return float(np.sqrt(squares / free))


def wiring_delays(heard: Heard, wiring: Wiring) -> Floats:
    """(n, 4) delays in s that the channels have by their wiring: smoother than those of single directions."""
    n = len(heard.u)
    weight = heard.y**2 + 1e-9
    if wiring.kind != "capsules":
        late = [np.average(heard.delay_s[:, c], weights=weight[:, c] ** 2) for c in range(4)]
        return np.broadcast_to(np.array(late), (n, 4))
    toward = heard.u @ wiring.turn.T @ CAPSULE_DIRECTIONS[wiring.format].T
    rows = np.zeros((n, 4, n + 5))
    for i in range(n):
        rows[i, :, i] = 1.0
        rows[i, :, n : n + 4] = np.eye(4)
        rows[i, :, n + 4] = -toward[i] / SPEED_OF_SOUND
    root = np.sqrt(weight)
    a = (rows * root[:, :, None]).reshape(4 * n, -1)
    x = np.linalg.lstsq(a, (heard.delay_s * root).ravel(), rcond=None)[0]
    return np.asarray((rows @ x) - x[:n, None])
