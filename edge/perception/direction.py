"""Where the talker is and where a device's sound comes from, in the frame of the room."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.perception.utterance import RATE_HZ, Utterance
from recordings.geometry import direction_from_vector, unit_from_direction

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

WINDOW_S = 0.5
NEAR_DEG = 25.0  # windows whose directions agree
# A room's reflections bend every estimate, however long it is averaged: up to 11 degrees for devices near the
# floor or in a corner of the virtual room at 0.3 to 0.5 s of reverberation.
LEAST_SIGMA_DEG = 7.0
USEFUL_CONFIDENCE = 0.05


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction from the microphone in the room frame (azimuth from +x towards +y), degrees.

    sigma_deg: 68 % of the errors are expected within it. confidence: 0..1. support: share of the time windows
    that agree with it.
    """

    azimuth_deg: float
    elevation_deg: float
    sigma_deg: float
    confidence: float
    support: float = 1.0

    @property
    def unit(self) -> F64:
        """Unit vector in the room frame."""
        return np.asarray(unit_from_direction(self.azimuth_deg, self.elevation_deg), np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {key: round(value, 3) for key, value in asdict(self).items()}


def talker_direction(utterance: Utterance, microphone_yaw_deg: float) -> Direction | None:
    """Where the speech comes from; only its voiced part counts, and in it mostly the onsets.

    None when the sound has no direction.
    """
    from dsp.doa import steady_direction

    voiced = np.ascontiguousarray(utterance.foa[utterance.voiced])
    if len(voiced) < RATE_HZ // 10:
        return None
    found = steady_direction(voiced, RATE_HZ)
    if not found.confidence > 0:
        return None
    return _in_room(
        found.azimuth_deg,
        found.elevation_deg,
        found.uncertainty_deg,
        found.confidence,
        1.0,
        microphone_yaw_deg,
    )


def device_direction(before: F32, microphone_yaw_deg: float) -> Direction | None:
    """Where the sound comes from that went on, or came again and again, before somebody spoke.

    before: (frames, 4) AmbiX at 24 kHz. Each half second votes once, however loud it was, so a door or a
    single beep cannot outvote a hum. The direction that most windows agree on, weighted by their confidence,
    is refined as their mean. None when no window has a direction.
    """
    from dsp.doa import steady_direction

    size = round(WINDOW_S * RATE_HZ)
    units, weights, sigmas = [], [], []
    count = len(before) // size
    for i in range(count):
        end = len(before) - i * size
        window = np.ascontiguousarray(before[end - size : end])
        found = steady_direction(window, RATE_HZ)
        if found.confidence > USEFUL_CONFIDENCE:
            units.append(unit_from_direction(found.azimuth_deg, found.elevation_deg))
            weights.append(found.confidence)
            sigmas.append(found.uncertainty_deg)
    if not units:
        return None
    u, w, sigma = np.array(units), np.array(weights), np.array(sigmas)
    near = np.degrees(np.arccos(np.clip(u @ u.T, -1, 1))) <= NEAR_DEG
    best = int(np.argmax(near @ w))
    chosen = near[best]
    mean = (u[chosen] * w[chosen, None]).sum(axis=0)
    length = float(np.linalg.norm(mean) / w[chosen].sum())
    spread = float(np.degrees(np.sqrt(max(0.0, 2 * (1 - length)))))
    error = max(float(np.average(sigma[chosen], weights=w[chosen])), spread) / np.sqrt(
        max(1.0, chosen.sum() / 2)
    )
    azimuth, elevation = direction_from_vector(mean)
    return _in_room(
        float(azimuth),
        float(elevation),
        float(error),
        float(w[chosen].mean()),
        float(chosen.sum() / count),
        microphone_yaw_deg,
    )


def _in_room(
    azimuth: float, elevation: float, sigma: float, confidence: float, support: float, yaw_deg: float
) -> Direction:
    turned = (azimuth + yaw_deg + 180.0) % 360.0 - 180.0
    return Direction(turned, elevation, float(np.hypot(sigma, LEAST_SIGMA_DEG)), confidence, support)
