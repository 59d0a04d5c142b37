"""An audio-video offset as a result file of kind "sync", in words, and as a page with pictures."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.report_page import ReportPage
from calibration.result import CalibrationResult, Covariance, hash_inputs
from calibration.sync_files import Material
from calibration.sync_setting import Setting, SyncFit
from recordings.canvas import SvgCanvas

_GOOD, _BAD, _SOFT, _INK, _GRID = "#0067a3", "#b3261e", "#6b665e", "#211f1c", "#e5e1d8"
_WIDTH, _HEIGHT, _MARGIN = 640, 300, 52


def at_utc(fit: SyncFit, got: Material) -> str | None:
    """The time for which the offset holds, ISO 8601; None where the recording has no wall clock."""
    if got.utc_ns is None:
        return None
    when = datetime.fromtimestamp(got.utc_ns(fit.reference_ns) / 1e9, timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _known(known: Any) -> dict[str, float] | None:
    return None if known is None else {"value": known.value, "sigma": known.sigma}


def _found(value: float) -> float | None:
    """None for what the way it was measured does not tell (claps: exposure, shutter)."""
    return value if np.isfinite(value) else None


def to_result(fit: SyncFit, got: Material, setting: Setting) -> CalibrationResult:
    """The result file. Raises CheckFailed when the fit is refused: there is then nothing to write."""
    fit.require()
    names = ["offset_ms", "drift_ppm"] if fit.drift_ppm is not None else ["offset_ms"]
    n = len(names)
    residual = np.array([event.residual_ms for event in fit.events if event.used])
    left_out = np.array([event.left_out_ms for event in fit.events if event.used])
    left_out = left_out[np.isfinite(left_out)]
    return CalibrationResult.new(
        "sync",
        {
            "offset_ms": fit.offset_ms,
            "sigma_ms": fit.sigma_ms,
            "drift_ppm": fit.drift_ppm,
            "drift_sigma_ppm": fit.drift_sigma_ppm,
            "reference_t_ns": fit.reference_ns,
            "reference_s": (fit.reference_ns - got.start_ns) / 1e9,
            "at_utc": at_utc(fit, got),
            "stamp": fit.stamp,
            "clock_offset_ms": fit.clock_offset_ms,
            "clock_sigma_ms": fit.clock_sigma_ms,
            "exposure_ms": _found(fit.exposure_ms),
            "readout_ms": _found(fit.readout_ms),
            "line_delay_us": _found(fit.line_delay_us),
            "method": {
                "source": fit.source,
                "distance_m": _known(setting.distance_m),
                "temperature_c": setting.temperature_c,
                "sound_travel_ms": fit.travel_ms,
                "source_late_ms": _known(setting.source_late_ms),
                "exposure_given_ms": _known(setting.exposure_ms),
                "readout_given_ms": _known(setting.readout_ms),
                "stamps_smoothed": fit.smoothed,
            },
        },
        units={
            "offset_ms": "ms; positive: the sound is late. A picture stamped t shows (middle row,"
            " middle of the"
            " exposure) what the sound has at t + offset_ms",
            "drift_ppm": "ppm; offset(t) = offset_ms + drift_ppm * 1e-3 * (t - reference) in seconds",
            "reference_t_ns": "ns; on the clock of the recording's stamps",
            "reference_s": "s; from the first sample",
            "clock_offset_ms": "ms; the same for a stamp that stands for what `stamp` says: start (of"
            " the first"
            " row's exposure), middle (of everything), end (of the last row's exposure)",
            "exposure_ms": "ms; found, not read from the camera",
            "readout_ms": "ms; from the first to the last row",
            "line_delay_us": "us; from row to row",
            "residuals": "ms",
        },
        inputs=hash_inputs(got.inputs),
        covariance=Covariance.of(names, fit.covariance[:n, :n]),
        residuals={
            "rms_ms": float(np.sqrt(np.mean(residual**2))),
            "left_out_rms_ms": float(np.sqrt(np.mean(left_out**2))) if len(left_out) else None,
            "events": [
                {
                    "t_ns": event.time_ns,
                    "used": event.used,
                    "offset_ms": event.offset_ms,
                    "low_ms": event.low_ms,
                    "high_ms": event.high_ms,
                    "residual_ms": event.residual_ms,
                    "left_out_ms": event.left_out_ms if np.isfinite(event.left_out_ms) else None,
                    "partly_lit": event.partly_lit,
                }
                for event in fit.events
            ],
        },
        quality={
            "flashes": len(fit.flashes),
            "beeps": fit.beeps,
            "pairs": len(fit.events),
            "used": fit.used,
            "partly_lit": sum(event.partly_lit for event in fit.events),
            "span_s": _span_s(fit),
            "stamp_noise_ms": fit.stamp_noise_ms,
            "exposure_sigma_ms": _found(fit.exposure_sigma_ms),
            "readout_sigma_ms": _found(fit.readout_sigma_ms),
            "flash_ms": _found(fit.flash_ms),
            "frame_interval_ms": fit.interval_ms,
        },
        warnings=fit.warnings,
    )


def _span_s(fit: SyncFit) -> float:
    times = [event.time_ns for event in fit.events if event.used]
    return (max(times) - min(times)) / 1e9 if times else 0.0


def in_words(fit: SyncFit) -> str:
    """One sentence: what was found and how well."""
    if not np.isfinite(fit.offset_ms):
        return f"{len(fit.flashes)} flashes, {fit.beeps} beeps; no offset"
    side = "late" if fit.offset_ms >= 0 else "early"
    drift = ""
    if fit.drift_ppm is not None and fit.drift_sigma_ppm is not None:
        drift = f", drift {fit.drift_ppm:+.2f} ± {fit.drift_sigma_ppm:.2f} ppm"
    return (
        f"the sound is {abs(fit.offset_ms):.2f} ± {fit.sigma_ms:.2f} ms {side}{drift};"
        f" {fit.used} of {len(fit.events)} flashes with beeps"
    )


def summary(fit: SyncFit, got: Material) -> dict[str, Any]:
    """What `--json` prints."""
    found: dict[str, Any] = {
        "good": fit.ok,
        "problems": [{"problem": r.problem, "remedy": r.remedy} for r in fit.refusals],
        "flashes": len(fit.flashes),
        "beeps": fit.beeps,
        "pairs": len(fit.events),
        "used": fit.used,
        "warnings": list(fit.warnings),
    }
    if fit.ok:
        found |= {
            "offset_ms": fit.offset_ms,
            "sigma_ms": fit.sigma_ms,
            "drift_ppm": fit.drift_ppm,
            "drift_sigma_ppm": fit.drift_sigma_ppm,
            "reference_s": (fit.reference_ns - got.start_ns) / 1e9,
            "at_utc": at_utc(fit, got),
            "clock_offset_ms": fit.clock_offset_ms,
            "exposure_ms": _found(fit.exposure_ms),
            "line_delay_us": _found(fit.line_delay_us),
            "stamp_noise_ms": fit.stamp_noise_ms,
            "source": fit.source,
        }
    return found


# ------------------------------------------------------------------ page


def write_page(path: Path, fit: SyncFit, got: Material, setting: Setting) -> Path:
    """The page of a fit, good or refused. Raises StorageError."""
    page = ReportPage("Audio-video offset", got.name)
    page.verdict(fit.ok, in_words(fit) if fit.ok else "No offset that can be stood for")
    page.notes([str(refusal) for refusal in fit.refusals])
    page.notes(fit.warnings)
    if np.isfinite(fit.offset_ms):
        page.text(
            "Positive: the sound is late. A picture shows, in its middle row and the middle of its"
            " exposure, what the"
            " sound has that much later than the picture's stamp.",
            soft=True,
        )
        page.facts(_facts(fit, got, setting))
    else:
        page.facts(
            [("flashes in the picture", str(len(fit.flashes))), ("beeps in the sound", str(fit.beeps))]
        )
    if fit.events:
        page.begin_row()
        page.svg(
            _over_time(fit, got),
            "Each event against the fit. Dots: a picture was partly lit, which gives a time; bars:"
            " dark and lit pictures"
            " only, which give limits. Red: left out.",
        )
        page.svg(_histogram(fit), "Residuals of the events (0 for limits that the fit keeps).")
        if len(fit.draws):
            page.svg(
                _posterior(fit), "Offsets that agree with everything seen and heard, and their likelihood."
            )
        page.end_row()
    _strips(page, fit, got)
    if fit.events:
        page.heading("Events")
        rows = [
            [
                f"{(event.time_ns - got.start_ns) / 1e9:.2f}",
                "yes" if event.used else "no",
                f"{event.low_ms:.2f}" if event.partly_lit else f"{event.low_ms:.1f} to {event.high_ms:.1f}",
                f"{event.residual_ms:.2f}",
                f"{event.left_out_ms:.2f}" if np.isfinite(event.left_out_ms) else "",
            ]
            for event in fit.events
        ]
        page.table(["time (s)", "used", "offset alone (ms)", "residual (ms)", "without it (ms)"], rows)
    return page.write(path)


def _facts(fit: SyncFit, got: Material, setting: Setting) -> list[tuple[str, str]]:
    travel = setting.distance_m
    facts = [
        ("sound late by", f"{fit.offset_ms:.2f} ± {fit.sigma_ms:.2f} ms"),
        (
            "drift",
            "not given" if fit.drift_ppm is None else f"{fit.drift_ppm:+.2f} ± {fit.drift_sigma_ppm:.2f} ppm",
        ),
        (
            "holds at",
            f"{(fit.reference_ns - got.start_ns) / 1e9:.1f} s of the recording"
            + (f", {at_utc(fit, got)}" if got.utc_ns is not None else ""),
        ),
        (
            "way of the sound, taken out",
            f"{fit.travel_ms:.2f} ms ({travel.value:.2f} m at {setting.temperature_c:g} °C)"
            if travel is not None
            else "nothing (distance not given)",
        ),
        (
            "flash and beep from",
            {"screen": "the page's screen", "light": "a light and a buzzer"}.get(fit.source, "claps"),
        ),
        (
            "noise of a picture's stamp" if fit.source != "clap" else "scatter of the claps",
            f"{fit.stamp_noise_ms:.2f} ms" + (", after even spacing" if fit.smoothed else ", as stamped"),
        ),
    ]
    if np.isfinite(fit.exposure_ms):
        facts += [
            ("exposure, found", f"{fit.exposure_ms:.2f} ± {fit.exposure_sigma_ms:.2f} ms"),
            (
                "rolling shutter, found",
                f"{fit.line_delay_us:.1f} us a row ({fit.readout_ms:.1f} ± {fit.readout_sigma_ms:.1f} ms a"
                " picture)",
            ),
            ("length of a flash", f"{fit.flash_ms:.1f} ms"),
        ]
    if fit.stamp != "middle" and fit.clock_offset_ms is not None:
        facts.insert(
            1,
            (
                f"against stamps that mean the {fit.stamp} of the exposure",
                f"{fit.clock_offset_ms:.2f} ± {fit.clock_sigma_ms:.2f} ms",
            ),
        )
    return facts


def _frame(title: str, across: str, up: str, low: float, high: float) -> tuple[SvgCanvas, Any]:
    drawing = SvgCanvas(_WIDTH, _HEIGHT, title)

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _HEIGHT - _MARGIN - (_HEIGHT - 1.6 * _MARGIN) * share

    for value in np.linspace(low, high, 5):
        drawing.line([(_MARGIN, y(value)), (_WIDTH - 16, y(value))], _GRID)
        drawing.text(_MARGIN - 6, y(value) + 4, f"{value:.3g}", 11, _SOFT, "end")
    drawing.text((_MARGIN + _WIDTH) / 2, _HEIGHT - 10, across, 12, _INK, "middle")
    drawing.text(14, _HEIGHT / 2, up, 12, _INK, "middle", upright=True)
    return drawing, y


def _over_time(fit: SyncFit, got: Material) -> bytes:
    times = np.array([(event.time_ns - got.start_ns) / 1e9 for event in fit.events])
    points = np.array([abs(event.residual_ms) for event in fit.events if event.used and event.partly_lit])
    top = max(1.0, 1.3 * float(points.max(initial=0.0)), 4 * fit.sigma_ms)
    drawing, y = _frame("Residuals over time", "time in the recording (s)", "offset less fit (ms)", -top, top)
    first, last = float(times.min()), float(times.max())
    pad = 0.03 * max(last - first, 1.0)

    def x(t: float) -> float:
        return _MARGIN + (_WIDTH - 16 - _MARGIN) * (t - first + pad) / (last - first + 2 * pad)

    for t in np.linspace(first, last, 5):
        drawing.text(x(t), _HEIGHT - _MARGIN + 16, f"{t:.0f}", 11, _SOFT, "middle")
    drawing.line([(_MARGIN, y(0)), (_WIDTH - 16, y(0))], _INK)
    for t, event in zip(times, fit.events, strict=True):
        colour = _GOOD if event.used else _BAD
        fitted = _fitted(fit, event.time_ns)
        if event.partly_lit:
            at = event.offset_ms - fitted
            drawing.line([(x(t), y(at - event.sigma_ms)), (x(t), y(at + event.sigma_ms))], colour, 1.2)
            drawing.dots([(x(t), y(at))], 3.2, colour, "#ffffff")
        else:
            drawing.line([(x(t), y(event.low_ms - fitted)), (x(t), y(event.high_ms - fitted))], colour, 2.0)
    return drawing.data()


def _fitted(fit: SyncFit, t_ns: int) -> float:
    return fit.offset_ms + fit.slope_ppm * 1e-6 * (t_ns - fit.reference_ns) / 1e6


def _histogram(fit: SyncFit) -> bytes:
    values = np.array([event.residual_ms for event in fit.events])
    used = np.array([event.used for event in fit.events])
    half = max(0.5, 1.1 * float(np.abs(values[used]).max(initial=0.0)))
    edges = np.linspace(-half, half, 22)
    counts, _ = np.histogram(values[used], edges)
    top = max(4.0, float(counts.max(initial=0)))
    drawing, y = _frame("Residuals", "residual (ms)", "events", 0.0, top)
    _bars(drawing, y, edges, counts.astype(np.float64))
    return drawing.data()


def _posterior(fit: SyncFit) -> bytes:
    offsets = fit.draws[:, 0] - fit.travel_ms - fit.own_ms
    low, high = np.quantile(offsets, [0.002, 0.998])
    edges = np.linspace(low, max(high, low + 0.01), 41)
    counts, _ = np.histogram(offsets, edges)
    share = counts / max(counts.max(), 1)
    drawing, y = _frame("Offset", "offset (ms)", "likelihood", 0.0, 1.0)
    _bars(drawing, y, edges, share)
    return drawing.data()


def _bars(drawing: SvgCanvas, y: Any, edges: NDArray[np.float64], heights: NDArray[np.float64]) -> None:
    wide = (_WIDTH - 16 - _MARGIN) / len(heights)
    for k, height in enumerate(heights):
        if height > 0:
            drawing.box(_MARGIN + k * wide + 0.5, y(height), wide - 1, y(0) - y(height), _GOOD)
    for share in np.linspace(0, 1, 5):
        value = edges[0] + share * (edges[-1] - edges[0])
        x = _MARGIN + share * (_WIDTH - 16 - _MARGIN)
        drawing.text(x, _HEIGHT - _MARGIN + 16, f"{value:.3g}", 11, _SOFT, "middle")


def _strips(page: ReportPage, fit: SyncFit, got: Material) -> None:
    """Pictures around two flashes, rather those with a partly lit one."""
    wanted: list[tuple[bool, list[tuple[int, NDArray[np.uint8]]], int]] = []
    for strip in got.snapshots.strips:
        for k, t_ns in enumerate(fit.flash_times_ns):
            if strip[0][0] <= t_ns <= strip[-1][0]:
                share = fit.flashes[k].on.share
                partly = bool(((share > 0.1) & (share < 0.9)).any())
                wanted.append((partly, strip, t_ns))
                break
    wanted.sort(key=lambda item: not item[0])
    if not wanted:
        return
    page.heading("Pictures around a flash")
    for _, strip, t_ns in wanted[:2]:
        near = sorted(strip, key=lambda item: abs(item[0] - t_ns))[:5]
        near.sort(key=lambda item: item[0])
        tiles = [image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2) for _, image in near]
        gap = np.full((tiles[0].shape[0], 4, 3), 255, np.uint8)
        joined = [part for tile in tiles for part in (tile, gap)][:-1]
        times = ", ".join(f"{(t - got.start_ns) / 1e9:.3f}" for t, _ in near)
        page.begin_row()
        page.picture(np.hstack(joined), f"At {times} s.")
        page.end_row()
