"""The pose between microphone and camera from positions of a loudspeaker: RANSAC, then least squares.

1. Minimal sets of three positions give a rotation each (Kabsch, Acta Cryst. A32, 1976) for a few guesses of
   the lever arm; the best by truncated cost (MSAC: Torr and Zisserman, CVIU 78, 2000) are refined.
2. Refinement starts with a wide, robust cost that is narrowed step by step (graduated non-convexity with the
   Geman-McClure cost: Yang et al., IEEE RA-L 5(2), 2020).
3. The final fit uses the positions within the gate and the stated sigmas, priors included.
4. What the answer is worth: `calibration.pose_checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.pose_model import Floats, Pose, PoseModel, Prior, Sighting, rotation_angle_deg
from dsp.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from calibration.pose_checks import Refusal
    from calibration.pose_moved import Move

GATE = 11.8  # chi2 of 2 degrees of freedom: beyond it are 0.27 % of good positions
_SETS = 600
_STARTS = 8
_NARROWING = (6.0, 3.5, 2.0, 1.3, 1.0)  # scales of the robust cost, in sigmas
_SPEAKER_GUESS_M = 0.05  # the loudspeaker is within this of the board's origin unless told
LEVER_GUESS_M = 1.0


@dataclass(frozen=True)
class PoseFit:
    """The answer, and what it is worth.

    rotation: (3, 3) camera -> microphone; lever_arm_m: (3,) the microphone's place in the camera frame;
    speaker_m: (3,) on the board, nan where no position had one. covariance: (9, 9) of a small turn in the
    microphone frame (rad), lever arm and loudspeaker (m). residual_deg: (n,) angle between heard and
    predicted, of all positions. used: (n,) whether it is within the gate. refusals: why the numbers cannot be
    stood for, empty when they can. moved: the turn between two positions that the set shows.
    """

    rotation: Floats
    lever_arm_m: Floats
    speaker_m: Floats
    distance_m: Floats
    covariance: Floats
    names: tuple[str, ...]
    residual_deg: Floats
    sigma_deg: Floats
    chi2: Floats
    used: NDArray[np.bool_]
    scale: float
    singular_values: Floats
    left_out_deg: Floats
    left_out_shift_deg: Floats
    mirror_ratio: float
    mirror_evidence: float
    spread_deg: float
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    predicted: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    heard: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    moved: Move | None = None

    @property
    def T_mic_camera(self) -> Floats:
        """(4, 4): p_microphone = T p_camera."""
        pose = np.eye(4)
        pose[:3, :3] = self.rotation
        pose[:3, 3] = -self.rotation @ self.lever_arm_m
        return pose

    @property
    def rotation_sigma_deg(self) -> Floats:
        """(3,) one sigma of a turn about the microphone's x, y and z axis."""
        return np.degrees(np.sqrt(np.diag(self.covariance)[:3]))

    @property
    def lever_arm_sigma_m(self) -> Floats:
        """(3,) right, down, forward."""
        return np.asarray(np.sqrt(np.diag(self.covariance)[3:6]))

    @property
    def rms_deg(self) -> float:
        """RMS of the residual angles of the positions that were used."""
        return float(np.sqrt(np.mean(self.residual_deg[self.used] ** 2)))

    @property
    def ok(self) -> bool:
        return not self.refusals

    def require(self) -> PoseFit:
        """Itself, or CheckFailed with the reasons and what to add."""
        if self.refusals:
            raise CheckFailed("no pose that can be stood for: " + "; ".join(self.refusals))
        return self


def kabsch(seen: Floats, heard: Floats, weight: Floats | None = None) -> Floats:
    """Rotations (..., 3, 3) that turn unit vectors `seen` (..., n, 3) best onto `heard`, never mirrored."""
    w = np.ones(seen.shape[:-1]) if weight is None else np.broadcast_to(weight, seen.shape[:-1])
    h = np.swapaxes(heard * w[..., None], -1, -2) @ seen
    u, _, vt = np.linalg.svd(h)
    sign = np.linalg.det(u) * np.linalg.det(vt)
    u = u.copy()
    u[..., :, 2] *= np.where(sign < 0, -1.0, 1.0)[..., None]
    return np.asarray(u @ vt)


