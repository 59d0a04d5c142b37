"""EpisodeWriter: sound, pictures and events onto disk, each in its own thread; none waits for another."""

from __future__ import annotations

import queue
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dsp.errors import HearthError, InputError
from recordings.episode import (
    CHECKS,
    ORIGINALS,
    PROFILE,
    RELEASE,
    TIMELINE,
    VIDEO,
    Episode,
    video_name,
    video_stream,
)
from recordings.marker import MANIFEST, MARKER, mark_failed, place_marker
from recordings.profile import Profile, profile_from_yaml, profile_to_yaml
from recordings.storage import StorageError, fsync_folder, storage_errors, write_atomic
from recordings.timeline import TimelineWriter
from recordings.video_write import QueuedFrame, VideoWriter
from recordings.wav_write import SegmentedWavWriter

_SYNC_S = 0.25  # between two forcings to the medium: what a power loss can cost
_BACKLOG_S = 120.0  # sound waiting for a stalled disk; beyond it blocks are left out and noted as gaps
_OWN_FILES = {PROFILE, RELEASE, VIDEO, TIMELINE, CHECKS, MARKER, MANIFEST, "report.html"}


def new_episode_id(slug: str, when: datetime | None = None) -> str:
    """`<YYYYMMDD-HHMMSS>-<slug>` in UTC; the slug keeps letters, digits, dot, dash and underscore."""
    when = when or datetime.now(timezone.utc)
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", slug).strip("-._")[:80] or "take"
    return f"{when:%Y%m%d-%H%M%S}-{clean}"


