"""Levels, spectrograms and onsets against published values, closed forms and known starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.figures import figure, not_measured
from bench.tones import tone

Floats = NDArray[np.float64]
FS = 24000
_SPEECH = Path(__file__).resolve().parent.parent / "capture" / "virtual" / "speech"
# IEC 61672-1: weights A of the third octaves from 10 Hz on.
_A = (
    *(-70.4, -63.4, -56.7, -50.5, -44.7, -39.4, -34.6, -30.2, -26.2, -22.5, -19.1, -16.1, -13.4, -10.9, -8.6),
    *(-6.6, -4.8, -3.2, -1.9, -0.8, 0.0, 0.6, 1.0, 1.2, 1.3, 1.2, 1.0, 0.5, -0.1, -1.1, -2.5, -4.3, -6.6),
)


def run(quick: bool) -> None:
    """Prints the figures of levels, spectrograms and onsets."""
    for fs, bands in ((24000, 31), (48000, 33)):  # to 10 kHz, to 16 kHz
        figure(f"A-weighting at {fs // 1000} kHz, error from the table", _a_error(fs, bands), "dB", "<=", 0.7)
    error = 0.0
    for level in (0.0, -20.0, -60.0):
        rows = dsp.spectrogram(10 ** (level / 20) * tone(3000, FS, 1), FS).power_db
        error = max(error, float(np.abs(rows.max(axis=1) - level).max()))
    figure("spectrogram, level of a sine", error, "dB", "<=", 0.01)
    _onsets(quick)


def _a_error(fs: int, bands: int) -> float:
    worst = 0.0
    for i, weight in enumerate(_A[:bands]):
        hz = 10 * 10 ** (i / 10)
        settle = fs // 2
        y = dsp.AWeighting(fs, 1).push(tone(hz, fs, 1.5 + 10 / hz)[:, None])[settle:, 0]
        t = np.arange(len(y)) / fs
        basis = np.stack([np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t)], axis=1)
        got = 20 * np.log10(np.hypot(*np.linalg.lstsq(basis, y, rcond=None)[0]))
        worst = max(worst, abs(float(got) - weight))
    return worst


def _onsets(quick: bool) -> None:
    rng = np.random.default_rng(11)
    minutes = 2 if quick else 10
    false = sum(len(dsp.onsets(0.01 * rng.standard_normal(60 * FS), FS)) for _ in range(minutes))
    figure("onsets in steady noise", false / minutes, "per minute", "<=", 1)
    starts = np.arange(1, 57, 0.4) + rng.uniform(0, 0.15, 140)
    x = 0.01 * rng.standard_normal(58 * FS)
    for t in starts:
        click = rng.standard_normal(24) * np.exp(-np.arange(24) / 8)
        x[round(t * FS) : round(t * FS) + 24] += 0.5 * click
    off = _distance_ms(dsp.onsets(x, FS), starts)
    figure("onsets of clicks, largest error", float(off.max()), "ms", "<=", 10)
    try:
        import soundfile
    except ImportError:
        not_measured("onsets of speech within 10 ms", "%", ">=", 95, "soundfile is not installed")
        return
    files = sorted(_SPEECH.glob("*.flac"))[: 5 if quick else None]
    found = []
    for file in files:
        clip, fs = soundfile.read(file)
        found.append(_speech_errors_ms(clip, fs, rng))
    figure("onsets of speech within 10 ms", float(100 * np.mean(np.concatenate(found) <= 10)), "%", ">=", 95)


def _speech_errors_ms(s: Floats, fs: int, rng: np.random.Generator) -> Floats:
    """Seven loud pieces of a clip, faded in over 3 ms at known times, in noise 40 dB below their peak."""
    s = s * (0.3 / np.abs(s).max())
    x, starts = 0.003 * rng.standard_normal(8 * fs), []
    for k in range(7):
        piece = np.zeros(1)
        while np.mean(piece[: fs // 50] ** 2) < 0.02**2:
            at = int(rng.integers(0, len(s) - fs // 4))
            piece = s[at : at + fs // 4].copy()
        piece[: fs // 333] *= np.linspace(0, 1, fs // 333)
        piece[-fs // 50 :] *= np.linspace(1, 0, len(piece[-fs // 50 :]))
        start = round((1 + 0.9 * k + rng.uniform(0, 0.3)) * fs)
        x[start : start + len(piece)] += piece
        starts.append(start / fs)
    return _distance_ms(dsp.onsets(x, fs), np.array(starts))


def _distance_ms(found: Floats, starts: Floats) -> Floats:
    if len(found) == 0:
        return np.full(len(starts), np.inf)
    return np.asarray(np.abs(found[:, None] - starts).min(axis=0) * 1e3)
