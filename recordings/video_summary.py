"""What checks.json says about the pictures of an episode: how many, how stamped, what was missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from recordings.episode import Episode, frame_lines, video_stream


def video_summary(episode: Episode) -> dict[str, Any] | None:
    """The main camera's pictures; those of further cameras are under "more", by name. None without video."""
    cameras = episode.cameras
    if not cameras:
        return None
    source = episode.profile.source
    main = source.get("video", {}) if "" in cameras else {}
    summary = _of_camera(episode, "", main if isinstance(main, dict) else {})
    further = source.get("more_videos", {})
    more = {
        name: _of_camera(episode, name, further.get(name, {}) if isinstance(further, dict) else {})
        for name in cameras
        if name
    }
    return {**summary, "more": more} if more else summary


def _of_camera(episode: Episode, camera: str, source: dict[str, Any]) -> dict[str, Any]:
    lines = episode.timeline()
    rows = frame_lines(lines, camera)
    times = episode.frame_times(camera)
    stream = video_stream(camera)
    causes: Counter[str] = Counter()
    for line in lines:
        if line["type"] == "gap" and line.get("stream") == stream:
            causes[str(line["cause"])] += int(line.get("dropped", 0))
    steps = np.diff(times) / 1e6
    # Only an import knows its alignment or does not: a recording stamps both streams on one clock.
    alignment = source.get("alignment")
    return {
        **({} if alignment is None else {"alignment": alignment}),
        "frames": len(times),
        "encoder": source.get("encoder"),
        "dropped": sum(causes.values()),
        "dropped_by_cause": dict(causes),
        "flags": dict(Counter(flag for line in rows for flag in line.get("flags", ()))),
        "duration_s": round(float(times[-1] - times[0]) / 1e9, 6) if len(times) else 0.0,
        "fps": round(1e3 * len(steps) / float(steps.sum()), 4) if len(steps) and steps.sum() > 0 else None,
        "longest_step_ms": round(float(steps.max()), 3) if len(steps) else None,
        "t_source": dict(Counter(str(line.get("t_source")) for line in rows)),
    }
