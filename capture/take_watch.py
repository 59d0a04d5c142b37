"""Statistics of what sources deliver while they run: sound per channel, pictures per camera."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dsp
from capture.blocks import AudioBlock, AudioInfo, SourceEvent, VideoFrame
from capture.channel_watch import ChannelWatch
from capture.fanout import Fanout, Subscription
from dsp.errors import HearthError, InputError
from dsp.levels import to_dbfs
from recordings.clock_fit import ClockFit, fit_clock

_PIECE_S = 0.1  # levels are taken over so much
_LONGEST_S = 120.0  # of sound that is kept


class Watch(ABC):
    """A thread that follows one source; a subclass takes its items. `close` ends it."""

    def __init__(self, name: str, fanout: Fanout) -> None:
        self.events: list[SourceEvent] = []
        self._lock = threading.Lock()
        self._subscription: Subscription = fanout.subscribe(f"watch {name}")
        self.thread = threading.Thread(target=self._follow, name=f"watch {name}", daemon=True)
        self.thread.start()

    @abstractmethod
    def take(self, item: AudioBlock | VideoFrame) -> None:
        """One block or picture; called with the lock held."""

    def note(self, event: SourceEvent) -> None:
        """One event; called with the lock held."""
        self.events.append(event)

    def close(self) -> None:
        """Take what has come, then end."""
        self._subscription.close()
        self.thread.join()

    def _follow(self) -> None:
        for item in self._subscription:
            with self._lock:
                if isinstance(item, SourceEvent):
                    self.note(item)
                else:
                    self.take(item)


@dataclass(frozen=True, slots=True)
class LevelsNow:
    """Over the newest blocks: (channels,) dBFS each; dead and clipped are channel numbers."""

    peak_dbfs: NDArray[np.float64]
    rms_dbfs: NDArray[np.float64]
    dead: tuple[int, ...] = ()
    clipped: tuple[int, ...] = ()


class SoundWatch(Watch):
    """Keeps the sound (up to two minutes) and what its clock said; `events` has the channels' faults too."""

    def __init__(self, info: AudioInfo, fanout: Fanout) -> None:
        self.info = info
        self.frames = self.lost_frames = self.gaps = 0
        self._blocks: list[NDArray[np.int32]] = []
        self._new: list[NDArray[np.float32]] = []
        self._clock: list[tuple[int, int]] = []  # (first frame, observed time) since the last gap
        self._channels = ChannelWatch(info.rate_hz, info.channels, info.format, bits=info.bits)
        super().__init__("microphone", fanout)

    def take(self, item: AudioBlock | VideoFrame) -> None:
        assert isinstance(item, AudioBlock)
        if item.lost_frames:
            self.lost_frames += item.lost_frames
            self.gaps += 1
            self._clock.clear()
        self.frames += len(item.samples)
        self._clock.append((item.first_frame, item.t_observed_ns))
        self.events += self._channels.push(item)
        if self.seconds < _LONGEST_S:
            self._blocks.append(item.samples)
        self._new.append(item.as_float())
        del self._new[:-200]

    def note(self, event: SourceEvent) -> None:
        """The recorder's own watch of the channels tells the same through the fan-out: once is enough. (This
        one also watches when the recorder cannot start.)"""
        if event.kind != "channels":
            super().note(event)

    @property
    def present_faults(self) -> list[dict[str, Any]]:
        """Faults of channels that are there now; see ChannelWatch."""
        return self._channels.present

    @property
    def seconds(self) -> float:
        """Sound that came."""
        return self.frames / self.info.rate_hz

    def levels_now(self) -> LevelsNow | None:
        """Of what came since the last call; None when nothing did."""
        with self._lock:
            blocks, self._new = self._new, []
        if not blocks:
            return None
        now = dsp.levels(np.concatenate(blocks))
        return LevelsNow(
            np.asarray(now.peak_dbfs, np.float64),
            np.asarray(now.rms_dbfs, np.float64),
            tuple(int(i) for i in np.flatnonzero(now.dead)),
            tuple(int(i) for i in np.flatnonzero(now.clipped_frames)),
        )

    def samples(self) -> NDArray[np.float32]:
        """(frames, channels), full scale +-1: what came."""
        with self._lock:
            blocks = list(self._blocks)
        if not blocks:
            return np.zeros((0, self.info.channels), np.float32)
        return np.concatenate(blocks).astype(np.float32) * np.float32(2.0**-31)

    def noise_floor_dbfs(self) -> list[float] | None:
        """Per channel: RMS that nine of ten tenths of a second exceed, without the mean; None: too short."""
        x = self.samples()
        piece = round(_PIECE_S * self.info.rate_hz)
        count = len(x) // piece
        if count < 5:
            return None
        pieces = x[: count * piece].reshape(count, piece, -1)
        rms = pieces.std(axis=1, dtype=np.float64)
        return [round(float(v), 1) for v in np.asarray(to_dbfs(np.quantile(rms, 0.1, axis=0)))]

    def clock(self) -> ClockFit | None:
        """The microphone's clock against the computer's since the last gap; None: too short."""
        with self._lock:
            points = list(self._clock)
        if len(points) < 8 or points[-1][0] - points[0][0] < self.info.rate_hz:
            return None
        frames, times = zip(*points, strict=True)
        try:
            return fit_clock(np.array(frames), np.array(times), self.info.rate_hz)
        except InputError:
            return None


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """What a camera delivered. fps: pictures per second by their times; None with fewer than three.

    jitter_ms: 95 % of the times are no further from a regular rhythm. t_source: how many times came from
    where. mean, spread: of the last picture's brightness, 0 to 255; None when it could not be decoded.
    """

    pictures: int
    dropped: int
    fps: float | None
    jitter_ms: float | None
    t_source: dict[str, int] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    jpeg_bytes: float | None = None
    width_px: int = 0
    height_px: int = 0
    mean: float | None = None
    spread: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "pictures": self.pictures,
            "dropped": self.dropped,
            "fps": None if self.fps is None else round(self.fps, 2),
            "jitter_ms": None if self.jitter_ms is None else round(self.jitter_ms, 2),
            "t_source": self.t_source,
            "duplicate": self.flags.get("duplicate", 0),
            "frozen": self.flags.get("frozen", 0),
            "late": self.flags.get("late", 0),
            "damaged": self.flags.get("damaged", 0),
            "jpeg_bytes": None if self.jpeg_bytes is None else round(self.jpeg_bytes),
            "width_px": self.width_px,
            "height_px": self.height_px,
            "brightness": None if self.mean is None else round(self.mean, 1),
            "contrast": None if self.spread is None else round(self.spread, 1),
        }


