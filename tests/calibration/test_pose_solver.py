"""The pose: exact without noise, covariance that holds, outliers, mirrors, sets too weak for an answer."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from calibration.pose_model import (
    PoseModel,
    Prior,
    Sighting,
    rotation_angle_deg,
    rotation_from_vector,
)
from calibration.pose_solver import kabsch, solve_pose
from dsp.errors import CheckFailed, InputError
from recordings.geometry import CV_FROM_AMBIX

SPEAKER = np.array([0.02, -0.12, 0.03])


def scene(seed: int, n: int = 24, noise_deg: float = 1.0, kind: str = "board", flat: bool = False):
    """Sightings, rotation camera -> microphone, lever arm; the microphone roughly upright."""
    rng = np.random.default_rng(seed)
    rotation = rotation_from_vector(0.3 * rng.standard_normal(3)) @ CV_FROM_AMBIX.T
    lever = rng.standard_normal(3)
    lever *= 0.15 / np.linalg.norm(lever)
    azimuth = np.radians(rng.uniform(-50, 50, n))
    elevation = np.radians(rng.uniform(-30, 30, n)) * (0.0 if flat else 1.0)
    distance = rng.uniform(0.5, 2.5, n)
    ray = np.stack(
        [np.sin(azimuth) * np.cos(elevation), -np.sin(elevation), np.cos(azimuth) * np.cos(elevation)], axis=1
    )
    points = distance[:, None] * ray
    sightings = []
    for i, p in enumerate(points):
        u = rotation @ (p - lever)
        u /= np.linalg.norm(u)
        aside = np.radians(noise_deg) * rng.standard_normal(3)
        d = u + aside - u * (aside @ u)
        sigma, name = max(noise_deg, 0.05), f"p{i}"
        if kind == "board":
            board = rotation_from_vector(0.4 * rng.standard_normal(3))
            sightings.append(Sighting.on_board(d, sigma, board, p - board @ SPEAKER, name=name))
        elif kind == "ray":
            sightings.append(Sighting.on_ray(d, sigma, ray[i], 1.3, 1.6, 0.2, name=name))
        else:
            sightings.append(Sighting.at_point(d, sigma, p, name=name))
    return sightings, rotation, lever


def test_exact_without_noise_loudspeaker_included():
    sightings, rotation, lever = scene(1, noise_deg=0.0)
    found = solve_pose(sightings).require()
    assert rotation_angle_deg(found.rotation, rotation) < 1e-3
    assert np.abs(found.lever_arm_m - lever).max() < 1e-4
    assert np.abs(found.speaker_m - SPEAKER).max() < 1e-4
    assert found.rms_deg < 1e-3 and found.used.all()
    # T_mic_camera maps the camera's own origin to minus the turned lever arm.
    assert found.T_mic_camera[:3, 3] == pytest.approx(-rotation @ lever, abs=1e-4)
    assert found.T_mic_camera @ [*lever, 1] == pytest.approx([0, 0, 0, 1], abs=1e-4)


def test_kabsch_agrees_with_scipy_and_never_mirrors():
    from scipy.spatial.transform import Rotation

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6, 3))
    w = rng.uniform(0.5, 2, 6)
    assert kabsch(a, b, w) == pytest.approx(Rotation.align_vectors(b, a, weights=w)[0].as_matrix())
    assert np.linalg.det(kabsch(a, a * [1, -1, 1])) == pytest.approx(1.0)


def test_jacobian_is_that_of_the_residuals():
    sightings, rotation, lever = scene(2, n=6, noise_deg=0.01)
    sightings += scene(2, n=6, noise_deg=0.01, kind="ray")[0]
    model = PoseModel(sightings, Prior.of(lever, 0.1), Prior.of(SPEAKER, 0.1))
    pose = model.start()
    pose.rotation = rotation
    pose.log_distance[model.rays] = np.log(1.0)
    _, jacobian, _ = model.residuals(pose)
    h = 1e-6
    steps = np.eye(jacobian.shape[2])
    numeric = np.stack(
        [
            (model.residuals(model.moved(pose, h * s))[0] - model.residuals(model.moved(pose, -h * s))[0])
            / (2 * h)
            for s in steps
        ],
        axis=2,
    )
    small = model.angles_deg(pose) < 1.0
    assert small.sum() >= 6
    assert np.abs(jacobian - numeric)[small].max() < 3e-3


def test_stated_sigmas_hold():
    turns, levers = [], []
    for seed in range(12):
        sightings, rotation, lever = scene(100 + seed, noise_deg=1.0)
        found = solve_pose(sightings, speaker=Prior.of(SPEAKER, 0.005), leave_one_out=False).require()
        turn = found.rotation @ rotation.T
        vector = cv2.Rodrigues(turn)[0].ravel()
        turns.append(vector @ np.linalg.solve(found.covariance[:3, :3], vector) / 3)
        miss = found.lever_arm_m - lever
        levers.append(miss @ np.linalg.solve(found.covariance[3:6, 3:6], miss) / 3)
    assert 0.5 < np.sqrt(np.mean(turns)) < 1.5
    assert 0.5 < np.sqrt(np.mean(levers)) < 1.5


def test_a_fifth_of_wild_directions_is_found_and_named():
    sightings, rotation, _ = scene(5)
    rng = np.random.default_rng(9)
    wild = [1, 7, 8, 15, 20]
    for i in wild:
        s = sightings[i]
        sightings[i] = Sighting.on_board(rng.standard_normal(3), 1.0, s.board, s.place_m, name=s.name)
    found = solve_pose(sightings, speaker=Prior.of(SPEAKER, 0.005)).require()
    assert rotation_angle_deg(found.rotation, rotation) < 1.5
    assert set(wild) <= set(np.flatnonzero(~found.used))
    assert any("p7" in text for text in found.warnings)


def test_a_measured_lever_arm_helps_and_a_wrong_one_shows():
    sightings, _, lever = scene(6)
    speaker = Prior.of(SPEAKER, 0.005)
    free = solve_pose(sightings, speaker=speaker, leave_one_out=False)
    told = solve_pose(sightings, speaker=speaker, lever_arm=Prior.of(lever, 0.01), leave_one_out=False)
    assert told.lever_arm_sigma_m.max() < free.lever_arm_sigma_m.max()
    assert told.rotation_sigma_deg.max() < free.rotation_sigma_deg.max()
    moved = Prior.of(lever + np.array([0.3, 0.0, 0.0]), 0.002)
    wrong = solve_pose(
        sightings,
        speaker=speaker,
        lever_arm=moved,
        leave_one_out=False,
    )
    assert wrong.scale > 1.5 or not wrong.ok


def test_a_mirrored_set_is_found():
    sightings, _, _ = scene(3, n=16)
    mirrored = [
        Sighting.on_board(s.direction * [1, -1, 1], 1.0, s.board, s.place_m, name=s.name) for s in sightings
    ]
    found = solve_pose(mirrored, leave_one_out=False)
    assert any("only when they are mirrored" in text for text in found.refusals)
    with pytest.raises(CheckFailed, match="swapped or inverted"):
        found.require()


def test_one_plane_is_refused_with_what_to_add():
    sightings, _, _ = scene(4, kind="point", flat=True)
    found = solve_pose(sightings, leave_one_out=False)
    assert any("mirrored set of directions fits as well" in text for text in found.refusals)
    assert any("above and below" in text for text in found.refusals)


def test_too_narrow_a_set_is_refused():
    rng = np.random.default_rng(0)
    lever = np.array([0.1, 0.0, 0.05])
    sightings = []
    for _ in range(15):
        p = np.array([0.0, 0.0, 2.0]) + 0.05 * rng.standard_normal(3)
        d = CV_FROM_AMBIX.T @ (p - lever) + 0.03 * rng.standard_normal(3)
        sightings.append(Sighting.at_point(d, 1.0, p))
    found = solve_pose(sightings, leave_one_out=False)
    # So far away and close together, a turn and a shift of the microphone look the same.
    assert any("rotation" in text and "a second distance" in text for text in found.refusals)
    assert any("lever arm" in text and "tape measure" in text for text in found.refusals)
    assert found.singular_values[-1] < 0.2


def test_rays_with_a_measured_lever_arm_give_the_rotation():
    sightings, rotation, lever = scene(8, kind="ray")
    found = solve_pose(sightings, lever_arm=Prior.of(lever, 0.01)).require()
    assert rotation_angle_deg(found.rotation, rotation) < 2.0
    bare = solve_pose(sightings, leave_one_out=False)
    assert any("--lever-arm" in text for text in (*bare.warnings, *bare.refusals))


def test_leaving_out_the_position_that_carries_the_weight_is_told():
    sightings, _, _ = scene(10, n=12)
    found = solve_pose(sightings, speaker=Prior.of(SPEAKER, 0.005))
    assert np.isfinite(found.left_out_deg[found.used]).all()
    # A position that had no part in the fit lies further off than one that had.
    assert np.nanmean(found.left_out_deg**2) > np.mean(found.residual_deg[found.used] ** 2)


def test_wrong_input_is_named():
    sightings, _, _ = scene(0, n=5)
    with pytest.raises(InputError, match="5 positions are too few"):
        solve_pose(sightings)
    with pytest.raises(InputError, match="zero vector"):
        Sighting.at_point([0, 0, 0], 1.0, [0, 0, 1])
    with pytest.raises(InputError, match="rotation matrix"):
        Sighting.on_board([1, 0, 0], 1.0, np.ones((3, 3)), [0, 0, 1])
    with pytest.raises(InputError, match="sigma"):
        Sighting.at_point([1, 0, 0], 0.0, [0, 0, 1])
    with pytest.raises(InputError, match="in metres"):
        Prior.of([0, 0, 150], 0.01)


def test_upside_down_or_both_signs_exchanged_is_asked():
    sightings, _, _ = scene(6, kind="point")
    assert not any("upside down" in text for text in solve_pose(sightings, leave_one_out=False).warnings)
    turned = [replace(s, direction=s.direction * [1, -1, -1]) for s in sightings]
    found = solve_pose(turned, leave_one_out=False)
    assert found.ok and any("upside down, or are both signs" in text for text in found.warnings)


def test_an_arm_by_distances_alone_is_said_to_scale_with_them():
    sightings, _, lever = scene(7, kind="point")
    words = "printed square"
    assert any(words in text for text in solve_pose(sightings, leave_one_out=False).warnings)
    told = solve_pose(sightings, lever_arm=Prior.of(lever, 0.01), leave_one_out=False)
    assert not any(words in text for text in told.warnings)
