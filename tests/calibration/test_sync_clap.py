"""Claps: hands that move towards each other, with motion blur, and the sound where they meet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.sync_scene import T0_NS, Scene, spread_events
from calibration.sync_clap import estimate_claps
from calibration.sync_files import Material
from calibration.sync_fit import Known
from calibration.sync_light import LightLog
from calibration.sync_report import in_words, summary, to_result, write_page
from calibration.sync_setting import Setting, Sound

AT_HAND = Setting(distance_m=Known(0.0, 0.01))


def hands(claps_s: NDArray[np.float64], power: float, seed: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """30 pictures a second, exposed for 12 ms. power: of the gap with time, over 1 if hands slow down."""
    rng = np.random.default_rng(seed)
    across = np.arange(160)
    wall = 60 + 10 * rng.standard_normal((96, 160))
    speed = rng.uniform(0.8, 1.3, len(claps_s))
    start = rng.uniform(0, 1 / 30)
    for i in range(int((claps_s[-1] + 2) * 30)):
        exposed = np.zeros((96, 160))
        for part in (np.arange(6) - 2.5) / 6:
            t = start + i / 30 + part * 0.012
            k = int(np.argmin(np.abs(claps_s - t)))
            late = t - claps_s[k]
            gap = 40 * min(1.0, -late * speed[k] / 0.22) ** power if late < 0 else 0.0
            if late > 0.15:
                gap = min(40.0, (late - 0.15) / 0.3 * 40)
            left, right = 75 - gap / 2, 85 + gap / 2
            skin = np.clip(across - left + 10, 0, 1) * np.clip(left - across, 0, 1)
            skin += np.clip(across - right, 0, 1) * np.clip(right + 10 - across, 0, 1)
            exposed[30:70] += 130 * skin / 6
        noisy = wall + exposed + 1.5 * rng.standard_normal(wall.shape)
        yield T0_NS + round((start + i / 30) * 1e9), np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def log_of(claps_s: NDArray[np.float64], power: float, seed: int) -> LightLog:
    log = LightLog()
    for t_ns, image in hands(claps_s, power, seed):
        log.add(t_ns, image)
    return log


@pytest.mark.parametrize(("power", "offset_ms"), [(0.9, 63.0), (1.15, -41.0)])
def test_claps_within_their_uncertainty(power: float, offset_ms: float, tmp_path) -> None:
    scene = Scene(spread_events(8, 1), sound="clap", offset_ms=offset_ms, seed=2, rate_hz=16000)
    samples, t0_ns = scene.audio()
    sound = Sound.of(samples, scene.rate_hz, t0_ns)
    log = log_of(scene.events_s, power, 2)
    fit = estimate_claps(log, sound, AT_HAND)
    assert fit.ok and fit.used >= 7
    assert abs(fit.offset_ms - offset_ms) < 2 * fit.sigma_ms and 7 < fit.sigma_ms < 12
    got = Material("claps", sound, log)
    result = to_result(fit, got, AT_HAND)
    assert result.result["drift_ppm"] is None and result.result["exposure_ms"] is None
    assert (summary(fit, got)["source"] == "clap" and "late" in in_words(fit)) or "early" in in_words(fit)
    assert "scatter of the claps" in write_page(tmp_path / "claps.html", fit, got, AT_HAND).read_text()


def test_claps_that_are_not_seen_or_not_heard_are_refused() -> None:
    scene = Scene(spread_events(8, 1), sound="clap", seed=2, rate_hz=16000)
    samples, t0_ns = scene.audio()
    log = LightLog()
    rng = np.random.default_rng(0)
    for k in range(360):
        picture = rng.integers(90, 100, (96, 160)).astype(np.uint8)
        log.add(T0_NS + round(k / 30 * 1e9), picture)
    unseen = estimate_claps(log, Sound.of(samples, 16000, t0_ns), AT_HAND)
    assert "hands that stop" in unseen.refusals[0].problem
    unheard = estimate_claps(log, Sound.of(np.zeros(160000), 16000, T0_NS), AT_HAND)
    assert "0 claps are heard" in unheard.refusals[0].problem
