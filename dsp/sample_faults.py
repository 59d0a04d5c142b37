"""Faults that need no sound field: levels, clipping, offsets, copies, dead channels, digital gaps.

`SampleWatch` takes a recording piece by piece and keeps sums only, so that an hour costs no memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsp.levels import CLIP_LEVEL, DEAD_DBFS, Levels, levels, to_dbfs

Severity = Literal["ok", "warning", "fault", "unknown"]
ABSURD = 100.0  # +40 dBFS: no sound but a broken file; no measure for the other channels
_LOW_DB = -50.0  # against the strongest channel: dead, or a source in the null of this channel
_COPY = 1e-6  # 1 - r^2 at -60 dB: a copy (perhaps dithered), not two capsules
_GAP_S = 0.005  # exact zeros in all channels for longer than this are not sound


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. channel: index in the file's own order, or None for the whole signal. value: what the
    message quotes, in the unit it names. t_s: where it begins, if it has a place. code is stable: empty,
    too_short, truncated, dropout, nonfinite, clipped, dead, weak, dc, duplicated, remixed, time_shifted,
    capsule_dead, capsule_inverted, format, normalisation, orientation."""

    code: str
    severity: Severity
    channel: int | None
    message: str
    value: float | None = None
    t_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        value = None if self.value is None or not np.isfinite(self.value) else round(float(self.value), 4)
        plain: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "channel": self.channel,
            "message": self.message,
            "value": value,
        }
        return plain if self.t_s is None else {**plain, "t_s": round(self.t_s, 3)}


