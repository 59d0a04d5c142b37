"""Arguments that cannot be: each public function says which value, and never with numpy's own exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

FOA = np.random.default_rng(0).normal(0, 0.1, (4800, 4)).astype(np.float32)
SQUARE = np.array([[0.02, 0.02, 0], [-0.02, 0.02, 0], [-0.02, -0.02, 0], [0.02, -0.02, 0]])

OF_RATE: dict[str, Callable[[Any], object]] = {
    "estimate_doa": lambda fs: dsp.estimate_doa(FOA, fs),
    "steady_direction": lambda fs: dsp.steady_direction(FOA, fs),
    "several_directions": lambda fs: dsp.several_directions(FOA, fs, 2),
    "estimate_sh_doa": lambda fs: dsp.estimate_sh_doa(FOA, fs),
    "estimate_array_doa": lambda fs: dsp.estimate_array_doa(FOA, SQUARE, fs),
    "Tracker": dsp.Tracker,
    "OnsetDetector": dsp.OnsetDetector,
    "ActivityDetector": dsp.ActivityDetector,
    "check": lambda fs: dsp.check(FOA, fs),
    "beamform": lambda fs: dsp.beamform(FOA, fs, 0.0, 0.0),
    "resample": lambda fs: dsp.resample(FOA, fs, 24000),
    "correct_spacing": lambda fs: dsp.correct_spacing(FOA, fs),
}


@pytest.mark.parametrize("fs", [float("nan"), float("inf"), 0, -1, 1e12, "48000", None, 44100.5, True])
@pytest.mark.parametrize("name", OF_RATE)
def test_a_rate_that_cannot_be_is_named(name, fs):
    with pytest.raises(InputError, match="sample rate must be a whole number of Hz") as caught:
        OF_RATE[name](fs)
    assert repr(fs) in str(caught.value)


OF_SOUND: dict[str, Callable[[Any], object]] = {
    "estimate_doa": lambda x: dsp.estimate_doa(x, 24000),
    "check": lambda x: dsp.check(x, 24000),
    "levels": dsp.levels,
    "convert": lambda x: dsp.convert(x, source="fuma", target="ambix"),
    "rotate": lambda x: dsp.rotate(x, np.eye(3)),
    "virtual_mic": lambda x: dsp.virtual_mic(x, 0.0, 0.0),
    "to_stereo": dsp.to_stereo,
    "resample": lambda x: dsp.resample(x, 48000, 24000),
    "array_to_foa": lambda x: dsp.array_to_foa(x, SQUARE, 24000),
    "estimate_array_azimuth": lambda x: dsp.estimate_array_azimuth(x, SQUARE, 24000),
}
SOUNDS: dict[str, Any] = {
    "rows of different lengths": [[0.1, 0.2, 0.3, 0.4], [0.1, 0.2]],
    "text": FOA[:3].astype(str),
    "nothing": None,
    "complex": FOA[:3].astype(complex),
    "three axes": np.zeros((2, 3, 4), np.float32),
}


@pytest.mark.parametrize("sound", SOUNDS)
@pytest.mark.parametrize("name", OF_SOUND)
def test_sound_that_is_none_is_refused(name, sound):
    with pytest.raises(InputError):
        OF_SOUND[name](SOUNDS[sound])


@pytest.mark.parametrize("azimuth", ["left", None, [1.0, 2.0], float("nan")])
def test_a_direction_that_is_none_is_refused(azimuth):
    with pytest.raises(InputError, match="azimuth"):
        dsp.virtual_mic(FOA, azimuth, 0.0)


def test_known_directions_without_sound_or_number_are_named():
    truth = [0.0, 90.0, 180.0, 0.0], [0.0, 0.0, 0.0, 60.0]
    seen = dsp.direction_to_unit(*truth)
    seen[2] = 0.0
    with pytest.raises(InputError, match=r"measured\[2\] is all zero"):
        dsp.check_directions(seen, *truth)
    with pytest.raises(InputError, match="NaN"):
        dsp.check_directions(np.ones((4, 3)), [0.0, 90.0, float("nan"), 0.0], truth[1])
