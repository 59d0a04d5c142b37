"""Cutting utterances: a detector that is told when speech is makes every boundary a closed form."""

from __future__ import annotations

import numpy as np
import pytest

from dsp.errors import InputError
from edge.perception.utterance import (
    HANG_S,
    LONGEST_S,
    PRE_ROLL_S,
    RATE_HZ,
    TAIL_S,
    Utterance,
    UtteranceCutter,
)
from edge.perception.voice import Voice

FRAME_S = 0.032


class ToldDetector:
    """Knows speech by a tag in the sound: |W| above 0.5 anywhere in a 32 ms frame."""

    def __init__(self) -> None:
        self._pending = np.zeros(0, np.float32)
        self._frames = 0

    def push(self, mono: np.ndarray) -> list[Voice]:
        self._pending = np.concatenate([self._pending, mono])
        size = round(FRAME_S * RATE_HZ)
        out = []
        while len(self._pending) >= size:
            loud = bool((np.abs(self._pending[:size]) > 0.5).any())
            out.append(Voice(self._frames * FRAME_S, FRAME_S, 0.9 if loud else 0.1))
            self._frames += 1
            self._pending = self._pending[size:]
        return out


def sound(seconds: float, *speech: tuple[float, float], hum: float = 0.0) -> np.ndarray:
    """Quiet noise and a hum in all channels, with loud noise bursts (the "speech") at the intervals given."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1e-3, (round(seconds * RATE_HZ), 4))
    x += hum * np.sin(2 * np.pi * 120 * np.arange(len(x)) / RATE_HZ)[:, None]
    for start, end in speech:
        a, b = round(start * RATE_HZ), round(end * RATE_HZ)
        x[a:b] += rng.choice([-0.8, 0.8], (b - a, 1))
    return x.astype(np.float32)


def cut(x: np.ndarray, block: int = 240, start_ns: int = 5_000_000_000) -> list[Utterance]:
    cutter = UtteranceCutter(ToldDetector)
    out = []
    for i in range(0, len(x), block):
        out += cutter.push(x[i : i + block], start_ns + round(i * 1e9 / RATE_HZ))
    return out + cutter.flush()


def test_one_utterance_with_its_margins_and_times() -> None:
    found = cut(sound(6.0, (3.0, 4.2)))
    assert len(found) == 1
    u = found[0]
    begin = (u.t_ns - 5_000_000_000) / 1e9
    assert begin == pytest.approx(3.0 - PRE_ROLL_S, abs=0.08)
    assert u.duration_s == pytest.approx(1.2 + PRE_ROLL_S + TAIL_S, abs=0.1)
    assert (u.ended_ns - 5_000_000_000) / 1e9 == pytest.approx(4.2, abs=0.07)
    assert (u.decided_ns - u.ended_ns) / 1e9 == pytest.approx(HANG_S, abs=0.05)
    assert u.voiced.sum() / RATE_HZ == pytest.approx(1.2, abs=0.1)
    assert len(u.before) / RATE_HZ == pytest.approx(begin, abs=0.01)
    assert not u.cut_short


@pytest.mark.parametrize("block", [240, 1000, 24000])
def test_the_block_size_changes_little(block: int) -> None:
    """Only how early the speech detector wakes up depends on the blocks."""
    x = sound(6.0, (3.0, 4.2))
    fine, other = cut(x)[0], cut(x, block)[0]
    assert abs(fine.t_ns - other.t_ns) < 0.07e9
    assert abs(fine.ended_ns - other.ended_ns) < 0.07e9


def test_a_short_pause_does_not_cut_and_a_long_one_does() -> None:
    assert len(cut(sound(6.0, (2.0, 2.6), (2.9, 3.5)))) == 1
    assert len(cut(sound(7.0, (2.0, 2.6), (3.6, 4.2)))) == 2


def test_a_hum_neither_starts_nor_hides_an_utterance() -> None:
    assert cut(sound(6.0, hum=0.05)) == []
    assert len(cut(sound(6.0, (3.0, 4.0), hum=0.05))) == 1


def test_a_click_is_no_utterance() -> None:
    assert cut(sound(5.0, (2.0, 2.05))) == []


def test_endless_speech_is_cut_at_the_longest() -> None:
    found = cut(sound(12.0, (1.0, 11.5)))
    assert found[0].cut_short
    assert found[0].duration_s <= LONGEST_S + PRE_ROLL_S + TAIL_S + 0.1


def test_the_end_of_the_stream_ends_the_utterance() -> None:
    found = cut(sound(4.0, (3.0, 4.0)))
    assert len(found) == 1
    assert found[0].cut_short


def test_nothing_is_glued_over_a_gap() -> None:
    x = sound(4.0, (2.0, 4.0))
    cutter = UtteranceCutter(ToldDetector)
    found = []
    for i in range(0, len(x), 240):
        later = 2_000_000_000 if i >= 3 * RATE_HZ else 0
        found += cutter.push(x[i : i + 240], later + round(i * 1e9 / RATE_HZ))
    found += cutter.flush()
    assert len(found) == 2
    assert found[0].cut_short
    assert len(found[1].before) < RATE_HZ  # only what came after the gap


def test_a_long_silence_is_not_kept() -> None:
    cutter = UtteranceCutter(ToldDetector)
    quiet = sound(1.0)
    for second in range(60):
        cutter.push(quiet, second * 1_000_000_000)
    assert sum(len(part) for part in cutter._sound) <= 21 * RATE_HZ, "the longest speech and what was before"


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="frames, 4"):
        UtteranceCutter(ToldDetector).push(np.zeros(100, np.float32), 0)
