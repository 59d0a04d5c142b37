"""Is this really first-order ambisonics, and healthy? Faults named from the data alone.

What data cannot tell (the order of X, Y, Z, their signs, a mirror, upside down) is never guessed here: see
`dsp.check_directions`. Where the recording is too short, too quiet or comes from one direction only, the
answer is "unknown". The statistics are in `field_statistics`, the figures of recall and false alarms in
docs/dsp.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.ambisonics import CHANNEL_NAMES, FORMATS, conversion_matrix
from dsp.errors import InputError
from dsp.levels import CLIP_LEVEL, Levels, levels, to_dbfs

Severity = Literal["ok", "warning", "fault", "unknown"]
_RATIOS_DB = {"ambix": 0.0, "fuma": 3.01, "n3d": 4.77}  # what each looks like when it is read as SN3D
_WEAK_DB = -7.6  # a late field level of X, Y or Z below the mean of the other two that rooms do not reach
# Healthy rooms of RT60 0.3 s with sources near the horizon reached -9 dB in Z.
_WEAK_FAULT_DB = -13.0
_LOW_DB = -50.0  # against the strongest channel: dead, or a source in the null of this channel
_ABSURD = 100.0  # +40 dBFS: no sound but a broken file; no measure for the other channels
_ONE_DIRECTION_DB = -22.0  # spread below which the sound comes from too few directions to judge balance


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. channel: index in the file's own order, or None for the whole signal. value: what the
    message quotes, in the unit it names. code is stable: nonfinite, clipped, dead, weak, dc, duplicated,
    remixed, time_shifted, capsule_dead, capsule_inverted, normalisation, orientation."""

    code: str
    severity: Severity
    channel: int | None
    message: str
    value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "channel": self.channel,
            "message": self.message,
            "value": None if self.value is None else round(float(self.value), 4),
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings of a signal. ok: no finding is a fault.

    normalisation: the most probable one of "ambix", "fuma", "n3d" as the channels' scale (not their order),
    or "unknown"; probabilities: of the three, from the velocity-to-W ratio alone.
    """

    format: str
    findings: tuple[Finding, ...]
    levels: Levels
    normalisation: str
    probabilities: dict[str, float]

    @property
    def ok(self) -> bool:
        return not any(f.severity == "fault" for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "format": self.format,
            "ok": self.ok,
            "findings": [f.to_dict() for f in self.findings],
            "levels": self.levels.to_dict(),
            "normalisation": self.normalisation,
            "probabilities": {k: round(v, 3) for k, v in self.probabilities.items()},
        }


def check(foa: ArrayLike, fs: int, format: str = "ambix") -> CheckReport:
    """Check a recording for the faults that its data alone can show.

    foa: (frames, 4) float, full scale +-1, in one of FORMATS; fs in Hz. Of a long file a minute, spread
    evenly, is used for the field statistics, and all of it for levels, clipping and copies. Raises
    InputError.
    """
    x = np.asarray(foa)
    if x.ndim != 2 or x.shape[1] != 4 or x.dtype.kind != "f" or len(x) == 0:
        raise InputError(f"check needs float samples (frames, 4), got {x.dtype} {x.shape}")
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
    if not 8000 <= fs <= 768_000:
        raise InputError(f"fs must be from 8000 to 768000 Hz, not {fs!r}")
    measured = levels(x)
    if measured.nonfinite.any():
        x = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    names = CHANNEL_NAMES[format]
    found, low = _sample_findings(x, measured, names)
    absurd = bool(np.max(np.abs(x)) > _ABSURD)
    if low:
        found += _low_findings(x, fs, format, low, absurd, {f.channel for f in found if f.code == "dead"})
    dead = {f.channel for f in found if f.code == "dead"}
    copies = [] if absurd else _copies(x, names, dead, low)
    found += copies
    probabilities = dict.fromkeys(_RATIOS_DB, 1 / 3)
    normalisation = "unknown"
    if absurd:
        text = "cannot be told: samples far beyond full scale (1.0); read the file with the right scale"
        found.append(Finding("normalisation", "unknown", None, text))
    elif len(dead) < 4 and not copies and float(np.max(measured.rms_dbfs)) > -100:
        field_findings, normalisation, probabilities = _field_findings(x, fs, format, dead)
        found += [f for f in field_findings if not (f.channel in low and f.code in ("weak", "dead"))]
    elif len(dead) < 4:
        found.append(
            Finding("normalisation", "unknown", None, "cannot be told from copied channels or near silence")
        )
    found.append(
        Finding(
            "orientation",
            "unknown",
            None,
            "order and signs of X, Y, Z cannot be told from data alone; use sources at known directions",
        )
    )
    return CheckReport(format, tuple(found), measured, normalisation, probabilities)


def _sample_findings(
    x: NDArray[Any], measured: Levels, names: tuple[str, ...]
) -> tuple[list[Finding], dict[int, float]]:
    """The findings that need no sound field, and the channels that are low: {channel: dB against the
    strongest one}."""
    found: list[Finding] = []
    low: dict[int, float] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        alternating = np.std(x, axis=0, dtype=np.float64)
    sane = alternating[alternating < _ABSURD]
    strongest = float(sane.max()) if len(sane) else float(alternating.max())
    for c, name in enumerate(names):
        if measured.nonfinite[c]:
            count = int(measured.nonfinite[c])
            found.append(
                Finding("nonfinite", "fault", c, f"{name}: {count} samples are NaN or infinite", count)
            )
        tops = _flat_tops(x[:, c]) if float(measured.peak_dbfs[c]) > -40 else 0
        count = max(int(measured.clipped_frames[c]), tops)
        if count:
            found.append(
                Finding("clipped", "fault", c, f"{name}: {count} samples clipped; lower the gain", count)
            )
        level = float(to_dbfs(alternating[c]))
        if x[:, c].max() == x[:, c].min():
            value = float(x[0, c])
            text = f"{name} carries no signal: every sample is {value:g}"
            found.append(Finding("dead", "fault", c, text, value))
        elif measured.dead.all():
            found.append(Finding("dead", "fault", c, f"{name} carries no signal ({level:.0f} dBFS)", level))
        elif measured.dead[c] or alternating[c] < 10 ** (_LOW_DB / 20) * strongest:
            low[c] = level - float(to_dbfs(strongest))
        dc = abs(float(measured.dc[c]))
        if dc > max(3e-4, 0.1 * float(alternating[c])):
            found.append(Finding("dc", "warning", c, f"{name} has a DC offset of {dc:.5f} of full scale", dc))
    return found, low


def _low_findings(
    x: NDArray[Any], fs: int, format: str, low: dict[int, float], absurd: bool, constant: set[int | None]
) -> list[Finding]:
    """Is a low channel dead, or does the sound come from its null?

    A direction has length 1, so no direction silences W, all of X, Y, Z, or two cardioid capsules at once.
    Otherwise the channels that are not low must hear different things: sound from several directions.
    """
    from dsp import field_statistics as fields

    names = CHANNEL_NAMES[format]
    silent = set(low) | constant
    impossible = len(silent) > 1 if format in ("a", "a2") else len(silent - {names.index("W")}) > 2
    live = [c for c in range(4) if c not in silent]
    several = False
    if not impossible and not absurd and len(live) > 1:
        field = fields.analyse_field(_excerpt(x, fs))
        eigen = np.linalg.eigvalsh(field.covariance[np.ix_(live, live)])
        several = bool(10 * np.log10(max(eigen[0], 1e-12) / max(eigen[-1], 1e-12)) > _ONE_DIRECTION_DB)
    found = []
    for c, drop in low.items():
        below = f"{-drop:.0f} dB below the strongest channel"
        if several:
            text = f"{names[c]} carries no signal: {below}, with sound from several directions"
        elif impossible or names[c] == "W":
            text = f"{names[c]} carries no signal: {below}, which no direction of sound explains"
        else:
            text = (
                f"{names[c]} is {below}: dead, or the sound comes from its null; there are too few"
                " directions to tell, compare with sound from elsewhere"
            )
            found.append(Finding("weak", "unknown", c, text, drop))
            continue
        found.append(Finding("dead", "fault", c, text, drop))
    return found


def _excerpt(x: NDArray[Any], fs: int) -> NDArray[np.float64]:
    """At most a minute at the rate of the field statistics, without its mean."""
    from dsp import field_statistics as fields
    from dsp.resample import resample

    part = fields.excerpt(np.asarray(x, np.float32), fs)
    if fs != fields.FS:
        part = resample(part, int(fs), fields.FS)
    y = part.astype(np.float64)
    return np.asarray(y - y.mean(axis=0))


def _flat_tops(x: NDArray[Any]) -> int:
    """Samples in runs of three or more at the very highest or lowest value that end with a corner.

    A slow wave can rest at its top for some samples too, but leaves it gently; a clipped one does not.
    """
    total = 0
    for sign in (1, -1):
        y = sign * x
        top = float(y.max())
        if top <= 0 or top >= CLIP_LEVEL:
            continue
        at = y >= top * (1 - 1e-6)
        edge = np.flatnonzero(np.diff(np.concatenate([[0], at.view(np.int8), [0]])))
        for start, end in zip(edge[::2], edge[1::2], strict=True):
            if end - start >= 3 and start > 0 and end < len(y):
                total += int(end - start) if min(y[start - 1], y[end]) < top * 0.995 else 0
    return total


def _copies(
    x: NDArray[Any], names: tuple[str, ...], dead: set[int | None], low: dict[int, float]
) -> list[Finding]:
    """Channels that are copies or mixtures of others, as an audio server makes them that remixes 4
    channels. One wave along an axis makes W and that axis equal too, with the other two low.
    """
    alive = [c for c in range(4) if c not in dead]
    if len(alive) < 2:
        return []
    y = x[:, alive].astype(np.float64)
    y -= y.mean(axis=0)
    c = y.T @ y
    scale = np.sqrt(np.diag(c))
    r = c / np.outer(scale, scale)
    eigen = np.linalg.eigvalsh(r)
    limit = 1e-7  # -70 dB: a copy, not two capsules
    if eigen[1] < limit * eigen[-1] and len(alive) > 2 and np.all(eigen[:-1] < limit * eigen[-1]):
        # All channels are one signal: a single plane wave is that too, unless the gains rule it out.
        gains = c[:, -1] / c[-1, -1]
        if np.allclose(np.abs(gains), 1.0, atol=1e-3):
            return [Finding("duplicated", "fault", None, "all channels carry the same signal (mono)", 1.0)]
        return []
    found = []
    for i in range(len(alive)):
        for j in range(i):
            if 1 - r[i, j] ** 2 < limit:
                a, b = names[alive[j]], names[alive[i]]
                severity: Severity = "fault"
                text = f"{b} is a copy of {a}"
                if "W" in (a, b) and len(set(low) | dead) == 2:
                    severity, text = "unknown", f"{text}, or the sound comes along that axis alone"
                found.append(Finding("duplicated", severity, alive[i], text, float(r[i, j])))
    return found


def _field_findings(
    x: NDArray[Any], fs: int, format: str, dead: set[int | None]
) -> tuple[list[Finding], str, dict[str, float]]:
    from dsp import field_statistics as fields

    ambix = _excerpt(x, fs) @ conversion_matrix(format, "ambix").T
    names = CHANNEL_NAMES[format]
    even = dict.fromkeys(_RATIOS_DB, 1 / 3)
    field = fields.analyse_field(ambix)
    if field.steady and np.sqrt(np.mean(ambix[:, 0] ** 2)) < 10 ** (-60 / 20):
        text = "a steady sound below -60 dBFS may be the microphone's own noise"
        return [Finding("normalisation", "unknown", None, text)], "unknown", even
    if dead:
        return (
            [Finding("normalisation", "unknown", None, "cannot be told with a dead channel")],
            "unknown",
            even,
        )
    capsule = _capsule_finding(field, format)
    if capsule is not None:
        return [capsule], "unknown", even
    weak = _weak_finding(field, format, fields)
    ratio, error = fields.velocity_ratio_db(ambix)
    if weak is not None and weak.severity == "fault":
        return [weak], "unknown", even
    found = [weak] if weak is not None else []
    shifted = _shifted_finding(ambix, format, names, fields)
    if shifted is not None:
        found.append(shifted)
    if ratio > 7.3:
        text = f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB: W is too weak for any convention"
        channel = 0 if names[0] == "W" else None
        return [*found, Finding("weak", "fault", channel, text, ratio)], "unknown", even
    finding, name, probabilities = _normalisation(ratio, error, format)
    return [*found, finding], name, probabilities


def _capsule_finding(field: Any, format: str) -> Finding | None:
    from dsp.field_statistics import capsule_statistics, invert_capsule

    own = format if format in ("a", "a2") else None
    best: tuple[float, str, int] | None = None
    for layout in (own,) if own else ("a", "a2"):
        level, correlation = capsule_statistics(field.covariance, layout)
        worst = int(np.argmin(level))
        if level[worst] < -16.0 and field.spread_db > _ONE_DIRECTION_DB:
            name = CHANNEL_NAMES[layout][worst]
            text = f"capsule {name} is dead ({level[worst]:.0f} dB against the others)"
            return Finding("capsule_dead", "fault", worst if own else None, text, float(level[worst]))
        odd = int(np.argmin(correlation))
        if correlation[odd] < -0.2:
            undone = invert_capsule(field.covariance, layout, odd)
            _, mended = capsule_statistics(undone, layout)
            ratio = 10 * np.log10(np.sum(np.diag(undone)[1:]) / max(float(undone[0, 0]), 1e-12))
            if mended.min() > 0.3 and -2.5 < ratio < 3.0 and (best is None or mended.min() > best[0]):
                best = (float(mended.min()), layout, odd)
    if best is None:
        return None
    name = CHANNEL_NAMES[best[1]][best[2]]
    text = f"capsule {name} is inverted: turn its sign before the conversion"
    return Finding("capsule_inverted", "fault", best[2] if own else None, text, best[0])


def _weak_finding(field: Any, format: str, fields: Any) -> Finding | None:
    if format in ("a", "a2"):
        level, _ = fields.capsule_statistics(field.covariance, format)
        worst = int(np.argmin(level))
        if field.spread_db > _ONE_DIRECTION_DB and level[worst] < -9.0:
            name = CHANNEL_NAMES[format][worst]
            text = f"capsule {name} is weak ({level[worst]:.0f} dB against the others)"
            return Finding("weak", "fault", worst, text, float(level[worst]))
        return None
    power = np.maximum(np.diag(field.late), 1e-12 * np.trace(field.late))[1:]
    level = np.array([10 * np.log10(power[i] / np.mean(np.delete(power, i))) for i in range(3)])
    worst = int(np.argmin(level))
    axis = ("Y", "Z", "X")[worst]
    channel = CHANNEL_NAMES[format].index(axis)
    if level[worst] >= _WEAK_DB:
        return None
    if field.spread_db < _ONE_DIRECTION_DB or (field.steady and level[worst] > -26.0):
        text = f"{axis} is low ({level[worst]:.0f} dB), but the sound comes from too few directions to judge"
        return Finding("weak", "unknown", channel, text, float(level[worst]))
    if level[worst] < -26.0:
        text = f"{axis} is dead: {level[worst]:.0f} dB against the other axes in a field from all around"
        return Finding("dead", "fault", channel, text, float(level[worst]))
    if level[worst] > _WEAK_FAULT_DB:
        text = (
            f"{axis} is low ({level[worst]:.0f} dB against the other axes): a weak channel, or a dry room"
            " with sound from few directions; compare with another recording"
        )
        return Finding("weak", "warning", channel, text, float(level[worst]))
    text = f"{axis} is weak ({level[worst]:.0f} dB against the other axes)"
    return Finding("weak", "fault", channel, text, float(level[worst]))


def _shifted_finding(ambix: NDArray[Any], format: str, names: tuple[str, ...], fields: Any) -> Finding | None:
    if format in ("a", "a2"):
        return None  # capsules are apart: small delays between them are right
    margin, c, frames = fields.shifted_channel(ambix)
    if margin < 1.3:
        return None
    channel = names.index(CHANNEL_NAMES["ambix"][c])
    ms = frames / fields.FS * 1000
    text = f"{names[channel]} is {abs(ms):.2f} ms {'late' if ms > 0 else 'early'} against the others"
    return Finding("time_shifted", "fault", channel, text, ms)


def _normalisation(ratio: float, error: float, format: str) -> tuple[Finding, str, dict[str, float]]:
    """Probabilities from a Gaussian error; a doubt of 5 % stays open between FuMa and N3D, and 1 % for
    SN3D.
    """
    likely = {name: np.exp(-0.5 * ((ratio - at) / error) ** 2) for name, at in _RATIOS_DB.items()}
    total = sum(likely.values())
    tail = 0.5 * (1 - erf(min(abs(ratio - at) for at in _RATIOS_DB.values()) / error / sqrt(2)))
    if not np.isfinite(error) or error > 1.2 or total < 1e-12 or tail < 1e-3:
        text = f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB (+-{error:.1f}): the normalisation cannot be told"
        finding = Finding("normalisation", "unknown", None, text, ratio)
        return finding, "unknown", dict.fromkeys(_RATIOS_DB, 1 / 3)
    p = {name: float(v / total) for name, v in likely.items()}
    best = max(p, key=lambda name: p[name])
    quoted = f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB against {format}"
    if best == "ambix":
        severity: Severity = "ok" if p[best] > 0.9 else "unknown"
        text = f"{quoted}: as it should be" if severity == "ok" else f"{quoted}: not clear"
        return (
            Finding("normalisation", severity, None, text, ratio),
            best if severity == "ok" else "unknown",
            p,
        )
    if p["ambix"] > 0.05:
        return Finding("normalisation", "unknown", None, f"{quoted}: not clear", ratio), "unknown", p
    looks = {"fuma": "W is 3 dB low, as in FuMa", "n3d": "X, Y, Z are 4.8 dB high, as in N3D"}
    if p[best] > 0.75:
        text = f"{quoted}: {looks[best]} ({100 * p[best]:.0f} %)"
        return Finding("normalisation", "fault", None, text, ratio), best, p
    text = f"{quoted}: not SN3D; FuMa or N3D is not clear"
    return Finding("normalisation", "fault", None, text, ratio), "unknown", p
