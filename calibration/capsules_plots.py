"""The pictures of a capsule calibration: gains, gains per octave, patterns, noise floor."""

from __future__ import annotations

import numpy as np

from calibration.capsules_fit import CapsuleFit
from calibration.capsules_response import OCTAVES_HZ
from calibration.noise_floor import NoiseFloor
from dsp.ambisonics import CHANNEL_NAMES
from recordings.canvas import SvgCanvas

_SOFT, _INK, _GRID = "#6b665e", "#211f1c", "#e5e1d8"
_POLAR = 236
_COLOURS = ("#0067a3", "#c2570c", "#1f7a4d", "#7a3f9d")


def gain_bars(fit: CapsuleFit) -> bytes:
    """The four gains with twice their sigma to each side."""
    width, height, margin = 480, 300, 50
    drawing = SvgCanvas(width, height, "Gains")
    top = max(1.0, 1.2 * float((np.abs(fit.gains_db) + 2 * fit.gain_sigma_db).max()))
    middle, scale = height / 2 - 8, (height / 2 - 40) / top

    for value in np.linspace(-top, top, 5):
        y = middle - scale * value
        drawing.line([(margin, y), (width - 16, y)], _GRID)
        drawing.text(margin - 6, y + 4, f"{value:+.1f}", 11, _SOFT, "end")
    inner = (width - margin - 16) / 4
    for c, (name, gain, sigma) in enumerate(zip(fit.names, fit.gains_db, fit.gain_sigma_db, strict=True)):
        x = margin + (c + 0.5) * inner
        y = middle - scale * gain
        drawing.box(x - 0.2 * inner, min(y, middle), 0.4 * inner, abs(y - middle), _COLOURS[c])
        ends = (middle - scale * (gain - 2 * sigma), middle - scale * (gain + 2 * sigma))
        drawing.line([(x, ends[0]), (x, ends[1])], _INK, 1.6)
        drawing.text(x, height - 12, name, 12, _INK, "middle")
    drawing.line([(margin, middle), (width - 16, middle)], _SOFT)
    drawing.text(14, height / 2, "gain (dB)", 12, _INK, "middle", upright=True)
    return drawing.data()


def octave_plot(fit: CapsuleFit) -> bytes:
    """Gains per octave."""
    width, height, margin = 480, 300, 50
    drawing = SvgCanvas(width, height, "Gains per octave")
    both = zip(OCTAVES_HZ, fit.octave_gains_db, strict=True)
    rows = [(hz, row) for hz, row in both if np.isfinite(row).all()]
    top = max([1.0, *(1.2 * float(np.abs(row).max()) for _, row in rows)])
    middle, scale = height / 2 - 8, (height / 2 - 40) / top
    for value in np.linspace(-top, top, 5):
        y = middle - scale * value
        drawing.line([(margin, y), (width - 16, y)], _GRID)
        drawing.text(margin - 6, y + 4, f"{value:+.1f}", 11, _SOFT, "end")
    inner = (width - margin - 16) / max(1, len(rows))
    places: list[list[tuple[float, float]]] = [[], [], [], []]
    for k, (hz, row) in enumerate(rows):
        x = margin + (k + 0.5) * inner
        drawing.text(x, height - 12, f"{hz / 1000:g} kHz", 12, _INK, "middle")
        for c in range(4):
            places[c].append((x + 5 * (c - 1.5), middle - scale * float(row[c])))
    for c, points in enumerate(places):
        drawing.line(points, _COLOURS[c], 1.2)
        drawing.dots(points, 3.2, _COLOURS[c], "#ffffff")
        drawing.text(margin + 6 + 60 * c, 18, fit.names[c], 12, _COLOURS[c], bold=True)
    drawing.text(14, height / 2, "gain (dB)", 12, _INK, "middle", upright=True)
    return drawing.data()


def patterns(fit: CapsuleFit, channels: tuple[int, int]) -> bytes:
    """Two channels beside each other: |heard| over the angle to the axis, and the ideal pattern."""
    drawing = SvgCanvas(2 * _POLAR, _POLAR + 24, "Patterns")
    for i, channel in enumerate(channels):
        _polar(drawing, fit, channel, i * _POLAR)
    return drawing.data()


