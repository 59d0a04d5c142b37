"""What a solved pose is worth: covariance, observability, leave-one-out and the mirror test.

A mirror is not a rotation, yet positions in one plane fit a mirrored set of directions as well as the true
one: the reflection in that plane leaves them where they are (and puts the microphone on its other side). The
test solves the mirrored set with the same means and compares the costs: half their difference is the log of
the likelihood ratio.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.pose_model import Floats, Pose, PoseModel, rotation_angle_deg
from calibration.pose_moved import find_move
from calibration.pose_solver import PoseFit, best_pose, robust_cost

MAX_ROTATION_SIGMA_DEG = 2.0
MAX_LEVER_SIGMA_M = 0.08
MIRROR_EVIDENCE = 6.0  # log of the likelihood ratio: 400 to 1
LEAST_USED = 0.6
MAX_MOVE_DEG = 2.0  # of camera against microphone while positions were taken; less widens the sigmas
_MIRROR = np.array([1.0, -1.0, 1.0])
_DEG, _CM = np.radians(1.0), 0.01


def covariance_of(model: PoseModel, pose: Pose, weight: Floats, scale: float) -> Floats:
    """(9, 9) with the priors; distances along rays are marginalised."""
    information = model.information(pose) * (weight / scale**2)[:, None, None]
    h, _, _ = model.system(pose, information)
    h = h + np.diag([1e-6] * 3 + [0.0] * (len(h) - 3))  # a turn that nothing holds: sigma of 1000 rad
    inverse = np.linalg.inv(h)[:9, :9]
    return np.asarray((inverse + inverse.T) / 2)


def singular_values(model: PoseModel, pose: Pose, weight: Floats, scale: float) -> Floats:
    """Of the whitened Jacobian of the directions alone, without what was measured by tape, in units of 1
    degree and 1 cm; six, largest first. 1 means known to 1 degree or 1 cm in that direction; 0 is unknown.

    Distances along rays are held to their guesses and the loudspeaker to its own prior: neither is asked for.
    """
    information = model.information(pose) * (weight / scale**2)[:, None, None]
    h, _, _ = model.system(pose, information, priors=False)
    _, j = model._prior_rows(pose)
    h = h + j[3:].T @ j[3:]
    keep = h[:6, :6] - h[:6, 6:] @ np.linalg.solve(h[6:, 6:], h[6:, :6])
    units = np.diag([_DEG] * 3 + [_CM] * 3)
    values = np.linalg.eigvalsh(units @ keep @ units)[::-1]
    return np.asarray(np.sqrt(np.maximum(values, 0.0)))


def vertical_spread_deg(directions: Floats) -> tuple[float, Floats]:
    """How far directions leave the best plane through the microphone: the whole range of the angle above it,
    and the plane's normal (3,)."""
    _, _, vt = np.linalg.svd(directions, full_matrices=False)
    above = np.degrees(np.arcsin(np.clip(directions @ vt[2], -1, 1)))
    return float(np.ptp(above)), vt[2]


def _mirrored(model: PoseModel) -> PoseModel:
    return PoseModel(
        [replace(s, direction=s.direction * _MIRROR) for s in model.sightings],
        model.lever_arm,
        model.speaker,
    )


def _leave_one_out(
    model: PoseModel, pose: Pose, used: NDArray[np.bool_], scale: float
) -> tuple[Floats, Floats]:
    """(n,) angle of each position from a fit without it, and the turn of that fit; nan where not used."""
    angle, shift = np.full(len(model), np.nan), np.full(len(model), np.nan)
    for i in np.flatnonzero(used):
        weight = used.astype(float)
        weight[i] = 0.0
        other = model.fit(pose, weight, iterations=6, scale=scale)
        angle[i] = model.angles_deg(other)[i]
        shift[i] = rotation_angle_deg(other.rotation, pose.rotation)
    return angle, shift


def judge(
    model: PoseModel,
    pose: Pose,
    used: NDArray[np.bool_],
    scale: float,
    *,
    told_lever: bool,
    seed: int,
    each: bool,
) -> PoseFit:
    """The fit with everything that says how far it can be trusted."""
    weight = used.astype(float)
    covariance = covariance_of(model, pose, weight, scale)
    moved = find_move(model, pose, used)
    if moved is not None:
        # What was before it and what is after it are both half of it away from the answer.
        covariance[:3, :3] += np.outer(moved.turn_rad, moved.turn_rad) / 4
    mirrored = _mirrored(model)
    other, other_used, other_scale = best_pose(mirrored, np.random.default_rng(seed))
    common = min(scale, other_scale)
    evidence = (robust_cost(mirrored, other, common) - robust_cost(model, pose, common)) / 2
    residual = model.angles_deg(pose)
    mirrored_rms = float(np.sqrt(np.mean(mirrored.angles_deg(other)[other_used] ** 2)))
    own_rms = float(np.sqrt(np.mean(residual[used] ** 2)))
    heard, _ = model.heard(pose)
    spread, _ = vertical_spread_deg(heard[used])
    left_out, shift = _leave_one_out(model, pose, used, scale) if each else (np.full(len(model), np.nan),) * 2
    fit = PoseFit(
        rotation=pose.rotation,
        lever_arm_m=pose.lever_arm_m,
        speaker_m=pose.speaker_m if model.solves_speaker else np.full(3, np.nan),
        distance_m=np.linalg.norm(model.points(pose), axis=1),
        covariance=covariance,
        names=tuple(s.name or str(i + 1) for i, s in enumerate(model.sightings)),
        residual_deg=residual,
        sigma_deg=np.degrees(model.sigma),
        chi2=model.chi2(pose),
        used=used,
        scale=scale,
        singular_values=singular_values(model, pose, weight, scale),
        left_out_deg=left_out,
        left_out_shift_deg=shift,
        mirror_ratio=mirrored_rms / max(own_rms, 1e-9),
        mirror_evidence=float(evidence),
        spread_deg=spread,
        refusals=(),
        warnings=(),
        predicted=heard,
        heard=model.direction,
        moved=moved,
    )
    return replace(fit, refusals=tuple(_refusals(fit)), warnings=tuple(_warnings(fit, model, told_lever)))


