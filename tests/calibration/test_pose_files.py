"""From files to a pose: tables, folders of sweeps and pictures, claps; what is wrong with them is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

import dsp
from calibration.board import aruco_dictionary
from calibration.pose_board import BoardFinder, BoardPose, camera_of, pose_of_points, ray_of
from calibration.pose_command import pose
from calibration.pose_files import from_table
from calibration.pose_model import rotation_angle_deg, rotation_from_vector
from calibration.pose_report import quaternion_xyzw
from calibration.result import CalibrationResult, load
from calibration.sweep import Sweep
from dsp.errors import CheckFailed, HearthError, InputError
from tests.calibration.pose_scene import BOARD, CAMERA, FS, LEVER, ROTATION, direction, draw, heard, scene
from tests.test_cli_json import assert_documented

SWEEP = "0.5 150 15000"

app = typer.Typer()
app.command()(pose)


@app.command()
def other() -> None:
    """A second command, so that `pose` keeps its name."""


def run(*words: object) -> dict:
    result = CliRunner().invoke(app, ["pose", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def camera_file(folder: Path) -> Path:
    result = CalibrationResult.new("camera", CAMERA.to_fields(), units={})
    return result.save(folder / "camera.json")


def test_board_pose_and_its_covariance():
    rng = np.random.default_rng(0)
    board, place = rotation_from_vector([0.3, -0.4, 0.1]), np.array([-0.2, -0.1, 1.0])
    pixels = CAMERA.project(BOARD.corners_m @ board.T + place)
    exact = pose_of_points(BOARD.corners_m, pixels, CAMERA)
    assert rotation_angle_deg(exact.rotation, board) < 1e-4
    assert exact.place_m == pytest.approx(place, abs=1e-6)
    worth = []
    for _ in range(40):
        found = pose_of_points(BOARD.corners_m, pixels + 0.2 * rng.standard_normal(pixels.shape), CAMERA)
        turn = cv2.Rodrigues(found.rotation @ board.T)[0].ravel()
        miss = np.concatenate([turn, found.place_m - place])
        worth.append(miss @ np.linalg.solve(found.covariance, miss) / 6)
    assert 0.6 < np.sqrt(np.mean(worth)) < 1.4


def test_a_chessboard_is_upright_whatever_its_first_corner():
    finder = BoardFinder(CAMERA, BOARD)
    board, place = rotation_from_vector([0.2, 0.3, 0.1]), np.array([-0.2, -0.1, 1.0])
    picture = draw(board, place)
    found = finder.find(picture)
    assert isinstance(found, BoardPose)
    assert rotation_angle_deg(found.rotation, board) < 0.3
    # The other order of corners, as OpenCV may give it.
    seen = finder._detector.find(picture)
    finder._detector = SimpleNamespace(
        find=lambda grey: replace(seen, points_px=np.ascontiguousarray(seen.points_px[::-1]))
    )
    other = finder.find(picture)
    assert isinstance(other, BoardPose)
    assert rotation_angle_deg(other.rotation, board) < 0.3


def test_a_lone_marker_gives_its_ray_and_with_its_size_its_place():
    side = 0.12
    marker = cv2.aruco.generateImageMarker(aruco_dictionary("4x4_50"), 7, 240)
    sheet = np.full((400, 400), 255, np.uint8)
    sheet[80:320, 80:320] = marker
    turn, place = rotation_from_vector([0.3, -0.4, 0.2]), np.array([0.2, -0.1, 0.9])
    # Pixel 80 of the sheet begins at minus half a side.
    step = side / 240
    to_marker = np.array([[step, 0, -199.5 * step], [0, step, -199.5 * step], [0, 0, 1]])
    plane = CAMERA.matrix @ np.column_stack([turn[:, 0], turn[:, 1], place]) @ to_marker
    picture = cv2.warpPerspective(sheet, plane, (1280, 720), flags=cv2.INTER_AREA, borderValue=128)
    ray = BoardFinder(CAMERA, marker="4x4_50").find(picture)
    assert isinstance(ray, np.ndarray)
    assert np.degrees(np.arccos(ray @ place / np.linalg.norm(place))) < 0.1
    found = BoardFinder(CAMERA, marker="4x4_50", marker_m=side).find(picture)
    assert isinstance(found, BoardPose)
    assert found.place_m == pytest.approx(place, abs=0.01)
    assert rotation_angle_deg(found.rotation, turn) < 4.0
    assert BoardFinder(CAMERA, marker="4x4_50").find(np.full((720, 1280), 128, np.uint8)) is None


def test_rays_and_quaternions():
    assert ray_of(CAMERA, [639.5, 359.5]) == pytest.approx([0, 0, 1])
    assert ray_of(CAMERA, [639.5 + 620, 359.5])[0] == pytest.approx(np.sqrt(0.5))
    with pytest.raises(InputError, match="outside the picture"):
        ray_of(CAMERA, [-3, 10])
    from scipy.spatial.transform import Rotation

    for seed in range(30):
        turn = Rotation.random(random_state=seed)
        q = turn.as_quat()
        assert quaternion_xyzw(turn.as_matrix()) == pytest.approx(q if q[3] >= 0 else -q)
    half = Rotation.from_euler("y", 180, degrees=True)
    assert np.abs(quaternion_xyzw(half.as_matrix())) == pytest.approx([0, 1, 0, 0], abs=1e-8)


def test_a_folder_of_sweeps_and_pictures(tmp_path: Path):
    rng = np.random.default_rng(5)
    folder = tmp_path / "positions"
    folder.mkdir()
    sound = Sweep(FS, 0.5, 150.0, 15000.0).signal
    for k, (board, place) in enumerate(scene(10, 3)):
        x = heard(sound, direction(board, place), rng)
        soundfile.write(folder / f"{k:02d}.wav", x, FS, subtype="PCM_24")
        cv2.imwrite(str(folder / f"{k:02d}.png"), draw(board, place))
    soundfile.write(folder / "silent.wav", np.zeros((FS, 4)), FS)
    cv2.imwrite(str(folder / "silent.png"), draw(*scene(1, 3)[0]))
    soundfile.write(folder / "alone.wav", np.zeros((FS, 4)), FS)
    out = tmp_path / "pose.json"
    found = run(
        folder, "--camera", camera_file(tmp_path), "--board", BOARD, "--sweep", SWEEP, "--format", "ambix",
        "--speaker", "0.158 -0.052 0.011", "--out", out,
    )  # fmt: skip
    assert found["good"] and found["used"] == 10 and found["problems"] == []
    assert_documented("calibrate pose", found)
    assert {s["name"] for s in found["skipped"]} == {"silent", "alone"}
    result = load(out, "pose")
    assert rotation_angle_deg(np.array(result.result["rotation_matrix"]), ROTATION) < 0.3
    assert np.array(result.result["lever_arm_m"]) == pytest.approx(LEVER, abs=0.01)
    matrix = np.array(result.result["T_mic_camera"])
    assert matrix @ [*LEVER, 1] == pytest.approx([0, 0, 0, 1], abs=0.012)
    assert {i.name for i in result.inputs} >= {"00.wav", "00.png", "camera.json"}
    assert result.covariance is not None and len(result.covariance.parameters) == 9
    text = (tmp_path / "pose.html").read_text()
    assert (
        "good to use" in text
        and "silent" in text
        and "<svg" in text
        and "http://" not in text.replace("http://www.w3.org", "")
    )


def test_claps_at_pixels_with_a_tape_measured_lever_arm(tmp_path: Path):
    rng = np.random.default_rng(8)
    x = 2e-4 * rng.standard_normal((FS * 11, 4)).astype(np.float32)
    rows = ["time_s,u_px,v_px"]
    t = np.arange(480) / FS
    for k in range(10):
        p = rng.uniform(0.8, 2.2) * np.array([rng.uniform(-0.8, 0.8), rng.uniform(-0.45, 0.45), 1.0])
        u = ROTATION @ (p - LEVER)
        clap = rng.standard_normal(480) * np.exp(-t / 0.002)
        azimuth, elevation = dsp.unit_to_direction(u / np.linalg.norm(u))
        at = FS * (k + 1) - 200
        x[at : at + 480] += dsp.encode(0.3 * clap, azimuth, elevation)
        pixel = CAMERA.project(p)
        rows.append(f"{k + 1 + rng.uniform(-0.1, 0.1):.3f},{pixel[0]:.1f},{pixel[1]:.1f}")
    rows.append("10.9,600,300")
    soundfile.write(tmp_path / "claps.wav", x, FS, subtype="PCM_24")
    (tmp_path / "claps.csv").write_text("\n".join(rows) + "\n")
    found = run(
        tmp_path / "claps.wav", "--claps", tmp_path / "claps.csv", "--camera", camera_file(tmp_path),
        "--format", "ambix", "--lever-arm", "0.06 0.11 -0.04", "--out", tmp_path / "pose.json",
    )  # fmt: skip
    assert found["used"] == 10 and len(found["skipped"]) == 1
    assert rotation_angle_deg(np.reshape(found["T_mic_camera"], (4, 4))[:3, :3], ROTATION) < 1.5


def table(tmp_path: Path, rows: list[str], head: str = "x_m,y_m,z_m,azimuth_deg,elevation_deg") -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_a_table_of_pairs_and_a_refusal_that_writes_no_result(tmp_path: Path):
    rng = np.random.default_rng(2)
    rows, flat = [], []
    for _ in range(14):
        for kept, up in ((rows, 0.4), (flat, 0.0)):
            p = rng.uniform(0.6, 2) * np.array([rng.uniform(-0.9, 0.9), up * rng.uniform(-1, 1), 1.0])
            azimuth, elevation = dsp.unit_to_direction(ROTATION @ (p - LEVER))
            place = ",".join(f"{v:.4f}" for v in p)
            kept.append(f"{place},{azimuth + 0.3 * rng.standard_normal():.3f},{elevation:.3f},0.3")
    out = tmp_path / "pose.json"
    head = "x_m,y_m,z_m,azimuth_deg,elevation_deg,sigma_deg"
    found = run(table(tmp_path, rows, head), "--out", out)
    assert_documented("calibrate pose", found)
    assert rotation_angle_deg(np.reshape(found["T_mic_camera"], (4, 4))[:3, :3], ROTATION) < 1.5
    out.unlink()
    with pytest.raises(CheckFailed, match="nothing written"):
        run(table(tmp_path, flat, head), "--out", out)
    assert not out.exists()
    assert "not good enough to use" in (tmp_path / "pose.html").read_text()


def test_the_sweep_is_written_to_be_played(tmp_path: Path):
    found = run("--write-sweep", tmp_path / "sweep.wav", "--sweep", SWEEP)
    assert_documented("calibrate pose", found)
    x, fs = soundfile.read(tmp_path / "sweep.wav")
    assert fs == 48000 and len(x) == 48000 + 24000 and np.abs(x).max() == pytest.approx(0.5, abs=0.01)


def test_what_is_wrong_with_the_input_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="line 3: elevation_deg is 'x'"):
        run(table(tmp_path, ["1,0,1,0,0", "1,0,1,0,x"]))
    with pytest.raises(InputError, match="no column elevation_deg"):
        run(table(tmp_path, ["1,0,1,0"], "x_m,y_m,z_m,azimuth_deg"))
    with pytest.raises(InputError, match="pixels need the camera"):
        run(table(tmp_path, ["1,2,0,0"], "u_px,v_px,azimuth_deg,elevation_deg"))
    with pytest.raises(CheckFailed, match="1 usable positions are too few"):
        run(table(tmp_path, ["1,0,1,0,0"]))
    with pytest.raises(InputError, match="three numbers in metres"):
        run(table(tmp_path, ["1,0,1,0,0"]), "--lever-arm", "0.1")
    with pytest.raises(InputError, match="nothing to read"):
        run()
    (tmp_path / "no_table.csv").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="cannot be read as a table"):
        run(tmp_path / "no_table.csv")
    with pytest.raises(HearthError, match="no/where"):
        run("--write-sweep", tmp_path / "no" / "where" / "sweep.wav")
    soundfile.write(tmp_path / "take.wav", np.zeros((100, 4)), FS)
    with pytest.raises(InputError, match="give the video as well"):
        run(
            tmp_path / "take.wav", "--camera", camera_file(tmp_path), "--board", BOARD, "--format", "ambix"
        )  # fmt: skip
    with pytest.raises(InputError, match="--camera"):
        run(tmp_path, "--board", "chessboard 7x5 40mm")
    with pytest.raises(InputError, match="not both"):
        run(tmp_path, "--camera", camera_file(tmp_path))
    broken = CalibrationResult.new("camera", {"width_px": 3}, units={})
    with pytest.raises(InputError, match="lacks or garbles"):
        camera_of(broken)


def test_copied_rows_of_a_table_count_once(tmp_path: Path):
    rows = [f"{az},{el},{x},0.1,1.5" for az, el, x in ((10, 5, -0.3), (0, 4, 0.0), (-9, 6, 0.3))]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["azimuth_deg,elevation_deg,x_m,y_m,z_m", *rows, *rows, rows[0]]) + "\n")
    got = from_table(path, None)
    assert [s.name for s in got.sightings] == ["line 2", "line 3", "line 4"]
    assert [name for name, _ in got.skipped] == ["line 5", "line 6", "line 7", "line 8"]
    assert "same numbers as line 2" in got.skipped[3][1]
