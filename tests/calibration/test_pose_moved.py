"""A camera that was moved while positions were taken; sets in which nothing moved are not accused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibration.pose_model import rotation_from_vector
from calibration.pose_solver import solve_pose
from tests.calibration.test_pose_solver import scene


def moved_set(seed: int, degrees: float, after: int = 12, stated_deg: float = 2.0) -> list:
    turn = rotation_from_vector(np.radians(degrees) * np.array([0.0, 0.0, 1.0]))
    sightings, _, _ = scene(seed, kind="point")
    return [
        replace(s, direction=s.direction if i < after else turn @ s.direction, sigma_deg=stated_deg)
        for i, s in enumerate(sightings)
    ]


@pytest.mark.parametrize("after", [10, 14])
def test_a_move_half_way_is_named_with_its_size(after: int):
    # The stated sigma of 2 degrees hides it from the residuals: all positions are within the gate.
    found = solve_pose(moved_set(3, 6.0, after), leave_one_out=False)
    assert found.moved is not None and found.used.all() and found.scale < 1.5
    assert abs(found.moved.after - (after - 1)) <= 2 and 4.0 < found.moved.degrees < 8.0
    (refusal,) = found.refusals
    assert f"moved after position p{found.moved.after}" in refusal.problem
    assert found.rotation_sigma_deg[2] > 2.0


def test_a_set_in_which_nothing_moved_is_not_accused():
    # Of 200 such sets none is (chances down to 6.5e-4); these are a few of them.
    for seed in range(6):
        assert solve_pose(moved_set(seed, 0.0), leave_one_out=False).moved is None
