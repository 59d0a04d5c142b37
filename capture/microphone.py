"""A microphone through PortAudio by sounddevice: raw int32 blocks of the `hw:` device."""

from __future__ import annotations

from typing import Any

from capture.blocks import AudioInfo
from capture.live_microphone import LiveMicrophone
from capture.portaudio_calls import closed, opened, release_list
from capture.portaudio_devices import InputDevice, missing_portaudio, open_error
from dsp.errors import DeviceError


class PortAudioMicrophone(LiveMicrophone):
    """See LiveMicrophone. Samples are int32, left-justified, neither dithered nor clipped by PortAudio."""

    backend = "sounddevice"
    _stream: Any = None

    def _open_stream(self) -> AudioInfo:
        sd = load_sounddevice()
        fresh = release_list()
        device = self._choose(input_devices(), fresh)
        try:
            sd.check_input_settings(device.index, self.channels, "int32", None, self.rate_hz)
            self._stream = sd.RawInputStream(
                samplerate=self.rate_hz,
                blocksize=self.block_frames,
                device=device.index,
                channels=self.channels,
                dtype="int32",
                # "high" asks for the larger hardware buffer: nobody monitors live, and it survives stalls.
                latency="high",
                callback=self._callback,
                clip_off=True,
                dither_off=True,
            )
        except sd.PortAudioError as error:
            raise open_error(device, self.rate_hz, self.block_ms, str(error.args[0])) from None
        opened(self)
        rate_hz = round(self._stream.samplerate)
        return self._info_of(device, rate_hz, float(self._stream.latency), sd.get_portaudio_version()[1])

    def _start_stream(self) -> None:
        sd = load_sounddevice()
        try:
            self._stream.start()
        except sd.PortAudioError as error:
            raise DeviceError(f"{self.device}: the microphone cannot be started: {error}") from None

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(ignore_errors=True)
            closed(self)

    def _is_active(self) -> bool:
        stream = self._stream
        try:
            return stream is not None and bool(stream.active)
        except load_sounddevice().PortAudioError:
            return False

    def _callback(self, data: Any, frames: int, time: Any, status: Any) -> None:
        self._deliver(bytes(data), ("input_overflow",) if status.input_overflow else ())


def load_sounddevice() -> Any:
    """The sounddevice module. Raises MissingDependency when it or the PortAudio library is absent."""
    try:
        import sounddevice
    except ImportError as error:
        raise missing_portaudio("package", error) from None
    except OSError as error:
        raise missing_portaudio("library", error) from None
    return sounddevice


def input_devices() -> list[InputDevice]:
    """Every input in PortAudio's list of this process (see `list_inputs_fresh`). Raises MissingDependency."""
    sd = load_sounddevice()
    if not sd._initialized:
        sd._initialize()
    apis = sd.query_hostapis()
    return [
        InputDevice(
            index, d["name"], apis[d["hostapi"]]["name"], d["max_input_channels"], d["default_samplerate"]
        )
        for index, d in enumerate(sd.query_devices())
        if d["max_input_channels"] > 0
    ]
