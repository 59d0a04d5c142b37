"""Faults named by `dsp.check` and `dsp.check_directions` on simulated rooms: recall and false alarms.

Each draw is a room (RT60 0.2-0.8 s) with sound from three places in turn, 18 s: two talkers, and one source
20 degrees or more above or below, without which the shift of a silent Z cannot be told; a tetrahedron of
cardioids with its real spacing and white noise in each capsule (SNR 10-40 dB). A fault is put in by its
definition. Named means: the right code, the right channel or capsule, the right convention, the right shift;
every draw counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.figures import figure, note
from bench.rooms import (
    FS,
    capsule_responses,
    random_room,
    random_source,
    record,
    source_above_or_below,
    speech,
)

Signal = NDArray[np.float32]
Test = Callable[[dsp.CheckReport], bool]
Made = tuple[Signal, str, Test]  # the signal, the format it is declared as, was the fault named?
_SECONDS = 18.0
_FIRST_SEED = 60_000  # for the final figures; tuned on 1000-3999


def recording(seed: int) -> Signal:
    """(frames, 4) A-format of two talkers and a higher or lower source after one another."""
    rng = np.random.default_rng(seed)
    room = random_room(rng, rng.uniform(0.2, 0.8))
    snr = rng.uniform(10, 40)
    turn_frames = int(_SECONDS * FS / 3)
    responses, dry = [], []
    for turn in range(3):
        place = source_above_or_below if turn == 2 else random_source
        responses.append(capsule_responses(room, place(rng, room)))
        part = np.zeros(3 * turn_frames)
        part[turn * turn_frames : (turn + 1) * turn_frames] = speech(rng, _SECONDS / 3)[:turn_frames]
        dry.append(part)
    return record(responses, dry, snr, rng)


def _foa(a: Signal) -> Signal:
    return dsp.convert(a, source="a", target="ambix")


def _has(code: str, channel: int | None = None, words: str = "") -> Test:
    def test(report: dsp.CheckReport) -> bool:
        return any(
            f.code == code
            and f.severity in ("fault", "warning")
            and (channel is None or f.channel == channel)
            and words in f.message
            for f in report.findings
        )

    return test


def _scale(name: str) -> Callable[[Signal, np.random.Generator], Made]:
    def make(a: Signal, _: np.random.Generator) -> Made:
        x = _foa(a)
        x = (
            dsp.convert(x, source="ambix", target="n3d")
            if name == "n3d"
            else x * np.array([0.5**0.5, 1, 1, 1], np.float32)
        )
        named = _has("normalisation")
        return x, "ambix", lambda report: named(report) and report.normalisation == name

    return make


def _channel(
    code: str, first: int, last: int, change: Callable[[Signal], Signal]
) -> Callable[[Signal, np.random.Generator], Made]:
    def make(a: Signal, rng: np.random.Generator) -> Made:
        c = int(rng.integers(first, last))
        x = _foa(a)
        x[:, c] = change(x[:, c])
        return x, "ambix", _has(code, c)

    return make


def _capsule(gain: float, as_b_format: bool) -> Callable[[Signal, np.random.Generator], Made]:
    code = "capsule_inverted" if gain < 0 else "capsule_dead"

    def make(a: Signal, rng: np.random.Generator) -> Made:
        c = int(rng.integers(4))
        y = a.copy()
        y[:, c] *= gain
        if as_b_format:
            return _foa(y), "ambix", _has(code, None, dsp.CHANNEL_NAMES["a"][c])
        return y, "a", _has(code if gain < 0 else "dead", c)

    return make


def _clip(x: Signal) -> Signal:
    limit = np.float32(np.quantile(np.abs(x), 0.9995))
    return np.clip(x, -limit, limit)


def _copy(a: Signal, rng: np.random.Generator) -> Made:
    x = _foa(a)
    i, j = (int(c) for c in rng.choice(4, 2, replace=False))
    x[:, i] = x[:, j] * rng.choice([1.0, 0.7, -1.0])
    return x, "ambix", _has("duplicated", max(i, j))


def _remix(a: Signal, _: np.random.Generator) -> Made:
    """4 -> 2 -> 4 as an audio server does it: left and right are means of their two, then given out twice."""
    x = _foa(a)
    two = (x[:, :2] + x[:, 2:]) / 2
    return np.concatenate([two, two], axis=1), "ambix", _has("remixed")


def _shift(a: Signal, rng: np.random.Generator) -> Made:
    x = _foa(a)
    c, frames = int(rng.integers(4)), int(rng.integers(2, 48))
    x[:, c] = np.roll(x[:, c], frames)

    def test(report: dsp.CheckReport) -> bool:
        found = [f for f in report.findings if f.code == "time_shifted" and f.channel == c]
        return any(f.value is not None and abs(f.value * FS / 1000 - frames) <= 1.5 for f in found)

    return x, "ambix", test


def _silent_end(a: Signal, rng: np.random.Generator) -> Made:
    x = _foa(a)
    x[-int(rng.uniform(1, 6) * FS) :] = 0
    return x, "ambix", _has("truncated")


def _a_as_ambix(a: Signal, _: np.random.Generator) -> Made:
    return a, "ambix", _has("format", None, "A-format")


def _ambix_as_a(a: Signal, _: np.random.Generator) -> Made:
    return _foa(a), "a", _has("format", None, "ambix")


_QUARTER = np.float32(0.25)
FAULTS: dict[str, Callable[[Signal, np.random.Generator], Made]] = {
    "N3D read as AmbiX, named N3D": _scale("n3d"),
    "FuMa's W in AmbiX, named FuMa": _scale("fuma"),
    "dead channel": _channel("dead", 0, 4, lambda x: x * np.float32(0)),
    "weak channel -12 dB": _channel("weak", 1, 4, lambda x: x * _QUARTER),
    "weak W -12 dB": _channel("weak", 0, 1, lambda x: x * _QUARTER),
    "clipped channel": _channel("clipped", 0, 4, _clip),
    "DC offset 0.5 %": _channel("dc", 0, 4, lambda x: x + np.float32(0.005)),
    "copied channel": _copy,
    "remixed 4 to 2 to 4": _remix,
    "channel 2-47 frames late, with its lag": _shift,
    "dead capsule in AmbiX": _capsule(0.0, True),
    "inverted capsule in AmbiX": _capsule(-1.0, True),
    "dead capsule in A-format": _capsule(0.0, False),
    "inverted capsule in A-format": _capsule(-1.0, False),
    "A-format read as AmbiX": _a_as_ambix,
    "AmbiX read as A-format": _ambix_as_a,
    "end is digital silence": _silent_end,
}


def draw(seed: int) -> tuple[dict[str, bool], list[str]]:
    """({fault: named}, what was said of the healthy recording in AmbiX and A-format)."""
    a = recording(seed)
    rng = np.random.default_rng(10_000_000 + seed)
    named = {}
    for name, make in FAULTS.items():
        x, declared, test = make(a, rng)
        named[name] = test(dsp.check(x, FS, declared))
    alarms = []
    for declared, x in (("ambix", _foa(a)), ("a", a)):
        findings = dsp.check(x, FS, declared).findings
        alarms += [f"{declared}: {f.message}" for f in findings if f.severity in ("fault", "warning")]
    return named, alarms


def run(quick: bool) -> None:
    """Prints recall per fault and the false alarms on healthy data."""
    draws = 8 if quick else 100
    seeds = range(_FIRST_SEED, _FIRST_SEED + draws)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # small matrices: more threads only wait for each other
    with get_context("spawn").Pool(min(2, os.cpu_count() or 1)) as pool:
        results = pool.map(draw, seeds, chunksize=1)
    for name in FAULTS:
        hits = sum(named[name] for named, _ in results)
        figure(f"check recall: {name}", 100 * hits / draws, "%", ">=", 98)
    missed = Counter(name for named, _ in results for name, hit in named.items() if not hit)
    note(f"missed: {dict(missed)}")
    for form, said in (("AmbiX", "ambix:"), ("A-format", "a:")):
        wrong = [text for _, alarms in results for text in alarms if text.startswith(said)]
        alarmed = sum(any(text.startswith(said) for text in alarms) for _, alarms in results)
        figure(f"check false alarms on {draws} healthy rooms in {form}", 100 * alarmed / draws, "%", "<=", 1)
        for text in wrong:
            note(f"false alarm: {text}")
    _known_directions(10 * draws)


def _known_directions(draws: int) -> None:
    """Claps from front, left and above with 5 degrees of error: each wiring fault must be named."""
    az, el = np.array([0.0, 90.0, 0.0]), np.array([0.0, 0.0, 75.0])
    swap = np.eye(4)[[0, 2, 1, 3]]
    to_b = dsp.conversion_matrix("a", "ambix")
    end_fire = np.eye(4)
    end_fire[1:, 1:] = dsp.rotation_matrix(pitch_deg=-90.0)[np.ix_([1, 2, 0], [1, 2, 0])]
    cases = {
        "none": np.eye(4),
        "axis_flipped": np.diag([1.0, -1, 1, 1]),
        "mirrored": np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, -1]], float)
        @ np.diag([1.0, -1, 1, 1]),
        "upside_down": np.diag([1.0, -1, -1, 1]),
        "end_fire": end_fire,
        "w_inverted": np.diag([-1.0, 1, 1, 1]),
        "channel_order": np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], float),
        "capsules_swapped": to_b @ swap @ np.linalg.inv(to_b),
        "gains": np.diag([1, 3**0.5, 3**0.5, 3**0.5]),
    }
    for fault, matrix in cases.items():
        right = 0
        for seed in range(_FIRST_SEED, _FIRST_SEED + draws):
            rng = np.random.default_rng(seed)
            u = dsp.direction_to_unit(az + rng.normal(0, 5, 3), el + rng.normal(0, 5, 3))
            m = np.column_stack([np.ones(3), u[:, [1, 2, 0]]]) @ matrix.T
            m = m * rng.uniform(0.3, 3, (3, 1)) * (1 + 0.05 * rng.standard_normal(m.shape))
            capsules = "a" if fault == "capsules_swapped" else None
            right += dsp.check_directions(m, az, el, capsules).fault == fault
        figure(f"three known directions: {fault} named", 100 * right / draws, "%", ">=", 98)
