"""Arrays of omni and cardioid capsules: plane waves by formula, real recordings with a labelled azimuth."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dsp.array import (
    array_azimuths,
    array_to_foa,
    encoder_filters,
    estimate_array_azimuth,
    estimate_array_doa,
)
from dsp.doa import steady_direction
from dsp.errors import InputError

FS = 16000
HALF = 0.02285
SQUARE = np.array([[HALF, HALF, 0], [-HALF, HALF, 0], [-HALF, -HALF, 0], [HALF, -HALF, 0]])
TETRA = 0.02 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
DATA = Path(os.environ.get("HEARTH_SHARED_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
RESPEAKER = DATA / "foa" / "respeaker4-labelled"


def unit(azimuth_deg: float, elevation_deg: float) -> np.ndarray:
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    return np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])


def plane_wave(
    positions: np.ndarray, azimuth: float, elevation: float, mono: np.ndarray, fs: int = FS
) -> np.ndarray:
    """Far field: a capsule nearer to the source hears it earlier by (r . u) / c."""
    freq = np.fft.rfftfreq(len(mono), 1 / fs)
    lead = positions @ unit(azimuth, elevation) / 343.0
    spectrum = np.fft.rfft(mono)[:, None] * np.exp(2j * np.pi * freq[:, None] * lead)
    return np.fft.irfft(spectrum, len(mono), axis=0).astype(np.float32)


def cardioids(
    positions: np.ndarray,
    facing: np.ndarray,
    azimuth: float,
    elevation: float,
    mono: np.ndarray,
    fs: int = FS,
) -> np.ndarray:
    return plane_wave(positions, azimuth, elevation, mono, fs) * (
        0.5 + 0.5 * facing @ unit(azimuth, elevation)
    )


def turn(a: float, b: float) -> float:
    return abs((a - b + 180) % 360 - 180)


@pytest.mark.parametrize("azimuth,elevation", [(0, 0), (33, 20), (-77, 50), (178, 0), (-135, 10)])
def test_plane_wave_on_a_square(azimuth: float, elevation: float) -> None:
    mono = 0.1 * np.random.default_rng(1).standard_normal(FS)
    x = plane_wave(SQUARE, azimuth, elevation, mono)
    got = estimate_array_azimuth(x, SQUARE, FS)
    assert turn(got.azimuth_deg, azimuth) < 0.5
    assert np.isnan(got.elevation_deg)  # a planar array cannot know
    assert got.confidence > 0.8
    rows = estimate_array_doa(x, SQUARE, FS)
    assert rows.active.all()
    assert max(turn(a, azimuth) for a in rows.azimuth_deg) < 1.5


def test_plane_wave_on_a_tetrahedron_has_an_elevation() -> None:
    mono = 0.1 * np.random.default_rng(2).standard_normal(FS)
    got = estimate_array_azimuth(plane_wave(TETRA, 60, -35, mono), TETRA, FS)
    assert turn(got.azimuth_deg, 60) < 0.5
    assert abs(got.elevation_deg + 35) < 0.5


@pytest.mark.parametrize("azimuth,elevation", [(0, 0), (60, -35), (-150, 50), (178, 10)])
def test_plane_wave_on_cardioids_has_its_direction(azimuth: float, elevation: float) -> None:
    """The gains are part of the model: with them the direction is exact, as omni it is not."""
    mono = 0.1 * np.random.default_rng(6).standard_normal(FS)
    facing = TETRA / np.linalg.norm(TETRA, axis=1, keepdims=True)
    x = cardioids(TETRA, facing, azimuth, elevation, mono)
    got = estimate_array_azimuth(x, TETRA, FS, pattern=0.5)
    assert turn(got.azimuth_deg, azimuth) < 0.3
    assert abs(got.elevation_deg - elevation) < 0.3
    assert got.confidence > 0.9
    rows = estimate_array_doa(x, TETRA, FS, facing, 0.5)
    assert rows.active.all()
    assert max(turn(a, azimuth) for a in rows.azimuth_deg) < 0.5


def test_axes_that_do_not_point_outward_and_planar_arrays_of_cardioids() -> None:
    mono = 0.1 * np.random.default_rng(7).standard_normal(FS)
    facing = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
    x = cardioids(SQUARE, facing, -70, 40, mono)
    got = estimate_array_azimuth(x, SQUARE, FS, facing, 0.5)
    assert turn(got.azimuth_deg, -70) < 0.5
    assert abs(got.elevation_deg - 40) < 0.5  # a planar array whose axes look up and down can know
    outward = SQUARE / np.linalg.norm(SQUARE, axis=1, keepdims=True)
    flat = cardioids(SQUARE, outward, 100, 0, mono)
    got = estimate_array_azimuth(flat, SQUARE, FS, pattern=0.5)
    assert turn(got.azimuth_deg, 100) < 0.5
    assert np.isnan(got.elevation_deg)
    both = np.concatenate([flat, cardioids(SQUARE, outward, -20, 0, mono)])
    found = array_azimuths(both, SQUARE, FS, pattern=0.5)
    assert sorted(round(f.azimuth_deg) for f in found) == [-20, 100]


def test_cardioids_in_simulated_rooms_beat_the_srp_of_pyroomacoustics() -> None:
    pra = pytest.importorskip("pyroomacoustics")
    from bench.doa_rooms import CAPSULES, RADIUS_M, add_noise, simulate, speech_clips, talker

    ours, peers = [], []
    engine = pra.doa.algorithms["SRP"](
        RADIUS_M * CAPSULES.T, 24000, 512, c=343.0, num_src=1, dim=3, n_grid=642
    )
    for seed in (210, 211, 212):
        rng = np.random.default_rng(seed)
        scene = simulate(rng, 0.4, [talker(speech_clips(), 2.4, rng)])
        x = add_noise(scene.capsules, 20, rng)
        truth = unit(scene.azimuth_deg[0], scene.elevation_deg[0])
        got = estimate_array_azimuth(x, RADIUS_M * CAPSULES, 24000, pattern=0.5)
        ours.append(np.degrees(np.arccos(truth @ unit(got.azimuth_deg, got.elevation_deg))))
        spectra = pra.transform.stft.analysis(x, 512, 256, win=pra.hann(512)).transpose(2, 1, 0)
        engine.locate_sources(spectra, freq_range=[200.0, 4000.0])
        theirs = unit(np.degrees(engine.azimuth_recon[0]), 90 - np.degrees(engine.colatitude_recon[0]))
        peers.append(np.degrees(np.arccos(np.clip(truth @ theirs, -1, 1))))
    assert np.mean(ours) < 12
    assert np.mean(ours) < np.mean(peers)


def test_no_direction_in_independent_noise_or_silence() -> None:
    noise = 0.1 * np.random.default_rng(3).standard_normal((2 * FS, 4)).astype(np.float32)
    got = estimate_array_azimuth(noise, SQUARE, FS)
    assert got.confidence < 0.1
    assert got.uncertainty_deg > 40
    assert not estimate_array_doa(noise, SQUARE, FS).active.any()
    silent = estimate_array_azimuth(np.zeros((FS, 4), np.float32), SQUARE, FS)
    assert np.isnan(silent.azimuth_deg)
    assert silent.confidence == 0
    assert array_azimuths(np.zeros((FS, 4), np.float32), SQUARE, FS) == []


def test_two_alternating_talkers() -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [plane_wave(SQUARE, az, 0, 0.1 * rng.standard_normal(FS // 2)) for az in (40, -100, 40, -100, 40)]
    )
    found = array_azimuths(x, SQUARE, FS)
    assert [round(f.azimuth_deg) for f in found] == [40, -100]
    assert found[0].confidence == pytest.approx(0.6, abs=0.1)


def test_encoder_of_a_tetrahedron_of_cardioids_is_ambisonic() -> None:
    """In the middle of the band the encoder must give the AmbiX gains of any direction."""
    fir = encoder_filters(TETRA * 0.7, 24000, pattern=0.5)
    k = np.arange(fir.shape[2]) - fir.shape[2] // 2
    for azimuth, elevation in [(0, 0), (50, 30), (-120, -60)]:
        u = unit(azimuth, elevation)
        for f in (300.0, 600.0, 1000.0):
            filters = fir @ np.exp(-2j * np.pi * f * k / 24000)
            look = TETRA / np.linalg.norm(TETRA, axis=1, keepdims=True)
            capsules = (0.5 + 0.5 * look @ u) * np.exp(2j * np.pi * f / 343 * (TETRA * 0.7 @ u))
            got = filters @ capsules
            want = np.array([1, u[1], u[2], u[0]])
            # Second-order leakage grows with frequency; by symmetry it is in quadrature for the most part.
            np.testing.assert_allclose(got.real, want, atol=0.06)
            if f <= 600:
                np.testing.assert_allclose(got, want, atol=0.12)


def test_square_to_foa_keeps_time_level_and_azimuth() -> None:
    t = np.arange(FS) / FS
    mono = 0.1 * np.sin(2 * np.pi * 600 * t)
    foa = array_to_foa(plane_wave(SQUARE, 30, 0, mono), SQUARE, FS)
    middle = slice(2000, 14000)
    np.testing.assert_allclose(foa[middle, 0], mono[middle], atol=0.004)
    np.testing.assert_allclose(foa[middle, 3], np.cos(np.radians(30)) * mono[middle], atol=0.006)
    np.testing.assert_allclose(foa[middle, 1], np.sin(np.radians(30)) * mono[middle], atol=0.006)
    assert not foa[:, 2].any()
    noise = 0.1 * np.random.default_rng(5).standard_normal(FS)
    got = steady_direction(array_to_foa(plane_wave(SQUARE, -50, 0, noise), SQUARE, FS), FS)
    assert turn(got.azimuth_deg, -50) < 3


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="metres"):
        estimate_array_azimuth(np.zeros((FS, 4), np.float32), 1000 * SQUARE, FS)
    with pytest.raises(InputError, match="does not match 4 capsules"):
        estimate_array_azimuth(np.zeros((FS, 6), np.float32), SQUARE, FS)
    with pytest.raises(InputError, match="capsule 0 points nowhere"):
        estimate_array_azimuth(
            np.zeros((FS, 3), np.float32), np.array([[0, 0, 0], [0.02, 0, 0], [-0.02, 0, 0]]), FS, pattern=0.5
        )
    with pytest.raises(InputError, match=r"pattern must be from 0 .* not 1.5"):
        estimate_array_azimuth(np.zeros((FS, 4), np.float32), SQUARE, FS, pattern=1.5)
    with pytest.raises(InputError, match=r"shape of positions_m, \(4, 3\), not \(4, 2\)"):
        estimate_array_azimuth(np.zeros((FS, 4), np.float32), SQUARE, FS, SQUARE[:, :2], 0.5)
    with pytest.raises(InputError, match="int16"):
        array_to_foa(np.zeros((FS, 4), np.int16), SQUARE, FS)


needs_data = pytest.mark.skipif(
    not RESPEAKER.is_dir(), reason="labelled ReSpeaker recordings are not here (HEARTH_SHARED_DATA)"
)


# Limits in degrees grow with distance (reverberation); the label of every file is azimuth 180.
@needs_data
@pytest.mark.parametrize("distance,limit", [("50cm", 3.0), ("150cm", 6.0), ("250cm", 8.0)])
def test_real_talker_at_the_labelled_azimuth(distance: str, limit: float) -> None:
    files = sorted((RESPEAKER / "a180e20" / distance).glob("*.wav"))
    assert files
    for file in files:
        x, fs = soundfile.read(file, dtype="float32")
        got = estimate_array_azimuth(x, SQUARE, fs)
        assert turn(got.azimuth_deg, 180) < limit
        through_foa = steady_direction(array_to_foa(x, SQUARE, fs), fs)
        assert turn(through_foa.azimuth_deg, 180) < 10


@needs_data
def test_two_real_talkers_at_their_labelled_azimuths() -> None:
    (file,) = (RESPEAKER / "a180e20_a225e35").glob("*/*.wav")
    x, fs = soundfile.read(file, dtype="float32")
    found = array_azimuths(x, SQUARE, fs)
    assert len(found) == 2
    for label in (180, 225):
        assert min(turn(f.azimuth_deg, label) for f in found) < 10
