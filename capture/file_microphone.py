"""A sound file as a microphone: WAV, FLAC or Ogg, in real time or as fast as the readers take it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, Sink, SourceEvent, monotonic_ns
from capture.pacing import wait_until
from capture.source_thread import SourceThread
from dsp.errors import InputError, MissingDependency

_BITS = {"PCM_U8": 8, "PCM_S8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "FLOAT": 24, "DOUBLE": 24}


class FileMicrophone:
    """Plays a file through the same interface as a microphone.

    Integer samples come left-justified in int32 and exact; float files are scaled by 2**31 and clipped, Ogg
    is decoded to that. What is no number in a float file becomes 0, and SourceEvents of kind "error" say how
    many and where. Block times are t_start + frame / rate, without jitter.
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
        self._thread = SourceThread("file microphone")

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
        self._check_tags(channels)
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

    def _check_tags(self, channels: int) -> None:
        """A file that says what it is may not be played as something else; one that does not is what the rig
        says. Raises InputError."""
        from recordings.audio_file import open_audio
        from recordings.importer import TRACKS, decide_format

        if channels != 4 or self._format not in TRACKS:
            return
        try:
            decide_format(open_audio(self.path), self._format)
        except InputError as error:
            raise InputError(f"{error}. The format given is the rig's `microphone.format`") from None

    def start(self, sink: Sink) -> None:
        """Begin to play in a thread of its own."""
        info = self.open()
        self._thread.prepare()
        begin = self.start_ns if self.start_ns is not None else monotonic_ns()
        self._thread.begin(self._play, sink, info, begin)

    def stop(self) -> None:
        """Stop playing; the sink is not called after this returns."""
        self._thread.end()

    def close(self) -> None:
        """Same as stop: nothing else is held."""
        self.stop()

    def _play(self, sink: Sink, info: AudioInfo, begin: int) -> None:
        rate, first, seq = info.rate_hz, 0, 0
        soundfile = _soundfile()
        bad = _NotNumbers(self.path.name, rate, begin)
        try:
            with soundfile.SoundFile(self.path) as file:
                while not self._thread.stopping.is_set():
                    samples, no_number = _read_int32(file, info.block_frames)
                    if not len(samples):
                        break
                    t_ns = begin + first * 1_000_000_000 // rate
                    end_ns = begin + (first + len(samples)) * 1_000_000_000 // rate
                    if self._pace == "realtime" and not wait_until(end_ns, self._thread.stopping):
                        return
                    if (event := bad.add(first, no_number)) is not None:
                        sink(event)
                    sink(AudioBlock(t_ns, seq, first, rate, samples, t_observed_ns=t_ns))
                    first += len(samples)
                    seq += 1
        except (OSError, RuntimeError) as error:
            sink(SourceEvent(monotonic_ns(), "microphone", "error", f"{self.path}: {error}"))
        if (event := bad.take()) is not None:
            sink(event)
        if not self._thread.stopping.is_set():
            end_ns = begin + first * 1_000_000_000 // rate
            sink(SourceEvent(end_ns, "microphone", "ended", f"{self.path.name} is over", {"frames": first}))


class _NotNumbers:
    """Gathers the NaN and infinite samples of a stretch into one event, at most about one a second."""

    def __init__(self, name: str, rate_hz: int, begin_ns: int) -> None:
        self._name, self._rate_hz, self._begin_ns = name, rate_hz, begin_ns
        self._count = self._first = self._last = 0

    def add(self, block_first: int, no_number: NDArray[np.bool_] | None) -> SourceEvent | None:
        """no_number: (frames, channels) of the block that begins at frame block_first; None: all are good.
        Gives the event of a stretch that is over."""
        if no_number is None:
            return self.take()
        frames = np.flatnonzero(no_number.any(axis=1)) + block_first
        if not self._count:
            self._first = int(frames[0])
        self._count += int(no_number.sum())
        self._last = int(frames[-1])
        return self.take() if self._last - self._first >= self._rate_hz else None

    def take(self) -> SourceEvent | None:
        """The event of what is gathered, if anything is."""
        if not self._count:
            return None
        detail = (
            f"{self._name}: {self._count} samples between {self._first / self._rate_hz:.3f} and"
            f" {self._last / self._rate_hz:.3f} s are no numbers (NaN or infinite) and were set to 0"
        )
        data = {"samples": self._count, "first_frame": self._first, "last_frame": self._last}
        self._count = 0
        t_ns = self._begin_ns + self._first * 1_000_000_000 // self._rate_hz
        return SourceEvent(t_ns, "microphone", "error", detail, data)


def _read_int32(file: object, frames: int) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
    """(n, channels) int32, left-justified, read-only; n < frames at the end of the file. And which samples
    were no numbers; None when all are."""
    no_number = None
    subtype = file.subtype  # type: ignore[attr-defined]
    if subtype in ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32"):
        samples = file.read(frames, dtype="int32", always_2d=True)  # type: ignore[attr-defined]
    else:  # libsndfile does not scale float to integer; do it with full scale 1.0
        floats = file.read(frames, dtype="float64", always_2d=True)  # type: ignore[attr-defined]
        finite = np.isfinite(floats)
        if not finite.all():
            no_number = ~finite
            floats[no_number] = 0.0
        samples = np.clip(np.rint(floats * 2.0**31), -(2.0**31), 2.0**31 - 1).astype(np.int32)
    samples.flags.writeable = False
    return np.asarray(samples), no_number


def _soundfile():  # type: ignore[no-untyped-def]
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise MissingDependency(
            f"sound files need libsndfile: sudo apt-get install libsndfile1 ({error})"
        ) from None
    return soundfile
