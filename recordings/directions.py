"""Direction of arrival of a sound file as rows, a table, DCASE metadata and a summary."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recordings.audio_file import AudioFile
from recordings.episode import RELEASE_RATE_HZ
from recordings.finish import doa_lines, release_blocks
from recordings.timeline import AudioMap, Line

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection

Row = dict[str, Any]
COLUMNS = ("time_s", "azimuth_deg", "elevation_deg", "confidence", "track", "uncertainty_deg", "active")
TRACK_COLUMNS = (
    "time_s", "track", "azimuth_deg", "elevation_deg", "azimuth_rate_deg_s", "elevation_rate_deg_s",
    "uncertainty_deg", "confidence", "age_s", "coasting",
)  # fmt: skip
ROW_S = 0.1
SAME_DEG = 25.0  # a direction so far from a track may still be its sound: a row has only 100 ms to tell


@dataclass(frozen=True)
class Directions:
    """rows: one per 100 ms with time_s, azimuth_deg, elevation_deg, confidence, uncertainty_deg, level_dbfs,
    active, track; angles are None where no direction was found, track is the id of the track that the
    direction belongs to, or None. tracks: one per track and 100 ms, with the fields of dsp.Track."""

    rows: list[Row]
    tracks: list[Row]


def directions_of(
    source: AudioFile,
    format_name: str,
    advance: Callable[[float], None] = lambda frames: None,
    hear: Callable[[NDArray[np.float32]], None] = lambda block: None,
    sounds: str = "speech",
    correction: FoaCorrection | None = None,
) -> Directions:
    """Directions and tracks of a file.

    hear: is called with each AmbiX block (n, 4) at 24 kHz on the way, for whoever wants the sound as well.
    sounds: what is tracked, "speech" or "all" (see dsp.Tracker). correction: of the capsules. Raises
    InputError for other sounds.
    """
    from dsp.doa import DoaEstimator
    from dsp.track import Tracker

    estimator, tracker = DoaEstimator(fs=RELEASE_RATE_HZ), Tracker(RELEASE_RATE_HZ, sounds)  # type: ignore[arg-type]
    found: list[Any] = []
    frames: list[Any] = []
    for block in release_blocks(source, format_name, correction):
        block = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
        found += estimator.push(block)
        frames += tracker.push(block)
        hear(block)
        advance(len(block) * source.rate / RELEASE_RATE_HZ)
    found += estimator.flush()
    frames += tracker.flush()
    rows = [_row(line) for line in doa_lines(found, AudioMap([], source.rate), source.rate)]
    for row, frame in zip(rows, frames, strict=True):
        row["track"] = _track_of(row, frame.tracks)
    tracks = [_track_row(round(frame.t_s, 6), track) for frame in frames for track in frame.tracks]
    return Directions(rows, tracks)


def _row(line: Line) -> Row:
    keys = ("azimuth_deg", "elevation_deg", "confidence", "uncertainty_deg", "level_dbfs", "active")
    return {"time_s": line["t_s"], **{key: line[key] for key in keys}}


def _track_of(row: Row, tracks: Sequence[Any]) -> int | None:
    """The track nearest to the direction of an active row, if one is near enough to be meant."""
    if not row["active"] or not tracks:
        return None
    from dsp import angular_error_deg

    apart = [
        float(angular_error_deg(row["azimuth_deg"], row["elevation_deg"], t.azimuth_deg, t.elevation_deg))
        for t in tracks
    ]
    best = int(np.argmin(apart))
    return int(tracks[best].id) if apart[best] <= SAME_DEG else None


def _track_row(time_s: float, track: Any) -> Row:
    row = {"time_s": time_s, "track": track.id}
    for name in TRACK_COLUMNS[2:]:
        value = getattr(track, name)
        row[name] = value if isinstance(value, bool) else round(float(value), 3)
    return row


def table_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """CSV text with these columns, one line per row; None is an empty field, booleans are 1 or 0."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = (row[key] for key in columns)
        writer.writerow("" if v is None else int(v) if isinstance(v, bool) else v for v in values)
    return text.getvalue()


