"""The microphone aimed at a place of the room: a first-order beam of a scene's sound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge.perception.direction import Direction

PATTERN = 0.3  # between super- and hypercardioid: least sound from elsewhere


def aimed_at(
    foa: NDArray[np.float32], towards: Direction | None, microphone_yaw_deg: float
) -> NDArray[np.float32]:
    """foa (frames, 4) AmbiX -> (frames,) as heard towards a direction in the room; W without a direction."""
    import dsp

    if towards is None:
        return np.ascontiguousarray(foa[:, 0], np.float32)
    azimuth = towards.azimuth_deg - microphone_yaw_deg
    return np.asarray(dsp.virtual_mic(foa, azimuth, towards.elevation_deg, PATTERN), np.float32)
