"""The steerable resampler against closed-form positions."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from dsp.errors import InputError


def expected_positions(count, ppm_from, ppm_to, ramp_steps):
    """Input position of interpolated frame n for a speed that goes in a straight line and then stays."""
    steps = np.full(count, 1 + ppm_to * 1e-6)
    n = min(ramp_steps, count)
    change = (ppm_to - ppm_from) * 1e-6 / max(ramp_steps, 1)
    steps[:n] = 1 + ppm_from * 1e-6 + change * np.arange(n)
    return np.concatenate([[0.0], np.cumsum(steps)[:-1]])


@pytest.mark.parametrize("fs_in", [48000, 24000])
@pytest.mark.parametrize("hz", [997.0, 5000.0])
def test_thd_and_noise_stay_below_minus_100_db_under_a_ramp(fs_in, hz):
    seconds = 4
    x = np.sin(2 * np.pi * hz * np.arange(seconds * fs_in) / fs_in).astype(np.float32)[:, None]
    r = dsp.AsyncResampler(fs_in, 24000, 1, ppm=-200)
    r.steer(200, over_s=3)
    y = r.push(x)[:, 0].astype(np.float64)
    down = fs_in // 24000
    taps = r._table.shape[1]
    position = expected_positions(down * len(y) + 1, -200, 200, 3 * fs_in) - taps / 2
    late = dsp.Resampler(fs_in, 24000, 1).delay_frames if down > 1 else 0
    at = position[::down][: len(y)]
    at = np.concatenate([np.full(late, at[0]), at])[: len(y)]
    phase = 2 * np.pi * hz * at / fs_in
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)[500:]
    weights, *_ = np.linalg.lstsq(basis, y[500:], rcond=None)
    rest = np.std(y[500:] - basis @ weights)
    amplitude = float(np.hypot(*weights))
    assert 20 * np.log10(rest / (amplitude / np.sqrt(2))) < -100
    assert 20 * np.log10(amplitude) == pytest.approx(0, abs=0.01)
    assert r.ppm == pytest.approx(200, abs=1e-3)


def test_block_size_does_not_matter():
    x = np.random.default_rng(0).standard_normal((20000, 4)).astype(np.float32)
    a, b = dsp.AsyncResampler(48000, 24000, 4, 150), dsp.AsyncResampler(48000, 24000, 4, 150)
    a.steer(-180, over_s=0.2)
    b.steer(-180, over_s=0.2)
    parts, at, rng = [], 0, np.random.default_rng(1)
    while at < len(x):
        size = int(rng.integers(1, 1200))
        parts.append(b.push(x[at : at + size]))
        at += size
    assert np.array_equal(a.push(x), np.concatenate(parts))


@pytest.mark.parametrize("ppm", [-200, 0, 200])
def test_the_count_follows_the_clock(ppm):
    r = dsp.AsyncResampler(48000, 24000, 1, ppm)
    count = sum(len(r.push(np.zeros((4800, 1), np.float32))) for _ in range(200))
    assert count == pytest.approx(480000 / (1 + ppm * 1e-6), abs=2)


def test_an_impulse_arrives_after_the_delay_it_says():
    x = np.zeros((9600, 1), np.float32)
    x[4800] = 1
    r = dsp.AsyncResampler(48000, 24000, 1)
    assert np.argmax(np.abs(r.push(x))) == pytest.approx((4800 / 48000 + r.delay_s) * 24000, abs=1)


@pytest.mark.parametrize(
    ("fs_in", "fs_out"), [(48000, 24000), (44100, 24000), (48000, 47999), (47987, 24000)]
)
@pytest.mark.parametrize("ppm", [-200, 0, 150])
def test_flush_gives_the_end_and_the_count_it_says(fs_in, fs_out, ppm):
    n, hz = 6000, 700.0
    x = np.sin(2 * np.pi * hz * np.arange(n) / fs_in).astype(np.float32)[:, None]
    r = dsp.AsyncResampler(fs_in, fs_out, 1, ppm)
    first = np.concatenate([r.push(x), r.flush()])
    speed = 1 + ppm * 1e-6
    assert len(first) == pytest.approx(n * fs_out / fs_in / speed + r.delay_s * fs_out, abs=2)
    t = (np.arange(len(first)) - r.delay_s * fs_out) / fs_out * speed
    # The start of the delay is read at the corrected speed as well: at most a millisecond at 200 ppm.
    steady = (t > 0.006) & (t < n / fs_in - 0.006)
    assert np.max(np.abs(first[steady, 0] - np.sin(2 * np.pi * hz * t[steady]))) < 0.003
    tail = np.sum(first[t > n / fs_in - 0.006] ** 2)
    assert tail > 0.3 * 0.006 * fs_out  # the last 6 ms are there (0.5 for the full sine)
    assert np.array_equal(first, np.concatenate([r.push(x), r.flush()]))  # as new


@pytest.mark.parametrize("hz", [997.0, 5000.0])
def test_a_step_of_the_ratio_is_no_click(hz):
    """A jump by 400 ppm turns the phase's slope and leaves its value: no sample departs from the closed form
    by more than the change of the slope itself (2 pi hz 400e-6 / fs per sample).
    """
    fs, half = 48000, 24001
    x = np.sin(2 * np.pi * hz * np.arange(2 * half) / fs).astype(np.float32)[:, None]
    r = dsp.AsyncResampler(fs, 24000, 1, ppm=200)
    y = r.push(x[:half])
    r.steer(-200)
    y = np.concatenate([y, r.push(x[half:])])[:, 0].astype(np.float64)
    places, row, fraction = [], 0, 0.0
    for end, step in ((half, 1 + 200e-6), (2 * half, 1 - 200e-6)):
        while row < end:
            places.append(row + fraction)
            row, fraction = row + int(fraction + step), (fraction + step) % 1.0
    y = y[dsp.Resampler(fs, 24000, 1).delay_frames :]
    phase = 2 * np.pi * hz / fs * np.array(places)[::2][: len(y)]
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)[500:]
    weights, *_ = np.linalg.lstsq(basis, y[500 : len(phase)], rcond=None)
    rest = y[500 : len(phase)] - basis @ weights
    assert np.max(np.abs(rest)) < 2 * np.pi * hz * 400e-6 / fs
    assert 20 * np.log10(np.std(rest) * np.sqrt(2)) < -110


def test_channels_are_treated_alike_and_nan_is_flagged():
    x = np.random.default_rng(2).standard_normal((3000, 1)).astype(np.float32).repeat(4, axis=1)
    y = dsp.AsyncResampler(44100, 24000, 4, 120).push(x)
    assert all(np.array_equal(y[:, 0], y[:, c]) for c in range(4))
    broken, zeroed = x.copy(), x.copy()
    broken[100, 2], zeroed[100, 2] = np.inf, 0
    r = dsp.AsyncResampler(44100, 24000, 4, 120, on_nonfinite="flag")
    assert np.array_equal(r.push(broken), dsp.AsyncResampler(44100, 24000, 4, 120).push(zeroed))
    assert r.nonfinite_samples == 1


def test_a_slow_loop_on_the_count_keeps_two_clocks_in_step():
    """The loop of docs/dsp.md: the device is 80 ppm fast, the clock's estimate says 70."""
    fs_in, fs_out, true_ppm, told_ppm = 8000, 4000, 80.0, 70.0
    r = dsp.AsyncResampler(fs_in, fs_out, 1, told_ppm)
    frames_in, frames_out, errors = 0, 0, []
    for second in range(1, 201):
        due = round(second * fs_in * (1 + true_ppm * 1e-6))  # what the device has delivered by now
        frames_out += len(r.push(np.zeros((due - frames_in, 1), np.float32)))
        frames_in = due
        errors.append(frames_out - second * fs_out)
        r.steer(told_ppm + errors[-1] / (fs_out * 20.0) * 1e6, over_s=1.0)
    # 10 ppm are 8 frames by now if nothing is done; the loop holds 10e-6 * 20 s * 4000 = 0.8 of a frame.
    assert max(abs(e) for e in errors[100:]) <= 2
    assert r.ppm == pytest.approx(true_ppm, abs=25)


def test_refusals():
    r = dsp.AsyncResampler(48000, 24000, 1)
    with pytest.raises(InputError, match="5000"):
        r.steer(5000)
    with pytest.raises(InputError, match="1 samples"):
        r.push(np.array([[np.nan]]))
    with pytest.raises(InputError, match="nan"):
        r.steer(float("nan"))
    with pytest.raises(InputError, match="'fast'"):
        r.steer("fast")
    with pytest.raises(InputError, match=r"over_s .* -1"):
        r.steer(0, over_s=-1)
    with pytest.raises(InputError, match="-1001"):
        dsp.AsyncResampler(48000, 24000, 1, ppm=-1001)
    with pytest.raises(InputError, match="sample rate"):
        dsp.AsyncResampler(48000, 0, 1)
