"""What a microphone hears of a loudspeaker that a camera sees: the model behind `calibration.pose_solver`.

Unknown are the rotation R from the camera to the microphone frame, the lever arm c (the microphone's place in
the camera frame) and the offset s of the loudspeaker on the board. Position i is heard from

    u_i = (p_i - c) turned by R and normalised,   with   p_i = B_i s + t_i

for a board at (B_i, t_i), p_i = t_i for a point that was measured, or p_i = r_i b_i for a bearing b_i at a
distance r_i that is known only roughly and estimated along. What is minimised are the two components of the
angle between u_i and the direction d_i that was heard, whitened by the direction's own sigma and by what the
uncertainty of p_i adds to it; priors (a tape measure) are further rows. Gauss-Newton, damped (Levenberg);
rotations are updated on the manifold (Sola, Deray, Atchuthan, "A micro Lie theory", 2018, section II).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsp.errors import InputError

Floats = NDArray[np.float64]


def cross_matrix(v: ArrayLike) -> Floats:
    """[v]x of vectors (..., 3), so that [v]x w = v x w; (..., 3, 3)."""
    v = np.asarray(v, np.float64)
    m = np.zeros((*v.shape, 3))
    m[..., 0, 1], m[..., 0, 2], m[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    m[..., 1, 0], m[..., 2, 0], m[..., 2, 1] = v[..., 2], -v[..., 1], v[..., 0]
    return m


def rotation_from_vector(v: ArrayLike) -> Floats:
    """Rotation (3, 3) about v by its length in radians (Rodrigues)."""
    v = np.asarray(v, np.float64)
    angle = float(np.linalg.norm(v))
    k = cross_matrix(v)
    if angle < 1e-8:
        return np.eye(3) + k + 0.5 * k @ k
    return np.eye(3) + np.sin(angle) / angle * k + (1 - np.cos(angle)) / angle**2 * (k @ k)


def rotation_angle_deg(a: Floats, b: Floats) -> float:
    """Degrees between two rotations, exact for small angles too."""
    turn = a @ b.T
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    return float(np.degrees(np.arctan2(np.linalg.norm(axis), np.trace(turn) - 1)))


@dataclass(frozen=True)
class Sighting:
    """One position of the loudspeaker, heard and seen. Made by `at_point`, `on_board` or `on_ray`.

    direction: unit vector (3,) in the microphone frame; sigma_deg: of each of its two components.
    place_m: (3,) point or board origin in the camera frame (OpenCV: right, down, forward); for a ray its
    unit vector. board: rotation (3, 3) of the board into the camera frame, or None. covariance: (6, 6) of the
    board's small turn (radians, about the camera's axes) and place (m). distance_m: of a ray, else 0;
    distance_factor: its one-sigma factor; ray_sigma_deg.
    """

    name: str
    direction: Floats
    sigma_deg: float
    place_m: Floats
    board: Floats | None = None
    covariance: Floats | None = None
    distance_m: float = 0.0
    distance_factor: float = 1.0
    ray_sigma_deg: float = 0.0

    @classmethod
    def at_point(
        cls,
        direction: ArrayLike,
        sigma_deg: float,
        point_m: ArrayLike,
        covariance_m2: ArrayLike | None = None,
        name: str = "",
    ) -> Sighting:
        """The loudspeaker itself was measured: point (3,) in the camera frame, covariance (3, 3)."""
        whole = np.zeros((6, 6))
        if covariance_m2 is not None:
            whole[3:, 3:] = np.asarray(covariance_m2, np.float64)
        return cls(name, _unit(direction, name), _sigma(sigma_deg, name), _vector(point_m, name), None, whole)

    @classmethod
    def on_board(
        cls,
        direction: ArrayLike,
        sigma_deg: float,
        board: ArrayLike,
        place_m: ArrayLike,
        covariance: ArrayLike | None = None,
        name: str = "",
    ) -> Sighting:
        """A board at p_camera = board @ p_board + place; covariance (6, 6) of turn (rad) and place (m)."""
        turn = np.asarray(board, np.float64)
        if turn.shape != (3, 3) or not np.allclose(turn @ turn.T, np.eye(3), atol=1e-6):
            raise InputError(f"position {name!r}: the board's rotation is not a rotation matrix (3, 3)")
        whole = np.zeros((6, 6)) if covariance is None else np.asarray(covariance, np.float64)
        return cls(name, _unit(direction, name), _sigma(sigma_deg, name), _vector(place_m, name), turn, whole)

    @classmethod
    def on_ray(
        cls,
        direction: ArrayLike,
        sigma_deg: float,
        ray: ArrayLike,
        distance_m: float = 2.0,
        distance_factor: float = 1.8,
        ray_sigma_deg: float = 0.5,
        name: str = "",
    ) -> Sighting:
        """Only the direction (3,) in the camera frame was seen; the distance is a guess with a factor."""
        if not (0.05 <= distance_m <= 100 and 1.0 < distance_factor <= 10):
            raise InputError(
                f"position {name!r}: a distance of {distance_m!r} m within a factor of {distance_factor!r};"
                " expected 0.05 to 100 m and a factor above 1 to 10"
            )
        return cls(
            name,
            _unit(direction, name),
            _sigma(sigma_deg, name),
            _unit(ray, name),
            distance_m=float(distance_m),
            distance_factor=float(distance_factor),
            ray_sigma_deg=_sigma(ray_sigma_deg, name),
        )


def _vector(v: ArrayLike, name: str) -> Floats:
    a = np.asarray(v, np.float64)
    if a.shape != (3,) or not np.isfinite(a).all():
        raise InputError(f"position {name!r}: expected three finite numbers, not {v!r:.80}")
    return a


def _unit(v: ArrayLike, name: str) -> Floats:
    a = _vector(v, name)
    length = float(np.linalg.norm(a))
    if length < 1e-9:
        raise InputError(f"position {name!r}: the zero vector is no direction")
    return a / length


def _sigma(sigma_deg: float, name: str) -> float:
    if not 0.01 <= sigma_deg <= 90:
        raise InputError(f"position {name!r}: a sigma of {sigma_deg!r} degrees; expected 0.01 to 90")
    return float(sigma_deg)


def _inverse(m: Floats) -> Floats:
    """Of symmetric (n, 2, 2)."""
    a, b, d = m[:, 0, 0], m[:, 0, 1], m[:, 1, 1]
    return np.asarray(np.stack([d, -b, -b, a], axis=1).reshape(-1, 2, 2) / (a * d - b * b)[:, None, None])


@dataclass(frozen=True)
class Prior:
    """What is known beforehand: mean (3,) in metres and one sigma per axis (3,)."""

    mean_m: Floats
    sigma_m: Floats

    @classmethod
    def of(cls, mean_m: ArrayLike, sigma_m: float | ArrayLike) -> Prior:
        """From three numbers and one sigma, or one per axis. Raises InputError."""
        mean, sigma = np.asarray(mean_m, np.float64), np.asarray(sigma_m, np.float64)
        if mean.shape != (3,) or not np.isfinite(mean).all() or np.abs(mean).max() > 10:
            raise InputError(f"a measured offset is three numbers in metres up to 10, not {mean_m!r:.80}")
        if not (np.isfinite(sigma).all() and np.all((sigma >= 1e-4) & (sigma <= 10))):
            raise InputError(
                f"the sigma of a measured offset must be from 0.0001 to 10 m, not {sigma_m!r:.80}"
            )
        return cls(mean, np.broadcast_to(sigma, (3,)).astype(np.float64))


@dataclass
class Pose:
    """The unknowns: rotation camera -> microphone, lever arm, loudspeaker on the board, log of distances."""

    rotation: Floats
    lever_arm_m: Floats
    speaker_m: Floats
    log_distance: Floats

    def copy(self) -> Pose:
        return Pose(
            self.rotation.copy(), self.lever_arm_m.copy(), self.speaker_m.copy(), self.log_distance.copy()
        )


class PoseModel:
    """All sightings as arrays, with residuals, Jacobian and the damped fit."""

    def __init__(self, sightings: Sequence[Sighting], lever_arm: Prior, speaker: Prior) -> None:
        self.sightings = list(sightings)
        n = len(self.sightings)
        self.lever_arm, self.speaker = lever_arm, speaker
        self.direction = np.array([s.direction for s in self.sightings]).reshape(n, 3)
        self.sigma = np.radians([s.sigma_deg for s in self.sightings])
        self.place = np.array([s.place_m for s in self.sightings]).reshape(n, 3)
        self.is_ray = np.array([s.distance_m > 0 for s in self.sightings], bool)
        self.has_board = np.array([s.board is not None for s in self.sightings], bool)
        self.board = np.array([np.zeros((3, 3)) if s.board is None else s.board for s in self.sightings])
        self.board = self.board.reshape(n, 3, 3)
        self.covariance = np.array(
            [np.zeros((6, 6)) if s.covariance is None else s.covariance for s in self.sightings]
        ).reshape(n, 6, 6)
        self.ray_sigma = np.radians([s.ray_sigma_deg for s in self.sightings])
        self.log_guess = np.log([s.distance_m if s.distance_m > 0 else 1.0 for s in self.sightings])
        self.log_sigma = np.log([s.distance_factor if s.distance_m > 0 else np.e for s in self.sightings])
        self.rays = np.flatnonzero(self.is_ray)
        self.solves_speaker = bool(self.has_board.any())
        # Two unit vectors across each direction.
        helper = np.eye(3)[np.argmin(np.abs(self.direction), axis=1)] if n else np.zeros((0, 3))
        first = np.cross(self.direction, helper)
        first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12)
        self.across = np.stack([first, np.cross(self.direction, first)], axis=1)  # (n, 2, 3)

    def __len__(self) -> int:
        return len(self.sightings)

    def start(self) -> Pose:
        """The priors' means, no rotation yet."""
        return Pose(
            np.eye(3), self.lever_arm.mean_m.copy(), self.speaker.mean_m.copy(), self.log_guess.copy()
        )

    def points(self, pose: Pose) -> Floats:
        """(n, 3) places of the loudspeaker in the camera frame."""
        on_board = self.board @ pose.speaker_m + self.place
        on_ray = np.exp(pose.log_distance)[:, None] * self.place
        return np.where(self.is_ray[:, None], on_ray, on_board)

    def heard(self, pose: Pose) -> tuple[Floats, Floats]:
        """Unit vectors (n, 3) from the microphone to the loudspeaker, in its frame, and distances (n,)."""
        q = (self.points(pose) - pose.lever_arm_m) @ pose.rotation.T
        distance = np.maximum(np.linalg.norm(q, axis=1), 1e-3)
        return q / distance[:, None], distance

    def angles_deg(self, pose: Pose) -> Floats:
        """(n,) angle between heard and predicted direction."""
        u, _ = self.heard(pose)
        side = np.linalg.norm(np.cross(u, self.direction), axis=1)
        return np.degrees(np.arctan2(side, np.sum(u * self.direction, axis=1)))

    def residuals(self, pose: Pose) -> tuple[Floats, Floats, Floats]:
        """Components (n, 2) of the angle in radians, their Jacobian (n, 2, p), and that with respect to the
        loudspeaker's place (n, 2, 3).

        p: 3 of a turn in the microphone frame, 3 lever arm, 3 loudspeaker, 1 per ray.
        """
        points = self.points(pose)
        q = (points - pose.lever_arm_m) @ pose.rotation.T
        distance = np.maximum(np.sqrt(np.einsum("ni,ni->n", q, q)), 1e-3)
        u = q / distance[:, None]
        e = np.einsum("nij,nj->ni", self.across, u)
        sine = np.sqrt(np.einsum("ni,ni->n", e, e))
        angle = np.arctan2(sine, np.einsum("ni,ni->n", u, self.direction))
        stretch = np.where(sine > 1e-9, np.minimum(angle / np.maximum(sine, 1e-9), 10.0), 1.0)
        e = stretch[:, None] * e
        # Of u with respect to the point before it is normalised.
        toward = self.across @ u[:, :, None]
        project = (stretch / distance)[:, None, None] * (self.across - toward * u[:, None, :])
        turned = project @ pose.rotation
        jacobian = np.empty((len(self), 2, 9 + len(self.rays)))
        # project @ -[q]x, and u x (.) is what is left of a turn about q.
        jacobian[:, :, 0:3] = np.cross(q[:, None, :], project)
        jacobian[:, :, 3:6] = -turned
        jacobian[:, :, 6:9] = turned @ self.board
        if len(self.rays):
            jacobian[:, :, 9:] = 0.0
            own = np.einsum("nij,nj->ni", turned[self.rays], points[self.rays])
            jacobian[self.rays, :, 9 + np.arange(len(self.rays))] = own
        return e, jacobian, turned

    def covariances(self, pose: Pose, turned: Floats) -> Floats:
        """(n, 2, 2) of the residuals: of the directions, and of the places through `turned`."""
        n = len(self)
        lever = np.empty((n, 3, 6))
        lever[:, :, :3] = -cross_matrix(self.board @ pose.speaker_m)
        lever[:, :, 3:] = np.eye(3)
        spread = lever @ self.covariance @ lever.transpose(0, 2, 1)
        if len(self.rays):
            beside = np.eye(3) - self.place[:, :, None] * self.place[:, None, :]
            aside = (np.exp(pose.log_distance) * self.ray_sigma) ** 2
            spread = np.where(self.is_ray[:, None, None], aside[:, None, None] * beside, spread)
        return np.asarray(
            turned @ spread @ turned.transpose(0, 2, 1) + (self.sigma**2)[:, None, None] * np.eye(2)
        )

    def information(self, pose: Pose) -> Floats:
        """(n, 2, 2) inverse of `covariances`."""
        _, _, turned = self.residuals(pose)
        return _inverse(self.covariances(pose, turned))

    def chi2(self, pose: Pose) -> Floats:
        """(n,) squared residuals in sigmas; of two degrees of freedom each where the sigmas are right."""
        e, _, turned = self.residuals(pose)
        return np.asarray(np.einsum("ni,nij,nj->n", e, _inverse(self.covariances(pose, turned)), e))

    def _prior_rows(self, pose: Pose) -> tuple[Floats, Floats]:
        """Whitened residuals and Jacobian of what is known beforehand."""
        rays = len(self.rays)
        r = np.concatenate(
            [
                (pose.lever_arm_m - self.lever_arm.mean_m) / self.lever_arm.sigma_m,
                (pose.speaker_m - self.speaker.mean_m) / self.speaker.sigma_m,
                (pose.log_distance[self.rays] - self.log_guess[self.rays]) / self.log_sigma[self.rays],
            ]
        )
        j = np.zeros((6 + rays, 9 + rays))
        j[:, 3:] = np.diag(
            1 / np.concatenate([self.lever_arm.sigma_m, self.speaker.sigma_m, self.log_sigma[self.rays]])
        )
        return r, j

    def system(self, pose: Pose, information: Floats, priors: bool = True) -> tuple[Floats, Floats, float]:
        """Information matrix (p, p), gradient and cost; `information` (n, 2, 2) of the residuals."""
        e, jacobian, _ = self.residuals(pose)
        flat = jacobian.reshape(-1, jacobian.shape[2])
        weighted = (information @ jacobian).reshape(flat.shape)
        h, g = weighted.T @ flat, weighted.T @ e.ravel()
        cost = float(np.sum((information @ e[:, :, None])[:, :, 0] * e))
        if priors:
            r, j = self._prior_rows(pose)
            h, g, cost = h + j.T @ j, g + j.T @ r, cost + float(r @ r)
        return h, g, cost

    def moved(self, pose: Pose, step: Floats) -> Pose:
        """The pose after a step of the parameters."""
        log_distance = pose.log_distance.copy()
        log_distance[self.rays] += step[9:]
        return Pose(
            rotation_from_vector(step[:3]) @ pose.rotation,
            pose.lever_arm_m + step[3:6],
            pose.speaker_m + step[6:9],
            log_distance,
        )

    def fit(self, pose: Pose, weight: Floats, iterations: int = 30, scale: float = 1.0) -> Pose:
        """Least squares from `pose` with fixed weights (n,) and the sigmas at `pose` times `scale`."""
        damping = 1e-4
        information = self.information(pose) * (weight / scale**2)[:, None, None]
        h, g, cost = self.system(pose, information)
        for _ in range(iterations):
            step = np.asarray(-np.linalg.solve(h + damping * np.diag(np.diag(h) + 1e-9), g), np.float64)
            length = float(np.abs(step[:3]).max())
            if length > 0.7:
                step *= 0.7 / length
            after = self.moved(pose, step)
            h2, g2, cost2 = self.system(after, information)
            if cost2 <= cost:
                gain = cost - cost2
                pose, h, g, cost = after, h2, g2, cost2
                damping = max(damping / 5, 1e-9)
                if gain < 1e-9 * (1 + cost) or float(np.abs(step).max()) < 1e-8:
                    break
            else:
                damping *= 8
                if damping > 1e8:
                    break
        return pose
