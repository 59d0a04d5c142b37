"""The least-squares fit of one point to sightings, with the parameters they share (see `room_devices`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.pose_board import ray_of
from calibration.pose_model import Floats, rotation_from_vector
from calibration.room_devices_sightings import Click, Heard, Held, Plane, Pointed, Sighting, Surroundings
from dsp.errors import CheckFailed
from recordings.camera_model import CameraModel


@dataclass
class Unknowns:
    """Shared parameters: each block with its covariance, in units of its own sigmas."""

    factors: list[Floats] = field(default_factory=list)
    slices: dict[object, slice] = field(default_factory=dict)
    size: int = 0

    def add(self, key: object, covariance: Floats) -> None:
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        self.factors.append(vectors * np.sqrt(np.maximum(values, 0.0)))
        self.slices[key] = slice(self.size, self.size + len(covariance))
        self.size += len(covariance)

    def of(self, eta: Floats, key: object) -> Floats | None:
        """The block's own change; None when nothing is unknown about it."""
        part = self.slices.get(key)
        if part is None:
            return None
        return self.factors[list(self.slices).index(key)] @ eta[part]


class DeviceFit:
    """Residuals, in sigmas, of one point and the shared parameters."""

    def __init__(self, around: Surroundings, sightings: Sequence[Sighting]) -> None:
        self.around, self.sightings = around, list(sightings)
        self.unknowns = Unknowns()
        if around.camera_covariance is not None:
            self.unknowns.add("camera", around.camera_covariance)
        used = {s.at for s in sightings if not isinstance(s, Plane) and isinstance(s.at, int)} | {0}
        for at in sorted(used):
            self.unknowns.add(at, around.standpoints[at].covariance)
        if around.mount is not None:
            self.unknowns.add("mount", around.mount.covariance)
        for number, sighting in enumerate(sightings):
            if isinstance(sighting, Pointed):
                self.unknowns.add(("pointed", number), sighting.covariance)
            elif isinstance(sighting, Heard) and not isinstance(sighting.at, int):
                self.unknowns.add(("tape", number), sighting.at.covariance)

    def camera(self, eta: Floats) -> tuple[CameraModel, Floats]:
        """The camera, and how its parameters differ from their estimate."""
        camera = self.around.camera
        change = self.unknowns.of(eta, "camera")
        if change is None:
            return camera, np.zeros(len(camera.parameters))
        changed = CameraModel(camera.width_px, camera.height_px, camera.model, camera.parameters + change)
        return changed, change

    def standpoint(self, eta: Floats, at: int, by: Floats) -> tuple[Floats, Floats]:
        """Rotation and centre of the camera; by: change of its parameters."""
        own = self.around.standpoints[at]
        move = self.unknowns.of(eta, at)
        assert move is not None
        move = move + own.by_camera @ by
        return rotation_from_vector(move[:3]) @ own.rotation, own.centre_m + move[3:]

    def microphone(self, eta: Floats, heard: Heard, number: int, by: Floats) -> tuple[Floats, Floats]:
        """Rotation and place of the microphone in the room."""
        if not isinstance(heard.at, int):
            move = self.unknowns.of(eta, ("tape", number))
            assert move is not None
            return rotation_from_vector(move[:3]) @ heard.at.rotation, heard.at.place_m + move[3:]
        return self.carried(eta, heard.at, by)

    def carried(self, eta: Floats, at: int, by: Floats) -> tuple[Floats, Floats]:
        """Rotation and place of the microphone that is carried with the camera."""
        mount, move = self.around.mount, self.unknowns.of(eta, "mount")
        assert mount is not None and move is not None
        rotation, centre = self.standpoint(eta, at, by)
        turned = rotation_from_vector(move[:3]) @ mount.rotation
        return rotation @ turned.T, centre + rotation @ (mount.lever_arm_m + move[3:])

    def rows(self, point: Floats, eta: Floats) -> Floats:
        """All residuals of the sightings."""
        camera, by = self.camera(eta)
        found = []
        for number, s in enumerate(self.sightings):
            if isinstance(s, Plane):
                found.append(np.array([(float(s.normal @ point) - s.offset_m) / s.sigma_m]))
                continue
            if isinstance(s, Heard):
                rotation, place = self.microphone(eta, s, number, by)
                found.append(aside(s.direction, rotation.T @ (point - place)) / np.radians(s.sigma_deg))
                continue
            rotation, centre = self.standpoint(eta, s.at, by)
            seen = rotation.T @ (point - centre)
            if isinstance(s, Click):
                pixel = camera.project(seen)
                found.append(np.nan_to_num((pixel - s.pixel) / s.sigma_px, nan=1e6))
            elif isinstance(s, Held):
                root = np.linalg.cholesky(s.covariance + s.sigma_m**2 * np.eye(3))
                found.append(np.linalg.solve(root, seen - s.point_m - s.by_camera @ by))
            else:
                move = self.unknowns.of(eta, ("pointed", number))
                assert move is not None
                move = move + s.by_camera @ by
                direction = rotation_from_vector(move[:3]) @ s.direction
                found.append(aside(direction, seen - s.origin_m - move[3:]) / np.radians(s.sigma_deg))
        return np.concatenate(found)

    def rays(self) -> list[tuple[Floats, Floats, str]]:
        """Origin, unit direction in the room, and kind of each sighting that is a ray."""
        eta, by = np.zeros(self.unknowns.size), np.zeros(len(self.around.camera.parameters))
        found = []
        for number, s in enumerate(self.sightings):
            if isinstance(s, Plane | Held):
                continue
            if isinstance(s, Heard):
                rotation, place = self.microphone(eta, s, number, by)
                found.append((place, rotation @ s.direction, "sound"))
                continue
            rotation, centre = self.standpoint(eta, s.at, by)
            if isinstance(s, Click):
                found.append((centre, rotation @ ray_of(self.around.camera, s.pixel), "click"))
            else:
                found.append((centre + rotation @ s.origin_m, rotation @ s.direction, "pointer"))
        return found

    def start(self) -> Floats:
        """The point nearest to all rays, planes and markers, unweighted. Raises CheckFailed without one."""
        h, g = np.zeros((3, 3)), np.zeros(3)
        for origin, direction, _ in self.rays():
            across = np.eye(3) - np.outer(direction, direction)
            h, g = h + across, g + across @ origin
        for s in self.sightings:
            if isinstance(s, Plane):
                h, g = h + np.outer(s.normal, s.normal), g + s.normal * s.offset_m
            elif isinstance(s, Held):
                own = self.around.standpoints[s.at]
                h, g = h + np.eye(3), g + own.rotation @ s.point_m + own.centre_m
        if np.linalg.eigvalsh(h)[0] < 1e-6:
            raise refused("what was seen and heard fixes no point: all rays are parallel", ADD_MORE)
        return np.asarray(np.linalg.solve(h, g))


