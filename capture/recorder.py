"""Writes an episode from the fan-outs of a microphone and a camera, and loses nothing.

One thread per stream takes items from its own unlimited queue and writes them; a slow disk, a stalled
camera, a meter or the live chain never hold another stream up. What happened to a source (lost, returned,
overflow, stalled) goes into the episode's timeline with its time.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, Item, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.channel_watch import ChannelFollower
from capture.clock import AudioClock, ClockState
from capture.disk_room import check_room, free_bytes
from capture.fanout import Fanout, Subscription
from capture.folder_watch import FolderWatch
from capture.recording import Meter, Recording, StopReason, sound_findings
from capture.rig import Rig
from capture.steady_memory import keep_memory_steady
from capture.warm_up import warm_up
from dsp.errors import DeviceError, InputError
from recordings.av_offset import AvOffset, SlateWatch, offset_of
from recordings.episode import Episode, video_stream
from recordings.profile import Profile
from recordings.storage import StorageError

if TYPE_CHECKING:
    from capture.sources import OpenedRig

_MIB = 1 << 20


class Recorder:
    """Records the two fan-outs of an opened rig into one episode.

    Life: `start` -> (the sources run) -> `stop`. `done` is set when the take should end by itself: the
    source is over, the disk's reserve is reached, or the sound could not be written; `stop_reason` says why.
    """

    def __init__(
        self,
        rig: Rig,
        opened: OpenedRig,
        profile: Profile,
        audio: Fanout,
        video: Fanout | None = None,
        *,
        further: Mapping[str, Fanout] | None = None,
        root: str | Path | None = None,
        on_meter: Callable[[Meter], None] | None = None,
        max_seconds: float | None = None,
    ) -> None:
        """video: the main camera's; further: those of the rig's `more_cameras`, by name. root: where sessions
        go; None takes the rig's storage folder. max_seconds: set `done` after that much sound."""
        self.rig, self.opened, self.profile = rig, opened, profile
        self.root = Path(root if root is not None else rig.storage.folder)
        self.done = threading.Event()
        self.stop_reason: StopReason = "asked"
        self.error: BaseException | None = None
        self._audio, self._video = audio, video
        self._cameras: dict[str, Fanout] = {} if video is None else {"": video, **(further or {})}
        self._camera_of = {video_stream(camera): camera for camera in self._cameras}
        self._on_meter, self._max_seconds = on_meter, max_seconds
        self._writer: Any = None
        self._threads: list[threading.Thread] = []
        self._subscriptions: list[Subscription] = []
        self._stopping = threading.Event()
        self._store = {"": rig.camera.store, **{c.name: c.store for c in rig.more_cameras}}
        self._slate = SlateWatch(opened.audio_info.rate_hz, opened.audio_info.format)
        # For a microphone that filters no clock of its own.
        has_clock = hasattr(opened.microphone, "clock_state")
        self._clock = None if has_clock else AudioClock(opened.audio_info.rate_hz)
        self._events: list[SourceEvent] = []
        self._frames = self._lost = self._pictures = self._dropped = 0
        self._more_pictures = dict.fromkeys(further or {}, 0)
        self._as_jpeg = False  # the main camera's JPEGs are stored undecoded
        self._first: AudioBlock | None = None
        self._end_ns = 0
        self._fast = "fast" in (rig.microphone.pace, rig.camera.pace)
        self._picture_ns: dict[str, int] = {}  # per camera: of the newest picture taken from the queue
        self._pictures_over: set[str] = set()  # cameras that said that they ended
        self._cameras_away: set[str] = set()  # those that are stalled or lost, and not yet back
        self._hurry = threading.Event()  # end without waiting for pictures
        self._away = False  # the microphone is lost and not yet back

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Create the episode and begin to take items. Start the sources after this.

        Raises StorageError (folder not writable), InputError (less room than `storage.min_free_mib`).
        """
        from recordings.writer import EpisodeWriter

        check_room(self.root, self.rig.storage.min_free_mib)
        keep_memory_steady()
        warm_up(self.opened)
        self._writer = EpisodeWriter.create(
            self.root,
            self.profile,
            audio=_audio_fields(self.opened.audio_info),
            video=_video_fields(self.opened.video_info) if self._video is not None else None,
            more_videos={
                name: _video_fields(self.opened.infos.get(name)) or {} for name in self._more_pictures
            },
            segment_mib=self.rig.storage.segment_mib,
        )
        self.opened.calibrations.keep(self._writer.add_file)
        self._folder = FolderWatch(self.path)
        self._subscribe("audio", self._audio)
        for camera, fanout in self._cameras.items():
            self._subscribe(video_stream(camera), fanout)
        # It puts its events into the fan-out, so that timeline, meter and live chain all get them.
        self._channels = ChannelFollower(self._audio, self.opened.audio_info)
        self._run("record watch", self._watch)
        if self._on_meter is not None:
            self._run("record meter", self._meter, self._audio.subscribe("meter", maxsize=200))

    @property
    def started(self) -> bool:
        """Whether `start` made the episode."""
        return self._writer is not None

    @property
    def path(self) -> Path:
        """The episode's folder."""
        return Path(self._writer.path)

    @property
    def writer(self) -> Any:
        """The EpisodeWriter, for events, truth and profile changes from others."""
        return self._writer

    @property
    def heard(self) -> int | None:
        """Grows with the sound that comes, written or waiting for a slow disk. None while the microphone is
        lost and waited for."""
        return None if self._away else self._frames + self.waiting.get("audio", 0)

    @property
    def waiting(self) -> dict[str, int]:
        """How many blocks or pictures of each stream wait to be written."""
        return {s.name.removeprefix("recorder "): s.depth for s in self._subscriptions}

    @property
    def seconds(self) -> float:
        """Length of the sound so far, gaps included."""
        return 0.0 if self._first is None else (self._end_ns - self._first.t_ns) / 1e9

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        """Put something that happened into the episode's timeline."""
        self._writer.event(kind, monotonic_ns() if t_ns is None else t_ns, **data)

    def stop(self, report: bool = True) -> Recording:
        """Write what waits, estimate drift and A/V offset, finish the episode. Stop the sources first.
        report: with its page report.html.

        Raises what made the sound unwritable, or StorageError when the folder was moved or removed (the
        episode then stays marked as interrupted, repairable where it is).
        """
        self._channels.close()
        for subscription in self._subscriptions:
            subscription.close()
        self._stopping.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._check_folder()
        if self.error is not None:
            self._writer.abort(f"{type(self.error).__name__}: {self.error}")
            self._raise(self.error)
        self._note_missing_pictures()
        if self._as_jpeg:
            self._writer.close_streams()
        offset, note = self._estimate_offset()
        counts = self.opened.camera_counts()
        if counts:
            self._writer.add_check("cameras", counts)
        if self.opened.scene is not None:
            truth = json.dumps(self.opened.scene.truth.to_dict(), indent=1)
            self._writer.add_file("truth.json", truth.encode())
        clock = self._clock_state()
        if clock is not None:
            self._writer.add_check("capture_clock", asdict(clock))
        try:
            episode = self._writer.finish(report=report)
        except StorageError as error:
            self._raise(error)
        return Recording(
            path=self.path,
            seconds=self.seconds,
            stop_reason=self.stop_reason,
            frames=self._frames,
            pictures=self._pictures,
            more_pictures=dict(self._more_pictures),
            lost_frames=episode.checks["audio"].get("lost_frames", self._lost),
            dropped_pictures=self._dropped,
            estimated=bool(self._cameras_away) or any(c.get("dropped_estimated") for c in counts.values()),
            clock=episode.checks["clocks"],
            av_offset=offset,
            av_offset_note=note,
            events=tuple(self._events),
            findings=sound_findings(episode.checks),
            episode=episode,
        )

    def _raise(self, error: BaseException) -> NoReturn:
        """What a full or broken disk did not take is not all that there is: say how to get the rest."""
        if isinstance(error, StorageError) and "hearth repair" not in str(error):
            kept = f"What was recorded before is kept: `hearth repair {self.path}` finishes it then"
            raise StorageError(f"{error}. {kept}") from error
        raise error

    def wait_for_pictures(self, patience_s: float = 10.0) -> None:
        """With a source that plays as fast as it can, sound runs ahead of the pictures: wait until they have
        come as far, the camera ended, none came for patience_s, or the take must end (Ctrl-C, disk). Call it
        when no more sound comes. What is missing then is counted as dropped by `stop`."""
        newest, since = dict(self._picture_ns), time.monotonic()
        while any(map(self._pictures_missing, self._cameras)) and not self._hurry.is_set():
            if self._picture_ns != newest:
                newest, since = dict(self._picture_ns), time.monotonic()
            elif time.monotonic() - since > patience_s:
                return
            time.sleep(0.005)

    def _pictures_missing(self, camera: str) -> int:
        """How many pictures lack up to the end of the sound, by the camera's rate. A live camera counts its
        own losses, but not those after which no picture came any more."""
        info = self.opened.infos.get(camera) if camera else self.opened.video_info
        if self._first is None or info is None or not (self._fast or camera in self._cameras_away):
            return 0
        newest = self._picture_ns.get(camera)
        if camera in self._pictures_over or (newest is not None and newest >= self._end_ns):
            return 0
        period_ns = 1e9 / (info.fps or 30.0)
        if newest is None:
            return math.ceil((self._end_ns - self._first.t_ns) / period_ns)
        return max(0, math.ceil((self._end_ns - newest) / period_ns - 0.01) - 1)

    def _note_missing_pictures(self) -> None:
        for camera in self._cameras:
            missing = self._pictures_missing(camera)
            if missing:
                self._dropped += missing
                detail = f"about {missing} pictures before the end of the sound did not come"
                source = f"camera {camera}".strip()
                event = SourceEvent(self._end_ns, source, "stalled", detail, {"dropped": missing})
                self._source_event(video_stream(camera), event)
                begin_ns = self._picture_ns.get(camera, self._first.t_ns if self._first else self._end_ns)
                self._writer.gap(video_stream(camera), begin_ns, "camera", dropped=missing, estimated=True)

    # ------------------------------------------------------------------ threads

    def _run(self, name: str, body: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=body, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish_because(self, reason: StopReason) -> None:
        """Ask the take to end; the first reason counts."""
        if reason in ("interrupt", "disk", "error"):
            self._hurry.set()
        if not self.done.is_set():
            self.stop_reason = reason
            self.done.set()

    def _subscribe(self, stream: str, fanout: Fanout) -> None:
        subscription = fanout.subscribe(f"recorder {stream}")
        self._subscriptions.append(subscription)
        self._run(f"record {stream}", self._write_stream, stream, subscription)

    def _write_stream(self, stream: str, subscription: Subscription) -> None:
        try:
            for item in subscription:
                self._write(stream, item)
        except BaseException as error:
            self.error = self.error or error
            self.finish_because("error")

    def _write(self, stream: str, item: Item) -> None:
        if self._fast:
            self._wait_for_disk()
        if isinstance(item, AudioBlock):
            self._write_audio(item)
        elif isinstance(item, VideoFrame):
            self._write_frame(self._camera_of[stream], item)
        else:
            self._source_event(stream, item)

    def _write_frame(self, camera: str, frame: VideoFrame) -> None:
        self._picture_ns[camera] = frame.t_ns
        end_ns = None
        if self._fast and self._max_seconds is not None and self._first is not None:
            end_ns = self._first.t_ns + round(self._max_seconds * 1e9)
        if end_ns is not None and frame.t_ns >= end_ns:
            return  # played ahead, beyond what was asked for
        image, jpeg = self._as_stored(camera, frame)
        self._writer.write_frame(
            image,
            frame.t_ns,
            frame.seq,
            dropped=frame.dropped,
            t_source=frame.t_source,
            jpeg=jpeg,
            size=(frame.width_px, frame.height_px),
            camera=camera,
            flags=frame.flags,
        )
        self._dropped += frame.dropped
        if camera:
            self._more_pictures[camera] += 1
            return
        self._pictures += 1
        if image is not None:
            self._slate.frame(frame.t_ns, image)
        else:
            self._as_jpeg = True  # the slate is looked for in the file, when the take is over

    def _as_stored(self, camera: str, frame: VideoFrame) -> tuple[NDArray[np.uint8] | None, bytes | None]:
        """What goes to the writer: pixels to encode, or the camera's JPEG to keep as it is."""
        if frame.jpeg is None:
            return frame.image, None
        if self._store[camera] != "encode":
            return None, frame.jpeg
        try:
            return frame.image, None
        except DeviceError:  # not decodable: the writer leaves it out and notes that
            return None, frame.jpeg

    def _wait_for_disk(self) -> None:
        """A source that plays as fast as it can is held to what is written; a live one is never."""
        while not self._stopping.is_set():
            sound_s, picture_bytes = self._writer.waiting
            if sound_s < 20 and picture_bytes < 64 * _MIB:
                return
            time.sleep(0.002)

    def _write_audio(self, block: AudioBlock) -> None:
        samples = block.samples
        if self._first is None:
            self._first = block
        if self._max_seconds is not None:  # end on the frame, not on the block
            room = round(self._max_seconds * block.rate_hz) - (block.first_frame - self._first.first_frame)
            if room <= len(samples):
                self.finish_because("duration")
            if room <= 0:
                return
            samples = samples[:room]
        self._writer.write_audio(
            samples,
            block.t_ns,
            block.seq,
            block.first_frame,
            lost_frames=block.lost_frames,
            flags=block.flags,
            t_observed_ns=block.t_observed_ns,
        )
        self._slate.audio(block.t_ns, block.first_frame, block.samples)
        if self._clock is not None:
            if block.lost_frames:
                self._clock.restart(block.first_frame, block.t_observed_ns)
            self._clock.observe(block.first_frame, len(block.samples), block.t_observed_ns)
        self._frames += len(samples)
        self._lost += block.lost_frames
        self._end_ns = block.t_ns + len(samples) * 1_000_000_000 // block.rate_hz

    def _source_event(self, stream: str, event: SourceEvent) -> None:
        self._events.append(event)
        self._writer.event(
            event.kind, event.t_ns, stream=stream, source=event.source, detail=event.detail, **event.data
        )
        if stream != "audio":
            camera = self._camera_of[stream]
            if event.kind == "ended":
                self._pictures_over.add(camera)
            elif event.kind in ("lost", "stalled"):
                self._cameras_away.add(camera)
            elif event.kind == "returned":
                self._cameras_away.discard(camera)
            return
        self._away = event.kind == "lost" or (self._away and event.kind != "returned")
        if event.kind == "ended":  # sound decides: a camera file may be shorter
            self.finish_because("ended")

    def _watch(self) -> None:
        """Stop while there is still room to finish: the 24 kHz form and the reports need some. And stop on
        time when the microphone is away and no block tells the time."""
        while not self._stopping.wait(0.25):
            if not self._check_folder():
                return
            if self._max_seconds is not None and self._first is not None:
                asked_ns = self._first.t_ns + round(self._max_seconds * 1e9)
                if self._away and monotonic_ns() > asked_ns:
                    self.finish_because("duration")
            if free_bytes(self.path) < self._reserve_bytes():
                self._events.append(
                    SourceEvent(monotonic_ns(), "disk", "full", f"{self.root}: the disk is nearly full")
                )
                self.event("disk_nearly_full", free_mib=free_bytes(self.path) // _MIB)
                self.finish_because("disk")
                return

    def _check_folder(self) -> bool:
        try:
            self._folder.check()
        except StorageError as error:
            self.error = self.error or error
            self.finish_because("error")
            return False
        return True

    def _reserve_bytes(self) -> int:
        info = self.opened.audio_info
        release = self._frames // 2 * info.channels * 4  # the 24 kHz form, at most float32
        return int(release + max(16, min(self.rig.storage.min_free_mib // 2, 200)) * _MIB)

    def _minutes_left(self) -> float:
        """From what this take writes, not from what others do on the same disk."""
        info = self.opened.audio_info
        per_second = info.rate_hz * info.channels * 3 + 24000 * info.channels * 4.0
        if self.seconds > 2:
            per_second += sum(p.stat().st_size for p in self.path.glob("video*.mkv")) / self.seconds
        return max(0.0, (free_bytes(self.path) - self._reserve_bytes()) / per_second / 60)

    def _meter(self, subscription: Subscription) -> None:
        import dsp

        assert self._on_meter is not None
        blocks: list[NDArray[np.float32]] = []
        told = 0  # of the events of all sources
        last = monotonic_ns()
        while not self._stopping.is_set():
            item = subscription.get(timeout=0.2)
            if isinstance(item, AudioBlock):
                blocks.append(item.as_float())
            if monotonic_ns() - last < 200_000_000:
                continue
            last = monotonic_ns()
            sound = np.concatenate(blocks) if blocks else np.zeros((1, self.opened.audio_info.channels), "f4")
            levels = dsp.levels(sound)
            events = tuple(self._events[told:])
            told += len(events)
            self._on_meter(
                Meter(
                    seconds=self.seconds,
                    peak_dbfs=np.asarray(levels.peak_dbfs, np.float64),
                    rms_dbfs=np.asarray(levels.rms_dbfs, np.float64),
                    clipped=tuple(int(i) for i in np.flatnonzero(levels.clipped_frames)),
                    dead=tuple(int(i) for i in np.flatnonzero(levels.dead)),
                    frames=self._frames,
                    pictures=self._pictures,
                    lost_frames=self._lost,
                    dropped_pictures=self._dropped,
                    waiting=sum(s.depth for s in self._subscriptions),
                    minutes_left=self._minutes_left(),
                    events=events,
                )
            )
            blocks = []
        subscription.close()

    # ------------------------------------------------------------------ at the end

    def _clock_state(self) -> ClockState | None:
        """The microphone's own clock, else what its blocks' observed times tell; None for what plays fast."""
        if self._fast:
            return None
        if self._clock is not None:
            return self._clock.state
        own: ClockState | None = getattr(self.opened.microphone, "clock_state", None)
        return own

    def _estimate_offset(self) -> tuple[AvOffset | None, str]:
        if self._video is None:
            return None, "no camera"
        try:
            offset = offset_of(Episode.open(self.path)) if self._as_jpeg else self._slate.estimate()
        except InputError as error:
            self._writer.add_check("av_offset", {"offset_ms": None, "reason": str(error)})
            return None, str(error)
        self._writer.add_check("av_offset", asdict(offset))
        return offset, ""


def _audio_fields(info: AudioInfo) -> dict[str, Any]:
    return {
        "rate_hz": info.rate_hz,
        "channels": info.channels,
        "format": info.format,
        "bits": 24 if info.bits <= 24 else 32,
    }


def _video_fields(info: VideoInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    return {"width_px": info.width_px, "height_px": info.height_px, "fps": info.fps}
