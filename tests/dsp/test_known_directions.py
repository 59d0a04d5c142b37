"""Wiring and mounting faults from known directions: each fault made by its definition, then named."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dsp
from dsp.errors import InputError

AZ = np.array([0.0, 90.0, 0.0, 200.0, -70.0, 45.0, 120.0])
EL = np.array([0.0, 0.0, 80.0, -20.0, 30.0, -35.0, 10.0])
THREE = slice(0, 3)  # front, left, above


def responses(matrix=None, noise=0.02, seed=0, n=slice(None)):
    rng = np.random.default_rng(seed)
    u = dsp.direction_to_unit(AZ[n], EL[n])
    r = np.column_stack([np.ones(len(u)), u[:, [1, 2, 0]]])
    loudness = rng.uniform(0.2, 3.0, (len(u), 1)) * rng.choice([-1, 1], (len(u), 1))
    if matrix is not None:
        r = r @ matrix.T
    return (r + noise * rng.standard_normal(r.shape)) * loudness


def signs(*s):
    return np.diag([1.0, *s])


FUMA_READ_AS_AMBIX = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], float)
END_FIRE = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]], float)  # heard Z is the true X
TURN_90 = np.eye(4)
TURN_90[np.ix_([3, 1], [3, 1])] = [[0, -1], [1, 0]]  # x' = -y, y' = x


@pytest.mark.parametrize("n", [THREE, slice(None)])
@pytest.mark.parametrize(
    ("matrix", "fault"),
    [
        (np.eye(4), "none"),
        (signs(-1, 1, 1), "axis_flipped"),
        (signs(1, -1, 1), "axis_flipped"),
        (signs(1, 1, -1), "axis_flipped"),
        (signs(-1, -1, 1), "upside_down"),
        (np.diag([-1.0, 1, 1, 1]), "w_inverted"),
        (FUMA_READ_AS_AMBIX, "channel_order"),
        (TURN_90, "rotated"),
        (END_FIRE, "end_fire"),
        (np.diag([1, 3**0.5, 3**0.5, 3**0.5]), "gains"),
        (np.diag([1, 1, 0.5, 1]), "gains"),
    ],
)
def test_a_fault_is_named_and_its_correction_mends_it(matrix, fault, n):
    for seed in range(20):
        m = responses(matrix, seed=seed, n=n)
        report = dsp.check_directions(m, AZ[n], EL[n])
        assert report.fault == fault, report.message
        assert report.ok == (fault == "none")
        mended = m @ report.correction.T
        az, el = dsp.unit_to_direction(mended[:, [3, 1, 2]] / mended[:, :1])
        assert np.max(dsp.angular_error_deg(az, el, AZ[n], EL[n])) < 8
        hand = np.sign(np.linalg.det(matrix[1:, 1:] / matrix[0, 0]))
        assert report.determinant == pytest.approx(hand, abs=1e-6)
        json.dumps(report.to_dict())


@pytest.mark.parametrize("layout", ["a", "a2"])
@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_swapped_capsules_are_named(layout, pair):
    to_b = dsp.conversion_matrix(layout, "ambix")
    exchange = np.eye(4)
    exchange[list(pair)] = exchange[list(pair[::-1])]
    m = responses(to_b @ exchange @ np.linalg.inv(to_b))
    report = dsp.check_directions(m, AZ, EL, capsules=layout)
    assert report.fault == "capsules_swapped"
    assert set(report.swapped) == {dsp.CHANNEL_NAMES[layout][i] for i in pair}
    assert report.determinant < 0


def test_fuma_order_is_called_by_its_name_and_gains_too():
    assert "FuMa" in dsp.check_directions(responses(FUMA_READ_AS_AMBIX), AZ, EL).message
    n3d = dsp.check_directions(responses(np.diag([1, 3**0.5, 3**0.5, 3**0.5])), AZ, EL)
    assert "N3D" in n3d.message
    assert n3d.gains_db == pytest.approx([4.77] * 3, abs=0.4)


def test_a_capsule_gain_is_measured():
    to_b = dsp.conversion_matrix("a", "ambix")
    m = responses(to_b @ np.diag([1, 1, 10 ** (-3 / 20), 1]) @ np.linalg.inv(to_b), noise=0.005)
    report = dsp.check_directions(m, AZ, EL, capsules="a")
    assert report.fault == "gains"
    assert "BLD" in report.message
    gains = np.array(report.capsule_gains_db)
    assert gains[2] - np.median(gains) == pytest.approx(-3, abs=0.5)


@pytest.mark.parametrize("turn", [(20, 0, 0), (50, 40, -30), (-140, 20, 60)])
def test_any_rotation_is_measured_and_mended(turn):
    r = dsp.rotation_matrix(*turn)
    directions = dsp.direction_to_unit(AZ, EL) @ r.T
    report = dsp.check_directions(directions, AZ, EL)
    assert report.determinant == pytest.approx(1)
    az, el = dsp.unit_to_direction((directions[:, [1, 2, 0]] @ report.correction[1:, 1:].T)[:, [2, 0, 1]])
    assert np.max(dsp.angular_error_deg(az, el, AZ, EL)) < 1e-6
    assert report.gains_db is None  # directions carry no gain


def test_a_mirror_behind_a_rotation_is_still_a_mirror():
    directions = dsp.direction_to_unit(AZ, EL) * [1, -1, 1] @ dsp.rotation_matrix(35, 35, 20).T
    report = dsp.check_directions(directions, AZ, EL)
    assert report.determinant < 0
    assert report.fault == "mirrored"


def test_sources_in_one_plane_cannot_tell():
    az, el = [0, 90, 180, -90], [0, 0, 0, 0]
    assert dsp.check_directions(dsp.direction_to_unit(az, el), az, el).fault == "unknown"
    assert dsp.check_directions(dsp.direction_to_unit([0, 90], [0, 0]), [0, 90], [0, 0]).fault == "unknown"


def test_random_directions_are_unknown_not_guessed():
    v = np.random.default_rng(4).standard_normal((7, 3))
    assert dsp.check_directions(v, AZ, EL).fault == "unknown"


def test_response_vector_of_a_clap_ignores_the_room():
    fs = 24000
    rng = np.random.default_rng(3)
    clap = rng.standard_normal(60) * np.exp(-np.arange(60) / 20)
    foa = np.zeros((4800, 4), np.float32)
    foa[2000:2060] += dsp.encode(clap, 50, 20)
    foa[2150:2210] += 0.8 * dsp.encode(clap, -100, -30)  # a reflection 6 ms later
    foa += 1e-4 * rng.standard_normal(foa.shape).astype(np.float32)
    v = dsp.response_vector(foa, fs)
    az, el = dsp.unit_to_direction(v[[3, 1, 2]])
    assert dsp.angular_error_deg(az, el, 50, 20) < 3
    assert np.linalg.norm(v[1:]) == pytest.approx(1, abs=0.05)


def test_refusals():
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        dsp.check_directions(np.ones((2, 3)), AZ, EL)
    with pytest.raises(InputError, match="silent"):
        dsp.response_vector(np.zeros((100, 4)), 24000)
