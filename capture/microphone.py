"""A microphone through PortAudio by sounddevice: raw int32 blocks of the `hw:` device."""

from __future__ import annotations

from typing import Any

from capture.blocks import AudioInfo
from capture.live_microphone import LiveMicrophone
from capture.portaudio_devices import InputDevice, busy_message, choose_device
from dsp.errors import DeviceError, MissingDependency


class PortAudioMicrophone(LiveMicrophone):
    """See LiveMicrophone. Samples are int32, left-justified, neither dithered nor clipped by PortAudio."""

    backend = "sounddevice"
    _stream: Any = None

    def _open_stream(self) -> AudioInfo:
        sd = load_sounddevice()
        device = choose_device(input_devices(), self.device, self.channels)
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
            text = str(error.args[0]) if error.args else str(error)
            if "sample rate" in text.lower():
                raise DeviceError(
                    f"{device.describe()} does not do {self.rate_hz} Hz (`microphone.rate_hz`): {text}"
                ) from None
            raise DeviceError(busy_message(device, text)) from None
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

    def _rescan(self) -> None:
        # PortAudio lists devices once, at its start.
        sd = load_sounddevice()
        sd._terminate()
        sd._initialize()

    def _callback(self, data: Any, frames: int, time: Any, status: Any) -> None:
        self._deliver(bytes(data), ("input_overflow",) if status.input_overflow else ())


def load_sounddevice() -> Any:
    """The sounddevice module. Raises MissingDependency when it or the PortAudio library is absent."""
    try:
        import sounddevice
    except ImportError as error:
        raise MissingDependency(f"the Python package sounddevice is not installed ({error})") from None
    except OSError as error:
        raise MissingDependency(
            f"the PortAudio library is missing: sudo apt-get install libportaudio2 ({error})"
        ) from None
    return sounddevice


def input_devices() -> list[InputDevice]:
    """Every input that PortAudio lists in this process. Raises MissingDependency."""
    sd = load_sounddevice()
    apis = sd.query_hostapis()
    return [
        InputDevice(
            index, d["name"], apis[d["hostapi"]]["name"], d["max_input_channels"], d["default_samplerate"]
        )
        for index, d in enumerate(sd.query_devices())
        if d["max_input_channels"] > 0
    ]
