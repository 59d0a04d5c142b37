"""Pictures with true times, whichever encoder this FFmpeg has; sound is never made to wait."""

from __future__ import annotations

import numpy as np
import pytest

from dsp.errors import InputError, MissingDependency
from recordings import StorageError, video_read
from recordings.video_write import QueuedFrame, VideoFile, VideoWriter, probe_encoders

AVAILABLE = [name for name, there in probe_encoders().items() if there]


def picture(level: int, height: int = 48, width: int = 64) -> np.ndarray:
    image = np.full((height, width, 3), level, np.uint8)
    image[: height // 2, :, 2] = 255 - level  # the upper half has another red (BGR)
    return image


# MPEG-4 part 2 takes even sizes only; for an odd one the probe goes on to the next encoder.
CASES = [
    (name, size) for name in AVAILABLE for size in ((48, 64), (47, 63)) if name != "mpeg4" or size == (48, 64)
]


@pytest.mark.parametrize(("encoder", "size"), CASES)
def test_every_encoder_keeps_pictures_and_true_times(tmp_path, encoder, size):
    times_ns = [10**15 + t for t in (0, 33_333_333, 40_000_000, 40_200_000, 900_000_000, 912_345_678)]
    file = VideoFile(tmp_path / "v.mkv", size[1], size[0], 30.0, encoder)
    assert file.encoder == encoder
    in_file = [file.write(picture(20 * i, *size), t) for i, t in enumerate(times_ns)]
    file.close()
    assert in_file == [0, 33, 40, 41, 900, 912]
    found = list(video_read.frames(tmp_path / "v.mkv"))
    assert [round(t / 1e6) for t, _ in found] == in_file
    for i, (_, image) in enumerate(found):
        assert image.shape == (*size, 3)
        inner = image[size[0] // 2 + 4 : -4, 4:-4], image[4 : size[0] // 2 - 4, 4:-4]
        assert np.abs(inner[0].mean((0, 1)) - 20 * i).max() < 12
        assert abs(inner[1][..., 2].mean() - (255 - 20 * i)) < 12
    summary = video_read.summarise(tmp_path / "v.mkv")
    assert (len(summary.times_ns), summary.torn, summary.has_duration) == (6, False, True)


def test_each_cut_of_a_file_keeps_the_whole_clusters_before_it(tmp_path):
    file = VideoFile(tmp_path / "v.mkv", 64, 48, 30.0)
    for i in range(30):
        file.write(np.random.default_rng(i).integers(0, 255, (48, 64, 3), np.uint8), i * 33_333_333)
    file.close()
    data = (tmp_path / "v.mkv").read_bytes()
    counts = []
    for tenth in range(2, 11):
        (tmp_path / "cut.mkv").write_bytes(data[: len(data) * tenth // 10])
        counts.append(len(video_read.remux(tmp_path / "cut.mkv", tmp_path / "whole.mkv")))
        assert len(list(video_read.frames(tmp_path / "whole.mkv"))) == counts[-1]
        assert not video_read.summarise(tmp_path / "whole.mkv").torn
    assert counts == sorted(counts) and counts[0] > 0 and counts[-1] == 30


def test_a_slow_encoder_costs_pictures_that_are_counted_and_never_blocks(tmp_path, monkeypatch):
    import threading

    gate = threading.Event()
    original = VideoFile.write

    def slow(self, image, t_ns):
        gate.wait(30)
        return original(self, image, t_ns)

    monkeypatch.setattr(VideoFile, "write", slow)
    written, dropped = [], []
    writer = VideoWriter(
        tmp_path / "v.mkv",
        30.0,
        lambda frame, index, pts: written.append((frame.seq, index)),
        lambda frame, cause: dropped.append((frame.seq, cause)),
        backlog_bytes=3 * picture(0).nbytes,
    )
    for seq in range(10):  # returns although the encoder stands still
        writer.put(QueuedFrame(seq * 10**8, seq, picture(seq)))
    assert not written
    gate.set()
    writer.close()
    assert [index for _, index in written] == list(range(len(written)))
    assert {cause for _, cause in dropped} == {"encoder_too_slow"}
    assert sorted([seq for seq, _ in written] + [seq for seq, _ in dropped]) == list(range(10))
    assert 3 <= len(written) <= 4


def test_a_picture_of_another_size_is_left_out_and_noted(tmp_path):
    dropped = []
    writer = VideoWriter(
        tmp_path / "v.mkv", 30.0, lambda *a: None, lambda f, cause: dropped.append((f.seq, cause))
    )
    for seq, height in enumerate((48, 50, 48)):
        writer.put(QueuedFrame(seq * 10**8, seq, picture(0, height)))
    writer.close()
    assert dropped == [(1, "picture_size_changed")]
    assert len(list(video_read.frames(tmp_path / "v.mkv"))) == 2


def test_errors_are_named(tmp_path):
    with pytest.raises(StorageError, match="nowhere"):
        file = VideoFile(tmp_path / "nowhere" / "v.mkv", 64, 48, 30.0)
        file.write(picture(0), 0)
    with pytest.raises(MissingDependency, match="no video encoder"):
        VideoFile(tmp_path / "v.mkv", 64, 48, 30.0, "no_such_encoder")
    file = VideoFile(tmp_path / "v.mkv", 64, 48, 30.0)
    with pytest.raises(InputError, match=r"\(48, 64, 3\)"):
        file.write(np.zeros((48, 64), np.uint8), 0)
    file.close()
    (tmp_path / "text.mkv").write_text("no video")
    with pytest.raises(InputError, match="cannot open"):
        list(video_read.frames(tmp_path / "text.mkv"))
