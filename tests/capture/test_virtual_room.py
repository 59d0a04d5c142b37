"""The room simulation against closed forms, and against pyroomacoustics where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, sosfiltfilt

from capture.virtual.room import SPEED_OF_SOUND, foa_response, wall_reflection
from dsp.errors import InputError

FS = 48000
SIZE = (5.2, 4.1, 2.7)
MIC = (2.6, 1.0, 1.2)


def schroeder_rt60(h: np.ndarray, low_db: float = -5.0, high_db: float = -25.0) -> float:
    """Decay time from the backward integral (Schroeder 1965), fitted between two levels."""
    energy = np.cumsum(h[::-1].astype(float) ** 2)[::-1]
    level = 10 * np.log10(energy / energy[0] + 1e-30)
    inside = np.flatnonzero((level <= low_db) & (level >= high_db))
    return float(-60 / np.polyfit(inside / FS, level[inside], 1)[0])


def fractional_delay(h: np.ndarray) -> float:
    """Delay in samples from the phase slope below a quarter of the rate."""
    spectrum = np.fft.rfft(h, 65536)
    top = 16384
    phase = np.unwrap(np.angle(spectrum[:top]))
    frequency = np.arange(top) * 2 * np.pi / 65536
    return float(-np.polyfit(frequency, phase, 1)[0])


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.floats(0.2, 5.0), st.floats(1.6, 3.9), st.floats(0.2, 2.5)),
    st.floats(-180, 180),
)
def test_direct_sound_has_delay_gain_and_direction_of_the_geometry(place, yaw):
    h = foa_response(SIZE, place, MIC, 0.0, FS, microphone_yaw_deg=yaw).astype(float)
    way = np.subtract(place, MIC)
    r = np.linalg.norm(way)
    assert fractional_delay(h[:, 0]) == pytest.approx(r / SPEED_OF_SOUND * FS, abs=0.01)
    assert h[:, 0].sum() == pytest.approx(1 / r, rel=2e-3)
    # SN3D: Y, Z, X are W times the unit vector in the microphone's frame.
    azimuth = np.arctan2(way[1], way[0]) - np.radians(yaw)
    elevation = np.arcsin(way[2] / r)
    unit = [
        np.sin(azimuth) * np.cos(elevation),
        np.sin(elevation),
        np.cos(azimuth) * np.cos(elevation),
    ]
    np.testing.assert_allclose(h[:, 1:], h[:, :1] * np.array(unit), atol=1e-6)


def test_first_reflection_is_where_the_mirror_says():
    """A floor bounce: source and microphone at the same height, all other walls far away."""
    size, mic, source = (40.0, 40.0, 30.0), (20.0, 18.0, 1.5), (20.0, 20.0, 1.5)
    h = foa_response(size, source, mic, 1.0, FS).astype(float)
    beta = wall_reflection(size, 1.0)
    r = np.hypot(2.0, 3.0)
    at = r / SPEED_OF_SOUND * FS
    window = h[int(at) - 40 : int(at) + 41]
    alone = np.r_[np.zeros(int(at) - 40), window[:, 0]]
    assert fractional_delay(alone) == pytest.approx(at, abs=0.1)  # the high-pass bends the phase a little
    assert np.sqrt(np.sum(alone**2)) == pytest.approx(beta / r, rel=0.03)
    # It comes from below: z part of the unit vector is -3 / r, y part 2 / r.
    w = window[:, 0]
    assert (window[:, 2] @ w) / (w @ w) == pytest.approx(-3 / r, abs=0.02)
    assert (window[:, 1] @ w) / (w @ w) == pytest.approx(2 / r, abs=0.02)


@pytest.mark.parametrize("rt60", [0.2, 0.3, 0.5, 0.8, 1.2])
@pytest.mark.parametrize("size", [SIZE, (3.1, 2.6, 2.4), (8.0, 6.0, 3.2)])
def test_decay_time_is_the_one_asked(rt60, size):
    places = np.array([[0.3, 0.7, 0.55], [0.8, 0.35, 0.4], [0.2, 0.25, 0.7]])
    found = [
        schroeder_rt60(foa_response(size, np.array(size) * p, np.array(size) * (0.5, 0.4, 0.45), rt60)[:, 0])
        for p in places
    ]
    assert np.mean(found) == pytest.approx(rt60, rel=0.12)


def test_late_sound_is_diffuse():
    """In a diffuse field SN3D has |X|^2 + |Y|^2 + |Z|^2 = |W|^2; a flat box stays within 2 dB."""
    for rt60 in (0.3, 0.8):
        h = foa_response(SIZE, (1.0, 3.0, 1.5), MIC, rt60).astype(float)
        late = h[int(0.08 * FS) :]
        ratio = 10 * np.log10((late[:, 1:] ** 2).sum() / (late[:, 0] ** 2).sum())
        assert abs(ratio) < 2.0


def test_tail_goes_on_where_the_images_end():
    """No step in level at the change from images to tail: 40 ms before and after differ by the decay only."""
    h = foa_response(SIZE, (1.0, 3.0, 1.5), MIC, 1.0)[:, 0].astype(float)
    before = np.sum(h[int(0.27 * FS) : int(0.31 * FS)] ** 2)
    after = np.sum(h[int(0.36 * FS) : int(0.40 * FS)] ** 2)
    assert 10 * np.log10(before / after) == pytest.approx(60 * 0.09 / 1.0, abs=1.5)


def test_a_talker_who_turns_away_is_heard_through_the_room():
    towards = np.subtract(MIC, (2.0, 3.0, 1.5))
    facing = foa_response(SIZE, (2.0, 3.0, 1.5), MIC, 0.3, facing=towards, omni=0.6)
    away = foa_response(SIZE, (2.0, 3.0, 1.5), MIC, 0.3, facing=-towards, omni=0.6)
    r = np.linalg.norm(towards)
    end = int(r / SPEED_OF_SOUND * FS) + 30
    direct = [h[:end, 0].sum() for h in (facing, away)]
    assert direct[0] == pytest.approx(1 / r, rel=0.01)
    assert direct[1] == pytest.approx(0.2 / r, rel=0.06)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((5, 4, 3), (6, 1, 1), (1, 1, 1), 0.3), "outside the room"),
        (((5, 4, 3), (2, 1, 1), (1, 1, -1), 0.3), "microphone"),
        (((5, 4, 3), (2, 1, 1), (2, 1, 1.01), 0.3), "apart"),
        (((5, 4, 3), (2, 1, 1), (1, 1, 1), 9.0), "rt60"),
        (((5, 4), (2, 1, 1), (1, 1, 1), 0.3), "three metres"),
    ],
)
def test_impossible_rooms_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        foa_response(*arguments)


def test_omni_channel_equals_pyroomacoustics():
    pra = pytest.importorskip("pyroomacoustics")
    source, rt60 = (1.2, 3.1, 1.6), 0.3
    ours = foa_response(SIZE, source, MIC, rt60, FS)[:, 0].astype(float)
    absorption = 1 - wall_reflection(SIZE, rt60) ** 2
    room = pra.ShoeBox(SIZE, fs=FS, materials=pra.Material(absorption), max_order=17, air_absorption=False)
    room.set_sound_speed(SPEED_OF_SOUND)
    room.add_source(source)
    room.add_microphone(MIC)
    room.compute_rir()
    theirs = room.rir[0][0]
    # Its responses start half a filter later; order 17 is complete up to 17 times the shortest way.
    shift = pra.constants.get("frac_delay_length") // 2
    theirs = theirs[shift:]
    frames = int(0.06 * FS)
    band = butter(4, (100, 12000), "bandpass", fs=FS, output="sos")
    a, b = (sosfiltfilt(band, h[: 2 * frames])[:frames] for h in (ours, theirs))
    # The two differ by their high-pass (10 Hz there, 40 Hz here) and their sinc windows.
    assert np.sum((a - b) ** 2) < 0.003 * np.sum(b**2)
    assert np.corrcoef(a, b)[0, 1] > 0.998
