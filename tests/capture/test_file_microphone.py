from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from capture.blocks import AudioBlock, Item, SourceEvent, monotonic_ns
from capture.file_microphone import FileMicrophone
from dsp.errors import InputError
from recordings.wav_write import WavWriter

FS = 48000


def play(source: FileMicrophone) -> list[Item]:
    got: list[Item] = []
    over = threading.Event()

    def sink(item: Item) -> None:
        got.append(item)
        if isinstance(item, SourceEvent) and item.kind == "ended":
            over.set()

    source.open()
    source.start(sink)
    assert over.wait(20)
    source.stop()
    return got


def joined(items: list[Item]) -> NDArray[np.int32]:
    return np.concatenate([i.samples for i in items if isinstance(i, AudioBlock)])


@pytest.mark.parametrize(("bits", "subtype"), [(16, "PCM_16"), (24, "PCM_24")])
@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_integer_samples_are_exact_and_left_justified(
    tmp_path: Path, bits: int, subtype: str, suffix: str
) -> None:
    random = np.random.default_rng(bits)
    codes = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (5003, 4))  # no whole number of blocks
    samples = (codes << (32 - bits)).astype(np.int32)
    path = tmp_path / f"x.{suffix}"
    soundfile.write(path, samples, FS, subtype=subtype)
    items = play(FileMicrophone(path, pace="fast"))
    np.testing.assert_array_equal(joined(items), samples)
    assert FileMicrophone(path).open().bits == bits


def test_float_file_is_scaled_and_clipped(tmp_path: Path) -> None:
    x = np.array([[0.5, -0.25, 1.5, -1.5]] * 100, np.float32)
    soundfile.write(tmp_path / "x.wav", x, FS, subtype="FLOAT")
    y = joined(play(FileMicrophone(tmp_path / "x.wav", pace="fast")))
    assert y[0].tolist() == [2**30, -(2**29), 2**31 - 1, -(2**31)]


def test_ogg_is_decoded(tmp_path: Path) -> None:
    t = np.arange(FS) / FS
    x = 0.5 * np.sin(2 * np.pi * 440 * t)[:, None] * np.ones(4)
    soundfile.write(tmp_path / "x.ogg", x, FS, format="OGG", subtype="VORBIS")
    y = joined(play(FileMicrophone(tmp_path / "x.ogg", pace="fast"))) / 2**31
    assert len(y) == FS
    assert np.sqrt(np.mean((y - x) ** 2)) < 0.01


def test_times_and_counters_follow_the_file(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros((FS // 2, 4)), FS, subtype="PCM_16")
    source = FileMicrophone(tmp_path / "x.wav", block_ms=10)
    source.start_ns = begin = monotonic_ns()
    items = play(source)
    took = (monotonic_ns() - begin) / 1e9
    blocks = [i for i in items if isinstance(i, AudioBlock)]
    assert [b.t_ns - begin for b in blocks] == [i * 10_000_000 for i in range(50)]
    assert [b.first_frame for b in blocks] == [i * 480 for i in range(50)]
    assert took >= 0.5  # real time: no block before it could have been captured
    last = items[-1]
    assert isinstance(last, SourceEvent) and last.kind == "ended"
    assert not blocks[0].samples.flags.writeable


def test_stop_ends_a_real_time_file_at_once(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros((FS * 60, 1)), FS, subtype="PCM_16")
    got: list[Item] = []
    source = FileMicrophone(tmp_path / "x.wav")
    source.start(got.append)
    source.stop()
    count = len(got)
    assert count < 100 and not any(isinstance(i, SourceEvent) for i in got)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate_hz": 44100}, "48000 Hz, but `microphone.rate_hz` says 44100"),
        ({"channels": 2}, "4 channels, but `microphone.channels` is 2"),
    ],
)
def test_a_file_that_does_not_fit_the_rig_is_refused(
    tmp_path: Path, settings: dict[str, int], words: str
) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros((100, 4)), FS)
    with pytest.raises(InputError, match=words):
        FileMicrophone(tmp_path / "x.wav", **settings).open()  # type: ignore[arg-type]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such sound file"):
        FileMicrophone(tmp_path / "absent.wav").open()
    (tmp_path / "text.wav").write_text("not sound")
    with pytest.raises(InputError, match="not a readable WAV"):
        FileMicrophone(tmp_path / "text.wav").open()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.wav", b"", "empty \\(0 bytes\\)"),
        ("x.flac", b"", "empty \\(0 bytes\\)"),
        ("x.ogg", b"hello world" * 99, "not a readable WAV, FLAC or Ogg file"),
        (
            "x.wav",
            b"RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00",
            "not a readable WAV.* 'fmt ' chunk.* truncated",
        ),
    ],
)
def test_empty_and_wrong_files_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        FileMicrophone(tmp_path / name).open()
    with pytest.raises(InputError, match="it is a folder"):
        FileMicrophone(tmp_path).open()
    with pytest.raises(InputError, match=r"`microphone\.block_ms`: nan"):
        FileMicrophone(tmp_path / name, block_ms=float("nan"))


