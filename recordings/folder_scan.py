"""What lies in a folder of recordings: takes (one sound file, or the parts of a split one), videos, the rest.

Sound files are joined to one take only where that is sure: their samples overlap, their exact times abut, or
their names are those of one take (`211130_004.WAV`, `211130_004_0002.WAV`) and nothing speaks against it.
A video belongs to a take of the same name (words such as `video` or `foa` at the end do not count); else to
the take whose recorder time its own time fits, if that is one and no other video fits it as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from dsp.errors import HearthError, InputError
from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES, AudioFile, open_audio
from recordings.join import Joint, plan_join
from recordings.marker import is_episode

VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v"})
_ROLE = re.compile(r"[ _.-]+(video|vid|cam|camera|audio|sound|foa|ambix|ambisonics|mic|zoom)$")
_PART = re.compile(r"[ _.-]+(?:part)?0*(\d{1,4})$")
_NEAR_S = 5.0  # a part of a split take begins within this of the end of the one before
_LEAST_SHARED = 0.5  # of the shorter one: video and sound that overlap less are not called one take


@dataclass(frozen=True)
class Take:
    """Sound files of one take in order; its start by the recorder's clock (local time), where known."""

    sounds: tuple[Path, ...]
    started: datetime | None
    duration_s: float

    @property
    def name(self) -> str:
        """As the first file is called."""
        return self.sounds[0].stem


@dataclass(frozen=True)
class Video:
    """A video file; its start by the camera's clock (local time), where the file says it."""

    path: Path
    started: datetime | None
    duration_s: float


@dataclass(frozen=True)
class Pair:
    """A take and its video. by: how it was found; note: why there is none, or what is odd."""

    take: Take
    video: Video | None
    by: Literal["name", "time"] | None
    note: str = ""


@dataclass
class Scan:
    """What a folder holds. left_out: files of no take, and why; broken: those that cannot be read."""

    pairs: list[Pair] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)
    broken: list[tuple[Path, str]] = field(default_factory=list)


def scan_folder(
    folder: Path,
    without: Path | None = None,
    camera_clock_s: float = 0.0,
    advance: Callable[[float], None] = lambda files: None,
) -> Scan:
    """Look through a folder and those below it; hidden files and episodes are passed over.

    without: a folder that is not looked into (where the episodes go). camera_clock_s: how far the cameras'
    clock is ahead of the recorder's. advance: called once per file. Raises InputError when `folder` is none.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    found = Scan()
    sounds: list[AudioFile] = []
    videos: list[Video] = []
    for path in _files(folder, without):
        suffix = path.suffix.lower()
        try:
            if suffix in WAV_SUFFIXES | OTHER_SUFFIXES:
                sounds.append(_sound(path))
            elif suffix in VIDEO_SUFFIXES:
                videos.append(_video(path, camera_clock_s))
            else:
                found.left_out.append((path, "its name is neither that of a sound nor of a video file"))
        except (HearthError, OSError) as error:
            found.broken.append((path, str(error)))
        advance(1)
    takes = [take for group in _groups(sounds) for take in _takes(group)]
    _pair(takes, videos, found)
    return found


def _files(folder: Path, without: Path | None) -> Iterator[Path]:
    skipped = None if without is None else without.resolve()
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders
            if not name.startswith(".") and not is_episode(Path(where, name))
            and Path(where, name).resolve() != skipped
        )  # fmt: skip
        for name in sorted(names):
            path = Path(where, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _sound(path: Path) -> AudioFile:
    file = open_audio(path)
    if file.frames == 0:
        raise InputError(f"{path}: holds no sound frame ({'; '.join(file.problems) or 'empty data chunk'})")
    return file


def _video(path: Path, camera_clock_s: float) -> Video:
    import av

    from recordings.video_read import summarise

    times = summarise(path).times_ns
    if not times:
        raise InputError(f"{path}: holds no readable picture")
    with av.open(str(path)) as container:
        said = dict(container.metadata)
    started = None
    for key in ("com.apple.quicktime.creationdate", "creation_time", "CREATION_TIME", "date", "DATE"):
        started = started or _local(said.get(key, ""))
    if started is not None:
        started -= timedelta(seconds=camera_clock_s)
    return Video(path, started, (times[-1] - times[0]) / 1e9)


def _local(text: str) -> datetime | None:
    """A time of a video's tags as local time without zone; None for a date alone, or the zero of MP4."""
    try:
        time = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    if len(text) < 16 or time.year < 1990:
        return None
    return time.astimezone().replace(tzinfo=None) if time.tzinfo else time


def base_name(stem: str) -> str:
    """A file's stem in lower case without words at its end that say which device it is from."""
    name = stem.lower()
    while found := _ROLE.search(name):
        name = name[: found.start()]
    return name


def _groups(sounds: Sequence[AudioFile]) -> list[list[AudioFile]]:
    """Sound files that may be parts of one take, in order; the others each alone."""
    by_folder: dict[Path, list[AudioFile]] = {}
    for file in sounds:
        by_folder.setdefault(file.paths[0].parent, []).append(file)
    groups: list[list[AudioFile]] = []
    for files in by_folder.values():
        files.sort(key=lambda file: (_started(file) or datetime.min, file.paths[0].name))
        for file in files:
            before = groups[-1][-1] if groups and groups[-1][-1] in files else None
            if before is not None and (_same_name(groups[-1][0], file) or _follows(before, file)):
                groups[-1].append(file)
            else:
                groups.append([file])
    return groups


def _started(file: AudioFile) -> datetime | None:
    return file.bext.local_time if file.bext else None


