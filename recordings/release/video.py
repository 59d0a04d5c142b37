"""Pictures into a container of a release, as they are coded, at their true times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from dsp.errors import InputError
from recordings.release.media import VideoFile
from recordings.storage import sha256_file, storage_error
from recordings.video_read import _open, numbered_frames, summarise

# What both the container's specification and common readers take.
_IN_MP4 = frozenset({"h264", "hevc", "mpeg4", "mjpeg", "av1", "vp9"})
_TICKS = {".mp4": 1_000_000, ".mkv": 1000}  # per second: Matroska as FFmpeg writes it has milliseconds


def copy_video(source: Path, target: Path, times_ns: Sequence[int]) -> VideoFile:
    """Write the pictures of `source` into .mkv or .mp4, whose clock begins at 0 with the first picture.

    times_ns: true times in the order of presentation; the container gets them as fine as it can, except where
    pictures are coded in another order than they are shown: then it keeps those of the source. A coding that
    MP4 has no place for is encoded anew (`copied` is False). Raises InputError, StorageError.
    """
    suffix = target.suffix.lower()
    if suffix not in _TICKS:
        raise InputError(f"{target}: pictures go into .mkv or .mp4")
    about = summarise(source)
    if about.torn or len(about.times_ns) != len(times_ns):
        raise InputError(
            f"{source}: holds {len(about.times_ns)} pictures{' and is torn' if about.torn else ''}, the"
            f" timeline has {len(times_ns)}; run `hearth verify`"
        )
    copied = suffix != ".mp4" or about.codec in _IN_MP4
    coded = source if copied else target.with_name(f".{target.name}.coded.mkv")
    try:
        if not copied:
            _encode(source, coded, times_ns)
        _mux(coded, target, times_ns, _TICKS[suffix])
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise
    finally:
        if not copied:
            with suppress(OSError):
                coded.unlink()
    codec = about.codec if copied else summarise(target).codec
    return VideoFile(
        target, codec, about.width_px, about.height_px, len(times_ns), copied, False, sha256_file(target)
    )


def _mux(source: Path, target: Path, times_ns: Sequence[int], ticks: int) -> None:
    import av

    shown, coded = _stamps(source)
    plain = all(a == b or b is None for a, b in zip(shown, coded, strict=True))
    base, origin = Fraction(1, ticks), min(shown)
    stamps = [round((t - times_ns[0]) * ticks / 10**9) for t in times_ns]
    for i in range(1, len(stamps)):
        stamps[i] = max(stamps[i], stamps[i - 1] + 1)
    options = {"movflags": "+faststart"} if target.suffix.lower() == ".mp4" else {}
    with _open(source) as reader:
        template = reader.streams.video[0]
        try:
            # bitexact: no random id, no date, no version of the library.
            with av.open(
                str(target),
                "w",
                format="mp4" if options else "matroska",
                options=options,
                container_options={"fflags": "+bitexact"},
            ) as writer:
                stream = _like(writer, template, base)
                place = 0
                for packet in reader.demux(template):
                    if packet.pts is None or not packet.size:
                        continue
                    if plain:
                        packet.time_base = base
                        packet.pts = packet.dts = stamps[place]
                        packet.duration = _duration(stamps, place)
                    else:
                        packet.pts -= origin
                        packet.dts = None if packet.dts is None else packet.dts - origin
                    packet.stream = stream
                    writer.mux(packet)
                    place += 1
        except OSError as error:
            raise storage_error(error, target) from error
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def _stamps(source: Path) -> tuple[list[int], list[int | None]]:
    """Times of presentation and of decoding of every packet, in its own unit, in the order of the file."""
    shown, coded = [], []
    with _open(source) as reader:
        for packet in reader.demux(reader.streams.video[0]):
            if packet.pts is not None and packet.size:
                shown.append(packet.pts)
                coded.append(packet.dts)
    return shown, coded


def _like(writer: Any, template: Any, base: Fraction) -> Any:
    if hasattr(writer, "add_stream_from_template"):
        stream = writer.add_stream_from_template(template)
    else:
        stream = writer.add_stream(template=template)
    stream.time_base = base
    return stream


def _duration(stamps: Sequence[int], place: int) -> int:
    """Until the next picture; the last lasts as long as the one before."""
    if place + 1 < len(stamps):
        return stamps[place + 1] - stamps[place]
    return stamps[place] - stamps[place - 1] if place else 1


def _encode(source: Path, target: Path, times_ns: Sequence[int]) -> None:
    from recordings.video_write import VideoFile as Encoder

    encoder: Encoder | None = None
    try:
        for number, _, image in numbered_frames(source):
            if encoder is None:
                height, width = image.shape[:2]
                encoder = Encoder(target, width, height, 30.0)
            encoder.write(image, times_ns[number])
    finally:
        if encoder is not None:
            encoder.close()
