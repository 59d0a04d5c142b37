"""Files that were cut off, as our reader sees them: what is left is read, and what is missing is said."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import soundfile

from recordings import open_audio
from recordings.finish import check_audio

KINDS = [("flac", "PCM_24"), ("ogg", "VORBIS"), ("ogg", "OPUS"), ("aiff", "PCM_24"), ("wav", "PCM_24")]


@pytest.fixture(scope="module")
def sound():
    return np.random.default_rng(0).uniform(-0.1, 0.1, (3 * 48000, 4)).astype(np.float32)


@pytest.mark.parametrize(("suffix", "subtype"), KINDS)
def test_a_whole_file_has_no_problem_and_a_cut_one_says_so(tmp_path, sound, suffix, subtype):
    path = tmp_path / f"x.{suffix}"
    soundfile.write(path, sound, 48000, subtype=subtype)
    whole = open_audio(path)
    assert whole.problems == [] and whole.frames == len(sound)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    cut = open_audio(path)
    assert "truncated: " in cut.problems[0]
    assert 0.5 * len(sound) < cut.frames < 0.75 * len(sound)
    assert len(cut.read()) == sum(len(block) for block in cut.blocks(5000)) == cut.frames
    if subtype == "PCM_24":
        np.testing.assert_allclose(cut.read(), sound[: cut.frames], atol=2**-23)
    report = check_audio(cut, "ambix")
    (finding,) = [f for f in report["findings"] if f["code"] == "truncated"]
    assert finding["severity"] == "fault" and report["ok"] is False


def test_a_wav_without_its_length_is_a_warning(tmp_path, sound):
    path = tmp_path / "x.wav"
    soundfile.write(path, sound, 48000, subtype="PCM_24")
    data = bytearray(path.read_bytes())
    at = data.index(b"data") + 4
    for size in (0, 0xFFFFFFFF):
        data[at : at + 4] = struct.pack("<I", size)
        path.write_bytes(data)
        found = open_audio(path)
        assert found.frames == len(sound)
        report = check_audio(found, "ambix")
        (finding,) = [f for f in report["findings"] if f["code"] == "truncated"]
        assert finding["severity"] == "warning" and finding["value"] is None
