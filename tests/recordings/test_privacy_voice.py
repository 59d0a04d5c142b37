"""Voice-safe copies: formants move, directions and length stay, and what is not sure is not written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

import dsp
from dsp.errors import CheckFailed, InputError
from recordings.privacy.voice import voice_safe, voice_safe_copy

FS = 24000
FORMANTS = (
    (700.0, 80.0),
    (1220.0, 90.0),
    (2600.0, 120.0),
)  # Hz: centre, width of /a/


def vowel(seconds: float = 0.6, pitch_hz: float = 120.0) -> np.ndarray:
    """Pulses through three resonances, with pauses: a source-filter voice whose formants are known."""
    from scipy.signal import lfilter

    n = int(seconds * FS)
    pulses = (np.diff(np.floor(np.arange(n + 1) * pitch_hz / FS)) > 0).astype(float)
    for centre, width in FORMANTS:
        r = np.exp(-np.pi * width / FS)
        pulses = lfilter([1.0], [1.0, -2 * r * np.cos(2 * np.pi * centre / FS), r * r], pulses)
    pulses *= 0.2 / np.abs(pulses).max()
    pulses[: n // 5] = 0.0
    return pulses


def scene() -> np.ndarray:
    rng = np.random.default_rng(0)
    one = dsp.encode(vowel(), 40.0, 10.0)
    return np.asarray(one + 1e-5 * rng.standard_normal(one.shape), np.float32)


def peaks_hz(w: np.ndarray) -> list[float]:
    """The three lowest peaks of the LPC spectrum of the middle (24 poles, numpy only)."""
    part = w[len(w) // 2 : len(w) // 2 + 2048] * np.hanning(2048)
    lags = np.correlate(part, part, "full")[2047 : 2047 + 13]
    lags[0] *= 1 + 1e-6
    matrix = lags[np.abs(np.subtract.outer(np.arange(12), np.arange(12)))]
    predictor = np.concatenate([[1.0], -np.linalg.solve(matrix, lags[1:])])
    poles = [p for p in np.roots(predictor) if p.imag > 0 and abs(p) > 0.93]
    return sorted(float(np.angle(p)) * FS / (2 * np.pi) for p in poles)[:3]


@pytest.fixture(scope="module")
def changed() -> tuple[np.ndarray, np.ndarray]:
    foa = scene()
    return foa, voice_safe(foa, FS)[0]


def test_formants_move_as_the_method_says_and_the_pitch_stays(changed):
    foa, out = changed
    before, after = peaks_hz(foa[:, 0]), peaks_hz(out[:, 0])
    assert before == pytest.approx([centre for centre, _ in FORMANTS], rel=0.03), "the oracle finds them"
    for old, new in zip(before, after, strict=True):
        angle = 2 * np.pi * old / FS
        low, high = (angle**alpha * FS / (2 * np.pi) for alpha in (0.90, 0.80))
        assert low * 0.93 < new < high * 1.07 and new > 1.05 * old

    def pitch(w: np.ndarray) -> float:
        part = w[len(w) // 2 :]
        lags = np.correlate(part, part, "full")[len(part) - 1 :]
        return FS / (100 + int(np.argmax(lags[100:400])))

    assert pitch(out[:, 0]) == pytest.approx(pitch(foa[:, 0]), rel=0.02)


def test_directions_and_length_stay(changed):
    foa, out = changed
    assert out.shape == foa.shape and out.dtype == np.float32
    before, after = dsp.estimate_doa(foa, FS), dsp.estimate_doa(out, FS)
    both = np.isfinite(before.azimuth_deg) & np.isfinite(after.azimuth_deg)
    both[:2] = False  # before the voice begins there is noise only
    assert both.sum() >= 3
    assert np.abs(before.azimuth_deg - after.azimuth_deg)[both].max() < 1.0
    assert np.abs(before.elevation_deg - after.elevation_deg)[both].max() < 1.0


def test_two_runs_are_the_same_and_a_seed_makes_another_copy(tmp_path: Path):
    soundfile.write(tmp_path / "in.wav", scene(), FS, subtype="FLOAT")
    made = []
    for name, seed in (("a", b""), ("b", b""), ("c", b"secret")):
        report = voice_safe_copy(
            tmp_path / "in.wav", tmp_path / f"{name}.wav", seed=seed, speech=[(0.2, 0.5)]
        )
        made.append(soundfile.read(tmp_path / f"{name}.wav", dtype="float32")[0])
    assert (made[0] == made[1]).all() and not np.allclose(made[0], made[2], atol=1e-4)
    assert report.change_db > 3 and report.turn_deg < 1 and 0.80 <= report.alpha <= 0.90
    assert report.frames == len(made[0]) == len(scene())


@pytest.mark.parametrize(
    ("spoil", "speech", "match"),
    [
        (lambda x: np.where(np.arange(len(x))[:, None] == 9000, np.nan, x), (), "NaN"),
        (lambda x: x, [(0.0, 0.06)], "nothing is heard"),
        (lambda x: 0 * x, [(0.0, 0.5)], "nothing is heard"),
        (lambda x: x[:100], (), "too short"),
    ],
)
def test_what_cannot_be_stood_for_is_not_written(tmp_path: Path, spoil, speech, match):
    soundfile.write(tmp_path / "in.wav", spoil(scene()).astype(np.float32), FS, subtype="FLOAT")
    with pytest.raises(CheckFailed, match=match):
        voice_safe_copy(tmp_path / "in.wav", tmp_path / "out.wav", speech=speech)
    assert not (tmp_path / "out.wav").exists()


def test_bad_input_is_a_message(tmp_path: Path):
    soundfile.write(tmp_path / "mono.wav", np.zeros(9000), FS)
    (tmp_path / "text.wav").write_text("no sound")
    for name in ("mono.wav", "text.wav", "absent.wav"):
        with pytest.raises(InputError):
            voice_safe_copy(tmp_path / name, tmp_path / "out.wav")
    with pytest.raises(InputError, match="exists"):
        voice_safe_copy(tmp_path / "mono.wav", tmp_path / "text.wav")
