"""The command `hearth import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dsp.errors import InputError
from recordings.profile_options import (
    FeasibilityKind,
    GroundingKind,
    Notes,
    QueryKind,
    Recording,
    Request,
    Sharing,
    Speaker,
    Target,
    profile_fields,
)
from recordings.terminal import counted, emit, progress

_VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v"})


def import_(
    sounds: Annotated[
        list[Path],
        typer.Argument(
            metavar="WAV... [VIDEO] | FOLDER",
            help="a take, or the parts of one, then its video file; or a folder with any number of takes",
        ),
    ],
    video: Annotated[
        Path | None, typer.Option(help="video file of the same take, when it is not the last argument")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="channel order when the tags do not say: ambix, fuma, n3d, a or a2"),
    ] = None,
    into: Annotated[Path, typer.Option(help="data folder")] = Path("data"),
    session: Annotated[str, typer.Option(help="session that the episode belongs to")] = "imported",
    name: Annotated[str | None, typer.Option(help="name of the episode; default: the file's")] = None,
    video_offset_s: Annotated[
        float | None,
        typer.Option(help="first picture after the first sound; default: by the video's own sound"),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="folder with camera.json, pose.json, ... that hold for the take")
    ] = None,
    camera_clock_s: Annotated[
        float, typer.Option(help="of a folder: how far the camera's clock is ahead of the recorder's")
    ] = 0.0,
    request: Request = None,
    grounding: GroundingKind = None,
    query: QueryKind = None,
    feasibility: FeasibilityKind = None,
    speaker: Speaker = None,
    target: Target = None,
    consent: Recording = None,
    sharing: Sharing = None,
    notes: Notes = None,
    report_page: Annotated[bool, typer.Option("--report/--no-report", help="make report.html")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Make an episode of an SD-card take (H3-VR WAV, FLAC, Ogg) and its video, or of each in a folder."""
    from recordings.importer import import_take

    fields = profile_fields(
        request=request,
        grounding=grounding,
        query=query,
        feasibility=feasibility,
        speaker=speaker,
        target=target,
        consent=consent,
        sharing=sharing,
        notes=notes,
    )
    if any(path.is_dir() for path in sounds):
        from recordings.import_folder import refuse_single
        from recordings.import_folder_command import run

        if len(sounds) > 1:
            raise InputError("give one folder, or the files of one take")
        refuse_single(sounds[0], video=video, name=name, video_offset_s=video_offset_s)
        run(sounds[0], into, format_name, session, calibration, camera_clock_s, fields, report_page, as_json)
        return

    if video is None and len(sounds) > 1 and sounds[-1].suffix.lower() in _VIDEO_SUFFIXES:
        *sounds, video = sounds
    with progress("importing"):
        episode = import_take(
            sounds,
            video,
            into,
            format_name,
            session=session,
            name=name,
            video_offset_s=video_offset_s,
            profile_fields=fields,
            calibration=calibration,
            report=report_page,
        )
    pictures = episode.profile.source.get("video")
    alignment = str(pictures["alignment"]).partition(":")[0] if isinstance(pictures, dict) else None
    result = {
        "episode": str(episode.path),
        "format": episode.format,
        "rate_hz": episode.original.rate,
        "bits": episode.original.bits,
        "duration_s": round(episode.duration_s, 6),
        "pictures": len(episode.frame_times()),
        "video_alignment": alignment,
        "video_offset_s": pictures["offset_s"] if isinstance(pictures, dict) else None,
        "video_offset_sigma_s": pictures.get("offset_sigma_s") if isinstance(pictures, dict) else None,
        "video_drift_ppm": pictures.get("drift_ppm") if isinstance(pictures, dict) else None,
        "sound_ok": episode.checks["sound"]["ok"],
        "recorder_time": episode.profile.source["recorder_time"],
        "problems": episode.original.problems,
    }
    text = [
        f"{episode.path}",
        f"  {result['duration_s']:.1f} s, {result['format']}, {result['rate_hz']} Hz,"
        f" {str(result['bits']) + ' bits' if result['bits'] else 'compressed'},"
        f" {counted(len(episode.frame_times()), 'picture')};"
        f" sound {'ok' if result['sound_ok'] else 'has faults: hearth check'}",
        *[f"  note: {problem}" for problem in episode.original.problems],
    ]
    if isinstance(pictures, dict) and alignment == "unknown":
        why = str(pictures["alignment"]).partition("; ")[2]
        text.append(
            "  note: how the pictures lie against the sound is not known; both are taken to start together."
            f" {why + '. ' if why else ''}Give --video-offset-s when you know it"
        )
    if isinstance(pictures, dict) and alignment == "measured":
        text.append(
            f"  the first picture is {pictures['offset_s']:+.4f} s after the first sound, its clock"
            f" {pictures['drift_ppm']:+.1f} ppm fast, by the video's sound: {pictures['by_sound']['text']}"
        )
    emit(result, as_json, text)
