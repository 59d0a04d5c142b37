"""Gathers what a page shows from the files of an episode; a missing part becomes a note, not an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dsp.errors import HearthError
from recordings import manifest, marker
from recordings.calibrated import Calibrations, read_snapshot
from recordings.profile import Profile, profile_from_yaml
from recordings.report_checks import checks_in_words
from recordings.report_decision import read_decision
from recordings.report_events import marks_of_events
from recordings.report_model import Facts, FileEntry, Floats, Mark, TrueSource, Verdict
from recordings.report_rig import RigView, number, view_rig
from recordings.report_timeline import PageClock, directions_of, talkers_of
from recordings.storage import sha256_file
from recordings.timeline import Line

PAGE = "report.html"
HASH_LIMIT = 4 << 30  # bytes; more is left to the manifest
JOIN_S = 1.2  # a beep's pause


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


def state_of(folder: Path, checks: Any) -> str:
    """finished, repaired, interrupted or recording.

    A page is made while an episode is being finished, before its marker goes; checks.json is written just
    before, never earlier, and says whether the episode had been interrupted.
    """
    if isinstance(checks, dict):
        return "repaired" if checks.get("interrupted") else "finished"
    return str(marker.state_of(folder))


def truth_of(data: Any, clock: PageClock, names: dict[str, str], notes: list[str]) -> tuple[TrueSource, ...]:
    """The sources of truth.json in page time; those in an unknown form are left out with a note.

    Times in the file are those of the picture's clock, from `start_ns`; the sound came `av_offset_ms` later.
    """
    if not isinstance(data, dict):
        return ()
    late_s = float(np.nan_to_num(number(data.get("av_offset_ms")))) / 1000.0
    stated = data.get("start_ns")
    start_ns = stated if type(stated) is int and abs(stated) < 1 << 62 else clock.zero_ns

    def page(times_s: ArrayLike) -> Floats:
        return clock(
            np.round((np.asarray(times_s, dtype=np.float64) + late_s) * 1e9).astype(np.int64) + start_ns
        )

    speaker = data.get("speaker")
    listed = data.get("sources")
    items = listed if isinstance(listed, list) else []
    talkers = [s for s in items if isinstance(s, dict) and s.get("kind") == "talker"]
    sources = []
    for item in items:
        try:
            source = _source(item, page, names)
            if len(talkers) == 1 and source.kind == "talker" and isinstance(speaker, str):
                source = replace(source, label=names.get(speaker, speaker))
            sources.append(source)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            notes.append(f"A source of truth.json is not in the known form ({error!r}) and is left out.")
    return tuple(sources)


def _source(item: dict[str, Any], page: Callable[[ArrayLike], Floats], names: dict[str, str]) -> TrueSource:
    path = np.array(item["path"], dtype=np.float64).reshape(-1, 4)
    spans = np.array(item["active_s"], dtype=np.float64).reshape(-1, 2)
    if not len(path) or not np.isfinite(path[:, :3]).all() or not (np.abs(spans) < 1e6).all():
        raise ValueError("path or active_s")
    identity = str(item.get("device_id") or item.get("id") or "")
    return TrueSource(
        kind=str(item["kind"]),
        label=names.get(identity, identity.replace("_", " ") or str(item["kind"])),
        intervals_s=tuple((float(page(a)), float(page(b))) for a, b in spans),
        times_s=page(path[:, 0]),
        azimuth_deg=path[:, 1],
        elevation_deg=path[:, 2],
        distance_m=path[:, 3],
    )


def names_of(profile: Profile | None, rig: RigView) -> dict[str, str]:
    """Id -> what people call it, for devices and people."""
    names: dict[str, str] = {}
    if profile is None:
        return names
    for device in profile.home.devices if profile.home else ():
        names[device.id] = device.name
    names.update((device.id, device.name) for device in rig.devices)
    names.update(rig.people)
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
    score: Any, profile: Profile | None, declared: str | None, was_declared: bool, agent: bool = True
) -> Verdict | None:
    """From score.json; without it, from what was declared and the profile's target."""
    if isinstance(score, dict):

        def of(key: str, kind: type) -> Any:
            return score.get(key) if isinstance(score.get(key), kind) else None

        return Verdict(
            declared=of("declared", str),
            truth=of("truth", str),
            grounding_correct=of("grounding_correct", bool),
            goal_reached=of("goal_reached", bool),
            text=of("text", str) or "",
        )
    target = profile.target_device if profile else None
    if not was_declared and target is None:
        return None
    right = None if not was_declared or target is None else declared == target
    return Verdict(declared, target, right, None, "" if was_declared else "nothing was declared", agent)


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


def gather(
    folder: Path,
    lines: list[Line],
    clock: PageClock,
    duration_s: float,
    profile: Profile | None,
    notes: list[str],
) -> Facts:
    """Everything but the sound and the pictures."""
    try:
        calibrations = read_snapshot(folder)
    except HearthError as error:
        calibrations = Calibrations()
        notes.append(f"The calibrations of this episode cannot be used: {error}")
    rig = view_rig(profile.rig if profile else {}, calibrations)
    names = names_of(profile, rig)
    checks = load_json(folder / "checks.json", notes)
    state = state_of(folder, checks)
    if state == "interrupted":
        notes.append("The episode was interrupted: `hearth repair` completes what can be completed.")
    truth = truth_of(load_json(folder / "truth.json", notes), clock, names, notes)
    events = marks_of_events(lines, clock, names)
    score = load_json(folder / "score.json", notes)
    verdict = verdict_of(score, profile, events.declared, events.was_declared, events.agent)
    return Facts(
        id=profile.id if profile else folder.name,
        profile=profile,
        state=state,
        rig=rig,
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
        decision=read_decision(events.evidence),
        talkers=talkers_of(lines, clock),
    )
