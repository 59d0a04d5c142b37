"""Reverberation times against truth, beside plain backward integration and pyrato:
`python -m bench.calibration_reverberation`.

Decays: Gaussian noise that falls by 60 dB in 0.2 to 2 s, on a white floor 30 to 70 dB below its start, in
octaves and broadband. Every number that is given is held against that of the same decay without the floor;
more than 2 % off is wrong. Means of many against the closed form, and tones whose decay is exact. Bent
decays: two slopes, the late one up to four times as long.

Rooms: shoeboxes by image sources (`bench.rooms`), the omnidirectional channel, with a floor; and a sweep
played into them and recorded. Real: R3VIVAL with its published T30.

pyrato 1.1 (subtraction, truncation and compensation after Lundeby; with its own octave filters, held against
its own numbers without the floor) runs in a folder of its own; HEARTH_PYRATO names one where it exists.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.calibration_camera import _folder, in_other_python
from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from calibration.reverberation import Response, measure, put_together
from calibration.reverberation_decay import Band, Decay, bands_for, decays_of
from calibration.reverberation_files import of_sweeps
from calibration.sweep import Sweep

F64 = NDArray[np.float64]
SEED = 31177
FS = 24000
BEFORE = round(0.1 * FS)
FLOORS_DB = (-30, -35, -40, -45, -50, -55, -60, -70)
WRONG = 0.02
R3VIVAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "calib" / "r3vival"
PUBLISHED = {"500 Hz": 0.51, "1000 Hz": 0.45}  # s, setting 100 %


@dataclass
class Score:
    """Relative errors of the numbers that were given; how many could have been."""

    errors: list[float] = field(default_factory=list)
    asked: int = 0

    def add(self, given: float | None, truth: float | None) -> None:
        self.asked += 1
        if given is not None and np.isfinite(given):
            self.errors.append(given / truth - 1 if truth else np.inf)

    @property
    def wrong(self) -> int:
        return sum(not abs(e) <= WRONG for e in self.errors)

    @property
    def worst(self) -> float:
        return 100 * max((abs(e) for e in self.errors), default=0.0)

    @property
    def given(self) -> float:
        return 100 * len(self.errors) / max(self.asked, 1)


def _value(d: Decay, name: str) -> float | None:
    return d.values[name].value if name in d.values else None


def truth_of(clean: Decay, name: str, h: F64) -> float | None:
    """Of a response without noise: ours, or plain backward integration, which then is exact."""
    given = _value(clean, name)
    return plain(h, clean.band, name) if given is None else given


def plain(h: F64, band: Band, name: str) -> float | None:
    """T20 or T30 from backward integration to the end of the file, as tutorials do it."""
    from scipy.signal import butter, sosfilt

    sos = butter(3, [band.low_hz, min(band.high_hz, 0.495 * FS)], "bandpass", fs=FS, output="sos")
    left = np.cumsum(sosfilt(sos, h)[BEFORE:][::-1] ** 2)[::-1]
    level = 10 * np.log10(left / left[0] + 1e-30)
    bottom = -35 if name == "t30" else -25
    first, last = int(np.argmax(level <= -5)), int(np.argmax(level <= bottom))
    if last - first < 4:
        return None
    slope = np.polyfit(np.arange(first, last) / FS, level[first:last], 1)[0]
    return float(-60 / slope)


PYRATO = """
import warnings
import numpy as np, pyfar as pf, pyrato.edc as edc, pyrato.parameters as par
warnings.simplefilter("ignore")
fs = int(data["fs"])
answer = []
for key in sorted(k for k in data.files if k.startswith("h")):
    signal = pf.Signal(data[key], fs)
    bands = pf.dsp.filter.fractional_octave_bands(signal, 1, frequency_range=(125, 4000))
    row = []
    for k in range(bands.cshape[0]):
        one = pf.Signal(np.atleast_2d(bands.time[k])[0], fs)
        try:
            curve = edc.energy_decay_curve_chu_lundeby(one, 125.0 * 2**k)
            for t in ("T20", "T30"):
                value = float(np.ravel(par.reverberation_time_linear_regression(curve, t))[0])
                row.append(value if np.isfinite(value) else None)
        except Exception:
            row += [None, None]
    answer.append(row)
