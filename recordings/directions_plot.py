"""A picture of the directions of a recording: azimuth, elevation and spectrogram over one time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dsp.errors import InputError
from recordings.canvas import Canvas, PngCanvas, SvgCanvas
from recordings.directions import ROW_S, Directions, Row, in_words
from recordings.report_sound import RANGE_DB, MelSpectrogram, mel_from_hz
from recordings.report_tracks import tick_label, time_ticks

SUFFIXES = (".png", ".svg")
WIDTH, HEIGHT = 1180, 812
LEFT, RIGHT = 92.0, 1042.0
AZIMUTH, ELEVATION, SPECTRUM = (86.0, 372.0), (398.0, 540.0), (566.0, 746.0)  # top and bottom of the panels
INK, SOFT, GRID, FRAME, QUIET = "#211f1c", "#6a655d", "#ebe8e2", "#b9b3a8", "#d6d2ca"
# From faint to strong, evenly darker, so that it reads in grey as well.
RAMP = ("#f6d7a7", "#f3ae6d", "#e07b4f", "#b94a5b", "#7d2a68", "#3b1458")
HEAT = ("#ffffff", "#fdeebf", "#fdbf57", "#e8731a", "#9a3a08", "#2e1004")
TRACKS = ("#0067a3", "#007d5c", "#8a4a86", "#5d6f00", "#00707a", "#4a4fc4")
LEVELS = 10  # steps of the confidence scale
MOST_DOTS = 4000
MOST_BARS = 1200  # with more rows, bars of uncertainty would cover everything


def plot_format(path: Path) -> str:
    """ ".png" or ".svg"; raises InputError for any other name."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: a plot is written as .png or .svg; call the file that")
    return suffix


def directions_plot(
    kind: str,
    directions: Directions,
    spectrum: MelSpectrogram,
    duration_s: float,
    name: str,
    found: dict[str, Any],
) -> bytes:
    """The file's content. kind: ".png" or ".svg". found: the `summary` of the rows."""
    title = f"Direction of arrival: {name}"
    canvas: Canvas = SvgCanvas(WIDTH, HEIGHT, title) if kind == ".svg" else PngCanvas(WIDTH, HEIGHT)
    canvas.text(LEFT, 32, _shorten(title, 90), 19, INK, bold=True)
    sentence = in_words(found)
    canvas.text(LEFT, 53, sentence, 12.5 * min(1.0, 115 / len(sentence)), SOFT)
    duration_s = max(duration_s, ROW_S)
    rows = directions.rows
    shown = _shown(rows)
    for key, span in (("azimuth_deg", AZIMUTH), ("elevation_deg", ELEVATION)):
        _angles(canvas, shown, directions.tracks, duration_s, key, span, len(rows))
    _spectrum(canvas, spectrum, duration_s)
    _confidence_key(canvas, len(rows), bool(directions.tracks))
    _time_axis(canvas, duration_s)
    return canvas.data()


