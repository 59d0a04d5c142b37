"""timeline.jsonl: flushed quickly, tolerant of a torn end, strict about anything else."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from dsp.errors import InputError
from recordings.timeline import AudioMap, TimelineWriter, encode_line, read_timeline


def test_lines_are_on_disk_within_half_a_second_without_closing(tmp_path):
    writer = TimelineWriter(tmp_path / "t.jsonl")
    writer.add({"type": "event", "t_ns": 1, "kind": "x"})
    deadline = time.monotonic() + 10  # generous for a busy machine; the interval itself is a constant
    while not (tmp_path / "t.jsonl").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert read_timeline(tmp_path / "t.jsonl").lines == [{"type": "event", "t_ns": 1, "kind": "x"}]
    assert writer._flush_s <= 0.5
    writer.close()


def test_every_cut_of_the_file_reads_as_whole_lines_and_a_torn_rest(tmp_path):
    lines = [{"type": "event", "t_ns": i, "text": "grün é"} for i in range(4)]
    data = b"".join(encode_line(line) for line in lines)
    path = tmp_path / "t.jsonl"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        found = read_timeline(path)
        whole = data[:cut].count(b"\n")
        assert found.lines == lines[:whole]
        assert found.torn_bytes == cut - (data[:cut].rfind(b"\n") + 1)
        assert found.problems == ()


def test_a_broken_line_in_the_middle_is_reported(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"type":"a","t_ns":1}\nnonsense\n{"t_ns":2}\n{"type":"b","t_ns":3}\n')
    found = read_timeline(path)
    assert [line["type"] for line in found.lines] == ["a", "b"]
    assert [text.split(":")[1].split()[:2] for text in found.problems] == [["line", "2"], ["line", "3"]]
    with pytest.raises(InputError, match="no such file"):
        read_timeline(tmp_path / "absent")


def test_values_become_plain_json():
    line = {"type": "x", "t_ns": np.int64(5), "a": np.float32(0.5), "b": np.array([1, 2]), "n": float("nan")}
    assert json.loads(encode_line(line)) == {"type": "x", "t_ns": 5, "a": 0.5, "b": [1, 2], "n": None}


def test_audio_map_goes_through_gaps():
    lines = [
        {"type": "audio", "t_ns": 1000, "file_frame": 0, "frames": 480},
        {"type": "audio", "t_ns": 1000 + 10_000_000, "file_frame": 480, "frames": 480},
        {"type": "audio", "t_ns": 1000 + 70_000_000, "file_frame": 960, "frames": 480},
    ]
    where = AudioMap(lines, 48000)
    np.testing.assert_array_equal(
        where.time_ns(np.array([0, 479.99999, 480, 959, 960, 1440])) - 1000,
        [0, 9_999_999 + 1, 10_000_000, 10_000_000 + 9_979_167, 70_000_000, 80_000_000],
    )
    assert AudioMap([], 24000).time_ns(24000) == 10**9


def test_lines_read_as_python_reads_them(tmp_path):
    """The fast decoder is stricter than json; what it refuses is read all the same, never dropped."""
    rows = [
        '{"type":"a","t_ns":1,"x":NaN}',
        '{"type":"a","t_ns":2,"x":"\\ud800"}',
        '{"type":"a","t_ns":3,"x":1e400,"y":[1.5,-0.0,null,true,{"z":"é"}]}',
        '{"type":"a","t_ns":123456789012345678901234567890}',
        '{"type":"a","t_ns":4,"x":18446744073709551617}',
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = read_timeline(path)
    assert found.problems == ()
    assert repr(found.lines) == repr([json.loads(row) for row in rows])
