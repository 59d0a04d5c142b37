"""The offset between sound and picture from flashes and beeps: what was found, how well, or why not.

Positive: the sound is late. `offset_ms` is what the sound's stamps are late against what a picture shows in its
middle row in the middle of its exposure, at `reference_ns`; `drift_ppm` by how much that grows (1 ppm is 0.06 ms
a minute).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.sync_fit import NAMES, Known, Observations, Posterior, Priors, sample
from calibration.sync_light import MIN_RISE, Edge, Flash, LightLog, find_flashes
from calibration.sync_pairs import Pairing, pair_up
from calibration.sync_sound import SIGMA_ALL_MS, SIGMA_LENGTH_MS, Beep, find_chirps, find_tones, tone_length
from dsp.errors import CheckFailed, InputError

LEAST_EVENTS = 6
ENOUGH_EVENTS = 30
AGREE_SHARE = 0.75
MOST_SIGMA_MS = 3.0
MOST_DRIFT_PPM = 300.0
MOST_DRIFT_SIGMA_PPM = 5.0
LONG_S = 120.0
"""A recording longer than this must have events at both ends, or be told that no drift is wanted."""

Stamp = Literal["start", "middle", "end"]
Source = Literal["auto", "screen", "light"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sound:
    """Mono sound (n,) and the stamp in ns of any sample (a number or an array, fractions allowed)."""

    samples: NDArray[np.float32]
    rate_hz: float
    time_ns: Callable[[ArrayLike], NDArray[np.int64]]

    @classmethod
    def of(cls, samples: ArrayLike, rate_hz: float, t0_ns: int = 0) -> Sound:
        """Sound at a constant rate whose first sample is stamped t0_ns."""
        mono = np.asarray(samples, np.float32)
        if mono.ndim != 1:
            raise InputError(f"the sound must be mono, (n,); got {mono.shape}")
        return cls(
            mono,
            rate_hz,
            lambda k: t0_ns + np.round(np.asarray(k, np.float64) / rate_hz * 1e9).astype(np.int64),
        )


@dataclass(frozen=True)
class Setting:
    """What is known about the set-up; None is "not known".

    search_s: largest offset looked for. distance_m: from the beeping device to the microphone. exposure_ms,
    readout_ms (from the first to the last row), source_late_ms (how much later the device beeps than it
    flashes): value and sigma. stamp: what the picture's stamp stands for: the start of the first row's
    exposure, the middle of everything, or the end of the last row's. needs_drift: a long recording without
    events at both ends is refused.
    """

    search_s: float = 0.5
    distance_m: Known | None = None
    temperature_c: float = 20.0
    exposure_ms: Known | None = None
    readout_ms: Known | None = None
    source_late_ms: Known | None = None
    stamp: Stamp = "middle"
    source: Source = "auto"
    needs_drift: bool = True

    @property
    def speed_m_s(self) -> float:
        """Of sound in dry air (331.3 m/s at 0 degrees Celsius, with the root of the absolute temperature)."""
        return 331.3 * math.sqrt(1 + self.temperature_c / 273.15)


@dataclass(frozen=True)
class Refusal:
    """Why there is no number, and what to do."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


@dataclass(frozen=True)
class Event:
    """One flash with its beep. offset_ms: what it says alone, with the limits that its pictures set (low, high)
    or sigma_ms where a picture was partly lit (low = high); residual_ms: from the fit; left_out_ms: from a fit
    without it (nan if it is not used)."""

    time_ns: int
    used: bool
    offset_ms: float
    low_ms: float
    high_ms: float
    sigma_ms: float
    residual_ms: float
    left_out_ms: float
    partly_lit: bool


