"""Flashes and beeps are found where the formulas that rendered them say; pairs are found or refused."""

from __future__ import annotations

import numpy as np
import pytest

from bench.sync_scene import T0_NS, Scene, looked_at, spread_events
from calibration.sync_kernel import edge_place
from calibration.sync_light import Edge, LightLog, find_flashes
from calibration.sync_pairs import pair_up
from calibration.sync_sound import find_chirps, find_claps, find_tones, tone_length
from dsp.errors import InputError

SOUND_START_S = -0.2


def truth_s(scene: Scene) -> np.ndarray:
    """When the beeps begin, in seconds from the first sample."""
    return scene.events_s + scene.offset_ms / 1e3 - SOUND_START_S


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"exposure_ms": 20.0, "readout_ms": 25.0, "box": (0.0, 1.0, 0.2, 0.8)},
        {"exposure_ms": 30.0, "readout_ms": 10.0, "flicker": 0.3, "lamp": 0.2, "brightness": 0.2},
        {"exposure_ms": 4.0, "box": (0.5, 0.54, 0.5, 0.54)},
    ],
)
def test_lit_shares_are_those_of_the_exposure(options: dict) -> None:
    scene = Scene(spread_events(5, 1), **options)
    log = looked_at(scene)
    times = (np.array(log.times_ns) - T0_NS) / 1e9
    flashes = find_flashes(log, times)
    assert len(flashes) == 5
    for flash, begin in zip(flashes, scene.events_s, strict=True):
        assert flash.off is not None and not flash.clipped
        for edge, at in ((flash.on, begin), (flash.off, begin + scene.flash_s)):
            assert np.abs(edge.share - expected(scene, flash.rows, times, edge, at)).max() < 0.06


def expected(scene: Scene, rows: np.ndarray, times: np.ndarray, edge: Edge, at_s: float) -> np.ndarray:
    """The share of the exposure after an edge, of each band's middle row."""
    middle = times[edge.frames][:, None] + rows[None] * scene.readout_ms / 1e3
    wide = (scene.exposure_ms + scene.readout_ms / 12 * (scene.readout_ms > 0)) / 1e3
    own = np.clip(0.5 + (middle - at_s) / (scene.exposure_ms / 1e3), 0, 1)
    # A band is a few rows high: near 0 and 1 its share is rounded.
    return np.where(np.abs(middle - at_s) < wide, np.clip(own, 0, 1), own)


def test_a_flash_that_clips_says_so_and_a_steady_picture_has_none() -> None:
    flashes = find_flashes(*_log(Scene(spread_events(3, 2), brightness=3.0, spill=0.0)))
    assert [flash.clipped for flash in flashes] == [True] * 3
    assert find_flashes(*_log(Scene(np.array([1.0, 2.0]), brightness=0.0, spill=0.0, flicker=0.3))) == []
    with pytest.raises(InputError, match="uint8"):
        LightLog().add(0, np.zeros((4, 4), np.float32))  # type: ignore[arg-type]


def _log(scene: Scene) -> tuple[LightLog, np.ndarray]:
    log = looked_at(scene)
    return log, (np.array(log.times_ns) - T0_NS) / 1e9


def test_edge_place_inverts_the_share_of_a_band() -> None:
    """A band whose rows are exposed one after the other catches the mean of its rows' shares."""
    for exposure, passing in ((8.0, 2.0), (1.0, 5.0), (10.0, 1e-3)):
        rows = (np.arange(2000) + 0.5) / 2000 - 0.5
        for edge in np.linspace(-0.45, 0.45, 7) * (exposure + passing):
            share = float(np.clip(0.5 + (rows * passing - edge) / exposure, 0, 1).mean())
            if 0.01 < share < 0.99:
                place, slope = edge_place(share, max(exposure, passing), min(exposure, passing))
                assert place == pytest.approx(edge, abs=0.02)
                assert slope > 0


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_first_arrivals_in_rooms(seed: int) -> None:
    """Room 0 and 5 answer a tone with a reflection that all but cancels it a few milliseconds later."""
    rng = np.random.default_rng([7, seed])
    scene = Scene(
        spread_events(6, 100 + seed), seed=100 + seed, offset_ms=rng.uniform(-80, 80), rt60_s=0.5, snr_db=25
    )
    near = list(scene.events_s - SOUND_START_S)
    limits = {"chirp": 0.05, "tone": 0.2, "clap": 0.2}
    for sound, limit in limits.items():
        scene.sound = sound
        x = scene.audio()[0].astype(np.float64)
        if sound == "chirp":
            found = find_chirps(x, 48000.0)
        elif sound == "tone":
            found = find_tones(x, 48000.0, near, 0.5)
        else:
            found = find_claps(x, 48000.0)
        times = np.array([beep.time_s for beep in found])
        assert len(times) == 6, sound
        assert np.abs(1e3 * (times - truth_s(scene))).max() < limit, sound


def test_the_length_of_tones_is_heard_in_a_room() -> None:
    scene = Scene(spread_events(8, 3), seed=3, flash_s=0.12)
    length = tone_length(scene.audio()[0], 48000.0, list(truth_s(scene)), 0.11, 0.033)
    assert length is not None and abs(1e3 * length - 120.0) < 1.0
    noise = np.random.default_rng(0).standard_normal(len(scene.audio()[0])).astype(np.float32)
    assert tone_length(noise, 48000.0, list(truth_s(scene)), 0.11, 0.033) is None


def test_pairs() -> None:
    rng = np.random.default_rng(3)
    flashes = np.cumsum(rng.uniform(0.8, 1.5, 30))
    beeps = np.delete(flashes * (1 + 60e-6) + 0.137, [4, 11])
    strangers = np.sort(np.concatenate([beeps, [3.33, 17.9]]))
    found = pair_up(flashes, strangers, 0.5, 0.033)
    assert len(found.pairs) == 28 and found.second < 15 and found.rate == ""
    assert np.abs(strangers[found.pairs[:, 1]] - flashes[found.pairs[:, 0]] - 0.137).max() < 0.01
    # Swapped, the shift turns its sign.
    assert pair_up(strangers, flashes, 0.5, 0.033).shift_s == pytest.approx(-found.shift_s, abs=0.01)
    even = 1.0 * np.arange(20)
    assert pair_up(even, even + 0.1, 1.5, 0.033).second >= 18
    assert pair_up(even, even + 0.1, 0.5, 0.033).second < 10
    # Ten minutes with a clock that is 150 ppm fast.
    long = np.concatenate([flashes, 600 + flashes])
    slow = pair_up(long, long * (1 + 150e-6) - 0.05, 0.5, 0.033)
    assert len(slow.pairs) == 60 and slow.drift == pytest.approx(150e-6, abs=30e-6)
    assert "44.1" in pair_up(flashes, flashes * 44100 / 48000, 0.5, 0.033).rate
    assert len(pair_up(flashes, np.zeros(0), 0.5, 0.033).pairs) == 0
