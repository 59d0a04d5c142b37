"""Foreign WAV and W64 beside independent readers: libsndfile, FFmpeg and wavinfo, where those are right.

The truth is how each file was built; a peer is only asked where its own rules lead to the same answer.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import InputError
from recordings import read_wav
from recordings.audio_file import open_audio

FRAMES = np.random.default_rng(5).integers(-(1 << 23), 1 << 23, (60, 4)).astype(np.int32) << 8
RAW = FRAMES.astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
FMT = struct.pack("<HHIIHH", 1, 4, 48000, 576000, 12, 24)
GIB = 1 << 30


def chunk(name: bytes, data: bytes, size: int | None = None, pad: bytes = b"\0") -> bytes:
    declared = len(data) if size is None else size
    return name + struct.pack("<I", declared & 0xFFFFFFFF) + data + (pad if len(data) % 2 else b"")


def riff(*chunks: bytes, kind: bytes = b"RIFF", size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return kind + struct.pack("<I", len(body) if size is None else size) + body


def save(folder: Path, data: bytes, name: str = "x.wav") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def ffmpeg_frames(path: Path) -> int:
    """Frames that FFmpeg's demuxer and decoder give."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return sum(frame.samples for frame in container.decode(audio=0))


def sparse(path: Path, head: bytes, sound_bytes: int, tail: bytes = b"") -> None:
    """`head`, a hole with the last frame written into its end, `tail`."""
    with open(path, "wb") as file:
        file.write(head)
        file.seek(len(head) + sound_bytes // 12 * 12 - 12)
        file.write(RAW[:12])
        file.seek(len(head) + sound_bytes)
        file.write(tail)
        file.truncate(len(head) + sound_bytes + len(tail))


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 100, 700])
def test_a_cut_file_has_the_same_length_everywhere(tmp_path, cut):
    data = riff(chunk(b"fmt ", FMT), chunk(b"data", RAW))
    path = save(tmp_path, data[: len(data) - cut])
    whole = (len(RAW) - cut) // 12
    assert read_wav(path).frames == whole == soundfile.info(path).frames == ffmpeg_frames(path)
    assert bool(read_wav(path).problems) == (cut > 0)


@pytest.mark.parametrize("declared", [0, 0xFFFFFFFF, 0x7FFFF000, 0x80000000, 5_000_000])
@pytest.mark.parametrize("riff_size", [0, 0xFFFFFFFF, None])
def test_sound_of_unknown_length_ends_before_the_chunks_behind_it(tmp_path, declared, riff_size):
    """Writers that cannot seek back put any size; what they append afterwards is no sound."""
    behind = chunk(b"LIST", b"INFOISFT\x06\0\0\0hello\0") + chunk(b"bext", bytes(602))
    head = riff(chunk(b"fmt ", FMT), chunk(b"data", RAW, size=declared), size=riff_size)
    alone = read_wav(save(tmp_path, head, "alone.wav"))
    np.testing.assert_array_equal(alone.samples, FRAMES)
    assert len(alone.problems) == 1
    wav = read_wav(save(tmp_path, head + behind))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert [c.id for c in wav.chunks] == ["fmt ", "data", "LIST", "bext"] and len(wav.problems) == 1


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("pad", [b"\0", b"\x7f", b" "])
def test_odd_chunks_with_any_pad_byte_and_without(tmp_path, missing, pad):
    odd = chunk(b"note", b"odd", pad=b"" if missing else pad)
    listed = chunk(b"LIST", b"INFOIART\x02\0\0\0me")
    path = save(tmp_path, riff(odd, chunk(b"fmt ", FMT), odd, listed, chunk(b"data", RAW), odd, listed))
    wav = read_wav(path)
    assert [c.id for c in wav.chunks] == ["note", "fmt ", "note", "LIST", "data", "note", "LIST"]
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert wav.chunk_bytes("note") == b"odd"
    assert [c.pad_bytes for c in wav.chunks if c.id == "note"] == [0 if missing else 1] * 3
    if not missing and pad == b"\0":
        assert soundfile.info(path).frames == 60 == ffmpeg_frames(path)


def test_odd_sound_with_and_without_its_pad_byte(tmp_path):
    mono = struct.pack("<HHIIHH", 1, 1, 48000, 144000, 3, 24)
    for pad in (b"\0", b""):
        sound = chunk(b"data", RAW[:33], pad=pad)
        wav = read_wav(save(tmp_path, riff(chunk(b"fmt ", mono), sound, chunk(b"LIST", b"INFO"))))
        assert wav.frames == 11 and [c.id for c in wav.chunks] == ["fmt ", "data", "LIST"]