@dataclass
class SyncFit:
    """What came out. Numbers mean nothing where there are `refusals`; `require` raises then."""

    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    offset_ms: float = math.nan
    sigma_ms: float = math.nan
    drift_ppm: float | None = None
    drift_sigma_ppm: float | None = None
    reference_ns: int = 0
    clock_offset_ms: float | None = None
    clock_sigma_ms: float | None = None
    exposure_ms: float = math.nan
    exposure_sigma_ms: float = math.nan
    readout_ms: float = math.nan
    readout_sigma_ms: float = math.nan
    line_delay_us: float = math.nan
    stamp_noise_ms: float = math.nan
    flash_ms: float = math.nan
    interval_ms: float = math.nan
    covariance: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    travel_ms: float = 0.0
    smoothed: bool = False
    source: str = "light"
    stamp: Stamp = "middle"
    events: list[Event] = field(default_factory=list)
    flashes: list[Flash] = field(default_factory=list)
    flash_times_ns: list[int] = field(default_factory=list)
    beeps: int = 0
    draws: Floats = field(default_factory=lambda: np.zeros((0, len(NAMES))))

    @property
    def ok(self) -> bool:
        """Whether the offset can be stood for."""
        return not self.refusals

    @property
    def used(self) -> int:
        """Events in the fit."""
        return sum(event.used for event in self.events)

    def require(self) -> SyncFit:
        """Itself; raises CheckFailed with the reasons where it is refused."""
        if self.refusals:
            raise CheckFailed("no offset that can be stood for: " + "; ".join(map(str, self.refusals)))
        return self

    def _refuse(self, problem: str, remedy: str) -> SyncFit:
        self.refusals.append(Refusal(problem, remedy))
        return self


def estimate_sync(log: LightLog, sound: Sound, setting: Setting | None = None) -> SyncFit:
    """Offset and drift of sound against pictures. The answer may be a refusal (`SyncFit.refusals`).

    Raises InputError for arrays that do not fit together.
    """
    setting = setting or Setting()
    fit = SyncFit(stamp=setting.stamp)
    if len(log) < 12 or len(sound.samples) < sound.rate_hz:
        return fit._refuse(
            f"{len(log)} pictures and {len(sound.samples) / sound.rate_hz:.1f} s of sound are too little",
            "record half a minute with flashes and beeps",
        )
    stamps = np.asarray(log.times_ns, np.int64)
    order = np.diff(stamps)
    if np.any(order <= 0):
        return fit._refuse(
            f"{int((order <= 0).sum())} of {len(stamps)} pictures have a stamp that is not after the one before",
            "these stamps are no times; use a recording with stamps of the driver or the container",
        )
    origin = int(stamps[0])
    seconds = (stamps - origin) / 1e9
    fit.interval_ms = float(np.median(order)) / 1e6
    fit.flashes = find_flashes(log, seconds)
    fit.flash_times_ns = [origin + round(flash.time_s * 1e9) for flash in fit.flashes]
    beeps = _beeps(fit, sound, origin, setting)
    fit.beeps = len(beeps)
    if not _enough(fit, log, seconds, len(beeps)):
        return fit
    beep_s = (sound.time_ns(np.array([b.time_s for b in beeps]) * sound.rate_hz) - origin) / 1e9
    flash_s = np.array([f.time_s for f in fit.flashes])
    # The sound's way is no offset between clocks, but it is there when they are paired.
    pairing = pair_up(flash_s, beep_s, setting.search_s, fit.interval_ms / 1e3)
    if not _paired(fit, pairing, flash_s, beep_s, setting):
        return fit
    _solve(fit, log, sound, beeps, beep_s, pairing, origin, setting)
    if fit.ok:
        _judge(fit, seconds, setting)
    return fit


def _beeps(fit: SyncFit, sound: Sound, origin: int, setting: Setting) -> list[Beep]:
    x = sound.samples.astype(np.float64)
    found: list[Beep] = []
    if setting.source != "light":
        found = find_chirps(x, sound.rate_hz)
        fit.source = "screen"
    least = max(3, 0.5 * len(fit.flashes)) if setting.source == "auto" else 0
    if setting.source == "light" or len(found) < least:
        fit.source = "light"
        # Where in the sound the flashes are, whatever the gaps: by the inverse of the stamps.
        grid = np.linspace(0, len(x) - 1, max(2, int(len(x) / sound.rate_hz) + 1))
        at = (sound.time_ns(grid) - origin) / 1e9
        near = [
            float(np.interp(f.time_s, at, grid)) / sound.rate_hz
            for f in fit.flashes
            if at[0] - 1 < f.time_s < at[-1] + 1
        ]
        found = find_tones(x, sound.rate_hz, near, max(0.5, setting.search_s)) if near else []
    return found