"""
_PYRATO_BANDS = tuple(f"{f} Hz" for f in (125, 250, 500, 1000, 2000, 4000))


def by_pyrato(folder: Path, responses: list[F64], fs: int = FS) -> list[dict[tuple[str, str], float | None]]:
    """(band, "t20" or "t30") -> seconds for each response."""
    arrays: dict[str, Any] = {f"h{i:05d}": h for i, h in enumerate(responses)}
    rows = in_other_python(folder, PYRATO, {**arrays, "fs": fs})
    keys = [(band, name) for band in _PYRATO_BANDS for name in ("t20", "t30")]
    return [dict(zip(keys, row, strict=True)) for row in rows]


# ------------------------------------------------------------------ decays


def decay(rng: np.random.Generator, rt_s: float, seconds: float) -> F64:
    t = np.arange(round(seconds * FS)) / FS
    h = rng.standard_normal(len(t)) * 10 ** (-3 * t / rt_s)
    return np.concatenate([np.zeros(BEFORE), h])


def _decays(seeds: int, pyrato: Path | None) -> None:
    bands = bands_for(FS)
    ours = {(name, f): Score() for name in ("t20", "t30") for f in FLOORS_DB}
    wide = {(name, f): Score() for name in ("t20", "t30") for f in FLOORS_DB}
    careless = {(name, f): Score() for name in ("t20", "t30") for f in FLOORS_DB}
    z_noise: list[float] = []
    z_room: list[float] = []
    closed: dict[str, list[float]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, seed])
        rt = float(np.exp(rng.uniform(np.log(0.2), np.log(2.0))))
        h = decay(rng, rt, 1.6 * rt + 0.3)
        clean = decays_of(h, FS, bands, BEFORE)
        noise = rng.standard_normal(len(h))
        for d in clean:
            if "t30" in d.values:
                closed.setdefault(d.band.name, []).append(d.values["t30"].value / rt - 1)
                z_room.append((d.values["t30"].value - rt) / d.values["t30"].sigma)
        for floor in FLOORS_DB:
            noisy = h + 10 ** (floor / 20) * noise
            for c, d in zip(clean, decays_of(noisy, FS, bands, BEFORE), strict=True):
                for name in ("t20", "t30"):
                    truth, given = truth_of(c, name, h), _value(d, name)
                    ours[name, floor].add(given, truth)
                    if d.band.name == "broadband":
                        wide[name, floor].add(given, truth)
                    if given is not None and truth is not None:
                        z_noise.append((given - truth) / d.values[name].noise)
                    careless[name, floor].add(plain(noisy, d.band, name), truth)
    everything = Score([e for s in ours.values() for e in s.errors], sum(s.asked for s in ours.values()))
    text = f"{seeds} decays x {len(FLOORS_DB)} floors x {len(bands)} bands"
    figure(
        f"RT60, {text}: of {len(everything.errors)} numbers given, off by more than 2 %",
        everything.wrong, "numbers", "<=", 0,
    )  # fmt: skip
    at45 = Score([e for n in ("t20", "t30") for e in ours[n, -45].errors], 1)
    figure(f"RT60, floor -45 dB: worst of {len(at45.errors)} numbers given", at45.worst, "%", "<=", 2)
    peer("plain backward integration, floor -45 dB: T30 worst", careless["t30", -45].worst, "%")
    rest = Score([e for s in careless.values() for e in s.errors], sum(s.asked for s in careless.values()))
    peer(f"plain backward integration, the same set: wrong of {len(rest.errors)}", rest.wrong, "numbers")
    for name in ("t20", "t30"):
        rates = ", ".join(f"{f} dB {ours[name, f].given:.0f} ({wide[name, f].given:.0f})" for f in FLOORS_DB)
        note(f"{name.upper()} given at a floor of, % of all bands (broadband): {rates}")
    means = {band: (float(np.mean(v)), float(np.std(v)) / np.sqrt(len(v))) for band, v in closed.items()}
    figure("T30 against the closed form, broadband: bias", 100 * abs(means["broadband"][0]), "%", "<=", 1)
    away = max(abs(mean) / sem for mean, sem in means.values())
    figure("T30 against the closed form, worst band: bias", away, "standard errors", "<=", 3.5)
    figure("sigma of the noise, RMS of z, at most", _rms(z_noise), "", "<=", 1.3)
    figure("sigma of the noise, RMS of z, at least", _rms(z_noise), "", ">=", 0.7)
    figure("sigma for the room, RMS of z of T30, at most", _rms(z_room), "", "<=", 1.3)
    figure("sigma for the room, RMS of z of T30, at least", _rms(z_room), "", ">=", 0.7)
    _tones()
    _bent(6 if seeds < 20 else 60)
    if pyrato is not None:
        _pyrato_decays(pyrato, min(seeds, 12))


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _bent(count: int) -> None:
    """Two slopes, as of coupled spaces: the late one may be hidden by the noise."""
    score, careless = Score(), Score()
    for k in range(count):
        rng = np.random.default_rng([SEED, 2, k])
        early = rng.uniform(0.2, 0.6)
        late, share = early * rng.uniform(1, 4), 10 ** -rng.uniform(0.5, 4)
        t = np.arange(3 * FS) / FS
        power = 10 ** (-6 * t / early) + share * 10 ** (-6 * t / late)
        h = np.concatenate([np.zeros(BEFORE), rng.standard_normal(len(t)) * np.sqrt(power)])
        noisy = h + 10 ** (-rng.uniform(35, 60) / 20) * rng.standard_normal(len(h))
        bands = bands_for(FS)
        clean = decays_of(h, FS, bands, BEFORE)
        for c, d in zip(clean, decays_of(noisy, FS, bands, BEFORE), strict=True):
            for name in ("t20", "t30"):
                score.add(_value(d, name), truth_of(c, name, h))
                careless.add(plain(noisy, c.band, name), truth_of(c, name, h))
    figure(
        f"{count} bent decays: of {len(score.errors)} numbers given, off by more than 2 %",
        score.wrong, "numbers", "<=", 0,
    )  # fmt: skip
    peer(f"plain backward integration, the same: wrong of {len(careless.errors)}", careless.wrong, "numbers")


def _tones() -> None:
    """Tones at the octaves' centres whose decay is exact: the number is known without statistics."""
    errors = []
    for rt in (0.2, 0.5, 1.0, 2.0):
        for f in (250.0, 500.0, 1000.0, 2000.0, 4000.0):
            t = np.arange(round((1.2 * rt + 0.3) * FS)) / FS
            h = np.concatenate([np.zeros(BEFORE), np.sin(2 * np.pi * f * t + 0.5) * 10 ** (-3 * t / rt)])
            d = decays_of(h, FS, [Band.octave(f)], BEFORE)[0]
            errors += [abs(d.values[n].value / rt - 1) for n in ("t20", "t30") if n in d.values]
    figure(f"exact decays of tones: worst of {len(errors)}", 100 * max(errors), "%", "<=", 1)


