"""Landmarks of bodies, held against a photograph and against the joints of people that were drawn."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dsp.errors import InputError, MissingDependency
from edge.perception.body import LANDMARKS, NUMBER, Body, BodyFinder, refined
from edge.perception.body_detector import Region, _anchors, _tiles
from edge.perception.landmark_models import FOLDER_VARIABLE, POSE_DETECTION, POSE_LANDMARK, model_path

cv2 = pytest.importorskip("cv2")


@lru_cache(maxsize=1)
def finder() -> BodyFinder:
    try:
        return BodyFinder()
    except MissingDependency as error:
        pytest.skip(str(error))


@lru_cache(maxsize=1)
def portrait() -> np.ndarray:
    """Grace Hopper, 1984 (United States Navy, public domain); (600, 512, 3) BGR."""
    matplotlib = pytest.importorskip("matplotlib")
    path = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    if not path.is_file():
        pytest.skip("matplotlib came without its sample pictures")
    return cv2.imread(str(path))


def only(image: np.ndarray) -> Body:
    (body,) = finder()(image)
    return body


def test_the_portrait_is_one_person_whose_parts_are_where_one_sees_them():
    body = only(portrait())
    assert body.score > 0.9
    # Read off the picture by eye, to a few pixels.
    for name, place in {"nose": (262, 228), "left_eye": (300, 190), "right_eye": (225, 190)}.items():
        assert np.hypot(*(body.pixel(name) - place)) < 15, name
    assert body.pixel("right_shoulder")[0] < 120 and body.pixel("left_shoulder")[0] > 390
    assert body.seen("nose", 512, 600) and not body.seen("left_knee", 512, 600)
    assert body.visibility.min() >= 0 and body.presence.max() <= 1


def test_it_turns_and_moves_with_the_picture():
    upright = only(portrait())
    height, width = portrait().shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), -30, 0.6)
    body = only(cv2.warpAffine(portrait(), turn, (width, height)))
    wanted = upright.pixels @ turn[:, :2].T + turn[:, 2]
    seen = [NUMBER[n] for n in ("nose", "left_eye", "right_eye", "left_shoulder", "right_shoulder")]
    assert np.abs(body.pixels[seen] - wanted[seen]).max() < 12
    # The points in metres turn too: eyes and shoulders are level in the one, 30 degrees down in the other.
    for this, angle in ((upright, 0), (body, 30)):
        right, down = (this.metres[NUMBER["left_shoulder"]] - this.metres[NUMBER["right_shoulder"]])[:2]
        assert abs(math.degrees(math.atan2(down, right)) - angle) < 12
        assert 0.2 < math.hypot(right, down) < 0.5, "shoulders are about a third of a metre apart"


def test_a_small_person_at_the_side_of_a_wide_picture_is_found():
    wide = np.full((360, 1280, 3), 150, np.uint8)
    small = cv2.resize(portrait(), (128, 150), interpolation=cv2.INTER_AREA)
    wide[200:350, 1100:1228] = small
    body = only(wide)
    nose = np.array([1100, 200]) + only(portrait()).pixel("nose") / 4
    assert np.hypot(*(body.pixel("nose") - nose)) < 6


def test_an_empty_wall_is_nobody():
    wall = np.full((360, 640, 3), 150, np.uint8)
    wall[100:200, 300:400] = (40, 90, 200)
    assert finder()(wall) == []


def test_two_looks_at_one_picture_agree_exactly():
    first, second = only(portrait()), only(portrait())
    assert np.array_equal(first.pixels, second.pixels) and np.array_equal(first.metres, second.metres)


# ------------------------------------------------------------------ without networks


def test_a_region_maps_its_corners_and_stands_the_person_upright():
    region = Region.around(
        np.array([100.0, 200.0]), np.array([180.0, 200.0])
    )  # lies with the head to the right
    assert (region.x, region.y, region.size) == (100, 200, pytest.approx(200))
    assert region.turn == pytest.approx(math.pi / 2)
    into = region.to_picture(256)
    top = into[:, :2] @ [127.5, -0.5] + into[:, 2]  # the middle of the upper edge: above the head
    assert top == pytest.approx([200, 200])
    upright = Region.around(np.array([10.0, 20.0]), np.array([10.0, -20.0]))
    assert upright.turn == pytest.approx(0)
    corner = upright.to_picture(100)
    assert corner[:, :2] @ [-0.5, -0.5] + corner[:, 2] == pytest.approx([-40, -30])


def test_every_cell_has_its_boxes_and_every_column_a_square():
    anchors = _anchors()
    assert anchors.shape == (2254, 2)
    assert anchors[0] == pytest.approx([0.5 / 28, 0.5 / 28]) and anchors[-1] == pytest.approx([6.5 / 7] * 2)
    assert _tiles(480, 500) == [(0, 0, 500, 480)]
    for height, width in ((360, 640), (640, 360), (360, 1280)):
        _, *squares = _tiles(height, width)
        starts = sorted(x + y for x, y, _, _ in squares)
        assert starts[0] == 0 and starts[-1] == max(height, width) - min(height, width)
        assert max(np.diff(starts)) <= min(height, width) / 2 + 1


def test_heat_moves_a_place_to_its_middle_and_only_where_it_is_hot():
    heat = np.zeros((64, 64, 3))
    heat[30:33, 20:23, 0] = 0.9
    heat[30:33, 20:23, 1] = 0.2
    places = np.array([[22 / 64, 33 / 64], [22 / 64, 33 / 64], [1.4, 0.5]])
    moved = refined(places, heat)
    assert moved[0] == pytest.approx([21 / 64, 31 / 64])
    assert np.array_equal(moved[1:], places[1:])


def test_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert len(LANDMARKS) == 33 and NUMBER["left_wrist"] == 15 and NUMBER["right_foot_index"] == 32
    with pytest.raises(InputError, match="no such file"):
        model_path(POSE_DETECTION, tmp_path)
    (tmp_path / "pose_landmark_full.tflite").write_bytes(b"something else")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match="is not the file of mediapipe"):
        model_path(POSE_LANDMARK)
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=re.escape("--no-deps mediapipe==0.10.14")):
        model_path(POSE_LANDMARK)
