"""The sound track of a video file, decoded once into a temporary file and read from there piece by piece."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.audio_file import OTHER_SUFFIXES, WAV_SUFFIXES, AudioFile, open_audio
from recordings.storage import storage_errors

_JUMP_S = 0.05  # Matroska stamps are good to a ms; a step beyond this is a hole in the sound


class SoundTrack:
    """The first sound stream of a video file as mono samples of its own rate; use it as a context manager.

    start_s: time of the first frame after the first picture, by the container's stamps (negative: before).
    Holes in the stamps become silence. Reads like an AudioFile: rate, frames, read.
    Raises InputError when the file has no sound stream that can be decoded; see `has_sound`.
    """

    def __init__(self, path: Path, first_picture_ns: int) -> None:
        import av

        self.channels, self.rate, self.frames = 1, 0, 0
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        first, stamps_off = None, []
        try:
            with av.open(str(path)) as container, storage_errors(path, "decode"):
                if not container.streams.audio:
                    raise InputError(f"{path}: holds no sound stream")
                try:
                    for frame in container.decode(container.streams.audio[0]):
                        if frame.pts is None or (self.rate and frame.sample_rate != self.rate):
                            continue
                        self.rate = frame.sample_rate
                        time = float(frame.pts * frame.time_base)
                        first = time if first is None else first
                        off = time - first - self.frames / self.rate
                        if off > _JUMP_S:
                            self._put(np.zeros(round(off * self.rate), np.int16))
                            off = 0.0
                        stamps_off.append(off)
                        self._put(_mono(frame))
                except av.error.FFmpegError:
                    pass  # a torn end: what was decoded counts
        except (av.error.FFmpegError, OSError) as error:
            self._file.close()
            raise InputError(f"{path}: FFmpeg cannot decode its sound: {error}") from None
        except BaseException:
            self._file.close()
            raise
        if first is None:
            self._file.close()
            raise InputError(f"{path}: its sound stream holds nothing that can be decoded")
        self.start_s = first + float(np.median(stamps_off)) - first_picture_ns * 1e-9

    def _put(self, samples: NDArray[np.int16]) -> None:
        self._file.write(samples.tobytes())
        self.frames += len(samples)

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]:
        """float32 (frames, 1) from frame `start`; fewer only at the end."""
        start = min(max(start, 0), self.frames)
        count = self.frames - start if count is None else min(count, self.frames - start)
        self._file.seek(2 * start)
        samples = np.frombuffer(self._file.read(2 * count), np.int16)
        return (samples[:, None] * np.float32(2.0**-15)).astype(np.float32)

    def __enter__(self) -> SoundTrack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _mono(frame: Any) -> NDArray[np.int16]:
    x = frame.to_ndarray()
    count = len(frame.layout.channels)
    x = x.reshape(-1, count).mean(axis=1) if not frame.format.is_planar else x.mean(axis=0)
    kind = frame.format.name.rstrip("p")
    scale = {"s16": 1.0, "s32": 2.0**-16, "u8": 256.0}.get(kind, 32767.0)
    x = (x - 128.0 if kind == "u8" else x) * scale
    return np.clip(np.round(x), -32768, 32767).astype(np.int16)


@contextmanager
def open_sound(path: Path) -> Iterator[AudioFile | SoundTrack]:
    """A sound file, the original of an episode, or else the sound track of what FFmpeg opens.

    Raises InputError when it is none of them.
    """
    from recordings.episode import Episode

    if path.is_dir():
        yield Episode.open(path).original
        return
    if not path.is_file() or path.suffix.lower() in WAV_SUFFIXES | OTHER_SUFFIXES:
        yield open_audio(path)
        return
    with SoundTrack(path, 0) as track:
        yield track


def has_sound(path: Path) -> bool:
    """Whether the file has a sound stream at all."""
    import av

    try:
        with av.open(str(path)) as container:
            return bool(container.streams.audio)
    except (av.error.FFmpegError, OSError, ValueError):
        return False
