"""An SD-card take of the recorder, with or without a video file, becomes an episode.

The sound file is copied byte for byte. Its channel order comes from its tags or from the user, never from a
guess; when they disagree the import stops. Times count from the first audio frame; the recorder's own clock
(1 s steps, free running) gives the anchor to UTC, flagged with its uncertainty.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dsp.errors import InputError
from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES, AudioFile, open_audio
from recordings.calibrated import OF_THE_RIG, Calibrations, read_folder
from recordings.episode import ORIGINALS, TIMELINE, VIDEO, Episode
from recordings.finish import complete, release_blocks
from recordings.join import JoinPlan, copy_without_start, is_wav, plan_join
from recordings.profile import Profile, check_fields
from recordings.storage import copy_exact, sha256_file, write_atomic
from recordings.timeline import Line, write_timeline
from recordings.wav_tags import TRACKS
from recordings.writer import create_folder, new_episode_id

if TYPE_CHECKING:
    from recordings.video_read import VideoSummary


def import_take(
    wav_path: str | Path | Sequence[str | Path],
    video_path: str | Path | None,
    root: str | Path,
    format: str | None = None,
    *,
    session: str = "imported",
    name: str | None = None,
    video_offset_s: float | None = None,
    profile_fields: dict[str, Any] | None = None,
    calibration: str | Path | None = None,
    report: bool = True,
) -> Episode:
    """Make an episode below <root>/<session>/ out of a take; gives it finished.

    wav_path: one sound file, or the parts of a split one, joined as recordings.join says. format: one of
    dsp.FORMATS, needed when the tags do not say. video_offset_s: time of the first picture after the first
    audio frame; when it is not given it is found with the video's own sound (recordings.align), and when that
    says nothing it is taken as 0 and flagged. calibration: folder with the results that hold for the take
    (`recordings.calibrated`); the episode carries copies.
    profile_fields: any of Profile's that are known (speaker, request, consent, ...).
    A refused or failed import leaves nothing behind; the files given are never touched.
    Raises InputError (unknown, contradicted or wrong format, unreadable file, overlap), StorageError.
    """
    plan = plan_join([wav_path] if isinstance(wav_path, str | Path) else wav_path)
    paths = plan.paths
    source = open_audio(paths)
    format_name = decide_format(source, format)
    if source.frames == 0:
        raise InputError(
            f"{paths[0]}: holds no sound frame ({'; '.join(source.problems) or 'empty data chunk'})"
        )
    if video_offset_s is not None and not abs(video_offset_s) <= 86400:
        raise InputError(f"the video's offset must be seconds within a day, not {video_offset_s!r}")
    names = _copy_names(plan)
    calibrations = Calibrations()
    if calibration is not None:
        calibrations = read_folder(Path(calibration))
        if not calibrations:
            raise InputError(f"{calibration}: holds no calibration result ({', '.join(OF_THE_RIG)}.json)")
        calibrations.correction(format_name)  # one for another format is refused here
    next(release_blocks(source, format_name), None)  # a rate that cannot be resampled is refused here
    if video_path is not None and not _summary_of(Path(video_path)).times_ns:
        raise InputError(f"{video_path}: holds no readable picture")
    started = recorder_time(source)
    when = started or datetime.now().astimezone().replace(tzinfo=None)
    profile = Profile(
        id=new_episode_id(name or paths[0].stem, when),
        session=session,
        created_utc=_utc(when),
        origin="imported",
        source={
            "audio": {
                "rate_hz": source.rate,
                "channels": source.channels,
                "bits": source.bits,
                "format": format_name,
                "format_from": "tags" if source.format else "given",
                "tracks": list(source.tracks),
            },
            "files": [],
            "recorder_time": _time_note(started, paths[0]),
        },
    )
    check_fields({"session": session, **(profile_fields or {})})
    if profile_fields:
        profile = msgspec.convert(
            msgspec.to_builtins(msgspec.structs.replace(profile, **profile_fields)), Profile
        )
    if (Path(root) / profile.session / profile.id).exists():
        raise InputError(
            f"{Path(root) / profile.session / profile.id} exists already: this take was imported before, or"
            " another one of the same name and time; give this one another --name (or another --session)"
        )
    with _nothing_left_behind(Path(root) / profile.session):
        folder = create_folder(Path(root), profile)
        try:
            calibrations.keep(partial(_keep, folder))
            return _fill(folder, profile, plan, names, source, started, video_path, video_offset_s, report)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # only copies: the originals are where they were
            raise


@contextmanager
def _nothing_left_behind(session: Path) -> Iterator[None]:
    """When the body fails, remove the folders above the episode that were not there before."""
    new = [path for path in (session, *session.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):  # somebody else's episode may be in it by now
                path.rmdir()
        raise


def _keep(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / name, data)


def _summary_of(video: Path) -> VideoSummary:
    from recordings import video_read

    return video_read.summarise(video)


def _copy_names(plan: JoinPlan) -> list[str]:
    """Names of the copies, which sort in the order of the take. InputError for a part that cannot be cut."""
    for part, skip in zip(plan.parts, plan.skips, strict=True):
        if skip and not is_wav(part):
            raise InputError(f"{part.paths[0]} overlaps the part before it; only WAV is cut: decode it first")
    names = [copy_name(path) for path in plan.paths]
    in_order = sorted(set(names)) == names
    return names if in_order else [f"part{i:02d}_{name}" for i, name in enumerate(names, 1)]


def copy_name(path: Path) -> str:
    """The name of the copy in the episode: valid UTF-8, not hidden, with a suffix that says what it holds."""
    name = _printable(path.name).lstrip(".") or "take"
    if Path(name).suffix.lower() in WAV_SUFFIXES | OTHER_SUFFIXES:
        return name
    with open(path, "rb") as file:
        head = file.read(12)
    if head[8:] == b"WAVE":
        return f"{name}.wav"
    import soundfile

    kind = str(soundfile.info(path).format).lower()
    if f".{kind}" not in OTHER_SUFFIXES:
        raise InputError(f"{path}: its suffix names no kind of sound; call it .{kind} or convert to WAV")
    return f"{name}.{kind}"


def _printable(name: str) -> str:
    """Bytes of a file name that are not UTF-8 become "_": neither JSON nor YAML can hold them."""
    return re.sub("[\ud800-\udfff]", "_", name)


def decide_format(source: AudioFile, given: str | None) -> str:
    """The format of a take from its tags and from what the user says; never a default.

    Raises InputError when neither says, when they contradict, or when it cannot be first-order ambisonics.
    """
    where = source.paths[0]
    known = ", ".join(TRACKS)
    if given is not None and given not in TRACKS:
        raise InputError(f"format {given!r} is unknown; one of {known}")
    if source.channels != 4:
        raise InputError(
            f"{where}: {source.channels} channels; first-order ambisonics has 4. An H3-VR gives 2 when it is"
            " set to stereo: on the recorder choose Menu > Ambisonic Mode"
        )
    contradiction = next((text for text in source.problems if "contradict each other" in text), None)
    if contradiction:
        raise InputError(f"{where}: {contradiction}; correct the tags before importing")
    tagged = source.format
    if tagged is None and given is None:
        tracks = (
            f"its tracks are called {', '.join(source.tracks)}" if source.tracks else "it has no track names"
        )
        raise InputError(
            f"{where}: its channel order is unknown ({tracks}). Say it with --format (one of {known}); the"
            " H3-VR shows it under Menu > Ambisonic Mode. A wrong order looks like data, so it is not guessed"
        )
    if tagged is None:
        return str(given)
    # W, Y, Z, X names the order but not the normalisation: a user who knows that it is N3D may say so.
    says_sn3d = source.bext is not None and "hFORMAT" in source.bext.description
    if given is None or given == tagged or (tagged == "ambix" and given == "n3d" and not says_sn3d):
        return given or tagged
    raise InputError(
        f"{where}: --format {given} contradicts the file's tags, which say {tagged}"
        f" ({', '.join(source.tracks)}). Leave --format out, or correct the tags if they are wrong"
    )


def recorder_time(source: AudioFile) -> datetime | None:
    """The time of the first frame by the recorder's own clock (no zone); from bext, else None."""
    return source.bext.local_time if source.bext else None