def _shorten(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most // 2] + " ... " + words[-(most // 2) + 5 :]


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Rows with a direction; of a long recording the most confident active one of each stretch."""
    whole = [row for row in rows if row["azimuth_deg"] is not None]
    if len(whole) <= MOST_DOTS:
        return whole
    edges = np.linspace(0, len(whole), MOST_DOTS + 1).astype(int)
    return [max(whole[a:b], key=lambda row: (row["active"], row["confidence"])) for a, b in pairwise(edges)]


def _x(time_s: float, duration_s: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(max(time_s / duration_s, 0.0), 1.0)


def _colour(ramp: Sequence[str], share: float) -> str:
    """Linear between the colours of a ramp; share 0..1."""
    place = min(max(share, 0.0), 1.0) * (len(ramp) - 1)
    index = min(int(place), len(ramp) - 2)
    low, high = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in ramp[index : index + 2])
    mixed = np.rint(low + (high - low) * (place - index)).astype(int)
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _panel(canvas: Canvas, duration_s: float, span: tuple[float, float], title: str) -> None:
    """Title on the left and vertical grid lines."""
    top, bottom = span
    for t in time_ticks(duration_s):
        x = _x(t, duration_s)
        canvas.line([(x, top), (x, bottom)], GRID)
    canvas.text(28, (top + bottom) / 2, title, 13, INK, "middle", bold=True, upright=True)


def _angles(
    canvas: Canvas,
    rows: list[Row],
    tracks: Sequence[Row],
    duration_s: float,
    key: str,
    span: tuple[float, float],
    windows: int,
) -> None:
    """Azimuth (180 at the top: left is up) or elevation as dots, with bars of uncertainty behind them."""
    azimuth = key == "azimuth_deg"
    top, bottom = span
    limit, step = (180, 45) if azimuth else (90, 45)

    def y(angle: float) -> float:
        return top + (bottom - top) * (limit - min(max(angle, -limit), limit)) / (2 * limit)

    canvas.box(LEFT, top, RIGHT - LEFT, bottom - top, "#fdfcfa")
    _panel(canvas, duration_s, span, "Azimuth (degrees)" if azimuth else "Elevation (degrees)")
    for angle in range(-limit, limit + 1, step):
        canvas.line([(LEFT, y(angle)), (RIGHT, y(angle))], FRAME if angle == 0 else GRID)
        canvas.text(
            LEFT - 9, y(angle) + 4, f"{angle:+d}".replace("-", "−") if angle else "0", 11.5, SOFT, "end"
        )
    words = (
        {180: "behind", 90: "left", 0: "front", -90: "right", -180: "behind"}
        if azimuth
        else {90: "above", 0: "level", -90: "below"}
    )
    for angle, word in words.items():
        canvas.text(RIGHT + 9, y(angle) + 4, word, 11.5, SOFT)
    for number in sorted({row["track"] for row in tracks}):
        _track(canvas, [row for row in tracks if row["track"] == number], duration_s, key, y)
    quiet = [(_x(row["time_s"] + ROW_S / 2, duration_s), y(row[key])) for row in rows if not row["active"]]
    radius = float(np.clip(0.35 * (RIGHT - LEFT) * ROW_S / duration_s, 2.2, 3.8))
    canvas.dots(quiet, 0.7 * radius, QUIET)
    active = [row for row in rows if row["active"]]
    for row in active if windows <= MOST_BARS else []:
        x, half = _x(row["time_s"] + ROW_S / 2, duration_s), row["uncertainty_deg"] or 0.0
        ends = [(x, y(row[key] + half)), (x, y(row[key] - half))]
        canvas.line(ends, "#ecdac6", 0.9 * radius)
    for level in range(LEVELS):  # the confident ones lie on top
        dots = [
            (_x(row["time_s"] + ROW_S / 2, duration_s), y(row[key]))
            for row in active
            if min(int(row["confidence"] * LEVELS), LEVELS - 1) == level
        ]
        canvas.dots(dots, radius, _colour(RAMP, (level + 0.5) / LEVELS), "#ffffff" if radius > 2.6 else "")
    canvas.box(LEFT, top, RIGHT - LEFT, bottom - top, "", FRAME)


def _track(canvas: Canvas, rows: list[Row], duration_s: float, key: str, y: Callable[[float], float]) -> None:
    """A track as a ribbon behind the dots, with its number where it begins; thin while it coasts."""
    colour = TRACKS[(rows[0]["track"] - 1) % len(TRACKS)]
    piece: list[tuple[float, float]] = []
    for before, row in zip([None, *rows[:-1]], rows, strict=True):
        here = (_x(row["time_s"] + ROW_S, duration_s), y(row[key]))  # where it is at the window's end
        broken = before is None or row["time_s"] - before["time_s"] > 1.5 * ROW_S
        if before is not None and not broken:
            broken = abs(row[key] - before[key]) > 180  # over the rear, not through the front
        if broken or (before is not None and before["coasting"] != row["coasting"]):
            _ribbon(canvas, piece, colour, before)
            piece = [] if broken or not piece else [piece[-1]]
        if broken:
            canvas.text(here[0] - 2, here[1] - 9, str(row["track"]), 11.5, colour, "end", bold=True)
        piece.append(here)
    _ribbon(canvas, piece, colour, rows[-1])


def _ribbon(canvas: Canvas, piece: list[tuple[float, float]], colour: str, row: Row | None) -> None:
    if row is not None and len(piece) > 1:
        canvas.line(piece, _colour((colour, "#ffffff"), 0.65), 1.5 if row["coasting"] else 8.0)


def _spectrum(canvas: Canvas, spectrum: MelSpectrogram, duration_s: float) -> None:
    top, bottom = SPECTRUM
    grey = spectrum.grey()
    table = np.array([[int(_colour(HEAT, i / 255)[k : k + 2], 16) for k in (1, 3, 5)] for i in range(256)])
    canvas.picture(LEFT, top, RIGHT - LEFT, bottom - top, table.astype(np.uint8)[grey])
    canvas.text(28, (top + bottom) / 2, "Frequency of W (Hz)", 13, INK, "middle", bold=True, upright=True)
    whole = float(mel_from_hz(spectrum.top_hz))
    for hz in (0, 250, 500, 1000, 2000, 4000, 8000, spectrum.top_hz):
        y = bottom - (bottom - top) * float(mel_from_hz(hz)) / whole
        canvas.line([(LEFT - 4, y), (LEFT, y)], FRAME)
        canvas.text(LEFT - 9, y + 4, f"{hz / 1000:g}k" if hz >= 1000 else f"{hz:g}", 11.5, SOFT, "end")
    canvas.box(LEFT, top, RIGHT - LEFT, bottom - top, "", FRAME)
    _scale(
        canvas,
        SPECTRUM,
        HEAT,
        64,
        [(1.0, "0"), (0.5, f"−{RANGE_DB / 2:.0f}"), (0.0, f"−{RANGE_DB:.0f}")],
        "level (dB)",
    )


def _scale(
    canvas: Canvas,
    span: tuple[float, float],
    ramp: Sequence[str],
    steps: int,
    ticks: list[tuple[float, str]],
    title: str,
) -> None:
    """A colour bar to the right of a panel; ticks: (share from the bottom, label)."""
    top, bottom = span
    left, wide = RIGHT + 66, 14
    for step in range(steps):
        low = bottom - (bottom - top) * step / steps
        high = bottom - (bottom - top) * (step + 1) / steps
        canvas.box(left, high, wide, low - high + 0.4, _colour(ramp, (step + 0.5) / steps))
    canvas.box(left, top, wide, bottom - top, "", FRAME)
    for share, label in ticks:
        canvas.text(left + wide + 6, bottom - (bottom - top) * share + 4, label, 11.5, SOFT)
    canvas.text(left + wide + 47, (top + bottom) / 2, title, 12, INK, "middle", upright=True)


def _confidence_key(canvas: Canvas, windows: int, tracks: bool) -> None:
    ticks = [(share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    _scale(canvas, AZIMUTH, RAMP, LEVELS, ticks, "confidence")
    y, x = 75.0, LEFT
    entries = [(_colour(RAMP, 0.75), 3.6, "direct sound"), (QUIET, 2.6, "no direct sound in this window")]
    for colour, radius, words in entries:
        canvas.dots([(x + 5, y - 4)], radius, colour)
        canvas.text(x + 15, y, words, 11.5, SOFT)
        x += 30 + 6.2 * len(words)
    if windows <= MOST_BARS:
        canvas.line([(x + 5, y - 11), (x + 5, y + 3)], "#ecdac6", 4)
        canvas.text(x + 15, y, "68 % uncertainty", 11.5, SOFT)
        x += 30 + 6.2 * 16
    if tracks:
        canvas.line([(x, y - 4), (x + 18, y - 4)], _colour((TRACKS[0], "#ffffff"), 0.65), 8)
        canvas.text(x + 28, y, "track with its number; thin: coasting through a pause", 11.5, SOFT)


def _time_axis(canvas: Canvas, duration_s: float) -> None:
    unit = "s" if duration_s < 120 else ("min:s" if duration_s < 3600 else "h:min:s")
    for t in time_ticks(duration_s):
        x = _x(t, duration_s)
        canvas.line([(x, SPECTRUM[1]), (x, SPECTRUM[1] + 5)], FRAME)
        canvas.text(x, SPECTRUM[1] + 21, tick_label(t, duration_s), 11.5, SOFT, "middle")
    canvas.text((LEFT + RIGHT) / 2, SPECTRUM[1] + 44, f"Time ({unit})", 13, INK, "middle", bold=True)
