"""JPEGs into Matroska: byte for byte, exact times, readable up to the last whole picture at any instant."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from dsp.errors import InputError
from recordings import StorageError, video_read
from recordings.mjpeg_matroska import MjpegMatroska
from recordings.video_write import QueuedFrame, VideoWriter

REPOSITORY = Path(__file__).parents[2]
EPOCH_NS = 10**15
PERIOD_NS = 33_333_333


def jpeg(seed: int, height: int = 15, width: int = 17, quality: int = 50) -> bytes:
    image = np.random.default_rng(seed).integers(0, 255, (height, width, 3)).astype(np.uint8)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def write(path: Path, jpegs: list[bytes], period_ns: int = PERIOD_NS) -> tuple[list[int], list[int], bytes]:
    """Times in the file, the file's length after each picture, and the file as a kill would leave it."""
    file = MjpegMatroska(path, 17, 15, 30.0)
    times, ends = [], []
    for i, data in enumerate(jpegs):
        times.append(file.write(data, EPOCH_NS + i * period_ns))
        ends.append(path.stat().st_size)
    killed = path.read_bytes()
    file.close()
    return times, ends, killed


def packets(path: Path) -> list[tuple[int, bytes]]:
    """(time in ms, bytes) of each picture, as FFmpeg reads them."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [(round(p.pts * p.time_base * 1000), bytes(p)) for p in container.demux(stream) if p.size]


# ---------------------------------------------------------------- the format, read by a parser of its own


def elements(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[str, int, int, int]]:
    """(id, place of the id, of the data, of the end) of each element of one level, after RFC 8794."""
    at, end = start, len(data) if end is None else end
    while at < end:
        id_octets = 9 - data[at].bit_length()
        size_at = at + id_octets
        octets = 9 - data[size_at].bit_length()
        size = int.from_bytes(data[size_at : size_at + octets], "big") & ((1 << 7 * octets) - 1)
        body = size_at + octets
        assert size != (1 << 7 * octets) - 1, "unknown size"
        assert body + size <= end
        yield data[at:size_at].hex(), at, body, body + size
        at = body + size
    assert at == end


def values(data: bytes, start: int, end: int) -> dict[str, bytes]:
    return {name: data[body:stop] for name, _, body, stop in elements(data, start, end)}


def test_a_closed_file_is_whole_matroska(tmp_path):
    write(tmp_path / "v.mkv", [jpeg(i) for i in range(100)])
    data = (tmp_path / "v.mkv").read_bytes()
    top = list(elements(data))
    assert [name for name, *_ in top] == ["1a45dfa3", "18538067"]
    header = values(data, *top[0][2:])
    assert (header["4282"], header["4287"], header["4285"]) == (b"matroska", b"\x04", b"\x02")
    start = top[1][2]
    segment = list(elements(data, *top[1][2:]))
    names = ["114d9b74", "1549a966", "1654ae6b", "1f43b675", "1f43b675", "1f43b675", "1f43b675", "1c53bb6b"]
    assert [name for name, *_ in segment] == names
    places = {at - start: name for name, at, _, _ in segment}
    seeks = [values(data, body, end) for _, _, body, end in elements(data, *segment[0][2:])]
    found = [(places[int.from_bytes(seek["53ac"], "big")], seek["53ab"].hex()) for seek in seeks]
    assert found == [(name, name) for name in ("1549a966", "1654ae6b", "1c53bb6b")]

    clusters = {}
    pictures = 0
    for name, at, body, end in segment:
        if name == "1f43b675":
            children = list(elements(data, body, end))
            assert children[0][0] == "e7" and {child[0] for child in children[1:]} == {"a3"}
            clusters[at - start] = int.from_bytes(data[children[0][2] : children[0][3]], "big")
            pictures += len(children) - 1
    assert pictures == 100
    assert all(later - earlier >= 1000 for earlier, later in pairwise(clusters.values()))
    cues = {}
    for name, _, body, end in elements(data, *segment[-1][2:]):
        cue = values(data, body, end)
        where = values(cue["b7"], 0, len(cue["b7"]))
        assert name == "bb" and where["f7"] == b"\x01"
        cues[int.from_bytes(where["f1"], "big")] = int.from_bytes(cue["b3"], "big")
    assert cues == clusters
    summary = video_read.summarise(tmp_path / "v.mkv")
    assert (summary.has_duration, summary.torn, summary.codec) == (True, False, "mjpeg")
    assert (summary.width_px, summary.height_px) == (17, 15)


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize("size", [(15, 17), (1, 1), (96, 160), (480, 640)])
def test_jpegs_and_times_come_back_as_they_were(tmp_path, size):
    jpegs = [jpeg(i, *size) for i in range(40)]
    jpegs[7] = jpegs[7][: len(jpegs[7]) // 2]  # as a camera gave it
    times, _, killed = write(tmp_path / "v.mkv", jpegs)
    assert times == [round(i * PERIOD_NS / 1e6) for i in range(40)]
    assert packets(tmp_path / "v.mkv") == list(zip(times, jpegs, strict=True))
    (tmp_path / "killed.mkv").write_bytes(killed)
    assert packets(tmp_path / "killed.mkv") == list(zip(times, jpegs, strict=True))
    if not (ffprobe := shutil.which("ffprobe")):
        return
    command = [ffprobe, "-v", "error", "-show_packets", "-show_format", "-of", "json"]
    said = json.loads(subprocess.run([*command, tmp_path / "v.mkv"], capture_output=True, check=True).stdout)
    assert [(round(float(p["pts_time"]) * 1000), int(p["size"])) for p in said["packets"]] == [
        (t, len(data)) for t, data in zip(times, jpegs, strict=True)
    ]
    assert float(said["format"]["duration"]) == pytest.approx(times[-1] / 1000 + 1 / 30, abs=1e-3)


def test_jumps_of_the_clock_move_on_by_a_millisecond_or_begin_a_cluster(tmp_path):
    t_ms = [0, 33, 33.2, 100_033, 100_066, 50_000, 100_100, 7_200_000, 7_200_999.6, 7_201_000]
    wanted = [0, 33, 34, 100_033, 100_066, 100_067, 100_100, 7_200_000, 7_201_000, 7_201_001]
    file = MjpegMatroska(tmp_path / "v.mkv", 17, 15, 30.0)
    assert [file.write(jpeg(i), EPOCH_NS + round(t * 1e6)) for i, t in enumerate(t_ms)] == wanted
    assert file.frames == 10
    file.close()
    file.close()
    assert packets(tmp_path / "v.mkv") == [(t, jpeg(i)) for i, t in enumerate(wanted)]


def look_up(path: Path, at_ms: int) -> tuple[int, bytes]:
    with av.open(str(path)) as container:
        container.seek(at_ms, stream=container.streams.video[0])
        return next((p.pts, bytes(p)) for p in container.demux(video=0) if p.size)


def test_seeking_lands_in_the_right_second(tmp_path):
    jpegs = [jpeg(i) for i in range(3000)]
    times, _, _ = write(tmp_path / "v.mkv", jpegs)
    for target in (0, 1, 30, 1500, 2998, 2999):
        pts, data = look_up(tmp_path / "v.mkv", times[target])
        assert times[target] - 1100 < pts <= times[target]
        assert data == jpegs[times.index(pts)]


def test_a_file_beyond_4_gib(tmp_path):
    """Five Voids of 1 GiB, which take no room on the disk, lie between two pictures."""
    path = tmp_path / "v.mkv"
    file = MjpegMatroska(path, 17, 15, 30.0)
    file.write(jpeg(0), EPOCH_NS)
    with open(path, "r+b") as raw:
        for _ in range(5):
            raw.seek(file._end)
            raw.write(b"\xec" + (1 << 30 | 1 << 56).to_bytes(8, "big"))
            file._end += 9 + (1 << 30)
        raw.truncate(file._end)
    times = [0] + [file.write(jpeg(i), EPOCH_NS + i * 10**9) for i in range(1, 9)]
    assert path.stat().st_blocks < 4096
    killed = video_read.summarise(path)
    assert not killed.has_duration and [t // 10**6 for t in killed.times_ns] == times
    file.close()
    assert packets(path) == [(t, jpeg(i)) for i, t in enumerate(times)]
    assert look_up(path, 7500) == (7000, jpeg(7))
    assert not video_read.summarise(path).torn


# ---------------------------------------------------------------- kills


def test_every_cut_leaves_the_whole_pictures_and_no_torn_one(tmp_path):
    # The last three, in the second cluster, are short ones that FFmpeg need not decode.
    short = [b"\xff\xd8" + random.Random(n).randbytes(40 + n) + b"\xff\xd9" for n in range(3)]
    jpegs = [jpeg(i) for i in range(32)] + short
    _, ends, killed = write(tmp_path / "v.mkv", jpegs)
    closed = (tmp_path / "v.mkv").read_bytes()
    cut, whole = tmp_path / "cut.mkv", tmp_path / "whole.mkv"
    for data in (killed, closed):
        for end in range(ends[-3], len(data)):
            cut.write_bytes(data[:end])
            wanted = jpegs[: sum(length <= end for length in ends)]
            summary = video_read.summarise(cut)
            assert len(summary.times_ns) == len(wanted)
            assert summary.torn or data is killed, "a file that says its length and is shorter"
            assert not summary.has_duration or data is closed
            assert [data for _, data in packets(cut)] == wanted
            if end % 4 == 0 or end in ends:
                video_read.remux(cut, whole)
                assert [data for _, data in packets(whole)] == wanted


def test_cuts_of_large_pictures_and_of_the_first(tmp_path):
    jpegs = [jpeg(i, 480, 640, 90) for i in range(3)]
    _, ends, killed = write(tmp_path / "v.mkv", jpegs)
    assert len(jpegs[0]) > 150_000
    rng = random.Random(1)
    cut = tmp_path / "cut.mkv"
    cuts = [ends[1] + n for n in range(0, 40, 3)] + [ends[2] - n for n in range(4)]
    for end in cuts + [rng.randrange(ends[0], ends[2]) for _ in range(40)]:
        cut.write_bytes(killed[:end])
        assert [data for _, data in packets(cut)] == jpegs[: sum(length <= end for length in ends)]
    for end in (0, 3, 30, 100, 200, 300, 20_000, ends[0] - 1):
        cut.write_bytes(killed[:end])
        with pytest.raises(InputError, match=r"cannot open|no readable picture|no video"):
            video_read.remux(cut, tmp_path / "whole.mkv")


CHILD = """
import sys, time
from pathlib import Path
from recordings.mjpeg_matroska import MjpegMatroska
data = Path(sys.argv[2]).read_bytes()
file = MjpegMatroska(Path(sys.argv[1]), 640, 480, 1000.0)
while True:
    file.write(data, file.frames * 1_000_000)
    print(file.frames, flush=True)
