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
from dataclasses import dataclass

import numpy as np

from calibration.camera_judge import Shortfall
from calibration.pose_model import Floats
from calibration.room_devices_fit import ADD_MORE, DeviceFit, from_microphone, refused, solve
from calibration.room_devices_sightings import Click, Heard, Held, Plane, Pointed, Sighting, Surroundings
from dsp.errors import CheckFailed, InputError

LIFT_SIGMA_M = 0.02
WITHIN_M = 0.10
"""Refused when the error is not within this at 95 %."""

LEAST_PARALLAX_DEG, LEAST_SOUND_ANGLE_DEG = 2.0, 15.0
_MISFIT = 13.8  # chi square per two rows beyond which sightings are not of one point (1 in 1000)


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
    fit = DeviceFit(around, sightings)
    rays = fit.rays()
    crossing = _crossing_deg(rays)
    _check_angles(rays, crossing, sightings)
    start = fit.start()
    for behind in _behind(rays, start):
        raise refused(behind.problem, behind.remedy)
    try:
        point, information, chi2 = solve(fit, start)
        whole = np.asarray(np.linalg.inv(information), np.float64)
    except np.linalg.LinAlgError:
        raise refused("what was seen and heard fixes no point", ADD_MORE) from None
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
    seen = from_microphone(fit, point, whole)
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
        raise refused("a plane alone fixes no point", "click the device in a picture (--click or --pick)")
    what = "one recording gives" if isinstance(sightings[0], Heard) else "one picture gives"
    raise refused(f"{what} a direction and no distance", ADD_MORE)


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
    raise refused(
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
