"""`hearth trim`: a stretch of a WAV file, sample for sample, with everything else that the file holds."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dsp.errors import InputError
from recordings.wav_copy import (
    NewSound,
    WavCopy,
    check_target,
    common_changes,
    copy_wav,
    open_for_copy,
    stored_blocks,
)
from recordings.wav_read import WavFile
from recordings.wav_tags import shift_ixml


def parse_place(text: str, rate_hz: int, name: str) -> int:
    """A place in a file as a frame number: "12.5" (seconds), "1:02.5", "0:01:02.5", or "480f" (frames).

    Raises InputError.
    """
    if match := re.fullmatch(r"(\d+)f", text.strip()):
        return int(match.group(1))
    match = re.fullmatch(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)", text.strip())
    if not match:
        raise InputError(f"{name} {text!r}: give seconds (12.5), h:mm:ss (0:01:02.5) or frames (480f)")
    hours, minutes, seconds = match.groups()
    return round((int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)) * rate_hz)


def trim_wav(source: Path, target: Path, start: str = "0", end: str | None = None) -> WavCopy:
    """Write the frames from `start` to before `end` (see `parse_place`; None: to the end) of a WAV file.

    The samples are those of the source, bit for bit; every other chunk is copied byte for byte except fact,
    ds64 and PEAK (they describe the sound), and the time of the first sample in bext and iXML.
    Raises InputError (no WAV, nothing between the two, the target exists), StorageError.
    """
    check_target(source, target)
    wav = open_for_copy(source)
    first = parse_place(start, wav.rate, "--start")
    stop = wav.frames if end is None else parse_place(end, wav.rate, "--end")
    if not first < stop <= wav.frames:
        raise InputError(
            f"{source}: nothing from frame {first} to {stop}: it has {wav.frames} frames,"
            f" {wav.frames / wav.rate:.3f} s; --start must lie before --end, and --end not behind that"
        )
    count = stop - first
    sound = NewSound(stored_blocks(wav, first, count), count, wav.frame_bytes, wav.rate, wav.bits)
    edits, report = common_changes(wav, sound, moved=first > 0)
    report.target = target
    _move_time(wav, first, edits, report)
    _find_peaks(wav, first, count, edits, report)
    report.kept = copy_wav(wav, target, sound, edits, [])
    return report


def _move_time(wav: WavFile, first: int, edits: dict[str, bytes], report: WavCopy) -> None:
    """The first sample is a later one: bext and iXML say when it was."""
    bext = wav.chunk_bytes("bext")
    if first and bext is not None and len(bext) >= 346:
        reference = struct.unpack_from("<Q", bext, 338)[0]
        if reference:
            edits["bext"] = bext[:338] + struct.pack("<Q", reference + first) + bext[346:]
            report.changed.append(f"bext: time reference + {first} frames, the time of the new first frame")
        else:
            report.notes.append("bext: the time reference is 0, taken as not set and kept")
    ixml = wav.chunk_bytes("iXML")
    if first and ixml is not None and (shifted := shift_ixml(ixml, first)) != ixml:
        edits["iXML"] = shifted
        report.changed.append(f"iXML: time of the first sample + {first} frames")


def _find_peaks(wav: WavFile, first: int, count: int, edits: dict[str, bytes], report: WavCopy) -> None:
    """PEAK holds the largest sample of each channel and its place."""
    old = wav.chunk_bytes("PEAK")
    if old is None or len(old) != 8 + 8 * wav.channels or (first, count) == (0, wav.frames):
        return
    edits["PEAK"] = old[:8] + peaks(
        (wav.read(at, min(1 << 16, first + count - at)) for at in range(first, first + count, 1 << 16)),
        wav.channels,
    )
    report.changed.append("PEAK: the largest samples of this stretch")


def peaks(blocks: Iterable[np.ndarray], channels: int) -> bytes:
    """Per channel the largest magnitude (float32, full scale 1) and the frame where it first is."""
    best, place, seen = np.full(channels, -1.0), np.zeros(channels, np.int64), 0
    for block in blocks:
        x = np.abs(block.astype(np.float64) * (1.0 if block.dtype.kind == "f" else 2.0**-31))
        where = x.argmax(axis=0)
        values = x[where, np.arange(channels)]
        better = values > best
        best[better], place[better] = values[better], seen + where[better]
        seen += len(x)
    return b"".join(struct.pack("<fI", v, min(p, 0xFFFFFFFF)) for v, p in zip(best, place, strict=True))