def _polar(drawing: SvgCanvas, fit: CapsuleFit, channel: int, left: float) -> None:
    assert fit.wiring is not None
    name = CHANNEL_NAMES[fit.declared][channel]
    k = fit.matrix[channel]
    w, v = float(k[0]), np.asarray(k[1:])
    length = float(np.linalg.norm(v))
    top = abs(w) + length
    centre, radius = (left + _POLAR / 2, _POLAR / 2 + 16), 0.43 * _POLAR
    for share in (0.5, 1.0):
        turn = np.linspace(0, 2 * np.pi, 73)
        drawing.line(
            [(centre[0] + share * radius * np.cos(t), centre[1] + share * radius * np.sin(t)) for t in turn],
            _GRID,
        )
    drawing.line([(centre[0], centre[1] - radius), (centre[0], centre[1] + radius)], _GRID)
    drawing.line([(centre[0] - radius, centre[1]), (centre[0] + radius, centre[1])], _GRID)
    ideal = np.array([0.5, 0.5])
    if fit.wiring.kind != "capsules":
        share = length / max(top, 1e-12)
        ideal = np.array([1.0, 0.0]) if share < 0.3 else np.array([0.0, 1.0]) if share > 0.7 else ideal

    def place(angle: float, reach: float) -> tuple[float, float]:
        return centre[0] + radius * reach * np.sin(angle), centre[1] - radius * reach * np.cos(angle)

    turn = np.linspace(-np.pi, np.pi, 181)
    drawing.line([place(t, abs(ideal[0] + ideal[1] * np.cos(t))) for t in turn], _SOFT, 1.4)
    axis = v / length if length > 0.05 * top else np.array([1.0, 0.0, 0.0])
    if w < 0:
        axis = -axis
    # Which side of the axis: so that the dots of a pattern do not all lie on one.
    side = np.cross(axis, [0.0, 0, 1]) if abs(axis[2]) < 0.9 else np.cross(axis, [1.0, 0, 0])
    ideal_now = np.column_stack([np.ones(len(fit.heard.u)), fit.heard.u]) @ fit.matrix.T
    level = np.linalg.norm(fit.model, axis=1) / np.maximum(np.linalg.norm(ideal_now, axis=1), 1e-12)
    for y, u, loud in zip(fit.heard.y[:, channel], fit.heard.u, level, strict=True):
        angle = float(np.arccos(np.clip(u @ axis, -1, 1))) * (1 if u @ side >= 0 else -1)
        drawing.dots(
            [place(angle, abs(float(y)) / max(loud * top, 1e-12))], 3.6, _COLOURS[channel], "#ffffff"
        )
    drawing.text(left + 10, 18, name, 13, _INK, bold=True)


def noise_plot(noise: NoiseFloor, names: tuple[str, ...]) -> bytes:
    """Octave levels of each channel."""
    width, height, margin = 620, 300, 52
    drawing = SvgCanvas(width, height, "Noise floor")
    high = 10 * np.ceil(float(noise.octave_db.max()) / 10)
    low = min(max(10 * np.floor(float(noise.octave_db.min()) / 10), high - 80), high - 20)

    def y(value: float) -> float:
        return 30 + (height - 76) * (high - value) / (high - low)

    for value in np.arange(low, high + 1, 10):
        drawing.line([(margin, y(value)), (width - 16, y(value))], _GRID)
        drawing.text(margin - 6, y(value) + 4, f"{value:.0f}", 11, _SOFT, "end")
    inner = (width - margin - 16) / len(noise.bands_hz)
    for k, hz in enumerate(noise.bands_hz):
        words = f"{hz / 1000:g}k" if hz >= 1000 else f"{hz:g}"
        drawing.text(margin + (k + 0.5) * inner, height - 26, words, 11, _INK, "middle")
    for c, name in enumerate(names):
        points = [
            (margin + (k + 0.5) * inner, y(max(float(v), low))) for k, v in enumerate(noise.octave_db[:, c])
        ]
        drawing.line(points, _COLOURS[c], 1.4)
        drawing.dots(points, 3.0, _COLOURS[c], "#ffffff")
        words = f"{name} {noise.a_weighted_db[c]:.1f} dB(A)"
        drawing.text(margin + 6 + 140 * c, 18, words, 12, _COLOURS[c], bold=True)
    drawing.text(width / 2, height - 8, "octave (Hz)", 12, _INK, "middle")
    drawing.text(
        14,
        height / 2,
        "SPL (dB)" if noise.calibrated else "dB re full scale",
        12,
        _INK,
        "middle",
        upright=True,
    )
    return drawing.data()
