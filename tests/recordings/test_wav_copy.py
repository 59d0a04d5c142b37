"""`hearth trim` and `hearth convert`: every chunk byte for byte, samples bit for bit, nothing overwritten.

The chunks are compared by a walker of this test's own, the samples by libsndfile, tags by wavinfo too.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import dsp
from dsp.errors import InputError
from recordings import read_wav
from recordings.storage import StorageError
from recordings.wav_convert import convert_wav
from recordings.wav_trim import trim_wav

RNG = np.random.default_rng(9)
FRAMES = RNG.integers(-(1 << 21), 1 << 21, (500, 4)).astype(np.int32) << 8
RAW = FRAMES.astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
FMT = struct.pack("<HHIIHH", 1, 4, 48000, 576000, 12, 24)
NAMES = {"ambix": "WYZX", "fuma": "WXYZ"}
MIDNIGHT = 48000 * 36672


def chunk(name: bytes, data: bytes, pad: bytes = b"\0") -> bytes:
    return name + struct.pack("<I", len(data)) + data + (pad if len(data) % 2 else b"")


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def bext(order: str = "ambix") -> bytes:
    lines = "".join(f"zTRK{i}={n}\r\n" for i, n in enumerate(NAMES[order], 1)).encode()
    fixed = lines.ljust(256, b"\0") + b"ZOOM H3-VR".ljust(64, b"\0") + b"2026-03-2410:11:12"
    return fixed + struct.pack("<QH", MIDNIGHT, 1) + bytes(range(254)) + b"A=PCM,F=48000\r\n"


def ixml(order: str = "ambix") -> bytes:
    names = "".join(f"<TRACK><NAME>{n}</NAME></TRACK>" for n in NAMES[order])
    time = (
        f"<SPEED><TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_HI>0</TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_HI>"
        f"<TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_LO>{MIDNIGHT}</TIMESTAMP_SAMPLES_SINCE_MIDNIGHT_LO></SPEED>"
    )
    note = "<NOTE>Rec Mode=AmbiX</NOTE>" if order == "ambix" else ""
    text = f"<BWFXML>{note}{time}<TRACK_LIST>{names}</TRACK_LIST></BWFXML>".encode()
    return text + b"\xff" * (1200 - len(text))


CUE = struct.pack("<III4sIII", 1, 1, 100, b"data", 0, 0, 100)


def h3vr(folder: Path, name: str = "take.wav") -> Path:
    """A file as rich as they come: odd chunks with odd pad bytes, unknown ones, chunks behind the sound."""
    path = folder / name
    path.write_bytes(
        riff(
            chunk(b"bext", bext()),
            chunk(b"note", b"odd", pad=b"\x55"),
            chunk(b"iXML", ixml()),
            chunk(b"fmt ", FMT),
            chunk(b"abcd", b"unknown!!", pad=b"!"),
            chunk(b"data", RAW),
            chunk(b"cue ", CUE),
            chunk(b"LIST", b"INFOIART\x02\0\0\0me"),
            chunk(b"LIST", b"adtllabl\x07\0\0\0\1\0\0\0hi\0"),
        )
    )
    return path


def walk(path: Path) -> list[tuple[bytes, bytes, bytes]]:
    """(id, content, pad byte) of every chunk, strictly by the book."""
    data, found, at = path.read_bytes(), [], 12
    long = dict[bytes, int]()
    assert data[8:12] == b"WAVE"
    if data[:4] == b"RIFF":
        assert struct.unpack("<I", data[4:8])[0] == len(data) - 8
    while at < len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        if name == b"ds64":
            assert struct.unpack_from("<Q", data, at + 8)[0] == len(data) - 8
            long[b"data"] = struct.unpack_from("<Q", data, at + 16)[0]
        size = long[name] if size == 0xFFFFFFFF else size
        found.append((name, data[at + 8 : at + 8 + size], data[at + 8 + size : at + 8 + size + size % 2]))
        at += 8 + size + size % 2
    assert at == len(data)
    return found


def contents(path: Path) -> dict[bytes, bytes]:
    return {name: data for name, data, _ in walk(path)}


def differences(before: Path, after: Path) -> set[bytes]:
    """Ids of the chunks that differ; their order and number must be the same."""
    a, b = walk(before), walk(after)
    assert [name for name, _, _ in a] == [name for name, _, _ in b]
    return {x[0] for x, y in zip(a, b, strict=True) if x != y}


# Trim


def test_trim_keeps_every_chunk_and_every_bit(tmp_path):
    source, target = h3vr(tmp_path), tmp_path / "cut.wav"
    before = source.read_bytes()
    made = trim_wav(source, target, "100f", "351f")
    assert differences(source, target) == {b"data", b"bext", b"iXML"}
    np.testing.assert_array_equal(
        soundfile.read(target, dtype="int32")[0], soundfile.read(source, dtype="int32")[0][100:351]
    )
    # Of bext only the eight bytes of the time reference, of iXML only the digits of the same number.
    old, new = contents(source), contents(target)
    assert old[b"bext"][:338] + old[b"bext"][346:] == new[b"bext"][:338] + new[b"bext"][346:]
    assert struct.unpack_from("<Q", new[b"bext"], 338)[0] == MIDNIGHT + 100
    assert new[b"iXML"] == old[b"iXML"].replace(b"%d" % MIDNIGHT, b"%d" % (MIDNIGHT + 100))
    assert source.read_bytes() == before
    assert made.kept == ["note", "fmt ", "abcd", "cue ", "LIST", "LIST"]
    assert any("cue points" in text for text in made.notes)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.wav", "take.wav"]


def test_trim_to_the_whole_file_is_the_same_file(tmp_path):
    source, target = h3vr(tmp_path), tmp_path / "same.wav"
    trim_wav(source, target)
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("kind", ["RIFF", "RF64", "BW64"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_trim_of_what_libsndfile_writes(tmp_path, kind, subtype):
    source, target = tmp_path / "a.wav", tmp_path / "b.wav"
    x = RNG.uniform(-0.9, 0.9, (1001, 3))
    soundfile.write(source, x, 44100, subtype=subtype, format="WAV" if kind == "RIFF" else "RF64")
    expected = soundfile.read(source, dtype="float64")[0][441:882]
    if kind == "BW64":  # the same layout under another name, which libsndfile does not know
        source.write_bytes(b"BW64" + source.read_bytes()[4:])
    trim_wav(source, target, "0.01", "0:00.02")
    assert differences(source, target) <= {b"data", b"fact", b"ds64", b"PEAK"}
    if kind != "BW64":
        np.testing.assert_array_equal(soundfile.read(target, dtype="float64")[0], expected)
    assert read_wav(target).frames == 441 and read_wav(target).problems == []
    for name, data, _ in walk(target):
        if name == b"PEAK":
            values = np.frombuffer(data[8:], np.dtype([("peak", "<f4"), ("at", "<u4")]))
            np.testing.assert_array_equal(values["peak"], np.abs(expected).max(axis=0).astype("f4"))
            np.testing.assert_array_equal(values["at"], np.abs(expected).argmax(axis=0))
        if name == b"fact":
            assert struct.unpack("<I", data)[0] == 441


IDS = st.sampled_from([b"LIST", b"note", b"xyzw", b"JUNK", b"smpl", b"id3 "])
EXTRA = st.lists(st.tuples(IDS, st.binary(max_size=30)), max_size=4)


@settings(max_examples=60, deadline=None)
@given(before=EXTRA, behind=EXTRA, start=st.integers(0, 498), length=st.integers(1, 500))
def test_trim_keeps_any_chunks(tmp_path_factory, before, behind, start, length):
    folder = tmp_path_factory.mktemp("any")
    source, target = folder / "a.wav", folder / "b.wav"
    source.write_bytes(
        riff(
            *(chunk(*item) for item in before),
            chunk(b"fmt ", FMT),
            chunk(b"data", RAW),
            *(chunk(*item) for item in behind),
        )
    )
    end = min(start + length, 500)
    trim_wav(source, target, f"{start}f", f"{end}f")
    assert differences(source, target) <= {b"data"}
    assert contents(target)[b"data"] == RAW[start * 12 : end * 12]


def test_trim_of_a_damaged_file_gives_a_sound_one_and_says_what_was_wrong(tmp_path):
    source, target = tmp_path / "a.wav", tmp_path / "b.wav"
    source.write_bytes(riff(chunk(b"fmt ", FMT), chunk(b"note", b"odd", pad=b""), chunk(b"data", RAW))[:-7])
    made = trim_wav(source, target)
    assert [(n, len(d)) for n, d, _ in walk(target)] == [(b"fmt ", 16), (b"note", 3), (b"data", 499 * 12)]
    assert any("truncated" in text for text in made.notes)
    assert any(text.startswith("note: a pad byte") for text in made.changed)


def test_a_wrapped_file_beyond_4_gib_becomes_rf64(tmp_path):
    true = (1 << 32) + 12000
    source, target = tmp_path / "long.wav", tmp_path / "cut.wav"
    head = riff(chunk(b"fmt ", FMT), b"data" + struct.pack("<I", true & 0xFFFFFFFF))
    with open(source, "wb") as file:
        file.write(head)
        file.seek(len(head) + true // 12 * 12 - 12)
        file.write(RAW[:12])
        file.truncate(len(head) + true)
    trim_wav(source, target, f"{true // 12 - 50}f")
    assert [n for n, _, _ in walk(target)] == [b"fmt ", b"data"]
    np.testing.assert_array_equal(read_wav(target).read(49), FRAMES[:1])
    # What is written stays above 4 GiB only by its header: no need to write so much here.
    from recordings.wav_copy import NewSound, _Copier

    wav = read_wav(source)
    with open(source, "rb") as reader, open(target, "r+b") as writer:
        copier = _Copier(wav, reader, writer, NewSound([], wav.frames, 12, 48000, 24), {}, [])
    assert copier.magic == "RF64" and copier.parts[0][0] == "ds64"


# Convert


def test_convert_only_touches_what_names_the_order(tmp_path):
    source, target, back = h3vr(tmp_path), tmp_path / "fuma.wav", tmp_path / "back.wav"
    made = convert_wav(source, target, "fuma")
    assert differences(source, target) == {b"data", b"bext", b"iXML"}
    wav = read_wav(target)
    assert (wav.format, wav.tracks, made.format) == ("fuma", tuple("WXYZ"), "fuma")
    assert len(wav.chunk_bytes("iXML") or b"") == len(ixml())  # the padding took up the change
    assert wav.bext is not None and wav.bext.time_reference == MIDNIGHT
    assert "ambix to fuma" in wav.bext.coding_history and "A=PCM,F=48000" in wav.bext.coding_history
    # X, Y, Z only change places: bit for bit. W is 3 dB lower, rounded to the nearest 24-bit step.
    x, y = (soundfile.read(p, dtype="int32")[0] >> 8 for p in (source, target))
    np.testing.assert_array_equal(y[:, 1:], x[:, [3, 1, 2]])
    np.testing.assert_array_equal(y[:, 0], np.rint(x[:, 0] / np.sqrt(2)))
    convert_wav(target, back, "ambix")
    z = soundfile.read(back, dtype="int32")[0] >> 8
    assert np.abs(z - x).max() <= 1 and read_wav(back).format == "ambix"
    wavinfo = pytest.importorskip("wavinfo")
    theirs = wavinfo.WavInfoReader(str(target))
    assert "zTRK2=X" in theirs.bext.description and theirs.bext.time_reference == MIDNIGHT


@pytest.mark.parametrize("to", ["ambix", "n3d", "a", "a2"])
def test_convert_says_the_order_in_every_format(tmp_path, to):
    source, target = h3vr(tmp_path), tmp_path / "out.wav"
    convert_wav(source, target, to, sample_type="float")
    wav = read_wav(target)
    assert wav.format == to
    expected = dsp.convert(read_wav(source).read_float(), source="ambix", target=to)
    np.testing.assert_allclose(soundfile.read(target)[0], expected, atol=2e-7)


def test_convert_to_another_rate_keeps_length_and_time(tmp_path):
    source, target = tmp_path / "a.wav", tmp_path / "b.wav"
    t = np.arange(48001) / 48000
    x = 0.3 * np.sin(2 * np.pi * 500 * t)[:, None] * [1, 0.5, 0.25, 0.125]
    soundfile.write(source, x, 48000, subtype="PCM_24")
    made = convert_wav(source, target, "ambix", format="ambix", rate_hz=24000)
    y, rate = soundfile.read(target)
    assert (rate, len(y), made.frames) == (24000, 24001, 24001)
    n = np.arange(1000, 23000)
    np.testing.assert_allclose(y[n, 0], 0.3 * np.sin(2 * np.pi * 500 * n / 24000), atol=1e-4)
    assert read_wav(target).format == "ambix"  # a bext that says so was added


def test_convert_refuses_what_it_would_spoil(tmp_path):
    source = tmp_path / "a.wav"
    source.write_bytes(riff(chunk(b"fmt ", FMT), chunk(b"data", RAW)))
    with pytest.raises(InputError, match="order is unknown"):
        convert_wav(source, tmp_path / "b.wav", "fuma")
    with pytest.raises(InputError, match="contradicts"):
        convert_wav(h3vr(tmp_path), tmp_path / "b.wav", "ambix", format="fuma")
    with pytest.raises(InputError, match="one of ambix"):
        convert_wav(h3vr(tmp_path), tmp_path / "b.wav", "stereo")
    soundfile.write(tmp_path / "loud.wav", np.full((100, 4), 0.9), 48000, subtype="PCM_24")
    with pytest.raises(InputError, match=r"100 samples would lie beyond full scale .*\+2\.1 dB"):
        convert_wav(tmp_path / "loud.wav", tmp_path / "b.wav", "ambix", format="fuma")
    assert not (tmp_path / "b.wav").exists() and not list(tmp_path.glob(".*.part"))


# Never overwriting, nothing half-written


def test_nothing_is_overwritten(tmp_path):
    source, other = h3vr(tmp_path), tmp_path / "other.wav"
    other.write_bytes(b"precious")
    link = tmp_path / "link.wav"
    link.symlink_to(source)
    os.link(source, tmp_path / "hard.wav")
    before = source.read_bytes()
    for target in (source, link, tmp_path / "hard.wav", other, tmp_path / "." / "take.wav"):
        with pytest.raises(InputError, match="nothing is overwritten"):
            trim_wav(source, target, "1f")
        with pytest.raises(InputError, match="nothing is overwritten"):
            convert_wav(source, target, "fuma")
    assert source.read_bytes() == before and other.read_bytes() == b"precious"


@pytest.mark.parametrize("at", ["write", "fsync", "link"])
def test_a_copy_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, at):
    source = h3vr(tmp_path)

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    if at == "write":
        monkeypatch.setattr("recordings.wav_copy._Copier._write_sound", full)
    else:
        monkeypatch.setattr(os, "fsync" if at == "fsync" else "rename", full)
        if at == "link":
            monkeypatch.setattr(os, "link", lambda *a, **k: (_ for _ in ()).throw(OSError(1, "no links")))
    with pytest.raises(StorageError, match="disk is full"):
        trim_wav(source, tmp_path / "b.wav", "1f")
    assert [p.name for p in tmp_path.iterdir()] == ["take.wav"]


def test_the_commands(tmp_path):
    import json

    from hearth import app

    run = CliRunner().invoke
    source = h3vr(tmp_path)
    out = run(app, ["trim", str(source), "--start", "480f", "--out", str(tmp_path / "t.wav"), "--json"])
    assert out.exit_code == 0 and json.loads(out.stdout)["frames"] == 20
    out = run(app, ["convert", str(source), "--to", "fuma", "--out", str(tmp_path / "f.wav"), "--json"])
    assert out.exit_code == 0 and json.loads(out.stdout)["format"] == "fuma"
    with pytest.raises(InputError, match="seconds"):
        trim_wav(source, tmp_path / "u.wav", "soon")
