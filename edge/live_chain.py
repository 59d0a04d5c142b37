"""What happens to each block of sound and each picture between the source and the stream.

Sound: block -> 24 kHz (the filter's delay taken out of the times) -> AmbiX -> foa24, levels, activity, doa,
tracks.
Pictures: JPEG -> video, in a thread of their own.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import dsp
from capture.blocks import AudioBlock, AudioInfo, Item, SourceEvent, VideoFrame, monotonic_ns
from capture.fanout import Subscription
from dsp.doa import DoaEstimator
from dsp.errors import InputError
from edge.latency_budget import StageTimes
from edge.mute import MUTED, Door
from edge.stream import Publisher

if TYPE_CHECKING:
    from dsp.foa_correction import FoaCorrection

RATE_HZ = 24000
DOA_WINDOW_NS = 100_000_000
ACTIVITY_HOP_NS = 20_000_000
LEVELS_S = 0.1
JPEG_QUALITY = 85


class SampleTimes:
    """From a frame's number at 24 kHz to its time, over gaps and a drifting clock.

    Each `note` says when one frame was captured; a later look-up goes on from the last note at or before the
    frame asked for. Notes of the last second are kept: nobody asks about older ones.
    """

    def __init__(self, rate_hz: int = RATE_HZ) -> None:
        self._rate_hz = rate_hz
        self._notes: deque[tuple[int, int]] = deque()

    def note(self, frame: int, t_ns: int) -> None:
        """Frame number `frame` was captured at `t_ns`; numbers must not fall."""
        self._notes.append((frame, t_ns))
        while len(self._notes) > 2 and self._notes[1][0] < frame - self._rate_hz:
            self._notes.popleft()

    def at(self, frame: int) -> int:
        """The time of a frame, ns. Raises InputError before the first note."""
        if not self._notes:
            raise InputError("no sound has come yet, so no frame has a time")
        for noted, t_ns in reversed(self._notes):
            if noted <= frame:
                return t_ns + (frame - noted) * 1_000_000_000 // self._rate_hz
        noted, t_ns = self._notes[0]
        return t_ns + (frame - noted) * 1_000_000_000 // self._rate_hz


class AudioChain:
    """Turns the blocks of one microphone into messages. One thread owns it.

    info: what the microphone really is; four channels in one of dsp.FORMATS. correction: of its capsules, for
    these channels. Raises InputError for others.

    Frames at 24 kHz are numbered from the source's own counter (`first_frame` in the data of foa24), so the
    numbers jump over a gap as the source's do. A gap ends the filter, the direction estimate and starts both
    anew: nothing is smeared across it, nothing is invented in it.
    """

    def __init__(
        self,
        publisher: Publisher,
        info: AudioInfo,
        times: StageTimes | None = None,
        correction: FoaCorrection | None = None,
    ) -> None:
        if info.channels != 4 or info.format not in dsp.FORMATS:
            raise InputError(
                f"the live chain needs 4 channels of first-order ambisonics ({', '.join(dsp.FORMATS)}); "
                f"{info.name} has {info.channels} channels, format {info.format!r}. Other arrays: "
                "dsp.array_to_foa on a recording"
            )
        self.info = info
        self.blocks = 0
        self.lost_frames = 0
        self.gaps = 0
        self._publisher = publisher
        self._times = times or StageTimes()
        self._resampler = dsp.Resampler(info.rate_hz, RATE_HZ, 4)
        self._correction = None if correction is None else correction.stream(info.rate_hz)
        self._skip_in = 0  # frames of the correction's start still to be left out
        self._clock = SampleTimes()
        self._activity = dsp.ActivityDetector(RATE_HZ)
        self._activity_start: int | None = None  # number of the detector's first frame, gaps taken out
        self._doa = DoaEstimator(RATE_HZ)
        self._tracker = dsp.Tracker(RATE_HZ)
        self._next: int | None = None  # number of the next frame to come out, at 24 kHz
        self._skip = 0  # frames of the filter's start still to be left out
        self._segment_in = 0  # numbers of this segment's first frame: the source's, and ours at 24 kHz
        self._segment_out = 0
        self._expected_in: int | None = None
        self._last: AudioBlock | None = None
        self._gap_frames = 0  # to be told with the next foa24 message
        self._unmeasured: list[NDArray[np.float32]] = []
        self._unmeasured_frames = 0
        self._unmeasured_t_ns = 0

    def push(self, block: AudioBlock) -> None:
        """The next block; publishes what it completes."""
        if self._expected_in is None:
            self._begin(block)
        elif block.lost_frames or block.first_frame != self._expected_in:
            self._gap(block)
        end_ns = block.t_ns + len(block.samples) * 1_000_000_000 // block.rate_hz
        self._times.add("capture", (monotonic_ns() - end_ns) / 1e9)
        started = time.perf_counter()
        self.blocks += 1
        self._last = block
        self._expected_in = block.first_frame + len(block.samples)
        self._collect_levels(block)
        measured = time.perf_counter()
        sound = self._resampler.push(block.samples if self._correction is None else self._corrected(block))
        if self._skip:
            left_out = min(self._skip, len(sound))
            sound, self._skip = sound[left_out:], self._skip - left_out
        self._times.add("resample", time.perf_counter() - measured)
        self._emit(sound)
        self._times.add("levels", measured - started)
        self._times.add("captured_to_published", (monotonic_ns() - end_ns) / 1e9)

    def finish(self) -> None:
        """The source is over: publish the rest that is still inside the filter, and the last part window."""
        if self._expected_in is None:
            return
        self._end_segment()
        self._expected_in = None

    def _corrected(self, block: AudioBlock) -> NDArray[np.float32]:
        """AmbiX at the source's rate, aligned in time with the block's channels."""
        assert self._correction is not None
        sound = self._correction.push(block.as_float())
        left_out = min(self._skip_in, len(sound))
        self._skip_in -= left_out
        return sound[left_out:]

    def _begin(self, block: AudioBlock) -> None:
        self._segment_in = block.first_frame
        self._next = round(block.first_frame * RATE_HZ / self.info.rate_hz)
        self._skip = self._resampler.delay_frames
        self._skip_in = 0 if self._correction is None else self._correction.delay_frames
        self._segment_out = self._next
        if self._activity_start is None:
            self._activity_start = self._next

    def _gap(self, block: AudioBlock) -> None:
        """Close what was before the gap, say where it is, begin again after it."""
        assert self._expected_in is not None and self._last is not None and self._activity_start is not None
        lost = block.first_frame - self._expected_in
        if block.lost_frames and MUTED not in block.flags:
            lost = block.lost_frames
        last = self._last
        end_ns = last.t_ns + len(last.samples) * 1_000_000_000 // last.rate_hz
        self._end_segment()
        before = self._next or 0
        self._begin(block)
        assert self._next is not None
        self._gap_frames = max(self._next - before, 0)
        self._activity_start += self._gap_frames  # the detector goes on: its floor is still true
        if MUTED not in block.flags:  # what was not to be heard is no loss
            self.gaps += 1
            self.lost_frames += max(lost, 0)
        self._publisher.publish(
            "event",
            end_ns,
            duration_ns=max(block.t_ns - end_ns, 0),
            data={
                "kind": "gap",
                "source": "microphone",
                "lost_frames": lost,
                "rate_hz": self.info.rate_hz,
                "first_frame": block.first_frame,
                "flags": list(block.flags),
            },
        )

    def _end_segment(self) -> None:
        if self._correction is None:
            sound = self._resampler.flush()
        else:
            rest = self._correction.flush()[self._skip_in :]
            sound = np.concatenate([self._resampler.push(rest), self._resampler.flush()])
        left_out = min(self._skip, len(sound))
        self._skip = 0
        self._emit(sound[left_out:])
        for frame in self._doa.flush():
            self._publish_doa(frame)
        for row in self._tracker.flush():
            self._publish_tracks(row)
        self._doa = DoaEstimator(RATE_HZ)
        self._tracker.restart()  # ids go on
        self._publish_levels()

    def _emit(self, sound: NDArray[np.float32]) -> None:
        """Publish consecutive frames at 24 kHz; `self._next` is the number of the first."""
        if not len(sound) or self._next is None or self._last is None:
            return
        first, last = self._next, self._last
        # Its place in the source, against the newest block, whose time is the best known.
        place = self._segment_in + (first - self._segment_out) * self.info.rate_hz / RATE_HZ
        t_ns = last.t_ns + round((place - last.first_frame) * 1e9 / self.info.rate_hz)
        self._clock.note(first, t_ns)
        self._next = first + len(sound)
        if self._correction is None:
            sound = dsp.convert(sound, source=self.info.format, target="ambix")
        data: dict[str, Any] = {"first_frame": first, "rate_hz": RATE_HZ}
        if self._gap_frames:
            data["lost_frames"], self._gap_frames = self._gap_frames, 0
        duration = len(sound) * 1_000_000_000 // RATE_HZ
        began = time.perf_counter()
        self._publisher.publish("foa24", t_ns, sound, duration_ns=duration, data=data)
        sent = time.perf_counter()
        directions = self._doa.push(sound)
        tracks = self._tracker.push(sound)
        hops = self._activity.push(sound)
        found = time.perf_counter()
        for frame in directions:
            self._publish_doa(frame)
        for row in tracks:
            self._publish_tracks(row)
        if hops:
            self._publish_activity(hops)
        self._times.add("doa", found - sent)
        self._times.add("publish", sent - began + time.perf_counter() - found)

    def _publish_doa(self, frame: Any) -> None:
        t_ns = self._clock.at(self._segment_out + round(frame.t_s * RATE_HZ))
        heard = bool(np.isfinite(frame.azimuth_deg) and frame.confidence > 0)
        self._publisher.publish(
            "doa",
            t_ns,
            duration_ns=DOA_WINDOW_NS,
            data={
                "azimuth_deg": round(float(frame.azimuth_deg), 2) if heard else None,
                "elevation_deg": round(float(frame.elevation_deg), 2) if heard else None,
                "confidence": round(float(frame.confidence), 4),
                "uncertainty_deg": round(float(frame.uncertainty_deg), 2) if heard else None,
                "level_dbfs": round(float(frame.level_dbfs), 2),
                "active": bool(frame.active),
            },
        )

    def _publish_tracks(self, frame: dsp.TrackFrame) -> None:
        t_ns = self._clock.at(self._segment_out + round(frame.t_s * RATE_HZ))
        told = [
            {
                "id": track.id,
                "azimuth_deg": round(track.azimuth_deg, 2),
                "elevation_deg": round(track.elevation_deg, 2),
                "azimuth_rate_deg_s": round(track.azimuth_rate_deg_s, 2),
                "elevation_rate_deg_s": round(track.elevation_rate_deg_s, 2),
                "uncertainty_deg": round(track.uncertainty_deg, 2),
                "confidence": round(track.confidence, 4),
                "age_s": round(track.age_s, 1),
                "coasting": track.coasting,
            }
            for track in frame.tracks
        ]
        self._publisher.publish("tracks", t_ns, duration_ns=DOA_WINDOW_NS, data={"tracks": told})

    def _publish_activity(self, hops: list[Any]) -> None:
        assert self._activity_start is not None
        told = [
            {
                "t_ns": self._clock.at(self._activity_start + round(hop.t_s * RATE_HZ)),
                "active": hop.active,
                "level_dbfs": round(hop.level_dbfs, 2),
                "floor_dbfs": round(hop.floor_dbfs, 2),
            }
            for hop in hops
        ]
        duration = len(hops) * ACTIVITY_HOP_NS
        self._publisher.publish("activity", told[0]["t_ns"], duration_ns=duration, data={"hops": told})

    def _collect_levels(self, block: AudioBlock) -> None:
        """Levels of the channels as captured: clipping and dead channels must be seen before any filter."""
        if not self._unmeasured:
            self._unmeasured_t_ns = block.t_ns
        self._unmeasured.append(block.as_float())
        self._unmeasured_frames += len(block.samples)
        if self._unmeasured_frames >= LEVELS_S * block.rate_hz:
            self._publish_levels()

    def _publish_levels(self) -> None:
        if not self._unmeasured:
            return
        measured = dsp.levels(np.concatenate(self._unmeasured))
        duration = self._unmeasured_frames * 1_000_000_000 // self.info.rate_hz
        self._publisher.publish(
            "levels",
            self._unmeasured_t_ns,
            duration_ns=duration,
            data={**measured.to_dict(), "format": self.info.format},
        )
        self._unmeasured, self._unmeasured_frames = [], 0


class Worker(ABC):
    """A thread that takes items from a subscription until it is closed and empty."""

    def __init__(self, name: str, subscription: Subscription) -> None:
        self.name = name
        self.subscription = subscription
        self.door = Door()  # shut while muted: what was heard or seen is dropped
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self.subscription:
                self.take(item)
            self.finish()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def take(self, item: Item) -> None:
        """One item, in the worker's thread."""

    def finish(self) -> None:  # noqa: B027 (most workers have nothing to do)
        """Called after the last item."""


