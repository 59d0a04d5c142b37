"""An SD-card take of the recorder, with or without a video file, becomes an episode.

The sound file is copied byte for byte. Its channel order comes from its tags or from the user, never from a
guess; when they disagree the import stops. Times count from the first audio frame; the recorder's own clock
(1 s steps, free running) gives the anchor to UTC, flagged with its uncertainty.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dsp.errors import InputError
from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES, AudioFile, open_audio
from recordings.episode import ORIGINALS, TIMELINE, VIDEO, Episode
from recordings.finish import complete, release_blocks
from recordings.profile import Profile, check_fields
from recordings.storage import copy_exact, sha256_file
from recordings.timeline import Line, TimelineWriter
from recordings.wav_tags import TRACKS
from recordings.writer import create_folder, new_episode_id

if TYPE_CHECKING:
    from recordings.video_read import VideoSummary

_OVERLAP_SEARCH_S = 5.0  # how far from the end of one part the start of the next is looked for
_JOINT_S = 2.0  # two clock readings of 1 s steps, and what a split itself may take
_OVERLAP_PROBE = 256  # frames that must agree exactly


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
    report: bool = True,
) -> Episode:
    """Make an episode below <root>/<session>/ out of a take; gives it finished.

    wav_path: one sound file, or the parts of a split one; parts are joined in the order of their names, and
    refused when they seem to overlap. format: one of dsp.FORMATS, needed when the tags do not say.
    video_offset_s: time of the first picture after the first audio frame; unknown is taken as 0 and flagged.
    A refused or failed import leaves nothing behind; the files given are never touched.
    Raises InputError (unknown, contradicted or wrong format, unreadable file, overlap), StorageError.
    """
    paths = (
        [Path(wav_path)]
        if isinstance(wav_path, str | Path)
        else sorted((Path(p) for p in wav_path), key=_name)
    )
    source = open_audio(paths)
    format_name = decide_format(source, format)
    if source.frames == 0:
        raise InputError(
            f"{paths[0]}: holds no sound frame ({'; '.join(source.problems) or 'empty data chunk'})"
        )
    if video_offset_s is not None and not abs(video_offset_s) <= 86400:
        raise InputError(f"the video's offset must be seconds within a day, not {video_offset_s!r}")
    joints = _check_joints(paths) if len(paths) > 1 else []
    copies = [copy_name(path) for path in paths]
    if sorted(set(copies)) != copies:
        raise InputError(
            f"the parts would be kept as {', '.join(copies)}, which is not their order; give them plain names"
            " that sort in the order of the take"
        )
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
    if profile_fields:
        profile = msgspec.convert(
            msgspec.to_builtins(msgspec.structs.replace(profile, **profile_fields)), Profile
        )
    check_fields({"session": session})
    if (Path(root) / profile.session / profile.id).exists():
        raise InputError(
            f"{Path(root) / profile.session / profile.id} exists already: this take was imported before, or"
            " another one of the same name and time; give this one another --name (or another --session)"
        )
    with _nothing_left_behind(Path(root) / profile.session):
        folder = create_folder(Path(root), profile)
        try:
            return _fill(folder, profile, paths, source, joints, started, video_path, video_offset_s, report)
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


def _summary_of(video: Path) -> VideoSummary:
    from recordings import video_read

    return video_read.summarise(video)


def _name(path: Path) -> str:
    return path.name


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


def _check_joints(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Refuse parts that overlap or are no parts of one take; gives what is known about each joint."""
    files = [open_audio(path) for path in paths]
    joints = []
    for before, after in itertools.pairwise(files):
        names = f"{_printable(before.paths[0].name)} and {_printable(after.paths[0].name)}"
        found = find_overlap(before, after)
        if found:
            raise InputError(
                f"{names} overlap by {found} frames ({found / before.rate:.3f} s): joining them would double"
                " that sound. Overlapping parts are not joined yet; import them one by one"
            )
        step = None
        if before.bext and after.bext and before.bext.time_reference and after.bext.time_reference:
            step = after.bext.time_reference - before.bext.time_reference - before.frames
            # A recorder that knows whole seconds only may be a second off without any overlap.
            whole_seconds = not (
                before.bext.time_reference % before.rate or after.bext.time_reference % after.rate
            )
            if step < (-after.rate if whole_seconds else 0) and after.bext.date == before.bext.date:
                raise InputError(
                    f"{names} seem to overlap: by their time references the second starts {-step} frames"
                    " before the first ends. Overlapping parts are not joined yet; import them one by one"
                )
        gap_s = _gap_s(before, after)
        if not any(abs(gap) <= _JOINT_S for gap in gap_s):
            known = "no time in both of them says that one continues the other"
            if gap_s:
                known = f"by their times the second starts {gap_s[0]:.1f} s after the first ends"
            raise InputError(f"{names} do not seem to be parts of one take: {known}; import them one by one")
        joints.append({"between": names, "time_reference_gap_frames": step})
    return joints


