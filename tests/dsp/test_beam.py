"""Beams against closed forms of the hypercardioid and of MVDR, and the promises on blocks and steering."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.beam import Beamformer, beamform, diffuse_power, max_directivity_weights, plane_wave_response
from dsp.errors import InputError

FS = 24000
KINDS = [
    ("max_directivity", False, 0.0),
    ("max_directivity", True, 0.0),
    ("mvdr", False, 0.015),
    ("mvdr", True, 0.0),
]


def sphere(n: int = 2000) -> np.ndarray:
    k = np.arange(n) + 0.5
    z = 1 - 2 * k / n
    turn = np.pi * (1 + 5**0.5) * k
    return np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)


def noise(seconds: float, seed: int) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(int(seconds * FS))


def level_db(x: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(np.square(x, dtype=np.float64))))


@pytest.mark.parametrize("azimuth,elevation", [(0, 0), (75, -30), (-140, 60)])
def test_coincident_beam_is_the_hypercardioid(azimuth: float, elevation: float) -> None:
    (w,) = max_directivity_weights(azimuth, elevation)
    u = dsp.direction_to_unit(azimuth, elevation)
    around = sphere()
    gain = (plane_wave_response(around, [1000.0])[:, 0] @ w.conj()).real
    np.testing.assert_allclose(gain, 0.25 + 0.75 * around @ u, atol=1e-12)
    assert 10 * np.log10(1 / np.mean(gain**2)) == pytest.approx(6.0206, abs=0.01)  # directivity index
    assert -10 * np.log10(np.sum(np.abs(w) ** 2)) == pytest.approx(10 * np.log10(1.6), abs=1e-9)
    side = np.cross(u, [0.3, -0.5, 0.8])
    side /= np.linalg.norm(side)
    null = np.arccos(-1 / 3)
    at_null = np.cos(null) * u + np.sin(null) * side
    assert abs(plane_wave_response(at_null, [1000.0])[0, 0] @ w.conj()) < 1e-12


def test_spaced_capsules_keep_the_gain_and_no_other_weights_hear_less_diffuse_sound() -> None:
    frequencies = np.array([20.0, 1000.0, 3000.0, 6000.0])
    w = max_directivity_weights(30, 20, frequencies, radius_m=0.015, white_noise_gain_db=-30)
    d = plane_wave_response(dsp.direction_to_unit(30, 20), frequencies, 0.015)[0]
    np.testing.assert_allclose(np.sum(w.conj() * d, axis=1), 1.0, atol=1e-12)
    power = diffuse_power(frequencies, 0.015)
    least = np.sum(np.abs(w) ** 2 * power, axis=1)
    response = plane_wave_response(sphere(), frequencies, 0.015)
    measured = np.mean(np.abs(np.sum(response * w.conj(), axis=2)) ** 2, axis=0)
    np.testing.assert_allclose(measured, least, rtol=0.01)
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = w + 0.1 * (rng.standard_normal(w.shape) + 1j * rng.standard_normal(w.shape))
        other /= np.sum(other.conj() * d, axis=1, keepdims=True).conj()
        assert np.all(np.sum(np.abs(other) ** 2 * power, axis=1) >= least - 1e-12)
    np.testing.assert_allclose(w[0], max_directivity_weights(30, 20)[0], atol=0.02)  # long waves: coincident


def test_white_noise_gain_is_kept_at_all_frequencies() -> None:
    frequencies = np.linspace(0, 12000, 200)
    for wanted in (-3.0, 1.0):
        w = max_directivity_weights(0, 0, frequencies, 0.015, wanted)
        gain = -10 * np.log10(np.sum(np.abs(w) ** 2, axis=1))
        assert gain.min() > wanted - 0.01
    (w,) = max_directivity_weights(0, 0, white_noise_gain_db=3.0)
    np.testing.assert_allclose(w.real, [0.5, 0, 0, 0.5], atol=0.03)  # the limit 3.01 dB is the cardioid
    with pytest.raises(InputError, match=r"at most 3.01 dB"):
        max_directivity_weights(0, 0, white_noise_gain_db=4.0)


@pytest.mark.parametrize("method,postfilter,radius", KINDS)
def test_blocks_do_not_matter_bit_for_bit(method: str, postfilter: bool, radius: float) -> None:
    rng = np.random.default_rng(2)
    x = 0.1 * rng.standard_normal((9001, 4)).astype(np.float32)
    whole = beamform(x, FS, 40, 10, method, postfilter, radius_m=radius)
    assert whole.shape == (9001,)
    assert whole.dtype == np.float32
    for _ in range(3):
        beam = Beamformer(FS, 40, 10, method, postfilter, radius_m=radius)
        sizes = rng.choice([1, 7, 255, 256, 257, 1000, 0], 200)
        parts, at = [], 0
        for n in sizes:
            parts.append(beam.push(x[at : at + n]))
            at += n
        parts += [beam.push(x[at:]), beam.flush()]
        got = np.concatenate(parts)
        assert len(got) == 9001 + beam.delay_frames
        np.testing.assert_array_equal(got[beam.delay_frames :], whole)
        # After the flush the next signal starts anew.
        again = np.concatenate([beam.push(x), beam.flush()])[beam.delay_frames :]
        np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize("method,postfilter,radius", [k for k in KINDS if k[2] == 0])
def test_a_plane_wave_from_there_comes_through_unchanged(
    method: str, postfilter: bool, radius: float
) -> None:
    s = noise(1.0, 3)
    y = beamform(dsp.encode(s, -60, 25), FS, -60, 25, method, postfilter)
    edge = 1024  # the first frames start in silence
    assert level_db(y[edge:-edge] - s[edge:-edge]) < level_db(s) - 60


def test_mvdr_finds_the_interferer_and_spares_the_wanted_sound() -> None:
    wanted, other = noise(6.0, 4), noise(6.0, 5)
    wanted *= (np.arange(len(wanted)) // (FS // 2)) % 2  # on and off every half second
    foa = dsp.encode(wanted, 10, 0) + dsp.encode(other, 100, 10)
    late = slice(4 * FS, 6 * FS)
    both = beamform(foa, FS, 10, 0, "mvdr", postfilter=False)
    fixed = beamform(foa, FS, 10, 0, "max_directivity", postfilter=False)
    # The hypercardioid hears the side with (1 + 3 cos 90) / 4 = -12 dB; MVDR must go well below.
    assert level_db(fixed[late] - wanted[late]) == pytest.approx(-20 - 12, abs=0.6)
    assert level_db(both[late] - wanted[late]) < -20 - 20
    # 10 degrees beside the talker: the talker still comes through.
    aside = beamform(foa, FS, 20, 0, "mvdr", postfilter=False)
    on = np.flatnonzero(wanted[late])
    gain = np.dot(aside[late][on], wanted[late][on]) / np.dot(wanted[late][on], wanted[late][on])
    assert 0.9 < gain < 1.1
    # After a turn, the old interferer is the wanted sound.
    beam = Beamformer(FS, 10, 0, "mvdr", postfilter=False)
    beam.push(foa[: 3 * FS])
    beam.steer(100, 10)
    y = beam.push(foa[3 * FS :])[FS:]
    assert level_db(y) == pytest.approx(level_db(other), abs=0.5)


def test_postfilter_lowers_diffuse_sound_and_stops_at_its_floor() -> None:
    rng = np.random.default_rng(6)
    diffuse = (rng.standard_normal((2 * FS, 4)) * [0.1, 0.1 / 3**0.5, 0.1 / 3**0.5, 0.1 / 3**0.5]).astype(
        np.float32
    )
    plain = level_db(beamform(diffuse, FS, 0, 0, "max_directivity", postfilter=False))
    assert plain == pytest.approx(-20 - 6.02, abs=0.2)
    assert level_db(beamform(diffuse, FS, 0, 0, "max_directivity")) < plain - 6
    behind = dsp.encode(noise(1.0, 7), 180, 0)
    deep = beamform(behind, FS, 0, 0, "max_directivity", floor_db=-20)
    assert level_db(deep[2000:-2000]) == pytest.approx(-20 - 6.02 - 20, abs=0.3)  # (1 - 3) / 4


@pytest.mark.parametrize("method,postfilter,radius", KINDS)
def test_steering_makes_no_click(method: str, postfilter: bool, radius: float) -> None:
    t = np.arange(FS) / FS
    foa = dsp.encode(0.5 * np.sin(2 * np.pi * 200 * t), 0, 0)
    beam = Beamformer(FS, 0, 0, method, postfilter, radius_m=radius)
    parts = [beam.push(foa[: FS // 2])]
    beam.steer(180, 0)
    parts += [beam.push(foa[FS // 2 :])]
    y = np.concatenate(parts)[4000:]
    # A jump shows in the second difference: for the tone alone it is 0.5 (2 pi 200 / fs)^2.
    bend = np.abs(np.diff(y, 2)).max()
    assert bend < 2.5 * 0.5 * (2 * np.pi * 200 / FS) ** 2
    if not postfilter:
        assert np.abs(y[-FS // 8 :]).max() < 0.3  # behind the beam: -6 dB


@pytest.mark.parametrize("method,postfilter,radius", KINDS)
def test_steering_at_a_sample_does_not_depend_on_blocks(method: str, postfilter: bool, radius: float) -> None:
    x = 0.1 * np.random.default_rng(8).standard_normal((8000, 4)).astype(np.float32)
    results = []
    for size in (8000, 173):
        beam = Beamformer(FS, 0, 0, method, postfilter, radius_m=radius)
        parts = [beam.push(x[a : min(a + size, 3001)]) for a in range(0, 3001, size)]
        beam.steer(-60, 20)
        parts += [beam.push(x[a : a + size]) for a in range(3001, 8000, size)]
        results.append(np.concatenate([*parts, beam.flush()]))
    np.testing.assert_array_equal(results[0], results[1])


def test_silence_and_small_sounds_stay_finite() -> None:
    assert not beamform(np.zeros((3000, 4), np.float32), FS, 0, 0).any()
    tiny = beamform(1e-9 * np.ones((3000, 4), np.float32), FS, 0, 0)
    assert np.isfinite(tiny).all()
    assert beamform(np.zeros((0, 4), np.float32), FS, 0, 0).shape == (0,)


def test_bad_values_are_named() -> None:
    x = np.zeros((100, 4), np.float32)
    with pytest.raises(InputError, match="'delay_and_sum'; one of max_directivity, mvdr"):
        beamform(x, FS, 0, 0, "delay_and_sum")
    with pytest.raises(InputError, match="not nan; is there a direction"):
        beamform(x, FS, float("nan"), 0)
    with pytest.raises(InputError, match="elevation of a beam must be from -90 to 90 degrees, not 91"):
        Beamformer(FS).steer(0, 91)
    with pytest.raises(InputError, match=r"\(100, 2\)"):
        beamform(x[:, :2], FS, 0, 0)
    with pytest.raises(InputError, match="int16"):
        beamform(x.astype(np.int16), FS, 0, 0)
    with pytest.raises(InputError, match="not 4000"):
        Beamformer(4000)
    with pytest.raises(InputError, match="radius_m"):
        Beamformer(FS, radius_m=14.7)
    with pytest.raises(InputError, match="floor_db"):
        Beamformer(FS, floor_db=14)
    x[50, 2] = np.inf
    with pytest.raises(InputError, match="sample 50 is not a finite number"):
        beamform(x, FS, 0, 0)
