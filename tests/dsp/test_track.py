"""Tracks against closed forms: plane waves by formula that come, go, move at known rates, pause and cross."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsp
from dsp.errors import InputError
from dsp.track import Track, Tracker, TrackFrame, track_sources

FS = 24000


def plane_wave(mono: np.ndarray, azimuth_deg, elevation_deg=0.0) -> np.ndarray:
    """(n, 4) AmbiX; angles may be arrays of the signal's length."""
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    gains = [np.ones_like(a), np.sin(a) * np.cos(e), np.sin(e) + 0 * a, np.cos(a) * np.cos(e)]
    return (mono[:, None] * np.stack(np.broadcast_arrays(*gains), axis=-1)).astype(np.float32)


def syllables(seconds: float, rng: np.random.Generator, fs: int = FS) -> np.ndarray:
    """Noise bursts of 80 to 200 ms with gaps between, in other bands each time, as speech has them."""
    out = np.zeros(int(seconds * fs))
    at = 0
    while at < len(out):
        n = int(rng.uniform(0.08, 0.2) * fs)
        burst = rng.standard_normal(n) * np.hanning(n) ** 0.5
        keep = np.fft.rfft(burst)
        f = np.fft.rfftfreq(n, 1 / fs)
        keep[np.abs(np.log2(np.maximum(f, 1) / rng.uniform(400, 2500))) > 1.0] = 0
        piece = np.fft.irfft(keep, n)[: len(out) - at]
        out[at : at + len(piece)] = piece
        at += n + int(rng.uniform(0.03, 0.1) * fs)
    return 0.1 * out / np.std(out)


def sensor_noise(n: int, rng: np.random.Generator, level: float = 1e-3) -> np.ndarray:
    return (level * rng.standard_normal((n, 4)) * np.array([1, 3**-0.5, 3**-0.5, 3**-0.5])).astype(np.float32)


def error_deg(track: Track, azimuth: float, elevation: float = 0.0) -> float:
    return float(dsp.angular_error_deg(track.azimuth_deg, track.elevation_deg, azimuth, elevation))


def ids(frames: list[TrackFrame]) -> set[int]:
    return {t.id for f in frames for t in f.tracks}


def talk(spans: list[tuple[float, float, float]], seconds: float, seed: int) -> np.ndarray:
    """One talker after another: (begin, end, azimuth) over a quiet microphone's noise."""
    rng = np.random.default_rng(seed)
    foa = sensor_noise(int(seconds * FS), rng)
    for begin, end, azimuth in spans:
        a, b = int(begin * FS), int(end * FS)
        foa[a:b] += plane_wave(syllables((b - a) / FS, rng)[: b - a], azimuth, 10)
    return foa


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([1, 7, 240, 480, 999, 2400, 2401, 9000]), min_size=1, max_size=5))
def test_blocks_of_any_size_give_the_offline_result(sizes: list[int]) -> None:
    foa = talk([(0.2, 1.3, 40), (0.6, 1.7, -60)], 1.75, 1)
    whole = track_sources(foa, FS)
    assert ids(whole)
    tracker = Tracker(FS)
    frames: list[TrackFrame] = []
    at = k = 0
    while at < len(foa):
        frames += tracker.push(foa[at : at + sizes[k % len(sizes)]])
        at += sizes[k % len(sizes)]
        k += 1
    frames += tracker.flush()
    assert frames == whole  # all values bit for bit
    assert [f.t_s for f in whole] == pytest.approx(np.arange(18) / 10)


def test_a_track_is_born_lives_coasts_and_ends() -> None:
    frames = track_sources(talk([(1.0, 3.0, 70)], 7.0, 2), FS)
    there = [bool(f.tracks) for f in frames]
    born = there.index(True)
    assert 10 <= born <= 15  # not before the first sound, and within 0.6 s of it
    assert all(there[born:45]) and not any(there[55:])  # ends 2 s after the last sound
    for f in frames[born + 2 : 45]:
        (track,) = f.tracks
        assert track.id == 1 and error_deg(track, 70, 10) < 5
    assert not any(f.tracks[0].coasting for f in frames[18:29])
    assert all(f.tracks[0].coasting for f in frames[35:45])
    ages = [f.tracks[0].age_s for f in frames[born:45]]
    np.testing.assert_allclose(np.diff(ages), 0.1, atol=1e-9)
    said, silent = frames[28].tracks[0], frames[44].tracks[0]
    assert silent.confidence < said.confidence and silent.uncertainty_deg > said.uncertainty_deg
    assert 0 <= silent.confidence <= said.confidence <= 1


