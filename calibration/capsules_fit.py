"""Gains, delays and encoding of a first-order microphone from loudspeakers at known directions.

The directions are read (`capsules_response`), the wiring is found (`capsules_wiring`), gains and encoding are
fitted (`capsules_model`), and what can be put right becomes one `dsp.FoaCorrection`. What cannot, and what
the measurement cannot stand for, is refused with what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibration.capsules_model import TO_XYZ, Solved, solve_model, wiring_delays
from calibration.capsules_response import (
    LEAST_WINDOW_S,
    OCTAVES_HZ,
    Direction,
    Heard,
    channel_shifts,
    direct_sound,
    hear,
    likeness,
    own_echo,
    shifted_back,
    stronger_reflection,
)
from calibration.capsules_wiring import Fault, Wiring, find_wiring, pattern_matrix, unusable
from calibration.direct_arrival import Floats
from dsp.ambisonics import CHANNEL_NAMES, FORMATS
from dsp.errors import CheckFailed, InputError
from dsp.foa_correction import FoaCorrection

LEAST_DIRECTIONS = 6
LEAST_SNR_DB = 20.0
LEAST_SPREAD = 0.3
"""Of the smallest singular value of the unit vectors over the root of their number; six axes have 0.577."""

PLACEMENT_DEG = 2.0
_COMMON_DB = 1.0  # all axes together against W: up to here it is left
_DB = 20 / np.log(10)


@dataclass(frozen=True)
class CapsuleFit:
    """What the directions say about the microphone, and what its correction is.

    names: of the four capsules or channels that `gains_db` belong to (capsules whenever the microphone is a
    tetrahedron, also behind a B-format). gains_db, gain_sigma_db: (4,) against their mean. delays_us,
    delay_sigma_us: (4,) of the channels (nan where a B-format does not tell). placement_deg: (n,) how far
    each loudspeaker seems to be from its label; left_out_deg: (n,) between its label and where the sound
    comes from by a correction made of the others. model: (n, 4) what the channels should have heard.
    octave_gains_db: (bands, 4). radius_m: of the capsules, nan for B-format. covariance of `parameters`.
    refusals: why there is no correction to stand for.
    """

    declared: str
    wiring: Wiring | None
    names: tuple[str, ...]
    gains_db: Floats
    gain_sigma_db: Floats
    delays_us: Floats
    delay_sigma_us: Floats
    shifts_s: Floats
    matrix: Floats
    parameters: tuple[str, ...]
    covariance: Floats
    heard: Heard
    model: Floats
    placement_deg: Floats
    left_out_deg: Floats
    turn_deg: float
    sigma_scale: float
    octave_gains_db: Floats
    octave_sigma_db: Floats
    radius_m: float
    correction: FoaCorrection | None
    faults: tuple[Fault, ...]
    refusals: tuple[tuple[str, str], ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return self.correction is not None and not self.refusals

    def require(self) -> FoaCorrection:
        """The correction. Raises CheckFailed with the reasons when there is none to stand for."""
        if not self.ok or self.correction is None:
            raise CheckFailed("; ".join(f"{problem}: {remedy}" for problem, remedy in self.refusals))
        return self.correction


def _octaves(heard: Heard, solved: Solved) -> tuple[Floats, Floats]:
    """(bands, 4) gains of each channel or capsule per octave in dB, and how far single directions scatter.

    Directions and pattern as they were fitted; the loudness of each direction in each band is free.
    """
    model = solved.model
    basis = np.column_stack([np.ones(model.n), model.units(solved.p)])
    flat = solved.p.copy()
    flat[:9] = [0, 0, 0, 0, flat[4], 0, 0, 0, 0]
    if model.raw:
        to_capsules, wanted = np.eye(4), basis @ model.channels(flat).T
    else:
        # Through the encoding back to the capsules that this B-format would have come from.
        to_capsules = model.capsule @ model.into @ np.linalg.inv(model.channels(flat))
        wanted = basis @ (to_capsules @ model.channels(flat)).T
    gains = np.full((len(OCTAVES_HZ), 4), np.nan)
    sigma = np.full((len(OCTAVES_HZ), 4), np.nan)
    for k, y in enumerate(heard.octaves):
        got = y @ to_capsules.T
        if not np.isfinite(got).all():
            continue
        gain = np.ones(4)
        for _ in range(20):
            level = (got * wanted * gain).sum(axis=1) / ((wanted * gain) ** 2).sum(axis=1)
            scaled = wanted * level[:, None]
            gain = (got * scaled).sum(axis=0) / (scaled**2).sum(axis=0)
        left = got - scaled * gain
        strength = (scaled**2).sum(axis=0)
        gain_db = _DB * np.log(np.maximum(np.abs(gain), 1e-6))
        gains[k] = gain_db - gain_db.mean()
        sigma[k] = _DB * np.sqrt((left**2).sum(axis=0) / max(1, model.n - 2) / strength) / np.abs(gain)
    return gains, sigma


def _direction_of(y: Floats, k: Floats) -> Floats:
    v = np.linalg.solve(k, y)
    v = v[1:] * (np.sign(v[0]) or 1.0)
    return np.asarray(v / max(float(np.linalg.norm(v)), 1e-12))


def _angle_deg(a: Floats, b: Floats) -> float:
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def _left_out(heard: Heard, wiring: Wiring, placement_deg: float) -> Floats:
    """(n,) degrees between each label and where its sound comes from by a fit without it."""
    found = []
    for i in range(len(heard.u)):
        part = solve_model(heard.without(i), wiring, placement_deg)
        found.append(_angle_deg(_direction_of(heard.y[i], part.model.channels(part.p)), heard.u[i]))
    return np.array(found)


def _suspect(heard: Heard, declared: str) -> str | None:
    """The one direction without which a wiring explains the others well, if there is just one."""
    good = []
    for i in range(len(heard.u)):
        try:
            good.append((find_wiring(heard.without(i), declared).left, heard.names[i]))
        except InputError:
            continue
    good.sort()
    if good and good[0][0] < 0.08 and (len(good) == 1 or good[1][0] > 2 * good[0][0]):
        return good[0][1]
    return None


def fit_capsules(
    directions: Sequence[Direction], declared: str, *, placement_deg: float = PLACEMENT_DEG
) -> CapsuleFit:
    """Calibrate a microphone from six or more loudspeakers at known directions all around.

    declared: the format that the recordings say they have, one of dsp.FORMATS; what they really hold is
    found. placement_deg: how well the loudspeakers were placed, standard deviation of each of two components.
    Raises InputError for what is no measurement (too few directions, other shapes, silence); a measurement
    that is not good enough comes back with `refusals`.
    """
    if declared not in FORMATS:
        raise InputError(f"unknown format {declared!r}; one of {', '.join(FORMATS)}")
    if not 0.1 <= placement_deg <= 15:
        raise InputError(f"placement_deg must be from 0.1 to 15 degrees, not {placement_deg!r}")
    if len(directions) < LEAST_DIRECTIONS:
        raise InputError(
            f"{len(directions)} directions are too few: {LEAST_DIRECTIONS} or more are needed, best front,"
            " back, left, right, up and down"
        )
    if len({d.fs for d in directions}) > 1:
        rates = ", ".join(f"{d.name} {d.fs}" for d in directions)
        raise InputError(f"all directions must have one sample rate: {rates}")
    refusals: list[tuple[str, str]] = []
    warnings: list[str] = []
    u = np.array([d.unit for d in directions])
    spread = float(np.linalg.svd(u, compute_uv=False)[-1] / np.sqrt(len(u)))
    balance = float(np.linalg.norm(u.mean(axis=0)))
    if spread < LEAST_SPREAD or balance > 0.6:
        raise InputError(
            f"the directions are too much on one side or in one plane (spread {spread:.2f}, {LEAST_SPREAD} is"
            f" needed; mean {balance:.2f}, at most 0.6): add the opposite sides, above and below"
        )
    shifts = channel_shifts(directions)
    aligned = [shifted_back(d, shifts) for d in directions]
    moved = np.rint(shifts * directions[0].fs) / directions[0].fs
    direct = [direct_sound(d) for d in aligned]
    echo = own_echo(direct)
    if np.isfinite(echo):
        direct = [direct_sound(d, echo) for d in aligned]
        warnings.append(
            f"a second pulse {1000 * echo:.2f} ms after the first comes from every direction: it is taken for"
            " the loudspeaker's own; the smaller and nearer the loudspeaker, the better"
        )
    first = hear(aligned, direct, "b_format")
    refusals += _poor(first) + _outshone(directions)
    faults = _shift_faults(moved, declared)
    lost = unusable(first, *likeness(aligned), declared)
    if lost:
        # Beside a dead channel or a copy neither delays nor reflections can be told.
        faults = []
        refusals = [(f.message, "no correction replaces what was not recorded") for f in lost]
        return _refused(declared, first, (*faults, *lost), refusals, warnings, moved)
    try:
        wiring = find_wiring(first, declared)
    except InputError as error:
        who = _suspect(first, declared)
        where = f"without {who} one does: it was not where its name says" if who else "labels may be wrong"
        refusals.append((f"{error}; {where}", "check the place of every loudspeaker and measure again"))
        return _refused(declared, first, tuple(faults), refusals, warnings, moved)
    kind = "capsules" if wiring.kind == "capsules" else "b_format"
    near = first if kind == "b_format" else hear(aligned, direct, kind)
    heard = hear(aligned, direct, kind, wiring_delays(near, wiring))
    heard = replace(heard, delay_s=near.delay_s)
    solved = solve_model(heard, wiring, placement_deg)
    left_out = _left_out(heard, wiring, placement_deg)
    return _finish(
        declared, wiring, heard, solved, left_out, moved, faults, refusals, warnings, placement_deg,
    )  # fmt: skip


def _shift_faults(moved: Floats, declared: str) -> list[Fault]:
    names = CHANNEL_NAMES[declared]
    return [
        Fault(
            "time_shifted",
            f"{names[c]} is {abs(1000 * s):.2f} ms {'late' if s > 0 else 'early'} against the others",
            c,
        )
        for c, s in enumerate(moved)
        if s
    ]


def _poor(heard: Heard) -> list[tuple[str, str]]:
    """Directions that are too noisy, or with a reflection too near."""
    found = []
    for i, name in enumerate(heard.names):
        if heard.snr_db[i] < LEAST_SNR_DB:
            found.append(
                (
                    f"{name}: the direct sound is only {heard.snr_db[i]:.0f} dB above the noise",
                    f"play louder or longer, or come nearer; {LEAST_SNR_DB:.0f} dB are needed, 40 are good",
                )
            )
        if heard.window_s[i] < LEAST_WINDOW_S:
            found.append(
                (
                    f"{name}: a reflection follows {1000 * heard.window_s[i]:.2f} ms after the direct sound",
                    "keep both 0.5 m away from walls, table and floor, or put the loudspeaker nearer",
                )
            )
    return found


def _outshone(directions: Sequence[Direction]) -> list[tuple[str, str]]:
    """Directions of which a reflection is louder than the direct sound: channels cannot be compared in time,
    and what is corrected cannot be checked."""
    late = [(d.name, stronger_reflection(d)) for d in directions]
    return [
        (
            f"{name}: a reflection {1000 * s:.1f} ms after the direct sound is louder than it",
            "aim the loudspeaker at the microphone with nothing between them, put it nearer, and keep both"
            " away from walls, table and floor",
        )
        for name, s in late
        if np.isfinite(s)
    ]


def _refused(
    declared: str,
    heard: Heard,
    faults: tuple[Fault, ...],
    refusals: list[tuple[str, str]],
    warnings: list[str],
    moved: Floats,
) -> CapsuleFit:
    n, none = len(heard.names), np.full(4, np.nan)
    bands = np.full((len(OCTAVES_HZ), 4), np.nan)
    return CapsuleFit(
        declared, None, CHANNEL_NAMES[declared], none, none, none, none, moved, pattern_matrix(heard), (),
        np.zeros((0, 0)), heard, np.full((n, 4), np.nan), np.full(n, np.nan), np.full(n, np.nan),
        float("nan"), float("nan"), bands, bands, float("nan"), None, faults, tuple(refusals),
        tuple(warnings),
    )  # fmt: skip


def _finish(
    declared: str,
    wiring: Wiring,
    heard: Heard,
    solved: Solved,
    left_out: Floats,
    moved: Floats,
    faults: list[Fault],
    refusals: list[tuple[str, str]],
    warnings: list[str],
    placement_deg: float,
) -> CapsuleFit:
    model, p = solved.model, solved.p
    late = late_sigma = np.full(4, np.nan)
    radius = float("nan")
    at = slice(28 + 4 * model.n, 32 + 4 * model.n)
    if model.raw:
        late, radius = 1e-6 * p[at], 1e-3 * float(p[-1])
        late_sigma = 1e-6 * np.sqrt(np.diag(solved.covariance)[at])
    first = 0 if model.raw else 5
    chosen = slice(first, first + 4)
    base = np.ones(4)
    if model.raw:
        base = np.linalg.norm(wiring.matrix, axis=1)
    gains = p[chosen] + np.log(base)
    gains = _DB * (gains - gains.mean())
    covariance = solved.covariance[chosen, chosen] * _DB**2
    names = CHANNEL_NAMES[wiring.format] if model.raw else CHANNEL_NAMES[model.layout]
    parameters = [f"gain_{name}_db" for name in names]
    if model.raw:
        parameters += [f"delay_{name}_us" for name in names]
        both = np.r_[0:4, at]
        unit = np.r_[[_DB] * 4, np.ones(4)]
        covariance = solved.covariance[np.ix_(both, both)] * np.outer(unit, unit)
    place = np.degrees(
        np.arctan2(
            np.linalg.norm(np.cross(model.units(p), _turned(heard.u, p, model.n)), axis=1),
            np.sum(model.units(p) * _turned(heard.u, p, model.n), axis=1),
        )
    )
    turn_deg = float(np.degrees(np.linalg.norm(p[25 + model.n : 28 + model.n])))
    octave, octave_sigma = _octaves(heard, solved)
    limit = max(15.0, 5 * placement_deg)
    for i, name in enumerate(heard.names):
        if left_out[i] > limit:
            refusals.append(
                (
                    f"{name}: by the other directions it is {left_out[i]:.0f} degrees beside its label",
                    "put the loudspeaker where its name says, or correct the label, and repeat it",
                )
            )
    if solved.scale > 3:
        warnings.append(
            f"the directions agree {solved.scale:.1f} times worse than noise and placement explain;"
            " uncertainties are enlarged by that"
        )
    if turn_deg > 4:
        warnings.append(
            f"the microphone seems turned by {turn_deg:.0f} degrees against the labels; that is not corrected"
        )
    low = float(heard.snr_db.min())
    if LEAST_SNR_DB <= low < 30:
        warnings.append(f"the softest direction is {low:.0f} dB above the noise; 40 dB halve the uncertainty")
    k, delay_s, worth = _wanted(declared, wiring, solved, late, late_sigma, moved)
    if _labels_may_be_wrong(wiring, declared):
        warnings.append(
            "the microphone is turned, mirrored or wired otherwise, or the labels were exchanged:"
            " check before you use it"
        )
    if not worth and not faults and not wiring.faults:
        warnings.append("no gain differs from the others by more than its uncertainty: nothing is corrected")
    found = [*faults, *wiring.faults]
    beside = gains - np.median(gains)
    for c in range(4):
        named = any(f.code == "weak" and f"{names[c]} is" in f.message for f in found)
        if abs(beside[c]) > max(0.5, 2 * np.sqrt(covariance[c, c])) and not named:
            text = f"{names[c]} is {beside[c]:+.1f} dB off the others"
            found.append(Fault("gains", text, c if model.raw else None))
    correction = FoaCorrection(declared, TO_XYZ.T @ np.linalg.inv(k), delay_s)
    return CapsuleFit(
        declared, wiring, names, gains, np.sqrt(np.diag(covariance)[:4]), 1e6 * (late + moved -
        np.mean(moved)), 1e6 * late_sigma, moved, k, tuple(parameters), covariance, heard, model.factors(p),
        place, left_out, turn_deg, solved.scale, octave, octave_sigma, radius, correction, tuple(found),
        tuple(refusals), tuple(warnings),
    )  # fmt: skip


def _labels_may_be_wrong(wiring: Wiring, declared: str) -> bool:
    """Whether other labels (opposite ones, left for right, all turned) would explain the fault as well."""
    other_layout = {declared, wiring.format} == {"a", "a2"}
    return other_layout or not np.allclose(wiring.turn, np.eye(3), atol=1e-6)


def _turned(u: Floats, p: Floats, n: int) -> Floats:
    """The labels with the turn that all loudspeakers share."""
    v = u + np.cross(p[25 + n : 28 + n], u)
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))


def _wanted(
    declared: str, wiring: Wiring, solved: Solved, late: Floats, late_sigma: Floats, moved: Floats
) -> tuple[Floats, Floats, bool]:
    """(channels from (1, x, y, z) that the correction undoes, delays in s, whether a gain is worth it).

    A gain is worth it when one of them is off by more than two sigmas; without, only the wiring is undone.
    """
    model = solved.model
    pick = np.zeros((8, len(solved.p)))
    pick[np.arange(4), np.arange(4) + (0 if model.raw else 5)] = 1.0
    if not model.raw:
        axes = np.delete(np.arange(4), np.argmax(np.abs(wiring.matrix[:, 0])))
        pick[np.ix_(np.arange(4, 7), axes)] = np.eye(3) - 1 / 3
    sigma = np.sqrt(np.maximum(np.diag(pick @ solved.covariance @ pick.T), 1e-30))
    worth = bool(np.any(np.abs(pick @ solved.p) > np.maximum(2 * sigma, 1e-6)))
    k = model.channels(solved.p) if worth else wiring.matrix
    if worth and not model.raw:
        change = np.linalg.solve(wiring.matrix, k)
        change /= change[0, 0]
        common = float(np.mean(np.diag(change)[1:]))
        if abs(_DB * np.log(max(common, 1e-6))) < _COMMON_DB:
            # The spacing of capsules raises the axes against W, more with frequency: nothing for one factor.
            change = change @ np.diag([1.0, *[1 / common] * 3])
        k = wiring.matrix @ change
    delay_s = np.asarray(moved, np.float64)
    if model.raw:
        fine = np.where((np.abs(late) > 3 * late_sigma) & (np.abs(late) > 1e-6), late, 0.0)
        delay_s = delay_s + fine
    elif delay_s.any():
        # Beside the whole frames: the rest, against the axes that are in time.
        rest = solved.model.heard.delay_s
        weight = solved.model.heard.y**4 + 1e-12
        own = np.average(rest, axis=0, weights=weight)
        still = np.flatnonzero(delay_s == 0)
        in_time = own[still].mean() if len(still) else own.mean()
        delay_s = np.where(delay_s != 0, delay_s + own - in_time, 0.0)
    return k, delay_s, worth


__all__ = ["CapsuleFit", "Fault", "fit_capsules"]
