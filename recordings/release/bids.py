"""Releases as a tree in the manner of BIDS, with recordings as the draft BEP047 has them (audio and video of
behaving subjects in `beh/`).

    dataset_description.json, README.md, participants.tsv, participants.json, scans.json, .bidsignore
    sub-<speaker>/ses-<session>/sub-.._ses-.._scans.tsv            each recording and when it began
    sub-<speaker>/ses-<session>/beh/sub-.._ses-.._task-request_acq-<id>_audio.wav, .json
                                        .._task-request_acq-<id>[_recording-<camera>]_video.mkv, .json
                                        .._task-request_acq-<id>_beh.tsv, .json    what was asked; the episode

BIDS labels have letters and digits only; the sidecars have the ids as they are. The standard as released has
no `_audio` and `_video` yet: `.bidsignore` names them, so that its validator looks at everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from recordings.episode import RELEASE, RELEASE_RATE_HZ, TIMELINE, video_name
from recordings.release.item import ReleaseItem
from recordings.release.options import ExportReport, Holds, ReleaseOptions
from recordings.release.tables import table, write_json, write_text

_TASK = "request"
_VERSION = "1.10.0"
_ASKED = {
    "request": "What was said",
    "speaker": "Id of the speaker",
    "grounding": "G0 speech, G1 gesture, G2 sound, G3 space, G4 user identity",
    "query": "Q1 state inquiry, Q2 explicit control, Q3 workflow scheduling, Q4 implicit intent",
    "feasibility": "feasible, or the kind of infeasibility",
    "difficulty": "easy, medium or hard, of feasible requests",
    "target_device": "Id of the device that is meant; n/a: there is none",
}


def export(
    items: Sequence[ReleaseItem], out: Path, options: ReleaseOptions, advance: Callable[[float], None]
) -> ExportReport:
    """See recordings.release.options.Exporter."""
    report = ExportReport(
        plain=["dataset_description.json", "participants.json", "scans.json", ".bidsignore"]
    )
    subjects = labels({item.participant or "unknown" for item in items})
    sessions = labels({item.recorded.session for item in items})
    episodes = labels({item.id for item in items})
    scans: dict[str, list[list[Any]]] = {}
    of_scans: dict[str, list[str]] = {}
    for item in items:
        sub = f"sub-{subjects[item.participant or 'unknown']}"
        ses = f"ses-{sessions[item.recorded.session]}"
        base = f"{sub}/{ses}/beh/{sub}_{ses}_task-{_TASK}_acq-{episodes[item.id]}"
        made = _write_item(item, out, base, report)
        name = f"{sub}/{ses}/{sub}_{ses}_scans.tsv"
        scans.setdefault(name, []).extend([f"beh/{Path(file).name}", when, item.id] for file, when in made)
        of_scans.setdefault(name, []).append(item.id)
        advance(1)
    for name, rows in scans.items():
        write_text(out / name, table([["filename", "acq_time", "episode"], *rows], "\t", "n/a"))
        report.holds += [Holds(name, item, of=("episode.yaml", TIMELINE)) for item in of_scans[name]]
    _write_participants(items, out, subjects, report)
    write_json(
        out / "scans.json",
        {"acq_time": {"Description": "When it began, UTC"}, "episode": {"Description": "Id of the episode"}},
    )
    write_json(
        out / "dataset_description.json",
        {
            "Name": options.name,
            "BIDSVersion": _VERSION,
            "DatasetType": "raw",
            **({"License": options.licence} if options.licence else {}),
            "GeneratedBy": [{"Name": "Hearth", "Description": "hearth export --to bids"}],
        },
    )
    ignored = (
        "**/*_audio.*",
        "**/*_video.*",
        "provenance.jsonl",
        "checksums.sha256",
        "release.json",
        "splits.json",
    )
    write_text(out / ".bidsignore", "".join(f"{pattern}\n" for pattern in ignored))
    report.facts = {"subjects": len(subjects), "sessions": len(sessions)}
    return report


def _write_item(
    item: ReleaseItem, out: Path, base: str, report: ExportReport
) -> list[tuple[str, str | None]]:
    """Writes an episode's files; gives the recordings with their time in UTC."""
    told = item.description()
    clocks = told["clocks"]
    offset = clocks["utc_minus_clock_ns"]
    start = clocks["sound"][0]["t_ns"]
    sound = item.write_sound(out / f"{base}_audio.wav")
    if sound.clipped:
        report.clipped[item.id] = sound.clipped
    report.holds.append(Holds(f"{base}_audio.wav", item.id, of=(RELEASE,), sha256=sound.sha256))
    rows: list[tuple[str, str | None]] = [(f"{base}_audio.wav", _utc(start, offset))]
    _sidecar(
        item,
        out,
        f"{base}_audio.json",
        {
            "TaskName": _TASK,
            "RecordingDuration": round(sound.frames / RELEASE_RATE_HZ, 6),
            "SamplingFrequency": RELEASE_RATE_HZ,
            "AudioSampleRate": RELEASE_RATE_HZ,
            "AudioChannelCount": 4,
            "AudioChannels": ["W", "Y", "Z", "X"],
            "AudioChannelScale": "SN3D",
            "AudioSampleType": sound.sample_type,
            "ClippedSamples": sound.clipped,
            "VoiceSafe": sound.voice_safe,
            "Clock": {key: clocks[key] for key in ("unit", "utc_minus_clock_ns", "sound")},
        },
        report,
    )
    for camera in item.cameras:
        recording = f"_recording-{label(camera)}" if camera else ""
        name = f"{base}{recording}_video"
        video = item.write_video(out / f"{name}.mkv", camera)
        made_of = (video_name(camera),)
        report.holds.append(Holds(f"{name}.mkv", item.id, of=made_of, sha256=video.sha256))
        times = clocks["frame_times_ns"][camera or "main"]
        rows.append((f"{name}.mkv", _utc(times[0], offset)))
        length_s = (times[-1] - times[0]) * 1e-9
        _sidecar(
            item,
            out,
            f"{name}.json",
            {
                "TaskName": _TASK,
                "RecordingDuration": round(length_s, 6),
                "FrameRate": round((len(times) - 1) / length_s, 6) if length_s > 0 else None,
                "VideoCodec": video.codec,
                "ImageWidth": video.width_px,
                "ImageHeight": video.height_px,
                "FrameCount": video.frames,
                "FacesBlurred": video.blurred,
                "StartAfterSound": round((times[0] - start) * 1e-9, 9),
                "FrameTimes": times,
            },
            report,
        )
    profile = told["profile"]
    columns = list(_ASKED)
    write_text(out / f"{base}_beh.tsv", table([columns, [profile[key] for key in columns]], "\t", "n/a"))
    report.holds.append(Holds(f"{base}_beh.tsv", item.id, of=("episode.yaml",)))
    about = {key: {"Description": text} for key, text in _ASKED.items()}
    whole = {key: told[key] for key in told if key != "clocks"}
    _sidecar(item, out, f"{base}_beh.json", {"TaskName": _TASK, **about, "Episode": whole}, report)
    return rows


