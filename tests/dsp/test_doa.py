"""Direction of arrival against closed forms: plane waves by formula, isotropic noise, and symmetries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsp.doa import DoaEstimator, DoaFrame, estimate_doa, steady_direction
from dsp.errors import InputError
from dsp.stft import StftPlan, stft
from dsp.votes import high_pass

FS = 24000


def plane_wave(mono: np.ndarray, azimuth_deg: float, elevation_deg: float) -> np.ndarray:
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    gains = [1.0, np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)]
    return (mono[:, None] * np.array(gains)).astype(np.float32)


def diffuse_noise(n: int, rng: np.random.Generator) -> np.ndarray:
    """Isotropic noise in SN3D: X, Y, Z each carry a third of W's power, all uncorrelated."""
    return (0.1 * rng.standard_normal((n, 4)) * np.array([1, 3**-0.5, 3**-0.5, 3**-0.5])).astype(np.float32)


def error_deg(azimuth: float, elevation: float, true_az: float, true_el: float) -> float:
    a = plane_wave(np.ones(1), azimuth, elevation)[0, 1:].astype(float)
    b = plane_wave(np.ones(1), true_az, true_el)[0, 1:].astype(float)
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


def signal(kind: str, seconds: float, rng: np.random.Generator, fs: int = FS) -> np.ndarray:
    t = np.arange(int(seconds * fs)) / fs
    if kind == "noise":
        return 0.1 * rng.standard_normal(t.size)
    if kind == "syllables":
        return 0.2 * rng.standard_normal(t.size) * np.maximum(0, np.sin(2 * np.pi * 4 * t)) ** 2
    if kind == "hum":
        return sum(0.1 / k * np.sin(2 * np.pi * 120 * k * t + k) for k in range(1, 12))
    return 0.1 * np.sin(2 * np.pi * 1000 * t)  # a continuous beep


DIRECTIONS = [(0, 0), (37, 12), (-120, -40), (179.9, 5), (-90, 80), (45, 35.26), (90, 0)]


@pytest.mark.parametrize("kind", ["noise", "syllables", "hum", "beep"])
@pytest.mark.parametrize("azimuth,elevation", DIRECTIONS)
def test_plane_wave_comes_out_at_its_own_direction(kind: str, azimuth: float, elevation: float) -> None:
    rng = np.random.default_rng(7)
    mono = signal(kind, 1.5, rng)
    foa = plane_wave(mono, azimuth, elevation)
    foa += (1e-3 * np.std(mono) * rng.standard_normal(foa.shape)).astype(np.float32)  # 60 dB
    clip = steady_direction(foa, FS)
    assert error_deg(clip.azimuth_deg, clip.elevation_deg, azimuth, elevation) < 0.5
    assert clip.confidence > 0.9
    assert clip.uncertainty_deg < 3
    rows = estimate_doa(foa, FS)
    errors = [
        error_deg(a, e, azimuth, elevation) for a, e in zip(rows.azimuth_deg, rows.elevation_deg, strict=True)
    ]
    assert max(errors) < 1.0
    assert rows.active.mean() > 0.7


@pytest.mark.parametrize("fs", [16000, 24000, 44100, 48000])
def test_rates(fs: int) -> None:
    rng = np.random.default_rng(3)
    foa = plane_wave(signal("noise", 1.0, rng, fs), -70, 20)
    clip = steady_direction(foa, fs)
    assert error_deg(clip.azimuth_deg, clip.elevation_deg, -70, 20) < 0.5
    assert np.allclose(np.diff(estimate_doa(foa, fs).times_s), 0.1)


def test_diffuse_noise_has_no_direction() -> None:
    foa = diffuse_noise(8 * FS, np.random.default_rng(5))
    rows = estimate_doa(foa, FS)
    assert rows.confidence.mean() < 0.1
    assert rows.active.mean() < 0.05
    assert steady_direction(foa, FS).confidence < 0.1
    assert steady_direction(foa, FS).uncertainty_deg > 40


def test_noise_at_plane_wave_level_lowers_confidence() -> None:
    rng = np.random.default_rng(6)
    wave = plane_wave(signal("noise", 3, rng), 60, 0)
    clean = steady_direction(wave, FS)
    noisy = steady_direction(wave + diffuse_noise(len(wave), rng), FS)
    assert noisy.confidence < clean.confidence
    assert noisy.uncertainty_deg > clean.uncertainty_deg
    assert error_deg(noisy.azimuth_deg, noisy.elevation_deg, 60, 0) < 5


