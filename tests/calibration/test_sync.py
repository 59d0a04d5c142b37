"""The offset and its uncertainty from rendered pictures and sound, its sign, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.sync_scene import Scene, looked_at, solved, spread_events, true_offset_ms
from calibration.sync import estimate_sync
from calibration.sync_fit import Known
from calibration.sync_light import LightLog
from calibration.sync_live import SyncGuide
from calibration.sync_setting import Setting, Sound
from calibration.sync_solve import smooth_stamps
from dsp.errors import CheckFailed

AT_HAND = Setting(distance_m=Known(0.0, 0.0))
BASE = Scene(
    spread_events(14, 4), offset_ms=40.0, drift_ppm=30.0, jitter_ms=1.0, sound="chirp", seed=4, rate_hz=16000
)


def test_a_known_offset_within_its_uncertainty_and_swapped_roles_negate_it() -> None:
    fit = solved(BASE, AT_HAND)
    assert fit.ok and fit.source == "screen" and fit.used == 14
    away = fit.offset_ms - true_offset_ms(BASE, fit.reference_ns)
    assert abs(away) < 3.5 * fit.sigma_ms and fit.sigma_ms < 0.5
    assert abs(fit.exposure_ms - 8.0) < 4 * fit.exposure_sigma_ms and fit.smoothed
    assert fit.drift_ppm is None and any("no drift" in text for text in fit.warnings)
    # Now it is the picture that is late by as much.
    other = solved(replace(BASE, offset_ms=0.0, drift_ppm=-30.0), AT_HAND, late_ms=40.0)
    assert other.offset_ms + fit.offset_ms == pytest.approx(0.0, abs=0.5)


def test_the_way_of_the_sound_the_shutter_and_the_meaning_of_the_stamp() -> None:
    """A lamp and a buzzer 3 m away at the top of a rolling shutter; stamps taken at the end of it all."""
    scene = replace(
        BASE, sound="tone", distance_m=3.0, readout_ms=20.0, box=(0.05, 0.3, 0.3, 0.6), stamp="end", seed=5
    )
    setting = Setting(distance_m=Known(3.0, 0.01), readout_ms=Known(20.0, 0.3), stamp="end")
    fit = solved(scene, setting)
    assert fit.ok and fit.source == "light" and fit.clock_offset_ms is not None
    assert fit.travel_ms == pytest.approx(8.74, abs=0.02)
    # Pictures show what was half an exposure and half a readout before their stamp.
    truth = true_offset_ms(scene, fit.reference_ns)
    assert fit.clock_offset_ms == pytest.approx(truth, abs=0.6)
    assert fit.offset_ms == pytest.approx(truth - (8.0 + 20.0) / 2, abs=0.6)


def test_drift_over_ten_minutes() -> None:
    first = spread_events(7, 6)
    scene = Scene(
        np.concatenate([first, 600 - first[::-1]]), offset_ms=-20.0, drift_ppm=-45.0, sound="chirp", seed=6,
        rate_hz=16000, jitter_ms=0.5,
    )  # fmt: skip
    fit = solved(scene, AT_HAND)
    assert fit.ok and fit.drift_ppm is not None and fit.drift_sigma_ppm is not None
    assert abs(fit.drift_ppm + 45.0) < min(1.0, 4 * fit.drift_sigma_ppm)
    half = _first_half(scene)
    fit = estimate_sync(half[0], half[1], AT_HAND)
    assert "show flashes at its start and at its end" in fit.refusals[0].remedy


def _first_half(scene: Scene) -> tuple[LightLog, Sound]:
    """Events at the start of a recording that goes on for long."""
    early = replace(scene, events_s=scene.events_s[:7], length_s=0.0)
    log = looked_at(early)
    for second in range(20, 200):
        log.add(log.times_ns[0] + second * 10**9, np.full((96, 160), 60, np.uint8))
    samples, t0_ns = early.audio()
    return log, Sound.of(samples, early.rate_hz, t0_ns)


def test_what_is_refused_and_what_to_do() -> None:
    few = solved(replace(BASE, events_s=BASE.events_s[:4], length_s=0.0))
    assert "at least 6" in few.refusals[0].problem and "30 flashes" in few.refusals[0].remedy
    with pytest.raises(CheckFailed, match="at least 6"):
        few.require()
    anywhere = np.random.default_rng(0).uniform(-250, 250, 14)
    assert not solved(replace(BASE, scatter_ms=anywhere)).ok
    dim = solved(replace(BASE, brightness=0.006, spill=0.0, picture_noise=0.7))
    assert "too dim" in dim.refusals[0].problem
    even = solved(replace(BASE, events_s=1.0 + 1.1 * np.arange(14), length_s=0.0), Setting(search_s=1.6))
    assert "equally spaced" in even.refusals[0].problem
    fast = replace(BASE, rate_hz=14700)
    samples, t0_ns = fast.audio()
    wrong = estimate_sync(looked_at(fast), Sound.of(samples, 16000, t0_ns))
    assert "44.1 kHz" in wrong.refusals[0].problem
    silent = estimate_sync(looked_at(BASE), Sound.of(np.zeros(48000 * 5), 48000, t0_ns))
    assert "0 beeps" in silent.refusals[0].problem
    back = LightLog()
    for k in range(20):
        back.add(-k, np.zeros((8, 8), np.uint8))
    assert "stamp" in estimate_sync(back, Sound.of(np.zeros(96000), 48000)).refusals[0].problem


def test_even_stamps_are_recovered_through_gaps() -> None:
    rng = np.random.default_rng(1)
    true = np.delete(1000 / 30 * np.arange(300) + 7.0, [90, 91, 150])
    even = smooth_stamps(true + rng.standard_normal(len(true)), [60, 150, 240], 1000 / 30)
    smooth = even.stamps_ms
    assert even.scatter_ms == pytest.approx(1.0, abs=0.2) and even.used.sum() > 290
    assert even.covariance(5000.0)[0, 0] == pytest.approx(1 / 297, rel=0.5)
    for centre in (60, 150, 240):
        assert np.abs(smooth[centre - 5 : centre + 5] - true[centre - 5 : centre + 5]).max() < 0.4
    assert np.abs(smooth - true).max() > 1  # what is not near an event stays as it is


def test_the_guide_counts_and_says_what_is_missing() -> None:
    said: list[str] = []
    guide = SyncGuide(16000, said.append)
    scene = replace(BASE, jitter_ms=0.0)
    samples, t0_ns = scene.audio()
    pictures = iter(scene.pictures())
    waiting = next(pictures)
    for first in range(0, len(samples), 1600):
        t_ns = t0_ns + round(first / 16000 * 1e9)
        while waiting is not None and waiting[0] <= t_ns:
            guide.add_frame(*waiting)
            waiting = next(pictures, None)  # type: ignore[assignment]
        guide.add_sound(t_ns, first, samples[first : first + 1600, None])
    assert guide.flashes >= 11 and guide.beeps >= 11 and not guide.enough
    assert "go on" in said[-1]
    material = guide.material()
    assert int(material.sound.time_ns(0)) == pytest.approx(t0_ns, abs=1000)
    fit = estimate_sync(material.log, material.sound, AT_HAND)
    assert fit.offset_ms == pytest.approx(true_offset_ms(scene, fit.reference_ns), abs=0.5)
    deaf = SyncGuide(48000, said.append)
    deaf.flashes, deaf.beeps = 10, 0
    assert "not heard" in deaf.advice()
    deaf.flashes, deaf.beeps = 0, 10
    assert "no flashes seen" in deaf.advice()
