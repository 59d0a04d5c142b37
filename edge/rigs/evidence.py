"""What speaks for one rig: how well it heard, how clear the direction was, and whether it heard first.

Levels in dBFS depend on the gain of a microphone, so they are told but do not count; the ratio to the rig's
own noise, the clarity of the direction (direct against reverberant sound) and the time of arrival do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.rigs.same_speech import RATE_HZ, Comparison

F32 = NDArray[np.float32]

# Log odds that each figure is worth, and at most: a single one is never believed entirely. About what a
# logistic fit to 144 rendered scenes gives (one room and two; bench.rigs with other seeds); the direction's
# clarity told little there that the others did not.
PER_SIGMA, MOST_ARRIVAL = 1.5, 6.0
PER_SNR_DB, MOST_SNR = 0.3, 4.5
PER_CONFIDENCE, MOST_CONFIDENCE = 0.3, 0.5  # per unit of ln(confidence)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How one rig heard the speech. snr_db: over what it heard before. confidence: of the direction, 0 to 1:
    high where direct sound rules, low far away and in echoes."""

    level_dbfs: float
    snr_db: float
    azimuth_deg: float | None
    sigma_deg: float | None
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for events and traces; the direction is in the microphone's own frame."""
        return {
            "level_dbfs": round(self.level_dbfs, 1),
            "snr_db": round(self.snr_db, 1),
            "azimuth_deg": None if self.azimuth_deg is None else round(self.azimuth_deg, 1),
            "sigma_deg": None if self.sigma_deg is None else round(self.sigma_deg, 1),
            "confidence": round(self.confidence, 3),
        }


def gather(speech: F32, noise: float) -> Evidence:
    """speech: (frames, 4) AmbiX at 24 kHz. noise: mean power of W without it."""
    from dsp.doa import steady_direction

    power = max(float(np.mean(speech[:, 0].astype(np.float64) ** 2)), 1e-20)
    found = steady_direction(np.ascontiguousarray(speech), RATE_HZ)
    known = found.confidence > 0
    return Evidence(
        level_dbfs=10 * float(np.log10(power)),
        snr_db=10 * float(np.log10(max(power - noise, 0.01 * power) / max(noise, 1e-12))),
        azimuth_deg=float(found.azimuth_deg) if known else None,
        sigma_deg=float(found.uncertainty_deg) if known else None,
        confidence=float(max(found.confidence, 0.0)),
    )


def noise_power(before: F32) -> float:
    """Mean power of W in the quieter half of what was heard before the speech."""
    hop = RATE_HZ // 20
    if len(before) < hop:
        return 0.0
    w = before[: len(before) // hop * hop, 0].astype(np.float64).reshape(-1, hop)
    power = np.sort(np.mean(w**2, axis=1))
    return float(np.mean(power[: max(len(power) // 2, 1)]))


def odds(one: Evidence, other: Evidence, comparison: Comparison) -> dict[str, float]:
    """Log odds for `one` against `other`, figure by figure, and their `sum`. comparison: of both."""
    parts = {
        "arrival": float(
            np.clip(PER_SIGMA * comparison.later_s / comparison.sigma_s, -MOST_ARRIVAL, MOST_ARRIVAL)
        ),
        "snr": float(np.clip(PER_SNR_DB * (one.snr_db - other.snr_db), -MOST_SNR, MOST_SNR)),
        "direction": float(
            np.clip(
                PER_CONFIDENCE * np.log((one.confidence + 0.02) / (other.confidence + 0.02)),
                -MOST_CONFIDENCE,
                MOST_CONFIDENCE,
            )
        ),
    }
    told = {name: round(value, 2) for name, value in parts.items()}
    return {**told, "sum": round(sum(parts.values()), 2)}
