"""Heads of virtual people: a surface with a face in front, its own for each person."""

import math

import numpy as np
import pytest

from capture.virtual.head import HEAD_M, SHAPES, lit, stranger, surface_of
from capture.virtual.person import LOOKS, visitor

MOUTH_UP = -0.07


def test_a_head_is_about_an_ellipsoid_and_the_nose_stands_out_in_front():
    surface = surface_of(LOOKS[0], SHAPES[0], MOUTH_UP, 0.0, 160)
    away = np.linalg.norm(surface.points / HEAD_M, axis=1)
    assert np.quantile(away, 0.02) > 0.8
    assert np.quantile(away, 0.98) < 1.4
    tip = surface.points[np.argmax(surface.points[:, 0])]
    assert abs(tip[1]) < 0.004  # in the middle of the face
    assert MOUTH_UP < tip[2] < 0.01  # above the mouth
    assert np.linalg.norm(surface.normals, axis=1) == pytest.approx(1, abs=1e-5)
    outward = (surface.normals * surface.points).sum(axis=1)
    assert np.mean(outward > 0) > 0.97


def test_an_open_mouth_changes_the_face_around_the_mouth_only():
    closed = surface_of(LOOKS[0], SHAPES[0], MOUTH_UP, 0.0, 320)
    opened = surface_of(LOOKS[0], SHAPES[0], MOUTH_UP, 1.0, 320)
    changed = np.abs(opened.colours - closed.colours).max(axis=1) > 20
    assert changed.sum() > 100
    places = closed.points[changed]
    assert np.abs(places[:, 2] - MOUTH_UP).max() < 0.03
    assert np.abs(places[:, 1]).max() < 0.04


def test_people_differ_and_a_name_always_has_the_same_face():
    assert len(set(SHAPES)) == len(SHAPES) == len(LOOKS)
    assert stranger("the plumber") == stranger("the plumber") != stranger("the postman")
    assert visitor("the plumber") == visitor("the plumber") != visitor("the postman")


def test_the_side_towards_the_light_is_brighter():
    surface = surface_of(LOOKS[5], SHAPES[5], MOUTH_UP, 0.0, 160)
    ahead, right = np.array([1.0, 0.0, 0.0]), np.array([0.0, -1.0, 0.0])
    _, colours = lit(surface, ahead, right, np.array([math.cos(0.2), math.sin(0.2), 0.0]))
    bright = colours.mean(axis=1) / np.maximum(surface.colours.mean(axis=1), 1)
    up, down = surface.normals[:, 2] > 0.8, surface.normals[:, 2] < -0.8
    assert bright[up].mean() > bright[down].mean() * 1.2
