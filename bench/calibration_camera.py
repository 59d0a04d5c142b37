"""Camera calibration against known truth, beside OpenCV's tutorial pipeline and lensboy.

`python -m bench.calibration_camera`: rendered boards (bench.board_render) over 10 seeds of 20 views, public
photos, both OpenCV lines, speed. OpenCV 5 and lensboy are installed into a folder of their own for the run;
HEARTH_OPENCV5 and HEARTH_LENSBOY name such folders where they exist already.

Projection error: over a 16 x 10 grid of the picture, how far the fitted camera projects what the true one
sees there, after the turn that brings both closest (points far away); RMS over the picture, per seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.board_render import Camera, Renderer, View, good_set, rotation
from bench.figures import end_of_part, figure, not_measured, note, peer, quick
from calibration.board import Board
from calibration.camera import CameraCalibration, calibrate_camera, calibrate_views
from calibration.camera_detect import Detection, Detector
from calibration.camera_model import CameraModel, projection_difference
from calibration.camera_views import View as BoardView
from calibration.camera_views import Views, find_views

REPOSITORY = Path(__file__).resolve().parent.parent
CALIB = REPOSITORY.parent / "shared" / "data" / "calib"
BOARDS = {"chessboard": "chessboard 9x6 27mm", "charuco": "charuco 11x8 24mm 16mm 5x5_50"}
VIEWS = 20


def truth_of(camera: Camera) -> CameraModel:
    """The rendering camera as a model to compare with."""
    pinhole = camera.matrix[[0, 1, 0, 1], [0, 1, 2, 2]]
    return CameraModel(camera.width, camera.height, "plumb_bob", np.concatenate([pinhole, camera.distortion]))


def projection_error(truth: CameraModel, found: CameraModel) -> NDArray[np.float64]:
    """Length of the difference over the picture, (rows, columns)."""
    return np.asarray(np.linalg.norm(projection_difference(truth, found), axis=2))


def rms(values: NDArray[np.float64]) -> float:
    """Root mean square, without what no ray leads to."""
    return float(np.sqrt(np.nanmean(np.square(values))))


# ------------------------------------------------------------------ OpenCV's tutorial


def tutorial(board: Board, pictures: list[NDArray[np.uint8]]) -> tuple[CameraModel, float, list[Any]]:
    """What OpenCV's tutorials do: camera, RMS, and (number, ids, points) of each picture that it used."""
    points, corners, found = [], [], []
    for number, grey in enumerate(pictures):
        if board.kind == "chessboard":
            seen, at = cv2.findChessboardCorners(grey, board.corner_grid)
            if not seen:
                continue
            criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 30, 0.001)
            at = cv2.cornerSubPix(grey, at, (11, 11), (-1, -1), criteria)
            ids = np.arange(len(board.corners_m))
        else:
            at, ids, _, _ = cv2.aruco.CharucoDetector(board.opencv()).detectBoard(grey)
            if ids is None or np.size(ids) < 6:
                continue
        ids, at = np.ravel(ids), np.reshape(at, (-1, 2))
        found.append((number, ids, at))
        points.append(board.corners_m[ids].astype(np.float32))
        corners.append(at.astype(np.float32))
    size = pictures[0].shape[::-1]
    error, matrix, distortion, *_ = cv2.calibrateCamera(points, corners, size, None, None)
    pinhole = matrix[[0, 1, 0, 1], [0, 1, 2, 2]]
    camera = CameraModel(size[0], size[1], "plumb_bob", np.concatenate([pinhole, distortion.ravel()[:5]]))
    return camera, float(error), found


# ------------------------------------------------------------------ rendered boards


