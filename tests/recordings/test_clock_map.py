"""The clock of a finished episode against simulated devices whose true times and losses are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from bench.device_clock import (
    BLOCK,
    FS,
    START_NS,
    Device,
    Heard,
    LiveRun,
    Lost,
    deliver,
    draw,
    live,
    timeline_lines,
)
from recordings.clock_map import prefer_live_clock, sound_clock, stamp_sources
from recordings.timeline import AudioMap


def errors_ms(run: LiveRun, found) -> np.ndarray:
    """Time by the map minus true time of each block's first frame."""
    frames = np.arange(len(run.t_ns)) * BLOCK
    where = AudioMap(found.lines + found.pieces, FS)
    return (where.time_ns(frames) - START_NS - run.delivery.true_ns(frames)) / 1e6


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_times_drift_and_gaps_after_losses(seed):
    """Wandering clock, late and batched callbacks, losses of any length with and without a flag."""
    run = live(draw(seed, 300, losses=3))
    found = sound_clock(timeline_lines(run), FS)
    true = run.delivery.losses
    assert len(found.gaps) == len(true)
    error, frames = np.abs(errors_ms(run, found)), np.arange(len(run.t_ns)) * BLOCK
    for gap, loss in zip(found.gaps, true, strict=True):
        assert gap.lost_frames == pytest.approx(loss.frames, abs=10)
        if loss.flagged:
            assert gap.file_frame == loss.place
        # Without a word from the host nothing tells in which of the blocks handed over together it was.
        assert gap.file_frame == pytest.approx(loss.place, abs=FS)
        error[(frames >= min(gap.file_frame, loss.place)) & (frames < max(gap.file_frame, loss.place))] = 0
    assert error.max() < 1.0
    assert found.summary["drift_ppm"] == pytest.approx(run.delivery.device.mean_ppm(300), abs=2.0)


def test_a_clean_input_is_not_changed_at_all():
    run = live(deliver(np.random.default_rng(0), 60, Device(), "none"))
    found = sound_clock(timeline_lines(run), FS)
    assert [line["rate_hz"] for line in found.pieces] == [FS]
    assert found.summary["drift_ppm"] == 0.0 and found.gaps == [] and not found.changed
    frames = np.arange(len(run.t_ns)) * BLOCK
    np.testing.assert_array_equal(AudioMap(found.pieces, FS).time_ns(frames), run.t_ns)


def test_whole_lost_blocks_are_found_exactly():
    losses = (Lost(40 * FS, 7 * BLOCK, False), Lost(80 * FS, BLOCK, True))
    rng = np.random.default_rng(5)
    run = live(deliver(rng, 120, Device(ppm=60.0, wander_ppm=1.5), "exponential", losses=losses))
    found = sound_clock(timeline_lines(run), FS)
    assert [gap.lost_frames for gap in found.gaps] == [7 * BLOCK, BLOCK]


def test_gap_lines_get_their_true_place_and_say_what_was_found_live():
    losses = (Lost(40 * FS, 5555, False),)
    run = live(deliver(np.random.default_rng(6), 90, Device(ppm=-40.0), "uniform", losses=losses))
    lines = timeline_lines(run)
    (live_gap,) = [line for line in lines if line["type"] == "gap"]
    found = sound_clock(lines, FS)
    (gap,) = [line for line in found.lines if line["type"] == "gap"]
    assert live_gap["file_frame"] - 40 * FS > FS / 2, "live it shows late"
    assert gap["file_frame"] == pytest.approx(40 * FS, abs=3 * BLOCK)
    assert gap["lost_frames"] == pytest.approx(5555, abs=10)
    assert gap["found"] == {"file_frame": live_gap["file_frame"], "lost_frames": live_gap["lost_frames"]}
    assert abs(gap["t_ns"] - START_NS - run.delivery.device.time_s(gap["file_frame"]) * 1e9) < 1e6
    again = sound_clock(found.lines + found.pieces, FS)  # as after a crash while finishing
    assert again.pieces == found.pieces
    assert [line for line in again.lines if line["type"] == "gap"] == [gap]


def test_a_busy_host_loses_nothing():
    """Twenty seconds in which every block is at least 15 ms late, then as before."""
    delivery = deliver(np.random.default_rng(7), 120, Device(ppm=30.0), "exponential")
    busy = (np.arange(12000) > 5000) & (np.arange(12000) < 7000)
    late = np.maximum.accumulate(delivery.arrival_ns + np.where(busy, 15_000_000, 0))
    run = live(replace(delivery, arrival_ns=late))
    lines = timeline_lines(run)
    found = sound_clock(lines, FS)
    assert found.gaps == []
    assert not [line for line in found.lines if line["type"] == "gap"]
    told = [line for line in found.lines if line.get("kind") == "gap_withdrawn"]
    assert len(told) == len([line for line in lines if line["type"] == "gap"])
    assert np.abs(errors_ms(run, found)).max() < 1.0


def test_a_host_that_becomes_quicker_was_late_before():
    """A buffer of 30 ms that goes away for good: sound from before had come 30 ms later than it could."""
    delivery = deliver(np.random.default_rng(8), 120, Device(ppm=10.0), "uniform")
    late = delivery.arrival_ns + np.where(np.arange(12000) < 6000, 30_000_000, 0)
    run = live(replace(delivery, arrival_ns=np.maximum.accumulate(late)))
    found = sound_clock(timeline_lines(run), FS)
    assert found.gaps == [] and np.abs(errors_ms(run, found)).max() < 1.0


