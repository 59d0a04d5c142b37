"""What the console knows: the streams of the rig, shaped for a page, the newest of each and a short past."""

from __future__ import annotations

import base64
import collections
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import DeviceError
from dsp.spectrogram import SpectrogramStream
from edge.console.settings import Eye
from edge.console.why import why
from edge.stream import Client, Message

ALWAYS = ("event", "state", "home", "health")
WATCHED = ("video", "doa", "tracks", "levels")  # only read while somebody looks
SOUND = ("foa24",)  # the same; it comes a hundred times a second, so it is fetched ten times a second
FETCH_S = 0.1
EVENTS = 150  # kept for a page that is opened later
RATE_HZ = 24000
BANDS = 64
ROW_S = 0.04
LOW_DB, HIGH_DB = -82.0, -28.0  # of the spectrogram's colours: mel bands, re a full-scale sine
ROWS = 100  # that wait at most for the page: 4 s
GATHERED = 50  # blocks without a direction: then rows are made all the same
JUMP_NS = 20_000_000  # between two blocks: sound is missing
_LONG = 400  # characters of a text in an event


class Feed:
    """Follows a rig's stream in threads of its own.

    changed(at_once): called, in such a thread, when `take` has something, at_once for a direction.
    picture: called with each new picture; None: there is none to show. `watch` says whether anybody looks.
    """

    def __init__(
        self, stream: str, eye: Eye, changed: Callable[[bool], None], picture: Callable[[bytes | None], None]
    ) -> None:
        self._stream, self._eye = stream, eye
        self._changed, self._picture = changed, picture
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {"state": None, "home": None, "health": None, "link": "waiting"}
        self._events: collections.deque[dict[str, Any]] = collections.deque(maxlen=EVENTS)
        self._numbered = 0
        self._pending: dict[str, Any] = {}
        self._silent_until_ns = 0  # what was heard or seen before it is not shown: it was muted
        self._muted = False
        self._spectrum = Spectrum()
        self._closing = threading.Event()
        self._turning = threading.Lock()
        self._watching: threading.Event | None = None  # set: stop reading
        self._threads = [threading.Thread(target=self._follow, args=(ALWAYS, self._closing), daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop reading."""
        self._closing.set()
        self.watch(False)
        for thread in self._threads:
            thread.join()

    def watch(self, on: bool) -> None:
        """Read sound, pictures and directions, or leave them to others."""
        with self._turning:
            if on and self._watching is None:
                self._watching = threading.Event()
                for follow, streams in ((self._follow, WATCHED), (self._fetch, SOUND)):
                    args = (streams, self._watching)
                    self._threads.append(threading.Thread(target=follow, args=args, daemon=True))
                    self._threads[-1].start()
            elif not on and self._watching is not None:
                self._watching.set()
                self._watching = None
                for _ in range(2):
                    self._threads.pop().join()
                with self._lock:
                    self._spectrum = Spectrum()

    def snapshot(self) -> dict[str, Any]:
        """Everything that a page which is opened now must know."""
        with self._lock:
            return {**self._known, "events": list(self._events)}

    def take(self) -> str | None:
        """What is new since the last call, as JSON; None when nothing is."""
        with self._lock:
            pending, self._pending = self._pending, {}
        return json.dumps(pending, separators=(",", ":")) if pending else None

    def note(self, **known: Any) -> None:
        """Tell the page something of the console itself."""
        with self._lock:
            self._known |= known
            self._pending |= known
        self._changed(False)

    # ------------------------------------------------------------------ the reading threads

    def _follow(self, streams: tuple[str, ...], closing: threading.Event) -> None:
        with Client(self._stream, streams=streams, max_queued=2000) as client:
            while not closing.is_set():
                try:
                    for message in client.messages(timeout_s=0.25):
                        self._arrived(message)
                        if closing.is_set():
                            return
                    self._link("ended")
                    closing.wait(0.2)
                    continue
                except DeviceError:  # a time-out, a lost publisher, or keys that it does not accept
                    pass
                if streams is ALWAYS:
                    self._link("live" if client.connected else "silent")

    def _fetch(self, streams: tuple[str, ...], closing: threading.Event) -> None:
        with Client(self._stream, streams=streams, max_queued=2000) as client:
            while not closing.wait(FETCH_S):
                with suppress(DeviceError):
                    while (message := client.receive_nowait()) is not None:
                        self._arrived(message)

    def _link(self, link: str) -> None:
        if self._known["link"] != link:
            self.note(link=link)

    def _arrived(self, message: Message) -> None:
        name = message.stream
        if name in WATCHED or name in SOUND:
            self._content(name, message)
            return
        with self._lock:
            if name == "event":
                self._numbered += 1
                event = {"n": self._numbered, "t_ms": message.t_ns / 1e6, **slim(message.data)}
                self._events.append(event)
                self._pending["events"] = [*self._pending.get("events", ()), event][-EVENTS:]
            elif name == "home":
                self._set("home", message.data.get("devices", {}))
            else:
                self._set(name, {"t_ms": message.t_ns / 1e6, **message.data})
        if name == "state":
            self._turned(bool(message.data.get("muted")), message.t_ns)
        elif name == "health":
            self._link("live")
        self._changed(False)

    def _set(self, name: str, value: Any) -> None:
        self._known[name] = self._pending[name] = value

    def _turned(self, muted: bool, t_ns: int) -> None:
        """Pictures and sound come over other sockets than the state: what was on its way is not shown."""
        with self._lock:
            changed, self._muted = muted != self._muted, muted
            if changed:
                self._silent_until_ns = t_ns
                self._spectrum = Spectrum()
                for name in ("doa", "tracks", "levels", "rows"):
                    self._pending.pop(name, None)
        if changed and muted:
            self._picture(None)

    def _content(self, name: str, message: Message) -> None:
        with self._lock:
            if self._muted or message.t_ns < self._silent_until_ns:
                return
            if name == "foa24":
                self._spectrum.add(message)
                return  # its rows go with the next direction
            if name == "doa":
                self._pending["rows"] = [*self._pending.get("rows", ()), *self._spectrum.rows()][-ROWS:]
                self._pending["doa"] = self._direction(message)
            elif name == "tracks":
                tracks = [self._placed(track) for track in message.data.get("tracks", [])]
                self._pending["tracks"] = {"t_ms": message.t_ns / 1e6, "tracks": tracks}
            elif name == "levels":
                self._levels(message)
        if name == "video":
            self._picture(as_picture(message))
        else:
            self._changed(name == "doa")

    def _direction(self, message: Message) -> dict[str, Any]:
        doa = {
            "t_ms": message.t_ns / 1e6,
            "end_ms": (message.t_ns + message.header.duration_ns) / 1e6,
            "known": message.data.get("azimuth_deg") is not None,
            **message.data,
        }
        return self._placed(doa) if doa["known"] else doa

    def _placed(self, what: dict[str, Any]) -> dict[str, Any]:
        way = float(what["azimuth_deg"]), float(what["elevation_deg"])
        return {**what, **self._eye.place(*way, float(what.get("uncertainty_deg") or 0.0))}

    def _levels(self, message: Message) -> None:
        """A page that is slow must still see that something was clipped: the loudest since it last looked."""
        keys = ("peak_dbfs", "rms_dbfs", "clipped_frames", "dead")
        new: dict[str, Any] = {key: message.data.get(key, []) for key in keys}
        old = self._pending.get("levels")
        if old is not None and len(old["peak_dbfs"]) == len(new["peak_dbfs"]):
            new["peak_dbfs"] = [max(a, b) for a, b in zip(old["peak_dbfs"], new["peak_dbfs"], strict=True)]
            new["clipped_frames"] = [
                a + b for a, b in zip(old["clipped_frames"], new["clipped_frames"], strict=True)
            ]
        self._pending["levels"] = {**new, "format": message.data.get("format", "")}


class Spectrum:
    """Rows of the spectrogram of W as a page draws them: [time in ms, bands as base64 bytes, low to high].

    Blocks are gathered until rows are asked for: a tenth of the calls cost a tenth of the time.
    """

    def __init__(self) -> None:
        self._stream = SpectrogramStream(RATE_HZ, ROW_S, ROW_S, mel=BANDS)
        self._start_ns: int | None = None
        self._next_ns = 0
        self._waiting: list[NDArray[np.float32]] = []
        self._done: list[list[Any]] = []

    def add(self, message: Message) -> None:
        """The next message of foa24; after a gap the rows begin anew."""
        sound = message.array
        if sound is None:
            return
        if self._start_ns is None or abs(message.t_ns - self._next_ns) > JUMP_NS:
            self._done = self.rows()
            self._stream = SpectrogramStream(RATE_HZ, ROW_S, ROW_S, mel=BANDS)
            self._start_ns = message.t_ns
        self._next_ns = message.t_ns + message.header.duration_ns
        self._waiting.append(sound[:, 0])
        if len(self._waiting) >= GATHERED:
            self._done = self.rows()[-ROWS:]

    def rows(self) -> list[list[Any]]:
        """The rows that are complete and were not given yet."""
        done, self._done = self._done, []
        if self._waiting and self._start_ns is not None:
            found = self._stream.push(np.concatenate(self._waiting))
            self._waiting.clear()
            scaled = (found.power_db - LOW_DB) * (255.0 / (HIGH_DB - LOW_DB))
            levels = np.clip(scaled, 0, 255).astype(np.uint8)
            times = self._start_ns / 1e6 + found.times_s * 1e3
            for t_ms, row in zip(times, levels, strict=True):
                done.append([round(float(t_ms), 1), base64.b64encode(row.tobytes()).decode()])
        return done


def as_picture(message: Message) -> bytes | None:
    """A picture as the page takes it: length of the header (4 bytes, little-endian), header (JSON), JPEG."""
    if message.header.encoding != "jpeg":
        return None
    height, width = message.header.shape[:2]
    header = json.dumps(
        {
            "t_ms": message.t_ns / 1e6,
            "n": message.seq,
            "width": width,
            "height": height,
            "dropped": message.data.get("dropped", 0),
        }
    ).encode()
    return len(header).to_bytes(4, "little") + header + message.payload


def slim(data: dict[str, Any]) -> dict[str, Any]:
    """An event without what no page shows: evidence may be long."""
    told = {key: _short(value) for key, value in data.items() if key != "evidence"}
    evidence = data.get("evidence")
    if isinstance(evidence, dict) and data.get("kind") == "declared":
        told |= why(evidence)
    return told


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONG else value[:_LONG] + "…"
    if isinstance(value, dict | list) and len(json.dumps(value, default=str)) > 4 * _LONG:
        return None
    return value