"""


@pytest.mark.parametrize("pictures", [1, 50, 1700])
def test_a_kill_loses_nothing_that_write_returned_from(tmp_path, pictures):
    (tmp_path / "one.jpg").write_bytes(jpeg(0, 480, 640, 30))
    command = [sys.executable, "-c", CHILD, str(tmp_path / "v.mkv"), str(tmp_path / "one.jpg")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= pictures:
                break
        child.send_signal(signal.SIGKILL)
        returned = int([line, *child.stdout.read().split()][-1])
    found = packets(tmp_path / "v.mkv")
    assert returned <= len(found) <= returned + 1
    assert {data for _, data in found} == {(tmp_path / "one.jpg").read_bytes()}
    assert [t for t, _ in found] == list(range(len(found)))


# ---------------------------------------------------------------- full disks


@contextmanager
def room_for(length: int) -> Iterator[None]:
    """No file of this process may become longer: a write beyond is cut, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 5, 21, 22, 300, 30_000, 100_000])
@pytest.mark.parametrize("first_of_cluster", [False, True])
def test_a_full_disk_keeps_whole_pictures_and_the_file_goes_on(tmp_path, room, first_of_cluster):
    path = tmp_path / "v.mkv"
    jpegs = [jpeg(i, 480, 640, 70) for i in range(4)]
    file = MjpegMatroska(path, 640, 480, 30.0)
    file.write(jpegs[0], 0)
    file.write(jpegs[1], 40_000_000)
    before = path.read_bytes()
    assert len(jpegs[2]) > 100_000
    with room_for(len(before) + room), pytest.raises(StorageError, match=r"v\.mkv"):
        file.write(jpegs[2], 5 * 10**9 if first_of_cluster else 80_000_000)
    assert path.read_bytes() == before and file.frames == 2
    file.write(jpegs[3], 120_000_000)  # there is room again
    file.close()
    assert packets(path) == [(0, jpegs[0]), (40, jpegs[1]), (120, jpegs[3])]
    assert [name for name, *_ in elements(path.read_bytes())] == ["1a45dfa3", "18538067"]


