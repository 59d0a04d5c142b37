"""Faults named by `dsp.check` and `dsp.check_directions` on simulated rooms: recall and false alarms.

Each draw is a room (RT60 0.2-0.8 s) with talkers at two places, 12 s, a tetrahedron of cardioids with its
real spacing and white noise in each capsule (SNR 10-40 dB). A fault is put in by
its definition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.figures import figure, note
from bench.rooms import FS, capsule_responses, random_room, random_source, record, speech

Signal = NDArray[np.float32]
_SECONDS = 12.0


def recording(seed: int) -> Signal:
    """(frames, 4) A-format of two talkers after one another."""
    rng = np.random.default_rng(seed)
    room = random_room(rng, rng.uniform(0.2, 0.8))
    snr = rng.uniform(10, 40)
    half = int(_SECONDS * FS / 2)
    responses, dry = [], []
    for turn in range(2):
        responses.append(capsule_responses(room, random_source(rng, room)))
        part = np.zeros(2 * half)
        part[turn * half : (turn + 1) * half] = speech(rng, _SECONDS / 2)[:half]
        dry.append(part)
    return record(responses, dry, snr, rng)


def _foa(a: Signal) -> Signal:
    return dsp.convert(a, source="a", target="ambix")


def _channel(c: int, change: Callable[[Signal], Signal]) -> Callable[[Signal, np.random.Generator], Signal]:
    def make(a: Signal, _: np.random.Generator) -> Signal:
        x = _foa(a)
        x[:, c] = change(x[:, c])
        return x

    return make


def _capsule(gain: float) -> Callable[[Signal, np.random.Generator], Signal]:
    def make(a: Signal, rng: np.random.Generator) -> Signal:
        y = a.copy()
        y[:, int(rng.integers(4))] *= gain
        return _foa(y)

    return make


def _any_channel(
    first: int, change: Callable[[Signal], Signal]
) -> Callable[[Signal, np.random.Generator], Signal]:
    def make(a: Signal, rng: np.random.Generator) -> Signal:
        return _channel(int(rng.integers(first, 4)), change)(a, rng)

    return make


def _clip(x: Signal) -> Signal:
    limit = np.float32(np.quantile(np.abs(x), 0.9995))
    return np.clip(x, -limit, limit)


def _copy(a: Signal, rng: np.random.Generator) -> Signal:
    x = _foa(a)
    i, j = rng.choice(4, 2, replace=False)
    x[:, i] = x[:, j] * rng.choice([1.0, 0.7, -1.0])
    return x


def _shift(a: Signal, rng: np.random.Generator) -> Signal:
    x = _foa(a)
    c = int(rng.integers(4))
    x[:, c] = np.roll(x[:, c], int(rng.integers(2, 48)))
    return x


FAULTS: dict[str, tuple[str, Callable[[Signal, np.random.Generator], Signal]]] = {
    "N3D read as AmbiX": ("normalisation", lambda a, _: dsp.convert(_foa(a), source="ambix", target="n3d")),
    "FuMa W in AmbiX": ("normalisation", lambda a, _: (_foa(a) * [0.5**0.5, 1, 1, 1]).astype(np.float32)),
    "dead channel": ("dead", _any_channel(1, lambda x: x * np.float32(0))),
    "weak channel -12 dB": ("weak", _any_channel(1, lambda x: x * np.float32(0.25))),
    "weak W -12 dB": ("weak", _channel(0, lambda x: x * np.float32(0.25))),
    "clipped channel": ("clipped", _any_channel(0, _clip)),
    "DC offset 0.5 %": ("dc", _any_channel(0, lambda x: x + np.float32(0.005))),
    "copied channel": ("duplicated", _copy),
    "shifted channel 2-47 frames": ("time_shifted", _shift),
    "dead capsule": ("capsule_dead", _capsule(0.0)),
    "inverted capsule": ("capsule_inverted", _capsule(-1.0)),
}


def run(quick: bool) -> None:
    """Prints recall per fault and the false alarms on healthy data."""
    draws = 6 if quick else 100
    hits = dict.fromkeys(FAULTS, 0)
    exact = {"N3D read as AmbiX": [0, 0], "FuMa W in AmbiX": [0, 0]}
    alarms = 0
    for seed in range(draws):
        a = recording(seed)
        rng = np.random.default_rng(10_000 + seed)
        healthy = dsp.check(_foa(a), FS)
        alarms += any(f.severity in ("fault", "warning") for f in healthy.findings)
        for name, (code, make) in FAULTS.items():
            report = dsp.check(make(a, rng), FS)
            found = [f for f in report.findings if f.code == code and f.severity in ("fault", "warning")]
            hits[name] += bool(found)
            if name in exact and found:
                right = "n3d" if name.startswith("N3D") else "fuma"
                exact[name][0] += report.normalisation == right
                exact[name][1] += report.normalisation not in (right, "unknown")
    for name, count in hits.items():
        figure(f"check recall: {name}", 100 * count / draws, "%", ">=", 98)
    for name, (right, wrong) in exact.items():
        note(f"{name}: convention named right {right}, wrong {wrong}, of {draws}")
    figure(f"check false alarms on {draws} healthy rooms", 100 * alarms / draws, "%", "<=", 1)
    _known_directions(10 * draws)


def _known_directions(draws: int) -> None:
    """Claps from front, left and above with 5 degrees of error: each wiring fault must be named."""
    az, el = np.array([0.0, 90.0, 0.0]), np.array([0.0, 0.0, 75.0])
    swap = np.eye(4)[[0, 2, 1, 3]]
    to_b = dsp.conversion_matrix("a", "ambix")
    cases = {
        "none": np.eye(4),
        "axis_flipped": np.diag([1.0, -1, 1, 1]),
        "upside_down": np.diag([1.0, -1, -1, 1]),
        "w_inverted": np.diag([-1.0, 1, 1, 1]),
        "channel_order": np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], float),
        "capsules_swapped": to_b @ swap @ np.linalg.inv(to_b),
        "gains": np.diag([1, 3**0.5, 3**0.5, 3**0.5]),
    }
    for fault, matrix in cases.items():
        right = 0
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            u = dsp.direction_to_unit(az + rng.normal(0, 5, 3), el + rng.normal(0, 5, 3))
            m = np.column_stack([np.ones(3), u[:, [1, 2, 0]]]) @ matrix.T
            m = m * rng.uniform(0.3, 3, (3, 1)) * (1 + 0.05 * rng.standard_normal(m.shape))
            capsules = "a" if fault == "capsules_swapped" else None
            right += dsp.check_directions(m, az, el, capsules).fault == fault
        figure(f"three known directions: {fault} named", 100 * right / draws, "%", ">=", 98)