def _rendered(kind: str, seeds: int, lensboy: Path | None) -> list[list[View]]:
    """Figures of one kind of board; returns the pictures of the first seed for others to use."""
    board, camera = Board.parse(BOARDS[kind]), Camera.typical()
    truth = truth_of(camera)
    renderer = Renderer(board, camera)
    scores, errors, corner, theirs, their_corner, boy = [], [], [], [], [], []
    kept: list[list[View]] = []
    for seed in range(seeds):
        views = good_set(renderer, VIEWS, np.random.default_rng(100 + seed))
        kept = kept or [views]
        pictures = [view.grey for view in views]
        found = find_views(pictures, board, auto_layout=False)
        for view in found.views:
            true = views[int(view.name.split()[1])].corners_px
            corner.append(_corner_error(board, view.detection.ids, view.detection.points_px, true))
        result = calibrate_views(found, judged=False)
        scores.append((result.camera.parameters - truth.parameters) / list(result.sigma.values()))
        errors.append(projection_error(truth, result.camera))
        other, _, seen = tutorial(board, pictures)
        theirs.append(rms(projection_error(truth, other)))
        their_corner += [_corner_error(board, ids, at, views[n].corners_px) for n, ids, at in seen]
        if lensboy is not None and kind == "charuco":
            boy.append(rms(projection_error(truth, _lensboy(lensboy, board, pictures))))
        note(f"{kind} seed {seed}: {rms(errors[-1]):.3f} px, OpenCV's tutorial {theirs[-1]:.3f} px")
    joined, tutorials = np.concatenate(corner), np.concatenate(their_corner)
    by_seed = [rms(error) for error in errors]
    figure(f"{kind}: corner RMS", float(np.sqrt((joined**2).sum(1).mean())), "px", "<=", 0.06)
    peer(
        f"{kind}: corner RMS, OpenCV's tutorial",
        rms(np.linalg.norm(tutorials, axis=1)),
        "px",
    )
    figure(f"{kind}: corner bias", float(np.abs(joined.mean(0)).max()), "px", "<=", 0.005)
    peer(
        f"{kind}: corner bias, OpenCV's tutorial",
        float(np.abs(tutorials.mean(0)).max()),
        "px",
    )
    sets = f"{seeds} sets of {VIEWS} views"
    figure(f"{kind}: projection error, median of {sets}", float(np.median(by_seed)), "px", "<=", 0.07)
    peer(f"{kind}: projection error, median, OpenCV's tutorial", float(np.median(theirs)), "px")
    figure(f"{kind}: projection error, worst of {sets}", max(by_seed), "px", "<=", 0.25)
    peer(f"{kind}: projection error, worst, OpenCV's tutorial", max(theirs), "px")
    if boy:
        peer(f"{kind}: projection error, median, lensboy", float(np.median(boy)), "px")
        peer(f"{kind}: projection error, worst, lensboy", max(boy), "px")
    peer(f"{kind}: projection error, worst point of all pictures", float(np.nanmax(errors)), "px")
    z = rms(np.array(scores))
    figure(f"{kind}: z-scores of the sigmas, RMS, at least", z, "", ">=", 0.7)
    figure(f"{kind}: z-scores of the sigmas, RMS, at most", z, "", "<=", 1.3)
    return kept


def _corner_error(board: Board, ids: Any, at: Any, true: Any) -> NDArray[np.float64]:
    """Errors (n, 2); a chessboard may be counted from its other end."""
    error = np.asarray(at - true[ids], dtype=np.float64)
    if board.kind == "chessboard" and np.abs(error).max() > 20:
        error = np.asarray(at - true[::-1][ids], dtype=np.float64)
    return error


def _bent(truth: CameraModel, camera: Camera) -> None:
    """A board that is bowed by 1 mm, from the projection itself with 0.05 px of noise."""
    board = Board.parse(BOARDS["charuco"])
    rng, (width, height) = np.random.default_rng(5), board.size_m
    corners = board.corners_m
    corners[:, 2] += 0.001 * (1 - (2 * corners[:, 0] / width - 1) ** 2)
    views: list[BoardView] = []
    while len(views) < VIEWS:
        way = rng.uniform(0, 2 * np.pi)
        turn = rotation(30 * np.cos(way), 30 * np.sin(way), rng.uniform(-30, 30))
        aim = np.array([*rng.uniform([-0.6, -0.33], [0.6, 0.33]), 1.0])
        pixels = camera.project(
            corners @ turn.T + rng.uniform(0.35, 0.8) * aim - turn @ np.array([width / 2, height / 2, 0])
        )
        ids = np.flatnonzero(((pixels > 5) & (pixels < [camera.width - 6, camera.height - 6])).all(1))
        if len(ids) >= 20:
            noisy = pixels[ids] + rng.normal(0, 0.05, (len(ids), 2))
            seen = Detection(ids.astype(np.int32), noisy, np.full(len(ids), 40.0), 2.5)
            views.append(BoardView(f"view {len(views)}", seen))
    result = calibrate_views(Views(board, camera.width, camera.height, views, [], VIEWS), judged=False)
    _, matrix, distortion, *_ = cv2.calibrateCamera(
        [board.corners_m[v.detection.ids].astype(np.float32) for v in views],
        [v.detection.points_px.astype(np.float32) for v in views],
        (camera.width, camera.height),
        None,
        None,
    )
    pinhole = matrix[[0, 1, 0, 1], [0, 1, 2, 2]]
    flat = CameraModel(
        camera.width, camera.height, "plumb_bob", np.concatenate([pinhole, distortion.ravel()[:5]])
    )
    peer("board bowed by 1 mm: projection error", rms(projection_error(truth, result.camera)), "px")
    peer("board bowed by 1 mm: projection error, OpenCV", rms(projection_error(truth, flat)), "px")