def _enough(fit: SyncFit, log: LightLog, seconds: Floats, beeps: int) -> bool:
    flashes = len(fit.flashes)
    if flashes >= LEAST_EVENTS and beeps >= LEAST_EVENTS:
        return True
    if flashes < LEAST_EVENTS:
        dim = find_flashes(log, seconds, MIN_RISE / 3)
        if len(dim) >= max(LEAST_EVENTS, 2 * flashes):
            rise = float(np.median([flash.rise for flash in dim]))
            fit._refuse(
                f"{len(dim)} flashes are there but too dim ({100 * rise:.1f} % of the picture's range)",
                "bring the light nearer or make it brighter, darken the room, fix the camera's exposure",
            )
            return False
    what = "flashes in the picture" if flashes < LEAST_EVENTS else "beeps in the sound"
    fit._refuse(
        f"{min(flashes, beeps)} {what} ({flashes} flashes, {beeps} beeps), at least {LEAST_EVENTS} are needed",
        f"show {ENOUGH_EVENTS} flashes with beeps; the light must be in the picture (dark for a quarter of a second"
        " before each), the beep louder than the room",
    )
    return False


def _paired(fit: SyncFit, pairing: Pairing, flash_s: Floats, beep_s: Floats, setting: Setting) -> bool:
    count, least = len(pairing.pairs), min(len(flash_s), len(beep_s))
    if pairing.rate:
        fit._refuse(
            f"flashes and beeps only fit together with another rate: {pairing.rate}",
            "read the sound and the pictures with the rates they were recorded with",
        )
    elif count < LEAST_EVENTS or count < 0.5 * least:
        fit._refuse(
            f"of {len(flash_s)} flashes and {len(beep_s)} beeps only {count} belong together within"
            f" {setting.search_s:g} s of each other",
            "do they belong to one recording? If sound and picture began far apart, widen the search (--search-s)",
        )
    elif pairing.second >= 0.7 * count:
        fit._refuse(
            f"flashes and beeps fit together at a shift of {1e3 * pairing.shift_s:.0f} ms ({count} pairs) and also"
            f" at {1e3 * pairing.second_s:.0f} ms ({pairing.second} pairs): they are equally spaced",
            "flash at unequal intervals (the page of --show does), or narrow the search (--search-s)",
        )
    return fit.ok


# ------------------------------------------------------------------ observations


def _rows_of(edge: Edge) -> NDArray[np.intp]:
    """Pictures of an edge that say something: the last dark one, those between, the first lit one."""
    slack = np.clip(3.0 * edge.noise, 0.02, 0.25)
    dark, lit = (edge.share <= slack).all(axis=1), (edge.share >= 1 - slack).all(axis=1)
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


def smooth_stamps(stamps_ms: Floats, around: list[int], interval_ms: float, reach: int = 75) -> Floats:
    """Stamps with those near the given pictures put onto the straight line that their neighbours lie on: what a
    camera with an even clock and a jittery driver means. Others stay as they are."""
    out = stamps_ms.copy()
    for centre in around:
        first, last = max(0, centre - reach), min(len(stamps_ms), centre + reach + 1)
        part = stamps_ms[first:last]
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
    return out


# ------------------------------------------------------------------ fit


