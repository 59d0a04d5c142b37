"""Releases as folders in the four parts of the OmniSmartHome benchmark (arXiv 2609.32569), and back again.

    index.json                          what there is, one entry per episode
    combinations.csv                    numbers per grounding and query
    episodes/<id>/observations/foa.wav  the spoken request and what else sounds: 24 kHz FOA
                              video.mkv, video_<camera>.mkv
                              times.json   true times of sound and pictures
    episodes/<id>/initial_state.json    the home when it begins: devices, positions, states, household
    episodes/<id>/target.json           the device that is meant, or none
    episodes/<id>/goal.json             the true answer, the state that is wanted, or the refusal
    episodes/<id>/episode.json          everything else: request, grounding, query, speaker, staging, geometry
    episodes/<id>/truth.json            simulated episodes: what sounds when and where

The field names within the parts are those of `recordings.profile`; `import_episode` makes an episode of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dsp.errors import InputError
from recordings.episode import (
    ORIGINALS,
    RELEASE,
    RELEASE_RATE_HZ,
    TIMELINE,
    TRUTH,
    Episode,
    video_name,
)
from recordings.profile import Profile
from recordings.release.counts import combinations
from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import table, write_json, write_text
from recordings.storage import copy_exact, storage_errors, write_atomic

_PARTS = ("home", "target_device", "goal")  # of the profile, in files of their own
_BLOCK_S = 0.1


def export(
    items: Sequence[ReleaseItem], out: Path, options: ReleaseOptions, advance: Callable[[float], None]
) -> ExportReport:
    """See recordings.release.options.Exporter."""
    report = ExportReport(plain=["combinations.csv"])
    entries = []
    for item in items:
        entries.append(_write_item(item, out, report))
        advance(1)
    write_json(out / "index.json", {"hearth_omnismarthome": 1, "episodes": entries})
    rows = combinations(items)
    write_text(out / "combinations.csv", table([list(rows[0]), *(list(row.values()) for row in rows)]))
    return report


def _write_item(item: ReleaseItem, out: Path, report: ExportReport) -> dict[str, Any]:
    folder = f"episodes/{item.id}"
    there = out / folder
    sound = item.write_sound(there / "observations" / "foa.wav")
    report.holds.append(Holds(f"{folder}/observations/foa.wav", item.id, of=(RELEASE,), sha256=sound.sha256))
    if sound.clipped:
        report.clipped[item.id] = sound.clipped
    videos = {}
    for camera in item.cameras:
        name = f"observations/{video_name(camera)}"
        made = item.write_video(there / name, camera)
        of = (video_name(camera),)
        report.holds.append(Holds(f"{folder}/{name}", item.id, of=of, sha256=made.sha256))
        videos[camera or "main"] = {
            "file": name,
            "codec": made.codec,
            "width_px": made.width_px,
            "height_px": made.height_px,
            "pictures": made.frames,
            "as_recorded": made.copied,
        }
    told = item.description()
    profile = told["profile"]
    feasible = profile["feasibility"]
    none = feasible == "nonexistent_resource"
    target = {"episode": item.id, "device": profile["target_device"], "none": none}
    parts = {
        "observations/times.json": (told["clocks"], (TIMELINE,)),
        # Each names its episode: equal files of two people would be one person's to a withdrawal by content.
        "initial_state.json": ({"episode": item.id, "home": profile["home"]}, ("episode.yaml",)),
        "target.json": (target, ("episode.yaml",)),
        "goal.json": ({"episode": item.id, "goal": profile["goal"]}, ("episode.yaml",)),
        "episode.json": (
            {
                "profile": {key: value for key, value in profile.items() if key not in _PARTS},
                "sound": sound.facts(),
                "video": videos,
                "geometry": told["geometry"],
                "split": item.split,
            },
            ("episode.yaml",),
        ),
    }
    if truth := item.episode.truth():
        parts["truth.json"] = (truth, (TRUTH,))
    for name, (value, of) in parts.items():
        write_json(there / name, value)
        report.holds.append(Holds(f"{folder}/{name}", item.id, of=of))
    keys = ("grounding", "query", "feasibility", "difficulty", "request", "speaker")
    return {
        "id": item.id,
        "folder": folder,
        "split": item.split,
        "room": item.room,
        **{key: profile[key] for key in keys},
    }


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        "One folder per episode in the four parts of the OmniSmartHome benchmark: `observations/`\n"
        "(`foa.wav`: 24 kHz first-order ambisonics; `video.mkv`; `times.json`: when each picture and each\n"
        "stretch of sound was), `initial_state.json`, `target.json` (`none`: the request names what is not\n"
        "there), `goal.json`. `episode.json` has the rest: request, grounding, query, feasibility, speaker,\n"
        "staging, geometry. `index.json` lists all episodes, `combinations.csv` counts them. With Hearth,\n"
        "`recordings.release.omnismarthome.import_episode(folder, data)` makes an episode of such a folder.\n"
    )


# ---------------------------------------------------------------------- and back


def read_profile(folder: Path) -> Profile:
    """The profile of an episode's folder in a release. Raises InputError that names the file and the key."""
    told = _read(folder / "episode.json", dict).get("profile")
    if not isinstance(told, dict):
        raise InputError(f"{folder / 'episode.json'}: has no profile; is this an episode of the release?")
    target = _read(folder / "target.json", dict)
    whole = {
        **told,
        "home": _read(folder / "initial_state.json", dict).get("home"),
        "target_device": target.get("device"),
        "goal": _read(folder / "goal.json", dict).get("goal"),
    }
    try:
        return msgspec.convert(whole, Profile)
    except msgspec.ValidationError as error:
        raise InputError(f"{folder}: {error}") from None


