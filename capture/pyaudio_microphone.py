"""A microphone through PortAudio by PyAudio: the optional second backend, with the same samples."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from capture.blocks import AudioInfo
from capture.live_microphone import LiveMicrophone
from capture.portaudio_devices import InputDevice, busy_message, choose_device
from dsp.errors import DeviceError, MissingDependency


class PyAudioMicrophone(LiveMicrophone):
    """See LiveMicrophone. Samples are int32, left-justified, as from the sounddevice backend."""

    backend = "pyaudio"
    _audio: Any = None
    _stream: Any = None

    def _open_stream(self) -> AudioInfo:
        pyaudio = load_pyaudio()
        if self._audio is None:
            self._audio = pyaudio.PyAudio()
        device = choose_device(_input_devices(self._audio), self.device, self.channels)
        try:
            self._stream = self._audio.open(
                rate=self.rate_hz,
                channels=self.channels,
                format=pyaudio.paInt32,
                input=True,
                input_device_index=device.index,
                frames_per_buffer=self.block_frames,
                stream_callback=self._callback,
                start=False,
            )
        except (OSError, ValueError) as error:
            raise DeviceError(busy_message(device, str(error))) from None
        latency_s = float(self._stream.get_input_latency())
        return self._info_of(device, self.rate_hz, latency_s, pyaudio.get_portaudio_version_text())

    def _start_stream(self) -> None:
        try:
            self._stream.start_stream()
        except OSError as error:
            raise DeviceError(f"{self.device}: the microphone cannot be started: {error}") from None

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()
        audio, self._audio = self._audio, None
        if audio is not None:
            audio.terminate()

    def _rescan(self) -> None:
        """Nothing to do: closing ends this PortAudio session, opening starts a new one."""

    def _callback(self, data: bytes, frames: int, time: Any, status: int) -> tuple[None, int]:
        pyaudio = load_pyaudio()
        self._deliver(data, ("input_overflow",) if status & pyaudio.paInputOverflow else ())
        return None, pyaudio.paContinue


def load_pyaudio() -> Any:
    """The pyaudio module. Raises MissingDependency when it is not installed."""
    try:
        import pyaudio
    except ImportError as error:
        raise MissingDependency(
            "the PyAudio backend is not installed: sudo apt-get install portaudio19-dev gcc python3-dev,"
            f" then pip install 'hearth-home[pyaudio]'; or set `microphone.source: sounddevice` ({error})"
        ) from None
    return pyaudio


def _input_devices(audio: Any) -> list[InputDevice]:
    devices = []
    for index in range(audio.get_device_count()):
        d = audio.get_device_info_by_index(index)
        api = audio.get_host_api_info_by_index(d["hostApi"])["name"]
        if d["maxInputChannels"] > 0:
            devices.append(InputDevice(index, d["name"], api, d["maxInputChannels"], d["defaultSampleRate"]))
    return devices
