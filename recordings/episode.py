"""An episode on disk, read: profile, sound, pictures, timeline, directions, checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES, AudioFile, open_audio
from recordings.calibrated import Calibrations, read_snapshot
from recordings.marker import State, episodes_below, state_of
from recordings.profile import Profile, profile_from_yaml
from recordings.timeline import AudioMap, Line, TimelineFile, read_timeline

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection
    from recordings.verify_episode import VerifyReport

PROFILE = "episode.yaml"
ORIGINALS = "foa_48k"
RELEASE = "foa_24k.wav"
VIDEO = "video.mkv"  # of the main camera; see `video_name`
TIMELINE = "timeline.jsonl"
CHECKS = "checks.json"
TRUTH = "truth.json"
RELEASE_RATE_HZ = 24000
DOA_WINDOW_S = 0.1  # of the doa and track lines


def video_name(camera: str = "") -> str:
    """The file of a camera's pictures; "" is the main camera."""
    return f"video_{camera}.mkv" if camera else VIDEO


def video_stream(camera: str = "") -> str:
    """The name of a camera's stream in the timeline's gaps and events."""
    return f"video_{camera}" if camera else "video"


def frame_lines(lines: Iterable[Line], camera: str = "") -> list[Line]:
    """The timeline's lines about pictures of one camera, in the order of its file."""
    return [line for line in lines if line["type"] == "frame" and line.get("camera", "") == camera]


@dataclass(frozen=True)
class DoaTrack:
    """Direction of arrival, one row per 100 ms: times_s from the first audio frame, t_ns on the session's
    clock, degrees in the microphone frame, confidence 0..1; NaN where there was no estimate."""

    times_s: NDArray[np.float64]
    t_ns: NDArray[np.int64]
    azimuth_deg: NDArray[np.float64]
    elevation_deg: NDArray[np.float64]
    confidence: NDArray[np.float64]
    uncertainty_deg: NDArray[np.float64]
    level_dbfs: NDArray[np.float64]
    active: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times_s)


@dataclass(frozen=True)
class TrackPath:
    """Where a tracked talker was, one row per 100 ms; as DoaTrack. number: of the track. times_s: ends of the
    windows. coasting: nothing was heard of it in that window."""

    number: int
    times_s: NDArray[np.float64]
    t_ns: NDArray[np.int64]
    azimuth_deg: NDArray[np.float64]
    elevation_deg: NDArray[np.float64]
    uncertainty_deg: NDArray[np.float64]
    confidence: NDArray[np.float64]
    coasting: NDArray[np.bool_]


