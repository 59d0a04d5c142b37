"""Corners in pictures: rendered boards with exact truth, and a public photo."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from bench.board_render import Camera, Renderer, rotation
from calibration.board import Board
from calibration.camera_detect import Detection, Detector, choose_layout
from dsp.errors import InputError

PHOTO = Path(__file__).parents[3] / "shared" / "data" / "calib" / "opencv-charuco" / "choriginal.jpg"
CAMERA = Camera.typical(640, 360)


def render(words: str, tilt=(20.0, -15.0), roll=8.0, share=0.6, seed=0, **how):
    board = Board.parse(words)
    width, height = board.size_m
    turn = rotation(*tilt, roll)
    shift = np.array([0, 0, CAMERA.matrix[0, 0] * width / (share * CAMERA.width)])
    shift = shift - turn @ np.array([width / 2, height / 2, 0])
    return board, Renderer(board, CAMERA, **how).view(turn, shift, np.random.default_rng(seed))


def errors(found: Detection, view) -> np.ndarray:
    return found.points_px - view.corners_px[found.ids]


@pytest.mark.parametrize(
    "words",
    [
        "chessboard 9x6 27mm",
        "chessboard 7x6 30mm inverted",
        "charuco 7x5 38mm 26mm 5x5_50",
        "charuco 7x6 36mm 24mm 4x4_50",
        "charuco 7x6 36mm 24mm 4x4_50 legacy",
        "charuco 6x5 40mm 28mm 5x5_50 inverted",
    ],
)
def test_every_corner_is_found_and_exact(words: str):
    board, view = render(words)
    found = Detector(board).find(view.grey)
    assert found is not None and len(found) == len(board.corners_m)
    error = errors(found, view)
    if np.abs(error).max() > 10:  # a chessboard may be counted from its other end
        error = found.points_px[::-1] - view.corners_px
    assert np.sqrt((error**2).sum(1).mean()) < 0.08
    assert np.abs(error.mean(0)).max() < 0.02
    assert 1.5 < found.edge_width_px < 4.5


def test_the_edge_width_tells_blur():
    widths = [
        Detector(board).find(view.grey).edge_width_px
        for board, view in (render("chessboard 9x6 27mm", blur_px=blur) for blur in (0.7, 1.5, 2.5))
    ]
    assert widths[0] < widths[1] < widths[2]
    # A Gaussian blur of sigma s makes an edge of height 1 and slope 1 / (s sqrt(2 pi)).
    assert widths[2] == pytest.approx(2.5 * np.sqrt(2 * np.pi), rel=0.25)


def test_a_board_that_is_partly_out_of_the_picture_gives_the_corners_that_are_in_it():
    board, view = render("charuco 11x8 24mm 16mm 5x5_50", share=1.35)
    found = Detector(board).find(view.grey)
    within = (view.corners_px > 14).all(1) & (view.corners_px < [625, 345]).all(1)
    assert found is not None and 20 < np.count_nonzero(within) < 70
    assert np.isin(found.ids, np.flatnonzero((view.corners_px > 0).all(1))).all()
    assert np.isin(np.flatnonzero(within), found.ids).mean() > 0.9
    assert np.sqrt((errors(found, view) ** 2).sum(1).mean()) < 0.08


def test_what_is_covered_by_a_hand_is_left_out():
    board, view = render("charuco 7x5 38mm 26mm 5x5_50")
    grey = view.grey.copy()
    cv2.circle(grey, tuple(int(v) for v in view.corners_px[8]), 34, 140, -1, cv2.LINE_AA)
    found = Detector(board).find(grey)
    covered = np.linalg.norm(view.corners_px - view.corners_px[8], axis=1) < 34
    assert found is not None
    assert not np.isin(np.flatnonzero(covered), found.ids).any()
    assert len(found) >= np.count_nonzero(~covered) - 2
    assert np.abs(errors(found, view)).max() < 0.5


def test_the_layout_is_seen_in_the_pictures():
    for words in ("charuco 7x6 36mm 24mm 4x4_50", "charuco 7x6 36mm 24mm 4x4_50 legacy"):
        board, view = render(words)
        assert choose_layout(board, [view.grey]) == board
        assert choose_layout(board.other_layout(), [view.grey]) == board


@pytest.mark.parametrize("words", ["chessboard 9x6 27mm", "charuco 7x5 38mm 26mm 5x5_50"])
def test_no_board_is_no_board(words: str):
    detector = Detector(Board.parse(words))
    noise = np.random.default_rng(1).integers(0, 256, (120, 160), np.uint8)
    for grey in (np.zeros((240, 320), np.uint8), cv2.resize(noise, (320, 240))):
        assert detector.find(grey) is None


def test_a_wrong_array_is_named():
    detector = Detector(Board.parse("chessboard 9x6 27mm"))
    with pytest.raises(InputError, match=r"\(4, 4, 3\) uint8"):
        detector.find(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(InputError, match="float64"):
        detector.find(np.zeros((4, 4)))  # type: ignore[arg-type]


def test_the_charuco_photo_of_opencv():
    if not PHOTO.is_file():
        pytest.skip("the shared photo calib/opencv-charuco/choriginal.jpg is not here")
    found = Detector(Board.parse("charuco 5x7 40mm 20mm 6x6_250")).find(
        cv2.imread(str(PHOTO), cv2.IMREAD_GRAYSCALE)
    )
    assert found is not None and len(found) == 24
