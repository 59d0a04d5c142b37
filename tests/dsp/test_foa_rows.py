"""Sound as the estimators take it: what is refused, and rows that do not depend on the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsp
from dsp.errors import InputError
from dsp.foa_rows import RowBuffer, clip_rows, level_dbfs


@given(st.lists(st.integers(0, 25), max_size=12), st.integers(1, 10))
def test_rows_of_blocks_are_those_of_the_whole(lengths: list[int], size: int) -> None:
    x = np.arange(1, 4 * sum(lengths) + 1, dtype=np.float32).reshape(-1, 4)
    buffer, rows = RowBuffer(size), []
    for block in np.split(x, np.cumsum(lengths)[:-1]) if lengths else []:
        for _ in buffer.push(block):
            number, row, filled = buffer.take()
            assert (number, filled) == (len(rows), size)
            rows.append(row.copy())
    if buffer.filled:
        rows.append(buffer.take()[1].copy())
    whole = list(clip_rows(x, size))
    assert len(rows) == len(whole) == -(-len(x) // size)
    for a, b in zip(rows, whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_short_last_rows_can_be_left_out() -> None:
    x = np.ones((25, 4), np.float32)
    assert [len(list(clip_rows(x, 10, least))) for least in (1, 5, 6, 10)] == [3, 3, 2, 2]


def test_level_of_a_sine_and_of_silence() -> None:
    assert level_dbfs(np.sin(np.arange(24000) * np.pi / 12).astype(np.float32)) == pytest.approx(
        -3.0103, abs=1e-4
    )
    assert level_dbfs(np.zeros(10, np.float32)) == -200


@pytest.mark.parametrize(
    "run",
    [
        lambda x: dsp.estimate_doa(x, 24000),
        lambda x: dsp.track_sources(x, 24000),
        lambda x: dsp.several_directions(x, 24000, 2),
        lambda x: dsp.estimate_sh_doa(x, 24000),
        lambda x: dsp.beamform(x, 24000, 0.0, 0.0),
    ],
)
def test_samples_far_beyond_full_scale_are_refused_by_all(run) -> None:
    foa = 0.1 * np.random.default_rng(0).standard_normal((4800, 4)).astype(np.float32)
    foa[7] = 1e20
    with pytest.raises(InputError, match=r"sample 7 is 1e\+20.*full scale"):
        run(foa)