def publish_source_event(publisher: Publisher, event: SourceEvent) -> None:
    """What happened to a source, as an event of the stream."""
    data = {"kind": event.kind, "source": event.source, "detail": event.detail, **event.data}
    publisher.publish("event", event.t_ns, data=data)


class AudioWorker(Worker):
    """Runs an AudioChain on a microphone's subscription. `ended` is set when a finite source is over.
    passed: blocks that went the whole way; away: the microphone is lost and not yet back."""

    def __init__(self, subscription: Subscription, chain: AudioChain, publisher: Publisher) -> None:
        super().__init__("live audio", subscription)
        self.chain = chain
        self.ended = threading.Event()
        self.passed = 0
        self.away = False
        self._publisher = publisher

    def take(self, item: Item) -> None:
        if isinstance(item, AudioBlock):
            with self.door as is_open:
                if is_open:
                    self.chain.push(item)
            self.passed += 1
            self.away = False
        elif isinstance(item, SourceEvent):
            self.away = item.kind == "lost" or (self.away and item.kind != "returned")
            if item.kind == "ended":
                self.finish()
            publish_source_event(self._publisher, item)
            if item.kind == "ended":
                self.ended.set()

    def finish(self) -> None:
        with self.door as is_open:
            if is_open:
                self.chain.finish()


