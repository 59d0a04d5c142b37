"""Offset and drift from edges of light and beginnings of sound, with everything that is not known in between.

The model. A picture stamped t shows its row at height rho (-0.5 top, 0.5 bottom) while that is exposed around
t + rho * readout, for the exposure e. An edge of light at v leaves in it the lit share
    0.5 + (t + rho * readout - v) / e,   held to 0..1
and the sound of the same event is stamped  y = v + offset + drift * (v - reference).
So a partly lit picture is a measurement of v, a dark and a lit one are limits of it (a regression that is
censored at both ends: Rosett and Nelson, 1975). Stamps have noise; so have shares and sounds.

Unknown besides offset and drift: exposure, readout, noise of the stamps, length of the flash. The posterior
is drawn by an ensemble sampler, with the moves of Goodman and Weare (2010) and of ter Braak (2006) in turn:
limits make it anything but Gaussian, and exposure and readout that nobody knows must widen it. All times
here are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calibration.sync_kernel import DARK, LIT, PARTIAL, log_likelihood

NAMES = ("offset_ms", "drift_ppm", "exposure_ms", "readout_ms", "stamp_noise_ms", "flash_ms")
WALKERS, STEPS, BURN = 48, 1300, 500
LEAST_NOISE_MS, MOST_NOISE_MS = 0.05, 20.0
CLOCK_PPM = 60.0
"""Standard deviation of what two clocks drift; decides only where events span too little to tell."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A quantity with a standard uncertainty, or None where it is only known to be between limits."""

    value: float
    sigma: float


@dataclass
class Observations:
    """Shares of light around edges. Each row is one picture of one edge: (n, bands) padded with NaN.

    stamp_ms: (n,) stamp of the picture. sound_ms: (n,) stamp of its event's sound. event: (n,) number of the
    event. is_off: (n,) the edge at which the light goes off. share, noise, rho: (n, bands). sound_sigma_ms:
    (n,). reference_ms: where the offset is given. interval_ms: between pictures. coarse: (n,) shares that
    only say that the edge fell into the exposure (clipped pixels).
    """

    stamp_ms: Floats
    sound_ms: Floats
    event: NDArray[np.intp]
    is_off: NDArray[np.bool_]
    share: Floats
    noise: Floats
    rho: Floats
    band_height: Floats
    sound_sigma_ms: Floats
    coarse: NDArray[np.bool_]
    reference_ms: float
    interval_ms: float

    def of_events(self, keep: NDArray[np.bool_]) -> Observations:
        """Only the rows of the events whose number is kept; numbers stay."""
        rows = keep[self.event]
        return Observations(
            self.stamp_ms[rows], self.sound_ms[rows], self.event[rows], self.is_off[rows], self.share[rows],
            self.noise[rows], self.rho[rows], self.band_height[rows], self.sound_sigma_ms[rows],
            self.coarse[rows], self.reference_ms, self.interval_ms,
        )  # fmt: skip


@dataclass
class Priors:
    """What is known beforehand; None is "anywhere within its limits"."""

    start_ms: float
    drift_ppm: float = 0.0
    exposure_ms: Known | None = None
    readout_ms: Known | None = None
    flash_ms: Known | None = None
    flash_start_ms: float = 100.0
    search_ms: float = 40.0


@dataclass
class Posterior:
    """Draws (n, 6) in the order of NAMES, and per draw the log-likelihood of each event (n, events)."""

    draws: Floats
    by_event: Floats
    best: float
    mean: Floats = field(init=False)
    covariance: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.mean = self.draws.mean(axis=0)
        self.covariance = np.cov(self.draws.T)

    def without(self, event: int) -> tuple[float, float, float]:
        """Offset and its sigma as if an event had not been there, by weighting the draws (Gelfand, 1992), and
        how many draws are left in effect; offsets at the reference."""
        weight = -self.by_event[:, event]
        weight = np.exp(np.minimum(weight - weight.max(), 0.0))
        weight /= weight.sum()
        mean = float(weight @ self.draws[:, 0])
        spread = float(np.sqrt(weight @ (self.draws[:, 0] - mean) ** 2))
        return mean, spread, float(1.0 / np.sum(weight**2))


def slack_of(noise: Floats) -> Floats:
    """A share this near to 0 or 1 may as well be none or all: beside noise, a flash that lights the room
    disturbs what is taken for the lamp's light by a few per cent."""
    return np.asarray(np.clip(3.0 * noise, 0.06, 0.25))


