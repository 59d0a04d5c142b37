"""Whether camera or microphone was moved while positions were taken.

For every split of the positions in their order, a turn of those after it is added to the fit, and the drop of
the cost is set against what is left (an F test with the data's own spread: stated sigmas may be too large,
and then hide a move). The best split counts; its limit is measured on sets in which nothing moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.pose_model import Floats, Pose, PoseModel

LEAST_SIDE = 4  # positions on each side of a split
MAX_CHANCE = 5e-4  # of the best split; of 200 sets in which nothing moved the least was 6.5e-4


@dataclass(frozen=True)
class Move:
    """after: index of the last position before it. turn_rad: (3,) in the microphone frame. chance: of so good
    a split when nothing moved."""

    after: int
    turn_rad: Floats
    chance: float

    @property
    def degrees(self) -> float:
        return float(np.degrees(np.linalg.norm(self.turn_rad)))


def best_split(model: PoseModel, pose: Pose, used: NDArray[np.bool_]) -> Move | None:
    """The split that a turn explains best, likely or not; None with too few positions for one."""
    from scipy.stats import f

    information = model.information(pose) * used.astype(float)[:, None, None]
    h, _, cost = model.system(pose, information)
    e, jacobian, _ = model.residuals(pose)
    weighted = information @ jacobian[:, :, :3]
    # Per position: its part of the turn's gradient, of the turn's own block, and of that with the unknowns.
    gradient = np.einsum("nij,ni->nj", weighted, e)
    own = np.einsum("nij,nik->njk", weighted, jacobian[:, :, :3])
    cross = np.einsum("nij,nik->njk", weighted, jacobian)
    order = np.flatnonzero(used)
    free = 2 * len(order) - 9
    best = None
    for k in range(LEAST_SIDE, len(order) - LEAST_SIDE + 1):
        late = order[k:]
        b = cross[late].sum(axis=0)
        left = own[late].sum(axis=0) - b @ np.linalg.solve(h + 1e-9 * np.eye(len(h)), b.T)
        turn = -np.linalg.solve(left + 1e-9 * np.eye(3), gradient[late].sum(axis=0))
        drop = float(turn @ left @ turn)
        chance = float(f.sf((drop / 3) / max((cost - drop) / free, 1e-12), 3, free))
        if best is None or chance < best.chance:
            best = Move(int(order[k - 1]), turn, chance)
    return best


def find_move(model: PoseModel, pose: Pose, used: NDArray[np.bool_]) -> Move | None:
    """The move that the positions show, or None."""
    found = best_split(model, pose, used)
    return found if found is not None and found.chance < MAX_CHANCE else None
