"""Direct sound: exact for one plane wave, the first of two, honest where a reflection is near."""

from __future__ import annotations

import re

import numpy as np
import pytest
import soundfile

import dsp
from calibration.direct_arrival import array_arrival, foa_arrival
from dsp.errors import InputError

FS = 48000


def wave(unit: np.ndarray, at_s: float, gain: float = 1.0, frames: int = 2400) -> np.ndarray:
    """An impulse from a direction, band-limited by its own shape (0.1 ms wide)."""
    t = np.arange(frames) / FS - at_s
    pulse = gain * np.exp(-0.5 * (t / 5e-5) ** 2)
    return pulse[:, None] * np.array([1.0, unit[1], unit[2], unit[0]])


def angle(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def test_one_wave_is_exact_from_anywhere():
    rng = np.random.default_rng(0)
    for _ in range(20):
        u = rng.standard_normal(3)
        u /= np.linalg.norm(u)
        found = foa_arrival(wave(u, 0.01), FS)
        assert angle(found.direction, u) < 0.05
        assert found.t_s == pytest.approx(0.01, abs=1 / FS)
        assert found.reflection_s is None and found.diffuseness < 1e-3
        az, el = dsp.unit_to_direction(u)
        assert found.azimuth_deg == pytest.approx(az, abs=0.2) or abs(el) > 80


def test_a_later_louder_reflection_does_not_matter():
    u, v = np.array([0.8, 0.6, 0.0]), np.array([0.0, -0.6, 0.8])
    h = wave(u, 0.01, 0.5) + wave(v, 0.0135, 0.9)
    assert angle(foa_arrival(h, FS).direction, u) < 0.1


@pytest.mark.parametrize("delay_ms", [0.8, 1.1])
def test_a_reflection_in_the_window_is_noticed_cut_off_and_lowers_the_weight(delay_ms: float):
    u, v = np.array([1.0, 0.0, 0.0]), np.array([0.8, 0.0, -0.6])
    clean = foa_arrival(wave(u, 0.01), FS)
    found = foa_arrival(wave(u, 0.01) + wave(v, 0.01 + delay_ms / 1000, 0.6), FS)
    assert found.reflection_s is not None and found.reflection_s <= delay_ms / 1000
    assert angle(found.direction, u) < 1.5
    assert found.sigma_deg > 1.2 * clean.sigma_deg


def test_two_pulses_that_melt_together_have_a_larger_sigma():
    u, v = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, -1.0])
    found = foa_arrival(wave(u, 0.01) + wave(v, 0.0102, 0.6), FS)
    assert found.sigma_deg > 2.5


def test_noise_raises_the_sigma_to_what_the_error_is():
    rng = np.random.default_rng(3)
    u = np.array([0.6, -0.48, 0.64])
    errors, sigmas = [], []
    for _ in range(60):
        h = wave(u, 0.02) + 0.05 * rng.standard_normal((2400, 4))
        found = foa_arrival(h, FS)
        errors.append(angle(found.direction, u))
        sigmas.append(found.sigma_deg)
    # Two components: the mean square of the angle is twice that of one.
    ratio = np.sqrt(np.mean(np.square(errors)) / 2) / np.sqrt(np.mean(np.square(sigmas)))
    assert 0.2 < ratio < 1.3
    assert np.mean(sigmas) > 0.8


def test_spaced_capsules_of_a_plane_wave():
    rng = np.random.default_rng(1)
    places = 0.05 * np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1.0]])
    t = np.arange(2400) / FS
    for _ in range(10):
        u = rng.standard_normal(3)
        u /= np.linalg.norm(u)
        h = np.exp(-0.5 * ((t[:, None] - 0.01 + places @ u / 343.0) / 4e-5) ** 2)
        found = array_arrival(h, FS, places)
        assert angle(found.direction, u) < 0.1
        assert found.sigma_deg == pytest.approx(1.0, abs=0.1)


def test_real_responses_point_where_the_loudspeaker_stood(shared_data):
    """R3VIVAL (CC BY 4.0): angles clockwise in the names; 7 omni capsules. All within 2.5 degrees."""
    files = sorted((shared_data / "calib" / "r3vival").glob("*first100ms.flac"))
    if not files:
        pytest.skip("the R3VIVAL responses are not on this machine")
    h = 0.05 * np.sqrt(0.5)
    places = [[0.05, 0, 0], [-0.05, 0, 0], [0, -h, h], [0, h, h], [0, -h, -h], [0, h, -h], [0, 0, 0]]
    errors = []
    for file in files[::4]:
        x, fs = soundfile.read(file)
        azimuth = -float(re.search(r"_S(\d+)-", file.name)[1])  # type: ignore[index]
        errors.append((array_arrival(x, fs, places).azimuth_deg - azimuth + 180) % 360 - 180)
    assert np.abs(np.array(errors) - np.mean(errors)).max() < 2.5


def test_what_holds_no_direction_is_refused():
    with pytest.raises(InputError, match="silent"):
        foa_arrival(np.zeros((2400, 4)), FS)
    with pytest.raises(InputError, match="no direction"):
        mono = np.zeros((2400, 4))
        mono[:, 0] = wave(np.array([1.0, 0, 0]), 0.01)[:, 0]
        foa_arrival(mono, FS)
    with pytest.raises(InputError, match="not \\(2400, 3\\)"):
        foa_arrival(np.ones((2400, 3)), FS)
    with pytest.raises(InputError, match="one plane"):
        array_arrival(np.ones((2400, 4)), FS, [[0.05, 0, 0], [-0.05, 0, 0], [0, 0.05, 0], [0, -0.05, 0]])
    with pytest.raises(InputError, match="no plane wave"):
        wrong = 0.02 * np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1.0]])
        t = np.arange(2400) / FS
        h = np.exp(-0.5 * ((t[:, None] - 0.01 + 0.2 * wrong @ [0.6, 0.8, 0] / 343.0) / 4e-5) ** 2)
        array_arrival(h, FS, wrong)
