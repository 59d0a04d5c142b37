"""The end of a file that a power loss left unwritten, told from zeros that were written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.storage import StorageError, unwritten_tail


@settings(max_examples=60, deadline=None)
@given(blocks=st.integers(1, 9), torn=st.integers(1, 3000), zeros=st.integers(0, 3))
def test_zeros_from_a_border_on_were_never_written(tmp_path_factory, blocks, torn, zeros):
    content = np.random.default_rng(blocks).integers(1, 255, 512 * blocks, np.uint8)
    content[len(content) - zeros :] = 0  # a sample may end in zeros as well
    path = tmp_path_factory.getbasetemp() / "torn"
    path.write_bytes(content.tobytes() + bytes(torn))
    assert unwritten_tail(path) == torn


@given(written=st.integers(1, 5000), torn=st.integers(0, 1 << 16))
def test_zeros_within_one_block_were_never_written(tmp_path_factory, written, torn):
    """A block that was forced to the medium half full keeps its length when it is filled, not its content."""
    path = tmp_path_factory.getbasetemp() / "half"
    path.write_bytes(b"\1" * written + bytes(torn))
    left = len(path.read_bytes()) - unwritten_tail(path)
    assert left == written or (0 <= left - written <= 4 and left % 512 == 0)


@pytest.mark.parametrize("data", [b"", bytes(3000), b"\1" * 700 + bytes(1 << 17), b"\1" * 512])
def test_silence_and_whole_files_are_content(tmp_path, data):
    path = tmp_path / "whole"
    path.write_bytes(data)
    assert unwritten_tail(path) == 0


def test_long_silence_is_content_although_it_begins_at_a_border(tmp_path):
    path = tmp_path / "silent"
    path.write_bytes(b"\1" * 512 + bytes(3 << 20))
    assert unwritten_tail(path) == 0
    with pytest.raises(StorageError):
        unwritten_tail(tmp_path / "absent")