# ------------------------------------------------------------------ other installations


def _folder(
    variable: str, requirement: str, place: Path, dependencies: bool = False
) -> tuple[Path | None, str]:
    """A folder with that package (and what it needs): the one that the variable names, or installed now; else
    why not."""
    given = os.environ.get(variable)
    if given:
        return (Path(given), "") if Path(given).is_dir() else (None, f"{variable} is no folder")
    target = place / variable.lower()
    alone = [] if dependencies else ["--no-deps"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *alone, "--only-binary", ":all:",
         "--target", str(target), requirement],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return (target, "") if done.returncode == 0 else (None, f"pip cannot install {requirement}")


def in_other_python(folder: Path, code: str, arrays: dict[str, Any]) -> Any:
    """Run code in a Python that finds `folder` first; it gets `arrays` as `data` and sets `answer`."""
    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / "in.npz", **arrays)
        before = "import json, sys, numpy as np\ndata = np.load(sys.argv[1])\n"
        after = "\njson.dump(answer, open(sys.argv[2], 'w'))\n"
        out = Path(place) / "out.json"
        done = subprocess.run(
            [sys.executable, "-c", before + code + after, str(Path(place) / "in.npz"), str(out)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)])},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return json.loads(out.read_text())


OURS = """
import cv2
from calibration.board import Board
from calibration.camera import calibrate_views
from calibration.camera_views import find_views
found = find_views(list(data["pictures"]), Board.parse(str(data["board"])))
result = calibrate_views(found, judged=False)
answer = {"opencv": cv2.__version__, "names": [v.name for v in found.views],
          "corners": [v.detection.points_px.tolist() for v in found.views],
          "parameters": result.camera.parameters.tolist(), "sigma": list(result.sigma.values())}
"""
LENSBOY = """
import cv2, lensboy
b = data["board"]
words = str(b).split()
across, down = map(int, words[1].split("x"))
board = cv2.aruco.CharucoBoard((across, down), float(data["square"]), float(data["marker"]),
    cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, "DICT_" + words[4].upper())))
pictures = list(data["pictures"])
target, frames, _ = lensboy.extract_frames_from_charuco(board, pictures)
h, w = pictures[0].shape
model = lensboy.calibrate_camera(target, frames,
    camera_model_config=lensboy.OpenCVConfig(image_height=h, image_width=w)).camera_model
answer = [model.fx, model.fy, model.cx, model.cy, *[float(v) for v in model.distortion_coeffs[:5]]]
"""


def _lensboy(folder: Path, board: Board, pictures: list[NDArray[np.uint8]]) -> CameraModel:
    arrays = {"pictures": np.stack(pictures), "board": str(board)}
    sides = {"square": board.square_m, "marker": board.marker_m}
    parameters = np.array(in_other_python(folder, LENSBOY, {**arrays, **sides}))
    height, width = pictures[0].shape
    return CameraModel(width, height, "plumb_bob", parameters)


def _both_lines(opencv5: Path | None, why: str, sets: dict[str, list[View]]) -> None:
    """The same pictures through OpenCV 4 and 5: corners, parameters and sigmas."""
    for kind, views in sets.items():
        name = f"{kind}: OpenCV 4 and 5, largest difference"
        if opencv5 is None:
            not_measured(name, "", "<=", 1e-6, why)
            continue
        arrays = {"pictures": np.stack([view.grey for view in views]), "board": BOARDS[kind]}
        here = in_other_python(REPOSITORY, OURS, arrays)
        there = in_other_python(opencv5, OURS, arrays)
        note(f"compared: OpenCV {here['opencv']} and {there['opencv']}")
        if here["opencv"].split(".")[0] == there["opencv"].split(".")[0] or here["names"] != there["names"]:
            not_measured(name, "", "<=", 1e-6, "not two lines, or not the same views found")
            continue
        pixels = max(
            float(np.abs(np.subtract(a, b)).max())
            for a, b in zip(here["corners"], there["corners"], strict=True)
        )
        first, second = np.array(here["parameters"]), np.array(there["parameters"])
        # Pixels for corners and pinhole; coefficients are of the order of 1 as they are.
        figure(name, max(pixels, float(np.abs(first - second).max())), "px", "<=", 1e-6)