class Episode:
    """One episode folder. Reading only: what is on disk is never changed. Made by `Episode.open`."""

    def __init__(self, path: Path, profile: Profile) -> None:
        self.path = path
        self.profile = profile

    @classmethod
    def open(cls, path: str | Path) -> Episode:
        """Open a finished, interrupted or still growing episode.

        Raises InputError when the folder is no episode or its episode.yaml is broken.
        """
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"{path}: no such folder; give the folder of an episode")
        profile = path / PROFILE
        if not profile.is_file():
            raise InputError(
                f"{path}: holds no {PROFILE}, so it is not an episode; give <root>/<session>/<episode>"
            )
        return cls(path, profile_from_yaml(profile.read_text(encoding="utf-8"), str(profile)))

    def __repr__(self) -> str:
        return f"Episode({str(self.path)!r}, {self.state})"

    @property
    def state(self) -> State:
        """ "finished", "interrupted" or "recording" (its writer lives), as it is now."""
        return state_of(self.path)

    @cached_property
    def audio_paths(self) -> tuple[Path, ...]:
        """The original sound files in order; empty when there are none."""
        folder = self.path / ORIGINALS
        if not folder.is_dir():
            return ()
        suffixes = WAV_SUFFIXES | OTHER_SUFFIXES
        return tuple(sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes and p.name[0] != "."))

    @cached_property
    def original(self) -> AudioFile:
        """The original sound, all segments as one, at its own rate and in its own format.

        Raises InputError when there is none or it cannot be read.
        """
        if not self.audio_paths:
            raise InputError(f"{self.path}: no sound in {ORIGINALS}/")
        return open_audio(self.audio_paths, recover=self.state != "finished")

    @property
    def audio_source(self) -> dict[str, Any]:
        """rate_hz, channels, format, bits of the original, as recorded in the profile; {} when unknown."""
        source = self.profile.source.get("audio", {})
        return dict(source) if isinstance(source, dict) else {}

    @property
    def format(self) -> str | None:
        """Format of the original (dsp.FORMATS or "array") from the profile, else from the tags, else None."""
        named = self.audio_source.get("format")
        if isinstance(named, str):
            return named
        return self.original.format if self.audio_paths else None

    @cached_property
    def calibrations(self) -> Calibrations:
        """The calibration results that were valid when it was recorded. Raises InputError if unusable."""
        return read_snapshot(self.path)

    @cached_property
    def correction(self) -> FoaCorrection | None:
        """What the capsules' calibration does to the channels as recorded; None without one.

        Raises InputError when it was made for another format than that of this recording.
        """
        return self.calibrations.correction(self.format)

    @property
    def duration_s(self) -> float:
        """Length of the sound in seconds; 0 without sound."""
        return self.original.duration_s if self.audio_paths else 0.0

    def audio(self, rate: int = RELEASE_RATE_HZ) -> NDArray[np.float32]:
        """The sound as float32 (frames, channels), full scale +-1.

        24000: the release form, AmbiX (made on the fly while an episode is not finished). The original's rate
        (48000 for what Hearth records): the original in its own format. For more than a few minutes read
        `original.blocks()` or `open_audio(path / "foa_24k.wav").blocks()` instead.
        Raises InputError for any other rate.
        """
        if rate == RELEASE_RATE_HZ:
            if (self.path / RELEASE).is_file():
                return open_audio(self.path / RELEASE).read()
            import dsp

            if self.format is None or self.original.channels != 4:
                raise InputError(
                    f"{self.path}: {self.original.channels} channels of format {self.format}; only a known"
                    " first-order format has a 24 kHz form"
                )
            if self.correction is not None:
                foa = self.correction.apply(self.original.read(), self.original.rate)
            else:
                foa = dsp.convert(self.original.read(), source=self.format, target="ambix")
            return dsp.resample(foa, self.original.rate, RELEASE_RATE_HZ)
        if rate != self.original.rate:
            raise InputError(
                f"{self.path}: sound is stored at {RELEASE_RATE_HZ} and {self.original.rate} Hz, not at"
                f" {rate} Hz; resample it with dsp.resample"
            )
        return self.original.read()

    @cached_property
    def timeline_file(self) -> TimelineFile:
        """The timeline with what is wrong with it; empty when there is none."""
        path = self.path / TIMELINE
        return read_timeline(path) if path.is_file() else TimelineFile([])

    def timeline(self) -> list[Line]:
        """All readable lines of timeline.jsonl, in order of writing (see recordings.timeline)."""
        return self.timeline_file.lines

    @cached_property
    def audio_map(self) -> AudioMap:
        """Frame of the original sound -> time in ns, through the gaps."""
        rate = self.audio_source.get("rate_hz") or (self.original.rate if self.audio_paths else 48000)
        return AudioMap(self.timeline(), float(rate))

    @property
    def start_ns(self) -> int:
        """Time of the first audio frame (of the first picture without sound; 0 without either)."""
        for kind in ("audio", "frame"):
            for line in self.timeline():
                if line["type"] == kind:
                    return int(self.audio_map.time_ns(0)) if kind == "audio" else int(line["t_ns"])
        return 0

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras with pictures on disk; "" is the main one and comes first."""
        further = sorted(path.stem.removeprefix("video_") for path in self.path.glob("video_*.mkv"))
        return (*([""] if (self.path / VIDEO).is_file() else []), *further)

    def frame_times(self, camera: str = "") -> NDArray[np.int64]:
        """Times of a camera's pictures in ns (n,), in the order of its video file."""
        return np.array([line["t_ns"] for line in frame_lines(self.timeline(), camera)], np.int64)

    def frames(self, camera: str = "") -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """(t_ns, BGR picture) of a camera one by one; nothing when it has no video."""
        if not (self.path / video_name(camera)).is_file():
            return
        from recordings import video_read

        times = self.frame_times(camera)
        start = None
        for index, in_file_ns, image in video_read.numbered_frames(self.path / video_name(camera)):
            if index < len(times):
                start = int(times[index]) - in_file_ns
            elif start is None:
                start = 0
            yield (int(times[index]) if index < len(times) else start + in_file_ns), image

    def doa(self) -> DoaTrack:
        """Directions of the timeline's doa lines; empty before the episode is finished."""
        rows = [line for line in self.timeline() if line["type"] == "doa"]

        def column(key: str) -> NDArray[np.float64]:
            return np.array([np.nan if row.get(key) is None else row[key] for row in rows], np.float64)

        return DoaTrack(
            column("t_s"),
            np.array([row["t_ns"] for row in rows], np.int64),
            column("azimuth_deg"),
            column("elevation_deg"),
            column("confidence"),
            column("uncertainty_deg"),
            column("level_dbfs"),
            np.array([bool(row.get("active")) for row in rows], np.bool_),
        )

    def tracks(self) -> list[TrackPath]:
        """The talkers that were followed, by number; empty before the episode is finished."""
        return _track_paths([line for line in self.timeline() if line["type"] == "track"])

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(data, dict):
            raise InputError(f"{path}: holds a {type(data).__name__}, not an object")
        return data

    @property
    def checks(self) -> dict[str, Any]:
        """checks.json; {} before the episode is finished."""
        return self._json(CHECKS)

    def truth(self) -> dict[str, Any]:
        """truth.json of a virtual episode; {} for any other."""
        return self._json(TRUTH)

    def verify(self) -> VerifyReport:
        """Everything that can be checked without a judgement: see recordings.verify_episode."""
        from recordings.verify_episode import verify

        return verify(self.path)


