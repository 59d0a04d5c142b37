"""Directions of plane waves at known angles, in the room frame, with what must not disturb them."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from edge.perception.direction import device_direction, talker_direction
from edge.perception.utterance import RATE_HZ, Utterance


def noise(seconds: float, seed: int, high: bool = False) -> np.ndarray:
    x = np.random.default_rng(seed).normal(0, 1, round(seconds * RATE_HZ))
    return (np.diff(x, prepend=0) if high else np.convolve(x, np.ones(8) / 8, "same")).astype(np.float32)


def plane(mono: np.ndarray, az: float, el: float) -> np.ndarray:
    return np.asarray(dsp.encode(mono, az, el), np.float32)


def sensor(seconds: float, level: float = 1e-3) -> np.ndarray:
    return np.random.default_rng(9).normal(0, level, (round(seconds * RATE_HZ), 4)).astype(np.float32)


@pytest.mark.parametrize(("az", "el", "yaw"), [(30.0, 10.0, 90.0), (-120.0, -20.0, 0.0), (170.0, 0.0, 45.0)])
def test_a_steady_sound_in_the_room_frame(az: float, el: float, yaw: float) -> None:
    found = device_direction(plane(0.1 * noise(4, 1), az, el) + sensor(4), yaw)
    assert found is not None
    assert dsp.angular_error_deg(found.azimuth_deg - yaw, found.elevation_deg, az, el) < 4
    assert -180 <= found.azimuth_deg < 180
    assert found.support > 0.9


def test_a_bang_does_not_outvote_a_hum() -> None:
    """Half a second of another sound, 30 dB louder, in the middle: still the hum's direction."""
    x = plane(0.02 * noise(4, 2), 60.0, 0.0) + sensor(4)
    x[2 * RATE_HZ : 2 * RATE_HZ + RATE_HZ // 2] += plane(0.6 * noise(0.5, 3, high=True), -90.0, 20.0)
    found = device_direction(x, 0.0)
    assert found is not None
    assert dsp.angular_error_deg(found.azimuth_deg, found.elevation_deg, 60.0, 0.0) < 6
    assert found.support > 0.9, "the covered half second has no vote"


def test_repeating_beeps_are_found_between_their_silences() -> None:
    beeps = np.zeros(4 * RATE_HZ, np.float32)
    for k in range(8):
        at = round((0.2 + 0.5 * k) * RATE_HZ)
        beeps[at : at + 2400] = 0.2 * np.sin(2 * np.pi * 2000 * np.arange(2400) / RATE_HZ)
    found = device_direction(plane(beeps, -45.0, -10.0) + sensor(4), 0.0)
    assert found is not None
    assert dsp.angular_error_deg(found.azimuth_deg, found.elevation_deg, -45.0, -10.0) < 4


def test_two_single_sounds_are_nothing_that_goes_on() -> None:
    """A slate: two beeps in two seconds, then silence. With a hum the direction is the hum's."""
    x = sensor(2.0)
    for at in (0.4, 1.0):
        first = round(at * RATE_HZ)
        x[first : first + 2000] += plane(0.3 * noise(2000 / RATE_HZ, 6), 120.0, 0.0)
    assert device_direction(x, 0.0) is None
    found = device_direction(x + plane(0.02 * noise(2, 7), -30.0, 10.0), 0.0)
    assert found is not None
    assert dsp.angular_error_deg(found.azimuth_deg, found.elevation_deg, -30.0, 10.0) < 6


def test_silence_has_no_direction() -> None:
    assert device_direction(np.zeros((4 * RATE_HZ, 4), np.float32), 0.0) is None
    assert device_direction(np.zeros((0, 4), np.float32), 0.0) is None


def test_only_the_voiced_part_tells_where_the_talker_is() -> None:
    x = sensor(2.0)
    voiced = np.zeros(len(x), bool)
    voiced[RATE_HZ:] = True
    x[:RATE_HZ] += plane(0.3 * noise(1, 4), -100.0, 0.0)  # something else, before
    x[RATE_HZ:] += plane(0.1 * noise(1, 5), 20.0, 5.0)
    utterance = Utterance(x, 0, voiced, sensor(1.0), 0, 0)
    found = talker_direction(utterance, 90.0)
    assert found is not None
    assert dsp.angular_error_deg(found.azimuth_deg, found.elevation_deg, 110.0, 5.0) < 5
    assert talker_direction(Utterance(x, 0, np.zeros(len(x), bool), x, 0, 0), 0.0) is None