class Model:
    """The likelihood of one set of observations."""

    def __init__(self, seen: Observations, priors: Priors, events: int) -> None:
        self.seen, self.priors, self.events = seen, priors, events
        used = np.isfinite(seen.share)
        share = np.where(used, seen.share, 0.0)
        noise = np.where(used, seen.noise, 1.0)
        slack = slack_of(noise)
        self.kind = np.zeros(share.shape, np.int8)
        self.kind[used] = PARTIAL
        self.kind[used & (share <= slack)] = DARK
        self.kind[used & (share >= 1 - slack)] = LIT
        # Of pixels that clip, a picture that looks fully lit was lit for some part of its exposure only.
        bright = np.where(seen.is_off[:, None], self.kind != LIT, self.kind != DARK)
        washed = used & bright & seen.coarse[:, None]
        self.kind[washed] = np.broadcast_to(np.where(seen.is_off[:, None], DARK, LIT), share.shape)[washed]
        self.slack = np.where(washed, 1.0, slack)
        self.share = share
        # Reflections, the display's own rise and a camera's tone curve bend shares a little.
        self.noise = np.hypot(noise, 0.012)
        self.rho = np.where(used, seen.rho, 0.0)
        self.elapsed = (seen.sound_ms - seen.reference_ms) * 1e-6  # times ppm gives ms

    def log_likelihood(self, theta: Floats, on_only: bool = False) -> Floats:
        """(walkers, events) of parameters (walkers, 6); on_only: without the edges where light goes off."""
        seen = self.seen
        return np.asarray(
            log_likelihood(
                np.ascontiguousarray(theta), seen.sound_ms - seen.stamp_ms, self.elapsed, seen.is_off,
                seen.event, seen.sound_sigma_ms, seen.band_height, self.kind, self.share, self.noise,
                self.slack, self.rho, self.events, on_only,
            )
        )  # fmt: skip

    def log_prior(self, theta: Floats) -> Floats:
        """(walkers,); -inf outside the limits."""
        p, interval = self.priors, self.seen.interval_ms
        offset, drift, e, readout, noise, flash = theta.T
        value = -np.log(np.maximum(noise, 1e-9)) - 0.5 * (drift / CLOCK_PPM) ** 2
        bad = np.abs(offset - p.start_ms) > p.search_ms
        bad |= (e < 0.02) | (e > 1.02 * interval)
        bad |= (noise < LEAST_NOISE_MS) | (noise > MOST_NOISE_MS)
        bad |= np.abs(flash - p.flash_start_ms) > 1.5 * interval
        if p.exposure_ms is not None:
            value = value - 0.5 * ((e - p.exposure_ms.value) / p.exposure_ms.sigma) ** 2
        if p.readout_ms is not None:
            value = value - 0.5 * ((readout - p.readout_ms.value) / p.readout_ms.sigma) ** 2
        else:
            bad |= (readout < 0.0) | (readout > interval)
        if p.flash_ms is not None:  # heard, and may be misheard: then the pictures decide
            away = (flash - p.flash_ms.value) / p.flash_ms.sigma
            value = value + np.logaddexp(-0.5 * away**2, -8.0)
        return np.asarray(np.where(bad, -np.inf, value))


