"""A live camera of any kind, V4L2 or network: deadlines, a reader thread, reconnecting, what is noticed.

Drivers and network libraries can block for tens of seconds when a camera stalls. So opening and reading
happen in a thread that may be left behind: a deadline decides, not the driver. What was left behind closes
its own connection when it wakes, and delivers nothing.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from typing import Any

from capture.blocks import Sink, SourceEvent, VideoFrame, VideoInfo, monotonic_ns
from capture.camera_address import is_network_address, shown_address
from capture.camera_clock import PictureClock, Stamp
from capture.camera_devices import camera_devices, find_camera, list_cameras, stable_name
from capture.camera_link import CameraEnded, CameraLink, CameraSettings, Picture
from capture.frame_watch import FrameWatch
from capture.network_camera import NetworkLink
from dsp.errors import DeviceError

__all__ = ["LiveCamera", "camera_devices", "list_cameras"]

_NS = 1_000_000_000
_RETRY_S = (0.25, 0.5, 1.0, 2.0)  # waits before opening again; the last one repeats
_MEASURE_S = 0.8  # how long pictures are watched at opening to measure their rate
_SILENCE_S = 0.9  # without a picture: "stalled", so that it is known within a second
_LOOK_S = 0.25  # the longest time between two looks
_SLOW, _SLOW_FOR_S = 0.8, 2.0  # of the rate asked for: "rate" when it is below for so long
_LET_GO_S = 0.5  # how long `stop` waits for the reader before it leaves it behind


class LiveCamera:
    """A V4L2 camera (number, part of its name, path) or a network camera (rtsp:// or http:// address).

    FOURCC, then size, then rate are asked for, read back, and the rate is measured from arriving pictures;
    `open` tells what came out. Reading begins at `open`, so nothing old waits when `start` begins to deliver.
    Events: "stalled" after 0.9 s (or 5 periods) without a picture, "lost" as soon as the connection ends, the
    device is gone, or after `read_deadline_s` of silence; then it is opened again with growing waits until
    "returned". "frozen" and "thawed": see FrameWatch. "rate": slower than asked.
    """

    def __init__(
        self,
        address: int | str,
        *,
        width_px: int = 640,
        height_px: int = 360,
        fps: float = 15.0,
        fourcc: str = "MJPG",
        open_deadline_s: float = 8.0,
        read_deadline_s: float = 3.0,
        reconnect: bool = True,
        source: str = "camera",
    ) -> None:
        """source: who the events say they are from, e.g. "camera door"."""
        self.address = address
        self.settings = CameraSettings(width_px, height_px, fps, fourcc, open_deadline_s, read_deadline_s)
        self.source = source
        self._reconnect = reconnect
        # One lock for all that follows. The sink is called under it: a reader that was left behind cannot
        # deliver, and events and pictures keep their order.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._sink: Sink | None = None
        self._watcher: threading.Thread | None = None
        self._path: str | None = None  # of the V4L2 device, by a name that stays if there is one
        self._session = 0  # number of the reader that counts; others are left behind
        self._reader: threading.Thread | None = None
        self._info: VideoInfo | None = None
        self._stopped = 0  # how often `stop` was called: ends a waiting `open`
        self._reset()

    def _reset(self) -> None:
        self._clock = PictureClock(self.settings.fps)
        self._frames = FrameWatch()
        self._counts: Counter[str] = Counter()
        self._seq = 0
        self._sent_size: tuple[int, int] | None = None  # of the picture delivered last
        self._away_since: int | None = None  # the last picture's arrival while it is stalled or lost
        self._tries = 0  # to open it again
        self._slow_since: int | None = None
        self._slow = False
        self._size = (self.settings.width_px, self.settings.height_px)
        self._begin_session()

    def _begin_session(self) -> None:
        """What belongs to one connection."""
        self._opened: VideoInfo | None = None
        self._error: DeviceError | None = None
        self._ended: str | None = None
        self._first_ns: int | None = None  # when its first and its last picture came
        self._last_ns = monotonic_ns()
        self._times: deque[int] = deque(maxlen=60)
        self._held: Picture | None = None
        self._stalled = False

    # ------------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        """For messages; without a password."""
        if isinstance(self.address, int):
            return f"/dev/video{self.address}"
        return shown_address(self.address)

    @property
    def measured_fps(self) -> float | None:
        """Pictures per second over the last ones; None before there are some."""
        times = list(self._times)
        return None if len(times) < 3 else (len(times) - 1) * _NS / max(times[-1] - times[0], 1)

    def counts(self) -> dict[str, int]:
        """Since `start`: pictures; how many of them duplicate, frozen, late, damaged; dropped ones and how
        many of those were estimated from times; how often it stalled and was lost."""
        names = ("pictures", "late", "dropped", "dropped_estimated", "stalled", "lost")
        with self._lock:
            return {**{name: self._counts[name] for name in names}, **self._frames.counts}

    # ------------------------------------------------------------------ life

    def open(self) -> VideoInfo:
        """Open within the deadline. Raises DeviceError that says what is wrong and what exists."""
        if self._info is not None:
            return self._info
        network = is_network_address(self.address)
        if not network:
            path = find_camera(self.address)
            self._path = stable_name(path) or path
        with self._lock:
            self._reset()
            stopped = self._stopped
            self._begin_reading()
            limit = self.settings.open_deadline_s
            over = lambda: self._error is not None or self._stopped != stopped  # noqa: E731
            self._changed.wait_for(lambda: self._first_ns is not None or over(), limit)
            if self._first_ns is not None:
                self._changed.wait_for(lambda: self._opened is not None or over(), _MEASURE_S + limit)
            if self._opened is not None and self._stopped == stopped:
                self._info = self._opened
                return self._info
            error = self._error
            self._session += 1  # the reader is left behind
            if self._stopped != stopped:
                raise DeviceError(f"{self.name}: closed while it was being opened")
        if error is not None:
            raise error
        where = "Is the camera on and reachable?" if network else f"{list_cameras()}"
        raise DeviceError(f"{self.name}: no picture within {limit:g} s. {where}")

    def start(self, sink: Sink) -> None:
        """Begin to deliver pictures."""
        self.open()
        with self._lock:
            if self._watcher is not None:
                raise RuntimeError("this source was started already")
            self._counts.clear()
            self._frames.clear_counts()
            self._sink, self._seq = sink, 0
            self._watcher = threading.Thread(target=self._watch, name="camera watcher", daemon=True)
            self._watcher.start()

    def stop(self) -> None:
        """Stop and let the device go; the sink is not called after this returns. Prompt in every state."""
        with self._lock:
            self._stopped += 1
            self._session += 1
            self._sink = self._info = None
            self._changed.notify_all()
            watcher, self._watcher = self._watcher, None
            reader, self._reader = self._reader, None
        if threading.current_thread() in (watcher, reader):
            return  # called from the sink; both see that they are over
        for thread, patience in ((watcher, None), (reader, _LET_GO_S)):
            if thread is not None:
                thread.join(patience)  # a reader may hang in the driver; then it is left behind

    def close(self) -> None:
        """Stop and give the camera back."""
        self.stop()

    # ------------------------------------------------------------------ the reader's thread

    def _begin_reading(self) -> None:
        """Open and read in a thread of its own; called with the lock."""
        self._session += 1
        self._begin_session()
        self._reader = threading.Thread(
            target=self._read, args=(self._session,), name="camera reader", daemon=True
        )
        self._reader.start()

    def _connect(self) -> CameraLink:
        if is_network_address(self.address):
            return NetworkLink(str(self.address), self.settings)
        from capture.v4l2_camera import NotOurs, V4l2Link

        # It may come back under another number: the by-id name or the name finds it then.
        again = self._path is not None and os.path.exists(self._path)
        path = find_camera(self._path if again and self._path is not None else self.address)
        try:
            return V4l2Link(path, self.settings)
        except NotOurs:
            from capture.v4l2_opencv import OpenCvLink

            return OpenCvLink(path, self.settings)

    def _read(self, session: int) -> None:
        try:
            link = self._connect()
        except Exception as error:
            with self._lock:
                if session == self._session:
                    told = isinstance(error, DeviceError)
                    self._error = error if told else DeviceError(f"{self.name}: {error}")  # type: ignore[assignment]
                    self._changed.notify_all()
            return
        ended = ""
        try:
            ended = self._read_from(link, session)
        except Exception as error:  # a camera that behaves as no other: lost, and said so
            ended = f"{type(error).__name__}: {error}"
        finally:
            with self._lock:
                if session == self._session:
                    self._ended = ended
                    if self._opened is None:
                        self._error = DeviceError(f"{self.name} opens, but {ended}")
                    self._changed.notify_all()
            link.close()

    def _read_from(self, link: CameraLink, session: int) -> str:
        """Deliver until another reader has taken over or the camera ended; returns how it ended."""
        with self._lock:
            self._last_ns = monotonic_ns()
        while True:
            try:
                picture = link.read()
            except CameraEnded as error:
                with self._lock:
                    if session == self._session:
                        self._flush()
                return str(error)
            with self._lock:
                if session != self._session:
                    return ""
                if picture is not None:
                    self._arrived(picture)
                begun = self._first_ns
                if self._opened is None and begun is not None and monotonic_ns() - begun > _MEASURE_S * _NS:
                    self._opened = self._describe(link)
                    self._changed.notify_all()

    def _describe(self, link: CameraLink) -> VideoInfo:
        """What came out of opening: read back and measured."""
        detail = link.detail()
        # From the later half: the first pictures may have waited in the camera and come at once.
        late = list(self._times)[len(self._times) // 2 :]
        measured = (len(late) - 1) * _NS / (late[-1] - late[0]) if len(late) > 2 else None
        reported = detail.get("fps_reported")
        plausible = reported if reported and 0 < reported <= 240 else self.settings.fps
        width, height = self._size
        return VideoInfo(
            name=self.name,
            backend=link.backend,
            width_px=width,
            height_px=height,
            fps=round(measured, 2) if measured else plausible,
            fourcc=link.fourcc,
            detail={
                "asked": self.settings.asked(),
                "fps_measured": round(measured, 3) if measured else None,
                "pictures_measured": len(self._times),
                **detail,
            },
        )

    # ------------------------------------------------------------------ one picture (with the lock)

    def _arrived(self, picture: Picture) -> None:
        self._last_ns = picture.arrival_ns
        if self._first_ns is None:
            self._first_ns = picture.arrival_ns
            self._changed.notify_all()
        self._size = picture.size
        if self._held is not None:
            held, self._held = self._held, None
            self._deliver(held, self._clock.stamp(held, picture.arrival_ns))
        if self._clock.wants_next(picture):
            self._held = picture  # for one period, until the next one tells whether it is only late
        else:
            self._deliver(picture, self._clock.stamp(picture))

    def _flush(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._deliver(held, self._clock.stamp(held))

    def _deliver(self, picture: Picture, stamp: Stamp) -> None:
        self._times.append(stamp.t_ns)
        flags, change = self._frames.look(
            stamp.t_ns,
            self._clock.period_ns,
            jpeg=picture.jpeg,
            image=picture.image,
            damaged=picture.damaged,
        )
        if picture.image is not None:
            picture.image.flags.writeable = False
        if self._sink is None:
            return  # opened, not started: it only keeps up
        if self._away_since is not None:
            self._returned(stamp)
        if self._sent_size not in (None, picture.size):
            width, height = picture.size
            self._event("size", f"pictures are {width}x{height} now", width_px=width, height_px=height)
        self._sent_size = picture.size
        if change is not None:
            self._event(change.kind, change.detail, **change.data)
        self._counts["pictures"] += 1
        self._counts["dropped"] += stamp.dropped
        self._counts["dropped_estimated"] += stamp.dropped if stamp.estimated else 0
        if stamp.late:
            self._counts["late"] += 1
            flags = (*flags, "late")
        size = picture.size if picture.jpeg is not None else None
        self._sink(
            VideoFrame(
                stamp.t_ns, self._seq, picture.image, stamp.source, stamp.dropped, flags,
                jpeg=picture.jpeg, size=size,
            )
        )  # fmt: skip
        self._seq += 1

    def _event(self, kind: str, detail: str, **data: Any) -> None:
        if kind in ("lost", "stalled"):
            self._counts[kind] += 1
        if self._sink is not None:
            self._sink(SourceEvent(monotonic_ns(), self.source, kind, f"{self.name}: {detail}", data))

    def _returned(self, stamp: Stamp) -> None:
        """The first picture after the camera was away, just before it is delivered."""
        assert self._away_since is not None
        away_s = (self._last_ns - self._away_since) / _NS
        self._event(
            "returned",
            f"pictures come again after {away_s:.1f} s",
            away_s=round(away_s, 3),
            tries=self._tries,
            dropped=stamp.dropped,
            dropped_is_estimated=stamp.estimated,
            width_px=self._size[0],
            height_px=self._size[1],
        )
        self._away_since, self._tries, self._stalled = None, 0, False
        self._times.clear()

    # ------------------------------------------------------------------ the watcher's thread

    def _watch(self) -> None:
        me = threading.current_thread()
        with self._lock:
            while self._watcher is me:
                silent = monotonic_ns() - self._last_ns
                limit = max(_SILENCE_S * _NS, 5 * self._clock.period_ns)
                deadline = max(self.settings.read_deadline_s * _NS, limit)
                if self._ended is not None or silent > deadline:
                    if not self._take_back(self._ended or "no picture any more", me):
                        return
                    continue
                if silent > limit and not self._stalled:
                    self._flush()
                    self._stalled, self._away_since = True, self._last_ns
                    self._event(
                        "stalled", f"no picture for {silent / _NS:.1f} s", last_picture_ns=self._last_ns
                    )
                self._watch_rate()
                due = (deadline if self._stalled else limit) - silent
                self._changed.wait(min(max(due / _NS, 0.005), _LOOK_S))

    def _take_back(self, why: str, me: threading.Thread) -> bool:
        """Report the loss and open again until it works; False when stopped meanwhile."""
        if self._away_since is None:
            self._away_since = self._last_ns
        noticed_s = (monotonic_ns() - self._last_ns) / _NS
        self._event("lost", why, last_picture_ns=self._last_ns, noticed_after_s=round(noticed_s, 3))
        self._session += 1  # whoever still reads is left behind
        while self._reconnect and self._watcher is me:
            wait = _RETRY_S[min(self._tries, len(_RETRY_S) - 1)]
            if self._changed.wait_for(lambda: self._watcher is not me, wait):
                break
            self._tries += 1
            self._clock.restart()
            self._begin_reading()
            self._changed.wait_for(
                lambda: self._first_ns or self._error or self._ended or self._watcher is not me,
                self.settings.open_deadline_s,
            )
            if self._watcher is me and self._first_ns is not None:
                return True
            self._session += 1
        return False

    def _watch_rate(self) -> None:
        """Say it once when pictures come clearly slower than asked, and again only after they were not."""
        measured, asked, now = self.measured_fps, self.settings.fps, monotonic_ns()
        if measured is None or len(self._times) < 8 or self._stalled or measured >= _SLOW * asked:
            self._slow_since = None
            self._slow = self._slow and not (measured is not None and measured >= 0.9 * asked)
        elif self._slow_since is None:
            self._slow_since = now
        elif not self._slow and now - self._slow_since > _SLOW_FOR_S * _NS:
            self._slow = True
            self._event(
                "rate",
                f"{measured:.1f} pictures per second instead of {asked:g}; in a dim room many cameras expose"
                " longer",
                fps_measured=round(measured, 3),
                fps_asked=asked,
            )
