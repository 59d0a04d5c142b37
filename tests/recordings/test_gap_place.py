"""The place of a loss from the sound: right or silent, in real recordings, coloured noise and white noise."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import lfilter

from recordings.gap_place import loss_place

SHARED = Path(os.environ.get("HEARTH_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
RECORDINGS = sorted((SHARED / "foa").glob("jsambisonics-*/*.ogg"))


def answers(sound: np.ndarray, block: int, inside: bool, count: int = 40) -> list[tuple[int | None, int]]:
    """(found, true) block of losses of 30 frames to half a second among 15 blocks."""
    rng = np.random.default_rng(len(sound))
    told = []
    for _ in range(count):
        lost = int(np.exp(rng.uniform(np.log(30), np.log(24000))))
        at = int(rng.integers(10000, len(sound) - lost - 22000))
        cut = np.concatenate([sound[:at], sound[at + lost :]])
        true = int(rng.integers(1, 13))
        first = at - true * block - (int(rng.integers(1, block)) if inside else 0)
        starts = [first + i * block for i in range(16)]
        told.append((loss_place(lambda a, n, x=cut: x[a : a + n], starts), true))  # type: ignore[misc]
    return told


@pytest.mark.parametrize("path", RECORDINGS or [None], ids=lambda p: p.stem if p else "none")
@pytest.mark.parametrize("inside", [False, True])
def test_real_recordings(path: Path | None, inside: bool) -> None:
    if path is None:
        pytest.skip("the real recordings (HEARTH_SHARED_DATA) are absent")
    sound = soundfile.read(path, dtype="float32", always_2d=True)[0][:, :4]
    told = answers(sound, 480, inside)
    assert np.mean([found not in (true, None) for found, true in told]) <= 0.05  # percussion is a break, too
    assert np.mean([found == true for found, true in told]) >= (0.7 if not inside else 0.5)


def test_coloured_noise_and_white() -> None:
    rng = np.random.default_rng(1)
    white = rng.standard_normal((60000, 2))
    coloured = lfilter([1.0], [1.0, -1.6, 0.8], white, axis=0)
    told = answers(coloured * 1e-3, 441, False)
    assert np.mean([found == true for found, true in told]) > 0.5
    assert all(found in (true, None) for found, true in told)
    assert np.mean([found is None for found, _ in answers(white, 480, False)]) > 0.9


@pytest.mark.parametrize("sound", [np.zeros((30000, 4)), np.full((30000, 1), np.nan), np.zeros((100, 4))])
def test_nothing_is_said_of_what_says_nothing(sound: np.ndarray) -> None:
    assert loss_place(lambda a, n: sound[a : a + n], [9000, 9480, 9960, 10440]) is None
    assert loss_place(lambda a, n: sound[a : a + n], [9000, 9480]) is None
