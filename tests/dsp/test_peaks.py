"""Several talkers in a clip against closed forms: sums of plane waves by formula."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dsp
from dsp import histogram
from dsp.errors import InputError
from dsp.peaks import find_peaks, several_directions

FS = 24000


def scene(
    directions: list, seconds: float, seed: int, noise: float = 1e-3, at_once: bool = False
) -> np.ndarray:
    """Bursts of noise from each direction; in each 100 ms one of them sounds, or (`at_once`) any of them."""
    rng = np.random.default_rng(seed)
    n = int(seconds * FS)
    foa = noise * rng.standard_normal((n, 4))
    turn = np.repeat(rng.integers(0, len(directions), n // 2400 + 1), 2400)[:n]
    for k, (azimuth, elevation) in enumerate(directions):
        gate = np.repeat(rng.random(n // 2400 + 1) > 0.4, 2400)[:n] if at_once else turn == k
        sound = (0.1 * rng.standard_normal(n) * gate).astype(np.float32)
        foa += dsp.encode(sound, azimuth, elevation)
    return foa.astype(np.float32)


def worst_error(found: list, directions: list[tuple[float, float]]) -> float:
    errors = [[dsp.angular_error_deg(f.azimuth_deg, f.elevation_deg, *d) for d in directions] for f in found]
    n = len(directions)
    return float(min(max(errors[i][p[i]] for i in range(n)) for p in itertools.permutations(range(n))))


@pytest.mark.parametrize(
    ("directions", "limit"),
    [
        ([(30, 10)], 0.5),
        ([(30, 10), (-40, 0)], 1.5),
        ([(175, 0), (-120, 30)], 1.5),
        ([(0, -20), (90, 20), (-120, 0)], 1.5),
    ],
)
def test_plane_waves_come_out_at_their_directions(directions: list, limit: float) -> None:
    found = several_directions(scene(directions, 2.0, 1), FS, len(directions))
    assert worst_error(found, directions) < limit
    assert all(f.confidence > 0.2 and f.uncertainty_deg < 15 for f in found)


def test_two_wide_band_noises_at_once_pull_each_other_by_some_degrees() -> None:
    directions = [(30.0, 10.0), (-40.0, 0.0)]
    assert worst_error(several_directions(scene(directions, 2.0, 1, at_once=True), FS, 2), directions) < 8


def test_noise_widens_the_uncertainty() -> None:
    directions = [(30.0, 10.0), (-60.0, 0.0)]
    clean = several_directions(scene(directions, 2.0, 2), FS, 2)
    noisy = several_directions(scene(directions, 2.0, 2, noise=0.04), FS, 2)
    for a, b in zip(clean, noisy, strict=True):
        assert b.uncertainty_deg > a.uncertainty_deg and b.confidence < a.confidence


def test_a_talker_who_is_not_there_has_no_confidence() -> None:
    found = several_directions(scene([(30, 10)], 2.0, 3), FS, 2)
    assert dsp.angular_error_deg(found[0].azimuth_deg, found[0].elevation_deg, 30, 10) < 2
    assert len(found) == 2
    assert found[1].confidence < 0.1 or np.isnan(found[1].azimuth_deg)


def test_silence_and_emptiness_have_no_direction() -> None:
    for foa in (np.zeros((FS, 4), np.float32), np.zeros((0, 4), np.float32)):
        found = several_directions(foa, FS, 3)
        assert len(found) == 3
        assert all(f.confidence == 0 and np.isnan(f.azimuth_deg) for f in found)


def test_finding_peaks_leaves_the_histogram_as_it_was() -> None:
    rng = np.random.default_rng(4)
    unit = rng.standard_normal((500, 3)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cells = histogram.empty()
    histogram.add_votes(cells, unit, np.ones(500, np.float32), 500)
    before = cells.copy()
    peaks, about = find_peaks(cells, 3)
    np.testing.assert_array_equal(cells, before)
    np.testing.assert_allclose(np.linalg.norm(peaks, axis=1), 1, atol=1e-6)
    assert about[:, 0].sum() <= 1 + 1e-9 and (about >= -1e-9).all()
    assert find_peaks(histogram.empty(), 2)[0].shape == (0, 3)


@pytest.mark.parametrize("count", [0, -1, 9, 1.5, True])
def test_a_count_that_is_none_is_named(count) -> None:
    with pytest.raises(InputError, match="count"):
        several_directions(np.zeros((2400, 4), np.float32), FS, count)
