"""Geometry against closed forms, OpenCV's own projection, and properties that must hold for any pose."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings import geometry as g
from recordings.camera_model import CameraModel

angle = st.floats(-179.0, 179.0)
tilt = st.floats(-85.0, 85.0)


@pytest.mark.parametrize(
    ("azimuth", "elevation", "unit"),
    [(0, 0, (1, 0, 0)), (90, 0, (0, 1, 0)), (-90, 0, (0, -1, 0)), (0, 90, (0, 0, 1)), (-180, 0, (-1, 0, 0))],
)
def test_axes_are_forward_left_up(azimuth: float, elevation: float, unit: tuple[float, ...]) -> None:
    np.testing.assert_allclose(g.unit_from_direction(azimuth, elevation), unit, atol=1e-12)
    back = g.direction_from_vector(unit)
    np.testing.assert_allclose(g.unit_from_direction(*back), unit, atol=1e-12)
    assert -180 <= back[0] < 180


@given(yaw=angle, pitch=tilt, roll=angle)
def test_rotation_is_proper_and_its_front_points_to_yaw_and_pitch(
    yaw: float, pitch: float, roll: float
) -> None:
    rotation = g.rotation_from_yaw_pitch(yaw, pitch, roll)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    np.testing.assert_allclose(rotation[:, 0], g.unit_from_direction(yaw, pitch), atol=1e-12)


def test_positive_roll_lowers_the_right_hand_side() -> None:
    right = np.array([0.0, -1.0, 0.0])
    assert (g.rotation_from_yaw_pitch(0, 0, 10) @ right)[2] < 0


def test_rotation_agrees_with_scipy() -> None:
    from scipy.spatial.transform import Rotation

    # Intrinsic turns about z (left), the new y (nose down is positive there) and the new x.
    theirs = Rotation.from_euler("ZYX", [33.0, -12.0, 7.0], degrees=True).as_matrix()
    np.testing.assert_allclose(g.rotation_from_yaw_pitch(33.0, 12.0, 7.0), theirs, atol=1e-12)


def test_fixed_turn_between_ambix_and_opencv() -> None:
    x, y, z = 1.0, 2.0, 3.0
    np.testing.assert_allclose(g.CV_FROM_AMBIX @ [x, y, z], [-y, -z, x])
    cv = np.array([4.0, 5.0, 6.0])
    np.testing.assert_allclose(g.CV_FROM_AMBIX.T @ cv, [cv[2], -cv[0], -cv[1]])


@given(yaw=angle, pitch=tilt, x=st.floats(-5, 5), y=st.floats(-5, 5), z=st.floats(-5, 5))
def test_pose_and_its_inverse_cancel(yaw: float, pitch: float, x: float, y: float, z: float) -> None:
    pose = g.camera_pose((0.1, -0.2, 0.08), yaw, pitch)
    np.testing.assert_allclose(
        g.transform(g.invert_pose(pose), g.transform(pose, (x, y, z))), (x, y, z), atol=1e-9
    )


def test_a_device_on_the_left_of_a_rig_that_looks_along_y() -> None:
    # The rig at (2, 1), front to +y: a point at (1, 2) is 45 degrees to the left, one metre up.
    azimuth, elevation, distance = g.direction_to_point((1.0, 2.0, 2.0), (2.0, 1.0, 1.0), 90.0)
    assert azimuth == pytest.approx(45.0)
    assert elevation == pytest.approx(np.degrees(np.arctan(1 / np.sqrt(2))))
    assert distance == pytest.approx(np.sqrt(3))
    np.testing.assert_allclose(
        np.array([2.0, 1.0, 1.0]) + distance * g.direction_in_room(azimuth, elevation, 90.0),
        (1.0, 2.0, 2.0),
        atol=1e-12,
    )


def test_wall_distance() -> None:
    assert g.wall_distance((2, 1, 1), (0, 1, 0), (5, 4, 3)) == pytest.approx(3.0)
    assert g.wall_distance((2, 1), (-1, -1), (5, 4)) == pytest.approx(np.sqrt(2))
    assert g.wall_distance((2, 9), (0, 1), (5, 4)) == 0.0
    assert g.wall_distance((2, 1), (0, 0), (5, 4)) == float("inf")


@given(azimuth=st.floats(-40, 40), elevation=st.floats(-20, 20), yaw=st.floats(-20, 20), pitch=tilt)
def test_projection_agrees_with_opencv(azimuth: float, elevation: float, yaw: float, pitch: float) -> None:
    pitch *= 0.2
    pose = g.camera_pose((0.03, -0.05, 0.08), yaw, pitch)
    seen = g.project_direction(
        azimuth, elevation, T_mic_camera=pose, camera=CameraModel.nominal(640, 360, 90.0), distance_m=2.0
    )
    world = 2.0 * g.unit_from_direction(azimuth, elevation)
    inverse = g.invert_pose(pose)
    rvec, _ = cv2.Rodrigues(inverse[:3, :3])
    matrix = CameraModel.nominal(640, 360, 90.0).matrix
    theirs, _ = cv2.projectPoints(world[None], rvec, inverse[:3, 3], matrix, None)
    np.testing.assert_allclose([seen.u_px[0], seen.v_px[0]], theirs[0, 0], atol=1e-3)


BARREL = CameraModel(
    640, 360, "plumb_bob", np.array([420.0, 424.0, 311.0, 187.0, -0.31, 0.11, 0.0007, -0.0004, -0.015])
)


@given(azimuth=st.floats(-30, 30), elevation=st.floats(-18, 18), yaw=st.floats(-8, 8))
def test_a_calibrated_lens_projects_as_opencv_does(azimuth: float, elevation: float, yaw: float) -> None:
    pose = g.camera_pose((0.03, -0.05, 0.08), yaw)
    seen = g.project_direction(azimuth, elevation, T_mic_camera=pose, camera=BARREL, distance_m=3.0)
    inverse = g.invert_pose(pose)
    theirs, _ = cv2.projectPoints(
        3.0 * g.unit_from_direction(azimuth, elevation)[None],
        cv2.Rodrigues(inverse[:3, :3])[0],
        inverse[:3, 3],
        BARREL.matrix,
        BARREL.distortion,
    )
    np.testing.assert_allclose([seen.u_px[0], seen.v_px[0]], theirs[0, 0], atol=1e-6)


def test_what_a_distortion_folds_back_into_the_picture_is_not_in_it() -> None:
    pose = g.camera_pose((0.0, 0.0, 0.0))
    folded = [a for a in range(45, 89) if 0 < BARREL.project([-np.tan(np.radians(a)), 0, 1])[0] < 639]
    assert folded  # k1 < 0 alone would draw them
    seen = g.project_direction(folded, 0.0, T_mic_camera=pose, camera=BARREL)
    assert not seen.inside.any() and np.allclose(seen.edge_u_px, 0.0)
    assert g.project_direction(30.0, 0.0, T_mic_camera=pose, camera=BARREL).inside[0]


def project(azimuth: float, elevation: float = 0.0) -> g.Projection:
    pose = g.camera_pose((0.0, 0.0, 0.0))
    return g.project_direction(
        azimuth, elevation, T_mic_camera=pose, camera=CameraModel.nominal(640, 360, 90.0)
    )


def test_the_field_of_view_spans_the_picture() -> None:
    assert project(0.0).u_px[0] == pytest.approx(319.5)
    assert project(45.0).u_px[0] == pytest.approx(-0.5)  # left edge of the first pixel
    assert project(-45.0).u_px[0] == pytest.approx(639.5)
    assert project(0.0, 10.0).v_px[0] < 179.5  # up is a smaller row


@pytest.mark.parametrize(
    ("azimuth", "elevation", "column", "row"),
    [
        (70, 0, 0, 180),
        (-70, 0, 640, 180),
        (120, 0, 0, 180),
        (-170, 0, 640, 180),
        (0, 60, 320, 0),
        (0, -60, 320, 360),
    ],
)
def test_outside_the_picture_the_edge_says_where_to_turn(
    azimuth: float, elevation: float, column: float, row: float
) -> None:
    seen = project(azimuth, elevation)
    assert not seen.inside[0]
    assert seen.edge_u_px[0] == pytest.approx(column, abs=1)
    assert seen.edge_v_px[0] == pytest.approx(row, abs=1)


def test_behind_the_camera_has_no_pixel_but_an_edge() -> None:
    seen = project(180.0)
    assert np.isnan(seen.u_px[0])
    assert np.isfinite([seen.edge_u_px[0], seen.edge_v_px[0], seen.turn_deg[0]]).all()


def test_the_lever_arm_of_the_camera_matters() -> None:
    # 15 cm above the microphone, a source level with the microphone at 2 m appears atan(0.15 / 2) lower.
    pose = g.camera_pose((0.0, 0.0, 0.15))
    seen = g.project_direction(
        0.0, 0.0, T_mic_camera=pose, camera=CameraModel.nominal(640, 360, 90.0), distance_m=2.0
    )
    assert seen.v_px[0] - 179.5 == pytest.approx(320 * 0.15 / 2)