def test_identity_through_pauses_and_returns() -> None:
    pause = track_sources(talk([(0.3, 1.8, -30), (2.3, 3.8, -30)], 4.0, 3), FS)
    assert ids(pause) == {1}
    assert all(len(f.tracks) == 1 for f in pause[10:])
    turns = [(0.3, 1.8, -30), (2.0, 3.5, 60), (5.0, 6.5, -30)]  # the first is gone for 3.2 s
    frames = track_sources(talk(turns, 7.0, 4), FS)
    assert ids(frames) == {1, 2}
    assert error_deg(next(t for t in frames[64].tracks if not t.coasting), -30, 10) < 4
    assert next(t.id for t in frames[64].tracks if not t.coasting) == 1
    assert ids(track_sources(talk(turns, 7.0, 4), FS, hold_s=1.0, remember_s=0.5)) == {1, 2, 3}


@pytest.mark.parametrize(("rate", "start"), [(20.0, -40.0), (-30.0, 100.0), (15.0, 150.0)])
def test_velocity_of_a_moving_source(rate: float, start: float) -> None:
    rng = np.random.default_rng(5)
    n = 5 * FS
    azimuth = start + rate * np.arange(n) / FS
    foa = plane_wave(syllables(5, rng)[:n], azimuth, 20.0) + sensor_noise(n, rng)
    frames = track_sources(foa, FS)
    assert ids(frames) == {1}
    late = frames[20:]
    true = start + rate * (np.array([f.t_s for f in late]) + 0.05)
    errors = [error_deg(f.tracks[0], a, 20) for f, a in zip(late, true, strict=True)]
    assert np.mean(errors) < 4 and max(errors) < 8
    assert np.mean([f.tracks[0].azimuth_rate_deg_s for f in late]) == pytest.approx(rate, rel=0.15)
    assert abs(np.mean([f.tracks[0].elevation_rate_deg_s for f in late])) < 3
    assert all(-180 <= f.tracks[0].azimuth_deg < 180 for f in late)


def test_a_rising_source_has_an_elevation_rate() -> None:
    rng = np.random.default_rng(6)
    n = 4 * FS
    foa = plane_wave(syllables(4, rng)[:n], 45.0 + np.zeros(n), -30 + 15 * np.arange(n) / FS)
    frames = track_sources(foa + sensor_noise(n, rng), FS)[15:]
    assert np.mean([f.tracks[0].elevation_rate_deg_s for f in frames]) == pytest.approx(15, rel=0.15)
    assert abs(np.mean([f.tracks[0].azimuth_rate_deg_s for f in frames])) < 3


def test_two_at_once_are_two_tracks() -> None:
    frames = track_sources(talk([(0.2, 4, -40), (0.2, 4, 30)], 4.0, 7), FS)
    for f in frames[15:]:
        assert len(f.tracks) == 2
        assert min(error_deg(t, -40, 10) for t in f.tracks) < 10
        assert min(error_deg(t, 30, 10) for t in f.tracks) < 10
    assert len(ids(frames[15:])) == 2


def test_crossing_tracks_keep_their_names() -> None:
    rng = np.random.default_rng(8)
    n = 5 * FS
    across = 25.0 * (np.arange(n) / FS - 2.5)
    foa = plane_wave(syllables(5, rng)[:n], across) + plane_wave(syllables(5, rng)[:n], -across)
    frames = track_sources(foa + sensor_noise(n, rng), FS)
    before, after = frames[15], frames[48]
    left = next(t.id for t in before.tracks if t.azimuth_deg < 0)
    assert next(t.id for t in after.tracks if t.azimuth_deg > 0) == left
    assert len(ids(frames[15:])) == 2


def steady(kind: str, seconds: float, rng: np.random.Generator) -> np.ndarray:
    t = np.arange(int(seconds * FS)) / FS
    if kind == "fan":
        return plane_wave(0.05 * rng.standard_normal(t.size) * (1 + 0.1 * np.sin(2 * np.pi * t)), 50, 0)
    if kind == "hum":
        return plane_wave(sum(0.03 / k * np.sin(2 * np.pi * 120 * k * t + k) for k in range(1, 20)), -90, 20)
    if kind == "silence":
        return np.zeros((t.size, 4), np.float32)
    return np.zeros((t.size, 4), np.float32)


