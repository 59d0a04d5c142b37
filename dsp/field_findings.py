"""The findings about the sound field: shifted channels, capsules, wrong format, weak axes, normalisation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsp.ambisonics import CHANNEL_NAMES, conversion_matrix
from dsp.channel_shift import shifted_channel
from dsp.field_faults import (
    LAYOUTS,
    ONE_DIRECTION_DB,
    Reading,
    axis_levels_db,
    capsule_levels_db,
    capsule_name,
    readings,
)
from dsp.field_statistics import FS, Field, analyse_field
from dsp.normalisation import RATIOS_DB, Ratio, name_convention, velocity_ratio
from dsp.sample_faults import Finding, Severity

Answer = tuple[list[Finding], str, dict[str, float]]
_EVEN = dict.fromkeys(RATIOS_DB, 1 / 3)
_DEAD_CAPSULE_DB = -14.0  # late sound reaches all capsules of healthy rooms within -5 dB
_WRONG_READING = 4.0  # so much worse must the declared reading fit than another one, before it is a fault
_FITS = 40.0  # beyond this no reading is a room
_WEAK_DB = {
    "Y": -7.4,
    "Z": -8.2,
    "X": -7.4,
}  # late level that healthy rooms do not reach; Z is lowest in dry ones
_WEAK_FAULT_DB = -11.0
_DEAD_AXIS_DB = -26.0


def field_findings(x: NDArray[np.float32], format: str, dead: set[int | None]) -> Answer:
    """(findings, normalisation, its probabilities) from (frames, 4) at 24 kHz in the channels of `format`."""
    if dead:
        text = "cannot be told with a dead channel"
        return [Finding("normalisation", "unknown", None, text)], "unknown", dict(_EVEN)
    to_ambix = conversion_matrix(format, "ambix").T.astype(np.float32)
    ambix = x @ to_ambix
    field = analyse_field(ambix)
    # A steady sound, such as the noise of the capsules in a quiet room, has no starts to compare.
    shift = None if field.steady else shifted_channel(x if format in LAYOUTS else ambix, format in LAYOUTS)
    found: list[Finding] = []
    if shift is not None:
        name = CHANNEL_NAMES[format if format in LAYOUTS else "ambix"][shift.channel]
        channel = CHANNEL_NAMES[format].index(name)
        x = x.copy()
        x[:, channel] = np.roll(x[:, channel], -round(shift.frames))
        ambix = x @ to_ambix
        field = analyse_field(ambix)
        ms = shift.frames / FS * 1000
        text = f"{name} is {abs(ms):.2f} ms {'late' if ms > 0 else 'early'} against the others"
        found.append(Finding("time_shifted", "fault", channel, text, ms))
    if field.steady and np.sqrt(np.mean(ambix[:, 0] ** 2)) < 10 ** (-60 / 20):
        text = "a steady sound below -60 dBFS may be the microphone's own noise"
        return [*found, Finding("normalisation", "unknown", None, text)], "unknown", dict(_EVEN)
    several = field.spread_db > ONE_DIRECTION_DB
    if several and (wrong := _capsules_or_format(field, format)) is not None:
        return [*found, wrong], "unknown", dict(_EVEN)
    ratio = velocity_ratio(field)
    weak = _weak_axis(field, format, ratio, several)
    if weak is not None:
        found.append(weak)
        if weak.severity in ("fault", "warning"):
            return found, "unknown", dict(_EVEN)
    off = ratio.value_db + RATIOS_DB.get(format, 0.0)
    if abs(off - 2.4) > 5.0 and ratio.error_db < 1.2:
        return [*found, _weak_w(ratio, format)], "unknown", dict(_EVEN)
    finding, name, probabilities = _normalisation(ratio, format)
    return [*found, finding], name, probabilities


def _capsules_or_format(field: Field, format: str) -> Finding | None:
    capsules = format in LAYOUTS
    for layout in (format,) if capsules else LAYOUTS:
        level = capsule_levels_db(field.late, layout)
        worst = int(np.argmin(level))
        if level[worst] < _DEAD_CAPSULE_DB:
            name = capsule_name(layout, worst)
            if capsules and level[worst] > -30.0:
                text = f"capsule {name} is weak ({level[worst]:.0f} dB against the others)"
                return Finding("weak", "fault", worst, text, float(level[worst]))
            text = f"capsule {name} is dead ({level[worst]:.0f} dB against the others)"
            return Finding("capsule_dead", "fault", worst if capsules else None, text, float(level[worst]))
        if capsules and level[worst] < -9.0:
            text = f"capsule {capsule_name(layout, worst)} is weak ({level[worst]:.0f} dB against the others)"
            return Finding("weak", "fault", worst, text, float(level[worst]))
    tried = readings(field, format)
    best, own = tried[0], next(r for r in tried if r.kind == "scale")
    if best.kind in ("scale", "w_gain") or own.misfit < best.misfit + _WRONG_READING or best.misfit > _FITS:
        return None
    return _wrong_reading(best, capsules)


def _wrong_reading(best: Reading, capsules: bool) -> Finding:
    if best.kind == "capsule_inverted":
        assert best.layout is not None and best.capsule is not None
        name = capsule_name(best.layout, best.capsule)
        text = f"capsule {name} is inverted: turn its sign before the conversion"
        channel = best.capsule if capsules else None
        return Finding("capsule_inverted", "fault", channel, text, best.misfit)
    if best.kind == "capsules":
        text = "these are capsule signals (A-format, type I or II), not W and three axes: read as a or a2"
        return Finding("format", "fault", None, text, best.misfit)
    text = f"these are not capsule signals but W and three axes, scaled as {best.layout}"
    return Finding("format", "fault", None, text, best.misfit)


def _weak_axis(field: Field, format: str, ratio: Ratio, several: bool) -> Finding | None:
    """An axis whose late level is low. What it lacks is missing in (X^2+Y^2+Z^2)/W^2 too, unless the room
    itself has little of it, so a ratio below 0 dB adds to the level."""
    if format in LAYOUTS:
        return None
    names = ("Y", "Z", "X")
    missing = 0.0
    if np.isfinite(ratio.error_db):
        scale = min((ratio.value_db - at + RATIOS_DB[format] for at in RATIOS_DB.values()), key=abs)
        missing = float(np.clip(scale, -3.0, 0.0))
    level = axis_levels_db(field)
    worst = int(np.argmin(level))
    axis, value = names[worst], float(level[worst])
    channel = CHANNEL_NAMES[format].index(axis)
    if value + missing >= _WEAK_DB[axis]:
        return None
    if not several or (field.steady and value > _DEAD_AXIS_DB):
        text = f"{axis} is low ({value:.0f} dB), but the sound comes from too few directions to judge"
        return Finding("weak", "unknown", channel, text, value)
    if value < _DEAD_AXIS_DB:
        text = f"{axis} is dead: {value:.0f} dB against the other axes in a field from all around"
        return Finding("dead", "fault", channel, text, value)
    if value + missing > _WEAK_FAULT_DB:
        text = (
            f"{axis} is low ({value:.0f} dB against the other axes): a weak channel, or a dry room"
            " with sound from few directions; compare with another recording"
        )
        return Finding("weak", "warning", channel, text, value)
    text = f"{axis} is weak ({value:.0f} dB against the other axes)"
    return Finding("weak", "fault", channel, text, value)


def _weak_w(ratio: Ratio, format: str) -> Finding:
    weak = ratio.value_db > 0
    what = "W is too weak" if weak else "W is too strong, or X, Y and Z are too weak,"
    text = f"(X^2+Y^2+Z^2)/W^2 is {ratio.value_db:+.1f} dB: {what} for any convention"
    channel = 0 if CHANNEL_NAMES[format][0] == "W" and weak else None
    return Finding("weak", "fault", channel, text, ratio.value_db)


_LOOKS = {
    "ambix": "the scale of AmbiX (SN3D)",
    "fuma": "the scale of FuMa (W 3 dB low)",
    "n3d": "the scale of N3D (X, Y, Z 4.8 dB high)",
}


def _normalisation(ratio: Ratio, format: str) -> tuple[Finding, str, dict[str, float]]:
    own = format if format in RATIOS_DB else "ambix"
    named = name_convention(ratio, own)
    p = named.probabilities
    quoted = f"(X^2+Y^2+Z^2)/W^2 is {ratio.value_db:+.1f} dB (+-{ratio.error_db:.1f}) against {format}"
    if not np.isfinite(ratio.error_db):
        text = "there is too little sound to tell the normalisation"
        return Finding("normalisation", "unknown", None, text), "unknown", p
    if not named.clear:
        text = f"{quoted}: the normalisation cannot be told"
        return Finding("normalisation", "unknown", None, text, ratio.value_db), "unknown", p
    severity: Severity = "unknown"
    name = named.name
    if name == own:
        severity, text = "ok", f"{quoted}: as it should be"
        name = format
    elif p[own] > 0.05:
        text, name = f"{quoted}: not clear", "unknown"
    elif name == "unknown":
        severity, text = "fault", f"{quoted}: not {own}; which other scale is not clear"
    else:
        severity, text = "fault", f"{quoted}: {_LOOKS[name]}, {100 * p[name]:.1f} % sure"
    return Finding("normalisation", severity, None, text, ratio.value_db), name, p
