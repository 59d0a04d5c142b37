"""Foreign and broken WAV files: the exact readable length, or an error that names the reason."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.errors import HearthError, InputError
from recordings import read_wav
from recordings.wav_tags import build_bext, decode_ixml, format_of_tracks, parse_bext, tracks_from_ixml

FRAMES = np.random.default_rng(0).integers(-(1 << 23), 1 << 23, (50, 4)).astype(np.int32) << 8


def chunk(name: bytes, data: bytes, size: int | None = None, pad: bool = True) -> bytes:
    declared = len(data) if size is None else size
    return name + struct.pack("<I", declared) + data + (b"\0" if pad and len(data) % 2 else b"")


def fmt(tag: int = 1, channels: int = 4, rate: int = 48000, bits: int = 24) -> bytes:
    align = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * align, align, bits))


def pcm24(x: np.ndarray = FRAMES) -> bytes:
    return x.astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


def riff(*chunks: bytes, size: int | None = None, kind: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return kind + struct.pack("<I", len(body) if size is None else size) + body


def save(tmp_path, data: bytes):
    path = tmp_path / "x.wav"
    path.write_bytes(data)
    return path


def test_placeholders_of_a_recorder_that_was_stopped_hard(tmp_path):
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"data", pcm24(), size=0), size=8)))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert "data size is 0" in wav.problems[0]
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"data", pcm24(), size=0xFFFFFFFF))))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert "placeholder" in wav.problems[0]


def test_an_empty_data_chunk_before_other_chunks_is_empty(tmp_path):
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"data", b""), chunk(b"LIST", b"INFO"))))
    assert (wav.frames, wav.problems) == (0, [])


@pytest.mark.parametrize("cut", [1, 11, 12, 13, 300])
def test_truncated_data_gives_the_whole_frames_that_are_there(tmp_path, cut):
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"data", pcm24()))[:-cut]))
    whole = (len(pcm24()) - cut) // 12
    np.testing.assert_array_equal(wav.samples, FRAMES[:whole])
    assert any(f"50 frames declared, {whole} can be read" in text for text in wav.problems)


def test_header_declares_more_than_the_file_holds(tmp_path):
    """The file of the facts page for which libsndfile returned no frames and raised nothing."""
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"data", pcm24(), size=50_000_000), size=50_000_100)))
    np.testing.assert_array_equal(wav.samples, FRAMES)


def test_junk_after_the_data_is_no_sound(tmp_path):
    data = riff(fmt(), chunk(b"data", pcm24())) + b"\x00\x01\x02junk that is no chunk"
    wav = read_wav(save(tmp_path, data))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert "belong to none" in wav.problems[-1]
    assert wav.trailing_bytes == 24


def test_stale_size_of_a_killed_recorder_is_recovered_only_when_asked(tmp_path):
    data = riff(fmt(), chunk(b"data", pcm24(), size=20 * 12))
    assert read_wav(save(tmp_path, data)).frames == 20
    np.testing.assert_array_equal(read_wav(save(tmp_path, data), recover=True).samples, FRAMES)


@pytest.mark.parametrize("pad", [True, False])
def test_odd_chunks_with_and_without_their_pad_byte(tmp_path, pad):
    wav = read_wav(save(tmp_path, riff(fmt(), chunk(b"note", b"odd", pad=pad), chunk(b"data", pcm24()))))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert bool(wav.problems) is not pad
    assert [c.id for c in wav.chunks] == ["fmt ", "note", "data"]


def test_extensible_8_bit_float_and_double(tmp_path):
    guid = b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    extra = struct.pack("<HHIH", 22, 24, 0x33, 1) + guid
    wide = struct.pack("<HHIIHH", 0xFFFE, 4, 48000, 48000 * 12, 12, 24) + extra
    wav = read_wav(save(tmp_path, riff(chunk(b"fmt ", wide), chunk(b"data", pcm24()))))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    x = np.random.default_rng(1).uniform(-1, 1, (33, 4))
    for subtype, tolerance in (("FLOAT", 1e-7), ("DOUBLE", 1e-7), ("PCM_U8", 1 / 127), ("PCM_16", 1 / 32767)):
        path = tmp_path / f"{subtype}.wav"
        soundfile.write(path, x, 48000, subtype=subtype)
        np.testing.assert_allclose(read_wav(path).read_float(), x, atol=tolerance)
        theirs = soundfile.read(path, dtype="float32")[0]
        np.testing.assert_array_equal(read_wav(path).read_float(), theirs)


@pytest.mark.parametrize("kind", [b"RF64", b"BW64"])
def test_64_bit_sizes(tmp_path, kind):
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, len(pcm24()), 50, 0))
    after = chunk(b"LIST", b"INFO")
    data = riff(ds64, fmt(), chunk(b"data", pcm24(), size=0xFFFFFFFF), after, size=0xFFFFFFFF, kind=kind)
    wav = read_wav(save(tmp_path, data))
    np.testing.assert_array_equal(wav.samples, FRAMES)
    assert wav.problems == [] and wav.chunks[-1].id == "LIST"


def test_sizes_that_wrapped_at_4_gib(tmp_path):
    """A sparse file: 4 GiB and a bit of sound behind a 32-bit size."""
    true = (1 << 32) + 1200
    path = tmp_path / "long.wav"
    head = riff(fmt(), chunk(b"data", b"", size=true & 0xFFFFFFFF))
    path.write_bytes(head)
    with open(path, "r+b") as file:
        file.truncate(len(head) + true)
        file.seek(len(head) + true // 12 * 12 - 12)
        file.write(pcm24(FRAMES[:1]))
    wav = read_wav(path)
    assert wav.frames == true // 12
    np.testing.assert_array_equal(wav.read(wav.frames - 1), FRAMES[:1])
    assert "wrapped" in wav.problems[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"RIFF", "not a WAV"),
        (b"fLaC" + bytes(40), "not a WAV"),
        (riff(chunk(b"data", pcm24())), "no usable 'fmt '"),
        (riff(fmt()), "no 'data' chunk"),
        (riff(fmt(tag=2), chunk(b"data", pcm24())), "encoding tag 2"),
        (riff(fmt(bits=20), chunk(b"data", pcm24())), "20 bits"),
        (riff(fmt(channels=0), chunk(b"data", pcm24())), "0 channels"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_the_reason(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        read_wav(save(tmp_path, data))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.wav: no such file"):
        read_wav(tmp_path / "nothing.wav")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damage_gives_whole_frames_or_a_named_error(tmp_path_factory, data):
    whole = bytearray(
        riff(
            chunk(b"bext", bytes(602)),
            fmt(),
            chunk(b"iXML", b"<a/>"),
            chunk(b"data", pcm24()),
            chunk(b"LIST", b"abc"),
        )
    )
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "x.wav"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for recover in (False, True):
        try:
            wav = read_wav(path, recover)
        except HearthError:
            continue
        assert wav.samples.shape == (wav.frames, wav.channels)
        assert wav.data_offset + wav.frames * wav.frame_bytes <= path.stat().st_size


# Tags


def test_h3vr_tags_give_the_order_although_ixml_is_padded_with_ff(tmp_path):
    names = "".join(f"<TRACK><NAME>{n}</NAME></TRACK>" for n in "WYZX")
    ixml = f"<?xml version='1.0'?><BWFXML><TRACK_LIST>{names}</TRACK_LIST></BWFXML>".encode() + b"\xff" * 300
    description = b"zTRK1=W\r\nzTRK2=Y\r\nzTRK3=Z\r\nzTRK4=X\r\n".ljust(256, b"\0")
    bext = (
        description + bytes(64) + b"2026-03-24" + b"10:11:12" + struct.pack("<Q", 48000 * 36672) + bytes(256)
    )
    wav = read_wav(
        save(tmp_path, riff(chunk(b"bext", bext), chunk(b"iXML", ixml), fmt(), chunk(b"data", pcm24())))
    )
    assert (wav.format, wav.tracks) == ("ambix", ("W", "Y", "Z", "X"))
    assert wav.bext is not None
    assert wav.bext.time_reference == 48000 * 36672
    assert str(wav.bext.local_time) == "2026-03-24 10:11:12"
    assert tracks_from_ixml(decode_ixml(ixml)) == ("W", "Y", "Z", "X")


def test_tags_that_contradict_each_other_give_no_format(tmp_path):
    ixml = "".join(f"<TRACK><NAME>{n}</NAME></TRACK>" for n in "WXYZ").encode()
    bext = b"zTRK1=W\r\nzTRK2=Y\r\nzTRK3=Z\r\nzTRK4=X".ljust(602, b"\0")
    wav = read_wav(
        save(tmp_path, riff(chunk(b"bext", bext), chunk(b"iXML", ixml), fmt(), chunk(b"data", pcm24())))
    )
    assert wav.format is None
    assert "contradict" in wav.problems[0]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("W Y Z X", "ambix"),
        ("W X Y Z", "fuma"),
        ("flu frd bld bru", "a"),
        ("FLD FRU BLU BRD", "a2"),
        ("L R C LFE", None),
        ("W Y Z", None),
        ("1 2 3 4", None),
        ("W W W W", None),
    ],
)
def test_only_known_names_give_a_format(names, expected):
    assert format_of_tracks(names.split()) == expected


def test_bext_round_trip():
    from recordings.wav_tags import Bext

    bext = Bext("zTRK1=W", "Hearth", "ref", "2026-01-02", "03:04:05", 1 << 40, 1, "A=PCM\r\n")
    back = parse_bext(build_bext(bext))
    assert back.coding_history.strip() == "A=PCM"
    assert (back.description, back.originator, back.date, back.time_reference) == (
        "zTRK1=W",
        "Hearth",
        "2026-01-02",
        1 << 40,
    )
