"""Where the talker is and where a device's sound comes from, in the frame of the room."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfilt

from edge.perception.utterance import RATE_HZ, Utterance
from recordings.geometry import direction_from_vector, unit_from_direction

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

RECENT_S = 3.0
STILL_S = 2.2  # a sound that comes again has begun once within this time
HOP_S = 0.0025
LEAST_ONSETS = 3
PAST_S = 0.04  # an onset rises out of what the room still holds of the 40 ms before
RISE = 6.0  # in power
SLOPE = 2  # hops that a soft beginning takes
DIRECT_S = 0.0075
ONSET_SIGMA_DEG = 12.0  # of one onset
WINDOW_S = 0.5
NEAR_DEG = 25.0  # windows whose directions agree
# What goes on is in every piece of sound; a piece this much above the quiet ones has something else on top.
PIECE_S = 0.25
ON_TOP = 4.0  # in power
LEAST_WINDOWS = 2
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
    """Where the sound comes from that came again and again, or went on, before somebody spoke.

    before: (frames, 4) AmbiX at 24 kHz; the last `RECENT_S` of it count. A sound with at least three
    beginnings (beeps, music) is located by those: a tone that goes on builds standing waves in a room, which
    point anywhere, only its first milliseconds are direct. A steady sound has none; then each half second
    votes once, and those that something louder covers do not vote, so that a door cannot outvote a hum. None
    when nothing goes on or comes again.
    """
    recent = before[-round(RECENT_S * RATE_HZ) :]
    found = _by_onsets(recent)
    if found is None or found.support < 0.5:
        found = _by_windows(recent) or found or _by_onsets(recent, SLOPE)
    if found is None:
        return None
    return _in_room(
        found.azimuth_deg,
        found.elevation_deg,
        found.sigma_deg,
        found.confidence,
        found.support,
        microphone_yaw_deg,
    )


def _by_onsets(foa: F32, slope: int = 0) -> Direction | None:
    """The direction of the first milliseconds after each steep rise of the level (microphone frame).

    There the active intensity, the mean of W times (X, Y, Z), points to the source (the precedence effect in
    one line); how well W and the others go together is the vote's weight.
    """
    if len(foa) < RATE_HZ // 5:
        return None
    x = sosfilt(_band(), foa, axis=0).astype(np.float32)
    hop = round(HOP_S * RATE_HZ)
    power = np.mean(np.square(x[: len(x) // hop * hop].reshape(-1, hop, 4)), axis=(1, 2)) + 1e-14
    floor = float(np.percentile(power, 10))
    past, direct = round(PAST_S / HOP_S), round(DIRECT_S / HOP_S)
    units, weights = [], []
    at = last = past
    while at + direct <= len(power):
        # The next hop, because any beginning takes a few milliseconds to rise.
        if power[at + 1] < RISE * max(float(power[at - past : at - slope].max()), floor):
            at += 1
            continue
        part = x[at * hop : (at + direct) * hop].astype(np.float64)
        intensity = part[:, 0] @ part[:, [3, 1, 2]]
        energy = 0.5 * float(np.sum(part**2))
        length = float(np.linalg.norm(intensity))
        if length > 0:
            units.append(intensity / length)
            weights.append(min(1.0, length / energy))
            last = at
        at += past
    if len(units) < LEAST_ONSETS or len(power) - last > STILL_S / HOP_S:
        return None
    sigmas = np.full(len(units), ONSET_SIGMA_DEG)
    return _agreement(np.array(units), np.array(weights), sigmas, len(units))


def _by_windows(foa: F32) -> Direction | None:
    """The direction that most half seconds agree on, of what has nothing on top (microphone frame)."""
    from dsp.doa import steady_direction

    size = round(PIECE_S * RATE_HZ)
    count = len(foa) // size
    if count == 0:
        return None
    pieces = foa[len(foa) - count * size :].reshape(count, size, 4)
    power = np.mean(np.square(pieces[:, :, 0], dtype=np.float64), axis=1)
    quiet = np.concatenate(pieces[power <= ON_TOP * np.sort(power)[(count - 1) // 3]])
    long = round(WINDOW_S * RATE_HZ)
    plain = quiet[len(quiet) % long :].reshape(-1, long, 4)
    units, weights, sigmas = [], [], []
    for window in plain:
        found = steady_direction(np.ascontiguousarray(window), RATE_HZ)
        if found.confidence > USEFUL_CONFIDENCE:
            units.append(unit_from_direction(found.azimuth_deg, found.elevation_deg))
            weights.append(found.confidence)
            sigmas.append(found.uncertainty_deg)
    if len(units) < LEAST_WINDOWS:
        return None
    agreed = _agreement(np.array(units), np.array(weights), np.array(sigmas), len(plain))
    return agreed if agreed.support * len(plain) > LEAST_WINDOWS - 0.5 else None


def _agreement(u: F64, w: F64, sigma: F64, count: int) -> Direction:
    """The mean of the votes near the one that most weight is near to; support: their share of `count`."""
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
    return Direction(
        float(azimuth), float(elevation), float(error), float(w[chosen].mean()), float(chosen.sum() / count)
    )


@lru_cache(maxsize=1)
def _band() -> F64:
    return np.asarray(butter(2, (200.0, 4000.0), "bandpass", fs=RATE_HZ, output="sos"))


def _in_room(
    azimuth: float, elevation: float, sigma: float, confidence: float, support: float, yaw_deg: float
) -> Direction:
    turned = (azimuth + yaw_deg + 180.0) % 360.0 - 180.0
    return Direction(turned, elevation, float(np.hypot(sigma, LEAST_SIGMA_DEG)), confidence, support)
