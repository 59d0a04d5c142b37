"""Onsets of clicks and of speech at known times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

FS = 24000
SPEECH = Path(__file__).parents[2] / "capture" / "virtual" / "speech"


def noise(seconds, level, seed):
    return level * np.random.default_rng(seed).standard_normal(round(FS * seconds))


def errors_ms(found, truth):
    """Distance of each true start from the nearest onset."""
    return np.array([np.abs(found - t).min() for t in truth]) * 1e3


@pytest.mark.parametrize("level", [1e-4, 1e-2])
def test_clicks_are_found_within_two_ms_and_nothing_else(level):
    rng = np.random.default_rng(1)
    x, truth = noise(30, level, 2), np.arange(1, 29, 0.4) + rng.uniform(0, 0.15, 70)
    for t in truth:
        x[round(t * FS) : round(t * FS) + 24] += 0.5 * rng.standard_normal(24) * np.exp(-np.arange(24) / 8)
    found = dsp.onsets(x, FS)
    assert errors_ms(found, truth).max() < 2
    assert len(found) == len(truth)


@pytest.mark.parametrize("name", ["talk_1_joe", "turn_on_light_right_espeak"])
def test_speech_that_starts_at_a_known_time_is_found_within_ten_ms(name):
    """Loud pieces of real speech, faded in over 3 ms, in noise 40 dB below their peaks."""
    soundfile = pytest.importorskip("soundfile")
    s, fs = soundfile.read(SPEECH / f"{name}.flac")
    s *= 0.3 / np.abs(s).max()
    rng = np.random.default_rng(3)
    x, truth = 0.003 * rng.standard_normal(20 * fs), []
    for k in range(20):
        piece = np.zeros(1)
        while np.sqrt(np.mean(piece[: fs // 50] ** 2)) < 0.03:
            at = int(rng.integers(0, len(s) - fs // 4))
            piece = s[at : at + fs // 4].copy()
        piece[: fs // 333] *= np.linspace(0, 1, fs // 333)
        piece[-fs // 50 :] *= np.linspace(1, 0, fs // 50)
        start = round((0.6 + 0.95 * k + rng.uniform(0, 0.2)) * fs)
        x[start : start + len(piece)] += piece
        truth.append(start / fs)
    off = errors_ms(dsp.onsets(x, fs), truth)
    assert np.median(off) < 5
    assert np.mean(off <= 10) >= 0.95


def test_steady_noise_and_hum_have_no_onsets():
    t = np.arange(60 * FS) / FS
    hum = 0.05 * sum(np.sin(2 * np.pi * 120 * k * t + k) / k for k in range(1, 12))
    assert len(dsp.onsets(noise(60, 0.01, 4), FS)) <= 1
    assert len(dsp.onsets(hum + noise(60, 1e-3, 5), FS)) <= 1
    assert len(dsp.onsets(np.zeros(2 * FS), FS)) == 0


def test_a_beep_over_hum_is_told_in_time_and_its_end_is_none():
    t = np.arange(3 * FS) / FS
    x = noise(3, 1e-3, 6) + 0.01 * np.sin(2 * np.pi * 120 * t)
    x[FS : FS + 4800] += 0.05 * np.sin(2 * np.pi * 2500 * t[:4800])  # starts and stops at once
    detector = dsp.OnsetDetector(FS)
    told = [(at / FS, o) for at in range(0, len(x), 240) for o in detector.push(x[at : at + 240])]
    assert [o.t_s for _, o in told] == pytest.approx([1.0], abs=0.003)
    assert told[0][0] + 0.01 - 1.0 < 0.06  # known within 60 ms


def test_block_size_does_not_matter():
    x = noise(6, 0.01, 7)
    x[FS :: FS // 2] += 0.5
    foa = x.astype(np.float32)[:, None].repeat(4, axis=1)
    whole = dsp.OnsetDetector(FS).push(foa)
    assert len(whole) >= 9
    detector, parts, at, rng = dsp.OnsetDetector(FS), [], 0, np.random.default_rng(8)
    while at < len(foa):
        size = int(rng.integers(0, 700))
        parts += detector.push(foa[at : at + size])
        at += size
    assert parts == whole


@pytest.mark.parametrize("fs", [8000, 16000, 44100, 48000])
def test_other_rates(fs):
    x = 1e-3 * np.random.default_rng(9).standard_normal(3 * fs)
    x[round(1.5 * fs) : round(1.7 * fs)] += 0.1 * np.random.default_rng(10).standard_normal(round(0.2 * fs))
    assert dsp.onsets(x, fs) == pytest.approx([1.5], abs=0.003)


def test_refusals():
    with pytest.raises(InputError, match="4000"):
        dsp.OnsetDetector(4000)
    with pytest.raises(InputError, match="threshold_db"):
        dsp.OnsetDetector(FS, 0)
    with pytest.raises(InputError, match="NaN"):
        dsp.onsets(np.full(100, np.nan), FS)
    with pytest.raises(InputError, match="int16"):
        dsp.onsets(np.zeros(100, np.int16), FS)