@pytest.mark.parametrize("kind", ["fan", "hum", "quiet", "silence"])
def test_steady_sound_is_no_talker(kind: str) -> None:
    rng = np.random.default_rng(9)
    foa = steady(kind, 20, rng)
    if kind != "silence":
        foa = foa + sensor_noise(len(foa), rng)
    assert not ids(track_sources(foa.astype(np.float32), FS))


def test_a_fan_that_is_switched_on_is_no_talker() -> None:
    rng = np.random.default_rng(16)
    foa = sensor_noise(20 * FS, rng)
    for second in (4, 9, 14):
        foa[second * FS : (second + 3) * FS] += plane_wave(0.05 * rng.standard_normal(3 * FS), 50, 0)
    assert not ids(track_sources(foa, FS))


def test_a_talker_over_a_fan_is_found_and_the_fan_only_when_asked_for() -> None:
    rng = np.random.default_rng(10)
    fan = plane_wave(0.03 * rng.standard_normal(8 * FS), 120, 0) + sensor_noise(8 * FS, rng)
    foa = fan.copy()
    foa[4 * FS :] += plane_wave(syllables(4, rng)[: 4 * FS], -20, 0)
    frames = track_sources(foa, FS)
    assert not ids(frames[:40])
    assert len(ids(frames)) == 1 and error_deg(frames[-1].tracks[0], -20) < 8
    everything = track_sources(fan, FS, sounds="all")
    (track,) = everything[-1].tracks
    assert error_deg(track, 120) < 3 and not track.coasting
    quiet = track_sources(sensor_noise(8 * FS, rng), FS, sounds="all")
    assert not ids(quiet)


def test_gain_changes_nothing() -> None:
    foa = talk([(0.2, 2, 100)], 2.0, 11)
    loud, soft = track_sources(foa, FS), track_sources(foa * np.float32(1 / 64), FS)
    assert loud == soft  # a power of two


def test_turning_the_scene_turns_the_tracks() -> None:
    foa = talk([(0.2, 2, 100)], 2.0, 12)
    turned = foa.copy()
    turned[:, 1], turned[:, 3] = foa[:, 3], -foa[:, 1]  # by 90 degrees: exact also on the cube's cells
    a, b = track_sources(foa, FS)[-1].tracks[0], track_sources(turned, FS)[-1].tracks[0]
    assert (b.azimuth_deg - a.azimuth_deg) % 360 == pytest.approx(90, abs=0.1)
    assert b.elevation_deg == pytest.approx(a.elevation_deg, abs=0.1)
    assert b.uncertainty_deg == pytest.approx(a.uncertainty_deg, rel=1e-3)


@pytest.mark.parametrize("fs", [16000, 48000])
def test_rates(fs: int) -> None:
    rng = np.random.default_rng(13)
    foa = plane_wave(syllables(2, rng, fs)[: 2 * fs], -110, -20) + sensor_noise(2 * fs, rng)
    assert error_deg(track_sources(foa, fs)[-1].tracks[0], -110, -20) < 3


def test_after_a_gap_ids_go_on() -> None:
    foa = talk([(0.2, 2, 100)], 2.0, 14)
    tracker = Tracker(FS)
    (before,) = tracker.push(foa)[-1].tracks
    tracker.restart()
    frames = tracker.push(foa)
    assert frames[0].t_s == 0
    assert ids(frames) == {before.id}
    other = tracker.push(talk([(0.2, 2, -100)], 2.0, 15))
    assert ids(other) == {before.id, before.id + 1}


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="'noise'"):
        Tracker(FS, sounds="noise")  # type: ignore[arg-type]
    for wrong in (-1, math.nan, 1e9):
        with pytest.raises(InputError, match="hold_s"):
            Tracker(FS, hold_s=wrong)
    with pytest.raises(InputError, match="sample rate"):
        Tracker(1000)
    with pytest.raises(InputError, match="shape"):
        Tracker(FS).push(np.zeros((10, 2), np.float32))
    bad = np.zeros((2400, 4), np.float32)
    bad[17, 2] = np.nan
    tracker = Tracker(FS)
    with pytest.raises(InputError, match="sample 17"):
        tracker.push(bad)
    assert track_sources(np.zeros((0, 4), np.float32), FS) == []
    assert [f.tracks for f in track_sources(np.zeros((100, 4), np.float32), FS)] == [()]
