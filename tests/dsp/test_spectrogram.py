"""Spectrograms against closed forms and scipy."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

FS = 24000
NOISE = np.random.default_rng(6).standard_normal(3 * FS) * 0.05


def sine(hz, amplitude, seconds=1.0):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(FS * seconds)) / FS)


@pytest.mark.parametrize("window", ["hann", "hamming", "blackman", "flattop", "boxcar"])
@pytest.mark.parametrize("level", [0.0, -20.0, -60.0])
def test_a_sine_on_a_bin_reads_its_level(window, level):
    got = dsp.spectrogram(sine(3000, 10 ** (level / 20)), FS, window=window)
    at = np.argmin(np.abs(got.frequencies_hz - 3000))
    assert got.frequencies_hz[at] == 3000
    assert got.power_db[:, at] == pytest.approx(level, abs=0.01)
    assert np.all(np.argmax(got.power_db, axis=1) == at)


@pytest.mark.parametrize("hz", [1003.0, 1010.7, 1015.6])
def test_a_flat_top_reads_any_sine(hz):
    got = dsp.spectrogram(sine(hz, 0.1), FS, window="flattop")
    assert got.power_db.max(axis=1) == pytest.approx(-20, abs=0.02)


def test_times_are_the_middles_of_the_windows():
    x = np.zeros(FS)
    x[7200] = 1.0  # at 0.3 s
    got = dsp.spectrogram(x, FS, window_s=0.02, hop_s=0.005)
    assert got.times_s[0] == pytest.approx(0.01)
    assert got.times_s[np.argmax(got.power_db[:, 50])] == pytest.approx(0.3, abs=1e-9)
    assert len(got.times_s) == len(got.power_db) == (FS - 480) // 120 + 1


def test_scipy_agrees():
    from scipy.signal import spectrogram

    f, t, power = spectrogram(
        NOISE, FS, "hann", nperseg=768, noverlap=768 - 240, detrend=False, scaling="spectrum"
    )
    got = dsp.spectrogram(NOISE, FS)
    assert np.allclose(got.frequencies_hz, f) and np.allclose(got.times_s, t)
    # scipy: mean square of a sine, so half of ours; 0 Hz and fs / 2 are not doubled there
    assert np.allclose(got.power_db[:, 1:-1], 10 * np.log10(2 * power.T)[:, 1:-1], atol=1e-3)


def test_mel_bands_hold_the_power_of_the_signal():
    got = dsp.spectrogram(NOISE, FS, window_s=0.064, mel=40)
    assert got.power_db.shape[1] == 40 and np.all(np.diff(got.frequencies_hz) > 0)
    inside = np.mean(10 ** (got.power_db / 10), axis=0).sum()
    # White noise: the triangles cover all but half of the outermost bands; mean square 1/2 is 0 dB.
    first, last = got.frequencies_hz[0], got.frequencies_hz[-1]
    covered = ((last + FS / 2) / 2 - first / 2) / (FS / 2)
    assert 10 * np.log10(inside) == pytest.approx(10 * np.log10(2 * 0.05**2 * covered), abs=0.1)


def test_a_sine_in_a_mel_band_reads_its_level():
    middles = dsp.spectrogram(NOISE, FS, window_s=0.064, mel=20).frequencies_hz
    got = dsp.spectrogram(sine(middles[12], 0.1), FS, window_s=0.064, mel=20)
    assert got.power_db[:, 12] == pytest.approx(-20, abs=0.3)


def test_block_size_does_not_matter():
    x = np.stack([NOISE, 0.5 * NOISE[::-1]], axis=1).astype(np.float32)
    whole = dsp.spectrogram(x, FS, mel=24)
    assert whole.power_db.shape == (297, 24, 2)
    stream, rows, times, at = dsp.SpectrogramStream(FS, mel=24), [], [], 0
    rng = np.random.default_rng(1)
    while at < len(x):
        size = int(rng.integers(1, 2000))
        part = stream.push(x[at : at + size])
        rows.append(part.power_db)
        times.append(part.times_s)
        at += size
    assert np.array_equal(np.concatenate(rows), whole.power_db)
    assert np.array_equal(np.concatenate(times), whole.times_s)


def test_silence_has_a_floor_and_bad_input_is_refused():
    assert np.all(dsp.spectrogram(np.zeros(FS), FS).power_db == -200)
    assert dsp.spectrogram(np.zeros(10), FS).power_db.shape == (0, 385)
    with pytest.raises(InputError, match="'kaiser'"):
        dsp.spectrogram(NOISE, FS, window="kaiser")
    with pytest.raises(InputError, match=r"hop_s .* 0"):
        dsp.spectrogram(NOISE, FS, hop_s=0)
    with pytest.raises(InputError, match="band 0 lies between two bins"):
        dsp.spectrogram(NOISE, FS, window_s=0.01, mel=200)
    with pytest.raises(InputError, match="int16"):
        dsp.spectrogram(np.zeros(100, np.int16), FS)
    with pytest.raises(InputError, match="NaN"):
        dsp.spectrogram(np.full(1000, np.nan), FS)