class PictureWatch(Watch):
    """Counts a camera's pictures; keeps their times and the last picture."""

    def __init__(self, name: str, fanout: Fanout) -> None:
        self._times: list[int] = []
        self._places: list[int] = []
        self._sources: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._dropped = self._jpegs = self._jpeg_bytes = 0
        self._last: VideoFrame | None = None
        super().__init__(name, fanout)

    def take(self, item: AudioBlock | VideoFrame) -> None:
        assert isinstance(item, VideoFrame)
        self._dropped += item.dropped
        self._times.append(item.t_ns)
        self._places.append(len(self._places) + self._dropped)
        self._sources[item.t_source] += 1
        self._flags.update(item.flags)
        if item.jpeg is not None:
            self._jpegs += 1
            self._jpeg_bytes += len(item.jpeg)
        self._last = item

    @property
    def pictures(self) -> int:
        """How many came."""
        return len(self._times)

    def facts(self, look: bool = False) -> PictureFacts:
        """Everything so far. look: decode the last picture to see how bright it is."""
        with self._lock:
            times, places = np.array(self._times, np.float64), np.array(self._places, np.float64)
            last = self._last
            sources, flags = dict(self._sources), dict(self._flags)
            dropped, jpeg = self._dropped, (self._jpeg_bytes / self._jpegs if self._jpegs else None)
        fps = jitter = None
        if len(times) > 2 and times[-1] > times[0]:
            fps = (len(times) - 1) * 1e9 / (times[-1] - times[0])
            after = times - times[0]
            slope, start = np.polyfit(places, after, 1)
            off = after - (start + slope * places)
            jitter = float(np.quantile(np.abs(off - np.median(off)), 0.95)) / 1e6
        mean = spread = None
        if look and last is not None:
            try:
                small = last.image[::4, ::4].mean(axis=2)
                mean, spread = float(small.mean()), float(small.std())
            except HearthError:
                pass
        return PictureFacts(
            pictures=len(times),
            dropped=dropped,
            fps=fps,
            jitter_ms=jitter,
            t_source=sources,
            flags=flags,
            jpeg_bytes=jpeg,
            width_px=last.width_px if last is not None else 0,
            height_px=last.height_px if last is not None else 0,
            mean=mean,
            spread=spread,
        )
