"""Measured directions for `hearth calibrate capsules` from files.

folder   front.wav, back.wav, left.wav, right.wav, up.wav, down.wav, each with one sweep (or clap) from there;
         or any names with a table directions.csv: name, azimuth_deg, elevation_deg. A file
         quiet.wav, if it is there, is for the noise floor
WAV      one recording of all, with a table time_s, azimuth_deg, elevation_deg[, name] of when
         each sweep begins (to within a second)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.capsules_response import Direction
from calibration.direct_arrival import Floats, band_limited
from calibration.pose_files import _number, _rows
from calibration.sweep import Sweep, deconvolve, estimate_drift, find_sweeps, remove_drift
from dsp.errors import InputError
from dsp.levels import levels
from dsp.sample_faults import clipped_samples

SIX = {
    "front": (0.0, 0.0),
    "back": (180.0, 0.0),
    "left": (90.0, 0.0),
    "right": (-90.0, 0.0),
    "up": (0.0, 90.0),
    "down": (0.0, -90.0),
}
"""Names of files, and where (azimuth, elevation) their sound comes from: as somebody who stands behind the
microphone and looks to its front has left and right."""

QUIET = "quiet"
BEFORE_S, AFTER_S = 0.05, 0.12
LEAST = 6
_CLAP_DB = 20.0
_TIME_S = 1.0
_LEAST_QUIET_S = 2.0


@dataclass
class Measurement:
    """Directions that can be used; problems: (what is wrong, what to do) of those that can not. format: as
    the files say. quiet: (frames, 4) without any sound, if there was such a stretch. level_dbfs: peak of each
    direction. drift_ppm: player against recorder, None for claps."""

    format: str
    fs: int
    directions: list[Direction] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)
    quiet: NDArray[np.float32] | None = None
    quiet_from: str = ""
    peak_dbfs: dict[str, float] = field(default_factory=dict)
    drift_ppm: float | None = None
    drift_sigma_ppm: float | None = None


def read_raw(path: Path, format_name: str | None) -> tuple[NDArray[np.float32], int, str]:
    """(samples (frames, 4) in the file's own channels, rate, format). Raises InputError."""
    from recordings.audio_file import open_audio
    from recordings.importer import decide_format

    source = open_audio(path)
    named = decide_format(source, format_name)
    if source.frames == 0:
        raise InputError(f"{path}: holds no sound")
    return source.read(), source.rate, named


def sweep_response(x: NDArray[np.float32], start_s: float, sweep: Sweep) -> Floats:
    """(frames, 4) response to the sweep that begins at `start_s` of a recording at the sweep's rate."""
    fs = sweep.fs
    first = max(0, round((start_s - 0.1) * fs))
    last = min(len(x), round((start_s + sweep.seconds + 0.15) * fs))
    response = deconvolve(x[first:last], sweep)
    at = round(start_s * fs) - first + len(sweep.signal) - 1
    return response[max(0, at - round(BEFORE_S * fs)) : at + round(AFTER_S * fs)]


def clap_response(x: NDArray[np.float32], fs: int, name: str) -> Floats:
    """(frames, 4) about the loudest clap of a recording. Raises InputError when none stands out."""
    energy = (band_limited(np.asarray(x, np.float64), fs) ** 2).sum(axis=1)
    step = max(1, round(0.005 * fs))
    tops = energy[: len(energy) // step * step].reshape(-1, step).max(axis=1)
    at = int(np.argmax(energy))
    if tops.size < 8 or energy[at] < np.median(tops) * 10 ** (_CLAP_DB / 10):
        raise InputError(f"{name}: nothing loud enough to be a clap")
    return np.asarray(x[max(0, at - round(BEFORE_S * fs)) : at + round(AFTER_S * fs)], np.float64)


def _loudest_channel(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first, which is W or as good as any, unless it is much softer than another."""
    power = np.einsum("ij,ij->j", x, x)
    loudest = int(np.argmax(power))
    return x[:, 0 if power[0] > 0.1 * power[loudest] else loudest]


def add_recording(
    got: Measurement, name: str, x: NDArray[np.float32], where: tuple[float, float],
    sweep: Sweep | None, start_s: float | None = None,
) -> None:  # fmt: skip
    """Add one direction, or say why not. start_s: where the sweep was found; looked for when None."""
    clipped = clipped_samples(x)
    got.peak_dbfs[name] = float(levels(x).peak_dbfs.max())
    if clipped:
        got.problems.append(
            (f"{name}: {clipped} samples clipped", "play softer or lower the gain, and repeat")
        )
        return
    azimuth, elevation = where
    try:
        if sweep is None:
            response = clap_response(x, got.fs, name)
        else:
            if start_s is None:
                starts = find_sweeps(_loudest_channel(x), sweep)
                if not len(starts):
                    raise InputError(f"{name}: no sweep of {sweep.seconds:g} s was heard")
                found = [sweep_response(x, float(s), sweep) for s in starts]
                response = max(found, key=lambda r: float(np.abs(r).max()))
            else:
                response = sweep_response(x, start_s, sweep)
    except InputError as error:
        got.problems.append((str(error), "play it louder, keep the room quiet, name the right --sweep"))
        return
    got.directions.append(Direction(name, azimuth, elevation, response, got.fs, sweep is not None))


def without_drift(got: Measurement, sweep: Sweep | None) -> Measurement:
    """The drift between player and recorder out of all responses."""
    if sweep is not None and got.directions:
        loud = [_loudest_channel(np.asarray(d.response, np.float32)) for d in got.directions]
        got.drift_ppm, got.drift_sigma_ppm = estimate_drift([np.asarray(h, np.float64) for h in loud], sweep)
        if abs(got.drift_ppm) > 2 * got.drift_sigma_ppm:
            got.directions = [
                replace(d, response=remove_drift(d.response, sweep, got.drift_ppm)) for d in got.directions
            ]
    return got


def _named(folder: Path) -> Iterator[tuple[str, Path, tuple[float, float]]]:
    """Names, files and directions of a folder, in order."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in (".wav", ".flac", ".w64", ".amb") and not path.name.startswith("."):
            stem = path.stem.lower()
            if stem in files:
                raise InputError(f"{folder}: two files are called {stem}: {files[stem].name}, {path.name}")
            files[stem] = path
    table = folder / "directions.csv"
    if table.is_file():
        for line, row in _rows(table, ("name", "azimuth_deg", "elevation_deg")):
            name = Path(row["name"]).stem.lower()
            if name not in files:
                raise InputError(f"{table}, line {line}: no sound file {row['name']!r} in {folder}")
            yield name, files[name], _where(row, table, line)
        return
    for name, (azimuth, elevation) in SIX.items():
        if name in files:
            yield name, files[name], (azimuth, elevation)


def _where(row: dict[str, str], table: Path, line: int) -> tuple[float, float]:
    azimuth, elevation = (_number(row, key, table, line) for key in ("azimuth_deg", "elevation_deg"))
    if abs(elevation) > 90 or abs(azimuth) > 360:
        raise InputError(f"{table}, line {line}: no direction: azimuth {azimuth:g}, elevation {elevation:g}")
    return azimuth, elevation


def from_folder(folder: Path, sweep: Sweep | None, format_name: str | None = None) -> Measurement:
    """Of a folder as described above; sweep None: claps. Raises InputError for files that do not fit
    together."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    got: Measurement | None = None
    before: list[NDArray[np.float32]] = []
    for name, path, where in _named(folder):
        x, fs, named = read_raw(path, format_name)
        if got is None:
            got = Measurement(named, fs)
        if fs != got.fs or named != got.format:
            raise InputError(
                f"{path} is {named} at {fs} Hz, {got.inputs[0].name} {got.format} at {got.fs} Hz: record all"
                " directions in one setting"
            )
        got.inputs.append(path)
        own = None if sweep is None else sweep.at(fs)
        add_recording(got, name, x, where, own)
        if own is not None:
            before.append(_quiet_part(x, own))
    if got is None:
        raise InputError(
            f"{folder}: no directions; it needs {', '.join(f'{n}.wav' for n in SIX)}, or any names and a"
            " table directions.csv (name,azimuth_deg,elevation_deg)"
        )
    if not (folder / "directions.csv").is_file():
        missing = [name for name in SIX if name not in got.peak_dbfs]
        if missing:
            got.problems.append(
                (f"no {', '.join(f'{n}.wav' for n in missing)}", "measure all six directions")
            )
    else:
        got.inputs.append(folder / "directions.csv")
    quiet = next((p for p in sorted(folder.iterdir()) if p.stem.lower() == QUIET and p.is_file()), None)
    if quiet is not None:
        set_quiet(got, quiet, format_name)
    elif sum(map(len, before)) >= _LEAST_QUIET_S * got.fs:
        got.quiet, got.quiet_from = np.concatenate(before), "before the sweeps"
    return without_drift(got, None if sweep is None else sweep.at(got.fs))


def _quiet_part(x: NDArray[np.float32], sweep: Sweep) -> NDArray[np.float32]:
    """What is before the first sweep, if that is half a second or more."""
    if len(x) < len(sweep.signal):
        return x[:0]
    starts = find_sweeps(_loudest_channel(x), sweep)
    end = round((float(starts[0]) - 0.1) * sweep.fs) if len(starts) else 0
    return x[:end] if end > 0.5 * sweep.fs else x[:0]


def set_quiet(got: Measurement, path: Path, format_name: str | None = None) -> None:
    """Take a quiet recording for the noise floor. Raises InputError for one of another kind."""
    x, fs, named = read_raw(path, format_name)
    if named != got.format:
        raise InputError(f"{path} is {named}, the directions are {got.format}: record both in one setting")
    if fs != got.fs:
        raise InputError(f"{path} has {fs} Hz, the directions {got.fs} Hz: record both in one setting")
    got.quiet, got.quiet_from = x, path.name
    got.inputs.append(path)


def from_recording(
    path: Path, table: Path, sweep: Sweep | None, format_name: str | None = None
) -> Measurement:
    """Of one recording with all sweeps or claps, and a table of when and from where. Raises InputError."""
    x, fs, named = read_raw(path, format_name)
    got = Measurement(named, fs, inputs=[path, table])
    own = None if sweep is None else sweep.at(fs)
    starts: Floats = find_sweeps(_loudest_channel(x), own) if own is not None else np.zeros(0)
    rows = list(_rows(table, ("time_s", "azimuth_deg", "elevation_deg")))
    if not rows:
        raise InputError(f"{table}: holds no row")
    first_s = np.inf
    for line, row in rows:
        time_s = _number(row, "time_s", table, line)
        name = row.get("name") or f"{time_s:g} s"
        if name in got.peak_dbfs:
            raise InputError(f"{table}, line {line}: two rows are called {name!r}")
        where = _where(row, table, line)
        first_s = min(first_s, time_s)
        if own is None:
            part = x[max(0, round((time_s - 0.3) * fs)) : round((time_s + 0.3) * fs)]
            if len(part) < 0.2 * fs:
                raise InputError(f"{table}, line {line}: the recording has no sound at {time_s:.2f} s")
            add_recording(got, name, part, where, None)
            continue
        near = [float(s) for s in starts if abs(s - time_s) <= _TIME_S]
        if not near:
            got.problems.append(
                (f"{name}: no sweep within a second of {time_s:.2f} s", "correct the table's times")
            )
            continue
        start = min(near, key=lambda s: abs(s - time_s))
        a, b = max(0, round((start - 0.15) * fs)), round((start + own.seconds + 0.2) * fs)
        add_recording(got, name, x[a:b], where, own, start - a / fs)
    if own is not None and len(starts) and float(starts[0]) > _LEAST_QUIET_S + 0.1:
        got.quiet, got.quiet_from = x[: round((float(starts[0]) - 0.1) * fs)], "before the first sweep"
    return without_drift(got, own)