class VideoWorker(Worker):
    """Sends each picture as a JPEG; when it cannot keep up, the older picture goes."""

    def __init__(self, subscription: Subscription, publisher: Publisher, times: StageTimes) -> None:
        super().__init__("live video", subscription)
        self.pictures = 0
        self.dropped = 0  # known by the source to be missing
        self._publisher = publisher
        self._times = times

    def take(self, item: Item) -> None:
        if isinstance(item, SourceEvent):
            publish_source_event(self._publisher, item)
        elif isinstance(item, VideoFrame):
            with self.door as is_open:
                if is_open:
                    self._publish(item)

    def _publish(self, picture: VideoFrame) -> None:
        started = time.perf_counter()
        jpeg = picture.jpeg if picture.jpeg is not None else _as_jpeg(picture)  # a camera's own goes as it is
        encoded = time.perf_counter()
        self._publisher.publish(
            "video",
            picture.t_ns,
            jpeg,
            shape=(picture.height_px, picture.width_px, 3),
            data={"frame": picture.seq, "t_source": picture.t_source, "dropped": picture.dropped},
        )
        self.pictures += 1
        self.dropped += picture.dropped
        self._times.add("jpeg", encoded - started)
        self._times.add("picture_to_published", max(monotonic_ns() - picture.t_ns, 0) / 1e9)


def _as_jpeg(frame: VideoFrame) -> bytes:
    import cv2

    done, jpeg = cv2.imencode(".jpg", frame.image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise InputError(f"picture {frame.seq} of shape {frame.image.shape} cannot be made a JPEG")
    return bytes(jpeg.tobytes())