def test_no_room_for_the_cues_is_said_and_leaves_a_whole_file(tmp_path):
    path = tmp_path / "v.mkv"
    file = MjpegMatroska(path, 17, 15, 30.0)
    times = [file.write(jpeg(i), i * PERIOD_NS) for i in range(100)]
    length = path.stat().st_size
    with room_for(length + 50), pytest.raises(StorageError):
        file.close()
    assert path.stat().st_size == length
    data = path.read_bytes()
    segment = list(elements(data, *list(elements(data))[1][2:]))
    assert segment[-1][0] == "1f43b675"
    assert packets(path) == [(t, jpeg(i)) for i, t in enumerate(times)]
    pts, data = look_up(path, times[95])
    assert times[60] <= pts <= times[95] and data == jpeg(times.index(pts))
    summary = video_read.summarise(path)
    assert summary.has_duration and not summary.torn


def test_what_is_refused(tmp_path):
    path = tmp_path / "v.mkv"
    with pytest.raises(StorageError, match="nowhere"):
        MjpegMatroska(tmp_path / "nowhere" / "v.mkv", 17, 15, 30.0)
    with pytest.raises(InputError, match="0x15"):
        MjpegMatroska(path, 0, 15, 30.0)
    with room_for(100), pytest.raises(StorageError):
        MjpegMatroska(path, 17, 15, 30.0)
    assert not path.exists()
    file = MjpegMatroska(path, 17, 15, float("nan"))
    with pytest.raises(InputError, match="0 bytes"):
        file.write(b"", 0)
    with pytest.raises(StorageError, match="exists"):
        MjpegMatroska(path, 17, 15, 30.0)
    file.close()
    assert not path.exists(), "no picture, no file"
    with pytest.raises(InputError, match="closed"):
        file.write(jpeg(0), 0)


