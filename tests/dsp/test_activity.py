"""Activity: silence, hum, speech over hum."""

from __future__ import annotations

import numpy as np
import pytest

import dsp

FS = 24000
RNG = np.random.default_rng(2)


def hum(seconds, level=0.05):
    t = np.arange(int(FS * seconds)) / FS
    return level * sum(np.sin(2 * np.pi * 120 * k * t + k) / k for k in range(1, 12))


def syllables(seconds):
    """Voiced syllables at 4 Hz with formant-like bands: the modulation of speech."""
    t = np.arange(int(FS * seconds)) / FS
    carrier = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 30))
    return 0.05 * carrier * np.maximum(0, np.sin(2 * np.pi * 2 * t)) ** 2


def share(activities, start, end):
    return np.mean([a.active for a in activities if start <= a.t_s < end])


def test_hum_becomes_floor_and_speech_over_it_is_active():
    x = hum(8) + 1e-4 * RNG.standard_normal(8 * FS)
    x[4 * FS : 6 * FS] += syllables(2)
    got = dsp.ActivityDetector(FS).push(x.astype(np.float32))
    assert len(got) == 400
    assert got[50].t_s == pytest.approx(1.0)
    assert share(got, 2.0, 4.0) == 0
    assert share(got, 4.0, 6.0) > 0.6
    assert share(got, 6.4, 8.0) == 0
    before = [a for a in got if 2 <= a.t_s < 4]
    assert np.mean([a.level_dbfs - a.floor_dbfs for a in before]) == pytest.approx(0, abs=2)


def test_a_hum_that_starts_is_active_then_floor():
    x = np.concatenate([np.zeros(2 * FS), hum(6)]) + 1e-4 * RNG.standard_normal(8 * FS)
    got = dsp.ActivityDetector(FS).push(x)
    assert share(got, 0.2, 2.0) == 0
    assert share(got, 2.1, 2.9) == 1
    assert share(got, 4.5, 8.0) == 0


@pytest.mark.parametrize("level", [0.0, 1e-5, 1e-3, 0.1])
def test_noise_and_silence_are_not_active(level):
    got = dsp.ActivityDetector(FS).push(level * RNG.standard_normal(60 * FS))
    assert share(got, 0.5, 60) < 0.002


def test_level_of_a_sine():
    x = 0.1 * np.sin(2 * np.pi * 1000 * np.arange(FS) / FS)
    assert dsp.ActivityDetector(FS).push(x)[-1].level_dbfs == pytest.approx(-23.01, abs=0.05)


def test_block_size_does_not_matter():
    x = (hum(3) + syllables(3)).astype(np.float32)[:, None].repeat(4, axis=1)
    whole = dsp.ActivityDetector(FS).push(x)
    detector, parts, at = dsp.ActivityDetector(FS), [], 0
    while at < len(x):
        size = int(RNG.integers(1, 3000))
        parts += detector.push(x[at : at + size])
        at += size
    assert parts == whole


@pytest.mark.parametrize("fs", [8000, 16000, 44100, 48000])
def test_other_rates(fs):
    got = dsp.ActivityDetector(fs).push(0.01 * RNG.standard_normal(3 * fs))
    assert len(got) == 3 * fs // round(0.02 * fs)
    assert share(got, 0.5, 3) == 0
