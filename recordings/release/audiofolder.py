"""Releases that the Hugging Face `datasets` library loads as AudioFolder, and their pictures as VideoFolder.

    data/<split>/<id>.wav           24 kHz, 4 channels: W, Y, Z, X; SN3D
    data/<split>/metadata.jsonl     one line per episode: file_name, id, request, grounding ...
    video/<split>/<id>.mp4          pictures of the main camera
    video/<split>/metadata.jsonl    the same lines, with the file_name of the pictures
    sidecar/<id>.json               the whole profile, geometry, and the true times

`file_name` is what both go by; a second one in a line would be taken for sound by AudioFolder, so sound and
pictures have a folder each. The library guesses the type of each column in each split and refuses splits that
differ: the metadata holds text and integers that are never null ("" is: none, or not known), and as JSON text
what is nested: `profile_json`, `frame_times_ns_json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from recordings.episode import RELEASE, RELEASE_RATE_HZ, TIMELINE, video_name
from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import write_json, write_jsonl

_HF_SPLITS = {"train": "train", "val": "validation", "test": "test", "all": "train"}


def export(
    items: Sequence[ReleaseItem], out: Path, options: ReleaseOptions, advance: Callable[[float], None]
) -> ExportReport:
    """See recordings.release.options.Exporter."""
    report = ExportReport()
    tables: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        split = _HF_SPLITS[item.split]
        name = f"data/{split}/{item.id}.wav"
        sound = item.write_sound(out / name)
        report.holds.append(Holds(name, item.id, of=(RELEASE,), sha256=sound.sha256))
        if sound.clipped:
            report.clipped[item.id] = sound.clipped
        told = item.description()
        row = _row(item, told, sound.frames)
        tables.setdefault(f"data/{split}", []).append({"file_name": f"{item.id}.wav", **row})
        if "" in item.cameras:
            name = f"video/{split}/{item.id}.mp4"
            video = item.write_video(out / name)
            report.holds.append(Holds(name, item.id, of=(video_name(),), sha256=video.sha256))
            tables.setdefault(f"video/{split}", []).append({"file_name": f"{item.id}.mp4", **row})
        write_json(out / "sidecar" / f"{item.id}.json", told)
        report.holds.append(Holds(f"sidecar/{item.id}.json", item.id, of=("episode.yaml", TIMELINE)))
        advance(1)
    for folder, rows in tables.items():
        write_jsonl(out / folder / "metadata.jsonl", rows)
        report.holds += [Holds(f"{folder}/metadata.jsonl", row["id"], of=("episode.yaml",)) for row in rows]
    return report


def _row(item: ReleaseItem, told: dict[str, Any], frames: int) -> dict[str, Any]:
    profile = told["profile"]
    clocks = told["clocks"]
    times = clocks["frame_times_ns"].get("main", [])
    keys = (
        "grounding",
        "query",
        "feasibility",
        "difficulty",
        "request",
        "speaker",
        "target_device",
        "origin",
    )
    return {
        "id": item.id,
        "session": told["session"],
        "room": item.room or "",
        **{key: profile[key] or "" for key in keys},
        "sampling_rate": RELEASE_RATE_HZ,
        "channel_order": "W,Y,Z,X (AmbiX, SN3D)",
        "frames": frames,
        "sound_start_ns": clocks["sound"][0]["t_ns"],
        "pictures": len(times),
        "frame_times_ns_json": json.dumps(times),
        "profile_json": json.dumps(profile, ensure_ascii=False),
    }


def front_matter(items: Sequence[ReleaseItem], options: ReleaseOptions) -> str:
    """The head of the dataset card: where the library finds each split."""
    splits = sorted({_HF_SPLITS[item.split] for item in items}, key=["train", "validation", "test"].index)
    files = [{"split": split, "path": f"data/{split}/*"} for split in splits]
    head: dict[str, Any] = {
        "pretty_name": options.name,
        "license": options.licence.lower() or "unknown",
        "configs": [{"config_name": "default", "data_files": files, "drop_labels": True}],
    }
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n"


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        "Load it with the Hugging Face `datasets` library:\n\n"
        "```python\n"
        "from datasets import Audio, load_dataset\n\n"
        'data = load_dataset("audiofolder", data_dir="data", drop_labels=True)\n'
        'data = data.cast_column("audio", Audio(sampling_rate=24000, mono=False))  # datasets before 4\n'
        "```\n\n"
        "All four channels (W, Y, Z, X) are in each file. `datasets` before version 4 mixes them down to\n"
        "one unless `Audio(mono=False)` is given; from version 4 on it takes no `mono` and keeps them. The\n"
        'pictures: `load_dataset("videofolder", data_dir="video", drop_labels=True)`; `id` joins the two.\n'
        "`sidecar/` has each episode's whole profile, geometry and true times. On one clock, in ns:\n"
        "`sound_start_ns` is the time of the first frame of sound, `frame_times_ns_json` those of the\n"
        "pictures. An empty text means: none, or not known.\n"
    )