def import_episode(folder: str | Path, into: str | Path, *, report: bool = True) -> Episode:
    """Make an episode of a folder of a release, with its id, its session, its profile and its true times.

    The sound is that of the release, sample by sample; it is the original of the new episode. Raises
    InputError for a folder that is none or an episode that is there already, StorageError.
    """
    from recordings.audio_file import open_audio
    from recordings.finish import complete
    from recordings.timeline import write_timeline
    from recordings.video_read import remux
    from recordings.writer import create_folder

    folder = Path(folder)
    profile = read_profile(folder)
    observed = folder / "observations"
    sound = open_audio(observed / "foa.wav")
    if (sound.rate, sound.channels, sound.format) != (RELEASE_RATE_HZ, 4, "ambix"):
        raise InputError(f"{observed / 'foa.wav'}: is not 24 kHz AmbiX of 4 channels")
    clocks = _read(observed / "times.json", dict)
    audio = {"rate_hz": sound.rate, "channels": 4, "bits": sound.bits, "format": "ambix"}
    source = {"audio": audio, "release": folder.resolve().parent.parent.name}
    new = create_folder(Path(into), msgspec.structs.replace(profile, source=source))
    copy_exact(observed / "foa.wav", new / ORIGINALS / "foa.wav")
    lines = _lines(clocks, sound.frames, observed)
    for camera, times in clocks["frame_times_ns"].items():
        name = video_name("" if camera == "main" else camera)
        in_file = remux(observed / name, new / name)
        if len(in_file) != len(times):
            raise InputError(f"{observed / name}: {len(in_file)} pictures, times.json has {len(times)}")
        lines += [
            {
                "type": "frame",
                "t_ns": int(t_ns),
                "seq": index,
                "index": index,
                "pts_ms": round(in_ns / 1e6),
                "t_source": "container",
                "dropped": 0,
                **({} if camera == "main" else {"camera": camera}),
            }
            for index, (t_ns, in_ns) in enumerate(zip(times, in_file, strict=True))
        ]
    if (folder / TRUTH).is_file():
        with storage_errors(folder / TRUTH, "read"):
            write_atomic(new / TRUTH, (folder / TRUTH).read_bytes())
    write_timeline(new / TIMELINE, lines)
    return complete(new, report=report)


def _lines(clocks: dict[str, Any], frames: int, where: Path) -> list[dict[str, Any]]:
    """The timeline of the sound: an anchor, a block per 100 ms at its time, and the gaps."""
    lines: list[dict[str, Any]] = []
    pieces = clocks.get("sound")
    if not isinstance(pieces, list) or not pieces:
        raise InputError(f"{where / 'times.json'}: says nothing of the sound's time")
    offset = clocks.get("utc_minus_clock_ns")
    if offset is not None:
        lines.append({"type": "anchor", "t_ns": pieces[0]["t_ns"], "t_utc_ns": pieces[0]["t_ns"] + offset})
    lost_before = seq = 0
    for place, piece in enumerate(pieces):
        begin = round(piece["frame"]) if place else 0
        end = round(pieces[place + 1]["frame"]) if place + 1 < len(pieces) else frames
        lost = round(piece["lost_s"] * RELEASE_RATE_HZ)
        if lost:
            lines.append(
                {
                    "type": "gap",
                    "t_ns": piece["t_ns"],
                    "stream": "audio",
                    "cause": "of the episode that was released",
                    "lost_frames": lost,
                    "file_frame": begin,
                }
            )
            lost_before += lost
        step = round(_BLOCK_S * RELEASE_RATE_HZ)
        for at in range(begin, end, step):
            t_ns = piece["t_ns"] + round((at - piece["frame"]) * 1e9 / piece["rate_hz"])
            lines.append(
                {
                    "type": "audio",
                    "t_ns": t_ns,
                    "t_observed_ns": t_ns,
                    "seq": seq,
                    "first_frame": at + lost_before,
                    "frames": min(step, end - at),
                    "lost": lost if at == begin else 0,
                    "flags": ["imported"],
                    "file_frame": at,
                }
            )
            seq += 1
    return lines


def _read(path: Path, kind: type | None = None) -> Any:
    try:
        with storage_errors(path, "read"):
            value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    if kind is not None and not isinstance(value, kind):
        raise InputError(f"{path}: holds a {type(value).__name__}, not an object")
    return value
