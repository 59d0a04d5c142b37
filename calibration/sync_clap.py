"""The offset from claps, when there is nothing that flashes: hands that stop where the sound begins.

Between two pictures hands move by a part of what they moved before when they meet within that time; that
part says when. Hands are not even, so that a clap is worth a fifth of a frame interval at best, and all
claps of one person may be off by a quarter of it in the same way: an answer for want of a better one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibration.sync_light import LightLog
from calibration.sync_setting import Event, Setting, Sound, SyncFit
from calibration.sync_sound import find_claps

LEAST_CLAPS = 6
EACH, COMMON = 0.2, 0.25
"""Standard deviation of one clap and of what all have in common, in frame intervals."""

Floats = NDArray[np.float64]


def motion(log: LightLog) -> Floats:
    """How much changed from the picture before, (n,), in the square root of linear light; 0 for the first."""
    out = np.zeros(len(log))
    step = 512
    for first in range(1, len(log), step):
        root = np.sqrt(log.light(first - 1, min(first + step, len(log))))
        change = np.abs(np.diff(root, axis=0)).reshape(len(root) - 1, -1)
        # The noise of still cells is no motion.
        out[first : first + len(change)] = np.maximum(change - 4 * np.median(change), 0.0).sum(axis=1)
    return out


def estimate_claps(log: LightLog, sound: Sound, setting: Setting) -> SyncFit:
    """As `calibration.sync.estimate_sync`, from claps: an offset without drift, or a refusal."""
    fit = SyncFit(stamp=setting.stamp, source="clap")
    times = np.asarray(log.times_ns, np.int64)
    if len(times) < 30 or np.any(np.diff(times) <= 0):
        return fit.refuse(
            "too few pictures, or their stamps do not increase", "record half a minute of claps"
        )
    origin = int(times[0])
    seconds = (times - origin) / 1e9
    interval = float(np.median(np.diff(seconds)))
    fit.interval_ms = 1e3 * interval
    claps = find_claps(sound.samples.astype(np.float64), sound.rate_hz)
    at = np.array([clap.time_s for clap in claps]) * sound.rate_hz
    heard = (sound.time_ns(at) - origin) / 1e9 if len(claps) else np.zeros(0)
    heard = heard[(heard > seconds[0] + 0.5) & (heard < seconds[-1] - 0.5)]
    fit.beeps = len(heard)
    if len(heard) < LEAST_CLAPS:
        return fit.refuse(
            f"{len(heard)} claps are heard within the pictures, at least {LEAST_CLAPS} are needed",
            "clap 10 times or more, a second apart, hands well visible, and keep still between",
        )
    moved = motion(log)
    shift, second = _shift(seconds, moved, heard, interval, setting.search_s)
    seen = [_stop(seconds, moved, float(t) - shift, interval) for t in heard]
    offsets = np.array(
        [t - stop if stop is not None else np.nan for t, stop in zip(heard, seen, strict=True)]
    )
    found = np.isfinite(offsets)
    if found.sum() < LEAST_CLAPS or second > 0.8:
        return fit.refuse(
            f"of {len(heard)} claps that are heard only {int(found.sum())} are seen as hands that stop",
            "bring the hands nearer to the camera, move them sideways to it, and keep still between"
            " the claps",
        )
    middle = float(np.median(offsets[found]))
    spread = max(1.4826 * float(np.median(np.abs(offsets[found] - middle))), EACH * interval)
    used = found & (np.abs(offsets - middle) < 3 * spread)
    if spread > 0.7 * interval or used.sum() < max(LEAST_CLAPS, 0.7 * found.sum()):
        return fit.refuse(
            f"the claps scatter by {1e3 * spread:.0f} ms",
            "clap harder and slower, or use a flash with a beep",
        )
    mean = float(offsets[used].mean())
    _fill(fit, setting, origin, heard, offsets, used, mean, spread, interval)
    return fit


def _fill(
    fit: SyncFit,
    setting: Setting,
    origin: int,
    heard: Floats,
    offsets: Floats,
    used: NDArray[np.bool_],
    mean: float,
    spread: float,
    interval: float,
) -> None:
    travel = setting.distance_m
    fit.travel_ms = 0.0 if travel is None else 1e3 * travel.value / setting.speed_m_s
    travel_sigma = 0.0 if travel is None else 1e3 * travel.sigma / setting.speed_m_s
    count = int(used.sum())
    fit.offset_ms = 1e3 * mean - fit.travel_ms
    fit.sigma_ms = math.hypot(1e3 * spread / math.sqrt(count), COMMON * 1e3 * interval, travel_sigma)
    fit.covariance = np.array([[fit.sigma_ms**2, 0.0], [0.0, 0.0]])
    fit.reference_ns = origin + round(1e9 * float(heard[used].mean()))
    fit.stamp_noise_ms = 1e3 * spread
    for k in np.flatnonzero(np.isfinite(offsets)):
        value = 1e3 * float(offsets[k]) - fit.travel_ms
        others = used & (np.arange(len(offsets)) != k)
        left_out = 1e3 * float(offsets[k] - offsets[others].mean()) if used[k] else math.nan
        fit.events.append(
            Event(
                time_ns=origin + round(1e9 * float(heard[k])),
                used=bool(used[k]),
                offset_ms=value,
                low_ms=value,
                high_ms=value,
                sigma_ms=1e3 * spread,
                residual_ms=value - fit.offset_ms,
                left_out_ms=left_out,
                partly_lit=True,
            )
        )
    fit.warnings.append(
        "claps are a coarse measure, and tell no drift; a flash with a beep is ten times better"
    )
    if travel is None:
        fit.warnings.append(
            "the distance to the microphone was not given: 2.9 ms per metre are part of the offset"
        )


def _levels(seconds: Floats, moved: Floats, at: Floats, interval: float) -> tuple[Floats, Floats]:
    """Mean motion in the two and a half intervals before times and after them, half an interval apart."""
    total = np.concatenate([[0.0], np.cumsum(moved[1:])])  # up to each picture

    def between(a: float, b: float) -> Floats:
        return (np.interp(at + b, seconds, total) - np.interp(at + a, seconds, total)) / (b - a)

    return between(-2.5 * interval, -0.5 * interval), between(0.5 * interval, 2.5 * interval)


def _shift(
    seconds: Floats, moved: Floats, heard: Floats, interval: float, search_s: float
) -> tuple[float, float]:
    """The shift (sound less picture) at which motion stops at most claps, and how good the best other one
    is."""
    shifts = np.arange(-search_s, search_s + 1e-9, interval / 4)
    score = np.zeros(len(shifts))
    for t in heard:
        before, after = _levels(seconds, moved, t - shifts, interval)
        stop = np.maximum(before - 1.5 * after, 0.0)
        score += stop  # hands that meet stop harder than hands that have opened
    best = int(np.argmax(score))
    far = np.abs(shifts - shifts[best]) > 4 * interval
    second = float(score[far].max(initial=0.0) / max(score[best], 1e-9))
    return float(shifts[best]), second


def _stop(seconds: Floats, moved: Floats, near: float, interval: float) -> float | None:
    """When motion stops within two intervals of a time; None when it does not."""
    k = int(np.searchsorted(seconds, near))
    if k < 5 or k + 5 >= len(seconds):
        return None
    best: tuple[float, float] | None = None
    for j in range(k - 2, k + 3):  # motion from picture j - 1 to j is cut short
        before = float(moved[j - 1])
        after = float(np.mean(moved[j + 1 : j + 3]))
        drop = before - after
        if before <= 0 or drop < 0.5 * before:
            continue
        share = float(np.clip((moved[j] - after) / drop, 0.0, 1.0))
        if best is None or drop > best[0]:
            best = (drop, float(seconds[j - 1] + share * (seconds[j] - seconds[j - 1])))
    return None if best is None else best[1]
