"""Gathers what a page shows from the files of an episode; a missing part becomes a note, not an error.

Time on the page is time in the sound file, so that what is seen is what is heard: a stamp on CLOCK_MONOTONIC
goes through the audio lines of the timeline, which also takes the drift of the sound clock and gaps (they are
not filled in the file) into account. Without sound, time counts from the first line of the timeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import HearthError
from recordings import manifest, marker
from recordings.profile import Profile, profile_from_yaml
from recordings.report_checks import checks_in_words
from recordings.report_events import marks_of_events
from recordings.report_model import DirectionTrack, Facts, FileEntry, Floats, Mark, TrueSource, Verdict
from recordings.storage import sha256_file
from recordings.timeline import Line, read_timeline

PAGE = "report.html"
HASH_LIMIT = 4 << 30  # bytes; more is left to the manifest
JOIN_S = 1.2  # a beep's pause
WINDOW_S = 0.1  # of the direction rows


class PageClock:
    """CLOCK_MONOTONIC ns -> seconds in the sound file."""

    def __init__(self, lines: list[Line], rate_hz: float) -> None:
        blocks = [x for x in lines if x["type"] == "audio" and "file_frame" in x and "frames" in x]
        self._t = np.array([x["t_ns"] for x in blocks], dtype=np.int64)
        self._s = np.array([x["file_frame"] for x in blocks], dtype=np.float64) / rate_hz
        self._length = np.array([x["frames"] for x in blocks], dtype=np.float64) / rate_hz
        stamps = [x["t_ns"] for x in lines if x["type"] in ("frame", "doa", "event", "gap")]
        self.zero_ns = int(self._t[0]) if len(blocks) else min(stamps, default=0)
        self.first_frame = float(self._s[0]) if len(blocks) else 0.0

    def __call__(self, t_ns: ArrayLike) -> Floats:
        """Times outside the sound go on at the nominal rate; within a gap time stands still."""
        t = np.asarray(t_ns, dtype=np.int64)
        if not len(self._t):
            return (t - self.zero_ns) * 1e-9
        block = np.clip(np.searchsorted(self._t, t, side="right") - 1, 0, len(self._t) - 1)
        ahead = (t - self._t[block]) * 1e-9
        inside = np.minimum(ahead, self._length[block])
        return np.asarray(
            self._s[block] + np.where(block == len(self._t) - 1, ahead, inside), dtype=np.float64
        )


def load_json(path: Path, notes: list[str]) -> Any:
    """The content of a JSON file; None with a note when it is there but broken, None when absent."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return None


def load_profile(folder: Path, notes: list[str]) -> Profile | None:
    """episode.yaml, or None with a note."""
    path = folder / "episode.yaml"
    try:
        return profile_from_yaml(path.read_text(encoding="utf-8"), path.name)
    except FileNotFoundError:
        notes.append("episode.yaml is missing: who asked for what is not known.")
    except (OSError, UnicodeDecodeError, HearthError) as error:
        notes.append(f"episode.yaml cannot be used: {error}")
    return None


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
    return timeline.lines


def state_of(folder: Path, checks: Any) -> str:
    """finished, repaired, interrupted or recording.

    A page is made while an episode is being finished, before its marker goes; checks.json is written just
    before, never earlier, and says whether the episode had been interrupted.
    """
    if isinstance(checks, dict):
        return "repaired" if checks.get("interrupted") else "finished"
    return str(marker.state_of(folder))


def directions_of(lines: list[Line], clock: PageClock) -> DirectionTrack:
    """The doa lines in order of time."""
    rows = sorted((x for x in lines if x["type"] == "doa"), key=lambda x: int(x["t_ns"]))

    def column(name: str) -> Floats:
        return np.array([np.nan if r.get(name) is None else float(r[name]) for r in rows], dtype=np.float64)

    azimuth, elevation = column("azimuth_deg"), column("elevation_deg")
    active = np.array([bool(r.get("active")) for r in rows], dtype=bool)
    return DirectionTrack(
        times_s=clock(np.array([r["t_ns"] for r in rows], dtype=np.int64)) + WINDOW_S / 2,
        azimuth_deg=azimuth,
        elevation_deg=elevation,
        confidence=np.nan_to_num(column("confidence")),
        uncertainty_deg=column("uncertainty_deg"),
        active=active & np.isfinite(azimuth) & np.isfinite(elevation),
    )


def truth_of(data: Any, clock: PageClock, names: dict[str, str], notes: list[str]) -> tuple[TrueSource, ...]:
    """The sources of truth.json in page time; those in an unknown form are left out with a note.

    Times in the file are those of the picture's clock, from `start_ns`; the sound came `av_offset_ms` later.
    """
    if not isinstance(data, dict):
        return ()
    late_s = _finite(data.get("av_offset_ms")) / 1000.0
    stated = data.get("start_ns")
    start_ns = stated if isinstance(stated, int) else clock.zero_ns

    def page(times_s: ArrayLike) -> Floats:
        return clock(
            np.round((np.asarray(times_s, dtype=np.float64) + late_s) * 1e9).astype(np.int64) + start_ns
        )

    speaker = data.get("speaker")
    talkers = [s for s in data.get("sources") or () if isinstance(s, dict) and s.get("kind") == "talker"]
    sources = []
    for item in data.get("sources") or ():
        try:
            source = _source(item, page, names)
            if len(talkers) == 1 and source.kind == "talker" and isinstance(speaker, str):
                source = replace(source, label=names.get(speaker, speaker))
            sources.append(source)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            notes.append(f"A source of truth.json is not in the known form ({error!r}) and is left out.")
    return tuple(sources)


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else 0.0


