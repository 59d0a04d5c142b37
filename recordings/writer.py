"""EpisodeWriter: sound, pictures and events onto disk, each in its own thread; none waits for another."""

from __future__ import annotations

import queue
import re
import shutil
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dsp.errors import HearthError, InputError
from recordings.episode import CHECKS, ORIGINALS, PROFILE, RELEASE, TIMELINE, VIDEO, Episode
from recordings.marker import MANIFEST, MARKER, mark_failed, place_marker
from recordings.profile import Profile, profile_from_yaml, profile_to_yaml
from recordings.storage import StorageError, fsync_folder, storage_errors, write_atomic
from recordings.timeline import TimelineWriter
from recordings.video_write import QueuedFrame, VideoWriter
from recordings.wav_write import SegmentedWavWriter

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
        video: dict[str, Any] | None,
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
        self._video: VideoWriter | None = None
        if video is not None:
            self._video = VideoWriter(
                path / VIDEO,
                float(video.get("fps") or 30.0),
                self._frame_written,
                self._frame_dropped,
                encoder=encoder,
            )
        self._audio_thread = threading.Thread(target=self._write_audio, name="hearth-audio", daemon=True)
        self._stop_sync = threading.Event()
        self._sync_thread = threading.Thread(target=self._sync, name="hearth-sync", daemon=True)
        self._audio_thread.start()
        self._sync_thread.start()
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
    ) -> EpisodeWriter:
        """Make the folder <root>/<session>/<id>/ and start writing.

        audio: rate_hz, channels, format (dsp.FORMATS or "array"), bits (16, 24, 32). video: width_px,
        height_px, fps, or None without a camera. encoder: a name of recordings.video_write.ENCODERS instead
        of the first that works. Raises InputError when the episode exists, StorageError when its folder
        cannot be written.
        """
        missing = {"rate_hz", "channels", "format"} - set(audio)
        if missing:
            raise InputError(f"audio of an episode lacks {', '.join(sorted(missing))}; got {sorted(audio)}")
        source = {**profile.source, "audio": {"bits": 24, **audio}}
        if video is not None:
            source["video"] = dict(video)
        profile = msgspec.structs.replace(profile, source=source)
        path = create_folder(Path(root), profile)
        try:
            return cls(path, profile, audio, video, segment_mib, encoder)
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
        pictures = 0 if self._video is None else self._video._waiting_bytes
        return self._waiting_frames / self._rate_hz, pictures

    # Pictures

    def write_frame(
        self, image: NDArray[np.uint8], t_ns: int, seq: int, dropped: int = 0, t_source: str = "arrival"
    ) -> None:
        """Queue a picture: (height, width, 3) uint8 BGR, not to be changed afterwards. Never raises for the
        disk or the encoder: what could not be written is a gap in the timeline."""
        if self._video is None:
            raise InputError(f"{self.path.name}: a picture came, but the episode was created without video")
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise InputError(f"{self.path.name}: got a picture of shape {image.shape}, type {image.dtype}")
        self._video.put(QueuedFrame(int(t_ns), int(seq), image, int(dropped), t_source))

    def _frame_written(self, frame: QueuedFrame, index: int, pts_ms: int) -> None:
        if frame.dropped:
            self._timeline.add(_gap("video", frame.t_ns, "camera", dropped=frame.dropped))
        self._timeline.add(
            {
                "type": "frame",
                "t_ns": frame.t_ns,
                "seq": frame.seq,
                "index": index,
                "pts_ms": pts_ms,
                "t_source": frame.t_source,
                "dropped": frame.dropped,
            }
        )

    def _frame_dropped(self, frame: QueuedFrame, cause: str) -> None:
        detail = str(self._video.error) if self._video is not None and self._video.error else ""
        self._timeline.add(
            _gap(
                "video",
                frame.t_ns,
                cause,
                seq=frame.seq,
                dropped=frame.dropped + 1,
                **({"detail": detail} if detail else {}),
            )
        )

    # Everything else

    def event(self, kind: str, t_ns: int, **data: Any) -> None:
        """Note something that happened; `data` becomes plain JSON."""
        self._timeline.add({"type": "event", "t_ns": int(t_ns), "kind": kind, "data": data})

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
        if name in _OWN_FILES or name.startswith(f"{ORIGINALS}/") or inside not in target.parents:
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

    def _sync(self) -> None:
        while not self._stop_sync.wait(1.0):
            with suppress(HearthError):
                self._wav.sync()
            self._timeline.sync()
            if self._video is not None:
                self._video.sync()

    def _close_streams(self) -> list[Exception]:
        """Drain the queues and close the files; gives what went wrong, worst first."""
        errors: list[Exception] = []
        if self._closed:
            return errors
        self._closed = True
        self._audio_queue.put(None)
        self._audio_thread.join()
        if self._audio_error is not None:
            errors.append(self._audio_error)
        if self._video is not None:
            try:
                self._video.close()
            except Exception as error:
                self._checks["video_error"] = str(error)
                if isinstance(error, StorageError):
                    errors.append(error)
            if self._video.file is not None:
                video = {**self.profile.source.get("video", {}), "encoder": self._video.file.encoder}
                with suppress(StorageError):
                    self.update_profile(source={**self.profile.source, "video": video})
        self.anchor()
        self._stop_sync.set()
        self._sync_thread.join()
        for close in (self._wav.close, self._timeline.close):
            try:
                close()
            except HearthError as error:
                errors.append(error)
        return errors

    def abort(self, reason: str) -> None:
        """Stop writing and leave an interrupted episode; harmless after `finish`."""
        if not self._closed:
            self._close_streams()
            mark_failed(self.path, reason)

    def finish(self, report: bool = True) -> Episode:
        """Drain, close, make the release form, directions, checks, report and manifest, and unmark.

        report=False leaves report.html out. Raises StorageError when any stream could not be written, or
        whatever went wrong; the episode then stays as an interrupted one, which `repair` can finish.
        """
        from recordings.finish import complete

        try:
            errors = self._close_streams()
            if errors:
                raise errors[0]
            return complete(self.path, extra=self._checks, report=report, frames=self._wav.frames)
        except BaseException as error:
            mark_failed(self.path, f"{type(error).__name__}: {error}")
            raise


def _gap(stream: str, t_ns: int, cause: str, **data: Any) -> dict[str, Any]:
    return {"type": "gap", "t_ns": int(t_ns), "stream": stream, "cause": cause, **data}
