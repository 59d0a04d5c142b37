"""A-weighting against the published table, time weighting against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

# IEC 61672-1, table of weights A at nominal third-octave frequencies and class 1 limits (edition of 2013).
INFINITE = float("inf")
TABLE = (
    (10, -70.4, 3.0, INFINITE), (12.5, -63.4, 2.5, INFINITE), (16, -56.7, 2.0, 4.0), (20, -50.5, 2.0, 2.0),
    (25, -44.7, 2.0, 1.5), (31.5, -39.4, 1.5, 1.5), (40, -34.6, 1.0, 1.0), (50, -30.2, 1.0, 1.0),
    (63, -26.2, 1.0, 1.0), (80, -22.5, 1.0, 1.0), (100, -19.1, 1.0, 1.0), (125, -16.1, 1.0, 1.0),
    (160, -13.4, 1.0, 1.0), (200, -10.9, 1.0, 1.0), (250, -8.6, 1.0, 1.0), (315, -6.6, 1.0, 1.0),
    (400, -4.8, 1.0, 1.0), (500, -3.2, 1.0, 1.0), (630, -1.9, 1.0, 1.0), (800, -0.8, 1.0, 1.0),
    (1000, 0.0, 0.7, 0.7), (1250, 0.6, 1.0, 1.0), (1600, 1.0, 1.0, 1.0), (2000, 1.2, 1.0, 1.0),
    (2500, 1.3, 1.0, 1.0), (3150, 1.2, 1.0, 1.0), (4000, 1.0, 1.0, 1.0), (5000, 0.5, 1.5, 1.5),
    (6300, -0.1, 1.5, 2.0), (8000, -1.1, 1.5, 2.5), (10000, -2.5, 2.0, 3.0), (12500, -4.3, 2.0, 5.0),
    (16000, -6.6, 2.5, 16.0),
)  # fmt: skip


def exact(nominal):
    """The base-ten third-octave frequency that a nominal one stands for."""
    return 1000 * 10 ** (round(10 * np.log10(nominal / 1000)) / 10)


def tone(hz, fs, seconds, amplitude=1.0):
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(round(fs * seconds)) / fs))[:, None]


def test_the_formula_is_the_table():
    for nominal, weight, _, _ in TABLE:
        assert dsp.a_weighting_db(exact(nominal)) == pytest.approx(weight, abs=0.051), nominal


@pytest.mark.parametrize("fs", [24000, 48000])
def test_the_filter_is_class_1_at_every_third_octave_in_reach(fs):
    """From 10 Hz to 10 kHz at 24 kHz (12.5 kHz is no longer in the signal), to 16 kHz at 48 kHz."""
    rows = [row for row in TABLE if exact(row[0]) < fs / 2]
    assert rows[-1][0] == (10000 if fs == 24000 else 16000)
    for nominal, weight, above, below in rows:
        hz = exact(nominal)
        settle, measure = fs // 2, round(max(1.0, 20 / hz) * fs)
        y = dsp.AWeighting(fs, 1).push(tone(hz, fs, (settle + measure) / fs))[settle:, 0]
        t = np.arange(len(y)) / fs
        basis = np.stack([np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t)], axis=1)
        got = 20 * np.log10(np.hypot(*np.linalg.lstsq(basis, y, rcond=None)[0]))
        assert -below <= got - weight <= above, (nominal, got)
        assert abs(got - weight) < 0.15, (nominal, got)  # well inside


def test_level_of_a_tone_and_its_calibration():
    x = np.concatenate([tone(1000, 24000, 2, 0.1), tone(100, 24000, 2, 0.1)], axis=1)
    assert dsp.a_weighted_level(x, 24000) == pytest.approx([-23.01, -23.01 - 19.1], abs=0.1)


@pytest.mark.parametrize(("ms", "fast", "slow"), [(500, -0.1, -4.1), (200, -1.0, -7.4), (50, -4.8, -13.1)])
def test_tonebursts_read_what_the_standard_says(ms, fast, slow):
    """IEC 61672-1, reference 4 kHz toneburst responses relative to the steady tone."""
    fs = 48000
    x = np.concatenate([tone(4000, fs, ms / 1000), np.zeros((fs, 1))])
    readings = dsp.LevelMeter(fs, 1).push(x)
    steady = dsp.a_weighted_level(tone(4000, fs, 2), fs)[0]
    assert max(r.a_fast_dbfs[0] for r in readings) - steady == pytest.approx(fast, abs=0.1)
    assert max(r.a_slow_dbfs[0] for r in readings) - steady == pytest.approx(slow, abs=0.1)


def test_true_peak_is_between_the_samples():
    fs = 24000
    x = np.sin(2 * np.pi * fs / 4 * np.arange(fs) / fs + np.pi / 4)[:, None]  # all samples at +-0.707
    assert np.max(np.abs(x)) == pytest.approx(0.5**0.5)
    assert dsp.true_peak_dbfs(x, fs)[0] == pytest.approx(0, abs=0.1)
    meter = dsp.LevelMeter(fs, 1, true_peak=True)
    reading = meter.push(x)[5]
    assert reading.peak_dbfs[0] == pytest.approx(-3.01, abs=0.01)
    assert reading.true_peak_dbfs[0] == pytest.approx(0, abs=0.1)


def test_block_size_does_not_matter():
    rng = np.random.default_rng(1)
    x = (0.1 * rng.standard_normal((20000, 4))).astype(np.float32)
    whole = dsp.LevelMeter(24000, 4, true_peak=True).push(x)
    assert [r.t_s for r in whole] == pytest.approx(np.arange(8) * 0.1)
    meter, parts, at = dsp.LevelMeter(24000, 4, true_peak=True), [], 0
    while at < len(x):
        size = int(rng.integers(1, 3000))
        parts += meter.push(x[at : at + size])
        at += size
    for a, b in zip(whole, parts, strict=True):
        for name in ("peak_dbfs", "true_peak_dbfs", "rms_dbfs", "a_rms_dbfs", "a_fast_dbfs", "a_slow_dbfs"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
    weighting = dsp.AWeighting(24000, 4)
    chunks = [weighting.push(x[:7]), weighting.push(x[7:7]), weighting.push(x[7:])]
    assert np.array_equal(np.concatenate(chunks), dsp.AWeighting(24000, 4).push(x))


def test_refusals():
    with pytest.raises(InputError, match="3999"):
        dsp.AWeighting(3999, 1)
    with pytest.raises(InputError, match="int16"):
        dsp.LevelMeter(24000, 4).push(np.zeros((10, 4), np.int16))
    with pytest.raises(InputError, match="NaN"):
        dsp.a_weighted_level(np.full((10, 1), np.nan), 24000)
    with pytest.raises(InputError, match="no frames"):
        dsp.a_weighted_level(np.zeros((0, 1)), 24000)
    with pytest.raises(InputError, match=r"hop_s .* 0"):
        dsp.LevelMeter(24000, 1, hop_s=0)
