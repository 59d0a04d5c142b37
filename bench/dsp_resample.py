"""Resampling beside soxr and scipy: speed on one core, delay and the quality of every tone.

Speed: ours and theirs take turns in one thread on one core, and the figure is the median of the ratios of
neighbours, so that other work on the machine hits both alike. CPU time, four channels of float32 noise.
Quality is measured from outside, with tones, by the functions of `bench.tones`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.figures import end_of_part, figure, not_measured, note, peer
from bench.figures import quick as short_form
from bench.tones import decibels, ripple_db, thd_n_db, tone, tone_and_rest, worst_alias_db
from dsp.errors import InputError
from dsp.resample import Quality

Runs = dict[str, Callable[[], Any]]
# Rates, quality, and the targets: speed against soxr HQ offline and in 10 ms blocks, delay in ms, the first
# alias and its level. Issue figures for 48 -> 24; the others are held to the peer's speed.
CASES: tuple[tuple[int, int, Quality, float, float, float, float, float], ...] = (
    (48000, 24000, "standard", 1.2, 1.5, 3.0, 13000, -100.0),
    (48000, 24000, "high", 0.5, 0.5, 3.0, 12100, -120.0),
    (44100, 24000, "standard", 1.0, 1.0, 3.0, 13000, -100.0),
    (44100, 24000, "high", 0.5, 0.5, 4.0, 12100, -120.0),
    (96000, 24000, "standard", 1.0, 1.0, 3.0, 13000, -100.0),
    (192000, 24000, "standard", 1.0, 1.0, 3.0, 13000, -100.0),
    (24000, 16000, "standard", 1.0, 1.0, 4.0, 8667, -100.0),
)


def _name(fs_in: int, fs_out: int, quality: str) -> str:
    return f"{fs_in / 1000:g}-{fs_out / 1000:g}{' high' if quality == 'high' else ''}"


def _take_turns(runs: Runs, seconds: float, repeats: int) -> dict[str, NDArray[np.float64]]:
    """(repeats,) milliseconds of CPU per second of audio of each run; row i of all is from the same turn."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name].append((time.thread_time() - start) / seconds * 1e3)
    return {name: np.array(t) for name, t in times.items()}


@contextmanager
def _one_core() -> Iterator[None]:
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(quick: bool) -> None:
    """Prints every figure of the resampler with its peers."""
    try:
        import soxr
    except ImportError:
        soxr = None
    with _one_core():
        _speed(quick, soxr)
    for fs_in, fs_out, quality, _, _, delay, alias_hz, alias in CASES:
        _quality(fs_in, fs_out, quality, delay, alias_hz, alias, 40 if quick else 200)
    _peers(40 if quick else 200, soxr)
    _streaming(60 if quick else 400)
    _input()
    with _one_core():
        _asynchronous(quick, soxr)


