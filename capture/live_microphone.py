"""What every live microphone backend shares: the pump thread, stamping, loss and return of the device."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from capture.blocks import AudioInfo, Sink, SourceEvent, monotonic_ns
from capture.clock import ClockState
from capture.portaudio_calls import CLOSE_S, OPEN_S, START_S, Interrupted, portaudio
from capture.portaudio_devices import (
    DeviceAbsent,
    InputDevice,
    check_settings,
    choose_device,
    device_warnings,
    list_inputs_fresh,
)
from capture.sound_cards import not_listed
from capture.source_thread import SourceThread
from capture.stamping import BlockStamper, BufferQueue
from dsp.errors import DeviceError, HearthError

_LOST_AFTER_S = 0.7  # no buffer for so long: the device is gone
_LOOK_S = 0.1  # how often to ask whether a stream without buffers is still alive
# A hw: device delivers within 0.3 s of its start. A sound server may take 1.8 s (measured: PulseAudio's
# monitor of a null sink), so there only the end of the stream tells a loss earlier.
_FIRST_HARDWARE_S, _FIRST_MIXED_S = 0.9, 2.5
_RETRY_S = (0.5, 1.0, 2.0, 5.0)  # waits between tries to open it again; a plugged device ends the wait
_SETTLE_S = 0.3  # buffers gathered after a return, to see the earliest: the first is often part of a batch

_T = TypeVar("_T")
_Item = tuple[bytes, int, tuple[str, ...]]


class LiveMicrophone(ABC):
    """A microphone whose backend calls back with raw int32 buffers.

    A subclass opens and closes its stream; `_deliver` is what its callback calls. When buffers stop coming or
    PortAudio says that the stream ended, "lost" is reported within a second, the device is looked for again
    by name with growing waits, and "returned" tells how many frames are missing. The sample counter and the
    clock go on over the gap. What is odd about the device (a route that may remix) is in
    `AudioInfo.detail["warnings"]` and comes as an event of kind "warning"; a device that is back but cannot
    be used (an H3-VR in stereo mode) as one of kind "error".
    """

    backend = ""

    def __init__(
        self,
        device: str,
        *,
        rate_hz: int = 48000,
        channels: int = 4,
        format: str = "ambix",
        block_ms: float = 10.0,
        reconnect: bool = True,
    ) -> None:
        """device: a part of the device's name. block_ms: frames per callback. format: what the channels are
        (one of dsp.FORMATS or "array"); it is the rig's word, the device does not tell.
        Raises InputError for a value that cannot be asked of any device."""
        check_settings(device, rate_hz, channels, block_ms)
        self.device, self.rate_hz, self.channels = device, rate_hz, channels
        self.format, self.block_ms = format, block_ms
        self.block_frames = max(1, round(rate_hz * block_ms / 1000))
        self.reconnect = reconnect
        self._info: AudioInfo | None = None
        self._queue = BufferQueue()
        self._thread = SourceThread(f"{self.backend} microphone")
        self._stamper: BlockStamper | None = None
        self._first_s = _FIRST_MIXED_S

    # what a backend does; always called in PortAudio's own thread

    @abstractmethod
    def _open_stream(self) -> AudioInfo:
        """List the devices anew, find ours and open it, not yet running. Raises DeviceError,
        MissingDependency."""

    @abstractmethod
    def _start_stream(self) -> None:
        """Let the callbacks begin. Raises DeviceError."""

    @abstractmethod
    def _close_stream(self) -> None:
        """Stop and give the device back; must not raise."""

    @abstractmethod
    def _is_active(self) -> bool:
        """PortAudio still runs the stream. (Called from any thread.)"""

    # the source interface

    def open(self) -> AudioInfo:
        """Find and open the device. Raises DeviceError (with the list of devices), MissingDependency."""
        if self._info is None:
            self._info = portaudio.call(self._opening, self._open_stream, OPEN_S)
        return self._info

    def start(self, sink: Sink) -> None:
        """Begin to deliver blocks from a thread of this source. Raises as `open`."""
        info = self.open()
        self._thread.prepare()
        self._queue = BufferQueue()
        try:
            portaudio.call(self._opening, self._start_stream, START_S)
        except DeviceError:  # it was opened a while ago and may have been plugged anew since
            self._close()
            self._info = None
            info = self.open()
            portaudio.call(self._opening, self._start_stream, START_S)
        self._stamper = BlockStamper(info.rate_hz, sink)
        self._thread.begin(self._pump, sink, self._stamper)

    def stop(self) -> None:
        """Stop; the sink is not called after this returns, which is soon even when the driver hangs."""
        self._thread.end()
        self._close()
        self._info = None

    def close(self) -> None:
        """Stop and give the device back."""
        self.stop()

    @property
    def clock_state(self) -> ClockState | None:
        """The clock in numbers; None before the first start."""
        return None if self._stamper is None else self._stamper.state

    # inside

    @property
    def _opening(self) -> str:
        return f"opening the microphone {self.device!r} through {self.backend}"

    def _close(self) -> None:
        """Close the stream, or leave that to PortAudio's thread when the driver does not answer."""
        patience_s = 0.05 if portaudio.hangs else CLOSE_S
        with suppress(DeviceError):
            portaudio.call(f"closing the microphone {self.device!r}", self._close_stream, patience_s)

    def _choose(self, devices: list[InputDevice], fresh: bool) -> InputDevice:
        """Our device in PortAudio's list of this process."""
        try:
            device = choose_device(devices, self.device, self.channels)
        except DeviceError as error:
            if reason := not_listed(self.device, [d.name for d in devices]):
                raise DeviceError(f"{reason} (`microphone.device`: {self.device!r})") from None
            if fresh:
                raise
            hint = "this list is older than the other microphone that this process has open; close that first"
            raise type(error)(f"{error} ({hint})") from None
        self._first_s = _FIRST_MIXED_S if device.is_mixed else _FIRST_HARDWARE_S
        return device

    def _info_of(self, device: InputDevice, rate_hz: int, latency_s: float, version: str) -> AudioInfo:
        """What a PortAudio backend opened, in the same words whichever backend it is."""
        return AudioInfo(
            name=device.name,
            backend=self.backend,
            rate_hz=rate_hz,
            channels=self.channels,
            format=self.format,
            bits=24,
            block_frames=self.block_frames,
            detail={
                "host_api": device.host_api,
                "device_channels": device.channels,
                "hardware": device.is_hardware,
                "mixed": device.is_mixed,
                "input_latency_s": round(latency_s, 4),
                "portaudio": version,
                "warnings": device_warnings(device, self.channels),
            },
        )

    def _deliver(self, data: bytes, flags: tuple[str, ...] = ()) -> None:
        """For the backend's callback: stamp the arrival and return at once."""
        self._queue.put(data, monotonic_ns(), flags)

    def _pump(self, sink: Sink, stamper: BlockStamper) -> None:
        self._warn(sink, self._info)
        patience_s = self._first_s
        while not self._thread.stopping.is_set():
            item = self._wait(patience_s)
            if item is not None:
                self._push(stamper, item)
                patience_s = _LOST_AFTER_S
                continue
            if self._thread.stopping.is_set():
                return
            away_ns = monotonic_ns()
            why = self._why_lost(patience_s == self._first_s)
            sink(SourceEvent(away_ns, "microphone", "lost", f"{self.device}: {why}"))
            if not self.reconnect or not self._take_back(sink, stamper, away_ns):
                return
            patience_s = _LOST_AFTER_S

    def _wait(self, seconds: float) -> _Item | None:
        """The next buffer; None when none comes in time, the stream has ended or the source is stopped."""
        deadline = time.monotonic() + seconds
        while not self._thread.stopping.is_set():
            left = deadline - time.monotonic()
            item = self._queue.get(timeout=min(_LOOK_S, max(left, 0.0)))
            if item is not None:
                return item
            if left <= 0 or not self._is_active():
                return self._queue.get(timeout=0.0)
        return None

    def _why_lost(self, first: bool) -> str:
        if not self._is_active():
            return "the system ended its stream"
        return "the device was opened but delivers nothing" if first else "no sound arrives any more"

    def _warn(self, sink: Sink, info: AudioInfo | None) -> None:
        for text in [] if info is None else info.detail["warnings"]:
            sink(SourceEvent(monotonic_ns(), "microphone", "warning", text))

    def _push(self, stamper: BlockStamper, item: _Item) -> None:
        data, arrival_ns, flags = item
        samples = np.frombuffer(data, np.int32).reshape(-1, self.channels)
        stamper.push(samples, arrival_ns, flags)

    def _take_back(self, sink: Sink, stamper: BlockStamper, away_ns: int) -> bool:
        """Wait for the device and continue; False when stopped meanwhile."""
        said: set[str] = set()
        tries = 0
        items = self._gather(_RETRY_S[0]) if self._is_active() else []  # it may only have stalled
        info = None
        while not items:
            try:
                if not portaudio.hangs:
                    self._call(self._close_stream, CLOSE_S)
                self._pause(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1
                info = self._reopen()
                items = self._gather(self._first_s)
            except Interrupted:
                return False
            except DeviceAbsent:
                continue
            except HearthError as error:
                if str(error) not in said and not self._thread.stopping.is_set():
                    said.add(str(error))
                    sink(SourceEvent(monotonic_ns(), "microphone", "error", str(error)))
            if self._thread.stopping.is_set():
                return False
        frames = len(items[0][0]) // (4 * self.channels)
        lost = stamper.returned(self._earliest(items), frames)
        name = self.device if info is None else info.name
        data = {"lost_frames": lost, "away_s": round((monotonic_ns() - away_ns) / 1e9, 3)}
        detail = f"{name}: back after {lost / self.rate_hz:.2f} s"
        sink(SourceEvent(monotonic_ns(), "microphone", "returned", detail, data))
        if info is not None:
            self._info = info
            self._warn(sink, info)
        for item in items:
            self._push(stamper, item)
        return True

    def _reopen(self) -> AudioInfo:
        """Raises DeviceAbsent (it is not there), DeviceError (it cannot be used as it is), Interrupted."""
        if portaudio.hangs:
            raise DeviceAbsent("PortAudio has not answered yet")
        # First in a process of its own: what hangs or crashes while listing must not take the take along.
        choose_device(list_inputs_fresh(OPEN_S, 10, self._thread.stopping), self.device, self.channels)
        self._queue = BufferQueue()
        info = self._call(self._open_stream, OPEN_S)
        self._call(self._start_stream, START_S)
        return info

    def _call(self, function: Callable[[], _T], timeout_s: float) -> _T:
        what = f"taking the microphone {self.device!r} back"
        return portaudio.call(what, function, timeout_s, self._thread.stopping)

    def _pause(self, seconds: float) -> None:
        """Wait, but not on when a sound device is plugged in. Raises Interrupted."""
        deadline, before = time.monotonic() + seconds, _plugged()
        while time.monotonic() < deadline and _plugged() == before:
            if self._thread.stopping.wait(0.1):
                raise Interrupted(self.device)

    def _gather(self, seconds: float) -> list[_Item]:
        """The first buffers of a stream, those of _SETTLE_S; none when nothing comes within `seconds`."""
        item = self._wait(seconds)
        items = []
        deadline = time.monotonic() + _SETTLE_S
        while item is not None:
            items.append(item)
            item = self._wait(max(0.0, deadline - time.monotonic()))
        return items

    def _earliest(self, items: list[_Item]) -> int:
        """When the first buffer would have arrived had it not waited for others: none comes before it is
        captured, so the one that waited least tells, ns."""
        frames = np.cumsum([len(data) // (4 * self.channels) for data, _, _ in items])
        arrivals = np.array([arrival for _, arrival, _ in items], np.int64)
        after_first = (frames - frames[0]) * 1_000_000_000 // self.rate_hz
        return int(np.min(arrivals - after_first))


def _plugged() -> int:
    """Changes when ALSA gains or loses a device; 0 where there is no such folder."""
    try:
        return Path("/dev/snd").stat().st_mtime_ns
    except OSError:
        return 0
