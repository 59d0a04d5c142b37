"""A measured reverberation as a section of room.json, in words, and as a page with its decay curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibration.report_page import ReportPage
from calibration.reverberation import NAMES, Measured, Reverberation, RoomBand, RoomValue
from calibration.reverberation_decay import Decay
from recordings.canvas import SvgCanvas

KEYS = {"t30": "t30_s", "t20": "t20_s", "edt": "edt_s", "c50": "c50_db", "d50": "d50"}
_TITLES = {"t30": "T30, s", "t20": "T20, s", "edt": "EDT, s", "c50": "C50, dB", "d50": "D50, %"}
_CURVE, _T30, _T20, _RAW, _NOISE, _INK, _GRID = (
    "#0067a3", "#b3261e", "#8a6d00", "#b9c7d3", "#6b665e", "#211f1c", "#e5e1d8",
)  # fmt: skip


def _sigma_key(name: str, what: str) -> str:
    stem, _, unit = KEYS[name].partition("_")
    return f"{stem}_{what}_{unit}" if unit else f"{stem}_{what}"


def band_as_dict(band: RoomBand) -> dict[str, Any]:
    """One band with flat keys; what is not known is None, with the reason in `refused`."""
    centre = None if band.band.name == "broadband" else float(band.band.name.split()[0])
    row: dict[str, Any] = {
        "band": band.band.name,
        "centre_hz": centre,
        "low_hz": band.band.low_hz,
        "high_hz": band.band.high_hz,
        "range_db": band.range_db,
    }
    for name in NAMES:
        v = band.values.get(name)
        row[KEYS[name]] = None if v is None else v.value
        row[_sigma_key(name, "sigma")] = None if v is None else v.sigma
        row[_sigma_key(name, "noise")] = None if v is None else v.noise
        row[_sigma_key(name, "sd")] = None if v is None else v.sd
        row[_sigma_key(name, "repeat_sd")] = None if v is None else v.repeat_sd
    row["places"] = max((v.places for v in band.values.values()), default=0)
    row["nonlinearity_t30_permille"] = band.nonlinearity_permille.get("t30")
    row["nonlinearity_t20_permille"] = band.nonlinearity_permille.get("t20")
    row["curvature_percent"] = band.curvature_percent
    row["refused"] = {KEYS[name]: reason for name, reason in band.refused.items()}
    return row


def section(
    found: Reverberation, method: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """The section of room.json, its units, and its quality."""
    rt60 = found.rt60
    value = {
        "rt60_s": None if rt60 is None else rt60[0].value,
        "rt60_sigma_s": None if rt60 is None else rt60[0].sigma,
        "rt60_from": None if rt60 is None else f"{rt60[1].upper()} of 500 Hz and 1 kHz",
        "bands": [band_as_dict(b) for b in found.bands],
        "method": method,
    }
    units = {
        "rt60_s": "s; seconds to fall by 60 dB, extrapolated from the range that rt60_from names",
        "bands": "_s seconds, _db dB, _hz Hz, _percent %, _permille 1/1000; d50 is a share from 0 to 1",
        "sigma": "standard uncertainty as a number of the room; noise: its part by the noise floor;"
        " sd: standard deviation over places; repeat_sd: over repeats at a place",
    }
    quality = {
        "places": list(found.places),
        "responses": [
            {
                "name": m.response.name,
                "place": m.response.place,
                "direct_sound_s": m.direct_s,
                "bands": [_response_row(d) for d in m.decays],
            }
            for m in found.measured
        ],
        "skipped": [{"name": name, "reason": reason} for name, reason in found.skipped],
    }
    return value, units, quality


def _response_row(d: Decay) -> dict[str, Any]:
    row: dict[str, Any] = {"band": d.band.name, "range_db": d.range_db, "meets_noise": d.meets_noise}
    row |= {KEYS[name]: d.values[name].value for name in NAMES if name in d.values}
    return row


def summary(found: Reverberation) -> dict[str, Any]:
    """What the command prints as JSON, without the files."""
    value, _, _ = section(found, {})
    bands = [
        {
            key: item
            for key, item in row.items()
            if "repeat_sd" not in key and key not in ("low_hz", "high_hz")
        }
        for row in value["bands"]
    ]
    good = any(b.values.get("t30") or b.values.get("t20") for b in found.bands)
    remedy = "play louder or a longer sweep, make the room quieter, record for longer after it"
    problems = [] if good else [{"problem": reason, "remedy": remedy} for reason in _reasons(found)]
    return {
        "good": good,
        "problems": problems,
        "rt60_s": value["rt60_s"],
        "rt60_sigma_s": value["rt60_sigma_s"],
        "rt60_from": value["rt60_from"],
        "places": len(found.places),
        "responses": len(found.measured),
        "bands": bands,
        "skipped": [{"name": name, "reason": reason} for name, reason in found.skipped],
        "warnings": list(found.warnings),
    }


def _cell(v: RoomValue | None, name: str) -> str:
    if v is None:
        return "–"
    if name == "c50":
        return f"{v.value:.1f}\u00a0±\u00a0{v.sigma:.1f}"
    if name == "d50":
        return f"{100 * v.value:.0f}\u00a0±\u00a0{100 * v.sigma:.0f}"
    digits = 3 if v.sigma < 0.0095 else 2
    return f"{v.value:.{digits}f}\u00a0±\u00a0{v.sigma:.{digits}f}"


def lines(found: Reverberation) -> list[str]:
    """The table for the terminal."""
    rt60 = found.rt60
    told = []
    if rt60 is not None:
        told.append(
            f"RT60 {rt60[0].value:.3f} ± {rt60[0].sigma:.3f} s ({rt60[1].upper()}, 500 Hz and 1 kHz;"
            f" the noise has {1000 * rt60[0].noise:.1f} ms of it)"
        )
    told.append(f"{'band':<10}{'range':>8}  " + "".join(f"{_TITLES[name]:>17}" for name in NAMES))
    for b in found.bands:
        cells = "".join(f"{_cell(b.values.get(name), name):>17}" for name in NAMES)
        told.append(f"{b.band.name:<10}{b.range_db:5.0f} dB  {cells}")
    for reason, where in _reasons(found).items():
        told.append(f"left out: {where}: {reason}")
    told += [f"left out: {name}: {reason}" for name, reason in found.skipped]
    return told + [f"note: {text}" for text in found.warnings]


def _reasons(found: Reverberation) -> dict[str, str]:
    """Reason -> the numbers that it left out."""
    by_reason: dict[str, list[str]] = {}
    for b in found.bands:
        for name, reason in b.refused.items():
            by_reason.setdefault(f"{b.band.name}: {reason}", []).append(name.upper())
    return {reason: ", ".join(names) for reason, names in by_reason.items()}


# ------------------------------------------------------------------ page


def write_page(path: Path, found: Reverberation, source: str) -> Path:
    """The page: verdict, table, curves of every band, what was left out and why. Raises StorageError."""
    page = ReportPage("Reverberation of the room", source)
    rt60 = found.rt60
    if rt60 is None:
        some = any(b.values.get("t30") or b.values.get("t20") for b in found.bands)
        page.verdict(
            some,
            "no RT60 of the middle octaves; see the bands" if some else "no reverberation time to stand for",
        )
    else:
        page.verdict(True, f"RT60 {rt60[0].value:.2f} s ± {rt60[0].sigma:.2f} s")
        page.text(
            f"{rt60[1].upper()} of the octaves at 500 Hz and 1 kHz. The uncertainty is that of the room's"
            " number, as few places tell of a room only so much; the noise alone makes"
            f" {1000 * rt60[0].noise:.1f} ms of it."
        )
    page.facts(
        [
            ("places", str(len(found.places))),
            ("responses", str(len(found.measured))),
            ("method", "ISO 3382: decay curve by backward integration, from the direct sound"),
        ]
    )
    page.notes(found.warnings)
    page.heading("In octaves")
    heads = [
        "band",
        "range, dB",
        *(_TITLES[n] for n in NAMES),
        "sd over places",
        "ξ, ‰",
        "C, %",
    ]
    rows = []
    for b in found.bands:
        t30 = b.values.get("t30")
        rows.append(
            [
                b.band.name,
                f"{b.range_db:.0f}",
                *(_cell(b.values.get(n), n) for n in NAMES),
                "–" if t30 is None or t30.sd is None else f"{t30.sd:.3f}",
                _number(b.nonlinearity_permille.get("t30"), 1),
                _number(b.curvature_percent, 1),
            ]
        )
    page.table(heads, rows)
    page.text(
        "Range: how far the decay curve falls before it meets the noise; a T30 needs 45 dB, a T20 35 dB."
        " sd over places and ξ are those of T30; ξ: 1000 (1 - r²) of its line, up to 10 is straight."
        " C: curvature, 100 (T30 / T20 - 1), beyond 10 the decay is bent (ISO 3382-2, annex B).",
        soft=True,
    )
    reasons = _reasons(found)
    if reasons or found.skipped:
        page.heading("Left out")
        page.notes([f"{names}: {reason}" for reason, names in reasons.items()])
        page.notes([f"{name}: {reason}" for name, reason in found.skipped])
    shown = found.measured[0]
    page.heading(f"Decay curves: {shown.response.name}")
    page.begin_row()
    for decay in shown.decays:
        if len(decay.curve_s):
            page.svg(draw(decay), _caption(decay))
    page.end_row()
    if len(found.measured) > 1:
        page.heading("T30 of every response")
        page.table(
            ["response", *(b.band.name for b in found.bands)],
            [[m.response.name, *_row(m, found)] for m in found.measured],
        )
    return page.write(path)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _row(m: Measured, found: Reverberation) -> list[str]:
    by_name = {d.band.name: d for d in m.decays}
    row = []
    for b in found.bands:
        d = by_name.get(b.band.name)
        v = None if d is None else d.values.get("t30")
        row.append("–" if v is None else f"{v.value:.3f}")
    return row


def _caption(d: Decay) -> str:
    words = [f"{d.band.name}:"]
    for name in ("t30", "t20"):
        if name in d.values:
            line = d.lines[name]
            words.append(
                f"{name.upper()} {d.values[name].value:.3f} s (ξ {line.nonlinearity_permille:.1f} ‰),"
            )
    if d.curvature_percent is not None:
        words.append(f"curvature {d.curvature_percent:+.1f} %,")
    words.append(f"range {d.range_db:.0f} dB")
    words.append("above the noise" if d.meets_noise else "until the response ends")
    return " ".join(words)


def draw(d: Decay, width: int = 470, height: int = 290) -> str:
    """Short-time level (light), decay curve, fitted lines and noise floor of one band as SVG."""
    canvas = SvgCanvas(width, height, f"Decay in the band {d.band.name}")
    left, top, right, bottom = 44.0, 26.0, width - 12.0, height - 34.0
    low_db = -20.0 * np.clip(np.ceil((d.range_db + 8) / 20), 3, 6)
    until = max(float(d.curve_s[-1]) * 1.25, 0.05)
    until = min(until, float(d.raw_s[-1]))

    def at(t: float, level: float) -> tuple[float, float]:
        share = np.clip(level / low_db, -0.1, 1.0)
        return left + (right - left) * float(np.clip(t / until, 0, 1)), top + (bottom - top) * float(share)

    canvas.text(left, 16, d.band.name, 13, bold=True)
    for level in range(0, int(low_db) - 1, -20):
        canvas.line([at(0, level), at(until, level)], _GRID)
        canvas.text(left - 6, at(0, level)[1] + 4, str(level), 10, _NOISE, "end")
    step = next(s for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if until / s <= 6 or s == 5.0)
    for i in range(int(until / step) + 1):
        x, y = at(i * step, low_db)
        canvas.line([(x, y), (x, y + 4)], _NOISE)
        canvas.text(x, y + 16, f"{i * step:g}", 10, _NOISE, "middle")
    canvas.text(right, height - 4, "s after the direct sound", 10, _NOISE, "end")
    canvas.text(12, top + 4, "dB", 10, _NOISE)
    seen = d.raw_s <= until
    thin = max(1, int(seen.sum()) // 500)
    raw = [at(float(t), float(v)) for t, v in zip(d.raw_s[seen][::thin], d.raw_db[seen][::thin], strict=True)]
    if len(raw) > 1:
        canvas.line(raw, _RAW, 1.0)
    if d.noise_db is not None:
        canvas.line([at(0, d.noise_db), at(until, d.noise_db)], _NOISE, 1.2, dash=True)
        canvas.text(right, at(0, d.noise_db)[1] - 4, f"noise {d.noise_db:.0f} dB", 10, _NOISE, "end")
    canvas.line([at(float(t), float(v)) for t, v in zip(d.curve_s, d.curve_db, strict=True)], _CURVE, 2.2)
    for name, colour in (("t20", _T20), ("t30", _T30)):
        if name in d.values:
            line = d.lines[name]
            ends = [(t, line.offset_db + line.slope_db_s * t) for t in (0.0, min(until, line.last_s * 1.3))]
            canvas.line([at(t, v) for t, v in ends], colour, 1.4, dash=name == "t20")
            first, last = ((t, line.offset_db + line.slope_db_s * t) for t in (line.first_s, line.last_s))
            canvas.dots([at(*first), at(*last)], 3.2, colour, "#ffffff")
    y = top + 12
    for colour, words in ((_CURVE, "decay curve"), (_T30, "T30"), (_T20, "T20"), (_RAW, "short-time level")):
        if words in ("T30", "T20") and words.lower() not in d.values:
            continue
        canvas.line([(right - 112, y - 4), (right - 94, y - 4)], colour, 2.2)
        canvas.text(right - 88, y, words, 10, _INK)
        y += 14
    return canvas.data().decode()
