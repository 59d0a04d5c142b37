"""Where a device is in the room: everything that was seen or heard of it, in one least-squares fit.

A click in a picture, a plane that the device stands on, a marker that is held onto it or pointed at it, and
the direction of its sound from a known place of the microphone are all rows of the same fit for one point.
What several of them share is a parameter of its own with the covariance it has: the camera's intrinsics, each
standpoint of the camera, the microphone's place on the camera. So two clicks from one camera do not count its
focal length twice as if it were two, and the covariance of the point is that of the whole chain. Gauss-Newton
with differences for derivatives: a few dozen parameters.

Where the board that defines the room is itself known with an uncertainty only, that moves all devices
together; it is added at the end and changes no direction as heard from the microphone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.camera_judge import Shortfall
from calibration.pose_board import ray_of
from calibration.pose_model import Floats, rotation_from_vector
from calibration.room_frame import BoardPlace, MicrophonePlace, Mount, Standpoint
from dsp.errors import CheckFailed, InputError
from recordings.camera_model import CameraModel

CLICK_PX, HELD_M, PLANE_M, AIM_DEG = 3.0, 0.02, 0.01, 2.0
"""Usual sigmas: of a click, a marker held onto a device, a plane, and of pointing by hand."""

LIFT_SIGMA_M = 0.02

WITHIN_M = 0.10
"""Refused when the error is not within this at 95 %."""

LEAST_PARALLAX_DEG, LEAST_SOUND_ANGLE_DEG = 2.0, 15.0
_MISFIT = 13.8  # chi square per two rows beyond which sightings are not of one point (1 in 1000)


@dataclass(frozen=True)
class Click:
    """A pixel (2,) of the picture taken at standpoint `at`."""

    at: int
    pixel: Floats
    sigma_px: float = CLICK_PX
    name: str = "click"


@dataclass(frozen=True)
class Plane:
    """normal @ p = offset_m, within sigma_m; in words for people."""

    normal: Floats
    offset_m: float
    sigma_m: float = PLANE_M
    name: str = "plane"


@dataclass(frozen=True)
class Held:
    """A marker held onto the device: point_m (3,) of the camera frame at standpoint `at`, its covariance (3,
    3) from the noise of the corners, by_camera (3, n), and how near to the device it was held."""

    at: int
    point_m: Floats
    covariance: Floats
    by_camera: Floats
    sigma_m: float = HELD_M
    name: str = "marker"


@dataclass(frozen=True)
class Pointed:
    """A marker that points at the device: origin_m and direction (3,) in the camera frame, covariance (6, 6)
    of the marker's turn (camera axes) and place, by_camera (6, n), and the sigma of the hand."""

    at: int
    origin_m: Floats
    direction: Floats
    covariance: Floats
    by_camera: Floats
    sigma_deg: float = AIM_DEG
    name: str = "pointer"


@dataclass(frozen=True)
class Heard:
    """The direction (3,) of the device's sound in the microphone frame, sigma_deg of each of its components;
    the microphone with the camera at standpoint `at`, or where a tape measure says."""

    at: int | MicrophonePlace
    direction: Floats
    sigma_deg: float
    name: str = "sound"


Sighting = Click | Plane | Held | Pointed | Heard


@dataclass
class Surroundings:
    """What all sightings refer to: camera, standpoints (0 is that of the frame), microphone on the camera."""

    camera: CameraModel
    camera_covariance: Floats | None
    board: BoardPlace
    standpoints: list[Standpoint]
    mount: Mount | None = None


