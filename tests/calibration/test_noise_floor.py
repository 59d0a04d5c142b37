"""The noise floor against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.noise_floor import calibrator_level, noise_floor
from dsp.errors import InputError
from dsp.weighting import a_weighting_db

FS = 48000
RNG = np.random.default_rng(6)
WHITE = (1e-3 * RNG.standard_normal((8 * FS, 2))).astype(np.float32)


def test_white_noise_is_its_closed_form():
    found = noise_floor(WHITE * [1, 2], FS)
    edge = 10**0.15
    assert found.bands_hz.tolist() == [31.5, 63, 125, 250, 500, 1000, 2000, 4000, 8000, 16000]
    exact = 1000 * 10 ** (0.3 * np.arange(-5, 5))
    closed = -60 + 10 * np.log10(exact * (edge - 1 / edge) / (FS / 2))
    assert np.all(np.abs(found.octave_db[:, 0] - closed) < 4 * found.sigma_db + 0.01)
    assert np.allclose(found.octave_db[:, 1] - closed, 6.02, atol=1.5)
    f = np.arange(0.5, FS / 2)
    weighted = -60 + 10 * np.log10(np.mean(10 ** (a_weighting_db(f) / 10)))
    assert found.a_weighted_db == pytest.approx([weighted, weighted + 6.02], abs=0.05)
    assert found.flat_db == pytest.approx([-60, -53.98], abs=0.05)
    assert "uncalibrated" in found.unit and not found.calibrated


@pytest.mark.parametrize(("hz", "weight"), [(100.0, -19.1), (1000.0, 0.0), (4000.0, 1.0), (8000.0, -1.1)])
def test_a_tone_has_the_weight_of_the_standard(hz, weight):
    t = np.arange(2 * FS) / FS
    x = (0.01 * np.sin(2 * np.pi * hz * t))[:, None].astype(np.float32)
    found = noise_floor(x, FS)
    level = 20 * np.log10(0.01) - 3.01
    assert found.a_weighted_db[0] == pytest.approx(level + weight, abs=0.1)
    band = int(np.argmax(found.octave_db[:, 0]))
    assert found.octave_db[band, 0] == pytest.approx(level, abs=0.1)


def test_a_calibrator_makes_it_sound_pressure():
    t = np.arange(FS) / FS
    tone = np.column_stack([0 * t, 0.05 * np.sin(2 * np.pi * 1000 * t)]) + 1e-5 * RNG.standard_normal((FS, 2))
    level = calibrator_level(tone, FS, 1)
    assert level == pytest.approx(20 * np.log10(0.05) - 3.01, abs=0.01)
    found = noise_floor(WHITE, FS, level)
    assert found.calibrated and found.unit == "dB SPL"
    assert found.flat_db == pytest.approx(94 - level - 60, abs=0.05)
    with pytest.raises(InputError, match="no clear 1 kHz tone"):
        calibrator_level(WHITE, FS, 0)


def test_a_noise_in_between_is_left_out():
    x = WHITE.copy()
    x[3 * FS : 4 * FS] *= 30
    found = noise_floor(x, FS)
    assert found.flat_db == pytest.approx([-60, -60], abs=0.1)
    assert found.spread_db > 20 and found.seconds < 7.3


def test_what_is_no_noise_is_refused():
    for x, words in (
        (WHITE[: FS // 2], "too short"),
        (np.zeros((2 * FS, 4), np.float32), "digital silence"),
        (np.zeros((2 * FS, 4), np.int16), "float"),
        (np.full((2 * FS, 1), np.nan, np.float32), "NaN"),
    ):
        with pytest.raises(InputError, match=words):
            noise_floor(x, FS)