def _solve(
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
    candidates = []
    for smoothed in (False, True):
        stamps = smooth_stamps(raw, around, fit.interval_ms) if smoothed else raw
        seen = _observe(fit, pairs, beeps, beep_ms, stamps, reference)
        candidates.append((sample(seen, priors, count, 300, 150).best, smoothed, seen))
    # An even camera with a jittery driver is the rule; the other way round must show clearly.
    fit.smoothed = candidates[1][0] > candidates[0][0] - 3.0
    seen = candidates[int(fit.smoothed)][2]
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
    _report(fit, seen, posterior, keep, beep_ms[pairs[:, 1]], origin, setting, reference)
    _agreement(fit, keep, pairing)


def event_residuals(
    seen: Observations, theta: Floats, events: int
) -> tuple[Floats, Floats, NDArray[np.bool_], Floats, Floats]:
    """Per event, at one set of parameters: lowest and highest offset against the fit that its edges allow (equal
    where a picture was partly lit), whether one was, how far the fit is outside of that, and its sigma."""
    offset, drift, exposure, readout, noise, flash = theta
    u = seen.sound_ms - offset - drift * 1e-6 * (seen.sound_ms - seen.reference_ms) - seen.stamp_ms
    u = u + np.where(seen.is_off, flash, 0.0)
    low, high = np.full(events, -np.inf), np.full(events, np.inf)
    points: list[list[tuple[float, float]]] = [[] for _ in range(events)]
    for i in range(len(u)):
        used = np.isfinite(seen.share[i])
        share, at = seen.share[i][used], seen.rho[i][used] * readout
        slack = np.clip(3.0 * seen.noise[i][used], 0.02, 0.25)
        smear = float(seen.band_height[i]) * abs(readout)
        partial = (share > slack) & (share < 1 - slack)
        k = int(seen.event[i])
        if partial.any() and not seen.coarse[i]:
            own = at + max(exposure, smear) * (0.5 - share)
            points[k].append((float(u[i] - own[partial].mean()), noise))
            continue
        reach = 0.5 * (exposure + smear)
        dark, lit = at[share <= slack], at[share >= 1 - slack]
        if len(dark):
            high[k] = min(high[k], float(u[i] - dark.max() - reach + slack.max() * exposure))
        if len(lit):
            low[k] = max(low[k], float(u[i] - lit.min() + reach - slack.max() * exposure))
    # `u - limit` is by how much the fit could still be changed: offsets between low and high are allowed.
    scale = np.hypot(
        noise,
        np.array(
            [
                seen.sound_sigma_ms[seen.event == k].mean() if np.any(seen.event == k) else 1.0
                for k in range(events)
            ]
        ),
    )
    away = np.zeros(events)
    partly = np.zeros(events, bool)
    for k in range(events):
        if points[k]:
            value = float(np.mean([p[0] for p in points[k]]))
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
    seen: Observations,
    posterior: Posterior,
    keep: NDArray[np.bool_],
    sound_ms: Floats,
    origin: int,
    setting: Setting,
    reference: float,
) -> None:
    """Numbers of the posterior into the fit, with the sound's way and the device's own offset taken out."""
    mean, covariance = posterior.mean, posterior.covariance
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
    fit.drift_ppm, fit.drift_sigma_ppm = float(mean[1]), math.sqrt(covariance[1, 1])
    fit.reference_ns = origin + round(reference * 1e6)
    fit.exposure_ms, fit.exposure_sigma_ms = float(mean[2]), math.sqrt(covariance[2, 2])
    fit.readout_ms, fit.readout_sigma_ms = float(mean[3]), math.sqrt(covariance[3, 3])
    fit.stamp_noise_ms = float(np.median(posterior.draws[:, 4]))
    fit.flash_ms = float(mean[5])
    # From the middle of everything to what the stamp stands for.
    sign = {"start": -0.5, "middle": 0.0, "end": 0.5}[setting.stamp]
    clock = posterior.draws[:, 0] + sign * (posterior.draws[:, 2] + posterior.draws[:, 3])
    fit.clock_offset_ms = float(clock.mean()) - fit.travel_ms - own.value
    fit.clock_sigma_ms = math.sqrt(float(clock.var()) + outside)
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


