"""From flashes and beeps that belong together to offset and drift: what is given to the fit, and what comes
out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.sync_fit import Known, Observations, Posterior, Priors, sample, slack_of
from calibration.sync_kernel import edge_place
from calibration.sync_light import Edge, Flash, LightLog
from calibration.sync_pairs import Pairing
from calibration.sync_setting import Event, Setting, Sound, SyncFit
from calibration.sync_sound import SIGMA_ALL_MS, SIGMA_LENGTH_MS, Beep, tone_length

LEAST_EVENTS = 6
Floats = NDArray[np.float64]


def _rows_of(edge: Edge) -> NDArray[np.intp]:
    """Pictures of an edge that say something: the last dark one, those between, the first lit one."""
    slack = slack_of(edge.noise)
    dark = np.asarray((edge.share <= slack).all(axis=1))
    lit = np.asarray((edge.share >= 1 - slack).all(axis=1))
    cross = int(np.argmax(edge.share.mean(axis=1) >= 0.5))
    before = np.flatnonzero(dark[:cross])
    after = np.flatnonzero(lit[cross:])
    first = int(before[-1]) if len(before) else 0
    last = cross + int(after[0]) if len(after) else len(lit) - 1
    return np.arange(first, last + 1)


def _observe(
    fit: SyncFit,
    pairs: NDArray[np.intp],
    beeps: list[Beep],
    beep_ms: Floats,
    stamps_ms: Floats,
    reference: float,
) -> Observations:
    rows: list[tuple[float, int, bool, Floats, Floats, Flash, float, float]] = []
    for event, (f, b) in enumerate(pairs):
        flash, beep = fit.flashes[f], beeps[b]
        for is_off, edge in ((False, flash.on), (True, flash.off)):
            if edge is None:
                continue
            for k in _rows_of(edge):
                at = float(stamps_ms[edge.frames[k]])
                rows.append(
                    (at, event, is_off, edge.share[k], edge.noise, flash, float(beep_ms[b]), beep.sigma_ms)
                )
    bands = max(len(row[3]) for row in rows)

    def padded(values: list[Floats]) -> Floats:
        out = np.full((len(values), bands), np.nan)
        for i, value in enumerate(values):
            out[i, : len(value)] = value
        return out

    return Observations(
        stamp_ms=np.array([row[0] for row in rows]),
        sound_ms=np.array([row[6] for row in rows]),
        event=np.array([row[1] for row in rows], np.intp),
        is_off=np.array([row[2] for row in rows]),
        share=padded([row[3] for row in rows]),
        noise=padded([row[4] for row in rows]),
        rho=padded([row[5].rows for row in rows]),
        band_height=np.array([row[5].band_height for row in rows]),
        sound_sigma_ms=np.array([row[7] for row in rows]),
        coarse=np.array([row[5].clipped for row in rows]),
        reference_ms=reference,
        interval_ms=fit.interval_ms,
    )


@dataclass(frozen=True)
class EvenStamps:
    """Stamps (n,) in ms put onto an even grid near events; by how much they had scattered around it, and
    which pictures (n,) had a say: what those have in common is an error that no event can show."""

    stamps_ms: Floats
    scatter_ms: float
    used: NDArray[np.bool_]

    def covariance(self, reference_ms: float) -> Floats:
        """Of offset (ms) and drift (ppm), (2, 2): that of a line through the pictures that were used."""
        at = self.stamps_ms[self.used]
        offset = self.scatter_ms**2 / max(len(at), 1)
        slope = offset / max(float(np.mean((at - reference_ms) ** 2)), 1.0)
        return np.diag([offset, 1e12 * slope])


def smooth_stamps(stamps_ms: Floats, around: list[int], interval_ms: float, reach: int = 75) -> EvenStamps:
    """Stamps with those near the given pictures put onto the straight line that their neighbours lie on:
    what a camera with an even clock and a jittery driver means. Others stay as they are."""
    out = stamps_ms.copy()
    used = np.zeros(len(out), bool)
    scatter = []
    for centre in around:
        # Beyond a long gap nobody can count the pictures.
        wide = (reach + 2) * interval_ms
        limits = np.searchsorted(stamps_ms, [stamps_ms[centre] - wide, stamps_ms[centre] + wide])
        first, last = max(int(limits[0]), centre - reach), min(int(limits[1]), centre + reach + 1)
        part = stamps_ms[first:last]
        if len(part) < 12:
            continue
        steps = np.rint(np.diff(part) / interval_ms)
        number = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 1.0))])
        weight = np.ones(len(part))
        for _ in range(8):
            slope, level = np.polyfit(number, part, 1, w=np.sqrt(weight))
            away = part - level - slope * number
            scale = max(1.4826 * float(np.median(np.abs(away))), 1e-3)
            weight = 1.0 / np.maximum(1.0, np.abs(away) / (2.0 * scale))
        near = slice(max(first, centre - 12), min(last, centre + 40))
        inside = slice(near.start - first, near.stop - first)
        out[near] = level + slope * number[inside]
        used[first:last] = True
        scatter.append(scale)
    return EvenStamps(out, float(np.median(scatter)) if scatter else 0.0, used)


# ------------------------------------------------------------------ fit


def solve(
    fit: SyncFit,
    log: LightLog,
    sound: Sound,
    beeps: list[Beep],
    beep_s: Floats,
    pairing: Pairing,
    origin: int,
    setting: Setting,
) -> None:
    pairs = pairing.pairs
    beep_ms = beep_s * 1e3
    reference = float(np.mean(beep_ms[pairs[:, 1]]))
    raw = (np.asarray(log.times_ns, np.int64) - origin) / 1e6
    around = [int(fit.flashes[f].on.frames[-1]) for f, _ in pairs]
    flash_ms = 1e3 * float(np.median([fit.flashes[f].length_s for f, _ in pairs]))
    flash_start = float(fit.flashes[int(pairs[0, 0])].time_s) * 1e3
    drift = pairing.drift * 1e6
    start = 1e3 * pairing.shift_s + pairing.drift * (reference - flash_start)
    length = None
    if fit.source == "light":  # a lamp and a buzzer on one wire go off together
        onsets = [beeps[b].time_s for _, b in pairs]
        found = tone_length(sound.samples, sound.rate_hz, onsets, flash_ms / 1e3, fit.interval_ms / 1e3)
        length = None if found is None else Known(1e3 * found, SIGMA_LENGTH_MS)
    priors = Priors(
        start_ms=start,
        drift_ppm=drift,
        exposure_ms=setting.exposure_ms,
        readout_ms=setting.readout_ms,
        flash_ms=length,
        flash_start_ms=flash_ms,
        search_ms=1.5 * fit.interval_ms,
    )
    count = len(pairs)
    even = smooth_stamps(raw, around, fit.interval_ms)
    candidates = []
    for stamps in (raw, even.stamps_ms):
        seen = _observe(fit, pairs, beeps, beep_ms, stamps, reference)
        candidates.append((sample(seen, priors, count, 300, 150).best, seen))
    # An even camera with a jittery driver is the rule; the other way round must show clearly.
    fit.smoothed = candidates[1][0] > candidates[0][0] - 3.0
    seen = candidates[int(fit.smoothed)][1]
    shared = even.covariance(reference) if fit.smoothed else np.zeros((2, 2))
    keep = np.ones(count, bool)
    posterior = sample(seen, priors, count)
    for _ in range(4):
        away, scale = event_residuals(seen, posterior.mean, count)[3:5]
        out = keep & (np.abs(away) > np.maximum(4.0 * scale, 0.5))
        if not out.any():
            break
        keep &= ~out
        if keep.sum() < max(LEAST_EVENTS, 0.5 * count):
            break
        posterior = sample(seen.of_events(keep), priors, count)
    _report(fit, log, seen, posterior, shared, keep, beep_ms[pairs[:, 1]], origin, setting, reference)


def event_residuals(
    seen: Observations, theta: Floats, events: int
) -> tuple[Floats, Floats, NDArray[np.bool_], Floats, Floats]:
    """Per event, at one set of parameters: lowest and highest offset against the fit that its edges allow
    (equal where a picture was partly lit), whether one was, how far the fit is outside of that, and its
    sigma."""
    offset, drift, exposure, readout, noise, flash = theta
    u = seen.sound_ms - offset - drift * 1e-6 * (seen.sound_ms - seen.reference_ms) - seen.stamp_ms
    u = u + np.where(seen.is_off, flash, 0.0)
    low, high = np.full(events, -np.inf), np.full(events, np.inf)
    points: list[list[float]] = [[] for _ in range(events)]
    for i in range(len(u)):
        used = np.isfinite(seen.share[i])
        share, at = seen.share[i][used], seen.rho[i][used] * readout
        slack = slack_of(seen.noise[i][used])
        smear = float(seen.band_height[i]) * abs(readout)
        wide, narrow = max(exposure, smear), max(min(exposure, smear), 1e-6)
        partial = (share > slack) & (share < 1 - slack)
        k = int(seen.event[i])
        if partial.any() and not seen.coarse[i]:
            own = [
                a + edge_place(s, wide, narrow)[0] for a, s in zip(at[partial], share[partial], strict=True)
            ]
            points[k].append(float(u[i] - np.mean(own)))
            continue
        reach = edge_place(0.0 if seen.coarse[i] else float(slack.max()), wide, narrow)[0]
        dark, lit = at[share <= slack], at[share > slack]
        if len(dark):
            high[k] = min(high[k], float(u[i] - dark.max() - reach))
        if len(lit):
            low[k] = max(low[k], float(u[i] - lit.min() + reach))
    of_sound = np.zeros(events)
    of_sound[seen.event] = seen.sound_sigma_ms
    scale = np.hypot(noise, of_sound)
    away = np.zeros(events)
    partly = np.zeros(events, bool)
    for k in range(events):
        if points[k]:
            value = float(np.mean(points[k]))
            low[k] = high[k] = value
            away[k] = value
            partly[k] = True
        else:
            away[k] = max(low[k], 0.0) + min(high[k], 0.0)
            if low[k] > high[k]:
                low[k], high[k] = high[k], low[k]
    return low, high, partly, away, scale


def _report(
    fit: SyncFit,
    log: LightLog,
    seen: Observations,
    posterior: Posterior,
    shared: Floats,
    keep: NDArray[np.bool_],
    sound_ms: Floats,
    origin: int,
    setting: Setting,
    reference: float,
) -> None:
    """Numbers of the posterior into the fit, with the sound's way and the device's own offset taken out."""
    mean, covariance = posterior.mean, posterior.covariance.copy()
    covariance[:2, :2] += shared
    fit.draws = posterior.draws
    travel = setting.distance_m
    fit.travel_ms = 0.0 if travel is None else 1e3 * travel.value / setting.speed_m_s
    # 5 degrees of temperature are 0.9 % of the way.
    travel_sigma = (
        0.0 if travel is None else math.hypot(1e3 * travel.sigma / setting.speed_m_s, 0.009 * fit.travel_ms)
    )
    own = setting.source_late_ms or Known(0.0, 0.0)
    fit.offset_ms = float(mean[0]) - fit.travel_ms - own.value
    outside = travel_sigma**2 + own.sigma**2 + SIGMA_ALL_MS[fit.source] ** 2
    fit.covariance = covariance[:2, :2] + np.diag([outside, 0.0])
    fit.sigma_ms = math.sqrt(fit.covariance[0, 0])
    fit.own_ms, fit.slope_ppm = own.value, float(mean[1])
    fit.drift_ppm, fit.drift_sigma_ppm = float(mean[1]), math.sqrt(covariance[1, 1])
    fit.reference_ns = origin + round(reference * 1e6)
    fit.exposure_ms, fit.exposure_sigma_ms = float(mean[2]), math.sqrt(covariance[2, 2])
    fit.readout_ms, fit.readout_sigma_ms = float(mean[3]), math.sqrt(covariance[3, 3])
    fit.line_delay_us = 1e3 * fit.readout_ms / max(log.height_px - 1, 1)
    fit.stamp_noise_ms = float(np.median(posterior.draws[:, 4]))
    fit.flash_ms = float(mean[5])
    # From the middle of everything to what the stamp stands for.
    sign = {"start": -0.5, "middle": 0.0, "end": 0.5}[setting.stamp]
    clock = posterior.draws[:, 0] + sign * (posterior.draws[:, 2] + posterior.draws[:, 3])
    fit.clock_offset_ms = float(clock.mean()) - fit.travel_ms - own.value
    fit.clock_sigma_ms = math.sqrt(float(clock.var()) + float(shared[0, 0]) + outside)
    low, high, partly, away, scale = event_residuals(seen, mean, len(keep))
    for k in range(len(keep)):
        middle = 0.5 * (low[k] + high[k]) if np.isfinite(low[k] + high[k]) else away[k]
        line = fit.offset_ms + mean[1] * 1e-6 * (sound_ms[k] - reference)
        left_out = math.nan
        if keep[k]:
            left_out = away[k] + float(mean[0]) - posterior.without(k)[0]
        fit.events.append(
            Event(
                time_ns=origin + round(sound_ms[k] * 1e6),
                used=bool(keep[k]),
                offset_ms=float(line + middle),
                low_ms=float(line + low[k]) if np.isfinite(low[k]) else float(line + middle),
                high_ms=float(line + high[k]) if np.isfinite(high[k]) else float(line + middle),
                sigma_ms=float(scale[k]),
                residual_ms=float(away[k]),
                left_out_ms=left_out,
                partly_lit=bool(partly[k]),
            )
        )
