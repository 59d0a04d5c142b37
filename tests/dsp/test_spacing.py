"""Non-coincidence correction against simulated capsules at their places."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError
from dsp.spacing import spaced_response

C = 343.0
RNG = np.random.default_rng(4)
WAVES = RNG.standard_normal((1500, 3))
WAVES /= np.linalg.norm(WAVES, axis=1, keepdims=True)


def capsule_tone(hz, unit, fs, seconds, radius=0.0147):
    """(frames, 4) of cardioids, each hearing the wave earlier by the way to the centre."""
    t = np.arange(round(fs * seconds))[:, None] / fs
    toward = dsp.CAPSULE_DIRECTIONS["a"] @ unit
    return (0.5 * (1 + toward) * np.cos(2 * np.pi * hz * (t + radius * toward / C))).astype(np.float32)


def phasor(x, hz, fs):
    """(4,) complex amplitudes by least squares in the middle."""
    x = x[fs // 100 : -fs // 100]
    t = (np.arange(len(x)) + fs // 100) / fs
    basis = np.stack([np.cos(2 * np.pi * hz * t), np.sin(2 * np.pi * hz * t)], axis=1)
    a, b = np.linalg.lstsq(basis, x.astype(np.float64), rcond=None)[0]
    return a - 1j * b


def filter_response(taps, hz, fs):
    delay = len(taps) // 2
    return np.sum(taps * np.exp(-2j * np.pi * hz / fs * (np.arange(len(taps)) - delay)))


@pytest.mark.parametrize("fs", [24000, 48000])
@pytest.mark.parametrize("hz", [500.0, 2000.0, 5000.0])
def test_the_whole_way_of_a_tone_is_the_theory(fs, hz):
    unit = dsp.direction_to_unit(33, 21)
    foa = dsp.convert(capsule_tone(hz, unit, fs, 0.2), source="a", target="ambix")
    theory = spaced_response(hz, unit)[0, 0]
    assert np.allclose(phasor(foa, hz, fs), theory, atol=1e-5)
    w, v = dsp.spacing_filters(fs)
    gains = np.array([filter_response(h, hz, fs) for h in (w, v, v, v)])
    assert np.allclose(phasor(dsp.correct_spacing(foa, fs), hz, fs), gains * theory, atol=1e-5)


@pytest.mark.parametrize("fs", [16000, 24000, 48000, 96000])
@pytest.mark.parametrize("radius", [0.010, 0.0147, 0.020])
def test_diffuse_sound_becomes_flat(fs, radius):
    w, v = dsp.spacing_filters(fs, radius)
    for hz in (100, 1000, 3000, min(5000, dsp.spacing_limit_hz(radius))):
        power = np.mean(np.abs(spaced_response(hz, WAVES, radius)[0]) ** 2, axis=0)
        w_db = 10 * np.log10(power[0] * abs(filter_response(w, hz, fs)) ** 2)
        v_db = 10 * np.log10(power[1:].sum() * abs(filter_response(v, hz, fs)) ** 2)
        assert abs(w_db) < 0.2 and abs(v_db) < 0.2, (hz, w_db, v_db)


def test_v_comes_back_into_phase_with_w():
    """The active intensity of one wave: |I| / E of an ideal microphone is 1; uncorrected it falls to 0.6 at
    5 kHz.
    """
    w, v = dsp.spacing_filters(24000)
    for hz, least in ((1000, 0.98), (3000, 0.92), (5000, 0.84)):
        r = spaced_response(hz, WAVES)[0]
        r = r * np.array([filter_response(h, hz, 24000) for h in (w, v, v, v)])
        along = np.sum(np.real(np.conj(r[:, :1]) * r[:, 1:]) * WAVES[:, [1, 2, 0]], axis=1)
        energy = np.mean(np.abs(r) ** 2, axis=0).sum() / 2
        assert along.mean() / energy > least, hz


@pytest.mark.parametrize(("hz", "plain_deg", "corrected_deg"), [(2000, 1.4, 2.8), (4000, 5.2, 8.7)])
def test_it_bends_the_intensity_so_directions_are_found_without_it(hz, plain_deg, corrected_deg):
    """The figures of docs/dsp.md: no filter on whole channels takes second-order waves out again."""
    w, v = dsp.spacing_filters(24000)
    r = spaced_response(hz, WAVES)[0]
    gains = np.array([filter_response(h, hz, 24000) for h in (w, v, v, v)])
    for foa, expected in ((r, plain_deg), (r * gains, corrected_deg)):
        intensity = np.real(np.conj(foa[:, :1]) * foa[:, [3, 1, 2]])
        intensity /= np.linalg.norm(intensity, axis=1, keepdims=True)
        bend = np.degrees(np.arccos(np.clip(np.sum(intensity * WAVES, axis=1), -1, 1)))
        assert bend.mean() == pytest.approx(expected, abs=0.2)


def test_any_chunking_gives_the_same_bits_as_one_shot():
    x = RNG.standard_normal((5000, 4)).astype(np.float32)
    whole = dsp.correct_spacing(x, 24000)
    assert whole.shape == x.shape
    corrector = dsp.SpacingCorrector(24000)
    for _ in range(2):  # flush starts anew
        parts, at = [], 0
        while at < len(x):
            size = int(RNG.choice([1, 7, 240, 1024, 1500]))
            parts.append(corrector.push(x[at : at + size]))
            assert len(parts[-1]) == len(x[at : at + size])
            at += size
        assert np.array_equal(np.concatenate([*parts, corrector.flush()])[corrector.delay_frames :], whole)
    assert corrector.delay_s < 0.001


def test_low_frequencies_pass_and_bad_input_is_refused():
    assert [h.sum() for h in dsp.spacing_filters(24000)] == pytest.approx([1, 1])
    assert dsp.spacing_limit_hz(0.0147) == pytest.approx(5833, abs=1)
    with pytest.raises(InputError, match=r"radius .* 14\.7"):
        dsp.correct_spacing(np.zeros((10, 4), np.float32), 24000, radius_m=14.7)
    with pytest.raises(InputError, match="NaN"):
        dsp.correct_spacing(np.full((10, 4), np.nan, np.float32), 24000)
    with pytest.raises(InputError, match=r"\(4, 100\)"):
        dsp.correct_spacing(np.zeros((4, 100), np.float32), 24000)
