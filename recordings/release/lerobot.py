"""Releases as LeRobot datasets, version 3.0 of the format (github.com/huggingface/lerobot).

    meta/info.json, stats.json, tasks.parquet, episodes/chunk-000/file-000.parquet
    data/chunk-000/file-000.parquet                              a row per picture
    videos/observation.images.main/chunk-000/file-000.mp4        pictures, many episodes in a file
    sound/<id>.wav, sidecar/<id>.json                            LeRobot has no sound: it goes beside
    meta/hearth.json                                             which sound belongs to which episode

LeRobot's own `timestamp` is a grid, `frame_index / fps`, and so are the times in the video: its loader
refuses pictures that are 0.1 ms off. True times are a feature of their own, `observation.time_ns`, and
`observation.sound_frame` is the frame of the WAV that is heard at that instant, -1 where there is none.
`observation.sound_direction` is the unit vector to the sound (x forward, y left, z up), zero where there was
none. A task is a request. Without pictures (`--no-video`) a row is a window of 100 ms.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.episode import DOA_WINDOW_S, RELEASE, RELEASE_RATE_HZ, TIMELINE, video_name
from recordings.release.item import NO_SPLIT, ReleaseItem
from recordings.release.lerobot_stats import of_histogram, of_values, plain
from recordings.release.lerobot_video import (
    CHUNK_FILES,
    FILE_MB,
    FILE_S,
    VideoFiles,
    histogram,
    pixel_format,
)
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import write_json
from recordings.storage import storage_errors

VIDEO = "observation.images.main"
DATA_MB = 100
_WORK = "work"
_SPLITS = ("train", "val", "test", NO_SPLIT)
_SCALAR = {"shape": [1], "names": None}
_NUMBERS: dict[str, dict[str, Any]] = {
    "observation.time_ns": {"dtype": "int64", **_SCALAR},
    "observation.sound_frame": {"dtype": "int64", **_SCALAR},
    "observation.sound_direction": {
        "dtype": "float32",
        "shape": [3],
        "names": ["x_forward", "y_left", "z_up"],
    },
    "observation.sound_confidence": {"dtype": "float32", **_SCALAR},
    "timestamp": {"dtype": "float32", **_SCALAR},
    "frame_index": {"dtype": "int64", **_SCALAR},
    "episode_index": {"dtype": "int64", **_SCALAR},
    "index": {"dtype": "int64", **_SCALAR},
    "task_index": {"dtype": "int64", **_SCALAR},
}
Columns = dict[str, NDArray[Any]]


@dataclass
class _Tables:
    """What grows with the episodes."""

    tasks: dict[str, int]
    rows: list[Columns]  # one per episode
    episodes: list[dict[str, Any]]
    counts: NDArray[np.int64]  # of pixel values, (3, 256)
    data_mb: float
    pictures: int = 0
    data_file: int = 0
    data_bytes: int = 0


def export(
    items: Sequence[ReleaseItem],
    out: Path,
    options: ReleaseOptions,
    advance: Callable[[float], None],
    *,
    file_s: float = FILE_S,
    data_mb: float = DATA_MB,
) -> ExportReport:
    """See recordings.release.options.Exporter. file_s, data_mb: where a file of several episodes ends.

    Raises InputError without the extra `export`, and for episodes that are no one LeRobot dataset: some
    without pictures, or pictures of different sizes.
    """
    try:
        import_module("pyarrow")
    except ImportError as error:
        raise InputError(f"--to lerobot needs `pip install 'hearth-home[export]'` ({error})") from None
    report = ExportReport()
    items = sorted(items, key=lambda item: (_SPLITS.index(item.split), item.id))
    fps = _rate(items, options.video)
    size = _picture_size(items, report) if options.video else None
    tables = _Tables({}, [], [], np.zeros((3, 256), np.int64), data_mb)
    videos = VideoFiles(out / "videos" / VIDEO, fps, file_s) if size else None
    coding: dict[str, Any] = {}
    sounds = []
    try:
        for item in items:
            sounds.append(_add(item, out, fps, videos, tables, coding, report))
            advance(1)
    finally:
        if videos is not None:
            videos.close()
    shutil.rmtree(out / _WORK, ignore_errors=True)
    features = _features(size, fps, coding)
    with storage_errors(out / "meta"):
        _write_data(out, tables)
        _write_meta(out, items, fps, features, tables)
    about = {
        "sound": {"rate_hz": RELEASE_RATE_HZ, "channels": "W,Y,Z,X", "scale": "SN3D"},
        "episodes": sounds,
    }
    write_json(out / "meta" / "hearth.json", {"hearth_lerobot": 1, "fps": fps, **about})
    report.facts.update(fps=fps, frames=sum(len(rows["index"]) for rows in tables.rows))
    return report


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        f"LeRobot dataset v3.0: {report.facts['frames']} frames at {report.facts['fps']} per second.\n"
        "`timestamp` is LeRobot's even grid; `observation.time_ns` is when each picture really was, and\n"
        "`observation.sound_frame` the frame of `sound/<id>.wav` (24 kHz first-order ambisonics; LeRobot\n"
        "itself has no sound) that is heard then. A task is a request. `meta/hearth.json` says which sound\n"
        "belongs to which episode, `sidecar/<id>.json` has the whole profile.\n\n"
        "```python\n"
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset\n"
        'data = LeRobotDataset("hearth/home", root="this folder")\n'
        "```\n"
    )


# ---------------------------------------------------------------------- before


def _rate(items: Sequence[ReleaseItem], video: bool) -> int:
    """Pictures per second, a whole number: the commonest of the episodes."""
    if not video:
        return round(1 / DOA_WINDOW_S)
    found = Counter()  # type: Counter[int]
    for item in items:
        steps = np.diff(item.frame_times_ns())
        if len(steps):
            found[max(round(1e9 / float(np.median(steps))), 1)] += 1
    return min(found, key=lambda rate: (-found[rate], rate)) if found else 30


def _picture_size(items: Sequence[ReleaseItem], report: ExportReport) -> tuple[int, int]:
    """(height, width) of the main camera's pictures."""
    from recordings.video_read import summarise

    sizes: dict[tuple[int, int], str] = {}
    further = set()
    for item in items:
        if "" not in item.cameras:
            raise InputError(
                f"{item.path}: has no pictures, and a LeRobot dataset has a video for every episode; leave it"
                " out, or export without any (--no-video)"
            )
        about = summarise(item.path / video_name())
        sizes.setdefault((about.height_px, about.width_px), str(item.path))
        further |= set(item.cameras) - {""}
    if len(sizes) > 1:
        told = ", ".join(f"{w}x{h} ({path})" for (h, w), path in sorted(sizes.items()))
        raise InputError(
            f"pictures of different sizes make no one LeRobot dataset: {told}; export them apart"
        )
    for camera in sorted(further):
        report.notes.append(
            f"pictures of camera {camera} are left out: LeRobot has one grid of times for all cameras"
        )
    return next(iter(sizes))


