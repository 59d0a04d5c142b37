"""Evidence into odds: rays, directions, sides and identities as likelihoods, and the posterior over devices.

Directions are compared as unit vectors; their errors have long tails, because a detector that fails, fails
by much (a Student distribution of the angle). "None of them" is a hypothesis beside the devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import erf, sqrt
from typing import Any, Literal

import numpy as np

SIDE_MIDDLE = {"front": 0.0, "left": 90.0, "right": -90.0, "behind": 180.0}
SIDE_HALF = {"front": 45.0, "left": 50.0, "right": 50.0, "behind": 45.0}
LEAST_SIGMA_DEG = 2.0
STUDENT_68 = sqrt(3 * (0.32 ** (-2 / 3) - 1))

# Why no device could be meant.
Missing = Literal[
    "no_such_name", "no_such_room", "not_in_room", "not_in_home", "points_at_nothing", "points_elsewhere",
    "nothing_sounds", "nothing_could_sound", "other_side", "not_here", "not_owned", "not_in_own_room",
    "unknown_speaker", "no_helper",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device and the factors of its odds. prior: by the words and its state; likelihood: of what was seen
    and heard; away_deg: from the ray or direction (or, for a side, from its middle)."""

    device_id: str
    name: str
    prior: float
    likelihood: float
    probability: float
    away_deg: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Posterior:
    """candidates: best first; none: share of "no device of this home"; together they are 1.

    missing: why none of them, if none; near: the device that is pointed at, or heard, instead.
    speaker: who it most likely is, with the odds of everybody (None: a stranger). room: which room it is
    about. evidence: which findings counted.
    """

    candidates: tuple[Candidate, ...]
    none: float
    missing: Missing | None = None
    near: str | None = None
    speaker: str | None = None
    speakers: Mapping[str | None, float] = field(default_factory=dict)
    room: str | None = None
    evidence: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The most probable device."""
        return self.candidates[0] if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for traces and declarations."""
        return {
            "candidates": [one.to_dict() for one in self.candidates],
            "none": round(self.none, 4),
            "missing": self.missing,
            "near": self.near,
            "speaker": self.speaker,
            "speakers": {str(name): round(share, 4) for name, share in self.speakers.items()},
            "room": self.room,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One device before the odds are normalised."""

    device_id: str
    name: str
    prior: float
    likelihood: float = 1.0
    away_deg: float | None = None


def normalised(rows: Iterable[Row], none: float) -> tuple[tuple[Candidate, ...], float]:
    """Candidates, best first, and the share of none. Without any odds, none has it all."""
    rows = [row for row in rows if row.prior * row.likelihood > 0]
    total = none + sum(row.prior * row.likelihood for row in rows)
    if total <= 0:
        return (), 1.0
    found = [
        Candidate(
            row.device_id,
            row.name,
            row.prior,
            row.likelihood,
            row.prior * row.likelihood / total,
            row.away_deg,
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda one: -one.probability)), none / total


def angle_deg(one: Sequence[float], other: Sequence[float]) -> float:
    """Degrees between two vectors."""
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.degrees(np.arccos(np.clip(a @ b / lengths, -1, 1)))) if lengths > 0 else 0.0


def wrapped(angle: float) -> float:
    """The same angle in [-180, 180)."""
    return (angle + 180.0) % 360.0 - 180.0


def tail(away_deg: float, sigma_deg: float) -> float:
    """Likelihood of an error of so many degrees against that of none.

    A Student distribution with three degrees of freedom in the two error components: within x lie 1 - (1 +
    x^2 / 3)^(-3/2) of the errors; 68 % lie within sigma_deg."""
    x = STUDENT_68 * away_deg / max(sigma_deg, LEAST_SIGMA_DEG)
    return float((1 + x * x / 3) ** -2.5)


def on_side(angle: float, side: str, sigma_deg: float) -> float:
    """Chance that a thing which is `angle` degrees to the left of somebody's view is on that side of them,
    when the angle is known to sigma_deg (normal)."""
    away = wrapped(angle - SIDE_MIDDLE[side])
    half, sigma = SIDE_HALF[side], max(sigma_deg, LEAST_SIGMA_DEG)

    def below(x: float) -> float:
        return 0.5 * (1 + erf(x / sigma / sqrt(2)))

    return below(half - away) - below(-half - away)


def rows_of(posterior: Posterior) -> list[Row]:
    """The candidates as rows, to be normalised anew."""
    return [
        Row(one.device_id, one.name, one.prior, one.likelihood, one.away_deg) for one in posterior.candidates
    ]
