"""Positions for `hearth calibrate pose` from files: a table, a folder of pairs, a recording with its video.

table      one row a position: azimuth_deg, elevation_deg and either x_m, y_m, z_m (camera frame, OpenCV),
           or u_px, v_px; further columns: name, sigma_deg, point_sigma_m, distance_m
folder     NAME.wav beside NAME.png, .jpg or a video: one position each
recording  one sound with all sweeps or claps, and the video or episode that shows the board meanwhile; or
           instead of a video a table time_s, u_px, v_px[, distance_m] of where each was seen
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.camera_model import CameraModel
from calibration.direct_arrival import Arrival, foa_arrival
from calibration.pose_board import BoardFinder, BoardPose, ray_of
from calibration.pose_model import Floats, Sighting
from calibration.sweep import Sweep, deconvolve, estimate_drift, find_sweeps, remove_drift
from dsp.errors import InputError
from dsp.sample_faults import clipped_samples

SIGMA_DEG = 2.0
"""Of a direction in a table that states none."""

CLAP_FLOOR_DEG = 1.5
MOVED_M = 0.02
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
_VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v")
_SOUNDS = (".wav", ".wave", ".flac", ".w64", ".amb")


@dataclass
class Gathered:
    """Positions that can be used, and what was left out and why. drift_ppm: player against recorder."""

    sightings: list[Sighting] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    pictures: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    drift_ppm: float | None = None
    drift_sigma_ppm: float | None = None


@dataclass(frozen=True)
class Sound:
    """AmbiX (frames, 4) at a rate. raw: (frames, channels) as they were recorded, which alone show clipping;
    None: `foa` was."""

    foa: NDArray[np.float32]
    fs: int
    raw: NDArray[np.float32] | None = None

    def refuse_clipped(self, first_s: float, last_s: float) -> None:
        """Raises InputError when samples of a stretch are clipped."""
        x = self.foa if self.raw is None else self.raw
        count = clipped_samples(x[max(0, round(first_s * self.fs)) : round(last_s * self.fs)])
        if count:
            raise InputError(f"{count} samples clipped: play softer or lower the gain, and repeat")


def read_sound(path: Path, format_name: str | None) -> Sound:
    """A sound file as AmbiX, without non-coincidence correction. Raises InputError."""
    import dsp
    from recordings.audio_file import open_audio
    from recordings.importer import decide_format

    source = open_audio(path)
    named = decide_format(source, format_name)
    if source.frames == 0:
        raise InputError(f"{path}: holds no sound")
    raw = source.read()
    return Sound(dsp.convert(raw, source=named, target="ambix"), source.rate, raw)


# ------------------------------------------------------------------ one direction


def sweep_arrivals(sound: Sound, sweep: Sweep) -> list[tuple[float, Floats]]:
    """(seconds at which it begins, response (frames, 4)) of each sweep in a recording.

    A response begins 50 ms before its direct sound and ends 120 ms after it.
    """
    own = sweep.at(sound.fs)
    found = []
    for start in find_sweeps(sound.foa[:, 0], own):
        first = max(0, round((start - 0.1) * sound.fs))
        last = min(len(sound.foa), round((start + sweep.seconds + 0.15) * sound.fs))
        response = deconvolve(sound.foa[first:last], own)
        at = round(start * sound.fs) - first + len(own.signal) - 1
        found.append(
            (float(start), response[max(0, at - round(0.05 * sound.fs)) : at + round(0.12 * sound.fs)])
        )
    return found


def clap_arrival(sound: Sound, time_s: float) -> Arrival:
    """The direct sound of a clap within 0.3 s of a time. Raises InputError when there is none."""
    first = max(0, round((time_s - 0.3) * sound.fs))
    part = sound.foa[first : round((time_s + 0.3) * sound.fs)]
    if len(part) < 0.1 * sound.fs:
        raise InputError(f"the recording has no sound at {time_s:.2f} s")
    sound.refuse_clipped(time_s - 0.3, time_s + 0.3)
    found = foa_arrival(part, sound.fs, floor_deg=CLAP_FLOOR_DEG)
    if found.snr_db < 10:
        raise InputError(f"nothing loud enough to be a clap within 0.3 s of {time_s:.2f} s")
    return found


def _sighting(
    name: str, arrival: Arrival, seen: BoardPose | Floats, distance_m: float | None = None
) -> Sighting:
    if isinstance(seen, BoardPose):
        return Sighting.on_board(
            arrival.direction, arrival.sigma_deg, seen.rotation, seen.place_m, seen.covariance, name
        )
    if distance_m is not None:
        return Sighting.on_ray(arrival.direction, arrival.sigma_deg, seen, distance_m, 1.1, 0.5, name)
    return Sighting.on_ray(arrival.direction, arrival.sigma_deg, seen, name=name)


def _finish_drift(got: Gathered, responses: list[Floats], sweep: Sweep) -> list[Floats]:
    """Drift of all responses together, and the responses without it."""
    if not responses:
        return responses
    got.drift_ppm, got.drift_sigma_ppm = estimate_drift([r[:, 0] for r in responses], sweep)
    if abs(got.drift_ppm) < 2 * got.drift_sigma_ppm:
        return responses
    return [remove_drift(r, sweep, got.drift_ppm) for r in responses]


# ------------------------------------------------------------------ tables


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        reader = csv.DictReader(lines)
        names = [name.strip() for name in reader.fieldnames or ()]
        rows = [
            (i, {(k or "").strip(): (v or "").strip() for k, v in row.items() if isinstance(v, str | None)})
            for i, row in enumerate(reader, 2)
        ]
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise InputError(f"{path}: cannot be read as a table: {error}") from None
    missing = [name for name in needed if name not in names]
    if missing:
        raise InputError(f"{path}: no column {', '.join(missing)}; it has {', '.join(names) or 'no header'}")
    return rows


def _number(row: dict[str, str], name: str, path: Path, line: int, default: float | None = None) -> float:
    text = row.get(name, "")
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise InputError(f"{path}, line {line}: {name} is {text!r}, a number is needed")
    return value


def from_table(path: Path, camera: CameraModel | None) -> Gathered:
    """Positions of a CSV of measured pairs; pixels need the camera. Raises InputError with the line."""
    got = Gathered(inputs=[path])
    rows = _rows(path, ("azimuth_deg", "elevation_deg"))
    names = set(rows[0][1]) if rows else set()
    points, pixels = {"x_m", "y_m", "z_m"} <= names, {"u_px", "v_px"} <= names
    if points == pixels:
        raise InputError(f"{path}: needs either the columns x_m, y_m, z_m or the columns u_px, v_px")
    places = ("x_m", "y_m", "z_m") if points else ("u_px", "v_px")
    seen: dict[tuple[float, ...], str] = {}
    for line, row in rows:
        azimuth, elevation = (_number(row, key, path, line) for key in ("azimuth_deg", "elevation_deg"))
        if abs(elevation) > 90 or abs(azimuth) > 360:
            raise InputError(
                f"{path}, line {line}: no direction: azimuth {azimuth:g}, elevation {elevation:g}"
            )
        a, e = np.radians([azimuth, elevation])
        direction = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
        sigma = _number(row, "sigma_deg", path, line, SIGMA_DEG)
        name = row.get("name") or f"line {line}"
        same = (azimuth, elevation, *(_number(row, key, path, line) for key in places))
        if same in seen:
            got.skipped.append((name, f"the same numbers as {seen[same]}: not measured again, only copied"))
            continue
        seen[same] = name
        if points:
            place = [_number(row, key, path, line) for key in ("x_m", "y_m", "z_m")]
            spread = _number(row, "point_sigma_m", path, line, 0.005)
            got.sightings.append(Sighting.at_point(direction, sigma, place, np.eye(3) * spread**2, name))
        else:
            if camera is None:
                raise InputError(f"{path}: pixels need the camera's calibration (--camera)")
            ray = ray_of(camera, [_number(row, key, path, line) for key in ("u_px", "v_px")])
            if row.get("distance_m"):
                known = _number(row, "distance_m", path, line)
                got.sightings.append(Sighting.on_ray(direction, sigma, ray, known, 1.1, 0.5, name))
            else:
                got.sightings.append(Sighting.on_ray(direction, sigma, ray, name=name))
    return got


# ------------------------------------------------------------------ folders


def from_folder(
    folder: Path,
    finder: BoardFinder,
    sweep: Sweep,
    format_name: str | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Gathered:
    """Pairs NAME.wav and NAME.png (or .jpg, or a video): one position each, the loudest sweep of it."""
    got = Gathered()
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    sounds = [p for p in files if p.suffix.lower() in _SOUNDS]
    if not sounds:
        raise InputError(f"{folder}: no sound files ({', '.join(_SOUNDS)}); one for each position is needed")
    waiting: list[tuple[str, BoardPose | Floats, Floats, int]] = []
    for path in sounds:
        advance(1)
        beside = [p for p in files if p.stem == path.stem and p.suffix.lower() in _PICTURES + _VIDEOS]
        if not beside:
            got.skipped.append((path.stem, "no picture of the same name beside it"))
            continue
        got.inputs += [path, beside[0]]
        try:
            picture = _picture(beside[0])
            seen = finder.find(picture)
            if seen is None:
                raise InputError("the board is not seen in its picture")
            sound = read_sound(path, format_name)
            responses = sweep_arrivals(sound, sweep)
            if not responses:
                raise InputError("no sweep is heard; is --sweep the one that was played?")
            best = max(responses, key=lambda item: float(np.abs(item[1][:, 0]).max()))
            sound.refuse_clipped(best[0], best[0] + sweep.seconds)
        except InputError as error:
            got.skipped.append((path.stem, str(error)))
            continue
        waiting.append((path.stem, seen, best[1], sound.fs))
        got.pictures[path.stem] = picture
    _place(got, waiting, sweep)
    return got


def _picture(path: Path) -> NDArray[np.uint8]:
    from calibration.camera_views import as_grey

    if path.suffix.lower() in _VIDEOS:
        from recordings.video_read import frames

        for _, image in frames(path):
            return as_grey(image, path.name)
        raise InputError("its video holds no picture")
    import cv2

    grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
    if grey is None:
        raise InputError("its picture cannot be read")
    return np.asarray(grey, np.uint8)


def _place(got: Gathered, waiting: list[tuple[str, BoardPose | Floats, Floats, int]], sweep: Sweep) -> None:
    """Directions of the responses, after the drift that all of them share is known."""
    if not waiting:
        return
    rates = {fs for _, _, _, fs in waiting}
    if len(rates) == 1:
        cleared = _finish_drift(got, [r for _, _, r, _ in waiting], sweep.at(rates.pop()))
    else:
        cleared = [r for _, _, r, _ in waiting]
    for (name, seen, _, fs), response in zip(waiting, cleared, strict=True):
        try:
            arrival = foa_arrival(response, fs)
        except InputError as error:
            got.skipped.append((name, str(error)))
            continue
        got.arrivals[name] = arrival
        got.sightings.append(_sighting(name, arrival, seen))


# ------------------------------------------------------------------ recordings


def from_recording(
    sound: Sound,
    pictures: Iterator[tuple[float, NDArray[np.uint8]]],
    finder: BoardFinder,
    sweep: Sweep,
    inputs: list[Path],
) -> Gathered:
    """All sweeps of one recording; pictures: (seconds on the sound's clock, BGR or grey) in order of time.

    The board is looked for at a fifth, the middle and four fifths of each sweep; where it moved by more than
    2 cm meanwhile the position is left out.
    """
    from calibration.camera_views import as_grey

    got = Gathered(inputs=inputs)
    found = sweep_arrivals(sound, sweep)
    if not found:
        raise InputError("no sweep is heard in the recording; is --sweep the one that was played?")
    wanted = [start + share * sweep.seconds for start, _ in found for share in (0.2, 0.5, 0.8)]
    nearest: list[tuple[float, NDArray[np.uint8]] | None] = [None] * len(wanted)
    at = 0
    for time_s, image in pictures:
        while at < len(wanted) and time_s > wanted[at] + 0.15:
            at += 1
        if at == len(wanted):
            break
        for k in range(at, min(at + 3, len(wanted))):
            off = abs(time_s - wanted[k])
            kept = nearest[k]
            if off <= 0.15 and (kept is None or off < kept[0]):
                nearest[k] = (off, as_grey(image))
    waiting = []
    for k, (start, response) in enumerate(found):
        name = f"{start:.1f} s"
        shown = [item[1] for item in nearest[3 * k : 3 * k + 3] if item is not None]
        seen = [pose for image in shown if (pose := finder.find(image)) is not None]
        if not seen:
            got.skipped.append((name, "the board is not seen" if shown else "no picture of that time"))
            continue
        moved = movement(seen)
        if moved:
            got.skipped.append((name, moved))
            continue
        try:
            sound.refuse_clipped(start, start + sweep.seconds)
        except InputError as error:
            got.skipped.append((name, str(error)))
            continue
        waiting.append((name, seen[len(seen) // 2], response, sound.fs))
        got.pictures[name] = shown[len(shown) // 2]
    _place(got, waiting, sweep)
    return got


def movement(seen: list[Any]) -> str:
    """What moved too far between looks at the board (poses) or the marker (rays); "" when it stood still."""
    if isinstance(seen[0], BoardPose):
        far = max(float(np.linalg.norm(p.place_m - seen[0].place_m)) for p in seen)
        return f"the board moved by {100 * far:.1f} cm during the sweep" if far > MOVED_M else ""
    turn = max(float(np.degrees(np.arccos(np.clip(p @ seen[0], -1, 1)))) for p in seen)
    return f"the marker moved by {turn:.1f} degrees during the sweep" if turn > 1.0 else ""


def from_seen_table(
    sound: Sound, path: Path, camera: CameraModel, sweep: Sweep | None, inputs: list[Path]
) -> Gathered:
    """Claps (sweep None) or sweeps of a recording, seen at the pixels of a table time_s, u_px, v_px."""
    got = Gathered(inputs=[*inputs, path])
    rows = _rows(path, ("time_s", "u_px", "v_px"))
    heard = sweep_arrivals(sound, sweep) if sweep is not None else []
    for line, row in rows:
        time_s, u, v = (_number(row, key, path, line) for key in ("time_s", "u_px", "v_px"))
        distance = _number(row, "distance_m", path, line) if row.get("distance_m") else None
        name = row.get("name") or f"{time_s:.2f} s"
        ray = ray_of(camera, [u, v])
        try:
            if sweep is None:
                arrival = clap_arrival(sound, time_s)
            else:
                near = [
                    (start, r) for start, r in heard if start - 0.5 <= time_s <= start + sweep.seconds + 0.5
                ]
                if not near:
                    raise InputError(f"no sweep is heard at {time_s:.2f} s")
                sound.refuse_clipped(near[0][0], near[0][0] + sweep.seconds)
                arrival = foa_arrival(near[0][1], sound.fs)
        except InputError as error:
            got.skipped.append((name, str(error)))
            continue
        got.arrivals[name] = arrival
        got.sightings.append(_sighting(name, arrival, ray, distance))
    return got
