"""Kinds of sound by signals that are of a kind by construction, none of them the virtual room's own."""

from __future__ import annotations

import numpy as np
import pytest

import dsp
from edge.perception.device_sound import SoundDirectionTool, SoundKindTool, sound_kinds
from edge.perception.room_map import RoomMap
from edge.perception.tools import Scene
from edge.perception.utterance import RATE_HZ, Utterance

T = np.arange(3 * RATE_HZ) / RATE_HZ
ROOM = RoomMap({"devices": [], "microphone": {"position_m": [0, 0, 1], "yaw_deg": -60.0}})


def noise(seed: int = 0) -> np.ndarray:
    """Noise that falls by 3 dB an octave."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(0, 1, len(T)))
    hz = np.maximum(np.fft.rfftfreq(len(T), 1 / RATE_HZ), 50)
    made = np.fft.irfft(spectrum / np.sqrt(hz), len(T))
    return np.asarray(made / made.std())


def transformer() -> np.ndarray:
    return sum(np.sin(2 * np.pi * 100 * k * T + k) / k for k in range(1, 9)) + 0.7 * noise(1)


def oven_timer() -> np.ndarray:
    """Two thousand hertz, a fifth of a second on, as long off."""
    return np.sin(2 * np.pi * 2048 * T) * ((T % 0.4) < 0.2)


def organ() -> np.ndarray:
    """A chord of three, another one each half second."""
    roots = np.array([262.0, 349.0, 294.0, 392.0, 330.0, 440.0])[(T / 0.5).astype(int)]
    return sum(np.sin(2 * np.pi * np.cumsum(roots * ratio) / RATE_HZ) for ratio in (1, 1.25, 1.5))


def drum() -> np.ndarray:
    """1200 turns a minute: twenty strokes a second over noise."""
    return noise(2) + 2.5 * noise(3) * np.exp(-((T * 20) % 1) * 6)


SOUNDS = {"hum": transformer, "beep": oven_timer, "music": organ, "spin": drum, "blow": lambda: noise(4)}


@pytest.mark.parametrize("kind", SOUNDS)
def test_each_kind_is_told_from_the_others(kind: str):
    mono = (0.01 * SOUNDS[kind]() + np.random.default_rng(9).normal(0, 2e-4, len(T))).astype(np.float32)
    found = sound_kinds(mono)
    assert found.best == kind, found
    assert sum(found.odds.values()) == pytest.approx(1)
    louder = sound_kinds(5 * mono)
    assert louder.best == kind and louder.signs["purity"] == pytest.approx(found.signs["purity"], abs=1e-3)


def test_the_tool_listens_where_the_sound_comes_from():
    """A drum from one side and, 12 dB below, noise from behind it."""
    before = dsp.encode((0.02 * drum()).astype(np.float32), 80.0, 0.0)
    before = before + dsp.encode((0.005 * noise(5)).astype(np.float32), -100.0, 0.0)
    before = (before + np.random.default_rng(1).normal(0, 1e-4, before.shape)).astype(np.float32)
    scene = Scene(Utterance(before[:0], 0, np.zeros(0, bool), before, 0, 0), (), ROOM)
    kind, direction = SoundKindTool()(scene), SoundDirectionTool()(scene)
    assert kind.value is not None and kind.value.best == "spin" and kind.confidence > 0.5
    assert direction.value is not None and abs(direction.value.azimuth_deg - 20.0) < 5
    assert set(kind.to_dict()["value"]["odds"]) == {"hum", "beep", "music", "spin", "blow"}


def test_silence_is_of_no_kind():
    quiet = np.random.default_rng(1).normal(0, 1e-4, (3 * RATE_HZ, 4)).astype(np.float32)
    scene = Scene(Utterance(quiet[:0], 0, np.zeros(0, bool), quiet, 0, 0), (), ROOM)
    found = SoundKindTool()(scene)
    assert found.value is None and "no sound" in found.why
    assert SoundDirectionTool()(scene).value is None