def test_silence_says_nothing() -> None:
    rows = estimate_doa(np.zeros((FS, 4), np.float32), FS)
    assert not rows.active.any()
    assert np.isnan(rows.azimuth_deg).all()
    assert (rows.confidence == 0).all()
    clip = steady_direction(np.zeros((FS, 4), np.float32), FS)
    assert np.isnan(clip.azimuth_deg)
    assert clip.confidence == 0
    empty = steady_direction(np.zeros((0, 4), np.float32), FS)
    assert empty.confidence == 0
    assert estimate_doa(np.zeros((0, 4), np.float32), FS).times_s.size == 0


def test_activity_follows_the_sound() -> None:
    rng = np.random.default_rng(8)
    foa = 0.003 * diffuse_noise(6 * FS, rng)
    foa[2 * FS : 4 * FS] += plane_wave(signal("syllables", 2, rng), 30, 10)
    rows = estimate_doa(foa, FS)
    assert rows.active[20:40].mean() > 0.7
    assert rows.active[:20].mean() < 0.1
    assert rows.active[43:].mean() < 0.1


def test_follows_a_change_of_direction_within_three_windows() -> None:
    rng = np.random.default_rng(9)
    foa = np.concatenate(
        [
            plane_wave(signal("noise", 1, rng), -60, 0),
            plane_wave(signal("noise", 1, rng), 80, 20),
        ]
    )
    rows = estimate_doa(foa, FS)
    assert error_deg(rows.azimuth_deg[9], rows.elevation_deg[9], -60, 0) < 1
    assert error_deg(rows.azimuth_deg[13], rows.elevation_deg[13], 80, 20) < 2


def cut(x: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    out, i, k = [], 0, 0
    while i < len(x):
        n = sizes[k % len(sizes)]
        out.append(x[i : i + n])
        i += n
        k += 1
    return out


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([1, 7, 240, 480, 999, 2400, 2401, 9000]), min_size=1, max_size=5))
def test_blocks_of_any_size_give_the_offline_result(sizes: list[int]) -> None:
    rng = np.random.default_rng(10)
    foa = plane_wave(signal("syllables", 0.75, rng), 20, -15) + diffuse_noise(int(0.75 * FS), rng)
    whole = estimate_doa(foa, FS)
    estimator = DoaEstimator(FS)
    frames: list[DoaFrame] = []
    for block in cut(foa, sizes):
        frames += estimator.push(block)
    frames += estimator.flush()
    for name in (
        "t_s",
        "azimuth_deg",
        "elevation_deg",
        "confidence",
        "uncertainty_deg",
        "level_dbfs",
        "active",
    ):
        offline = getattr(whole, "times_s" if name == "t_s" else name)
        np.testing.assert_array_equal([getattr(f, name) for f in frames], offline)


@settings(max_examples=10, deadline=None)
@given(st.floats(-60, 20))
def test_gain_changes_the_level_and_nothing_else(gain_db: float) -> None:
    rng = np.random.default_rng(11)
    foa = plane_wave(signal("syllables", 1, rng), 100, 30) + 0.3 * diffuse_noise(FS, rng)
    a = estimate_doa(foa, FS)
    b = estimate_doa(foa * np.float32(10 ** (gain_db / 20)), FS)
    np.testing.assert_allclose(b.level_dbfs - a.level_dbfs, gain_db, atol=1e-3)
    np.testing.assert_allclose(b.azimuth_deg, a.azimuth_deg, atol=0.02)
    np.testing.assert_allclose(b.elevation_deg, a.elevation_deg, atol=0.02)
    np.testing.assert_allclose(b.confidence, a.confidence, atol=1e-3)


def test_turning_the_scene_turns_the_answer() -> None:
    rng = np.random.default_rng(12)
    foa = plane_wave(signal("syllables", 2, rng), 25, 10) + 0.5 * diffuse_noise(2 * FS, rng)
    base = steady_direction(foa, FS)
    for degrees in (13.0, 90.0, -151.0):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turned = foa.copy()
        turned[:, 1] = s * foa[:, 3] + c * foa[:, 1]
        turned[:, 3] = c * foa[:, 3] - s * foa[:, 1]
        got = steady_direction(turned, FS)
        # The cube of the histogram is not round: a turn moves the peak by a fraction of a degree.
        assert (
            error_deg(got.azimuth_deg, got.elevation_deg, base.azimuth_deg + degrees, base.elevation_deg)
            < 1.0
        )
        assert got.confidence == pytest.approx(base.confidence, abs=0.05)


