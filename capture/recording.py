"""What a take says about itself: while it runs (Meter) and when it is over (Recording)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capture.blocks import SourceEvent
from recordings.av_offset import AvOffset
from recordings.terminal import counted

StopReason = Literal["ended", "duration", "interrupt", "disk", "microphone", "error", "asked"]


@dataclass(frozen=True, slots=True)
class Meter:
    """A look at the take while it runs, about five times a second.

    peak_dbfs, rms_dbfs: (channels,) over the blocks since the last look. dead, clipped: channel numbers.
    waiting: items that the writers have not written yet. minutes_left: until the disk's reserve is reached.
    """

    seconds: float
    peak_dbfs: NDArray[np.float64]
    rms_dbfs: NDArray[np.float64]
    clipped: tuple[int, ...]
    dead: tuple[int, ...]
    frames: int
    pictures: int
    lost_frames: int
    dropped_pictures: int
    waiting: int
    minutes_left: float
    events: tuple[SourceEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """What a finished take says about itself."""

    path: Path
    seconds: float
    stop_reason: StopReason
    frames: int
    pictures: int
    more_pictures: dict[str, int]  # of the further cameras, by name
    lost_frames: int
    dropped_pictures: int
    estimated: bool  # some of the dropped pictures were not counted by anybody, but reckoned from times
    clock: dict[str, Any]  # `clocks` of checks.json
    av_offset: AvOffset | None
    av_offset_note: str
    events: tuple[SourceEvent, ...]
    findings: tuple[dict[str, Any], ...]  # faults and warnings of dsp.check
    episode: Any = field(repr=False, default=None)

    @property
    def drift_ppm(self) -> float | None:
        """How much faster the microphone's clock runs than this computer's; None: too short to tell."""
        return self.clock.get("drift_ppm")

    @property
    def drift_sigma_ppm(self) -> float | None:
        """Its standard deviation."""
        return self.clock.get("drift_sigma_ppm")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "episode": str(self.path),
            "seconds": round(self.seconds, 3),
            "stop_reason": self.stop_reason,
            "frames": self.frames,
            "pictures": self.pictures,
            "more_pictures": dict(self.more_pictures),
            "lost_frames": self.lost_frames,
            "dropped_pictures": self.dropped_pictures,
            "dropped_pictures_estimated": self.estimated,
            "drift_ppm": self.drift_ppm,
            "drift_sigma_ppm": self.drift_sigma_ppm,
            "clock_offset_sigma_ms": self.clock.get("offset_sigma_ms"),
            "clock_jitter_ms": self.clock.get("jitter_ms"),
            "av_offset_ms": None if self.av_offset is None else self.av_offset.offset_ms,
            "av_offset_sigma_ms": None if self.av_offset is None else self.av_offset.sigma_ms,
            "av_offset_events": 0 if self.av_offset is None else self.av_offset.events,
            "av_offset_note": self.av_offset_note,
            "findings": list(self.findings),
            "events": [
                {"t_ns": e.t_ns, "source": e.source, "kind": e.kind, "detail": e.detail, "data": e.data}
                for e in self.events
            ],
        }

    def lines(self) -> list[str]:
        """What a person wants to know, one thing per line."""
        stamps = self.clock.get("sources", {}).get("audio", {})
        if problem := self.clock.get("problem"):
            drift = f"clock: FAULT: {problem}"
        elif set(stamps) == {"exact"}:
            drift = "clock: this source knows its times exactly; it has no clock of its own that could drift"
        elif self.drift_ppm is None:
            drift = "clock: drift not measured (the take is shorter than about 3 s, or was not in real time)"
        else:
            sigma = "" if self.drift_sigma_ppm is None else f" ± {self.drift_sigma_ppm:.1f}"
            drift = f"clock: the microphone runs {self.drift_ppm:+.1f}{sigma} ppm against this computer"
            if self.clock.get("offset_sigma_ms") is not None:
                drift += f"; its times are good to ± {self.clock['offset_sigma_ms']:.2f} ms"
        if self.av_offset is None:
            offset = f"sound against picture: not measured ({self.av_offset_note})"
        else:
            late = "late" if self.av_offset.offset_ms >= 0 else "early"
            size = f"{abs(self.av_offset.offset_ms):.1f} ± {self.av_offset.sigma_ms:.1f} ms {late}"
            pairs = counted(self.av_offset.events, "flash and beep pair")
            offset = f"sound against picture: {size} (from {pairs})"
        lost = (
            f"{counted(self.frames, 'frame')} and {counted(self.pictures, 'picture')};"
            f" lost: {counted(self.lost_frames, 'frame')},"
            f" {'about ' * self.estimated}{counted(self.dropped_pictures, 'picture')}"
        )
        reasons = {
            "disk": "stopped early: the disk is nearly full",
            "interrupt": "ended by Ctrl-C",
            "microphone": "ended: the microphone went away",
        }
        first = f"recorded {self.seconds:.1f} s" + (
            f" ({reasons[self.stop_reason]})" if self.stop_reason in reasons else ""
        )
        if self.more_pictures:
            lost += "; " + ", ".join(
                f"{name}: {counted(n, 'picture')}" for name, n in self.more_pictures.items()
            )
        happened = [f"{e.source}: {e.kind}: {e.detail}" for e in self.events if e.kind != "ended"]
        checked = [f"check: {f['severity'].upper()}: {f['message']}" for f in self.findings]
        return [first, lost, drift, offset, *happened, *checked, f"episode: {self.path}"]


def sound_findings(checks: Any) -> tuple[dict[str, Any], ...]:
    """What dsp.check found wrong: copied, dead, clipped or weak channels."""
    found = (checks.get("sound") or {}).get("findings") or []
    return tuple(f for f in found if f.get("severity") in ("fault", "warning"))
