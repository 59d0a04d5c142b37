"""Sound and pictures of an episode as a release has them.

Each finished file is noted in a journal of the unfinished release, so that a run that was cut off goes on
where it was. What is written is the same in every run: no date, no random number, no name of a library.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dsp.errors import HearthError, InputError
from recordings.episode import DOA_WINDOW_S, RELEASE, RELEASE_RATE_HZ, Episode, video_name
from recordings.release.options import ReleaseOptions
from recordings.storage import sha256_file, storage_errors

if TYPE_CHECKING:
    from recordings.release.item import ReleaseItem

JOURNAL = ".done.jsonl"
SAFE = ".safe"  # copies with blurred faces and changed voices; only in an unfinished release
_FULL = 1 << 23
Made = TypeVar("Made", "SoundFile", "VideoFile")


@dataclass(frozen=True)
class SoundFile:
    """A released sound. sample_type: pcm24 or float. clipped: samples that were beyond full scale and are at
    it now; float keeps them. voice_safe: voices were changed, see recordings.privacy."""

    path: Path
    frames: int
    sample_type: str
    clipped: int
    voice_safe: bool
    sha256: str
    rate_hz: int = RELEASE_RATE_HZ
    channels: int = 4

    def facts(self) -> dict[str, Any]:
        """What a release says of it, beside its place: plain data, in this order."""
        return {
            "rate_hz": self.rate_hz,
            "channels": "W,Y,Z,X",
            "scale": "SN3D",
            "frames": self.frames,
            "sample_type": self.sample_type,
            "clipped_samples": self.clipped,
            "voice_safe": self.voice_safe,
        }


@dataclass(frozen=True)
class VideoFile:
    """Released pictures. copied: as they were coded, not encoded anew. blurred: faces were."""

    path: Path
    codec: str
    width_px: int
    height_px: int
    frames: int
    copied: bool
    blurred: bool
    sha256: str


class Media:
    """Writes the media of one release.

    root: the unfinished release. Files below it that an earlier run finished, by its journal and their
    content, are taken as they are.
    """

    def __init__(self, root: Path, options: ReleaseOptions) -> None:
        self.root, self.options = root, options
        self._safe: set[str] = set()  # made, or found whole, in this run
        self._done: dict[str, dict[str, Any]] = {}
        with suppress(FileNotFoundError), open(root / JOURNAL, encoding="utf-8") as file:
            for row in file:
                with suppress(ValueError, KeyError, TypeError):  # the last line of a killed run may be torn
                    line = json.loads(row)
                    self._done[line["name"]] = line

    def finished(self) -> set[str]:
        """Names below the root that the journal has as finished."""
        return set(self._done)

    def write_sound(self, item: ReleaseItem, target: Path) -> SoundFile:
        """See ReleaseItem.write_sound."""
        return self._once(item, target, SoundFile, lambda: self._sound(item, target))

    def write_video(self, item: ReleaseItem, target: Path, camera: str) -> VideoFile:
        """See ReleaseItem.write_video."""
        if camera not in item.cameras:
            known = ", ".join(repr(name) for name in item.cameras) or "none"
            raise InputError(f"{item.path}: no pictures of camera {camera!r} go out; there are {known}")
        return self._once(item, target, VideoFile, lambda: self._video(item, target, camera))

    def _once(self, item: ReleaseItem, target: Path, kind: type[Made], write: Callable[[], Made]) -> Made:
        inside = target.is_relative_to(self.root)
        name = target.relative_to(self.root).as_posix() if inside else ""
        line = self._done.get(name)
        if line is not None and line["item"] == item.id and target.is_file():
            with storage_errors(target, "read"):
                if sha256_file(target) == line["made"]["sha256"]:
                    return kind(**{**line["made"], "path": target})
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            made = write()
            if inside:
                note = {"name": name, "item": item.id, "made": {**asdict(made), "path": name}}
                _append(self.root / JOURNAL, json.dumps(note, sort_keys=True).encode() + b"\n")
        return made

    def make_safe(self, item: ReleaseItem) -> None:
        """Make the item's sound and pictures safe, as far as the options ask for it, before anything of it is
        written. Raises CheckFailed or InputError when that cannot be done; then nothing of it is kept."""
        try:
            if self.options.voice_safe:
                self._source(item, RELEASE)
            for camera in item.cameras if self.options.blur else ():
                self._source(item, video_name(camera))
        except HearthError:
            shutil.rmtree(self.root / SAFE / item.id, ignore_errors=True)
            raise

    def forget_safe(self) -> None:
        """Remove what `make_safe` made: everything that goes out was written from it. Raises StorageError."""
        with storage_errors(self.root / SAFE, "remove"), suppress(FileNotFoundError):
            shutil.rmtree(self.root / SAFE)

    def _source(self, item: ReleaseItem, file: str) -> Path:
        """What a file of the episode goes out from: itself, or its safe copy, which is made once."""
        source = item.path / file
        if not (self.options.voice_safe if file == RELEASE else self.options.blur):
            return source
        target = self.root / SAFE / item.id / file
        name = target.relative_to(self.root).as_posix()
        line = self._done.get(name)
        with storage_errors(target):
            if name in self._safe:
                return target
            if line is None or not target.is_file() or sha256_file(target) != line["made"]["sha256"]:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                _safe_copy(item, source, target)
                note = {"name": name, "item": item.id, "made": {"sha256": sha256_file(target)}}
                _append(self.root / JOURNAL, json.dumps(note, sort_keys=True).encode() + b"\n")
        self._safe.add(name)
        return target

    def _sound(self, item: ReleaseItem, target: Path) -> SoundFile:
        source = self._source(item, RELEASE)
        made = write_wav(source, target, self.options.sound, item.id, _date(item.recorded.created_utc))
        return replace(made, voice_safe=self.options.voice_safe)

    def _video(self, item: ReleaseItem, target: Path, camera: str) -> VideoFile:
        from recordings.release.video import copy_video

        source = self._source(item, video_name(camera))
        made = copy_video(source, target, item.frame_times_ns(camera).tolist())
        return replace(made, blurred=self.options.blur, copied=made.copied and not self.options.blur)


def _safe_copy(item: ReleaseItem, source: Path, target: Path) -> None:
    if source.name == RELEASE:
        from recordings.privacy.voice import voice_safe_copy

        voice_safe_copy(source, target, speech=_speech(item.episode))
    else:
        from recordings.privacy.blur import blurred_copy

        blurred_copy(source, target, faces_expected=len(item.persons))


def _speech(episode: Episode) -> list[tuple[float, float]]:
    """(start, end) in seconds of the sound of every stretch in which a talker was followed and heard."""
    found: list[tuple[float, float]] = []
    for track in episode.tracks():
        for end, quiet in zip(track.times_s.tolist(), track.coasting.tolist(), strict=True):
            if quiet:
                continue
            if found and abs(found[-1][1] - (end - DOA_WINDOW_S)) < 1e-6:
                found[-1] = (found[-1][0], end)
            else:
                found.append((end - DOA_WINDOW_S, end))
    return found


def _append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _date(created_utc: str) -> datetime:
    """The time of an episode, for the WAV's tags: never that of the export, which differs from run to run."""
    try:
        found = datetime.fromisoformat(created_utc.replace("Z", "+00:00"))
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=timezone.utc)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def write_wav(source: Path, target: Path, sample_type: str, note: str, date: datetime) -> SoundFile:
    """Write 24 kHz AmbiX sound as 24-bit integers, rounded to the nearest step, or as float, unchanged.

    Raises InputError for sound that is not of this form, and for samples that are no numbers, which integers
    cannot hold; StorageError.
    """
    from recordings.audio_file import open_audio
    from recordings.wav_write import WavWriter

    sound = open_audio(source)
    # A copy with changed voices has no tags; foa_24k.wav always says what it is.
    if (sound.rate, sound.channels) != (RELEASE_RATE_HZ, 4) or sound.format not in ("ambix", None):
        raise InputError(
            f"{source}: {sound.channels} channels at {sound.rate} Hz of format {sound.format}; a release"
            f" takes 4 at {RELEASE_RATE_HZ} Hz of ambix"
        )
    as_float = sample_type == "float"
    writer = WavWriter(
        target,
        RELEASE_RATE_HZ,
        4,
        bits=24,
        sample_type="float" if as_float else "pcm",
        format_name="ambix",
        started=date,
        note=note,
    )
    clipped = 0
    try:
        for block in sound.blocks():
            if as_float:
                writer.write(block)
                continue
            steps = np.rint(block.astype(np.float64) * _FULL)
            if not np.isfinite(steps).all():
                raise InputError(
                    f"{source}: holds samples that are no numbers (NaN or infinite), which 24-bit integers"
                    " cannot hold; `--sound float` keeps them, or leave the episode out"
                )
            # +1.0 becomes the largest step, as everywhere; more is a loss.
            clipped += int(np.count_nonzero(np.abs(steps) > _FULL))
            whole = np.clip(steps, -_FULL, _FULL - 1).astype(np.int32)
            writer.write(whole << 8)
        frames = writer.frames
    finally:
        writer.close()
    return SoundFile(target, frames, sample_type, clipped, False, sha256_file(target))
