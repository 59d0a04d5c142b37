"""A microphone through PortAudio by PyAudio: the optional second backend, with the same samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from capture.blocks import AudioInfo
from capture.live_microphone import LiveMicrophone
from capture.portaudio_calls import closed, opened, release_list
from capture.portaudio_devices import InputDevice, open_error
from dsp.errors import DeviceError, MissingDependency

_INPUT_OVERFLOW, _CONTINUE = 2, 0  # paInputOverflow, paContinue of portaudio.h


class PyAudioMicrophone(LiveMicrophone):
    """See LiveMicrophone. Samples are int32, left-justified, as from the sounddevice backend.

    PyAudio always asks PortAudio for the *low* input latency, so this backend survives a shorter stall of
    the machine than the other one.
    """

    backend = "pyaudio"
    _audio: Any = None
    _stream: Any = None

    def _open_stream(self) -> AudioInfo:
        pyaudio = load_pyaudio()
        fresh = release_list()
        with _quiet():
            self._audio = pyaudio.PyAudio()
        try:
            device = self._choose(_input_devices(self._audio), fresh)
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
                raise open_error(device, self.rate_hz, self.block_ms, _words(error)) from None
        except BaseException:
            self._close_stream()
            raise
        opened(self)
        latency_s = float(self._stream.get_input_latency())
        return self._info_of(device, self.rate_hz, latency_s, pyaudio.get_portaudio_version_text())

    def _start_stream(self) -> None:
        try:
            self._stream.start_stream()
        except OSError as error:
            raise DeviceError(f"{self.device}: the microphone cannot be started: {_words(error)}") from None

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()
            closed(self)
        audio, self._audio = self._audio, None
        if audio is not None:
            audio.terminate()

    def _is_active(self) -> bool:
        stream = self._stream
        try:
            return stream is not None and bool(stream.is_active())
        except OSError:
            return False

    def _callback(self, data: bytes, frames: int, time: Any, status: int) -> tuple[None, int]:
        self._deliver(data, ("input_overflow",) if status & _INPUT_OVERFLOW else ())
        return None, _CONTINUE


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


@contextmanager
def _quiet() -> Iterator[None]:
    """ALSA and JACK print a page while PortAudio lists devices; sounddevice hides it likewise."""
    try:
        kept = os.dup(2)
    except OSError:  # no standard error at all
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _words(error: BaseException) -> str:
    """PyAudio puts PortAudio's words before or behind a number."""
    return next((str(a) for a in error.args if isinstance(a, str)), str(error))


def _input_devices(audio: Any) -> list[InputDevice]:
    devices = []
    for index in range(audio.get_device_count()):
        d = audio.get_device_info_by_index(index)
        api = audio.get_host_api_info_by_index(d["hostApi"])["name"]
        if d["maxInputChannels"] > 0:
            devices.append(InputDevice(index, d["name"], api, d["maxInputChannels"], d["defaultSampleRate"]))
    return devices
