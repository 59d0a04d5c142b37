"""Resampling beside soxr and scipy: speed on one core, delay and the quality of every tone.

Speed is the median of repeats that take turns (ours, theirs, ours, ...), so that a busy machine hits all
alike. Four channels of float32 noise. Ratios are of medians.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.figures import figure, not_measured, note, peer

Runs = dict[str, Callable[[], Any]]


def _db(x: float) -> float:
    return float(20 * np.log10(max(abs(x), 1e-15)))


def _interleaved(runs: Runs, seconds: float, repeats: int) -> dict[str, float]:
    """Median milliseconds of CPU per second of audio of each run."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name].append((time.thread_time() - start) / seconds * 1e3)
    return {name: float(np.median(t)) for name, t in times.items()}


def _tone(hz: float, fs: float, seconds: float) -> NDArray[np.float64]:
    return np.sin(2 * np.pi * hz * np.arange(round(fs * seconds)) / fs)


def worst_alias_db(resample: Callable[[Any], Any], fs_in: int, first_hz: float, tones: int) -> float:
    """The strongest line that any input tone from first_hz up leaves in the output, in dBc."""
    worst = 0.0
    for hz in np.linspace(first_hz, 0.4995 * fs_in, tones):
        y = np.asarray(resample(_tone(hz, fs_in, 0.1).astype(np.float32)), np.float64)[300:-300]
        spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y)))) / (0.25 * len(y))
        worst = max(worst, float(spectrum.max()))
    return _db(worst)


def ripple_db(resample: Callable[[Any], Any], fs_in: int, fs_out: int, last_hz: float) -> float:
    """The largest deviation from 0 dB of tones from 50 Hz to last_hz."""
    worst = 0.0
    for hz in np.linspace(50, last_hz, 60):
        y = np.asarray(resample(_tone(hz, fs_in, 0.3).astype(np.float32)), np.float64)[400:-400]
        worst = max(worst, abs(_db(_amplitude_and_rest(y, fs_out, hz)[0])))
    return worst


def _amplitude_and_rest(y: NDArray[np.float64], fs: int, hz: float) -> tuple[float, float]:
    t = np.arange(len(y)) / fs
    basis = np.stack([np.sin(2 * np.pi * hz * t), np.cos(2 * np.pi * hz * t), np.ones_like(t)], axis=1)
    weights, *_ = np.linalg.lstsq(basis, y, rcond=None)
    return float(np.hypot(weights[0], weights[1])), float(np.std(y - basis @ weights))


def thd_n_db(resample: Callable[[Any], Any], fs_in: int, fs_out: int, hz: float = 997.0) -> float:
    """All that is not the tone against the tone, in dB."""
    y = np.asarray(resample(_tone(hz, fs_in, 2.0).astype(np.float32)), np.float64)[600:-600]
    amplitude, rest = _amplitude_and_rest(y, fs_out, hz)
    return _db(rest / (amplitude / np.sqrt(2)))


def run(quick: bool) -> None:
    """Prints every figure of the resampler with its peers."""
    try:
        import soxr
    except ImportError:
        soxr = None
    _speed(quick, soxr)
    _quality(40 if quick else 200, soxr)
    _streaming(60 if quick else 400)
    _asynchronous()


def _speed(quick: bool, soxr: Any) -> None:
    from scipy.signal import resample_poly

    seconds, repeats = (5, 15) if quick else (20, 31)
    x = (np.random.default_rng(0).standard_normal((48000 * seconds, 4)) * 0.1).astype(np.float32)
    at_44 = x[: 44100 * seconds]

    def blocks(push: Callable[[Any], Any]) -> None:
        for at in range(0, len(x), 480):
            push(x[at : at + 480])

    affinity = None
    if hasattr(os, "sched_setaffinity"):
        affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(affinity)})
    try:
        runs: Runs = {
            "48-24": lambda: dsp.resample(x, 48000, 24000),
            "48-24 high": lambda: dsp.resample(x, 48000, 24000, "high"),
            "48-24 in 10 ms": lambda: blocks(dsp.Resampler(48000, 24000, 4).push),
            "44.1-24": lambda: dsp.resample(at_44, 44100, 24000),
        }
        if soxr is not None:
            runs["soxr HQ 48-24"] = lambda: soxr.resample(x, 48000, 24000)
            runs["soxr HQ 48-24 in 10 ms"] = lambda: blocks(
                soxr.ResampleStream(48000, 24000, 4, dtype="float32").resample_chunk
            )
            runs["soxr HQ 44.1-24"] = lambda: soxr.resample(at_44, 44100, 24000)
        ms = _interleaved(runs, seconds, repeats)
        ms |= _interleaved({"scipy": lambda: resample_poly(x, 1, 2, axis=0)}, seconds, 3)
    finally:
        if affinity is not None:
            os.sched_setaffinity(0, affinity)
    for name, value in ms.items():
        if name.startswith(("soxr", "scipy")):
            peer(f"{name.replace('scipy', 'scipy resample_poly 48-24')} cost", value, "ms/s")
        else:
            note(f"resample {name}: {value:.3f} ms per second of audio, {1000 / value:.0f} x real time")
    ratios = (
        ("48-24 offline speed", "48-24", "soxr HQ 48-24", 1.2),
        ("48-24 speed in 10 ms blocks", "48-24 in 10 ms", "soxr HQ 48-24 in 10 ms", 1.5),
        ("48-24 high quality speed", "48-24 high", "soxr HQ 48-24", 0.5),
        ("44.1-24 speed", "44.1-24", "soxr HQ 44.1-24", 0.5),
    )
    for name, ours, theirs, target in ratios:
        if theirs in ms:
            figure(name, ms[theirs] / ms[ours], "x soxr HQ", ">=", target)
        else:
            not_measured(name, "x soxr HQ", ">=", target, "soxr is not installed")