# ------------------------------------------------------------------ photos and speed


def _photos() -> None:
    folder = CALIB / "opencv-chessboard"
    photo = CALIB / "opencv-charuco" / "choriginal.jpg"
    if not folder.is_dir() or not photo.is_file():
        why = "the shared photos are not on this machine"
        not_measured("photos, left set: RMS", "px", "<=", 0.20, why)
        not_measured("photos, left set: focal length off 533.0", "px", "<=", 1.5, why)
        not_measured("photos, ChArUco: corners found of 24", "", "==", 24, why)
        return
    board = Board.parse("chessboard 9x6 25mm")
    found: CameraCalibration = calibrate_camera(folder, board)
    pictures = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in sorted(folder.glob("*.jpg"))]
    camera, error, _ = tutorial(board, pictures)
    figure(f"photos, left set ({len(found.views)} views): RMS", found.rms_px, "px", "<=", 0.20)
    peer("photos, left set: RMS, OpenCV's tutorial", error, "px")
    away = float(np.abs(found.camera.parameters[:2] - 533.0).max())
    figure("photos, left set: focal length off 533.0", away, "px", "<=", 1.5)
    peer(
        "photos, left set: focal length off 533.0, OpenCV's tutorial",
        float(np.abs(camera.parameters[:2] - 533.0).max()),
        "px",
    )
    seen = Detector(Board.parse("charuco 5x7 40mm 20mm 6x6_250")).find(
        cv2.imread(str(photo), cv2.IMREAD_GRAYSCALE)
    )
    figure("photos, ChArUco: corners found of 24", 0 if seen is None else len(seen), "", "==", 24)


def _ms(run: Callable[[], object], repeats: int) -> float:
    """CPU milliseconds of one call, best of several."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return 1e3 * best


def _speed(sets: dict[str, list[View]]) -> None:
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        for kind, views in sets.items():
            board = Board.parse(BOARDS[kind])
            detector = Detector(board)
            pictures = [view.grey for view in views[:8]]
            if kind == "chessboard":
                grid = board.corner_grid
                plain: list[Callable[[], object]] = [
                    lambda g=grey, s=grid: cv2.findChessboardCorners(g, s) for grey in pictures
                ]
            else:
                opencv = cv2.aruco.CharucoDetector(board.opencv())
                plain = [lambda g=grey, d=opencv: d.detectBoard(g) for grey in pictures]
            own: list[Callable[[], object]] = [lambda g=grey, d=detector: d.find(g) for grey in pictures]
            ours = float(np.mean([_ms(run, 5) for run in own]))
            theirs = float(np.mean([_ms(run, 5) for run in plain]))
            figure(f"{kind}: detection and refinement, 1280x720", ours, "ms of CPU per picture", "<=", 12)
            peer(f"{kind}: OpenCV's own detection, 1280x720", theirs, "ms of CPU per picture")
            peer(f"{kind}: ours by OpenCV's own detection", ours / theirs, "times")
    finally:
        cv2.setNumThreads(threads)
    board = Board.parse(BOARDS["charuco"])
    found = find_views([view.grey for view in sets["charuco"]], board)
    figure(
        f"{VIEWS} views calibrated after detection",
        _ms(lambda: calibrate_views(found, judged=False), 3) / 1e3,
        "s of CPU",
        "<",
        1.0,
    )


def run(quick: bool) -> None:
    """Prints the figures of the camera calibration."""
    seeds = 3 if quick else 10
    with tempfile.TemporaryDirectory() as place:
        opencv5, why5 = _folder("HEARTH_OPENCV5", "opencv-python-headless>=5,<6", Path(place))
        lensboy, why = _folder("HEARTH_LENSBOY", "lensboy==4.0.3", Path(place))
        if lensboy is None:
            note(f"lensboy: not measured ({why})")
        sets = {kind: _rendered(kind, seeds, lensboy)[0] for kind in BOARDS}
        _bent(truth_of(Camera.typical()), Camera.typical())
        _both_lines(opencv5, why5, sets)
    _photos()
    _speed(sets)


def main() -> int:
    run(quick())
    return end_of_part("calibration-camera")


if __name__ == "__main__":
    sys.exit(main())