def _sets_of_three(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    if n * (n - 1) * (n - 2) // 6 <= _SETS:
        return np.array(list(combinations(range(n), 3)), np.intp)
    return np.argsort(rng.random((_SETS, n)), axis=1)[:, :3]


def _lever_guesses(prior: Prior) -> Floats:
    """Places of the microphone from which a rotation is tried."""
    guesses = [prior.mean_m]
    for axis in range(3):
        if prior.sigma_m[axis] >= 0.1:
            reach = min(0.4, 2 * prior.sigma_m[axis])
            guesses += [prior.mean_m + sign * reach * np.eye(3)[axis] for sign in (1, -1)]
    return np.array(guesses)


def _starts(model: PoseModel, rng: np.random.Generator) -> list[Pose]:
    """Poses worth refining, by truncated cost of rotations from three positions each."""
    first = model.start()
    points = model.points(first)
    sets = _sets_of_three(len(model), rng)
    found: list[tuple[float, Floats, Floats]] = []
    for lever in _lever_guesses(model.lever_arm):
        away = points - lever
        distance = np.maximum(np.linalg.norm(away, axis=1), 0.05)
        seen = away / distance[:, None]
        # What is not known of the place turns the direction.
        loose = np.minimum(model.lever_arm.sigma_m.max(), 0.15) / distance
        gate = np.sqrt(model.sigma**2 + loose**2)
        rotations = kabsch(seen[sets], model.direction[sets])
        cosine = np.einsum("sij,nj,ni->sn", rotations, seen, model.direction)
        cost = np.minimum((np.arccos(np.clip(cosine, -1, 1)) / gate) ** 2, 9.0).sum(axis=1)
        for k in np.argsort(cost)[:_STARTS]:
            found.append((float(cost[k]), rotations[k], lever))
    found.sort(key=lambda item: item[0])
    kept: list[tuple[Floats, Floats]] = []
    for _, rotation, lever in found:
        if any(rotation_angle_deg(rotation, other) < 4.0 and np.array_equal(lever, at) for other, at in kept):
            continue
        kept.append((rotation, lever))
        if len(kept) == _STARTS:
            break
    starts = []
    for rotation, lever in kept:
        pose = first.copy()
        pose.rotation, pose.lever_arm_m = rotation, lever.copy()
        starts.append(pose)
    return starts


def robust_cost(model: PoseModel, pose: Pose, scale: float = 1.0) -> float:
    """Truncated cost with the priors: what two solutions are compared by."""
    priors, _ = model._prior_rows(pose)
    return float(np.minimum(model.chi2(pose) / scale**2, GATE).sum() + priors @ priors)


def _refine(model: PoseModel, pose: Pose, scales: Sequence[float]) -> Pose:
    for scale in scales:
        for _ in range(2):
            weight = 1.0 / (1.0 + model.chi2(pose) / (2.5 * scale) ** 2) ** 2
            pose = model.fit(pose, weight, iterations=2)
    return pose


def _different(poses: list[Pose]) -> list[Pose]:
    """Without those that others before them have come to as well."""
    kept: list[Pose] = []
    for pose in poses:
        if all(
            rotation_angle_deg(pose.rotation, other.rotation) > 0.5
            or np.abs(pose.lever_arm_m - other.lever_arm_m).max() > 0.02
            for other in kept
        ):
            kept.append(pose)
    return kept


def estimated_scale(chi2: Floats, free: int) -> float:
    """By how much the stated sigmas are too small: from the median of chi2 of 2 degrees of freedom."""
    n = len(chi2)
    if n < 4:
        return 1.0
    left = max(2 * n - free, 2) / (2 * n)
    return float(np.sqrt(np.median(chi2) / 1.386 / left))


def best_pose(model: PoseModel, rng: np.random.Generator) -> tuple[Pose, NDArray[np.bool_], float]:
    """The robust solution: pose, positions within the gate, and the scale of the sigmas (at least 1)."""
    wide, narrow = _NARROWING[:2], _NARROWING[2:]
    poses = [_refine(model, start, wide) for start in _starts(model, rng)]
    poses.sort(key=lambda pose: robust_cost(model, pose, wide[-1]))
    poses = [_refine(model, pose, narrow) for pose in _different(poses)[:3]]
    costs = [robust_cost(model, pose) for pose in poses]
    pose = poses[int(np.argmin(costs))]
    free = 6
    used = np.ones(len(model), bool)
    scale = 1.0
    for _ in range(8):
        chi2 = model.chi2(pose)
        scale = float(np.clip(estimated_scale(chi2, free), 1.0, 4.0))
        now = chi2 <= GATE * scale**2
        if now.sum() < 3:
            now = chi2 <= np.sort(chi2)[min(2, len(chi2) - 1)]
        pose = model.fit(pose, now.astype(float), iterations=15, scale=scale)
        if np.array_equal(now, used):
            break
        used = now
    return pose, used, scale


def solve_pose(
    sightings: Sequence[Sighting],
    *,
    lever_arm: Prior | None = None,
    speaker: Prior | None = None,
    leave_one_out: bool = True,
    seed: int = 0,
) -> PoseFit:
    """Rotation, lever arm and loudspeaker offset from at least 6 positions.

    lever_arm: the tape-measured place of the microphone in the camera frame; without one it is only taken to
    be within a few metres. speaker: the loudspeaker in the board's frame; without one within some centimetres
    of its origin. The fit comes back also when it is refused: see `PoseFit.refusals` and `require`.
    Raises InputError for fewer than 6 positions or three of them that agree in nothing.
    """
    from calibration.pose_checks import judge

    if len(sightings) < 6:
        raise InputError(
            f"{len(sightings)} positions are too few for a pose; give at least 6, better 12 to 24,"
            " at two or more distances and spread over the whole picture"
        )
    model = PoseModel(
        sightings,
        lever_arm or Prior.of(np.zeros(3), LEVER_GUESS_M),
        speaker or Prior.of(np.zeros(3), _SPEAKER_GUESS_M),
    )
    rng = np.random.default_rng(seed)
    pose, used, scale = best_pose(model, rng)
    return judge(model, pose, used, scale, told_lever=lever_arm is not None, seed=seed, each=leave_one_out)
