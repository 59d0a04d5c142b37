"""Levels against closed forms."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dsp
from dsp.errors import InputError


def test_a_full_scale_sine():
    x = np.sin(2 * np.pi * np.arange(4800) / 48)[:, None] * np.array([1.0, 0.5, 0.1, 0.0])
    got = dsp.levels(x.astype(np.float32))
    assert got.peak_dbfs[:3] == pytest.approx([0, -6.0206, -20], abs=1e-3)
    assert got.rms_dbfs[:3] == pytest.approx([-3.0103, -9.0309, -23.0103], abs=1e-3)
    assert got.clipped_frames.tolist() == [200, 0, 0, 0]  # a top and a bottom in each of 100 periods
    assert got.dead.tolist() == [False, False, False, True]
    json.dumps(got.to_dict())


def test_dc_alone_is_dead():
    x = np.full((480, 2), 0.25, np.float32)
    x[:, 1] += 1e-4 * np.random.default_rng(0).standard_normal(480).astype(np.float32)
    got = dsp.levels(x)
    assert got.dead.tolist() == [True, False]
    assert got.dc == pytest.approx([0.25, 0.25], abs=1e-4)


@pytest.mark.parametrize(("bits", "code"), [(16, 32767), (16, -32768), (24, 2**23 - 1)])
def test_the_last_code_counts_as_clipped(bits, code):
    x = np.zeros((100, 1), np.float32)
    x[7] = code / 2.0 ** (bits - 1)
    assert dsp.levels(x).clipped_frames.tolist() == [1]


def test_nan_is_counted_not_spread():
    x = np.ones((10, 2), np.float32) * 0.5
    x[3, 1] = np.nan
    got = dsp.levels(x)
    assert got.nonfinite.tolist() == [0, 1]
    assert np.isfinite(got.rms_dbfs).all()


def test_refusals():
    with pytest.raises(InputError, match="int16"):
        dsp.levels(np.zeros((4, 4), np.int16))
    with pytest.raises(InputError, match=r"\(0, 4\)"):
        dsp.levels(np.zeros((0, 4), np.float32))
