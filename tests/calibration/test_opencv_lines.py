"""The same pictures give the same answer on OpenCV 4 and 5, and nothing is found where nothing is.

Only one OpenCV can be installed, so the other one comes from a folder that HEARTH_OPENCV5 names
(`pip install --no-deps --target FOLDER "opencv-python-headless>=5,<6"`).
"""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from bench.board_render import Camera, Renderer, good_set
from bench.calibration_camera import OURS, in_other_python
from calibration.board import Board

EMPTY = """
import cv2
from calibration.board import Board
from calibration.camera_detect import Detector
grey = np.full((240, 320), 128, np.uint8)
answer = {"opencv": cv2.__version__, "found": [
    Detector(Board.parse(words)).find(grey) is not None
    for words in ("chessboard 9x6 27mm", "charuco 7x5 38mm 26mm 5x5_50")]}
"""


@pytest.fixture(scope="module")
def opencv5() -> Path:
    folder = os.environ.get("HEARTH_OPENCV5", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("HEARTH_OPENCV5 names no folder with OpenCV 5")
    return Path(folder)


def test_nothing_is_found_where_nothing_is(opencv5: Path):
    answer = in_other_python(opencv5, EMPTY, {})
    assert answer["opencv"].startswith("5.") and cv2.__version__.startswith("4.")
    assert answer["found"] == [False, False]


@pytest.mark.parametrize("words", ["chessboard 9x6 27mm", "charuco 8x6 32mm 22mm 5x5_50 legacy"])
def test_corners_parameters_and_sigmas_are_the_same(opencv5: Path, words: str):
    renderer = Renderer(Board.parse(words), Camera.typical(640, 360))
    pictures = np.stack([view.grey for view in good_set(renderer, 8, np.random.default_rng(4))])
    arrays = {"pictures": pictures, "board": words}
    here = in_other_python(Path(__file__).parents[2], OURS, arrays)
    there = in_other_python(opencv5, OURS, arrays)
    assert (here["opencv"][0], there["opencv"][0]) == ("4", "5")
    assert here["names"] == there["names"] and len(here["names"]) >= 6
    for mine, other in zip(here["corners"], there["corners"], strict=True):
        assert np.abs(np.subtract(mine, other)).max() <= 1e-6
    assert np.abs(np.subtract(here["parameters"], there["parameters"])).max() <= 1e-6
    assert np.abs(np.subtract(here["sigma"], there["sigma"])).max() <= 1e-6
