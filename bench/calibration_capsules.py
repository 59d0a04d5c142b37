"""Capsules, wiring and noise floor against truth: `python -m bench.calibration_capsules`.

Gains: a simulated tetrahedron of cardioids (`bench.capsule_scene`), its capsules 0.35 mm beside their places,
loudspeakers 2 degrees (each of two components) beside their labels, direct sound 40 dB over the noise. Peers
on the same responses: `dsp.check_directions` (least squares, labels taken as exact), and levels of the whole
response, without a window.

Wiring: simulated rooms (`bench.rooms`), sweeps from six directions and 18 s of talkers at three places,
through the same fault; the correction that the sweeps give is applied to the talkers, who must then pass
`dsp.check` and be found where they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import dsp
from bench.capsule_scene import TO_B, Made, directions, responses
from bench.figures import end_of_part, figure, note, peer, quick
from calibration.capsules_fit import CapsuleFit, fit_capsules
from calibration.capsules_response import Direction
from dsp.errors import InputError

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
SEED = 52077
_SNR_DB = 40.0
_DOA_MARGIN_DEG = 1.5
_TURN_MARGIN_DEG = 3.0
"""A free turn comes from six loudspeakers that stand 2 degrees beside their labels: known to 1 to 2."""


# ------------------------------------------------------------------ gains


def _noise_for(made: Made, snr_db: float) -> float:
    """White noise in each capsule at which the direct sound stands `snr_db` above it, in the median."""
    fit = fit_capsules(directions(made, noise=1e-3), "a")
    return float(1e-3 * 10 ** ((np.median(fit.heard.snr_db) - snr_db) / 20))


def _against_mean(gains_db: F64) -> F64:
    return np.asarray(gains_db - gains_db.mean())


def _whole_response(found: list[Direction]) -> F64:
    """Gains in dB from the level of the whole response of each direction, as cardioids should have them."""
    u = np.array([d.unit for d in found])
    ideal = 0.5 * (1 + u @ dsp.CAPSULE_DIRECTIONS["a"].T)
    level = np.array([np.sqrt(np.mean(d.response**2, axis=0)) for d in found])
    ratio = level / ideal
    return _against_mean(20 * np.log10((ratio / ratio.mean(axis=1, keepdims=True)).mean(axis=0)))


def _by_check(found: list[Direction]) -> F64:
    measured, az, el = [], [], []
    for d in found:
        foa = dsp.convert(d.response.astype(np.float32), source="a", target="ambix")
        measured.append(dsp.response_vector(foa, d.fs))
        az.append(d.azimuth_deg)
        el.append(d.elevation_deg)
    report = dsp.check_directions(np.array(measured), az, el, "a")
    got = report.capsule_gains_db
    return np.full(4, np.nan) if got is None else _against_mean(np.array(got))


def _free(rng: np.random.Generator, count: int) -> dict[str, tuple[float, float]]:
    u = rng.standard_normal((count, 3))
    az, el = dsp.unit_to_direction(u)
    return {f"p{i}": (float(a), float(e)) for i, (a, e) in enumerate(zip(az, el, strict=True))}


def _gains(draws: int) -> None:
    columns: dict[str, list[F64]] = {name: [] for name in ("ours", "z", "late", "check", "whole", "none")}
    noise = _noise_for(responses(np.random.default_rng(SEED)), _SNR_DB)
    for k in range(draws):
        rng = np.random.default_rng([SEED, 0, k])
        true, late_us = rng.normal(0, 0.5, 4), rng.normal(0, 5.0, 4)
        found = directions(
            responses(rng, gains=10 ** (true / 20), late_s=1e-6 * late_us), noise=noise, rng=rng
        )
        fit = fit_capsules(found, "a")
        if not fit.ok:
            note(f"draw {k} refused: {fit.refusals}")
            continue
        truth = _against_mean(true)
        columns["ours"].append(fit.gains_db - truth)
        columns["z"].append((fit.gains_db - truth) / fit.gain_sigma_db)
        columns["late"].append(fit.delays_us - _against_mean(late_us))
        columns["check"].append(_by_check(found) - truth)
        columns["whole"].append(_whole_response(found) - truth)
        columns["none"].append(-truth)
    got = {name: np.array(rows) for name, rows in columns.items()}
    figure(
        f"capsule gains, six directions, 40 dB SNR, {draws} sets",
        float(np.std(got["ours"])),
        "dB sd",
        "<=",
        0.12,
    )
    figure("capsule gains: errors over their sigmas", _rms(got["z"]), "RMS", "<=", 1.3)
    figure("capsule delays, the same sets", float(np.std(got["late"])), "us sd", "<=", 3.0)
    peer("check_directions (labels as exact)", float(np.nanstd(got["check"])), "dB sd")
    peer("levels of the whole response, no window", float(np.std(got["whole"])), "dB sd")
    peer("uncorrected", float(np.std(got["none"])), "dB sd")
    free = []
    for k in range(max(4, draws // 3)):
        rng = np.random.default_rng([SEED, 1, k])
        true = rng.normal(0, 0.5, 4)
        where = _free(rng, 12)
        try:
            made = responses(rng, where, gains=10 ** (true / 20))
            fit = fit_capsules(directions(made, noise=noise, rng=rng), "a")
        except InputError:  # a random set may be too much on one side
            continue
        if fit.ok:
            free.append(fit.gains_db - _against_mean(true))
    figure(f"capsule gains, 12 free directions, {len(free)} sets", float(np.std(free)), "dB sd", "<=", 0.12)


def _rms(values: F64) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _mismatch(draws: int) -> None:
    """Median DOA error over all directions (coincident capsules) for unequal gains, before and after."""
    noise = _noise_for(responses(np.random.default_rng(SEED)), _SNR_DB)
    rng = np.random.default_rng([SEED, 2])
    u = rng.standard_normal((500, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    waves = np.column_stack([np.ones(len(u)), u[:, [1, 2, 0]]])
    for sd in (0.25, 0.5, 1.0):
        before, after, encoded = [], [], []
        for k in range(draws):
            rng = np.random.default_rng([SEED, 3, k])
            gains = 10 ** (rng.normal(0, sd, 4) / 20)
            made = responses(rng, gains=gains)
            heard = waves @ np.linalg.inv(TO_B).T * gains
            before.append(_off(heard @ TO_B.T, u))
            fit = fit_capsules(directions(made, noise=noise, rng=rng), "a")
            after.append(_off(heard @ fit.require().matrix.T, u))
            fit = fit_capsules(directions(made, TO_B, noise=noise, rng=rng), "ambix")
            encoded.append(_off(heard @ TO_B.T @ fit.require().matrix.T, u))
        text = f"capsules unequal by {sd:g} dB sd: DOA error"
        peer(f"{text}, uncorrected", float(np.median(before)), "deg")
        figure(f"{text}, A-format corrected", float(np.median(after)), "deg", "<=", 1.0)
        figure(f"{text}, AmbiX corrected", float(np.median(encoded)), "deg", "<=", 1.0)


def _off(foa: F64, u: F64) -> float:
    v = foa[:, [3, 1, 2]] * np.sign(foa[:, :1])
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    angle = np.arctan2(np.linalg.norm(np.cross(v, u), axis=1), np.sum(v * u, axis=1))
    return float(np.degrees(np.median(angle)))


# ------------------------------------------------------------------ wiring


@dataclass(frozen=True)
class Take:
    """One room: recordings of sweeps by direction and of talkers, both of the capsules (frames, 4) with their
    noise, and where the talkers are, in the order of their turns."""

    sweeps: list[tuple[str, float, float, F32]]
    talk: F32
    talkers: list[F64]


def _take(seed: int) -> Take:
    from scipy.signal import fftconvolve

    from bench.calibration_pose import _played
    from bench.rooms import (
        FS,
        Room,
        capsule_responses,
        random_room,
        random_source,
        record,
        source_above_or_below,
        speech,
    )
    from calibration.capsules_files import SIX
    from calibration.sweep import Sweep

    rng = np.random.default_rng([SEED, 4, seed])
    room = random_room(rng, rng.uniform(0.2, 0.6))
    middle = 0.5 * room.size_m + rng.uniform(-0.2, 0.2, 3) * [1, 1, 0.3]
    room = Room(room.size_m, room.rt60_s, middle)
    ppm = rng.uniform(-50, 50)
    signal = _played(Sweep(FS, 1.0, 120.0, 10500.0), ppm)
    sweeps = []
    for name, (azimuth, elevation) in SIX.items():
        u = dsp.direction_to_unit(azimuth, elevation) + np.radians(2.0) * rng.standard_normal(3)
        place = middle + rng.uniform(0.55, 0.7) * u / np.linalg.norm(u)
        wet = fftconvolve(signal[:, None], capsule_responses(room, place), axes=0)
        level = np.sqrt(np.mean(wet[: len(signal)] ** 2))
        wet = np.concatenate([np.zeros((2400, 4)), wet])
        wet += level * 10 ** (-_SNR_DB / 20) * rng.standard_normal(wet.shape)
        sweeps.append((name, azimuth, elevation, (0.3 * wet / np.abs(wet).max()).astype(np.float32)))
    turn = 6 * FS
    places, parts, dry = [], [], []
    for k in range(3):
        source = (source_above_or_below if k == 2 else random_source)(rng, room)
        places.append((source - middle) / np.linalg.norm(source - middle))
        parts.append(capsule_responses(room, source))
        mono = np.zeros(3 * turn)
        mono[k * turn : (k + 1) * turn] = speech(rng, 6.0)[:turn]
        dry.append(mono)
    return Take(sweeps, record(parts, dry, 30.0, rng), places)


Change = Callable[[F32], F32]


def _by_matrix(matrix: F64) -> Change:
    m = np.asarray(matrix, np.float32)
    return lambda x: np.asarray(x @ m.T, np.float32)


def _late(matrix: F64, channel: int, frames: int) -> Change:
    def change(x: F32) -> F32:
        y = np.asarray(x @ np.asarray(matrix, np.float32).T, np.float32)
        y[:, channel] = np.roll(y[:, channel], frames)
        return y

    return change


def _turned(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0) -> F64:
    m = np.eye(4)
    m[1:, 1:] = dsp.rotation_matrix(yaw, pitch, roll)[np.ix_([1, 2, 0], [1, 2, 0])]
    return m


def _one(value: float, index: int) -> F64:
    gains = np.ones(4)
    gains[index] = value
    return np.diag(gains)


def _swap(rng: np.random.Generator) -> F64:
    order = np.arange(4)
    i, j = rng.choice(4, 2, replace=False)
    order[[i, j]] = order[[j, i]]
    return np.eye(4)[order]


def _mirror(rng: np.random.Generator) -> F64:
    """An improper signed permutation of the axes that is more than one axis inverted."""
    while True:
        m = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
        if np.linalg.det(m) < 0 and abs(np.trace(m)) != 1 and not np.allclose(m, -np.eye(3)):
            whole = np.eye(4)
            whole[1:, 1:] = m
            return whole


_N3D = dsp.conversion_matrix("a", "n3d")
_FUMA = dsp.conversion_matrix("a", "fuma")
_EYE = np.eye(4)
FAULTS: dict[str, Callable[[np.random.Generator], tuple[str, Change, str]]] = {
    "N3D read as AmbiX": lambda r: ("ambix", _by_matrix(_N3D), "normalisation"),
    "FuMa's W in AmbiX": lambda r: ("ambix", _by_matrix(_one(0.5**0.5, 0) @ TO_B), "normalisation"),
    "FuMa read as AmbiX": lambda r: ("ambix", _by_matrix(_FUMA), "format"),
    "AmbiX read as FuMa": lambda r: ("fuma", _by_matrix(TO_B), "format"),
    "A-format read as AmbiX": lambda r: ("ambix", _by_matrix(_EYE), "format"),
    "AmbiX read as A-format": lambda r: ("a", _by_matrix(TO_B), "format"),
    "type II read as type I": lambda r: ("a", _by_matrix(dsp.conversion_matrix("a", "a2")), "format"),
    "weak channel -12 dB": lambda r: ("ambix", _by_matrix(_one(0.25, int(r.integers(1, 4))) @ TO_B), "weak"),
    "weak W -12 dB": lambda r: ("ambix", _by_matrix(_one(0.25, 0) @ TO_B), "weak"),
    "weak capsule -12 dB": lambda r: ("a", _by_matrix(_one(0.25, int(r.integers(4)))), "weak"),
    "inverted capsule in AmbiX": lambda r: (
        "ambix", _by_matrix(TO_B @ _one(-1, int(r.integers(4)))), "capsule_inverted",
    ),
    "inverted capsule in A-format": lambda r: (
        "a", _by_matrix(_one(-1, int(r.integers(4)))), "capsule_inverted",
    ),
    "two capsules swapped": lambda r: ("a", _by_matrix(_swap(r)), "capsules_swapped"),
    "two channels swapped": lambda r: ("ambix", _by_matrix(_swap(r) @ TO_B), "channel_order"),
    "axis inverted": lambda r: ("ambix", _by_matrix(_one(-1, int(r.integers(1, 4))) @ TO_B), "axis_flipped"),
    "W inverted": lambda r: ("ambix", _by_matrix(_one(-1, 0) @ TO_B), "w_inverted"),
    "mirrored": lambda r: ("ambix", _by_matrix(_mirror(r) @ TO_B), "mirrored"),
    "upside down": lambda r: ("ambix", _by_matrix(_turned(roll=180) @ TO_B), "upside_down"),
    "end-fire": lambda r: ("ambix", _by_matrix(_turned(pitch=-90) @ TO_B), "end_fire"),
    "turned by 20 to 160 degrees": lambda r: (
        "ambix", _by_matrix(_turned(yaw=float(r.uniform(20, 160))) @ TO_B), "rotated",
    ),
    "channel 2-47 frames late": lambda r: (
        "ambix", _late(TO_B, int(r.integers(4)), int(r.integers(2, 48))), "time_shifted",
    ),
    "capsule 3-47 frames late": lambda r: (
        "a", _late(_EYE, int(r.integers(4)), int(r.integers(3, 48))), "time_shifted",
    ),
}  # fmt: skip
LOST: dict[str, Callable[[np.random.Generator], tuple[str, Change, str]]] = {
    "dead channel": lambda r: ("ambix", _by_matrix(_one(0, int(r.integers(4))) @ TO_B), "dead"),
    "dead capsule": lambda r: ("a", _by_matrix(_one(0, int(r.integers(4)))), "dead"),
    "dead capsule in AmbiX": lambda r: (
        "ambix", _by_matrix(TO_B @ _one(0, int(r.integers(4)))), "capsule_dead",
    ),
    "copied channel": lambda r: ("ambix", _by_matrix(_copied(r) @ TO_B), "duplicated"),
    "remixed 4 to 2 to 4": lambda r: (
        "ambix", _by_matrix(np.array([[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]] * 2) @ TO_B), "remixed",
    ),
}  # fmt: skip


def _copied(rng: np.random.Generator) -> F64:
    i, j = rng.choice(4, 2, replace=False)
    m = np.eye(4)
    m[i] = m[j] * rng.choice([1.0, 0.7, -1.0])
    return m


def _calibrate(take: Take, declared: str, change: Change) -> CapsuleFit:
    from bench.rooms import FS
    from calibration.capsules_files import Measurement, add_recording, without_drift
    from calibration.sweep import Sweep

    sweep = Sweep(FS, 1.0, 120.0, 10500.0)
    got = Measurement(declared, FS)
    for name, azimuth, elevation, x in take.sweeps:
        add_recording(got, name, change(x) * np.float32(0.5), (azimuth, elevation), sweep)
    return fit_capsules(without_drift(got, sweep).directions, declared)


def _doa(take: Take, foa: F32) -> float:
    """Mean error of the three talkers in degrees."""
    from bench.rooms import FS

    turn = 6 * FS
    errors = []
    for k, u in enumerate(take.talkers):
        found = dsp.steady_direction(foa[k * turn : (k + 1) * turn], FS)
        errors.append(
            dsp.angular_error_deg(found.azimuth_deg, found.elevation_deg, *dsp.unit_to_direction(u))
        )
    return float(np.mean(errors))


def _complaints(foa: F32) -> list[str]:
    from bench.rooms import FS

    return [f.code for f in dsp.check(foa, FS, "ambix").findings if f.severity == "fault"]


def _wiring(draws: int) -> None:
    from bench.rooms import FS

    repaired = dict.fromkeys(FAULTS, 0)
    named = dict.fromkeys([*FAULTS, *LOST], 0)
    errors: dict[str, list[float]] = {"right": [], "faulty": [], "repaired": []}
    gains: list[F64] = []
    false = 0
    for k in range(draws):
        take = _take(k)
        right = dsp.convert(take.talk, source="a", target="ambix")
        own, best = set(_complaints(right)), _doa(take, right)
        errors["right"].append(best)
        for declared in ("a", "ambix"):
            fit = _calibrate(take, declared, _by_matrix(dsp.conversion_matrix("a", declared)))
            false += not fit.ok or any(f.code != "gains" for f in fit.faults)
            if declared == "a" and fit.ok:
                gains.append(fit.gains_db)
        for name, make in FAULTS.items():
            rng = np.random.default_rng([SEED, 5, k, list(FAULTS).index(name)])
            declared, change, code = make(rng)
            fit = _calibrate(take, declared, change)
            named[name] += code in [f.code for f in fit.faults]
            sound = change(take.talk)
            errors["faulty"].append(_doa(take, dsp.convert(sound, source=declared, target="ambix")))
            if not fit.ok:
                note(f"{name}, draw {k}: refused: {fit.refusals}")
                continue
            mended = fit.require().apply(sound, FS)
            after, left = _doa(take, mended), set(_complaints(mended)) - own
            errors["repaired"].append(after)
            margin = _TURN_MARGIN_DEG if name.startswith("turned by") else _DOA_MARGIN_DEG
            good = not left and after <= best + margin
            repaired[name] += good
            if not good:
                note(f"{name}, draw {k}: DOA {after:.1f} (right {best:.1f}), check says {left}, {fit.faults}")
        for name, make in LOST.items():
            rng = np.random.default_rng([SEED, 6, k, list(LOST).index(name)])
            declared, change, code = make(rng)
            fit = _calibrate(take, declared, change)
            good = not fit.ok and code in [f.code for f in fit.faults]
            named[name] += good
            if not good:
                note(f"{name}, draw {k}: {fit.faults}, {fit.refusals}")
    for name in FAULTS:
        figure(f"wiring repaired, {draws} rooms: {name}", 100 * repaired[name] / draws, "%", ">=", 98)
    for name in LOST:
        figure(
            f"not repairable, named and refused, {draws} rooms: {name}",
            100 * named[name] / draws,
            "%",
            ">=",
            98,
        )
    figure(
        f"right microphones with a fault named, {2 * draws} of them", 100 * false / (2 * draws), "%", "<=", 1
    )
    text = f"capsule gains, sweeps at 40 dB SNR in {len(gains)} rooms of RT60 0.2 to 0.6 s"
    figure(text, float(np.std(gains)), "dB sd", "<=", 0.12)
    worse = float(np.mean(errors["repaired"]) - np.mean(errors["right"]))
    figure("DOA error of talkers, repaired less that of a right microphone", worse, "deg", "<=", 0.5)
    peer("DOA error of talkers, right microphone", float(np.mean(errors["right"])), "deg")
    peer("DOA error of talkers, faulty and uncorrected", float(np.mean(errors["faulty"])), "deg")
    wrong = {name: f"{count}/{draws}" for name, count in named.items() if count < draws}
    note(f"faults called by another name: {wrong}")


# ------------------------------------------------------------------ noise floor


def _noise_floor(sets: int) -> None:
    from calibration.noise_floor import noise_floor
    from dsp.weighting import a_weighting_db

    fs = 48000
    # IEC 61672-1, table 3, at the octaves from 31.5 Hz to 16 kHz.
    table = {
        31.5: -39.4,
        63: -26.2,
        125: -16.1,
        250: -8.6,
        500: -3.2,
        1000: 0.0,
        2000: 1.2,
        4000: 1.0,
        8000: -1.1,
    }
    worst = 0.0
    t = np.arange(2 * fs) / fs
    for nominal, weight in table.items():
        exact = 1000 * 10 ** (0.1 * round(10 * np.log10(nominal / 1000)))
        tone = (0.01 * np.sin(2 * np.pi * exact * t))[:, None].astype(np.float32)
        found = noise_floor(tone, fs)
        worst = max(worst, abs(float(found.a_weighted_db[0] - found.flat_db[0]) - weight))
    figure("A-weighting against IEC 61672-1, tones", worst, "dB", "<=", 0.1)
    f = np.arange(0.5, fs / 2)
    edge = 10**0.15
    octave, weighted, by_filter = [], [], []
    for k in range(sets):
        x = (1e-4 * np.random.default_rng([SEED, 7, k]).standard_normal((10 * fs, 4))).astype(np.float32)
        found = noise_floor(x, fs)
        middle = 1000 * 10 ** (0.3 * np.arange(-5, 5))
        closed = -80 + 10 * np.log10(middle * (edge - 1 / edge) / (fs / 2))
        octave.append((found.octave_db - closed[:, None])[found.bands_hz >= 125])
        true = -80 + 10 * np.log10(np.mean(10 ** (a_weighting_db(f) / 10)))
        weighted.append(found.a_weighted_db - true)
        by_filter.append([dsp.a_weighted_level(x[:, c], fs) - true for c in range(4)])
    figure("noise floor, white noise: octaves from 125 Hz", float(np.abs(octave).max()), "dB", "<=", 0.6)
    figure("noise floor, white noise: A-weighted", float(np.abs(weighted).max()), "dB", "<=", 0.1)
    peer("A-weighted by the filter of dsp.AWeighting", float(np.abs(by_filter).max()), "dB")


def run(quick: bool) -> None:
    """Prints the figures of capsules, wiring and noise floor."""
    _gains(20 if quick else 150)
    _mismatch(6 if quick else 60)
    _noise_floor(2 if quick else 8)
    _wiring(1 if quick else 12)


def main() -> int:
    run(quick())
    return end_of_part("calibration-capsules")


if __name__ == "__main__":
    sys.exit(main())
