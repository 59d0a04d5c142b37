"""One episode as a release sees it: what may be told of it, its times, its media by the privacy options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from recordings.consent.present import persons_of
from recordings.episode import RELEASE, RELEASE_RATE_HZ, Episode, video_name
from recordings.export_audio import clock_pieces
from recordings.profile import Consent, Profile

if TYPE_CHECKING:
    from recordings.release.media import Media, SoundFile, VideoFile

NO_SPLIT = "all"  # the split of every item when none was asked for


@dataclass(frozen=True)
class SoundPiece:
    """From `frame` of the released sound on, frame f is at t_ns + (f - frame) * 1e9 / rate_hz. A loss before
    it makes its first frame later than the end of the piece before: gaps are not filled."""

    frame: float
    t_ns: int
    rate_hz: float
    lost_s: float


@dataclass(frozen=True)
class ReleaseItem:
    """An episode on its way into a release. Made by `recordings.release.run`.

    id: unique within the release; letters, digits, ".", "_" and "-". split: train, val, test, or NO_SPLIT.
    manifest_sha256: of the episode's manifest.json.
    """

    id: str
    path: Path
    split: str
    manifest_sha256: str
    media: Media = field(repr=False, compare=False)

    @cached_property
    def recorded(self) -> Profile:
        """The profile as it is in the episode; kept, because its YAML is slow to read."""
        return Episode.open(self.path).profile

    @property
    def episode(self) -> Episode:
        """The episode. Only the last two that were asked for keep their timeline in memory."""
        found = _recent.pop(self.path, None)
        if found is None or found.profile is not self.recorded:
            found = Episode(self.path, self.recorded)
        _recent[self.path] = found
        while len(_recent) > 2:
            del _recent[next(iter(_recent))]
        return found

    @property
    def profile(self) -> Profile:
        """What a release tells of it: see `released_profile`."""
        return released_profile(self.recorded)

    @property
    def participant(self) -> str | None:
        """Who speaks."""
        return self.recorded.speaker

    @property
    def persons(self) -> tuple[str, ...]:
        """Everybody who is heard or seen by plan, sorted."""
        return persons_of(self.recorded)

    @property
    def room(self) -> str | None:
        """The room that it was recorded in."""
        return room_of(self.recorded)

    # -------------------------------------------------------------- times

    @property
    def sound_frames(self) -> int:
        """Frames of the released sound, at 24 kHz."""
        from recordings.audio_file import open_audio

        return open_audio(self.path / RELEASE).frames

    def sound_pieces(self) -> list[SoundPiece]:
        """The clock of the released sound."""
        rate = self.episode.original.rate
        scale = RELEASE_RATE_HZ / rate
        return [
            SoundPiece(
                round(int(piece["file_frame"]) * scale, 6),
                int(piece["t_ns"]),
                float(piece["rate_hz"]) * scale,
                round(int(piece["lost_frames"] or 0) / rate, 9),
            )
            for piece in clock_pieces(self.episode)
        ]

    def sound_times_ns(self, frames: NDArray[Any] | float) -> NDArray[np.int64]:
        """Times of frames of the released sound on the session's clock, shape as given."""
        pieces = self.sound_pieces()
        starts = np.array([piece.frame for piece in pieces])
        at = np.asarray(frames, np.float64)
        which = np.clip(np.searchsorted(starts, at, side="right") - 1, 0, len(pieces) - 1)
        times = np.array([piece.t_ns for piece in pieces], np.int64)
        rates = np.array([piece.rate_hz for piece in pieces])
        return np.asarray(times[which] + np.round((at - starts[which]) * 1e9 / rates[which]).astype(np.int64))

    @property
    def cameras(self) -> tuple[str, ...]:
        """Cameras whose pictures go out; "" is the main one. Empty without pictures, or when they are not
        wanted."""
        return self.episode.cameras if self.media.options.video else ()

    def frame_times_ns(self, camera: str = "") -> NDArray[np.int64]:
        """True times of a camera's pictures, (n,), in the order of presentation."""
        return self.episode.frame_times(camera)

    @property
    def utc_minus_clock_ns(self) -> int | None:
        """What the wall clock was ahead of the session's clock at the start; None when nobody knows."""
        for line in self.episode.timeline():
            if line["type"] == "anchor" and "t_utc_ns" in line:
                return int(line["t_utc_ns"]) - int(line["t_ns"])
        return None

    # -------------------------------------------------------------- media

    def write_sound(self, target: Path) -> SoundFile:
        """Write the sound as WAV: 24 kHz, AmbiX, by the release's options. An existing target is replaced.

        Raises InputError, StorageError; CheckFailed when a voice cannot be made safe."""
        return self.media.write_sound(self, target)

    def write_video(self, target: Path, camera: str = "") -> VideoFile:
        """Write a camera's pictures as .mkv or .mp4 (by the name of the target), not encoded anew where that
        can be. Raises as `write_sound`; InputError for a camera that is not one of `cameras`."""
        return self.media.write_video(self, target, camera)

    # -------------------------------------------------------------- for sidecars

    def clocks(self) -> dict[str, Any]:
        """The true times, as every sidecar has them, in ns of the session's clock: unit, utc_minus_clock_ns,
        sound [{frame, t_ns, rate_hz, lost_s}], frame_times_ns {camera: [...]} ("main" is the main camera)."""
        return {
            "unit": "ns, monotonic",
            "utc_minus_clock_ns": self.utc_minus_clock_ns,
            "sound": [
                {"frame": p.frame, "t_ns": p.t_ns, "rate_hz": p.rate_hz, "lost_s": p.lost_s}
                for p in self.sound_pieces()
            ],
            "frame_times_ns": {
                camera or "main": self.frame_times_ns(camera).tolist() for camera in self.cameras
            },
        }

    def description(self) -> dict[str, Any]:
        """Plain data on the item that every format can carry in a sidecar; file names are the format's."""
        return {
            "hearth_item": 1,
            "id": self.id,
            "session": self.recorded.session,
            "split": self.split,
            "participant": self.participant,
            "room": self.room,
            "profile": msgspec.to_builtins(self.profile),
            "geometry": geometry_of(self.episode),
            "clocks": self.clocks(),
        }

    def sources(self) -> Iterator[str]:
        """The episode's files that a release takes anything from."""
        yield from ("episode.yaml", RELEASE, "timeline.jsonl")
        yield from (video_name(camera) for camera in self.cameras)


