"""Direction of arrival of a sound file as rows, a table, DCASE metadata and a summary."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordings.audio_file import AudioFile
from recordings.episode import RELEASE_RATE_HZ
from recordings.finish import doa_lines, release_blocks
from recordings.timeline import AudioMap, Line

Row = dict[str, Any]
COLUMNS = ("time_s", "azimuth_deg", "elevation_deg", "confidence", "track", "uncertainty_deg", "active")
ROW_S = 0.1


def directions_of(
    source: AudioFile,
    format_name: str,
    advance: Callable[[float], None] = lambda frames: None,
    hear: Callable[[NDArray[np.float32]], None] = lambda block: None,
) -> list[Row]:
    """One row per 100 ms: time_s, azimuth_deg, elevation_deg, confidence, uncertainty_deg, level_dbfs,
    active, track (None: there are no tracks yet). Angles are None where no direction was found.

    hear: is called with each AmbiX block (n, 4) at 24 kHz on the way, for whoever wants the sound as well.
    """
    from dsp.doa import DoaEstimator

    estimator = DoaEstimator(fs=RELEASE_RATE_HZ)
    found: list[Any] = []
    for block in release_blocks(source, format_name):
        block = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
        found += estimator.push(block)
        hear(block)
        advance(len(block) * source.rate / RELEASE_RATE_HZ)
    found += estimator.flush()
    return [_row(line) for line in doa_lines(found, AudioMap([], source.rate), source.rate)]


def _row(line: Line) -> Row:
    keys = ("azimuth_deg", "elevation_deg", "confidence", "uncertainty_deg", "level_dbfs", "active")
    return {"time_s": line["t_s"], **{key: line[key] for key in keys}, "track": None}


def directions_csv(rows: Sequence[Row]) -> str:
    """CSV text with COLUMNS in this order, one line per row; None is an empty field, active is 1 or 0."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        fields = {**row, "active": int(row["active"])}
        writer.writerow(["" if fields[key] is None else fields[key] for key in COLUMNS])
    return text.getvalue()


def dcase_csv(rows: Sequence[Row], sound_class: int = 0) -> str:
    """Sound event metadata as the DCASE challenge has them since 2020 (task 3): no header, one line per
    active row, `frame,class,source,azimuth,elevation`, all integers.

    Frames are 100 ms and count from 0; angles are whole degrees, azimuth counter-clockwise from the front in
    [-180, 180), as everywhere here. The source is the track, or 0. Source: "Format" of the task's
    page, dcase.community/challenge2022/task-sound-event-localization-and-detection.
    """
    lines = []
    for row in rows:
        if row["active"] and row["azimuth_deg"] is not None:
            azimuth = (round(row["azimuth_deg"]) + 180) % 360 - 180
            frame, source = round(row["time_s"] / ROW_S), row["track"] or 0
            lines.append(f"{frame},{sound_class},{source},{azimuth},{round(row['elevation_deg'])}\n")
    return "".join(lines)


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
