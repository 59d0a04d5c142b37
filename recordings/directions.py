"""Direction of arrival of a sound file as rows, a CSV and a summary."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from recordings.audio_file import AudioFile
from recordings.episode import RELEASE_RATE_HZ
from recordings.finish import doa_lines, release_blocks
from recordings.timeline import AudioMap, Line

COLUMNS = ("time_s", "azimuth_deg", "elevation_deg", "confidence", "track")


def directions_of(
    source: AudioFile, format_name: str, advance: Callable[[float], None] = lambda frames: None
) -> list[dict[str, Any]]:
    """One row per 100 ms: time_s, azimuth_deg, elevation_deg, confidence, uncertainty_deg, level_dbfs,
    active, track (None: there are no tracks yet). Angles are None where no direction was found."""
    from dsp.doa import DoaEstimator

    estimator = DoaEstimator(fs=RELEASE_RATE_HZ)
    found: list[Any] = []
    for block in release_blocks(source, format_name):
        found += estimator.push(np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0))
        advance(len(block) * source.rate / RELEASE_RATE_HZ)
    found += estimator.flush()
    return [_row(line) for line in doa_lines(found, AudioMap([], source.rate), source.rate)]


def _row(line: Line) -> dict[str, Any]:
    keys = ("azimuth_deg", "elevation_deg", "confidence", "uncertainty_deg", "level_dbfs", "active")
    return {"time_s": line["t_s"], **{key: line[key] for key in keys}, "track": None}


def directions_csv(rows: Sequence[dict[str, Any]]) -> str:
    """CSV text with exactly the columns time_s,azimuth_deg,elevation_deg,confidence,track; None is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(["" if row[key] is None else row[key] for key in COLUMNS] for row in rows)
    return text.getvalue()


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Number of windows and the confidence-weighted mean direction of the active ones."""
    active = [row for row in rows if row["active"] and row["azimuth_deg"] is not None]
    result: dict[str, Any] = {
        "windows": len(rows),
        "active": len(active),
        "azimuth_deg": None,
        "elevation_deg": None,
    }
    if active:
        from dsp import direction_to_unit, unit_to_direction

        unit = direction_to_unit(
            [row["azimuth_deg"] for row in active], [row["elevation_deg"] for row in active]
        )
        weight = np.array([row["confidence"] or 0.0 for row in active])
        mean = weight @ unit
        if np.linalg.norm(mean) > 0:
            azimuth, elevation = unit_to_direction(mean)
            result.update(azimuth_deg=round(float(azimuth), 2), elevation_deg=round(float(elevation), 2))
    return result
