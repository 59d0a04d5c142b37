"""Releases in the form of the DCASE challenge's task 3 (sound event localization and detection) and STARSS.

    foa_dev/dev-<split>/fold<k>_room<r>_mix<nnn>.wav        24 kHz, 4 channels: W, Y, Z, X; SN3D
    metadata_dev/dev-<split>/fold<k>_room<r>_mix<nnn>.csv   frame,class,source,azimuth,elevation,distance
    video_dev/dev-<split>/fold<k>_room<r>_mix<nnn>.mp4
    times_dev/dev-<split>/fold<k>_room<r>_mix<nnn>.json     true times, which the form has no place for
    classes.csv, files.csv

Rows have no header; frames of 100 ms count from 0; azimuth counter-clockwise in [-180, 180), elevation, both
in whole degrees, distance in whole centimetres, as in the 2024 task; `nan` where nobody knows the distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from recordings.episode import RELEASE, TIMELINE, TRUTH, video_name
from recordings.release.events import CLASSES, SoundEvent, sound_events
from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import table, write_json, write_text

_FOLDS = ("train", "val", "test", "all")


def export(
    items: Sequence[ReleaseItem], out: Path, options: ReleaseOptions, advance: Callable[[float], None]
) -> ExportReport:
    """See recordings.release.options.Exporter."""
    report = ExportReport()
    rooms = sorted({item.room or "" for item in items})
    rows: list[list[Any]] = []
    origins: dict[str, int] = {"truth": 0, "tracked": 0, "none": 0}
    numbers: dict[tuple[str, str], int] = {}
    for item in items:
        place = (item.split, item.room or "")
        numbers[place] = numbers.get(place, 0) + 1
        fold, room = _FOLDS.index(item.split) + 1, rooms.index(item.room or "") + 1
        name = f"dev-{item.split}/fold{fold}_room{room}_mix{numbers[place]:03d}"
        origin, events = sound_events(item)
        origins[origin] += 1
        sound = item.write_sound(out / "foa_dev" / f"{name}.wav")
        if sound.clipped:
            report.clipped[item.id] = sound.clipped
        report.holds.append(Holds(f"foa_dev/{name}.wav", item.id, of=(RELEASE,), sha256=sound.sha256))
        write_text(out / "metadata_dev" / f"{name}.csv", metadata(events))
        of = (TRUTH,) if origin == "truth" else (TIMELINE,)
        report.holds.append(Holds(f"metadata_dev/{name}.csv", item.id, of=of))
        if "" in item.cameras:
            video = item.write_video(out / "video_dev" / f"{name}.mp4")
            made_of = (video_name(),)
            report.holds.append(Holds(f"video_dev/{name}.mp4", item.id, of=made_of, sha256=video.sha256))
        told = {**item.description(), "events_from": origin}
        write_json(out / "times_dev" / f"{name}.json", told)
        report.holds.append(Holds(f"times_dev/{name}.json", item.id, of=("episode.yaml", TIMELINE)))
        profile = item.recorded
        kind = (profile.grounding, profile.query, profile.feasibility)
        rows.append([f"{name}.wav", item.id, item.split, item.room, *kind, origin, len(events)])
        advance(1)
    header = [
        "file",
        "episode",
        "split",
        "room",
        "grounding",
        "query",
        "feasibility",
        "events_from",
        "events",
    ]
    write_text(out / "files.csv", table([header, *rows]))
    write_text(out / "classes.csv", table([["class", "name"], *enumerate(CLASSES)]))
    report.facts = {"events_from": origins, "classes": len(CLASSES)}
    report.plain.append("classes.csv")
    return report


def metadata(events: Iterable[SoundEvent]) -> str:
    """The text of a metadata file."""
    lines = []
    for event in events:
        azimuth = (round(event.azimuth_deg) + 180) % 360 - 180
        distance = "nan" if event.distance_m is None else round(event.distance_m * 100)
        lines.append(
            f"{event.frame},{event.class_index},{event.source},{azimuth},{round(event.elevation_deg)},{distance}\n"
        )
    return "".join(lines)


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    origins = report.facts["events_from"]
    return (
        "Sound event localization as in the DCASE challenge's task 3 (2024) and STARSS23: `foa_dev/` sound,\n"
        "`metadata_dev/` one row per source and frame of 100 ms: frame, class, source, azimuth, elevation,\n"
        "distance in cm (`nan`: nobody knows it). `classes.csv` names the classes, `files.csv` says which\n"
        "episode a file is and where its events come from: `truth` (simulated, exact), `tracked`\n"
        "(directions that Hearth found in the sound; class speech only, no distance: no ground truth) or\n"
        f"`none`. Here: {origins['truth']} from truth, {origins['tracked']} tracked, {origins['none']} no.\n"
        "`times_dev/` has the true times of sound and pictures, and the profile of the episode. Folds:\n"
        "1 train, 2 val, 3 test, 4 not split.\n"
    )
