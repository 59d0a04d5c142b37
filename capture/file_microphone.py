"""A sound file as a microphone: WAV, FLAC or Ogg, in real time or as fast as the readers take it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, Sink, SourceEvent, monotonic_ns
from capture.pacing import wait_until
from dsp.errors import InputError, MissingDependency

_BITS = {"PCM_U8": 8, "PCM_S8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "FLOAT": 24, "DOUBLE": 24}


class FileMicrophone:
    """Plays a file through the same interface as a microphone.

    Integer samples come left-justified in int32 and exact; float files are scaled by 2**31 and clipped, Ogg
    is decoded to that. Block times are t_start + frame / rate, without jitter.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        rate_hz: int | None = None,
        channels: int | None = None,
        format: str = "ambix",
        block_ms: float = 10.0,
        pace: Literal["realtime", "fast"] = "realtime",
    ) -> None:
        """rate_hz, channels: what the rig says; a file that differs is refused. None takes the file's."""
        self.path = Path(path)
        self.start_ns: int | None = None  # set before `start` to share one start with a camera file
        self._rate_hz, self._channels = rate_hz, channels
        self._format, self._block_ms, self._pace = format, block_ms, pace
        self._info: AudioInfo | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> AudioInfo:
        """Check the file against the rig. Raises InputError; MissingDependency without libsndfile."""
        if self._info is not None:
            return self._info
        soundfile = _soundfile()
        if not self.path.is_file():
            raise InputError(f"{self.path}: no such sound file (`microphone.file`)")
        try:
            with soundfile.SoundFile(self.path) as file:
                rate, channels, subtype, frames = file.samplerate, file.channels, file.subtype, file.frames
        except (soundfile.LibsndfileError, RuntimeError) as error:
            raise InputError(f"{self.path}: not a readable WAV, FLAC or Ogg file: {error}") from None
        if frames <= 0:
            raise InputError(
                f"{self.path}: the file says that it holds no sound. If it was cut off while recording,"
                " `hearth import` can still read it."
            )
        if self._rate_hz is not None and rate != self._rate_hz:
            raise InputError(f"{self.path}: {rate} Hz, but `microphone.rate_hz` says {self._rate_hz}")
        if self._channels is not None and channels != self._channels:
            raise InputError(
                f"{self.path}: {channels} channels, but `microphone.channels` is {self._channels}"
            )
        block = max(1, round(rate * self._block_ms / 1000))
        self._info = AudioInfo(
            name=self.path.name,
            backend="file",
            rate_hz=rate,
            channels=channels,
            format=self._format,
            bits=_BITS.get(subtype, 24),
            block_frames=block,
            detail={"path": str(self.path), "subtype": subtype, "frames": frames, "pace": self._pace},
        )
        return self._info

    def start(self, sink: Sink) -> None:
        """Begin to play in a thread of its own."""
        info = self.open()
        if self._thread is not None:
            raise RuntimeError("this source was started already")
        self._stop.clear()
        begin = self.start_ns if self.start_ns is not None else monotonic_ns()
        self._thread = threading.Thread(
            target=self._play, args=(sink, info, begin), name="file microphone", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop playing; the sink is not called after this returns."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def close(self) -> None:
        """Same as stop: nothing else is held."""
        self.stop()

    def _play(self, sink: Sink, info: AudioInfo, begin: int) -> None:
        rate, first, seq = info.rate_hz, 0, 0
        soundfile = _soundfile()
        try:
            with soundfile.SoundFile(self.path) as file:
                while not self._stop.is_set():
                    samples = _read_int32(file, info.block_frames)
                    if not len(samples):
                        break
                    t_ns = begin + first * 1_000_000_000 // rate
                    end_ns = begin + (first + len(samples)) * 1_000_000_000 // rate
                    if self._pace == "realtime" and not wait_until(end_ns, self._stop):
                        return
                    sink(AudioBlock(t_ns, seq, first, rate, samples, t_observed_ns=t_ns))
                    first += len(samples)
                    seq += 1
        except (OSError, RuntimeError) as error:
            sink(SourceEvent(monotonic_ns(), "microphone", "error", f"{self.path}: {error}"))
        if not self._stop.is_set():
            end_ns = begin + first * 1_000_000_000 // rate
            sink(SourceEvent(end_ns, "microphone", "ended", f"{self.path.name} is over", {"frames": first}))


def _read_int32(file: object, frames: int) -> NDArray[np.int32]:
    """(n, channels) int32, left-justified, read-only; n < frames at the end of the file."""
    subtype = file.subtype  # type: ignore[attr-defined]
    if subtype in ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32"):
        samples = file.read(frames, dtype="int32", always_2d=True)  # type: ignore[attr-defined]
    else:  # libsndfile does not scale float to integer; do it with full scale 1.0
        floats = file.read(frames, dtype="float64", always_2d=True)  # type: ignore[attr-defined]
        samples = np.clip(np.rint(floats * 2.0**31), -(2.0**31), 2.0**31 - 1).astype(np.int32)
    samples.flags.writeable = False
    return np.asarray(samples)


def _soundfile():  # type: ignore[no-untyped-def]
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise MissingDependency(
            f"sound files need libsndfile: sudo apt-get install libsndfile1 ({error})"
        ) from None
    return soundfile