# ---------------------------------------------------------------- in the recorder


def test_video_writer_copies_jpegs_and_makes_pixels_jpegs(tmp_path):
    written = []
    writer = VideoWriter(
        tmp_path / "v.mkv", 30.0, lambda f, i, pts: written.append((i, pts)), lambda *a: None
    )
    sizes = [(15, 17), (15, 17), (31, 33)]
    for seq, size in enumerate(sizes):
        writer.put(QueuedFrame(seq * 10**8, seq, None, jpeg=jpeg(seq, *size), size=size[::-1]))
    writer.put(QueuedFrame(3 * 10**8, 3, np.full((15, 17, 3), 99, np.uint8)))
    writer.close()
    writer.sync()
    assert writer.file is not None and writer.file.encoder == "copy"
    assert writer.file.frames == 4 and written == [(0, 0), (1, 100), (2, 200), (3, 300)]
    found = packets(tmp_path / "v.mkv")
    assert [data for _, data in found[:3]] == [jpeg(seq, *size) for seq, size in enumerate(sizes)]
    assert [image.shape for _, image in video_read.frames(tmp_path / "v.mkv")][2] == (31, 33, 3)


def growth_of(file: MjpegMatroska, data: bytes, pictures: int) -> int:
    """Bytes that Python holds more after so many pictures at 30 per second."""
    tracemalloc.start()
    try:
        start = file.frames
        file.write(data, start * PERIOD_NS)
        before = tracemalloc.get_traced_memory()[0]
        for i in range(start + 1, start + pictures):
            file.write(data, i * PERIOD_NS)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_memory_hardly_grows(tmp_path):
    """Twenty minutes of pictures; FFmpeg's writer takes 4.3 MB an hour."""
    file = MjpegMatroska(tmp_path / "v.mkv", 17, 15, 30.0)
    grown = growth_of(file, b"\xff\xd8\xff\xd9", 36_000)
    print(f"{grown * 3 / 1024:.1f} KiB per hour at 30 pictures a second")
    assert grown < 60_000, "per hour 180 kB"
    file.close()
