"""Simulated arrivals with known true times: the filter must be nearer to them than the arrivals are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from capture.camera_clock import PictureClock, Stamp
from capture.camera_link import Picture

F64 = NDArray[np.float64]
START = 10**12


def stamp_all(pictures: list[Picture], fps: float = 15.0) -> list[Stamp]:
    """As LiveCamera does it: a picture that may be late waits for the next."""
    clock, held, out = PictureClock(fps), None, []
    for picture in pictures:
        if held is not None:
            out.append(clock.stamp(held, picture.arrival_ns))
            held = None
        if clock.wants_next(picture):
            held = picture
        else:
            out.append(clock.stamp(picture))
    return out if held is None else [*out, clock.stamp(held)]


def arrivals(true_ns: F64, mean_ms: float, seed: int, stalls: tuple[int, ...] = ()) -> F64:
    """Each picture arrives late by an exponential delay; after a stall what waited comes at once."""
    delay = np.random.default_rng(seed).exponential(mean_ms * 1e6, len(true_ns))
    for k in stalls:
        delay[k : k + 10] += np.maximum(0.0, 3e8 - (true_ns[k : k + 10] - true_ns[k]))
    return np.maximum.accumulate(true_ns + delay)


def plain(arrival: F64) -> list[Picture]:
    return [Picture(int(a) + i, (1, 1), jpeg=b"") for i, a in enumerate(arrival)]


def spread_ms(stamps: list[Stamp], true_ns: F64) -> float:
    """p95 of |error| around its median, after 5 s: a constant delay cannot be known."""
    error = (np.array([s.t_ns for s in stamps]) - true_ns) / 1e6
    error = error[true_ns - true_ns[0] > 5e9]
    return float(np.quantile(np.abs(error - np.median(error)), 0.95))


@pytest.mark.parametrize(
    ("fps", "mean_ms", "seed"), [(20, 3.0, 1), (29.97, 4.0, 2), (60, 2.0, 3), (7.5, 5.0, 4)]
)
def test_filtered_arrival_is_near_the_true_times(fps: float, mean_ms: float, seed: int) -> None:
    true = START + np.arange(round(60 * fps)) * 1e9 / fps
    arrival = arrivals(true, mean_ms, seed, stalls=(400,))
    stamps = stamp_all(plain(arrival))
    assert spread_ms(stamps, true) < 0.6
    times = np.array([s.t_ns for s in stamps])
    assert np.diff(times).min() > 0
    assert (times <= arrival + len(arrival)).all(), "never after it was here"
    assert sum(s.dropped for s in stamps) == 0 and {s.source for s in stamps[10:]} == {"filtered"}
    late = {i for i, s in enumerate(stamps) if s.late}
    due = (arrival - true) * fps / 1e9
    assert {i for i in range(100, len(true)) if due[i] > 0.55} <= late
    assert not any(due[i] < 0.4 for i in late if i > 100)


def test_clean_arrivals_are_not_changed() -> None:
    true = START + np.arange(600) * 5e7
    stamps = stamp_all([Picture(int(t), (1, 1), jpeg=b"") for t in true])
    assert np.abs(np.array([s.t_ns for s in stamps]) - true).max() < 1000


@pytest.mark.parametrize("waiting", [3, 8, 20])
def test_pictures_that_waited_before_the_start_come_at_once(waiting: int) -> None:
    """A server that began before its client came. Nothing is missing, and the period is found."""
    true = START + np.arange(400) * 4e7
    arrival = np.maximum(arrivals(true, 1.0, 9), true[waiting])
    stamps = stamp_all(plain(arrival))
    assert sum(s.dropped for s in stamps) == 0
    assert spread_ms(stamps, true) < 0.6


@pytest.mark.parametrize("stalled_at", [12, 25, 40])
def test_a_stall_soon_after_the_start_drops_nothing(stalled_at: int) -> None:
    """A server that paces in steps of 10 ms, stands still for a second and sends what waited at once."""
    true = START + np.arange(300) * 1e9 / 30
    sent = np.ceil((true - START) / 1.017e7) * 1.017e7 + START
    sent[stalled_at : stalled_at + 28] = np.maximum(sent[stalled_at : stalled_at + 28], sent[stalled_at + 28])
    stamps = stamp_all(plain(sent), fps=30)
    assert sum(s.dropped for s in stamps) == 0
    error = (np.array([s.t_ns for s in stamps]) - true)[stalled_at:] / 1e6
    assert np.abs(error - np.median(error)).max() < 12.0


@pytest.mark.parametrize("sender", [False, True])
def test_missing_pictures_are_found_where_they_are(sender: bool) -> None:
    gone = [300, 500, 501, 502, 900]
    number = np.setdiff1d(np.arange(1200), gone)
    true = START + number * 4e7
    arrival = arrivals(true, 2.0, 5, stalls=(650,))
    pictures = [
        Picture(int(a), (1, 1), jpeg=b"", media_ns=int(n) * 40_000_000 + 77 if sender else None)
        for a, n in zip(arrival, number, strict=True)
    ]
    stamps = stamp_all(pictures)
    found = {int(number[i]): s.dropped for i, s in enumerate(stamps) if s.dropped}
    assert found == {301: 1, 503: 3, 901: 1}
    assert all(s.estimated for s in stamps if s.dropped)
    assert spread_ms(stamps, true) < 0.6


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([5.0, 15.0, 29.97, 60.0]))
def test_whatever_arrives_times_rise_and_counts_stay_finite(seed: int, fps: float) -> None:
    """Jitter above a period, stalls, missing pictures, a changed rate: nothing runs off."""
    rng = np.random.default_rng(seed)
    count = 900
    true = START + np.arange(count) * 1e9 / fps
    if rng.random() < 0.3:
        true[450:] += (true[450:] - true[450]) * rng.choice([-0.5, 1.0])
    keep = rng.random(count) > rng.choice([0.0, 0.01, 0.3])
    late = rng.exponential(rng.choice([1, 5, 40]) * 1e6, count)
    for k in rng.integers(0, count, rng.integers(0, 5)):
        late += np.where(true >= true[k], np.maximum(0, rng.choice([2e8, 2e9]) - (true - true[k])), 0)
    arrival = np.maximum.accumulate((true + late)[keep])
    stamps = stamp_all(plain(arrival), fps=float(rng.choice([15, 30])))
    times = np.array([s.t_ns for s in stamps])
    assert np.diff(times).min() > 0
    assert min(s.dropped for s in stamps) >= 0
    assert sum(s.dropped for s in stamps) < 4 * count + 500
    # A picture cannot be later than it was here, nor much earlier than what came before it.
    assert (times <= arrival + 2 * count).all()
    assert (arrival - times).max() < 8e9


def test_the_drivers_count_is_exact_and_its_stamps_are_used() -> None:
    rng = np.random.default_rng(6)
    number = np.sort(rng.choice(3000, 2400, replace=False))
    true = START + number * 33_366_700
    arrival = true + rng.exponential(5e6, len(true)).astype(np.int64) + 1
    pictures = [
        Picture(int(a), (1, 1), jpeg=b"", driver_ns=int(t), sequence=int(n + 2**32 - 1500) % 2**32)
        for a, t, n in zip(arrival, true, number, strict=True)
    ]
    stamps = stamp_all(pictures)
    assert [s.t_ns for s in stamps] == true.tolist()
    assert [s.dropped for s in stamps[1:]] == (np.diff(number) - 1).tolist()
    assert not any(s.estimated for s in stamps) and {s.source for s in stamps} == {"driver"}


@pytest.mark.parametrize("wrong", [5_000_000_000, -2_000_000_000, START])
def test_insane_driver_stamps_are_not_used(wrong: int) -> None:
    """Wall-clock or future stamps, or ones from long ago."""
    true = START + np.arange(200) * 40_000_000
    stamps = stamp_all([Picture(int(t), (1, 1), jpeg=b"", driver_ns=int(t) + wrong) for t in true])
    assert "driver" not in {s.source for s in stamps}
    assert np.abs(np.array([s.t_ns for s in stamps]) - true).max() < 1000


def test_driver_stamps_that_are_sometimes_insane_are_left_for_a_while() -> None:
    """As of a driver that stamps the future: whether a stamp can be true hangs on our own delay."""
    rng = np.random.default_rng(8)
    true = START + np.arange(900) * 40_000_000
    arrival = true + rng.exponential(2e6, len(true)).astype(np.int64)
    driver = np.where((np.arange(900) >= 300) & (np.arange(900) < 600), true + 3_000_000, true)
    stamps = stamp_all(
        [
            Picture(int(a), (1, 1), jpeg=b"", driver_ns=int(d), sequence=i)
            for i, (a, d) in enumerate(zip(arrival, driver, strict=True))
        ]
    )
    sources = [s.source for s in stamps]
    assert set(sources[:300]) == {"driver"} and set(sources[301:600]) == {"filtered"}
    assert set(sources[800:]) == {"driver"}, "sane for long enough"
    times = np.array([s.t_ns for s in stamps])
    assert np.diff(times).min() > 0 and np.abs(times - true).max() < 5e6
    assert sum(s.dropped for s in stamps) == 0


@pytest.mark.parametrize("stood_still_s", [0.5, 2.0, 20.0])
def test_driver_stamps_are_kept_when_this_computer_stood_still(stood_still_s: float) -> None:
    """The driver's buffers fill up, the rest is dropped and counted; then all that waited comes at once."""
    fps, delay_ns, buffers = 15, 33_000_000, 8
    true = np.arange(1000) * 1_000_000_000 // fps
    woke = int(true[300]) + round(stood_still_s * 1e9)
    pictures = []
    waited = 0
    for i, t in enumerate(true):
        arrival = int(t) + delay_ns
        if int(true[300]) < arrival <= woke:
            waited += 1
            if waited > buffers:
                continue
            arrival = woke + waited * 100_000
        pictures.append(Picture(arrival, (1, 1), jpeg=b"", driver_ns=int(t), sequence=i))
    stamps = stamp_all(pictures, fps)
    assert {s.source for s in stamps} == {"driver"}
    assert [s.t_ns for s in stamps] == [p.driver_ns for p in pictures]
    assert sum(s.dropped for s in stamps) == len(true) - len(pictures)


def test_half_the_rate_is_a_new_period_not_drops_for_ever() -> None:
    """A camera that exposes longer in the dark, and comes back."""
    steps = np.r_[np.full(600, 33.3e6), np.full(600, 66.6e6), np.full(600, 33.3e6)]
    true = START + np.cumsum(steps)
    stamps = stamp_all(plain(arrivals(true, 1.0, 7)), fps=30)
    assert sum(s.dropped for s in stamps) < 10
    error = (np.array([s.t_ns for s in stamps]) - true) / 1e6
    for part in (slice(700, 1200), slice(1300, 1800)):
        assert np.quantile(np.abs(error[part]), 0.95) < 0.5


def test_restart_keeps_the_order_and_estimates_what_is_missing() -> None:
    clock = PictureClock(25)
    first = START + np.arange(100) * 40_000_000
    for t in first:
        clock.stamp(Picture(int(t), (1, 1), jpeg=b"", sequence=int(t - START) // 40_000_000))
    clock.restart()
    stamp = clock.stamp(Picture(int(first[-1]) + 2_000_000_000, (1, 1), jpeg=b"", sequence=0))
    assert (stamp.dropped, stamp.estimated) == (49, True)
    assert stamp.t_ns == first[-1] + 2_000_000_000