def _utc(local: datetime) -> str:
    return local.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time_note(started: datetime | None, path: Path) -> dict[str, Any]:
    if started is None:
        return {
            "local": None,
            "note": "the file does not say when it was recorded; created_utc is the import's time",
        }
    known: dict[str, Any] = {
        "local": started.isoformat(),
        "uncertainty_s": 1.0,
        "time_zone": "assumed: that of the computer that imported it",
    }
    # H3-VR names are YYMMDD_NNN: a date and a take counter, not a time.
    name = re.fullmatch(r"(\d{6})_(\d{3})(?:\D.*)?", path.stem)
    if name:
        known["take"] = int(name.group(2))
        if name.group(1) != started.strftime("%y%m%d"):
            known["warning"] = f"the file name says {name.group(1)}, its bext chunk {started:%y%m%d}"
    return known


def _fill(
    folder: Path,
    profile: Profile,
    plan: JoinPlan,
    names: list[str],
    source: AudioFile,
    started: datetime | None,
    video_path: str | Path | None,
    video_offset_s: float | None,
    report: bool,
) -> Episode:
    from recordings.profile import profile_to_yaml

    files = []
    for path, name, skip in zip(plan.paths, names, plan.skips, strict=True):
        about: dict[str, Any] = {"name": name, "bytes": path.stat().st_size}
        if skip:
            copy_without_start(path, folder / ORIGINALS / name, skip)
            about.update(sha256=sha256_file(path), left_out_frames=skip)
        else:
            about["sha256"] = copy_exact(path, folder / ORIGINALS / name)
        if name != path.name:
            about["called_before"] = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        files.append(about)
    kept = [open_audio(folder / ORIGINALS / name) for name in names]
    lines = _sound_lines(kept, plan, started)
    described = {**profile.source, "files": files}
    if plan.joints:
        described["joints"] = [joint.to_dict() for joint in plan.joints]
    if plan.notes:
        described["notes"] = list(plan.notes)
    if video_path is not None:
        frames, video = _import_video(Path(video_path), folder, video_offset_s, _before_gaps(kept, plan))
        lines += frames
        described["video"] = video
    profile = msgspec.structs.replace(profile, source=described)
    write_atomic(folder / "episode.yaml", profile_to_yaml(profile).encode())
    write_timeline(folder / TIMELINE, lines)
    return complete(folder, report=report)


