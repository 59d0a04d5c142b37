"""Camera calibration: exact on exact corners, honest about its uncertainty, and it refuses weak sets."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import calibration
from bench.board_render import Camera, rotation
from calibration.board import Board
from calibration.camera import WeakSet, calibrate_camera, calibrate_views
from calibration.camera_detect import Detection
from calibration.camera_model import CameraModel, projection_difference
from calibration.camera_views import View, Views, choose_different
from calibration.result import load
from dsp.errors import InputError

PHOTOS = Path(__file__).parents[3] / "shared" / "data" / "calib" / "opencv-chessboard"
BOARD = Board.parse("charuco 9x7 30mm 20mm 5x5_50")
CAMERA = Camera.typical()
TRUTH = CameraModel(
    1280,
    720,
    "plumb_bob",
    np.concatenate([CAMERA.matrix[[0, 1, 0, 1], [0, 1, 2, 2]], CAMERA.distortion]),
)


def view_of(turn, shift, rng, noise_px: float, name: str, bow_m: float) -> View:
    corners = BOARD.corners_m
    corners[:, 2] += bow_m * (1 - (2 * corners[:, 0] / BOARD.size_m[0] - 1) ** 2)
    pixels = CAMERA.project(corners @ turn.T + shift)
    seen = ((pixels > 5) & (pixels < [1274, 714])).all(1)
    noisy = pixels + rng.normal(0, noise_px, pixels.shape) if noise_px else pixels
    ids = np.flatnonzero(seen).astype(np.int32)
    return View(name, Detection(ids, noisy[seen], np.full(len(ids), 40.0), 2.5))


def make_views(
    count: int, seed: int = 0, noise_px: float = 0.05, tilt: float = 30.0, centred=False, bow_m: float = 0.0
) -> Views:
    """Views from the projection itself: close ones in all parts of the picture."""
    rng = np.random.default_rng(seed)
    width, height = BOARD.size_m
    views = []
    while len(views) < count:
        way = rng.uniform(0, 2 * np.pi)
        turn = rotation(tilt * np.cos(way), tilt * np.sin(way), rng.uniform(-30, 30))
        distance = rng.uniform(0.35, 0.8)
        aim = np.zeros(2) if centred else rng.uniform([-0.6, -0.33], [0.6, 0.33])
        shift = distance * np.array([*aim, 1.0]) - turn @ np.array([width / 2, height / 2, 0])
        view = view_of(turn, shift, rng, noise_px, f"view {len(views)}", bow_m)
        if len(view.detection) >= 15:
            views.append(view)
    return Views(BOARD, 1280, 720, views, [], count)


def test_exact_corners_give_the_exact_camera():
    found = calibrate_views(make_views(12, noise_px=0.0))
    assert np.abs(found.camera.parameters - TRUTH.parameters).max() < 1e-6
    assert found.rms_px < 1e-8


def test_the_fit_is_the_minimum_that_opencv_finds():
    views = make_views(12)
    ours = calibrate_views(views)
    rms, matrix, distortion, *_ = cv2.calibrateCamera(
        [BOARD.corners_m[v.detection.ids].astype(np.float32) for v in views.views],
        [v.detection.points_px.astype(np.float32) for v in views.views],
        (1280, 720),
        None,
        None,
        criteria=(cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 300, 1e-15),
    )
    assert ours.rms_px == pytest.approx(rms, rel=1e-4)
    assert ours.camera.matrix == pytest.approx(matrix, abs=0.02)
    assert ours.camera.distortion == pytest.approx(distortion.ravel(), abs=2e-3)


def test_sigmas_and_the_map_say_how_large_the_errors_are():
    scores, shares = [], []
    for seed in range(12):
        found = calibrate_views(make_views(14, seed))
        sigma = np.array(list(found.sigma.values()))
        scores.append((found.camera.parameters - TRUTH.parameters) / sigma)
        error = np.linalg.norm(projection_difference(TRUTH, found.camera), axis=2)
        # In its worst direction one sigma; of both directions at most sqrt(2) of it.
        shares.append(np.mean(error < 2 * found.sigma_px))
        assert found.noise_px == pytest.approx(0.05, rel=0.15)
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3
    assert np.mean(shares) > 0.85


def test_a_view_that_disagrees_is_dropped_by_name_and_a_wrong_corner_left_out():
    views = make_views(14)
    bad = views.views[4].detection
    rng = np.random.default_rng(9)
    bad.points_px[:] += rng.normal(0, 1.5, bad.points_px.shape)
    views.views[8].detection.points_px[3] += [0.0, 2.5]
    found = calibrate_views(views)
    assert [left.name for left in found.dropped] == ["view 4"]
    assert "times the median" in found.dropped[0].reason
    assert found.dropped_corners == 1
    assert np.abs(found.camera.parameters[:2] - TRUTH.parameters[:2]).max() < 5 * found.sigma["fx"]


@pytest.mark.parametrize(
    ("views", "problem", "remedy"),
    [
        (lambda: make_views(2), "only 2 of 2 pictures", "take at least 10"),
        (lambda: make_views(5), "5 usable views, 6 are the least", "from different sides"),
        (lambda: make_views(15, tilt=4.0), "faces the camera in all views", "tilt it by 20 to 40 degrees"),
        (lambda: make_views(8, centred=True), "corners cover", "bring the board to the left, right"),
        (lambda: make_views(15, noise_px=2.0), "the error is", "flatness of the board"),
    ],
)
def test_weak_sets_are_refused_with_what_to_add(views, problem: str, remedy: str):
    with pytest.raises(WeakSet) as caught:
        calibrate_views(views())
    assert caught.value.exit_code == 1
    assert problem in str(caught.value) and remedy in str(caught.value)


def test_a_bent_board_is_measured_not_believed():
    found = calibrate_views(make_views(16, bow_m=0.002))
    assert found.bow_m * 1e3 == pytest.approx([2.0, 0.0], abs=0.08)
    error = np.linalg.norm(projection_difference(TRUTH, found.camera), axis=2)
    assert np.median(error) < 0.5, "taken as flat, it would be wrong by ten pixels"
    flat = calibrate_views(make_views(16))
    assert not flat.bow_m.any() and not flat.bow_sigma_m.any()


def test_halves_that_differ_enlarge_the_uncertainty():
    # The focal length changed between the pictures: every second one was zoomed by 0.3 %.
    views = make_views(16)
    for view in views.views[::2]:
        view.detection.points_px[:] = (view.detection.points_px - [640, 360]) * 1.003 + [640, 360]
    found = calibrate_views(views, judged=False)
    assert found.inflation > 1.6
    assert any("halves of the views differ" in w for w in found.warnings)


def test_held_out_views_and_halves_agree_when_the_model_is_right():
    found = calibrate_views(make_views(20))
    assert found.hold_out is not None and found.cross_validation is not None
    assert found.hold_out.views == 4
    assert found.hold_out.rms_px < 1.15 * found.hold_out.fitted_rms_px
    assert found.cross_validation.ratio < 1.6 and found.inflation == 1.0


def test_a_video_that_stands_still_counts_once():
    views = make_views(3).views
    many = [View(f"{v.name}.{k}", v.detection) for v in views for k in range(10)]
    chosen, left = choose_different(many, 1280, 60)
    assert len(chosen) == 3 and len(left) == 27
    chosen, left = choose_different(make_views(20).views, 1280, 8)
    assert len(chosen) == 8 and "more than 8" in left[0].reason


def test_wrong_input_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="no pictures in this folder"):
        calibrate_camera(tmp_path, BOARD)
    with pytest.raises(InputError, match="no such file"):
        calibrate_camera(tmp_path / "absent", BOARD)
    with pytest.raises(InputError, match="there is no picture"):
        calibrate_camera([], BOARD)
    with pytest.raises(InputError, match="is in none of the 1 pictures"):
        calibrate_camera([np.zeros((48, 64), np.uint8)], BOARD)
    with pytest.raises(InputError, match="float64"):
        calibrate_camera([np.zeros((48, 64))], BOARD)
    with pytest.raises(InputError, match="unknown model 'fisheye'"):
        calibrate_camera([], BOARD, model="fisheye")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def left_set():
    if not PHOTOS.is_dir():
        pytest.skip("the shared photos calib/opencv-chessboard are not here")
    return calibration.calibrate_camera(PHOTOS, "chessboard 9x6 25mm")


def test_the_left_set_of_opencv(left_set):
    assert len(left_set.views) == 13 and not left_set.dropped
    assert left_set.rms_px <= 0.20
    assert np.abs(left_set.camera.parameters[:2] - 533.0).max() <= 1.5
    assert left_set.hold_out.rms_px < 0.25


def test_skipped_pictures_have_names_and_the_result_file_holds_everything(left_set, tmp_path: Path):
    for path in sorted(PHOTOS.glob("left*.jpg")):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "left15.jpg").write_bytes(b"no picture")
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((100, 100), np.uint8))
    big = cv2.imread(str(PHOTOS / "left01.jpg"))
    cv2.imwrite(str(tmp_path / "twice.png"), cv2.resize(big, None, fx=2, fy=2))
    seen: list[tuple[int, int | None]] = []
    found = calibrate_camera(
        tmp_path, "chessboard 9x6 25mm", progress=lambda done, total: seen.append((done, total))
    )
    reasons = {left.name: left.reason for left in found.skipped}
    assert reasons["left15.jpg"] == "cannot be read as a picture"
    assert reasons["small.png"] == "the board was not found"
    assert reasons["twice.png"] == "it has 1280x960 pixels, the others 640x480"
    assert seen == [(i, 16) for i in range(1, 17)]
    back = load(found.to_result().save(tmp_path / "camera.json"), "camera")
    assert back.result["camera_matrix"] == found.camera.matrix.tolist()
    assert back.covariance.sigma("fx") == pytest.approx(found.sigma["fx"])
    assert len(back.inputs) == 16 and back.quality["views"] == 13