def _pyrato_decays(folder: Path, seeds: int) -> None:
    """The same decays at a few floors; pyrato is held against its own numbers without the floor."""
    floors = (-40, -45, -50, -60)
    responses = []
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, seed])
        rt = float(np.exp(rng.uniform(np.log(0.2), np.log(2.0))))
        h = decay(rng, rt, 1.6 * rt + 0.3)
        noise = rng.standard_normal(len(h))
        responses += [h + 1e-7 * noise, *(h + 10 ** (f / 20) * noise for f in floors)]
    rows = by_pyrato(folder, responses)
    step = 1 + len(floors)
    scores = {f: Score() for f in floors}
    for first in range(0, len(rows), step):
        for floor, row in zip(floors, rows[first + 1 : first + step], strict=True):
            for key, value in row.items():
                if rows[first][key] is not None:
                    scores[floor].add(value, rows[first][key])
    peer("pyrato, floor -45 dB: worst", scores[-45].worst, "%")
    for floor in (-40, -45, -50):
        score = scores[floor]
        text = f"pyrato, floor {floor} dB: wrong of {len(score.errors)} given ({score.given:.0f} % of all)"
        peer(text, score.wrong, "numbers")
    wrong = sum(s.wrong for s in scores.values())
    given = sum(len(s.errors) for s in scores.values())
    peer(
        f"pyrato, floors {', '.join(map(str, floors))} dB: off by more than 2 % of {given}", wrong, "numbers"
    )


# ------------------------------------------------------------------ rooms


def _omni(rng: np.random.Generator, rt_s: float) -> F64:
    """W at a place in a shoebox, (frames,)."""
    import dsp
    from bench.rooms import capsule_responses, random_room, random_source

    room = random_room(rng, rt_s)
    responses = capsule_responses(room, random_source(rng, room), length_s=1.7 * rt_s)
    foa = dsp.convert(responses.astype(np.float32), source="a", target="ambix")
    h = foa[:, 0].astype(np.float64)
    return np.concatenate([np.zeros(BEFORE), h / np.abs(h).max()])


