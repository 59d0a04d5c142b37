"""Is this really first-order ambisonics, and healthy? Faults named from the data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.ambisonics import CHANNEL_NAMES, FORMATS, convert
from dsp.errors import InputError
from dsp.levels import Levels, levels

Severity = Literal["ok", "warning", "fault", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. code: stable short name. channel: index in the file's order, or None for the whole
    signal.
    """

    code: str
    severity: Severity
    channel: int | None
    message: str
    value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "channel": self.channel,
            "message": self.message,
            "value": None if self.value is None else round(float(self.value), 4),
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings of a signal. ok: no finding is a fault."""

    format: str
    findings: tuple[Finding, ...]
    levels: Levels

    @property
    def ok(self) -> bool:
        return not any(f.severity == "fault" for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "ok": self.ok,
            "findings": [f.to_dict() for f in self.findings],
            "levels": self.levels.to_dict(),
        }


def check(foa: ArrayLike, fs: int, format: str = "ambix") -> CheckReport:
    """Check (frames, 4) float samples in one of FORMATS; fs in Hz. Raises InputError for other input."""
    x = np.asarray(foa)
    if x.ndim != 2 or x.shape[1] != 4 or x.dtype.kind != "f" or len(x) == 0:
        raise InputError(f"check needs float samples (frames, 4), got {x.dtype} {x.shape}")
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
    measured = levels(x)
    names = CHANNEL_NAMES[format]
    found = _channel_findings(measured, names)
    found.append(_normalisation(x, fs, format))
    return CheckReport(format, tuple(found), measured)


def _channel_findings(measured: Levels, names: tuple[str, ...]) -> list[Finding]:
    found: list[Finding] = []
    strongest = float(np.max(measured.rms_dbfs))
    for c, name in enumerate(names):
        level = float(measured.rms_dbfs[c])
        if measured.nonfinite[c]:
            count = int(measured.nonfinite[c])
            found.append(
                Finding("nonfinite", "fault", c, f"{name}: {count} samples are NaN or infinite", count)
            )
        if measured.clipped_frames[c]:
            count = int(measured.clipped_frames[c])
            found.append(
                Finding(
                    "clipped", "fault", c, f"{name}: {count} samples at full scale; lower the gain", count
                )
            )
        if measured.dead[c] or (strongest > -70 and level < strongest - 50):
            found.append(Finding("dead", "fault", c, f"{name} carries no signal ({level:.0f} dBFS)", level))
        dc = abs(float(measured.dc[c]))
        if dc > 0.003 and 20 * np.log10(dc) > level - 12:
            found.append(Finding("dc", "warning", c, f"{name} has a DC offset of {dc:.4f} of full scale", dc))
    return found


def _normalisation(x: NDArray[Any], fs: int, format: str) -> Finding:
    ambix = convert(x, source=format, target="ambix").astype(np.float64)
    ambix -= ambix.mean(axis=0)
    w = float(np.mean(ambix[:, 0] ** 2))
    v = float(np.mean(np.sum(ambix[:, 1:] ** 2, axis=1)))
    if w < 1e-12:
        return Finding("normalisation", "unknown", None, "too quiet to tell the normalisation", None)
    ratio = 10 * np.log10(v / w + 1e-12)
    if abs(ratio) < 2.0:
        return Finding(
            "normalisation", "ok", None, f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB, as {format} has it", ratio
        )
    return Finding(
        "normalisation",
        "unknown",
        None,
        f"(X^2+Y^2+Z^2)/W^2 is {ratio:+.1f} dB; {format} should give 0",
        ratio,
    )
