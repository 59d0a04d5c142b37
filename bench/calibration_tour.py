"""Draws the pictures of docs/calibration-tour.md from measurements made now:
`python -m bench.calibration_tour`.

Prints the budget's lines as `bench.calibration_budget` does. QUICK=1 for a short form; a folder as argument
instead of docs/.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import calibration_budget as budget
from bench.figures import note, quick
from recordings.canvas import PngCanvas, Point

F64 = NDArray[np.float64]
DOCS = Path(__file__).resolve().parent.parent / "docs"
BLUE, RED, GREY, INK, SOFT, GRID, PALE = (
    "#0067a3", "#b3261e", "#8b857b", "#211f1c", "#6b665e", "#e5e1d8", "#b9c7d3",
)  # fmt: skip
LEFT, TOP, RIGHT, BOTTOM = 56.0, 40.0, 18.0, 44.0


class Plot:
    """Axes on a canvas of points; x and y linear."""

    def __init__(self, title: str, x: tuple[float, float, str], y: tuple[float, float, str]) -> None:
        self.width, self.height = 520, 300
        self.canvas = PngCanvas(self.width, self.height)
        self.x, self.y = x, y
        self.canvas.text(LEFT, 22, title, 14, INK, bold=True)
        self.canvas.text(self.width - RIGHT, self.height - 8, x[2], 11, SOFT, "end")
        self.canvas.text(14, TOP + 4, y[2], 11, SOFT, "end", upright=True)

    def at(self, x: float, y: float) -> Point:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = np.clip((y - self.y[0]) / (self.y[1] - self.y[0]), 0.0, 1.0)
        bottom = self.height - BOTTOM
        return LEFT + across * (self.width - RIGHT - LEFT), bottom - float(up) * (bottom - TOP)

    def grid(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        for y in ys:
            self.canvas.line([self.at(self.x[0], y), self.at(self.x[1], y)], GRID)
            self.canvas.text(LEFT - 6, self.at(0, y)[1] + 4, f"{y:g}", 11, SOFT, "end")
        for x in xs:
            self.canvas.text(self.at(x, 0)[0], self.height - BOTTOM + 16, f"{x:g}", 11, SOFT, "middle")

    def curve(self, xs: F64, ys: F64, colour: str, width: float = 2.0, dash: bool = False) -> None:
        self.canvas.line(
            [self.at(float(a), float(b)) for a, b in zip(xs, ys, strict=True)], colour, width, dash
        )

    def legend(self, rows: Sequence[tuple[str, str]], x: float, y: float) -> None:
        for colour, words in rows:
            self.canvas.line([(x, y - 4), (x + 18, y - 4)], colour, 2.5)
            self.canvas.text(x + 24, y, words, 11, INK)
            y += 17

    def write(self, path: Path) -> None:
        path.write_bytes(self.canvas.data())
        note(f"wrote {path.name}, {path.stat().st_size // 1024} KiB")


def capsules(folder: Path, left_db: float) -> None:
    """Angle by gain mismatch: closed form and simulated microphones."""
    plot = Plot(
        "Unequal capsules turn what is heard", (0, 1.05, "gains differ by, dB sd"), (0, 10, "degrees RMS")
    )
    plot.grid((0, 0.25, 0.5, 0.75, 1.0), (0, 2, 4, 6, 8, 10))
    x = np.linspace(0, 1.05, 50)
    plot.curve(x, budget.GAIN_DEG_PER_DB * x, BLUE)
    tried = np.array([0.1, 0.25, 0.5, 0.75, 1.0])
    found = np.array([budget.rms(budget.gain_errors(float(sd), 150)) for sd in tried])
    plot.canvas.dots(
        [plot.at(float(a), float(b)) for a, b in zip(tried, found, strict=True)], 4.5, RED, "#ffffff"
    )
    here = plot.at(left_db, budget.GAIN_DEG_PER_DB * left_db)
    plot.canvas.dots([here], 5.5, INK, "#ffffff")
    plot.canvas.line([(here[0] + 2, here[1] - 7), (here[0] + 14, here[1] - 112)], SOFT)
    plot.canvas.text(here[0] + 4, here[1] - 120, "after hearth calibrate capsules", 11, INK)
    plot.legend(
        [(BLUE, "closed form, 8.9 degrees per dB"), (RED, "simulated microphones")], LEFT + 200, 240 - 8
    )
    plot.write(folder / "tour-capsules.png")


def pose(folder: Path, found: budget.PoseErrors) -> None:
    """Angle by distance of four ways to know the pose."""
    plot = Plot("Where a sound lands in the picture", (0.8, 4.2, "distance, m"), (0, 4.5, "degrees RMS"))
    plot.grid((1, 2, 4), (0, 1, 2, 3, 4))
    d = np.array(budget.DISTANCES_M)
    rows = (
        (GREY, "measured by tape and eye", [budget.tape_and_eye(float(x)) for x in d]),
        (RED, "rotation alone (15 cm lever arm)", list(found.kabsch.values())),
        (PALE, "rotation and lever arm", list(found.free.values())),
        (BLUE, "and a tape measure", list(found.told.values())),
    )
    for colour, _, values in rows:
        plot.curve(d, np.array(values), colour, 2.5)
        plot.canvas.dots([plot.at(float(a), b) for a, b in zip(d, values, strict=True)], 3.5, colour)
    plot.legend([(colour, words) for colour, words, _ in rows], LEFT + 110, 150)
    plot.write(folder / "tour-pose.png")


def decay(folder: Path) -> None:
    """One decay on a floor of -45 dB: integrated to the end of the file, and as Hearth does it."""
    from bench.calibration_reverberation import BEFORE, FS, plain
    from calibration.reverberation_decay import bands_for, decays_of

    rng = np.random.default_rng([budget.SEED, 7])
    rt = 0.5
    t = np.arange(2 * FS) / FS
    h = np.concatenate([np.zeros(BEFORE), rng.standard_normal(len(t)) * 10 ** (-3 * t / rt)])
    noisy = h + 10 ** (-46 / 20) * rng.standard_normal(len(h))
    band = bands_for(FS)[0]
    ours, clean = (decays_of(x, FS, [band], BEFORE)[0] for x in (noisy, h))
    careless = plain(noisy, band, "t30")
    assert careless is not None
    plot = Plot(
        "One decay, noise 46 dB down, T30 by two curves",
        (0, 1.0, "s after the direct sound"),
        (-70, 0, "dB"),
    )
    plot.grid((0, 0.2, 0.4, 0.6, 0.8, 1.0), (0, -20, -40, -60))
    shown = ours.raw_s < 1.0
    plot.curve(ours.raw_s[shown][::2], ours.raw_db[shown][::2], PALE, 1.0)
    left = np.cumsum(noisy[BEFORE:][::-1] ** 2)[::-1]
    thin = np.arange(0, FS, 100)
    plot.curve(thin / FS, 10 * np.log10(left[thin] / left[0]), RED)
    until = clean.curve_db > -62
    plot.curve(clean.curve_s[until], clean.curve_db[until], GREY, 1.2)
    plot.curve(ours.curve_s, ours.curve_db, BLUE, 2.5)
    truth = clean.values["t30"].value
    told = f"T30 {ours.values['t30'].value:.3f} s" if "t30" in ours.values else "T30 refused"
    plot.legend(
        [
            (RED, f"integrated to the end of the file: T30 {careless:.2f} s"),
            (BLUE, f"noise subtracted, cut, completed: {told}"),
            (GREY, f"without the noise: {truth:.3f} s"),
        ],
        LEFT + 140,
        62,
    )
    plot.write(folder / "tour-decay.png")


def bars(folder: Path, found: budget.Budget) -> None:
    """The budget at 2 m before and after calibration."""
    words = {
        "capsules": "capsules unequal",
        "pose": "pose of the microphone",
        "camera": "camera intrinsics",
        "time": "sound against picture, walking",
        "device": "place of the device",
        "room": "reverberation, 0.5 s",
        "noise": "noise, 20 dB",
    }
    plot = Plot("Degrees at 2 m, before (red) and after calibration", (0, 7, "degrees RMS"), (0, 1, ""))
    plot.x = (0, 7, "")
    top, left, scale = 44.0, 196.0, (520 - 196 - 40) / 7.0
    for x in range(0, 8, 1):
        plot.canvas.line([(left + x * scale, top - 6), (left + x * scale, 258)], GRID)
        plot.canvas.text(left + x * scale, 272, f"{x}", 11, SOFT, "middle")
    for i, (key, name) in enumerate(words.items()):
        y = top + i * 30
        plot.canvas.text(left - 8, y + 14, name, 11, INK, "end")
        for k, (value, colour) in enumerate(((found.before[key], RED), (found.after[key], BLUE))):
            wide = min(value, 7.0) * scale
            plot.canvas.box(left, y + 10 * k, max(wide, 1.0), 9, colour)
            plot.canvas.text(left + wide + 4, y + 8 + 10 * k, f"{value:.2g}", 9, SOFT)
    plot.write(folder / "tour-budget.png")


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    decay(folder)
    found = budget.measure(quick())
    capsules(folder, found.after["capsules"] / budget.GAIN_DEG_PER_DB)
    pose(folder, found.pose)
    bars(folder, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
