"""Is this really first-order ambisonics, and healthy? Faults named from the data alone.

What data cannot tell (the order of X, Y, Z, their signs, a mirror, upside down) is never guessed here: see
`dsp.check_directions`. Where the recording is too short, too quiet or comes from one direction only, the
answer is "unknown". `sample_faults` looks at samples, `channel_shift`, `field_faults` and `normalisation` at
the sound field; the figures of recall and false alarms are in docs/dsp.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.ambisonics import CHANNEL_NAMES, FORMATS
from dsp.arguments import as_array, sample_rate
from dsp.errors import InputError
from dsp.levels import Levels
from dsp.sample_faults import ABSURD, Finding, SampleWatch

__all__ = ["CheckReport", "Checker", "Finding", "check", "check_pieces"]
_CHUNK_S = 10.0
_MOST_CHUNKS = 6
_SHORT_S = 1.0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings of a signal. ok: no finding is a fault.

    normalisation: the most probable scale of the channels (not their order), "ambix", "fuma" or "n3d", or
    "unknown"; probabilities: of the three, from the velocity-to-W ratio alone.
    """

    format: str
    findings: tuple[Finding, ...]
    levels: Levels
    normalisation: str
    probabilities: dict[str, float]
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(f.severity == "fault" for f in self.findings)

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "NOT OK"
        lines = [f"{verdict}: {self.seconds:.1f} s read as {self.format}, scale {self.normalisation}"]
        order = {"fault": 0, "warning": 1, "unknown": 2, "ok": 3}
        lines += [
            f"  {f.severity:<8} {f.message}" for f in sorted(self.findings, key=lambda f: order[f.severity])
        ]
        names = CHANNEL_NAMES[self.format]
        peaks, rms = self.levels.peak_dbfs, self.levels.rms_dbfs
        listed = [f"{n} {r:.0f}/{p:.0f}" for n, r, p in zip(names, rms, peaks, strict=True)]
        return "\n".join([*lines, "  level    RMS/peak in dBFS: " + ", ".join(listed)])

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

    foa: (frames, 4) float, full scale +-1, in one of FORMATS; fs in Hz. Of a long recording up to a minute,
    spread evenly, is used for the sound field, and all of it for levels, clipping, copies and gaps; see
    `check_pieces` for files that do not fit in memory. Raises InputError.
    """
    x = as_array(foa)
    checker = Checker(fs, format)
    if x.ndim != 2 or x.shape[1] != 4 or x.dtype.kind != "f":
        raise InputError(f"check needs float samples (frames, 4), got {x.dtype} {x.shape}")
    step = checker.chunk_frames
    for start in range(0, len(x), step):
        checker.push(x[start : start + step])
    return checker.report()


def check_pieces(pieces: Iterable[ArrayLike], fs: int, format: str = "ambix") -> CheckReport:
    """`check` of a recording that comes in pieces (frames, 4) of any length, in order; keeps about a minute.

    The answer does not depend on how the recording was cut. Raises InputError.
    """
    checker = Checker(fs, format)
    for piece in pieces:
        checker.push(piece)
    return checker.report()


class Checker:
    """The check of a recording that arrives piece by piece: `push` each, then `report()` once or at times."""

    def __init__(self, fs: int, format: str = "ambix") -> None:
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
        self.fs, self.format = sample_rate(fs, 8000), format
        self.chunk_frames = int(_CHUNK_S * self.fs)
        self._watch = SampleWatch(self.fs)
        self._waiting: list[NDArray[Any]] = []
        self._waiting_frames = 0
        self._chunks: list[NDArray[np.float32]] = []  # every stride-th, at the rate of the field statistics
        self._count, self._stride = 0, 1

    def push(self, piece: ArrayLike) -> None:
        x = as_array(piece)
        if x.ndim != 2 or x.shape[1] != 4 or x.dtype.kind != "f":
            raise InputError(f"check needs float samples (frames, 4), got {x.dtype} {x.shape}")
        while len(x):
            part = x[: self.chunk_frames - self._waiting_frames]
            x = x[len(part) :]
            self._waiting.append(part)
            self._waiting_frames += len(part)
            if self._waiting_frames == self.chunk_frames:
                self._take()

    def _take(self) -> None:
        if not self._waiting_frames:
            return
        chunk = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting, self._waiting_frames = [], 0
        chunk = self._watch.push(chunk)
        if self._count % self._stride == 0:
            self._chunks.append(self._at_field_rate(chunk))
            if len(self._chunks) > _MOST_CHUNKS:
                self._chunks, self._stride = self._chunks[::2], 2 * self._stride
        self._count += 1

    def _at_field_rate(self, chunk: NDArray[Any]) -> NDArray[np.float32]:
        from dsp.field_statistics import FS
        from dsp.resample import resample

        with np.errstate(over="ignore"):
            y = np.asarray(np.clip(chunk, -1e6, 1e6), np.float32)
        return y.copy() if self.fs == FS else resample(y, self.fs, FS)

    def report(self) -> CheckReport:
        """What everything pushed so far shows. Ends the present piece, so ask for it seldom."""
        self._take()
        even = {"ambix": 1 / 3, "fuma": 1 / 3, "n3d": 1 / 3}
        watch, names = self._watch, CHANNEL_NAMES[self.format]
        if not watch.frames:
            nothing = np.full(4, -200.0)
            none = np.zeros(4, np.int64)
            silent = Levels(nothing, nothing, none, np.ones(4, bool), np.zeros(4), none)
            empty = Finding("empty", "fault", None, "the recording holds no samples", 0.0)
            return CheckReport(self.format, (empty,), silent, "unknown", even, 0.0)
        seconds = watch.frames / self.fs
        found, low = watch.findings(names)
        absurd = bool(watch.peak.max() > ABSURD)
        field = None
        if seconds >= 0.02 and not absurd:
            field = self._field_input()
        if seconds < _SHORT_S:
            text = f"only {seconds:.2f} s: too short to judge the sound field"
            found.insert(0, Finding("too_short", "unknown", None, text, seconds))
        if low:
            found += self._low_findings(low, field, {f.channel for f in found if _dead(f)})
        dead = {f.channel for f in found if _dead(f)}
        copies = [] if absurd else watch.copies(names, dead, low)
        found += copies
        normalisation, probabilities = "unknown", even
        if absurd:
            text = "cannot be told: samples far beyond full scale (1.0); read the file with the right scale"
            found.append(Finding("normalisation", "unknown", None, text))
        elif len(dead) < 4:
            if copies or field is None or float(np.max(watch.levels().rms_dbfs)) <= -100:
                text = "cannot be told from copied channels, near silence or so short a sound"
                found.append(Finding("normalisation", "unknown", None, text))
            else:
                from dsp.field_findings import field_findings

                more, normalisation, probabilities = field_findings(field, self.format, dead)
                found += [f for f in more if not (f.channel in low and f.code in ("weak", "dead"))]
        text = "order and signs of X, Y, Z cannot be told from data alone; use sources at known directions"
        found.append(Finding("orientation", "unknown", None, text))
        return CheckReport(self.format, tuple(found), watch.levels(), normalisation, probabilities, seconds)

    def _field_input(self) -> NDArray[np.float32]:
        """About a minute at 24 kHz, in the file's own channels, without its mean."""
        y = np.concatenate(self._chunks)
        return np.asarray(y - y.mean(axis=0, dtype=np.float64), np.float32)

    def _low_findings(
        self, low: dict[int, float], field: NDArray[np.float32] | None, constant: set[int | None]
    ) -> list[Finding]:
        """Is a low channel dead, or does the sound come from its null?

        A direction has length 1, so no direction silences W, all of X, Y, Z, or two cardioid capsules at
        once. Otherwise the channels that are not low must hear different things: several directions.
        """
        from dsp.field_faults import ONE_DIRECTION_DB
        from dsp.field_statistics import analyse_field

        names = CHANNEL_NAMES[self.format]
        silent = set(low) | constant
        capsules = self.format in ("a", "a2")
        impossible = len(silent) > 1 if capsules else len(silent - {names.index("W")}) > 2
        live = [c for c in range(4) if c not in silent]
        several = False
        if not impossible and field is not None and len(live) > 1:
            eigen = np.linalg.eigvalsh(analyse_field(field).covariance[np.ix_(live, live)])
            several = bool(10 * np.log10(max(eigen[0], 1e-12) / max(eigen[-1], 1e-12)) > ONE_DIRECTION_DB)
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


def _dead(finding: Finding) -> bool:
    """Dead for all of the recording."""
    return finding.code == "dead" and finding.t_s is None
