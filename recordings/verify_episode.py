"""Is a finished episode exactly what was finished, and do its parts agree with each other?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsp.errors import HearthError, InputError
from recordings.audio_file import open_audio
from recordings.episode import (
    CHECKS,
    ORIGINALS,
    RELEASE,
    RELEASE_RATE_HZ,
    TIMELINE,
    Episode,
    frame_lines,
    video_name,
)
from recordings.manifest import files_of, read_manifest
from recordings.marker import MARKER, episodes_below, is_episode, state_of
from recordings.problem import Problem as Problem
from recordings.storage import sha256_file
from recordings.terminal import counted


@dataclass(frozen=True)
class VerifyReport:
    """ok: no problem. `notes` are facts worth knowing that are no faults, such as recorded gaps."""

    path: Path
    state: str
    ok: bool
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    files: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "episode": str(self.path),
            "state": self.state,
            "ok": self.ok,
            "files": self.files,
            "problems": [{"code": p.code, "path": p.path, "message": p.message} for p in self.problems],
            "notes": list(self.notes),
        }


def verify(path: str | Path) -> VerifyReport:
    """Check schema, manifest hashes, unexpected and missing files, and that lengths agree.

    Raises InputError only when `path` is no episode folder at all.
    """
    path = Path(path)
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; give the folder of an episode")
    if not is_episode(path):
        inside = episodes_below(path)
        if inside:
            raise InputError(
                f"{path}: is no episode but holds {counted(len(inside), 'episode')}; give the episodes, e.g."
                f" `hearth verify {inside[0].parent}/*/`"
            )
        raise InputError(
            f"{path}: is not an episode (no episode.yaml, no manifest); give <root>/<session>/<episode>"
        )
    state = state_of(path)
    problems: list[Problem] = []
    notes: list[str] = []
    files = 0
    if state != "finished":
        problems.append(Problem("not_finished", f"the episode is {state}; {_advice(state)}", MARKER))
    else:
        files = _check_manifest(path, problems)
    try:
        episode = Episode.open(path)
    except HearthError as error:
        problems.append(Problem("profile", str(error), "episode.yaml"))
    else:
        if state == "finished":
            _check_lengths(episode, problems, notes)
            if episode.profile.id != path.name:
                notes.append(f"the folder is called {path.name}, the episode {episode.profile.id}")
    return VerifyReport(path, state, not problems, tuple(problems), tuple(notes), files)


def _advice(state: str) -> str:
    return "wait until it is finished" if state == "recording" else "`hearth repair` can finish it"


def _check_manifest(path: Path, problems: list[Problem]) -> int:
    try:
        listed = read_manifest(path)
    except HearthError as error:
        problems.append(Problem("manifest", str(error), "manifest.json"))
        return 0
    present = set(files_of(path))
    for name in sorted(set(listed) - present):
        problems.append(Problem("missing", "is in the manifest but not on disk", name))
    for name in sorted(present - set(listed)):
        problems.append(Problem("unexpected", "is on disk but not in the manifest", name))
    for name in sorted(present & set(listed)):
        try:
            size = (path / name).stat().st_size
            if size != listed[name]["bytes"]:
                problems.append(
                    Problem("size", f"has {size} bytes, the manifest says {listed[name]['bytes']}", name)
                )
            elif sha256_file(path / name) != listed[name]["sha256"]:
                problems.append(Problem("hash", "its content changed since the episode was finished", name))
        except OSError as error:
            problems.append(Problem("unreadable", f"cannot be read: {error.strerror}", name))
    return len(listed)


def _check_lengths(episode: Episode, problems: list[Problem], notes: list[str]) -> None:
    timeline = None
    try:
        timeline = episode.timeline_file
    except HearthError as error:
        problems.append(Problem("timeline", str(error), TIMELINE))
    if timeline is not None:
        if not timeline.lines:
            problems.append(Problem("timeline", "is missing or has no line", TIMELINE))
        if timeline.torn_bytes:
            problems.append(
                Problem("timeline", f"its last line is torn ({timeline.torn_bytes} bytes)", TIMELINE)
            )
        problems.extend(Problem("timeline", text, TIMELINE) for text in timeline.problems)
    lines = timeline.lines if timeline else []
    _check_audio(episode, lines, problems, notes)
    named = {str(line.get("camera", "")) for line in lines if line["type"] == "frame"}
    for camera in sorted(named | set(episode.cameras)):
        _check_video(episode, lines, camera, problems)
    try:
        json.loads((episode.path / CHECKS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(Problem("checks", f"cannot be read: {error}", CHECKS))


def _check_audio(
    episode: Episode, lines: list[dict[str, Any]], problems: list[Problem], notes: list[str]
) -> None:
    if not episode.audio_paths:
        problems.append(Problem("no_sound", "holds no sound file", ORIGINALS))
        return
    try:
        original = episode.original
    except HearthError as error:
        problems.append(Problem("sound", str(error), ORIGINALS))
        return
    imported = episode.profile.origin == "imported"
    for text in original.problems:  # a foreign file is kept as it came: what is odd in it is a note
        if imported:
            notes.append(text)
        else:
            problems.append(Problem("sound", text, ORIGINALS))
    said = episode.audio_source
    for key, found in (("rate_hz", original.rate), ("channels", original.channels)):
        if key in said and said[key] != found:
            problems.append(
                Problem("sound", f"episode.yaml says {key} {said[key]}, the file has {found}", ORIGINALS)
            )
    stamped = sum(int(line["frames"]) for line in lines if line["type"] == "audio")
    if stamped != original.frames:
        problems.append(
            Problem(
                "length", f"the timeline stamps {stamped} frames, the sound has {original.frames}", TIMELINE
            )
        )
    lost = [line for line in lines if line["type"] == "gap" and line.get("stream") == "audio"]
    if lost:
        frames = sum(int(line.get("lost_frames", 0)) for line in lost)
        what = f"{counted(frames, 'frame')} ({frames / original.rate:.3f} s)"
        notes.append(f"{counted(len(lost), 'gap')} in the sound, {what} lost")
    release = episode.path / RELEASE
    if not release.is_file():
        if original.channels == 4 and episode.format not in (None, "array"):
            problems.append(Problem("length", "is missing", RELEASE))
        return
    try:
        made = open_audio(release)
    except HearthError as error:
        problems.append(Problem("sound", str(error), RELEASE))
        return
    wanted = -(-original.frames * RELEASE_RATE_HZ // original.rate)
    if (made.rate, made.channels, made.frames) != (RELEASE_RATE_HZ, 4, wanted):
        problems.append(
            Problem(
                "length",
                f"has {made.frames} frames of {made.channels} channels at {made.rate} Hz;"
                f" {original.frames} frames at {original.rate} Hz give {wanted} of 4 at {RELEASE_RATE_HZ}",
                RELEASE,
            )
        )


def _check_video(episode: Episode, lines: list[dict[str, Any]], camera: str, problems: list[Problem]) -> None:
    stamps = frame_lines(lines, camera)
    name = video_name(camera)
    path = episode.path / name
    if not path.is_file():
        if stamps:
            problems.append(
                Problem("length", f"is missing; the timeline stamps {counted(len(stamps), 'picture')}", name)
            )
        return
    from recordings import video_read

    try:
        video = video_read.summarise(path)
    except HearthError as error:
        problems.append(Problem("video", str(error), name))
        return
    if video.torn:
        problems.append(Problem("video", "is torn", name))
    if len(video.times_ns) != len(stamps):
        problems.append(
            Problem(
                "length",
                f"has {counted(len(video.times_ns), 'picture')}, the timeline stamps {len(stamps)}",
                name,
            )
        )
        return
    # FFmpeg's Matroska keeps milliseconds; a step below that was moved on by the writer and noted as pts_ms.
    off = [
        abs(in_file - video.times_ns[0] - 1_000_000 * (int(stamp["pts_ms"]) - int(stamps[0]["pts_ms"])))
        for in_file, stamp in zip(video.times_ns, stamps, strict=True)
    ]
    if off and max(off) > 1_500_000:
        problems.append(
            Problem("times", f"its times differ by up to {max(off) / 1e6:.1f} ms from the timeline", name)
        )
