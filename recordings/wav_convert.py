"""`hearth convert`: another channel order, rate or sample size of a WAV file; every other chunk is kept."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dsp
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
from recordings.wav_tags import (
    TRACKS,
    Bext,
    build_bext,
    description_for,
    retag_bext,
    retag_ixml,
)
from recordings.wav_trim import peaks
from recordings.wav_write import ORIGINATOR

_BLOCK = 1 << 16
_PCM_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
SAMPLE_TYPES = ("16", "24", "32", "float")


def convert_wav(
    source: Path,
    target: Path,
    to: str,
    *,
    format: str | None = None,
    rate_hz: int | None = None,
    sample_type: str | None = None,
) -> WavCopy:
    """Write a four-channel WAV file in the order `to`, at `rate_hz`, as `sample_type` (one of SAMPLE_TYPES).

    to, format: of dsp.FORMATS; format is that of the source, needed when its tags do not say. At the same
    rate, samples that only change places stay bit for bit, the others are computed in double precision and
    rounded to the nearest step. Chunks that would be untrue change: fmt, fact, ds64, PEAK; in bext the names
    of the tracks, the time reference (it counts samples) and a line of coding history; in iXML the names,
    rates and sample counts. A file without bext gets one: without it the new order would be unknown.
    Raises InputError (unknown order, tags that contradict `format`, samples beyond full scale, the target
    exists), StorageError.
    """
    from recordings.audio_file import open_audio
    from recordings.importer import decide_format

    check_target(source, target)
    wav = open_for_copy(source)
    if to not in TRACKS:
        raise InputError(f"--to {to!r}: one of {', '.join(TRACKS)}")
    if sample_type not in (None, *SAMPLE_TYPES):
        raise InputError(f"--bits {sample_type!r}: one of {', '.join(SAMPLE_TYPES)}")
    if wav.channels != len(TRACKS[to]):
        raise InputError(f"{source}: has {wav.channels} channels; {to} has {len(TRACKS[to])}")
    if not wav.frames:
        raise InputError(f"{source}: holds no sound")
    was = decide_format(open_audio(source), format)
    rate = rate_hz or wav.rate
    if sample_type == "float" or (sample_type is None and wav.is_float):
        bits, is_float = (wav.bits if sample_type is None else 32), True
    else:
        bits, is_float = int(sample_type) if sample_type else wav.bits, False
    pcm8 = bits == 8
    same = (was, wav.rate, wav.bits, wav.is_float) == (to, rate, bits, is_float)
    frames = wav.frames if rate == wav.rate else -(-wav.frames * rate // wav.rate)
    if same:
        blocks = stored_blocks(wav, 0, frames)
    else:
        blocks = _packed(wav, _converted(wav, was, to, rate), bits, is_float, pcm8)
    sound = NewSound(blocks, frames, wav.channels * bits // 8, rate, bits)
    edits, report = common_changes(wav, sound, moved=rate != wav.rate)
    report.target, report.format = target, to
    _edit_fmt(wav, sound, is_float, to, edits, report)
    added = _edit_tags(wav, was, to, rate, bits, edits, report)
    if is_float and wav.chunk_bytes("fact") is None:
        added.append(("fact", struct.pack("<I", min(frames, 0xFFFFFFFF))))
        report.changed.append("fact: new, since float files need one")
    old_peak = wav.chunk_bytes("PEAK")
    if old_peak is not None and len(old_peak) == 8 + 8 * wav.channels and not same:
        edits["PEAK"] = old_peak[:8] + peaks(_converted(wav, was, to, rate), wav.channels)
        report.changed.append("PEAK: the largest samples of the new channels")
    if not is_float and bits < (24 if wav.is_float else wav.bits):
        report.notes.append(f"samples are rounded to {bits} bits, without dither")

    def check(made: WavFile) -> None:
        if made.format != to:
            raise InputError(
                f"{target}: its tags would say {made.format or 'no order'}, not {to}, because something else"
                f" in {source.name} names the order ({'; '.join(made.problems) or made.ixml[:200]});"
                " nothing was written"
            )

    report.kept = copy_wav(wav, target, sound, edits, added, check)
    return report


def _converted(wav: WavFile, was: str, to: str, rate: int) -> Iterator[NDArray[np.float64]]:
    """Blocks of (frames, channels) in the new order and rate, full scale +-1."""
    matrix = dsp.conversion_matrix(was, to).T if was != to else None

    def ordered() -> Iterator[NDArray[np.float64]]:
        for block in wav.blocks(_BLOCK):
            x = block.astype(np.float64) * (1.0 if wav.is_float else 2.0**-31)
            yield x if matrix is None else x @ matrix

    if rate == wav.rate:
        yield from ordered()
        return
    resampler = dsp.Resampler(wav.rate, rate, wav.channels)
    late = resampler.delay_frames
    left = -(-wav.frames * rate // wav.rate)

    def resampled() -> Iterator[NDArray[np.float32]]:
        for x in ordered():
            yield resampler.push(np.ascontiguousarray(x, np.float32))
        yield resampler.flush()

    for block in resampled():
        skip, late = min(late, len(block)), max(late - len(block), 0)
        out = block[skip:][:left]
        left -= len(out)
        if len(out):
            yield out.astype(np.float64)


def _packed(
    wav: WavFile, blocks: Iterator[NDArray[np.float64]], bits: int, is_float: bool, unsigned: bool
) -> Iterator[bytes]:
    """Blocks as stored. Raises InputError when samples lie beyond the full scale of PCM."""
    beyond, peak = 0, 0.0
    full = 2.0 ** (bits - 1)
    for x in blocks:
        if is_float:
            yield x.astype("<f4" if bits == 32 else "<f8").tobytes()
            continue
        steps = np.rint(x * full)
        if not np.isfinite(steps).all():
            raise InputError(f"{wav.path}: holds samples that are no numbers (NaN or infinite); PCM has none")
        over = (steps > full - 1) | (steps < -full)
        if over.any():
            # +1.0 of the source becomes the largest step, as everywhere; more is a loss.
            beyond += int((np.abs(steps) > full).sum())
            peak = max(peak, float(np.abs(x).max()))
        whole = np.clip(steps, -full, full - 1).astype(np.int64)
        if unsigned:
            yield (whole + 128).astype(np.uint8).tobytes()
        elif bits == 16:
            yield whole.astype("<i2").tobytes()
        else:
            raw = whole.astype("<i4")
            yield raw.tobytes() if bits == 32 else raw.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    if beyond:
        raise InputError(
            f"{wav.path}: {beyond} samples would lie beyond full scale (the largest at"
            f" {20 * np.log10(peak):+.1f} dB); nothing was written. `--bits float` keeps them"
        )


def _edit_fmt(
    wav: WavFile, sound: NewSound, is_float: bool, to: str, edits: dict[str, bytes], report: WavCopy
) -> None:
    old = wav.chunk_bytes("fmt ")
    assert old is not None
    tag = struct.unpack_from("<H", old)[0]
    wide = tag == 0xFFFE and len(old) >= 40
    code = 3 if is_float else 1
    head = struct.pack(
        "<HHIIHH",
        0xFFFE if wide else code,
        wav.channels,
        sound.rate_hz,
        sound.rate_hz * sound.frame_bytes,
        sound.frame_bytes,
        sound.bits,
    )
    rest = old[16:]
    if wide:
        valid = struct.unpack_from("<H", old, 18)[0] if sound.bits == wav.bits else sound.bits
        # The subformat of .amb files says FuMa.
        tail = old[26:40] if to == "fuma" else _PCM_GUID_TAIL
        rest = old[16:18] + struct.pack("<H", valid) + old[20:24] + struct.pack("<H", code) + tail + old[40:]
    elif is_float and not rest:
        rest = b"\0\0"
    if head + rest != old:
        edits["fmt "] = head + rest
        report.changed.append(
            f"fmt: {sound.rate_hz} Hz, {sound.bits} bits{' float' if is_float else ''}, {to}"
        )


def _edit_tags(
    wav: WavFile, was: str, to: str, rate: int, bits: int, edits: dict[str, bytes], report: WavCopy
) -> list[tuple[str, bytes]]:
    """bext and iXML: the order, and what counts samples. Gives the chunks to add."""
    if (was, wav.rate, wav.bits) == (to, rate, bits) and wav.format == to:
        return []
    history = f"A=PCM,F={rate},W={bits},M={wav.channels} ch,T={ORIGINATOR}; {was} to {to}\r\n"
    added: list[tuple[str, bytes]] = []
    old = wav.chunk_bytes("bext")
    if old is None:
        description = description_for(to, wav.channels)
        added.append(("bext", build_bext(Bext(description, ORIGINATOR, coding_history=history))))
        report.changed.append("bext: new, because nothing else would name the order")
    else:
        edits["bext"] = retag_bext(old, to, history, wav.rate, rate)
        what = "track names, a line of coding history"
        report.changed.append(
            f"bext: {what}{', the time reference at the new rate' if rate != wav.rate else ''}"
        )
    ixml = wav.chunk_bytes("iXML")
    if ixml is not None and (new := retag_ixml(ixml, to, wav.rate, rate, bits)) != ixml:
        edits["iXML"] = new
        report.changed.append("iXML: track names, and what depends on rate and bits")
    return added
