"""The offset between sound and picture from flashes and beeps: what was found, how well, or why not.

Positive: the sound is late. `offset_ms` is what the sound's stamps are late against what a picture shows in
its middle row in the middle of its exposure, at `reference_ns`; `drift_ppm` by how much that grows (1 ppm is
0.06 ms a minute).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibration.sync_light import MIN_RISE, LightLog, find_flashes
from calibration.sync_pairs import Pairing, pair_up
from calibration.sync_setting import Setting, Sound, SyncFit
from calibration.sync_solve import LEAST_EVENTS, solve
from calibration.sync_sound import Beep, find_chirps, find_tones

ENOUGH_EVENTS = 30
AGREE_SHARE = 0.75
MOST_SIGMA_MS = 3.0
MOST_DRIFT_PPM = 300.0
MOST_DRIFT_SIGMA_PPM = 5.0
LONG_S = 120.0
"""A recording longer than this must have events at both ends, or be told that no drift is wanted."""

Floats = NDArray[np.float64]


def estimate_sync(log: LightLog, sound: Sound, setting: Setting | None = None) -> SyncFit:
    """Offset and drift of sound against pictures. The answer may be a refusal (`SyncFit.refusals`).

    Raises InputError for arrays that do not fit together.
    """
    setting = setting or Setting()
    fit = SyncFit(stamp=setting.stamp)
    if len(log) < 12 or len(sound.samples) < sound.rate_hz:
        return fit.refuse(
            f"{len(log)} pictures and {len(sound.samples) / sound.rate_hz:.1f} s of sound are too little",
            "record half a minute with flashes and beeps",
        )
    stamps = np.asarray(log.times_ns, np.int64)
    order = np.diff(stamps)
    if np.any(order <= 0):
        return fit.refuse(
            f"{int((order <= 0).sum())} of {len(stamps)} pictures have a stamp that is not after the"
            " one before",
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
    solve(fit, log, sound, beeps, beep_s, pairing, origin, setting)
    _agreement(fit)
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
            fit.refuse(
                f"{len(dim)} flashes are there but too dim ({100 * rise:.1f} % of the picture's range)",
                "bring the light nearer or make it brighter, darken the room, fix the camera's exposure",
            )
            return False
    what = "flashes in the picture" if flashes < LEAST_EVENTS else "beeps in the sound"
    fit.refuse(
        f"{min(flashes, beeps)} {what} ({flashes} flashes, {beeps} beeps), at least {LEAST_EVENTS} are"
        " needed",
        f"show {ENOUGH_EVENTS} flashes with beeps; the light must be in the picture (dark for a quarter"
        " of a second"
        " before each), the beep louder than the room",
    )
    return False


def _paired(fit: SyncFit, pairing: Pairing, flash_s: Floats, beep_s: Floats, setting: Setting) -> bool:
    count, least = len(pairing.pairs), min(len(flash_s), len(beep_s))
    if pairing.rate:
        fit.refuse(
            f"flashes and beeps only fit together with another rate: {pairing.rate}",
            "read the sound and the pictures with the rates they were recorded with",
        )
    elif count < LEAST_EVENTS or count < 0.5 * least:
        fit.refuse(
            f"of {len(flash_s)} flashes and {len(beep_s)} beeps only {count} belong together within"
            f" {setting.search_s:g} s of each other",
            "do they belong to one recording? If sound and picture began far apart, widen the search"
            " (--search-s)",
        )
    elif pairing.second >= 0.7 * count:
        fit.refuse(
            f"flashes and beeps fit together at a shift of {1e3 * pairing.shift_s:.0f} ms ({count}"
            " pairs) and also"
            f" at {1e3 * pairing.second_s:.0f} ms ({pairing.second} pairs): they are equally spaced",
            "flash at unequal intervals (the page of --show does), or narrow the search (--search-s)",
        )
    return fit.ok


def _agreement(fit: SyncFit) -> None:
    count, used = len(fit.events), fit.used
    away = np.array([event.residual_ms for event in fit.events if not event.used])
    if used < LEAST_EVENTS or used < AGREE_SHARE * count:
        groups = ""
        if len(away) >= 3 and float(np.std(away)) < 0.3 * fit.interval_ms and abs(float(np.mean(away))) > 3:
            groups = (
                f", {len(away)} others {float(np.mean(away)):+.0f} ms from them: sound or pictures jumped"
                " within the recording"
            )
        fit.refuse(
            f"only {used} of {count} flashes and beeps agree with each other{groups}",
            "record anew without load on the computer; keep other blinking and beeping things away;"
            " the device"
            " must flash and beep together every time",
        )
    elif fit.stamp_noise_ms > max(6.0, 0.2 * fit.interval_ms):
        fit.refuse(
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
        fit.refuse(
            f"the offset is only known to {fit.sigma_ms:.1f} ms",
            f"show more flashes ({ENOUGH_EVENTS}), in the middle of the picture; give --line-delay-us and"
            " --distance-m if they are known",
        )
    if abs(fit.drift_ppm) - 3 * fit.drift_sigma_ppm > MOST_DRIFT_PPM:
        fit.refuse(
            f"sound and pictures drift by {fit.drift_ppm:.0f} ppm, which no two clocks do",
            "the rate of the sound or of the pictures is wrong",
        )
    if length > LONG_S and span < 0.5 * length and setting.needs_drift:
        fit.refuse(
            f"the events span {span:.0f} s of a recording of {length:.0f} s, so that the drift is not known",
            "show flashes at its start and at its end, or ask for the offset alone (--offset-only)",
        )
    if fit.drift_sigma_ppm > MOST_DRIFT_SIGMA_PPM or not setting.needs_drift:
        fit.warnings.append(
            f"no drift is given: {span:.0f} s of events only tell it to {fit.drift_sigma_ppm:.0f} ppm;"
            " show flashes"
            " again ten minutes later in the same recording"
        )
        fit.drift_ppm = fit.drift_sigma_ppm = None
    if setting.distance_m is None:
        fit.warnings.append(
            "the distance from the beep to the microphone was not given: its 2.9 ms per metre are part"
            " of the offset"
        )
    if fit.source == "screen" and setting.source_late_ms is None:
        fit.warnings.append(
            "the screen's own offset between flash and beep is part of the result and is not in its"
            " uncertainty"
            " (phones: up to some tens of ms); a lamp and a buzzer on one wire have none"
        )
    height = float(np.mean([np.mean(flash.rows) for flash in fit.flashes]))
    by_rows = abs(height) * fit.readout_sigma_ms
    if by_rows > 0.3:
        fit.warnings.append(
            f"the rolling shutter is not known, and the flash is not in the middle row: {by_rows:.1f}"
            " ms of the"
            " uncertainty come from that; give --line-delay-us, or hold the light in the middle"
        )
    if np.mean([flash.clipped for flash in fit.flashes]) > 0.5:
        fit.warnings.append("the flash is so bright that it clips; a darker one tells more")
    left = len(fit.events) - fit.used
    if left:
        fit.warnings.append(f"{left} of {len(fit.events)} events disagree and were left out")
    if fit.used < 15:
        fit.warnings.append(f"{fit.used} events are few; {ENOUGH_EVENTS} are better")
