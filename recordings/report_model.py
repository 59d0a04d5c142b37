"""What a page shows, gathered from the episode and free of how it was stored. Times are seconds since the
first audio frame; angles are degrees in the microphone frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recordings.profile import Profile
from recordings.report_decision import Decision
from recordings.report_rig import RigView

Floats = NDArray[np.float64]
Status = Literal["ok", "warning", "fault", "unknown"]


def empty() -> Floats:
    """No values."""
    return np.zeros(0)


@dataclass(frozen=True)
class DirectionTrack:
    """The measured sound direction, one row per window (100 ms); `times_s` is the middle of the window."""

    times_s: Floats = field(default_factory=empty)
    azimuth_deg: Floats = field(default_factory=empty)
    elevation_deg: Floats = field(default_factory=empty)
    confidence: Floats = field(default_factory=empty)
    uncertainty_deg: Floats = field(default_factory=empty)
    active: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __len__(self) -> int:
        return len(self.times_s)

    def at(self, time_s: float, within_s: float = 0.2) -> int | None:
        """Row of the most confident active window near a time; None when nothing sounded then."""
        near = self.active & (np.abs(self.times_s - time_s) <= within_s)
        if not near.any():
            return None
        return int(np.flatnonzero(near)[np.argmax(self.confidence[near])])


@dataclass(frozen=True)
class TalkerPath:
    """A tracked talker, one row per window; `times_s` is the end of the window. coasting: a pause."""

    number: int
    times_s: Floats
    azimuth_deg: Floats
    elevation_deg: Floats
    coasting: NDArray[np.bool_]

    @property
    def heard_s(self) -> float:
        """Seconds in which it was heard."""
        return 0.1 * float(np.count_nonzero(~self.coasting))


@dataclass(frozen=True)
class TrueSource:
    """A sound source whose place is known: a talker or a device of the virtual room."""

    kind: str  # talker | device | slate | ...
    label: str
    intervals_s: tuple[tuple[float, float], ...]
    times_s: Floats
    azimuth_deg: Floats
    elevation_deg: Floats
    distance_m: Floats  # nan where not known

    def active(self, time_s: float) -> bool:
        return any(a <= time_s <= b for a, b in self.intervals_s)

    def at(self, time_s: float) -> tuple[float, float, float]:
        """Azimuth, elevation and distance (nan when unknown) at a time; between samples of the truth the
        azimuth takes the short way round."""
        azimuth = np.interp(time_s, self.times_s, np.unwrap(self.azimuth_deg, period=360.0))
        return (
            float((azimuth + 180.0) % 360.0 - 180.0),
            float(np.interp(time_s, self.times_s, self.elevation_deg)),
            float(np.interp(time_s, self.times_s, self.distance_m)),
        )


@dataclass(frozen=True)
class Mark:
    """Something that happened: a point in time, or an interval when `end_s` is given.

    row: the lane of the event band that it belongs to; `text` is plain language.
    """

    start_s: float
    row: str
    text: str
    end_s: float | None = None
    source: Literal["measured", "truth", "truth-device", "agent", "rig"] = "measured"


@dataclass(frozen=True)
class Check:
    """One line of the checks: what was looked at, how it is, the number, and how good that number is."""

    status: Status
    title: str
    text: str
    value: str = ""
    quality: str = ""


@dataclass(frozen=True)
class Verdict:
    """Declared device against the truth, in the score's own words; None where not scored."""

    declared: str | None
    truth: str | None
    grounding_correct: bool | None
    goal_reached: bool | None
    text: str = ""
    agent: bool = True  # False: no agent took part, so there is nothing to judge


@dataclass(frozen=True)
class FileEntry:
    """A file of the episode; sha256 is empty when it was not computed."""

    name: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Facts:
    """Everything about an episode except its sound and its pictures."""

    id: str
    profile: Profile | None
    state: str  # finished | interrupted | recording
    rig: RigView
    duration_s: float
    directions: DirectionTrack
    truth: tuple[TrueSource, ...]
    marks: tuple[Mark, ...]
    checks: tuple[Check, ...]
    verdict: Verdict | None
    files: tuple[FileEntry, ...]
    notes: tuple[str, ...]  # what is missing or could not be read, in plain words
    declared_device: str | None = None
    target_device: str | None = None
    decision: Decision | None = None
    talkers: tuple[TalkerPath, ...] = ()
    names: dict[str, str] = field(default_factory=dict)  # id of a device or person -> its name
