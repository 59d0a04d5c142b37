"""What every live microphone backend shares: the pump thread, stamping, loss and return of the device."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from capture.blocks import AudioInfo, Sink, SourceEvent, monotonic_ns
from capture.clock import ClockState
from capture.portaudio_devices import InputDevice
from capture.source_thread import SourceThread
from capture.stamping import BlockStamper, BufferQueue
from dsp.errors import HearthError

_LOST_AFTER_S = 0.7  # no buffer for so long: the device is gone
_RETRY_S = (0.5, 1.0, 2.0, 5.0)  # waits between tries to open it again


class LiveMicrophone(ABC):
    """A microphone whose backend calls back with raw int32 buffers.

    A subclass opens and closes its stream; `_deliver` is what its callback calls. When buffers stop coming,
    "lost" is reported within a second, the device is looked for again by name with growing waits, and
    "returned" tells how many frames are missing. The sample counter and the clock go on over the gap.
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
        (one of dsp.FORMATS or "array"); it is the rig's word, the device does not tell."""
        self.device, self.rate_hz, self.channels = device, rate_hz, channels
        self.format = format
        self.block_frames = max(1, round(rate_hz * block_ms / 1000))
        self.reconnect = reconnect
        self._info: AudioInfo | None = None
        self._queue = BufferQueue()
        self._thread = SourceThread(f"{self.backend} microphone")
        self._stamper: BlockStamper | None = None

    # what a backend does

    @abstractmethod
    def _open_stream(self) -> AudioInfo:
        """Find and open the device, not yet running. Raises DeviceError, MissingDependency."""

    @abstractmethod
    def _start_stream(self) -> None:
        """Let the callbacks begin."""

    @abstractmethod
    def _close_stream(self) -> None:
        """Stop and give the device back; must not raise."""

    @abstractmethod
    def _rescan(self) -> None:
        """Make the backend list its devices anew."""

    # the source interface

    def open(self) -> AudioInfo:
        """Find and open the device. Raises DeviceError (with the list of devices), MissingDependency."""
        if self._info is None:
            self._info = self._open_stream()
        return self._info

    def start(self, sink: Sink) -> None:
        """Begin to deliver blocks from a thread of this source."""
        info = self.open()
        self._thread.prepare()
        self._queue = BufferQueue()
        self._stamper = BlockStamper(info.rate_hz, sink)
        self._start_stream()
        self._thread.begin(self._pump, sink, self._stamper)

    def stop(self) -> None:
        """Stop; the sink is not called after this returns."""
        self._thread.end()
        self._close_stream()
        self._info = None

    def close(self) -> None:
        """Stop and give the device back."""
        self.stop()

    @property
    def clock_state(self) -> ClockState | None:
        """The clock in numbers; None before the first start."""
        return None if self._stamper is None else self._stamper.state

    # inside

    def _info_of(self, device: InputDevice, rate_hz: int, latency_s: float, portaudio: str) -> AudioInfo:
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
                "input_latency_s": round(latency_s, 4),
                "portaudio": portaudio,
            },
        )

    def _deliver(self, data: bytes, flags: tuple[str, ...] = ()) -> None:
        """For the backend's callback: stamp the arrival and return at once."""
        self._queue.put(data, monotonic_ns(), flags)

    def _pump(self, sink: Sink, stamper: BlockStamper) -> None:
        first = True
        while not self._thread.stopping.is_set():
            item = self._queue.get(timeout=2.0 if first else _LOST_AFTER_S)
            if item is not None:
                self._push(stamper, item)
                first = False
                continue
            if self._thread.stopping.is_set():
                return
            detail = f"{self.device}: no sound arrives any more"
            if first:
                detail = f"{self.device}: the device was opened but delivers nothing"
            sink(SourceEvent(monotonic_ns(), "microphone", "lost", detail))
            if not self.reconnect or not self._take_back(sink, stamper):
                return

    def _push(self, stamper: BlockStamper, item: tuple[bytes, int, tuple[str, ...]]) -> None:
        data, arrival_ns, flags = item
        samples = np.frombuffer(data, np.int32).reshape(-1, self.channels)
        stamper.push(samples, arrival_ns, flags)

    def _take_back(self, sink: Sink, stamper: BlockStamper) -> bool:
        """Wait for the device and continue; False when stopped meanwhile."""
        tries = 0
        while not self._thread.stopping.is_set():
            item = self._queue.get(timeout=0.0)  # it may only have stalled
            if item is None:
                self._close_stream()
                if self._thread.stopping.wait(_RETRY_S[min(tries, len(_RETRY_S) - 1)]):
                    return False
                tries += 1
                self._queue = BufferQueue()
                try:
                    self._rescan()
                    self._open_stream()
                    self._start_stream()
                except HearthError:
                    continue
                item = self._queue.get(timeout=2.0)
                if item is None:
                    continue
            frames = len(item[0]) // (4 * self.channels)
            lost = stamper.returned(item[1], frames)
            detail = f"{self.device}: back after {lost / self.rate_hz:.2f} s"
            sink(SourceEvent(monotonic_ns(), "microphone", "returned", detail, {"lost_frames": lost}))
            self._push(stamper, item)
            return True
        return False