def test_mirrored_channel_mirrors_the_answer() -> None:
    rng = np.random.default_rng(13)
    foa = plane_wave(signal("noise", 1, rng), 50, 20)
    foa[:, 2] *= -1
    got = steady_direction(foa, FS)
    assert error_deg(got.azimuth_deg, got.elevation_deg, 50, -20) < 0.3


def test_stft_equals_numpy() -> None:
    rng = np.random.default_rng(14)
    for channels in (1, 3, 4):
        x = rng.standard_normal((5000, channels)).astype(np.float32)
        plan = StftPlan(FS, 200, 4000)
        spectra = stft(x, plan)
        padded = np.concatenate([np.zeros((plan.history, channels)), x, np.zeros((plan.row, channels))])
        for f in (0, 3, 11):
            frame = padded[f * plan.hop : f * plan.hop + plan.n_fft] * plan.window[:, None]
            want = np.fft.rfft(frame, axis=0)[plan.first_bin : plan.first_bin + plan.bins]
            np.testing.assert_allclose(spectra[f], want, atol=1e-4)


@pytest.mark.parametrize("fs", [8000, 24000, 48000])
def test_a_last_window_that_is_mostly_padding_says_nothing(fs: int) -> None:
    plan = DoaEstimator(fs)._votes.plan
    least = max(plan.n_fft, -(-plan.row // 3))
    foa = plane_wave(signal("noise", 1.0, np.random.default_rng(3), fs), 40, 10)
    for n in (1, least - 1, 3 * plan.row + 1, 3 * plan.row + least - 1):
        rows = estimate_doa(foa[:n], fs)
        assert not rows.active[-1] and rows.confidence[-1] == 0
        assert np.isnan([rows.azimuth_deg[-1], rows.elevation_deg[-1], rows.uncertainty_deg[-1]]).all()
        assert rows.active[:-1].all()
    for n in (1, least - 1):
        clip = steady_direction(foa[:n], fs)
        assert clip.confidence == 0 and np.isnan([clip.azimuth_deg, clip.uncertainty_deg]).all()
    rows, clip = estimate_doa(foa[:least], fs), steady_direction(foa[:least], fs)
    assert rows.active[-1] and error_deg(rows.azimuth_deg[-1], rows.elevation_deg[-1], 40, 10) < 3
    assert clip.confidence > 0 and error_deg(clip.azimuth_deg, clip.elevation_deg, 40, 10) < 3


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="shape"):
        estimate_doa(np.zeros((4, 2400, 1), np.float32), FS)
    with pytest.raises(InputError, match="int16"):
        estimate_doa(np.zeros((2400, 4), np.int16), FS)
    bad = np.zeros((2400, 4), np.float32)
    bad[17, 2] = np.nan
    with pytest.raises(InputError, match="sample 17"):
        steady_direction(bad, FS)
    with pytest.raises(InputError, match="sample rate"):
        DoaEstimator(1000)


def test_a_constant_and_an_empty_velocity_have_no_direction() -> None:
    """A constant leaks into the lowest bin of a Hann window, rounding errors of a loud W into X, Y, Z."""
    rng = np.random.default_rng(12)
    offset = 1e-3 * diffuse_noise(4 * FS, rng) + np.float32([0.003, 0, 0, 0.003])
    bursts = np.zeros((4 * FS, 4), np.float32)
    bursts[:, 0] = 0.1 * rng.standard_normal(4 * FS) * (np.sin(np.arange(4 * FS) / 3000) > 0)
    for foa in (offset, bursts, np.full((4 * FS, 4), 0.5, np.float32)):
        assert estimate_doa(foa, FS).active.mean() < 0.05
        assert steady_direction(foa, FS).confidence == 0


def test_samples_far_beyond_full_scale_are_named() -> None:
    foa = plane_wave(signal("noise", 0.5, np.random.default_rng(1)), 10, 0)
    foa[7] = 1e18
    with pytest.raises(InputError, match=r"sample 7 is 1e\+18.*full scale"):
        DoaEstimator(FS).push(foa)


@pytest.mark.parametrize("fs", [16000, 24000, 48000])
def test_the_high_pass_is_scipys(fs: int) -> None:
    from scipy.signal import butter

    b, a = butter(2, 80.0, "highpass", fs=fs)
    np.testing.assert_allclose(high_pass(80.0, fs), [*b, *a[1:]], rtol=1e-9)