def sample(
    seen: Observations, priors: Priors, events: int, steps: int = STEPS, burn: int = BURN
) -> Posterior:
    """Draws of the posterior, the same ones each time. events: how many event numbers there are."""
    model = Model(seen, priors, events)
    rng = np.random.default_rng(20)
    walkers = _start(model, rng)
    parts = model.log_likelihood(walkers)
    value = parts.sum(axis=1) + model.log_prior(walkers)
    half = WALKERS // 2
    kept, kept_parts = [], []
    best = -np.inf
    for step in range(steps):
        if step in (
            burn // 4,
            burn // 2,
            3 * burn // 4,
        ):  # walkers that are lost in a corner begin again among the others
            good = np.flatnonzero(value > value.max() - 12)
            lost = np.flatnonzero(value <= value.max() - 12)
            pick = rng.choice(good, len(lost))
            walkers[lost], parts[lost], value[lost] = walkers[pick], parts[pick], value[pick]
        for mine, others in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            pick = rng.integers(half, size=(2, half))
            if step % 2:  # the stretch move
                z = (1.0 + rng.random(half)) ** 2 / 2.0  # density 1 / sqrt(z) on 0.5 .. 2
                partner = walkers[others][pick[0]]
                trial = partner + z[:, None] * (walkers[mine] - partner)
                weight = (len(NAMES) - 1) * np.log(z)
            else:  # differential evolution
                size = 1.0 if step % 10 == 0 else 2.38 / np.sqrt(2 * len(NAMES)) * rng.random((half, 1))
                trial = walkers[mine] + size * (walkers[others][pick[0]] - walkers[others][pick[1]])
                trial = trial * (1 + 1e-7 * rng.standard_normal(trial.shape))
                weight = np.zeros(half)
            prior = model.log_prior(trial)
            inside = np.isfinite(prior)
            trial_parts = np.full((half, events), -np.inf)
            if inside.any():
                trial_parts[inside] = model.log_likelihood(trial[inside])
            trial_value = np.where(inside, trial_parts.sum(axis=1) + prior, -np.inf)
            accept = np.log(rng.random(half)) < weight + trial_value - value[mine]
            walkers[mine] = np.where(accept[:, None], trial, walkers[mine])
            parts[mine] = np.where(accept[:, None], trial_parts, parts[mine])
            value[mine] = np.where(accept, trial_value, value[mine])
        best = max(best, float(value.max()))
        if step >= burn and step % 8 == 0:
            kept.append(walkers.copy())
            kept_parts.append(parts.copy())
    return Posterior(np.concatenate(kept), np.concatenate(kept_parts), best)


def _start(model: Model, rng: np.random.Generator) -> Floats:
    """The likeliest of a grid of guesses: first by the edges where light comes on, then drift and length of
    the flash. Its modes are many (a grid of brackets), so that walkers from anywhere would stay where they
    are."""
    p, interval = model.priors, model.seen.interval_ms
    exposures = [0.04 * interval, 0.12 * interval, 0.3 * interval, 0.6 * interval, 0.9 * interval]
    readouts = [0.0, 0.3 * interval, 0.6 * interval, 0.9 * interval]
    if p.exposure_ms is not None:
        exposures = [max(p.exposure_ms.value, 0.03)]
    if p.readout_ms is not None:
        readouts = [p.readout_ms.value]
    offsets = p.start_ms + np.arange(-p.search_ms, p.search_ms, 0.03 * interval)
    span = max(float(np.ptp(model.seen.sound_ms)), 1e3)
    flash = p.flash_start_ms if p.flash_ms is None else p.flash_ms.value
    # The pairing knows the drift to about half an interval over the whole length.
    drifts = p.drift_ppm + np.arange(-6, 7) / 6 * 0.5 * interval / span * 1e6
    drifts = drifts[np.abs(drifts - p.drift_ppm) < 90] if span < 60e3 else drifts
    grid = np.stack(
        np.meshgrid(offsets, [p.drift_ppm], exposures, readouts, [1.5], [flash], indexing="ij"), -1
    )
    best = _best(model, grid.reshape(-1, 6), 40, on_only=True)
    lengths = np.append(p.flash_start_ms + np.arange(-6, 7) / 6 * interval, flash)
    for column, values, only in ((1, drifts, True), (5, lengths, False), (4, [0.15, 0.5, 1.5, 4.0], False)):
        more = np.repeat(best[:, None], len(values), axis=1)
        more[:, :, column] = values
        best = _best(model, more.reshape(-1, 6), 40, on_only=only)
    step = np.array([0.02 * interval, 0.01 * interval / span * 1e6, 0, 0, 0, 0.01 * interval])
    around = best[rng.integers(len(best), size=20 * WALKERS)]
    around = around + step * rng.standard_normal(around.shape)
    around[:, 2:5] *= np.exp([0.3, 0.3, 0.5] * rng.standard_normal((len(around), 3)))
    around[:, 3] += 0.02 * interval * rng.random(len(around)) * (p.readout_ms is None)
    return _best(model, around, WALKERS)


def _best(model: Model, theta: Floats, count: int, on_only: bool = False) -> Floats:
    value = model.log_likelihood(theta, on_only).sum(axis=1) + model.log_prior(theta)
    return np.asarray(theta[np.argsort(-value)[:count]])