def _speed(quick: bool, soxr: Any) -> None:
    from scipy.signal import resample_poly

    seconds, repeats = (3, 9) if quick else (20, 31)
    rng = np.random.default_rng(0)
    for fs_in, fs_out, quality, offline, streaming, *_ in CASES:
        name = _name(fs_in, fs_out, quality)
        if soxr is None:
            not_measured(f"{name} offline speed", "x soxr HQ", ">=", offline, "soxr is not installed")
            not_measured(f"{name} 10 ms blocks speed", "x soxr HQ", ">=", streaming, "soxr is not installed")
            continue
        x = (rng.standard_normal((fs_in * seconds, 4)) * 0.1).astype(np.float32)
        blocks = [x[at : at + fs_in // 100] for at in range(0, len(x), fs_in // 100)]

        def ours_in_blocks(rates: Any = (fs_in, fs_out, 4, quality), blocks: Any = blocks) -> None:
            push = dsp.Resampler(*rates).push
            for block in blocks:
                push(block)

        def soxr_in_blocks(rates: Any = (fs_in, fs_out, 4), blocks: Any = blocks) -> None:
            push = soxr.ResampleStream(*rates, dtype="float32").resample_chunk
            for block in blocks:
                push(block)

        runs: Runs = {
            "ours": partial(dsp.resample, x, fs_in, fs_out, quality),
            "soxr": partial(soxr.resample, x, fs_in, fs_out),
            "ours in blocks": ours_in_blocks,
            "soxr in blocks": soxr_in_blocks,
        }
        ms = _take_turns(runs, seconds, repeats)
        figure(f"{name} offline speed", _ratio(ms["soxr"], ms["ours"]), "x soxr HQ", ">=", offline)
        in_blocks = _ratio(ms["soxr in blocks"], ms["ours in blocks"])
        figure(f"{name} 10 ms blocks speed", in_blocks, "x soxr HQ", ">=", streaming)
        for label in ("ours", "ours in blocks"):
            value = float(np.median(ms[label]))
            note(f"{name} {label}: {value:.3f} ms per second of audio, {1000 / value:.0f} x real time")
        peer(f"soxr HQ {name} cost", float(np.median(ms["soxr"])), "ms/s")
        if name == "48-24":
            ms = _take_turns({"ours": runs["ours"], "scipy": partial(resample_poly, x, 1, 2)}, seconds, 3)
            peer("scipy resample_poly 48-24 speed", 1 / _ratio(ms["scipy"], ms["ours"]), "x ours")


def _ratio(theirs: NDArray[np.float64], ours: NDArray[np.float64]) -> float:
    return float(np.median(theirs / ours))


def _quality(
    fs_in: int, fs_out: int, quality: Quality, delay_ms: float, alias_hz: float, alias_db: float, tones: int
) -> None:
    name = _name(fs_in, fs_out, quality)

    def ours(x: Any) -> Any:
        return dsp.resample(x, fs_in, fs_out, quality)

    top = 10000 * fs_out / 24000
    figure(f"{name} delay", dsp.Resampler(fs_in, fs_out, 4, quality).delay_s * 1e3, "ms", "<=", delay_ms)
    figure(f"{name} ripple to {top / 1000:.3g} kHz", ripple_db(ours, fs_in, fs_out, top), "dB", "<=", 0.001)
    figure(
        f"{name} worst alias from {alias_hz / 1000:.4g} kHz",
        worst_alias_db(ours, fs_in, alias_hz, tones),
        "dBc",
        "<=",
        alias_db,
    )
    figure(f"{name} THD+N at 997 Hz", thd_n_db(ours, fs_in, fs_out), "dB", "<=", -120)


def _peers(tones: int, soxr: Any) -> None:
    from scipy.signal import resample_poly

    def poly(x: Any) -> Any:
        return resample_poly(x, 1, 2)

    alias = worst_alias_db(poly, 48000, 13000, tones)
    peer("scipy resample_poly 48-24 worst alias from 13 kHz", alias, "dBc")
    if soxr is None:
        return
    for fs_in in (48000, 44100):
        name = _name(fs_in, 24000, "")

        def soxr_hq(x: Any, fs_in: int = fs_in) -> Any:
            return soxr.resample(x, fs_in, 24000)

        peer(f"soxr HQ {name} worst alias from 13 kHz", worst_alias_db(soxr_hq, fs_in, 13000, tones), "dBc")
        peer(f"soxr HQ {name} THD+N at 997 Hz", thd_n_db(soxr_hq, fs_in, 24000), "dB")
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
    for fs_in, fs_out in ((48000, 24000), (44100, 24000)):
        same = counts = 0
        for trial in range(trials):
            x = rng.standard_normal((int(rng.integers(1, 6000)), 4)).astype(np.float32)
            quality: Quality = "high" if trial % 2 else "standard"
            r = dsp.Resampler(fs_in, fs_out, 4, quality)
            parts: list[Any] = []
            at, right = 0, True
            while at < len(x):
                size = int(rng.choice([1, 2, 3, 479, 480, 481, int(rng.integers(1, 3000))]))
                parts.append(r.push(x[at : at + size]))
                at = min(at + size, len(x))
                right &= sum(map(len, parts)) == at * fs_out // fs_in
            whole = dsp.resample(x, fs_in, fs_out, quality)
            same += np.array_equal(np.concatenate([*parts, r.flush()])[r.delay_frames :], whole)
            counts += right
        name = _name(fs_in, fs_out, "")
        figure(f"{name} chunked equals one-shot bit for bit", 100 * same / trials, "%", "==", 100)
        rule = "n/2" if fs_in == 48000 else "n 80/147"
        figure(f"{name} {rule} frames out for n in", 100 * counts / trials, "%", "==", 100)


def _input() -> None:
    """Equal channels, integers, NaN and infinity."""
    rng = np.random.default_rng(2)
    spread = 0.0
    for fs_in, fs_out, quality, *_ in CASES:
        mono = rng.standard_normal((5000, 1)).astype(np.float32).repeat(4, axis=1)
        spread = max(spread, float(np.ptp(dsp.resample(mono, fs_in, fs_out, quality), axis=1).max()))
    figure("difference between equal channels", spread, "", "==", 0)
    i24 = rng.integers(-(2**23), 2**23, (5000, 4), dtype=np.int32) << 8
    i16 = rng.integers(-(2**15), 2**15, (5000, 4)).astype(np.int16)
    integers: tuple[tuple[str, NDArray[Any], float], ...] = (("24", i24, 2.0**31), ("16", i16, 2.0**15))
    for name, given, full_scale in integers:
        exact = dsp.resample((given / full_scale).astype(np.float32), 48000, 24000)
        difference = float(np.max(np.abs(dsp.resample(given, 48000, 24000) - exact)))
        figure(f"{name}-bit integer input against float", difference, "", "==", 0)
    refused = flagged = trials = 0
    for bad in (np.nan, np.inf, -np.inf):
        for at in (0, 1, 255, 998, 999):
            x = rng.standard_normal((1000, 4)).astype(np.float32)
            clean = x.copy()
            x[at, at % 4], clean[at, at % 4] = bad, 0.0
            try:
                dsp.resample(x, 48000, 24000)
            except InputError:
                refused += 1
            r = dsp.Resampler(48000, 24000, 4, on_nonfinite="flag")
            y = np.concatenate([r.push(x), r.flush()])[r.delay_frames :]
            flagged += r.nonfinite_samples == 1 and np.array_equal(y, dsp.resample(clean, 48000, 24000))
            trials += 1
    figure("NaN and infinity refused", 100 * refused / trials, "%", "==", 100)
    figure("NaN and infinity flagged and taken as silence", 100 * flagged / trials, "%", "==", 100)


def _asynchronous(quick: bool, soxr: Any) -> None:
    """The steerable ratio: speed beside soxr's variable rate, tones, and errors while it is steered."""
    for fs_in in (48000, 44100):
        name = f"async {_name(fs_in, 24000, '')}"
        if soxr is not None:
            _asynchronous_speed(name, fs_in, quick, soxr)
        ppm = 100.0

        def ours(x: Any, fs_in: int = fs_in, ppm: float = ppm) -> Any:
            r = dsp.AsyncResampler(fs_in, 24000, 1, ppm)
            return np.concatenate([r.push(x[:, None]), r.flush()])[:, 0]

        fast = 1 + ppm * 1e-6
        figure(f"{name} delay", dsp.AsyncResampler(fs_in, 24000, 1).delay_s * 1e3, "ms", "<=", 3.0)
        ripple = ripple_db(ours, fs_in, 24000, 10000, fast)
        figure(f"{name} ripple to 10 kHz", ripple, "dB", "<=", 0.001)
        alias = worst_alias_db(ours, fs_in, 13000, 40 if quick else 200)
        figure(f"{name} worst alias from 13 kHz", alias, "dBc", "<=", -100)
        figure(f"{name} THD+N at 997 Hz, +100 ppm", thd_n_db(ours, fs_in, 24000, 997, fast), "dB", "<=", -100)
    _asynchronous_cuts(20 if quick else 100)
    rms, _ = steered_error_db(997.0, [(0, -200.0, 0.0), (0, 200.0, 3.0)], 4.0)
    figure("async THD+N under a ramp of 400 ppm in 3 s", rms, "dB", "<=", -100)
    steps = [(4800 * k, 200.0 * (-1) ** k, 0.0) for k in range(30)]
    rms, peak = steered_error_db(997.0, steps, 3.0)
    figure("async THD+N with steps of 400 ppm each 100 ms", rms, "dB", "<=", -100)
    figure("async largest sample error at such steps", peak, "dBFS", "<=", -100)


def _asynchronous_cuts(trials: int) -> None:
    rng = np.random.default_rng(3)
    same = 0
    for _ in range(trials):
        x = rng.standard_normal((int(rng.integers(1, 6000)), 4)).astype(np.float32)
        cut, whole = dsp.AsyncResampler(48000, 24000, 4, 150), dsp.AsyncResampler(48000, 24000, 4, 150)
        cut.steer(-180, 0.05)
        whole.steer(-180, 0.05)
        parts: list[Any] = []
        at = 0
        while at < len(x):
            size = int(rng.choice([1, 2, 3, 479, 480, 481, int(rng.integers(1, 3000))]))
            parts.append(cut.push(x[at : at + size]))
            at += size
        once = np.concatenate([whole.push(x), whole.flush()])
        same += np.array_equal(np.concatenate([*parts, cut.flush()]), once)
    figure("async chunked equals one-shot bit for bit", 100 * same / trials, "%", "==", 100)


def _asynchronous_speed(name: str, fs_in: int, quick: bool, soxr: Any) -> None:
    seconds, repeats = (3, 9) if quick else (20, 31)
    x = (np.random.default_rng(0).standard_normal((fs_in * seconds, 4)) * 0.1).astype(np.float32)
    blocks = [x[at : at + fs_in // 100] for at in range(0, len(x), fs_in // 100)]

    def ours() -> None:
        r = dsp.AsyncResampler(fs_in, 24000, 4, 100.0)
        for block in blocks:
            r.push(block)

    def variable() -> None:
        r = soxr.ResampleStream(fs_in, 24000, 4, dtype="float32", vr=True)
        r.set_io_ratio(fs_in * (1 + 100e-6), 24000, 0)
        for block in blocks:
            r.resample_chunk(block)

    def fixed() -> None:
        r = soxr.ResampleStream(fs_in, 24000, 4, dtype="float32")
        for block in blocks:
            r.resample_chunk(block)

    runs: Runs = {"ours": ours, "soxr fixed": fixed}
    try:
        variable()
        runs["soxr variable"] = variable
    except (TypeError, AttributeError):  # soxr before 1.0 had no variable rate
        not_measured(f"{name} 10 ms blocks speed", "x soxr variable", ">=", 1.0, "this soxr has none")
    ms = _take_turns(runs, seconds, repeats)
    if "soxr variable" in ms:
        figure(
            f"{name} 10 ms blocks speed", _ratio(ms["soxr variable"], ms["ours"]), "x soxr variable", ">=", 1
        )
    peer(f"soxr HQ fixed ratio, speed against {name}", 1 / _ratio(ms["soxr fixed"], ms["ours"]), "x")


def steered_error_db(
    hz: float, events: list[tuple[int, float, float]], seconds: float
) -> tuple[float, float]:
    """(RMS of the error against the tone in dB, its largest sample in dBFS) of a tone at 48 -> 24 kHz while
    `events` (frames pushed before, ppm, over_s) steer it, against the closed form of the place read.
    """
    x = tone(hz, 48000, seconds).astype(np.float32)[:, None]
    r = dsp.AsyncResampler(48000, 24000, 1)
    parts, places = [], []
    row, fraction, step = 0, 0.0, 1.0
    cuts = [*(frames for frames, _, _ in events), len(x)]
    for (frames, ppm, over_s), end in zip(events, cuts[1:], strict=True):
        r.steer(ppm, over_s)
        parts.append(r.push(x[frames:end]))
        target, left = 1 + ppm * 1e-6, round(over_s * 48000)
        change = (target - step) / left if left else 0.0
        step = step if left else target
        while row < end:
            places.append(row + fraction)
            row, fraction = row + int(fraction + step), (fraction + step) % 1.0
            if left > 0:
                left -= 1
                step = step + change if left else target
    late = dsp.Resampler(48000, 24000, 1).delay_frames
    y = np.concatenate(parts)[late:, 0].astype(np.float64)
    at = np.array(places)[::2][: len(y)] / 48000
    y = y[: len(at)]
    amplitude, rest = tone_and_rest(y[500:], at[500:], hz)
    return decibels(np.std(rest) * np.sqrt(2) / amplitude), decibels(np.max(np.abs(rest)))


if __name__ == "__main__":
    run(short_form())
    sys.exit(end_of_part("dsp-resample"))
