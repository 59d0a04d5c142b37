"""The camera as a function, against OpenCV's; uncertainty over the picture against drawn cameras."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from calibration.camera_model import (
    CameraModel,
    project,
    projection_difference,
    projection_sigma,
    rotation_matrix,
)
from dsp.errors import InputError

PLUMB = np.array([900.0, 910, 640, 350, -0.28, 0.11, 7e-4, -4e-4, -0.02])
RATIONAL = np.concatenate([PLUMB, [0.05, -0.01, 0.003]])
CAMERAS = [
    CameraModel(1280, 720, "plumb_bob", PLUMB),
    CameraModel(1280, 720, "radtan", PLUMB[:8]),
    CameraModel(1280, 720, "rational_polynomial", RATIONAL),
]


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda c: c.model)
def test_projection_and_its_derivatives_are_those_of_opencv(camera: CameraModel):
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(-0.7, 0.7, 50), rng.uniform(-0.4, 0.4, 50), np.ones(50)] * rng.uniform(
        0.5, 3, (50, 1)
    )
    there, jacobian = cv2.projectPoints(points, np.zeros(3), np.zeros(3), camera.matrix, camera.distortion)
    assert np.abs(camera.project(points) - there[:, 0]).max() < 1e-9
    x, y = points[:, 0] / points[:, 2], points[:, 1] / points[:, 2]
    _, by_ray, by_parameter = project(camera.parameters, x, y)
    jacobian = jacobian.reshape(50, 2, -1)
    assert np.abs(by_parameter - jacobian[:, :, 6 : 6 + len(camera.parameters)]).max() < 1e-9
    assert np.abs(by_ray / points[:, 2, None, None] - jacobian[:, :, 3:5]).max() < 1e-9


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda c: c.model)
def test_rays_lead_back(camera: CameraModel):
    pixels = np.concatenate([camera.map_pixels(), [[0, 0], [1279, 719], [640, 350]]])
    rays = camera.rays(pixels)
    assert np.abs(camera.project(np.c_[rays, np.ones(len(rays))]) - pixels).max() < 1e-9


def test_behind_the_camera_and_beyond_the_fold_is_nothing():
    assert np.isnan(CAMERAS[0].project([[0, 0, -1.0], [0, 0, 0.0]])).all()
    folded = CameraModel(1280, 720, "plumb_bob", np.array([500.0, 500, 640, 360, -0.6, 0, 0, 0, 0]))
    assert np.isnan(folded.rays([[0.0, 0.0]])).all()
    assert np.isfinite(folded.rays([[640.0, 400.0]])).all()


def test_field_of_view_of_a_plain_camera():
    plain = CameraModel(1000, 500, "plumb_bob", np.array([500.0, 500, 499.5, 249.5, 0, 0, 0, 0, 0]))
    assert plain.hfov_deg == pytest.approx(90.0, abs=1e-6)


def test_a_turned_camera_is_the_same_camera():
    first = CAMERAS[0]
    # A small shift of the principal point is nearly a turn; a change of focal length is none.
    moved = CameraModel(1280, 720, "plumb_bob", first.parameters + np.array([0, 0, 2, -1, 0, 0, 0, 0, 0.0]))
    longer = CameraModel(
        1280, 720, "plumb_bob", first.parameters * np.array([1.01, 1.01, 1, 1, 1, 1, 1, 1, 1])
    )
    assert np.abs(projection_difference(first, first)).max() < 1e-9
    assert np.sqrt((projection_difference(first, moved) ** 2).sum(2).mean()) < 0.7
    assert np.sqrt((projection_difference(first, longer) ** 2).sum(2).mean()) > 3
    with pytest.raises(InputError, match="1280x720 and 640x480"):
        projection_difference(first, CameraModel(640, 480, "plumb_bob", first.parameters))


def test_the_uncertainty_map_is_the_spread_of_drawn_cameras():
    rng = np.random.default_rng(2)
    camera = CAMERAS[0]
    root = np.diag([0.6, 0.6, 0.8, 0.8, 2e-3, 5e-3, 1e-4, 1e-4, 4e-3]) @ (
        np.eye(9) + 0.3 * rng.normal(size=(9, 9))
    )
    covariance = root @ root.T
    drawn = np.stack(
        [
            projection_difference(
                camera, CameraModel(1280, 720, "plumb_bob", camera.parameters + root @ rng.normal(size=9))
            )
            for _ in range(100)
        ]
    )
    spread = np.einsum("nrci,nrcj->rcij", drawn, drawn) / len(drawn)
    worst = np.sqrt(np.linalg.eigvalsh(spread)[..., 1])
    assert np.median(worst / projection_sigma(camera, covariance)) == pytest.approx(1.0, abs=0.2)
    length = np.sqrt(np.trace(spread, axis1=2, axis2=3))
    assert np.median(length / projection_sigma(camera, covariance, worst=False)) == pytest.approx(
        1.0, abs=0.2
    )


def test_rotation_matrix_is_opencvs():
    for vector in ([0.3, -0.2, 1.1], [1e-10, 0, 0], [0, 3.0, 0]):
        assert np.abs(rotation_matrix(vector) - cv2.Rodrigues(np.array(vector))[0]).max() < 1e-12