def _gap_s(before: AudioFile, after: AudioFile) -> list[float]:
    """Seconds from the end of one part to the start of the next, by each clock that both parts tell."""
    a, b = before.bext, after.bext
    gaps: list[float] = []
    if a is None or b is None:
        return gaps
    if a.local_time and b.local_time:
        gaps.append((b.local_time - a.local_time).total_seconds() - before.duration_s)
    if a.time_reference and b.time_reference and a.date == b.date:
        gaps.append((b.time_reference - a.time_reference) / before.rate - before.duration_s)
    return gaps


def find_overlap(before: AudioFile, after: AudioFile) -> int:
    """Frames at the end of `before` that the start of `after` repeats; 0 for none or silence."""
    tail = before.read(max(before.frames - round(_OVERLAP_SEARCH_S * before.rate), 0))
    head = after.read(0, len(tail))
    probe = head[:_OVERLAP_PROBE]
    if len(probe) < _OVERLAP_PROBE or len(tail) < _OVERLAP_PROBE or not np.ptp(probe, axis=0).any():
        return 0
    candidates = np.flatnonzero((tail[: len(tail) - _OVERLAP_PROBE + 1] == probe[0]).all(axis=1))
    for start in candidates:
        length = len(tail) - int(start)
        if np.array_equal(tail[start:], head[:length]):
            return length
    return 0


def _fill(
    folder: Path,
    profile: Profile,
    paths: Sequence[Path],
    source: AudioFile,
    joints: list[dict[str, Any]],
    started: datetime | None,
    video_path: str | Path | None,
    video_offset_s: float | None,
    report: bool,
) -> Episode:
    from recordings.profile import profile_to_yaml
    from recordings.storage import write_atomic

    files = []
    for path in paths:
        name = copy_name(path)
        digest = copy_exact(path, folder / ORIGINALS / name)
        about = {"name": name, "bytes": path.stat().st_size, "sha256": digest}
        if name != path.name:
            about["called_before"] = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        files.append(about)
    lines = _sound_lines(folder, source, started)
    described = {**profile.source, "files": files}
    if joints:
        described["joints"] = joints
    if video_path is not None:
        frames, video = _import_video(Path(video_path), folder, video_offset_s)
        lines += frames
        described["video"] = video
    profile = msgspec.structs.replace(profile, source=described)
    write_atomic(folder / "episode.yaml", profile_to_yaml(profile).encode())
    timeline = TimelineWriter(folder / TIMELINE)
    try:
        for line in lines:
            timeline.add(line)
    finally:
        timeline.close()
    return complete(folder, report=report)


def _sound_lines(folder: Path, source: AudioFile, started: datetime | None) -> list[Line]:
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
    first = 0
    for seq, path in enumerate(source.paths):
        frames = open_audio(folder / ORIGINALS / copy_name(path)).frames
        t_ns = round(first * 1e9 / source.rate)
        lines.append(
            {
                "type": "audio",
                "t_ns": t_ns,
                "t_observed_ns": t_ns,
                "seq": seq,
                "first_frame": first,
                "frames": frames,
                "lost": 0,
                "flags": ["imported"],
                "file_frame": first,
            }
        )
        first += frames
    return lines


def _import_video(path: Path, folder: Path, offset_s: float | None) -> tuple[list[Line], dict[str, Any]]:
    """Copy the pictures, as they are coded, into video.mkv; their times come from the container."""
    from recordings import video_read

    summary = video_read.summarise(path)
    times = video_read.remux(path, folder / VIDEO)
    if not times:
        raise InputError(f"{path}: holds no picture")
    start_ns = round((offset_s or 0.0) * 1e9)
    lines = [
        {
            "type": "frame",
            "t_ns": start_ns + t,
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
        "offset_s": offset_s,
        "alignment": "given" if offset_s is not None else "unknown: both files are taken to start together",
    }
    return lines, video