def test_a_cut_wav_is_played_to_its_last_whole_frame_and_is_told(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).integers(-(2**23), 2**23, (FS, 4)).astype(np.int32) << 8
    path = tmp_path / "x.wav"
    soundfile.write(path, samples, FS, subtype="PCM_24")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 + 5])
    readable = (len(whole) // 2 + 5 - whole.index(b"data") - 8) // 12
    items = play(FileMicrophone(path, pace="fast"))
    np.testing.assert_array_equal(joined(items), samples[:readable])
    events = [i for i in items if isinstance(i, SourceEvent)]
    assert [e.kind for e in events] == ["warning", "warning", "ended"]
    assert f"48000 frames declared, {readable} can be read" in events[0].detail
    assert FileMicrophone(path).open().detail["frames"] == readable


def test_a_wav_whose_recorder_was_killed_is_played(tmp_path: Path) -> None:
    """Its data size is still 0."""
    samples = np.random.default_rng(2).integers(-(2**23), 2**23, (4800, 4)).astype(np.int32) << 8
    path = tmp_path / "x.wav"
    soundfile.write(path, samples, FS, subtype="PCM_24")
    content = bytearray(path.read_bytes())
    size = content.index(b"data") + 4
    content[size : size + 4] = bytes(4)
    path.write_bytes(bytes(content))
    items = play(FileMicrophone(path, pace="fast"))
    np.testing.assert_array_equal(joined(items), samples)
    assert any(isinstance(i, SourceEvent) and "data size is 0" in i.detail for i in items)


def test_a_cut_flac_is_played_as_far_as_it_goes_and_what_is_missing_is_told(tmp_path: Path) -> None:
    samples = np.random.default_rng(3).integers(-(2**23), 2**23, (FS, 4)).astype(np.int32) << 8
    path = tmp_path / "x.flac"
    soundfile.write(path, samples, FS, subtype="PCM_24")
    path.write_bytes(path.read_bytes()[:-200_000])
    items = play(FileMicrophone(path, pace="fast"))
    got = joined(items)
    assert 0 < len(got) < FS
    np.testing.assert_array_equal(got, samples[: len(got)])
    missing = [i for i in items if isinstance(i, SourceEvent) and "missing_frames" in i.data]
    assert [e.data["missing_frames"] for e in missing] == [FS - len(got)]


@pytest.mark.parametrize(("tagged", "says"), [("fuma", "ambix"), ("ambix", "fuma"), ("a", "ambix")])
def test_tags_that_contradict_the_rig_are_refused(tmp_path: Path, tagged: str, says: str) -> None:
    path = tmp_path / "x.wav"
    writer = WavWriter(path, FS, 4, format_name=tagged)
    writer.write(np.zeros((480, 4), np.int32))
    writer.close()
    with pytest.raises(InputError, match=rf"{says} contradicts the file's tags, which say {tagged}"):
        FileMicrophone(path, format=says).open()
    assert FileMicrophone(path, format=tagged).open().format == tagged


def test_a_file_without_tags_is_what_the_rig_says(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros((100, 4)), FS)
    assert FileMicrophone(tmp_path / "x.wav", format="fuma").open().format == "fuma"


def test_samples_that_are_no_numbers_become_silence_and_are_told(tmp_path: Path) -> None:
    x = np.full((FS, 4), 0.25, np.float32)
    x[1000:1600, 2] = np.nan  # over the edge of a block
    x[30000] = [np.inf, -np.inf, 0.25, 0.25]
    soundfile.write(tmp_path / "x.wav", x, FS, subtype="FLOAT")
    items: list[Item] = []
    over = threading.Event()
    source = FileMicrophone(tmp_path / "x.wav", pace="fast")
    source.start_ns = 0

    def sink(item: Item) -> None:
        items.append(item)
        if isinstance(item, SourceEvent) and item.kind == "ended":
            over.set()

    source.start(sink)
    assert over.wait(20)
    source.stop()
    expected = np.where(np.isfinite(x), x, 0).astype(np.float64) * 2**31
    np.testing.assert_array_equal(joined(items), expected.astype(np.int32))
    errors = [i for i in items if isinstance(i, SourceEvent) and i.kind == "error"]
    assert [e.data for e in errors] == [
        {"samples": 600, "first_frame": 1000, "last_frame": 1599},
        {"samples": 2, "first_frame": 30000, "last_frame": 30000},
    ]
    assert [e.t_ns for e in errors] == [1000 * 10**9 // FS, 30000 * 10**9 // FS]
    assert "600 samples" in errors[0].detail and "set to 0" in errors[0].detail