def _features(size: tuple[int, int] | None, fps: int, coding: dict[str, Any]) -> dict[str, Any]:
    if size is None:
        return dict(_NUMBERS)
    height, width = size
    info = {
        "video.height": height,
        "video.width": width,
        "video.codec": coding["codec"],
        "video.pix_fmt": coding["pix_fmt"],
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.channels": 3,
        "has_audio": False,
    }
    pictures = {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"]}
    return {VIDEO: {**pictures, "info": info}, **_NUMBERS}


# ---------------------------------------------------------------------- an episode


def _add(
    item: ReleaseItem,
    out: Path,
    fps: int,
    videos: VideoFiles | None,
    tables: _Tables,
    coding: dict[str, Any],
    report: ExportReport,
) -> dict[str, Any]:
    number = len(tables.episodes)
    name = f"sound/{item.id}.wav"
    sound = item.write_sound(out / name)
    report.holds.append(Holds(name, item.id, of=(RELEASE,), sha256=sound.sha256))
    if sound.clipped:
        report.clipped[item.id] = sound.clipped
    sidecar = f"sidecar/{item.id}.json"
    write_json(out / sidecar, item.description())
    report.holds.append(Holds(sidecar, item.id, of=("episode.yaml", TIMELINE)))
    doa = item.episode.doa()
    times = item.frame_times_ns() if videos else doa.t_ns
    if not len(times):
        raise InputError(
            f"{item.path}: has no {'picture' if videos else 'direction'}, so no row; leave it out"
        )
    task = item.profile.request or ""
    task_index = tables.tasks.setdefault(task, len(tables.tasks))
    first = sum(len(rows["index"]) for rows in tables.rows)
    n = len(times)
    direction, confidence = _directions(doa, times)
    columns: Columns = {
        "observation.time_ns": times.astype(np.int64),
        "observation.sound_frame": _sound_frames(item, times, sound.frames),
        "observation.sound_direction": direction,
        "observation.sound_confidence": confidence,
        "timestamp": (np.arange(n) / fps).astype(np.float32),
        "frame_index": np.arange(n),
        "episode_index": np.full(n, number),
        "index": np.arange(first, first + n),
        "task_index": np.full(n, task_index),
    }
    row: dict[str, Any] = {"episode_index": number, "tasks": [task], "length": n}
    row |= _place_in_data(tables, columns) | {"dataset_from_index": first, "dataset_to_index": first + n}
    stats = {
        f"stats/{key}/{s}": v for key, x in columns.items() for s, v in plain(of_values(_wide(x))).items()
    }
    if videos is not None:
        made = item.write_video(out / _WORK / f"{item.id}.mp4")
        place = videos.add(made.path)
        counts, pictures = histogram(made.path)
        coding.setdefault("codec", made.codec)
        coding.setdefault("pix_fmt", pixel_format(made.path))
        made.path.unlink()
        tables.counts += counts
        tables.pictures += pictures
        told = {k: getattr(place, k) for k in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")}
        row |= {f"videos/{VIDEO}/{key}": value for key, value in told.items()}
        seen = plain(of_histogram(counts, pictures))
        stats |= {f"stats/{VIDEO}/{key}": value for key, value in seen.items()}
        report.holds.append(Holds(f"videos/{place.path}", item.id, of=(video_name(),)))
    tables.rows.append(columns)
    tables.episodes.append({**row, **stats, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
    return {
        "episode_index": number,
        "id": item.id,
        "split": item.split,
        "sound": name,
        "sidecar": sidecar,
        "sound_frames": sound.frames,
        "utc_minus_clock_ns": item.utc_minus_clock_ns,
    }


def _place_in_data(tables: _Tables, columns: Columns) -> dict[str, int]:
    """A file of data ends before it would be larger than data_mb in memory."""
    size = sum(values.nbytes for values in columns.values())
    if tables.data_bytes and tables.data_bytes + size > tables.data_mb * 1024**2:
        tables.data_file += 1
        tables.data_bytes = 0
    tables.data_bytes += size
    chunk, file = divmod(tables.data_file, CHUNK_FILES)
    return {"data/chunk_index": chunk, "data/file_index": file}


def _sound_frames(item: ReleaseItem, times: NDArray[np.int64], frames: int) -> NDArray[np.int64]:
    """Frame of the released sound at each time; -1 before it, after it, and in a gap."""
    pieces = item.sound_pieces()
    starts = np.array([piece.t_ns for piece in pieces], np.int64)
    which = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, None)
    first = np.array([piece.frame for piece in pieces])
    ends = np.append(first[1:], frames)
    rates = np.array([piece.rate_hz for piece in pieces])
    found = first[which] + (times - starts[which]) * (rates[which] / 1e9)
    heard = (found >= first[which]) & (found < ends[which])
    return np.where(heard, np.floor(found), -1).astype(np.int64)


def _directions(doa: Any, times: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Unit vectors (n, 3) and confidences (n,) of the windows that the times lie in; zeros where there was no
    direction."""
    vectors, confidence = np.zeros((len(times), 3)), np.zeros(len(times))
    if len(doa):
        which = np.clip(np.searchsorted(doa.t_ns, times, side="right") - 1, 0, None)
        inside = (times >= doa.t_ns[which]) & (times < doa.t_ns[which] + round(DOA_WINDOW_S * 1e9))
        known = inside & doa.active[which] & np.isfinite(doa.azimuth_deg[which])
        azimuth = np.radians(np.nan_to_num(doa.azimuth_deg[which]))
        elevation = np.radians(np.nan_to_num(doa.elevation_deg[which]))
        flat = np.cos(elevation)
        unit = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=1)
        vectors = np.where(known[:, None], unit, 0.0)
        confidence = np.where(known, np.nan_to_num(doa.confidence[which]), 0.0)
    return vectors.astype(np.float32), confidence.astype(np.float32)


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.ndim == 2 else values[:, None]


# ---------------------------------------------------------------------- files


def _write_data(out: Path, tables: _Tables) -> None:
    pa: Any = import_module("pyarrow")
    files: dict[tuple[int, int], list[Columns]] = {}
    for row, columns in zip(tables.episodes, tables.rows, strict=True):
        files.setdefault((row["data/chunk_index"], row["data/file_index"]), []).append(columns)
    for (chunk, file), parts in files.items():
        arrays = {}
        for key, feature in _NUMBERS.items():
            values = np.concatenate([part[key] for part in parts]).astype(feature["dtype"])
            flat = pa.array(values.ravel())
            arrays[key] = pa.FixedSizeListArray.from_arrays(flat, 3) if values.ndim == 2 else flat
        _write_table(out / f"data/chunk-{chunk:03d}/file-{file:03d}.parquet", pa.table(arrays))


def _write_meta(
    out: Path, items: Sequence[ReleaseItem], fps: int, features: dict[str, Any], tables: _Tables
) -> None:
    pa: Any = import_module("pyarrow")
    _write_table(out / "meta/episodes/chunk-000/file-000.parquet", pa.Table.from_pylist(tables.episodes))
    # As pandas writes a table with an index: that is how the loader finds a task's name.
    index = "__index_level_0__"
    column = {"metadata": None, "numpy_type": "int64", "pandas_type": "int64"}
    about = {
        "index_columns": [index],
        "column_indexes": [],
        "columns": [
            {"name": "task_index", "field_name": "task_index", **column},
            {
                "name": None,
                "field_name": index,
                "pandas_type": "unicode",
                "numpy_type": "object",
                "metadata": None,
            },
        ],
        "creator": {"library": "hearth", "version": "1"},
        "pandas_version": "2.0.0",
    }
    table = pa.table({"task_index": list(tables.tasks.values()), index: list(tables.tasks)})
    table = table.replace_schema_metadata({b"pandas": json.dumps(about).encode()})
    _write_table(out / "meta/tasks.parquet", table)
    whole = {key: np.concatenate([rows[key] for rows in tables.rows]) for key in _NUMBERS}
    stats = {key: plain(of_values(_wide(values))) for key, values in whole.items()}
    if VIDEO in features:
        stats[VIDEO] = plain(of_histogram(tables.counts, tables.pictures))
    write_json(out / "meta/stats.json", stats)
    info = {
        "codebase_version": "v3.0",
        "robot_type": None,
        "total_episodes": len(items),
        "total_frames": len(whole["index"]),
        "total_tasks": len(tables.tasks),
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": DATA_MB,
        "video_files_size_in_mb": FILE_MB,
        "fps": fps,
        "splits": _split_ranges(items),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if VIDEO in features
        else None,
        "features": features,
    }
    write_json(out / "meta/info.json", info)


def _split_ranges(items: Sequence[ReleaseItem]) -> dict[str, str]:
    """`first:end` of each split; items are sorted by split."""
    ranges: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        name = "train" if item.split == NO_SPLIT else item.split
        ranges.setdefault(name, [number, number])[1] = number + 1
    return {name: f"{first}:{end}" for name, (first, end) in ranges.items()}


def _write_table(path: Path, table: Any) -> None:
    pq: Any = import_module("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="snappy")