def dcase_csv(found: Directions, sound_class: int = 0) -> str:
    """Sound event metadata as the DCASE challenge has them since 2020 (task 3): no header, one line per
    source and frame in which it sounds, `frame,class,source,azimuth,elevation`, all integers.

    Frames are 100 ms and count from 0; angles are whole degrees, azimuth counter-clockwise from the front in
    [-180, 180), as everywhere here. The sources are the tracks that do not coast, by their number (from 1);
    an active row that belongs to no track is source 0. Source: "Format" of the task's page,
    dcase.community/challenge2022/task-sound-event-localization-and-detection.
    """
    heard = [(row["time_s"], row["track"], row) for row in found.tracks if not row["coasting"]]
    alone = (row for row in found.rows if row["active"] and row["track"] is None)
    heard += [(row["time_s"], 0, row) for row in alone if row["azimuth_deg"] is not None]
    lines = []
    for time_s, number, row in sorted(heard, key=lambda item: item[:2]):
        azimuth = (round(row["azimuth_deg"]) + 180) % 360 - 180
        frame, elevation = round(time_s / ROW_S), round(row["elevation_deg"])
        lines.append(f"{frame},{sound_class},{number},{azimuth},{elevation}\n")
    return "".join(lines)


def track_summary(tracks: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry per track: track, start_s, end_s, heard_s (without coasting), and where it was at its first
    and at its last sound."""
    found = []
    for number in sorted({row["track"] for row in tracks}):
        rows = [row for row in tracks if row["track"] == number]
        heard = [row for row in rows if not row["coasting"]] or rows
        found.append(
            {
                "track": number,
                "start_s": heard[0]["time_s"],
                "end_s": round(heard[-1]["time_s"] + ROW_S, 6),
                "heard_s": round(ROW_S * sum(not row["coasting"] for row in rows), 6),
                "azimuth_deg": [heard[0]["azimuth_deg"], heard[-1]["azimuth_deg"]],
                "elevation_deg": [heard[0]["elevation_deg"], heard[-1]["elevation_deg"]],
            }
        )
    return found


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Number of windows, the mean direction of the active ones, and how far they spread around it.

    The mean is that of unit vectors weighted by confidence, so it has no seam at 180 degrees; half of the
    weight lies within `spread_deg` of it. With a large spread there was more than one direction, or none.
    """
    active = [row for row in rows if row["active"] and row["azimuth_deg"] is not None]
    result: dict[str, Any] = {
        "windows": len(rows),
        "active": len(active),
        "azimuth_deg": None,
        "elevation_deg": None,
        "spread_deg": None,
    }
    weight = np.array([row["confidence"] or 0.0 for row in active])
    if not active or weight.sum() <= 0:
        return result
    from dsp import direction_to_unit, unit_to_direction

    unit = direction_to_unit([row["azimuth_deg"] for row in active], [row["elevation_deg"] for row in active])
    mean = weight @ unit
    length = float(np.linalg.norm(mean))
    if length > 1e-9 * weight.sum():
        azimuth, elevation = unit_to_direction(mean)
        apart = np.degrees(np.arccos(np.clip(unit @ (mean / length), -1.0, 1.0)))
        order = np.argsort(apart)
        half = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2))
        result.update(
            azimuth_deg=round(float(azimuth), 2),
            elevation_deg=round(float(elevation), 2),
            spread_deg=round(float(apart[order][min(half, len(order) - 1)]), 2),
        )
    return result


def tracks_in_words(found: Sequence[dict[str, Any]]) -> list[str]:
    """A line per track for people; the first ten."""
    lines = [
        f"track {one['track']}: {one['start_s']:.1f} to {one['end_s']:.1f} s, heard {one['heard_s']:.1f} s,"
        f" azimuth {one['azimuth_deg'][0]:+.0f} to {one['azimuth_deg'][1]:+.0f},"
        f" elevation {one['elevation_deg'][0]:+.0f} to {one['elevation_deg'][1]:+.0f} degrees"
        for one in found[:10]
    ]
    return lines + ([f"and {len(found) - 10} more tracks"] if len(found) > 10 else [])


def in_words(found: dict[str, Any]) -> str:
    """A summary as a sentence for people."""
    text = f"{found['windows']} windows of 100 ms, {found['active']} active"
    if found["azimuth_deg"] is None:
        return f"{text}; no direction found"
    text += (
        f"; mean azimuth {found['azimuth_deg']:.1f}, elevation {found['elevation_deg']:.1f} degrees,"
        f" half of the sound within {found['spread_deg']:.1f} degrees of it"
    )
    return text if found["spread_deg"] < 25 else f"{text}: more than one direction, or none that is clear"
