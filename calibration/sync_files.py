"""What `hearth calibrate sync` looks at, from an episode, a sound and a video, or one video with its
sound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.sync_light import MIN_RISE, LightLog
from calibration.sync_setting import Sound
from dsp.errors import InputError

ENDS_S = 300.0
"""Of a recording of more than twice this, so much of its beginning and of its end is looked at."""

_THUMB_PX = 200
Picture = NDArray[np.uint8]


class Snapshots:
    """Small pictures around the first few moments at which something lights up, for the report."""

    def __init__(self, most: int = 8) -> None:
        self.strips: list[list[tuple[int, Picture]]] = []
        self._most = most
        self._recent: deque[tuple[int, Picture]] = deque(maxlen=4)
        self._open = 0

    def add(self, t_ns: int, image: Picture, log: LightLog) -> None:
        """A picture that `log` has just taken."""
        import cv2

        if len(self.strips) >= self._most and not self._open:
            return
        height = max(1, round(image.shape[0] * _THUMB_PX / image.shape[1]))
        small = np.asarray(cv2.resize(image, (_THUMB_PX, height), interpolation=cv2.INTER_AREA), np.uint8)
        if self._open:
            self.strips[-1].append((t_ns, small))
            self._open -= 1
        elif len(log) > 8 and self._lights_up(log):
            self.strips.append([*self._recent, (t_ns, small)])
            self._open = 6
        self._recent.append((t_ns, small))

    @staticmethod
    def _lights_up(log: LightLog) -> bool:
        last = np.sqrt(log.light(len(log) - 3, len(log)))
        return bool((last[2] - last[0]).max() > 2 * MIN_RISE)


@dataclass
class Material:
    """Pictures and sound on one clock (ns), and where they are from. utc_ns: of a time, where that is
    known."""

    name: str
    sound: Sound
    log: LightLog = field(default_factory=LightLog)
    snapshots: Snapshots = field(default_factory=Snapshots)
    inputs: list[Path] = field(default_factory=list)
    start_ns: int = 0
    utc_ns: Callable[[int], int] | None = None

    def take(self, pictures: Iterable[tuple[int, Picture]]) -> None:
        """Look at all pictures."""
        for t_ns, image in pictures:
            self.log.add(t_ns, image)
            self.snapshots.add(t_ns, image, self.log)


def gather(
    sources: list[Path],
    video_offset_s: float | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Material:
    """Read an episode folder, a sound and a video, or a video with sound in it.

    video_offset_s: seconds from the first sample to the first picture; without it both begin together, as
    files of one recorder do, or, in one file, as its own stamps say. Raises InputError.
    """
    first = sources[0]
    if first.is_dir():
        if len(sources) > 1:
            raise InputError("give one episode, or a sound and a video of it, or one video with sound")
        return _episode(first, advance)
    if len(sources) > 2:
        raise InputError("give one sound and one video of it")
    sounds = [path for path in sources if _is_sound(path)]
    videos = [path for path in sources if not _is_sound(path)]
    if len(videos) != 1:
        raise InputError(f"a video is needed; {', '.join(str(path) for path in sources)} is sound")
    if sounds:
        return _pair(sounds[0], videos[0], video_offset_s or 0.0, advance)
    return _container(videos[0], video_offset_s, advance)


def _is_sound(path: Path) -> bool:
    from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES

    return path.suffix.lower() in WAV_SUFFIXES | OTHER_SUFFIXES


def _mono(source: Any, stamp: Callable[[ArrayLike], NDArray[np.int64]]) -> Sound:
    """The first channel of a sound file, of a long one only its ends. That is W in first-order ambisonics and
    one capsule else, whose time is not smeared over those of others."""
    length, ends = source.frames, round(ENDS_S * source.rate)
    pieces = [(0, length)] if length <= 2 * ends else [(0, ends), (length - ends, ends)]
    kept = []
    step = round(10 * source.rate)
    for start, count in pieces:
        for at in range(start, start + count, step):
            kept.append(source.read(at, min(step, start + count - at))[:, 0])
    mono = np.concatenate(kept) if kept else np.zeros(0, np.float32)
    begins = np.array([start for start, _ in pieces], np.float64)
    places = np.cumsum([0, *(count for _, count in pieces)])[:-1].astype(np.float64)

    def time_ns(sample: ArrayLike) -> NDArray[np.int64]:
        at = np.asarray(sample, np.float64)
        piece = np.clip(np.searchsorted(places, at, side="right") - 1, 0, len(places) - 1)
        return stamp(begins[piece] + at - places[piece])

    return Sound(mono, float(source.rate), time_ns)


def _near_ends(
    pictures: Iterator[tuple[int, Picture]], last_ns: int, advance: Callable[[float], None]
) -> Iterator[tuple[int, Picture]]:
    """Without those in the middle of a long recording."""
    first_ns: int | None = None
    for t_ns, image in pictures:
        first_ns = t_ns if first_ns is None else first_ns
        advance(1)
        if t_ns - first_ns <= ENDS_S * 1e9 or last_ns - t_ns <= ENDS_S * 1e9:
            yield t_ns, image


def _episode(path: Path, advance: Callable[[float], None]) -> Material:
    from recordings.episode import Episode

    episode = Episode.open(path)
    times = episode.frame_times()
    if not len(times):
        raise InputError(f"{path}: holds no pictures, so there is nothing to compare the sound with")
    sound = _mono(episode.original, lambda k: episode.audio_map.time_ns(np.asarray(k)))
    made = Material(path.name, sound, inputs=[path], start_ns=episode.start_ns)
    anchors = [line for line in episode.timeline() if line["type"] == "anchor" and "t_utc_ns" in line]
    if anchors:
        shift = int(anchors[0]["t_utc_ns"]) - int(anchors[0]["t_ns"])
        made.utc_ns = lambda t_ns: t_ns + shift
    made.take(_near_ends(episode.frames(), int(times[-1]), advance))
    return made


def _stamp(rate: float, t0_ns: int) -> Callable[[ArrayLike], NDArray[np.int64]]:
    return lambda k: t0_ns + np.round(np.asarray(k, np.float64) * (1e9 / rate)).astype(np.int64)


def _pair(
    sound_path: Path,
    video: Path,
    video_offset_s: float,
    advance: Callable[[float], None],
) -> Material:
    from recordings.audio_file import open_audio
    from recordings.video_read import frames, summarise

    source = open_audio(sound_path)
    if source.frames == 0:
        raise InputError(f"{sound_path}: holds no sound")
    made = Material(
        f"{sound_path.name} and {video.name}",
        _mono(source, _stamp(source.rate, 0)),
        inputs=[sound_path, video],
    )
    times = summarise(video).times_ns
    if not times:
        raise InputError(f"{video}: holds no readable picture")
    shift = round(video_offset_s * 1e9) - times[0]
    shifted = ((t_ns + shift, image) for t_ns, image in frames(video))
    made.take(_near_ends(shifted, times[-1] + shift, advance))
    return made


def _container(video: Path, video_offset_s: float | None, advance: Callable[[float], None]) -> Material:
    """A video with sound in it: the stamps of the container are the clock of both."""
    import av

    from recordings.video_read import frames, summarise

    times = summarise(video).times_ns
    if not times:
        raise InputError(f"{video}: holds no readable picture")
    parts: list[NDArray[np.float32]] = []
    begin_ns, rate = 0, 0
    with av.open(str(video)) as container:
        if not container.streams.audio:
            raise InputError(f"{video}: holds no sound; give the sound file as well")
        stream = container.streams.audio[0]
        try:
            for frame in container.decode(stream):
                samples = frame.to_ndarray()
                if not parts:
                    rate = frame.sample_rate
                    begin_ns = round((frame.pts or 0) * frame.time_base * 10**9)
                channels = len(frame.layout.channels)
                mono = samples[0] if samples.shape[0] > 1 or channels == 1 else samples[0, ::channels]
                scale = 1.0 if mono.dtype.kind == "f" else 2.0 ** (1 - 8 * mono.dtype.itemsize)
                parts.append(mono.astype(np.float32) * np.float32(scale))
        except av.error.FFmpegError:
            pass  # a torn end
    if not parts:
        raise InputError(f"{video}: its sound cannot be read")
    if video_offset_s is not None:
        begin_ns = times[0] - round(video_offset_s * 1e9)
    made = Material(video.name, Sound.of(np.concatenate(parts), rate, begin_ns), inputs=[video])
    made.start_ns = begin_ns
    made.take(_near_ends(frames(video), times[-1], advance))
    return made