def _rooms(count: int, pyrato: Path | None) -> None:
    bands = bands_for(FS)
    score, careless, chain = Score(), Score(), Score()
    sweep = Sweep(FS, 4.0, 50.0, 11000.0)
    noisy_ones, truths = [], []
    for k, rt in enumerate(np.linspace(0.2, 0.6, count)):
        rng = np.random.default_rng([SEED, 3, k])
        h = _omni(rng, float(rt))
        clean = decays_of(h, FS, bands)
        # The floor against the energy, as it would be in a recording.
        power = np.sqrt(np.sum(h**2) / FS / (rt / 13.8))
        for floor in (-45, -60):
            tail = np.concatenate([h, np.zeros(round(0.3 * rt * FS))])
            noisy = tail + power * 10 ** (floor / 20) * rng.standard_normal(len(tail))
            if floor == -45:
                noisy_ones.append(noisy)
                truths.append(h)
            for c, d in zip(clean, decays_of(noisy, FS, bands), strict=True):
                for name in ("t20", "t30"):
                    score.add(_value(d, name), truth_of(c, name, h))
                    careless.add(plain(noisy, c.band, name), truth_of(c, name, h))
        swept = _through_a_sweep(h, sweep, rng)
        for c in clean[1:]:
            for name in ("t20", "t30") if c.band.name in swept else ():
                chain.add(_value(swept[c.band.name], name), truth_of(c, name, h))
    figure(
        f"{count} rooms by image sources, floors -45 and -60 dB: worst of {len(score.errors)} numbers",
        score.worst, "%", "<=", 2,
    )  # fmt: skip
    peer("plain backward integration, the same rooms: worst", careless.worst, "%")
    figure(
        f"sweeps played in {count} rooms, in octaves: worst of {len(chain.errors)} numbers",
        chain.worst, "%", "<=", 2,
    )  # fmt: skip
    if pyrato is not None:
        theirs = Score()
        found = by_pyrato(pyrato, [*truths, *noisy_ones])
        for truth, row in zip(found[: len(truths)], found[len(truths) :], strict=True):
            for key, value in row.items():
                if truth[key] is not None:
                    theirs.add(value, truth[key])
        peer(f"pyrato, the same rooms, floor -45 dB: worst of {len(theirs.errors)}", theirs.worst, "%")


def _through_a_sweep(h: F64, sweep: Sweep, rng: np.random.Generator) -> dict[str, Decay]:
    """Played softly into the room, recorded with noise, found and deconvolved as from a file."""
    from scipy.signal import oaconvolve

    wet = oaconvolve(sweep.signal, h)
    wet *= 0.3 / np.abs(wet).max()
    x = np.concatenate([np.zeros(FS), wet, np.zeros(FS)])
    x += 1e-4 * rng.standard_normal(len(x))
    response = of_sweeps(x, FS, sweep, "")[0]
    return {d.band.name: d for d in measure(response).decays}


# ------------------------------------------------------------------ real responses, speed


def _real(pyrato: Path | None) -> None:
    import soundfile

    paths = sorted(R3VIVAL.glob("*_100_*_full.flac"))
    if not paths:
        not_measured(
            "R3VIVAL: T30 off the published", "%", "<=", 5, "the R3VIVAL responses are not on this machine"
        )
        return
    sounds = [soundfile.read(path) for path in paths]
    found = put_together(
        [measure(Response(p.stem, p.stem, x, fs)) for p, (x, fs) in zip(paths, sounds, strict=True)]
    )
    bands = {b.band.name: b for b in found.bands}
    off = {name: bands[name].values["t30"].value / t - 1 for name, t in PUBLISHED.items()}
    text = f"R3VIVAL, {len(paths)} places"
    for name, share in off.items():
        figure(f"{text}, {name}: T30 off the published {PUBLISHED[name]} s", abs(100 * share), "%", "<=", 5)
    if pyrato is not None:
        rows = by_pyrato(pyrato, [x for x, _ in sounds], sounds[0][1])
        for name, truth in PUBLISHED.items():
            given = [row[name, "t30"] for row in rows if row[name, "t30"] is not None]
            if given:
                peer(f"pyrato, {text}, {name}: T30 off", abs(100 * (float(np.mean(given)) / truth - 1)), "%")
    one = Response("", "", *sounds[0])
    ours = _seconds(lambda: measure(one))
    note(f"a response of 1 s at 48 kHz in {len(found.bands)} bands: {1000 * ours:.0f} ms of CPU")


def _seconds(run: Callable[[], object]) -> float:
    run()
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return float(best)


def run(quick: bool) -> None:
    """Prints the figures of the reverberation time."""
    with tempfile.TemporaryDirectory() as place:
        pyrato, why = _folder("HEARTH_PYRATO", "pyrato==1.1.0", Path(place), dependencies=True)
        if pyrato is None:
            note(f"pyrato: not measured ({why})")
        note("phonometry 3: not measured (it needs Python 3.13)")
        _decays(8 if quick else 60, pyrato)
        _rooms(3 if quick else 10, pyrato)
        _real(pyrato)


def main() -> int:
    run(quick())
    return end_of_part("calibration-reverberation")


if __name__ == "__main__":
    sys.exit(main())