@dataclass(frozen=True)
class Located:
    """A device's place.

    position_m (3,), covariance (3, 3) in the room. radius95_m: the error is within it at 95 %.
    angle_sigma_deg: root mean square of the angle, seen from the microphone, between where the device is and
    where it is said to be; None without a microphone, like azimuth_deg, elevation_deg and distance_m.
    residual: chi square of the sightings over degrees of freedom (`dof`). crossing_deg: largest angle between
    two rays.
    """

    position_m: Floats
    covariance: Floats
    radius95_m: float
    residual: float
    dof: int
    crossing_deg: float
    method: str
    sightings: tuple[str, ...]
    azimuth_deg: float | None = None
    elevation_deg: float | None = None
    distance_m: float | None = None
    angle_sigma_deg: float | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can be stood for."""
        return not self.shortfalls

    def require(self) -> Located:
        """Itself; raises CheckFailed with what to add when it is refused."""
        if self.shortfalls:
            raise CheckFailed(
                "no position to stand for: " + "; ".join(f"{s.problem} ({s.remedy})" for s in self.shortfalls)
            )
        return self


@dataclass
class _Unknowns:
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


class _Fit:
    """Residuals, in sigmas, of one point and the shared parameters."""

    def __init__(self, around: Surroundings, sightings: Sequence[Sighting]) -> None:
        self.around, self.sightings = around, list(sightings)
        self.unknowns = _Unknowns()
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
                found.append(_aside(s.direction, rotation.T @ (point - place)) / np.radians(s.sigma_deg))
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
                found.append(_aside(direction, seen - s.origin_m - move[3:]) / np.radians(s.sigma_deg))
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
            raise _refused("what was seen and heard fixes no point: all rays are parallel", _ADD)
        return np.asarray(np.linalg.solve(h, g))


_ADD = "add a picture or a recording from another place, a plane (--plane), or hold a marker onto the device"


def _refused(problem: str, remedy: str) -> CheckFailed:
    return CheckFailed(f"no position to stand for: {problem} ({remedy})")


def _aside(direction: Floats, towards: Floats) -> Floats:
    """Two components, in radians, of the angle from a direction to where a vector points."""
    unit = towards / max(float(np.linalg.norm(towards)), 1e-9)
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    first = np.cross(direction, helper)
    first /= np.linalg.norm(first)
    both = np.array([first @ unit, np.cross(direction, first) @ unit])
    sine = float(np.linalg.norm(both))
    angle = float(np.arctan2(sine, direction @ unit))
    return np.asarray(both * (angle / sine if sine > 1e-9 else 1.0))


def radius95(covariance: Floats) -> float:
    """Metres within which 95 % of the errors of a covariance (3, 3) are: the sum of squares as a scaled chi
    square with the same mean and variance (Satterthwaite 1946), its quantile by Wilson and Hilferty
    (1931)."""
    trace, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    if trace <= 0:
        return 0.0
    dof = trace**2 / square
    quantile = dof * (1 - 2 / (9 * dof) + 1.6449 * np.sqrt(2 / (9 * dof))) ** 3
    return float(np.sqrt(square / trace * quantile))


def locate(
    around: Surroundings, sightings: Sequence[Sighting], within_m: float = WITHIN_M, lift_m: float = 0.0
) -> Located:
    """The device's place from sightings, with its covariance, and why it cannot be stood for, if so.

    within_m: refused when the error is not within this at 95 %. lift_m: how far above the spot that was
    clicked the device is (its foot was clicked), known to 2 cm. Raises InputError without sightings or for
    sound without a microphone pose, CheckFailed when the sightings fix no point at all.
    """
    if not sightings:
        raise InputError("nothing was seen or heard of the device")
    for s in sightings:
        if isinstance(s, Heard) and isinstance(s.at, int) and around.mount is None:
            raise InputError(
                "the microphone's place is not known: give the pose to `hearth calibrate room frame --pose`,"
                " or where it stood (--from)"
            )
    _check_enough(sightings)
    fit = _Fit(around, sightings)
    rays = fit.rays()
    crossing = _crossing_deg(rays)
    _check_angles(rays, crossing, sightings)
    start = fit.start()
    for behind in _behind(rays, start):
        raise _refused(behind.problem, behind.remedy)
    try:
        point, information, chi2 = _solve(fit, start)
        whole = np.asarray(np.linalg.inv(information), np.float64)
    except np.linalg.LinAlgError:
        raise _refused("what was seen and heard fixes no point", _ADD) from None
    dof = len(fit.rows(point, np.zeros(fit.unknowns.size))) - 3
    shortfalls = list(_behind(rays, point))
    if dof > 0 and chi2 > _limit(dof):
        shortfalls.append(
            Shortfall(
                f"what was seen and heard is not of one point: it misses by {np.sqrt(chi2 / dof):.1f} times"
                " its uncertainty",
                "click the same spot of the device in every picture; check the plane, and that the device was"
                " the loudest sound",
            )
        )
    if dof >= 2:
        whole = whole * max(1.0, chi2 / dof)
    if lift_m:
        point = point + np.array([0.0, 0.0, lift_m])
        whole[2, 2] += LIFT_SIGMA_M**2
    seen = _from_microphone(fit, point, whole)
    covariance = whole[:3, :3] + around.board.covariance_at(point)
    covariance = (covariance + covariance.T) / 2
    radius = radius95(covariance)
    if radius > within_m:
        shortfalls.append(
            Shortfall(
                f"the position is known to {100 * radius:.0f} cm at 95 %, {100 * within_m:.0f} cm is needed",
                _what_to_add(covariance, point, rays, sightings),
            )
        )
    warnings = []
    if seen is not None and 2.0 * seen[3] > 3.0:
        of_place = np.degrees(np.sqrt(np.trace(covariance))) / max(seen[2], 0.01)
        why = "it is near to it" if of_place > 0.8 * seen[3] else "the pose on the camera decides that"
        warnings.append(
            f"from the microphone its direction is known to {seen[3]:.1f} degrees only (one sigma): {why}"
        )
    return Located(
        point,
        covariance,
        radius,
        chi2 / dof if dof > 0 else 0.0,
        dof,
        crossing,
        _method(sightings),
        tuple(s.name for s in sightings),
        azimuth_deg=None if seen is None else seen[0],
        elevation_deg=None if seen is None else seen[1],
        distance_m=None if seen is None else seen[2],
        angle_sigma_deg=None if seen is None else seen[3],
        shortfalls=tuple(shortfalls),
        warnings=tuple(warnings),
    )


def _check_enough(sightings: Sequence[Sighting]) -> None:
    rows = sum(3 if isinstance(s, Held) else 1 if isinstance(s, Plane) else 2 for s in sightings)
    if rows >= 3:
        return
    if isinstance(sightings[0], Plane):
        raise _refused("a plane alone fixes no point", "click the device in a picture (--click or --pick)")
    what = "one recording gives" if isinstance(sightings[0], Heard) else "one picture gives"
    raise _refused(f"{what} a direction and no distance", _ADD)


def _limit(dof: int) -> float:
    """Chi square that 1 in 1000 exceeds (Wilson and Hilferty)."""
    return float(max(dof * (1 - 2 / (9 * dof) + 3.09 * np.sqrt(2 / (9 * dof))) ** 3, _MISFIT * dof / 2))


def _crossing_deg(rays: list[tuple[Floats, Floats, str]]) -> float:
    best = 0.0
    for i, (_, a, _) in enumerate(rays):
        for _, b, _ in rays[:i]:
            angle = float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), abs(a @ b))))
            best = max(best, angle)
    return best


def _check_angles(
    rays: list[tuple[Floats, Floats, str]], crossing: float, sightings: Sequence[Sighting]
) -> None:
    """Refuses rays alone that are nearly parallel: the fit would be far from linear, its covariance a
    guess."""
    if any(isinstance(s, Plane | Held) for s in sightings):
        return
    least = LEAST_PARALLAX_DEG if all(kind == "click" for *_, kind in rays) else LEAST_SOUND_ANGLE_DEG
    if crossing >= least:
        return
    apart = max(
        (float(np.linalg.norm(a[0] - b[0])) for i, a in enumerate(rays) for b in rays[:i]), default=0.0
    )
    what = "camera" if least == LEAST_PARALLAX_DEG else "microphone"
    raise _refused(
        f"the rays cross at {crossing:.1f} degrees, {least:g} are needed; the places are {apart:.2f} m apart",
        f"move the {what} further to the side: half the distance to the device is good; or add a plane"
        " (--plane)",
    )


def _behind(rays: list[tuple[Floats, Floats, str]], point: Floats) -> list[Shortfall]:
    for origin, direction, kind in rays:
        if float((point - origin) @ direction) <= 0:
            what = "microphone" if kind == "sound" else "marker" if kind == "pointer" else "camera"
            return [
                Shortfall(
                    f"the rays meet behind the {what}",
                    "check which picture or recording belongs to which place, and the plane",
                )
            ]
    return []


def _solve(fit: _Fit, point: Floats) -> tuple[Floats, Floats, float]:
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


def _from_microphone(fit: _Fit, point: Floats, whole: Floats) -> tuple[float, float, float, float] | None:
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


def _what_to_add(
    covariance: Floats, point: Floats, rays: list[tuple[Floats, Floats, str]], sightings: Sequence[Sighting]
) -> str:
    """What would help most: something that measures along the direction known worst."""
    worst = np.linalg.eigh(covariance)[1][:, -1]
    if abs(worst[2]) > 0.8:
        where = "in height"
    elif rays and max(abs(float(worst @ d)) for _, d, _ in rays) > 0.7:
        where = "along the line of sight"
    else:
        where = "sideways"
    kinds = {type(s) for s in sightings}
    if Heard in kinds:
        more = "record it from a further place, nearer to it (0.5 to 1.2 m) and at right angles to the others"
    elif Plane in kinds and Click in kinds:
        more = "click it in a second picture from another place: its plane is seen at too small an angle"
    elif Pointed in kinds:
        more = "point at it from a further place, at right angles to the others, or hold the marker onto it"
    elif Held in kinds:
        more = "use a larger marker, or hold it nearer to the camera"
    else:
        more = "take a picture from a third place further to the side, or give its plane (--plane)"
    return f"it is known worst {where}: {more}"


def _method(sightings: Sequence[Sighting]) -> str:
    kinds = [type(s) for s in sightings]
    words = []
    if Click in kinds:
        clicks = kinds.count(Click)
        words.append("click" if clicks == 1 else f"clicks in {clicks} pictures")
    if Plane in kinds:
        words.append("plane")
    if Held in kinds:
        words.append("marker held onto it")
    if Pointed in kinds:
        words.append("marker pointed at it")
    if Heard in kinds:
        words.append(f"sound from {kinds.count(Heard)} place" + "s" * (kinds.count(Heard) != 1))
    return ", ".join(words)


def plane_of_words(text: str, size_z_m: float | None = None, sigma_m: float = PLANE_M) -> Plane:
    """A plane from words: "floor", "ceiling" (needs the room's height), or "x=4.2", "y=0", "z=0.75".

    Raises InputError.
    """
    word = text.strip().lower().replace(" ", "")
    if word == "floor":
        return Plane(np.array([0.0, 0.0, 1.0]), 0.0, sigma_m, "floor")
    if word == "ceiling":
        if size_z_m is None:
            raise InputError("--plane ceiling needs the room's height: give --rig, or --plane z=2.6")
        return Plane(np.array([0.0, 0.0, 1.0]), size_z_m, sigma_m, "ceiling")
    axis, _, number = word.partition("=")
    try:
        offset = float(number)
    except ValueError:
        offset = float("nan")
    if axis not in ("x", "y", "z") or not np.isfinite(offset):
        raise InputError(
            f"--plane is floor, ceiling, or like z=0.75 (a table), x=0 (a wall); in metres, not {text!r}"
        )
    normal = np.zeros(3)
    normal["xyz".index(axis)] = 1.0
    return Plane(normal, offset, sigma_m, f"{axis}={offset:g} m")
