"""An episode's sound as one WAV file whose frames are equally spaced on the session's clock.

Frame n of the file is the sound at T0 + n / rate, T0 being the time of the first frame: the crystal's drift
is taken out by resampling, and where frames were lost there are as many zeros as time has passed. The archive
itself is never resampled. Where the device's clock is the session's to within a microsecond,
samples are copied, bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.errors import InputError
from recordings.audio_file import AudioFile
from recordings.clock_map import sound_clock
from recordings.episode import Episode
from recordings.storage import storage_errors, write_atomic
from recordings.timeline import Line
from recordings.wav_read import WavFile
from recordings.wav_write import WavWriter

Clock = Literal["session", "device"]
_BLOCK = 1 << 16
_WHOLE = 0.05  # of a frame: a gap so near to whole frames needs no resampling


@dataclass(frozen=True)
class Exported:
    """What was written. resampled: whether samples were computed; clipped: values beyond full scale."""

    path: Path
    sidecar: Path
    clock: str
    rate_hz: int
    frames: int
    resampled: bool
    clipped: int
    description: dict[str, Any]


@dataclass(frozen=True)
class _Run:
    """Frames [begin, end) of the file without a gap: pieces (frame, rate_hz); start_s after T0."""

    begin: int
    end: int
    start_s: float
    pieces: tuple[tuple[int, float], ...]
    lost_frames: int
    sigma_frames: float

    @property
    def length_s(self) -> float:
        edges = [*(frame for frame, _ in self.pieces), self.end]
        return sum((b - a) / rate for (a, rate), b in zip(self.pieces, edges[1:], strict=True))


def export_audio(
    episode: Episode,
    out: Path,
    clock: Clock = "session",
    rate_hz: int | None = None,
    advance: Callable[[float], None] = lambda frames: None,
) -> Exported:
    """Write `out` and beside it `<out>.json`: clock, gaps, map. Calls `advance` with frames done.

    clock "session": equally spaced in time, gaps as zeros. "device": samples as they are, nothing in place of
    a gap; the map from frame to time is in the sidecar. rate_hz: None is the original's.
    Raises InputError (no sound, existing file, a rate with the device's clock), StorageError.
    """
    source = episode.original
    rate = source.rate if rate_hz is None else rate_hz
    sidecar = out.with_name(out.name + ".json")
    if clock not in ("session", "device"):
        raise InputError(f"clock {clock!r}: it is one of session, device")
    if clock == "device" and rate != source.rate:
        raise InputError(
            f"--rate {rate}: on the device's clock the samples stay as they are, {source.rate} Hz"
        )
    for path in (out, sidecar):
        if path.exists():
            raise InputError(f"{path} exists already; give another name, nothing is overwritten")
    if out.resolve().is_relative_to(episode.path.resolve()):
        raise InputError(f"{out}: lies in the episode, which never changes; give a place outside it")
    if not source.frames:
        raise InputError(f"{episode.path}: holds no sound frame")
    pieces = clock_pieces(episode)
    runs = _runs(pieces, source)
    resampled = clock == "session" and (rate != source.rate or not _is_copy(runs, source.rate))
    writer = WavWriter(
        out,
        rate,
        source.channels,
        bits=source.bits or 24,
        sample_type="float" if source.is_float else "pcm",
        format_name=str(episode.format or ""),
        note=episode.profile.id,
    )
    try:
        clipped, gaps = _write(writer, source, runs, clock, resampled, advance)
    except BaseException:
        writer.close()
        with storage_errors(out, "remove"):
            out.unlink(missing_ok=True)
        raise
    writer.close()
    description = _describe(episode, pieces, gaps, clock, rate, writer.frames, resampled, clipped)
    write_atomic(sidecar, (json.dumps(description, indent=1) + "\n").encode())
    return Exported(out, sidecar, clock, rate, writer.frames, resampled, clipped, description)


def clock_pieces(episode: Episode) -> list[Line]:
    """The "clock" lines of an episode: from its timeline, made now for one that has none, or its block stamps
    at the nominal rate where there is too little to go by (an import)."""
    lines, rate = episode.timeline(), episode.original.rate
    found = [line for line in lines if line["type"] == "clock"] or sound_clock(lines, rate).pieces
    if found:
        return found
    starts = {0: 0}
    for line in lines:
        if line["type"] == "gap" and line.get("stream") == "audio" and line.get("lost_frames"):
            starts[int(line["file_frame"])] = int(line["lost_frames"])
    return [
        {
            "type": "clock",
            "t_ns": int(episode.audio_map.time_ns(frame)),
            "file_frame": frame,
            "rate_hz": float(rate),
            "lost_frames": lost,
            "sigma_frames": None,
            "source": "nominal",
        }
        for frame, lost in sorted(starts.items())
        if frame < episode.original.frames
    ]


def _runs(pieces: list[Line], source: AudioFile) -> list[_Run]:
    origin = int(pieces[0]["t_ns"])
    breaks = [i for i, piece in enumerate(pieces) if i == 0 or piece["lost_frames"]]
    runs = []
    for i, stop in zip(breaks, [*breaks[1:], len(pieces)], strict=True):
        begin = int(pieces[i]["file_frame"]) if i else 0
        end = int(pieces[stop]["file_frame"]) if stop < len(pieces) else source.frames
        inside = [(int(piece["file_frame"]), float(piece["rate_hz"])) for piece in pieces[i:stop]]
        inside[0] = (begin, inside[0][1])
        runs.append(
            _Run(
                begin,
                end,
                (int(pieces[i]["t_ns"]) - origin) * 1e-9,
                tuple(inside),
                int(pieces[i]["lost_frames"]),
                float(pieces[i].get("sigma_frames") or 0.0),
            )
        )
    return runs


def _is_copy(runs: list[_Run], rate: int) -> bool:
    """Whether every frame lies on the session's grid as it is."""
    for run in runs:
        place = run.start_s * rate
        if abs(place - round(place)) > _WHOLE or any(r != rate for _, r in run.pieces):
            return False
    return True


def _write(
    writer: WavWriter,
    source: AudioFile,
    runs: list[_Run],
    clock: Clock,
    resampled: bool,
    advance: Callable[[float], None],
) -> tuple[int, list[dict[str, Any]]]:
    """Writes everything; gives the number of clipped values and the gaps in frames of the new file."""
    clipped, gaps, end = 0, [], 0
    for run in runs:
        first = writer.frames
        if clock == "session":
            first = max(math.ceil(run.start_s * writer.rate_hz - _WHOLE), writer.frames)
            _zeros(writer, first - writer.frames)
        if run.lost_frames:
            gaps.append(
                {
                    "before_frame": first,
                    "zeros": first - end if clock == "session" else 0,
                    "lost_frames": run.lost_frames,
                    "sigma_frames": run.sigma_frames,
                }
            )
        if resampled:
            clipped += _resample(writer, source, run, first, advance)
        else:
            for block in _samples(source, run.begin, run.end):
                writer.write(block)
                advance(len(block))
        end = writer.frames
    return clipped, gaps


def _resample(
    writer: WavWriter, source: AudioFile, run: _Run, first: int, advance: Callable[[float], None]
) -> int:
    """Frames first, first + 1, ... of the new file up to the end of the run."""
    from dsp.async_resample import AsyncResampler

    rate = writer.rate_hz
    made = AsyncResampler(source.rate, rate, source.channels, quality="high", on_nonfinite="flag")
    # Output m is the run's time m / rate - delay + start / fs_in; the start puts it on the grid of the file.
    at = first / rate - run.start_s  # of the first frame wanted, after the run's start
    skip = math.floor((at + made.delay_s) * rate)
    start = (at + made.delay_s - skip / rate) * source.rate
    made.reset(start)
    last = math.floor((run.start_s + run.length_s) * rate - 1 + _WHOLE)
    left, clipped = max(last - first + 1, 0), 0
    ends = [*(frame for frame, _ in run.pieces[1:]), run.end]

    def take(y: NDArray[np.float32]) -> int:
        nonlocal skip, left
        drop = min(skip, len(y))
        skip -= drop
        y = y[drop : drop + left]
        left -= len(y)
        if not len(y):
            return 0
        block, count = _as_samples(y, writer)
        writer.write(block)
        return count

    for (begin, speed), end in zip(run.pieces, ends, strict=True):
        made.steer((speed / source.rate - 1.0) * 1e6)
        for at_frame in range(begin, end, _BLOCK):
            block = source.read(at_frame, min(_BLOCK, end - at_frame))
            clipped += take(made.push(block))
            advance(len(block))
    return clipped + take(made.flush())


def _as_samples(
    y: NDArray[np.float32], writer: WavWriter
) -> tuple[NDArray[np.int32] | NDArray[np.float32], int]:
    if writer.sample_type == "float":
        return y, 0
    top = 1 << (writer.bits - 1)
    scaled = np.rint(y.astype(np.float64) * top)
    clipped = int(np.count_nonzero((scaled > top - 1) | (scaled < -top)))
    whole = np.clip(scaled, -top, top - 1).astype(np.int64) << (32 - writer.bits)
    return whole.astype(np.int32), clipped


def _zeros(writer: WavWriter, frames: int) -> None:
    silence = np.zeros((min(frames, _BLOCK), writer.channels), np.float32)
    while frames > 0:
        part = silence[:frames]
        writer.write(part if writer.sample_type == "float" else part.astype(np.int32))
        frames -= len(part)


def _samples(source: AudioFile, begin: int, end: int) -> Iterator[NDArray[np.int32] | NDArray[np.float32]]:
    """The samples as they are in the file: int32 left-justified, float32 for float and compressed files."""
    first = 0
    for length, part in source._parts:
        a, b = max(begin - first, 0), min(end - first, length)
        for at in range(a, b, _BLOCK):
            count = min(_BLOCK, b - at)
            if isinstance(part, WavFile):
                yield part.read(at, count)
            else:
                block = source.read(first + at, count)
                yield block if source.is_float else (block.astype(np.float64) * 2.0**31).astype(np.int32)
        first += length


def _describe(
    episode: Episode,
    pieces: list[Line],
    gaps: list[dict[str, Any]],
    clock: Clock,
    rate: int,
    frames: int,
    resampled: bool,
    clipped: int,
) -> dict[str, Any]:
    anchors = [line for line in episode.timeline() if line["type"] == "anchor" and "t_utc_ns" in line]
    t0 = int(pieces[0]["t_ns"])
    return {
        "hearth_export": 1,
        "episode": episode.profile.id,
        "format": episode.format,
        "clock": clock,
        "rate_hz": rate,
        "frames": frames,
        "t0_ns": t0,
        "t0_utc_ns": int(anchors[0]["t_utc_ns"]) + t0 - int(anchors[0]["t_ns"]) if anchors else None,
        "resampled": resampled,
        "clipped_samples": clipped,
        "gaps": gaps,
        "map": [{key: value for key, value in piece.items() if key != "type"} for piece in pieces],
    }
