"""Which device is meant: direction, kind of sound, side and state combined into a posterior over devices.

Directions are compared as unit vectors, so azimuth and elevation both count; their error is taken as
von Mises-Fisher around the truth (Mardia and Jupp, Directional Statistics, 2000), with a small chance that
the direction is nonsense.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import erf, sqrt
from typing import Any

import numpy as np

from edge.perception.direction import Direction
from edge.perception.request import Request
from edge.perception.room_map import MapDevice, RoomMap
from edge.perception.sounds import can_sound, sound_odds

OUTLIER = 0.05  # chance that a direction has nothing to do with any device
SIDE_OUTLIER = 0.02
FACING_SIGMA_DEG = 6.0  # people face what they speak to, but not exactly
ALREADY = 0.3  # a device that is already as asked is less likely meant


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row of the evidence: a device, the factors of its odds, and its share of the posterior.

    prior: by type, kind of sound and state; 0 rules it out. likelihood: of the direction or the side heard.
    away_deg: angle between the device and the direction, or from the line of sight to the rig.
    """

    device_id: str
    name: str
    prior: float
    likelihood: float
    away_deg: float | None
    probability: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, rounded, for traces."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


def by_sound(room: RoomMap, request: Request, heard: Direction | None) -> list[Candidate]:
    """Devices that could make the sound named in the request, best first; empty if none can.

    heard: where a steady or repeating sound came from; None: unknown, the prior decides alone.
    """
    kind = request.sound_kind or "any"
    rows = []
    for device in room.devices:
        prior = sound_odds(device.type, kind) * can_sound(device.attributes, kind)
        likelihood, away = 1.0, None
        if heard is not None and device.position_m is not None:
            away = _angle_deg(room.direction_to(device), heard.unit)
            likelihood = _fisher(away, heard.sigma_deg)
        rows.append((device, prior, likelihood, away))
    return _posterior(rows)


def by_side(room: RoomMap, request: Request, talker: Direction | None) -> list[Candidate]:
    """Devices of the named type with the side that they are on for the speaker, best first.

    Assumes that the speaker faces the rig. Then left and right of the line from rig to speaker are right and
    left of the speaker, wherever on that line the speaker stands: the distance to the speaker is not needed.
    """
    rows = []
    for device in room.devices:
        if not is_named(device, request):
            continue
        prior = ALREADY if already(device, request.action) else 1.0
        likelihood, away = 1.0, None
        if talker is not None and device.position_m is not None:
            away = lateral_angle_deg(room, device, talker)
            sigma = float(np.hypot(talker.sigma_deg, FACING_SIGMA_DEG))
            right = 0.5 * (1 + erf(away / sigma / sqrt(2)))
            share = right if request.side == "right" else 1 - right
            likelihood = SIDE_OUTLIER + (1 - 2 * SIDE_OUTLIER) * share
        rows.append((device, prior, likelihood, away))
    return _posterior(rows)


def by_name(room: RoomMap, request: Request) -> list[Candidate]:
    """Devices of the named type (or the one of that name), told apart only by their state."""
    return _posterior(
        [
            (device, ALREADY if already(device, request.action) else 1.0, 1.0, None)
            for device in room.devices
            if is_named(device, request)
        ]
    )


def is_named(device: MapDevice, request: Request) -> bool:
    """The request's noun can mean this device."""
    if request.name is not None:
        return device.name.lower() == request.name.lower()
    return device.type in request.device_types


def already(device: MapDevice, action: str) -> bool:
    """The device is already as the action would leave it."""
    on = device.attributes.get("1.OnOff.OnOff")
    if on is None:
        return False
    if action == "pause":
        return device.attributes.get("1.MediaPlayback.CurrentState") != 0
    return bool(on) == (action == "on")


def lateral_angle_deg(room: RoomMap, device: MapDevice, talker: Direction) -> float:
    """Angle in degrees by which the device lies to the right (> 0) of a speaker who faces the rig.

    In the floor plane, at the rig, between the line to the speaker and the device: its sine is the device's
    offset to the side over its distance. The speaker looks along -u (u: from rig to speaker), and the right
    hand of a person looking along f = (fx, fy) with z up points along (fy, -fx).
    """
    assert device.position_m is not None
    azimuth = np.radians(talker.azimuth_deg)
    facing = -np.array([np.cos(azimuth), np.sin(azimuth)])
    right = np.array([facing[1], -facing[0]])
    offset = np.asarray(device.position_m)[:2] - np.asarray(room.microphone_m)[:2]
    distance = float(np.linalg.norm(offset))
    if distance < 1e-6:
        return 0.0
    return float(np.degrees(np.arcsin(np.clip(offset @ right / distance, -1, 1))))


def _angle_deg(one: Any, other: Any) -> float:
    return float(np.degrees(np.arccos(np.clip(np.dot(one, other), -1.0, 1.0))))


def _fisher(away_deg: float, sigma_deg: float) -> float:
    """Density of a von Mises-Fisher direction error, relative to its peak, above a floor for outliers.

    sigma_deg holds 68 % of the errors: 1 - exp(-kappa (1 - cos sigma)) = 0.68.
    """
    sigma = np.radians(np.clip(sigma_deg, 1.0, 90.0))
    kappa = -np.log(1 - 0.68) / (1 - np.cos(sigma))
    return float(OUTLIER * 0.1 + (1 - OUTLIER * 0.1) * np.exp(kappa * (np.cos(np.radians(away_deg)) - 1)))


def _posterior(rows: list[tuple[MapDevice, float, float, float | None]]) -> list[Candidate]:
    total = sum(prior * likelihood for _, prior, likelihood, _ in rows)
    if total <= 0:
        return []
    found = [
        Candidate(d.id, d.name, prior, likelihood, away, prior * likelihood / total)
        for d, prior, likelihood, away in rows
        if prior > 0
    ]
    return sorted(found, key=lambda c: -c.probability)
