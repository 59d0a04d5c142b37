"""Faults of capsules and axes, and capsule signals taken for W, Y, Z, X: which reading is a healthy field?

Each fault is a fixed 4x4 matrix, so it can be undone on the statistics of the field; a reading is as good as
the field that comes out is like that of a room: ratio (X^2+Y^2+Z^2)/W^2 of one of the conventions at onsets
and in decaying sound, onsets that are plane waves of one ratio, late sound whose channels have little in
common. `readings` tries all of them. A dead capsule cannot be undone, but is silent in the late sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsp.ambisonics import CHANNEL_NAMES, conversion_matrix
from dsp.field_statistics import Field
from dsp.normalisation import RATIOS_DB, velocity_ratio

Floats = NDArray[np.floating[Any]]
ONE_DIRECTION_DB = -22.0  # spread below which the sound comes from too few directions to judge balance
LAYOUTS = ("a", "a2")
_RARE = 5.0  # eight ways to have an inverted capsule against one to have read the wrong format


@dataclass(frozen=True)
class Reading:
    """One way to read the signal. kind: "scale" (the declared channels, perhaps in another normalisation),
    "w_gain" (the same with a W of any gain), "capsules" (it is A-format), "b_format" (it is not) or
    "capsule_inverted". misfit: of the field that this reading gives, mostly 1 to 9 in healthy rooms."""

    kind: str
    misfit: float
    layout: str | None = None
    capsule: int | None = None


def misfit(field: Field) -> float:
    """How unlike the field of a room it is: squared deviations in units of their spread over rooms.

    Spreads from simulated rooms of RT60 0.2-0.8 s, seeds 1000-1079 of bench/dsp_checks.py.
    """
    ratio = velocity_ratio(field)
    late = np.maximum(np.diag(field.late), 1e-9 * np.trace(field.late))
    late_ratio = 10 * np.log10(late[1:].sum() / late[0])
    common = np.abs(field.late / np.sqrt(np.outer(late, late)))[np.triu_indices(4, 1)].max()
    total = (ratio.value_db / max(0.35, ratio.error_db)) ** 2 if np.isfinite(ratio.error_db) else 9.0
    total += (late_ratio / 0.9) ** 2
    total += max(0.0, (common - 0.2) / 0.15) ** 2
    if np.isfinite(ratio.scatter_db):
        total += max(0.0, np.log(max(ratio.scatter_db, 1e-3) / 1.4) / 0.3) ** 2
    return float(min(total, 1e6))


def capsule_flip(layout: str, capsule: int, gain: float = -1.0) -> Floats:
    """(4, 4) what a gain of one capsule does to AmbiX; a flip undoes itself."""
    gains = np.ones(4)
    gains[capsule] = gain
    return np.asarray(
        conversion_matrix(layout, "ambix") @ np.diag(gains) @ conversion_matrix("ambix", layout)
    )


def readings(field: Field, declared: str) -> list[Reading]:
    """All readings of a signal that was converted from `declared` to AmbiX, the best first."""
    own = RATIOS_DB.get(declared)
    found = []
    if own is not None:
        scales = [10 ** ((at - own) / 20) for at in RATIOS_DB.values()]
        best = min(misfit(field.through(np.diag([1.0, 1 / s, 1 / s, 1 / s]))) for s in scales)
        found.append(Reading("scale", best))
        gain = 10 ** (velocity_ratio(field).value_db / 20)
        any_gain = np.diag([1.0, 1 / gain, 1 / gain, 1 / gain])
        found.append(Reading("w_gain", misfit(field.through(any_gain)) + _RARE))
        file_channels = conversion_matrix("ambix", declared)  # back to the channels as they are in the file
        capsules = field.through(conversion_matrix("a", "ambix") @ file_channels)
        found.append(Reading("capsules", misfit(capsules)))
    else:
        found.append(Reading("scale", misfit(field)))
        raw = field.through(conversion_matrix("ambix", declared))
        for name in RATIOS_DB:
            found.append(Reading("b_format", misfit(raw.through(conversion_matrix(name, "ambix"))), name))
    for layout in (declared,) if own is None else LAYOUTS:
        for capsule in range(4):
            undone = field.through(capsule_flip(layout, capsule))
            found.append(Reading("capsule_inverted", misfit(undone) + _RARE, layout, capsule))
    return sorted(found, key=lambda r: r.misfit)


def capsule_levels_db(covariance: Floats, layout: str) -> Floats:
    """Level of each capsule against the mean of the others in dB."""
    matrix = conversion_matrix("ambix", layout)
    power = np.diag(matrix @ covariance @ matrix.T)
    power = np.maximum(power, 1e-6 * power.sum())
    return np.array([10 * np.log10(power[i] / np.mean(np.delete(power, i))) for i in range(4)])


def axis_levels_db(field: Field) -> Floats:
    """Late level of Y, Z, X, each against the mean of the other two, in dB."""
    power = np.maximum(np.diag(field.late), 1e-12 * np.trace(field.late))[1:]
    return np.array([10 * np.log10(power[i] / np.mean(np.delete(power, i))) for i in range(3)])


def capsule_name(layout: str, capsule: int) -> str:
    return CHANNEL_NAMES[layout][capsule]
