"""The clock line against simulated clocks whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from dsp.errors import InputError
from recordings import fit_clock


def observed(
    ppm: float, seconds: float, jitter, rate: float = 48000, block: int = 480, start_ns: int = 10**17
):
    """Block counters and times of a clock that is `ppm` fast, each late by jitter(n) seconds."""
    frames = np.arange(0, round(seconds * rate), block, dtype=np.int64) + 7_000_000
    true_s = (frames - frames[0]) / (rate * (1 + ppm * 1e-6))
    return frames, start_ns + np.round((true_s + jitter(len(frames))) * 1e9).astype(np.int64)


@pytest.mark.parametrize("ppm", [-100.0, 0.0, 69.0])
def test_a_clean_clock_is_found_exactly(ppm):
    frames, times = observed(ppm, 20, lambda n: np.zeros(n))
    fit = fit_clock(frames, times)
    assert abs(fit.drift_ppm - ppm) < 1e-3
    line = fit.offset_ns + frames / (48000 * (1 + fit.drift_ppm * 1e-6)) * 1e9
    # offset_ns is the time of frame 0, 146 s before the first block; float64 keeps 16 ns of 1e17.
    assert np.max(np.abs(line - times)) < 5000


@pytest.mark.parametrize("seed", range(5))
def test_ten_minutes_with_20_ms_jitter_and_outliers_are_within_2_ppm_and_3_sigma(seed):
    rng = np.random.default_rng(seed)

    def jitter(n):
        late = rng.exponential(0.005, n).clip(0, 0.02)
        late[rng.integers(0, n, n // 100)] += 0.3
        return late

    frames, times = observed(-87.0, 600, jitter)
    fit = fit_clock(frames, times)
    assert abs(fit.drift_ppm + 87.0) < 2.0
    assert abs(fit.drift_ppm + 87.0) < 4 * fit.drift_sigma_ppm
    # 95 % of an exponential of 5 ms with 1 % far out: 5 ln(0.99 / 0.04) = 16.0 ms; the earliest lie near 0.
    assert 15.0 < fit.jitter_ms < 16.5


@pytest.mark.parametrize("kind", ["uniform", "exponential"])
def test_the_stated_uncertainty_covers_the_error(kind):
    """Over many runs the error divided by its sigma has a root mean square near 1."""
    rng = np.random.default_rng(0)
    late = {"uniform": lambda n: rng.uniform(0, 0.02, n), "exponential": lambda n: rng.exponential(0.005, n)}
    ratios = []
    for _ in range(60):
        fit = fit_clock(*observed(25.0, 60, late[kind]))
        ratios.append((fit.drift_ppm - 25.0) / fit.drift_sigma_ppm)
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 1.6


def test_one_stamp_from_before_the_sound_does_not_turn_the_line():
    rng = np.random.default_rng(1)
    frames, times = observed(40.0, 120, lambda n: rng.uniform(0, 0.02, n))
    times[5000] -= 80_000_000
    assert abs(fit_clock(frames, times).drift_ppm - 40.0) < 1.0


def test_half_of_the_take_under_load_does_not_turn_the_line():
    """Least squares would see 10 ms in 60 s: 170 ppm."""
    rng = np.random.default_rng(2)
    frames, times = observed(40.0, 120, lambda n: rng.uniform(0, 0.02, n) * (np.arange(n) > n / 2))
    assert abs(fit_clock(frames, times).drift_ppm - 40.0) < 1.0


def test_the_rate_matters_and_wrong_input_is_named():
    frames, times = observed(10.0, 5, lambda n: np.zeros(n), rate=44100, block=441)
    assert abs(fit_clock(frames, times, 44100).drift_ppm - 10.0) < 1e-3
    with pytest.raises(InputError, match="n >= 2"):
        fit_clock([1], [1])
    with pytest.raises(InputError, match="does not advance"):
        fit_clock([5, 5], [1, 2])