def test_a_second_file_behind_the_first_and_a_second_data_chunk_are_told(tmp_path):
    one = riff(chunk(b"fmt ", FMT), chunk(b"data", RAW))
    wav = read_wav(save(tmp_path, one + one))
    assert wav.frames == 60 and any("appended" in text for text in wav.problems)
    wav = read_wav(save(tmp_path, riff(chunk(b"fmt ", FMT), chunk(b"data", RAW), chunk(b"data", RAW))))
    assert wav.frames == 60 and any("second 'data'" in text for text in wav.problems)


def test_an_oversized_chunk_before_the_sound_is_named(tmp_path):
    path = save(tmp_path, riff(chunk(b"fmt ", FMT), chunk(b"LIST", b"INFO", size=9999), chunk(b"data", RAW)))
    with pytest.raises(InputError, match=r"'LIST' says 9999 bytes, \d+ are there"):
        read_wav(path)


@pytest.mark.parametrize("kind", ["RIFF wrapped", "RIFF placeholder", "RF64", "BW64", "RF64 without ds64"])
@pytest.mark.parametrize("tail", [b"", chunk(b"LIST", b"INFO")])
def test_more_than_4_gib(tmp_path, kind, tail):
    sound = 9 * GIB // 2 // 12 * 12 + 120
    size = {"RIFF wrapped": sound & 0xFFFFFFFF}.get(kind, 0xFFFFFFFF)
    ds64 = chunk(b"ds64", struct.pack("<QQQI", sound + 100, sound, sound // 12, 0))
    first = [ds64] if kind in ("RF64", "BW64") else []
    magic = b"RIFF" if "RIFF" in kind else kind[:4].encode()
    head = riff(*first, chunk(b"fmt ", FMT), chunk(b"data", b"", size=size), kind=magic, size=0xFFFFFFFF)
    path = tmp_path / "long.wav"
    sparse(path, head, sound, tail)
    wav = read_wav(path)
    assert wav.frames == sound // 12
    np.testing.assert_array_equal(wav.read(wav.frames - 1), FRAMES[:1])
    assert wav.problems == [] if first else len(wav.problems) == 1
    if kind == "RF64":
        assert soundfile.info(path).frames == wav.frames


def test_what_the_peers_write_to_a_pipe(tmp_path):
    """FFmpeg and sox cannot go back to patch the sizes when they write to a pipe."""
    source = tmp_path / "source.wav"
    soundfile.write(source, FRAMES, 48000, subtype="PCM_24")
    for name, command in {
        "ffmpeg": ["ffmpeg", "-v", "error", "-i", source, "-c:a", "pcm_s24le", "-f", "wav", "-"],
        "sox": ["sox", "-V1", source, "-t", "wav", "-"],
    }.items():
        try:
            with open(tmp_path / f"{name}.wav", "wb") as out:
                shell = f"exec {' '.join(map(str, command))} | cat"
                subprocess.run(["/bin/sh", "-c", shell], stdout=out, check=True, stderr=subprocess.DEVNULL)
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue
        if (tmp_path / f"{name}.wav").stat().st_size:
            np.testing.assert_array_equal(read_wav(tmp_path / f"{name}.wav").samples, FRAMES)


# W64


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_w64_is_read_as_libsndfile_reads_it(tmp_path, subtype):
    path = tmp_path / "x.w64"
    soundfile.write(path, FRAMES, 44100, subtype=subtype, format="W64")
    wav = read_wav(path)
    assert (wav.kind, wav.rate, wav.problems) == ("W64", 44100, [])
    np.testing.assert_array_equal(wav.read_float(), soundfile.read(path, dtype="float32")[0])
    assert open_audio(path).frames == 60


@pytest.mark.parametrize("cut", [1, 12, 13, 400])
def test_a_cut_w64_file_is_noticed(tmp_path, cut):
    path = tmp_path / "x.w64"
    soundfile.write(path, FRAMES, 48000, subtype="PCM_24", format="W64")
    start = read_wav(path).data_offset
    path.write_bytes(path.read_bytes()[: start + len(RAW) - cut])
    wav = open_audio(path)
    whole = (len(RAW) - cut) // 12
    assert wav.frames == whole and f"60 frames declared, {whole} can be read" in wav.problems[0]
    np.testing.assert_array_equal(wav.read(), (FRAMES[:whole] * np.float32(2.0**-31)).astype(np.float32))


def test_a_killed_writer_of_w64_leaves_all_its_sound(tmp_path):
    code = (
        "import os, sys, numpy, soundfile\n"
        "f = soundfile.SoundFile(sys.argv[1], 'w', 48000, 4, subtype='PCM_24')\n"
        "f.write(numpy.full((9600, 4), 1 << 20, numpy.int32)); f.flush(); os.kill(os.getpid(), 9)\n"
    )
    for suffix in ("w64", "rf64", "wav"):
        path = tmp_path / f"killed.{suffix}"
        subprocess.run([sys.executable, "-c", code, str(path)], check=False)
        wav = open_audio(path)
        assert wav.frames == 9600 and (wav.read() == np.float32((1 << 20) * 2.0**-31)).all(), suffix


# Metadata beside wavinfo


def test_chunks_and_tags_are_those_that_wavinfo_finds(tmp_path):
    wavinfo = pytest.importorskip("wavinfo")
    from recordings.wav_write import WavWriter

    writer = WavWriter(tmp_path / "own.wav", 48000, 4, format_name="ambix", first_frame=1234)
    writer.write(FRAMES)
    writer.close()
    path = tmp_path / "own.wav"
    ours, theirs = read_wav(path), wavinfo.WavInfoReader(str(path))
    assert ours.bext is not None and theirs.bext is not None
    assert ours.bext.time_reference == theirs.bext.time_reference
    assert ours.bext.date == theirs.bext.originator_date
    assert ours.tracks == tuple(track.name for track in theirs.ixml.track_list)
    assert (ours.frames, ours.rate) == (theirs.data.frame_count, theirs.fmt.sample_rate)


# Fuzz

CHUNK_IDS = st.sampled_from([b"LIST", b"bext", b"iXML", b"cue ", b"note", b"xyzw", b"JUNK"])
EXTRA = st.lists(st.tuples(CHUNK_IDS, st.binary(max_size=40)), max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    before=EXTRA,
    behind=EXTRA,
    frames=st.integers(0, 60),
    size=st.sampled_from(["right", "zero", "max", "large"]),
    riff_size=st.integers(0, 0xFFFFFFFF),
    pads=st.booleans(),
)
def test_any_honest_file_has_its_exact_length(
    tmp_path_factory, before, behind, frames, size, riff_size, pads
):
    """Any chunks around the sound, any RIFF size, and a data size that is right, absent or too large: the
    frames are those that were written. Unknown chunks behind sound of unknown length cannot be told from it,
    so that those files have only known ones, and whole."""
    if size != "right":
        known = (b"LIST", b"bext", b"iXML", b"cue ")
        behind = [(name, data + b"\0" * (len(data) % 2)) for name, data in behind if name in known]
    pad = b"\0" if pads else b""
    if not pads:  # a forgotten pad byte is only found where a known chunk follows
        before = [(name, data) for name, data in before if name not in (b"note", b"xyzw")]
        behind = [(name, data) for name, data in behind if name not in (b"note", b"xyzw")]
    sound = RAW[: frames * 12]
    declared = {"right": len(sound), "zero": 0, "max": 0xFFFFFFFF, "large": len(sound) + 70_000}[size]
    data = riff(
        *(chunk(name, content, pad=pad) for name, content in before),
        chunk(b"fmt ", FMT),
        chunk(b"data", sound, size=declared),
        *(chunk(name, content, pad=pad) for name, content in behind),
        size=riff_size,
    )
    path = save(tmp_path_factory.mktemp("honest"), data)
    wav = read_wav(path)
    assert wav.frames == frames
    np.testing.assert_array_equal(wav.samples, FRAMES[:frames])
    assert [c.id.encode() for c in wav.chunks] == [b[0] for b in before] + [b"fmt ", b"data"] + [
        b[0] for b in behind
    ]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_damage_of_a_w64_file_gives_whole_frames_or_a_named_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    origin = folder / "origin.w64"
    if not origin.exists():
        soundfile.write(origin, FRAMES, 48000, subtype="PCM_24", format="W64")
    whole = bytearray(origin.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, 130))] = data.draw(st.integers(0, 255))
    path = folder / "fuzz.w64"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        wav = read_wav(path)
    except InputError:
        return
    assert wav.samples.shape == (wav.frames, wav.channels)
    assert wav.data_offset + wav.frames * wav.frame_bytes <= path.stat().st_size