def _sidecar(item: ReleaseItem, out: Path, name: str, value: dict[str, Any], report: ExportReport) -> None:
    write_json(out / name, value)
    report.holds.append(Holds(name, item.id, of=("episode.yaml", TIMELINE)))


def _write_participants(
    items: Sequence[ReleaseItem], out: Path, subjects: dict[str, str], report: ExportReport
) -> None:
    rows = []
    for person, sub in sorted(subjects.items(), key=lambda pair: pair[1]):
        own = [item for item in items if (item.participant or "unknown") == person]
        rows.append([f"sub-{sub}", person, ",".join(sorted({item.split for item in own}))])
        # The label, so that a withdrawal takes the row out when the person's last episode goes.
        report.holds += [
            Holds("participants.tsv", item.id, of=("episode.yaml",), labels=(f"sub-{sub}",)) for item in own
        ]
    write_text(out / "participants.tsv", table([["participant_id", "speaker", "split"], *rows], "\t", "n/a"))
    write_json(
        out / "participants.json",
        {
            "speaker": {"Description": "Id of the speaker in the profiles of the episodes"},
            "split": {"Description": "train, val, test; all: the release is not split"},
        },
    )


def label(text: str) -> str:
    """A BIDS label: letters and digits only; "x" when nothing is left."""
    return re.sub(r"[^A-Za-z0-9]+", "", text) or "x"


def labels(names: Iterable[str]) -> dict[str, str]:
    """name -> label, each once: those that would be the same (also without regard to case, as on some file
    systems) get a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names):
        base = short = label(name)
        number = 2
        while short.lower() in taken:
            short, number = f"{base}x{number}", number + 1
        taken.add(short.lower())
        found[name] = short
    return found


def _utc(t_ns: int, offset: int | None) -> str | None:
    """ISO 8601 with microseconds, as BIDS has acq_time; None when the wall clock is not known."""
    if offset is None:
        return None
    seconds, rest = divmod(t_ns + offset, 10**9)
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"


def readme(items: Sequence[ReleaseItem], report: ExportReport) -> str:
    """The format's part of README.md."""
    return (
        "A tree in the manner of BIDS: one subject per speaker, recordings in `beh/` as the draft BEP047\n"
        "has them (`_audio.wav`, `_video.mkv`, each with a JSON sidecar), `_beh.tsv` with the request,\n"
        "`_beh.json` with the episode's profile and geometry, `_scans.tsv` with the time of each recording\n"
        "in UTC. The sidecars hold the true times in ns (`Clock`, `FrameTimes`). BIDS as released has no\n"
        "`_audio` and `_video`:\n"
        "`.bidsignore` names them.\n"
    )