def _before_gaps(kept: list[AudioFile], plan: JoinPlan) -> AudioFile:
    """The sound up to the first hole: behind it frames are no longer times."""
    whole = next((i for i, joint in enumerate(plan.joints, 1) if joint.gap_frames), len(kept))
    return open_audio([file.paths[0] for file in kept[:whole]])


def _sound_lines(kept: list[AudioFile], plan: JoinPlan, started: datetime | None) -> list[Line]:
    lines: list[Line] = []
    if started is not None:
        utc_ns = round(started.astimezone(timezone.utc).timestamp()) * 10**9
        lines.append(
            {
                "type": "anchor",
                "t_ns": 0,
                "t_utc_ns": utc_ns,
                "uncertainty_ns": 10**9,
                "source": "recorder clock",
            }
        )
    first = missing = 0
    for seq, file in enumerate(kept):
        lost = plan.joints[seq - 1].gap_frames if seq else 0
        if lost:
            lines.append(
                {
                    "type": "gap",
                    "t_ns": round((first + missing) * 1e9 / file.rate),
                    "stream": "audio",
                    "cause": "missing between two parts of the take, by their time references",
                    "lost_frames": lost,
                    "file_frame": first,
                }
            )
            missing += lost
        t_ns = round((first + missing) * 1e9 / file.rate)
        lines.append(
            {
                "type": "audio",
                "t_ns": t_ns,
                "t_observed_ns": t_ns,
                "seq": seq,
                "first_frame": first + missing,
                "frames": file.frames,
                "lost": lost,
                "flags": ["imported"],
                "file_frame": first,
            }
        )
        first += file.frames
    return lines


def _import_video(
    path: Path, folder: Path, offset_s: float | None, sound: AudioFile
) -> tuple[list[Line], dict[str, Any]]:
    """Copy the pictures, as they are coded, into video.mkv; their times come from the container,
    moved onto the clock of the sound where the video's own sound tells how."""
    from recordings import video_read

    summary = video_read.summarise(path)
    times = video_read.remux(path, folder / VIDEO)
    if not times:
        raise InputError(f"{path}: holds no picture")
    placed: dict[str, Any] = {"offset_s": offset_s, "alignment": "given"}
    if offset_s is None:
        placed = _measured(path, summary.times_ns[0], sound)
    start_ns = round((placed["offset_s"] or 0.0) * 1e9)
    speed = 1.0 / (1.0 + placed.get("drift_ppm", 0.0) * 1e-6)
    lines = [
        {
            "type": "frame",
            "t_ns": start_ns + times[0] + round((t - times[0]) * speed),
            "seq": index,
            "index": index,
            "pts_ms": round((t - times[0]) / 1e6),
            "t_source": "container",
            "dropped": 0,
        }
        for index, t in enumerate(times)
    ]
    video = {
        "file": _printable(path.name),
        "sha256": sha256_file(path),
        "codec": summary.codec,
        "width_px": summary.width_px,
        "height_px": summary.height_px,
        **placed,
    }
    return lines, video


def _measured(path: Path, first_picture_ns: int, sound: AudioFile) -> dict[str, Any]:
    """Where the first picture lies on the clock of the sound, by the video's own sound track."""
    from recordings.align import align_recordings
    from recordings.sound_track import SoundTrack, has_sound

    unknown = "unknown: both files are taken to start together"
    if not has_sound(path):
        return {"offset_s": None, "alignment": unknown}
    try:
        with SoundTrack(path, first_picture_ns) as track:
            found = align_recordings(sound, track)
            start_s = track.start_s
    except InputError as error:
        return {"offset_s": None, "alignment": f"{unknown}; {error}"}
    about = {"verdict": found.verdict, "runner_up_ratio": found.runner_up_ratio, "text": found.text}
    if found.offset_s is None:
        return {"offset_s": None, "alignment": f"{unknown}; {found.text}", "by_sound": about}
    return {
        "offset_s": round(float(found.reference_time(-start_s)), 6),
        "alignment": "measured",
        "drift_ppm": round(found.drift_ppm or 0.0, 3),
        "offset_sigma_s": round(found.offset_sigma_s or 0.0, 6),
        "drift_sigma_ppm": round(found.drift_sigma_ppm or 0.0, 3),
        "by_sound": about,
    }