def _track_paths(rows: list[Line]) -> list[TrackPath]:
    t_ns = np.array([row["t_ns"] for row in rows], np.int64)
    numbers = np.array([row.get("track", 0) for row in rows], np.int64)

    def column(key: str, which: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([np.nan if rows[i].get(key) is None else rows[i][key] for i in which], np.float64)

    paths = []
    for number in np.unique(numbers):
        which = np.flatnonzero(numbers == number)
        paths.append(
            TrackPath(
                int(number),
                column("t_s", which) + DOA_WINDOW_S,
                t_ns[which],
                column("azimuth_deg", which),
                column("elevation_deg", which),
                column("uncertainty_deg", which),
                column("confidence", which),
                np.array([bool(rows[i].get("coasting")) for i in which], np.bool_),
            )
        )
    return paths


def list_episodes(root: str | Path) -> list[Episode]:
    """Episodes below a data folder or a session folder, interrupted ones first, then by path.

    A folder whose episode.yaml is missing or broken is listed with an empty profile that says so in `notes`,
    so that it is not overlooked. Raises InputError when `root` is not a folder.
    """
    episodes = []
    for path in episodes_below(Path(root)):
        try:
            episodes.append(Episode.open(path))
        except InputError as error:
            blank = Profile(
                id="unreadable",
                session="unreadable",
                created_utc="",
                origin="recorded",
                notes=f"unreadable: {error}",
            )
            episodes.append(Episode(path, blank))
    return sorted(episodes, key=lambda episode: (episode.state != "interrupted", str(episode.path)))


def interrupted(root: str | Path) -> list[Episode]:
    """The episodes below `root` that a crash left unfinished; [] when the folder does not exist yet."""
    if not Path(root).is_dir():
        return []
    return [episode for episode in list_episodes(root) if episode.state == "interrupted"]