_AXES = ("right-left", "up-down", "forward-back")


def _axis_name(vector: Floats) -> str:
    return _AXES[int(np.argmax(np.abs(vector)))]


class Refusal(str):
    """Why a pose cannot be stood for: "problem: remedy", and both by name."""

    problem: str
    remedy: str

    def __new__(cls, problem: str, remedy: str) -> Refusal:
        made = super().__new__(cls, f"{problem}: {remedy}")
        made.problem, made.remedy = problem, remedy
        return made


def _refusals(fit: PoseFit) -> list[Refusal]:
    found = []
    n, kept = len(fit.used), int(fit.used.sum())
    if kept < max(6, LEAST_USED * n):
        found.append(
            Refusal(
                f"only {kept} of {n} positions agree on one pose",
                "look for reflections, wrong pictures or a camera that was moved, and measure at least 12",
            )
        )
    if fit.moved is not None and fit.moved.degrees > MAX_MOVE_DEG:
        found.append(Refusal(_moved(fit), "fix camera and microphone to each other and measure all again"))
        return found
    values, vectors = np.linalg.eigh(fit.covariance[:3, :3])
    sigma = float(np.degrees(np.sqrt(values[2])))
    if sigma > MAX_ROTATION_SIGMA_DEG:
        axis = fit.rotation.T @ vectors[:, 2]
        found.append(
            Refusal(
                f"the rotation about the camera's {_axis_name(axis)} axis is known to {min(sigma, 180):.1f}"
                f" degrees only (limit {MAX_ROTATION_SIGMA_DEG:g})",
                "spread the positions over the picture, to all four corners"
                if np.argmax(np.abs(axis)) == 2
                else "add positions at a second distance (half and twice as far), near the picture's edges,"
                " or give the lever arm by tape measure",
            )
        )
    values, vectors = np.linalg.eigh(fit.covariance[3:6, 3:6])
    sigma = float(np.sqrt(values[2]))
    if sigma > MAX_LEVER_SIGMA_M:
        found.append(
            Refusal(
                f"the lever arm along the camera's {_axis_name(vectors[:, 2])} axis is known to"
                f" {100 * sigma:.0f} cm only (limit {100 * MAX_LEVER_SIGMA_M:g} cm)",
                "add positions 0.5 to 1 m away, far from the middle of the picture, or give the lever arm by"
                " tape measure",
            )
        )
    if abs(fit.mirror_evidence) < MIRROR_EVIDENCE:
        found.append(
            Refusal(
                f"a mirrored set of directions fits as well (residual {fit.mirror_ratio:.2f} times as large),"
                f" because the positions lie nearly in one plane, which they leave by {fit.spread_deg:.0f}"
                " degrees",
                "add positions clearly above and below it (20 degrees or more from lowest to highest)",
            )
        )
    elif fit.mirror_evidence < 0:
        found.append(
            Refusal(
                "the directions fit only when they are mirrored (the residual is then"
                f" {fit.mirror_ratio:.2f} times as large)",
                "a channel is swapped or inverted, or angles were counted clockwise; run `hearth check` on"
                " the recording and put that right first",
            )
        )
    return found


def _moved(fit: PoseFit) -> str:
    assert fit.moved is not None
    return (
        f"the rig seems to have moved after position {fit.names[fit.moved.after]}: later ones are turned by"
        f" {fit.moved.degrees:.1f} degrees"
    )


def _warnings(fit: PoseFit, model: PoseModel, told_lever: bool) -> list[str]:
    found = []
    out = [name for name, used in zip(fit.names, fit.used, strict=True) if not used]
    if out:
        found.append(f"left out as not fitting: {', '.join(out)}")
    if fit.moved is not None and fit.moved.degrees <= MAX_MOVE_DEG:
        found.append(f"{_moved(fit)}; the uncertainty is enlarged by half of that")
    tilt = float(np.degrees(np.arccos(np.clip(-fit.rotation[2, 1], -1, 1))))
    if tilt > 90:
        found.append(
            f"the camera's upper side is turned {tilt:.0f} degrees away from the microphone's: is one of them"
            " hung upside down, or are both signs (azimuth and elevation) exchanged?"
        )
    if not told_lever and not model.is_ray.all():
        found.append(
            "the lever arm rests on distances alone, so it is wrong by as much as the board's printed square"
            " (or the points) is: measure the square, or give the arm by tape measure (--lever-arm)"
        )
    if fit.scale > 1.5:
        found.append(
            f"residuals are {fit.scale:.1f} times what the stated sigmas allow; the covariance is scaled up"
        )
    shift = fit.left_out_shift_deg
    if np.isfinite(shift).any() and np.nanmax(shift) > 0.75:
        i = int(np.nanargmax(shift))
        found.append(
            f"position {fit.names[i]} alone turns the result by {shift[i]:.1f} degrees; add some beside it"
        )
    if model.solves_speaker:
        sigma = float(np.sqrt(np.linalg.eigvalsh(fit.covariance[6:, 6:])[2]))
        if sigma > 0.02:
            found.append(
                f"the loudspeaker's place on the board is known to {100 * sigma:.1f} cm only: tilt the board"
                " differently at some positions, or measure the place"
            )
    if len(model.rays) == len(model) and not told_lever:
        found.append(
            "directions without distances do not measure the lever arm; give it by tape measure (--lever-arm)"
        )
    return found