ADD_MORE = (
    "add a picture or a recording from another place, a plane (--plane), or hold a marker onto the device"
)


def refused(problem: str, remedy: str) -> CheckFailed:
    return CheckFailed(f"no position to stand for: {problem} ({remedy})")


def aside(direction: Floats, towards: Floats) -> Floats:
    """Two components, in radians, of the angle from a direction to where a vector points."""
    unit = towards / max(float(np.linalg.norm(towards)), 1e-9)
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    first = np.cross(direction, helper)
    first /= np.linalg.norm(first)
    both = np.array([first @ unit, np.cross(direction, first) @ unit])
    sine = float(np.linalg.norm(both))
    angle = float(np.arctan2(sine, direction @ unit))
    return np.asarray(both * (angle / sine if sine > 1e-9 else 1.0))


def solve(fit: DeviceFit, point: Floats) -> tuple[Floats, Floats, float]:
    """Point (3,), information of point and shared parameters, chi square."""
    size = 3 + fit.unknowns.size
    z = np.concatenate([point, np.zeros(fit.unknowns.size)])
    steps = np.concatenate([np.full(3, 1e-5), np.full(fit.unknowns.size, 1e-3)])
    damping = 1e-9
    information = np.eye(size)

    def residuals(z: Floats) -> Floats:
        return np.concatenate([fit.rows(z[:3], z[3:]), z[3:]])

    now = residuals(z)
    cost = float(now @ now)
    for _ in range(12):
        jacobian = np.empty((len(now), size))
        for k in range(size):
            moved = z.copy()
            moved[k] += steps[k]
            jacobian[:, k] = (residuals(moved) - now) / steps[k]
        information = jacobian.T @ jacobian
        gradient = jacobian.T @ now
        while True:
            step = -np.linalg.solve(information + damping * np.diag(np.diag(information)), gradient)
            tried = residuals(z + step)
            if float(tried @ tried) <= cost * (1 + 1e-12) or damping > 1e6:
                break
            damping = max(damping * 30, 1e-6)
        gain = cost - float(tried @ tried)
        if gain < 0:
            break
        z, now, cost, damping = z + step, tried, float(tried @ tried), damping / 30
        if np.linalg.norm(step[:3]) < 1e-7 or gain < 1e-10 * (1 + cost):
            break
    return z[:3], information, cost


def from_microphone(fit: DeviceFit, point: Floats, whole: Floats) -> tuple[float, float, float, float] | None:
    """Azimuth, elevation, distance in the frame of the microphone at its usual place, and the root mean
    square error of that direction."""
    if fit.around.mount is None:
        return None
    size = 3 + fit.unknowns.size

    def seen(z: Floats) -> Floats:
        _, by = fit.camera(z[3:])
        rotation, place = fit.carried(z[3:], 0, by)
        return np.asarray(rotation.T @ (z[:3] - place))

    z = np.concatenate([point, np.zeros(fit.unknowns.size)])
    now = seen(z)
    distance = float(np.linalg.norm(now))
    unit = now / max(distance, 1e-9)
    by = np.empty((3, size))
    for k in range(size):
        moved = z.copy()
        moved[k] += 1e-4
        by[:, k] = (seen(moved) - now) / 1e-4
    across = (np.eye(3) - np.outer(unit, unit)) @ by / max(distance, 1e-3)
    sigma = float(np.degrees(np.sqrt(np.trace(across @ whole @ across.T))))
    azimuth = (float(np.degrees(np.arctan2(unit[1], unit[0]))) + 180) % 360 - 180
    return azimuth, float(np.degrees(np.arcsin(np.clip(unit[2], -1, 1)))), distance, sigma