def _quality(tones: int, soxr: Any) -> None:
    from scipy.signal import resample_poly

    def ours(fs_in: int, quality: str = "standard") -> Callable[[Any], Any]:
        return lambda x: dsp.resample(x, fs_in, 24000, quality)

    figure("48-24 delay", dsp.Resampler(48000, 24000, 4).delay_s * 1e3, "ms", "<=", 3.0)
    figure("48-24 ripple to 10 kHz", ripple_db(ours(48000), 48000, 24000, 10000), "dB", "<=", 0.001)
    figure(
        "48-24 worst alias from 13 kHz", worst_alias_db(ours(48000), 48000, 13000, tones), "dBc", "<=", -100
    )
    high = ours(48000, "high")
    figure("48-24 high: alias from 12.1 kHz", worst_alias_db(high, 48000, 12100, tones), "dBc", "<=", -120)
    figure("48-24 THD+N at 997 Hz", thd_n_db(ours(48000), 48000, 24000), "dB", "<=", -120)
    figure("44.1-24 ripple to 10 kHz", ripple_db(ours(44100), 44100, 24000, 10000), "dB", "<=", 0.001)
    figure(
        "44.1-24 worst alias from 13 kHz", worst_alias_db(ours(44100), 44100, 13000, tones), "dBc", "<=", -100
    )
    figure("44.1-24 THD+N at 997 Hz", thd_n_db(ours(44100), 44100, 24000), "dB", "<=", -120)

    def poly(x: Any) -> Any:
        return resample_poly(x, 1, 2)

    peer(
        "scipy resample_poly 48-24 worst alias from 13 kHz", worst_alias_db(poly, 48000, 13000, tones), "dBc"
    )
    if soxr is None:
        return

    def soxr_hq(x: Any) -> Any:
        return soxr.resample(x, 48000, 24000)

    peer("soxr HQ 48-24 worst alias from 13 kHz", worst_alias_db(soxr_hq, 48000, 13000, tones), "dBc")
    peer("soxr HQ 48-24 THD+N at 997 Hz", thd_n_db(soxr_hq, 48000, 24000), "dB")
    stream = soxr.ResampleStream(48000, 24000, 4, dtype="float32")
    given = taken = 0
    behind = 0.0
    for _ in range(100):
        given += 480
        taken += len(stream.resample_chunk(np.zeros((480, 4), np.float32)))
        behind = max(behind, given / 48000 - taken / 24000)
    peer("soxr HQ stream backlog", behind * 1e3, "ms")


def _streaming(trials: int) -> None:
    """Random cuts, single frames and odd sizes among them, must not change one bit."""
    rng = np.random.default_rng(1)
    same = counts = 0
    for trial in range(trials):
        x = rng.standard_normal((int(rng.integers(1, 6000)), 4)).astype(np.float32)
        quality = ("standard", "high")[trial % 2]
        r = dsp.Resampler(48000, 24000, 4, quality)
        parts: list[Any] = []
        at, right = 0, True
        while at < len(x):
            size = int(rng.choice([1, 2, 3, 479, 480, 481, int(rng.integers(1, 3000))]))
            parts.append(r.push(x[at : at + size]))
            at = min(at + size, len(x))
            right &= sum(map(len, parts)) == at // 2
        whole = dsp.resample(x, 48000, 24000, quality)
        same += np.array_equal(np.concatenate([*parts, r.flush()])[r.delay_frames :], whole)
        counts += right
    figure("chunked equals one-shot bit for bit", 100 * same / trials, "%", "==", 100)
    figure("n/2 frames out for n in", 100 * counts / trials, "%", "==", 100)
    mono = rng.standard_normal((5000, 1)).astype(np.float32).repeat(4, axis=1)
    y = dsp.resample(mono, 48000, 24000)
    figure("difference between equal channels", float(np.ptp(y, axis=1).max()), "", "==", 0)
    i24 = rng.integers(-(2**23), 2**23, (5000, 4), dtype=np.int32) << 8
    exact = dsp.resample((i24 / 2.0**31).astype(np.float32), 48000, 24000)
    difference = float(np.max(np.abs(dsp.resample(i24, 48000, 24000) - exact)))
    figure("24-bit integer input against float", difference, "", "==", 0)


def _asynchronous() -> None:
    """A tone through a ramp from -200 to +200 ppm in 3 s, against the closed form of the read position."""
    x = _tone(997.0, 48000, 4.0).astype(np.float32)[:, None]
    r = dsp.AsyncResampler(48000, 24000, 1, ppm=-200)
    r.steer(200, over_s=3)
    y = r.push(x)[:, 0].astype(np.float64)
    step = np.full(2 * len(y), 1 + 200e-6)
    ramp = 3 * 48000
    step[:ramp] = 1 - 200e-6 + 400e-6 / ramp * np.arange(ramp)
    late = dsp.Resampler(48000, 24000, 1).delay_frames
    position = np.concatenate([[0.0], np.cumsum(step)])[::2][: len(y) - late]
    phase = 2 * np.pi * 997.0 * position / 48000
    basis = np.stack([np.sin(phase), np.cos(phase)], axis=1)[500:]
    part = y[late:][500:]
    weights, *_ = np.linalg.lstsq(basis, part, rcond=None)
    rest = float(np.std(part - basis @ weights))
    figure(
        "async THD+N under a ramp of 400 ppm", _db(rest * np.sqrt(2) / np.hypot(*weights)), "dB", "<=", -100
    )