def _same_name(first: AudioFile, other: AudioFile) -> bool:
    """Whether the other's name is the first one's with the number of a part behind it, or both have one."""
    a, b = base_name(first.paths[0].stem), base_name(other.paths[0].stem)
    found = _PART.search(b)
    if found is None or int(found[1]) < 2:
        return False
    own = _PART.search(a)
    return b[: found.start()] == a or (
        "part" in b and own is not None and b[: found.start()] == a[: own.start()]
    )


def _follows(before: AudioFile, after: AudioFile) -> bool:
    """Whether the recorder's times say that one begins about where the other ends."""
    a, b = _started(before), _started(after)
    return a is not None and b is not None and abs((b - a).total_seconds() - before.duration_s) <= _NEAR_S


def _takes(group: Sequence[AudioFile]) -> Iterator[Take]:
    """The group as one take where its parts are surely that, else cut where they are not."""
    parts = [group[0]]
    for file in group[1:]:
        if _continues(parts[-1], file, _same_name(group[0], file)):
            parts.append(file)
        else:
            yield _take(parts)
            parts = [file]
    yield _take(parts)


def _continues(before: AudioFile, after: AudioFile, named: bool) -> bool:
    try:
        joint: Joint = plan_join([before.paths[0], after.paths[0]]).joints[0]
    except InputError:
        return False
    return named or joint.overlap_frames > 0 or joint.time_reference_gap_frames == 0


def _take(parts: Sequence[AudioFile]) -> Take:
    started = _started(parts[0])
    return Take(tuple(part.paths[0] for part in parts), started, sum(part.duration_s for part in parts))


def _pair(takes: Sequence[Take], videos: Sequence[Video], found: Scan) -> None:
    """Fill in the pairs, and the videos that belong to none."""
    free = list(videos)
    named: dict[int, Video] = {}
    notes: dict[int, str] = {}
    for number, take in enumerate(takes):
        fitting = _named(take, videos)
        rivals = [t for t in takes if fitting and t is not take and fitting[0] in _named(t, videos)]
        if len(fitting) == 1 and not rivals:
            named[number] = fitting[0]
            free.remove(fitting[0])
        elif fitting:
            names = ", ".join(v.path.name for v in fitting)
            which = f"{1 + len(rivals)} takes" if rivals else f"{len(fitting)} videos"
            notes[number] = f"not paired by name: {which} have its name ({names})"
    by_time = _by_time(takes, [n for n in range(len(takes)) if n not in named], free)
    for number, take in enumerate(takes):
        if number in named:
            found.pairs.append(Pair(take, named[number], "name", _odd_time(take, named[number])))
        elif number in by_time:
            free.remove(by_time[number])
            found.pairs.append(Pair(take, by_time[number], "time"))
        else:
            note = notes.get(number) or _no_video(take, free)
            found.pairs.append(Pair(take, None, None, note))
    found.left_out += [(video.path, _no_take(video, takes)) for video in free]


def _named(take: Take, videos: Sequence[Video]) -> list[Video]:
    """The videos of the take's name; those in its own folder first of all."""
    names = {base_name(path.stem) for path in take.sounds}
    same = [video for video in videos if base_name(video.path.stem) in names]
    beside = [video for video in same if video.path.parent == take.sounds[0].parent]
    return beside or same


def _shared(take: Take, video: Video) -> float:
    """Which part of the shorter of both the other runs beside, by their clocks; 0 when one has no time."""
    if take.started is None or video.started is None:
        return 0.0
    late = (video.started - take.started).total_seconds()
    both = min(take.duration_s, late + video.duration_s) - max(0.0, late)
    return max(0.0, both) / max(min(take.duration_s, video.duration_s), 1.0)


def _by_time(takes: Sequence[Take], which: Sequence[int], videos: Sequence[Video]) -> dict[int, Video]:
    """Takes and videos of which each fits the other and nobody else."""
    fits = {n: [v for v in videos if _shared(takes[n], v) >= _LEAST_SHARED] for n in which}
    chosen = {}
    for number, fitting in fits.items():
        if len(fitting) == 1 and sum(fitting[0] in others for others in fits.values()) == 1:
            chosen[number] = fitting[0]
    return chosen


def _odd_time(take: Take, video: Video) -> str:
    if take.started is None or video.started is None or _shared(take, video) > 0:
        return ""
    late = (video.started - take.started).total_seconds()
    return f"paired by name, though by their clocks the video begins {late:+.0f} s after the sound"


def _no_video(take: Take, free: Sequence[Video]) -> str:
    if not free:
        return "no video of this name"
    if take.started is None:
        return "no video of this name, and the sound file does not say when it was recorded"
    timed = [(abs((v.started - take.started).total_seconds()), v) for v in free if v.started is not None]
    if not timed:
        return "no video of this name, and those left do not say when they were recorded"
    fitting = [v.path.name for v in free if _shared(take, v) >= _LEAST_SHARED]
    if fitting:
        return f"no video of this name; by time it could be {', '.join(fitting)}, which fits other takes too"
    away, nearest = min(timed, key=lambda pair: pair[0])
    return f"no video of this name or time; the nearest, {nearest.path.name}, begins {away:.0f} s away"


def _no_take(video: Video, takes: Sequence[Take]) -> str:
    if not takes:
        return "there is no sound file to go with it"
    if video.started is None:
        return "no take has its name, and it does not say when it was recorded"
    fitting = [take.name for take in takes if _shared(take, video) >= _LEAST_SHARED]
    if fitting:
        return f"no take has its name alone; by time it fits {', '.join(fitting)}, not it alone"
    return "no take has its name or was recorded at its time"
