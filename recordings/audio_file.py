"""Sound files of any kind behind one reader: WAV by our own chunk walker, the rest by libsndfile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.wav_read import WavFile, read_wav
from recordings.wav_tags import Bext

WAV_SUFFIXES = frozenset({".wav", ".wave", ".bwf", ".rf64", ".bw64", ".amb", ".w64"})
OTHER_SUFFIXES = frozenset({".flac", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".caf", ".mp3"})


@dataclass
class AudioFile:
    """One or several consecutive sound files as one stretch of frames; samples are read on demand.

    `format` is one of dsp.FORMATS when the tags say so, else None. `bits` is 0 for compressed formats.
    """

    paths: tuple[Path, ...]
    rate: int
    channels: int
    bits: int
    frames: int
    is_float: bool = False
    format: str | None = None
    tracks: tuple[str, ...] = ()
    bext: Bext | None = None
    problems: list[str] = field(default_factory=list)
    _parts: tuple[tuple[int, WavFile | Path], ...] = ()

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]:
        """float32 (frames, channels) with full scale +-1 from frame `start`; fewer only at the end."""
        start = min(max(start, 0), self.frames)
        stop = self.frames if count is None else min(start + count, self.frames)
        pieces = []
        first = 0
        for length, part in self._parts:
            a, b = max(start - first, 0), min(stop - first, length)
            if a < b:
                pieces.append(_read_part(part, a, b - a))
            first += length
        return np.concatenate(pieces) if pieces else np.zeros((0, self.channels), np.float32)

    def blocks(self, frames: int = 1 << 16) -> Iterator[NDArray[np.float32]]:
        """The whole stretch in blocks of at most `frames`, in order."""
        for length, part in self._parts:
            if isinstance(part, WavFile):
                for start in range(0, length, frames):
                    yield part.read_float(start, frames)
            else:
                import soundfile

                left = length
                with soundfile.SoundFile(part) as file:
                    while left and len(
                        block := file.read(min(frames, left), dtype="float32", always_2d=True)
                    ):
                        left -= len(block)
                        yield block


def _read_part(part: WavFile | Path, start: int, count: int) -> NDArray[np.float32]:
    if isinstance(part, WavFile):
        return part.read_float(start, count)
    import soundfile

    with soundfile.SoundFile(part) as file:
        file.seek(start)
        return np.asarray(file.read(count, dtype="float32", always_2d=True), np.float32)


def open_audio(path: str | Path | Sequence[str | Path], recover: bool = False) -> AudioFile:
    """Open a sound file, or several that follow each other (same rate, channels and format).

    recover: see `read_wav`. Raises InputError when one cannot be read or does not fit the first.
    """
    if isinstance(path, str | Path):
        return _open_one(Path(path), recover)
    files = [_open_one(Path(item), recover) for item in path]
    if not files:
        raise InputError("no sound file was given")
    first = files[0]
    for other in files[1:]:
        a, b = (first.rate, first.channels, first.format), (other.rate, other.channels, other.format)
        if a != b:
            raise InputError(
                f"{other.paths[0]} does not continue {first.paths[0].name}:"
                f" rate, channels, format are {b}, not {a}"
            )
    return AudioFile(
        paths=tuple(file.paths[0] for file in files),
        rate=first.rate,
        channels=first.channels,
        bits=first.bits,
        frames=sum(file.frames for file in files),
        is_float=first.is_float,
        format=first.format,
        tracks=first.tracks,
        bext=first.bext,
        problems=[f"{file.paths[0].name}: {text}" for file in files for text in file.problems],
        _parts=tuple(part for file in files for part in file._parts),
    )


def _open_one(path: Path, recover: bool) -> AudioFile:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the sound files in it")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    with open(path, "rb") as file:
        head = file.read(12)
    if path.suffix.lower() in WAV_SUFFIXES or (
        (head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:] == b"WAVE")
        or head[:8] == b"riff\x2e\x91\xcf\x11"
    ):
        wav = read_wav(path, recover)
        return AudioFile(
            (path,), wav.rate, wav.channels, wav.bits, wav.frames, wav.is_float, wav.format, wav.tracks,
            wav.bext, list(wav.problems), ((wav.frames, wav),),
        )  # fmt: skip
    import soundfile

    try:
        info = soundfile.info(path)
    except (soundfile.SoundFileError, OSError) as error:
        raise InputError(f"{path}: not a sound file that can be read: {error}") from None
    if not 0 <= info.frames < 1 << 48:
        raise InputError(
            f"{path}: libsndfile does not know its length ({info.frames}); decode it to WAV first"
        )
    bits = {"PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "PCM_S8": 8}.get(info.subtype, 0)
    frames, problems = _readable_frames(path, str(info.format), info.frames)
    return AudioFile(
        (path,),
        info.samplerate,
        info.channels,
        bits,
        frames,
        is_float=bits == 0,
        problems=problems,
        _parts=((frames, path),),
    )


def _readable_frames(path: Path, kind: str, declared: int) -> tuple[int, list[str]]:
    """How many frames of a file that libsndfile opened can be read, and what is wrong with its end.

    libsndfile takes the length of a FLAC file from its header without a look at the end, and of a cut Ogg or
    AIFF file what is left, without a word.
    """
    size = path.stat().st_size
    if kind == "FLAC" and declared and not _reads(path, declared - 1, 1):
        good = 0
        for step in (1 << 16, 4096, 256, 16, 1):  # an error costs the whole read, and the decoder its place
            while _reads(path, good, step):
                good += step
        return good, [f"truncated: {declared} frames declared, {good} can be read"]
    with open(path, "rb") as file:
        head = file.read(8)
        file.seek(max(size - (1 << 16), 0))
        tail = file.read()
    if kind == "OGG":
        page = tail.rfind(b"OggS")
        if page < 0 or len(tail) < page + 6 or not tail[page + 5] & 4:
            return declared, ["truncated: the stream has no end mark; how much is missing is not known"]
    if kind == "AIFF" and (missing := int.from_bytes(head[4:], "big") + 8 - size) > 1:
        return declared, [f"truncated: {missing} bytes of what the header says are missing"]
    return declared, []


def _reads(path: Path, start: int, count: int) -> bool:
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            file.seek(start)
            return len(file.read(count, dtype="float32", always_2d=True)) == count
    except (soundfile.SoundFileError, OSError):
        return False