def create_folder(root: Path, profile: Profile) -> Path:
    """Make <root>/<session>/<id>/ with the marker and episode.yaml. Raises StorageError, InputError."""
    # msgspec checks what it reads, not what is constructed: a session like "../x" must not make a folder.
    text = profile_to_yaml(profile_from_yaml(profile_to_yaml(profile), "the episode's profile"))
    path = Path(root) / profile.session / profile.id
    with storage_errors(path, "create"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir()
        except FileExistsError:
            raise InputError(f"{path} exists already; give the episode another id") from None
        try:
            fsync_folder(path.parent)
            place_marker(path)
            write_atomic(path / PROFILE, text.encode())
            (path / ORIGINALS).mkdir()
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # nothing was recorded yet
            raise
    return path


class EpisodeWriter:
    """Writes one episode. `write_audio`, `write_frame` and `event` may be called from different threads and
    return at once; a thread per stream writes. The first error of the sound stream is raised by the next
    `write_audio` and by `finish`; an error of the video stream ends only the pictures and is in the timeline.

    A context manager: leaving it with an exception closes the files and leaves an interrupted episode.
    """

    def __init__(
        self,
        path: Path,
        profile: Profile,
        audio: dict[str, Any],
        videos: dict[str, dict[str, Any]],
        segment_mib: int,
        encoder: str | None,
    ) -> None:
        self.path, self.profile = path, profile
        self._checks: dict[str, Any] = {}
        self._rate_hz, self._channels = int(audio["rate_hz"]), int(audio["channels"])
        self._wav = SegmentedWavWriter(
            path / ORIGINALS,
            "audio",
            self._rate_hz,
            self._channels,
            bits=int(audio.get("bits", 24)),
            format_name=str(audio.get("format", "")),
            segment_bytes=min(segment_mib << 20, (1 << 31) - 1),
            note=profile.id,
        )
        self._timeline = TimelineWriter(path / TIMELINE)
        self._audio_error: HearthError | None = None
        self._audio_queue: queue.SimpleQueue[tuple[NDArray[np.int32], dict[str, Any]] | None] = (
            queue.SimpleQueue()
        )
        self._waiting_frames = 0
        self._lost_here = 0  # frames left out because the disk was too slow, not yet noted
        self._next_frame: int | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._close_errors: list[Exception] = []
        self._videos: dict[str, VideoWriter] = {}
        for camera, fields in videos.items():
            self._videos[camera] = VideoWriter(
                path / video_name(camera),
                float(fields.get("fps") or 30.0),
                partial(self._frame_written, camera),
                partial(self._frame_dropped, camera),
                encoder=encoder,
            )
        self._audio_thread = threading.Thread(target=self._write_audio, name="hearth-audio", daemon=True)
        self._stop_sync = threading.Event()
        # One thread per file: a forcing that takes long must not hold up that of another stream.
        syncs = [self._wav.sync, self._timeline.sync, *(video.sync for video in self._videos.values())]
        self._sync_threads = [
            threading.Thread(target=self._sync, args=(sync,), name="hearth-sync", daemon=True)
            for sync in syncs
        ]
        self._audio_thread.start()
        for thread in self._sync_threads:
            thread.start()
        self.anchor()

    @classmethod
    def create(
        cls,
        root: str | Path,
        profile: Profile,
        audio: dict[str, Any],
        video: dict[str, Any] | None,
        segment_mib: int = 1900,
        encoder: str | None = None,
        more_videos: dict[str, dict[str, Any]] | None = None,
    ) -> EpisodeWriter:
        """Make the folder <root>/<session>/<id>/ and start writing.

        audio: rate_hz, channels, format (dsp.FORMATS or "array"), bits (16, 24, 32). video: width_px,
        height_px, fps, or None without a camera; more_videos: the same for further cameras, by name.
        encoder: a name of recordings.video_write.ENCODERS instead of the first that works. Raises InputError
        when the episode exists, StorageError when its folder cannot be written.
        """
        missing = {"rate_hz", "channels", "format"} - set(audio)
        if missing:
            raise InputError(f"audio of an episode lacks {', '.join(sorted(missing))}; got {sorted(audio)}")
        source = {**profile.source, "audio": {"bits": 24, **audio}}
        if video is not None:
            source["video"] = dict(video)
        if more_videos:
            source["more_videos"] = {name: dict(fields) for name, fields in more_videos.items()}
        profile = msgspec.structs.replace(profile, source=source)
        path = create_folder(Path(root), profile)
        try:
            videos = {} if video is None else {"": video}
            return cls(path, profile, audio, {**videos, **(more_videos or {})}, segment_mib, encoder)
        except HearthError as error:
            mark_failed(path, str(error))
            raise

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.abort(f"{type(error).__name__}: {error}")

    # Sound

    def write_audio(
        self,
        samples: NDArray[np.int32],
        t_ns: int,
        seq: int,
        first_frame: int,
        lost_frames: int = 0,
        flags: tuple[str, ...] = (),
        t_observed_ns: int | None = None,
    ) -> None:
        """Queue a block: int32 left-justified (frames, channels), not to be changed afterwards.

        lost_frames: missing directly before this block; first_frame counts them. Raises the error that ended
        the stream (StorageError), or InputError for a wrong shape.
        """
        if self._audio_error is not None:
            raise self._audio_error
        if samples.ndim != 2 or samples.shape[1] != self._channels or samples.dtype != np.int32:
            raise InputError(
                f"{self.path.name}: got samples of shape {samples.shape}, type {samples.dtype}; this episode"
                f" takes (frames, {self._channels}) int32 left-justified"
            )
        line = {
            "type": "audio",
            "t_ns": int(t_ns),
            "t_observed_ns": int(t_ns if t_observed_ns is None else t_observed_ns),
            "seq": int(seq),
            "first_frame": int(first_frame),
            "frames": len(samples),
            "lost": int(lost_frames),
            "flags": list(flags),
        }
        with self._lock:
            if self._waiting_frames > _BACKLOG_S * self._rate_hz:
                self._lost_here += len(samples)
                return
            self._waiting_frames += len(samples)
            line["lost_here"], self._lost_here = self._lost_here, 0
        self._audio_queue.put((samples, line))

    def _write_audio(self) -> None:
        while (item := self._audio_queue.get()) is not None:
            samples, line = item
            with self._lock:
                self._waiting_frames -= len(samples)
            if self._audio_error is not None:
                continue
            before = self._wav.frames
            try:
                self._wav.write(samples)
            except HearthError as error:
                self._audio_error = error
                line["frames"] = self._wav.frames - before  # what reached the disk before it was full
            self._note_audio(line, before)
            if self._audio_error is not None:
                self._timeline.add(
                    _gap(
                        "audio",
                        line["t_ns"],
                        "storage",
                        file_frame=self._wav.frames,
                        detail=str(self._audio_error),
                    )
                )

    def _note_audio(self, line: dict[str, Any], file_frame: int) -> None:
        left_out = line.pop("lost_here")
        expected, start = self._next_frame, line["first_frame"]
        lost, cause = line["lost"], "lost"
        if line["flags"]:
            cause = ",".join(line["flags"])
        if left_out:
            lost, cause = lost + left_out, "disk_too_slow"
        elif (
            expected is not None and "muted" in line["flags"]
        ):  # nothing was to be kept: the counter tells all
            lost = max(start - expected, 0)
        elif expected is not None and not lost and start != expected:
            lost, cause = (
                max(start - expected, 0),
                "counter_jump" if start > expected else "counter_restarted",
            )
        if lost or cause == "counter_restarted":
            begin = line["t_ns"] - round(lost * 1e9 / self._rate_hz)
            self._timeline.add(_gap("audio", begin, cause, lost_frames=lost, file_frame=file_frame))
        self._next_frame = start + line["frames"]
        line["file_frame"] = file_frame
        if line["frames"]:
            self._timeline.add(line)

    @property
    def waiting(self) -> tuple[float, int]:
        """What is queued and not yet written: sound in seconds, pictures in bytes."""
        return self._waiting_frames / self._rate_hz, sum(v.waiting_bytes for v in self._videos.values())

    # Pictures

    def write_frame(
        self,
        image: NDArray[np.uint8] | None,
        t_ns: int,
        seq: int,
        dropped: int = 0,
        t_source: str = "arrival",
        *,
        jpeg: bytes | None = None,
        size: tuple[int, int] = (0, 0),
        camera: str = "",
        flags: tuple[str, ...] = (),
    ) -> None:
        """Queue a picture: (height, width, 3) uint8 BGR, not to be changed afterwards; or image None and the
        camera's own `jpeg` of `size` (width, height), which is stored as it is. camera: "" is the main one.
        Never raises for the disk or the encoder: what could not be written is a gap in the timeline."""
        video = self._videos.get(camera)
        if video is None:
            name = f"camera {camera!r}" if camera else "video"
            raise InputError(f"{self.path.name}: a picture came, but the episode was created without {name}")
        if image is None and (not jpeg or min(size) < 1):
            raise InputError(f"{self.path.name}: got neither pixels nor a JPEG with its size")
        if image is not None and (image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8):
            raise InputError(f"{self.path.name}: got a picture of shape {image.shape}, type {image.dtype}")
        video.put(QueuedFrame(int(t_ns), int(seq), image, int(dropped), t_source, jpeg, size, tuple(flags)))

    def _frame_written(self, camera: str, frame: QueuedFrame, index: int, pts_ms: int) -> None:
        if frame.dropped:
            self._timeline.add(_gap(video_stream(camera), frame.t_ns, "camera", dropped=frame.dropped))
        line: dict[str, Any] = {
            "type": "frame",
            "t_ns": frame.t_ns,
            "seq": frame.seq,
            "index": index,
            "pts_ms": pts_ms,
            "t_source": frame.t_source,
            "dropped": frame.dropped,
        }
        if camera:
            line["camera"] = camera
        if frame.flags:
            line["flags"] = list(frame.flags)
        self._timeline.add(line)

    def _frame_dropped(self, camera: str, frame: QueuedFrame, cause: str) -> None:
        error = self._videos[camera].error if camera in self._videos else None
        self._timeline.add(
            _gap(
                video_stream(camera),
                frame.t_ns,
                cause,
                seq=frame.seq,
                dropped=frame.dropped + 1,
                **({"detail": str(error)} if error else {}),
            )
        )

    # Everything else

    def event(self, kind: str, t_ns: int, **data: Any) -> None:
        """Note something that happened; `data` becomes plain JSON."""
        self._timeline.add({"type": "event", "t_ns": int(t_ns), "kind": kind, "data": data})

    def gap(self, stream: str, t_ns: int, cause: str, **data: Any) -> None:
        """Note that something of a stream ("audio", "video", "video_<name>") is missing from t_ns on."""
        self._timeline.add(_gap(stream, t_ns, cause, **data))

    def anchor(self) -> None:
        """Note the pair (monotonic, UTC) of this moment; done at start and end by the writer itself."""
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        utc = time.time_ns()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._timeline.add(
            {"type": "anchor", "t_ns": (before + after) // 2, "t_utc_ns": utc, "width_ns": after - before}
        )

    def update_profile(self, **changes: Any) -> None:
        """Change fields of episode.yaml; it is replaced as a whole. Raises InputError for a wrong field."""
        try:
            changed = msgspec.structs.replace(self.profile, **changes)
        except TypeError as error:
            raise InputError(f"episode.yaml: {error}") from None
        text = profile_to_yaml(changed)
        self.profile = profile_from_yaml(text)
        write_atomic(self.path / PROFILE, text.encode())

    def add_file(self, name: str, data: bytes) -> None:
        """Add a file such as truth.json or calibration/camera.json. Raises InputError for an own name,
        StorageError when it cannot be written or the episode's folder is not there any more."""
        target = (self.path / name).resolve()
        inside = self.path.resolve()
        own = _OWN_FILES | {video_name(camera) for camera in self._videos}
        if name in own or name.startswith(f"{ORIGINALS}/") or inside not in target.parents:
            raise InputError(
                f"{name!r} cannot be added to an episode: it must be a new name inside its folder"
            )
        if not inside.is_dir():
            raise StorageError(f"cannot write {target}: the episode's folder was moved or removed")
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, data)

    def add_check(self, name: str, result: Any) -> None:
        """Put a result under `name` into checks.json, e.g. the measured audio-video offset."""
        self._checks[name] = result

    def _sync(self, sync: Callable[[], None]) -> None:
        due = time.monotonic() + _SYNC_S
        while not self._stop_sync.wait(max(0.02, due - time.monotonic())):
            due = max(due + _SYNC_S, time.monotonic())  # from start to start: a slow medium must not add up
            with suppress(HearthError):
                sync()

    def close_streams(self) -> list[Exception]:
        """Drain the queues and close the files, so that they can be read before `finish`; gives what went
        wrong, worst first. Nothing can be written afterwards; harmless when called again."""
        errors = self._close_errors
        if self._closed:
            return errors
        self._closed = True
        self._audio_queue.put(None)
        self._audio_thread.join()
        if self._audio_error is not None:
            errors.append(self._audio_error)
        for camera, video in self._videos.items():
            try:
                video.close()
            except Exception as error:
                self._checks[f"{video_stream(camera)}_error"] = str(error)
                if isinstance(error, StorageError):
                    errors.append(error)
            if video.file is not None:
                self._note_encoder(camera, video.file.encoder)
        self.anchor()
        self._stop_sync.set()
        for thread in self._sync_threads:
            thread.join()
        for close in (self._wav.close, self._timeline.close):
            try:
                close()
            except HearthError as error:
                errors.append(error)
        return errors

    def _note_encoder(self, camera: str, encoder: str) -> None:
        source = dict(self.profile.source)
        if camera:
            more = dict(source.get("more_videos", {}))
            source["more_videos"] = {**more, camera: {**more.get(camera, {}), "encoder": encoder}}
        else:
            source["video"] = {**source.get("video", {}), "encoder": encoder}
        with suppress(StorageError):
            self.update_profile(source=source)

    def abort(self, reason: str) -> None:
        """Stop writing and leave an interrupted episode; harmless after `finish`."""
        if not self._closed:
            self.close_streams()
            mark_failed(self.path, reason)

    def finish(self, report: bool = True) -> Episode:
        """Drain, close, make the release form, directions, checks, report and manifest, and unmark.

        report=False leaves report.html out. Raises StorageError when any stream could not be written, or
        whatever went wrong; the episode then stays as an interrupted one, which `repair` can finish.
        """
        from recordings.finish import complete

        try:
            errors = self.close_streams()
            if errors:
                raise errors[0]
            return complete(self.path, extra=self._checks, report=report, frames=self._wav.frames)
        except BaseException as error:
            mark_failed(self.path, f"{type(error).__name__}: {error}")
            raise


def _gap(stream: str, t_ns: int, cause: str, **data: Any) -> dict[str, Any]:
    return {"type": "gap", "t_ns": int(t_ns), "stream": stream, "cause": cause, **data}