def test_the_stated_sigma_of_a_gap_covers_its_error():
    ratios = []
    for seed in range(300, 307):
        run = live(draw(seed, 120, losses=2))
        for gap, loss in zip(sound_clock(timeline_lines(run), FS).gaps, run.delivery.losses, strict=True):
            ratios.append((gap.lost_frames - loss.frames) / max(gap.sigma_frames, 0.5))
    assert 0.3 < np.sqrt(np.mean(np.square(ratios))) < 1.7


def test_too_little_sound_has_no_line():
    run = live(deliver(np.random.default_rng(0), 0.5, Device(), "uniform"))
    found = sound_clock(timeline_lines(run), FS)
    assert found.pieces == [] and found.summary["drift_ppm"] is None
    checks = {
        "clocks": dict(found.summary),
        "capture_clock": {"drift_ppm": 3.0, "drift_sigma_ppm": 1.0, "jitter_ms": 2.0},
    }
    prefer_live_clock(checks)
    assert checks["clocks"]["drift_ppm"] == 3.0
    assert sound_clock([], FS).summary["segments"] == []


def test_a_source_that_knows_its_times_is_believed_whatever_the_arrivals():
    """The virtual room: true times on a line of its own, handed over when the host gets to it."""
    delivery = deliver(np.random.default_rng(3), 20, Device(ppm=50.0), "uniform")
    lines = timeline_lines(live(delivery))
    true = START_NS + np.round(delivery.true_ns(np.arange(2000) * BLOCK)).astype(np.int64)
    lines = [{**line, "t_ns": int(t)} for line, t in zip(lines, true, strict=True)]
    found = sound_clock(lines, FS)
    assert found.summary["drift_ppm"] == pytest.approx(50.0, abs=1e-3)
    assert found.summary["sources"] == {"audio": {"exact": 2000}}
    times = AudioMap(found.pieces, FS).time_ns(np.arange(2000) * BLOCK)
    assert np.abs(times - true).max() <= 2


def test_sources_of_the_stamps_are_counted():
    lines = [
        {"type": "audio", "t_ns": 5, "t_observed_ns": 6, "first_frame": 0, "flags": []},
        {"type": "audio", "t_ns": 7, "t_observed_ns": 7, "first_frame": 5, "flags": ["repaired"]},
        {"type": "frame", "t_ns": 5, "t_source": "driver"},
        {"type": "frame", "t_ns": 6, "t_source": "arrival"},
        {"type": "frame", "t_ns": 6, "t_source": "arrival", "camera": "door"},
    ]
    assert stamp_sources(lines) == {
        "audio": {"arrival": 1, "repaired": 1},
        "video": {"driver": 1, "arrival": 1},
        "video_door": {"arrival": 1},
    }
    assert stamp_sources([lines[0], {**lines[0], "t_ns": 6}])["audio"] == {"arrival": 2}
    assert stamp_sources([{**lines[0], "t_ns": 6}])["audio"] == {"exact": 1}


@pytest.mark.parametrize("every", [50, 100, 200])
def test_regular_losses_are_not_made_a_drift(every: int) -> None:
    """One block of ten is lost again and again, unreported: no crystal is 5000 ppm off, so it is a fault."""
    rng = np.random.default_rng(every)
    kept = [i for i in range(3000) if i % every != every - 1]
    lines = [
        {
            "type": "audio", "t_ns": 10**12 + i * 10**7 + n % 7 * 1234, "seq": n, "first_frame": n * 480,
            "frames": 480,
            "t_observed_ns": 10**12 + i * 10**7 + int(abs(rng.normal()) * 1e6), "lost": 0, "flags": [],
            "file_frame": n * 480,
        }
        for n, i in enumerate(kept)
    ]  # fmt: skip
    found = sound_clock(lines, 48000)
    told = sum(gap.lost_frames for gap in found.gaps)
    if told == pytest.approx((3000 - len(kept)) * 480, rel=0.02):
        return  # every one of them was found
    assert "lost again and again" in found.summary["problem"]
    assert found.summary["drift_ppm"] is None and found.pieces == [] and found.lines == lines


def test_the_sound_tells_where_a_loss_was_and_changes_nothing_without_one() -> None:
    rng = np.random.default_rng(2)
    tone = lfilter([1.0], [1.0, -1.9, 0.95], rng.standard_normal((20 * FS, 2)), axis=0).astype(np.float32)
    whole = live(draw(70, 60.0))
    heard = sound_clock(timeline_lines(whole), FS, listen=Heard(tone, whole.delivery).read)
    assert "problem" not in heard.summary
    assert heard.pieces == sound_clock(timeline_lines(whole), FS).pieces and not heard.gaps
    right = total = 0
    for seed in range(71, 75):
        run = live(draw(seed, 90.0, 3))
        found = sound_clock(timeline_lines(run), FS, listen=Heard(tone, run.delivery).read)
        assert "problem" not in found.summary
        for loss in run.delivery.losses:
            near = [abs(gap.file_frame - loss.place) for gap in found.gaps]
            right, total = right + (min(near, default=FS) <= 10), total + 1
    assert total == 12 and right >= 10