def _source(item: dict[str, Any], page: Callable[[ArrayLike], Floats], names: dict[str, str]) -> TrueSource:
    path = np.array(item["path"], dtype=np.float64).reshape(-1, 4)
    if not len(path):
        raise ValueError("no path")
    identity = str(item.get("device_id") or item.get("id") or "")
    return TrueSource(
        kind=str(item["kind"]),
        label=names.get(identity, identity.replace("_", " ") or str(item["kind"])),
        intervals_s=tuple((float(page(a)), float(page(b))) for a, b in item["active_s"]),
        times_s=page(path[:, 0]),
        azimuth_deg=path[:, 1],
        elevation_deg=path[:, 2],
        distance_m=path[:, 3],
    )


def names_of(profile: Profile | None) -> dict[str, str]:
    """Id -> what people call it, for devices and people."""
    names: dict[str, str] = {}
    if profile is None:
        return names
    for device in profile.home.devices if profile.home else ():
        names[device.id] = device.name
    room = profile.rig.get("room")
    if isinstance(room, dict):
        for thing in [*(room.get("devices") or ()), *(room.get("people") or ())]:
            if isinstance(thing, dict) and "id" in thing:
                names[str(thing["id"])] = str(thing.get("name", thing["id"]))
    return names


def truth_marks(truth: tuple[TrueSource, ...]) -> list[Mark]:
    """The intervals in which the true sources sounded."""
    rows = {"talker": "Talker", "device": "Device", "slate": "Slate"}
    return [
        Mark(
            start,
            rows.get(s.kind, s.kind.capitalize()),
            {"talker": f"{s.label} speaks", "device": f"{s.label} sounds"}.get(s.kind, s.label),
            end,
            "truth-device" if s.kind == "device" else ("truth" if s.kind == "talker" else "rig"),
        )
        for s in truth
        for start, end in joined(s.intervals_s, JOIN_S)
    ]


def joined(intervals: tuple[tuple[float, float], ...], within_s: float) -> list[tuple[float, float]]:
    """Intervals with pauses up to `within_s` taken as one: a device that beeps does not start anew."""
    out: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if out and start - out[-1][1] <= within_s:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def verdict_of(
    score: Any, profile: Profile | None, declared: str | None, was_declared: bool
) -> Verdict | None:
    """From score.json; without it, from what was declared and the profile's target."""
    if isinstance(score, dict):
        return Verdict(
            declared=score.get("declared"),
            truth=score.get("truth"),
            grounding_correct=score.get("grounding_correct"),
            goal_reached=score.get("goal_reached"),
            text=str(score.get("text") or ""),
        )
    target = profile.target_device if profile else None
    if not was_declared and target is None:
        return None
    right = None if not was_declared or target is None else declared == target
    return Verdict(declared, target, right, None, "" if was_declared else "nothing was declared")


def files_of(folder: Path, skip: set[str]) -> tuple[FileEntry, ...]:
    """The files of the episode with size and SHA-256 (from the manifest when there is one)."""
    known: dict[str, str] = {}
    with suppress(HearthError):
        known = {name: str(entry["sha256"]) for name, entry in manifest.read_manifest(folder).items()}
    found = []
    budget = HASH_LIMIT
    for name in manifest.files_of(folder):
        path = folder / name
        if name in skip or path.name.startswith(".") or not path.is_file():
            continue
        size = path.stat().st_size
        digest = known.get(name, "")
        if not digest and size <= budget:
            budget -= size
            digest = sha256_file(path)
        found.append(FileEntry(name, size, digest))
    return tuple(found)


def frame_times(lines: list[Line], clock: PageClock) -> tuple[Floats, NDArray[np.int64]]:
    """Page times and file times (ms) of the pictures, in the order of the video file."""
    rows = [x for x in lines if x["type"] == "frame"]
    times = clock(np.array([x["t_ns"] for x in rows], dtype=np.int64))
    return times, np.array([int(x.get("pts_ms", 0)) for x in rows], dtype=np.int64)


def gather(
    folder: Path,
    lines: list[Line],
    clock: PageClock,
    duration_s: float,
    profile: Profile | None,
    notes: list[str],
) -> Facts:
    """Everything but the sound and the pictures."""
    names = names_of(profile)
    checks = load_json(folder / "checks.json", notes)
    state = state_of(folder, checks)
    if state == "interrupted":
        notes.append("The episode was interrupted: `hearth repair` completes what can be completed.")
    truth = truth_of(load_json(folder / "truth.json", notes), clock, names, notes)
    events = marks_of_events(lines, clock, names)
    score = load_json(folder / "score.json", notes)
    verdict = verdict_of(score, profile, events.declared, events.was_declared)
    return Facts(
        id=profile.id if profile else folder.name,
        profile=profile,
        state=state,
        rig=profile.rig if profile else {},
        duration_s=duration_s,
        directions=directions_of(lines, clock),
        truth=truth,
        marks=tuple(truth_marks(truth) + events.marks),
        checks=checks_in_words(checks, lines, duration_s),
        verdict=verdict,
        files=files_of(folder, {PAGE}),
        notes=tuple(notes),
        declared_device=verdict.declared if verdict else None,
        target_device=(verdict.truth if verdict else None) or (profile.target_device if profile else None),
        names=names,
    )