def _agreement(fit: SyncFit, keep: NDArray[np.bool_], pairing: Pairing) -> None:
    count, used = len(keep), int(keep.sum())
    away = np.array([event.residual_ms for event in fit.events])[~keep]
    if used < LEAST_EVENTS or used < AGREE_SHARE * count:
        groups = ""
        if len(away) >= 3 and float(np.std(away)) < 0.3 * fit.interval_ms and abs(float(np.mean(away))) > 3:
            groups = (
                f", {len(away)} others {float(np.mean(away)):+.0f} ms from them: sound or pictures jumped"
                " within the recording"
            )
        fit._refuse(
            f"only {used} of {count} flashes and beeps agree with each other{groups}",
            "record anew without load on the computer; keep other blinking and beeping things away; the device"
            " must flash and beep together every time",
        )
    elif fit.stamp_noise_ms > max(6.0, 0.2 * fit.interval_ms):
        fit._refuse(
            f"flashes and beeps scatter by {fit.stamp_noise_ms:.1f} ms",
            "the stamps of the pictures are too uneven, or the device does not flash and beep together; try a"
            " lamp and a buzzer on one wire",
        )


def _judge(fit: SyncFit, seconds: Floats, setting: Setting) -> None:
    """What else forbids or limits the answer."""
    times = np.array([event.time_ns for event in fit.events if event.used], np.float64) / 1e9
    span, length = float(np.ptp(times)), float(seconds[-1] - seconds[0])
    assert fit.drift_ppm is not None and fit.drift_sigma_ppm is not None
    if fit.sigma_ms > MOST_SIGMA_MS:
        fit._refuse(
            f"the offset is only known to {fit.sigma_ms:.1f} ms",
            f"show more flashes ({ENOUGH_EVENTS}), in the middle of the picture; give --line-delay-us and"
            " --distance-m if they are known",
        )
    if abs(fit.drift_ppm) - 3 * fit.drift_sigma_ppm > MOST_DRIFT_PPM:
        fit._refuse(
            f"sound and pictures drift by {fit.drift_ppm:.0f} ppm, which no two clocks do",
            "the rate of the sound or of the pictures is wrong",
        )
    if length > LONG_S and span < 0.5 * length and setting.needs_drift:
        fit._refuse(
            f"the events span {span:.0f} s of a recording of {length:.0f} s, so that the drift is not known",
            "show flashes at its start and at its end, or ask for the offset alone (--offset-only)",
        )
    if fit.drift_sigma_ppm > MOST_DRIFT_SIGMA_PPM or not setting.needs_drift:
        fit.warnings.append(
            f"no drift is given: {span:.0f} s of events only tell it to {fit.drift_sigma_ppm:.0f} ppm; show flashes"
            " again ten minutes later in the same recording"
        )
        fit.drift_ppm = fit.drift_sigma_ppm = None
    if setting.distance_m is None:
        fit.warnings.append(
            "the distance from the beep to the microphone was not given: its 2.9 ms per metre are part of the offset"
        )
    if fit.source == "screen" and setting.source_late_ms is None:
        fit.warnings.append(
            "the screen's own offset between flash and beep is part of the result and is not in its uncertainty"
            " (phones: up to some tens of ms); a lamp and a buzzer on one wire have none"
        )
    height = float(np.mean([np.mean(flash.rows) for flash in fit.flashes]))
    by_rows = abs(height) * fit.readout_sigma_ms
    if by_rows > 0.3:
        fit.warnings.append(
            f"the rolling shutter is not known, and the flash is not in the middle row: {by_rows:.1f} ms of the"
            " uncertainty come from that; give --line-delay-us, or hold the light in the middle"
        )
    if np.mean([flash.clipped for flash in fit.flashes]) > 0.5:
        fit.warnings.append("the flash is so bright that it clips; a darker one tells more")
    left = len(fit.events) - fit.used
    if left:
        fit.warnings.append(f"{left} of {len(fit.events)} events disagree and were left out")
    if fit.used < 15:
        fit.warnings.append(f"{fit.used} events are few; {ENOUGH_EVENTS} are better")