class SampleWatch:
    """Sums over the pieces of a recording; `push` each (frames, 4) piece, of some seconds, in order."""

    def __init__(self, fs: int) -> None:
        self._fs = fs
        self.frames = 0
        self.peak = np.zeros(4)
        self._sum = np.zeros(4)
        self._gram = np.zeros((4, 4))
        self.clipped, self.flat_tops, self.nonfinite = (np.zeros(4, np.int64) for _ in range(3))
        self._low, self._high = np.full(4, np.inf), np.full(4, -np.inf)
        self._parts: list[tuple[int, NDArray[np.float64]]] = []  # (first frame, alternating level in dBFS)
        self._zeros = 0
        self._run = 0  # zeros at the end of what came so far
        self._before = 0.0  # how loud it was just before them
        self.gaps: list[tuple[int, int]] = []  # (first frame, frames) of digital silence with sound around

    def push(self, x: NDArray[Any]) -> NDArray[Any]:
        """Returns the piece with NaN and infinity taken as silence."""
        found = levels(x)
        if found.nonfinite.any():
            x = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
        self.nonfinite += found.nonfinite
        self.clipped += found.clipped_frames
        low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
        self.peak = np.maximum(self.peak, np.maximum(np.abs(low), np.abs(high)))
        y = x.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            gram, total = y.T @ y, y.sum(axis=0)
            self._gram += gram
            self._sum += total
            alternating = np.sqrt(np.maximum(np.diag(gram) / len(y) - (total / len(y)) ** 2, 0.0))
        self._parts.append((self.frames, np.where(high == low, -200.0, to_dbfs(alternating))))
        for c in range(4):
            if float(found.peak_dbfs[c]) > -40:
                self.flat_tops[c] += flat_tops(y[:, c])
        self._digital_silence(x)
        self.frames += len(x)
        return x

    def _digital_silence(self, x: NDArray[Any]) -> None:
        zero = x[:, 0] == 0
        if not zero.any():
            self._close_run(self.frames)
            self._before = float(np.max(np.abs(x[-64:])))
            return
        zero &= ~x.any(axis=1)
        self._zeros += int(zero.sum())
        edge = np.flatnonzero(np.diff(np.concatenate([[0], zero.view(np.int8), [0]])))
        for start, end in zip(edge[::2], edge[1::2], strict=True):
            if start > 0:
                self._close_run(self.frames)
                self._before = float(np.max(np.abs(x[max(0, start - 64) : start])))
            self._run += int(end - start)
            if end < len(x):
                self._close_run(self.frames + int(end))
        if not zero[-1]:
            self._run = 0
            self._before = float(np.max(np.abs(x[-64:])))

    def _close_run(self, end: int) -> None:
        # Not one from the very start, and not a tail that fades below the last bit.
        if self._run > _GAP_S * self._fs and self._run < end and self._before > 1e-3 * self.peak.max():
            self.gaps.append((end - self._run, self._run))
        self._run = 0

    @property
    def alternating(self) -> NDArray[np.float64]:
        """RMS without the mean, per channel."""
        with np.errstate(invalid="ignore", over="ignore"):
            power = np.diag(self._gram) / self.frames - (self._sum / self.frames) ** 2
        return np.sqrt(np.maximum(np.nan_to_num(power, nan=np.inf, posinf=np.inf), 0.0))

    def levels(self) -> Levels:
        """Over everything pushed."""
        mean = self._sum / self.frames
        return Levels(
            peak_dbfs=to_dbfs(self.peak),
            rms_dbfs=to_dbfs(np.sqrt(np.diag(self._gram) / self.frames)),
            clipped_frames=self.clipped.copy(),
            dead=to_dbfs(self.alternating) < DEAD_DBFS,
            dc=mean,
            nonfinite=self.nonfinite.copy(),
        )

    def findings(self, names: tuple[str, ...]) -> tuple[list[Finding], dict[int, float]]:
        """The findings, and the channels that are low: {channel: dB against the strongest one}."""
        found: list[Finding] = []
        low: dict[int, float] = {}
        alternating, measured = self.alternating, self.levels()
        sane = alternating[alternating < ABSURD]
        strongest = float(sane.max()) if len(sane) else float(alternating.max())
        for c, name in enumerate(names):
            if count := int(self.nonfinite[c]):
                text = f"{name}: {count} samples are NaN or infinite"
                found.append(Finding("nonfinite", "fault", c, text, count))
            if count := max(int(self.clipped[c]), int(self.flat_tops[c])):
                text = f"{name}: {count} samples clipped; lower the gain"
                found.append(Finding("clipped", "fault", c, text, count))
            level = float(to_dbfs(alternating[c]))
            if self._high[c] == self._low[c]:
                value = float(self._low[c])
                text = f"{name} carries no signal: every sample is {value:g}"
                found.append(Finding("dead", "fault", c, text, value))
            elif measured.dead.all():
                found.append(
                    Finding("dead", "fault", c, f"{name} carries no signal ({level:.0f} dBFS)", level)
                )
            elif measured.dead[c] or alternating[c] < 10 ** (_LOW_DB / 20) * strongest:
                low[c] = level - float(to_dbfs(strongest))
            else:
                found += self._dead_for_a_while(c, name)
            dc = abs(float(measured.dc[c]))
            if dc > max(3e-4, 0.03 * float(alternating[c])) and self.frames > 0.5 * self._fs:
                text = f"{name} has a DC offset of {dc:.5f} of full scale"
                found.append(Finding("dc", "warning", c, text, dc))
        return found + self._gap_findings(), low

    def _dead_for_a_while(self, c: int, name: str) -> list[Finding]:
        """A channel that is gone in some pieces while others sound: a cable, a mute, a route that changed."""
        gone = [t for t, part in self._parts if part[c] < DEAD_DBFS and part.max() > -80]
        if not gone:
            return []
        first = gone[0] / self._fs
        text = f"{name} carries no signal in {len(gone)} of {len(self._parts)} parts, from {first:.0f} s on"
        return [Finding("dead", "fault", c, text, float(len(gone)), first)]

    def _gap_findings(self) -> list[Finding]:
        found = []
        if self._run >= 0.5 * self._fs and self._zeros - self._run < 0.2 * self.frames:
            seconds, at = self._run / self._fs, (self.frames - self._run) / self._fs
            if at > 0:
                text = f"the last {seconds:.1f} s are digital silence: the recording was cut short"
                found.append(Finding("truncated", "warning", None, text, seconds, at))
        inside = sum(n for _, n in self.gaps)
        if self.gaps and inside < 0.2 * self.frames:
            at, ms = self.gaps[0][0] / self._fs, 1000 * inside / self._fs
            text = f"{len(self.gaps)} gaps of digital silence in all channels, {ms:.0f} ms in all: lost sound"
            found.append(Finding("dropout", "warning", None, text, ms, at))
        return found

    def copies(self, names: tuple[str, ...], dead: set[int | None], low: dict[int, float]) -> list[Finding]:
        """Channels that are copies or mixtures of others, as an audio server makes them that remixes 4
        channels. One wave along an axis makes W and that axis equal too, with the other two low.
        """
        alive = [c for c in range(4) if c not in dead]
        if len(alive) < 2:
            return []
        mean = self._sum / self.frames
        covariance = (self._gram / self.frames - np.outer(mean, mean))[np.ix_(alive, alive)]
        scale = np.sqrt(np.diag(covariance))
        r = covariance / np.outer(scale, scale)
        eigen = np.linalg.eigvalsh(r)
        spread = np.linalg.eigvalsh(covariance)
        several = spread[-2] > 1e-3 * spread[-1]
        if len(alive) > 2 and np.all(eigen[:-1] < _COPY * eigen[-1]):
            # All channels are one signal: a single plane wave is that too, unless the gains rule it out.
            gains = covariance[:, -1] / covariance[-1, -1]
            if np.allclose(np.abs(gains), 1.0, atol=1e-3):
                return [
                    Finding("duplicated", "fault", None, "all channels carry the same signal (mono)", 1.0)
                ]
            return []
        found = []
        for i in range(len(alive)):
            for j in range(i):
                if 1 - r[i, j] ** 2 < _COPY:
                    a, b = names[alive[j]], names[alive[i]]
                    severity: Severity = "fault"
                    text = f"{b} is a copy of {a}"
                    if not several and "W" in (a, b):
                        severity, text = "unknown", f"{text}, or the sound comes from one direction alone"
                    found.append(Finding("duplicated", severity, alive[i], text, float(r[i, j])))
        pairs = {(f.channel, j) for f in found for j in range(4) if f"copy of {names[j]}" in f.message}
        if {(2, 0), (3, 1)} <= pairs or {(1, 0), (3, 2)} <= pairs:
            text = "the four channels are two signals, each twice: an audio server remixed 4 to 2 channels"
            found.append(Finding("remixed", "fault", None, text, 2.0))
        return found


def clipped_samples(x: NDArray[Any]) -> int:
    """Clipped samples of the channel of (frames, channels) that has most: at full scale, or `flat_tops` at
    whatever level. A channel over 20 dB below the strongest has not clipped with it, and one below -40 dBFS
    may rest on its top for want of bits: there only full scale counts.
    """
    if len(x) == 0:
        return 0
    peak = np.abs(x).max(axis=0)
    most = 0
    for c, top in enumerate(peak):
        full = int(np.count_nonzero(np.abs(x[:, c]) >= CLIP_LEVEL))
        loud = top >= max(0.01, 0.1 * float(peak.max()))
        most = max(most, full + (flat_tops(x[:, c]) if loud else 0))
    return most


def flat_tops(x: NDArray[Any]) -> int:
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
        if np.count_nonzero(at) < 3:
            continue
        edge = np.flatnonzero(np.diff(np.concatenate([[0], at.view(np.int8), [0]])))
        for start, end in zip(edge[::2], edge[1::2], strict=True):
            if end - start >= 3 and start > 0 and end < len(y):
                total += int(end - start) if min(y[start - 1], y[end]) < top * 0.995 else 0
    return total
