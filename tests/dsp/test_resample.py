"""Resampling against closed forms, soxr and the properties that streaming needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsp
from dsp.errors import InputError

RATES = [(48000, 24000), (96000, 24000), (192000, 24000), (44100, 24000), (24000, 16000), (16000, 24000)]
NOISE = (np.random.default_rng(7).standard_normal((6001, 4)) * 0.2).astype(np.float32)


def db(amplitude):
    return 20 * np.log10(np.maximum(np.abs(amplitude), 1e-15))


def tone(hz, fs, seconds, amplitude=1.0):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(fs * seconds)) / fs)


def residual(y, fs, hz):
    """(amplitude of the tone in y, RMS of all the rest), by least squares in the steady middle."""
    y = np.asarray(y, np.float64)[600:-600]
    t = np.arange(len(y)) / fs
    basis = np.stack([np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t), np.ones_like(t)], axis=1)
    weights, *_ = np.linalg.lstsq(basis, y, rcond=None)
    return float(np.hypot(weights[0], weights[1])), float(np.std(y - basis @ weights))


def pushed(resampler, x, sizes):
    parts, at = [], 0
    while at < len(x):
        size = next(sizes)
        parts.append(resampler.push(x[at : at + size]))
        at += size
    return [*parts, resampler.flush()]


@pytest.mark.parametrize("quality", ["standard", "high"])
@pytest.mark.parametrize(("fs_in", "fs_out"), RATES)
def test_any_chunking_gives_the_same_bits_as_one_shot(fs_in, fs_out, quality):
    whole = dsp.resample(NOISE, fs_in, fs_out, quality)
    rng = np.random.default_rng(3)
    for choices in ([1], [7, 1, 480, 3, 1501], [511, 512, 513, 1024, 2]):
        x = NOISE[:1200] if choices == [1] else NOISE
        r = dsp.Resampler(fs_in, fs_out, 4, quality)
        parts = pushed(r, x, iter(lambda c=choices: int(rng.choice(c)), None))
        got = np.concatenate(parts)[r.delay_frames :]
        expected = whole if len(x) == len(NOISE) else dsp.resample(x, fs_in, fs_out, quality)
        assert np.array_equal(got, expected)


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 1300), min_size=1, max_size=12), channels=st.integers(1, 5))
def test_48_to_24_counts_and_bits_for_random_chunks(sizes, channels):
    rng = np.random.default_rng(len(sizes))
    x = rng.standard_normal((sum(sizes), channels)).astype(np.float32)
    r = dsp.Resampler(48000, 24000, channels)
    at, parts = 0, []
    for size in sizes:
        parts.append(r.push(x[at : at + size]))
        at += size
        assert sum(len(p) for p in parts) == at // 2
    parts.append(r.flush())
    assert np.array_equal(np.concatenate(parts)[r.delay_frames :], dsp.resample(x, 48000, 24000))


@pytest.mark.parametrize(("fs_in", "fs_out"), [*RATES, (48000, 16000), (44100, 48000)])
@pytest.mark.parametrize("frames", [0, 1, 2, 999, 1000])
def test_length_is_the_ceiling_of_the_ratio(fs_in, fs_out, frames):
    assert dsp.resample(np.zeros((frames, 2), np.float32), fs_in, fs_out).shape == (
        -(-frames * fs_out // fs_in),
        2,
    )


@pytest.mark.parametrize("quality", ["standard", "high"])
@pytest.mark.parametrize(("fs_in", "fs_out"), RATES)
def test_a_tone_comes_out_where_the_closed_form_puts_it(fs_in, fs_out, quality):
    y = dsp.resample(tone(1234.5, fs_in, 0.25), fs_in, fs_out, quality)
    expected = tone(1234.5, fs_out, 0.25)[: len(y)]
    assert np.max(np.abs(y[300:-300] - expected[300 : len(y) - 300])) < 2e-5


@pytest.mark.parametrize(("fs_in", "fs_out"), [(48000, 24000), (96000, 24000), (44100, 24000)])
def test_passband_is_flat_to_10_khz(fs_in, fs_out):
    for hz in (40.0, 500.0, 3000.0, 7000.0, 9000.0, 10000.0):
        amplitude, _ = residual(dsp.resample(tone(hz, fs_in, 0.3), fs_in, fs_out), fs_out, hz)
        assert abs(db(amplitude)) < 0.001, hz


@pytest.mark.parametrize(("quality", "first_hz", "limit"), [("standard", 13000, -100), ("high", 12100, -120)])
@pytest.mark.parametrize("fs_in", [48000, 44100, 96000])
def test_no_input_tone_above_the_edge_leaves_an_alias(quality, first_hz, limit, fs_in):
    for hz in np.linspace(first_hz, 0.499 * fs_in, 30):
        y = dsp.resample(tone(hz, fs_in, 0.15), fs_in, 24000, quality)[400:-400].astype(np.float64)
        worst = np.max(np.abs(np.fft.rfft(y * np.hanning(len(y))))) / (0.25 * len(y))
        assert db(worst) <= limit, f"{hz:.0f} Hz leaves {db(worst):.1f} dBc"


@pytest.mark.parametrize(("fs_in", "fs_out"), [(48000, 24000), (44100, 24000)])
def test_thd_and_noise_at_997_hz(fs_in, fs_out):
    amplitude, rest = residual(dsp.resample(tone(997, fs_in, 2.0, 0.9), fs_in, fs_out), fs_out, 997)
    assert db(rest / (amplitude / np.sqrt(2))) < -120


def test_high_quality_agrees_with_soxr_below_10_khz():
    soxr = pytest.importorskip("soxr")
    t = np.arange(24000) / 48000
    x = np.stack([np.sin(2 * np.pi * f * t + f) * 0.2 for f in (200, 1700, 6100, 9900)], axis=1)
    ours = dsp.resample(x.astype(np.float32), 48000, 24000, "high")
    theirs = soxr.resample(x, 48000, 24000, quality="VHQ")
    assert np.max(np.abs(ours - theirs)[500:-500]) < 1e-5


def test_channels_are_treated_alike():
    x = np.repeat(NOISE[:, :1], 4, axis=1)
    for fs_in, fs_out in RATES:
        y = dsp.resample(x, fs_in, fs_out)
        assert all(np.array_equal(y[:, 0], y[:, c]) for c in range(4))


def test_the_delay_is_what_it_says_and_short():
    x = np.zeros((4800, 1), np.float32)
    x[2400] = 1.0
    r = dsp.Resampler(48000, 24000, 1)
    y = np.concatenate([r.push(x), r.flush()])
    assert np.argmax(np.abs(y[:, 0])) == 1200 + r.delay_frames
    assert r.delay_s <= 0.003
    assert r.delay_s == r.delay_frames / 24000


def test_integers_are_exact():
    rng = np.random.default_rng(5)
    i24 = rng.integers(-(2**23), 2**23, (3000, 4), dtype=np.int32) << 8
    assert np.array_equal(
        dsp.resample(i24, 48000, 24000), dsp.resample((i24 / 2.0**31).astype(np.float32), 48000, 24000)
    )
    i16 = rng.integers(-(2**15), 2**15, (3000, 4)).astype(np.int16)
    assert np.array_equal(
        dsp.resample(i16, 48000, 24000), dsp.resample((i16 / 2.0**15).astype(np.float32), 48000, 24000)
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_is_refused_and_leaves_the_state_alone(bad):
    r, clean = dsp.Resampler(48000, 24000, 4), dsp.Resampler(48000, 24000, 4)
    first = r.push(NOISE[:501])
    assert np.array_equal(first, clean.push(NOISE[:501]))
    broken = NOISE[501:1000].copy()
    broken[-1, 3] = bad
    with pytest.raises(InputError, match="1 samples are NaN"):
        r.push(broken)
    assert np.array_equal(r.push(NOISE[501:1000]), clean.push(NOISE[501:1000]))


def test_nan_can_be_flagged_instead():
    broken = NOISE[:1000].copy()
    broken[10, 1] = np.nan
    zeroed = broken.copy()
    zeroed[10, 1] = 0
    r = dsp.Resampler(48000, 24000, 4, on_nonfinite="flag")
    got = np.concatenate([r.push(broken), r.flush()])[r.delay_frames :]
    assert r.nonfinite_samples == 1
    assert np.array_equal(got, dsp.resample(zeroed, 48000, 24000))


def test_flush_starts_anew():
    r = dsp.Resampler(44100, 24000, 4)
    first = np.concatenate([r.push(NOISE), r.flush()])
    assert np.array_equal(first, np.concatenate([r.push(NOISE), r.flush()]))


def test_views_and_read_only_arrays_are_fine():
    frozen = NOISE.copy()
    frozen.flags.writeable = False
    assert np.array_equal(dsp.resample(frozen, 48000, 24000), dsp.resample(NOISE, 48000, 24000))
    assert np.array_equal(
        dsp.resample(NOISE[::2], 48000, 24000), dsp.resample(NOISE[::2].copy(), 48000, 24000)
    )
    assert np.array_equal(
        dsp.resample(NOISE.astype(np.float64), 48000, 24000), dsp.resample(NOISE, 48000, 24000)
    )


@pytest.mark.parametrize(
    ("rate", "named"),
    [
        (np.nan, "not nan"),
        (np.inf, "not inf"),
        (-np.inf, "not -inf"),
        ("48000", "not '48000'"),
        (0, "not 0"),
        (-48000, "not -48000"),
        (44100.5, "not 44100.5"),
        (None, "not None"),
        ([48000], r"not \[48000\]"),
        (True, "not True"),
    ],
)
def test_what_is_no_rate_is_refused_on_both_sides(rate, named):
    for rates in ((rate, 24000), (48000, rate)):
        with pytest.raises(InputError, match=f"sample rate .* {named}"):
            dsp.resample(np.zeros((10, 1)), *rates)


def test_a_whole_float_is_a_rate():
    assert np.array_equal(dsp.resample(NOISE, np.float64(48000), 24000.0), dsp.resample(NOISE, 48000, 24000))


def test_wrong_use_is_refused_with_the_value_in_the_message():
    with pytest.raises(InputError, match="0"):
        dsp.Resampler(0, 24000, 4)
    with pytest.raises(InputError, match="draft"):
        dsp.Resampler(48000, 24000, 4, quality="draft")
    with pytest.raises(InputError, match=r"\(10, 3\)"):
        dsp.Resampler(48000, 24000, 4).push(np.zeros((10, 3), np.float32))
    with pytest.raises(InputError, match=r"\(4, 480\).*x\.T"):
        dsp.Resampler(48000, 24000, 4).push(np.zeros((4, 480), np.float32))
    with pytest.raises(InputError, match=r"\(4, 48000\).*x\.T"):
        dsp.resample(np.zeros((4, 48000), np.float32), 48000, 24000)
    with pytest.raises(InputError, match="complex"):
        dsp.Resampler(48000, 24000, 4).push(np.zeros((10, 4), np.complex64))
    with pytest.raises(InputError, match="AsyncResampler"):
        dsp.resample(np.zeros((10, 1)), 48000, 47999)


def test_the_stored_filter_is_the_designed_one() -> None:
    from dsp.resample import designed_half_band, half_band_taps

    np.testing.assert_allclose(half_band_taps(38, 11 / 48), designed_half_band(38, 11 / 48), atol=1e-9)