_recent: dict[Path, Episode] = {}  # the oldest first


def released_profile(profile: Profile) -> Profile:
    """The profile without what is nobody's business: the rig's file (addresses and passwords of cameras,
    folders), what was captured by which device or from which file, and free notes."""
    return msgspec.structs.replace(
        profile,
        rig={},
        source={},
        notes="",
        consent=Consent(recording=profile.consent.recording, sharing=profile.consent.sharing),
    )


def room_of(profile: Profile) -> str | None:
    """The room of the staging, else that of the rig, else None."""
    if profile.staging is not None:
        return profile.staging.room
    room = profile.rig.get("room")
    name = room.get("name") if isinstance(room, dict) else None
    return name if isinstance(name, str) and name else None


_OF_RIG = {
    "room": ("name", "size_m"),
    "microphone": ("position_m", "yaw_deg"),
    "camera": ("position_m", "yaw_deg", "pitch_deg", "hfov_deg", "width_px", "height_px"),
}


def geometry_of(episode: Episode) -> dict[str, Any]:
    """Where microphone and camera were by the rig's file, and the calibrated camera and pose where there are
    any: `rig` {room, microphone, camera}, `calibration` {"camera/main": result, "pose/main": ...}."""
    rig = episode.profile.rig
    told = {
        part: {key: rig[part][key] for key in keys if key in rig[part]}
        for part, keys in _OF_RIG.items()
        if isinstance(rig.get(part), dict)
    }
    results = {
        f"{kind}/{camera or 'main'}": {"units": found.units, "result": found.result}
        for (camera, kind), found in sorted(episode.calibrations.results.items())
        if kind in ("camera", "pose", "sync")
    }
    return {"rig": told, "calibration": results}
