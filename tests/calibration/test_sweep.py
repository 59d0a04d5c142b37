"""Sweeps: an impulse comes back as an impulse, distortion stays before it, drift is the one that was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import fftconvolve

import dsp
from calibration.sweep import Sweep, deconvolve, estimate_drift, find_sweeps, remove_drift
from dsp.errors import InputError

FS = 24000
SPEECH = Path(__file__).resolve().parents[2] / "capture" / "virtual" / "speech"


def played(sweep: Sweep, ppm: float, before_s: float = 0.5, after_s: float = 0.5) -> np.ndarray:
    """The sweep as a player slow by `ppm` plays it, from its formula: not resampled."""
    t = np.arange(round((before_s + sweep.seconds * 1.001 + after_s) * sweep.fs)) / sweep.fs - before_s
    own = t / (1 + ppm * 1e-6)
    end = sweep.rate_s * np.log(min(sweep.high_hz, 0.46 * sweep.fs) / sweep.low_hz)
    on = (own > 0) & (own < end)
    phase = 2 * np.pi * sweep.low_hz * sweep.rate_s * np.expm1(np.clip(own, 0, end) / sweep.rate_s)
    fade = np.clip(own / sweep.fade_s, 0, 1) * np.clip((end - own) / sweep.fade_s, 0, 1)
    return np.where(on, np.sin(phase), 0.0) * fade


def test_a_known_response_comes_back_in_band():
    rng = np.random.default_rng(4)
    sweep = Sweep(FS, 1.0, 100.0, 10000.0)
    response = np.zeros((400, 2))
    response[40, 0], response[47, 1], response[150] = 1.0, 0.5, -0.3
    recorded = np.stack([fftconvolve(sweep.signal, response[:, c]) for c in range(2)], axis=1)
    recorded += 1e-4 * rng.standard_normal(recorded.shape)
    found = deconvolve(recorded, sweep)[len(sweep.signal) - 1 - 400 :][:1200]  # what is cut rings a little
    whole = np.pad(response, ((400, 400), (0, 0)))
    f = np.fft.rfftfreq(1200, 1 / FS)
    band = (f > 400) & (f < 8000)
    want, got = np.fft.rfft(whole, axis=0)[band], np.fft.rfft(found, axis=0)[band]
    assert np.abs(got - want).max() < 0.05
    assert np.argmax(np.abs(found[:, 0])) == 440 and np.argmax(np.abs(found[:, 1])) == 447


def test_harmonic_distortion_lies_before_the_response():
    sweep = Sweep(FS, 2.0, 100.0, 10000.0)
    x = np.concatenate([np.zeros(2400), sweep.signal + 0.2 * sweep.signal**2, np.zeros(2400)])
    found = np.abs(deconvolve(x, sweep)[:, 0])
    start = 2400 + len(sweep.signal) - 1
    # The second harmonic comes where the sweep is an octave lower: L ln 2 earlier (Farina 2000).
    second = start - round(sweep.rate_s * np.log(2) * FS)
    before = slice(second - 100, second + 100)
    assert found[before].max() > 0.03
    assert found[start + 100 : start + 2000].max() < 0.005


def test_sweeps_are_found_where_they_begin():
    rng = np.random.default_rng(1)
    sweep = Sweep(FS, 0.5, 150.0, 9000.0)
    x = 3e-3 * rng.standard_normal(6 * FS)
    for start in (10000, 60001, 110002):
        x[start : start + len(sweep.signal)] += 0.1 * sweep.signal
    assert np.abs(find_sweeps(x, sweep) * FS - [10000, 60001, 110002]).max() <= 1


def test_speech_between_soft_and_loud_sweeps_is_none():
    """Sweeps 14 dB apart, as from 0.5 and 2.5 m, with recorded speech as loud as the softer one."""
    sweep = Sweep(FS, 1.0, 120.0, 10500.0)
    speech, fs = soundfile.read(sorted(SPEECH.glob("*.flac"))[0], dtype="float64", always_2d=True)
    talk = np.tile(dsp.resample(speech[:, 0], fs, FS), 12)[: 12 * FS]
    x = 0.05 * talk / np.abs(talk).max() + 1e-4 * np.random.default_rng(3).standard_normal(12 * FS)
    for start, level in ((2 * FS, 0.4), (6 * FS, 0.08), (9 * FS, 0.15)):
        x[start : start + len(sweep.signal)] += level * sweep.signal
    assert find_sweeps(x, sweep) == pytest.approx([2.0, 6.0, 9.0], abs=1e-4)


def test_noise_alone_holds_no_sweep():
    x = np.random.default_rng(2).standard_normal(3 * FS)
    assert len(find_sweeps(x, Sweep(FS, 0.5, 150.0, 9000.0))) == 0


@pytest.mark.parametrize("ppm", [-120.0, 0.0, 60.0])
def test_drift_between_player_and_recorder(ppm: float):
    rng = np.random.default_rng(7)
    sweep = Sweep(FS, 2.0, 100.0, 10000.0)
    responses = []
    for _ in range(5):
        room = np.zeros(2400)
        room[20] = 1.0
        room[100 + rng.integers(0, 2000, 30)] += 0.1 * rng.standard_normal(30)
        x = fftconvolve(played(sweep, ppm), room)
        responses.append(deconvolve(x + 1e-3 * rng.standard_normal(len(x)), sweep)[:, 0])
    found, sigma = estimate_drift(responses, sweep)
    assert abs(found - ppm) < 3.0
    assert abs(found - ppm) < 3 * sigma
    if ppm < -100:
        sharp = remove_drift(responses[0], sweep, found)
        assert np.abs(sharp).max() > 1.05 * np.abs(responses[0]).max()


def test_what_cannot_be_a_sweep_is_refused():
    for wrong in ({"fs": 4000}, {"seconds": 0.0}, {"low_hz": 5000.0, "high_hz": 6000.0}, {"fade_s": 9.0}):
        with pytest.raises(InputError):
            Sweep(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="shorter than a sweep"):
        find_sweeps(np.zeros(100), Sweep(FS))
