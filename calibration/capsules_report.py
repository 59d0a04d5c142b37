"""A capsule calibration as a result file of kind "capsules", in words, and as a page with pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibration.capsules_files import Measurement
from calibration.capsules_fit import CapsuleFit, fit_capsules
from calibration.capsules_plots import gain_bars, noise_plot, octave_plot, patterns
from calibration.capsules_response import OCTAVES_HZ
from calibration.direct_arrival import Floats, foa_arrival
from calibration.noise_floor import NoiseFloor
from calibration.report_page import ReportPage
from calibration.result import CalibrationResult, Covariance, hash_inputs
from dsp.ambisonics import CHANNEL_NAMES, conversion_matrix
from dsp.errors import InputError
from dsp.foa_correction import FoaCorrection


def verify(fit: CapsuleFit, got: Measurement) -> dict[str, Any]:
    """The corrected sound of every direction, measured again: what is still wrong with it, and how far the
    directions that it gives are from their labels, before and after; degrees, median and worst."""
    correction = fit.require()
    fs = got.fs
    before = FoaCorrection(got.format, conversion_matrix(got.format, "ambix"))
    off = np.zeros((len(got.directions), 2))
    mended = []
    for i, direction in enumerate(got.directions):
        x = np.asarray(direction.response, np.float32)
        right = correction.apply(x, fs)
        mended.append(replace(direction, response=right))
        off[i] = _off(before.apply(x, fs), fs, direction.unit), _off(right, fs, direction.unit)
    again = fit_capsules(mended, "ambix")
    return {
        "faults": [f.to_dict() for f in again.faults if f.code != "gains"],
        "gains_db": dict(zip(again.names, np.round(again.gains_db, 3), strict=True)),
        "direction_error_before_deg": {"median": np.median(off[:, 0]), "worst": off[:, 0].max()},
        "direction_error_deg": {"median": np.median(off[:, 1]), "worst": off[:, 1].max()},
    }


def _off(foa: Any, fs: int, unit: Floats) -> float:
    try:
        found = foa_arrival(foa, fs).direction
    except InputError:
        return 180.0
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(found, unit)), found @ unit)))


def to_result(
    fit: CapsuleFit,
    got: Measurement,
    noise: NoiseFloor | None,
    verified: dict[str, Any],
    method: dict[str, Any],
) -> CalibrationResult:
    """The result file. Raises CheckFailed when the fit is refused: there is then nothing to write."""
    correction = fit.require()
    assert fit.wiring is not None
    known = np.isfinite(fit.delay_sigma_us).all()
    return CalibrationResult.new(
        "capsules",
        {
            "declared_format": fit.declared,
            "found_format": fit.wiring.format,
            "channels": list(CHANNEL_NAMES[fit.declared]),
            "correction": correction.to_dict(),
            "gains_db": dict(zip(fit.names, fit.gains_db, strict=True)),
            "gain_sigma_db": dict(zip(fit.names, fit.gain_sigma_db, strict=True)),
            "delays_us": dict(zip(fit.names, fit.delays_us, strict=True)) if known else None,
            "delay_sigma_us": dict(zip(fit.names, fit.delay_sigma_us, strict=True)) if known else None,
            "octaves_hz": [hz for hz, row in zip(OCTAVES_HZ, fit.octave_gains_db, strict=True) if _all(row)],
            "octave_gains_db": [row for row in fit.octave_gains_db if _all(row)],
            "octave_sigma_db": [
                s for row, s in zip(fit.octave_gains_db, fit.octave_sigma_db, strict=True) if _all(row)
            ],
            "capsule_radius_m": fit.radius_m if np.isfinite(fit.radius_m) else None,
            "channels_from_wave": fit.matrix,
            "turn": fit.wiring.turn,
            "faults": [f.to_dict() for f in fit.faults],
            "noise_floor": None if noise is None else noise.to_dict(),
            "method": method,
        },
        units={
            "gains_db": "dB against the mean of the four",
            "gain_sigma_db": "dB",
            "delays_us": "us against the mean of the four",
            "delay_sigma_us": "us",
            "octaves_hz": "Hz",
            "octave_gains_db": "dB, rows: octaves_hz, columns: as gains_db",
            "octave_sigma_db": "dB",
            "capsule_radius_m": "m",
            "channels_from_wave": "channels from (1, x, y, z) of a wave",
            "turn": "true directions (x, y, z) to those of the microphone",
            "correction": "matrix: the recorded channels to AmbiX; delays_s: s by which each channel is late",
        },
        inputs=hash_inputs(got.inputs),
        covariance=Covariance.of(fit.parameters, 0.5 * (fit.covariance + fit.covariance.T)),
        residuals={
            "directions": [
                {
                    "name": name,
                    "azimuth_deg": d.azimuth_deg,
                    "elevation_deg": d.elevation_deg,
                    "placement_deg": fit.placement_deg[i],
                    "left_out_deg": fit.left_out_deg[i],
                    "heard": fit.heard.y[i],
                    "model": fit.model[i],
                }
                for i, (name, d) in enumerate(zip(fit.heard.names, got.directions, strict=True))
            ]
        },
        quality={
            "snr_db": dict(zip(fit.heard.names, fit.heard.snr_db, strict=True)),
            "window_s": dict(zip(fit.heard.names, fit.heard.window_s, strict=True)),
            "sigma_scale": fit.sigma_scale,
            "turn_deg": fit.turn_deg,
            "drift_ppm": got.drift_ppm,
            "drift_sigma_ppm": got.drift_sigma_ppm,
            "verified": verified,
        },
        warnings=fit.warnings,
    )


def _all(row: Floats) -> bool:
    return bool(np.isfinite(row).all())


def problems(fit: CapsuleFit | None, got: Measurement | None) -> list[dict[str, str]]:
    """Why there is no result, with what to do."""
    found = list(got.problems) if got is not None else []
    found += [] if fit is None else list(fit.refusals)
    return [{"problem": problem, "remedy": remedy} for problem, remedy in found]


def summary(fit: CapsuleFit, got: Measurement, noise: NoiseFloor | None) -> dict[str, Any]:
    """Keys of `--json` beside `good`, `result`, `page` and `problems`."""
    known = fit.ok
    return {
        "declared_format": fit.declared,
        "found_format": fit.wiring.format if fit.wiring is not None else None,
        "gains_db": dict(zip(fit.names, fit.gains_db, strict=True)) if known else None,
        "gain_sigma_db": dict(zip(fit.names, fit.gain_sigma_db, strict=True)) if known else None,
        "faults": [f.to_dict() for f in fit.faults],
        "directions": [
            {
                "name": name,
                "snr_db": fit.heard.snr_db[i],
                "peak_dbfs": got.peak_dbfs.get(name),
                "window_ms": 1000 * fit.heard.window_s[i],
                "placement_deg": fit.placement_deg[i],
                "left_out_deg": fit.left_out_deg[i],
            }
            for i, name in enumerate(fit.heard.names)
        ],
        "drift_ppm": got.drift_ppm,
        "noise_a_weighted_db": None if noise is None else noise.a_weighted_db,
        "noise_unit": None if noise is None else noise.unit,
        "warnings": list(fit.warnings),
    }


def in_words(fit: CapsuleFit, noise: NoiseFloor | None) -> list[str]:
    """Lines for the terminal."""
    lines = []
    if fit.ok:
        each = ", ".join(
            f"{n} {g:+.2f} ± {s:.2f}"
            for n, g, s in zip(fit.names, fit.gains_db, fit.gain_sigma_db, strict=True)
        )
        lines.append(f"gains in dB: {each}")
        if np.isfinite(fit.radius_m):
            late = ", ".join(f"{n} {d:+.1f}" for n, d in zip(fit.names, fit.delays_us, strict=True))
            lines.append(f"delays in us: {late}; capsules {1000 * fit.radius_m:.1f} mm from the centre")
    lines += [f"{'repaired' if f.repaired else 'NOT REPAIRED'}: {f.code}: {f.message}" for f in fit.faults]
    if noise is not None:
        levels = ", ".join(f"{v:.1f}" for v in noise.a_weighted_db)
        lines.append(f"noise floor, A-weighted: {levels} ({noise.unit})")
    return lines + [f"note: {text}" for text in fit.warnings]


def write_page(
    path: Path, fit: CapsuleFit | None, got: Measurement, noise: NoiseFloor | None,
    verified: dict[str, Any] | None, subtitle: str,
) -> Path:  # fmt: skip
    """The page of a calibration, or of a refusal. Raises StorageError."""
    page = ReportPage("Capsules and encoding", subtitle)
    wrong = problems(fit, got)
    good = fit is not None and fit.ok and not wrong
    if not good:
        page.verdict(False, "no correction to stand for")
        page.notes([f"{w['problem']}: {w['remedy']}" for w in wrong])
    elif fit is not None and fit.faults:
        page.verdict(True, f"{len(fit.faults)} found and put right by the correction")
    else:
        page.verdict(True, "the wiring is right; gains are corrected where they are off")
    if fit is not None:
        page.notes([f"{f.code}: {f.message}{'' if f.repaired else ' (not repaired)'}" for f in fit.faults])
        page.notes(list(fit.warnings))
        _facts(page, fit, got, verified)
        if fit.ok:
            page.begin_row()
            page.svg(
                gain_bars(fit), "Gains against their mean; the line is twice the uncertainty to each side."
            )
            page.svg(octave_plot(fit), "The same per octave; dots that lie together are one gain for all.")
            page.end_row()
        if fit.ok:
            _patterns(page, fit)
        _directions(page, fit, got)
    if noise is not None:
        page.heading("Noise floor")
        page.begin_row()
        page.svg(
            noise_plot(noise, CHANNEL_NAMES[got.format]),
            f"Per octave, {noise.unit}, from {noise.seconds:.1f} s ({got.quiet_from}).",
        )
        page.end_row()
        heads = ["", *CHANNEL_NAMES[got.format]]
        rows: list[list[Any]] = [["A-weighted", *(f"{v:.1f}" for v in noise.a_weighted_db)]]
        rows += [
            [f"{hz:g} Hz", *(f"{v:.1f}" for v in row)]
            for hz, row in zip(noise.bands_hz, noise.octave_db, strict=True)
        ]
        page.table(heads, rows)
    return page.write(path)


def _facts(page: ReportPage, fit: CapsuleFit, got: Measurement, verified: dict[str, Any] | None) -> None:
    found = "not clear" if fit.wiring is None else fit.wiring.format
    rows = [("declared format", fit.declared), ("what the channels are", found)]
    if fit.ok:
        rows += [
            (f"gain of {n}", f"{g:+.2f} ± {s:.2f} dB")
            for n, g, s in zip(fit.names, fit.gains_db, fit.gain_sigma_db, strict=True)
        ]
        if np.isfinite(fit.radius_m):
            rows += [
                (f"delay of {n}", f"{d:+.1f} ± {s:.1f} µs")
                for n, d, s in zip(fit.names, fit.delays_us, fit.delay_sigma_us, strict=True)
            ]
            rows.append(("capsules from the centre", f"{1000 * fit.radius_m:.1f} mm"))
    if got.drift_ppm is not None:
        rows.append(("drift of the player", f"{got.drift_ppm:+.0f} ± {got.drift_sigma_ppm:.0f} ppm"))
    if verified is not None:
        before, after = verified["direction_error_before_deg"], verified["direction_error_deg"]
        rows.append(
            (
                "directions of the sweeps",
                f"{before['median']:.1f} degrees off before, {after['median']:.1f} after"
                f" (worst {before['worst']:.1f}, {after['worst']:.1f}); placing is part of it",
            )
        )
    page.facts(rows)


def _patterns(page: ReportPage, fit: CapsuleFit) -> None:
    page.heading("What each channel heard")
    page.text(
        "Dots: the directions, by the angle between where the sound came from and the axis of the channel as"
        " it was found; the curve is the ideal pattern: a cardioid, a circle for W, a figure of eight.",
        soft=True,
    )
    page.begin_row()
    page.svg(patterns(fit, (0, 1)))
    page.svg(patterns(fit, (2, 3)))
    page.end_row()


def _directions(page: ReportPage, fit: CapsuleFit, got: Measurement) -> None:
    rows = []
    for i, name in enumerate(fit.heard.names):
        place, out = fit.placement_deg[i], fit.left_out_deg[i]
        rows.append(
            [
                name,
                f"{got.peak_dbfs.get(name, float('nan')):.0f}",
                f"{fit.heard.snr_db[i]:.0f}",
                f"{1000 * fit.heard.window_s[i]:.2f}",
                "" if np.isnan(place) else f"{place:.1f}",
                "" if np.isnan(out) else f"{out:.1f}",
            ]
        )
    page.heading("Directions")
    page.table(
        [
            "",
            "peak, dBFS",
            "SNR, dB",
            "window, ms",
            "placed off, degrees",
            "left out, degrees",
        ],
        rows,
    )
    page.text(
        "Left out: between the label and where the sound comes from by a correction made of all the others.",
        soft=True,
    )
