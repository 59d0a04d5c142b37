"""The timeline of an episode in the time of its page.

Time on the page is time in the sound file, so that what is seen is what is heard: a stamp on CLOCK_MONOTONIC
goes through the clock or audio lines of the timeline, which also takes the drift of the sound clock and gaps
(they are not filled in the file) into account. Without sound, time counts from the timeline's first line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import HearthError
from recordings.episode import frame_lines
from recordings.report_model import DirectionTrack, Floats, TalkerPath
from recordings.report_rig import number
from recordings.timeline import AudioMap, Line, read_timeline

WINDOW_S = 0.1  # of the direction rows
_ALWAYS = ("t_ns",)
_NEEDED = {
    "audio": ("t_ns", "file_frame", "frames"),
    "clock": ("t_ns", "file_frame"),
    "frame": ("t_ns", "pts_ms"),
}
_MOST = 1 << 62


class PageClock:
    """CLOCK_MONOTONIC ns -> seconds in the sound file."""

    def __init__(self, lines: list[Line], rate_hz: float) -> None:
        blocks = [x for x in lines if x["type"] == "audio"]
        self._map, self._rate_hz = AudioMap(lines, rate_hz), rate_hz
        stamps = [x["t_ns"] for x in lines if x["type"] in ("frame", "doa", "event", "gap")]
        self._sound = bool(blocks)
        self.first_frame = float(blocks[0]["file_frame"]) / rate_hz if blocks else 0.0
        first = blocks[0]["file_frame"] if blocks else 0
        self.zero_ns = int(self._map.time_ns(first)) if blocks else min(stamps, default=0)

    def __call__(self, t_ns: ArrayLike) -> Floats:
        """Times outside the sound go on at the rate of the sound; within a gap time stands still."""
        t = np.asarray(t_ns, dtype=np.int64)
        if not self._sound:
            return (t - self.zero_ns) * 1e-9
        return self._map.file_frame(t) / self._rate_hz


def load_lines(folder: Path, notes: list[str]) -> list[Line]:
    """The readable lines of the timeline."""
    try:
        timeline = read_timeline(folder / "timeline.jsonl")
    except HearthError:
        notes.append("The timeline is missing: no directions, pictures or events can be placed in time.")
        return []
    if timeline.problems:
        notes.append(f"{len(timeline.problems)} lines of the timeline cannot be read and are left out.")
    if not timeline.lines:
        notes.append("The timeline holds no readable line: nothing can be placed in time.")
    lines = [line for line in timeline.lines if _usable(line)]
    if len(lines) < len(timeline.lines):
        notes.append(f"{len(timeline.lines) - len(lines)} lines of the timeline hold impossible values.")
    return lines


def _usable(line: Line) -> bool:
    """Whether the numbers that place a line in time are whole and possible."""
    for key in _NEEDED.get(line["type"], _ALWAYS):
        value = line.get(key)
        if type(value) is not int or not -_MOST < value < _MOST:
            return False
    rate = line.get("rate_hz")
    return line["type"] != "clock" or (isinstance(rate, int | float) and 1.0 <= rate < 1e9)


def directions_of(lines: list[Line], clock: PageClock) -> DirectionTrack:
    """The doa lines in order of time."""
    rows = sorted((x for x in lines if x["type"] == "doa"), key=lambda x: int(x["t_ns"]))

    def column(name: str) -> Floats:
        return np.array([number(r.get(name)) for r in rows], dtype=np.float64)

    azimuth, elevation = column("azimuth_deg"), column("elevation_deg")
    active = np.array([r.get("active") is True for r in rows], dtype=bool)
    return DirectionTrack(
        times_s=clock(np.array([r["t_ns"] for r in rows], dtype=np.int64)) + WINDOW_S / 2,
        azimuth_deg=azimuth,
        elevation_deg=elevation,
        confidence=np.nan_to_num(column("confidence")),
        uncertainty_deg=column("uncertainty_deg"),
        active=active & np.isfinite(azimuth) & np.isfinite(elevation),
    )


def talkers_of(lines: list[Line], clock: PageClock) -> tuple[TalkerPath, ...]:
    """The track lines by track, in order of time; lines without a number and a place are left out."""
    tracks: dict[int, list[tuple[int, float, float, bool]]] = {}
    for line in lines:
        if line["type"] != "track" or type(line.get("track")) is not int:
            continue
        azimuth, elevation = number(line.get("azimuth_deg")), number(line.get("elevation_deg"))
        if np.isfinite(azimuth + elevation):
            row = (int(line["t_ns"]), azimuth, elevation, line.get("coasting") is True)
            tracks.setdefault(line["track"], []).append(row)
    paths = []
    for name, rows in sorted(tracks.items()):
        rows.sort()
        times = clock(np.array([row[0] for row in rows], dtype=np.int64)) + WINDOW_S
        azimuths, elevations = (np.array([row[i] for row in rows], dtype=np.float64) for i in (1, 2))
        paths.append(TalkerPath(name, times, azimuths, elevations, np.array([row[3] for row in rows], bool)))
    return tuple(paths)


def frame_times(lines: list[Line], clock: PageClock) -> tuple[Floats, NDArray[np.int64]]:
    """Page times and file times (ms) of the pictures, in the order of the video file."""
    rows = frame_lines(lines)
    times = clock(np.array([x["t_ns"] for x in rows], dtype=np.int64))
    return times, np.array([x["pts_ms"] for x in rows], dtype=np.int64)
