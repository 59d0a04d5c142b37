"""SRP and MUSIC in spherical harmonics: plane waves by formula, exact forms, blocks, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError
from dsp.sh_doa import ShDoaEstimator, estimate_sh_doa, sh_directions, steered_response

FS = 24000


def noise(seconds: float, seed: int) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(int(seconds * FS))


@pytest.mark.parametrize("method", ["srp", "music"])
@pytest.mark.parametrize("azimuth,elevation", [(0, 0), (33.3, 20.2), (-77, -61), (179.9, 0), (10, 89)])
def test_a_plane_wave_has_its_own_direction(method: str, azimuth: float, elevation: float) -> None:
    foa = dsp.encode(noise(0.5, 1), azimuth, elevation)
    (got,) = sh_directions(foa, FS, method)
    assert dsp.angular_error_deg(got.azimuth_deg, got.elevation_deg, azimuth, elevation) < 0.01
    assert got.confidence > 0.999
    assert got.uncertainty_deg < 3
    rows = estimate_sh_doa(foa, FS, method)
    assert rows.active.all()
    np.testing.assert_allclose(rows.times_s, np.arange(5) * 0.1)
    error = dsp.angular_error_deg(rows.azimuth_deg, rows.elevation_deg, azimuth, elevation)
    assert error.max() < 0.01


def test_music_tells_two_uncorrelated_waves_apart_where_srp_sees_one() -> None:
    """First order resolves 2 sources exactly by subspace; the beam is 105 degrees wide at -3 dB."""
    foa = dsp.encode(noise(4, 2), 20, 10) + dsp.encode(noise(4, 3), 70, -15)
    found = sh_directions(foa, FS, "music", sources=2)
    assert len(found) == 2
    for azimuth, elevation in ((20, 10), (70, -15)):
        errors = [dsp.angular_error_deg(f.azimuth_deg, f.elevation_deg, azimuth, elevation) for f in found]
        assert min(errors) < 1.5
    assert len(sh_directions(foa, FS, "music", sources=None)) == 2  # the eigenvalues say so
    assert len(sh_directions(foa, FS, "srp", sources=2)) == 1
    (middle,) = sh_directions(foa, FS, "srp")
    assert dsp.angular_error_deg(middle.azimuth_deg, middle.elevation_deg, 45, -3) < 5


def test_srp_map_is_the_hypercardioid_pattern() -> None:
    foa = dsp.encode(noise(1, 4), 30, 0)
    angles = np.array([30.0, 120.0, 30 + np.degrees(np.arccos(-1 / 3)), -150.0])
    power = steered_response(foa, FS, angles, np.zeros(4))
    np.testing.assert_allclose(power, 4 * np.array([1, 1 / 16, 0, 1 / 4]), atol=1e-4)
    music = steered_response(foa, FS, angles, np.zeros(4), "music")
    assert np.argmax(music) == 0
    assert music[0] > 1e4
    np.testing.assert_allclose(music[1:], 1 / (1 - np.array([1 / 16, 0, 1 / 4])), rtol=1e-3)


@pytest.mark.parametrize("method", ["srp", "music"])
def test_blocks_do_not_matter_bit_for_bit(method: str) -> None:
    rng = np.random.default_rng(5)
    foa = dsp.encode(noise(1.03, 6), -40, 10) + 0.05 * rng.standard_normal((int(1.03 * FS), 4)).astype(
        np.float32
    )
    whole = estimate_sh_doa(foa, FS, method, None)
    for _ in range(3):
        engine = ShDoaEstimator(FS, method, None)
        frames, at = [], 0
        while at < len(foa):
            n = int(rng.choice([1, 333, 2400, 4801]))
            frames += engine.push(foa[at : at + n])
            at += n
        frames += engine.flush()
        assert len(frames) == len(whole.times_s) == 11
        for name in ("azimuth_deg", "elevation_deg", "confidence", "uncertainty_deg", "level_dbfs", "active"):
            np.testing.assert_array_equal([getattr(f, name) for f in frames], getattr(whole, name))


def test_no_direction_in_a_diffuse_field_or_in_silence() -> None:
    rng = np.random.default_rng(7)
    diffuse = (0.1 * rng.standard_normal((2 * FS, 4)) * np.sqrt([1, 1 / 3, 1 / 3, 1 / 3])).astype(np.float32)
    for method in ("srp", "music"):
        (got,) = sh_directions(diffuse, FS, method)
        assert got.confidence < 0.05
        assert got.uncertainty_deg > 15
        assert not estimate_sh_doa(diffuse, FS, method).active.any()
        silent = np.zeros((FS, 4), np.float32)
        assert sh_directions(silent, FS, method) == []
        rows = estimate_sh_doa(silent, FS, method)
        assert np.isnan(rows.azimuth_deg).all()
        assert not rows.confidence.any()


def test_bad_values_are_named() -> None:
    x = np.zeros((FS, 4), np.float32)
    with pytest.raises(InputError, match="'esprit'; one of srp, music"):
        estimate_sh_doa(x, FS, "esprit")
    with pytest.raises(InputError, match="1 to 3 sources, not 4"):
        sh_directions(x, FS, "music", 4)
    with pytest.raises(InputError, match=r"\(24000, 3\)"):
        estimate_sh_doa(x[:, :3], FS)
    with pytest.raises(InputError, match="int32"):
        ShDoaEstimator(FS).push(x.astype(np.int32))
    x[7, 1] = np.nan
    with pytest.raises(InputError, match="sample 7 is not a finite number"):
        sh_directions(x, FS)
