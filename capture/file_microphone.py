"""A sound file as a microphone: WAV, FLAC or Ogg, in real time or as fast as the readers take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import AudioBlock, AudioInfo, Sink, SourceEvent, monotonic_ns
from capture.pacing import wait_until
from capture.source_thread import SourceThread
from dsp.errors import HearthError, InputError, MissingDependency

if TYPE_CHECKING:
    from recordings.wav_read import WavFile

_INTEGERS = ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32")
_BITS = {"PCM_U8": 8, "PCM_S8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "FLOAT": 24, "DOUBLE": 24}


class FileMicrophone:
    """Plays a file through the same interface as a microphone.

    Integer samples come left-justified in int32 and exact; float files are scaled by 2**31 and clipped, Ogg
    is decoded to that. What is no number in a float file becomes 0, and SourceEvents of kind "error" say how
    many and where. Of a cut or damaged file everything readable is played, and events of kind "warning" or
    "error" say what is missing. Block times are t_start + frame / rate, without jitter.
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
        if not 0.1 <= block_ms <= 10_000:
            raise InputError(f"`microphone.block_ms`: {block_ms} cannot be asked for; give 1 to 200, e.g. 10")
        self.path = Path(path)
        self.start_ns: int | None = None  # set before `start` to share one start with a camera file
        self._rate_hz, self._channels = rate_hz, channels
        self._format, self._block_ms, self._pace = format, block_ms, pace
        self._info: AudioInfo | None = None
        self._opened: _SoundFile | None = None
        self._thread = SourceThread("file microphone")

    def open(self) -> AudioInfo:
        """Check the file against the rig. Raises InputError; MissingDependency without libsndfile."""
        if self._info is not None:
            return self._info
        self._check_there()
        self._opened = file = _open(self.path)
        rate, channels = file.rate_hz, file.channels
        if file.frames <= 0:
            raise InputError(f"{self.path}: the file holds no sound (`microphone.file`)")
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
            bits=file.bits,
            block_frames=block,
            detail={
                "path": str(self.path),
                "subtype": file.subtype,
                "frames": file.frames,
                "pace": self._pace,
                "warnings": file.problems,
            },
        )
        return self._info

    def _check_there(self) -> None:
        where = f"{self.path}: no such sound file (`microphone.file`)"
        if not self.path.is_file():
            raise InputError(f"{where}; it is a folder" if self.path.is_dir() else where)
        try:
            if self.path.stat().st_size == 0:
                raise InputError(f"{self.path}: the file is empty (0 bytes): copy it again, or take another")
            with open(self.path, "rb"):
                pass
        except OSError as error:
            raise InputError(f"{self.path}: the file cannot be read: {error.strerror}") from None

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
        assert self._opened is not None
        for problem in self._opened.problems:
            sink(SourceEvent(begin, "microphone", "warning", f"{self.path.name}: {problem}"))
        bad = _NotNumbers(self.path.name, rate, begin)
        try:
            with self._opened.reader() as read:
                while not self._thread.stopping.is_set():
                    samples, no_number = read(info.block_frames)
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
        except (OSError, RuntimeError, HearthError) as error:
            sink(SourceEvent(monotonic_ns(), "microphone", "error", f"{self.path}: {error}"))
        missing = info.detail["frames"] - first
        if missing > 0 and not self._thread.stopping.is_set():
            detail = (
                f"{self.path.name}: the sound ends {missing / rate:.3f} s before the end that the file names:"
                " it is damaged or was cut off"
            )
            sink(SourceEvent(monotonic_ns(), "microphone", "error", detail, {"missing_frames": missing}))
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


Read = Callable[[int], tuple[NDArray[np.int32], NDArray[np.bool_] | None]]
"""(n, channels) int32, left-justified, read-only; n < frames at the end of the file. And which samples were
no numbers; None when all are.
"""


@dataclass(frozen=True, slots=True)
class _SoundFile:
    """What a file holds, and how it is read. problems: what is wrong with it although it can be read."""

    rate_hz: int
    channels: int
    frames: int
    subtype: str
    bits: int
    problems: list[str]
    reader: Callable[[], AbstractContextManager[Read]]


def _open(path: Path) -> _SoundFile:
    """WAV by our own reader, which reads what a recorder that was killed left; the rest by libsndfile."""
    from recordings.audio_file import WAV_SUFFIXES
    from recordings.wav_read import read_wav

    why = ""
    if path.suffix.lower() in WAV_SUFFIXES:
        try:
            wav = read_wav(path, recover=True)
        except InputError as error:  # perhaps an encoding that libsndfile knows
            why = str(error).removeprefix(f"{path}: ")
        else:
            if not wav.is_float or wav.problems:
                subtype = "FLOAT" if wav.is_float else f"PCM_{wav.bits}"
                return _SoundFile(
                    wav.rate, wav.channels, wav.frames, subtype, 24 if wav.is_float else wav.bits,
                    list(wav.problems), lambda: _reading_wav(wav),
                )  # fmt: skip
    soundfile = _soundfile()
    try:
        with soundfile.SoundFile(path) as file:
            subtype = file.subtype
            return _SoundFile(
                file.samplerate, file.channels, file.frames, subtype, _BITS.get(subtype, 24), [],
                lambda: _reading_other(path),
            )  # fmt: skip
    except (soundfile.LibsndfileError, RuntimeError) as error:
        why = why or str(error).split(": ", 1)[-1]
        raise InputError(f"{path}: not a readable WAV, FLAC or Ogg file: {why}") from None


@contextmanager
def _reading_wav(wav: WavFile) -> Iterator[Read]:
    place = 0

    def read(frames: int) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
        nonlocal place
        samples = wav.read(place, frames)
        place += len(samples)
        return _to_int32(samples)

    yield read


@contextmanager
def _reading_other(path: Path) -> Iterator[Read]:
    soundfile = _soundfile()
    with soundfile.SoundFile(path) as file:
        # libsndfile does not scale float to integer
        dtype = "int32" if file.subtype in _INTEGERS else "float64"

        def read(frames: int) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
            return _to_int32(file.read(frames, dtype=dtype, always_2d=True))

        yield read


def _to_int32(x: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
    """Floats with full scale 1.0 become int32; what is no number becomes 0."""
    no_number = None
    if x.dtype.kind == "f":
        x = x.astype(np.float64)
        finite = np.isfinite(x)
        if not finite.all():
            no_number = ~finite
            x[no_number] = 0.0
        x = np.clip(np.rint(x * 2.0**31), -(2.0**31), 2.0**31 - 1)
    samples = np.asarray(x.astype(np.int32, copy=False))
    samples.flags.writeable = False
    return samples, no_number


def _soundfile():  # type: ignore[no-untyped-def]
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise MissingDependency(
            f"sound files need libsndfile: sudo apt-get install libsndfile1 ({error})"
        ) from None
    return soundfile
