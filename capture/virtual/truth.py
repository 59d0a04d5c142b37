"""The exact truth of a virtual scene: what sounds when, from where, and which device is meant.

Times are seconds of the scene's clock, which is the picture's: CLOCK_MONOTONIC minus `Truth.start_ns`. An
interval says when the direct sound is at the microphone (it left the source distance / 343 m/s earlier). With
`av_offset_ms` the sound is delivered that much later than this clock says; `to_dict` names the offset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]


@dataclass(slots=True)
class SourceTruth:
    """One sound source.

    pattern: intervals in which the dry sound is active, within one period for sounds that repeat (period_s),
    counted from `start_s`. windows: when the source is switched on; the sound is active where both hold.
    path: (n, 4) time, azimuth, elevation (degrees, microphone frame), distance (m) of the direct sound; one
    row for a source that stands still. A moving source repeats its path every period_s.
    """

    id: str
    kind: Literal["talker", "device", "slate"]
    path: NDArray[np.float64]
    pattern: tuple[Interval, ...]
    start_s: float
    period_s: float | None = None
    windows: list[list[float]] = field(default_factory=lambda: [[0.0, math.inf]])
    device_id: str | None = None
    sound: str | None = None
    text: str | None = None

    def direction(self, time_s: float) -> tuple[float, float, float]:
        """Azimuth and elevation in degrees and distance in metres at a time of the scene."""
        if len(self.path) == 1:
            row = self.path[0]
            return float(row[1]), float(row[2]), float(row[3])
        at = time_s % self.period_s if self.period_s else time_s
        azimuth = np.degrees(
            np.interp(at, self.path[:, 0], np.unwrap(np.radians(self.path[:, 1])))
        )  # unwrapped: no jump from 180 to -180
        return (
            float((azimuth + 180) % 360 - 180),
            float(np.interp(at, self.path[:, 0], self.path[:, 2])),
            float(np.interp(at, self.path[:, 0], self.path[:, 3])),
        )

    def active(self, until_s: float) -> list[Interval]:
        """The intervals from 0 to until_s in which the source is heard, in order."""
        repeats = 1
        if self.period_s is not None:
            repeats = max(0, math.ceil((until_s - self.start_s) / self.period_s))
        found: list[Interval] = []
        for repeat in range(repeats):
            shift = self.start_s + repeat * (self.period_s or 0.0)
            for begin, end in self.pattern:
                for on, off in self.windows:
                    low, high = max(begin + shift, on, 0.0), min(end + shift, off, until_s)
                    if high <= low:
                        continue
                    if found and low - found[-1][1] < 1e-6:  # goes on over the seam of the loop
                        found[-1] = (found[-1][0], high)
                    else:
                        found.append((low, high))
        return found


@dataclass(slots=True)
class Truth:
    """What a scene holds; `start_ns` is known once a source of the scene was started."""

    scene: str
    seed: int
    sources: tuple[SourceTruth, ...]
    duration_s: float  # inf for a scene without end
    grounding: str | None = None
    request: str | None = None
    speaker: str | None = None
    target_device: str | None = None
    slate_times_s: tuple[float, ...] = ()
    slate_duration_s: float = 0.0
    led_px: tuple[int, int, int, int] | None = None  # x, y, width, height of the LED in the picture
    av_offset_ms: float = 0.0
    drift_ppm: float = 0.0
    rt60_s: float = 0.0
    snr_db: float = 0.0
    start_ns: int | None = None

    def source(self, source_id: str) -> SourceTruth:
        """The source with this id; KeyError names the ids there are."""
        for source in self.sources:
            if source.id == source_id:
                return source
        raise KeyError(f"no source {source_id!r}; there are {', '.join(s.id for s in self.sources)}")

    def to_dict(self, until_s: float | None = None) -> dict[str, Any]:
        """Plain dicts and lists for truth.json; `until_s` (default: the duration, 60 s without end) ends it.

        keys: scene, seed, start_ns, duration_s, grounding, request, speaker, target_device, av_offset_ms,
        drift_ppm, rt60_s, snr_db, slate {times_s, duration_s, led_px}, sources [{id, kind, device_id, sound,
        text, active_s [[from, to]], path [[t_s, azimuth_deg, elevation_deg, distance_m]]}].
        """
        end = (
            until_s if until_s is not None else (self.duration_s if math.isfinite(self.duration_s) else 60.0)
        )
        sources = []
        for source in self.sources:
            times = [float(source.path[0, 0])]
            if len(source.path) > 1:
                times = [float(t) for t in np.arange(0.0, end + 1e-9, 0.1)]
            sources.append(
                {
                    "id": source.id,
                    "kind": source.kind,
                    "device_id": source.device_id,
                    "sound": source.sound,
                    "text": source.text,
                    "active_s": [[round(a, 6), round(b, 6)] for a, b in source.active(end)],
                    "path": [[round(t, 3), *(round(v, 4) for v in source.direction(t))] for t in times],
                }
            )
        return {
            "scene": self.scene,
            "seed": self.seed,
            "start_ns": self.start_ns,
            "duration_s": self.duration_s if math.isfinite(self.duration_s) else None,
            "grounding": self.grounding,
            "request": self.request,
            "speaker": self.speaker,
            "target_device": self.target_device,
            "av_offset_ms": self.av_offset_ms,
            "drift_ppm": self.drift_ppm,
            "rt60_s": self.rt60_s,
            "snr_db": self.snr_db,
            "slate": {
                "times_s": list(self.slate_times_s),
                "duration_s": self.slate_duration_s,
                "led_px": list(self.led_px) if self.led_px else None,
            },
            "sources": sources,
        }


def activity_pattern(
    mono: NDArray[np.floating], rate_hz: int = 48000, below_db: float = 30.0, join_s: float = 0.15
) -> tuple[Interval, ...]:
    """Intervals in which a dry sound is within below_db of its loudest 10 ms; shorter pauses are joined."""
    hop = rate_hz // 100
    power = np.mean(mono[: len(mono) // hop * hop].reshape(-1, hop).astype(float) ** 2, axis=1)
    loud = power > power.max() * 10 ** (-below_db / 10)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], loud.astype(np.int8), [0]))))
    found: list[Interval] = []
    for begin, end in edges.reshape(-1, 2) * (hop / rate_hz):
        if found and begin - found[-1][1] < join_s:
            found[-1] = (found[-1][0], float(end))
        else:
            found.append((float(begin), float(end)))
    return tuple(found)
